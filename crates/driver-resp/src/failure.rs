//! What goes wrong with an operation, and which outcome it is.

use std::io;

use kvmark_driver::OpenError;
use kvmark_plan::Outcome;

use crate::resp::Garbage;

/// Characters of a server's message that are kept.
const MESSAGE_MAX: usize = 200;

/// Why an operation failed, or a connection couldn't be made.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    /// One sentence without credentials.
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(outcome: Outcome, text: impl Into<String>) -> Self {
        Self { outcome, text: text.into() }
    }

    /// The server said no.
    pub(crate) fn said(message: &[u8]) -> Self {
        let text = String::from_utf8_lossy(message);
        let text: String = text.chars().take(MESSAGE_MAX).collect();
        let advice = if is_redirection(&text) { ": set the option cluster to true" } else { "" };
        Self::new(class(&text), format!("the server answered: {text}{advice}"))
    }

    /// Whether another server of the cluster has the key.
    pub(crate) fn is_moved(&self) -> bool {
        self.text.starts_with("the server answered: MOVED ")
    }

    /// The server answered something else than the command's reply.
    pub(crate) fn impossible(command: &str) -> Self {
        let text = format!("the server's answer to {command} is none that {command} can have");
        Self::new(Outcome::Protocol, text)
    }

    /// The connection broke.
    pub(crate) fn broken(error: &io::Error) -> Self {
        Self::new(Outcome::Connection, format!("the connection failed ({error})"))
    }

    /// The server closed the connection.
    pub(crate) fn closed(in_reply: bool) -> Self {
        let place = if in_reply { " in the middle of a reply" } else { "" };
        Self::new(Outcome::Connection, format!("the server closed the connection{place}"))
    }

    /// Whether the connection can't be used any more, because replies can't be told apart.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(self.outcome, Outcome::Protocol | Outcome::Connection)
    }

    /// As the reason why the system can't be opened.
    pub(crate) fn at(&self, address: impl std::fmt::Display) -> OpenError {
        OpenError::System(format!("can't use the server at {address}: {}", self.text))
    }
}

impl From<Garbage> for Failure {
    fn from(garbage: Garbage) -> Self {
        Self::new(Outcome::Protocol, garbage.to_string())
    }
}

fn is_redirection(message: &str) -> bool {
    message.starts_with("MOVED ") || message.starts_with("ASK ")
}

/// The outcome that an error message stands for, by its first word.
fn class(message: &str) -> Outcome {
    match message.split(' ').next().unwrap_or_default() {
        "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "READONLY" | "TRYAGAIN" | "NOREPLICAS" => {
            Outcome::Unavailable
        }
        "OOM" | "BUSY" => Outcome::Overloaded,
        "MISCONF" => Outcome::Storage,
        "ERR" if message.starts_with("ERR max number of clients") => Outcome::Overloaded,
        _ => Outcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_of_a_server_has_its_outcome() {
        let cases = [
            ("LOADING Redis is loading the dataset in memory", Outcome::Unavailable),
            ("MASTERDOWN Link with MASTER is down", Outcome::Unavailable),
            ("CLUSTERDOWN The cluster is down", Outcome::Unavailable),
            ("READONLY You can't write against a read only replica.", Outcome::Unavailable),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Outcome::Unavailable),
            ("OOM command not allowed when used memory > 'maxmemory'.", Outcome::Overloaded),
            ("BUSY Redis is busy running a script.", Outcome::Overloaded),
            ("ERR max number of clients reached", Outcome::Overloaded),
            ("MISCONF Redis is configured to save RDB snapshots", Outcome::Storage),
            ("NOAUTH Authentication required.", Outcome::Refused),
            ("WRONGPASS invalid username-password pair", Outcome::Refused),
            ("NOPERM this user has no permissions", Outcome::Refused),
            ("WRONGTYPE Operation against a key", Outcome::Refused),
            ("ERR unknown command", Outcome::Refused),
            ("CROSSSLOT Keys in request don't hash to the same slot", Outcome::Refused),
            ("MOVED 3999 127.0.0.1:6381", Outcome::Refused),
        ];
        for (message, outcome) in cases {
            assert_eq!(class(message), outcome, "{message}");
        }
    }
}
