//! A worker's session: it sends frames to nodes and passes the results on.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{Completions, Deadlines, OpenError, Reply, Request, Session, Ticket};
use kvmark_driver_server::framed::{
    ABANDONED, Framed, Handler, InFlight, InFlightOperation as _, Lost, poll,
};
use kvmark_plan::Outcome;

use crate::counters::{Count, Counters, Tally};
use crate::failure::{Failure, NodeError, UNPREPARED, impossible};
use crate::frame::{self, ERROR, Frame, Note, RESULT};
use crate::operation::{CqlOperation, Next, Sent};
use crate::prepared::Prepared;
use crate::retry::{self, Decision};
use crate::routing::Routing;
use crate::rows::{self, Answer, Rows};
use crate::settings::{Retry, Settings};
use crate::shards::{Endpoint, TABLET, Tablet};
use crate::text::{self, RowUse};
use crate::topology::Watch;
use crate::wire::Wire;

/// The ticket of a request to prepare a statement again.
const PREPARING: Ticket = ABANDONED - 1;

/// A step that was sent: its ticket, its number and the index of its connection.
type StepAt = (Ticket, u32, usize);

/// The action after a reply to a step.
enum After {
    /// The step ends.
    End,
    /// Another page is requested.
    Page,
    /// It was sent again, or waits.
    Nothing,
}

/// The shared state, created when the cluster is opened.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) watch: Arc<Watch>,
}

/// A worker's session. Its clients share the connections to every node.
pub struct CqlSession {
    clients: InFlight<Wire, CqlOperation>,
    routing: Routing,
    /// The steps that wait until a connection's node has prepared a text, by both.
    preparations: BTreeMap<(usize, u32), Vec<(Ticket, u32)>>,
    /// Tickets submitted since the last poll, if `request_timeout_ms` is set.
    fresh: Vec<Ticket>,
    deadlines: Deadlines,
    tally: Tally,
}

impl CqlSession {
    pub(crate) fn open(shared: Shared, clients: u32) -> Result<Self, OpenError> {
        let settings = &shared.settings;
        shared.prepared.check_streams(clients as usize, settings.connections)?;
        let mut framed = Framed::new(Arc::clone(&shared.wire), settings.connections)?;
        reach(&mut framed, &shared)?;
        let mut routing = Routing::new(settings, &shared.watch);
        // All nodes were added above, so no exchange is lost.
        routing.renew(&shared.prepared, &mut framed);
        let limit_ns = settings.request_timeout.map(|limit| limit.as_nanos() as u64);
        Ok(Self {
            clients: InFlight::new(framed, shared, clients, false),
            routing,
            preparations: BTreeMap::new(),
            fresh: Vec::new(),
            deadlines: Deadlines::new(clients as usize, limit_ns),
            tally: Tally::default(),
        })
    }

    /// Adopts the latest topology.
    #[cold]
    fn renew(&mut self) {
        let InFlight { framed, context, .. } = &mut self.clients;
        for node in self.routing.renew(&context.prepared, framed) {
            for lost in self.clients.framed.forget(node) {
                self.lost(lost);
            }
        }
    }

    fn begin(&mut self, ticket: Ticket, request: &Request<'_>) -> Result<(), Failure> {
        let InFlight { operations, context: shared, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        let time = shared.settings.client_timestamps.then_some(request.at_us);
        operation.begin(&shared.prepared, request, time)?;
        if operation.is_single() {
            self.send(ticket, 0);
            return Ok(());
        }
        let firsts = operation.firsts();
        if firsts.len() == 0 {
            self.clients.end(ticket);
        }
        firsts.for_each(|number| self.send(ticket, number));
        Ok(())
    }

    /// Sends a step to a replica of its partition, or to another node.
    #[inline]
    fn send(&mut self, ticket: Ticket, number: u32) {
        let InFlight { operations, framed, context: shared, .. } = &mut self.clients;
        let (step, routing) = (operations[ticket as usize].step(number), &mut self.routing);
        let token = if routing.by_token() { step.token(&shared.prepared) } else { None };
        let tried = step.retries.as_ref().map_or(&[][..], |retries| &retries.nodes);
        let index = routing.choose(framed, ticket, step.text, token, tried);
        self.send_on(ticket, number, index);
    }

    /// Sends a step on a connection.
    #[inline]
    fn send_on(&mut self, ticket: Ticket, number: u32, index: usize) {
        let InFlight { operations, framed, context: shared, .. } = &mut self.clients;
        let step = operations[ticket as usize].step(number);
        let compression = shared.settings.compression;
        let packed = compression.map(|compression| text::compressed(&step.frame, compression));
        let packed = match packed.transpose() {
            Ok(packed) => packed,
            Err(failure) => return self.fail_step(ticket, number, failure),
        };
        let frame = packed.as_ref().unwrap_or(&step.frame);
        let entered = framed.enter(index, |exchanges, output| {
            let stream = exchanges.enter(ticket, number)?;
            let from = output.len();
            output.extend_from_slice(frame);
            frame::set_stream(&mut output[from..], stream);
            Some(stream)
        });
        match entered {
            Ok(Some(stream)) => {
                step.sent = Sent::On { index, stream };
                self.tally.add(Count::Attempts, 1);
            }
            Ok(None) => self.fail_step(ticket, number, no_stream()),
            Err(failure) => {
                self.fail_connection(index, &failure, true);
                self.fail_step(ticket, number, failure);
            }
        }
    }

    /// Closes a connection.
    #[cold]
    fn fail_connection(&mut self, index: usize, failure: &Failure, was_met: bool) {
        for lost in self.clients.framed.fail(index, failure, was_met) {
            self.lost(lost);
        }
    }

    /// Fails a step finally.
    #[cold]
    fn fail_step(&mut self, ticket: Ticket, number: u32, failure: Failure) {
        self.tally.add(Count::AttemptsFailed, 1);
        let operation = &mut self.clients.operations[ticket as usize];
        operation.step(number).sent = Sent::Nowhere;
        if operation.fail(number, failure) == Next::End {
            self.deadlines.disarm(ticket);
            self.clients.end(ticket);
        }
    }

    /// Ends a step with a complete reply.
    #[inline]
    fn end_step(&mut self, ticket: Ticket, number: u32, at_ns: u64, done: &mut impl Completions) {
        match self.clients.operations[ticket as usize].end_step(number) {
            Next::Step(next) => self.send(ticket, next),
            Next::Nothing => {}
            Next::End => {
                self.deadlines.disarm(ticket);
                self.clients.complete(ticket, at_ns, done);
            }
        }
    }

    /// Takes the reply to a step.
    #[inline]
    fn take_answer(
        &mut self,
        at: StepAt,
        frame: &Frame<'_>,
        at_ns: u64,
        done: &mut impl Completions,
    ) {
        let (ticket, number, index) = at;
        let InFlight { operations, single, context, .. } = &mut self.clients;
        let step = operations[ticket as usize].step(number);
        step.sent = Sent::Nowhere;
        single.clear();
        let (text, mut tablet) = (step.text, None);
        let Shared { settings, counters, .. } = &*context;
        let body = frame.body(settings.compression, |note| match note {
            Note::Warning(text) => counters.warned(text),
            Note::Payload(TABLET, value) => tablet = Tablet::read(value),
            Note::Payload(..) => {}
        });
        if let Some(tablet) = tablet {
            self.routing.learn(text, &tablet);
        }
        let taken = body.and_then(|body| match frame.opcode {
            RESULT => self.take_result(at, &body),
            ERROR => self.take_error(at, &body),
            opcode => Err(impossible(format!("opcode {opcode} isn't expected"))),
        });
        match taken {
            Ok(After::End) => self.end_step(ticket, number, at_ns, done),
            Ok(After::Page) => self.send_on(ticket, number, index),
            Ok(After::Nothing) => {}
            Err(failure) => self.fail_step(ticket, number, failure),
        }
    }

    #[inline]
    fn take_result(&mut self, at: StepAt, body: &[u8]) -> Result<After, Failure> {
        let (ticket, number, _) = at;
        let InFlight { operations, context: shared, single, .. } = &mut self.clients;
        let operation = &mut operations[ticket as usize];
        let text = shared.prepared.text(operation.step(number).text);
        match rows::read(body)? {
            Answer::Rows(rows) if text.is_select() => {
                take_rows(operation, number, text, &rows, single)
            }
            Answer::Rows(rows) => {
                operation.step(number).is_missed |= rows.applied()? == Some(false);
                Ok(After::End)
            }
            Answer::Done if !text.is_select() => Ok(After::End),
            Answer::Done | Answer::Prepared(_) => Err(impossible("there are no rows")),
        }
    }

    /// Takes an error of a node.
    #[cold]
    fn take_error(&mut self, at: StepAt, body: &[u8]) -> Result<After, Failure> {
        let error = NodeError::read(body)?;
        if error.code == UNPREPARED {
            return self.prepare(at, &error.statement).map(|()| After::Nothing);
        }
        match self.decide(at, &error) {
            Decision::SameNode(_) => self.send_again(at, false),
            Decision::OtherNode if self.has_others(at) => self.send_again(at, true),
            Decision::Done => return Ok(After::End),
            Decision::OtherNode | Decision::Fail => return Err(error.into()),
        }
        Ok(After::Nothing)
    }

    /// Decides about a request after an error of a node, and applies a lower consistency level.
    fn decide(&mut self, (ticket, number, _): StepAt, error: &NodeError) -> Decision {
        let InFlight { operations, context: shared, .. } = &mut self.clients;
        let retry = shared.settings.retry;
        let operation = &mut operations[ticket as usize];
        let terms = operation.terms(&shared.prepared, number);
        let step = operation.step(number);
        let retries = step.retries(terms.consistency);
        let decision =
            retry::decide(retry, &mut retries.repeats, error, terms.idempotent, retries.level);
        if let Decision::SameNode(Some(level)) = decision {
            retries.level = level;
            text::set_level(&mut step.frame, &step.places, level);
        }
        decision
    }

    /// Whether another node is up that wasn't tried for a step.
    fn has_others(&mut self, (ticket, number, index): StepAt) -> bool {
        let InFlight { operations, framed, .. } = &mut self.clients;
        let own = framed.node_of(index);
        let step = operations[ticket as usize].step(number);
        let tried = step.retries.as_ref().map_or(&[][..], |retries| &retries.nodes);
        self.routing.has_other(framed, &[tried, &[own]].concat())
    }

    /// Retries a step, on another node or the same.
    fn send_again(&mut self, (ticket, number, index): StepAt, elsewhere: bool) {
        self.tally.add(Count::AttemptsFailed, 1);
        self.tally.add(Count::Retries, 1);
        let InFlight { operations, framed, context: shared, .. } = &mut self.clients;
        let node = framed.node_of(index);
        let operation = &mut operations[ticket as usize];
        let level = operation.terms(&shared.prepared, number).consistency;
        let retries = operation.step(number).retries(level);
        retries.is_repeated = true;
        if elsewhere {
            retries.nodes.push(node);
            self.send(ticket, number);
        } else {
            self.send_on(ticket, number, index);
        }
    }

    /// Makes a node prepare an unknown statement, once for all waiting steps.
    #[cold]
    fn prepare(&mut self, at: StepAt, id: &[u8]) -> Result<(), Failure> {
        let (ticket, number, index) = at;
        let InFlight { operations, framed, context: shared, .. } = &mut self.clients;
        let preparations = &mut self.preparations;
        let step = operations[ticket as usize].step(number);
        let most = shared.prepared.texts.len() as u32;
        let (Some(text), true) = (shared.prepared.find(id), step.preparations <= most) else {
            let text = "the node repeatedly lost a prepared statement";
            return Err(Failure::new(Outcome::Protocol, text));
        };
        step.preparations += 1;
        step.sent = Sent::AfterPreparing { index };
        if let Some(waiting) = preparations.get_mut(&(index, text)) {
            waiting.push((ticket, number));
            return Ok(());
        }
        preparations.insert((index, text), vec![(ticket, number)]);
        let cql = &shared.prepared.text(text).cql;
        let entered = framed.enter(index, |exchanges, output| {
            let stream = exchanges.enter(PREPARING, text)?;
            frame::prepare(output, cql, stream);
            Some(())
        });
        self.tally.add(Count::Preparations, 1);
        match entered {
            Ok(Some(())) => {}
            Ok(None) => self.fail_prepared(index, text, &no_stream()),
            Err(failure) => {
                self.fail_connection(index, &failure, true);
                self.fail_prepared(index, text, &failure);
            }
        }
        Ok(())
    }

    /// Takes the reply to a request to prepare a statement.
    #[cold]
    fn take_prepared(&mut self, index: usize, text: u32, frame: &Frame<'_>) {
        let shared = &self.clients.context;
        let prepared = frame.body(shared.settings.compression, |_| ()).and_then(|body| {
            let known = &shared.prepared.text(text).id;
            match (frame.opcode, &body) {
                (ERROR, body) => Err(NodeError::read(body)?.into()),
                (RESULT, body) => match rows::read(body)? {
                    Answer::Prepared(id) if id == known => Ok(()),
                    _ => Err(impossible("a statement is prepared under another id")),
                },
                (opcode, _) => Err(impossible(format!("opcode {opcode} isn't expected"))),
            }
        });
        match prepared {
            Ok(()) => {
                let waiting = self.preparations.remove(&(index, text)).unwrap_or_default();
                for (ticket, number) in waiting {
                    self.send_on(ticket, number, index);
                }
            }
            Err(failure) => self.fail_prepared(index, text, &failure),
        }
    }

    fn fail_prepared(&mut self, index: usize, text: u32, failure: &Failure) {
        for (ticket, number) in self.preparations.remove(&(index, text)).unwrap_or_default() {
            self.fail_step(ticket, number, failure.clone());
        }
    }

    /// Handles a step whose connection was lost.
    #[cold]
    fn lose_step(&mut self, ticket: Ticket, number: u32, lost: Lost) {
        let Lost { index, failure, was_open, .. } = lost;
        if !was_open {
            // The step wasn't sent.
            if self.routing.any_up(&self.clients.framed) {
                return self.send(ticket, number);
            }
            let text = format!("no node can be reached: {}", failure.text);
            return self.fail_step(ticket, number, Failure::new(failure.outcome, text));
        }
        let InFlight { operations, context: shared, .. } = &self.clients;
        let terms = operations[ticket as usize].terms(&shared.prepared, number);
        if shared.settings.retry != Retry::None
            && terms.idempotent
            && self.has_others((ticket, number, index))
        {
            // The retry policies treat a lost connection this way.
            return self.send_again((ticket, number, index), true);
        }
        self.fail_step(ticket, number, failure);
    }

    /// Ends operations whose time limit has passed.
    #[cold]
    fn expire(&mut self, now_ns: u64) {
        while let Some(ticket) = self.deadlines.take_due(now_ns) {
            self.tally.add(Count::RequestTimeouts, 1);
            let InFlight { operations, framed, context: shared, .. } = &mut self.clients;
            let limit_ms = shared.settings.request_timeout.unwrap_or_default().as_millis();
            let waits = |sent: Sent| match sent {
                Sent::On { index, .. } | Sent::AfterPreparing { index } => !framed.is_open(index),
                Sent::Nowhere => false,
            };
            let operation = &mut operations[ticket as usize];
            let is_unsent = operation.steps().iter().any(|step| waits(step.sent));
            operation.progress().failure = None;
            self.abandon(ticket);
            let within = format!("within request_timeout_ms ({limit_ms})");
            if is_unsent {
                let text = format!("no node could be reached {within}");
                self.clients.end_failed(ticket, Failure::new(Outcome::Connection, text));
            } else {
                self.clients.end_expired(ticket, format!("no answer {within}"));
            }
        }
    }

    /// Abandons all exchanges of a ticket.
    fn abandon(&mut self, ticket: Ticket) {
        let InFlight { operations, framed, .. } = &mut self.clients;
        for step in operations[ticket as usize].steps() {
            match std::mem::take(&mut step.sent) {
                Sent::On { index, stream } => framed.give_up(index, stream),
                Sent::AfterPreparing { .. } => {
                    for waiting in self.preparations.values_mut() {
                        waiting.retain(|(other, _)| *other != ticket);
                    }
                }
                Sent::Nowhere => {}
            }
        }
    }
}

/// Connects to all nodes; nodes that are down are connected when they return.
fn reach(framed: &mut Framed<Wire>, shared: &Shared) -> Result<(), OpenError> {
    let mut refusal = None;
    let mut any = false;
    for place in &shared.watch.latest().nodes {
        for endpoint in Endpoint::all(place.address, place.sharding) {
            match framed.open(&endpoint) {
                Ok(_) => any = true,
                Err(error) => {
                    framed.find_or_add(&endpoint);
                    refusal.get_or_insert(error);
                }
            }
        }
    }
    match refusal {
        Some(error) if !any => Err(error),
        _ => Ok(()),
    }
}

#[cold]
fn no_stream() -> Failure {
    let text = "a connection has as many requests in flight as it can have: give more \
                connections_per_node";
    Failure::new(Outcome::Connection, text)
}

/// Takes a page of rows.
#[inline]
fn take_rows(
    operation: &mut CqlOperation,
    number: u32,
    text: &text::Text,
    rows: &Rows<'_>,
    single: &mut Reply,
) -> Result<After, Failure> {
    let command = operation.step(number).command as usize;
    let wants_values = operation.wants_values;
    if let (Some(expected), RowUse::Fields(fields)) = (operation.expected, &text.row_use) {
        operation.is_unlike |= !rows.are_like(expected, fields)?;
    }
    let reply = operation.replies.get_mut(command).unwrap_or(single);
    if wants_values {
        match &text.row_use {
            RowUse::Fields(fields) => rows.take_fields(reply, fields)?,
            RowUse::Columns(columns) => {
                rows.take_cells(reply, |column, value, output| {
                    if let Some(column) = columns.get(column) {
                        crate::decode::append(column, value, output);
                    }
                })?;
            }
            RowUse::Nothing => {}
        }
    }
    reply.rows += rows.count;
    let Some(state) = rows.next.filter(|_| operation.all_pages) else { return Ok(After::End) };
    if operation.replies.is_empty() {
        operation.replies.push(std::mem::take(single));
    }
    let step = operation.step(number);
    text::set_page(&mut step.frame, &mut step.places, state);
    Ok(After::Page)
}

impl Handler<Wire> for CqlSession {
    #[inline]
    fn framed(&mut self) -> &mut Framed<Wire> {
        &mut self.clients.framed
    }

    #[inline]
    fn issue(&mut self, ticket: Ticket) -> bool {
        self.clients.issue(ticket)
    }

    #[inline]
    fn take(
        &mut self,
        index: usize,
        frame: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure> {
        let frame = Frame::read(frame);
        if frame.is_event() {
            return Ok(());
        }
        match self.clients.framed.exchanges(index).answered(frame.stream) {
            None => {
                let text = "the node sent a reply without a request";
                self.fail_connection(index, &Failure::new(Outcome::Protocol, text), false);
            }
            Some((ABANDONED, _)) => {}
            Some((PREPARING, text)) => self.take_prepared(index, text, &frame),
            Some((ticket, number)) => {
                self.take_answer((ticket, number, index), &frame, at_ns, done)
            }
        }
        Ok(())
    }

    #[cold]
    fn lost(&mut self, lost: Lost) {
        let (ticket, index) = (lost.ticket, lost.index);
        if ticket == PREPARING {
            let others = self.preparations.split_off(&(index + 1, 0));
            let here = self.preparations.split_off(&(index, 0));
            self.preparations.extend(others);
            for (ticket, number) in here.into_values().flatten() {
                self.lose_step(ticket, number, lost.clone());
            }
            return;
        }
        let is_here = |sent: Sent| matches!(sent, Sent::On { index: at, .. } if at == index);
        let steps = self.clients.operations[ticket as usize].steps();
        if let Some(number) = steps.iter().position(|step| is_here(step.sent)) {
            steps[number].sent = Sent::Nowhere;
            self.lose_step(ticket, number as u32, lost);
        }
    }

    fn has_ended(&self) -> bool {
        self.clients.has_ended()
    }

    fn report_ended(&mut self, at_ns: u64, done: &mut impl Completions) {
        self.clients.report_ended(at_ns, done);
    }

    fn own_due_ns(&self) -> u64 {
        self.deadlines.next_ns()
    }
}

impl Session for CqlSession {
    #[inline]
    fn has_room(&self) -> bool {
        self.clients.framed.has_room()
    }

    #[inline]
    fn submit(&mut self, ticket: Ticket, request: &Request<'_>) {
        if self.clients.context.settings.request_timeout.is_some() {
            self.fresh.push(ticket);
        }
        if let Err(failure) = self.begin(ticket, request) {
            self.clients.end_failed(ticket, failure);
        }
    }

    fn poll(&mut self, patience_ns: u64, done: &mut impl Completions) -> bool {
        if self.routing.is_stale() {
            self.renew();
        }
        let mut looked_ns = 0;
        if !self.fresh.is_empty() || self.deadlines.next_ns() < u64::MAX {
            looked_ns = done.stamp();
            let operations = &mut self.clients.operations;
            // Others have ended and will be reported.
            let goes = |ticket: &Ticket| operations[*ticket as usize].progress().outstanding > 0;
            for ticket in self.fresh.drain(..).filter(goes) {
                self.deadlines.arm(ticket, looked_ns);
            }
        }
        let has_read = poll(self, patience_ns, done);
        if self.deadlines.are_over(looked_ns, has_read) {
            self.expire(looked_ns);
        }
        self.tally.add(Count::Reconnections, self.clients.framed.take_attempts());
        self.clients.context.counters.take(&mut self.tally);
        has_read
    }

    fn give_up(&mut self, ticket: Ticket) {
        self.fresh.retain(|other| *other != ticket);
        self.deadlines.disarm(ticket);
        self.abandon(ticket);
        self.clients.forget(ticket);
    }

    fn due_ns(&self) -> u64 {
        self.clients.framed.due_ns().min(self.deadlines.next_ns())
    }

    fn awaited(&self) -> Vec<String> {
        self.clients.framed.awaited()
    }
}
