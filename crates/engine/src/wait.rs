//! How a client waits: on its own thread, or as one task among many.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn, ready};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kvmark_driver::Time;
use kvmark_record::LATE_TOLERANCE_NS;

use crate::clock::Clock;
use crate::phase::Stretch;
use crate::timers::Timers;

/// The kernel wakes a sleeping thread up to this late; the rest of a wait is polled.
const WAKE_SLACK_NS: u64 = 100_000;
/// A sleeping client looks at least this often whether its phase is over.
const LOOK_UP_NS: u64 = 50_000_000;
/// A timeout is noticed at most this fraction of itself late.
const LIMIT_FRACTION: u64 = 64;

/// What a client needs of its worker to wait.
pub(crate) trait Wait {
    fn now_ns(&self) -> u64;

    /// Waits for an instant; false when the phase ends before it comes.
    async fn until(&self, instant_ns: u64, stretch: &Stretch) -> bool;

    /// Begins an operation and runs it, or gives it up when its time is up. It is begun where it
    /// stays: a driver's future can be so large that moving it costs more than the operation.
    fn within<F: Future>(
        &self,
        seat: usize,
        limit_ns: Option<u64>,
        begin: impl FnOnce() -> F,
    ) -> impl Future<Output = Within<F::Output>>;

    /// Lets the worker's other clients have their turn.
    async fn breathe(&self);

    /// Time polled away while nothing was to be done.
    fn idle_spin_ns(&self) -> &Cell<u64>;

    /// Time in which something was due and the worker didn't come to it, as far as it is told from
    /// an operation that takes long.
    fn away_ns(&self) -> u64;
}

/// What came of an operation.
#[derive(Debug)]
pub(crate) struct Within<T> {
    /// None when its time was up.
    pub(crate) output: Option<T>,
    /// Whether it ever waited; if not, the client must give way itself.
    pub(crate) waited: bool,
}

/// Runs the future of a blocking driver, which is ready when it is first polled.
#[inline]
pub(crate) fn at_once<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a blocking driver's call must be ready at once"),
    }
}

/// Waits on the client's own thread.
#[derive(Debug)]
pub(crate) struct OnThread<C> {
    clock: C,
    idle_spin_ns: Cell<u64>,
}

impl<C: Clock> OnThread<C> {
    pub(crate) fn new(clock: C) -> Self {
        Self { clock, idle_spin_ns: Cell::new(0) }
    }
}

impl<C: Clock> Wait for OnThread<C> {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    async fn until(&self, instant_ns: u64, stretch: &Stretch) -> bool {
        loop {
            let now_ns = self.clock.now_ns();
            let end_ns = stretch.end_ns();
            if now_ns >= end_ns {
                return false;
            }
            if now_ns >= instant_ns {
                return true;
            }
            let left_ns = instant_ns.min(end_ns) - now_ns;
            if left_ns > WAKE_SLACK_NS {
                let nap_ns = (left_ns - WAKE_SLACK_NS).min(LOOK_UP_NS);
                std::thread::sleep(Duration::from_nanos(nap_ns));
            } else {
                while self.clock.now_ns() < instant_ns.min(end_ns) {
                    std::hint::spin_loop();
                }
                self.idle_spin_ns.set(self.idle_spin_ns.get() + left_ns);
            }
        }
    }

    /// The work is done before this returns, which spares it a place in the client's state.
    #[inline]
    fn within<F: Future>(
        &self,
        _: usize,
        _: Option<u64>,
        begin: impl FnOnce() -> F,
    ) -> impl Future<Output = Within<F::Output>> {
        ready(Within { output: Some(at_once(begin())), waited: true })
    }

    #[inline]
    async fn breathe(&self) {}

    fn idle_spin_ns(&self) -> &Cell<u64> {
        &self.idle_spin_ns
    }

    /// A call that blocks takes as long as it takes.
    #[inline]
    fn away_ns(&self) -> u64 {
        0
    }
}

/// Waits as one task among many of a worker.
#[derive(Debug)]
pub(crate) struct OnWorker<C> {
    pub(crate) timers: Rc<Timers<C>>,
    clock: C,
    limits: RefCell<Vec<Limit>>,
    next_sweep_ns: Cell<u64>,
    pub(crate) idle_spin_ns: Cell<u64>,
    away_ns: Cell<u64>,
    noticed_ns: Cell<u64>,
}

/// When a client's operation in flight is given up.
#[derive(Clone, Debug)]
struct Limit {
    deadline_ns: u64,
    waker: Option<Waker>,
}

impl<C: Clock> OnWorker<C> {
    pub(crate) fn new(clock: C, timers: Rc<Timers<C>>) -> Self {
        Self {
            timers,
            clock,
            limits: RefCell::default(),
            next_sweep_ns: Cell::new(u64::MAX),
            idle_spin_ns: Cell::new(0),
            away_ns: Cell::new(0),
            noticed_ns: Cell::new(0),
        }
    }

    pub(crate) fn next_sweep_ns(&self) -> u64 {
        self.next_sweep_ns.get()
    }

    /// Fires the timers whose instant has come, and keeps for how long one had to wait for that;
    /// whether there was one.
    pub(crate) fn fire(&self, now_ns: u64) -> bool {
        self.notice_absence(now_ns);
        self.timers.fire(now_ns)
    }

    /// Whatever is due is fired before the worker looks elsewhere: if it is late by more than the
    /// tolerance, the worker was away.
    pub(crate) fn notice_absence(&self, now_ns: u64) {
        let Some(due_ns) = self.timers.next_ns() else { return };
        // From when it was noticed last, lest one absence be counted twice.
        let since_ns = due_ns.max(self.noticed_ns.get());
        let late_ns = now_ns.saturating_sub(since_ns);
        if late_ns > LATE_TOLERANCE_NS {
            self.away_ns.set(self.away_ns.get() + late_ns);
        }
        self.noticed_ns.set(now_ns);
    }

    /// Wakes the clients whose time is up.
    pub(crate) fn sweep(&self, now_ns: u64, limit_ns: Option<u64>) {
        let Some(limit_ns) = limit_ns else { return };
        if now_ns < self.next_sweep_ns.get() {
            return;
        }
        self.next_sweep_ns.set(now_ns + (limit_ns / LIMIT_FRACTION).max(1_000_000));
        for limit in self.limits.borrow_mut().iter_mut() {
            if limit.deadline_ns <= now_ns
                && let Some(waker) = &limit.waker
            {
                waker.wake_by_ref();
            }
        }
    }

    fn arm(&self, seat: usize, deadline_ns: u64, waker: &Waker) {
        let mut limits = self.limits.borrow_mut();
        if limits.len() <= seat {
            limits.resize(seat + 1, Limit { deadline_ns: u64::MAX, waker: None });
        }
        let limit = &mut limits[seat];
        limit.deadline_ns = deadline_ns;
        if !limit.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            limit.waker = Some(waker.clone());
        }
        if self.next_sweep_ns.get() == u64::MAX {
            self.next_sweep_ns.set(deadline_ns);
        }
    }

    fn disarm(&self, seat: usize) {
        if let Some(limit) = self.limits.borrow_mut().get_mut(seat) {
            limit.deadline_ns = u64::MAX;
        }
    }
}

impl<C: Clock> Wait for OnWorker<C> {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    async fn until(&self, instant_ns: u64, stretch: &Stretch) -> bool {
        poll_fn(|context| {
            let now_ns = self.clock.now_ns();
            let end_ns = stretch.end_ns();
            if now_ns >= end_ns {
                return Poll::Ready(false);
            }
            if now_ns >= instant_ns {
                return Poll::Ready(true);
            }
            // If the end comes earlier than it is now, the executor wakes who waits.
            self.timers.wake_at(instant_ns.min(end_ns), context);
            Poll::Pending
        })
        .await
    }

    async fn within<F: Future>(
        &self,
        seat: usize,
        limit_ns: Option<u64>,
        begin: impl FnOnce() -> F,
    ) -> Within<F::Output> {
        let mut work = pin!(begin());
        let mut waited = false;
        let deadline_ns = limit_ns.map(|limit_ns| self.clock.now_ns() + limit_ns);
        let output = poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            waited = true;
            let Some(deadline_ns) = deadline_ns else { return Poll::Pending };
            if self.clock.now_ns() >= deadline_ns {
                return Poll::Ready(None);
            }
            self.arm(seat, deadline_ns, context.waker());
            Poll::Pending
        })
        .await;
        if deadline_ns.is_some() {
            self.disarm(seat);
        }
        Within { output, waited }
    }

    async fn breathe(&self) {
        let mut rested = false;
        poll_fn(|context| {
            if rested {
                return Poll::Ready(());
            }
            rested = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn idle_spin_ns(&self) -> &Cell<u64> {
        &self.idle_spin_ns
    }

    #[inline]
    fn away_ns(&self) -> u64 {
        self.away_ns.get()
    }
}
