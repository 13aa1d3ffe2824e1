//! What the coordinator and the workers share during one phase, or two without a gap.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kvmark_driver::Expected;
use kvmark_plan::{
    ActiveGroup, Arrival, FieldChoice, Group, Phase, PhaseName, Plan, Share, TapeOrder, ValueCheck,
};
use kvmark_schedule::{Part, seed_of};
use kvmark_workload::{InsertSequence, Stream};

use crate::error::EngineError;
use crate::numbering::Numbering;
use crate::source::{Numbers, Turns};
use crate::tape::{Owner, Taped};
use crate::verify_scan::{HistoryWriter, VerifyScan};
use crate::write_history::WriteHistory;

/// What workers carry out without a gap, compiled: a phase, or a warm-up and the measurement behind
/// it. Everything that can fail or be slow happened before it begins.
#[derive(Debug)]
pub(crate) struct Stretch {
    /// The phases, in order; they have the same groups.
    pub(crate) legs: Vec<Leg>,
    /// By group.
    pub(crate) numbers: Vec<Numbers>,
    pub(crate) interval_ns: u64,
    pub(crate) timeout_ns: Option<u64>,
    /// How long the system may answer nothing.
    pub(crate) stall_limit_ns: Option<u64>,
    pub(crate) inserts: Arc<InsertSequence>,
    /// What is read back, in the verify phase.
    pub(crate) scan: Option<VerifyScan>,
    /// Whether operations can be given up while they wait.
    pub(crate) cancels: bool,
    /// Wall time when the clock was 0.
    pub(crate) started_wall_ns: u64,
    end_ns: AtomicU64,
    given_up: AtomicBool,
    stalled: AtomicBool,
}

/// One phase of a stretch.
#[derive(Debug)]
pub(crate) struct Leg {
    /// Index in the plan.
    pub(crate) index: usize,
    pub(crate) start_ns: u64,
    pub(crate) groups: Vec<GroupShared>,
}

/// A group's part in a phase.
#[derive(Debug)]
pub(crate) struct GroupShared {
    /// Index in the plan.
    pub(crate) group: usize,
    pub(crate) stream: Stream,
    /// Operations of this engine that end its part; none for no limit.
    pub(crate) operations: Option<u64>,
    /// Clients of this engine.
    pub(crate) clients: u32,
    /// The arrivals of this engine.
    pub(crate) part: Part,
    /// What of a tape is this engine's; none where it has none of the clients.
    pub(crate) owner: Option<Owner>,
    pub(crate) read_fields: FieldChoice,
    /// Whether what is read is held against what must be there, byte by byte.
    pub(crate) checks_fully: bool,
    /// What a record that is read must be like, but for its tag, which is the first record's.
    pub(crate) expected: Option<Expected>,
    /// What is done with operations that ended, besides counting; none where nothing is.
    pub(crate) keeps: Option<Keeps>,
    /// Fields of a record.
    pub(crate) fields: u32,
    /// The statements of the mix, in its order.
    pub(crate) statements: Vec<Option<u32>>,
    /// Whether a tape says what its operations are.
    pub(crate) taped: bool,
    /// Whether some of them wait for one another; one client's don't.
    pub(crate) ordered: bool,
}

/// What is done with operations that ended, besides counting.
#[derive(Debug)]
pub(crate) struct Keeps {
    /// Where writes are remembered that are read back later.
    pub(crate) history: Option<HistoryWriter>,
    /// Whether they are logged.
    pub(crate) logged: bool,
}

impl GroupShared {
    /// Whether operations are logged.
    pub(crate) fn logged(&self) -> bool {
        self.keeps.as_ref().is_some_and(|keeps| keeps.logged)
    }
}

impl Stretch {
    pub(crate) fn start_ns(&self) -> u64 {
        self.legs[0].start_ns
    }

    /// When a phase of it ends, as far as is known now.
    pub(crate) fn leg_end_ns(&self, leg: usize) -> u64 {
        let next = self.legs.get(leg + 1).map_or(u64::MAX, |next| next.start_ns);
        next.min(self.end_ns())
    }

    /// Whether a phase of it begins, as far as is known now.
    pub(crate) fn reaches(&self, leg: usize) -> bool {
        leg == 0 || self.legs[leg].start_ns < self.end_ns()
    }

    /// When it ends, as far as is known now.
    #[inline]
    pub(crate) fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Ends it at an instant, if it doesn't end before.
    pub(crate) fn end_at(&self, instant_ns: u64) {
        self.end_ns.fetch_min(instant_ns, Ordering::Relaxed);
    }

    /// Tells workers to drop what is outstanding.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Ends it at an instant and drops what is outstanding, because the system doesn't answer.
    pub(crate) fn stall(&self, instant_ns: u64) {
        self.end_at(instant_ns);
        self.stalled.store(true, Ordering::Relaxed);
        self.give_up();
    }

    /// Whether it ended because the system doesn't answer.
    pub(crate) fn has_stalled(&self) -> bool {
        self.stalled.load(Ordering::Relaxed)
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// The group of each client of one worker, as an index into [`Leg::groups`]: clients take slots
    /// in turn, slot `s` belongs to worker `s % workers`.
    pub(crate) fn seats(&self, worker: u32, workers: u32) -> Vec<usize> {
        let clients = self.legs[0].groups.iter().enumerate();
        let slots = clients.flat_map(|(group, shared)| (0..shared.clients).map(move |_| group));
        slots.skip(worker as usize).step_by(workers as usize).collect()
    }
}

/// How many of a group's clients live in a share: as equal as it goes, the first have more.
pub(crate) fn clients_of(group: &Group, share: Share) -> u32 {
    group.clients / share.of + u32::from(share.index < group.clients % share.of)
}

/// What is the same for every phase of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Workers that carry many clients; none where clients have threads.
    pub(crate) workers: Option<u32>,
    pub(crate) cancels: bool,
    pub(crate) simulated_time: bool,
    /// Whether measured operations are logged.
    pub(crate) logs: bool,
    /// Wall time when the clock was 0.
    pub(crate) started_wall_ns: u64,
}

/// What is known of the records, for a phase.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    pub(crate) inserts: Arc<InsertSequence>,
    /// None where nothing is read back at the end.
    pub(crate) history: Option<Arc<WriteHistory>>,
    /// Records of this share that an earlier load put there, behind which a load goes on.
    pub(crate) there: u64,
    pub(crate) taped: Arc<Taped>,
    /// Whether values bear tags; none where that isn't known.
    pub(crate) tags: Option<bool>,
}

impl Books {
    /// Of a run that begins, with its records loaded, and what of its tapes is this share's.
    pub(crate) fn of(plan: &Plan, taped: Taped) -> Self {
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

/// How many phases from this one on are carried out without a gap: two where a warm-up goes over
/// into a measurement by the same clients, otherwise one.
pub(crate) fn legs_from(plan: &Plan, index: usize) -> usize {
    let [first, second, ..] = &plan.phases[index..] else { return 1 };
    let names = (first.name, second.name) == (PhaseName::WarmUp, PhaseName::Measure);
    let endless = |active: &ActiveGroup| active.operations.is_none();
    let timed = first.duration_ns.is_some() && first.until.is_none();
    let groups = |phase: &Phase| phase.groups.iter().map(|active| active.group).collect::<Vec<_>>();
    let same = groups(first) == groups(second) && first.groups.iter().all(endless);
    if names && timed && same && !first.groups.is_empty() { 2 } else { 1 }
}

/// Puts a stretch together whose first phase is the plan's of this index, and which begins at the
/// instant that `start` says when the rest is ready. Streams are by phase, then by group.
pub(crate) fn begin(
    plan: &Plan,
    index: usize,
    streams: Vec<Vec<Stream>>,
    books: Books,
    setting: Setting,
    start: impl FnOnce() -> u64,
) -> Stretch {
    let phases = &plan.phases[index..index + streams.len()];
    let Books { inserts, history, there, taped, tags } = books;
    let verifies = phases[0].name == PhaseName::Verify;
    let scanned = history.as_ref().filter(|_| verifies);
    let scan = scanned.map(|history| VerifyScan::of(history, plan));
    let written = history.filter(|_| !verifies);
    let (share, records) = match &scan {
        // What this engine wrote, it reads back itself.
        Some(scan) => (Share { index: 0, of: 1 }, Some(scan.len())),
        None => (plan.share, None),
    };
    let turns = turns(plan, &phases[0], share);
    // What is read back takes its time to be gathered and sorted.
    let mut end_ns = start();
    let mut legs: Vec<Leg> = Vec::new();
    let mut numberings: Vec<Vec<Numbering>> = vec![Vec::new(); turns.len()];
    for ((number, phase), streams) in phases.iter().enumerate().zip(streams) {
        let (index, start_ns) = (index + number, end_ns);
        end_ns = phase.duration_ns.map_or(u64::MAX, |length| start_ns.saturating_add(length));
        let is_last = number + 1 == phases.len();
        let logged = setting.logs && phase.name == PhaseName::Measure;
        for (active, numbering) in phase.groups.iter().zip(&mut numberings) {
            numbering.push(Numbering {
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
            let compiled =
                compile(plan, active.group, stream, *turns, operations, written.as_ref(), logged);
            let behind = compiled.operations.map(|all| all.saturating_sub(there));
            let operations = taped.get(&(index, active.group)).copied().or(behind);
            let expected = tags.and_then(|tags| expected(plan, &compiled, tags));
            GroupShared { operations, expected, ..compiled }
        });
        legs.push(Leg { index, start_ns, groups: groups.collect() });
    }
    let groups = phases[0].groups.iter().map(|active| &plan.groups[active.group as usize]);
    let numbers = groups
        .zip(turns)
        .zip(numberings)
        .map(|((group, turns), legs)| Numbers::new(&group.arrival, turns, setting.workers, legs));
    Stretch {
        numbers: numbers.collect(),
        legs,
        interval_ns: plan.interval_ns,
        timeout_ns: plan.timeout_ns,
        stall_limit_ns: plan.stall_limit_ns,
        inserts,
        scan,
        cancels: setting.cancels,
        started_wall_ns: setting.started_wall_ns,
        end_ns: AtomicU64::new(end_ns),
        given_up: AtomicBool::new(false),
        stalled: AtomicBool::new(false),
    }
}

/// How the clients of a phase's groups take turns.
pub(crate) fn turns(plan: &Plan, phase: &Phase, share: Share) -> Vec<Turns> {
    let mut first_slot = 0;
    let turns = |active: &ActiveGroup| {
        let group = &plan.groups[active.group as usize];
        let loads = phase.name == PhaseName::Load;
        let turns = Turns { share, clients: group.clients, first_slot, loads };
        first_slot += clients_of(group, plan.share);
        turns
    };
    phase.groups.iter().map(turns).collect()
}

fn compile(
    plan: &Plan,
    index: u32,
    stream: Stream,
    turns: Turns,
    operations: Option<u64>,
    written: Option<&Arc<WriteHistory>>,
    logged: bool,
) -> GroupShared {
    let group = &plan.groups[index as usize];
    let history =
        written.map(|history| HistoryWriter::new(history, &stream, plan, group.write_fields));
    GroupShared {
        group: index as usize,
        keeps: (logged || history.is_some()).then_some(Keeps { history, logged }),
        stream,
        operations: operations.map(|all| match group.arrival {
            Arrival::Closed { .. } => turns.closed_part().of_first(all),
            Arrival::Tape { .. } => all,
            _ => turns.part().of_first(all),
        }),
        statements: group.mix.iter().map(|entry| entry.statement).collect(),
        taped: matches!(group.arrival, Arrival::Tape { .. }),
        ordered: clients_of(group, plan.share) > 1
            && matches!(
                group.arrival,
                Arrival::Tape { order: TapeOrder::Key | TapeOrder::Client, .. }
            ),
        clients: clients_of(group, plan.share),
        part: turns.part(),
        owner: turns.owner(0, 1),
        read_fields: group.read_fields,
        checks_fully: group.check_values == ValueCheck::Full,
        expected: None,
        fields: plan.dataset.fields.count,
    }
}

/// What a record that a group reads must be like, if its values are held against anything less than
/// what must be there.
fn expected(plan: &Plan, shared: &GroupShared, tags: bool) -> Option<Expected> {
    let is_one = shared.read_fields == FieldChoice::One;
    let group = &plan.groups[shared.group];
    (group.check_values == ValueCheck::Tag).then(|| Expected {
        fields: Some(if is_one { 1 } else { shared.fields }),
        length: shared.stream.value_length(),
        tag: shared.stream.tag(0).filter(|_| tags),
        proves: false,
    })
}

/// Where transaction inserts begin and how they are shared.
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
    fn what_is_read_back_is_gathered_before_the_phase_starts() {
        let mut plan = plan(closed(), 1);
        plan.phases[0].name = PhaseName::Verify;
        plan.verify_memory_bytes = Some(1 << 20);
        let books = Books::of(&plan, Taped::new());
        let history = Arc::clone(books.history.as_ref().expect("there is a verify phase"));
        history.add(7, write(0));
        let streams = compile_streams(&plan).expect("the plan is right");
        let setting = Setting {
            workers: None,
            cancels: false,
            simulated_time: false,
            logs: false,
            started_wall_ns: 0,
        };
        let phase = begin(&plan, 0, streams, books, setting, || {
            history.add(8, write(1));
            5
        });
        assert_eq!(phase.start_ns(), 5);
        assert_eq!(phase.scan.expect("it reads back").len(), 1);
    }
}
