//! Failures of operations and connections, with their outcomes.

use std::fmt::Display;
use std::io;

use kvmark_driver::OpenError;
use kvmark_plan::Outcome;
use kvmark_wire::{memcached, resp};

/// Length limit of a server's message.
const MESSAGE_MAX: usize = 200;

/// Why an operation failed, or a connection couldn't be made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Failure {
    /// The class of the failure.
    pub outcome: Outcome,
    /// A sentence without credentials.
    pub text: String,
}

impl Failure {
    /// Creates a failure of this class with this reason.
    pub fn new(outcome: Outcome, text: impl Into<String>) -> Self {
        Self { outcome, text: text.into() }
    }

    /// The server can't be reached.
    pub fn unreachable(error: &io::Error) -> Self {
        Self::new(Outcome::Connection, format!("it can't be reached ({error})"))
    }

    /// The connection broke.
    pub fn broken(error: &io::Error) -> Self {
        Self::new(Outcome::Connection, format!("the connection failed ({error})"))
    }

    /// The server closed the connection.
    pub fn closed(in_reply: bool) -> Self {
        let place = if in_reply { " in the middle of a reply" } else { "" };
        Self::new(Outcome::Connection, format!("the server closed the connection{place}"))
    }

    /// The server answered with this error, which is shortened, and `advice` follows.
    pub fn answered(outcome: Outcome, error: &[u8], advice: &str) -> Self {
        let text: String = String::from_utf8_lossy(error).chars().take(MESSAGE_MAX).collect();
        Self::new(outcome, format!("the server answered: {text}{advice}"))
    }

    /// The server's reply has a type that the command never returns.
    pub fn unexpected_reply(command: &str) -> Self {
        Self::new(Outcome::Protocol, format!("the server's reply to {command} has the wrong type"))
    }

    /// Whether the connection is unusable because replies can't be assigned to requests.
    pub fn ends_connection(&self) -> bool {
        matches!(self.outcome, Outcome::Protocol | Outcome::Connection)
    }

    /// Converts it into the reason why the system can't be opened.
    pub fn at(&self, address: impl Display) -> OpenError {
        OpenError::System(format!("can't use the server at {address}: {}", self.text))
    }
}

impl From<resp::Garbage> for Failure {
    fn from(garbage: resp::Garbage) -> Self {
        Self::new(Outcome::Protocol, garbage.to_string())
    }
}

impl From<memcached::Garbage> for Failure {
    fn from(garbage: memcached::Garbage) -> Self {
        Self::new(Outcome::Protocol, garbage.to_string())
    }
}
