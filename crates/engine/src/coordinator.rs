//! The state of a run, and what is written down of it besides the workers' pages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use kvmark_driver::Driver;
use kvmark_plan::Plan;
use kvmark_record::{
    Change, Event, EventKind, Notice, PhaseRecord, ProcessRecord, RunWriter, StoppedBy, TotalRecord,
};

use crate::clock::Clock;
use crate::crew::Crew;
use crate::error::EngineError;
use crate::ledger::Report;
use crate::log::Log;
use crate::observer::Observer;
use crate::phase::{Books, Setting};
use crate::pulse::silent_since;
use crate::usage::ProcessUsage;

/// How often the coordinator looks up while it waits.
pub(crate) const LOOK_UP: Duration = Duration::from_millis(50);
/// How often it does while workers measure: each time it takes a core from them.
pub(crate) const LOOK_UP_MEANWHILE: Duration = Duration::from_millis(200);

/// A run, on the coordinator's thread.
pub(crate) struct Coordinator<'a, D, C> {
    pub(crate) plan: &'a Plan,
    pub(crate) driver: Arc<D>,
    pub(crate) clock: C,
    pub(crate) setting: Setting,
    /// Wall time of the clock's origin.
    pub(crate) started_wall_ns: u64,
    pub(crate) crew: Crew,
    pub(crate) reports: Receiver<Report>,
    pub(crate) writer: RunWriter,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) phases: Vec<PhaseRecord>,
    pub(crate) totals: Vec<TotalRecord>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) interrupted: bool,
    /// Ordinals of inserts outside the load phase, and what was written.
    pub(crate) books: Books,
    /// Where measured operations are logged, if they are.
    pub(crate) log: Option<Log>,
    /// The system's name.
    pub(crate) system: String,
    /// When a planned fault acted last.
    pub(crate) disturbed_ns: u64,
    /// Whether the system answers no more, so that it is asked nothing more.
    pub(crate) is_silent: bool,
}

impl<D: Driver, C: Clock> Coordinator<'_, D, C> {
    /// What the process has used and the system has counted until now.
    pub(crate) fn mark(&self) -> Mark {
        let statistics = if self.is_silent { BTreeMap::new() } else { self.driver.statistics() };
        Mark { usage: ProcessUsage::now(), statistics }
    }

    /// How long workers wait and none has an answer, times in which a fault acts left out; none
    /// while nothing is outstanding. Says whether a worker is still at work.
    pub(crate) fn silent_ns(&self, is_at_work: impl Fn(usize) -> bool) -> Option<u64> {
        let workers = self.crew.workers.iter().enumerate();
        let pulses = workers.map(|(worker, member)| (&member.pulse.0, is_at_work(worker)));
        let since_ns = silent_since(pulses)?;
        Some(self.clock.now_ns().saturating_sub(since_ns.max(self.disturbed_ns)))
    }

    /// That the system answers nothing, and is asked nothing more; the servers that owe an answer
    /// are named where they are known.
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

    /// Notes once, on disk too, that the user ends the run.
    pub(crate) fn interrupt(&mut self) -> Result<(), EngineError> {
        if self.interrupted {
            return Ok(());
        }
        self.interrupted = true;
        let event = Event { at_ns: self.clock.now_ns(), kind: EventKind::Interrupted };
        Ok(self.writer.event(&event)?)
    }

    pub(crate) fn stopped_by(&self, otherwise: StoppedBy) -> StoppedBy {
        if self.interrupted { StoppedBy::Cancelled } else { otherwise }
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

    /// Keeps a warning with the run.
    pub(crate) fn notice(&mut self, notice: Notice) -> Result<(), EngineError> {
        let event = Event { at_ns: self.clock.now_ns(), kind: EventKind::Notice(notice.clone()) };
        self.notices.push(notice);
        Ok(self.writer.event(&event)?)
    }

    /// Waits for the next report, but no longer than this.
    pub(crate) fn next_report(&self, nap: Duration) -> Option<Report> {
        self.reports.recv_timeout(nap).ok()
    }
}

/// What is taken where a phase begins and where it ends.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) usage: ProcessUsage,
    pub(crate) statistics: BTreeMap<String, f64>,
}

impl Mark {
    pub(crate) fn process_until(&self, after: &Self) -> ProcessRecord {
        let (before, after) = (&self.usage, &after.usage);
        ProcessRecord {
            cpu_user_ns: after.cpu_user_ns - before.cpu_user_ns,
            cpu_system_ns: after.cpu_system_ns - before.cpu_system_ns,
            max_resident_bytes: after.max_resident_bytes,
            voluntary_switches: after.voluntary_switches - before.voluntary_switches,
            involuntary_switches: after.involuntary_switches - before.involuntary_switches,
        }
    }

    pub(crate) fn changes_until(&self, after: &Self) -> BTreeMap<String, Change> {
        let change = |(name, after): (&String, &f64)| {
            let before = self.statistics.get(name).copied().unwrap_or(0.0);
            (name.clone(), Change { before, after: *after })
        };
        after.statistics.iter().map(change).collect()
    }
}
