//! Opens connections on a thread of its own, so that a session's turn never waits for one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use kvmark_driver::OpenError;
use kvmark_plan::Outcome;
use rustix::event::{EventfdFlags, eventfd};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::protocol::{Protocol, in_time};
use super::socket::Socket;
use crate::failure::Failure;

/// Connections opened at a time; a server's backlog is a few hundred.
const OPENED_AT_ONCE: usize = 64;

/// What became of an attempt.
pub(crate) struct Opened {
    /// The connection's index, and which of its attempts it was.
    pub(crate) connection: usize,
    pub(crate) attempt: u32,
    pub(crate) result: Result<Socket, Failure>,
}

/// The thread that opens a session's connections. It ends with this value.
pub(crate) struct Connector<P> {
    protocol: Arc<P>,
    handle: Handle,
    results: Receiver<Opened>,
    sender: Sender<Opened>,
    /// Can be read when there are results.
    bell: Arc<OwnedFd>,
    _stop: oneshot::Sender<()>,
}

impl<P: Protocol> Connector<P> {
    pub(crate) fn start(protocol: Arc<P>) -> Result<Self, OpenError> {
        let refuse = |error: &dyn std::fmt::Display| {
            OpenError::System(format!("no thread to open connections on ({error})"))
        };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let bell = Arc::new(eventfd(0, flags).map_err(|error| refuse(&error))?);
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| refuse(&error))?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("kvmark-connect".to_owned());
        let work = move || drop(runtime.block_on(stopped));
        thread.spawn(work).map_err(|error| refuse(&error))?;
        let (sender, results) = channel();
        Ok(Self { protocol, handle, results, sender, bell, _stop: stop })
    }

    /// What can be read when an attempt has ended.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Begins an attempt, whose end is told by the bell.
    pub(crate) fn begin(&self, connection: usize, attempt: u32, target: &P::Target) {
        let (sender, bell) = (self.sender.clone(), Arc::clone(&self.bell));
        self.dial(target, move |result| {
            // Nobody hears it when the session has ended meanwhile.
            sender.send(Opened { connection, attempt, result }).ok();
            rustix::io::write(&bell, &1_u64.to_ne_bytes()).ok();
        });
    }

    fn dial(
        &self,
        target: &P::Target,
        tell: impl FnOnce(Result<Socket, Failure>) + Send + 'static,
    ) {
        let (protocol, target) = (Arc::clone(&self.protocol), target.clone());
        self.handle.spawn(async move {
            let stream = in_time(protocol.connect_timeout(), protocol.dial(&target)).await;
            let broken = |error| Failure::broken(&error);
            tell(stream.and_then(|stream| stream.into_socket().map_err(broken)));
        });
    }

    /// What became of an attempt that has ended; none when no other has.
    pub(crate) fn ended(&self) -> Option<Opened> {
        self.results.try_recv().ok()
    }

    /// Silences the bell until the next attempt ends.
    pub(crate) fn hush(&self) {
        rustix::io::read(&self.bell, &mut [0; 8][..]).ok();
    }

    /// Opens so many connections to a server and waits for them.
    pub(crate) fn open(&self, target: &P::Target, count: usize) -> Result<Vec<Socket>, Failure> {
        let (sender, results) = channel();
        let dial = || {
            let sender = sender.clone();
            // Nobody hears it when another of them has failed.
            self.dial(target, move |result| drop(sender.send(result)));
        };
        let mut sockets = Vec::with_capacity(count);
        let first = OPENED_AT_ONCE.min(count);
        (0..first).for_each(|_| dial());
        for begun in first..count + first {
            sockets.push(results.recv().expect("this end holds a sender, too")?);
            if begun < count {
                dial();
            }
        }
        Ok(sockets)
    }

    /// Carries out work on this thread and waits for it.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        let (sender, result) = channel();
        self.handle.spawn(async move { sender.send(work.await) });
        result
            .recv()
            .map_err(|_| Failure::new(Outcome::Connection, "the thread for connections has ended"))
    }
}
