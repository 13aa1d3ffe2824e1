//! A worker: one thread with its own session and recorder, which executes the coordinator's
//! commands.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use kvmark_driver::{AnySession, Capabilities, Description, Driver, OpenError, Session};
use kvmark_record::Recorder;
use rustix::thread::set_current_timer_slack;

use crate::blocking::ThreadClient;
use crate::client_loop::ClientLoop;
use crate::clock::Clock;
use crate::probe::{self, Probe, ProbeAnswer};
use crate::sequence::PhaseSequence;
use crate::sleep::Sleep;
use crate::source::Source;
use crate::usage;
use crate::worker_recorder::{Report, ReportChannel, WorkerRecorder};

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

/// A driver with a clock. Only the workers' loops are compiled for each driver; the rest of the
/// engine calls these functions.
pub(crate) trait System<C>: Send + Sync {
    /// See [`Driver::capabilities`].
    fn capabilities(&self) -> Capabilities;
    /// See [`Driver::describe`].
    fn describe(&self) -> Description;
    /// See [`Driver::settle`].
    fn settle(&self) -> Result<(), OpenError>;
    /// See [`Driver::statistics`].
    fn statistics(&self) -> BTreeMap<String, f64>;
    /// The body of a worker. Reports a panic, which would otherwise be lost with the thread.
    fn work(&self, setup: Setup<C>);
}

impl<D: Driver, C: Clock> System<C> for D {
    fn capabilities(&self) -> Capabilities {
        Driver::capabilities(self)
    }

    fn describe(&self) -> Description {
        Driver::describe(self)
    }

    fn settle(&self) -> Result<(), OpenError> {
        Driver::settle(self)
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        Driver::statistics(self)
    }

    fn work(&self, setup: Setup<C>) {
        let (worker, reports) = (setup.channel.worker, setup.channel.reports.clone());
        let body = AssertUnwindSafe(|| open_and_execute(self, setup));
        if let Err(panic) = catch_unwind(body) {
            drop(reports.send(Report::Panicked { worker, message: panic_text(panic.as_ref()) }));
        }
    }
}

/// The parts of a worker.
#[derive(Debug)]
pub(crate) struct Setup<C> {
    pub(crate) workers: u32,
    pub(crate) clock: C,
    /// Number of clients on the worker.
    pub(crate) clients: u32,
    pub(crate) core: Option<u32>,
    pub(crate) commands: Receiver<WorkerCommand>,
    pub(crate) channel: ReportChannel,
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Opens the worker's session, then executes commands.
fn open_and_execute<D: Driver, C: Clock>(driver: &D, setup: Setup<C>) {
    let Setup { clock, channel, .. } = &setup;
    let opened = setup.core.map_or(Ok(()), usage::pin).map_err(OpenError::Option);
    // By default the kernel may delay a wake-up by 50 us, to wake several threads at once.
    set_current_timer_slack(NonZeroU64::new(1)).ok();
    let mut session = match opened.and_then(|()| driver.session(setup.clients)) {
        Ok(session) => session,
        Err(error) => return channel.send(Report::Opened { result: Err(error) }),
    };
    channel.send(Report::Opened { result: Ok(()) });
    let mut recorder = Recorder::new(&channel.names);
    while let Some(command) = setup.next_command::<D>(&mut session) {
        match command {
            WorkerCommand::Probe { records, limit_ns } => {
                let probed = probe::look(&records, &mut session, clock, &channel.pulse.0, limit_ns);
                channel.send(Report::Probed(probed));
            }
            WorkerCommand::PhaseSequence(sequence) => {
                setup.serve::<D>(&sequence, &mut session, &mut recorder)
            }
        }
    }
}

impl<C: Clock> Setup<C> {
    /// Waits for the next command and services the connections in the meantime.
    fn next_command<D: Driver>(
        &self,
        session: &mut AnySession<D::Blocking, D::Session>,
    ) -> Option<WorkerCommand> {
        let AnySession::Asynchronous(session) = session else { return self.commands.recv().ok() };
        loop {
            match self.commands.recv_timeout(BETWEEN_TURNS) {
                Ok(command) => return Some(command),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    session.poll(0, &mut ProbeAnswer { clock: &self.clock, outcome: None });
                }
            }
        }
    }

    /// Runs the worker's clients during a phase sequence.
    fn serve<D: Driver>(
        &self,
        sequence: &PhaseSequence,
        session: &mut AnySession<D::Blocking, D::Session>,
        recorder: &mut Recorder,
    ) {
        let Self { channel, clock, .. } = self;
        let recorder = &WorkerRecorder::open(sequence, recorder, channel);
        let worker = channel.worker as u32;
        let seats = sequence.seats(worker, self.workers);
        let sources = sequence.numbers.iter().map(|numbers| numbers.source(worker));
        let sources: Vec<Option<Source<'_>>> = sources.collect();
        let awaited = match session {
            AnySession::Blocking(session) => {
                let sleep = RefCell::new(Sleep::new());
                let thread = ThreadClient { sequence, recorder, clock, sleep, ticket: worker };
                for group in seats {
                    let source = sources[group].as_ref();
                    let source =
                        source.expect("a group with a client on this worker has an arrival source");
                    thread.serve(session, source, group);
                }
                Vec::new()
            }
            AnySession::Asynchronous(session) => {
                ClientLoop::new(sequence, recorder, clock, sources, &seats).serve(session)
            }
        };
        recorder.close(awaited);
    }
}
