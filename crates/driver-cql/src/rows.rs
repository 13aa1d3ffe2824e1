//! The results of statements, read as far as needed.

use kvmark_driver::{Expected, Reply};
use kvmark_plan::Outcome;

use crate::failure::{Failure, impossible};
use crate::frame::{Reader, cut_off};
use kvmark_wire::cql::types::Column;
pub(crate) use kvmark_wire::cql::{APPLIED, Preparation};
use kvmark_wire::cql::{Description, KINDS, PREPARED, ROWS};

/// A row of values; nulls are `None`.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// A value as text; null is empty.
pub(crate) fn text(value: Option<&[u8]>) -> String {
    String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
}

/// The result of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer<'a> {
    /// The statement was executed and returns nothing.
    Done,
    Rows(Rows<'a>),
    /// The id of a statement that was prepared.
    Prepared(&'a [u8]),
}

/// Rows of one page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    pub(crate) count: u64,
    columns: usize,
    /// The paging state of the next page.
    pub(crate) next: Option<&'a [u8]>,
    /// Whether the first column is the result of a conditional write.
    is_applied: bool,
    cells: &'a [u8],
}

/// Reads the body of a result.
#[inline]
pub(crate) fn read(body: &[u8]) -> Result<Answer<'_>, Failure> {
    let mut body = Reader(body);
    match body.int().ok_or_else(cut_off)? {
        ROWS => rows(body).map(Answer::Rows).ok_or_else(cut_off),
        PREPARED => body.short_bytes().map(Answer::Prepared).ok_or_else(cut_off),
        kind if KINDS.contains(&kind) => Ok(Answer::Done),
        kind => Err(impossible(format!("there is no result of kind {kind}"))),
    }
}

/// Reads the body of the reply to a request to prepare a statement.
pub(crate) fn preparation(body: &[u8]) -> Result<Preparation<'_>, Failure> {
    let Answer::Prepared(_) = read(body)? else {
        return Err(impossible("no statement is prepared"));
    };
    // After the kind of result.
    Preparation::read(Reader(&body[4..])).ok_or_else(cut_off)
}

/// The columns and the rows of a result; both are empty if it returns nothing.
pub(crate) fn table(body: &[u8]) -> Result<(Vec<Column<'_>>, Vec<Row>), Failure> {
    let Answer::Rows(rows) = read(body)? else { return Ok(Default::default()) };
    let described = Description::read(&mut Reader(&body[4..])).ok_or_else(cut_off)?;
    Ok((described.columns, rows.values()?))
}

#[inline]
fn rows(mut body: Reader<'_>) -> Option<Rows<'_>> {
    let Description { columns: described, count: columns, next } = Description::read(&mut body)?;
    let is_applied = described.first().is_some_and(|column| column.name == APPLIED);
    let count = u64::try_from(body.int()?).ok()?;
    Some(Rows { count, columns, next, is_applied, cells: body.0 })
}

impl Rows<'_> {
    /// Appends the values of columns that are fields, without conversion and without nulls.
    pub(crate) fn take_fields(
        &self,
        reply: &mut Reply,
        fields: &[Option<u32>],
    ) -> Result<(), Failure> {
        let end = reply.bytes.len() + self.cells.len();
        // Includes the lengths: one copy is cheaper than one per value.
        reply.bytes.extend_from_slice(self.cells);
        self.each(reply.rows, |row, column, value, left| {
            if let Some(Some(field)) = fields.get(column) {
                let end = end - left;
                let place = end - value.len()..end;
                reply.cells.push(kvmark_driver::Cell { row, field: *field, place });
            }
        })
    }

    /// Whether the values of columns that are fields equal the expected record.
    #[inline]
    pub(crate) fn are_like(
        &self,
        expected: Expected,
        fields: &[Option<u32>],
    ) -> Result<bool, Failure> {
        let mut comparison = expected.compare();
        self.each(0, |_, column, value, _| {
            if let Some(Some(_)) = fields.get(column) {
                comparison.see(value);
            }
        })?;
        Ok(comparison.outcome() == Outcome::Ok)
    }

    /// Passes on the values that aren't null: row, column, bytes, and the number of bytes after it.
    #[inline]
    fn each(
        &self,
        rows: u64,
        mut visit: impl FnMut(u32, usize, &[u8], usize),
    ) -> Result<(), Failure> {
        let mut cells = Reader(self.cells);
        if self.columns == 0 {
            return Ok(());
        }
        for number in rows..rows + self.count {
            let row = u32::try_from(number).unwrap_or(u32::MAX);
            for column in 0..self.columns {
                if let Some(value) = cells.bytes().ok_or_else(cut_off)? {
                    visit(row, column, value, cells.0.len());
                }
            }
        }
        Ok(())
    }

    /// Copies all values.
    fn values(&self) -> Result<Vec<Row>, Failure> {
        let mut cells = Reader(self.cells);
        let mut value = || Some(cells.bytes()?.map(<[u8]>::to_vec));
        let mut row = || (0..self.columns).map(|_| value()).collect::<Option<Row>>();
        let count = if self.columns == 0 { 0 } else { self.count };
        (0..count).map(|_| row()).collect::<Option<_>>().ok_or_else(cut_off)
    }

    /// Appends the values of all columns, without nulls.
    pub(crate) fn take_cells(
        &self,
        reply: &mut Reply,
        mut append: impl FnMut(usize, &[u8], &mut Vec<u8>),
    ) -> Result<(), Failure> {
        self.each(reply.rows, |row, column, value, _| {
            let Ok(field) = u32::try_from(column) else { return };
            let start = reply.bytes.len();
            append(column, value, &mut reply.bytes);
            let place = start..reply.bytes.len();
            reply.cells.push(kvmark_driver::Cell { row, field, place });
        })
    }

    /// Whether a conditional write was applied in all its rows; `None` without a condition.
    pub(crate) fn applied(&self) -> Result<Option<bool>, Failure> {
        if !self.is_applied {
            return Ok(None);
        }
        let mut applied = 0;
        self.each(0, |_, column, value, _| applied += u64::from(column == 0 && value == [1]))?;
        Ok(Some(applied == self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvmark_wire::cql::{MORE_PAGES, NOT_DESCRIBED, ONE_TABLE};

    use crate::frame::{put_long, put_short};

    /// A description of columns `a`, `b`, … of these types.
    fn described(flags: i32, first: &[u8], types: &[&[u8]]) -> Vec<u8> {
        let mut body = ROWS.to_be_bytes().to_vec();
        body.extend_from_slice(&flags.to_be_bytes());
        body.extend_from_slice(&(types.len() as u32).to_be_bytes());
        if flags & MORE_PAGES != 0 {
            put_long(&mut body, b"state");
        }
        if flags & ONE_TABLE != 0 {
            put_short(&mut body, b"ks");
            put_short(&mut body, b"t");
        }
        for (column, typ) in types.iter().enumerate() {
            if flags & ONE_TABLE == 0 {
                put_short(&mut body, b"ks");
                put_short(&mut body, b"t");
            }
            put_short(&mut body, if column == 0 { first } else { b"b" });
            body.extend_from_slice(typ);
        }
        body
    }

    fn rows_of(body: &[u8]) -> Rows<'_> {
        match read(body).unwrap() {
            Answer::Rows(rows) => rows,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rows_are_counted_and_the_cells_of_fields_are_taken() {
        let udt = b"\0\x30\0\x02ks\0\x01u\0\x01\0\x01f\0\x31\0\x02\0\x09\0\x0d";
        let types: [&[u8]; 3] = [b"\0\x0d", b"\0\x21\0\x0d\0\x22\0\x09", udt];
        for flags in [ONE_TABLE, 0, ONE_TABLE | MORE_PAGES] {
            let mut body = described(flags, b"a", &types);
            body.extend_from_slice(&2_u32.to_be_bytes());
            for value in [&b"k1"[..], b"x", b"", b"k2", b"y"] {
                put_long(&mut body, value);
            }
            body.extend_from_slice(&(-1_i32).to_be_bytes());
            let rows = rows_of(&body);
            assert_eq!((rows.count, rows.next.is_some()), (2, flags & MORE_PAGES != 0));
            assert_eq!(rows.applied().unwrap(), None);
            let mut reply = Reply::default();
            rows.take_cells(&mut reply, |_, value, bytes| bytes.extend_from_slice(value)).unwrap();
            let cells = reply.cells.iter().map(|cell| (cell.row, cell.field, reply.bytes_of(cell)));
            let cells: Vec<_> = cells.collect();
            let expected: [(u32, u32, &[u8]); 5] =
                [(0, 0, b"k1"), (0, 1, b"x"), (0, 2, b""), (1, 0, b"k2"), (1, 1, b"y")];
            assert_eq!(cells, expected);
            // Without conversion, after an earlier page.
            let mut both = Reply::default();
            both.push(0, 5, b"before");
            both.rows = 1;
            rows.take_fields(&mut both, &[Some(0), None, Some(2)]).unwrap();
            let cells = both.cells.iter().map(|cell| (cell.row, cell.field, both.bytes_of(cell)));
            let expected = [(0, 5, &b"before"[..]), (1, 0, b"k1"), (1, 2, b""), (2, 0, b"k2")];
            assert_eq!(cells.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn rows_that_are_not_described_are_read_too() {
        let mut body = ROWS.to_be_bytes().to_vec();
        for number in [NOT_DESCRIBED, 1, 1] {
            body.extend_from_slice(&number.to_be_bytes());
        }
        put_long(&mut body, b"v");
        assert_eq!(rows_of(&body).count, 1);
    }

    #[test]
    fn a_condition_is_met_if_every_row_is_applied() {
        for (flags, expected) in [(&[1, 1][..], true), (&[1, 0], false), (&[], true)] {
            let mut body = described(ONE_TABLE, APPLIED, &[b"\0\x04", b"\0\x0d"]);
            body.extend_from_slice(&(flags.len() as u32).to_be_bytes());
            for flag in flags {
                put_long(&mut body, &[*flag]);
                put_long(&mut body, b"x");
            }
            assert_eq!(rows_of(&body).applied().unwrap(), Some(expected));
        }
    }

    #[test]
    fn a_truncated_answer_is_rejected() {
        let mut body = described(MORE_PAGES, APPLIED, &[b"\0\x04", b"\0\x20\0\x0d"]);
        body.extend_from_slice(&1_u32.to_be_bytes());
        put_long(&mut body, &[1]);
        put_long(&mut body, b"x");
        for end in 0..body.len() {
            let whole = read(&body[..end]).and_then(|answer| match answer {
                Answer::Rows(rows) => rows.applied(),
                _ => Ok(None),
            });
            assert!(whole.is_err(), "{end}");
        }
        assert!(read(&body).is_ok());
    }

    #[test]
    fn a_preparation_has_markers_a_key_and_columns() {
        let mut body = PREPARED.to_be_bytes().to_vec();
        put_short(&mut body, b"id");
        // Two markers of one table; the second and the first are the key.
        for number in [ONE_TABLE, 2, 2] {
            body.extend_from_slice(&number.to_be_bytes());
        }
        body.extend_from_slice(&[0, 1, 0, 0]);
        for word in [&b"ks"[..], b"t"] {
            put_short(&mut body, word);
        }
        for (name, typ) in [(b"a", b"\0\x09"), (b"b", b"\0\x0d")] {
            put_short(&mut body, name);
            body.extend_from_slice(typ);
        }
        body.extend_from_slice(&described(0, b"c", &[b"\0\x22\0\x0c"])[4..]);
        let read = preparation(&body).unwrap();
        assert_eq!((read.id, &read.key[..]), (&b"id"[..], &[1, 0][..]));
        let column = |column: &Column<'_>| {
            [text(Some(column.keyspace)), text(Some(column.name)), column.typ.to_string()].join(" ")
        };
        let columns: Vec<_> = read.markers.iter().chain(&read.columns).map(column).collect();
        assert_eq!(columns, ["ks a int", "ks b text", "ks c set<uuid>"]);
        assert!((0..body.len()).all(|end| preparation(&body[..end]).is_err()));
    }

    #[test]
    fn all_values_of_a_table_are_copied() {
        let mut body = described(ONE_TABLE, b"a", &[b"\0\x0d", b"\0\x09"]);
        body.extend_from_slice(&2_u32.to_be_bytes());
        put_long(&mut body, b"x");
        body.extend_from_slice(&[0xff; 12]);
        let (columns, rows) = table(&body).unwrap();
        assert_eq!(columns.len(), 2);
        assert_eq!(rows, [vec![Some(b"x".to_vec()), None], vec![None, None]]);
        assert!(table(&1_i32.to_be_bytes()).unwrap().1.is_empty());
    }

    #[test]
    fn other_results_are_distinguished() {
        assert!(matches!(read(&1_i32.to_be_bytes()).unwrap(), Answer::Done));
        let mut body = PREPARED.to_be_bytes().to_vec();
        put_short(&mut body, b"id");
        assert!(matches!(read(&body).unwrap(), Answer::Prepared(b"id")));
        assert!(read(&99_i32.to_be_bytes()).is_err());
        // A type in itself, without end.
        let mut body = described(ONE_TABLE, b"a", &[&[0, 0x20].repeat(100)]);
        body.extend_from_slice(&0_u32.to_be_bytes());
        assert!(read(&body).is_err());
    }
}
