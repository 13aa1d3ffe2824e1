//! One connection: its output, an incomplete frame and its exchanges. One client uses it, or
//! several share it.

use std::time::Duration;

use kvmark_driver::Ticket;
use kvmark_plan::Outcome;

use super::output::Output;
use super::protocol::{Exchanges, Protocol};
use super::socket::Socket;
use crate::failure::Failure;

/// Greatest number of late replies of a usable connection.
const LATE_MAX: u32 = 1024;
/// The pause before the second attempt in a row.
const PAUSE_NS: u64 = 10_000_000;

/// The state of a connection.
pub(crate) enum Link {
    Up(Socket),
    /// An attempt to connect is running.
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
    /// The number of attempts to open it.
    pub(crate) attempt: u32,
    /// Failed attempts and connections since the last frame.
    pub(crate) losses: u32,
    /// Whether it is flushed next.
    pub(crate) is_dirty: bool,
    /// Whether the poller watches for a writable socket.
    pub(crate) wants_room: bool,
    /// Whether the socket is full.
    pub(crate) is_full: bool,
    /// Whether a client gave up while it was down.
    pub(crate) is_doubted: bool,
    /// Unsent bytes at the last count.
    pub(crate) backlog: usize,
    /// Whether the server sent a frame without a request.
    pub(crate) unasked: bool,
    /// The bytes of an incomplete frame, and the state of its scan.
    pub(crate) held: Vec<u8>,
    pub(crate) scan: P::Scan,
    pub(crate) exchanges: P::Exchanges,
    pub(crate) output: Output,
}

impl<P: Protocol> Connection<P> {
    /// Wraps an open socket; without one, the connection is opened on first use.
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

    /// Begins an exchange; `put` appends its bytes. After a failure the connection is unusable.
    #[inline]
    pub(crate) fn enter<R>(
        &mut self,
        put: impl FnOnce(&mut P::Exchanges, &mut Vec<u8>) -> R,
    ) -> Result<R, Failure> {
        if self.unasked {
            return Err(unexpected_frame());
        }
        if self.exchanges.late() > LATE_MAX {
            let text = format!("more than {LATE_MAX} replies of the server are late");
            return Err(Failure::new(Outcome::Connection, text));
        }
        let Self { exchanges, output, .. } = self;
        Ok(output.put(|bytes| (put(exchanges, bytes), exchanges.entered())))
    }

    /// Sends the output once. Returns whether a rest must wait for the socket.
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

    /// The pause before the next attempt; none after a connection that worked.
    pub(crate) fn pause_ns(&self, longest: Duration) -> u64 {
        match self.losses {
            0 | 1 => 0,
            losses => (PAUSE_NS << (losses - 2).min(30)).min(longest.as_nanos() as u64),
        }
    }

    /// Closes the connection and passes the tickets of its exchanges to `tell`.
    pub(crate) fn close(&mut self, tell: impl FnMut(Ticket)) {
        self.exchanges.end(tell);
        let exchanges = std::mem::take(&mut self.exchanges);
        let losses = self.losses.saturating_add(1);
        let (attempt, is_dirty) = (self.attempt, self.is_dirty);
        *self = Self { losses, attempt, is_dirty, exchanges, ..Self::new(None, self.node) };
    }
}

/// The failure of a connection with an unexpected frame.
pub(crate) fn unexpected_frame() -> Failure {
    Failure::new(Outcome::Protocol, "the server sent a reply without a request")
}
