//! What a worker writes down in a phase, and sends to the coordinator interval by interval.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use kvmark_plan::Outcome;
use kvmark_record::{Batch, Recorder, Sample};

use crate::phase::PhaseShared;
use crate::usage::ThreadUsage;

/// What a worker tells the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    /// The session is open, or why not.
    Opened { result: Result<(), kvmark_driver::OpenError> },
    /// Whether every probed key was there.
    Probed { present: bool },
    /// One interval's records. Nothing earlier than `through` will follow.
    Interval { worker: usize, page: Page, through: Option<u32> },
    /// The worker's part of the phase is over.
    Finished(Finished),
    /// The worker's thread panicked.
    Panicked { worker: usize, message: String },
}

/// The records of one worker and interval.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) interval: u32,
    pub(crate) drain: bool,
    pub(crate) batch: Batch,
    /// Issued and completed since the phase began, by group of the plan.
    pub(crate) counts: Vec<Counts>,
}

/// Operations of one group on one worker since the phase began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) issued: u64,
    pub(crate) completed: u64,
}

/// A worker's account of a phase.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) worker: usize,
    pub(crate) counts: Vec<Counts>,
    pub(crate) last_completed_ns: u64,
    pub(crate) idle_spin_ns: u64,
    pub(crate) usage: ThreadUsage,
    pub(crate) failures: BTreeMap<Outcome, String>,
}

/// A worker's open book during a phase.
#[derive(Debug)]
pub(crate) struct Ledger<'a> {
    phase: &'a PhaseShared,
    recorder: RefCell<&'a mut Recorder>,
    interval: Cell<u32>,
    drain: Cell<bool>,
    boundary_ns: Cell<u64>,
    issued: Vec<Cell<u64>>,
    completed: Vec<Cell<u64>>,
    last_completed_ns: Cell<u64>,
    failures: RefCell<BTreeMap<Outcome, String>>,
    outlet: Outlet<'a>,
}

/// Where a worker's reports and live count go, and where the memory of its pages comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlet<'a> {
    pub(crate) worker: usize,
    pub(crate) live: &'a AtomicU64,
    pub(crate) reports: &'a Sender<Report>,
    pub(crate) used: &'a Receiver<Batch>,
}

impl<'a> Ledger<'a> {
    pub(crate) fn open(
        phase: &'a PhaseShared,
        groups: usize,
        recorder: &'a mut Recorder,
        outlet: Outlet<'a>,
    ) -> Self {
        let boundary_ns = (phase.start_ns + phase.interval_ns).min(phase.end_ns());
        outlet.live.store(0, Ordering::Relaxed);
        Self {
            phase,
            recorder: RefCell::new(recorder),
            interval: Cell::new(0),
            drain: Cell::new(false),
            boundary_ns: Cell::new(boundary_ns),
            issued: vec![Cell::new(0); groups],
            completed: vec![Cell::new(0); groups],
            last_completed_ns: Cell::new(phase.start_ns),
            failures: RefCell::default(),
            outlet,
        }
    }

    /// The next instant at which an interval ends.
    #[inline]
    pub(crate) fn boundary_ns(&self) -> u64 {
        if self.drain.get() { u64::MAX } else { self.boundary_ns.get().min(self.phase.end_ns()) }
    }

    #[inline]
    pub(crate) fn issue(&self, group: usize) {
        let issued = &self.issued[group];
        issued.set(issued.get() + 1);
    }

    /// Writes down an operation that counts.
    #[inline]
    pub(crate) fn complete(&self, group: usize, sample: &Sample) {
        self.record(group, sample);
        let completed = &self.completed[group];
        completed.set(completed.get() + 1);
        self.last_completed_ns.set(sample.completed_ns);
        // One writer per counter, so that a plain load and store are enough.
        let live = self.outlet.live;
        live.store(live.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Writes down an operation or a part of one.
    #[inline]
    pub(crate) fn record(&self, group: usize, sample: &Sample) {
        if sample.completed_ns >= self.boundary_ns() {
            self.turn_page(sample.completed_ns);
        }
        self.recorder.borrow_mut().record(group, sample);
    }

    /// Sends what was written so far when an interval has ended.
    #[inline]
    pub(crate) fn tick(&self, now_ns: u64) {
        if now_ns >= self.boundary_ns() {
            self.turn_page(now_ns);
        }
    }

    /// Keeps the first account of each class of failure.
    #[cold]
    pub(crate) fn note_failure(&self, outcome: Outcome, message: Option<String>) {
        let mut failures = self.failures.borrow_mut();
        failures.entry(outcome).or_insert_with(|| message.unwrap_or_default());
    }

    #[cold]
    fn turn_page(&self, now_ns: u64) {
        let end_ns = self.phase.end_ns();
        let page = self.page();
        self.drain.set(now_ns >= end_ns);
        let elapsed = (now_ns.min(end_ns) - self.phase.start_ns) / self.phase.interval_ns;
        let interval = u32::try_from(elapsed).unwrap_or(u32::MAX).max(page.interval);
        self.interval.set(interval);
        let next_ns = self.phase.start_ns + (u64::from(interval) + 1) * self.phase.interval_ns;
        self.boundary_ns.set(next_ns);
        let through = (!self.drain.get()).then_some(interval);
        self.send(Report::Interval { worker: self.outlet.worker, page, through });
    }

    fn page(&self) -> Page {
        let mut recorder = self.recorder.borrow_mut();
        self.outlet.used.try_iter().for_each(|batch| recorder.recycle(batch));
        Page {
            interval: self.interval.get(),
            drain: self.drain.get(),
            batch: recorder.take(),
            counts: self.counts(),
        }
    }

    fn counts(&self) -> Vec<Counts> {
        let pairs = self.issued.iter().zip(&self.completed);
        pairs.map(|(issued, done)| Counts { issued: issued.get(), completed: done.get() }).collect()
    }

    fn send(&self, report: Report) {
        // The coordinator hangs up only when it has given the run up.
        drop(self.outlet.reports.send(report));
    }

    /// Sends the last page and the worker's account.
    pub(crate) fn close(&self, usage: ThreadUsage, idle_spin_ns: u64) {
        let page = self.page();
        self.send(Report::Interval { worker: self.outlet.worker, page, through: None });
        self.send(Report::Finished(Finished {
            worker: self.outlet.worker,
            counts: self.counts(),
            last_completed_ns: self.last_completed_ns.get(),
            idle_spin_ns,
            usage,
            failures: self.failures.take(),
        }));
    }
}
