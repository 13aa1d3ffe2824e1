//! The lines of a file, from which values are taken.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use kvmark_plan::{LineFile, Random};

use crate::error::WorkloadError;

/// Bytes of a line's length.
const HEAD: usize = size_of::<u32>();

/// The lines of a file in memory.
#[derive(Debug)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// The place of each line's length.
    starts: Vec<u32>,
}

impl Lines {
    /// The lines of a file, which all streams of the process share.
    pub(crate) fn open(file: &LineFile) -> Result<Arc<Self>, WorkloadError> {
        static OPEN: Mutex<BTreeMap<String, Weak<Lines>>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lines) = open.get(&file.path).and_then(Weak::upgrade) {
            return Ok(lines);
        }
        let lines = std::fs::read(&file.path).and_then(|bytes| Self::parse(bytes, file.count));
        let lines = lines.map_err(|cause| WorkloadError::Lines { path: file.path.clone(), cause });
        let lines = Arc::new(lines?);
        open.insert(file.path.clone(), Arc::downgrade(&lines));
        Ok(lines)
    }

    fn parse(bytes: Vec<u8>, count: u64) -> io::Result<Self> {
        let mut starts = Vec::new();
        let mut place = 0;
        while let Some(length) = bytes.get(place..).and_then(<[u8]>::first_chunk) {
            starts.push(u32::try_from(place).map_err(io::Error::other)?);
            place += HEAD + u32::from_le_bytes(*length) as usize;
        }
        if place != bytes.len() || starts.len() as u64 != count || count == 0 {
            return Err(io::Error::other(
                "it isn't complete; remove it, and kvmark makes it again",
            ));
        }
        Ok(Self { bytes, starts })
    }

    /// One of the lines, each equally likely.
    #[inline]
    pub(crate) fn draw(&self, random: &mut Random) -> &[u8] {
        self.line(random.below(self.starts.len() as u64))
    }

    /// The line of a number; after the last follows the first.
    #[inline]
    pub(crate) fn line(&self, number: u64) -> &[u8] {
        let number = number % self.starts.len() as u64;
        let tail = &self.bytes[self.starts[number as usize] as usize..];
        let (length, tail) = tail.split_first_chunk().expect("a length precedes each line");
        &tail[..u32::from_le_bytes(*length) as usize]
    }
}
