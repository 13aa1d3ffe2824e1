//! One worker's session: the crate's futures, carried on turn by turn in a runtime of its own.
//!
//! In a turn the runtime runs one future: it begins what was submitted, polls the clients that were
//! woken, and gives way, so that the runtime looks after connections, until at least one client has
//! its answer. The runtime's tasks read and write; a client's future is polled with a waker of its
//! own, so that only those are polled that can go on.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use kvmark_driver::{Completions, OpenError, Request, Session, Ticket};
use kvmark_driver_server::timers::Nap;
use tokio::runtime::Runtime;
use tokio::task::unconstrained;

use crate::calls::Calls;
use crate::control::runtime;
use crate::counters::Counters;
use crate::lane::Lane;
use crate::schema::Prepare;
use crate::settings::Settings;
use crate::woken::Woken;

/// Rounds of polls in a row before the runtime looks after connections.
const ROUNDS: u32 = 8;

/// A worker's session: its connections to every node, which its clients share.
pub struct CqlSession {
    clients: Clients,
    /// After those who use it.
    runtime: Runtime,
}

impl CqlSession {
    pub(crate) fn open(
        settings: &Arc<Settings>,
        prepare: &Prepare,
        counters: &Arc<Counters>,
        clients: u32,
    ) -> Result<Self, OpenError> {
        let runtime = runtime()?;
        let clients = runtime.block_on(async {
            let calls = Calls::open(settings, prepare, counters).await?;
            Ok(Clients::new(calls, clients))
        })?;
        Ok(Self { clients, runtime })
    }
}

impl Session for CqlSession {
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        self.clients.lanes[ticket as usize].submit(request);
        self.clients.submitted.push(ticket);
    }

    fn turn(&mut self, patience_ns: u64, done: &mut impl Completions) {
        // The clients are one task of the runtime, whose budget they would use up together: then
        // each of them would be polled in vain until the task gives way.
        self.runtime.block_on(unconstrained(self.clients.turn(patience_ns, done)));
    }

    fn give_up(&mut self, ticket: Ticket) {
        let _within = self.runtime.enter();
        self.clients.give_up(ticket);
    }
}

/// All clients of a worker.
struct Clients {
    calls: Rc<Calls>,
    /// By ticket.
    lanes: Vec<Lane>,
    submitted: Vec<Ticket>,
    woken: Arc<Woken>,
    /// Those that are polled now; empty between polls.
    polled: Vec<Ticket>,
    /// Who has an answer, and since when.
    answered: Vec<(Ticket, u64)>,
    nap: Nap,
}

impl Clients {
    fn new(calls: Calls, clients: u32) -> Self {
        let (calls, woken) = (Rc::new(calls), Arc::new(Woken::default()));
        let lanes = (0..clients).map(|ticket| Lane::new(&calls, woken.waker(ticket))).collect();
        let (submitted, polled, answered) = (Vec::new(), Vec::new(), Vec::new());
        Self { calls, lanes, submitted, woken, polled, answered, nap: Nap::new() }
    }

    async fn turn(&mut self, patience_ns: u64, done: &mut impl Completions) {
        let end_ns = done.stamp().saturating_add(patience_ns);
        self.begin(done);
        let mut served = false;
        poll_fn(|context| {
            self.go_on(done);
            let now_ns = done.stamp();
            let over = !self.answered.is_empty() || now_ns >= end_ns;
            // Connections are looked after in every turn: what fails at once must not keep the
            // others from theirs.
            if over && served {
                return Poll::Ready(());
            }
            served = true;
            self.woken.rest(context.waker());
            if over {
                context.waker().wake_by_ref();
            } else {
                self.nap.until(now_ns, end_ns, context);
            }
            Poll::Pending
        })
        .await;
        for (ticket, at_ns) in self.answered.drain(..) {
            self.lanes[ticket as usize].hand_over(ticket, at_ns, done);
        }
    }

    /// Begins what was submitted.
    fn begin(&mut self, done: &mut impl Completions) {
        for ticket in self.submitted.drain(..) {
            let at_ns = done.stamp();
            done.issued(ticket, at_ns);
            if self.lanes[ticket as usize].poll() {
                self.answered.push((ticket, done.stamp()));
            }
        }
    }

    /// Polls who was woken, until none is any more.
    fn go_on(&mut self, done: &mut impl Completions) {
        for _ in 0..ROUNDS {
            self.woken.take(&mut self.polled);
            if self.polled.is_empty() {
                break;
            }
            for ticket in self.polled.drain(..) {
                if self.lanes[ticket as usize].poll() {
                    self.answered.push((ticket, done.stamp()));
                }
            }
        }
    }

    fn give_up(&mut self, ticket: Ticket) {
        self.submitted.retain(|other| *other != ticket);
        self.lanes[ticket as usize] = Lane::new(&self.calls, self.woken.waker(ticket));
    }
}
