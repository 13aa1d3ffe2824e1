//! The connections of a session, for every protocol that exchanges frames over a stream.
//!
//! A [`Protocol`] opens connections and finds the end of a frame. Its [`Exchanges`] match replies
//! to requests, in order ([`Ordered`]) or by number ([`Numbered`]). [`Framed`] owns the connections
//! of a session, buffers their output and reopens lost connections. The session is a [`Handler`]
//! and delegates its polls to [`poll`], which reads and stamps all readable connections before it
//! passes on the first frame. [`InFlight`] is the table of operations with ordered replies, and
//! [`RequestReplySession`] a whole session of such operations, with a protocol that a [`Server`]
//! defines.
//!
//! The failure of a connection ends all of its exchanges. The next request reopens the connection,
//! or it reopens by itself with [`Protocol::REOPENS`]. A request on a closed connection waits for
//! the current attempt and fails with it. The pause between attempts doubles up to
//! [`Protocol::reconnect_max`]. An idle connection that closes costs the next request the time to
//! reopen it, but no failure.
//!
//! When a client gives up, its exchange stays and the late reply is dropped; an unsent request is
//! withdrawn. Output is bounded: a session with too much of it accepts no request until the
//! connections have sent some.

mod connection;
mod connections;
mod connector;
pub mod fuzz;
mod in_flight;
mod inbox;
mod lines;
mod numbered;
mod ordered;
mod output;
mod poll;
mod poller;
mod protocol;
mod request_reply;
mod server;
mod socket;
mod stream;

pub use connections::{Framed, Lost};
pub use in_flight::{InFlight, InFlightOperation, Progress};
pub use lines::{Lines, ask};
pub use numbered::Numbered;
pub use ordered::{Ordered, OrderedExchange};
pub use poll::{Handler, poll};
pub use poller::{BELL, Poller};
pub use protocol::{ABANDONED, Exchanges, Protocol};
pub use request_reply::{RequestReply, RequestReplySession, Route};
pub use server::Server;
pub use socket::Socket;
pub use stream::{KEEPALIVE, SILENCE, Stream};
