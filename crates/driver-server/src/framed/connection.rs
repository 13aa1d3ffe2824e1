//! One connection, used by one client or shared by many: what is to be sent, what came of a frame
//! that isn't whole, and what is under way.

use std::time::Duration;

use kvmark_driver::Ticket;
use kvmark_plan::Outcome;

use super::output::Output;
use super::protocol::{Exchanges, Protocol};
use super::socket::Socket;
use crate::failure::Failure;

/// Late replies that are waited for before the connection is given up.
const LATE_MAX: u32 = 1024;
/// The pause before the second attempt in a row.
const PAUSE_NS: u64 = 10_000_000;

/// What is between the client and the server.
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

/// One connection of a session.
pub(crate) struct Connection<P: Protocol> {
    pub(crate) link: Link,
    /// Index of its server.
    pub(crate) node: usize,
    /// Attempts to open it.
    pub(crate) attempt: u32,
    /// Attempts and connections that failed since the last frame came.
    pub(crate) losses: u32,
    /// Whether it is among those that are flushed next.
    pub(crate) is_dirty: bool,
    /// Whether it is told when the socket takes more.
    pub(crate) wants_room: bool,
    /// Whether the socket took less than there was, and nothing was told since.
    pub(crate) is_full: bool,
    /// Whether somebody gave up while it was down.
    is_doubted: bool,
    /// Bytes that waited to be sent when this was last looked at.
    pub(crate) backlog: usize,
    /// Whether the server answered what nobody had asked.
    pub(crate) unasked: bool,
    /// Bytes of a frame that isn't whole, and how far it was scanned.
    pub(crate) held: Vec<u8>,
    pub(crate) scan: P::Scan,
    pub(crate) exchanges: P::Exchanges,
    output: Output,
}

impl<P: Protocol> Connection<P> {
    /// Around an open socket, or to be opened when it is first used.
    pub(crate) fn new(socket: Option<Socket>, node: usize) -> Self {
        Self {
            link: socket.map_or(Link::Down, Link::Up),
            node,
            attempt: 0,
            losses: 0,
            is_dirty: false,
            wants_room: false,
            is_full: false,
            is_doubted: false,
            backlog: 0,
            unasked: false,
            held: Vec::new(),
            scan: P::Scan::default(),
            exchanges: P::Exchanges::default(),
            output: Output::default(),
        }
    }

    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    /// What it is read from, if it is open.
    #[inline]
    pub(crate) fn socket(&mut self) -> Option<&mut Socket> {
        match &mut self.link {
            Link::Up(socket) => Some(socket),
            Link::Opening | Link::Pausing { .. } | Link::Down => None,
        }
    }

    /// Whether the server may be lost: it didn't answer last, or owes replies.
    pub(crate) fn is_troubled(&self) -> bool {
        self.losses > 0 || self.exchanges.late() > 0 || (self.is_doubted && !self.is_up())
    }

    /// Gives an exchange up. Nothing of it is sent unless a part is sent already.
    pub(crate) fn give_up(&mut self, key: <P::Exchanges as Exchanges>::Key) {
        let number = self.exchanges.give_up(key);
        self.is_doubted = !self.is_up();
        if number.is_some_and(|number| self.output.withdraw(number)) {
            self.exchanges.withdraw(key);
        }
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.output.waiting()
    }

    /// Has an exchange begun, whose bytes are appended to the output. After a failure the
    /// connection can't be used.
    #[inline]
    pub(crate) fn enter<R>(
        &mut self,
        put: impl FnOnce(&mut P::Exchanges, &mut Vec<u8>) -> R,
    ) -> Result<R, Failure> {
        if self.unasked {
            return Err(answered_unasked());
        }
        if self.exchanges.late() > LATE_MAX {
            let text = format!("the server owes more than {LATE_MAX} replies");
            return Err(Failure::new(Outcome::Connection, text));
        }
        let Self { exchanges, output, .. } = self;
        Ok(output.put(|bytes| (put(exchanges, bytes), exchanges.entered())))
    }

    /// Sends what has gathered, once; whether the rest must wait for room.
    #[inline]
    pub(crate) fn send(&mut self) -> Result<bool, Failure> {
        let Link::Up(socket) = &mut self.link else { return Ok(false) };
        if self.is_full {
            return Ok(true);
        }
        let rest = self.output.rest();
        if !rest.is_empty() || socket.holds_back() {
            let written = socket.write(rest).map_err(|error| Failure::broken(&error))?;
            self.output.advance(written);
        }
        self.is_full = self.output.waiting() > 0 || socket.holds_back();
        Ok(self.is_full)
    }

    /// How long to wait before the next attempt: not at all for a connection that worked.
    pub(crate) fn pause_ns(&self, longest: Duration) -> u64 {
        match self.losses {
            0 | 1 => 0,
            losses => (PAUSE_NS << (losses - 2).min(30)).min(longest.as_nanos() as u64),
        }
    }

    /// Closes the connection, and tells whose exchanges end with it.
    pub(crate) fn close(&mut self, tell: impl FnMut(Ticket)) {
        self.exchanges.end(tell);
        let exchanges = std::mem::take(&mut self.exchanges);
        let losses = self.losses.saturating_add(1);
        let (attempt, is_dirty) = (self.attempt, self.is_dirty);
        *self = Self { losses, attempt, is_dirty, exchanges, ..Self::new(None, self.node) };
    }
}

/// What ends a connection on which there is an answer too many.
pub(crate) fn answered_unasked() -> Failure {
    Failure::new(Outcome::Protocol, "the server answered what nobody had asked")
}
