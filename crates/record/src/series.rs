//! One series: what is recorded apart from everything else.

use kvmark_plan::Outcome;

use crate::durations::Durations;
use crate::names::Action;
use crate::tally::{PackedTally, PackedValues, Tally, ValueReader};

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

/// Operations that completed here and whose times are elsewhere: with the phase in which they were
/// to begin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) count: u64,
    pub(crate) rows: u64,
    pub(crate) largest_service_ns: u64,
}

impl Carried {
    fn take(&mut self, sample: &Sample) {
        self.merge(&Self {
            count: 1,
            rows: sample.rows,
            largest_service_ns: sample.completed_ns.saturating_sub(sample.issued_ns),
        });
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.rows += other.rows;
        self.largest_service_ns = self.largest_service_ns.max(other.largest_service_ns);
    }
}

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
    carried: Carried,
}

/// One series as a worker hands it over.
#[derive(Debug)]
pub(crate) struct PackedSeries {
    count: u64,
    late: u64,
    late_busy: u64,
    rows: u64,
    service: PackedTally,
    response: PackedTally,
    wait: PackedTally,
    carried: Carried,
}

impl SeriesTally {
    pub(crate) fn new() -> Self {
        let (service, response, wait) = (Tally::new(), Tally::new(), Tally::new());
        let carried = Carried::default();
        Self { count: 0, late: 0, late_busy: 0, rows: 0, service, response, wait, carried }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count + self.carried.count == 0
    }

    /// Counts an operation whose times belong to the phase before.
    pub(crate) fn carry(&mut self, sample: &Sample) {
        self.carried.take(sample);
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

    /// Hands everything over, and forgets it.
    pub(crate) fn pack(&mut self, values: &mut PackedValues) -> PackedSeries {
        let packed = PackedSeries {
            count: self.count,
            late: self.late,
            late_busy: self.late_busy,
            rows: self.rows,
            service: self.service.pack(values),
            response: self.response.pack(values),
            wait: self.wait.pack(values),
            carried: self.carried,
        };
        self.clear();
        packed
    }

    pub(crate) fn add(&mut self, other: &PackedSeries, values: &mut ValueReader<'_>) {
        self.count += other.count;
        self.late += other.late;
        self.late_busy += other.late_busy;
        self.rows += other.rows;
        self.service.add_packed(&other.service, values);
        self.response.add_packed(&other.response, values);
        self.wait.add_packed(&other.wait, values);
        self.carried.merge(&other.carried);
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.late = 0;
        self.late_busy = 0;
        self.rows = 0;
        self.service.clear();
        self.response.clear();
        self.wait.clear();
        self.carried = Carried::default();
    }
}

/// One series of an interval or a phase.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) carried: Carried,
    pub(crate) rows: u64,
    pub(crate) service: Durations,
    pub(crate) response: Durations,
    pub(crate) wait: Durations,
}

impl Series {
    pub(crate) fn new() -> Self {
        let (service, response, wait) = (Durations::new(), Durations::new(), Durations::new());
        Self { carried: Carried::default(), rows: 0, service, response, wait }
    }

    /// Operations whose times are here.
    pub(crate) fn count(&self) -> u64 {
        self.service.count()
    }

    /// Operations that completed here.
    pub(crate) fn completed(&self) -> u64 {
        self.count() + self.carried.count
    }

    /// Their records.
    pub(crate) fn completed_rows(&self) -> u64 {
        self.rows + self.carried.rows
    }

    pub(crate) fn largest_service_ns(&self) -> u64 {
        self.service.max_ns().max(self.carried.largest_service_ns)
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.carried.merge(&other.carried);
        self.rows += other.rows;
        self.service.merge(&other.service);
        self.response.merge(&other.response);
        self.wait.merge(&other.wait);
    }
}

impl From<&SeriesTally> for Series {
    fn from(tally: &SeriesTally) -> Self {
        Self {
            carried: tally.carried,
            rows: tally.rows,
            service: (&tally.service).into(),
            response: (&tally.response).into(),
            wait: (&tally.wait).into(),
        }
    }
}
