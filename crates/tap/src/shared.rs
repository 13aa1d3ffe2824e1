//! What the threads of a tap have in common.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Counts that all add to.
#[derive(Debug)]
pub(crate) struct Shared {
    started: Instant,
    pub(crate) start_unix_ns: u64,
    /// Whether operations are still recorded.
    pub(crate) recording: AtomicBool,
    /// Clients that asked for something.
    pub(crate) clients: AtomicU32,
    pub(crate) operations: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// Bytes that went through, both ways.
    pub(crate) bytes: AtomicU64,
    /// Bytes that wait for the disk, and how many may.
    pub(crate) unwritten: AtomicUsize,
    pub(crate) unwritten_max: usize,
    /// Bytes of contents for which there is still room.
    pub(crate) room: AtomicUsize,
    /// Contents for which there was none.
    pub(crate) cut_contents: AtomicU64,
}

impl Shared {
    /// With so much memory for what waits for answers and for the disk.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            started: Instant::now(),
            start_unix_ns: since.as_nanos() as u64,
            recording: AtomicBool::new(true),
            clients: AtomicU32::new(0),
            operations: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            unwritten: AtomicUsize::new(0),
            unwritten_max: memory_bytes / 2,
            // A content that grows may take twice its size.
            room: AtomicUsize::new(memory_bytes / 8),
            cut_contents: AtomicU64::new(0),
        }
    }

    /// Takes room for contents; false where there isn't so much.
    pub(crate) fn take_room(&self, bytes: usize) -> bool {
        self.room.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    /// Since the beginning.
    pub(crate) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}
