//! All connections of a session, with their output and their reconnection.

use std::collections::VecDeque;
use std::sync::Arc;

use kvmark_driver::{OpenError, Ticket};
use kvmark_plan::Outcome;

use super::connection::{Connection, Link};
use super::connector::{Connector, Opened};
use super::inbox::Inbox;
use super::poller::{BELL, Poller};
use super::protocol::{Exchanges, Protocol};
use super::socket::Socket;
use crate::failure::Failure;

/// An exchange that ended with its connection.
#[derive(Clone, Debug)]
pub struct Lost {
    /// Its ticket.
    pub ticket: Ticket,
    /// The index of its connection.
    pub index: usize,
    /// The reason.
    pub failure: Failure,
    /// Whether the connection was open; if not, nothing was sent.
    pub was_open: bool,
}

/// Connections with arrival times, enough to measure the delay of stamps.
const SAMPLED: usize = 4;

/// Unsent bytes at which a session accepts no request. The limit is per session because clients may
/// share connections or have one each.
const BACKLOG_MAX: usize = 64 << 20;

/// A server.
struct Node<T> {
    target: T,
    /// The number of open connections.
    up: usize,
    /// Whether it has left the cluster.
    is_forgotten: bool,
}

/// The connections to all known servers.
pub struct Framed<P: Protocol> {
    protocol: Arc<P>,
    /// The number of connections to each server.
    width: usize,
    /// The servers; their indices never change.
    nodes: Vec<Node<P::Target>>,
    /// The connections by server.
    pub(super) list: Vec<Connection<P>>,
    /// Indices of connections to flush.
    pub(super) dirty: VecDeque<usize>,
    /// Indices of connections that wait for an attempt; `pause_ends_ns` is the earliest end.
    pausing: Vec<usize>,
    pause_ends_ns: u64,
    /// Attempts to open a connection since the last [`Framed::take_attempts`].
    attempts: u64,
    /// Unsent bytes after the last flush of each connection.
    backlog: usize,
    pub(super) poller: Poller,
    pub(super) connector: Connector<P>,
    pub(super) inbox: Inbox,
    /// Buffers for incomplete frames.
    pub(super) spares: Vec<Vec<u8>>,
    /// A buffer for the tickets of a flush.
    pub(super) fresh: Vec<Ticket>,
}

impl<P: Protocol> Framed<P> {
    /// Starts without servers; each server gets `width` connections.
    ///
    /// # Errors
    /// [`OpenError::System`] if the kernel refuses a thread or an epoll instance.
    pub fn new(protocol: Arc<P>, width: usize) -> Result<Self, OpenError> {
        let refuse = |error| OpenError::System(format!("can't create an epoll instance ({error})"));
        let connector = Connector::start(Arc::clone(&protocol))?;
        let mut poller = Poller::new().map_err(refuse)?;
        poller.watch(BELL, &connector.bell).map_err(refuse)?;
        // A missing system call is reported before the clock starts.
        poller.wait(1, 0).map_err(|error| {
            let text = format!("can't wait for replies ({error}): use Linux 5.11 or later");
            OpenError::System(text)
        })?;
        Ok(Self {
            protocol,
            width: width.max(1),
            nodes: Vec::new(),
            list: Vec::new(),
            dirty: VecDeque::new(),
            pausing: Vec::new(),
            pause_ends_ns: u64::MAX,
            attempts: 0,
            backlog: 0,
            poller,
            connector,
            inbox: Inbox::new(),
            spares: Vec::new(),
            fresh: Vec::new(),
        })
    }

    /// Opens the connections to a new server and returns its index.
    ///
    /// # Errors
    /// [`OpenError::System`] if one of them can't be opened.
    pub fn open(&mut self, target: &P::Target) -> Result<usize, OpenError> {
        let refuse = |failure: Failure| failure.at(target);
        let mut sockets = self.connector.open(target, self.width).map_err(refuse)?;
        for (place, socket) in sockets.iter_mut().enumerate() {
            self.watch(self.list.len() + place, socket).map_err(refuse)?;
        }
        let node = self.nodes.len();
        self.nodes.push(Node { target: target.clone(), up: sockets.len(), is_forgotten: false });
        self.list.extend(sockets.into_iter().map(|socket| Connection::new(Some(socket), node)));
        Ok(node)
    }

    /// Resets to a single new connection; an open socket is reused.
    pub(super) fn renew(&mut self, target: &P::Target, open: impl FnOnce() -> Socket) {
        let before = self.list.pop().map(|connection| connection.link);
        let socket = match before {
            Some(Link::Up(socket)) => socket,
            _ => open(),
        };
        self.nodes = vec![Node { target: target.clone(), up: 1, is_forgotten: false }];
        self.list = vec![Connection::new(Some(socket), 0)];
        self.backlog = 0;
        self.dirty.clear();
    }

    /// Watches a connection for input.
    fn watch(&self, index: usize, socket: &mut Socket) -> Result<(), Failure> {
        if index < SAMPLED {
            socket.sample();
        }
        let watched = self.poller.watch(index as u64, &socket.stream);
        watched.map_err(|error| Failure::broken(&error.into()))
    }

    /// Index of a server that is in use.
    pub fn find(&self, target: &P::Target) -> Option<usize> {
        self.position(target).filter(|node| !self.nodes[*node].is_forgotten)
    }

    fn position(&self, target: &P::Target) -> Option<usize> {
        self.nodes.iter().position(|node| node.target == *target)
    }

    /// Index of a server, which is added if it is new. Later polls open its connections, on first
    /// use or, with [`Protocol::REOPENS`], at once.
    pub fn find_or_add(&mut self, target: &P::Target) -> usize {
        let node = self.position(target).unwrap_or(self.nodes.len());
        if node == self.nodes.len() {
            self.list.extend((0..self.width).map(|_| Connection::new(None, node)));
            self.nodes.push(Node { target: target.clone(), up: 0, is_forgotten: true });
        }
        if std::mem::take(&mut self.nodes[node].is_forgotten) && P::REOPENS {
            self.connections(node).for_each(|index| self.mark(index));
        }
        node
    }

    /// Closes the connections to a server until it is added again. Returns the lost exchanges.
    pub fn forget(&mut self, node: usize) -> Vec<Lost> {
        self.nodes[node].is_forgotten = true;
        let mut lost = Vec::new();
        for index in self.connections(node) {
            lost.extend(self.fail(index, &forgotten(), true));
            // A server that is added again is up.
            self.list[index].losses = 0;
        }
        lost
    }

    /// The address of a server.
    pub fn target(&self, node: usize) -> &P::Target {
        &self.nodes[node].target
    }

    /// The number of servers, including those that left the cluster.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a connection to a server is open.
    #[inline]
    pub fn is_up(&self, node: usize) -> bool {
        self.nodes[node].up > 0
    }

    /// The servers with outstanding exchanges or without an open connection.
    pub fn awaited(&self) -> Vec<String> {
        let is_busy =
            |node: usize| self.connections(node).any(|index| !self.list[index].exchanges.is_idle());
        let nodes = self.nodes.iter().enumerate().filter(|(_, node)| !node.is_forgotten);
        let awaited = nodes.filter(|(index, node)| node.up == 0 || is_busy(*index));
        awaited.map(|(_, node)| node.target.to_string()).collect()
    }

    /// Index of a client's connection to a server.
    #[inline]
    pub fn index(&self, node: usize, ticket: Ticket) -> usize {
        match self.width {
            1 => node,
            width => node * width + ticket as usize % width,
        }
    }

    /// Indices of the connections to a server.
    pub fn connections(&self, node: usize) -> std::ops::Range<usize> {
        node * self.width..(node + 1) * self.width
    }

    /// Index of the server that a connection is to.
    pub fn node_of(&self, index: usize) -> usize {
        self.list[index].node
    }

    /// Whether a connection is open.
    #[inline]
    pub fn is_open(&self, index: usize) -> bool {
        self.list[index].is_up()
    }

    /// Whether the server of a connection may be down: the last attempt failed, or replies are
    /// late.
    pub fn is_troubled(&self, index: usize) -> bool {
        let connection = &self.list[index];
        connection.losses > 0
            || connection.exchanges.late() > 0
            || (connection.is_doubted && !connection.is_up())
    }

    /// The exchanges of a connection.
    #[inline]
    pub fn exchanges(&mut self, index: usize) -> &mut P::Exchanges {
        &mut self.list[index].exchanges
    }

    /// Whether the session accepts requests: not while too many bytes are unsent.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.backlog < BACKLOG_MAX
    }

    /// Gives up an exchange on a connection. Its request is withdrawn unless a part of it was sent.
    pub fn give_up(&mut self, index: usize, key: <P::Exchanges as Exchanges>::Key) {
        let connection = &mut self.list[index];
        let number = connection.exchanges.give_up(key);
        connection.is_doubted = !connection.is_up();
        if number.is_some_and(|number| connection.output.withdraw(number)) {
            connection.exchanges.withdraw(key);
        }
        self.count(index);
    }

    /// Updates the backlog with that of a connection.
    #[inline]
    fn count(&mut self, index: usize) {
        let connection = &mut self.list[index];
        let waiting = connection.output.waiting();
        if waiting != connection.backlog {
            self.backlog = self.backlog - connection.backlog + waiting;
            connection.backlog = waiting;
        }
    }

    /// Begins an exchange on a connection. `put` enters it and appends its bytes, which go out with
    /// the next flush. Returns the result of `put`.
    ///
    /// # Errors
    /// The connection is unusable; the caller must fail it with this error.
    #[inline]
    pub fn enter<R>(
        &mut self,
        index: usize,
        put: impl FnOnce(&mut P::Exchanges, &mut Vec<u8>) -> R,
    ) -> Result<R, Failure> {
        let connection = &mut self.list[index];
        if !connection.is_up() && self.nodes[connection.node].is_forgotten {
            return Err(forgotten());
        }
        let result = connection.enter(put)?;
        self.mark(index);
        Ok(result)
    }

    /// Closes a connection and returns the lost exchanges. With `was_met`, an exchange has already
    /// received the failure, and the others fail with [`Outcome::Connection`]. If the connection
    /// wasn't open, all exchanges receive the failure itself.
    pub fn fail(&mut self, index: usize, failure: &Failure, was_met: bool) -> Vec<Lost> {
        let connection = &mut self.list[index];
        let node = &mut self.nodes[connection.node];
        let was_open = connection.is_up();
        self.backlog -= connection.backlog;
        let mut lost = Vec::new();
        connection.close(|ticket| {
            let own = if was_open && (was_met || !lost.is_empty()) {
                Failure::new(Outcome::Connection, failure.text.clone())
            } else {
                failure.clone()
            };
            lost.push(Lost { ticket, index, failure: own, was_open });
        });
        node.up -= usize::from(was_open);
        if P::REOPENS && !node.is_forgotten {
            self.mark(index);
        }
        lost
    }

    #[inline]
    fn mark(&mut self, index: usize) {
        if !std::mem::replace(&mut self.list[index].is_dirty, true) {
            self.dirty.push_back(index);
        }
    }

    /// Sends the output of a connection, or schedules its reopening.
    #[inline]
    pub(super) fn flush(&mut self, index: usize, now_ns: u64) -> Result<(), Failure> {
        let connection = &mut self.list[index];
        connection.is_dirty = false;
        let wants = connection.send()?;
        self.count(index);
        let connection = &mut self.list[index];
        if matches!(connection.link, Link::Down) {
            let reopens = P::REOPENS && !self.nodes[connection.node].is_forgotten;
            if reopens || !connection.exchanges.is_idle() {
                self.pause(index, now_ns);
            }
        } else if let Link::Up(socket) = &connection.link
            && wants != connection.wants_room
        {
            let changed = self.poller.want_room(index as u64, &socket.stream, wants);
            changed.map_err(|error| Failure::broken(&error.into()))?;
            connection.wants_room = wants;
        }
        Ok(())
    }

    /// Schedules an attempt after a pause.
    fn pause(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.list[index];
        let pause_ns = connection.pause_ns(self.protocol.reconnect_max());
        let until_ns = now_ns.saturating_add(pause_ns);
        connection.link = Link::Pausing { until_ns };
        self.pausing.push(index);
        self.pause_ends_ns = self.pause_ends_ns.min(until_ns);
    }

    /// Starts the attempts whose pause has ended.
    pub(super) fn end_pauses(&mut self, now_ns: u64) {
        if now_ns < self.pause_ends_ns {
            return;
        }
        let Self { pausing, list, connector, nodes, attempts, .. } = self;
        let mut pause_ends_ns = u64::MAX;
        pausing.retain(|index| {
            let connection = &mut list[*index];
            match connection.link {
                Link::Pausing { until_ns } if now_ns < until_ns => {
                    pause_ends_ns = pause_ends_ns.min(until_ns);
                    true
                }
                Link::Pausing { .. } => {
                    connection.link = Link::Opening;
                    connection.attempt = connection.attempt.wrapping_add(1);
                    *attempts += 1;
                    connector.begin(*index, connection.attempt, &nodes[connection.node].target);
                    false
                }
                Link::Up(_) | Link::Opening | Link::Down => false,
            }
        });
        self.pause_ends_ns = pause_ends_ns;
    }

    /// The number of attempts to open a connection since the last call.
    pub fn take_attempts(&mut self) -> u64 {
        std::mem::take(&mut self.attempts)
    }

    /// The end of the first pause, by which the next poll is due.
    pub fn due_ns(&self) -> u64 {
        self.pause_ends_ns
    }

    /// Takes the result of an attempt. Returns whether it opened a connection.
    ///
    /// # Errors
    /// The attempt failed.
    pub(super) fn adopt(&mut self, opened: Opened) -> Result<bool, Failure> {
        let Opened { connection: index, attempt, result } = opened;
        let connection = &self.list[index];
        if attempt != connection.attempt || !matches!(connection.link, Link::Opening) {
            return Ok(false);
        }
        let mut socket = result?;
        self.watch(index, &mut socket)?;
        let connection = &mut self.list[index];
        connection.link = Link::Up(socket);
        self.nodes[connection.node].up += 1;
        self.mark(index);
        Ok(true)
    }

    /// Marks a socket as writable again.
    pub(super) fn takes_more(&mut self, index: usize) {
        self.list[index].is_full = false;
        self.mark(index);
    }

    /// Stops reading a connection that received an unexpected frame.
    pub(super) fn set_aside(&mut self, index: usize) {
        let connection = &mut self.list[index];
        connection.unasked = true;
        if let Link::Up(socket) = &connection.link {
            // If this fails, the poller reports the connection again, which does no harm.
            self.poller.forget(&socket.stream).ok();
        }
    }

    /// The number of watched descriptors: the connections and the connector's bell.
    pub(super) fn watched(&self) -> usize {
        self.list.len() + 1
    }
}

fn forgotten() -> Failure {
    Failure::new(Outcome::Connection, "the server has left the cluster")
}
