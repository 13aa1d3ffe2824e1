//! The coordinator's handles of the workers.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

use kvmark_driver::{Capabilities, Execution};
use kvmark_plan::Plan;
use kvmark_record::{Batch, Names};
use kvmark_workload::CachePadded;

use crate::clock::Clock;
use crate::coordinator::LOOK_UP;
use crate::error::EngineError;
use crate::observer::{Control, Observer, has_ended};
use crate::op_log::Log;
use crate::pulse::Pulse;
use crate::source;
use crate::worker::{Setup, System, WorkerCommand};
use crate::worker_recorder::{Report, ReportChannel, SendWindow};

/// Most clients of a blocking driver, each of which is a thread.
pub const MAX_BLOCKING_CLIENTS: u32 = 1024;

/// The workers of a run.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    pub(crate) workers: Vec<WorkerHandle>,
    /// Whether each client has its own thread.
    pub(crate) threads: bool,
    /// Whether unresponsive workers were abandoned.
    pub(crate) abandoned: bool,
}

#[derive(Debug)]
pub(crate) struct WorkerHandle {
    thread: JoinHandle<()>,
    pub(crate) commands: Sender<WorkerCommand>,
    pub(crate) pulse: Arc<CachePadded<Pulse>>,
    /// The core that the worker is bound to, if any.
    pub(crate) cores: Vec<u32>,
    /// Returns the memory of interval reports.
    pub(crate) spare: Sender<Batch>,
}

impl WorkerPool {
    pub(crate) fn start<C: Clock>(
        plan: &Plan,
        driver: &Arc<dyn System<C>>,
        clock: &C,
        reports: &Sender<Report>,
        log: Option<&Log>,
    ) -> Result<Self, EngineError> {
        let slots = slots(plan);
        let threads = driver.capabilities().execution == Execution::Blocking;
        let count = workers(plan, &driver.capabilities());
        let mut workers = Vec::new();
        for worker in 0..count {
            let carried = slots / count + u32::from(worker < slots % count);
            let core = plan.pin.get(worker as usize % plan.pin.len().max(1)).copied();
            let (commands, inbox) = channel();
            let pulse = Arc::new(CachePadded(Pulse::new()));
            let (spare, used) = channel();
            let channel = ReportChannel {
                worker: worker as usize,
                names: Names::of(plan),
                pulse: Arc::clone(&pulse),
                reports: reports.clone(),
                used,
                send_window: SendWindow::of_each::<C>(count),
                idle_spin_ns: Cell::new(0),
                log_writer: log.map(|log| log.log_writer(worker)),
            };
            let setup = Setup {
                workers: count,
                clock: clock.clone(),
                clients: carried,
                core,
                commands: inbox,
                channel,
            };
            let thread = thread::Builder::new().name(format!("kvmark-{worker}"));
            let driver = Arc::clone(driver);
            let thread = thread.spawn(move || driver.work(setup));
            let thread =
                thread.map_err(|source| EngineError::Thread { worker: worker as usize, source })?;
            let cores = core.into_iter().collect();
            workers.push(WorkerHandle { thread, commands, pulse, cores, spare });
        }
        Ok(Self { workers, threads, abandoned: false })
    }

    /// Returns when every session is open.
    pub(crate) fn wait_until_open(
        &self,
        reports: &Receiver<Report>,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let mut open = 0;
        while open < self.workers.len() {
            match reports.recv_timeout(LOOK_UP) {
                Ok(Report::Opened { result }) => result?,
                Ok(Report::Panicked { worker, message }) => {
                    return Err(EngineError::Panicked { worker, message });
                }
                Err(RecvTimeoutError::Timeout) if observer.poll() == Control::Continue => continue,
                Err(RecvTimeoutError::Timeout) => return Err(EngineError::Interrupted),
                _ => break,
            }
            open += 1;
        }
        Ok(())
    }

    pub(crate) fn command_all(&self, command: &WorkerCommand) {
        for member in &self.workers {
            // A worker that has ended reported its panic, which ends the run.
            drop(member.commands.send(command.clone()));
        }
    }

    /// Ends the workers. When this returns, the system is closed, except for abandoned workers.
    /// Those that still close it are abandoned once `is_enough`.
    pub(crate) fn dismiss(&mut self, mut is_enough: impl FnMut() -> bool) {
        // The ends of the channels wake workers that wait for a command or a report's memory.
        let threads: Vec<_> = self.workers.drain(..).map(|worker| worker.thread).collect();
        for thread in threads {
            self.abandoned = self.abandoned || !has_ended(&thread, &mut is_enough);
            if !self.abandoned {
                // A panic was reported when it happened.
                drop(thread.join());
            }
        }
    }

    pub(crate) fn completed(&self) -> u64 {
        self.workers.iter().map(|member| member.pulse.0.completed()).sum()
    }
}

/// Number of workers for a plan.
pub(crate) fn workers(plan: &Plan, capabilities: &Capabilities) -> u32 {
    let slots = slots(plan);
    match capabilities {
        capabilities if capabilities.simulated_time => 1,
        capabilities if capabilities.execution == Execution::Blocking => slots.max(1),
        _ => plan.workers.min(slots).max(1),
    }
}

/// Most clients of this engine that are active at the same time.
pub(crate) fn slots(plan: &Plan) -> u32 {
    let active = plan.phases.iter().map(|phase| {
        let groups = phase.groups.iter().map(|active| &plan.groups[active.group as usize]);
        groups.map(|group| source::clients_of(group.clients, plan.share)).sum()
    });
    active.max().unwrap_or(0)
}
