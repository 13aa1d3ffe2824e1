//! What a worker writes down in a stretch, and sends to the coordinator interval by interval.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use kvmark_plan::Outcome;
use kvmark_record::{Batch, Names, Recorder, Sample};

use crate::log::Pen;
use crate::phase::{Leg, Stretch};
use crate::pulse::Pulse;
use crate::usage::ThreadUsage;

/// What a worker tells the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    /// The session is open, or why not.
    Opened { result: Result<(), kvmark_driver::OpenError> },
    /// What became of the probed keys.
    Probed(Probed),
    /// One interval's records. Nothing earlier than `through` will follow, but for the drain.
    Interval { worker: usize, page: Page, through: Option<Position> },
    /// The worker's part of the stretch is over.
    Finished(Finished),
    /// The worker's thread panicked.
    Panicked { worker: usize, message: String },
}

/// What became of records that were looked for.
#[derive(Debug)]
pub(crate) enum Probed {
    /// All are there.
    Present,
    /// One isn't, or couldn't be read.
    Missing,
    /// One is, and isn't what it must be like.
    Unlike,
    /// The system didn't answer; the servers that owe an answer.
    Silent { awaited: Vec<String> },
}

/// A phase of a stretch, and the number of an interval of it.
pub(crate) type Position = (usize, u32);

/// The records of one worker and interval.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) place: Position,
    pub(crate) drain: bool,
    pub(crate) batch: Batch,
    /// Issued and completed since the stretch began, by phase, then by group of the plan; nothing
    /// with operations that were carried into the next phase.
    pub(crate) counts: Vec<Vec<Counts>>,
}

/// Operations of one group and phase on one worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) issued: u64,
    pub(crate) completed: u64,
    /// Answers that were read after the limit on service time, and may have come in time.
    pub(crate) read_late: u64,
}

/// A worker's account of a stretch.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) worker: usize,
    /// By phase.
    pub(crate) legs: Vec<FinishedLeg>,
    /// Servers that owed it an answer when the system didn't answer any more.
    pub(crate) awaited: Vec<String>,
}

/// A worker's account of a phase.
#[derive(Debug)]
pub(crate) struct FinishedLeg {
    /// By group of the plan.
    pub(crate) counts: Vec<Counts>,
    pub(crate) last_completed_ns: u64,
    pub(crate) spent: Spent,
    pub(crate) failures: BTreeMap<Outcome, String>,
}

/// What a worker's thread used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) usage: ThreadUsage,
    pub(crate) idle_spin_ns: u64,
}

/// A worker's open book during a stretch.
#[derive(Debug)]
pub(crate) struct Ledger<'a> {
    stretch: &'a Stretch,
    recorder: RefCell<&'a mut Recorder>,
    /// Operations that were to begin in a phase that is over.
    carried: RefCell<Recorder>,
    leg: Cell<usize>,
    interval: Cell<u32>,
    drain: Cell<bool>,
    boundary_ns: Cell<u64>,
    legs: Vec<OpenLeg>,
    /// What the thread had used when the phase began.
    before: Cell<Spent>,
    /// Pages that were sent and whose memory hasn't come back.
    pages_under_way: Cell<usize>,
    outlet: Outlet<'a>,
}

/// What is counted of one phase.
#[derive(Debug)]
struct OpenLeg {
    /// By group of the plan.
    issued: Vec<Cell<u64>>,
    completed: Vec<Cell<u64>>,
    read_late: Vec<Cell<u64>>,
    last_completed_ns: Cell<u64>,
    spent: Cell<Option<Spent>>,
    failures: RefCell<BTreeMap<Outcome, String>>,
}

/// How far a worker may be ahead of the coordinator before it waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Pages that it sent and that didn't come back.
    pages: usize,
    /// How long it waits for one; none for as long as it takes.
    patience: Option<Duration>,
}

impl Ahead {
    /// In simulated time, where nothing that is measured changes while a worker waits.
    pub(crate) const SIMULATED: Self = Self { pages: 8, patience: None };
    /// Pages of all workers together.
    const PAGES_MAX: usize = 128;

    /// Of each of so many workers in real time. Where there are more of them than processors, they
    /// leave one to a coordinator that is behind; one that hangs, because whoever it tells of the
    /// run does, holds no operations up for long.
    pub(crate) fn of_each(workers: u32) -> Self {
        let pages = (Self::PAGES_MAX / workers.max(1) as usize).max(2);
        Self { pages, patience: Some(Duration::from_millis(20)) }
    }
}

/// Where a worker's reports and its pulse go, and where the memory of its pages comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outlet<'a> {
    pub(crate) worker: usize,
    pub(crate) pulse: &'a Pulse,
    pub(crate) reports: &'a Sender<Report>,
    pub(crate) used: &'a Receiver<Batch>,
    pub(crate) ahead: Ahead,
    /// Time that the worker polled away so far.
    pub(crate) idle_spin_ns: &'a Cell<u64>,
    /// Where operations are logged, if they are.
    pub(crate) pen: Option<&'a Pen>,
}

impl Outlet<'_> {
    fn spent(&self) -> Spent {
        Spent { usage: ThreadUsage::now(), idle_spin_ns: self.idle_spin_ns.get() }
    }
}

impl<'a> Ledger<'a> {
    pub(crate) fn open(
        stretch: &'a Stretch,
        names: &Names,
        recorder: &'a mut Recorder,
        outlet: Outlet<'a>,
    ) -> Self {
        outlet.pulse.restart_count();
        let counters = || vec![Cell::new(0); names.groups.len()];
        let open = |leg: &Leg| OpenLeg {
            issued: counters(),
            completed: counters(),
            read_late: counters(),
            last_completed_ns: Cell::new(leg.start_ns),
            spent: Cell::new(None),
            failures: RefCell::default(),
        };
        let ledger = Self {
            stretch,
            recorder: RefCell::new(recorder),
            carried: RefCell::new(Recorder::new(names)),
            leg: Cell::new(0),
            interval: Cell::new(0),
            drain: Cell::new(false),
            boundary_ns: Cell::new(0),
            legs: stretch.legs.iter().map(open).collect(),
            before: Cell::new(outlet.spent()),
            pages_under_way: Cell::new(0),
            outlet,
        };
        ledger.set_boundary();
        ledger
    }

    /// The next instant at which an interval ends.
    #[inline]
    pub(crate) fn boundary_ns(&self) -> u64 {
        if self.drain.get() { u64::MAX } else { self.boundary_ns.get().min(self.stretch.end_ns()) }
    }

    #[inline]
    pub(crate) fn issue(&self, leg: usize, group: usize) {
        let issued = &self.legs[leg].issued[group];
        issued.set(issued.get() + 1);
    }

    /// Counts an answer that was read late.
    #[cold]
    pub(crate) fn note_read_late(&self, leg: usize, group: usize) {
        let counted = &self.legs[leg].read_late[group];
        counted.set(counted.get() + 1);
    }

    /// Writes down an operation that counts.
    #[inline]
    pub(crate) fn complete(&self, leg: usize, group: usize, sample: &Sample) {
        self.record(leg, group, sample);
        let counted = &self.legs[leg];
        let completed = &counted.completed[group];
        completed.set(completed.get() + 1);
        counted.last_completed_ns.set(sample.completed_ns);
        self.outlet.pulse.complete();
    }

    /// Writes down an operation or a part of one that was to begin in a phase.
    #[inline]
    pub(crate) fn record(&self, leg: usize, group: usize, sample: &Sample) {
        if sample.completed_ns >= self.boundary_ns() {
            self.turn_page(sample.completed_ns);
        }
        if leg == self.leg.get() {
            self.recorder.borrow_mut().record(group, sample);
        } else {
            self.carry(group, sample);
        }
    }

    /// Writes down a sampled read by its lag; none for one that is left out.
    pub(crate) fn lag(&self, read_ns: u64, lag_ns: Option<u64>) {
        self.tick(read_ns);
        self.recorder.borrow_mut().record_lag(lag_ns);
    }

    /// Its times belong to the phase in which it was to begin, its end to that in which it ended.
    #[cold]
    fn carry(&self, group: usize, sample: &Sample) {
        self.carried.borrow_mut().record(group, sample);
        self.recorder.borrow_mut().carry(group, sample);
    }

    /// Sends what was written so far when an interval has ended.
    #[inline]
    pub(crate) fn tick(&self, now_ns: u64) {
        if now_ns >= self.boundary_ns() {
            self.turn_page(now_ns);
        }
    }

    /// Where it is told whether the system answers.
    pub(crate) fn pulse(&self) -> &'a Pulse {
        self.outlet.pulse
    }

    /// Where operations are logged, if they are.
    pub(crate) fn pen(&self) -> Option<&Pen> {
        self.outlet.pen
    }

    /// Keeps the first account of each class of failure.
    #[cold]
    pub(crate) fn note_failure(&self, leg: usize, outcome: Outcome, message: Option<&str>) {
        let mut failures = self.legs[leg].failures.borrow_mut();
        failures.entry(outcome).or_insert_with(|| message.unwrap_or_default().to_owned());
    }

    #[cold]
    fn turn_page(&self, now_ns: u64) {
        let page = self.page();
        let end_ns = self.stretch.end_ns();
        while now_ns >= self.stretch.leg_end_ns(self.leg.get())
            && self.leg.get() + 1 < self.legs.len()
            && self.stretch.reaches(self.leg.get() + 1)
        {
            self.end_leg();
            self.leg.set(self.leg.get() + 1);
            self.interval.set(0);
            self.outlet.pulse.restart_count();
        }
        self.drain.set(now_ns >= end_ns);
        let start_ns = self.stretch.legs[self.leg.get()].start_ns;
        let elapsed = now_ns.min(end_ns).saturating_sub(start_ns) / self.stretch.interval_ns;
        let interval = u32::try_from(elapsed).unwrap_or(u32::MAX).max(self.interval.get());
        self.interval.set(interval);
        self.set_boundary();
        let through = (!self.drain.get()).then_some((self.leg.get(), interval));
        self.send(Report::Interval { worker: self.outlet.worker, page, through });
    }

    fn set_boundary(&self) {
        let (leg, interval) = (self.leg.get(), self.interval.get());
        let length_ns = (u64::from(interval) + 1) * self.stretch.interval_ns;
        let next_ns = self.stretch.legs[leg].start_ns + length_ns;
        self.boundary_ns.set(next_ns.min(self.stretch.leg_end_ns(leg)));
    }

    fn end_leg(&self) {
        let (before, now) = (self.before.get(), self.outlet.spent());
        self.before.set(now);
        self.legs[self.leg.get()].spent.set(Some(Spent {
            usage: now.usage.since(before.usage),
            idle_spin_ns: now.idle_spin_ns - before.idle_spin_ns,
        }));
    }

    fn page(&self) -> Page {
        let mut recorder = self.recorder.borrow_mut();
        self.take_back(&mut recorder);
        Page {
            place: (self.leg.get(), self.interval.get()),
            drain: self.drain.get(),
            batch: recorder.take(),
            counts: self.legs.iter().map(OpenLeg::counts).collect(),
        }
    }

    /// Takes the memory of pages back before another one is sent.
    fn take_back(&self, recorder: &mut Recorder) {
        let Outlet { used, ahead, .. } = self.outlet;
        let mut under_way = self.pages_under_way.get();
        for batch in used.try_iter() {
            recorder.recycle(batch);
            // Some may be of the stretch before.
            under_way = under_way.saturating_sub(1);
        }
        while under_way >= ahead.pages {
            let back = match ahead.patience {
                Some(patience) => used.recv_timeout(patience).ok(),
                None => used.recv().ok(),
            };
            // A coordinator that hangs, or has given the run up, gives nothing back.
            let Some(batch) = back else { break };
            recorder.recycle(batch);
            under_way -= 1;
        }
        self.pages_under_way.set(under_way + 1);
    }

    fn send(&self, report: Report) {
        if let Some(pen) = self.outlet.pen {
            pen.hand_over();
        }
        // The coordinator hangs up only when it has given the run up.
        drop(self.outlet.reports.send(report));
    }

    /// Sends the last pages and the worker's account, with the servers that owe an answer.
    pub(crate) fn close(&self, awaited: Vec<String>) {
        let (worker, page) = (self.outlet.worker, self.page());
        let batch = self.carried.borrow_mut().take();
        if !batch.is_empty() {
            let carried = Page { place: (0, 0), drain: true, batch, counts: Vec::new() };
            let through = Some(page.place);
            self.send(Report::Interval { worker, page: carried, through });
        }
        self.send(Report::Interval { worker, page, through: None });
        self.end_leg();
        let legs = self.legs.iter().map(OpenLeg::finished).collect();
        self.send(Report::Finished(Finished { worker, legs, awaited }));
    }
}

impl OpenLeg {
    fn counts(&self) -> Vec<Counts> {
        let counts = |group: usize| Counts {
            issued: self.issued[group].get(),
            completed: self.completed[group].get(),
            read_late: self.read_late[group].get(),
        };
        (0..self.issued.len()).map(counts).collect()
    }

    fn finished(&self) -> FinishedLeg {
        FinishedLeg {
            // Nothing in a phase that began after the worker had no more to do.
            spent: self.spent.get().unwrap_or_default(),
            counts: self.counts(),
            last_completed_ns: self.last_completed_ns.get(),
            failures: self.failures.take(),
        }
    }
}
