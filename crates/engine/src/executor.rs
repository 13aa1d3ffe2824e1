//! Many clients on one worker: polls those that can go on, fires timers, and otherwise idles.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::stream::{FuturesUnordered, Stream};
use futures_util::task::AtomicWaker;
use kvmark_driver::Time;

use crate::clock::Clock;
use crate::idle::{Idle, Idled, Until, give_way};
use crate::ledger::Ledger;
use crate::phase::Stretch;
use crate::timers::Timers;
use crate::wait::OnWorker;

/// Rounds in a row before the runtime gets its turn to serve connections.
const ROUNDS: u32 = 8;
/// Polls of the clients in a row before timers get their turn.
const POLLS: u32 = 64;

/// Remembers that a client was woken, and wakes the runtime unless the worker is awake already.
#[derive(Debug, Default)]
struct Signal {
    woken: AtomicBool,
    awake: AtomicBool,
    runtime: AtomicWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.awake.load(Ordering::SeqCst) {
            self.runtime.wake();
        }
    }
}

/// All clients of a worker during one phase, as one future. Ready when every client has ended, or
/// when the phase was given up.
pub(crate) struct Clients<'a, C, F, I> {
    pub(crate) clients: Pin<Box<FuturesUnordered<F>>>,
    pub(crate) stretch: &'a Stretch,
    pub(crate) ledger: &'a Ledger<'a>,
    pub(crate) wait: &'a OnWorker<C>,
    pub(crate) clock: C,
    pub(crate) idle: I,
    signal: Arc<Signal>,
    waker: Waker,
    /// When the phase ends, as far as those know who wait for that.
    end_ns: u64,
    idle_since_ns: Option<u64>,
}

impl<'a, C: Clock, F: Future<Output = ()>, I: Idle> Clients<'a, C, F, I> {
    pub(crate) fn new(
        clients: impl Iterator<Item = F>,
        stretch: &'a Stretch,
        ledger: &'a Ledger<'a>,
        wait: &'a OnWorker<C>,
        clock: C,
        idle: I,
    ) -> Self {
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(Arc::clone(&signal));
        let clients = Box::pin(clients.collect());
        let (end_ns, idle_since_ns) = (stretch.end_ns(), None);
        Self { clients, stretch, ledger, wait, clock, idle, signal, waker, end_ns, idle_since_ns }
    }

    /// Polls clients until none can go on; whether all have ended.
    fn poll_clients(&mut self) -> bool {
        let mut context = Context::from_waker(&self.waker);
        for _ in 0..POLLS {
            self.signal.woken.store(false, Ordering::SeqCst);
            loop {
                match self.clients.as_mut().poll_next(&mut context) {
                    Poll::Ready(Some(())) => {}
                    Poll::Ready(None) => return true,
                    Poll::Pending => break,
                }
            }
            if !self.signal.woken.load(Ordering::SeqCst) {
                break;
            }
        }
        false
    }

    /// One round; `Ready` when the phase is over, `Pending` when the runtime shall have its turn.
    fn round(&mut self, context: &mut Context<'_>) -> Option<Poll<()>> {
        // Before clients take what came meanwhile for answers that took so long.
        if self.wait.timers.next_ns().is_some() {
            self.wait.notice_absence(self.clock.now_ns());
        }
        if self.poll_clients() || self.stretch.is_given_up() {
            return Some(Poll::Ready(()));
        }
        let now_ns = self.clock.now_ns();
        self.ledger.tick(now_ns);
        self.wait.sweep(now_ns, self.stretch.timeout_ns);
        let fired = self.wait.fire(now_ns);
        self.notice_an_earlier_end();
        if fired || self.signal.woken.load(Ordering::SeqCst) {
            self.end_idling(now_ns);
            return None;
        }
        let until = Until {
            due_ns: self.wait.timers.next_ns().unwrap_or(u64::MAX),
            chore_ns: self.ledger.boundary_ns().min(self.wait.next_sweep_ns()),
        };
        match self.idle.idle(now_ns, until, context) {
            Idled::Advanced => None,
            Idled::Polling => {
                self.idle_since_ns.get_or_insert(now_ns);
                Some(Poll::Pending)
            }
            Idled::Asleep => {
                self.end_idling(now_ns);
                Some(Poll::Pending)
            }
        }
    }

    /// Has those look again who wait for an instant that the phase may not see any more. A worker
    /// naps for a twentieth of a second at most, so that this is soon.
    fn notice_an_earlier_end(&mut self) {
        let end_ns = self.stretch.end_ns();
        if end_ns < self.end_ns {
            self.end_ns = end_ns;
            self.wait.timers.fire_all();
        }
    }

    fn end_idling(&mut self, now_ns: u64) {
        if let Some(since_ns) = self.idle_since_ns.take() {
            let spun_ns = &self.wait.idle_spin_ns;
            spun_ns.set(spun_ns.get() + now_ns.saturating_sub(since_ns));
        }
    }
}

impl<C: Clock + Unpin, F: Future<Output = ()>, I: Idle + Unpin> Future for Clients<'_, C, F, I> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.signal.runtime.register(context.waker());
        this.signal.awake.store(true, Ordering::SeqCst);
        let mut result = None;
        for _ in 0..ROUNDS {
            result = this.round(context);
            if result.is_some() {
                break;
            }
        }
        this.signal.awake.store(false, Ordering::SeqCst);
        match result {
            Some(Poll::Ready(())) => Poll::Ready(()),
            Some(Poll::Pending) if !this.signal.woken.load(Ordering::SeqCst) => Poll::Pending,
            _ => {
                give_way(context);
                Poll::Pending
            }
        }
    }
}

/// Runs one future outside a phase; fires the timers that it waits for.
pub(crate) async fn with_timers<C: Clock, F: Future, I: Idle>(
    work: F,
    timers: &Timers<C>,
    mut idle: I,
) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        loop {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            let now_ns = timers.now_ns();
            let until = Until::due(timers.next_ns().unwrap_or(u64::MAX));
            if !timers.fire(now_ns) && idle.idle(now_ns, until, context) != Idled::Advanced {
                return Poll::Pending;
            }
        }
    })
    .await
}
