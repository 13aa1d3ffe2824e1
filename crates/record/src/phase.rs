//! Aggregates one phase on the coordinator's thread: batches to intervals and totals.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_plan::{Outcome, PhaseName};

use crate::batch::Batch;
use crate::durations::Durations;
use crate::encoder::Encoder;
use crate::lag::{Lag, LagRecord};
use crate::names::{Names, SeriesKey};
use crate::row::{GroupAccounting, IntervalRow, RowOutcome, TotalColumns};
use crate::run::TotalRecord;
use crate::series::{Series, SeriesTally};
use crate::stop::RateSample;
use crate::tallies::Tallies;

/// The records of all workers in one phase.
#[derive(Debug)]
pub struct PhaseAggregate {
    phase: u32,
    name: PhaseName,
    names: Arc<Names>,
    start_ns: u64,
    interval_ns: u64,
    /// End of the interval closed last.
    closed_until_ns: u64,
    /// By number and whether it belongs to the drain.
    open: BTreeMap<(u32, bool), Tallies>,
    /// Memory of intervals that are closed.
    spare: Vec<Tallies>,
    totals: Vec<BTreeMap<usize, Total>>,
    lag: Lag,
}

#[derive(Debug, Default)]
struct Total {
    in_window: u64,
    series: Series,
}

impl PhaseAggregate {
    /// A phase that begins at `start_ns` since the run's origin, with the plan's names.
    #[must_use]
    pub fn new(
        phase: u32,
        name: PhaseName,
        names: Arc<Names>,
        start_ns: u64,
        interval_ns: u64,
    ) -> Self {
        let totals = names.groups.iter().map(|_| BTreeMap::new()).collect();
        Self {
            phase,
            name,
            names,
            start_ns,
            interval_ns,
            closed_until_ns: start_ns,
            open: BTreeMap::new(),
            spare: Vec::new(),
            totals,
            lag: Lag::default(),
        }
    }

    /// Merges one worker's batch of one interval. Several intervals may be open.
    pub fn add(&mut self, interval: u32, drain: bool, batch: &Batch) {
        let (names, spare) = (&self.names, &mut self.spare);
        let empty = || spare.pop().unwrap_or_else(|| Tallies::new(names));
        batch.add_to(self.open.entry((interval, drain)).or_insert_with(empty));
    }

    /// Closes an interval after every worker's batch was added, and adds it to the totals. Each
    /// group in `accounting`, that is each active one, gets a `TOTAL` row.
    ///
    /// Interval n of the window begins n interval lengths after the phase. An interval of the drain
    /// begins where the last one ended.
    pub fn close(
        &mut self,
        interval: u32,
        drain: bool,
        end_ns: u64,
        accounting: &[GroupAccounting],
    ) -> ClosedInterval {
        let (groups, lag) = match self.open.remove(&(interval, drain)) {
            Some(tallies) => self.unpack(tallies),
            None => (self.names.groups.iter().map(|_| Vec::new()).collect(), Lag::default()),
        };
        let nominal_ns = self.start_ns + u64::from(interval) * self.interval_ns;
        let start_ns = if drain { self.closed_until_ns } else { nominal_ns };
        self.closed_until_ns = end_ns;
        self.add_to_totals(drain, &groups);
        self.lag.merge(&lag);
        let (phase, phase_name) = (self.phase, self.name);
        let rows = Vec::new();
        let mut closed =
            ClosedInterval { phase, phase_name, drain, start_ns, end_ns, rows, groups, lag };
        closed.rows = closed.make_rows(&self.names, accounting);
        closed
    }

    /// The totals of the closed intervals, one record per group, operation and outcome.
    #[must_use]
    pub fn totals(&self) -> Vec<TotalRecord> {
        let mut encoder = Encoder::new();
        let groups = self.names.groups.iter().zip(&self.totals);
        let totals = groups.flat_map(|(group, totals)| totals.iter().map(move |one| (group, one)));
        let record =
            |(group, (index, Total { in_window, series })): (&String, (&usize, &Total))| {
                let key = SeriesKey::at(*index);
                Some(TotalRecord {
                    phase: self.phase,
                    group: group.clone(),
                    operation: self.names.operation(key.action).to_owned(),
                    part: key.action.is_part(),
                    outcome: key.outcome,
                    count: series.count,
                    in_window: *in_window,
                    rows: series.rows,
                    service: series.service.distribution(&mut encoder)?,
                    response: series.response.distribution(&mut encoder)?,
                    wait: series.wait.distribution(&mut encoder)?,
                })
            };
        totals.filter_map(record).collect()
    }

    /// The generator lag of the sampled reads in the closed intervals; `None` without samples.
    #[must_use]
    pub fn generator_lag(&self) -> Option<LagRecord> {
        self.lag.record(&mut Encoder::new())
    }

    /// The records of an interval, whose memory is used again.
    fn unpack(&mut self, mut tallies: Tallies) -> (Vec<ClosedGroup>, Lag) {
        let series = |(key, tally): (SeriesKey, &SeriesTally)| (key, tally.map(Durations::of));
        let groups = tallies.groups.iter().map(|group| group.recorded().map(series).collect());
        let closed = (groups.collect(), tallies.lag.map(Durations::of));
        tallies.clear();
        self.spare.push(tallies);
        closed
    }

    fn add_to_totals(&mut self, drain: bool, groups: &[ClosedGroup]) {
        for (totals, group) in self.totals.iter_mut().zip(groups) {
            for (key, series) in group {
                let total = totals.entry(key.index()).or_default();
                total.in_window += if drain { 0 } else { series.completed() };
                total.series.merge(series);
            }
        }
    }
}

/// A complete interval: its rows, and their histograms.
#[derive(Debug)]
pub struct ClosedInterval {
    /// Index of the phase in the plan.
    pub phase: u32,
    /// The purpose of the phase.
    pub phase_name: PhaseName,
    /// Whether the phase's window had ended.
    pub drain: bool,
    /// Begin, since the run's origin.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
    /// By group: `TOTAL` first, then each series in which something completed.
    pub rows: Vec<IntervalRow>,
    pub(crate) groups: Vec<ClosedGroup>,
    /// The generator lag of the reads that were sampled.
    pub(crate) lag: Lag,
}

/// The records of one group in a closed interval: the series in which something completed.
type ClosedGroup = Vec<(SeriesKey, Series)>;

/// A group's series without the parts of read-modify-writes.
fn whole(group: &ClosedGroup) -> impl Iterator<Item = &(SeriesKey, Series)> {
    group.iter().filter(|(key, _)| !key.action.is_part())
}

impl ClosedInterval {
    /// The interval's rate for a stop rule, over all groups.
    #[must_use]
    pub fn rate_sample(&self) -> RateSample {
        let whole = || self.groups.iter().flat_map(whole);
        let counted = whole().filter(|(key, _)| !key.outcome.is_failure());
        let succeeded = whole().filter(|(key, _)| key.outcome == Outcome::Ok);
        RateSample {
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            rows: counted.map(|(_, s)| s.completed_rows().max(s.completed())).sum(),
            succeeded: succeeded.map(|(_, series)| series.completed()).sum(),
            largest_service_ns: whole().map(|(_, s)| s.largest_service_ns()).max().unwrap_or(0),
        }
    }

    fn make_rows(&self, names: &Names, accounting: &[GroupAccounting]) -> Vec<IntervalRow> {
        let mut rows = Vec::new();
        for (index, (name, group)) in names.groups.iter().zip(&self.groups).enumerate() {
            if let Some(accounting) = accounting.iter().find(|entry| entry.group == index) {
                rows.push(self.total_row(name, group, *accounting));
            }
            rows.extend(group.iter().map(|(key, series)| IntervalRow {
                part: key.action.is_part(),
                outcome: RowOutcome::One(key.outcome),
                ..self.row(name, names.operation(key.action), series)
            }));
        }
        rows
    }

    fn total_row(
        &self,
        name: &str,
        group: &ClosedGroup,
        accounting: GroupAccounting,
    ) -> IntervalRow {
        let mut all = Series::default();
        whole(group).for_each(|(_, series)| all.merge(series));
        let total = Some(TotalColumns { accounting, late: all.late, late_busy: all.late_busy });
        IntervalRow { total, ..self.row(name, "TOTAL", &all) }
    }

    /// A row of all outcomes.
    fn row(&self, group: &str, operation: &str, series: &Series) -> IntervalRow {
        IntervalRow {
            phase: self.phase,
            phase_name: self.phase_name,
            drain: self.drain,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            group: group.to_owned(),
            operation: operation.to_owned(),
            part: false,
            outcome: RowOutcome::Any,
            count: series.completed(),
            carried: series.carried.count,
            rows: series.completed_rows(),
            service: series.service.quantiles(),
            response: series.response.quantiles(),
            wait: series.wait.quantiles(),
            total: None,
        }
    }
}
