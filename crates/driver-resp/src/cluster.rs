//! The routing of a session's commands in a Redis Cluster.
//!
//! A command goes to the server with the slot of its key. The commands of an operation are grouped
//! by server and sent together; their replies are sorted into the operation's order. `MOVED`
//! updates the map of the slots, `ASK` doesn't; both resend the command, at most [`REDIRECTIONS`]
//! times. When a connection fails, replies are late, or a server reports that the cluster is down,
//! the session requests the map from another server and so finds a promoted replica. Operations
//! that need the map wait for it.

use kvmark_driver::{Completions, OpenError, Request, Ticket};
use kvmark_driver_server::framed::{
    ABANDONED, Framed, InFlight, OrderedExchange, RequestReply as _, Route,
};
use kvmark_plan::Outcome;

use crate::cluster_batch::Destination;
use crate::failure::Failure;
use crate::operation::{RespOperation, Work};
use crate::options::Settings;
use crate::slots::{CLUSTER_SLOTS, Redirect, SLOTS, Share, read_shares};
use kvmark_wire::resp::put_all;

/// Greatest number of redirections of an operation.
const REDIRECTIONS: u32 = 5;
/// The pause between two requests for the map.
const PAUSE_NS: u64 = 100_000_000;
/// Marks a reply to ASKING, which isn't a command of the operation.
const NO_COMMAND: u32 = u32::MAX;
/// Marks a slot without a known server.
const NO_OWNER: u16 = u16::MAX;

/// The operations of a session's clients, with their connections.
type Clients = InFlight<Settings, RespOperation>;

/// A session's connections.
type Connections = Framed<Settings>;

/// The ticket of a request for the map of the slots.
const MAP: Ticket = ABANDONED - 1;

/// A worker's view of the cluster.
pub struct Cluster {
    /// The index of the server of each slot.
    owners: Box<[u16]>,
    /// Whether a reply contradicts the map.
    doubted: bool,
    next_fetch_ns: u64,
    /// The index of the server that received the last request for the map.
    asked: usize,
    /// Outstanding requests for the map.
    outstanding: u32,
    /// Whether one of them has ended since the last check.
    has_ended: bool,
    /// Operations that wait for the map.
    waiting: Vec<Ticket>,
    /// A buffer of `send`.
    destinations: Vec<Destination>,
}

impl Cluster {
    /// Connects to each server with slots.
    pub(crate) fn open(
        shares: Vec<Share>,
        connections: &mut Connections,
    ) -> Result<Self, OpenError> {
        for (_, target) in &shares {
            if connections.find(target).is_none() {
                connections.open(target)?;
            }
        }
        let mut cluster = Self {
            owners: vec![NO_OWNER; SLOTS].into(),
            doubted: false,
            next_fetch_ns: 0,
            asked: 0,
            outstanding: 0,
            has_ended: false,
            waiting: Vec::new(),
            destinations: Vec::new(),
        };
        cluster.adopt(shares, connections);
        Ok(cluster)
    }

    fn adopt(&mut self, shares: Vec<Share>, connections: &mut Connections) {
        for (slots, target) in shares {
            let node = connections.find_or_add(&target) as u16;
            let slots = usize::from(*slots.start())..usize::from(*slots.end()) + 1;
            if let Some(owners) = self.owners.get_mut(slots) {
                owners.fill(node);
            }
        }
    }

    /// The index of the server of a slot.
    fn owner(&self, slot: u16) -> Option<usize> {
        let node = self.owners[usize::from(slot)];
        (node != NO_OWNER).then_some(usize::from(node))
    }

    /// Whether the commands of a batch must wait for a new map.
    fn needs_map(&self, ticket: Ticket, work: &Work, connections: &Connections) -> bool {
        let is_sound = |node: usize| !connections.is_troubled(connections.index(node, ticket));
        let slots = work.batch.parts.iter().map(|part| part.slot());
        self.doubted || slots.map(|slot| self.owner(slot)).any(|owner| !owner.is_some_and(is_sound))
    }

    /// Sends the batch of an operation, or queues it until the map arrives.
    fn deliver(&mut self, clients: &mut Clients, ticket: Ticket) {
        let Some(work) = &clients.operations[ticket as usize].work else { return };
        if self.needs_map(ticket, work, &clients.framed) {
            self.waiting.push(ticket);
        } else {
            self.route(clients, ticket);
        }
    }

    /// Requests the map from the next server, preferably from one that is up.
    fn fetch(&mut self, clients: &mut Clients, ticket: Ticket) {
        let connections = &mut clients.framed;
        let count = connections.nodes();
        let nodes = (1..=count).map(|step| (self.asked + step) % count);
        let has_no_request = |node: &usize| {
            let index = connections.index(*node, ticket);
            connections.exchanges(index).find(MAP).is_none()
        };
        let free: Vec<usize> = nodes.filter(has_no_request).collect();
        let is_sound = |node: &&usize| !connections.is_troubled(connections.index(**node, ticket));
        let Some(node) = free.iter().find(is_sound).or(free.first()).copied() else { return };
        self.asked = node;
        let index = connections.index(node, ticket);
        let entered = connections.enter(index, |exchanges, output| {
            put_all(output, &CLUSTER_SLOTS);
            exchanges.enter(MAP, 1, 0)
        });
        match entered {
            Ok(_) => self.outstanding += 1,
            Err(failure) => clients.fail(index, &failure),
        }
    }

    /// Takes a map.
    ///
    /// # Errors
    /// The failure that closes the connection.
    fn take_map(
        &mut self,
        clients: &mut Clients,
        index: usize,
        reply: &[u8],
    ) -> Result<(), Failure> {
        self.outstanding -= 1;
        self.has_ended = true;
        let connections = &mut clients.framed;
        let asked = connections.target(connections.node_of(index));
        match read_shares(reply, asked) {
            Ok(shares) => {
                self.doubted = false;
                self.adopt(shares, connections);
                Ok(())
            }
            Err(failure) if failure.ends_connection() => Err(failure),
            Err(_) => Ok(()),
        }
    }

    /// Sends the batch of an operation by the current map.
    fn route(&mut self, clients: &mut Clients, ticket: Ticket) {
        let Some(work) = &mut clients.operations[ticket as usize].work else { return };
        work.followed = 0;
        work.replies.clear(work.batch.commands());
        for part in &mut work.batch.parts {
            let Some(node) = self.owner(part.slot()) else {
                let text = format!("no server of the cluster has slot {}", part.slot());
                let failure = Failure::new(Outcome::Unavailable, text);
                return clients.end_failed(ticket, failure);
            };
            part.to = Some(Destination { node, asking: false });
        }
        self.send(clients, ticket);
    }

    /// Sends the parts of a batch, grouped by destination.
    fn send(&mut self, clients: &mut Clients, ticket: Ticket) {
        let InFlight { operations, framed: connections, .. } = clients;
        let operation = &mut operations[ticket as usize];
        let Some(Work { batch, order, .. }) = operation.work.as_deref_mut() else { return };
        batch.destinations(&mut self.destinations);
        operation.progress.outstanding = self.destinations.len() as u32;
        order.clear();
        let mut refusals = Vec::new();
        for to in &self.destinations {
            let index = connections.index(to.node, ticket);
            let first = order.len();
            // The reply to ASKING belongs to no command.
            order.extend(batch.answered_by(*to).map(|command| command.unwrap_or(NO_COMMAND)));
            let count = order.len() - first;
            let entered = connections.enter(index, |exchanges, output| {
                batch.put(output, *to);
                exchanges.enter(ticket, count as u32, first as u32)
            });
            if let Err(failure) = entered {
                refusals.push((index, failure));
            }
        }
        for (index, failure) in refusals {
            clients.refuse(ticket, index, failure);
        }
    }

    /// Keeps a reply; `number` counts the replies in the order of sending.
    #[inline]
    fn keep(&self, clients: &mut Clients, ticket: Ticket, number: u32, reply: &[u8]) {
        let Some(work) = &mut clients.operations[ticket as usize].work else { return };
        let command = work.order[number as usize];
        if command != NO_COMMAND {
            work.replies.put(command, reply);
        }
    }

    /// Completes a destination. The last one completes the batch.
    fn complete(
        &mut self,
        clients: &mut Clients,
        ticket: Ticket,
        at_ns: u64,
        done: &mut impl Completions,
    ) {
        let operation = &mut clients.operations[ticket as usize];
        operation.progress.outstanding -= 1;
        if operation.progress.outstanding > 0 {
            return;
        }
        if operation.progress.failure.is_some() {
            // Its replies weren't read.
            clients.single.clear();
            return clients.complete(ticket, at_ns, done);
        }
        match self.redirect(clients, ticket) {
            Ok(true) => self.send(clients, ticket),
            Ok(false) => self.conclude(clients, ticket, at_ns, done),
            Err(failure) => clients.end_failed(ticket, failure),
        }
    }

    /// Follows redirections among the replies. Returns whether there are any.
    fn redirect(&mut self, clients: &mut Clients, ticket: Ticket) -> Result<bool, Failure> {
        let InFlight { operations, framed: connections, .. } = clients;
        let Some(work) = &mut operations[ticket as usize].work else { return Ok(false) };
        let mut any = false;
        for part in &mut work.batch.parts {
            let Some(from) = part.to.take() else { continue };
            let asked = connections.target(from.node);
            let read = |command| Redirect::read(work.replies.of(command), asked);
            let Some(redirect) = part.commands.clone().find_map(read) else { continue };
            if !redirect.moved && part.commands.len() > 1 {
                let text = "a slot is being migrated, which aborts its transactions";
                return Err(Failure::new(Outcome::Unavailable, text));
            }
            let node = connections.find_or_add(&redirect.to);
            if redirect.moved {
                self.owners[usize::from(redirect.slot)] = node as u16;
            }
            part.to = Some(Destination { node, asking: !redirect.moved });
            any = true;
        }
        work.followed += u32::from(any);
        if work.followed > REDIRECTIONS {
            let text = format!("the servers redirected a command more than {REDIRECTIONS} times");
            return Err(Failure::new(Outcome::Unavailable, text));
        }
        Ok(any)
    }

    /// Takes the replies to a batch in the order of its commands, and sends the next batch, if any.
    fn conclude(
        &mut self,
        clients: &mut Clients,
        ticket: Ticket,
        at_ns: u64,
        done: &mut impl Completions,
    ) {
        let InFlight { operations, context, single, .. } = clients;
        let operation = &mut operations[ticket as usize];
        self.doubted |= operation.take_batch(context, single);
        if operation.progress.failure.is_some() || !operation.has_more() {
            return clients.complete(ticket, at_ns, done);
        }
        match operation.pack_more(context) {
            Ok(()) => self.deliver(clients, ticket),
            Err(failure) => clients.end_failed(ticket, failure),
        }
    }
}

impl Route<Settings, RespOperation> for Cluster {
    fn enter(
        &mut self,
        clients: &mut Clients,
        ticket: Ticket,
        request: &Request<'_>,
    ) -> Result<(), Failure> {
        let InFlight { context, operations, .. } = clients;
        if let Some(work) = &mut operations[ticket as usize].work {
            context.dialect.pack(request, &mut work.batch)?;
        }
        self.deliver(clients, ticket);
        Ok(())
    }

    fn take(
        &mut self,
        clients: &mut Clients,
        (exchange, index): (OrderedExchange, usize),
        reply: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        if exchange.ticket == MAP {
            return self.take_map(clients, index, reply);
        }
        self.keep(clients, exchange.ticket, exchange.next, reply);
        if exchange.replies == 1 {
            self.complete(clients, exchange.ticket, at_ns, done);
        }
        Ok(())
    }

    /// Sends the operations that waited for the map, or requests it.
    fn attend(&mut self, clients: &mut Clients, done: &mut impl Completions) {
        let lost = std::mem::take(&mut clients.lost_own);
        self.outstanding -= lost;
        let has_ended = std::mem::take(&mut self.has_ended) || lost > 0;
        if self.waiting.is_empty() {
            return;
        }
        let now_ns = done.stamp();
        for ticket in &self.waiting {
            if clients.issue(*ticket) {
                done.issued(*ticket, now_ns);
            }
        }
        if !has_ended
            && now_ns >= self.next_fetch_ns
            && let Some(first) = self.waiting.first()
        {
            self.next_fetch_ns = now_ns + PAUSE_NS;
            self.fetch(clients, *first);
        }
        if has_ended || self.outstanding == 0 {
            for ticket in std::mem::take(&mut self.waiting) {
                self.route(clients, ticket);
            }
        }
    }

    /// The instant of the next check of the waiting operations.
    fn due_ns(&self, clients: &Clients) -> u64 {
        if self.waiting.is_empty() {
            return u64::MAX;
        }
        let is_over = self.has_ended || clients.lost_own > 0 || self.outstanding == 0;
        if is_over { 0 } else { self.next_fetch_ns }
    }

    /// Gives up an operation on all servers.
    fn give_up(&mut self, clients: &mut Clients, ticket: Ticket) {
        self.waiting.retain(|other| *other != ticket);
        let index = |node| clients.framed.index(node, ticket);
        let indices: Vec<_> = (0..clients.framed.nodes()).map(index).collect();
        clients.give_up_all(ticket, indices);
    }
}
