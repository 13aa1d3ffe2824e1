//! What was read of connections and isn't looked at yet.

use std::ops::Range;

use super::socket::ROOM;
use crate::failure::Failure;

/// What is read before it is looked at, from all connections together; it grows by as much, up to
/// what answers of 10 KB to some eight hundred clients take.
const ARENA_BYTES: usize = 256 << 10;
const ARENA_MOST_BYTES: usize = 8 << 20;
/// Buffers for incomplete frames that are kept for the next ones.
const SPARES_MAX: usize = 16;

/// What was read of a connection.
pub(crate) struct Read {
    pub(crate) connection: usize,
    /// Its place in the arena, or why there is nothing more.
    pub(crate) bytes: Result<Range<usize>, Failure>,
    pub(crate) at_ns: u64,
    /// When the last of the bytes came to this machine, where that is known.
    pub(crate) arrived_wall_ns: Option<u64>,
}

/// Memory for what was read, used again from turn to turn.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) arena: Vec<u8>,
    /// Bytes of the arena that are taken.
    pub(crate) filled: usize,
    pub(crate) reads: Vec<Read>,
    pub(crate) spares: Spares,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { arena: vec![0; ARENA_BYTES], ..Self::default() }
    }

    /// Whether there is room for one more read, made where it may be.
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

/// Buffers for frames that aren't whole, used again.
#[derive(Default)]
pub(crate) struct Spares(Vec<Vec<u8>>);

impl Spares {
    /// An empty buffer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Keeps a buffer for the next frame.
    pub(crate) fn keep(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < SPARES_MAX {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}
