//! All connections of a session: which have something to send, which are being opened anew.

use std::collections::VecDeque;
use std::sync::Arc;

use kvmark_driver::{OpenError, Ticket};

use crate::address::Target;
use crate::connection::{Connection, Link};
use crate::connector::{Connector, Opened};
use crate::failure::Failure;
use crate::options::Settings;
use crate::poller::{BELL, Poller};
use crate::socket::Socket;

/// Connections whose reads tell when the bytes came: enough to know how late stamps are.
const SAMPLED: usize = 4;

/// The connections to every server heard of, so many to each.
pub(crate) struct Connections {
    settings: Arc<Settings>,
    /// Connections to each server.
    pub(crate) width: usize,
    /// The servers. An index stays what it is.
    targets: Vec<Target>,
    /// Those to the first server, then those to the next.
    pub(crate) list: Vec<Connection>,
    /// Indices of those that are flushed next.
    dirty: VecDeque<usize>,
    /// Indices of those that wait before they are opened.
    pausing: Vec<usize>,
    pub(crate) poller: Poller,
    pub(crate) connector: Connector,
}

impl Connections {
    pub(crate) fn new(settings: &Arc<Settings>, width: usize) -> Result<Self, OpenError> {
        let refuse = |error| OpenError::System(format!("no means to wait for answers ({error})"));
        let connector = Connector::start(settings)?;
        let mut poller = Poller::new().map_err(refuse)?;
        poller.watch(BELL, connector.bell()).map_err(refuse)?;
        // What the kernel lacks is told before the clock starts.
        poller.wait(1, 0).map_err(|error| {
            let text = format!("answers can't be waited for ({error}): Linux 5.11 or later can");
            OpenError::System(text)
        })?;
        Ok(Self {
            settings: Arc::clone(settings),
            width,
            targets: Vec::new(),
            list: Vec::new(),
            dirty: VecDeque::new(),
            pausing: Vec::new(),
            poller,
            connector,
        })
    }

    /// Opens the connections to a server that isn't known yet.
    pub(crate) fn open(&mut self, target: &Target) -> Result<(), OpenError> {
        let sockets = self.connector.open(target, self.width)?;
        let node = self.targets.len();
        for mut socket in sockets {
            let watched = self.watch(self.list.len(), &mut socket);
            watched.map_err(|failure| failure.at(target))?;
            self.list.push(Connection::new(Some(socket), node));
        }
        self.targets.push(target.clone());
        Ok(())
    }

    /// Waits from now on for what comes on the connection of this index.
    fn watch(&self, index: usize, socket: &mut Socket) -> Result<(), Failure> {
        if index < SAMPLED {
            socket.sample();
        }
        let watched = self.poller.watch(index as u64, &*socket);
        watched.map_err(|error| Failure::broken(&error.into()))
    }

    /// Index of a server, if it is known.
    pub(crate) fn find(&self, target: &Target) -> Option<usize> {
        self.targets.iter().position(|known| known == target)
    }

    /// Index of a server; connections to a new one are opened when they are first used.
    pub(crate) fn find_or_add(&mut self, target: &Target) -> usize {
        self.find(target).unwrap_or_else(|| {
            let node = self.targets.len();
            self.list.extend((0..self.width).map(|_| Connection::new(None, node)));
            self.targets.push(target.clone());
            node
        })
    }

    pub(crate) fn target(&self, node: usize) -> &Target {
        &self.targets[node]
    }

    pub(crate) fn nodes(&self) -> usize {
        self.targets.len()
    }

    /// Index of a client's connection to a server.
    #[inline]
    pub(crate) fn index(&self, node: usize, ticket: Ticket) -> usize {
        node * self.width + ticket as usize % self.width
    }

    /// Joins a connection's queue (see [`Connection::enter`]), to be sent with the next flush.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        index: usize,
        ticket: Ticket,
        next: u32,
        put: impl FnOnce(&mut Vec<u8>) -> u32,
    ) -> Result<u64, Failure> {
        let place = self.list[index].enter(ticket, next, put)?;
        self.mark(index);
        Ok(place)
    }

    #[inline]
    fn mark(&mut self, index: usize) {
        if !std::mem::replace(&mut self.list[index].is_dirty, true) {
            self.dirty.push_back(index);
        }
    }

    /// The next connection with something to send.
    #[inline]
    pub(crate) fn next_dirty(&mut self) -> Option<usize> {
        self.dirty.pop_front()
    }

    /// Whether a connection has something to send.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Sends what has gathered on a connection, or sees to it that it is opened.
    #[inline]
    pub(crate) fn flush(&mut self, index: usize, now_ns: u64) -> Result<(), Failure> {
        let connection = &mut self.list[index];
        connection.is_dirty = false;
        let wants = connection.send()?;
        match &connection.link {
            Link::Up(socket) if wants != connection.wants_room => {
                let changed = self.poller.want_room(index as u64, socket, wants);
                changed.map_err(|error| Failure::broken(&error.into()))?;
                connection.wants_room = wants;
            }
            Link::Down if !connection.is_idle() => {
                let pause_ns = connection.pause_ns(self.settings.reconnect_max);
                connection.link = Link::Pausing { until_ns: now_ns.saturating_add(pause_ns) };
                self.pausing.push(index);
            }
            Link::Up(_) | Link::Down | Link::Opening | Link::Pausing { .. } => {}
        }
        Ok(())
    }

    /// Begins to open the connections whose pause is over.
    pub(crate) fn end_pauses(&mut self, now_ns: u64) {
        let Self { pausing, list, connector, targets, .. } = self;
        pausing.retain(|index| {
            let connection = &mut list[*index];
            match connection.link {
                Link::Pausing { until_ns } if now_ns < until_ns => true,
                Link::Pausing { .. } => {
                    connection.link = Link::Opening;
                    connection.attempt = connection.attempt.wrapping_add(1);
                    connector.begin(*index, connection.attempt, &targets[connection.node]);
                    false
                }
                Link::Up(_) | Link::Opening | Link::Down => false,
            }
        });
    }

    /// When the first pause is over.
    pub(crate) fn due_ns(&self) -> u64 {
        let until = |index: &usize| match self.list[*index].link {
            Link::Pausing { until_ns } => until_ns,
            Link::Up(_) | Link::Opening | Link::Down => u64::MAX,
        };
        self.pausing.iter().map(until).min().unwrap_or(u64::MAX)
    }

    /// Takes what became of an attempt; a failure is that of the connection.
    pub(crate) fn adopt(&mut self, opened: Opened) -> Result<(), Failure> {
        let Opened { connection: index, attempt, result } = opened;
        let connection = &self.list[index];
        if attempt != connection.attempt || !matches!(connection.link, Link::Opening) {
            return Ok(());
        }
        let mut socket = result?;
        self.watch(index, &mut socket)?;
        self.list[index].link = Link::Up(socket);
        self.mark(index);
        Ok(())
    }

    /// A connection takes what it didn't take before.
    pub(crate) fn has_room(&mut self, index: usize) {
        self.mark(index);
    }

    /// Reads a connection no more, because nothing was asked there.
    pub(crate) fn set_aside(&mut self, index: usize) {
        let connection = &mut self.list[index];
        connection.unasked = true;
        if let Link::Up(socket) = &connection.link {
            // One that can't be set aside is told of again, and read for nothing.
            self.poller.forget(socket).ok();
        }
    }

    /// The socket of a connection that is open and read.
    #[inline]
    pub(crate) fn socket(&mut self, index: usize) -> Option<&mut Socket> {
        match &mut self.list[index].link {
            Link::Up(socket) => Some(socket),
            Link::Opening | Link::Pausing { .. } | Link::Down => None,
        }
    }
}
