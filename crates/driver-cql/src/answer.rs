//! What a cluster answers, as rows and cells of a reply.

use kvmark_driver::Reply;
use scylla::deserialize::row::{ColumnIterator, DeserializeRow};
use scylla::deserialize::{DeserializationError, TypeCheckError};
use scylla::errors::IntoRowsResultError;
use scylla::frame::response::result::ColumnSpec;
use scylla::response::query_result::{QueryResult, QueryRowsResult};

use crate::failure::Failure;

/// The column that says whether a conditional write was done.
const APPLIED: &str = "[applied]";

/// A row whose values stay as they came.
pub(crate) struct RawRow<'f, 'm>(pub(crate) ColumnIterator<'f, 'm>);

impl<'f, 'm> DeserializeRow<'f, 'm> for RawRow<'f, 'm> {
    fn type_check(_: &[ColumnSpec<'_>]) -> Result<(), TypeCheckError> {
        Ok(())
    }

    fn deserialize(row: ColumnIterator<'f, 'm>) -> Result<Self, DeserializationError> {
        Ok(Self(row))
    }
}

/// The rows of an answer that must have some kind of them.
pub(crate) fn rows(result: QueryResult) -> Result<QueryRowsResult, Failure> {
    result.into_rows_result().map_err(Failure::impossible)
}

/// The rows of an answer, none where it has no place for any.
pub(crate) fn maybe_rows(result: QueryResult) -> Result<Option<QueryRowsResult>, Failure> {
    match result.into_rows_result() {
        Ok(rows) => Ok(Some(rows)),
        Err(IntoRowsResultError::ResultNotRows(_)) => Ok(None),
        Err(error) => Err(Failure::impossible(error)),
    }
}

/// Appends the values of all rows that `place` gives a field; nulls are left out.
pub(crate) fn take_cells(
    rows: &QueryRowsResult,
    reply: &mut Reply,
    mut place: impl FnMut(usize) -> Option<u32>,
    mut append: impl FnMut(&ColumnSpec<'_>, &[u8], &mut Vec<u8>),
) -> Result<(), Failure> {
    let first = reply.rows;
    for (number, row) in (first..).zip(rows.rows::<RawRow<'_, '_>>().map_err(Failure::impossible)?)
    {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        for column in row.map_err(Failure::impossible)?.0 {
            let column = column.map_err(Failure::impossible)?;
            let (Some(field), Some(value)) = (place(column.index), column.slice) else { continue };
            let start = reply.bytes.len();
            append(column.spec, value.as_slice(), &mut reply.bytes);
            let place = start..reply.bytes.len();
            reply.cells.push(kvmark_driver::Cell { row: number, field, place });
        }
    }
    Ok(())
}

/// Whether a conditional write was done; none when the answer is to something else.
pub(crate) fn applied(rows: &QueryRowsResult) -> Result<Option<bool>, Failure> {
    if rows.column_specs().get_by_index(0).is_none_or(|column| column.name() != APPLIED) {
        return Ok(None);
    }
    let mut all = true;
    for row in rows.rows::<RawRow<'_, '_>>().map_err(Failure::impossible)? {
        let first = row.map_err(Failure::impossible)?.0.next();
        let column = first.transpose().map_err(Failure::impossible)?;
        let value = column.and_then(|column| column.slice);
        all &= value.is_some_and(|value| value.as_slice() == [1]);
    }
    Ok(Some(all))
}

#[cfg(test)]
mod tests {
    use scylla::deserialize::FrameSlice;

    use super::*;

    #[test]
    fn a_raw_row_asks_for_no_type() {
        assert!(RawRow::type_check(&[]).is_ok());
        let row = RawRow::deserialize(ColumnIterator::new(&[], FrameSlice::new_empty())).unwrap();
        assert_eq!(row.0.count(), 0);
    }
}
