//! YCSB's layout of a record: its commands and their replies.
//!
//! A record is a hash under its key. The sorted set `_indices` contains every key with its Java
//! hash code as the score. A scan reads the keys from the start key's score upwards and then each
//! record. Source: YCSB 0.17.0, `RedisClient`, with one difference: YCSB removes a deleted key from
//! `_indices` only if the record didn't exist; this driver always removes it.

use kvmark_driver::{Columns, Expected, Layout, Reply, Values};
use kvmark_driver_server::text::{Texts, find_near, java_hash};
use kvmark_plan::{Outcome, tag_length};

use crate::failure::{Failure, refused};
use kvmark_wire::resp::{Cursor, LINE_END, Token, put_all, put_command, put_number_part, put_part};

/// The sorted set of all keys.
const INDEX: &[u8] = b"_indices";

/// The fields of a record.
#[derive(Debug)]
pub(crate) struct Fields {
    names: Vec<String>,
    /// Each name as an encoded part of a command.
    parts: Vec<Vec<u8>>,
}

/// The options of a read or scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadOptions {
    pub(crate) columns: Columns,
    pub(crate) wants_values: bool,
    pub(crate) expected: Option<Expected>,
}

impl Fields {
    pub(crate) fn new(layout: &Layout) -> Self {
        let part = |name: &String| {
            let mut part = Vec::new();
            put_part(&mut part, name.as_bytes());
            part
        };
        let names = layout.field_names.clone();
        Self { parts: names.iter().map(part).collect(), names }
    }

    /// Writes fields of a record.
    pub(crate) fn put_write(&self, output: &mut Vec<u8>, key: &[u8], values: Values<'_>) {
        put_command(output, 2 + 2 * values.places.len());
        put_part(output, b"HMSET");
        put_part(output, key);
        for (field, value) in values.iter() {
            output.extend_from_slice(&self.parts[field as usize]);
            put_part(output, value);
        }
    }

    /// Reads a record, or one field of it.
    pub(crate) fn put_read(&self, output: &mut Vec<u8>, key: &[u8], columns: Columns) {
        match columns {
            Columns::All => put_all(output, &[b"HGETALL", key]),
            Columns::AllByName => {
                put_command(output, 2 + self.parts.len());
                put_part(output, b"HMGET");
                put_part(output, key);
                self.parts.iter().for_each(|part| output.extend_from_slice(part));
            }
            Columns::One(field) => {
                put_command(output, 3);
                put_part(output, b"HMGET");
                put_part(output, key);
                output.extend_from_slice(&self.parts[field as usize]);
            }
        }
    }

    /// Takes the reply to a read as the next row; a missing record is a miss.
    pub(crate) fn take_read(
        &self,
        options: ReadOptions,
        bytes: &[u8],
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        let ReadOptions { columns, wants_values, expected } = options;
        let mut cursor = Cursor::new(bytes);
        let elements = aggregate(&mut cursor, "a read")?;
        let elements_at = cursor;
        let unexpected = || Failure::unexpected_reply("a read");
        let row = u32::try_from(reply.rows).unwrap_or(u32::MAX);
        if columns == Columns::All {
            if elements % 2 == 1 {
                return Err(unexpected());
            }
            let wanted = if wants_values { elements / 2 } else { 0 };
            for place in 0..wanted {
                let name = cursor.text()?.ok_or_else(unexpected)?;
                let value = cursor.text()?.ok_or_else(unexpected)?;
                let is_it = |index: usize| self.names[index].as_bytes() == name;
                if let Some(field) = find_near(place, self.names.len(), is_it) {
                    reply.push(row, field, value);
                }
            }
            if elements == 0 {
                return Ok(Outcome::Miss);
            }
            reply.rows += 1;
            return compared(expected, elements_at, elements, true);
        }
        let (first, count) = match columns {
            Columns::One(field) => (field, 1),
            _ => (0, self.parts.len()),
        };
        if elements != count {
            return Err(unexpected());
        }
        let mut exists = false;
        for field in (first..).take(count) {
            let value = cursor.text()?;
            exists |= value.is_some();
            if let (Some(value), true) = (value, wants_values) {
                reply.push(row, field, value);
            }
            if exists && !wants_values {
                break;
            }
        }
        reply.rows += u64::from(exists);
        if exists { compared(expected, elements_at, elements, false) } else { Ok(Outcome::Miss) }
    }
}

/// The outcome of a read of an existing record. Its elements are values, or names and values if
/// `named`. A missing field has no value.
#[inline]
fn compared(
    expected: Option<Expected>,
    cursor: Cursor<'_>,
    elements: usize,
    named: bool,
) -> Result<Outcome, Failure> {
    match expected {
        None => Ok(Outcome::Ok),
        Some(expected) if named && is_regular(&expected, cursor.rest(), elements / 2) => {
            Ok(Outcome::Ok)
        }
        Some(expected) => compared_in_full(expected, cursor, elements, named),
    }
}

/// Fast check of a record whose field names all have the same length, the usual case.
///
/// Then all fields have the same size, and the value with its tag is at the end of each: in a
/// scanned reply, a value of another length would begin elsewhere. A negative result proves
/// nothing, and the record must be read element by element.
#[inline]
fn is_regular(expected: &Expected, record: &[u8], fields: usize) -> bool {
    let (Some(length), Some(tag)) = (expected.length, expected.tag) else { return false };
    let field = record.len() / fields.max(1);
    let Some(at) = field.checked_sub(length as usize + LINE_END) else { return false };
    tag_length(length as usize) == tag.len()
        && expected.fields == u32::try_from(fields).ok()
        && record.len() == fields * field
        && record.chunks_exact(field).all(|one| one[at..].first_chunk() == Some(&tag))
}

#[inline(never)]
fn compared_in_full(
    expected: Expected,
    mut cursor: Cursor<'_>,
    elements: usize,
    named: bool,
) -> Result<Outcome, Failure> {
    let mut comparison = expected.compare();
    for place in 0..elements {
        let text = cursor.next_bulk()?;
        if (!named || place % 2 == 1)
            && let Some(value) = text
        {
            comparison.see(value);
        }
    }
    Ok(comparison.outcome())
}

/// Adds a key to the index.
pub(crate) fn put_index(output: &mut Vec<u8>, key: &[u8]) {
    put_command(output, 4);
    put_part(output, b"ZADD");
    put_part(output, INDEX);
    put_number_part(output, java_hash(key).into());
    put_part(output, key);
}

/// Removes a record.
pub(crate) fn put_delete(output: &mut Vec<u8>, key: &[u8]) {
    put_all(output, &[b"DEL", key]);
}

/// Removes a key from the index.
pub(crate) fn put_unindex(output: &mut Vec<u8>, key: &[u8]) {
    put_all(output, &[b"ZREM", INDEX, key]);
}

/// Reads this many keys from the index, from a key's score upwards.
pub(crate) fn put_keys(output: &mut Vec<u8>, key: &[u8], count: u64) {
    put_command(output, 7);
    put_part(output, b"ZRANGEBYSCORE");
    put_part(output, INDEX);
    put_number_part(output, java_hash(key).into());
    put_part(output, b"+inf");
    put_part(output, b"LIMIT");
    put_part(output, b"0");
    put_number_part(output, i64::try_from(count).unwrap_or(i64::MAX));
}

/// Takes a reply that must be `OK`.
pub(crate) fn take_ok(bytes: &[u8]) -> Result<(), Failure> {
    match Cursor::new(bytes).token()? {
        Token::Simple(b"OK") => Ok(()),
        Token::Error(message) => Err(refused(message)),
        _ => Err(Failure::unexpected_reply("a write")),
    }
}

/// Takes a reply that is a count.
pub(crate) fn take_count(bytes: &[u8]) -> Result<i64, Failure> {
    match Cursor::new(bytes).token()? {
        Token::Integer(count) => Ok(count),
        Token::Error(message) => Err(refused(message)),
        _ => Err(Failure::unexpected_reply("a write")),
    }
}

/// Takes the reply to a read of the index.
pub(crate) fn take_keys(bytes: &[u8], keys: &mut Texts) -> Result<(), Failure> {
    let mut cursor = Cursor::new(bytes);
    for _ in 0..aggregate(&mut cursor, "ZRANGEBYSCORE")? {
        let key = cursor.text()?.ok_or_else(|| Failure::unexpected_reply("ZRANGEBYSCORE"))?;
        keys.add(|bytes| bytes.extend_from_slice(key));
    }
    Ok(())
}

/// The number of elements of a reply, which follow.
pub(crate) fn aggregate(cursor: &mut Cursor<'_>, command: &str) -> Result<usize, Failure> {
    match cursor.token()? {
        Token::List(count) => Ok(count),
        Token::Error(message) => Err(refused(message)),
        _ => Err(Failure::unexpected_reply(command)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_equal_those_of_ycsb() {
        let layout = Layout {
            table: "usertable".into(),
            field_names: vec!["field0".into(), "f1".into()],
            prepare: Vec::new(),
            statements: Vec::new(),
        };
        let fields = Fields::new(&layout);
        let text = |encode: &dyn Fn(&mut Vec<u8>)| {
            let mut output = Vec::new();
            encode(&mut output);
            let mut cursor = Cursor::new(&output);
            let parts = cursor.elements().unwrap();
            let part = |_| String::from_utf8_lossy(cursor.text().unwrap().unwrap()).into_owned();
            (0..parts).map(part).collect::<Vec<_>>().join(" ")
        };
        let values = Values { bytes: b"xyz", places: &[(0, 0..1), (1, 1..3)] };
        assert_eq!(text(&|o| fields.put_write(o, b"k", values)), "HMSET k field0 x f1 yz");
        assert_eq!(text(&|o| fields.put_read(o, b"k", Columns::All)), "HGETALL k");
        assert_eq!(text(&|o| fields.put_read(o, b"k", Columns::AllByName)), "HMGET k field0 f1");
        assert_eq!(text(&|o| fields.put_read(o, b"k", Columns::One(1))), "HMGET k f1");
        assert_eq!(text(&|o| put_index(o, b"k")), "ZADD _indices 107 k");
        assert_eq!(text(&|o| put_delete(o, b"k")), "DEL k");
        assert_eq!(text(&|o| put_unindex(o, b"k")), "ZREM _indices k");
        let scan = "ZRANGEBYSCORE _indices 107 +inf LIMIT 0 5";
        assert_eq!(text(&|o| put_keys(o, b"k", 5)), scan);
    }

    /// A field: the lengths of its name and value, and the first byte of the value.
    fn field() -> impl Strategy<Value = (usize, usize, u8)> {
        let name = prop_oneof![9 => Just(6), 1 => Just(7)];
        let length = prop_oneof![9 => Just(20_usize), 1 => 0..40_usize];
        (name, length, prop_oneof![9 => Just(1), 1 => Just(6)])
    }

    proptest! {
        #[test]
        fn the_fast_check_of_a_record_agrees_with_the_full_one(
            fields in prop::collection::vec(field(), 1..6),
        ) {
            let mut reply = Vec::new();
            for (name, length, first) in &fields {
                put_part(&mut reply, &vec![b'n'; *name]);
                let value = [*first, 2, 3, 4, 5, 6, 7, 8].into_iter().chain(9..);
                put_part(&mut reply, &value.take(*length).collect::<Vec<u8>>());
            }
            let expected = Expected {
                fields: u32::try_from(fields.len()).ok(),
                length: Some(20),
                tag: Some([1, 2, 3, 4, 5, 6, 7, 8]),
                proves: false,
            };
            let of = |way: fn(Expected, Cursor<'_>, usize, bool) -> Result<Outcome, Failure>| {
                way(expected, Cursor::new(&reply), 2 * fields.len(), true).ok()
            };
            let short = of(|expected, cursor, elements, named| {
                compared(Some(expected), cursor, elements, named)
            });
            prop_assert_eq!(short, of(compared_in_full));
        }
    }
}
