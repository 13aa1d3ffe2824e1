//! Bytes that were read and aren't processed yet.

use std::ops::Range;

use super::socket::ROOM;
use crate::failure::Failure;

/// Size of the shared read buffer, and its increment, up to about 800 replies of 10 KB.
const ARENA_BYTES: usize = 256 << 10;
const ARENA_MOST_BYTES: usize = 8 << 20;

/// The result of one read.
pub(crate) struct Read {
    pub(crate) connection: usize,
    /// Its range in the arena, or why the connection ended.
    pub(crate) bytes: Result<Range<usize>, Failure>,
    pub(crate) at_ns: u64,
    /// Arrival of the last byte, if known.
    pub(crate) arrived_wall_ns: Option<u64>,
}

/// The read buffer, reused by all polls.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) arena: Vec<u8>,
    /// Used bytes of the arena.
    pub(crate) filled: usize,
    pub(crate) reads: Vec<Read>,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { arena: vec![0; ARENA_BYTES], ..Self::default() }
    }

    /// Whether the arena has room for a read; it grows if possible.
    #[inline]
    pub(crate) fn has_room(&mut self) -> bool {
        if self.arena.len() - self.filled < ROOM {
            if self.arena.len() >= ARENA_MOST_BYTES {
                return false;
            }
            self.arena.resize(self.arena.len() + ARENA_BYTES, 0);
        }
        true
    }
}
