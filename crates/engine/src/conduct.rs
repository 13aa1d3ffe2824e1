//! Follows one stretch: gathers pages, closes intervals, applies stop rules, waits for the drain.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kvmark_driver::Driver;
use kvmark_plan::{Outcome, PhaseName, Plan};
use kvmark_record::{
    ClosedInterval, GroupAccounting, GroupRecord, Names, Notice, PhaseAggregate, PhaseRecord,
    RowOutcome, StopRule, StoppedBy, TotalRecord, WorkerRecord,
};
use kvmark_schedule::seed_of;

use crate::clock::Clock;
use crate::coordinator::{Coordinator, LOOK_UP_MEANWHILE, Mark};
use crate::crew::Member;
use crate::error::EngineError;
use crate::ledger::{Counts, Finished, FinishedLeg, Page, Position, Report};
use crate::observer::{Control, Progress};
use crate::owed::Owed;
use crate::phase::{Leg, Stretch};
use crate::verify_scan::VerifyScan;

/// How long workers get to notice that a phase was given up.
const GRACE: Duration = Duration::from_millis(500);
/// How long a silent system is waited for once the user has ended the run.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most reports that are taken before an interval is closed.
const REPORTS_AT_ONCE: usize = 1024;

/// The coordinator's view of one stretch.
pub(crate) struct Conduct<'a> {
    plan: &'a Plan,
    stretch: Arc<Stretch>,
    legs: Vec<Conducted<'a>>,
    /// The phase whose begin was told last, and the one whose intervals are being closed.
    begun: usize,
    closing: usize,
    /// Per worker: the first interval to which it may still add; none when it is in its drain.
    through: Vec<Option<Position>>,
    /// The intervals before this one can be closed.
    complete: Position,
    /// Per worker: counts at the ends of intervals that are not closed yet.
    counts: Vec<VecDeque<(Position, Vec<Vec<Counts>>)>>,
    /// Per worker: the newest counts that belong to a closed interval.
    settled: Vec<Vec<Vec<Counts>>>,
    parts: Vec<Part>,
    /// When the display was renewed, and how many operations had completed then.
    shown: Option<(Instant, u64)>,
    /// When it was seen that the system doesn't answer.
    stalled_since: Option<Instant>,
}

/// The coordinator's view of one phase of a stretch.
struct Conducted<'a> {
    stage: &'a kvmark_plan::Phase,
    aggregate: PhaseAggregate,
    rule: Option<StopRule>,
    ended_by_rule: bool,
    /// Per group of the phase: what is due, and when.
    owed: Vec<Owed>,
    next_interval: u32,
    newest_interval: u32,
    drains: BTreeSet<u32>,
    seen: Seen,
    /// What was taken when it began.
    mark: Option<Mark>,
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

    fn leg(&self, leg: usize) -> Option<&FinishedLeg> {
        self.finished()?.legs.get(leg)
    }

    fn is_going(&self) -> bool {
        matches!(self, Self::Going)
    }
}

/// What a display shows of a phase.
#[derive(Debug, Default)]
struct Seen {
    failed: u64,
    missed: u64,
    /// By group: issued late, and of these because their client was busy.
    late: BTreeMap<String, (u64, u64)>,
    response_ns_p99: Option<u64>,
    backlog: Option<u64>,
}

impl<'a> Conducted<'a> {
    fn new(plan: &'a Plan, stretch: &Stretch, leg: &Leg) -> Self {
        let stage = &plan.phases[leg.index];
        let owed = leg.groups.iter().map(|shared| {
            let seed = seed_of(plan.seeds.schedule, leg.index as u32, shared.group as u32);
            Owed::new(&plan.groups[shared.group].arrival, seed, shared.part, shared.owner)
        });
        Self {
            stage,
            aggregate: PhaseAggregate::new(
                leg.index as u32,
                stage.name,
                Arc::new(Names::of(plan)),
                leg.start_ns,
                stretch.interval_ns,
            ),
            // Of several machines none sees the throughput of all: their observer has the rule.
            rule: stage.until.filter(|_| plan.share.of == 1).map(StopRule::new),
            ended_by_rule: false,
            owed: owed.collect(),
            next_interval: 0,
            newest_interval: 0,
            drains: BTreeSet::new(),
            seen: Seen::default(),
            mark: None,
        }
    }
}

impl<'a> Conduct<'a> {
    /// Follows what begins with this mark.
    pub(crate) fn new(plan: &'a Plan, stretch: &Arc<Stretch>, workers: usize, mark: Mark) -> Self {
        let conducted = |leg| Conducted::new(plan, stretch, leg);
        let mut legs: Vec<Conducted<'_>> = stretch.legs.iter().map(conducted).collect();
        legs[0].mark = Some(mark);
        let none = vec![vec![Counts::default(); plan.groups.len()]; legs.len()];
        Self {
            plan,
            stretch: Arc::clone(stretch),
            legs,
            begun: 0,
            closing: 0,
            through: vec![Some((0, 0)); workers],
            complete: (0, 0),
            counts: vec![VecDeque::new(); workers],
            settled: vec![none; workers],
            parts: (0..workers).map(|_| Part::Going).collect(),
            shown: None,
            stalled_since: None,
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
        let mut is_behind = false;
        while self.parts.iter().any(Part::is_going) {
            let nap = if is_behind { Duration::ZERO } else { self.nap(run) };
            self.take_reports(nap, run, &mut failure)?;
            is_behind = self.close_next(run)?;
            if C::SIMULATED {
                self.close_complete(run)?;
            }
            if looked_up.elapsed() >= LOOK_UP_MEANWHILE {
                looked_up = Instant::now();
                self.look_up(run)?;
                self.limit_silence(run);
                if let Err(unresponsive) = self.limit_drain(run, &mut over_since) {
                    failure.get_or_insert(unresponsive);
                    break;
                }
            }
        }
        // What doesn't answer leaves workers behind; a defect is one all the same.
        if self.stretch.has_stalled() && !matches!(failure, Some(EngineError::Panicked { .. })) {
            failure = Some(run.no_answer(&self.awaited()));
        }
        self.close_complete(run)?;
        self.close_rest(run)?;
        failure.map_or(Ok(()), Err)
    }

    /// Takes the reports that have come, or waits for one. Pages are merged before intervals are
    /// closed, which takes longer: those of many workers would pile up meanwhile.
    fn take_reports<D: Driver, C: Clock>(
        &mut self,
        nap: Duration,
        run: &mut Coordinator<'_, D, C>,
        failure: &mut Option<EngineError>,
    ) -> Result<(), EngineError> {
        // A worker in simulated time would be as far ahead as this is.
        let most = if C::SIMULATED { 1 } else { REPORTS_AT_ONCE };
        let later = std::iter::repeat(Duration::ZERO);
        for nap in std::iter::once(nap).chain(later).take(most) {
            match run.next_report(nap) {
                Some(Report::Interval { worker, page, through }) => {
                    self.take_page(worker, page, through, run);
                }
                Some(Report::Finished(finished)) => {
                    self.close_complete(run)?;
                    let worker = finished.worker;
                    self.parts[worker] = Part::Finished(finished);
                }
                Some(Report::Panicked { worker, message }) => {
                    self.close_complete(run)?;
                    self.stretch.end_at(run.clock.now_ns());
                    self.parts[worker] = Part::Missing;
                    failure.get_or_insert(EngineError::Panicked { worker, message });
                }
                Some(Report::Opened { .. } | Report::Probed { .. }) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// Ends the stretch when the system has answered nothing for too long.
    fn limit_silence<D: Driver, C: Clock>(&mut self, run: &Coordinator<'_, D, C>) {
        let (Some(limit_ns), false) = (self.plan.stall_limit_ns, C::SIMULATED) else { return };
        if self.silent_ns(run).is_some_and(|silent_ns| silent_ns >= limit_ns)
            && self.stalled_since.is_none()
        {
            self.stalled_since = Some(Instant::now());
            self.stretch.stall(run.clock.now_ns());
        }
    }

    /// How long the workers whose part isn't over wait without an answer.
    fn silent_ns<D: Driver, C: Clock>(&self, run: &Coordinator<'_, D, C>) -> Option<u64> {
        run.silent_ns(|worker| self.parts[worker].is_going())
    }

    /// The servers that owe an answer, as far as their workers know.
    fn awaited(&self) -> Vec<String> {
        let finished = self.parts.iter().filter_map(Part::finished);
        let awaited: BTreeSet<_> = finished.flat_map(|finished| finished.awaited.clone()).collect();
        awaited.into_iter().collect()
    }

    /// How long to wait for a report: not beyond the instant at which the next phase begins.
    fn nap<D: Driver, C: Clock>(&self, run: &Coordinator<'_, D, C>) -> Duration {
        let longest = LOOK_UP_MEANWHILE;
        let Some(next) = self.stretch.legs.get(self.begun + 1) else { return longest };
        let left_ns = next.start_ns.saturating_sub(run.clock.now_ns());
        if left_ns == 0 { longest } else { longest.min(Duration::from_nanos(left_ns)) }
    }

    /// Tells of the next phase once its instant has come.
    fn begin_next<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<(), EngineError> {
        let Some(next) = self.stretch.legs.get(self.begun + 1) else { return Ok(()) };
        let start_ns = next.start_ns;
        if run.clock.now_ns() < start_ns || !self.stretch.reaches(self.begun + 1) {
            return Ok(());
        }
        let index = next.index;
        self.begun += 1;
        self.legs[self.begun].mark = Some(run.mark());
        self.shown = None;
        run.phase_event(index, start_ns, None)
    }

    fn take_page<D: Driver, C: Clock>(
        &mut self,
        worker: usize,
        page: Page,
        through: Option<Position>,
        run: &Coordinator<'_, D, C>,
    ) {
        let Page { place, drain, mut batch, counts } = page;
        let (leg, interval) = place;
        let conducted = &mut self.legs[leg];
        conducted.aggregate.add(interval, drain, &batch);
        batch.clear();
        run.crew.workers[worker].hand_back(batch);
        if drain {
            conducted.drains.insert(interval);
        } else {
            conducted.newest_interval = conducted.newest_interval.max(interval);
        }
        if !counts.is_empty() {
            self.counts[worker].push_back((place, counts));
        }
        self.through[worker] = through;
        if let Some(open) = self.through.iter().flatten().min() {
            self.complete = *open;
        }
    }

    /// Closes the intervals to which no worker can add any more.
    fn close_complete<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<(), EngineError> {
        while self.close_next(run)? {}
        Ok(())
    }

    /// Closes one of them, or a phase's window. Returns whether there was one.
    fn close_next<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<bool, EngineError> {
        self.begin_next(run)?;
        let (leg, open) = self.complete;
        if self.closing < leg {
            self.close_window(self.closing, run)?;
            self.closing += 1;
            return Ok(true);
        }
        let interval = self.legs[leg].next_interval;
        if interval >= open {
            return Ok(false);
        }
        let closed = self.close(leg, interval, false, run)?;
        let conducted = &mut self.legs[leg];
        conducted.next_interval += 1;
        if let Some(rule) = &mut conducted.rule {
            rule.push(&closed.rate_sample());
            if rule.satisfied() {
                self.end_by_rule(leg, run.clock.now_ns());
            }
        }
        self.show(run);
        Ok(true)
    }

    /// Ends a phase because its rule is met, unless it has been ended so.
    fn end_by_rule(&mut self, leg: usize, now_ns: u64) {
        if !std::mem::replace(&mut self.legs[leg].ended_by_rule, true) {
            self.stretch.end_at(now_ns);
        }
    }

    /// Closes what is left of a phase's window, and tells that it has ended.
    fn close_window<D: Driver, C: Clock>(
        &mut self,
        leg: usize,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<(), EngineError> {
        let (end_ns, _) = self.end(leg);
        let start_ns = self.stretch.legs[leg].start_ns;
        let last = end_ns.saturating_sub(start_ns).saturating_sub(1) / self.stretch.interval_ns;
        let last = u32::try_from(last).unwrap_or(u32::MAX).max(self.legs[leg].newest_interval);
        for interval in self.legs[leg].next_interval..=last {
            self.close(leg, interval, false, run)?;
        }
        self.legs[leg].next_interval = last + 1;
        // The last one's end is told with its record.
        if leg == self.begun {
            return Ok(());
        }
        run.phase_event(self.stretch.legs[leg].index, end_ns, Some(StoppedBy::Duration))
    }

    /// Closes what is left when every worker has finished.
    fn close_rest<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<(), EngineError> {
        for leg in self.closing..=self.begun {
            self.close_window(leg, run)?;
        }
        // What ends in the drain of an early phase may end in the last one's.
        self.settle((self.begun, u32::MAX));
        for leg in 0..=self.begun {
            for interval in std::mem::take(&mut self.legs[leg].drains) {
                self.close(leg, interval, true, run)?;
            }
        }
        Ok(())
    }

    fn close<D: Driver, C: Clock>(
        &mut self,
        leg: usize,
        interval: u32,
        drain: bool,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<ClosedInterval, EngineError> {
        let end_ns = if drain { self.drained_ns(leg) } else { self.interval_end_ns(leg, interval) };
        let accounting = self.account(leg, interval, end_ns);
        let conducted = &mut self.legs[leg];
        let closed = conducted.aggregate.close(interval, drain, end_ns, &accounting);
        conducted.seen.take(&closed);
        let backlogs = accounting.iter().filter_map(|group| group.backlog);
        conducted.seen.backlog = backlogs.reduce(u64::max);
        run.writer.interval(&closed)?;
        if conducted.stage.name == PhaseName::Load && conducted.seen.failed > 0 {
            self.stretch.end_at(run.clock.now_ns());
        }
        Ok(closed)
    }

    fn interval_end_ns(&self, leg: usize, interval: u32) -> u64 {
        let (length_ns, start_ns) = (self.stretch.interval_ns, self.stretch.legs[leg].start_ns);
        let begin_ns = start_ns + u64::from(interval) * length_ns;
        let going = self.parts.iter().any(Part::is_going);
        let end_ns = if going { self.stretch.leg_end_ns(leg) } else { self.end(leg).0 };
        (begin_ns + length_ns).min(end_ns).max(begin_ns)
    }

    /// Brings the counts to the end of an interval.
    fn settle(&mut self, end: Position) {
        for (settled, counts) in self.settled.iter_mut().zip(&mut self.counts) {
            while counts.front().is_some_and(|(place, _)| *place <= end) {
                if let Some((_, newest)) = counts.pop_front() {
                    *settled = newest;
                }
            }
        }
    }

    /// How each group stands at the end of an interval.
    fn account(&mut self, leg: usize, interval: u32, end_ns: u64) -> Vec<GroupAccounting> {
        self.settle((leg, interval));
        let groups = 0..self.stretch.legs[leg].groups.len();
        groups.map(|group| self.account_of(leg, group, end_ns)).collect()
    }

    fn account_of(&mut self, leg: usize, group: usize, end_ns: u64) -> GroupAccounting {
        let (mut outstanding, mut in_flight) = (Some(0), 0);
        let mut own = (None, Counts::default());
        // Of an earlier phase some may be still to be issued, or in flight.
        for earlier in 0..=leg {
            let shared = self.stretch.legs[earlier].groups[group].group;
            let counts = self.settled.iter().map(|legs| legs[earlier][shared]);
            let counts = counts.fold(Counts::default(), Counts::plus);
            let due = self.due(earlier, group, end_ns);
            let owed = due.map(|due| due.saturating_sub(counts.issued));
            outstanding = outstanding.zip(owed).map(|(sum, owed)| sum + owed);
            in_flight += counts.issued - counts.completed;
            own = (due, counts);
        }
        let (due, counts) = own;
        GroupAccounting {
            group: self.stretch.legs[leg].groups[group].group,
            due,
            issued: counts.issued,
            read_late: counts.read_late,
            backlog: outstanding,
            in_flight,
            frontier: self.stretch.inserts.frontier(),
        }
    }

    /// Arrivals of a group that fell due in a phase until an instant; none in the closed model.
    fn due(&mut self, leg: usize, group: usize, until_ns: u64) -> Option<u64> {
        // Nothing falls due after the window, so that a drain doesn't owe more than it did.
        let end_ns = until_ns.min(self.stretch.leg_end_ns(leg));
        let shared = &self.stretch.legs[leg];
        // The window is open at its end: what is due at that instant belongs to what follows.
        let last_ns = end_ns.saturating_sub(shared.start_ns).saturating_sub(1);
        let shared = &shared.groups[group];
        let limit = shared.operations.unwrap_or(u64::MAX);
        Some(self.legs[leg].owed[group].by(last_ns)?.min(limit))
    }

    /// When a phase's window ended, and why, once every worker has finished with it.
    fn end(&self, leg: usize) -> (u64, StoppedBy) {
        let end_ns = self.stretch.leg_end_ns(leg);
        if leg < self.begun {
            return (end_ns, StoppedBy::Duration);
        }
        let last_ns = self.last_completed_ns(leg);
        if self.is_counted_out(leg) && last_ns <= end_ns {
            return (last_ns, StoppedBy::Operations);
        }
        if end_ns == u64::MAX {
            return (last_ns, StoppedBy::Failed);
        }
        let ended_by_rule = self.legs[leg].ended_by_rule;
        (end_ns, if ended_by_rule { StoppedBy::Until } else { StoppedBy::Duration })
    }

    /// Whether every group issued as many operations as it was to.
    fn is_counted_out(&self, leg: usize) -> bool {
        self.stretch.legs[leg].groups.iter().all(|shared| {
            let finished = self.parts.iter().filter_map(|part| part.leg(leg));
            let issued: u64 = finished.map(|own| own.counts[shared.group].issued).sum();
            shared.operations == Some(issued)
        })
    }

    fn last_completed_ns(&self, leg: usize) -> u64 {
        let finished = self.parts.iter().filter_map(|part| part.leg(leg));
        let last = finished.map(|own| own.last_completed_ns);
        last.max().unwrap_or(self.stretch.legs[leg].start_ns)
    }

    fn drained_ns(&self, leg: usize) -> u64 {
        self.last_completed_ns(leg).max(self.end(leg).0)
    }

    /// Looks after the user: signals and the display.
    fn look_up<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
    ) -> Result<(), EngineError> {
        let control = run.observer.poll();
        if control != Control::Continue {
            self.stretch.end_at(run.clock.now_ns());
            run.interrupt()?;
        }
        if run.observer.ended_phase() >= Some(self.stretch.legs[self.begun].index as u32) {
            self.end_by_rule(self.begun, run.clock.now_ns());
        }
        if control == Control::Abandon {
            run.crew.abandoned = true;
            run.is_silent = true;
            self.stretch.give_up();
        }
        if run.observer.is_disturbed() {
            run.disturbed_ns = run.clock.now_ns();
        }
        if self.shown.is_none_or(|(at, _)| at.elapsed() >= Duration::from_secs(1)) {
            self.show(run);
        }
        Ok(())
    }

    fn show<D: Driver, C: Clock>(&mut self, run: &mut Coordinator<'_, D, C>) {
        let (leg, conducted) = (&self.stretch.legs[self.begun], &self.legs[self.begun]);
        let completed = run.crew.completed();
        let now = Instant::now();
        let rate_per_s = self.shown.map_or(0.0, |(at, before)| {
            completed.saturating_sub(before) as f64 / (now - at).as_secs_f64().max(1e-9)
        });
        self.shown = Some((now, completed));
        let counts = leg.groups.iter().map(|shared| shared.operations);
        let silent_ns = self.silent_ns(run);
        run.observer.progress(&Progress {
            phase: leg.index as u32,
            phase_name: conducted.stage.name.name(),
            elapsed_ns: run.clock.now_ns().saturating_sub(leg.start_ns),
            expected_ns: conducted.stage.duration_ns,
            completed,
            expected_operations: counts.sum(),
            rate_per_s,
            response_ns_p99: conducted.seen.response_ns_p99,
            failed: conducted.seen.failed,
            missed: conducted.seen.missed,
            backlog: conducted.seen.backlog,
            silent_ns,
        });
    }

    /// Gives a stretch up whose operations don't end.
    fn limit_drain<D: Driver, C: Clock>(
        &mut self,
        run: &mut Coordinator<'_, D, C>,
        over_since: &mut Option<Instant>,
    ) -> Result<(), EngineError> {
        if C::SIMULATED || run.clock.now_ns() < self.stretch.end_ns() {
            return Ok(());
        }
        let over = over_since.get_or_insert_with(Instant::now).elapsed();
        let mut limit = Duration::from_nanos(self.plan.drain_limit_ns);
        let silence = Duration::from_nanos(self.silent_ns(run).unwrap_or(0));
        if run.interrupted && over.min(silence) >= PATIENCE {
            // Who ended the run waits neither for a silent system nor for its statistics.
            run.is_silent = true;
            limit = limit.min(PATIENCE);
        }
        if over >= limit {
            self.stretch.give_up();
        }
        let stalled = self.stalled_since.is_some_and(|since| since.elapsed() >= GRACE);
        let gone = stalled || over >= limit + GRACE || (run.crew.abandoned && over >= GRACE);
        if !gone {
            return Ok(());
        }
        run.crew.abandoned = true;
        let going = self.parts.iter_mut().filter(|part| part.is_going());
        let workers = going.map(|part| *part = Part::Missing).count();
        Err(EngineError::Unresponsive { workers, limit_s: limit.as_secs_f64() })
    }

    /// The accounts of the phases that began, after [`Self::follow`].
    pub(crate) fn records<D: Driver, C: Clock>(
        &mut self,
        run: &Coordinator<'_, D, C>,
    ) -> Vec<(PhaseRecord, Vec<TotalRecord>)> {
        let mut marks: Vec<Mark> = self.legs.iter_mut().filter_map(|leg| leg.mark.take()).collect();
        marks.push(run.mark());
        let pairs = marks.windows(2).enumerate();
        pairs.map(|(leg, marks)| self.record(leg, &marks[0], &marks[1], run)).collect()
    }

    fn record<D: Driver, C: Clock>(
        &mut self,
        leg: usize,
        before: &Mark,
        after: &Mark,
        run: &Coordinator<'_, D, C>,
    ) -> (PhaseRecord, Vec<TotalRecord>) {
        let (end_ns, stopped_by) = self.end(leg);
        let end_ns = if end_ns == u64::MAX { run.clock.now_ns() } else { end_ns };
        let totals = self.legs[leg].aggregate.totals();
        let accounting = self.account(leg, u32::MAX, end_ns);
        let groups = accounting.iter().map(|group| self.group_record(leg, group, &totals));
        let conducted = &self.legs[leg];
        let is_last = leg == self.begun;
        let record = PhaseRecord {
            index: self.stretch.legs[leg].index as u32,
            name: conducted.stage.name,
            start_ns: self.stretch.legs[leg].start_ns,
            end_ns,
            drained_ns: self.last_completed_ns(leg).max(end_ns),
            stopped_by: if is_last { run.stopped_by(stopped_by) } else { stopped_by },
            relative_stderr: conducted.rule.as_ref().and_then(StopRule::relative_stderr),
            groups: groups.collect(),
            workers: self.worker_records(leg, run, end_ns),
            process: before.process_until(after),
            statistics: before.changes_until(after),
            generator_lag: conducted.aggregate.generator_lag(),
            sweep: self.stretch.scan.as_ref().map(VerifyScan::record),
            records_found: None,
        };
        (record, totals)
    }

    fn group_record(
        &self,
        leg: usize,
        group: &GroupAccounting,
        totals: &[TotalRecord],
    ) -> GroupRecord {
        let name = &self.plan.groups[group.group].name;
        let whole = totals.iter().filter(|total| !total.part && total.group == *name);
        let ok = whole.clone().filter(|total| total.outcome == Outcome::Ok);
        let completed = whole.map(|total| total.count).sum::<u64>();
        let late = self.legs[leg].seen.late.get(name).copied();
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

    fn worker_records<D: Driver, C: Clock>(
        &self,
        leg: usize,
        run: &Coordinator<'_, D, C>,
        end_ns: u64,
    ) -> Vec<WorkerRecord> {
        // Where another phase goes on, what is left is done in that one's time.
        let until_ns = if leg == self.begun { self.drained_ns(leg).max(end_ns) } else { end_ns };
        let wall_ns = until_ns - self.stretch.legs[leg].start_ns;
        let parts = run.crew.workers.iter().zip(&self.parts).enumerate();
        let record = |(worker, (member, part)): (usize, (&Member, &Part))| {
            let spent = part.leg(leg)?.spent;
            Some(WorkerRecord {
                worker: worker as u32,
                cpu_ns: spent.usage.cpu_ns,
                waiting_for_core_ns: Some(spent.usage.waiting_for_core_ns),
                idle_spin_ns: spent.idle_spin_ns,
                wall_ns,
                cores: member.cores.clone(),
            })
        };
        parts.filter_map(record).collect()
    }

    /// Whose records end before the stretch does, and when.
    pub(crate) fn missing_notices(&self) -> Vec<Notice> {
        let missing = self.parts.iter().zip(&self.through).enumerate();
        let missing = missing.filter(|(_, (part, _))| matches!(part, Part::Missing));
        let notice = |(worker, (_, through)): (usize, (&Part, &Option<Position>))| {
            let (leg, open) = through.unwrap_or((self.begun, self.legs[self.begun].next_interval));
            let recorded_ns = u64::from(open) * self.stretch.interval_ns;
            let mut evidence = BTreeMap::new();
            evidence.insert("worker".to_owned(), worker.into());
            evidence.insert("recorded_ns".to_owned(), recorded_ns.into());
            Notice {
                code: "worker_missing".to_owned(),
                phase: Some(self.stretch.legs[leg].index as u32),
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
    pub(crate) fn failure_notices(&self, leg: usize, totals: &[TotalRecord]) -> Vec<Notice> {
        let mut first = BTreeMap::new();
        for finished in self.parts.iter().filter_map(|part| part.leg(leg)) {
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
                phase: Some(self.stretch.legs[leg].index as u32),
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
        Self {
            issued: self.issued + other.issued,
            completed: self.completed + other.completed,
            read_late: self.read_late + other.read_late,
        }
    }
}

impl Seen {
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
