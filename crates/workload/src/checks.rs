//! Checks of the rows in a reply.

use kvmark_plan::{Check, Each};

use crate::arguments::{ArgumentAt, ArgumentBuffer};

/// Whether a reply passes a check. `slots` are the statement's arguments, `cells` the reply's
/// values with row and column.
pub(crate) fn holds<'a>(
    check: &Check,
    slots: &[ArgumentAt],
    buffer: &ArgumentBuffer,
    rows: u64,
    cells: impl Iterator<Item = (u32, u32, &'a [u8])> + Clone,
) -> bool {
    let values = |column| {
        let cells = cells.clone();
        cells.filter(move |(_, place, _)| *place == column).map(|(_, _, value)| value)
    };
    let bound = |argument: u32| bound(buffer, slots[argument as usize]);
    match *check {
        Check::Rows { least, most } => (least..=most.unwrap_or(u64::MAX)).contains(&rows),
        Check::Each { column, argument } => {
            let bound = bound(argument);
            values(column).count() as u64 == rows && values(column).all(|value| value == bound)
        }
        Check::Sum { column, argument } => {
            let wanted = bound(argument).try_into().map(i64::from_le_bytes);
            let sum = values(column).try_fold(0, |sum: i64, value| {
                sum.checked_add(std::str::from_utf8(value).ok()?.parse().ok()?)
            });
            sum.is_some() && sum == wanted.ok()
        }
        Check::Same { column } => {
            let first = values(column).next();
            values(column).count() as u64 == rows
                && values(column).all(|value| Some(value) == first)
        }
    }
}

/// The argument bound for the only command.
fn bound(buffer: &ArgumentBuffer, (each, slot): ArgumentAt) -> &[u8] {
    let first = buffer.commands.first().map_or(0, |(first, _)| *first as usize);
    let place = if each == Each::Operation { slot } else { first + slot };
    &buffer.bytes[buffer.places[place].1.clone()]
}
