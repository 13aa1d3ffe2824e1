//! One connection, used by one client or shared by many: requests go out in the order they came,
//! and replies are matched to them in that order.
//!
//! A client that gave up leaves its place in the queue behind, and its late reply is passed over.
//!
//! A connection that fails ends every exchange on it at once. The next request opens it again; a
//! request that comes while it's down waits for the attempt under way, and ends with it if it
//! fails. Attempts are spaced by a pause that doubles up to the option `reconnect_max_ms`. One that
//! ends while nobody waits for it costs the next request the time to open it, and no failure.

use std::collections::VecDeque;
use std::time::Duration;

use kvmark_driver::Ticket;
use kvmark_plan::Outcome;

use crate::failure::Failure;
use crate::resp::Scan;
use crate::socket::Socket;

/// Whose place it is when nobody waits for the replies any more.
pub(crate) const NOBODY: Ticket = u32::MAX;
/// Whose place it is when the session itself waits, for the map of a cluster.
pub(crate) const MAP: Ticket = u32::MAX - 1;

/// Late replies that are waited for before the connection is given up.
const LATE_MAX: u32 = 1024;
/// The pause before the second attempt in a row.
const PAUSE_NS: u64 = 10_000_000;
/// Room for output that a connection keeps when all of it is sent.
const OUTPUT_KEPT: usize = 256 << 10;

/// What is between the client and the server.
#[derive(Debug)]
pub(crate) enum Link {
    Up(Socket),
    /// An attempt is under way, until it succeeds, fails or takes too long.
    Opening,
    /// The next attempt must wait.
    Pausing {
        until_ns: u64,
    },
    Down,
}

/// A place in the queue of exchanges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    pub(crate) ticket: Ticket,
    /// Replies that are still to come.
    pub(crate) replies: u32,
    /// Number of the next one within what its operation sent.
    pub(crate) next: u32,
}

/// One connection of a session.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) link: Link,
    /// Index of its server.
    pub(crate) node: usize,
    /// Attempts to open it.
    pub(crate) attempt: u32,
    /// Attempts and connections that failed since the last reply.
    pub(crate) losses: u32,
    /// Places in the queue that were given up.
    late: u32,
    /// Places at the queue's end that came since the last flush.
    fresh: u32,
    /// Whether it is among those that are flushed next.
    pub(crate) is_dirty: bool,
    /// Whether it waits for the socket to take more.
    pub(crate) wants_room: bool,
    /// Whether the server answered what nobody had asked.
    pub(crate) unasked: bool,
    /// Bytes of a reply that isn't complete, and how far it was scanned.
    pub(crate) held: Vec<u8>,
    pub(crate) scan: Scan,
    output: Vec<u8>,
    /// Bytes of the output that are sent.
    sent: usize,
    queue: VecDeque<Awaited>,
    /// Number of the queue's first place.
    first: u64,
}

impl Connection {
    /// Around an open socket, or to be opened when it is first used.
    pub(crate) fn new(socket: Option<Socket>, node: usize) -> Self {
        Self {
            link: socket.map_or(Link::Down, Link::Up),
            node,
            attempt: 0,
            losses: 0,
            late: 0,
            fresh: 0,
            is_dirty: false,
            wants_room: false,
            unasked: false,
            held: Vec::new(),
            scan: Scan::START,
            output: Vec::new(),
            sent: 0,
            queue: VecDeque::new(),
            first: 0,
        }
    }

    /// Whether the server may be lost: it didn't answer last, or owes replies.
    pub(crate) fn is_troubled(&self) -> bool {
        self.losses > 0 || self.late > 0
    }

    /// Joins the queue with the commands that `put` writes and counts; the number of the place.
    /// `next` is the number of the first reply within what the operation sends. After a failure the
    /// connection can't be used.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        ticket: Ticket,
        next: u32,
        put: impl FnOnce(&mut Vec<u8>) -> u32,
    ) -> Result<u64, Failure> {
        if self.unasked {
            return Err(answered_unasked());
        }
        if self.late > LATE_MAX {
            let text = format!("the server owes more than {LATE_MAX} replies");
            return Err(Failure::new(Outcome::Connection, text));
        }
        let replies = put(&mut self.output);
        let place = self.first + self.queue.len() as u64;
        self.queue.push_back(Awaited { ticket, replies, next });
        self.fresh += 1;
        Ok(place)
    }

    /// The places that came since this was last asked.
    #[inline]
    pub(crate) fn fresh(&mut self) -> impl Iterator<Item = &Awaited> {
        let count = std::mem::take(&mut self.fresh) as usize;
        self.queue.range(self.queue.len() - count..)
    }

    /// Whether no answer is awaited to anything that was sent.
    #[inline]
    pub(crate) fn is_owed_nothing(&self) -> bool {
        self.queue.len() == self.fresh as usize
    }

    /// Whether nothing is awaited.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Gives up a ticket's place, which has this number.
    pub(crate) fn give_up(&mut self, ticket: Ticket, number: u64) {
        let Some(index) = number.checked_sub(self.first) else { return };
        let place = self.queue.get_mut(index as usize);
        if let Some(place) = place.filter(|place| place.ticket == ticket) {
            place.ticket = NOBODY;
            self.late += 1;
        }
    }

    /// Gives up all places of a ticket.
    pub(crate) fn give_up_all(&mut self, ticket: Ticket) {
        for place in self.queue.iter_mut().filter(|place| place.ticket == ticket) {
            place.ticket = NOBODY;
            self.late += 1;
        }
    }

    /// Whether the session waits here for the map of a cluster.
    pub(crate) fn owes_map(&self) -> bool {
        self.queue.iter().any(|place| place.ticket == MAP)
    }

    /// The place that the next reply belongs to, which leaves the queue with its last reply; none
    /// when nothing was asked.
    #[inline]
    pub(crate) fn answered(&mut self) -> Option<Awaited> {
        let place = self.queue.front_mut()?;
        let answered = *place;
        place.next += 1;
        place.replies -= 1;
        if place.replies == 0 {
            self.leave();
        }
        self.losses = 0;
        Some(answered)
    }

    /// The first place leaves the queue.
    pub(crate) fn leave(&mut self) {
        if let Some(place) = self.queue.pop_front() {
            self.first += 1;
            self.late -= u32::from(place.ticket == NOBODY);
        }
    }

    /// Sends what has gathered, once; whether the rest must wait for room.
    #[inline]
    pub(crate) fn send(&mut self) -> Result<bool, Failure> {
        let Link::Up(socket) = &mut self.link else { return Ok(false) };
        if self.sent < self.output.len() || socket.holds_back() {
            let written = socket.write(&self.output[self.sent..]);
            self.sent += written.map_err(|error| Failure::broken(&error))?;
        }
        if self.sent < self.output.len() {
            return Ok(true);
        }
        self.output.clear();
        self.output.shrink_to(OUTPUT_KEPT);
        self.sent = 0;
        Ok(socket.holds_back())
    }

    /// How long to wait before the next attempt: not at all for a connection that worked.
    pub(crate) fn pause_ns(&self, longest: Duration) -> u64 {
        match self.losses {
            0 | 1 => 0,
            losses => (PAUSE_NS << (losses - 2).min(30)).min(longest.as_nanos() as u64),
        }
    }

    /// Closes the connection; who is left in its queue.
    pub(crate) fn close(&mut self) -> VecDeque<Awaited> {
        let queue = std::mem::take(&mut self.queue);
        let (losses, first) = (self.losses.saturating_add(1), self.first + queue.len() as u64);
        let (attempt, is_dirty) = (self.attempt, self.is_dirty);
        *self = Self { losses, first, attempt, is_dirty, ..Self::new(None, self.node) };
        queue
    }
}

/// What ends a connection on which there is an answer too many.
pub(crate) fn answered_unasked() -> Failure {
    Failure::new(Outcome::Protocol, "the server answered what nobody had asked")
}
