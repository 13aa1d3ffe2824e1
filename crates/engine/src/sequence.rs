//! The state that coordinator and workers share during a sequence of phases without gaps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kvmark_driver::Expected;
use kvmark_plan::{
    ActiveGroup, Arrival, FieldChoice, Fill, Group, Phase, PhaseName, Plan, Share, TapeOrder,
    ValueCheck,
};
use kvmark_workload::{InsertSequence, Stream, seed_of};

use crate::attempts::Retries;
use crate::error::EngineError;
use crate::scheduled::PhaseNumbers;
use crate::source::{OperationNumbers, RoundRobin, clients_of};
use crate::tape::TapeCounts;
use crate::verify_scan::{HistoryWriter, VerifyScan};
use crate::write_history::WriteHistory;

/// A compiled sequence of phases without gaps: one phase, or a warm-up and its measurement.
/// Everything that can fail or be slow happens before it begins.
#[derive(Debug)]
pub(crate) struct PhaseSequence {
    /// The phases in order, all with the same groups.
    pub(crate) phases: Vec<ActivePhase>,
    plan_groups: usize,
    /// By group.
    pub(crate) numbers: Vec<OperationNumbers>,
    pub(crate) interval_ns: u64,
    pub(crate) timeout_ns: Option<u64>,
    /// Longest time without any answer.
    pub(crate) stall_limit_ns: Option<u64>,
    pub(crate) inserts: Arc<InsertSequence>,
    /// The records to read back in the verify phase.
    pub(crate) scan: Option<VerifyScan>,
    /// Whether requests in flight can be given up.
    pub(crate) cancels: bool,
    /// Wall time when the clock was 0.
    pub(crate) started_wall_ns: u64,
    end_ns: AtomicU64,
    given_up: AtomicBool,
    stalled: AtomicBool,
}

/// A phase of a sequence.
#[derive(Debug)]
pub(crate) struct ActivePhase {
    /// Index in the plan.
    pub(crate) index: usize,
    pub(crate) start_ns: u64,
    pub(crate) groups: Vec<GroupShared>,
}

/// A group in a phase.
#[derive(Debug)]
pub(crate) struct GroupShared {
    /// Index in the plan.
    pub(crate) group: usize,
    pub(crate) stream: Stream,
    /// Operations of this engine after which the group ends; `None` for no limit.
    pub(crate) operations: Option<u64>,
    /// Clients of this engine.
    pub(crate) clients: u32,
    pub(crate) round_robin: RoundRobin,
    pub(crate) read_fields: FieldChoice,
    /// Whether values that are read are compared byte by byte.
    pub(crate) checks_fully: bool,
    /// The properties that a record must have when it is read. The tag is the first record's.
    pub(crate) expected: Option<Expected>,
    /// The history of writes for the verify phase.
    pub(crate) history: Option<HistoryWriter>,
    /// Whether operations are logged.
    pub(crate) logged: bool,
    /// Further attempts of failed requests.
    pub(crate) retries: Option<Retries>,
    /// The write after a read of a missing record.
    pub(crate) fill: Option<Fill>,
    /// Whether the end of an operation takes more than its record: a log, attempts, or a fill.
    pub(crate) ends_apart: bool,
    /// The statements of the mix, in order.
    pub(crate) statements: Vec<Option<u32>>,
    /// Whether the operations come from a tape.
    pub(crate) taped: bool,
    /// Whether operations wait for one another. Operations of a single client don't.
    pub(crate) ordered: bool,
}

impl PhaseSequence {
    /// Number of the counters of a worker: one for each phase and group of the plan.
    pub(crate) fn counters(&self) -> usize {
        self.phases.len() * self.plan_groups
    }

    /// The index of the counter of a phase and a group of the plan.
    #[inline]
    pub(crate) fn counter(&self, phase: usize, group: usize) -> usize {
        phase * self.plan_groups + group
    }

    pub(crate) fn start_ns(&self) -> u64 {
        self.phases[0].start_ns
    }

    /// End of a phase as currently known.
    pub(crate) fn phase_end_ns(&self, phase: usize) -> u64 {
        let next = self.phases.get(phase + 1).map_or(u64::MAX, |next| next.start_ns);
        next.min(self.end_ns())
    }

    /// Whether a phase begins, as currently known.
    pub(crate) fn reaches(&self, phase: usize) -> bool {
        phase == 0 || self.phases[phase].start_ns < self.end_ns()
    }

    /// End of the sequence as currently known.
    #[inline]
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Ends the sequence at an instant unless it ends before.
    pub(crate) fn end_at(&self, instant_ns: u64) {
        self.end_ns.fetch_min(instant_ns, Ordering::Relaxed);
    }

    /// Makes workers drop outstanding requests.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Ends the sequence and drops outstanding requests because the system doesn't answer.
    pub(crate) fn stall(&self, instant_ns: u64) {
        self.end_at(instant_ns);
        self.stalled.store(true, Ordering::Relaxed);
        self.give_up();
    }

    /// Whether the sequence ended because the system doesn't answer.
    pub(crate) fn has_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// The group of each client of one worker, as an index into [`ActivePhase::groups`]. Slots are
    /// assigned round-robin: slot `s` belongs to worker `s % workers`.
    pub(crate) fn seats(&self, worker: u32, workers: u32) -> Vec<usize> {
        let clients = self.phases[0].groups.iter().enumerate();
        let slots = clients.flat_map(|(group, shared)| (0..shared.clients).map(move |_| group));
        slots.skip(worker as usize).step_by(workers as usize).collect()
    }
}

/// Settings that all phases of a run share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSettings {
    /// Workers that serve many clients; `None` if clients have threads.
    pub(crate) workers: Option<u32>,
    pub(crate) cancels: bool,
    pub(crate) simulated_time: bool,
    /// Whether measured operations are logged.
    pub(crate) logs: bool,
    /// Wall time when the clock was 0.
    pub(crate) started_wall_ns: u64,
}

/// The state of the dataset for a phase.
#[derive(Clone, Debug)]
pub(crate) struct DatasetState {
    pub(crate) inserts: Arc<InsertSequence>,
    /// `None` without a verify phase.
    pub(crate) history: Option<Arc<WriteHistory>>,
    /// Records of this share from an earlier load, after which a load continues.
    pub(crate) there: u64,
    pub(crate) taped: Arc<TapeCounts>,
    /// Whether values have tags; `None` if unknown.
    pub(crate) tags: Option<bool>,
}

impl DatasetState {
    /// The state at the start of a run, with the share's operations on tapes.
    pub(crate) fn of(plan: &Plan, taped: TapeCounts) -> Self {
        let verifies = plan.phases.iter().any(|phase| phase.name == PhaseName::Verify);
        let memory = || plan.verify_memory_bytes.expect("a plan that verifies bounds its memory");
        let end = plan.dataset.start + plan.dataset.count;
        Self {
            inserts: inserts_from(plan, end),
            history: verifies.then(|| Arc::new(WriteHistory::new(memory()))),
            there: 0,
            taped: Arc::new(taped),
            tags: None,
        }
    }
}

/// Streams of a phase's groups, compiled before the run begins.
pub(crate) fn compile_streams(plan: &Plan) -> Result<Vec<Vec<Stream>>, EngineError> {
    let streams = |(index, phase): (usize, &Phase)| {
        let groups = phase.groups.iter().map(|active| active.group as usize);
        groups.map(|group| Ok(Stream::new(plan, index, group)?)).collect()
    };
    plan.phases.iter().enumerate().map(streams).collect()
}

/// Number of phases from this one on that run without gaps: two for a warm-up and a measurement by
/// the same clients, otherwise one.
pub(crate) fn sequence_length(plan: &Plan, index: usize) -> usize {
    let [first, second, ..] = &plan.phases[index..] else { return 1 };
    let names = (first.name, second.name) == (PhaseName::WarmUp, PhaseName::Measure);
    let endless = |active: &ActiveGroup| active.operations.is_none();
    let timed = first.duration_ns.is_some() && first.until.is_none();
    let groups = |phase: &Phase| phase.groups.iter().map(|active| active.group).collect::<Vec<_>>();
    let same = groups(first) == groups(second) && first.groups.iter().all(endless);
    if names && timed && same && !first.groups.is_empty() { 2 } else { 1 }
}

/// Builds the sequence that begins with the plan's phase `index`. `start` returns its start and is
/// called when everything else is ready. Streams are by phase, then by group.
pub(crate) fn begin(
    plan: &Plan,
    index: usize,
    streams: Vec<Vec<Stream>>,
    dataset: DatasetState,
    settings: RunSettings,
    start: impl FnOnce() -> u64,
) -> PhaseSequence {
    let planned = &plan.phases[index..index + streams.len()];
    let DatasetState { inserts, history, there, taped, tags } = dataset;
    let verifies = planned[0].name == PhaseName::Verify;
    let scanned = history.as_ref().filter(|_| verifies);
    let scan = scanned.map(|history| VerifyScan::of(history, plan));
    let written = history.filter(|_| !verifies);
    let (share, records) = match &scan {
        // Each engine reads back its own writes.
        Some(scan) => (Share { index: 0, of: 1 }, Some(scan.len())),
        None => (plan.share, None),
    };
    let turns = turns(plan, &planned[0], share);
    // Called only now: gathering and sorting the records to read back takes time.
    let mut end_ns = start();
    let mut phases: Vec<ActivePhase> = Vec::new();
    let mut numbers_of_groups: Vec<Vec<PhaseNumbers>> = vec![Vec::new(); turns.len()];
    for ((number, phase), streams) in planned.iter().enumerate().zip(streams) {
        let (index, start_ns) = (index + number, end_ns);
        end_ns = phase.duration_ns.map_or(u64::MAX, |length| start_ns.saturating_add(length));
        let is_last = number + 1 == planned.len();
        let logged = settings.logs && phase.name == PhaseName::Measure;
        for (active, numbers) in phase.groups.iter().zip(&mut numbers_of_groups) {
            numbers.push(PhaseNumbers {
                operations: records.or(active.operations),
                done: there,
                seed: seed_of(plan.seeds.schedule, index as u32, active.group),
                start_ns,
                end_ns: if is_last { u64::MAX } else { end_ns },
            });
        }
        let groups = phase.groups.iter().zip(streams).zip(&turns);
        let groups = groups.map(|((active, stream), turns)| {
            let operations = records.or(active.operations);
            let compiled = compile(plan, active.group, stream, *turns, operations);
            let behind = compiled.operations.map(|all| all.saturating_sub(there));
            let operations = taped.get(&(index, active.group)).copied().or(behind);
            let expected = tags.and_then(|tags| expected(plan, &compiled, tags));
            let history = written.as_ref();
            let history = history.map(|it| HistoryWriter::new(it, &compiled, phase.name, plan));
            let seed = seed_of(plan.seeds.schedule, index as u32, active.group);
            let Group { retry: policy, on_miss: fill, .. } = plan.groups[active.group as usize];
            let retries = policy.map(|policy| Retries::new(policy, seed));
            let ends_apart = logged || retries.is_some() || fill.is_some();
            let own = GroupShared { operations, expected, history, logged, retries, ..compiled };
            GroupShared { fill, ends_apart, ..own }
        });
        phases.push(ActivePhase { index, start_ns, groups: groups.collect() });
    }
    let groups = planned[0].groups.iter().map(|active| &plan.groups[active.group as usize]);
    let numbers = groups.zip(turns).zip(numbers_of_groups).map(|((group, turns), phases)| {
        OperationNumbers::new(&group.arrival, turns, settings.workers, phases)
    });
    PhaseSequence {
        numbers: numbers.collect(),
        phases,
        plan_groups: plan.groups.len(),
        interval_ns: plan.interval_ns,
        timeout_ns: plan.timeout_ns,
        stall_limit_ns: plan.stall_limit_ns,
        inserts,
        scan,
        cancels: settings.cancels,
        started_wall_ns: settings.started_wall_ns,
        end_ns: AtomicU64::new(end_ns),
        given_up: AtomicBool::new(false),
        stalled: AtomicBool::new(false),
    }
}

/// The round-robin distribution of arrivals over the clients, for each group of a phase.
pub(crate) fn turns(plan: &Plan, phase: &Phase, share: Share) -> Vec<RoundRobin> {
    let mut first_slot = 0;
    let turns = |active: &ActiveGroup| {
        let group = &plan.groups[active.group as usize];
        let loads = phase.name == PhaseName::Load;
        let turns = RoundRobin { share, clients: group.clients, first_slot, loads };
        first_slot += clients_of(group.clients, plan.share);
        turns
    };
    phase.groups.iter().map(turns).collect()
}

fn compile(
    plan: &Plan,
    index: u32,
    stream: Stream,
    turns: RoundRobin,
    operations: Option<u64>,
) -> GroupShared {
    let group = &plan.groups[index as usize];
    GroupShared {
        group: index as usize,
        history: None,
        logged: false,
        retries: None,
        fill: None,
        ends_apart: false,
        stream,
        operations: operations.map(|all| match group.arrival {
            Arrival::Closed { .. } => turns.closed_numbers().of_first(all),
            Arrival::Tape { .. } => all,
            _ => turns.arrivals().of_first(all),
        }),
        statements: group.mix.iter().map(|entry| entry.statement).collect(),
        taped: matches!(group.arrival, Arrival::Tape { .. }),
        ordered: clients_of(group.clients, plan.share) > 1
            && matches!(
                group.arrival,
                Arrival::Tape { order: TapeOrder::Key | TapeOrder::Client, .. }
            ),
        clients: clients_of(group.clients, plan.share),
        round_robin: turns,
        read_fields: group.read_fields,
        checks_fully: group.check_values == ValueCheck::Full,
        expected: None,
    }
}

/// The properties that a group's reads check, if values aren't compared byte by byte.
fn expected(plan: &Plan, shared: &GroupShared, tags: bool) -> Option<Expected> {
    let is_one = shared.read_fields == FieldChoice::One;
    let group = &plan.groups[shared.group];
    (group.check_values == ValueCheck::Tag).then(|| Expected {
        fields: Some(if is_one { 1 } else { plan.dataset.fields.count }),
        length: shared.stream.records().value_length(),
        tag: shared.stream.records().tag(0).filter(|_| tags),
        proves: false,
    })
}

/// The sequence of insert ordinals from a start.
pub(crate) fn inserts_from(plan: &Plan, start: u64) -> Arc<InsertSequence> {
    Arc::new(InsertSequence::new(start, plan.share).ending_at(plan.dataset.full_at))
}

#[cfg(test)]
mod tests {
    use kvmark_testing::plans::{closed, plan};

    use super::*;
    use crate::write_history::{Scope, Span, Write};

    fn write(number: u64) -> Write {
        Write::new((0, number), Scope::ALL, Span { begun_ns: 1, completed_ns: 2 }, true)
    }

    #[test]
    fn records_to_read_back_are_gathered_before_the_phase_starts() {
        let mut plan = plan(closed(), 1);
        plan.phases[0].name = PhaseName::Verify;
        plan.verify_memory_bytes = Some(1 << 20);
        let dataset = DatasetState::of(&plan, TapeCounts::new());
        let history = Arc::clone(dataset.history.as_ref().expect("there is a verify phase"));
        history.add(7, write(0));
        let streams = compile_streams(&plan).expect("the plan is right");
        let settings = RunSettings {
            workers: None,
            cancels: false,
            simulated_time: false,
            logs: false,
            started_wall_ns: 0,
        };
        let phase = begin(&plan, 0, streams, dataset, settings, || {
            history.add(8, write(1));
            5
        });
        assert_eq!(phase.start_ns(), 5);
        assert_eq!(phase.scan.expect("it reads back").len(), 1);
    }
}
