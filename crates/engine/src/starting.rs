//! A client before its first operation.

use crate::phase::Stretch;

/// How long a reader waits at most until there is a record, and how often it looks.
const FIRST_RECORD_LIMIT_NS: u64 = 10_000_000_000;
const FIRST_RECORD_POLL_NS: u64 = 1_000_000;

/// Who only reads what others insert waits for the first record, though not for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Starting {
    /// When it looks whether it may begin.
    pub(crate) at_ns: u64,
    group: usize,
    until_ns: u64,
}

impl Starting {
    /// A client of a group that looks first when the stretch begins.
    pub(crate) fn of(stretch: &Stretch, group: usize) -> Self {
        let at_ns = stretch.start_ns();
        let until_ns = at_ns.saturating_add(FIRST_RECORD_LIMIT_NS);
        Self { at_ns, group, until_ns }
    }

    /// Whether it may begin at its instant; if not it looks again at the next one.
    pub(crate) fn may_begin(&mut self, stretch: &Stretch) -> bool {
        let stream = &stretch.legs[0].groups[self.group].stream;
        if self.at_ns >= self.until_ns || stream.can_begin(&stretch.inserts) {
            return true;
        }
        self.at_ns += FIRST_RECORD_POLL_NS;
        false
    }
}
