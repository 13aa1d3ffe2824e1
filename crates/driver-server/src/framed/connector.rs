//! Opens connections on a separate thread, so that a poll never waits for one.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use kvmark_driver::OpenError;
use rustix::event::{EventfdFlags, eventfd};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::protocol::{Protocol, in_time};
use super::socket::Socket;
use crate::failure::Failure;

/// Concurrent attempts; the backlog of a server is a few hundred.
const OPENED_AT_ONCE: usize = 64;

/// The result of an attempt.
pub(crate) struct Opened {
    /// The index of the connection, and the number of the attempt.
    pub(crate) connection: usize,
    pub(crate) attempt: u32,
    pub(crate) result: Result<Socket, Failure>,
}

/// The thread that opens a session's connections. Dropping this value ends it.
pub(crate) struct Connector<P> {
    protocol: Arc<P>,
    handle: Handle,
    results: Receiver<Opened>,
    sender: Sender<Opened>,
    /// Readable when results are available.
    pub(crate) bell: Arc<OwnedFd>,
    _stop: oneshot::Sender<()>,
}

impl<P: Protocol> Connector<P> {
    pub(crate) fn start(protocol: Arc<P>) -> Result<Self, OpenError> {
        let refuse = |error: &dyn std::fmt::Display| {
            OpenError::System(format!("can't start the thread that opens connections ({error})"))
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

    /// Starts an attempt; the bell signals its end.
    pub(crate) fn begin(&self, connection: usize, attempt: u32, target: &P::Target) {
        let (sender, bell) = (self.sender.clone(), Arc::clone(&self.bell));
        self.dial(target, move |result| {
            // Both fail only if the session has ended.
            sender.send(Opened { connection, attempt, result }).ok();
            rustix::io::write(&bell, &1_u64.to_ne_bytes()).ok();
        });
    }

    fn dial(
        &self,
        target: &P::Target,
        report: impl FnOnce(Result<Socket, Failure>) + Send + 'static,
    ) {
        let (protocol, target) = (Arc::clone(&self.protocol), target.clone());
        self.handle.spawn(async move {
            let stream = in_time(protocol.connect_timeout(), protocol.dial(&target)).await;
            let broken = |error| Failure::broken(&error);
            report(stream.and_then(|stream| stream.into_socket().map_err(broken)));
        });
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
        let first = OPENED_AT_ONCE.min(count);
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
