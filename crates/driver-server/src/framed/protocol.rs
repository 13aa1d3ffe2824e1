//! What a protocol says of its connections, and what is under way on one.

use std::fmt::{Debug, Display};
use std::time::Duration;

use kvmark_driver::Ticket;
use kvmark_plan::Outcome;

use super::stream::Stream;
use crate::failure::Failure;
use crate::timers::timeout;

/// Whose exchange it is when nobody waits for the reply any more.
pub const NOBODY: Ticket = u32::MAX;

/// A protocol, with what its connections have to know.
pub trait Protocol: Send + Sync + 'static {
    /// Where a server is.
    type Target: Clone + Debug + Display + PartialEq + Send + Sync + 'static;
    /// What is under way on one connection.
    type Exchanges: Exchanges;
    /// How far a frame that isn't whole was looked at; the default is its beginning.
    type Scan: Default;

    /// Whether a lost connection is opened again though nobody waits for it.
    const REOPENS: bool;

    /// Opens a connection that is ready for requests: reaches the server, encrypts, logs in. Takes
    /// as long as it takes.
    fn dial(&self, target: &Self::Target) -> impl Future<Output = Result<Stream, Failure>> + Send;

    /// Limit on the time that [`Protocol::dial`] takes.
    fn connect_timeout(&self) -> Duration;

    /// Longest pause between two attempts to open a connection.
    fn reconnect_max(&self) -> Duration;

    /// Goes on looking for the end of a frame; its length when it is whole, at least 1. `bytes`
    /// begin with the frame. Asked again of a frame that was whole, it says the same.
    ///
    /// # Errors
    /// The failure that ends the connection, when the bytes aren't the protocol.
    fn scan(scan: &mut Self::Scan, bytes: &[u8]) -> Result<Option<usize>, Failure>;

    /// Whether a frame that begins with this byte may come, whatever it says. One that may not
    /// makes the connection useless: it would be taken for the answer to what is asked next.
    #[inline]
    fn may_come(_exchanges: &Self::Exchanges, _first: u8) -> bool {
        true
    }
}

/// What is under way on one connection. What was given up stays until its reply has come, as
/// [`NOBODY`]'s, unless its request was never sent.
pub trait Exchanges: Default {
    /// What a session knows an exchange by.
    type Key: Copy;

    /// How many were entered so far, which is the number of the newest.
    fn entered(&self) -> u64;

    /// Gives an exchange up; its number, where it was somebody's.
    fn give_up(&mut self, key: Self::Key) -> Option<u64>;

    /// Ends an exchange that was given up and will not be sent.
    fn withdraw(&mut self, key: Self::Key);

    /// Tells the tickets that came since this was last asked, which from now on are sent.
    fn fresh(&mut self, tell: impl FnMut(Ticket));

    /// Whether nothing is under way.
    fn is_idle(&self) -> bool;

    /// Exchanges given up whose reply is still owed.
    fn late(&self) -> u32;

    /// Whether replies were late for so long that they may be taken for those of other requests.
    fn is_in_doubt(&self) -> bool {
        false
    }

    /// Ends all there are, and tells whose they were.
    fn end(&mut self, tell: impl FnMut(Ticket));
}

/// Work that must be done within a limit on connecting.
///
/// # Errors
/// The work's own failure, or that there is no connection in time.
pub async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(limit, work).await.unwrap_or_else(|_| {
        let text = format!("no connection within {} ms", limit.as_millis());
        Err(Failure::new(Outcome::Connection, text))
    })
}
