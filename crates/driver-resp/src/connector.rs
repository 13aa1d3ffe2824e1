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

use crate::address::Target;
use crate::connect::{connect, first_map, in_time};
use crate::failure::Failure;
use crate::options::Settings;
use crate::slots::Share;
use crate::socket::Socket;

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
pub(crate) struct Connector {
    settings: Arc<Settings>,
    handle: Handle,
    results: Receiver<Opened>,
    sender: Sender<Opened>,
    /// Can be read when there are results.
    bell: Arc<OwnedFd>,
    _stop: oneshot::Sender<()>,
}

impl Connector {
    pub(crate) fn start(settings: &Arc<Settings>) -> Result<Self, OpenError> {
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
        let settings = Arc::clone(settings);
        Ok(Self { settings, handle, results, sender, bell, _stop: stop })
    }

    /// What can be read when an attempt has ended.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Begins an attempt.
    pub(crate) fn begin(&self, connection: usize, attempt: u32, target: &Target) {
        let (settings, target) = (Arc::clone(&self.settings), target.clone());
        let (sender, bell) = (self.sender.clone(), Arc::clone(&self.bell));
        self.handle.spawn(async move {
            let stream = in_time(&settings, connect(&settings, &target)).await;
            let broken = |error| Failure::broken(&error);
            let result = stream.and_then(|stream| stream.into_socket().map_err(broken));
            // Nobody hears it when the session has ended meanwhile.
            sender.send(Opened { connection, attempt, result }).ok();
            rustix::io::write(&bell, &1_u64.to_ne_bytes()).ok();
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
    pub(crate) fn open(&self, target: &Target, count: usize) -> Result<Vec<Socket>, OpenError> {
        let mut sockets = Vec::with_capacity(count);
        let first = OPENED_AT_ONCE.min(count);
        (0..first).for_each(|number| self.begin(number, 0, target));
        for begun in first..count + first {
            let opened = self.results.recv().expect("this end holds a sender, too");
            sockets.push(opened.result.map_err(|failure| failure.at(target))?);
            if begun < count {
                self.begin(begun, 0, target);
            }
        }
        self.hush();
        Ok(sockets)
    }

    /// The map of the slots, as the first configured server that answers has it.
    pub(crate) fn first_map(&self) -> Result<Vec<Share>, OpenError> {
        let (sender, result) = channel();
        let settings = Arc::clone(&self.settings);
        self.handle.spawn(async move { sender.send(first_map(&settings).await) });
        let ended = || Failure::new(Outcome::Connection, "the thread for connections has ended");
        result.recv().unwrap_or_else(|_| Err(ended().at(self.settings.target())))
    }
}
