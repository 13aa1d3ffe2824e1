//! One worker's connections and what its clients ask of them, turn by turn.

use std::sync::Arc;

use kvmark_driver::{Completions, OpenError, Request, Session, Ticket};
use kvmark_driver_server::framed::{Framed, Handler, Lost, NOBODY, turn};
use kvmark_plan::Outcome;

use crate::clients::{Clients, MAP};
use crate::cluster::Cluster;
use crate::commands::Fields;
use crate::connect::Connections;
use crate::failure::Failure;
use crate::operation::{Dialect, Operation};
use crate::options::Settings;
use crate::prepared::Prepared;
use kvmark_wire::resp::is_push;

/// A worker's session: one connection per client, or a few that all share.
pub struct RespSession {
    clients: Clients,
    cluster: Option<Box<Cluster>>,
}

impl RespSession {
    pub(crate) fn open(
        settings: &Arc<Settings>,
        fields: &Arc<Fields>,
        statements: &Arc<[Prepared]>,
        clients: u32,
    ) -> Result<Self, OpenError> {
        let width = settings.connections.unwrap_or(usize::MAX).min(clients as usize).max(1);
        let mut connections = Connections::new(Arc::clone(settings), width)?;
        let cluster = if settings.cluster {
            Some(Box::new(Cluster::open(settings, &mut connections)?))
        } else {
            connections.open(settings.target())?;
            None
        };
        let dialect = Dialect {
            fields: Arc::clone(fields),
            statements: Arc::clone(statements),
            pipeline_parts: settings.pipeline_parts,
        };
        let clients = Clients::new(dialect, connections, clients, cluster.is_some());
        Ok(Self { clients, cluster })
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
}

impl Handler<Settings> for RespSession {
    #[inline]
    fn framed(&mut self) -> &mut Framed<Settings> {
        &mut self.clients.connections
    }

    #[inline]
    fn issue(&mut self, ticket: Ticket) -> bool {
        ticket != MAP && self.clients.operation(ticket).issue()
    }

    /// Takes a reply for the first in the queue.
    #[inline]
    fn take(
        &mut self,
        index: usize,
        reply: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        if is_push(reply) {
            return Ok(());
        }
        let Some(place) = self.clients.connections.exchanges(index).answered() else {
            return Ok(());
        };
        let (ticket, is_last) = (place.ticket, place.replies == 1);
        match (ticket, &mut self.cluster) {
            (NOBODY, _) => Ok(()),
            (MAP, Some(cluster)) => cluster.take_map(&mut self.clients, index, reply),
            (_, Some(cluster)) => {
                cluster.keep(&mut self.clients, ticket, place.next, reply);
                if is_last {
                    cluster.arrived(&mut self.clients, ticket, at_ns, done);
                }
                Ok(())
            }
            (_, None) => {
                let taken = self.take_own(ticket, reply, is_last, at_ns, done);
                taken.inspect_err(|failure| {
                    if !is_last {
                        self.clients.connections.exchanges(index).leave();
                    }
                    self.clients.lose(ticket, failure.clone());
                })
            }
        }
    }

    /// Takes the replies to a pipeline but its last, as long as nobody asks what they hold.
    #[inline]
    fn take_run(&mut self, index: usize, bytes: &[u8]) -> usize {
        let Clients { dialect, connections, operations, in_cluster, .. } = &mut self.clients;
        let exchanges = connections.exchanges(index);
        let place = exchanges.first().filter(|place| place.replies > 1 && !*in_cluster);
        let Some(place) = place else { return 0 };
        // Of what was given up nobody wants any.
        let Some(operation) = operations.get_mut(place.ticket as usize) else { return 0 };
        let (taken, replies) = operation.take_run(dialect, bytes, place.replies - 1);
        exchanges.pass(replies);
        taken
    }

    fn lost(&mut self, lost: Lost) {
        self.clients.lose(lost.ticket, lost.failure);
    }

    #[inline]
    fn has_ended(&self) -> bool {
        !self.clients.ended.is_empty()
    }

    #[inline]
    fn tell(&mut self, at_ns: u64, done: &mut impl Completions) {
        self.clients.tell(at_ns, done);
    }

    fn own_due_ns(&self) -> u64 {
        self.cluster.as_ref().map_or(u64::MAX, |cluster| cluster.due_ns(&self.clients))
    }
}

impl Session for RespSession {
    #[inline]
    fn has_room(&self) -> bool {
        self.clients.connections.has_room()
    }

    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        if let Err(failure) = self.begin(ticket, request) {
            self.clients.ended.push((ticket, Err(failure)));
        }
    }

    fn turn(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        if let Some(cluster) = &mut self.cluster {
            cluster.attend(&mut self.clients, done);
        }
        turn(self, patience_ns, done)
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
            connections.give_up(index, place);
        }
    }

    fn due_ns(&self) -> u64 {
        self.clients.connections.due_ns().min(self.own_due_ns())
    }

    fn awaited(&self) -> Vec<String> {
        self.clients.connections.awaited()
    }
}
