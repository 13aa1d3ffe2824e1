//! The verify phase: what was written is read back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kvmark_driver::Reply;
use kvmark_plan::{FieldChoice, Kind, Outcome, Plan};
use kvmark_record::SweepRecord;
use kvmark_workload::{ArgumentBuffer, Draw, Stream};

use crate::executed::Executed;
use crate::remembered::{Found, Put, Remembered, Write};

/// Remembers what one group writes in one phase.
#[derive(Debug)]
pub(crate) struct Memory {
    remembered: Arc<Remembered>,
    stream: u32,
    all_fields: u32,
    one_field: bool,
}

impl Memory {
    pub(crate) fn new(
        remembered: &Arc<Remembered>,
        stream: &Stream,
        plan: &Plan,
        write_fields: FieldChoice,
    ) -> Self {
        Self {
            stream: remembered.add_stream(stream),
            remembered: Arc::clone(remembered),
            all_fields: plan.dataset.fields.count,
            one_field: write_fields == FieldChoice::One,
        }
    }

    /// Remembers an operation that ended, if it may have written something.
    pub(crate) fn end(
        &self,
        stream: &Stream,
        draw: &Draw,
        arguments: &ArgumentBuffer,
        done: &Executed,
    ) {
        let reads = matches!(draw.kind, Kind::Read | Kind::Scan);
        let refused = matches!(done.outcome, Outcome::Refused | Outcome::Miss);
        if reads || refused {
            return;
        }
        let write = Write {
            stream: self.stream,
            number: draw.version,
            place: 0,
            put: Put::All,
            issued_ns: done.issued_ns,
            completed_ns: done.completed_ns,
            acknowledged: !done.outcome.is_failure(),
        };
        if draw.statement.is_none() {
            let put = match draw.kind {
                Kind::Delete => Put::Removed,
                Kind::Update | Kind::ReadModifyWrite if self.one_field => Put::One(draw.field),
                _ => Put::All,
            };
            self.remembered.add(draw.ordinal, Write { put, ..write });
            return;
        }
        let fields = stream.written_fields(draw);
        for (place, ordinal) in (0..).zip(&arguments.ordinals) {
            if draw.kind == Kind::Delete {
                self.remembered.add(*ordinal, Write { put: Put::Removed, place, ..write });
            } else if fields.len() == self.all_fields as usize {
                self.remembered.add(*ordinal, Write { place, ..write });
            } else {
                for field in fields {
                    let put = Put::One(*field);
                    self.remembered.add(*ordinal, Write { put, place, ..write });
                }
            }
        }
    }
}

/// The records to read back, and what was found besides the outcome of each read.
#[derive(Debug)]
pub(crate) struct Sweep {
    remembered: Arc<Remembered>,
    ordinals: Vec<u64>,
    unacknowledged: AtomicU64,
}

impl Sweep {
    /// Everything that was written until now.
    pub(crate) fn of(remembered: &Arc<Remembered>) -> Self {
        Self {
            ordinals: remembered.ordinals(),
            remembered: Arc::clone(remembered),
            unacknowledged: AtomicU64::new(0),
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

    /// What the phase's record says of it.
    pub(crate) fn record(&self) -> SweepRecord {
        let unacknowledged = self.unacknowledged.load(Ordering::Relaxed);
        SweepRecord { records: self.len(), unacknowledged }
    }

    /// The outcome of a read that the system answered.
    pub(crate) fn judge(
        &self,
        stream: &Stream,
        draw: &Draw,
        key: &[u8],
        reply: Option<&Reply>,
    ) -> Outcome {
        let cells = reply.map_or(&[][..], |reply| &reply.cells);
        let own = cells.iter().map(|cell| cell.field);
        let found = if draw.statement.is_some() {
            let fields = stream.expected_fields(draw).iter().copied();
            self.remembered.judge(draw.ordinal, key, fields, reply)
        } else {
            self.remembered.judge(draw.ordinal, key, own, reply)
        };
        if found == Found::Unacknowledged {
            self.unacknowledged.fetch_add(1, Ordering::Relaxed);
        }
        found.outcome()
    }
}
