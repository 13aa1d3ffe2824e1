//! A worker's session: its connections and the operations of its clients.

use std::sync::Arc;

use kvmark_driver::{Completions, OpenError, Request, Session, Ticket};
use kvmark_driver_server::framed::{ABANDONED, Framed, Handler, InFlight, Lost, poll};

use crate::DynamoDb;
use crate::connect::Connections;
use crate::failure::Failure;
use crate::http::Response;
use crate::operation::{Dialect, DynamoDbOperation};
use crate::options::Settings;
use crate::signature::Requests;

/// A worker's session. Each client has a connection to each server, or all clients share a few.
pub struct DynamoDbSession {
    clients: InFlight<Settings, DynamoDbOperation>,
}

impl DynamoDbSession {
    pub(crate) fn open(driver: &DynamoDb, clients: u32) -> Result<Self, OpenError> {
        let DynamoDb { settings, records, capacity, .. } = driver;
        let width = settings.limits.width(clients);
        let mut connections = Connections::new(Arc::clone(settings), width)?;
        for target in &settings.targets {
            connections.open(target)?;
        }
        let requests =
            settings.targets.iter().map(|target| Requests::new(Arc::clone(settings), target));
        let dialect = Dialect {
            records: Arc::clone(records),
            requests: requests.collect(),
            body: Vec::new(),
            capacity: Arc::clone(capacity),
        };
        Ok(Self { clients: InFlight::new(connections, dialect, clients, false) })
    }

    /// Signs the request whose body was written; it goes out with the next flush.
    fn enter(&mut self, ticket: Ticket, action: &str) {
        let InFlight { framed, operations, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        operation.progress.outstanding = 1;
        let index = framed.index(operation.node, ticket);
        self.clients.enter(ticket, index, |operation, dialect, output| {
            let Dialect { requests, body, .. } = dialect;
            requests[operation.node].put(output, action, body, operation.at_us);
            (1, 0)
        });
    }

    /// Takes the response to an operation.
    fn take_response(
        &mut self,
        ticket: Ticket,
        index: usize,
        frame: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        let InFlight { context, operations, single, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        let response = Response::read(frame).ok().flatten().expect("the frame is complete");
        let taken = operation.take(&response, context, single);
        if let Err(failure) = &taken
            && failure.ends_connection()
        {
            self.clients.lose(ticket, failure.clone());
            return taken;
        }
        operation.progress.outstanding = 0;
        operation.progress.failure = taken.err();
        let has_failed = operation.progress.failure.is_some();
        let more = if has_failed { None } else { operation.put_more(context) };
        if more.is_none() {
            self.clients.complete(ticket, at_ns, done);
        }
        if response.closes {
            self.clients.fail(index, &Failure::closed(false));
        }
        if let Some(action) = more {
            self.enter(ticket, action);
        }
        Ok(())
    }
}

impl Handler<Settings> for DynamoDbSession {
    fn framed(&mut self) -> &mut Framed<Settings> {
        &mut self.clients.framed
    }

    fn issue(&mut self, ticket: Ticket) -> bool {
        self.clients.issue(ticket)
    }

    fn take(
        &mut self,
        index: usize,
        frame: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        match self.clients.framed.exchanges(index).answered() {
            Some(exchange) if exchange.ticket != ABANDONED => {
                self.take_response(exchange.ticket, index, frame, at_ns, done)
            }
            _ => Ok(()),
        }
    }

    fn lost(&mut self, lost: Lost) {
        self.clients.lose(lost.ticket, lost.failure);
    }

    fn has_ended(&self) -> bool {
        self.clients.has_ended()
    }

    fn report_ended(&mut self, at_ns: u64, done: &mut impl Completions) {
        self.clients.report_ended(at_ns, done);
    }
}

impl Session for DynamoDbSession {
    fn has_room(&self) -> bool {
        self.clients.framed.has_room()
    }

    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        let InFlight { context, operations, .. } = &mut self.clients;
        match operations[ticket as usize].begin(request, context) {
            Ok(action) => self.enter(ticket, action),
            Err(failure) => self.clients.end_failed(ticket, failure),
        }
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        poll(self, patience_ns, done)
    }

    fn give_up(&mut self, ticket: Ticket) {
        self.clients.give_up(ticket);
    }

    fn due_ns(&self) -> u64 {
        self.clients.framed.due_ns()
    }

    fn awaited(&self) -> Vec<String> {
        self.clients.framed.awaited()
    }
}
