//! One series of records.

use kvmark_plan::Outcome;

use crate::durations::Durations;
use crate::names::Action;
use crate::tally::{PackedTally, PackedValues, Tally, ValueReader};

/// One finished operation. Instants are nanoseconds since the run's origin.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The kind of operation.
    pub action: Action,
    /// How it ended.
    pub outcome: Outcome,
    /// The intended start.
    pub intended_ns: u64,
    /// When its client would have been free if the worker had never been late.
    pub free_ns: u64,
    /// When it was passed to the session.
    pub issued_ns: u64,
    /// When its outcome was known.
    pub completed_ns: u64,
    /// Records read or written.
    pub rows: u64,
}

/// An operation is late when issued more than this after its intended start: 1 ms.
pub const LATE_TOLERANCE_NS: u64 = 1_000_000;

/// Operations that completed here and whose durations are recorded in the phase in which they were
/// due.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) count: u64,
    pub(crate) rows: u64,
    pub(crate) largest_service_ns: u64,
}

impl Carried {
    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.rows += other.rows;
        self.largest_service_ns = self.largest_service_ns.max(other.largest_service_ns);
    }
}

/// Operations with the instants of the one recorded last: those of clients whose requests were sent
/// by one call, and whose answers were read by one. Their durations aren't recorded yet.
#[derive(Clone, Copy, Debug, Default)]
struct Repeats {
    /// Intended start, issue and completion.
    instants_ns: [u64; 3],
    count: u64,
}

/// The counts and durations of one series. `T` has the durations of one kind: a [`Tally`] while a
/// worker records, a [`PackedTally`] in a batch, [`Durations`] in an interval or a phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series<T = Durations> {
    /// Operations with durations here.
    pub(crate) count: u64,
    /// Issued more than [`LATE_TOLERANCE_NS`] after their intended start.
    pub(crate) late: u64,
    /// Those of them whose client was busy with an earlier operation for longer than that.
    pub(crate) late_busy: u64,
    pub(crate) rows: u64,
    pub(crate) carried: Carried,
    pub(crate) service: T,
    pub(crate) response: T,
    pub(crate) wait: T,
    /// Durations that are both service and response times, of operations without a wait. A worker
    /// records them once; [`SeriesTally::add`] adds them to the others.
    alike: T,
    repeats: Repeats,
}

pub(crate) type SeriesTally = Series<Tally>;
pub(crate) type PackedSeries = Series<PackedTally>;

impl<T> Series<T> {
    pub(crate) fn map<U>(&self, mut convert: impl FnMut(&T) -> U) -> Series<U> {
        Series {
            count: self.count,
            late: self.late,
            late_busy: self.late_busy,
            rows: self.rows,
            carried: self.carried,
            service: convert(&self.service),
            response: convert(&self.response),
            wait: convert(&self.wait),
            alike: convert(&self.alike),
            repeats: Repeats::default(),
        }
    }

    /// Adds the counts and, by `add`, the durations of another series.
    fn add_all<U>(&mut self, other: &Series<U>, mut add: impl FnMut(&mut T, &U)) {
        self.count += other.count;
        self.late += other.late;
        self.late_busy += other.late_busy;
        self.rows += other.rows;
        self.carried.merge(&other.carried);
        add(&mut self.service, &other.service);
        add(&mut self.response, &other.response);
        add(&mut self.wait, &other.wait);
    }

    /// Operations that completed here.
    pub(crate) fn completed(&self) -> u64 {
        self.count + self.carried.count
    }

    /// Their records.
    pub(crate) fn completed_rows(&self) -> u64 {
        self.rows + self.carried.rows
    }
}

impl SeriesTally {
    pub(crate) fn is_empty(&self) -> bool {
        self.completed() == 0
    }

    /// Counts an operation whose durations belong to the phase before.
    pub(crate) fn carry(&mut self, sample: &Sample) {
        let largest_service_ns = sample.completed_ns.saturating_sub(sample.issued_ns);
        self.carried.merge(&Carried { count: 1, rows: sample.rows, largest_service_ns });
    }

    /// Always inlined, so that the sample isn't copied through memory.
    #[inline(always)]
    pub(crate) fn record(&mut self, sample: &Sample) {
        let Sample { intended_ns, free_ns, issued_ns, completed_ns, rows, .. } = *sample;
        self.count += 1;
        self.rows += rows;
        let [intended, issued, completed] = self.repeats.instants_ns;
        if intended_ns == issued_ns {
            self.alike.record(completed_ns.saturating_sub(issued_ns));
        } else if completed_ns == completed && issued_ns == issued && intended_ns == intended {
            self.repeats.count += 1;
        } else {
            self.record_apart(intended_ns, issued_ns, completed_ns, free_ns);
        }
    }

    /// Records an operation that waited for its issue.
    #[inline(never)]
    fn record_apart(&mut self, intended_ns: u64, issued_ns: u64, completed_ns: u64, free_ns: u64) {
        if self.repeats.count > 0 {
            self.record_repeats();
        }
        let instants_ns = [intended_ns, issued_ns, completed_ns];
        let [wait_ns, service_ns, response_ns] = durations_ns(instants_ns);
        self.repeats.instants_ns = instants_ns;
        if wait_ns > LATE_TOLERANCE_NS {
            self.count_late(free_ns);
        }
        self.wait.record(wait_ns);
        self.service.record(service_ns);
        self.response.record(response_ns);
    }

    /// Counts a late operation. The next one is compared with none, because its client may not have
    /// been busy.
    #[inline(never)]
    fn count_late(&mut self, free_ns: u64) {
        let [intended_ns, issued_ns, _] = std::mem::take(&mut self.repeats).instants_ns;
        self.late += 1;
        let busy_ns = free_ns.min(issued_ns).saturating_sub(intended_ns);
        self.late_busy += u64::from(busy_ns > LATE_TOLERANCE_NS);
    }

    #[inline(never)]
    fn record_repeats(&mut self) {
        let Repeats { instants_ns, count } = std::mem::take(&mut self.repeats);
        let tallies = [&mut self.wait, &mut self.service, &mut self.response];
        for (tally, duration_ns) in tallies.into_iter().zip(durations_ns(instants_ns)) {
            tally.repeat(duration_ns, count);
        }
    }

    /// Packs and clears the tally.
    pub(crate) fn pack(&mut self, values: &mut PackedValues) -> PackedSeries {
        self.record_repeats();
        let packed = self.map(|tally| tally.pack(values));
        self.clear();
        packed
    }

    pub(crate) fn add(&mut self, other: &PackedSeries, values: &mut ValueReader<'_>) {
        self.add_all(other, |tally, packed| _ = tally.add_packed(packed, values));
        self.service.add_packed(&other.alike, &mut values.clone());
        let without_wait = self.response.add_packed(&other.alike, values);
        self.wait.add_zeros(without_wait);
    }

    pub(crate) fn clear(&mut self) {
        let tallies = [&mut self.service, &mut self.response, &mut self.wait, &mut self.alike];
        tallies.into_iter().for_each(Tally::clear);
        (self.count, self.late, self.late_busy, self.rows) = (0, 0, 0, 0);
        self.carried = Carried::default();
    }
}

/// Wait, service and response time.
#[inline]
fn durations_ns([intended_ns, issued_ns, completed_ns]: [u64; 3]) -> [u64; 3] {
    [
        issued_ns.saturating_sub(intended_ns),
        completed_ns.saturating_sub(issued_ns),
        completed_ns.saturating_sub(intended_ns),
    ]
}

impl Series {
    pub(crate) fn largest_service_ns(&self) -> u64 {
        self.service.max_ns.max(self.carried.largest_service_ns)
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.add_all(other, Durations::merge);
    }
}
