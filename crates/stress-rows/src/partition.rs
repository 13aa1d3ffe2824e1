//! The rows of one partition.

use std::ops::Range;

use kvmark_plan::{OutOfRange, Random, RowShare, Rows, ValueType, Visit, require};

use crate::column::Column;
use crate::java::JavaRandom;
use crate::law::Law;

/// Type and place of a value.
type ValueAt = (ValueType, Range<usize>);

/// A partition's key and its clustering values. The memory is reused.
#[derive(Clone, Debug, Default)]
pub struct Partition {
    bytes: Vec<u8>,
    /// Values of the key's columns.
    key: Vec<ValueAt>,
    /// Values by clustering column.
    levels: Vec<Vec<ValueAt>>,
    /// The seed after folding the key, or the first value of each clustering column.
    seed: i64,
    rows: u64,
    /// Largest number of written rows.
    most: u64,
    /// Number of non-key columns with a value.
    filled: usize,
}

impl Partition {
    /// Number of rows.
    pub const fn rows(&self) -> u64 {
        self.rows
    }
}

/// The columns of a statement's [`Rows`], ready to draw.
#[derive(Clone, Debug)]
pub struct Table {
    partition: Vec<Column>,
    clustering: Vec<Column>,
    values: Vec<Column>,
    sorted: bool,
    visit: Visit,
    /// The share of the rows that [`Visit::Each`] visits; `None` for all.
    visited: Option<Share>,
    ends: Vec<u64>,
    /// The share of a row's values that is written; `None` for all.
    filled: Option<Share>,
}

/// A draw divided by a number.
#[derive(Clone, Debug)]
struct Share(Law, f64);

impl Share {
    /// The ratio at a place in the plan; `None` if it is never less than 1.
    fn new(ratio: RowShare, place: &str) -> Result<Option<Self>, OutOfRange> {
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
    pub fn new(rows: &Rows, place: &str) -> Result<Self, OutOfRange> {
        let columns = |columns: &[_], name: &str| {
            let numbered = columns.iter().enumerate();
            let ready = |(n, column)| Column::new(column, &format!("{place}.{name}[{n}]"));
            numbered.map(ready).collect::<Result<Vec<_>, _>>()
        };
        let visited = match rows.visit {
            Visit::Each { law, of } => Share::new(RowShare { law, of }, &format!("{place}.visit"))?,
            Visit::One | Visit::Several => None,
        };
        Ok(Self {
            partition: columns(&rows.partition, "partition")?,
            clustering: columns(&rows.clustering, "clustering")?,
            values: columns(&rows.values, "values")?,
            sorted: rows.sorted,
            visit: rows.visit,
            visited,
            ends: rows.ends.clone(),
            filled: Share::new(rows.filled, &format!("{place}.filled"))?,
        })
    }

    /// Generates the partition with a number.
    pub fn open(&self, number: u64, random: &mut Random, partition: &mut Partition) {
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

    /// Largest number of rows of a partition that a write reaches. With three or more clustering
    /// columns it ends when a column between the first and the last one reaches its limit
    /// (`PartitionIterator.advance`).
    fn most(&self, levels: &[Vec<ValueAt>]) -> u64 {
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

    /// Calls `go` for each row of the partition that an operation concerns, with `None` if each
    /// argument has its own row.
    pub fn visit(
        &self,
        partition: &Partition,
        random: &mut Random,
        mut go: impl FnMut(Option<u64>),
    ) {
        let rows = partition.rows;
        match (self.visit, &self.visited) {
            (Visit::One, _) => go(Some(random.below(rows))),
            (Visit::Several, _) => go(None),
            (_, None) => (0..rows.min(partition.most)).for_each(|row| go(Some(row))),
            (_, Some(share)) => {
                let values = partition.levels.first().map_or(1, Vec::len) as u64;
                let mut left = partition.most;
                let mut go_under = |value: u64| {
                    let (first, count) = (value * (rows / values), left.min(rows / values));
                    left -= count;
                    (first..first + count).for_each(|row| go(Some(row)));
                };
                let (share, mut some) = (share.draw(random), false);
                for value in 0..values {
                    // A write has at least one row: the last, if no other was chosen.
                    let is_forced = !some && value + 1 == values;
                    if random.fraction() < share || is_forced {
                        some = true;
                        go_under(value);
                    }
                }
            }
        }
    }

    /// Appends a column's value in a row and returns its type.
    #[inline]
    pub fn append(
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

    /// The seed of a row's values, which depends only on the row's last clustering value.
    #[inline]
    fn row_seed(&self, partition: &Partition, row: u64) -> i64 {
        let Some(last) = self.clustering.last() else { return partition.seed };
        let (_, range) = place_of(partition, row, self.clustering.len() - 1);
        last.fold(&partition.bytes[range.clone()], partition.seed)
    }
}

/// The place of a row's value of a clustering column.
fn place_of(partition: &Partition, row: u64, level: usize) -> &ValueAt {
    let within: u64 =
        partition.levels[level + 1..].iter().map(|level| level.len() as u64).product();
    let level = &partition.levels[level];
    &level[(row / within % level.len() as u64) as usize]
}

/// Draws a clustering column's distinct values. Returns the seed of the next column, which depends
/// on the first value only.
fn fill(column: &Column, seed: i64, level: &mut Vec<ValueAt>, bytes: &mut Vec<u8>) -> i64 {
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

/// The table's order of rows.
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
