//! One worker's connections and what its clients ask of them, turn by turn.
//!
//! A turn sends what was submitted, each connection's requests at once; waits; reads every
//! connection that can be read, each once, and stamps it; and only then looks at what was read.
//! What an operation sends next is encoded there and goes out with the next turn.

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

use kvmark_driver::{Completions, OpenError, Request, Session, Ticket};
use kvmark_driver_server::Received;
use kvmark_plan::Outcome;

use crate::clients::Clients;
use crate::cluster::Cluster;
use crate::commands::Fields;
use crate::connection::{MAP, NOBODY, answered_unasked};
use crate::connections::Connections;
use crate::failure::Failure;
use crate::operation::{Dialect, Operation};
use crate::options::Settings;
use crate::poller::BELL;
use crate::prepared::Prepared;
use crate::resp::{Scan, is_push};
use crate::socket::ROOM;

/// What is read before it is looked at, from all connections together; it grows by as much, up to
/// what answers of 10 KB to some eight hundred clients take.
const ARENA_BYTES: usize = 256 << 10;
const ARENA_MOST_BYTES: usize = 8 << 20;
/// Buffers for incomplete replies that are kept for the next ones.
const SPARES_MAX: usize = 16;

/// A worker's session: one connection per client, or a few that all share.
pub struct RespSession {
    clients: Clients,
    cluster: Option<Box<Cluster>>,
    arena: Vec<u8>,
    reads: Vec<Read>,
    /// Buffers for incomplete replies, used again.
    spares: Vec<Vec<u8>>,
}

/// What was read of a connection.
struct Read {
    connection: usize,
    /// Its place in the arena, or why there is nothing more.
    bytes: Result<Range<usize>, Failure>,
    at_ns: u64,
    /// When the last of the bytes came to this machine, where that is known.
    arrived_wall_ns: Option<u64>,
}

impl RespSession {
    pub(crate) fn open(
        settings: &Arc<Settings>,
        fields: &Arc<Fields>,
        statements: &Arc<[Prepared]>,
        clients: u32,
    ) -> Result<Self, OpenError> {
        let width = settings.connections.unwrap_or(usize::MAX).min(clients as usize).max(1);
        let mut connections = Connections::new(settings, width)?;
        let cluster = if settings.cluster {
            Some(Box::new(Cluster::open(&mut connections)?))
        } else {
            connections.open(settings.target())?;
            None
        };
        let dialect = Dialect {
            fields: Arc::clone(fields),
            statements: Arc::clone(statements),
            pipeline_parts: settings.pipeline_parts,
        };
        Ok(Self {
            clients: Clients::new(dialect, connections, clients, cluster.is_some()),
            cluster,
            arena: vec![0; ARENA_BYTES],
            reads: Vec::new(),
            spares: Vec::new(),
        })
    }

    /// Sends an operation's first commands with the next flush.
    fn begin(&mut self, ticket: Ticket, request: &Request<'_>) -> Result<(), Failure> {
        let Clients { dialect, operations, shelf, in_cluster, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        operation.begin(request, dialect, *in_cluster, shelf)?;
        if let Some(cluster) = &mut self.cluster {
            if let Some(work) = &mut operation.work {
                dialect.pack(request, &mut work.parcel)?;
            }
            cluster.deliver(&mut self.clients, ticket);
        } else if dialect.is_nothing(request) {
            self.clients.ended.push((ticket, Ok(Outcome::Ok)));
        } else {
            self.clients.enter(ticket, |_, dialect, output| dialect.put(request, output));
        }
        Ok(())
    }

    /// Reads each connection that is ready, once, and hands over what came.
    fn read_all(&mut self, ready: usize, done: &mut impl Completions) {
        let mut rung = false;
        let mut filled = 0;
        for place in 0..ready {
            let ready = self.clients.connections.poller.ready(place);
            if ready.number == BELL {
                rung = true;
                continue;
            }
            let index = ready.number as usize;
            if ready.takes {
                self.clients.connections.has_room(index);
            }
            if !ready.has {
                continue;
            }
            if self.arena.len() - filled < ROOM {
                if self.arena.len() < ARENA_MOST_BYTES {
                    self.arena.resize(self.arena.len() + ARENA_BYTES, 0);
                } else {
                    self.hand_over(done);
                    filled = 0;
                }
            }
            filled = self.read(index, filled, done);
        }
        self.hand_over(done);
        if rung {
            self.clients.adopt(done);
        }
    }

    /// Reads a connection into the arena from here on; where what was read ends.
    #[inline]
    fn read(&mut self, index: usize, from: usize, done: &mut impl Completions) -> usize {
        let Some(socket) = self.clients.connections.socket(index) else { return from };
        let mut arrived_wall_ns = None;
        let bytes = match socket.read(&mut self.arena[from..]) {
            Ok(Received { length: 0, .. }) => {
                let connection = &self.clients.connections.list[index];
                Err(Failure::closed(!connection.held.is_empty()))
            }
            Ok(received) => {
                arrived_wall_ns = received.arrived_wall_ns;
                Ok(from..from + received.length)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return from;
            }
            Err(error) => Err(Failure::broken(&error)),
        };
        let at_ns = done.stamp();
        let end = bytes.as_ref().map_or(from, |bytes| bytes.end);
        self.reads.push(Read { connection: index, bytes, at_ns, arrived_wall_ns });
        end
    }

    /// Looks at what was read.
    fn hand_over(&mut self, done: &mut impl Completions) {
        let arena = std::mem::take(&mut self.arena);
        let mut reads = std::mem::take(&mut self.reads);
        for Read { connection, bytes, at_ns, arrived_wall_ns } in reads.drain(..) {
            // One that failed meanwhile took its queue with it.
            if self.clients.connections.socket(connection).is_none() {
                continue;
            }
            match bytes {
                Ok(place) => {
                    let bytes = &arena[place];
                    if let Some(wall_ns) = arrived_wall_ns
                        && self.is_one_reply(connection, bytes)
                    {
                        done.arrived(wall_ns, at_ns);
                    }
                    self.take_in(connection, bytes, at_ns, done);
                }
                Err(failure) => self.clients.fail(connection, &failure, false),
            }
            self.clients.tell(at_ns, done);
        }
        (self.arena, self.reads) = (arena, reads);
    }

    /// Whether a read took one reply, and the whole of it.
    fn is_one_reply(&self, index: usize, bytes: &[u8]) -> bool {
        let mut scan = Scan::START;
        let is_first = self.clients.connections.list[index].held.is_empty();
        is_first && scan.advance(bytes) == Ok(Some(bytes.len()))
    }

    /// Takes what a connection received: its complete replies, and keeps the rest.
    fn take_in(&mut self, index: usize, bytes: &[u8], at_ns: u64, done: &mut impl Completions) {
        let connection = &mut self.clients.connections.list[index];
        if connection.held.is_empty() {
            let taken = self.take_replies(index, bytes, at_ns, done);
            let rest = &bytes[taken..];
            if !rest.is_empty() {
                let mut held = self.spares.pop().unwrap_or_default();
                held.extend_from_slice(rest);
                self.clients.connections.list[index].held = held;
            }
            return;
        }
        let mut held = std::mem::take(&mut connection.held);
        held.extend_from_slice(bytes);
        let taken = self.take_replies(index, &held, at_ns, done);
        if taken < held.len() {
            held.drain(..taken);
            self.clients.connections.list[index].held = held;
        } else if self.spares.len() < SPARES_MAX {
            held.clear();
            self.spares.push(held);
        }
    }

    /// Takes the complete replies; how many bytes nobody needs any more.
    fn take_replies(
        &mut self,
        index: usize,
        bytes: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> usize {
        let mut scan = self.clients.connections.list[index].scan;
        let mut taken = 0;
        while let Some(first) = bytes.get(taken) {
            let connection = &mut self.clients.connections.list[index];
            if connection.is_owed_nothing() && *first != b'>' {
                if connection.is_idle() {
                    self.clients.connections.set_aside(index);
                } else {
                    // Who is about to ask would take it for the answer.
                    self.clients.fail(index, &answered_unasked(), false);
                }
                return bytes.len();
            }
            let length = match scan.advance(&bytes[taken..]) {
                Ok(Some(length)) => length,
                Ok(None) => break,
                Err(garbage) => {
                    self.clients.fail(index, &garbage.into(), false);
                    return bytes.len();
                }
            };
            scan = Scan::START;
            let reply = &bytes[taken..taken + length];
            taken += length;
            let follows = bytes.get(taken).is_some_and(|first| *first != b'>');
            if !is_push(reply) && !self.take_reply(index, reply, follows, at_ns, done) {
                return bytes.len();
            }
        }
        self.clients.connections.list[index].scan = scan;
        taken
    }

    /// Takes a reply for the first in the queue; whether the connection can still be used.
    /// `follows` says that another reply stands behind it.
    #[inline]
    fn take_reply(
        &mut self,
        index: usize,
        reply: &[u8],
        follows: bool,
        at_ns: u64,
        done: &mut impl Completions,
    ) -> bool {
        let connection = &mut self.clients.connections.list[index];
        let Some(place) = connection.answered() else { return true };
        // Before anything more is sent: it would be taken for the answer to that.
        connection.unasked |= follows && connection.is_idle();
        let (ticket, is_last) = (place.ticket, place.replies == 1);
        let taken = match (ticket, &mut self.cluster) {
            (NOBODY, _) => Ok(()),
            (MAP, Some(cluster)) => cluster.take_map(&mut self.clients, index, reply),
            (_, Some(cluster)) => {
                cluster.keep(&mut self.clients, ticket, place.next, reply);
                if is_last {
                    cluster.arrived(&mut self.clients, ticket, at_ns, done);
                }
                Ok(())
            }
            (_, None) => self.take_own(ticket, reply, is_last, at_ns, done),
        };
        let clients = &mut self.clients;
        let Err(failure) = taken else { return clients.connections.socket(index).is_some() };
        if ticket != MAP {
            if !is_last {
                clients.connections.list[index].leave();
            }
            clients.lose(ticket, failure.clone());
        }
        clients.fail(index, &failure, true);
        false
    }

    /// Takes a reply to an operation on the only server. A failure is that of the connection.
    #[inline]
    fn take_own(
        &mut self,
        ticket: Ticket,
        reply: &[u8],
        is_last: bool,
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        let Clients { dialect, operations, alone, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        match operation.take(dialect, reply, alone) {
            Err(failure) if failure.ends_connection() => return Err(failure),
            Err(failure) => {
                operation.failure.get_or_insert(failure);
            }
            Ok(()) => {}
        }
        if is_last {
            if operation.failure.is_none() && operation.has_more(dialect) {
                self.clients.enter(ticket, Operation::put_more);
            } else {
                self.clients.complete(ticket, at_ns, done);
            }
        }
        Ok(())
    }

    /// Hands over what ended without a reply of its own; whether there was anything.
    fn tell_ended(&mut self, done: &mut impl Completions) -> bool {
        if self.clients.ended.is_empty() {
            return false;
        }
        let at_ns = done.stamp();
        self.clients.tell(at_ns, done);
        true
    }

    /// How long this turn may wait.
    fn limit_ns(&self, patience_ns: u64, done: &mut impl Completions) -> u64 {
        match self.due_ns() {
            u64::MAX => patience_ns,
            due_ns => patience_ns.min(due_ns.saturating_sub(done.stamp())),
        }
    }
}

impl Session for RespSession {
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        if let Err(failure) = self.begin(ticket, request) {
            self.clients.ended.push((ticket, Err(failure)));
        }
    }

    fn turn(&mut self, patience_ns: u64, done: &mut impl Completions) {
        let told = self.tell_ended(done);
        if let Some(cluster) = &mut self.cluster {
            cluster.attend(&mut self.clients, done);
        }
        self.clients.flush(done);
        if self.clients.connections.due_ns() < u64::MAX {
            let now_ns = done.stamp();
            self.clients.connections.end_pauses(now_ns);
        }
        let told = self.tell_ended(done) || told;
        let more = told || self.clients.connections.is_dirty();
        let limit_ns = self.limit_ns(if more { 0 } else { patience_ns }, done);
        let connections = &mut self.clients.connections;
        // A set that can't be waited for has nothing to tell.
        let ready = connections.poller.wait(connections.list.len() + 1, limit_ns).unwrap_or(0);
        self.read_all(ready, done);
    }

    fn give_up(&mut self, ticket: Ticket) {
        let Clients { connections, operations, ended, shelf, .. } = &mut self.clients;
        ended.retain(|(other, _)| *other != ticket);
        let operation = &mut operations[ticket as usize];
        let (outstanding, place) = (operation.outstanding, operation.place);
        operation.end(shelf);
        if let Some(cluster) = &mut self.cluster {
            cluster.give_up(ticket, connections);
        } else if outstanding > 0 {
            let index = connections.index(0, ticket);
            connections.list[index].give_up(ticket, place);
        }
    }

    fn due_ns(&self) -> u64 {
        let map_ns =
            self.cluster.as_ref().map_or(u64::MAX, |cluster| cluster.due_ns(&self.clients));
        self.clients.connections.due_ns().min(map_ns)
    }
}
