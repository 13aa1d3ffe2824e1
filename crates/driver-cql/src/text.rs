//! A prepared text, and the frame that executes it.

use kvmark_plan::Outcome;

use crate::failure::Failure;
use crate::frame::{self, Compression, EXECUTE, HEADER, Reader, put_short};
use crate::partitioner;
use crate::rows::Preparation;
use crate::settings::Consistency;
use kvmark_wire::cql::types::ColumnType;
use kvmark_wire::cql::{WITH_STATE, WITH_VALUES, put_part};

/// Flags of an execution.
const WITHOUT_DESCRIPTION: u8 = 0x02;
const WITH_PAGE_SIZE: u8 = 0x04;
const WITH_SERIAL: u8 = 0x10;
const WITH_TIMESTAMP: u8 = 0x20;

/// The end of the names of ScyllaDB's tables of changes, which have another partitioner.
const CHANGE_LOG: &[u8] = b"_scylla_cdc_log";

/// The terms of an execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) consistency: Consistency,
    pub(crate) serial: Consistency,
    /// In microseconds.
    pub(crate) timestamp: Option<i64>,
    pub(crate) idempotent: bool,
}

impl Terms {
    /// Ends a frame with the consistency level at `level`; `timestamp` is the client's, if enabled.
    #[inline]
    fn end(&self, output: &mut Vec<u8>, level: u32, timestamp: Option<i64>) {
        output.extend_from_slice(&(self.serial as u16).to_be_bytes());
        if let Some(timestamp) = self.timestamp.or(timestamp) {
            output[level as usize + 2] |= WITH_TIMESTAMP;
            output.extend_from_slice(&timestamp.to_be_bytes());
        }
        frame::set_length(output);
    }
}

/// The use of a text's rows.
#[derive(Debug)]
pub(crate) enum RowUse {
    /// No rows, except those of a conditional write.
    Nothing,
    /// The field of each column of a record.
    Fields(Vec<Option<u32>>),
    /// The column types of a user statement.
    Columns(Vec<ColumnType>),
}

/// A prepared text.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) cql: String,
    pub(crate) id: Vec<u8>,
    pub(crate) terms: Terms,
    pub(crate) row_use: RowUse,
    /// Types of the bind markers.
    pub(crate) markers: Vec<ColumnType>,
    /// The markers of the partition key, in its order; empty if it isn't bound completely.
    key: Vec<u16>,
    pub(crate) keyspace: Option<String>,
    pub(crate) table: Option<String>,
    /// Rows per page, if it is fetched by pages.
    page_size: Option<i32>,
    /// The frame up to the values.
    head: Vec<u8>,
}

/// The positions in a frame that change for a retry or another page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    /// The consistency level, followed by the flags.
    pub(crate) level: u32,
    /// The paging state, with its length.
    state: u32,
    state_length: u32,
    /// The values, preceded by their number.
    pub(crate) values: u32,
}

impl Text {
    pub(crate) fn new(
        cql: String,
        preparation: Preparation<'_>,
        terms: Terms,
        page_size: Option<i32>,
        row_use: RowUse,
    ) -> Self {
        let Preparation { id, mut key, markers, .. } = preparation;
        let first = markers.first();
        let name = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let keyspace = first.map(|marker| name(marker.keyspace));
        let table = first.map(|marker| name(marker.table));
        if first.is_some_and(|marker| marker.table.ends_with(CHANGE_LOG)) {
            key.clear();
        }
        let markers: Vec<_> = markers.into_iter().map(|marker| marker.typ).collect();
        let is_select = !matches!(row_use, RowUse::Nothing);
        let mut flags = WITH_VALUES | WITH_SERIAL;
        flags |= if is_select { WITHOUT_DESCRIPTION } else { 0 };
        flags |= if page_size.is_some() { WITH_PAGE_SIZE } else { 0 };
        let mut head = Vec::new();
        frame::begin(&mut head, EXECUTE);
        put_short(&mut head, id);
        head.extend_from_slice(&(terms.consistency as u16).to_be_bytes());
        head.push(flags);
        head.extend_from_slice(&(markers.len() as u16).to_be_bytes());
        let id = id.to_vec();
        Self { cql, id, terms, row_use, markers, key, keyspace, table, page_size, head }
    }

    /// Whether it returns rows, except those of a conditional write.
    #[inline]
    pub(crate) fn is_select(&self) -> bool {
        !matches!(self.row_use, RowUse::Nothing)
    }

    /// Begins the frame; values come next, then [`Text::end`].
    #[inline]
    pub(crate) fn begin(&self, output: &mut Vec<u8>) -> Places {
        output.clear();
        output.extend_from_slice(&self.head);
        let values = self.head.len() as u32;
        Places { level: values - 5, values, ..Places::default() }
    }

    /// Ends the frame after the values. `timestamp` is the client's, if enabled.
    #[inline]
    pub(crate) fn end(&self, output: &mut Vec<u8>, places: &mut Places, timestamp: Option<i64>) {
        if let Some(size) = self.page_size {
            output.extend_from_slice(&size.to_be_bytes());
        }
        places.state = output.len() as u32;
        self.terms.end(output, places.level, timestamp);
    }

    /// The token of the partition of these values.
    #[inline]
    pub(crate) fn token(&self, values: &[u8]) -> Option<i64> {
        match self.key[..] {
            [] => None,
            [index] => value(values, index).map(partitioner::token),
            _ => {
                let mut key = Vec::new();
                for index in &self.key {
                    put_part(&mut key, value(values, *index)?);
                }
                Some(partitioner::token(&key))
            }
        }
    }
}

/// A bound value.
#[inline]
fn value(values: &[u8], index: u16) -> Option<&[u8]> {
    let mut values = Reader(values);
    for _ in 0..index {
        values.bytes()?;
    }
    values.bytes()?
}

/// Changes a frame to request the page of this state.
pub(crate) fn set_page(output: &mut Vec<u8>, places: &mut Places, state: &[u8]) {
    let from = places.state as usize;
    let until = from + places.state_length as usize;
    let length = (state.len() as u32).to_be_bytes();
    output.splice(from..until, length.iter().chain(state).copied());
    places.state_length = (length.len() + state.len()) as u32;
    output[places.level as usize + 2] |= WITH_STATE;
    frame::set_length(output);
}

/// Changes the consistency level of a frame.
pub(crate) fn set_level(output: &mut [u8], places: &Places, level: Consistency) {
    let at = places.level as usize;
    output[at..at + 2].copy_from_slice(&(level as u16).to_be_bytes());
}

/// The execution of several texts in one batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// Logged, unlogged or counter, by the protocol's number.
    pub(crate) kind: u8,
    pub(crate) terms: Terms,
}

impl Batch {
    /// Begins a frame for this number of texts, followed by [`Batch::put`] for each and
    /// [`Batch::end`].
    pub(crate) fn begin(&self, output: &mut Vec<u8>, texts: usize) -> Result<(), Failure> {
        let count = u16::try_from(texts).map_err(|_| {
            let text = format!("a batch of {texts} statements: the protocol allows {}", u16::MAX);
            Failure::new(Outcome::Refused, text)
        })?;
        output.clear();
        frame::begin(output, frame::BATCH);
        output.push(self.kind);
        output.extend_from_slice(&count.to_be_bytes());
        Ok(())
    }

    /// Begins a text; its values come next.
    pub(crate) fn put(output: &mut Vec<u8>, text: &Text) {
        output.push(1);
        put_short(output, &text.id);
        output.extend_from_slice(&(text.markers.len() as u16).to_be_bytes());
    }

    pub(crate) fn end(&self, output: &mut Vec<u8>, timestamp: Option<i64>) -> Places {
        let level = output.len() as u32;
        output.extend_from_slice(&(self.terms.consistency as u16).to_be_bytes());
        output.push(WITH_SERIAL);
        self.terms.end(output, level, timestamp);
        Places { level, ..Places::default() }
    }
}

/// A frame with a compressed body.
pub(crate) fn compressed(frame: &[u8], compression: Compression) -> Result<Vec<u8>, Failure> {
    let mut packed = frame[..HEADER].to_vec();
    compression.compress(&frame[HEADER..], &mut packed)?;
    frame::set_compressed(&mut packed);
    frame::set_length(&mut packed);
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::put_long;
    use kvmark_wire::cql::types::{Column, NativeType};

    fn text(key: &[u16], table: &'static [u8]) -> Text {
        let typ = ColumnType::Native(NativeType::Text);
        let marker = Column { keyspace: b"ks", table, name: b"k", typ };
        let markers = vec![marker; 3];
        let preparation = Preparation { id: b"id", key: key.to_vec(), markers, columns: vec![] };
        let terms = Terms {
            consistency: Consistency::One,
            serial: Consistency::Serial,
            timestamp: None,
            idempotent: true,
        };
        Text::new(String::new(), preparation, terms, None, RowUse::Nothing)
    }

    #[test]
    fn the_token_is_that_of_the_bound_partition_key() {
        let mut values = Vec::new();
        [&b"a"[..], b"test", b"bc"].iter().for_each(|value| put_long(&mut values, value));
        let token = |key: &[u16], table| text(key, table).token(&values);
        assert_eq!(token(&[1], b"t"), Some(partitioner::token(b"test")));
        let composite = partitioner::token(b"\0\x02bc\0\0\x01a\0");
        assert_eq!(token(&[2, 0], b"t"), Some(composite));
        assert_eq!(token(&[], b"t"), None);
        assert_eq!(token(&[1], b"t_scylla_cdc_log"), None);
        assert_eq!(text(&[1], b"t").token(&values[..5]), None);
    }
}
