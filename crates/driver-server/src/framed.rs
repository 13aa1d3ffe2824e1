//! A session's connections to its servers, for every protocol that exchanges frames over a stream.
//!
//! A [`Protocol`] says how a connection is opened and where a frame ends, and its [`Exchanges`]
//! what is under way on one: replies are matched in order ([`Ordered`]) or by number
//! ([`Numbered`]).
//! [`Framed`] holds all connections of a session, gathers what is to be sent, and has lost ones
//! opened again. A session is their [`Handler`] and leaves its turns to [`turn`]: what is readable
//! is read and stamped before the first frame of it is handed over.
//!
//! A connection that fails ends every exchange on it at once. It is opened again when the next
//! request needs it, or by itself where [`Protocol::REOPENS`] says so; a request that comes while
//! it's down waits for the attempt under way, and ends with it if it fails. Attempts are spaced by
//! a pause that doubles up to [`Protocol::reconnect_max`]. One that ends while nobody waits for it
//! costs the next request the time to open it, and no failure.
//!
//! A client that gave up leaves its exchange behind, and its late reply is passed over; a request
//! of which nothing was sent by then is withdrawn. What waits to be sent is bounded: a session with
//! too much of it has no room, and is asked for no more until the connections have taken some.

mod ask;
mod connection;
mod connections;
mod connector;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod in_flight;
mod inbox;
mod lines;
mod numbered;
mod ordered;
mod output;
mod poller;
mod protocol;
mod socket;
mod stream;
mod turn;

pub use ask::ask;
pub use connections::{Framed, Lost};
pub use in_flight::{InFlight, InFlightOperation, Progress};
pub use lines::Lines;
pub use numbered::Numbered;
pub use ordered::{Awaited, Ordered};
pub use protocol::{Exchanges, NOBODY, Protocol, in_time};
pub use stream::{KEEPALIVE, SILENCE, Stream};
pub use turn::{Handler, turn};
