//! Follows one phase sequence: merges interval reports, closes intervals, applies stop rules, waits
//! for the drain.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvmark_plan::{Outcome, PhaseName, Plan};
use kvmark_record::{
    ClosedInterval, GroupAccounting, GroupRecord, Names, Notice, PhaseAggregate, PhaseRecord,
    RowOutcome, StopRule, StoppedBy, TotalRecord, WorkerRecord,
};
use kvmark_workload::seed_of;
use serde_json::json;

use crate::clock::Clock;
use crate::coordinator::{Coordinator, LOOK_UP_MEANWHILE, Snapshot};
use crate::due_counter::DueCounter;
use crate::error::EngineError;
use crate::observer::{Control, Progress};
use crate::pool::WorkerHandle;
use crate::sequence::{ActivePhase, PhaseSequence};
use crate::usage::process_use;
use crate::verify_scan::VerifyScan;
use crate::worker_recorder::{Counts, Finished, IntervalReport, PhaseTotals, Position, Report};

/// Time for workers to notice that a phase was given up.
const GRACE: Duration = Duration::from_millis(500);
/// Longest wait for a silent system after the user has ended the run.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most reports that are taken before an interval is closed.
const REPORTS_AT_ONCE: usize = 1024;

/// The coordinator's view of one phase sequence.
pub(crate) struct PhaseMonitor<'r, 'a, C> {
    run: &'r mut Coordinator<'a, C>,
    plan: &'a Plan,
    sequence: Arc<PhaseSequence>,
    phases: Vec<MonitoredPhase<'a>>,
    /// The last phase that has begun, and the one whose intervals are being closed.
    begun: usize,
    closing: usize,
    /// By worker: the first interval that may get more records; `None` in the drain.
    through: Vec<Option<Position>>,
    /// All earlier intervals can be closed.
    complete: Position,
    /// By worker: counts at the ends of intervals that aren't closed yet.
    counts: Vec<VecDeque<(Position, Vec<Counts>)>>,
    /// By worker: the newest counts of a closed interval.
    settled: Vec<Vec<Counts>>,
    workers: Vec<WorkerState>,
    /// The last update of the display, and the completed operations at that time.
    shown: Option<(Instant, u64)>,
    /// When the system was found silent.
    stalled_since: Option<Instant>,
}

/// The coordinator's view of one phase.
struct MonitoredPhase<'a> {
    planned: &'a kvmark_plan::Phase,
    aggregate: PhaseAggregate,
    rule: Option<StopRule>,
    ended_by_rule: bool,
    /// By group of the phase.
    due_counters: Vec<DueCounter>,
    next_interval: u32,
    newest_interval: u32,
    drains: BTreeSet<u32>,
    seen: DisplayState,
    /// Resource use and counters at the start.
    snapshot: Option<Snapshot>,
}

/// The state of a worker.
#[derive(Debug)]
enum WorkerState {
    Running,
    Finished(Finished),
    /// The worker has panicked or doesn't answer. Records after its last report are missing.
    Missing,
}

impl WorkerState {
    fn finished(&self) -> Option<&Finished> {
        if let Self::Finished(finished) = self { Some(finished) } else { None }
    }

    fn phase(&self, phase: usize) -> Option<&PhaseTotals> {
        self.finished()?.phases.get(phase)
    }

    fn is_running(&self) -> bool {
        matches!(self, Self::Running)
    }
}

/// Figures of a phase for the display.
#[derive(Debug, Default)]
struct DisplayState {
    failed: u64,
    missed: u64,
    /// By group: operations issued late, and those of them with a busy client.
    late: BTreeMap<String, (u64, u64)>,
    response_ns_p99: Option<u64>,
    backlog: Option<u64>,
}

impl<'a> MonitoredPhase<'a> {
    fn new(plan: &'a Plan, sequence: &PhaseSequence, phase: &ActivePhase) -> Self {
        let planned = &plan.phases[phase.index];
        let due_counters = phase.groups.iter().map(|shared| {
            let seed = seed_of(plan.seeds.schedule, phase.index as u32, shared.group as u32);
            DueCounter::new(&plan.groups[shared.group].arrival, seed, shared.round_robin)
        });
        Self {
            planned,
            aggregate: PhaseAggregate::new(
                phase.index as u32,
                planned.name,
                Arc::new(Names::of(plan)),
                phase.start_ns,
                sequence.interval_ns,
            ),
            // No single machine knows the throughput of all: with several, the observer applies the
            // rule.
            rule: planned.until.filter(|_| plan.share.of == 1).map(StopRule::new),
            ended_by_rule: false,
            due_counters: due_counters.collect(),
            next_interval: 0,
            newest_interval: 0,
            drains: BTreeSet::new(),
            seen: DisplayState::default(),
            snapshot: None,
        }
    }
}

impl<'r, 'a, C: Clock> PhaseMonitor<'r, 'a, C> {
    /// A monitor of a sequence that begins with this snapshot.
    pub(crate) fn new(
        run: &'r mut Coordinator<'a, C>,
        sequence: &Arc<PhaseSequence>,
        snapshot: Snapshot,
    ) -> Self {
        let (plan, workers) = (run.plan, run.pool.workers.len());
        let monitored = |phase| MonitoredPhase::new(plan, sequence, phase);
        let mut phases: Vec<MonitoredPhase<'_>> = sequence.phases.iter().map(monitored).collect();
        phases[0].snapshot = Some(snapshot);
        Self {
            run,
            plan,
            sequence: Arc::clone(sequence),
            phases,
            begun: 0,
            closing: 0,
            through: vec![Some((0, 0)); workers],
            complete: (0, 0),
            counts: vec![VecDeque::new(); workers],
            settled: vec![vec![Counts::default(); sequence.counters()]; workers],
            workers: (0..workers).map(|_| WorkerState::Running).collect(),
            shown: None,
            stalled_since: None,
        }
    }

    /// Returns when every worker has finished or stopped answering. Keeps the records of the other
    /// workers in any case.
    pub(crate) fn follow(&mut self) -> Option<EngineError> {
        let failure = self.follow_workers().err();
        if failure.is_some() {
            // Without a monitor for their records, workers must not run until the plan's end.
            self.sequence.end_at(self.run.clock.now_ns());
        }
        failure
    }

    fn follow_workers(&mut self) -> Result<(), EngineError> {
        let mut looked_up = Instant::now();
        let mut over_since = None;
        let mut failure = None;
        let mut is_behind = false;
        while self.workers.iter().any(WorkerState::is_running) {
            let nap = if is_behind { Duration::ZERO } else { self.nap() };
            self.take_reports(nap, &mut failure)?;
            is_behind = self.close_next()?;
            if C::SIMULATED {
                self.close_complete()?;
            }
            if looked_up.elapsed() >= LOOK_UP_MEANWHILE {
                looked_up = Instant::now();
                self.look_up()?;
                self.limit_silence();
                if let Err(unresponsive) = self.limit_drain(&mut over_since) {
                    failure.get_or_insert(unresponsive);
                    break;
                }
            }
        }
        // A silent system leaves workers behind. A panic takes precedence.
        if self.sequence.has_stalled() && !matches!(failure, Some(EngineError::Panicked { .. })) {
            let awaited = self.awaited();
            failure = Some(self.run.no_answer(&awaited));
        }
        self.close_complete()?;
        self.close_rest()?;
        failure.map_or(Ok(()), Err)
    }

    /// Takes all available reports, or waits for one. Reports are merged before intervals are
    /// closed, because closing takes longer and reports of many workers would pile up.
    fn take_reports(
        &mut self,
        nap: Duration,
        failure: &mut Option<EngineError>,
    ) -> Result<(), EngineError> {
        // Bounds how far a worker in simulated time gets ahead.
        let most = if C::SIMULATED { 1 } else { REPORTS_AT_ONCE };
        let later = std::iter::repeat(Duration::ZERO);
        for nap in std::iter::once(nap).chain(later).take(most) {
            match self.run.reports.recv_timeout(nap) {
                Ok(Report::Interval(report)) => self.take_interval(report),
                Ok(Report::Finished(finished)) => {
                    self.close_complete()?;
                    let worker = finished.worker;
                    self.workers[worker] = WorkerState::Finished(finished);
                }
                Ok(Report::Panicked { worker, message }) => {
                    self.close_complete()?;
                    self.sequence.end_at(self.run.clock.now_ns());
                    self.workers[worker] = WorkerState::Missing;
                    failure.get_or_insert(EngineError::Panicked { worker, message });
                }
                Ok(Report::Opened { .. } | Report::Probed { .. }) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Ends the sequence when the system has been silent for the stall limit.
    fn limit_silence(&mut self) {
        let (Some(limit_ns), false) = (self.plan.stall_limit_ns, C::SIMULATED) else { return };
        if self.silent_ns().is_some_and(|silent_ns| silent_ns >= limit_ns)
            && self.stalled_since.is_none()
        {
            self.stalled_since = Some(Instant::now());
            self.sequence.stall(self.run.clock.now_ns());
        }
    }

    /// How long the running workers have waited without an answer.
    fn silent_ns(&self) -> Option<u64> {
        self.run.silent_ns(|worker| self.workers[worker].is_running())
    }

    /// The servers with outstanding requests.
    fn awaited(&self) -> Vec<String> {
        let finished = self.workers.iter().filter_map(WorkerState::finished);
        let awaited: BTreeSet<_> = finished.flat_map(|finished| finished.awaited.clone()).collect();
        awaited.into_iter().collect()
    }

    /// Longest wait for a report: until the start of the next phase.
    fn nap(&self) -> Duration {
        let longest = LOOK_UP_MEANWHILE;
        let Some(next) = self.sequence.phases.get(self.begun + 1) else { return longest };
        let left_ns = next.start_ns.saturating_sub(self.run.clock.now_ns());
        if left_ns == 0 { longest } else { longest.min(Duration::from_nanos(left_ns)) }
    }

    /// Begins the next phase when its instant has come.
    fn begin_next(&mut self) -> Result<(), EngineError> {
        let Some(next) = self.sequence.phases.get(self.begun + 1) else { return Ok(()) };
        let start_ns = next.start_ns;
        if self.run.clock.now_ns() < start_ns || !self.sequence.reaches(self.begun + 1) {
            return Ok(());
        }
        let index = next.index;
        self.begun += 1;
        self.phases[self.begun].snapshot = Some(self.run.snapshot());
        self.shown = None;
        self.run.phase_event(index, start_ns, None)
    }

    fn take_interval(&mut self, report: IntervalReport) {
        let IntervalReport { worker, position, through, drain, mut batch, counts } = report;
        let (phase, interval) = position;
        let monitored = &mut self.phases[phase];
        monitored.aggregate.add(interval, drain, &batch);
        batch.clear();
        // A worker that has ended needs no memory.
        drop(self.run.pool.workers[worker].spare.send(batch));
        if drain {
            monitored.drains.insert(interval);
        } else {
            monitored.newest_interval = monitored.newest_interval.max(interval);
        }
        if !counts.is_empty() {
            self.counts[worker].push_back((position, counts));
        }
        self.through[worker] = through;
        if let Some(open) = self.through.iter().flatten().min() {
            self.complete = *open;
        }
    }

    /// Closes all complete intervals.
    fn close_complete(&mut self) -> Result<(), EngineError> {
        while self.close_next()? {}
        Ok(())
    }

    /// Closes one complete interval, or a phase's window. Returns whether there was one.
    fn close_next(&mut self) -> Result<bool, EngineError> {
        self.begin_next()?;
        let (phase, open) = self.complete;
        if self.closing < phase {
            self.close_window(self.closing)?;
            self.closing += 1;
            return Ok(true);
        }
        let interval = self.phases[phase].next_interval;
        if interval >= open {
            return Ok(false);
        }
        let closed = self.close(phase, interval, false)?;
        let monitored = &mut self.phases[phase];
        monitored.next_interval += 1;
        if let Some(rule) = &mut monitored.rule {
            rule.push(&closed.rate_sample());
            if rule.satisfied() {
                self.end_by_rule(phase, self.run.clock.now_ns());
            }
        }
        self.show();
        Ok(true)
    }

    /// Ends a phase because its rule is met, once.
    fn end_by_rule(&mut self, phase: usize, now_ns: u64) {
        if !std::mem::replace(&mut self.phases[phase].ended_by_rule, true) {
            self.sequence.end_at(now_ns);
        }
    }

    /// Closes the remaining intervals of a phase's window and records its end.
    fn close_window(&mut self, phase: usize) -> Result<(), EngineError> {
        let (end_ns, _) = self.end(phase);
        let start_ns = self.sequence.phases[phase].start_ns;
        let last = end_ns.saturating_sub(start_ns).saturating_sub(1) / self.sequence.interval_ns;
        let last = u32::try_from(last).unwrap_or(u32::MAX).max(self.phases[phase].newest_interval);
        for interval in self.phases[phase].next_interval..=last {
            self.close(phase, interval, false)?;
        }
        self.phases[phase].next_interval = last + 1;
        // The end of the last phase is recorded with its totals.
        if phase == self.begun {
            return Ok(());
        }
        self.run.phase_event(self.sequence.phases[phase].index, end_ns, Some(StoppedBy::Duration))
    }

    /// Closes all remaining intervals when every worker has finished.
    fn close_rest(&mut self) -> Result<(), EngineError> {
        for phase in self.closing..=self.begun {
            self.close_window(phase)?;
        }
        // Operations of an earlier phase may end in the last phase's drain.
        self.settle((self.begun, u32::MAX));
        for phase in 0..=self.begun {
            for interval in std::mem::take(&mut self.phases[phase].drains) {
                self.close(phase, interval, true)?;
            }
        }
        Ok(())
    }

    fn close(
        &mut self,
        phase: usize,
        interval: u32,
        drain: bool,
    ) -> Result<ClosedInterval, EngineError> {
        let end_ns =
            if drain { self.drained_ns(phase) } else { self.interval_end_ns(phase, interval) };
        let accounting = self.account(phase, interval, end_ns);
        let monitored = &mut self.phases[phase];
        let closed = monitored.aggregate.close(interval, drain, end_ns, &accounting);
        monitored.seen.take(&closed);
        let backlogs = accounting.iter().filter_map(|group| group.backlog);
        monitored.seen.backlog = backlogs.reduce(u64::max);
        self.run.writer.interval(&closed)?;
        if monitored.planned.name == PhaseName::Load && monitored.seen.failed > 0 {
            self.sequence.end_at(self.run.clock.now_ns());
        }
        Ok(closed)
    }

    fn interval_end_ns(&self, phase: usize, interval: u32) -> u64 {
        let (length_ns, start_ns) =
            (self.sequence.interval_ns, self.sequence.phases[phase].start_ns);
        let begin_ns = start_ns + u64::from(interval) * length_ns;
        let running = self.workers.iter().any(WorkerState::is_running);
        let end_ns = if running { self.sequence.phase_end_ns(phase) } else { self.end(phase).0 };
        (begin_ns + length_ns).min(end_ns).max(begin_ns)
    }

    /// Advances the counts to the end of an interval.
    fn settle(&mut self, end: Position) {
        for (settled, counts) in self.settled.iter_mut().zip(&mut self.counts) {
            while counts.front().is_some_and(|(position, _)| *position <= end) {
                if let Some((_, newest)) = counts.pop_front() {
                    *settled = newest;
                }
            }
        }
    }

    /// The accounting of each group at the end of an interval.
    fn account(&mut self, phase: usize, interval: u32, end_ns: u64) -> Vec<GroupAccounting> {
        self.settle((phase, interval));
        let groups = 0..self.sequence.phases[phase].groups.len();
        groups.map(|group| self.account_of(phase, group, end_ns)).collect()
    }

    fn account_of(&mut self, phase: usize, group: usize, end_ns: u64) -> GroupAccounting {
        let (mut outstanding, mut in_flight) = (Some(0), 0);
        let mut own = (None, Counts::default());
        // Operations of earlier phases may be unissued or in flight.
        for earlier in 0..=phase {
            let shared = self.sequence.phases[earlier].groups[group].group;
            let counter = self.sequence.counter(earlier, shared);
            let counts = self.settled.iter().map(|counts| counts[counter]);
            let counts = counts.fold(Counts::default(), Counts::plus);
            let due = self.due(earlier, group, end_ns);
            let unissued = due.map(|due| due.saturating_sub(counts.issued));
            outstanding = outstanding.zip(unissued).map(|(sum, unissued)| sum + unissued);
            in_flight += counts.issued - counts.completed;
            own = (due, counts);
        }
        let (due, counts) = own;
        GroupAccounting {
            group: self.sequence.phases[phase].groups[group].group,
            due,
            issued: counts.issued,
            read_late: counts.read_late,
            backlog: outstanding,
            in_flight,
            frontier: self.sequence.inserts.frontier(),
        }
    }

    /// Arrivals of a group that became due in a phase until an instant; `None` in the closed model.
    fn due(&mut self, phase: usize, group: usize, until_ns: u64) -> Option<u64> {
        // Nothing becomes due after the window, so the backlog doesn't grow in a drain.
        let end_ns = until_ns.min(self.sequence.phase_end_ns(phase));
        let shared = &self.sequence.phases[phase];
        // The window excludes its end: an arrival at that instant belongs to the next phase.
        let last_ns = end_ns.saturating_sub(shared.start_ns).saturating_sub(1);
        let shared = &shared.groups[group];
        let limit = shared.operations.unwrap_or(u64::MAX);
        Some(self.phases[phase].due_counters[group].by(last_ns)?.min(limit))
    }

    /// End and reason of a phase's window, after every worker has finished it.
    fn end(&self, phase: usize) -> (u64, StoppedBy) {
        let end_ns = self.sequence.phase_end_ns(phase);
        if phase < self.begun {
            return (end_ns, StoppedBy::Duration);
        }
        let last_ns = self.last_completed_ns(phase);
        if self.is_counted_out(phase) && last_ns <= end_ns {
            return (last_ns, StoppedBy::Operations);
        }
        if end_ns == u64::MAX {
            return (last_ns, StoppedBy::Failed);
        }
        let ended_by_rule = self.phases[phase].ended_by_rule;
        (end_ns, if ended_by_rule { StoppedBy::Until } else { StoppedBy::Duration })
    }

    /// Whether every group issued its planned number of operations.
    fn is_counted_out(&self, phase: usize) -> bool {
        self.sequence.phases[phase].groups.iter().all(|shared| {
            let counter = self.sequence.counter(phase, shared.group);
            let finished = self.workers.iter().filter_map(WorkerState::finished);
            let issued: u64 = finished.map(|finished| finished.counts[counter].issued).sum();
            shared.operations == Some(issued)
        })
    }

    fn last_completed_ns(&self, phase: usize) -> u64 {
        let counters = self.sequence.counter(phase, 0)..self.sequence.counter(phase + 1, 0);
        let finished = self.workers.iter().filter_map(WorkerState::finished);
        let counts = finished.flat_map(|finished| &finished.counts[counters.clone()]);
        let last_ns = counts.map(|counts| counts.last_completed_ns).max().unwrap_or(0);
        last_ns.max(self.sequence.phases[phase].start_ns)
    }

    fn drained_ns(&self, phase: usize) -> u64 {
        self.last_completed_ns(phase).max(self.end(phase).0)
    }

    /// Handles signals and updates the display.
    fn look_up(&mut self) -> Result<(), EngineError> {
        let control = self.run.observer.poll();
        if control != Control::Continue {
            self.sequence.end_at(self.run.clock.now_ns());
            self.run.interrupt()?;
        }
        if self.run.observer.ended_phase() >= Some(self.sequence.phases[self.begun].index as u32) {
            self.end_by_rule(self.begun, self.run.clock.now_ns());
        }
        if control == Control::Abandon {
            self.run.pool.abandoned = true;
            self.run.is_silent = true;
            self.sequence.give_up();
        }
        if self.run.observer.is_disturbed() {
            self.run.disturbed_ns = self.run.clock.now_ns();
        }
        if self.shown.is_none_or(|(at, _)| at.elapsed() >= Duration::from_secs(1)) {
            self.show();
        }
        Ok(())
    }

    fn show(&mut self) {
        let (phase, monitored) = (&self.sequence.phases[self.begun], &self.phases[self.begun]);
        let completed = self.run.pool.completed();
        let now = Instant::now();
        let rate_per_s = self.shown.map_or(0.0, |(at, before)| {
            completed.saturating_sub(before) as f64 / (now - at).as_secs_f64().max(1e-9)
        });
        self.shown = Some((now, completed));
        let counts = phase.groups.iter().map(|shared| shared.operations);
        let silent_ns = self.silent_ns();
        self.run.observer.progress(&Progress {
            phase: phase.index as u32,
            phase_name: monitored.planned.name.name(),
            elapsed_ns: self.run.clock.now_ns().saturating_sub(phase.start_ns),
            expected_ns: monitored.planned.duration_ns,
            completed,
            expected_operations: counts.sum(),
            rate_per_s,
            response_ns_p99: monitored.seen.response_ns_p99,
            failed: monitored.seen.failed,
            missed: monitored.seen.missed,
            backlog: monitored.seen.backlog,
            silent_ns,
        });
    }

    /// Gives up a sequence whose operations don't end.
    fn limit_drain(&mut self, over_since: &mut Option<Instant>) -> Result<(), EngineError> {
        if C::SIMULATED || self.run.clock.now_ns() < self.sequence.end_ns() {
            return Ok(());
        }
        let over = over_since.get_or_insert_with(Instant::now).elapsed();
        let mut limit = Duration::from_nanos(self.plan.drain_limit_ns);
        let silence = Duration::from_nanos(self.silent_ns().unwrap_or(0));
        if self.run.record.interrupted && over.min(silence) >= PATIENCE {
            // After an interruption, neither a silent system nor its statistics are waited for.
            self.run.is_silent = true;
            limit = limit.min(PATIENCE);
        }
        if over >= limit {
            self.sequence.give_up();
        }
        let stalled = self.stalled_since.is_some_and(|since| since.elapsed() >= GRACE);
        let gone = stalled || over >= limit + GRACE || (self.run.pool.abandoned && over >= GRACE);
        if !gone {
            return Ok(());
        }
        self.run.pool.abandoned = true;
        let running = self.workers.iter_mut().filter(|worker| worker.is_running());
        let workers = running.map(|worker| *worker = WorkerState::Missing).count();
        Err(EngineError::Unresponsive { workers, limit_s: limit.as_secs_f64() })
    }

    /// The records, totals and failures of all phases that began, after [`Self::follow`].
    pub(crate) fn records(&mut self) -> Vec<(PhaseRecord, Vec<TotalRecord>, Vec<Notice>)> {
        let snapshots = self.phases.iter_mut().filter_map(|phase| phase.snapshot.take());
        let mut snapshots: Vec<Snapshot> = snapshots.collect();
        snapshots.push(self.run.snapshot());
        let phases = snapshots.windows(2).enumerate();
        let record = |(phase, pair): (usize, &[Snapshot])| {
            let (record, totals) = self.record(phase, &pair[0], &pair[1]);
            let failures = self.failure_notices(phase, &totals);
            (record, totals, failures)
        };
        phases.map(record).collect()
    }

    fn record(
        &mut self,
        phase: usize,
        before: &Snapshot,
        after: &Snapshot,
    ) -> (PhaseRecord, Vec<TotalRecord>) {
        let (end_ns, stopped_by) = self.end(phase);
        let end_ns = if end_ns == u64::MAX { self.run.clock.now_ns() } else { end_ns };
        let totals = self.phases[phase].aggregate.totals();
        let accounting = self.account(phase, u32::MAX, end_ns);
        let groups = accounting.iter().map(|group| self.group_record(phase, group, &totals));
        let monitored = &self.phases[phase];
        let is_last = phase == self.begun;
        let record = PhaseRecord {
            index: self.sequence.phases[phase].index as u32,
            name: monitored.planned.name,
            start_ns: self.sequence.phases[phase].start_ns,
            end_ns,
            drained_ns: self.last_completed_ns(phase).max(end_ns),
            stopped_by: if is_last { self.run.stopped_by(stopped_by) } else { stopped_by },
            relative_stderr: monitored.rule.as_ref().and_then(StopRule::relative_stderr),
            groups: groups.collect(),
            workers: self.worker_records(phase, end_ns),
            process: process_use(&before.usage, &after.usage),
            statistics: before.changes_until(after),
            generator_lag: monitored.aggregate.generator_lag(),
            sweep: self.sequence.scan.as_ref().map(VerifyScan::record),
            records_found: None,
        };
        (record, totals)
    }

    fn group_record(
        &self,
        phase: usize,
        group: &GroupAccounting,
        totals: &[TotalRecord],
    ) -> GroupRecord {
        let name = &self.plan.groups[group.group].name;
        let whole = totals.iter().filter(|total| !total.part && total.group == *name);
        let ok = whole.clone().filter(|total| total.outcome == Outcome::Ok);
        let completed = whole.map(|total| total.count).sum::<u64>();
        let late = self.phases[phase].seen.late.get(name).copied();
        let (late, late_busy) = late.unwrap_or_default();
        GroupRecord {
            group: name.clone(),
            issued: group.issued,
            completed,
            ok: ok.map(|total| total.count).sum(),
            due: group.due,
            dropped: group.due.map_or(0, |due| due.saturating_sub(group.issued)),
            late,
            late_busy,
            read_late: group.read_late,
            abandoned: group.issued.saturating_sub(completed),
            frontier: group.frontier,
        }
    }

    fn worker_records(&self, phase: usize, end_ns: u64) -> Vec<WorkerRecord> {
        // Outstanding operations of an earlier phase end during the next phase.
        let until_ns =
            if phase == self.begun { self.drained_ns(phase).max(end_ns) } else { end_ns };
        let wall_ns = until_ns - self.sequence.phases[phase].start_ns;
        let workers = self.run.pool.workers.iter().zip(&self.workers).enumerate();
        let record = |(number, (member, worker)): (usize, (&WorkerHandle, &WorkerState))| {
            let usage = worker.phase(phase)?.usage;
            Some(WorkerRecord {
                worker: number as u32,
                cpu_ns: usage.cpu_ns,
                waiting_for_core_ns: Some(usage.waiting_for_core_ns),
                idle_spin_ns: usage.idle_spin_ns,
                wall_ns,
                cores: member.cores.clone(),
            })
        };
        workers.filter_map(record).collect()
    }

    /// Notices of workers whose records end before the sequence.
    pub(crate) fn missing_notices(&self) -> Vec<Notice> {
        let missing = self.workers.iter().zip(&self.through).enumerate();
        let missing = missing.filter(|(_, (worker, _))| matches!(worker, WorkerState::Missing));
        let notice = |(worker, (_, through)): (usize, (&WorkerState, &Option<Position>))| {
            let (phase, open) =
                through.unwrap_or((self.begun, self.phases[self.begun].next_interval));
            let recorded_ns = u64::from(open) * self.sequence.interval_ns;
            Notice {
                code: "worker_missing",
                phase: Some(self.sequence.phases[phase].index as u32),
                message: format!(
                    "worker {worker} stopped answering: its operations later than {:.1} s after \
                     the start of the phase are missing",
                    recorded_ns as f64 * 1e-9
                ),
                evidence: json!({ "recorded_ns": recorded_ns, "worker": worker }),
                advice: "find out why its operation didn't end; \
                         other workers' records are complete",
            }
        };
        missing.map(notice).collect()
    }

    /// Notices with the drivers' message of the first failure of each class.
    fn failure_notices(&self, phase: usize, totals: &[TotalRecord]) -> Vec<Notice> {
        let mut first = BTreeMap::new();
        for finished in self.workers.iter().filter_map(|worker| worker.phase(phase)) {
            for (outcome, message) in &finished.failures {
                first.entry(*outcome).or_insert(message);
            }
        }
        let notice = |(outcome, message): (Outcome, &String)| {
            let ended = totals.iter().filter(|total| total.is_alone() && total.outcome == outcome);
            let count = ended.map(|total| total.count).sum::<u64>();
            let said = if message.is_empty() { String::new() } else { format!(": {message}") };
            Notice {
                code: "operations_failed",
                phase: Some(self.sequence.phases[phase].index as u32),
                message: format!("{count} operations ended as {}{said}", outcome.name()),
                evidence: json!({ "operations": count, "outcome": outcome.name() }),
                advice: "look at the system's own log around this time",
            }
        };
        first.into_iter().map(notice).collect()
    }
}

/// The error of a load phase in which an operation failed.
pub(crate) fn load_failure(record: &PhaseRecord, notices: &[Notice]) -> Option<EngineError> {
    let notice = notices.first().filter(|_| record.name == PhaseName::Load)?;
    Some(EngineError::LoadFailed { message: notice.message.clone() })
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            issued: self.issued + other.issued,
            completed: self.completed + other.completed,
            read_late: self.read_late + other.read_late,
            last_completed_ns: self.last_completed_ns.max(other.last_completed_ns),
        }
    }
}

impl DisplayState {
    fn take(&mut self, closed: &ClosedInterval) {
        for row in &closed.rows {
            if let Some(total) = &row.total {
                let late = self.late.entry(row.group.clone()).or_default();
                *late = (late.0 + total.late, late.1 + total.late_busy);
                self.response_ns_p99 = row.response.as_ref().map(|quantiles| quantiles.p99);
            }
            match row.outcome {
                RowOutcome::One(Outcome::Miss) if !row.part => self.missed += row.count,
                RowOutcome::One(outcome) if outcome.is_failure() && !row.part => {
                    self.failed += row.count;
                }
                RowOutcome::One(_) | RowOutcome::Any => {}
            }
        }
    }
}
