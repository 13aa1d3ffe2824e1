//! Aggregates one phase on the coordinator's thread: batches to intervals and totals.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_plan::{Outcome, PhaseName};

use crate::accounting::GroupAccounting;
use crate::batch::Batch;
use crate::durations::Durations;
use crate::encoder::Encoder;
use crate::lag::{Lag, LagRecord};
use crate::names::{Names, SeriesKey};
use crate::row::{IntervalRow, RowOutcome, TotalColumns};
use crate::run::TotalRecord;
use crate::series::Series;
use crate::stop::RateSample;
use crate::tallies::{GroupTallies, Tallies};

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

#[derive(Debug)]
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
            lag: Lag::with(Durations::new()),
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
        let (groups, lag) = self.take(interval, drain);
        let nominal_ns = self.start_ns + u64::from(interval) * self.interval_ns;
        let start_ns = if drain { self.closed_until_ns } else { nominal_ns };
        self.closed_until_ns = end_ns;
        self.add_to_totals(drain, &groups);
        if let Some(lag) = &lag {
            self.lag.merge(lag);
        }
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
        let mut records = Vec::new();
        for (group, totals) in self.names.groups.iter().zip(&self.totals) {
            let of_group = totals.iter();
            records.extend(of_group.filter_map(|(index, total)| {
                self.total_record(group, SeriesKey::at(*index), total, &mut encoder)
            }));
        }
        records
    }

    /// The generator lag of the sampled reads in the closed intervals; `None` without samples.
    #[must_use]
    pub fn generator_lag(&self) -> Option<LagRecord> {
        self.lag.record(&mut Encoder::new())
    }

    fn take(&mut self, interval: u32, drain: bool) -> (Vec<ClosedGroup>, Option<Lag>) {
        let Some(mut tallies) = self.open.remove(&(interval, drain)) else {
            return (self.names.groups.iter().map(|_| ClosedGroup::default()).collect(), None);
        };
        let groups = tallies.groups.iter().map(ClosedGroup::from).collect();
        let lag = tallies.lag().map(Lag::from);
        tallies.clear();
        self.spare.push(tallies);
        (groups, lag)
    }

    fn add_to_totals(&mut self, drain: bool, groups: &[ClosedGroup]) {
        for (totals, group) in self.totals.iter_mut().zip(groups) {
            for (key, series) in &group.series {
                let empty = || Total { in_window: 0, series: Series::with(Durations::new) };
                let total = totals.entry(key.index()).or_insert_with(empty);
                total.in_window += if drain { 0 } else { series.completed() };
                total.series.merge(series);
            }
        }
    }

    fn total_record(
        &self,
        group: &str,
        key: SeriesKey,
        total: &Total,
        encoder: &mut Encoder,
    ) -> Option<TotalRecord> {
        Some(TotalRecord {
            phase: self.phase,
            group: group.to_owned(),
            operation: self.names.operation(key.action).to_owned(),
            part: key.action.is_part(),
            outcome: key.outcome,
            count: total.series.count,
            in_window: total.in_window,
            rows: total.series.rows,
            service: total.series.service.distribution(encoder)?,
            response: total.series.response.distribution(encoder)?,
            wait: total.series.wait.distribution(encoder)?,
        })
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
    groups: Vec<ClosedGroup>,
    lag: Option<Lag>,
}

/// The records of one group in a closed interval.
#[derive(Debug, Default)]
pub(crate) struct ClosedGroup {
    /// Those in which something completed.
    pub(crate) series: Vec<(SeriesKey, Series)>,
}

impl ClosedGroup {
    /// Without the parts of read-modify-writes.
    fn whole(&self) -> impl Iterator<Item = &(SeriesKey, Series)> {
        self.series.iter().filter(|(key, _)| !key.action.is_part())
    }
}

impl From<&GroupTallies> for ClosedGroup {
    fn from(group: &GroupTallies) -> Self {
        let series = group.recorded().map(|(key, tally)| (key, tally.into())).collect();
        Self { series }
    }
}

impl ClosedInterval {
    /// The interval's rate for a stop rule, over all groups.
    #[must_use]
    pub fn rate_sample(&self) -> RateSample {
        let whole = || self.groups.iter().flat_map(ClosedGroup::whole);
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

    pub(crate) fn groups(&self) -> &[ClosedGroup] {
        &self.groups
    }

    /// The generator lag of the reads that were sampled.
    pub(crate) fn lag(&self) -> Option<&Durations> {
        self.lag.as_ref().map(|lag| &lag.lag).filter(|lag| lag.count() > 0)
    }

    fn make_rows(&self, names: &Names, accounting: &[GroupAccounting]) -> Vec<IntervalRow> {
        let mut rows = Vec::new();
        for (index, (name, group)) in names.groups.iter().zip(&self.groups).enumerate() {
            if let Some(accounting) = accounting.iter().find(|entry| entry.group == index) {
                rows.push(self.total_row(name, group, *accounting));
            }
            let of_group = group.series.iter();
            rows.extend(of_group.map(|(key, series)| IntervalRow {
                operation: names.operation(key.action).to_owned(),
                ..self.series_row(name, *key, series)
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
        let mut all = Series::with(Durations::new);
        for (_, series) in group.whole() {
            all.merge(series);
        }
        let total = Some(TotalColumns { accounting, late: all.late, late_busy: all.late_busy });
        let operation = "TOTAL".to_owned();
        IntervalRow { operation, outcome: RowOutcome::Any, total, ..self.row(name, &all) }
    }

    fn series_row(&self, name: &str, key: SeriesKey, series: &Series) -> IntervalRow {
        IntervalRow {
            part: key.action.is_part(),
            outcome: RowOutcome::One(key.outcome),
            ..self.row(name, series)
        }
    }

    /// The common fields of a row; the caller sets operation and outcome.
    fn row(&self, group: &str, series: &Series) -> IntervalRow {
        IntervalRow {
            phase: self.phase,
            phase_name: self.phase_name,
            drain: self.drain,
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            group: group.to_owned(),
            operation: String::new(),
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
