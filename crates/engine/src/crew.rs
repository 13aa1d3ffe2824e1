//! The workers, as their coordinator knows them.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use kvmark_driver::{Capabilities, Driver, Execution};
use kvmark_plan::Plan;
use kvmark_record::{Batch, Names};
use kvmark_workload::Apart;

use crate::clock::Clock;
use crate::error::EngineError;
use crate::ledger::Report;
use crate::log::Log;
use crate::phase;
use crate::pulse::Pulse;
use crate::worker::{self, Order, Setup};

/// Most clients a blocking driver may have, each being a thread.
pub const MAX_BLOCKING_CLIENTS: u32 = 1024;

/// The workers of a run.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) workers: Vec<Member>,
    /// Whether each client has a thread of its own.
    pub(crate) threads: bool,
    /// Whether workers were left behind that don't answer.
    pub(crate) abandoned: bool,
}

#[derive(Debug)]
pub(crate) struct Member {
    thread: JoinHandle<()>,
    pub(crate) orders: Sender<Order>,
    pub(crate) pulse: Arc<Apart<Pulse>>,
    /// The core to which it is bound, if it is.
    pub(crate) cores: Vec<u32>,
    /// Where the memory of its pages goes back.
    spare: Sender<Batch>,
}

impl Member {
    /// Gives the memory of a page back, which was cleared.
    pub(crate) fn hand_back(&self, batch: Batch) {
        // A worker that is gone needs none.
        drop(self.spare.send(batch));
    }
}

impl Crew {
    pub(crate) fn start<D: Driver, C: Clock>(
        plan: &Plan,
        driver: &Arc<D>,
        clock: &C,
        outlet: &Sender<Report>,
        log: Option<&Log>,
    ) -> Result<Self, EngineError> {
        let slots = slots(plan);
        let threads = driver.capabilities().execution == Execution::Blocking;
        let count = workers(plan, &driver.capabilities());
        let mut workers = Vec::new();
        for worker in 0..count {
            let carried = slots / count + u32::from(worker < slots % count);
            let core = plan.pin.get(worker as usize % plan.pin.len().max(1)).copied();
            let (orders, inbox) = channel();
            let pulse = Arc::new(Apart(Pulse::new()));
            let (spare, used) = channel();
            let setup = Setup {
                worker: worker as usize,
                workers: count,
                driver: Arc::clone(driver),
                clock: clock.clone(),
                clients: carried,
                names: Arc::new(Names::of(plan)),
                core,
                orders: inbox,
                reports: outlet.clone(),
                used,
                pulse: Arc::clone(&pulse),
                pen: log.map(|log| log.pen(worker)),
            };
            let thread = spawn(setup)?;
            let cores = core.into_iter().collect();
            workers.push(Member { thread, orders, pulse, cores, spare });
        }
        Ok(Self { workers, threads, abandoned: false })
    }

    /// Returns when every session is open.
    pub(crate) fn wait_until_open(&self, reports: &Receiver<Report>) -> Result<(), EngineError> {
        for _ in &self.workers {
            match reports.recv() {
                Ok(Report::Opened { result }) => result?,
                Ok(Report::Panicked { worker, message }) => {
                    return Err(EngineError::Panicked { worker, message });
                }
                _ => break,
            }
        }
        Ok(())
    }

    pub(crate) fn order_all(&self, order: &Order) {
        for member in &self.workers {
            // A worker that is gone has reported its panic, which ends the run.
            drop(member.orders.send(order.clone()));
        }
    }

    /// Ends the workers, so that the system is closed when this returns; those that don't answer
    /// are left behind.
    pub(crate) fn dismiss(&mut self) {
        for Member { thread, orders, spare, .. } in self.workers.drain(..) {
            drop(orders);
            // One that waits for a page to come back goes on.
            drop(spare);
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

fn spawn<D: Driver, C: Clock>(setup: Setup<D, C>) -> Result<JoinHandle<()>, EngineError> {
    let worker = setup.worker;
    let reports = setup.reports.clone();
    let name = format!("kvmark-{worker}");
    let body = move || worker::guarded(worker, reports, || worker::work(setup));
    let spawned = thread::Builder::new().name(name).spawn(body);
    spawned.map_err(|source| EngineError::Thread { worker, source })
}

/// How many workers carry a plan out.
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
        groups.map(|group| phase::clients_of(group, plan.share)).sum()
    });
    active.max().unwrap_or(0)
}
