//! State shared by the threads of a tap.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::cql::Statements;

/// Shared counters.
#[derive(Debug)]
pub(crate) struct Shared {
    started: Instant,
    pub(crate) start_unix_ns: u64,
    /// Whether operations are still recorded.
    pub(crate) recording: AtomicBool,
    /// Clients that sent a request.
    pub(crate) clients: AtomicU32,
    pub(crate) operations: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// Forwarded bytes in both directions.
    pub(crate) bytes: AtomicU64,
    /// Bytes that wait for the disk, and their limit.
    pub(crate) unwritten: AtomicUsize,
    pub(crate) unwritten_max: usize,
    /// Available memory for contents, in bytes.
    pub(crate) room: AtomicUsize,
    /// Contents that weren't kept.
    pub(crate) cut_contents: AtomicU64,
    /// The prepared statements of CQL.
    pub(crate) statements: Statements,
}

impl Shared {
    /// Starts with a memory limit for data that waits for replies and for the disk.
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
            // A growing buffer may take twice its size.
            room: AtomicUsize::new(memory_bytes / 8),
            cut_contents: AtomicU64::new(0),
            statements: Statements::default(),
        }
    }

    /// Reserves memory for contents; false if not enough is available.
    pub(crate) fn take_room(&self, bytes: usize) -> bool {
        self.room.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    /// Time since the start.
    pub(crate) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}
