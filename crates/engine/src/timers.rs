//! A worker's timers: a heap of instants with nanosecond resolution.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::{Context, Waker};

use kvmark_driver::Time;

use crate::clock::Clock;

/// One waiting task. Entries at the same instant wake in the order they came.
#[derive(Debug)]
struct Entry {
    instant_ns: u64,
    sequence: u64,
    waker: Waker,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.instant_ns, other.sequence).cmp(&(self.instant_ns, self.sequence))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

/// The timers of one worker.
#[derive(Debug)]
pub(crate) struct Timers<C> {
    clock: C,
    heap: RefCell<BinaryHeap<Entry>>,
    sequence: Cell<u64>,
}

impl<C: Clock> Timers<C> {
    pub(crate) fn new(clock: C) -> Rc<Self> {
        Rc::new(Self { clock, heap: RefCell::default(), sequence: Cell::new(0) })
    }

    /// The earliest instant that somebody waits for.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.borrow().peek().map(|entry| entry.instant_ns)
    }

    /// Wakes every task whose instant has come; whether there was one.
    pub(crate) fn fire(&self, now_ns: u64) -> bool {
        let mut fired = false;
        loop {
            let mut heap = self.heap.borrow_mut();
            if heap.peek().is_none_or(|entry| entry.instant_ns > now_ns) {
                return fired;
            }
            let entry = heap.pop();
            drop(heap);
            if let Some(entry) = entry {
                entry.waker.wake();
            }
            fired = true;
        }
    }

    /// Wakes every task, to look again.
    pub(crate) fn fire_all(&self) {
        for entry in self.heap.take() {
            entry.waker.wake();
        }
    }

    /// Forgets everybody who waits: their phase is over.
    pub(crate) fn clear(&self) {
        self.heap.borrow_mut().clear();
    }
}

impl<C: Clock> Time for Timers<C> {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn wake_at(&self, instant_ns: u64, context: &Context<'_>) {
        let sequence = self.sequence.get();
        self.sequence.set(sequence + 1);
        let waker = context.waker().clone();
        self.heap.borrow_mut().push(Entry { instant_ns, sequence, waker });
    }
}
