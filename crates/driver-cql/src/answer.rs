//! Rows of statements that the `scylla` crate executes.

use scylla::deserialize::row::{ColumnIterator, DeserializeRow};
use scylla::deserialize::{DeserializationError, TypeCheckError};
use scylla::frame::response::result::ColumnSpec;
use scylla::response::query_result::{QueryResult, QueryRowsResult};

use crate::failure::{Failure, impossible};

/// A row with undecoded values.
pub(crate) struct RawRow<'f, 'm>(pub(crate) ColumnIterator<'f, 'm>);

impl<'f, 'm> DeserializeRow<'f, 'm> for RawRow<'f, 'm> {
    fn type_check(_: &[ColumnSpec<'_>]) -> Result<(), TypeCheckError> {
        Ok(())
    }

    fn deserialize(row: ColumnIterator<'f, 'm>) -> Result<Self, DeserializationError> {
        Ok(Self(row))
    }
}

/// The rows of a result.
pub(crate) fn rows(result: QueryResult) -> Result<QueryRowsResult, Failure> {
    result.into_rows_result().map_err(impossible)
}

#[cfg(test)]
mod tests {
    use scylla::deserialize::FrameSlice;

    use super::*;

    #[test]
    fn a_raw_row_accepts_any_type() {
        assert!(RawRow::type_check(&[]).is_ok());
        let row = RawRow::deserialize(ColumnIterator::new(&[], FrameSlice::new_empty())).unwrap();
        assert_eq!(row.0.count(), 0);
    }
}
