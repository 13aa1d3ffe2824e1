//! The poll of a session.
//!
//! A poll flushes each connection with submitted requests once, waits, and reads and stamps each
//! readable connection once. Then it processes the bytes. Further requests of an operation are
//! entered at that point and go out with the next poll.

use std::io::ErrorKind;

use kvmark_driver::{Completions, Ticket};
use kvmark_plan::Outcome;
use rustix::event::epoll::EventFlags;

use super::connection::{Link, unexpected_frame};
use super::connections::{Framed, Lost};
use super::inbox::{Inbox, Read};
use super::poller::BELL;
use super::protocol::{Exchanges, Protocol};
use crate::arrivals::Received;
use crate::failure::Failure;

/// Connections that a poll flushes: at least this number, or this fraction of all. A flush takes
/// microseconds, which delay the stamps of replies.
const FLUSHED_AT_ONCE: usize = 8;
const FLUSHED_OF: usize = 16;
/// Greatest number of pooled buffers for incomplete frames.
const SPARES_MAX: usize = 16;
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
    let reported = handler.report_any(done);
    handler.flush(done);
    if handler.framed().due_ns() < u64::MAX {
        let now_ns = done.stamp();
        handler.framed().end_pauses(now_ns);
    }
    let reported = handler.report_any(done) || reported;
    let limit_ns = handler.limit_ns(if reported { 0 } else { patience_ns }, done);
    let framed = handler.framed();
    let watched = framed.watched();
    // A failed wait has no events.
    let ready = framed.poller.wait(watched, limit_ns).unwrap_or(0);
    let mut inbox = std::mem::take(&mut framed.inbox);
    let has_read = handler.read_all(&mut inbox, ready, done);
    handler.framed().inbox = inbox;
    has_read
}

/// The steps of a poll.
pub(super) trait Poll<P: Protocol>: Handler<P> {
    /// The time limit of a poll's wait.
    fn limit_ns(&mut self, patience_ns: u64, done: &mut impl Completions) -> u64 {
        if !self.framed().dirty.is_empty() {
            return 0;
        }
        match self.framed().due_ns().min(self.own_due_ns()) {
            u64::MAX => patience_ns,
            due_ns => patience_ns.min(due_ns.saturating_sub(done.stamp())),
        }
    }

    /// Passes on the results without a reply. Returns whether there were any.
    fn report_any(&mut self, done: &mut impl Completions) -> bool {
        let has_ended = self.has_ended();
        if has_ended {
            let at_ns = done.stamp();
            self.report_ended(at_ns, done);
        }
        has_ended
    }

    /// Closes a connection and ends every exchange on it.
    #[cold]
    fn fail(&mut self, index: usize, failure: &Failure, was_met: bool) {
        for lost in self.framed().fail(index, failure, was_met) {
            self.lost(lost);
        }
    }

    /// Flushes the next connections, each with its own time stamp.
    fn flush(&mut self, done: &mut impl Completions) {
        let most = FLUSHED_AT_ONCE.max(self.framed().watched() / FLUSHED_OF);
        let mut fresh = std::mem::take(&mut self.framed().fresh);
        for _ in 0..most {
            let Some(index) = self.framed().dirty.pop_front() else { break };
            let at_ns = done.stamp();
            self.framed().exchanges(index).fresh(|ticket| fresh.push(ticket));
            for ticket in fresh.drain(..) {
                if self.issue(ticket) {
                    done.issued(ticket, at_ns);
                }
            }
            if let Err(failure) = self.framed().flush(index, at_ns) {
                self.fail(index, &failure, false);
            }
        }
        self.framed().fresh = fresh;
    }

    /// Reads each ready connection once and processes the bytes. Returns whether there was one.
    fn read_all(&mut self, inbox: &mut Inbox, ready: usize, done: &mut impl Completions) -> bool {
        let (mut rung, mut has_read) = (false, false);
        for event in 0..ready {
            let framed = self.framed();
            let (number, flags) = framed.poller.ready(event);
            if number == BELL {
                rung = true;
                continue;
            }
            let index = number as usize;
            if flags.contains(EventFlags::OUT) {
                framed.takes_more(index);
            }
            // The end of a connection is readable, too.
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                if !inbox.has_room() {
                    self.process(inbox, done);
                }
                self.read(inbox, index, done);
                has_read = true;
            }
        }
        self.process(inbox, done);
        if rung {
            self.adopt(done);
        }
        has_read
    }

    /// Reads a connection.
    #[inline]
    fn read(&mut self, inbox: &mut Inbox, index: usize, done: &mut impl Completions) {
        let connection = &mut self.framed().list[index];
        let in_frame = !connection.held.is_empty();
        let Link::Up(socket) = &mut connection.link else { return };
        let mut arrived_wall_ns = None;
        let from = inbox.filled;
        let bytes = match socket.read(&mut inbox.arena[from..]) {
            Ok(Received { length: 0, .. }) => Err(Failure::closed(in_frame)),
            Ok(received) => {
                arrived_wall_ns = received.arrived_wall_ns;
                inbox.filled = from + received.length;
                Ok(from..inbox.filled)
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return;
            }
            Err(error) => Err(Failure::broken(&error)),
        };
        let at_ns = done.stamp();
        inbox.reads.push(Read { connection: index, bytes, at_ns, arrived_wall_ns });
    }

    /// Processes the bytes that were read.
    fn process(&mut self, inbox: &mut Inbox, done: &mut impl Completions) {
        let Inbox { arena, filled, reads } = inbox;
        *filled = 0;
        for Read { connection: index, bytes, at_ns, arrived_wall_ns } in reads.drain(..) {
            // A connection that has failed since the read has no exchanges.
            if !self.framed().is_open(index) {
                continue;
            }
            match bytes {
                Ok(range) => {
                    let bytes = &arena[range];
                    done.heard(at_ns);
                    if let Some(wall_ns) = arrived_wall_ns
                        && is_one_frame(self.framed(), index, bytes)
                    {
                        done.arrived(wall_ns, at_ns);
                    }
                    self.take_in(index, bytes, at_ns, done);
                    if self.framed().exchanges(index).is_in_doubt() {
                        self.fail(index, &in_doubt(), false);
                    }
                }
                Err(failure) => self.fail(index, &failure, false),
            }
            self.report_ended(at_ns, done);
        }
    }

    /// Takes the complete frames of a connection and keeps the rest.
    fn take_in(&mut self, index: usize, bytes: &[u8], at_ns: u64, done: &mut impl Completions) {
        let mut held = std::mem::take(&mut self.framed().list[index].held);
        if held.is_empty() {
            let taken = self.take_frames(index, bytes, at_ns, done);
            if taken < bytes.len() {
                held = self.framed().spares.pop().unwrap_or_default();
                held.extend_from_slice(&bytes[taken..]);
                self.framed().list[index].held = held;
            }
            return;
        }
        held.extend_from_slice(bytes);
        let taken = self.take_frames(index, &held, at_ns, done);
        held.drain(..taken);
        if held.len() > FRAME_MAX {
            self.fail(index, &too_long(), false);
        } else if !held.is_empty() {
            self.framed().list[index].held = held;
        } else if self.framed().spares.len() < SPARES_MAX {
            self.framed().spares.push(held);
        }
    }

    /// Takes the complete frames. Returns the number of processed bytes.
    fn take_frames(
        &mut self,
        index: usize,
        bytes: &[u8],
        at_ns: u64,
        done: &mut impl Completions,
    ) -> usize {
        let mut scan = std::mem::take(&mut self.framed().list[index].scan);
        let mut taken = 0;
        while let Some(first) = bytes.get(taken) {
            let run = self.take_run(index, &bytes[taken..]);
            if run > 0 {
                self.framed().list[index].losses = 0;
                (scan, taken) = (P::Scan::default(), taken + run);
                continue;
            }
            let connection = &mut self.framed().list[index];
            if !P::may_come(&connection.exchanges, *first) {
                if connection.exchanges.is_idle() {
                    self.framed().set_aside(index);
                } else {
                    // The next exchange would take it for its reply.
                    self.fail(index, &unexpected_frame(), false);
                }
                return bytes.len();
            }
            let length = match P::scan(&mut scan, &bytes[taken..]) {
                Ok(Some(length)) => length,
                Ok(None) => break,
                Err(failure) => {
                    self.fail(index, &failure, false);
                    return bytes.len();
                }
            };
            scan = P::Scan::default();
            connection.losses = 0;
            let frame = &bytes[taken..taken + length];
            taken += length;
            if let Err(failure) = self.take(index, frame, at_ns, done) {
                self.fail(index, &failure, true);
                return bytes.len();
            }
            if !self.framed().is_open(index) {
                return bytes.len();
            }
        }
        self.framed().list[index].scan = scan;
        taken
    }

    /// Adopts reopened connections.
    fn adopt(&mut self, done: &mut impl Completions) {
        let at_ns = done.stamp();
        self.framed().connector.hush();
        while let Some(opened) = self.framed().connector.ended() {
            let index = opened.connection;
            match self.framed().adopt(opened) {
                Ok(true) => self.opened(index),
                Ok(false) => {}
                Err(failure) => self.fail(index, &failure, false),
            }
        }
        self.report_ended(at_ns, done);
    }
}

impl<P: Protocol, H: Handler<P>> Poll<P> for H {}

/// Whether a read returned exactly one complete frame. The frame isn't scanned again.
fn is_one_frame<P: Protocol>(framed: &mut Framed<P>, index: usize, bytes: &[u8]) -> bool {
    let connection = &mut framed.list[index];
    connection.held.is_empty()
        && P::scan(&mut connection.scan, bytes).is_ok_and(|length| length == Some(bytes.len()))
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
