//! Follows one phase: gathers pages, closes intervals, applies stop rules, waits for the drain.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvmark_driver::Driver;
use kvmark_plan::{Outcome, PhaseName, Plan};
use kvmark_record::{
    ClosedInterval, GroupAccounting, GroupRecord, Names, Notice, PhaseAggregate, PhaseRecord,
    ProcessRecord, RowOutcome, StopRule, StoppedBy, TotalRecord, WorkerRecord,
};
use kvmark_schedule::{Arrivals, seed_of};

use crate::clock::Clock;
use crate::coordinator::{Coordinator, LOOK_UP};
use crate::error::EngineError;
use crate::ledger::{Counts, Finished, Page, Report};
use crate::observer::{Control, Progress};
use crate::phase::PhaseShared;
use crate::sweep::Sweep;

/// How long workers get to notice that a phase was given up.
const GRACE: Duration = Duration::from_millis(500);

/// The coordinator's view of one phase.
pub(crate) struct Conduct<'a> {
    plan: &'a Plan,
    phase: Arc<PhaseShared>,
    aggregate: PhaseAggregate,
    rule: Option<StopRule>,
    ended_by_rule: bool,
    /// Per worker: the first interval to which it may still add; none when it is in its drain.
    through: Vec<Option<u32>>,
    /// Per worker: counts at the ends of intervals that are not closed yet.
    counts: Vec<VecDeque<(u32, Vec<Counts>)>>,
    /// Per worker: the newest counts that belong to a closed interval.
    settled: Vec<Vec<Counts>>,
    parts: Vec<Part>,
    /// Per group of the phase: its arrivals, to know what is due.
    arrivals: Vec<Option<Arrivals>>,
    next_interval: u32,
    newest_interval: u32,
    drains: BTreeSet<u32>,
    tally: Tally,
}

/// What came of a worker's part.
#[derive(Debug)]
enum Part {
    Going,
    Finished(Finished),
    /// The worker is gone, or doesn't answer: what it recorded after its last page is missing.
    Missing,
}

impl Part {
    fn finished(&self) -> Option<&Finished> {
        if let Self::Finished(finished) = self { Some(finished) } else { None }
    }

    fn is_going(&self) -> bool {
        matches!(self, Self::Going)
    }
}

/// What a display shows.
#[derive(Debug, Default)]
struct Tally {
    failed: u64,
    missed: u64,
    /// By group: issued late, and of these because their client was busy.
    late: BTreeMap<String, (u64, u64)>,
    response_ns_p99: Option<u64>,
    backlog: Option<u64>,
    shown: Option<(Instant, u64)>,
}

impl<'a> Conduct<'a> {
    pub(crate) fn new(plan: &'a Plan, phase: &Arc<PhaseShared>, workers: usize) -> Self {
        let stage = &plan.phases[phase.index];
        let arrivals = phase.groups.iter().map(|shared| {
            let seed = seed_of(plan.seeds.schedule, phase.index as u32, shared.group as u32);
            Arrivals::new(&plan.groups[shared.group].arrival, seed, shared.part)
        });
        Self {
            plan,
            phase: Arc::clone(phase),
            aggregate: PhaseAggregate::new(
                phase.index as u32,
                stage.name,
                Arc::new(Names::of(plan)),
                phase.start_ns,
                phase.interval_ns,
            ),
            rule: stage.until.map(StopRule::new),
            ended_by_rule: false,
            through: vec![Some(0); workers],
            counts: vec![VecDeque::new(); workers],
            settled: vec![vec![Counts::default(); plan.groups.len()]; workers],
            parts: (0..workers).map(|_| Part::Going).collect(),
            arrivals: arrivals.collect(),
            next_interval: 0,
            newest_interval: 0,
            drains: BTreeSet::new(),
            tally: Tally::default(),
        }
    }

    /// Returns when every worker has finished its part, or doesn't answer any more. What the others
    /// recorded until the end is kept in any case.
    pub(crate) fn follow<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<(), EngineError> {
        let mut looked_up = Instant::now();
        let mut over_since = None;
        let mut failure = None;
        while self.parts.iter().any(Part::is_going) {
            match run.next_report() {
                Some(Report::Interval { worker, page, through }) => {
                    self.take_page(worker, page, through, run);
                    self.close_ready(run)?;
                }
                Some(Report::Finished(finished)) => {
                    let worker = finished.worker;
                    self.parts[worker] = Part::Finished(finished);
                }
                Some(Report::Panicked { worker, message }) => {
                    self.phase.end_at(run.clock.now_ns());
                    self.parts[worker] = Part::Missing;
                    failure.get_or_insert(EngineError::Panicked { worker, message });
                }
                Some(Report::Opened { .. } | Report::Probed { .. }) | None => {}
            }
            if looked_up.elapsed() >= LOOK_UP {
                looked_up = Instant::now();
                self.look_up(run)?;
                if let Err(unresponsive) = self.limit_drain(run, &mut over_since) {
                    failure.get_or_insert(unresponsive);
                    break;
                }
            }
        }
        self.close_rest(run)?;
        failure.map_or(Ok(()), Err)
    }

    fn take_page<D: Driver, C: Clock>(
        &mut self,
        worker: usize,
        page: Page,
        through: Option<u32>,
        run: &Coordinator<'_, D, C>,
    ) {
        let Page { interval, drain, mut batch, counts } = page;
        self.aggregate.add(interval, drain, &batch);
        batch.clear();
        run.crew.workers[worker].hand_back(batch);
        if drain {
            self.drains.insert(interval);
        } else {
            self.newest_interval = self.newest_interval.max(interval);
        }
        self.counts[worker].push_back((interval, counts));
        self.through[worker] = through;
    }

    /// Closes the intervals to which no worker can add any more.
    fn close_ready<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<(), EngineError> {
        let open = self.through.iter().map(|through| through.unwrap_or(u32::MAX)).min();
        let open = open.unwrap_or(u32::MAX);
        while open != u32::MAX && self.next_interval < open {
            let interval = self.next_interval;
            let end_ns = self.nominal_end_ns(interval).min(self.phase.end_ns());
            let closed = self.close(interval, false, end_ns, run)?;
            if let Some(rule) = &mut self.rule {
                rule.push(&closed.rate_sample());
                if rule.satisfied() && !self.ended_by_rule {
                    self.ended_by_rule = true;
                    self.phase.end_at(run.clock.now_ns());
                }
            }
            self.next_interval += 1;
            self.show(run);
        }
        Ok(())
    }

    fn nominal_end_ns(&self, interval: u32) -> u64 {
        self.phase.start_ns + (u64::from(interval) + 1) * self.phase.interval_ns
    }

    /// Closes what is left when every worker has finished.
    fn close_rest<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<(), EngineError> {
        let (end_ns, _) = self.end();
        let last = (end_ns - self.phase.start_ns).saturating_sub(1) / self.phase.interval_ns;
        let last = u32::try_from(last).unwrap_or(u32::MAX).max(self.newest_interval);
        for interval in self.next_interval..=last {
            let begin_ns = self.nominal_end_ns(interval) - self.phase.interval_ns;
            let end_ns = self.nominal_end_ns(interval).min(end_ns).max(begin_ns);
            self.close(interval, false, end_ns, run)?;
        }
        self.next_interval = last + 1;
        let drained_ns = self.drained_ns(end_ns);
        for interval in std::mem::take(&mut self.drains) {
            self.close(interval, true, drained_ns, run)?;
        }
        Ok(())
    }

    fn close<D: Driver, C: Clock>(
        &mut self,
        interval: u32,
        drain: bool,
        end_ns: u64,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<ClosedInterval, EngineError> {
        let accounting = self.account(interval, end_ns);
        let closed = self.aggregate.close(interval, drain, end_ns, &accounting);
        self.tally.take(&closed);
        self.tally.backlog = accounting.iter().filter_map(|group| group.backlog).reduce(u64::max);
        run.writer.interval(&closed)?;
        let loading = self.plan.phases[self.phase.index].name == PhaseName::Load;
        if loading && self.tally.failed > 0 {
            self.phase.end_at(run.clock.now_ns());
        }
        Ok(closed)
    }

    /// How each group stands at the end of an interval.
    fn account(&mut self, interval: u32, end_ns: u64) -> Vec<GroupAccounting> {
        for (settled, counts) in self.settled.iter_mut().zip(&mut self.counts) {
            while counts.front().is_some_and(|(number, _)| *number <= interval) {
                if let Some((_, newest)) = counts.pop_front() {
                    *settled = newest;
                }
            }
        }
        // Nothing falls due after the window, so that a drain doesn't owe more than it did.
        let elapsed_ns = end_ns.min(self.phase.end_ns()) - self.phase.start_ns;
        let mut accounting = Vec::new();
        for (shared, arrivals) in self.phase.groups.iter().zip(&mut self.arrivals) {
            let sums = self.settled.iter().map(|counts| counts[shared.group]);
            let sum = sums.fold(Counts::default(), Counts::plus);
            let limit = shared.operations.unwrap_or(u64::MAX);
            // The window is open at its end: what is due at that instant belongs to what follows.
            let last_ns = elapsed_ns.saturating_sub(1);
            let due = arrivals
                .as_mut()
                .map(|arrivals| shared.part.of_first(arrivals.due_by(last_ns)).min(limit));
            accounting.push(GroupAccounting {
                group: shared.group,
                due,
                issued: sum.issued,
                backlog: due.map(|due| due.saturating_sub(sum.issued)),
                in_flight: sum.issued - sum.completed,
                frontier: self.phase.inserts.frontier(),
            });
        }
        accounting
    }

    /// When the phase's window ended, and why, once every worker has finished.
    fn end(&self) -> (u64, StoppedBy) {
        let end_ns = self.phase.end_ns();
        let last_ns = self.last_completed_ns();
        if self.is_counted_out() && last_ns <= end_ns {
            return (last_ns, StoppedBy::Operations);
        }
        if end_ns == u64::MAX {
            return (last_ns, StoppedBy::Failed);
        }
        (end_ns, if self.ended_by_rule { StoppedBy::Until } else { StoppedBy::Duration })
    }

    /// Whether every group issued as many operations as it was to.
    fn is_counted_out(&self) -> bool {
        self.phase.groups.iter().all(|shared| {
            let finished = self.parts.iter().filter_map(Part::finished);
            let issued: u64 = finished.map(|worker| worker.counts[shared.group].issued).sum();
            shared.operations == Some(issued)
        })
    }

    fn last_completed_ns(&self) -> u64 {
        let finished = self.parts.iter().filter_map(Part::finished);
        let last = finished.map(|worker| worker.last_completed_ns);
        last.max().unwrap_or(self.phase.start_ns)
    }

    fn drained_ns(&self, end_ns: u64) -> u64 {
        self.last_completed_ns().max(end_ns)
    }

    /// Looks after the user: signals and the display.
    fn look_up<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<(), EngineError> {
        let control = run.observer.poll();
        if control != Control::Continue {
            self.phase.end_at(run.clock.now_ns());
            run.interrupt()?;
        }
        if control == Control::Abandon {
            run.crew.abandoned = true;
            self.phase.give_up();
        }
        if self.tally.shown.is_none_or(|(at, _)| at.elapsed() >= Duration::from_secs(1)) {
            self.show(run);
        }
        Ok(())
    }

    fn show<D: Driver, C: Clock>(&mut self, run: &mut Coordinator<'_, D, C>) {
        let stage = &self.plan.phases[self.phase.index];
        let completed = run.crew.completed();
        let now = Instant::now();
        let rate_per_s = self.tally.shown.map_or(0.0, |(at, before)| {
            completed.saturating_sub(before) as f64 / (now - at).as_secs_f64().max(1e-9)
        });
        self.tally.shown = Some((now, completed));
        let counts = self.phase.groups.iter().map(|shared| shared.operations);
        run.observer.progress(&Progress {
            phase: self.phase.index as u32,
            phase_name: stage.name.name(),
            elapsed_ns: run.clock.now_ns().saturating_sub(self.phase.start_ns),
            expected_ns: stage.duration_ns,
            completed,
            expected_operations: counts.sum(),
            rate_per_s,
            response_ns_p99: self.tally.response_ns_p99,
            failed: self.tally.failed,
            missed: self.tally.missed,
            backlog: self.tally.backlog,
        });
    }

    /// Gives a phase up whose operations don't end.
    fn limit_drain<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
        over_since: &mut Option<Instant>,
    ) -> Result<(), EngineError> {
        if C::SIMULATED || run.clock.now_ns() < self.phase.end_ns() {
            return Ok(());
        }
        let over = over_since.get_or_insert_with(Instant::now).elapsed();
        let limit = Duration::from_nanos(self.plan.drain_limit_ns);
        if over >= limit {
            self.phase.give_up();
        }
        let gone = over >= limit + GRACE || (run.crew.abandoned && over >= GRACE);
        if !gone {
            return Ok(());
        }
        run.crew.abandoned = true;
        let going = self.parts.iter_mut().filter(|part| part.is_going());
        let workers = going.map(|part| *part = Part::Missing).count();
        Err(EngineError::Unresponsive { workers, limit_s: limit.as_secs_f64() })
    }

    /// The phase's account, after [`Self::follow`].
    pub(crate) fn record<D: Driver, C: Clock>(
        &mut self,
        run: &Coordinator<'_, D, C>,
        process: ProcessRecord,
    ) -> (PhaseRecord, Vec<TotalRecord>) {
        let (end_ns, stopped_by) = self.end();
        let end_ns = if end_ns == u64::MAX { run.clock.now_ns() } else { end_ns };
        let totals = self.aggregate.totals();
        let stage = &self.plan.phases[self.phase.index];
        let accounting = self.account(u32::MAX, end_ns);
        let groups = accounting.iter().map(|group| self.group_record(group, &totals)).collect();
        let record = PhaseRecord {
            index: self.phase.index as u32,
            name: stage.name,
            start_ns: self.phase.start_ns,
            end_ns,
            drained_ns: self.drained_ns(end_ns),
            stopped_by: run.stopped_by(stopped_by),
            relative_stderr: self.rule.as_ref().and_then(StopRule::relative_stderr),
            groups,
            workers: self.worker_records(run, end_ns),
            process,
            statistics: BTreeMap::new(),
            sweep: self.phase.sweep.as_ref().map(Sweep::record),
        };
        (record, totals)
    }

    fn group_record(&self, group: &GroupAccounting, totals: &[TotalRecord]) -> GroupRecord {
        let name = &self.plan.groups[group.group].name;
        let whole = totals.iter().filter(|total| !total.part && total.group == *name);
        let ok = whole.clone().filter(|total| total.outcome == Outcome::Ok);
        let completed = whole.map(|total| total.count).sum::<u64>();
        let (late, late_busy) = self.tally.late.get(name).copied().unwrap_or_default();
        GroupRecord {
            group: name.clone(),
            issued: group.issued,
            completed,
            ok: ok.map(|total| total.count).sum(),
            due: group.due,
            dropped: group.backlog.unwrap_or(0),
            late,
            late_busy,
            abandoned: group.issued.saturating_sub(completed),
            frontier: group.frontier,
        }
    }

    fn worker_records<D: Driver, C: Clock>(
        &self,
        run: &Coordinator<'_, D, C>,
        end_ns: u64,
    ) -> Vec<WorkerRecord> {
        let wall_ns = self.drained_ns(end_ns) - self.phase.start_ns;
        let record = |(member, finished): (&crate::coordinator::Member, &Finished)| WorkerRecord {
            worker: finished.worker as u32,
            group: None,
            cpu_ns: finished.usage.cpu_ns,
            waiting_for_core_ns: Some(finished.usage.waiting_for_core_ns),
            idle_spin_ns: finished.idle_spin_ns,
            wall_ns,
            cores: member.cores.clone(),
        };
        let parts = run.crew.workers.iter().zip(&self.parts);
        parts.filter_map(|(member, part)| Some((member, part.finished()?))).map(record).collect()
    }

    /// Whose records end before the phase does, and when.
    pub(crate) fn missing_notices(&self) -> Vec<Notice> {
        let missing = self.parts.iter().zip(&self.through).enumerate();
        let missing = missing.filter(|(_, (part, _))| matches!(part, Part::Missing));
        let notice = |(worker, (_, through)): (usize, (&Part, &Option<u32>))| {
            let recorded_ns = through.map_or(0, |open| u64::from(open) * self.phase.interval_ns);
            let mut evidence = BTreeMap::new();
            evidence.insert("worker".to_owned(), worker.into());
            evidence.insert("recorded_ns".to_owned(), recorded_ns.into());
            Notice {
                code: "worker_missing".to_owned(),
                phase: Some(self.phase.index as u32),
                message: format!(
                    "worker {worker} stopped answering: what it did more than {:.1} s after the \
                     phase began is missing from the records",
                    recorded_ns as f64 * 1e-9
                ),
                evidence,
                advice: "look why its operation didn't end; what the other workers did is there"
                    .to_owned(),
            }
        };
        missing.map(notice).collect()
    }

    /// What the drivers said of the first failure of each class.
    pub(crate) fn failure_notices(&self, totals: &[TotalRecord]) -> Vec<Notice> {
        let mut first = BTreeMap::new();
        for finished in self.parts.iter().filter_map(Part::finished) {
            for (outcome, message) in &finished.failures {
                first.entry(*outcome).or_insert(message);
            }
        }
        let notice = |(outcome, message): (Outcome, &String)| {
            let ended = totals.iter().filter(|total| !total.part && total.outcome == outcome);
            let count = ended.map(|total| total.count).sum::<u64>();
            let mut evidence = BTreeMap::new();
            evidence.insert("outcome".to_owned(), outcome.name().into());
            evidence.insert("operations".to_owned(), count.into());
            let said = if message.is_empty() { String::new() } else { format!(": {message}") };
            Notice {
                code: "operations_failed".to_owned(),
                phase: Some(self.phase.index as u32),
                message: format!("{count} operations ended as {}{said}", outcome.name()),
                evidence,
                advice: "look at the system's own log around this time".to_owned(),
            }
        };
        first.into_iter().map(notice).collect()
    }

    /// The error of a load phase in which an operation failed.
    pub(crate) fn load_failure(
        &self,
        record: &PhaseRecord,
        notices: &[Notice],
    ) -> Option<EngineError> {
        let notice = notices.first()?;
        (record.name == PhaseName::Load)
            .then(|| EngineError::LoadFailed { message: notice.message.clone() })
    }
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self { issued: self.issued + other.issued, completed: self.completed + other.completed }
    }
}

impl Tally {
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
