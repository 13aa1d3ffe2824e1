//! Leads the workers through the phases of a plan.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use kvmark_driver::{Capabilities, Driver, Execution};
use kvmark_plan::{PhaseName, Plan, ValueCheck};
use kvmark_record::{
    COUNTING, Event, EventKind, Names, Notice, PhaseRecord, RunRecord, RunWriter, StoppedBy,
};
use kvmark_workload::Stream;
use serde_json::json;

use crate::calibrate;
use crate::clock::{Clock, RealClock, VirtualClock, wall_ns};
use crate::coordinator::{Coordinator, LOOK_UP};
use crate::error::EngineError;
use crate::loaded::{self, Loaded};
use crate::monitor::{PhaseMonitor, load_failure};
use crate::observer::{Control, Leave, Observer, has_ended, interruptible};
use crate::op_log::{Log, Recording};
use crate::pool::{self, MAX_BLOCKING_CLIENTS, WorkerPool, slots};
use crate::sequence::{self, DatasetState, RunSettings};
use crate::tape::check_tapes;
use crate::usage::{process_usage, process_use};
use crate::worker::{System, WorkerCommand};

/// Time from the command to begin a phase to the first intended start, so that every worker is
/// ready.
const LEAD_NS: u64 = 1_000_000;
/// Time before an agreed instant at which the preparation of a phase starts: the system's counters
/// are read.
const READY_NS: u64 = 20_000_000;

/// The result of a run: the records, and the failure that ended it early.
#[derive(Debug)]
pub struct Completed {
    /// The records until the run's end.
    pub record: RunRecord,
    /// The failure that ended the run; `None` if it is complete or the user stopped it.
    pub failure: Option<EngineError>,
    /// Whether threads of this process still wait for the system and keep it open.
    pub abandoned: bool,
}

/// Executes a plan. Writes records to `folder`, which must exist and contain none, and optionally a
/// log of every measured operation.
///
/// # Errors [`EngineError`] when the run can't begin; then nothing was written. Later failures are
/// returned with the records.
pub fn run<D: Driver>(
    plan: &Plan,
    driver: D,
    folder: &Path,
    recording: Option<&Recording>,
    observer: &mut dyn Observer,
) -> Result<Completed, EngineError> {
    if driver.capabilities().simulated_time {
        begin(plan, Arc::new(driver), VirtualClock::default(), folder, recording, observer)
    } else {
        run_in_real_time(plan, driver, folder, recording, observer)
    }
}

/// As [`run`], for a driver that never simulates time: its loops are compiled for one clock.
///
/// # Errors As those of [`run`].
pub fn run_in_real_time<D: Driver>(
    plan: &Plan,
    driver: D,
    folder: &Path,
    recording: Option<&Recording>,
    observer: &mut dyn Observer,
) -> Result<Completed, EngineError> {
    begin(plan, Arc::new(driver), RealClock::start(), folder, recording, observer)
}

/// Rejects a plan that this driver can't execute.
fn check(plan: &Plan, capabilities: &Capabilities) -> Result<(), EngineError> {
    let refuse = |problem: String| Err(EngineError::Unsupported(problem));
    for group in &plan.groups {
        let wanted = group.mix.iter().filter(|entry| entry.weight > 0.0);
        for entry in wanted {
            if !capabilities.kinds.contains(&entry.kind) {
                let (driver, kind) = (&plan.system.driver, entry.kind.name());
                return refuse(format!("the driver '{driver}' can't execute {kind} operations"));
            }
        }
    }
    if !capabilities.statements && !plan.statements.is_empty() {
        return refuse(format!(
            "the driver '{}' has no native commands, so the workload's statement '{}' \
             can't be executed",
            plan.system.driver, plan.statements[0].name
        ));
    }
    let slots = slots(plan);
    if capabilities.execution == Execution::Blocking && slots > MAX_BLOCKING_CLIENTS {
        return refuse(format!(
            "{slots} clients are too many: calls of the driver '{}' block, and each client \
             needs its own thread; use at most {MAX_BLOCKING_CLIENTS}",
            plan.system.driver
        ));
    }
    Ok(())
}

fn begin<C: Clock>(
    plan: &Plan,
    driver: Arc<dyn System<C>>,
    clock: C,
    folder: &Path,
    recording: Option<&Recording>,
    observer: &mut dyn Observer,
) -> Result<Completed, EngineError> {
    let capabilities = driver.capabilities();
    check(plan, &capabilities)?;
    let workers = pool::workers(plan, &capabilities);
    let log = recording.map(|recording| Log::start(recording, plan, workers)).transpose()?;
    let taped = check_tapes(plan)?;
    let streams = sequence::compile_streams(plan)?;
    let (sender, reports) = channel();
    let mut pool = WorkerPool::start(plan, &driver, &clock, &sender, log.as_ref())?;
    drop(sender);
    let described = pool.wait_until_open(&reports, observer).and_then(|()| {
        let driver = Arc::clone(&driver);
        interruptible(observer, move || driver.describe())
    });
    let description = described.inspect_err(|_| {
        pool.dismiss(|| observer.poll() != Control::Continue);
    })?;
    let origin_ns = clock.now_ns();
    let started_wall_ns = wall_ns().saturating_sub(origin_ns);
    let record = RunRecord {
        counting: COUNTING,
        started_wall_ns,
        system: to_json(&description),
        capabilities: to_json(&capabilities),
        clock: calibrate::measure(&clock),
        phases: Vec::new(),
        totals: Vec::new(),
        notices: Vec::new(),
        interrupted: false,
    };
    let mut writer = RunWriter::create(folder, started_wall_ns, Arc::new(Names::of(plan)))?;
    writer.event(&Event { at_ns: 0, kind: opened(&record) })?;
    let settings = RunSettings {
        workers: (!pool.threads).then_some(pool.workers.len() as u32),
        cancels: capabilities.cancels,
        simulated_time: capabilities.simulated_time,
        logs: log.is_some(),
        started_wall_ns,
    };
    let mut coordinator = Coordinator {
        plan,
        driver,
        clock,
        settings,
        record,
        pool,
        reports,
        writer,
        observer,
        dataset: DatasetState::of(plan, taped),
        log,
        system: description.system,
        disturbed_ns: 0,
        is_silent: false,
    };
    let failure = coordinator.run_phases(streams).err();
    let failure = coordinator.with_silence_noticed(failure);
    Ok(coordinator.finish(failure))
}

impl<C: Clock> Coordinator<'_, C> {
    fn run_phases(&mut self, streams: Vec<Vec<Stream>>) -> Result<(), EngineError> {
        let mut streams = streams.into_iter();
        let mut index = 0;
        while index < self.plan.phases.len() {
            let phase = &self.plan.phases[index];
            let phases = index..index + sequence::sequence_length(self.plan, index);
            let streams: Vec<_> = streams.by_ref().take(phases.len()).collect();
            // Probed before the phase may begin: of several engines none loads while another still
            // probes.
            let there = if phase.only_if_missing {
                self.look_for_records(&streams[0])?
            } else {
                Loaded::First(0)
            };
            if phase.name != PhaseName::Verify && !self.record.interrupted {
                self.look_for_tags(index, &streams[0])?;
            }
            // All phases of a sequence need permission before the first begins.
            let mut due_ns = 0;
            for phase in phases.clone() {
                due_ns = due_ns.max(self.wait_for_leave(phase)?);
            }
            if self.record.interrupted {
                break;
            }
            match there {
                Loaded::All => self.skip(index)?,
                Loaded::First(_) if phase.groups.is_empty() => self.settle(index)?,
                Loaded::First(records) => self.measure(index, streams, records, due_ns)?,
            }
            index = phases.end;
        }
        Ok(())
    }

    /// Finds out whether values have tags, if a phase checks them and that is still open.
    fn look_for_tags(&mut self, index: usize, streams: &[Stream]) -> Result<(), EngineError> {
        let groups = self.plan.phases[index].groups.iter();
        let mut checks = groups.map(|one| self.plan.groups[one.group as usize].check_values);
        let is_asked = checks.any(|check| check == ValueCheck::Tag);
        let Some(stream) = streams.first().filter(|_| is_asked && self.dataset.tags.is_none())
        else {
            return Ok(());
        };
        if !self.driver.capabilities().compares {
            return Ok(());
        }
        let tags =
            stream.records().tag(self.plan.dataset.start).is_none() || self.finds_tags(stream)?;
        self.dataset.tags = Some(tags);
        if tags { Ok(()) } else { self.notice(loaded::untagged(index)) }
    }

    /// Waits until the observer permits a phase, or the user interrupts. Returns the earliest
    /// start.
    fn wait_for_leave(&mut self, index: usize) -> Result<u64, EngineError> {
        let phase = self.plan.phases[index].name;
        while !self.record.interrupted {
            let nap = match self.observer.may_begin(phase) {
                Leave::At { wall_ns } if !self.settings.simulated_time => {
                    let due_ns = wall_ns.saturating_sub(self.settings.started_wall_ns);
                    let ahead_ns = due_ns.saturating_sub(self.clock.now_ns() + READY_NS);
                    if ahead_ns == 0 {
                        return Ok(due_ns);
                    }
                    LOOK_UP.min(Duration::from_nanos(ahead_ns))
                }
                Leave::Now | Leave::At { .. } => break,
                Leave::Wait => LOOK_UP,
            };
            thread::sleep(nap);
            if self.observer.poll() != Control::Continue {
                self.interrupt()?;
            }
        }
        Ok(0)
    }

    fn skip(&mut self, index: usize) -> Result<(), EngineError> {
        let at_ns = self.clock.now_ns();
        let name = self.plan.phases[index].name;
        let kind = EventKind::PhaseSkipped { phase: index as u32, name };
        self.writer.event(&Event { at_ns, kind })?;
        self.record.phases.push(self.bare_record(index, at_ns, StoppedBy::Skipped));
        Ok(())
    }

    /// Waits until the system is quiet, on a separate thread so that the user can interrupt.
    fn settle(&mut self, index: usize) -> Result<(), EngineError> {
        let start_ns = self.clock.now_ns();
        self.phase_event(index, start_ns, None)?;
        let driver = Arc::clone(&self.driver);
        let settling = thread::Builder::new().name("kvmark-settle".to_owned());
        let settling = settling
            .spawn(move || driver.settle())
            .map_err(|source| EngineError::Thread { worker: 0, source })?;
        if has_ended(&settling, || self.observer.poll() != Control::Continue) {
            settling.join().unwrap_or(Ok(()))?;
        } else {
            self.interrupt()?;
        }
        let stopped_by = self.stopped_by(StoppedBy::Operations);
        let mut record = self.bare_record(index, start_ns, stopped_by);
        record.end_ns = self.clock.now_ns();
        record.drained_ns = record.end_ns;
        self.phase_event(index, record.end_ns, Some(stopped_by))?;
        self.record.phases.push(record);
        Ok(())
    }

    /// Runs phases with groups, which begin at the due instant or as soon as possible after it. A
    /// load continues after `there` records of this share.
    fn measure(
        &mut self,
        index: usize,
        streams: Vec<Vec<Stream>>,
        there: u64,
        due_ns: u64,
    ) -> Result<(), EngineError> {
        let mut dataset = self.dataset.clone();
        if self.plan.phases[index].name == PhaseName::Load {
            let start = self.plan.dataset.start + there * u64::from(self.plan.share.of);
            dataset.inserts = sequence::inserts_from(self.plan, start);
            dataset.there = there;
        }
        let snapshot = self.snapshot();
        let start = || due_ns.max(self.clock.now_ns() + LEAD_NS);
        let sequence = sequence::begin(self.plan, index, streams, dataset, self.settings, start);
        let sequence = Arc::new(sequence);
        self.pool.command_all(&WorkerCommand::PhaseSequence(Arc::clone(&sequence)));
        self.phase_event(index, sequence.start_ns(), None)?;
        if there > 0 {
            self.notice(loaded::goes_on(index, there))?;
        }
        let mut monitor = PhaseMonitor::new(self, &sequence, snapshot);
        let mut failure = monitor.follow();
        let mut notices = monitor.missing_notices();
        let records = monitor.records();
        let last = records.len() - 1;
        let scan = sequence.scan.as_ref();
        let mut written = scan.map_or(Ok(()), |scan| Ok(scan.write_lost(&self.writer)?));
        for (phase, (mut record, totals, failures)) in records.into_iter().enumerate() {
            record.records_found = (there > 0).then_some(there);
            let load_failed = load_failure(&record, &failures);
            if phase == last {
                if failure.is_some() || load_failed.is_some() {
                    record.stopped_by = self.stopped_by(StoppedBy::Failed);
                }
                let index = record.index as usize;
                let ended = self.phase_event(index, record.end_ns, Some(record.stopped_by));
                written = written.and(ended);
            }
            failure = failure.or(load_failed);
            self.record.phases.push(record);
            self.record.totals.extend(totals);
            notices.extend(failures);
        }
        for notice in notices {
            self.notice(notice)?;
        }
        failure.map_or(Ok(()), Err)?;
        if there == 0 && self.plan.phases[index].name == PhaseName::Load {
            self.dataset.tags = Some(true);
        }
        written
    }

    /// Adds a notice if the run ended because the system didn't answer.
    fn with_silence_noticed(&mut self, failure: Option<EngineError>) -> Option<EngineError> {
        let Some(EngineError::NoAnswer { system, limit_s }) = &failure else { return failure };
        let ended = self.record.phases.last().filter(|phase| phase.stopped_by == StoppedBy::Failed);
        let notice = Notice {
            code: "no_answer",
            phase: ended.map(|phase| phase.index),
            message: format!("{system} answered nothing for {limit_s} s"),
            evidence: json!({ "stall_limit_s": limit_s, "system": system }),
            advice: "check that it still works, or raise the limit with --stall-limit",
        };
        let noticed = self.notice(notice);
        failure.or(noticed.err())
    }

    fn bare_record(&self, index: usize, at_ns: u64, stopped_by: StoppedBy) -> PhaseRecord {
        let now = process_usage();
        PhaseRecord {
            index: index as u32,
            name: self.plan.phases[index].name,
            start_ns: at_ns,
            end_ns: at_ns,
            drained_ns: at_ns,
            stopped_by,
            relative_stderr: None,
            groups: Vec::new(),
            workers: Vec::new(),
            process: process_use(&now, &now),
            statistics: BTreeMap::new(),
            generator_lag: None,
            sweep: None,
            records_found: None,
        }
    }

    fn finish(mut self, failure: Option<EngineError>) -> Completed {
        self.pool.dismiss(|| self.observer.poll() == Control::Abandon);
        let abandoned = self.pool.abandoned;
        let log_notice = self.log.take().and_then(|log| log.finish(abandoned));
        let noticed = log_notice.map_or(Ok(()), |notice| self.notice(notice));
        let closed = self.writer.finish().err().map(EngineError::from);
        let failure = failure.or(noticed.err()).or(closed);
        Completed { record: self.record, failure, abandoned }
    }
}

/// The event with the run's description, for the records of killed runs.
fn opened(record: &RunRecord) -> EventKind {
    let RunRecord { counting, started_wall_ns, system, capabilities, clock, .. } = record.clone();
    EventKind::Opened { counting, started_wall_ns, system, capabilities, clock }
}

fn to_json(value: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(value).expect("a description is plain data")
}
