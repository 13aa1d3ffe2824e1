//! The records in the format of YCSB's memcached binding: under `TABLE-KEY`, as one JSON object
//! (see `json.rs`).
//!
//! An insert is a `set`, so a load can be repeated; YCSB uses `add`. An update of all fields is a
//! `replace`. An update of some fields reads the record (`gets`) and writes it back (`cas`). If
//! another client has written since, it begins again. With `update=replace` it is a `replace` by
//! the given fields, as in YCSB, and the other fields are lost.

use kvmark_driver::{Columns, Layout, OpenError, Reply, Values};
use kvmark_driver_server::text::find_near;
use kvmark_wire::number;

use crate::json::{Damaged, Members, append_escaped, append_unescaped, escaped_length};
use crate::keys::{LENGTH_MAX, is_word};

/// The format of records.
#[derive(Debug)]
pub(crate) struct Records {
    prefix: Vec<u8>,
    names: Vec<Name>,
    /// Flags and time to live, between a key and a length.
    between: Vec<u8>,
    replaces: bool,
}

/// A field's name.
#[derive(Debug)]
struct Name {
    /// The escaped name.
    raw: Vec<u8>,
    /// The quoted name with the separators up to the value.
    member: Vec<u8>,
}

impl Records {
    pub(crate) fn new(layout: &Layout, ttl_s: u64, replaces: bool) -> Result<Self, OpenError> {
        let prefix = format!("{}-", layout.table).into_bytes();
        if !is_word(&prefix) || prefix.len() >= LENGTH_MAX {
            let text = format!(
                "the table '{}' can't begin memcached's keys: give a short name without blanks",
                layout.table
            );
            return Err(OpenError::Option(text));
        }
        let name = |name: &String| {
            let mut raw = Vec::new();
            append_escaped(&mut raw, name.as_bytes());
            let member = [b"\"", &raw[..], b"\":\""].concat();
            Name { raw, member }
        };
        let names = layout.field_names.iter().map(name).collect();
        Ok(Self { prefix, names, between: format!(" 0 {ttl_s} ").into_bytes(), replaces })
    }

    /// Appends the key under which a record is stored.
    #[inline]
    pub(crate) fn append_key(&self, output: &mut Vec<u8>, key: &[u8]) {
        output.extend_from_slice(&self.prefix);
        output.extend_from_slice(key);
    }

    /// Whether these fields are written without a read.
    #[inline]
    pub(crate) fn is_blind(&self, values: Values<'_>) -> bool {
        self.replaces || values.places.len() == self.names.len()
    }

    /// Writes a record of these fields, with `set` or `replace`.
    #[inline]
    pub(crate) fn put_write(
        &self,
        output: &mut Vec<u8>,
        command: &[u8],
        key: &[u8],
        values: Values<'_>,
    ) {
        let mut length = b"{}".len() + values.places.len().saturating_sub(1);
        for (field, value) in values.iter() {
            length += self.names[field as usize].member.len() + escaped_length(value) + 1;
        }
        output.reserve(command.len() + key.len() + length + 64);
        output.extend_from_slice(command);
        output.extend_from_slice(key);
        output.extend_from_slice(&self.between);
        number::append(output, length as i64);
        output.extend_from_slice(b"\r\n{");
        for (place, (field, value)) in values.iter().enumerate() {
            if place > 0 {
                output.push(b',');
            }
            self.append_member(output, field, value);
        }
        output.extend_from_slice(b"}\r\n");
    }

    #[inline]
    fn append_member(&self, output: &mut Vec<u8>, field: u32, value: &[u8]) {
        output.extend_from_slice(&self.names[field as usize].member);
        append_escaped(output, value);
        output.push(b'"');
    }

    /// Appends a stored record with these fields replaced.
    pub(crate) fn append_merged(
        &self,
        output: &mut Vec<u8>,
        stored: &[u8],
        values: Values<'_>,
    ) -> Result<(), Damaged> {
        let begin = |output: &mut Vec<u8>| {
            output.push(if output.is_empty() { b'{' } else { b',' });
        };
        let mut members = Members::of(stored)?;
        while let Some((name, value)) = members.next()? {
            if values.places.iter().any(|(field, _)| self.names[*field as usize].raw == name) {
                continue;
            }
            begin(output);
            for part in [b"\"", name, b"\":\"", value, b"\""] {
                output.extend_from_slice(part);
            }
        }
        for (field, value) in values.iter() {
            begin(output);
            self.append_member(output, field, value);
        }
        output.push(b'}');
        Ok(())
    }

    /// Writes a record unless another client has written since it was read with this `cas unique`.
    pub(crate) fn put_swap(&self, output: &mut Vec<u8>, key: &[u8], record: &[u8], unique: &[u8]) {
        output.extend_from_slice(b"cas ");
        output.extend_from_slice(key);
        output.extend_from_slice(&self.between);
        number::append(output, record.len() as i64);
        for part in [b" ", unique, b"\r\n", record, b"\r\n"] {
            output.extend_from_slice(part);
        }
    }

    /// Takes the requested values of a record as the only row.
    pub(crate) fn take(
        &self,
        stored: &[u8],
        columns: Columns,
        reply: &mut Reply,
    ) -> Result<(), Damaged> {
        let mut members = Members::of(stored)?;
        let mut place = 0;
        while let Some((name, value)) = members.next()? {
            let is_it = |index: usize| self.names[index].raw == name;
            let field = find_near(place, self.names.len(), is_it);
            place += 1;
            let wanted = match columns {
                Columns::One(one) => field == Some(one),
                Columns::All | Columns::AllByName => true,
            };
            if let (Some(field), true) = (field, wanted) {
                reply.push_with(0, field, |bytes| append_unescaped(bytes, value))?;
            }
        }
        Ok(())
    }
}
