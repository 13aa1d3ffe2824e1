//! The interfaces of a protocol: how it opens connections and matches replies to requests.

use std::fmt::{Debug, Display};
use std::time::Duration;

use kvmark_driver::Ticket;

use super::stream::Stream;
use crate::failure::Failure;
use crate::timers::Deadline;

/// The ticket of an exchange that was given up.
pub const ABANDONED: Ticket = u32::MAX;

/// A protocol with the settings of its connections.
pub trait Protocol: Send + Sync + 'static {
    /// The address of a server.
    type Target: Clone + Debug + Display + PartialEq + Send + Sync + 'static;
    /// The exchanges of one connection.
    type Exchanges: Exchanges;
    /// The state of the scan of an incomplete frame.
    type Scan: Default;

    /// Whether a lost connection is reopened without a request.
    const REOPENS: bool;

    /// Opens a connection that is ready for requests: connects, encrypts, logs in.
    ///
    /// # Errors
    /// One of these failed, or the deadline passed.
    fn dial(&self, target: &Self::Target, deadline: Deadline) -> Result<Stream, Failure>;

    /// Limit on the time that [`Protocol::dial`] takes.
    fn connect_timeout(&self) -> Duration;

    /// Longest pause between two attempts to open a connection.
    fn reconnect_max(&self) -> Duration;

    /// Continues the scan of a frame, which `bytes` begin with. Returns its length, at least 1,
    /// once it is complete. Another call for a complete frame returns the same.
    ///
    /// # Errors
    /// The failure that ends the connection, if the bytes don't follow the protocol.
    fn scan(scan: &mut Self::Scan, bytes: &[u8]) -> Result<Option<usize>, Failure>;

    /// Whether a frame with this first byte is expected. An unexpected frame makes the connection
    /// unusable because it would be assigned to the next request.
    #[inline]
    fn may_come(exchanges: &Self::Exchanges, _first: u8) -> bool {
        exchanges.awaits_frame()
    }
}

/// The exchanges of one connection. An abandoned exchange stays until its reply arrives, with the
/// ticket [`ABANDONED`], unless its request was never sent.
pub trait Exchanges: Default {
    /// The key of an exchange.
    type Key: Copy;

    /// The number of exchanges so far, which is the sequence number of the newest.
    fn entered(&self) -> u64;

    /// Gives up an exchange. Returns its sequence number, unless it was abandoned before.
    fn give_up(&mut self, key: Self::Key) -> Option<u64>;

    /// Ends an abandoned exchange whose request won't be sent.
    fn withdraw(&mut self, key: Self::Key);

    /// Marks all exchanges as sent and passes the tickets of new ones to `tell`.
    fn fresh(&mut self, tell: impl FnMut(Ticket));

    /// Whether there is no exchange.
    fn is_idle(&self) -> bool;

    /// Whether the next frame is expected. A frame that names its exchange always is.
    #[inline]
    fn awaits_frame(&self) -> bool {
        true
    }

    /// The number of abandoned exchanges without a reply.
    fn late(&self) -> u32;

    /// Whether late replies may have been assigned to other requests.
    fn is_in_doubt(&self) -> bool {
        false
    }

    /// Ends all exchanges and passes their tickets to `tell`.
    fn end(&mut self, tell: impl FnMut(Ticket));
}
