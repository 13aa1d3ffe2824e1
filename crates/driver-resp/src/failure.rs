//! What a server's errors mean for an operation.

pub(crate) use kvmark_driver_server::Failure;
use kvmark_plan::Outcome;

use crate::resp::Garbage;

/// Characters of a server's message that are kept.
const MESSAGE_MAX: usize = 200;
/// Kinds of errors that a login can end with.
const LOGIN_ERRORS: [&str; 9] =
    ["WRONGPASS", "NOAUTH", "NOPERM", "NOPROTO", "ERR", "LOADING", "MASTERDOWN", "BUSY", "DENIED"];

/// The server said no.
pub(crate) fn said(message: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(message);
    let text: String = text.chars().take(MESSAGE_MAX).collect();
    let advice = if is_redirection(&text) { ": set the option cluster to true" } else { "" };
    Failure::new(class(&text), format!("the server answered: {text}{advice}"))
}

/// The server said no to a login. Old ones repeat what they don't understand, so only the kind of
/// the error is told.
pub(crate) fn refused_login(message: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(message);
    let said = text.split(' ').next().unwrap_or_default();
    let kind = LOGIN_ERRORS.iter().find(|kind| **kind == said).unwrap_or(&"an error");
    Failure::new(class(&text), format!("the server answered the login with {kind}"))
}

/// Whether another server of the cluster has the key.
pub(crate) fn is_moved(failure: &Failure) -> bool {
    failure.text.starts_with("the server answered: MOVED ")
}

/// Whether the user that logged in may not say this command, or the service offers it to nobody.
pub(crate) fn is_forbidden(failure: &Failure) -> bool {
    ["NOPERM ", "ERR unknown command"]
        .iter()
        .any(|said| failure.text.starts_with(&format!("the server answered: {said}")))
}

/// The server answered something else than the command's reply.
pub(crate) fn impossible(command: &str) -> Failure {
    let text = format!("the server's answer to {command} is none that {command} can have");
    Failure::new(Outcome::Protocol, text)
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
