//! Records into blocks, and blocks into anything that takes bytes.

use std::io::{self, Write};

use super::record::{RECORD_BYTES, Record};
use super::{HEAP_MAX, MAGIC, RECORDS_MAX};

/// A block that is being filled; its memory is used again for the next.
#[derive(Debug, Default)]
pub struct BlockWriter {
    records: Vec<u8>,
    heap: Vec<u8>,
    first_at_ns: u64,
    last_at_ns: u64,
    /// Records in the blocks before.
    before: u64,
}

impl BlockWriter {
    /// Records in the block.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.records.len() / RECORD_BYTES
    }

    /// Whether nothing is in it.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether an operation with this number of records and stored bytes fits, because it must be
    /// in one block.
    #[must_use]
    #[inline]
    pub fn fits(&self, records: usize, heap: usize) -> bool {
        self.len() + records <= RECORDS_MAX && self.heap.len() + heap <= HEAP_MAX
    }

    /// One more record, with its key and its value where they are kept.
    ///
    /// Sets `record.heap` and the flags of stored keys and values. The record has their sizes.
    #[inline]
    pub fn push(&mut self, record: &Record, key: Option<&[u8]>, value: Option<&[u8]>) {
        let heap = u32::try_from(self.heap.len()).unwrap_or(u32::MAX);
        if self.is_empty() {
            self.first_at_ns = record.at_ns;
        }
        self.last_at_ns = self.last_at_ns.max(record.at_ns);
        let mut flags = record.flags & !(Record::KEY_KEPT | Record::VALUE_KEPT);
        flags |= if key.is_some() { Record::KEY_KEPT } else { 0 };
        flags |= if value.is_some() { Record::VALUE_KEPT } else { 0 };
        self.records.extend_from_slice(&Record { heap, flags, ..*record }.bytes());
        self.heap.extend_from_slice(key.unwrap_or_default());
        self.heap.extend_from_slice(value.unwrap_or_default());
    }

    /// Bytes of its stored keys and values.
    #[must_use]
    #[inline]
    pub fn heap_len(&self) -> usize {
        self.heap.len()
    }

    /// Writes the block in one piece, if anything is in it, and begins the next.
    ///
    /// # Errors
    ///
    /// It can't be written.
    pub fn finish(&mut self, into: &mut impl Write) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let records = self.len();
        let mut head = [0; RECORD_BYTES];
        head[..8].copy_from_slice(MAGIC);
        // Both are within their bounds, which fit 32 bits.
        head[8..12].copy_from_slice(&(records as u32).to_le_bytes());
        head[12..16].copy_from_slice(&(self.heap.len() as u32).to_le_bytes());
        head[16..24].copy_from_slice(&self.first_at_ns.to_le_bytes());
        head[24..32].copy_from_slice(&self.last_at_ns.to_le_bytes());
        head[32..40].copy_from_slice(&self.before.to_le_bytes());
        into.write_all(&head)?;
        into.write_all(&self.records)?;
        into.write_all(&self.heap)?;
        self.before += records as u64;
        self.records.clear();
        self.heap.clear();
        self.last_at_ns = 0;
        Ok(())
    }
}
