//! The wait of a client before its first operation.

use crate::sequence::PhaseSequence;

/// Longest wait of a reader for the first record, and its polling interval.
const FIRST_RECORD_LIMIT_NS: u64 = 10_000_000_000;
const FIRST_RECORD_POLL_NS: u64 = 1_000_000;

/// A client that only reads records of other clients' inserts waits for the first record, up to a
/// limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstRecordWait {
    /// When the client checks next whether it may begin.
    pub(crate) at_ns: u64,
    group: usize,
    until_ns: u64,
}

impl FirstRecordWait {
    /// A client of a group, with the first check at the start of the sequence.
    pub(crate) fn of(sequence: &PhaseSequence, group: usize) -> Self {
        let at_ns = sequence.start_ns();
        let until_ns = at_ns.saturating_add(FIRST_RECORD_LIMIT_NS);
        Self { at_ns, group, until_ns }
    }

    /// Whether the client may begin. If not, schedules the next check.
    pub(crate) fn may_begin(&mut self, sequence: &PhaseSequence) -> bool {
        let stream = &sequence.phases[0].groups[self.group].stream;
        if self.at_ns >= self.until_ns || stream.can_begin(&sequence.inserts) {
            return true;
        }
        self.at_ns += FIRST_RECORD_POLL_NS;
        false
    }
}
