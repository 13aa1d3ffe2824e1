//! The state of a run, and its records other than the workers' interval reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use kvmark_plan::Plan;
use kvmark_record::{
    Change, Event, EventKind, Notice, ProcessRecord, RunRecord, RunWriter, StoppedBy,
};

use crate::clock::Clock;
use crate::error::EngineError;
use crate::observer::Observer;
use crate::op_log::Log;
use crate::pool::WorkerPool;
use crate::pulse::silent_since;
use crate::sequence::{DatasetState, RunSettings};
use crate::usage::process_usage;
use crate::worker::System;
use crate::worker_recorder::Report;

/// Polling interval of the coordinator while it waits.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(50);
/// Polling interval while workers measure: each poll takes a core from them.
pub(crate) const LOOK_UP_MEANWHILE: Duration = Duration::from_millis(200);

/// A run, on the coordinator's thread.
pub(crate) struct Coordinator<'a, C> {
    pub(crate) plan: &'a Plan,
    pub(crate) driver: Arc<dyn System<C>>,
    pub(crate) clock: C,
    pub(crate) settings: RunSettings,
    /// The results so far.
    pub(crate) record: RunRecord,
    pub(crate) pool: WorkerPool,
    pub(crate) reports: Receiver<Report>,
    pub(crate) writer: RunWriter,
    pub(crate) observer: &'a mut dyn Observer,
    /// Ordinals of inserts outside the load phase, and the history of writes.
    pub(crate) dataset: DatasetState,
    /// The log of measured operations, if one is written.
    pub(crate) log: Option<Log>,
    /// The system's name.
    pub(crate) system: String,
    /// When a planned fault was last active.
    pub(crate) disturbed_ns: u64,
    /// Whether the system stopped answering, so that it gets no more requests.
    pub(crate) is_silent: bool,
}

impl<C: Clock> Coordinator<'_, C> {
    /// The current resource use of the process and counters of the system.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let statistics = if self.is_silent { BTreeMap::new() } else { self.driver.statistics() };
        Snapshot { usage: process_usage(), statistics }
    }

    /// How long workers have waited without any answer, except while a fault is active. `None`
    /// without outstanding requests. `is_at_work` returns whether a worker is still active.
    pub(crate) fn silent_ns(&self, is_at_work: impl Fn(usize) -> bool) -> Option<u64> {
        let workers = self.pool.workers.iter().enumerate();
        let pulses = workers.map(|(worker, member)| (&member.pulse.0, is_at_work(worker)));
        let since_ns = silent_since(pulses)?;
        Some(self.clock.now_ns().saturating_sub(since_ns.max(self.disturbed_ns)))
    }

    /// Marks the system as silent and returns the error, which names the servers with outstanding
    /// requests if they are known.
    pub(crate) fn no_answer(&mut self, awaited: &[String]) -> EngineError {
        self.is_silent = true;
        let system = match awaited {
            [] => self.system.clone(),
            [one] => format!("the server at {one}"),
            several => format!("each of the servers at {}", several.join(", ")),
        };
        let limit_s = self.plan.stall_limit_ns.unwrap_or(0) as f64 * 1e-9;
        EngineError::NoAnswer { system, limit_s }
    }

    /// Records once, also on disk, that the user ended the run.
    pub(crate) fn interrupt(&mut self) -> Result<(), EngineError> {
        if std::mem::replace(&mut self.record.interrupted, true) {
            return Ok(());
        }
        let event = Event { at_ns: self.clock.now_ns(), kind: EventKind::Interrupted };
        Ok(self.writer.event(&event)?)
    }

    pub(crate) fn stopped_by(&self, otherwise: StoppedBy) -> StoppedBy {
        if self.record.interrupted { StoppedBy::Cancelled } else { otherwise }
    }

    pub(crate) fn phase_event(
        &mut self,
        index: usize,
        at_ns: u64,
        stopped_by: Option<StoppedBy>,
    ) -> Result<(), EngineError> {
        let (phase, name) = (index as u32, self.plan.phases[index].name);
        let kind = match stopped_by {
            None => EventKind::PhaseStarted { phase, name },
            Some(stopped_by) => EventKind::PhaseEnded { phase, name, stopped_by },
        };
        Ok(self.writer.event(&Event { at_ns, kind })?)
    }

    /// Adds a notice to the run's records.
    pub(crate) fn notice(&mut self, notice: Notice) -> Result<(), EngineError> {
        let event = Event { at_ns: self.clock.now_ns(), kind: EventKind::Notice(notice.clone()) };
        self.record.notices.push(notice);
        Ok(self.writer.event(&event)?)
    }
}

/// Resource use and counters at the start or the end of a phase.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) usage: ProcessRecord,
    pub(crate) statistics: BTreeMap<String, f64>,
}

impl Snapshot {
    pub(crate) fn changes_until(&self, after: &Self) -> BTreeMap<String, Change> {
        let change = |(name, after): (&String, &f64)| {
            let before = self.statistics.get(name).copied().unwrap_or(0.0);
            (name.clone(), Change { before, after: *after })
        };
        after.statistics.iter().map(change).collect()
    }
}
