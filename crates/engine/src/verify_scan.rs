//! The verify phase: reads back the run's writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kvmark_driver::{Cell, Effect, Reply};
use kvmark_plan::{FieldChoice, Kind, Outcome, Plan};
use kvmark_record::VerifyRecord;
use kvmark_workload::{ArgumentBuffer, Draw, Stream};

use crate::sequence::GroupShared;
use crate::write_history::{Finding, Scope, Span, Write, WriteHistory};

/// Adds the writes of one group in one phase to the history.
#[derive(Debug)]
pub(crate) struct HistoryWriter {
    history: Arc<WriteHistory>,
    stream: u16,
    all_fields: usize,
    one_field: bool,
}

impl HistoryWriter {
    pub(crate) fn new(history: &Arc<WriteHistory>, shared: &GroupShared, plan: &Plan) -> Self {
        Self {
            stream: history.add_stream(&shared.stream),
            history: Arc::clone(history),
            all_fields: plan.dataset.fields.count as usize,
            one_field: plan.groups[shared.group].write_fields == FieldChoice::One,
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
            let number = (self.stream, draw.version);
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
    /// Number of records by [`Finding`].
    findings: [AtomicU64; 7],
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
            findings: Default::default(),
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

    /// The counts for the phase's record.
    pub(crate) fn record(&self) -> VerifyRecord {
        let count = |finding: Finding| self.findings[finding as usize].load(Ordering::Relaxed);
        VerifyRecord {
            records: self.len(),
            written: self.written,
            unacknowledged: count(Finding::Unacknowledged),
            incomplete: count(Finding::Incomplete),
            torn: count(Finding::Torn),
            resurrected: count(Finding::Resurrected),
        }
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
        if finding != Finding::Intact {
            self.findings[finding as usize].fetch_add(1, Ordering::Relaxed);
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
