//! A worker: one thread with its own session and recorder, led through the phases by commands.

use std::any::Any;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, Sender};

use kvmark_driver::{Columns, Driver, OpenError, Reply, Request, Session, Values};
use kvmark_plan::{Kind, Outcome};
use kvmark_record::{Batch, Names, Recorder};
use kvmark_workload::{ArgumentBuffer, Stream};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::apart::Apart;
use crate::client::{Desk, client};
use crate::clock::Clock;
use crate::executor::{Clients, with_timers};
use crate::idle::Idle;
use crate::ledger::{Ledger, Outlet, Report};
use crate::operation::call;
use crate::phase::Stretch;
use crate::timers::Timers;
use crate::usage;
use crate::wait::{OnThread, OnWorker, Wait, at_once};

/// What the coordinator asks of a worker. It ends when the channel is closed.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Look whether these records are all there.
    Probe(Arc<Vec<Probe>>),
    /// Carry out your part of a stretch.
    Stretch(Arc<Stretch>),
}

/// What a worker is made of.
#[derive(Debug)]
pub(crate) struct Setup<D, C> {
    pub(crate) worker: usize,
    pub(crate) workers: u32,
    pub(crate) driver: Arc<D>,
    pub(crate) clock: C,
    /// The slots of the clients that it carries.
    pub(crate) clients: Range<u32>,
    /// Of the plan's groups and statements.
    pub(crate) names: Arc<Names>,
    pub(crate) core: Option<u32>,
    pub(crate) commands: UnboundedReceiver<Command>,
    pub(crate) reports: Sender<Report>,
    /// Memory of pages that were taken.
    pub(crate) used: Receiver<Batch>,
    pub(crate) live: Arc<Apart<AtomicU64>>,
}

/// Runs a worker's body and reports a panic instead of letting it vanish with the thread.
pub(crate) fn guarded(worker: usize, reports: Sender<Report>, body: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
        drop(reports.send(Report::Panicked { worker, message: panic_text(panic.as_ref()) }));
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// The body of a worker with one client, whose driver blocks.
pub(crate) fn on_thread<D: Driver, C: Clock>(mut setup: Setup<D, C>) {
    let time = Timers::new(setup.clock.clone());
    let opened = at_once(setup.driver.session(setup.clients.clone(), time));
    let Some(session) = setup.greet(opened) else { return };
    let mut recorder = Recorder::new(&setup.names);
    while let Some(command) = setup.commands.blocking_recv() {
        match command {
            Command::Probe(records) => {
                let present = at_once(probe(&session, &records));
                drop(setup.reports.send(Report::Probed { present }));
            }
            Command::Stretch(stretch) => {
                at_once(setup.serve_one(&stretch, &session, &mut recorder))
            }
        }
    }
}

/// The body of a worker that carries many clients; runs within a runtime.
pub(crate) async fn on_runtime<D, C, I>(mut setup: Setup<D, C>, idle: impl Fn() -> I)
where
    D: Driver,
    C: Clock + Unpin,
    I: Idle + Unpin,
{
    let timers = Timers::new(setup.clock.clone());
    let opened = setup.driver.session(setup.clients.clone(), Rc::clone(&timers) as _).await;
    let Some(session) = setup.greet(opened) else { return };
    let mut recorder = Recorder::new(&setup.names);
    while let Some(command) = setup.commands.recv().await {
        match command {
            Command::Probe(records) => {
                let present = with_timers(probe(&session, &records), &timers, idle()).await;
                drop(setup.reports.send(Report::Probed { present }));
            }
            Command::Stretch(stretch) => {
                let wait = OnWorker::new(setup.clock.clone(), Rc::clone(&timers));
                setup.serve_many(&stretch, &session, &wait, &mut recorder, idle()).await;
                timers.clear();
            }
        }
    }
}

impl<D: Driver, C: Clock> Setup<D, C> {
    /// Tells the coordinator whether the session is open.
    fn greet(&self, opened: Result<D::Session, OpenError>) -> Option<D::Session> {
        let (session, result) = match opened {
            Ok(session) => (Some(session), Ok(())),
            Err(error) => (None, Err(error)),
        };
        drop(self.reports.send(Report::Opened { result }));
        session
    }

    /// One stretch of a worker with one client.
    async fn serve_one(&self, stretch: &Stretch, session: &D::Session, recorder: &mut Recorder) {
        let wait = OnThread::new(self.clock.clone());
        let ledger = self.open_ledger(stretch, recorder, wait.idle_spin_ns());
        let desk = self.desk(stretch, session, &wait, &ledger);
        for seat in stretch.seats(self.worker as u32, self.workers) {
            client(&desk, seat).await;
        }
        ledger.close();
    }

    /// One stretch of a worker that carries many clients.
    async fn serve_many<I: Idle + Unpin>(
        &self,
        stretch: &Stretch,
        session: &D::Session,
        wait: &OnWorker<C>,
        recorder: &mut Recorder,
        idle: I,
    ) where
        C: Unpin,
    {
        let ledger = self.open_ledger(stretch, recorder, wait.idle_spin_ns());
        let desk = self.desk(stretch, session, wait, &ledger);
        let seats = stretch.seats(self.worker as u32, self.workers);
        let clients = seats.into_iter().map(|seat| client(&desk, seat));
        Clients::new(clients, stretch, &ledger, wait, self.clock.clone(), idle).await;
        ledger.close();
    }

    fn open_ledger<'a>(
        &'a self,
        stretch: &'a Stretch,
        recorder: &'a mut Recorder,
        idle_spin_ns: &'a Cell<u64>,
    ) -> Ledger<'a> {
        let Self { worker, live, reports, used, .. } = self;
        let outlet = Outlet { worker: *worker, live: &live.0, reports, used, idle_spin_ns };
        Ledger::open(stretch, &self.names, recorder, outlet)
    }

    fn desk<'a, W>(
        &self,
        stretch: &'a Stretch,
        session: &'a D::Session,
        wait: &'a W,
        ledger: &'a Ledger<'a>,
    ) -> Desk<'a, D::Session, W> {
        let worker = self.worker as u32;
        let sources = stretch.numbers.iter().map(|numbers| numbers.source(worker)).collect();
        Desk { stretch, session, wait, ledger, sources }
    }

    /// Binds the thread to its core, if it has one.
    pub(crate) fn pin(&self) -> Result<(), String> {
        self.core.map_or(Ok(()), usage::pin)
    }
}

/// A record to look for.
#[derive(Debug)]
pub(crate) struct Probe {
    key: Vec<u8>,
    /// Where a statement looks for it: its index and widths, and its arguments.
    statement: Option<(u32, [u32; 3])>,
    arguments: ArgumentBuffer,
}

impl Probe {
    pub(crate) fn new(stream: &Stream, ordinal: u64) -> Self {
        let (mut key, mut arguments) = (Vec::new(), ArgumentBuffer::default());
        stream.key_into(ordinal, &mut key);
        let statement = stream.probe_into(ordinal, &mut arguments);
        Self { key, statement, arguments }
    }
}

/// Whether every record is there.
async fn probe<S: Session>(session: &S, records: &[Probe]) -> bool {
    let mut reply = Reply::default();
    for Probe { key, statement, arguments } in records {
        let request = Request {
            number: 0,
            kind: Kind::Read,
            key,
            columns: Columns::All,
            values: Values::NONE,
            scan_length: 0,
            wants_values: false,
            statement: statement.map(|(index, widths)| call(index, arguments, widths)),
        };
        reply.clear();
        if session.execute(0, &request, &mut reply).await != Outcome::Ok {
            return false;
        }
    }
    true
}
