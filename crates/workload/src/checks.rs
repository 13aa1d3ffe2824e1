//! Checks of the rows in a reply.

use kvmark_plan::{Check, Each, Statement};

use crate::arguments::{ArgumentAt, ArgumentBuffer};

/// A statement's [`Check`]s.
#[derive(Clone, Debug)]
pub(crate) struct Checks(Vec<ReplyCheck>);

#[derive(Clone, Debug)]
enum ReplyCheck {
    Rows { least: u64, most: u64 },
    Each { column: u32, argument: ArgumentAt },
    Sum { column: u32, argument: ArgumentAt },
    Same { column: u32 },
}

impl Checks {
    pub(crate) fn new(statement: &Statement, slots: &[ArgumentAt]) -> Self {
        let compiled = |check: &Check| match *check {
            Check::Rows { least, most } => {
                ReplyCheck::Rows { least, most: most.unwrap_or(u64::MAX) }
            }
            Check::Each { column, argument } => {
                ReplyCheck::Each { column, argument: slots[argument as usize] }
            }
            Check::Sum { column, argument } => {
                ReplyCheck::Sum { column, argument: slots[argument as usize] }
            }
            Check::Same { column } => ReplyCheck::Same { column },
        };
        Self(statement.checks.iter().map(compiled).collect())
    }

    /// Whether a reply passes all checks. `cells` are its values with row and column.
    pub(crate) fn hold<'a>(
        &self,
        buffer: &ArgumentBuffer,
        rows: u64,
        cells: impl Iterator<Item = (u32, u32, &'a [u8])> + Clone,
    ) -> bool {
        self.0.iter().all(|check| check.holds(buffer, rows, cells.clone()))
    }
}

impl ReplyCheck {
    fn holds<'a>(
        &self,
        buffer: &ArgumentBuffer,
        rows: u64,
        cells: impl Iterator<Item = (u32, u32, &'a [u8])> + Clone,
    ) -> bool {
        let values = |column| {
            let cells = cells.clone();
            cells.filter(move |(_, place, _)| *place == column).map(|(_, _, value)| value)
        };
        match *self {
            Self::Rows { least, most } => (least..=most).contains(&rows),
            Self::Each { column, argument } => {
                let bound = bound(buffer, argument);
                values(column).count() as u64 == rows && values(column).all(|value| value == bound)
            }
            Self::Sum { column, argument } => {
                let wanted = bound(buffer, argument).try_into().map(i64::from_le_bytes);
                let sum = values(column).try_fold(0, |sum: i64, value| {
                    sum.checked_add(std::str::from_utf8(value).ok()?.parse().ok()?)
                });
                sum.is_some() && sum == wanted.ok()
            }
            Self::Same { column } => {
                let first = values(column).next();
                values(column).count() as u64 == rows
                    && values(column).all(|value| Some(value) == first)
            }
        }
    }
}

/// The argument bound for the only command.
fn bound(buffer: &ArgumentBuffer, (each, slot): ArgumentAt) -> &[u8] {
    let first = buffer.commands.first().map_or(0, |(first, _)| *first as usize);
    let place = if each == Each::Operation { slot } else { first + slot };
    &buffer.bytes[buffer.places[place].1.clone()]
}
