//! Opens connections on separate threads, so that a poll never waits for one.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
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
pub(crate) struct Connector<P: Protocol> {
    pool: Arc<Pool<P>>,
    results: Receiver<Opened>,
    sender: Sender<Opened>,
    /// Readable when results are available.
    pub(crate) bell: Arc<OwnedFd>,
}

/// The state that the threads share.
struct Pool<P: Protocol> {
    protocol: Arc<P>,
    queue: Mutex<Queue<P::Target>>,
    changed: Condvar,
}

/// The attempts that no thread has begun.
struct Queue<T> {
    waiting: VecDeque<Attempt<T>>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

struct Attempt<T> {
    target: T,
    deadline: Deadline,
    report: Box<dyn FnOnce(Result<Socket, Failure>) + Send>,
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
        self.dial(target, move |result| {
            // Both fail only if the session has ended.
            sender.send(Opened { connection, attempt, result }).ok();
            rustix::io::write(&bell, &1_u64.to_ne_bytes()).ok();
        });
    }

    /// Queues an attempt, and starts a thread if none is free for it.
    fn dial(
        &self,
        target: &P::Target,
        report: impl FnOnce(Result<Socket, Failure>) + Send + 'static,
    ) {
        let deadline = Deadline::after(self.pool.protocol.connect_timeout());
        let mut queue = self.pool.lock();
        let needs_thread = queue.waiting.len() >= queue.idle && queue.threads < THREADS_MAX;
        if needs_thread {
            let pool = Arc::clone(&self.pool);
            let thread = thread::Builder::new().name("kvmark-connect".to_owned());
            match thread.stack_size(STACK_BYTES).spawn(move || pool.work()) {
                Ok(_) => queue.threads += 1,
                Err(error) if queue.threads == 0 => {
                    let text = format!("can't start a thread that opens connections ({error})");
                    return report(Err(Failure::new(Outcome::Connection, text)));
                }
                // Another thread will take the attempt.
                Err(_) => {}
            }
        }
        let (target, report) = (target.clone(), Box::new(report));
        queue.waiting.push_back(Attempt { target, deadline, report });
        self.pool.changed.notify_one();
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
        let dial = || {
            let sender = sender.clone();
            // The receiver is gone if another attempt failed.
            self.dial(target, move |result| drop(sender.send(result)));
        };
        let mut sockets = Vec::with_capacity(count);
        let first = THREADS_MAX.min(count);
        (0..first).for_each(|_| dial());
        for begun in first..count + first {
            sockets.push(results.recv().expect("this function holds a sender")?);
            if begun < count {
                dial();
            }
        }
        Ok(sockets)
    }
}

impl<P: Protocol> Drop for Connector<P> {
    fn drop(&mut self) {
        let mut queue = self.pool.lock();
        queue.is_closed = true;
        queue.waiting.clear();
        self.pool.changed.notify_all();
    }
}

impl<P: Protocol> Pool<P> {
    fn lock(&self) -> MutexGuard<'_, Queue<P::Target>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes attempts until there are none for a while.
    fn work(&self) {
        while let Some(Attempt { target, deadline, report }) = self.next() {
            let stream = self.protocol.dial(&target, deadline);
            let broken = |error| Failure::broken(&error);
            let socket = stream.and_then(|stream| stream.into_socket().map_err(broken));
            report(deadline.judge(socket));
        }
    }

    /// Waits for the next attempt; `None` ends the thread.
    fn next(&self) -> Option<Attempt<P::Target>> {
        let mut queue = self.lock();
        queue.idle += 1;
        let is_idle = |queue: &mut Queue<_>| queue.waiting.is_empty() && !queue.is_closed;
        let waited = self.changed.wait_timeout_while(queue, IDLE, is_idle);
        (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
        let next = queue.waiting.pop_front();
        queue.threads -= usize::from(next.is_none());
        next
    }
}
