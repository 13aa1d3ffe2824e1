//! Records a worker's operations and sends them to the coordinator, one report per interval.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use kvmark_plan::Outcome;
use kvmark_record::{Batch, Names, Recorder, Sample};
use kvmark_workload::CachePadded;

use crate::clock::Clock;
use crate::op_log::OpLogWriter;
use crate::pulse::Pulse;
use crate::sequence::PhaseSequence;
use crate::usage::ThreadUsage;

/// A message from a worker to the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    /// The result of opening the session.
    Opened { result: Result<(), kvmark_driver::OpenError> },
    /// The result of a probe.
    Probed(Probed),
    /// One interval's records.
    Interval(IntervalReport),
    /// The worker finished the phase sequence.
    Finished(Finished),
    /// The worker's thread panicked.
    Panicked { worker: usize, message: String },
}

/// The result of probing records.
#[derive(Debug)]
pub(crate) enum Probed {
    /// All records exist.
    Present,
    /// A record is missing, or couldn't be read.
    Missing,
    /// A record exists and differs from the expected one.
    Unlike,
    /// The system didn't answer. Lists the servers with outstanding requests.
    Silent { awaited: Vec<String> },
}

/// A phase of a sequence, and the number of an interval in it.
pub(crate) type Position = (usize, u32);

/// The records of one worker and interval.
#[derive(Debug)]
pub(crate) struct IntervalReport {
    pub(crate) worker: usize,
    pub(crate) position: Position,
    /// Nothing before it follows, except for the drain.
    pub(crate) through: Option<Position>,
    pub(crate) drain: bool,
    pub(crate) batch: Batch,
    /// Totals since the sequence began, see [`PhaseSequence::counter`]. Empty in the report of
    /// operations that were carried into the next phase.
    pub(crate) counts: Vec<Counts>,
}

/// Operations of one group and phase on one worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) issued: u64,
    pub(crate) completed: u64,
    /// Answers that were read after the limit on service time, and may have arrived in time.
    pub(crate) read_late: u64,
    /// 0 before the first completion.
    pub(crate) last_completed_ns: u64,
}

/// [`Counts`] that a worker advances one by one.
#[derive(Debug, Default)]
pub(crate) struct CountCells {
    issued: Cell<u64>,
    completed: Cell<u64>,
    read_late: Cell<u64>,
    last_completed_ns: Cell<u64>,
}

impl CountCells {
    /// Counts a request of an operation's first part.
    #[inline]
    pub(crate) fn issue(&self) {
        self.issued.set(self.issued.get() + 1);
    }

    /// Counts an answer that was read late.
    #[cold]
    pub(crate) fn note_read_late(&self) {
        self.read_late.set(self.read_late.get() + 1);
    }

    fn get(&self) -> Counts {
        Counts {
            issued: self.issued.get(),
            completed: self.completed.get(),
            read_late: self.read_late.get(),
            last_completed_ns: self.last_completed_ns.get(),
        }
    }
}

/// A worker's totals of a phase sequence.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) worker: usize,
    /// See [`PhaseSequence::counter`].
    pub(crate) counts: Vec<Counts>,
    pub(crate) phases: Vec<PhaseTotals>,
    /// Servers with outstanding requests when the system stopped answering.
    pub(crate) awaited: Vec<String>,
}

/// A worker's totals of a phase.
#[derive(Debug, Default)]
pub(crate) struct PhaseTotals {
    /// Zero for a phase that began after the worker's last operation.
    pub(crate) usage: ThreadUsage,
    /// The first message of each class of failure.
    pub(crate) failures: BTreeMap<Outcome, String>,
}

/// The recorder of one worker during a phase sequence.
#[derive(Debug)]
pub(crate) struct WorkerRecorder<'a> {
    sequence: &'a PhaseSequence,
    recorder: RefCell<&'a mut Recorder>,
    /// Operations that were due in a phase that has ended.
    carried: RefCell<Recorder>,
    phase: Cell<usize>,
    interval: Cell<u32>,
    drain: Cell<bool>,
    boundary_ns: Cell<u64>,
    counts: Vec<CountCells>,
    phases: RefCell<Vec<PhaseTotals>>,
    /// The thread's resource use when the phase began.
    before: Cell<ThreadUsage>,
    /// Reports that were sent and whose memory hasn't come back.
    reports_under_way: Cell<usize>,
    pulse: &'a Pulse,
    channel: &'a ReportChannel,
}

/// Limits how far a worker gets ahead of the coordinator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWindow {
    /// Reports that were sent and didn't come back.
    reports: usize,
    /// Longest wait for one report; `None` for no limit.
    patience: Option<Duration>,
}

impl SendWindow {
    /// Reports of all workers together.
    const REPORTS_MAX: usize = 128;

    /// The window of each worker. With more workers than processors, a full window yields a
    /// processor to the coordinator. A coordinator that hangs, for example in its observer, delays
    /// operations only briefly.
    pub(crate) fn of_each<C: Clock>(workers: u32) -> Self {
        if C::SIMULATED {
            // A wait changes no measurement.
            return Self { reports: 8, patience: None };
        }
        let reports = (Self::REPORTS_MAX / workers.max(1) as usize).max(2);
        Self { reports, patience: Some(Duration::from_millis(20)) }
    }
}

/// The channels for a worker's reports, its pulse, and the memory of its reports.
#[derive(Debug)]
pub(crate) struct ReportChannel {
    pub(crate) worker: usize,
    /// Names of the plan's groups and statements.
    pub(crate) names: Names,
    pub(crate) pulse: Arc<CachePadded<Pulse>>,
    pub(crate) reports: Sender<Report>,
    /// Memory of processed interval reports.
    pub(crate) used: Receiver<Batch>,
    pub(crate) send_window: SendWindow,
    /// Time that the worker has spent polling without work.
    pub(crate) idle_spin_ns: Cell<u64>,
    /// The log of operations, if one is written.
    pub(crate) log_writer: Option<OpLogWriter>,
}

impl ReportChannel {
    pub(crate) fn send(&self, report: Report) {
        // The channel is closed only when the coordinator has abandoned the run.
        drop(self.reports.send(report));
    }
}

impl<'a> WorkerRecorder<'a> {
    pub(crate) fn open(
        sequence: &'a PhaseSequence,
        recorder: &'a mut Recorder,
        channel: &'a ReportChannel,
    ) -> Self {
        let pulse = &channel.pulse.0;
        pulse.restart_count();
        let opened = Self {
            sequence,
            recorder: RefCell::new(recorder),
            carried: RefCell::new(Recorder::new(&channel.names)),
            phase: Cell::new(0),
            interval: Cell::new(0),
            drain: Cell::new(false),
            boundary_ns: Cell::new(0),
            counts: (0..sequence.counters()).map(|_| CountCells::default()).collect(),
            phases: RefCell::new(sequence.phases.iter().map(|_| PhaseTotals::default()).collect()),
            before: Cell::new(ThreadUsage::now(channel.idle_spin_ns.get())),
            reports_under_way: Cell::new(0),
            pulse,
            channel,
        };
        opened.set_boundary();
        opened
    }

    /// The next instant at which an interval ends.
    #[inline]
    pub(crate) fn boundary_ns(&self) -> u64 {
        if self.drain.get() { u64::MAX } else { self.boundary_ns.get().min(self.sequence.end_ns()) }
    }

    /// The counts of a phase and group, see [`PhaseSequence::counter`].
    pub(crate) fn counts_of(&self, counter: usize) -> &CountCells {
        &self.counts[counter]
    }

    /// Records and counts a complete operation. Always inlined, as [`Self::record`], so that the
    /// sample isn't copied through memory.
    #[inline(always)]
    pub(crate) fn complete(
        &self,
        phase: usize,
        group: usize,
        counts: &CountCells,
        sample: &Sample,
    ) {
        self.record(phase, group, sample);
        counts.completed.set(counts.completed.get() + 1);
        counts.last_completed_ns.set(sample.completed_ns);
        self.pulse.complete();
    }

    /// Records an operation, or a part of one, that was due in a phase.
    #[inline(always)]
    pub(crate) fn record(&self, phase: usize, group: usize, sample: &Sample) {
        self.tick(sample.completed_ns);
        if phase == self.phase.get() {
            self.recorder.borrow_mut().record(group, sample);
        } else {
            self.carry(group, *sample);
        }
    }

    /// Records the lag of a sampled read; `None` for an excluded one.
    pub(crate) fn lag(&self, read_ns: u64, lag_ns: Option<u64>) {
        self.tick(read_ns);
        self.recorder.borrow_mut().record_lag(lag_ns);
    }

    /// The durations belong to the phase in which the operation was due, the completion to the
    /// phase in which it ended. The sample is copied only here.
    #[cold]
    fn carry(&self, group: usize, sample: Sample) {
        self.carried.borrow_mut().record(group, &sample);
        self.recorder.borrow_mut().carry(group, &sample);
    }

    /// Sends the records of an interval that has ended.
    #[inline]
    pub(crate) fn tick(&self, now_ns: u64) {
        if now_ns >= self.boundary_ns.get().min(self.sequence.end_ns()) {
            self.end_interval(now_ns);
        }
    }

    /// The pulse that shows whether the system answers.
    pub(crate) fn pulse(&self) -> &'a Pulse {
        self.pulse
    }

    /// The log of operations, if one is written.
    pub(crate) fn log_writer(&self) -> Option<&OpLogWriter> {
        self.channel.log_writer.as_ref()
    }

    /// Counts time that the worker spent polling without work.
    pub(crate) fn note_idle_spin(&self, spent_ns: u64) {
        self.channel.idle_spin_ns.set(self.channel.idle_spin_ns.get() + spent_ns);
    }

    /// Keeps the first message of each class of failure.
    #[cold]
    pub(crate) fn note_failure(&self, phase: usize, outcome: Outcome, message: Option<&str>) {
        let failures = &mut self.phases.borrow_mut()[phase].failures;
        failures.entry(outcome).or_insert_with(|| message.unwrap_or_default().to_owned());
    }

    #[cold]
    fn end_interval(&self, now_ns: u64) {
        // The drain has no intervals.
        if self.drain.get() {
            return;
        }
        let mut report = self.take_report();
        let end_ns = self.sequence.end_ns();
        while now_ns >= self.sequence.phase_end_ns(self.phase.get())
            && self.phase.get() + 1 < self.sequence.phases.len()
            && self.sequence.reaches(self.phase.get() + 1)
        {
            self.end_phase();
            self.phase.set(self.phase.get() + 1);
            self.interval.set(0);
            self.pulse.restart_count();
        }
        self.drain.set(now_ns >= end_ns);
        let start_ns = self.sequence.phases[self.phase.get()].start_ns;
        let elapsed = now_ns.min(end_ns).saturating_sub(start_ns) / self.sequence.interval_ns;
        let interval = u32::try_from(elapsed).unwrap_or(u32::MAX).max(self.interval.get());
        self.interval.set(interval);
        self.set_boundary();
        report.through = (!self.drain.get()).then_some((self.phase.get(), interval));
        self.send(Report::Interval(report));
    }

    fn set_boundary(&self) {
        let (phase, interval) = (self.phase.get(), self.interval.get());
        let length_ns = (u64::from(interval) + 1) * self.sequence.interval_ns;
        let next_ns = self.sequence.phases[phase].start_ns + length_ns;
        self.boundary_ns.set(next_ns.min(self.sequence.phase_end_ns(phase)));
    }

    fn end_phase(&self) {
        let now = ThreadUsage::now(self.channel.idle_spin_ns.get());
        let before = self.before.replace(now);
        self.phases.borrow_mut()[self.phase.get()].usage = now.since(before);
    }

    fn take_report(&self) -> IntervalReport {
        let mut recorder = self.recorder.borrow_mut();
        self.recycle_memory(&mut recorder);
        IntervalReport {
            worker: self.channel.worker,
            position: (self.phase.get(), self.interval.get()),
            through: None,
            drain: self.drain.get(),
            batch: recorder.take(),
            counts: self.counts(),
        }
    }

    fn counts(&self) -> Vec<Counts> {
        self.counts.iter().map(CountCells::get).collect()
    }

    /// Takes the memory of earlier reports back before another report is sent.
    fn recycle_memory(&self, recorder: &mut Recorder) {
        let ReportChannel { used, send_window, .. } = &self.channel;
        let mut under_way = self.reports_under_way.get();
        for batch in used.try_iter() {
            recorder.recycle(batch);
            // Some may be of the sequence before.
            under_way = under_way.saturating_sub(1);
        }
        while under_way >= send_window.reports {
            let back = match send_window.patience {
                Some(patience) => used.recv_timeout(patience).ok(),
                None => used.recv().ok(),
            };
            // A coordinator that hangs, or has abandoned the run, returns nothing.
            let Some(batch) = back else { break };
            recorder.recycle(batch);
            under_way -= 1;
        }
        self.reports_under_way.set(under_way + 1);
    }

    fn send(&self, report: Report) {
        if let Some(log_writer) = &self.channel.log_writer {
            log_writer.flush();
        }
        self.channel.send(report);
    }

    /// Sends the last reports and the worker's totals. `awaited` are the servers with outstanding
    /// requests.
    pub(crate) fn close(&self, awaited: Vec<String>) {
        let (worker, report) = (self.channel.worker, self.take_report());
        let batch = self.carried.borrow_mut().take();
        if !batch.is_empty() {
            let (position, through) = ((0, 0), Some(report.position));
            let counts = Vec::new();
            self.send(Report::Interval(IntervalReport {
                worker,
                position,
                through,
                drain: true,
                batch,
                counts,
            }));
        }
        self.send(Report::Interval(report));
        self.end_phase();
        let phases = self.phases.take();
        self.send(Report::Finished(Finished { worker, counts: self.counts(), phases, awaited }));
    }
}
