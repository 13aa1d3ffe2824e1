//! Rows of what the driver crate asks.

use scylla::deserialize::row::{ColumnIterator, DeserializeRow};
use scylla::deserialize::{DeserializationError, TypeCheckError};
use scylla::frame::response::result::ColumnSpec;
use scylla::response::query_result::{QueryResult, QueryRowsResult};

use crate::failure::{Failure, impossible};

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
    result.into_rows_result().map_err(impossible)
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
