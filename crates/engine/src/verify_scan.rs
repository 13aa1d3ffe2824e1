//! The verify phase: reads back the run's writes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kvmark_driver::{Cell, Effect, Reply};
use kvmark_plan::{FieldChoice, Kind, Outcome, PhaseName, Plan};
use kvmark_record::{Loss, LostWritesRecord, RecordError, RunWriter, VerifyRecord};
use kvmark_workload::{ArgumentBuffer, Draw, Stream};

use crate::sequence::GroupShared;
use crate::write_history::{
    Finding, LostWrite, Scope, Span, Write, WriteHistory, WriteSource, lock,
};

/// Lost writes in the phase's record.
const MOST_RECORDED: usize = 10;

/// Adds the writes of one group in one phase to the history.
#[derive(Debug)]
pub(crate) struct HistoryWriter {
    history: Arc<WriteHistory>,
    source: u16,
    all_fields: usize,
    one_field: bool,
}

impl HistoryWriter {
    pub(crate) fn new(
        history: &Arc<WriteHistory>,
        shared: &GroupShared,
        phase: PhaseName,
        plan: &Plan,
    ) -> Self {
        let group = &plan.groups[shared.group];
        let (name, stream) = (group.name.clone(), shared.stream.clone());
        Self {
            source: history.add_source(WriteSource { phase, group: name, stream }),
            history: Arc::clone(history),
            all_fields: plan.dataset.fields.count as usize,
            one_field: group.write_fields == FieldChoice::One,
        }
    }

    /// Adds the writes of a complete request: of each command that was applied, or may have been.
    /// It began before it was passed to the driver; `reply` has the effects of its commands.
    #[inline(never)]
    pub(crate) fn end(
        &self,
        stream: &Stream,
        draw: &Draw,
        arguments: &ArgumentBuffer,
        (span, outcome): (Span, Outcome),
        reply: &Reply,
    ) {
        let write = |command: u32| {
            let scope = match draw.kind {
                Kind::Delete => Scope::REMOVED,
                Kind::Update | Kind::ReadModifyWrite if self.one_field => Scope::field(draw.field),
                _ => Scope::ALL,
            };
            let effect = reply.effect(outcome, command);
            let number = (self.source, draw.version);
            let write = Write::new(number, scope, span, effect == Effect::Applied);
            (effect != Effect::NotApplied).then_some(write)
        };
        let Some(template) = stream.template(draw) else {
            if let Some(write) = write(0) {
                self.history.add(draw.ordinal, write);
            }
            return;
        };
        let commands = arguments.ordinals.iter().zip(&arguments.commands);
        for (command, (ordinal, (_, items))) in (0..).zip(commands) {
            let Some(write) = write(command) else { continue };
            if draw.kind == Kind::Delete {
                self.history.add(*ordinal, write);
                continue;
            }
            let fields = || template.written(command, *items);
            let place = fields().next().map_or(0, |(_, place)| place);
            if fields().len() == self.all_fields && fields().all(|(_, other)| other == place) {
                self.history.add(*ordinal, write.within(Scope::ALL, place));
                continue;
            }
            for (field, place) in fields() {
                self.history.add(*ordinal, write.within(Scope::field(field), place));
            }
        }
    }
}

/// The records to read back, and the findings besides the outcome of each read.
#[derive(Debug)]
pub(crate) struct VerifyScan {
    history: Arc<WriteHistory>,
    ordinals: Vec<u64>,
    written: u64,
    all_fields: u32,
    /// Number of records with [`Finding::Unacknowledged`].
    unacknowledged: AtomicU64,
    lost: Mutex<Vec<LostWrite>>,
}

impl VerifyScan {
    /// A scan of all writes in the history.
    pub(crate) fn of(history: &Arc<WriteHistory>, plan: &Plan) -> Self {
        let (ordinals, written) = history.ordinals();
        Self {
            ordinals,
            written,
            history: Arc::clone(history),
            all_fields: plan.dataset.fields.count,
            unacknowledged: AtomicU64::new(0),
            lost: Mutex::default(),
        }
    }

    /// Number of records.
    pub(crate) fn len(&self) -> u64 {
        self.ordinals.len() as u64
    }

    /// The record that operation `number` reads.
    pub(crate) fn ordinal(&self, number: u64) -> u64 {
        self.ordinals[number as usize]
    }

    /// The counts and the first lost writes, for the phase's record.
    pub(crate) fn record(&self) -> VerifyRecord {
        let mut lost = lock(&self.lost);
        lost.sort_unstable_by_key(|write| (write.acknowledged_ns, write.ordinal));
        let count = |loss| lost.iter().filter(|write| write.loss == loss).count() as u64;
        let first = lost.iter().take(MOST_RECORDED).map(|write| self.history.record(write));
        let ends = lost.first().zip(lost.last());
        VerifyRecord {
            records: self.len(),
            written: self.written,
            unacknowledged: self.unacknowledged.load(Ordering::Relaxed),
            incomplete: count(Loss::Incomplete),
            torn: count(Loss::Torn),
            resurrected: count(Loss::Resurrected),
            lost_writes: ends.map(|(from, until)| LostWritesRecord {
                acknowledged_from_ns: from.acknowledged_ns,
                acknowledged_until_ns: until.acknowledged_ns,
                first: first.collect(),
            }),
        }
    }

    /// Writes all lost writes, after [`Self::record`] by the time of their acknowledgement.
    pub(crate) fn write_lost(&self, writer: &RunWriter) -> Result<(), RecordError> {
        let lost = lock(&self.lost);
        writer.lost_writes(lost.iter().map(|write| self.history.record(write)))
    }

    /// The outcome of a read that the system answered.
    pub(crate) fn judge(
        &self,
        stream: &Stream,
        draw: &Draw,
        key: &[u8],
        reply: Option<&Reply>,
    ) -> Outcome {
        let finding = if let Some(template) = stream.template(draw) {
            let expected = template.expected().iter();
            let fields =
                reply.map(|reply| expected.map(|(place, field)| (*field, value(reply, *place))));
            self.history.judge(draw.ordinal, key, fields)
        } else {
            let all = 0..self.all_fields;
            let fields = reply.map(|reply| all.map(|field| (field, value(reply, field))));
            self.history.judge(draw.ordinal, key, fields)
        };
        match finding {
            Finding::Intact => {}
            Finding::Unacknowledged => {
                self.unacknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Finding::Lost(write) => lock(&self.lost).push(write),
        }
        finding.outcome()
    }
}

/// The value of a field in a reply's first row, usually at the field's own index.
fn value(reply: &Reply, field: u32) -> Option<&[u8]> {
    let is_it = |cell: &&Cell| (cell.row, cell.field) == (0, field);
    let cell = reply.cells.get(field as usize).filter(is_it);
    let cell = cell.or_else(|| reply.cells.iter().find(is_it));
    cell.map(|cell| reply.bytes_of(cell))
}
