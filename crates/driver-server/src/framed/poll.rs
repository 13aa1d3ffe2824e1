//! The poll of a session.
//!
//! A poll flushes each connection with submitted requests once, waits, and reads and stamps each
//! readable connection once. Then it processes the bytes. Further requests of an operation are
//! entered at that point and go out with the next poll.

use std::io::ErrorKind;

use kvmark_driver::{Completions, Ticket};
use kvmark_plan::Outcome;

use super::connection::unexpected_frame;
use super::connections::{Framed, Lost};
use super::inbox::{Inbox, Read, Spares};
use super::poller::BELL;
use super::protocol::{Exchanges, Protocol};
use crate::arrivals::Received;
use crate::failure::Failure;

/// Connections that a poll flushes: at least this number, or this fraction of all. A flush takes
/// microseconds, which delay the stamps of replies.
const FLUSHED_AT_ONCE: usize = 8;
const FLUSHED_OF: usize = 16;
/// Longest frame: the longest value of Redis, 512 MiB, with its headers.
pub(super) const FRAME_MAX: usize = 576 << 20;

/// A session with framed connections.
pub trait Handler<P: Protocol> {
    /// Its connections.
    fn framed(&mut self) -> &mut Framed<P>;

    /// Called before the bytes of a ticket are sent, also on a closed connection. Returns whether
    /// they are the first of the operation.
    fn issue(&mut self, ticket: Ticket) -> bool;

    /// Takes a frame that was read at `at_ns`.
    ///
    /// # Errors
    /// The failure that closes the connection. The exchange of the frame must be ended already.
    fn take(
        &mut self,
        index: usize,
        frame: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> Result<(), Failure>;

    /// Takes complete frames that end no exchange and pass on no result. Returns their length.
    fn take_run(&mut self, _index: usize, _bytes: &[u8]) -> usize {
        0
    }

    /// An exchange ended with its connection.
    fn lost(&mut self, lost: Lost);

    /// Called when a connection was reopened.
    fn opened(&mut self, _index: usize) {}

    /// Whether results weren't passed on yet.
    fn has_ended(&self) -> bool;

    /// Passes on these results with the time stamp `at_ns`.
    fn report_ended(&mut self, at_ns: u64, done: &mut impl Completions);

    /// The instant by which the session needs its next poll.
    fn own_due_ns(&self) -> u64 {
        u64::MAX
    }
}

/// Polls a session, see [`kvmark_driver::Session::poll`].
pub fn poll<P: Protocol, H: Handler<P>>(
    handler: &mut H,
    patience_ns: u64,
    done: &mut impl Completions,
) -> bool {
    let reported = report_ended(handler, done);
    flush(handler, done);
    if handler.framed().due_ns() < u64::MAX {
        let now_ns = done.stamp();
        handler.framed().end_pauses(now_ns);
    }
    let reported = report_ended(handler, done) || reported;
    let limit_ns = limit_ns(handler, if reported { 0 } else { patience_ns }, done);
    let framed = handler.framed();
    let watched = framed.watched();
    // A failed wait has no events.
    let ready = framed.poller.wait(watched, limit_ns).unwrap_or(0);
    let mut inbox = std::mem::take(&mut framed.inbox);
    let has_read = read_all(handler, &mut inbox, ready, done);
    handler.framed().inbox = inbox;
    has_read
}

/// The time limit of a poll's wait.
fn limit_ns<P: Protocol, H: Handler<P>>(
    handler: &mut H,
    patience_ns: u64,
    done: &mut impl Completions,
) -> u64 {
    if handler.framed().is_dirty() {
        return 0;
    }
    match handler.framed().due_ns().min(handler.own_due_ns()) {
        u64::MAX => patience_ns,
        due_ns => patience_ns.min(due_ns.saturating_sub(done.stamp())),
    }
}

/// Passes on the results without a reply. Returns whether there were any.
fn report_ended<P: Protocol, H: Handler<P>>(handler: &mut H, done: &mut impl Completions) -> bool {
    let has_ended = handler.has_ended();
    if has_ended {
        let at_ns = done.stamp();
        handler.report_ended(at_ns, done);
    }
    has_ended
}

/// Closes a connection and ends every exchange on it.
#[cold]
fn fail<P: Protocol, H: Handler<P>>(
    handler: &mut H,
    index: usize,
    failure: &Failure,
    was_met: bool,
) {
    for lost in handler.framed().fail(index, failure, was_met) {
        handler.lost(lost);
    }
}

/// Flushes the next connections, each with its own time stamp.
fn flush<P: Protocol, H: Handler<P>>(handler: &mut H, done: &mut impl Completions) {
    let most = FLUSHED_AT_ONCE.max(handler.framed().watched() / FLUSHED_OF);
    let mut fresh = std::mem::take(&mut handler.framed().fresh);
    for _ in 0..most {
        let Some(index) = handler.framed().next_dirty() else { break };
        let at_ns = done.stamp();
        handler.framed().exchanges(index).fresh(|ticket| fresh.push(ticket));
        for ticket in fresh.drain(..) {
            if handler.issue(ticket) {
                done.issued(ticket, at_ns);
            }
        }
        if let Err(failure) = handler.framed().flush(index, at_ns) {
            fail(handler, index, &failure, false);
        }
    }
    handler.framed().fresh = fresh;
}

/// Reads each ready connection once and processes the bytes. Returns whether there was one.
fn read_all<P: Protocol, H: Handler<P>>(
    handler: &mut H,
    inbox: &mut Inbox,
    ready: usize,
    done: &mut impl Completions,
) -> bool {
    let (mut rung, mut has_read) = (false, false);
    for event in 0..ready {
        let framed = handler.framed();
        let ready = framed.poller.ready(event);
        if ready.number == BELL {
            rung = true;
            continue;
        }
        let index = ready.number as usize;
        if ready.is_writable {
            framed.takes_more(index);
        }
        if ready.is_readable {
            if !inbox.has_room() {
                process(handler, inbox, done);
            }
            read(handler.framed(), inbox, index, done);
            has_read = true;
        }
    }
    process(handler, inbox, done);
    if rung {
        adopt(handler, done);
    }
    has_read
}

/// Reads a connection.
#[inline]
fn read<P: Protocol>(
    framed: &mut Framed<P>,
    inbox: &mut Inbox,
    index: usize,
    done: &mut impl Completions,
) {
    let in_frame = !framed.connection(index).held.is_empty();
    let Some(socket) = framed.connection(index).socket() else { return };
    let mut arrived_wall_ns = None;
    let from = inbox.filled;
    let bytes = match socket.read(&mut inbox.arena[from..]) {
        Ok(Received { length: 0, .. }) => Err(Failure::closed(in_frame)),
        Ok(received) => {
            arrived_wall_ns = received.arrived_wall_ns;
            inbox.filled = from + received.length;
            Ok(from..inbox.filled)
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            return;
        }
        Err(error) => Err(Failure::broken(&error)),
    };
    let at_ns = done.stamp();
    inbox.reads.push(Read { connection: index, bytes, at_ns, arrived_wall_ns });
}

/// Processes the bytes that were read.
fn process<P: Protocol, H: Handler<P>>(
    handler: &mut H,
    inbox: &mut Inbox,
    done: &mut impl Completions,
) {
    let Inbox { arena, filled, reads, spares } = inbox;
    *filled = 0;
    for Read { connection: index, bytes, at_ns, arrived_wall_ns } in reads.drain(..) {
        // A connection that has failed since the read has no exchanges.
        if !handler.framed().is_open(index) {
            continue;
        }
        match bytes {
            Ok(range) => {
                let bytes = &arena[range];
                done.heard(at_ns);
                if let Some(wall_ns) = arrived_wall_ns
                    && is_one_frame(handler.framed(), index, bytes)
                {
                    done.arrived(wall_ns, at_ns);
                }
                take_in(handler, spares, index, bytes, at_ns, done);
                if handler.framed().exchanges(index).is_in_doubt() {
                    fail(handler, index, &in_doubt(), false);
                }
            }
            Err(failure) => fail(handler, index, &failure, false),
        }
        handler.report_ended(at_ns, done);
    }
}

/// Whether a read returned exactly one complete frame. The frame isn't scanned again.
fn is_one_frame<P: Protocol>(framed: &mut Framed<P>, index: usize, bytes: &[u8]) -> bool {
    let connection = framed.connection(index);
    connection.held.is_empty()
        && P::scan(&mut connection.scan, bytes).is_ok_and(|length| length == Some(bytes.len()))
}

/// Takes the complete frames of a connection and keeps the rest.
pub(super) fn take_in<P: Protocol, H: Handler<P>>(
    handler: &mut H,
    spares: &mut Spares,
    index: usize,
    bytes: &[u8],
    at_ns: u64,
    done: &mut impl Completions,
) {
    let mut held = std::mem::take(&mut handler.framed().connection(index).held);
    if held.is_empty() {
        let taken = take_frames(handler, index, bytes, at_ns, done);
        if taken < bytes.len() {
            held = spares.take();
            held.extend_from_slice(&bytes[taken..]);
            handler.framed().connection(index).held = held;
        }
        return;
    }
    held.extend_from_slice(bytes);
    let taken = take_frames(handler, index, &held, at_ns, done);
    if taken < held.len() {
        held.drain(..taken);
        if held.len() > FRAME_MAX {
            return fail(handler, index, &too_long(), false);
        }
        handler.framed().connection(index).held = held;
    } else {
        spares.keep(held);
    }
}

/// The failure of a connection whose replies may be assigned to other requests.
#[cold]
fn in_doubt() -> Failure {
    let text = "the server's replies were late for more than ten timeouts, so one may be missing \
                and the others may be assigned to earlier requests";
    Failure::new(Outcome::Connection, text)
}

/// The failure of a connection with an overlong frame.
#[cold]
pub(super) fn too_long() -> Failure {
    let text = format!("the server's reply is longer than {} MiB", FRAME_MAX >> 20);
    Failure::new(Outcome::Protocol, text)
}

/// Takes the complete frames. Returns the number of processed bytes.
fn take_frames<P: Protocol, H: Handler<P>>(
    handler: &mut H,
    index: usize,
    bytes: &[u8],
    at_ns: u64,
    done: &mut impl Completions,
) -> usize {
    let mut scan = std::mem::take(&mut handler.framed().connection(index).scan);
    let mut taken = 0;
    while let Some(first) = bytes.get(taken) {
        let run = handler.take_run(index, &bytes[taken..]);
        if run > 0 {
            handler.framed().connection(index).losses = 0;
            (scan, taken) = (P::Scan::default(), taken + run);
            continue;
        }
        let connection = handler.framed().connection(index);
        if !P::may_come(&connection.exchanges, *first) {
            if connection.exchanges.is_idle() {
                handler.framed().set_aside(index);
            } else {
                // The next exchange would take it for its reply.
                fail(handler, index, &unexpected_frame(), false);
            }
            return bytes.len();
        }
        let length = match P::scan(&mut scan, &bytes[taken..]) {
            Ok(Some(length)) => length,
            Ok(None) => break,
            Err(failure) => {
                fail(handler, index, &failure, false);
                return bytes.len();
            }
        };
        scan = P::Scan::default();
        connection.losses = 0;
        let frame = &bytes[taken..taken + length];
        taken += length;
        if let Err(failure) = handler.take(index, frame, at_ns, done) {
            fail(handler, index, &failure, true);
            return bytes.len();
        }
        if !handler.framed().is_open(index) {
            return bytes.len();
        }
    }
    handler.framed().connection(index).scan = scan;
    taken
}

/// Adopts reopened connections.
fn adopt<P: Protocol, H: Handler<P>>(handler: &mut H, done: &mut impl Completions) {
    let at_ns = done.stamp();
    handler.framed().connector.hush();
    while let Some(opened) = handler.framed().connector.ended() {
        let index = opened.connection;
        match handler.framed().adopt(opened) {
            Ok(true) => handler.opened(index),
            Ok(false) => {}
            Err(failure) => fail(handler, index, &failure, false),
        }
    }
    handler.report_ended(at_ns, done);
}
