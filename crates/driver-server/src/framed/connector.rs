//! Opens connections on separate threads, so that a poll never waits for one.

use std::collections::VecDeque;
use std::iter;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use kvmark_driver::OpenError;
use kvmark_plan::Outcome;
use rustix::event::{EventfdFlags, eventfd};

use super::protocol::Protocol;
use super::socket::Socket;
use crate::failure::Failure;
use crate::timers::Deadline;

/// Most threads, and so concurrent attempts; the backlog of a server is a few hundred.
const THREADS_MAX: usize = 64;
/// Stack size of a thread.
const STACK_BYTES: usize = 256 << 10;
/// Idle time after which a thread ends.
const IDLE: Duration = Duration::from_secs(1);

/// The result of an attempt.
pub(crate) struct Opened {
    /// The index of the connection, and the number of the attempt.
    pub(crate) connection: usize,
    pub(crate) attempt: u32,
    pub(crate) result: Result<Socket, Failure>,
}

/// The threads that open a session's connections. After its drop, none begins another attempt.
pub(crate) struct Connector<P> {
    pool: Arc<Pool<P>>,
    results: Receiver<Opened>,
    sender: Sender<Opened>,
    /// Readable when results are available.
    pub(crate) bell: Arc<OwnedFd>,
}

/// The state that the threads share.
struct Pool<P> {
    protocol: Arc<P>,
    queue: Mutex<Queue<P>>,
    changed: Condvar,
}

type Work<P> = Box<dyn FnOnce(&P) + Send>;

/// The work that no thread has begun.
struct Queue<P> {
    waiting: VecDeque<Work<P>>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl<P: Protocol> Connector<P> {
    pub(crate) fn start(protocol: Arc<P>) -> Result<Self, OpenError> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let bell = bell.map_err(|error| {
            let text = format!("can't create a descriptor for opened connections ({error})");
            OpenError::System(text)
        })?;
        let (sender, results) = channel();
        let queue = Queue { waiting: VecDeque::new(), threads: 0, idle: 0, is_closed: false };
        let pool = Pool { protocol, queue: Mutex::new(queue), changed: Condvar::new() };
        Ok(Self { pool: Arc::new(pool), results, sender, bell: Arc::new(bell) })
    }

    /// Starts an attempt; the bell signals its end.
    pub(crate) fn begin(&self, connection: usize, attempt: u32, target: &P::Target) {
        let (sender, bell) = (self.sender.clone(), Arc::clone(&self.bell));
        let report = move |result| {
            // Both fail only if the session has ended.
            sender.send(Opened { connection, attempt, result }).ok();
            rustix::io::write(&bell, &1_u64.to_ne_bytes()).ok();
        };
        let deadline = Deadline::after(self.pool.protocol.connect_timeout());
        let (target, own) = (target.clone(), report.clone());
        let queued = self.queue(move |protocol| own(dial(protocol, &target, deadline)));
        queued.unwrap_or_else(|failure| report(Err(failure)));
    }

    /// Queues work, and starts a thread if none is free for it.
    fn queue(&self, work: impl FnOnce(&P) + Send + 'static) -> Result<(), Failure> {
        let mut queue = self.pool.lock();
        if queue.waiting.len() >= queue.idle && queue.threads < THREADS_MAX {
            let pool = Arc::clone(&self.pool);
            let thread = thread::Builder::new().name("kvmark-connect".to_owned());
            match thread.stack_size(STACK_BYTES).spawn(move || pool.work()) {
                Ok(_) => queue.threads += 1,
                Err(error) if queue.threads == 0 => {
                    let text = format!("can't start a thread that opens connections ({error})");
                    return Err(Failure::new(Outcome::Connection, text));
                }
                // Another thread will do it.
                Err(_) => {}
            }
        }
        queue.waiting.push_back(Box::new(work));
        self.pool.changed.notify_one();
        Ok(())
    }

    /// The result of the next attempt that has ended.
    pub(crate) fn ended(&self) -> Option<Opened> {
        self.results.try_recv().ok()
    }

    /// Resets the bell.
    pub(crate) fn hush(&self) {
        rustix::io::read(&self.bell, &mut [0; 8][..]).ok();
    }

    /// Opens connections to a server and waits for them.
    pub(crate) fn open(&self, target: &P::Target, count: usize) -> Result<Vec<Socket>, Failure> {
        let (sender, results) = channel();
        let begun = Arc::new(AtomicUsize::new(0));
        for _ in 0..THREADS_MAX.min(count) {
            let (sender, begun, target) = (sender.clone(), Arc::clone(&begun), target.clone());
            self.queue(move |protocol| {
                let attempt = || {
                    let deadline = Deadline::after(protocol.connect_timeout());
                    (begun.fetch_add(1, Relaxed) < count).then(|| dial(protocol, &target, deadline))
                };
                let sockets: Result<Vec<_>, Failure> = iter::from_fn(attempt).collect();
                if sockets.is_err() {
                    // The other threads begin no more attempts.
                    begun.store(count, Relaxed);
                }
                sender.send(sockets).ok();
            })?;
        }
        drop(sender);
        let mut sockets = Vec::with_capacity(count);
        for opened in results {
            sockets.extend(opened?);
        }
        assert_eq!(sockets.len(), count, "each attempt has a result");
        Ok(sockets)
    }
}

/// Opens a connection.
fn dial<P: Protocol>(
    protocol: &P,
    target: &P::Target,
    deadline: Deadline,
) -> Result<Socket, Failure> {
    let stream = protocol.dial(target, deadline);
    let broken = |error| Failure::broken(&error);
    deadline.judge(stream.and_then(|stream| stream.into_socket().map_err(broken)))
}

impl<P> Drop for Connector<P> {
    fn drop(&mut self) {
        let mut queue = self.pool.lock();
        queue.is_closed = true;
        queue.waiting.clear();
        self.pool.changed.notify_all();
    }
}

impl<P> Pool<P> {
    fn lock(&self) -> MutexGuard<'_, Queue<P>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until there is nothing to do for a while.
    fn work(&self) {
        loop {
            let mut queue = self.lock();
            queue.idle += 1;
            let is_idle = |queue: &mut Queue<P>| queue.waiting.is_empty() && !queue.is_closed;
            let waited = self.changed.wait_timeout_while(queue, IDLE, is_idle);
            (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
            let Some(work) = queue.waiting.pop_front() else {
                queue.threads -= 1;
                return;
            };
            drop(queue);
            work(&self.protocol);
        }
    }
}
