//! Reads a tape from its file, block by block. The bytes are untrusted.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

use super::record::{RECORD_BYTES, Record, at};
use super::{HEAP_MAX, MAGIC, RECORDS_MAX};

/// Errors of reading a tape.
#[derive(Debug, Error)]
pub enum TapeError {
    /// The operating system failed to read.
    #[error("it can't be read: {0}")]
    Io(#[from] io::Error),
    /// The bytes are no block.
    #[error("it is damaged at byte {at}: {what}")]
    Damaged {
        /// Where the block begins.
        at: u64,
        /// What is wrong there.
        what: &'static str,
    },
}

/// A tape that is open. A clone reads on its own, from the same place on.
#[derive(Clone, Debug)]
pub struct TapeReader {
    file: Arc<File>,
    /// Where the next block begins.
    at: u64,
}

/// The header of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockHeader {
    /// Records in the block.
    pub records: usize,
    /// Bytes of the stored keys and values.
    pub heap: usize,
    /// `at_ns` of the first record.
    pub first_at_ns: u64,
    /// The largest `at_ns`.
    pub last_at_ns: u64,
    /// Records in the blocks before.
    pub before: u64,
}

/// A block's records, and their stored keys and values. The memory is reused.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    records: usize,
}

impl TapeReader {
    /// Opens a file; whether it holds blocks is seen when they are read.
    ///
    /// # Errors
    ///
    /// It can't be opened.
    pub fn open(path: &Path) -> Result<Self, TapeError> {
        Ok(Self { file: Arc::new(File::open(path)?), at: 0 })
    }

    /// Goes back to the first block.
    pub fn rewind(&mut self) {
        self.at = 0;
    }

    /// Where the next block begins.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.at
    }

    /// Passes over the next block; none when there is none that is whole.
    ///
    /// # Errors
    ///
    /// As [`Self::next_block`].
    pub fn skip_block(&mut self) -> Result<Option<BlockHeader>, TapeError> {
        let Some(head) = self.head()? else { return Ok(None) };
        self.at += RECORD_BYTES as u64 + head.bytes() as u64;
        Ok(Some(head))
    }

    /// Reads the next block; false without a complete one, because the writer may have been killed.
    ///
    /// # Errors
    ///
    /// It can't be read, or isn't a block.
    pub fn next_block(&mut self, into: &mut Block) -> Result<bool, TapeError> {
        let Some(head) = self.head()? else { return Ok(false) };
        into.records = 0;
        let from = self.at + RECORD_BYTES as u64;
        // Checked before allocating, because the length is untrusted.
        if self.file.metadata()?.len() < from + head.bytes() as u64 {
            return Ok(false);
        }
        into.bytes.resize(head.bytes(), 0);
        match self.file.read_exact_at(&mut into.bytes, from) {
            Ok(()) => {}
            Err(problem) if problem.kind() == ErrorKind::UnexpectedEof => return Ok(false),
            Err(problem) => return Err(problem.into()),
        }
        into.records = head.records;
        self.at = from + head.bytes() as u64;
        Ok(true)
    }

    fn head(&self) -> Result<Option<BlockHeader>, TapeError> {
        let mut bytes = [0; RECORD_BYTES];
        match self.file.read_exact_at(&mut bytes, self.at) {
            Ok(()) => {}
            Err(problem) if problem.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(problem) => return Err(problem.into()),
        }
        let damaged = |what| Err(TapeError::Damaged { at: self.at, what });
        if bytes[..8] != MAGIC[..] {
            return damaged("no block begins there");
        }
        let (records, heap) = (
            u32::from_le_bytes(at(&bytes, 8)) as usize,
            u32::from_le_bytes(at(&bytes, 12)) as usize,
        );
        if records > RECORDS_MAX || heap > HEAP_MAX {
            return damaged("a block is longer than any can be");
        }
        let head = BlockHeader {
            records,
            heap,
            first_at_ns: u64::from_le_bytes(at(&bytes, 16)),
            last_at_ns: u64::from_le_bytes(at(&bytes, 24)),
            before: u64::from_le_bytes(at(&bytes, 32)),
        };
        Ok(Some(head))
    }
}

impl BlockHeader {
    /// Bytes behind the head.
    fn bytes(&self) -> usize {
        self.records * RECORD_BYTES + self.heap
    }
}

impl Block {
    /// Records of it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// One of its records; none beyond them.
    #[must_use]
    #[inline]
    pub fn record(&self, index: usize) -> Option<Record> {
        self.bytes_of(index).map(Record::read)
    }

    /// When one of its records was sent; none beyond them.
    #[must_use]
    #[inline]
    pub fn at_ns(&self, index: usize) -> Option<u64> {
        self.bytes_of(index).map(|bytes| u64::from_le_bytes(at(bytes, 0)))
    }

    #[inline]
    fn bytes_of(&self, index: usize) -> Option<&[u8; RECORD_BYTES]> {
        if index >= self.records {
            return None;
        }
        self.bytes[index * RECORD_BYTES..].first_chunk()
    }

    /// A record's key, where it was kept.
    #[must_use]
    pub fn key(&self, record: &Record) -> Option<&[u8]> {
        let kept = record.flags & Record::KEY_KEPT != 0;
        kept.then(|| self.kept(record.heap as usize, record.key_size as usize))
    }

    /// A record's value, where it was kept.
    #[must_use]
    pub fn value(&self, record: &Record) -> Option<&[u8]> {
        let before = self.key(record).map_or(0, <[u8]>::len);
        let kept = record.flags & Record::VALUE_KEPT != 0 && record.value_size != Record::UNKNOWN;
        kept.then(|| self.kept(record.heap as usize + before, record.value_size as usize))
    }

    /// Bytes of the heap; none of those that aren't all there.
    fn kept(&self, from: usize, size: usize) -> &[u8] {
        let heap = &self.bytes[self.records * RECORD_BYTES..];
        heap.get(from..from.saturating_add(size)).unwrap_or_default()
    }
}
