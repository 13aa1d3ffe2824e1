//! One series: what is recorded apart from everything else.

use kvmark_plan::Outcome;

use crate::durations::Durations;
use crate::names::Action;
use crate::tally::Tally;

/// One finished operation. Instants are nanoseconds since the run's origin.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// What it did.
    pub action: Action,
    /// How it ended.
    pub outcome: Outcome,
    /// When the plan says it begins.
    pub intended_ns: u64,
    /// When its client would have been free for it, had the worker done everything in time.
    pub free_ns: u64,
    /// When it was handed to the session.
    pub issued_ns: u64,
    /// When its outcome was known.
    pub completed_ns: u64,
    /// Records read or written.
    pub rows: u64,
}

/// An operation is late when issued more than this after its intended start: 1 ms.
pub const LATE_TOLERANCE_NS: u64 = 1_000_000;

/// One series as a worker counts it.
#[derive(Debug)]
pub(crate) struct SeriesTally {
    pub(crate) count: u64,
    /// Issued more than [`LATE_TOLERANCE_NS`] after their intended start.
    pub(crate) late: u64,
    /// Of these, those whose client was busy for so long with what it had asked for before.
    pub(crate) late_busy: u64,
    rows: u64,
    service: Tally,
    response: Tally,
    wait: Tally,
}

impl SeriesTally {
    pub(crate) fn new() -> Self {
        let (service, response, wait) = (Tally::new(), Tally::new(), Tally::new());
        Self { count: 0, late: 0, late_busy: 0, rows: 0, service, response, wait }
    }

    #[inline]
    pub(crate) fn record(&mut self, sample: &Sample) {
        let Sample { intended_ns, free_ns, issued_ns, completed_ns, .. } = *sample;
        let wait_ns = issued_ns.saturating_sub(intended_ns);
        self.count += 1;
        self.late += u64::from(wait_ns > LATE_TOLERANCE_NS);
        let busy_ns = free_ns.min(issued_ns).saturating_sub(intended_ns);
        self.late_busy += u64::from(busy_ns > LATE_TOLERANCE_NS);
        self.rows += sample.rows;
        self.service.record(completed_ns.saturating_sub(issued_ns));
        self.response.record(completed_ns.saturating_sub(intended_ns));
        self.wait.record(wait_ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.late += other.late;
        self.late_busy += other.late_busy;
        self.rows += other.rows;
        self.service.merge(&other.service);
        self.response.merge(&other.response);
        self.wait.merge(&other.wait);
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.late = 0;
        self.late_busy = 0;
        self.rows = 0;
        self.service.clear();
        self.response.clear();
        self.wait.clear();
    }
}

/// One series of an interval or a phase.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) rows: u64,
    pub(crate) service: Durations,
    pub(crate) response: Durations,
    pub(crate) wait: Durations,
}

impl Series {
    pub(crate) fn new() -> Self {
        let empty = Durations::new;
        Self { rows: 0, service: empty(), response: empty(), wait: empty() }
    }

    pub(crate) fn count(&self) -> u64 {
        self.service.count()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.service.merge(&other.service);
        self.response.merge(&other.response);
        self.wait.merge(&other.wait);
    }
}

impl From<&SeriesTally> for Series {
    fn from(tally: &SeriesTally) -> Self {
        Self {
            rows: tally.rows,
            service: (&tally.service).into(),
            response: (&tally.response).into(),
            wait: (&tally.wait).into(),
        }
    }
}
