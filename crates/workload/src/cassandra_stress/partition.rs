//! The rows of one partition.

use std::ops::Range;

use kvmark_plan::{RowShare, Rows, ValueType, Visit};

use super::column::Column;
use super::law::Law;
use crate::error::{WorkloadError, require};
use crate::random::Random;

use super::java::JavaRandom;

/// Values of a column lie here, each with its kind.
type Place = (ValueType, Range<usize>);

/// A partition's key and the clustering values under it. Reused from one to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partition {
    bytes: Vec<u8>,
    /// Values of the key's columns.
    key: Vec<Place>,
    /// By clustering column, its values.
    levels: Vec<Vec<Place>>,
    /// What the key makes of a row's seed, or behind it the first of each clustering column.
    seed: i64,
    rows: u64,
    /// Rows that are written at most.
    most: u64,
    /// Columns that have a value, of those that are no part of the key.
    filled: usize,
}

impl Partition {
    /// How many rows it has.
    pub(crate) const fn rows(&self) -> u64 {
        self.rows
    }
}

/// The columns of a statement's [`Rows`], ready to draw.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    partition: Vec<Column>,
    clustering: Vec<Column>,
    values: Vec<Column>,
    sorted: bool,
    visit: Choice,
    ends: Vec<u64>,
    /// Which share of the values a row has; none for all.
    filled: Option<Share>,
}

/// A draw divided by a number.
#[derive(Clone, Debug)]
struct Share(Law, f64);

#[derive(Clone, Debug)]
enum Choice {
    All,
    Some(Share),
    One,
    Several,
}

impl Share {
    /// The ratio at a place in the plan; none where it is never less than 1.
    fn new(ratio: RowShare, place: &str) -> Result<Option<Self>, WorkloadError> {
        let law = Law::new(&ratio.law, place)?;
        let least = law.bounds().0;
        require(least >= 0, || place.to_owned(), least, "a number from 0")?;
        let all = u64::try_from(least).is_ok_and(|least| least >= ratio.of);
        Ok((!all).then_some(Self(law, ratio.of as f64)))
    }

    fn draw(&self, random: &mut Random) -> f64 {
        let mut own = JavaRandom::new(random.next().cast_signed());
        self.0.draw(&mut own) as f64 / self.1
    }
}

impl Table {
    /// The rows at a place in the plan.
    pub(crate) fn new(rows: &Rows, place: &str) -> Result<Self, WorkloadError> {
        let columns = |columns: &[_], name: &str| {
            let numbered = columns.iter().enumerate();
            let ready = |(n, column)| Column::new(column, &format!("{place}.{name}[{n}]"));
            numbered.map(ready).collect::<Result<Vec<_>, _>>()
        };
        let visit = match rows.visit {
            Visit::One => Choice::One,
            Visit::Several => Choice::Several,
            Visit::Each { law, of } => {
                let share = Share::new(RowShare { law, of }, &format!("{place}.visit"))?;
                share.map_or(Choice::All, Choice::Some)
            }
        };
        Ok(Self {
            partition: columns(&rows.partition, "partition")?,
            clustering: columns(&rows.clustering, "clustering")?,
            values: columns(&rows.values, "values")?,
            sorted: rows.sorted,
            visit,
            ends: rows.ends.clone(),
            filled: Share::new(rows.filled, &format!("{place}.filled"))?,
        })
    }

    /// Goes to the partition of a number.
    pub(crate) fn open(&self, number: u64, random: &mut Random, partition: &mut Partition) {
        partition.filled = self.filled.as_ref().map_or(self.values.len(), |share| {
            let (share, all) = (share.draw(random), self.values.len());
            (1..=all).take_while(|column| *column as f64 / all as f64 <= share).count()
        });
        partition.bytes.clear();
        partition.key.clear();
        let mut seed = 0;
        for column in &self.partition {
            let start = partition.bytes.len();
            let mut draws = column.seeded(number.cast_signed());
            let kind = column.append(&mut draws, &mut partition.bytes);
            seed = column.fold(&partition.bytes[start..], seed);
            partition.key.push((kind, start..partition.bytes.len()));
        }
        partition.levels.resize_with(self.clustering.len(), Vec::new);
        partition.rows = 1;
        for (column, level) in self.clustering.iter().zip(&mut partition.levels) {
            let bytes = &mut partition.bytes;
            seed = fill(column, seed, level, bytes);
            if self.sorted {
                level.sort_by(|(kind, one), (_, other)| {
                    compare(*kind, &bytes[one.clone()], &bytes[other.clone()])
                });
            }
            partition.rows *= level.len() as u64;
        }
        partition.seed = seed;
        partition.most = self.most(&partition.levels);
    }

    /// How many rows of a partition a write comes to: with three clustering columns or more it ends
    /// when a column between the first and the last one has had so many values
    /// (`PartitionIterator.advance`).
    fn most(&self, levels: &[Vec<Place>]) -> u64 {
        let Some((last, before)) = levels.split_last() else { return u64::MAX };
        let mut within = last.len() as u64;
        for (level, end) in before.iter().zip(&self.ends).skip(1).rev() {
            let values = level.len() as u64;
            if values > *end {
                return (end + 1) * within;
            }
            within *= values;
        }
        u64::MAX
    }

    /// The rows of the partition that an operation is about; none where each argument has its own.
    pub(crate) fn visit(
        &self,
        partition: &Partition,
        random: &mut Random,
        mut go: impl FnMut(Option<u64>),
    ) {
        let rows = partition.rows;
        match &self.visit {
            Choice::All => (0..rows.min(partition.most)).for_each(|row| go(Some(row))),
            Choice::One => go(Some(random.below(rows))),
            Choice::Several => go(None),
            Choice::Some(share) => {
                let values = partition.levels.first().map_or(1, Vec::len) as u64;
                let mut left = partition.most;
                let mut go_under = |value: u64| {
                    let (first, count) = (value * (rows / values), left.min(rows / values));
                    left -= count;
                    (first..first + count).for_each(|row| go(Some(row)));
                };
                let (share, mut some) = (share.draw(random), false);
                for value in 0..values {
                    // A write is about something: about the last, if it was none before.
                    let is_forced = !some && value + 1 == values;
                    if random.fraction() < share || is_forced {
                        some = true;
                        go_under(value);
                    }
                }
            }
        }
    }

    /// Appends what a column holds in a row and says what it is.
    #[inline]
    pub(crate) fn append(
        &self,
        partition: &Partition,
        row: u64,
        column: usize,
        bytes: &mut Vec<u8>,
    ) -> ValueType {
        let keys = self.partition.len();
        let place = match column.checked_sub(keys) {
            None => &partition.key[column],
            Some(level) if level < self.clustering.len() => place_of(partition, row, level),
            Some(value) => {
                let value = value - self.clustering.len();
                if value >= partition.filled {
                    return ValueType::Null;
                }
                let column = &self.values[value];
                let mut draws = column.seeded(self.row_seed(partition, row));
                return column.append(&mut draws, bytes);
            }
        };
        let (kind, range) = place;
        bytes.extend_from_slice(&partition.bytes[range.clone()]);
        *kind
    }

    /// The seed of a row's values: it depends on the row's last clustering value alone.
    #[inline]
    fn row_seed(&self, partition: &Partition, row: u64) -> i64 {
        let Some(last) = self.clustering.last() else { return partition.seed };
        let (_, range) = place_of(partition, row, self.clustering.len() - 1);
        last.fold(&partition.bytes[range.clone()], partition.seed)
    }
}

/// Where a row's value of a clustering column lies.
fn place_of(partition: &Partition, row: u64, level: usize) -> &Place {
    let within: u64 =
        partition.levels[level + 1..].iter().map(|level| level.len() as u64).product();
    let level = &partition.levels[level];
    &level[(row / within % level.len() as u64) as usize]
}

/// Draws a clustering column's values, each once, and gives the seed of the column after it: the
/// first value's, whichever a row has.
fn fill(column: &Column, seed: i64, level: &mut Vec<Place>, bytes: &mut Vec<u8>) -> i64 {
    level.clear();
    let mut draws = column.seeded(seed);
    for _ in 0..column.count(seed).max(1) {
        let start = bytes.len();
        let kind = column.append(&mut draws, bytes);
        let (before, new) = bytes.split_at(start);
        if level.iter().any(|(_, range)| before[range.clone()] == *new) {
            bytes.truncate(start);
        } else {
            level.push((kind, start..bytes.len()));
        }
    }
    let first = level[0].1.clone();
    column.fold(&bytes[first], seed)
}

/// The order that a table keeps its rows in.
fn compare(kind: ValueType, one: &[u8], other: &[u8]) -> std::cmp::Ordering {
    let number = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).unwrap_or_default();
    match kind {
        ValueType::Integer | ValueType::Timestamp => number(one).cmp(&number(other)),
        ValueType::Fraction => {
            let fraction = |bytes| f64::from_bits(number(bytes).cast_unsigned());
            fraction(one).total_cmp(&fraction(other))
        }
        _ => one.cmp(other),
    }
}
