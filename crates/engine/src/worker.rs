//! A worker: one thread with its own session and recorder, which executes the coordinator's
//! commands.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use kvmark_driver::{AnySession, Driver, OpenError, Session};
use kvmark_record::{Batch, Names, Recorder};
use kvmark_workload::CachePadded;
use rustix::thread::set_current_timer_slack;

use crate::blocking::ThreadClient;
use crate::client_loop::ClientLoop;
use crate::clock::Clock;
use crate::op_log::OpLogWriter;
use crate::probe::{self, Probe, ProbeAnswer};
use crate::pulse::Pulse;
use crate::sequence::PhaseSequence;
use crate::sleep::Sleep;
use crate::source::Source;
use crate::usage;
use crate::worker_recorder::{Report, ReportChannel, SendWindow, WorkerRecorder};

/// Time between two turns of an idle session.
const BETWEEN_TURNS: Duration = Duration::from_millis(100);

/// A command from the coordinator. A worker ends when the channel is closed.
#[derive(Clone, Debug)]
pub(crate) enum WorkerCommand {
    /// Probe whether all these records exist; `limit_ns` bounds the wait for an answer.
    Probe { records: Arc<Vec<Probe>>, limit_ns: Option<u64> },
    /// Run the worker's clients during a phase sequence.
    PhaseSequence(Arc<PhaseSequence>),
}

/// The parts of a worker.
#[derive(Debug)]
pub(crate) struct Setup<D, C> {
    pub(crate) worker: usize,
    pub(crate) workers: u32,
    pub(crate) driver: Arc<D>,
    pub(crate) clock: C,
    /// Number of clients on the worker.
    pub(crate) clients: u32,
    /// Names of the plan's groups and statements.
    pub(crate) names: Arc<Names>,
    pub(crate) core: Option<u32>,
    pub(crate) commands: Receiver<WorkerCommand>,
    pub(crate) reports: Sender<Report>,
    /// Memory of processed interval reports.
    pub(crate) used: Receiver<Batch>,
    pub(crate) pulse: Arc<CachePadded<Pulse>>,
    /// The log of operations, if one is written.
    pub(crate) log_writer: Option<OpLogWriter>,
}

/// Runs a worker's body and reports a panic, which would otherwise be lost with the thread.
pub(crate) fn guarded(worker: usize, reports: Sender<Report>, body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        drop(reports.send(Report::Panicked { worker, message: panic_text(panic.as_ref()) }));
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// The body of a worker: opens its session, then executes commands.
pub(crate) fn work<D: Driver, C: Clock>(setup: Setup<D, C>) {
    let opened = setup.pin().map_err(OpenError::Option);
    // By default the kernel may delay a wake-up by 50 us, to wake several threads at once.
    set_current_timer_slack(NonZeroU64::new(1)).ok();
    let mut session = match opened.and_then(|()| setup.driver.session(setup.clients)) {
        Ok(session) => session,
        Err(error) => return setup.report(Report::Opened { result: Err(error) }),
    };
    setup.report(Report::Opened { result: Ok(()) });
    let mut recorder = Recorder::new(&setup.names);
    while let Some(command) = setup.next_command(&mut session) {
        match command {
            WorkerCommand::Probe { records, limit_ns } => {
                let probed =
                    probe::look(&records, &mut session, &setup.clock, &setup.pulse.0, limit_ns);
                setup.report(Report::Probed(probed));
            }
            WorkerCommand::PhaseSequence(sequence) => {
                setup.serve(&sequence, &mut session, &mut recorder)
            }
        }
    }
}

impl<D: Driver, C: Clock> Setup<D, C> {
    fn report(&self, report: Report) {
        // The channel is closed only when the coordinator has abandoned the run.
        drop(self.reports.send(report));
    }

    /// Waits for the next command and services the connections in the meantime.
    fn next_command(
        &self,
        session: &mut AnySession<D::Blocking, D::Session>,
    ) -> Option<WorkerCommand> {
        let AnySession::Asynchronous(session) = session else { return self.commands.recv().ok() };
        loop {
            match self.commands.recv_timeout(BETWEEN_TURNS) {
                Ok(command) => return Some(command),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    session.poll(0, &mut ProbeAnswer::new(&self.clock));
                }
            }
        }
    }

    /// Runs the worker's clients during a phase sequence.
    fn serve(
        &self,
        sequence: &PhaseSequence,
        session: &mut AnySession<D::Blocking, D::Session>,
        recorder: &mut Recorder,
    ) {
        let idle_spin_ns = Cell::new(0);
        let recorder = self.open_recorder(sequence, recorder, &idle_spin_ns);
        let seats = sequence.seats(self.worker as u32, self.workers);
        let worker = self.worker as u32;
        let sources = sequence.numbers.iter().map(|numbers| numbers.source(worker));
        let sources: Vec<Option<Source<'_>>> = sources.collect();
        let (clock, recorder, idle_spin_ns) = (&self.clock, &recorder, &idle_spin_ns);
        let awaited = match session {
            AnySession::Blocking(session) => {
                let sleep = RefCell::new(Sleep::new());
                let thread =
                    ThreadClient { sequence, recorder, clock, idle_spin_ns, sleep, ticket: worker };
                for group in seats {
                    let source = sources[group].as_ref();
                    let source =
                        source.expect("a group with a client on this worker has an arrival source");
                    thread.serve(session, source, group);
                }
                Vec::new()
            }
            AnySession::Asynchronous(session) => {
                ClientLoop::new(sequence, recorder, clock, idle_spin_ns, sources, &seats)
                    .serve(session)
            }
        };
        recorder.close(awaited);
    }

    fn open_recorder<'a>(
        &'a self,
        sequence: &'a PhaseSequence,
        recorder: &'a mut Recorder,
        idle_spin_ns: &'a Cell<u64>,
    ) -> WorkerRecorder<'a> {
        let Self { worker, pulse, reports, used, .. } = self;
        let log_writer = self.log_writer.as_ref();
        let channel = ReportChannel {
            worker: *worker,
            pulse: &pulse.0,
            reports,
            used,
            send_window: if C::SIMULATED {
                SendWindow::SIMULATED
            } else {
                SendWindow::of_each(self.workers)
            },
            idle_spin_ns,
            log_writer,
        };
        WorkerRecorder::open(sequence, &self.names, recorder, channel)
    }

    /// Binds the thread to its core, if one is configured.
    fn pin(&self) -> Result<(), String> {
        self.core.map_or(Ok(()), usage::pin)
    }
}
