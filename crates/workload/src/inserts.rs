//! The sequence of insert ordinals, and the frontier of complete inserts.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError, RwLock};

use kvmark_plan::Share;

use crate::ranges::RangeSet;

/// Number of inserts after the oldest open one that can end without a lock.
const WINDOW: u64 = 1 << 20;

/// A value aligned to two cache lines, because processors fetch lines in pairs:
/// keeps data that one thread writes off the lines of other threads' data.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

/// Assigns an ordinal to each insert of a run and tracks which inserts have ended.
///
/// All ordinals below the frontier have ended; readers choose below it. As in YCSB, a slow insert
/// stops the frontier. A failed insert doesn't, and is never chosen. Shared by all workers.
/// Assigning, ending and reading take no lock unless an insert stays open during a million others,
/// or inserts fail.
#[derive(Debug)]
pub struct InsertSequence {
    /// First ordinal after the existing records.
    start: u64,
    share: Share,
    /// Number of this share's inserts until the dataset is full.
    limit: u64,
    /// Position of the next ordinal in this share, from 0.
    next: CachePadded<AtomicU64>,
    /// Position of the oldest insert that hasn't ended.
    open: CachePadded<AtomicU64>,
    /// Whether a thread is moving `open`.
    moving: CachePadded<AtomicBool>,
    /// One bit per position from `open` to `open + WINDOW`, in a ring: whether it ended.
    ended: Box<[AtomicU64]>,
    /// Positions that ended beyond the window, and how many there are.
    beyond: Mutex<RangeSet>,
    beyond_count: AtomicU64,
    /// Positions that failed, and how many there are.
    failed: RwLock<RangeSet>,
    failed_count: AtomicU64,
}

impl InsertSequence {
    /// A sequence that starts at `start` over all shares. This share gets `start + index`, then
    /// `start + index + of`, and so on.
    #[must_use]
    pub fn new(start: u64, share: Share) -> Self {
        let words = WINDOW / u64::from(u64::BITS);
        Self {
            start,
            share,
            limit: u64::MAX,
            next: CachePadded::default(),
            open: CachePadded::default(),
            moving: CachePadded::default(),
            ended: (0..words).map(|_| AtomicU64::new(0)).collect(),
            beyond: Mutex::default(),
            beyond_count: AtomicU64::new(0),
            failed: RwLock::default(),
            failed_count: AtomicU64::new(0),
        }
    }

    /// The same sequence, but [`Self::take`] returns no ordinal from `end` on.
    #[must_use]
    pub fn ending_at(mut self, end: Option<u64>) -> Self {
        let first = self.start + u64::from(self.share.index);
        let left = |end: u64| end.saturating_sub(first).div_ceil(u64::from(self.share.of));
        self.limit = end.map_or(u64::MAX, left);
        self
    }

    /// Whether the dataset is full.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.limit != u64::MAX && self.next.0.load(Relaxed) >= self.limit
    }

    /// The ordinal of the next insert, which must end with [`Self::acknowledge`] or [`Self::fail`];
    /// `None` when the dataset is full.
    #[inline]
    pub fn take(&self) -> Option<u64> {
        if self.is_full() {
            return None;
        }
        let position = self.next.0.fetch_add(1, Relaxed);
        (position < self.limit).then(|| self.ordinal(position))
    }

    #[inline]
    fn ordinal(&self, position: u64) -> u64 {
        self.start + u64::from(self.share.index) + position * u64::from(self.share.of)
    }

    /// Ends a successful insert.
    #[inline]
    pub fn acknowledge(&self, ordinal: u64) {
        self.end(self.position(ordinal));
    }

    /// Ends an insert whose record is missing, or may be missing.
    pub fn fail(&self, ordinal: u64) {
        let position = self.position(ordinal);
        let mut failed = self.failed.write().unwrap_or_else(PoisonError::into_inner);
        failed.insert(position);
        // Before the end, so that a thread that sees the frontier past the position sees the
        // failure.
        self.failed_count.fetch_add(1, SeqCst);
        drop(failed);
        self.end(position);
    }

    /// The exclusive end of the ordinals that have ended: all of this share, and those of other
    /// shares before the run's start.
    #[inline]
    #[must_use]
    pub fn frontier(&self) -> u64 {
        match self.open.0.load(SeqCst).checked_sub(1) {
            None => self.start,
            Some(last) => {
                let last = last * u64::from(self.share.of);
                self.start + u64::from(self.share.index) + last + 1
            }
        }
    }

    /// Whether a record can be chosen: it existed before the run, or it belongs to this share, is
    /// below the frontier and didn't fail.
    #[inline]
    #[must_use]
    pub fn is_available(&self, ordinal: u64) -> bool {
        self.was_available(ordinal, self.frontier())
    }

    /// [`Self::is_available`] at a given frontier. All failures below a frontier are known when it
    /// gets there, so the result never changes.
    #[inline]
    pub(crate) fn was_available(&self, ordinal: u64, frontier: u64) -> bool {
        ordinal < self.start || self.was_inserted(ordinal, frontier)
    }

    /// Not inlined, to keep reads of loaded records short.
    #[inline(never)]
    fn was_inserted(&self, ordinal: u64, frontier: u64) -> bool {
        ordinal < frontier && self.is_of_share(ordinal) && !self.has_failed(ordinal)
    }

    #[inline]
    fn is_of_share(&self, ordinal: u64) -> bool {
        let Share { index, of } = self.share;
        of == 1 || (ordinal - self.start) % u64::from(of) == u64::from(index)
    }

    #[inline]
    fn has_failed(&self, ordinal: u64) -> bool {
        self.failed_count.load(SeqCst) > 0 && {
            let failed = self.failed.read().unwrap_or_else(PoisonError::into_inner);
            failed.contains(self.position(ordinal))
        }
    }

    #[inline]
    fn position(&self, ordinal: u64) -> u64 {
        let distance = ordinal - self.start - u64::from(self.share.index);
        if self.share.of == 1 { distance } else { distance / u64::from(self.share.of) }
    }

    #[inline]
    fn end(&self, position: u64) {
        if position >= self.open.0.load(SeqCst) + WINDOW && self.end_beyond(position) {
            return;
        }
        let (word, bit) = self.place(position);
        word.fetch_or(1 << bit, SeqCst);
        self.advance();
    }

    /// Stores an end for later; false if the window has reached it since.
    #[cold]
    fn end_beyond(&self, position: u64) -> bool {
        let mut beyond = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        // Counted before the window is read, while the other side moves the window before it reads
        // the count: one of both sees the other.
        self.beyond_count.fetch_add(1, SeqCst);
        if position < self.open.0.load(SeqCst) + WINDOW {
            self.beyond_count.fetch_sub(1, SeqCst);
            return false;
        }
        beyond.insert(position);
        true
    }

    /// The word and the bit of a position in the ring.
    #[inline]
    fn place(&self, position: u64) -> (&AtomicU64, u32) {
        let place = position % WINDOW;
        let word = &self.ended[(place / u64::from(u64::BITS)) as usize];
        (word, (place % u64::from(u64::BITS)) as u32)
    }

    /// Whether the oldest open insert has ended.
    #[inline]
    fn can_advance(&self) -> bool {
        let (word, bit) = self.place(self.open.0.load(SeqCst));
        word.load(SeqCst) >> bit & 1 == 1
    }

    /// Moves the frontier past ended inserts, unless another thread does. That thread checks again
    /// after it stops, so no end is missed.
    #[inline]
    fn advance(&self) {
        while self.can_advance() {
            if self.moving.0.swap(true, SeqCst) {
                return;
            }
            while self.can_advance() {
                self.step();
            }
            self.moving.0.store(false, SeqCst);
        }
    }

    /// Moves the frontier over the ended positions of one word. Only while `moving` is held.
    fn step(&self) {
        let open = self.open.0.load(SeqCst);
        let (word, bit) = self.place(open);
        let run = (word.load(SeqCst) >> bit).trailing_ones();
        let mask = u64::MAX.checked_shr(u64::BITS - run).unwrap_or(0) << bit;
        // Cleared before the frontier moves: from then on the bits belong to later positions.
        word.fetch_and(!mask, SeqCst);
        self.open.0.store(open + u64::from(run), SeqCst);
        if self.beyond_count.load(SeqCst) > 0 {
            self.take_from_beyond(open + u64::from(run) + WINDOW);
        }
    }

    /// Marks stored ends that the window has reached.
    #[cold]
    fn take_from_beyond(&self, limit: u64) {
        let mut beyond = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(position) = beyond.pop_below(limit) {
            self.beyond_count.fetch_sub(1, SeqCst);
            let (word, bit) = self.place(position);
            word.fetch_or(1 << bit, SeqCst);
        }
    }
}
