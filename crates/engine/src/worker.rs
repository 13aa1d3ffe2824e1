//! A worker: one thread with its own session and recorder, led through the phases by orders.

use std::any::Any;
use std::cell::Cell;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use kvmark_driver::{AnySession, Driver, OpenError, Session};
use kvmark_record::{Batch, Names, Recorder};
use kvmark_workload::Apart;
use rustix::thread::set_current_timer_slack;

use crate::blocking::OnThread;
use crate::clock::Clock;
use crate::ledger::{Ahead, Ledger, Outlet, Report};
use crate::log::Pen;
use crate::phase::Stretch;
use crate::probe::{self, Answer, Probe};
use crate::pulse::Pulse;
use crate::source::Source;
use crate::turn::Floor;
use crate::usage;

/// How long a session is left alone while there is nothing to do.
const BETWEEN_TURNS: Duration = Duration::from_millis(100);

/// What the coordinator asks of a worker. It ends when the channel is closed.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Look whether these records are all there; an answer may take so long.
    Probe { records: Arc<Vec<Probe>>, limit_ns: Option<u64> },
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
    /// How many clients it carries.
    pub(crate) clients: u32,
    /// Of the plan's groups and statements.
    pub(crate) names: Arc<Names>,
    pub(crate) core: Option<u32>,
    pub(crate) orders: Receiver<Order>,
    pub(crate) reports: Sender<Report>,
    /// Memory of pages that were taken.
    pub(crate) used: Receiver<Batch>,
    pub(crate) pulse: Arc<Apart<Pulse>>,
    /// Where operations are logged, if they are.
    pub(crate) pen: Option<Pen>,
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

/// The body of a worker: opens its session, then does what it is told.
pub(crate) fn work<D: Driver, C: Clock>(setup: Setup<D, C>) {
    let opened = setup.pin().map_err(OpenError::Option);
    // The kernel may be 50 us late for others, so that it wakes several at once.
    set_current_timer_slack(NonZeroU64::new(1)).ok();
    let mut session = match opened.and_then(|()| setup.driver.session(setup.clients)) {
        Ok(session) => session,
        Err(error) => return setup.report(Report::Opened { result: Err(error) }),
    };
    setup.report(Report::Opened { result: Ok(()) });
    let mut recorder = Recorder::new(&setup.names);
    while let Some(order) = setup.next_order(&mut session) {
        match order {
            Order::Probe { records, limit_ns } => {
                let probed =
                    probe::look(&records, &mut session, &setup.clock, &setup.pulse.0, limit_ns);
                setup.report(Report::Probed(probed));
            }
            Order::Stretch(stretch) => setup.serve(&stretch, &mut session, &mut recorder),
        }
    }
}

impl<D: Driver, C: Clock> Setup<D, C> {
    fn report(&self, report: Report) {
        // The coordinator hangs up only when it has given the run up.
        drop(self.reports.send(report));
    }

    /// Waits for the next order, if any; connections are looked after meanwhile.
    fn next_order(&self, session: &mut AnySession<D::Blocking, D::Session>) -> Option<Order> {
        let AnySession::Asynchronous(session) = session else { return self.orders.recv().ok() };
        loop {
            match self.orders.recv_timeout(BETWEEN_TURNS) {
                Ok(order) => return Some(order),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    session.turn(0, &mut Answer::new(&self.clock));
                }
            }
        }
    }

    /// The worker's part of a stretch.
    fn serve(
        &self,
        stretch: &Stretch,
        session: &mut AnySession<D::Blocking, D::Session>,
        recorder: &mut Recorder,
    ) {
        let idle_spin_ns = Cell::new(0);
        let ledger = self.open_ledger(stretch, recorder, &idle_spin_ns);
        let seats = stretch.seats(self.worker as u32, self.workers);
        let worker = self.worker as u32;
        let sources = stretch.numbers.iter().map(|numbers| numbers.source(worker));
        let sources: Vec<Option<Source<'_>>> = sources.collect();
        let (clock, ledger, idle_spin_ns) = (&self.clock, &ledger, &idle_spin_ns);
        let awaited = match session {
            AnySession::Blocking(session) => {
                let thread = OnThread { stretch, ledger, clock, idle_spin_ns, ticket: worker };
                for group in seats {
                    let source = sources[group].as_ref();
                    let source = source.expect("whose seat it is, the arrivals are too");
                    thread.serve(session, source, group);
                }
                Vec::new()
            }
            AnySession::Asynchronous(session) => {
                Floor::new(stretch, ledger, clock, idle_spin_ns, sources, &seats).serve(session)
            }
        };
        ledger.close(awaited);
    }

    fn open_ledger<'a>(
        &'a self,
        stretch: &'a Stretch,
        recorder: &'a mut Recorder,
        idle_spin_ns: &'a Cell<u64>,
    ) -> Ledger<'a> {
        let Self { worker, pulse, reports, used, .. } = self;
        let pen = self.pen.as_ref();
        let outlet = Outlet {
            worker: *worker,
            pulse: &pulse.0,
            reports,
            used,
            ahead: if C::SIMULATED { Ahead::SIMULATED } else { Ahead::of_each(self.workers) },
            idle_spin_ns,
            pen,
        };
        Ledger::open(stretch, &self.names, recorder, outlet)
    }

    /// Binds the thread to its core, if it has one.
    fn pin(&self) -> Result<(), String> {
        self.core.map_or(Ok(()), usage::pin)
    }
}
