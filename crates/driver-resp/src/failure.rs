//! Error replies as failures of an operation.

pub(crate) use kvmark_driver_server::Failure;

use kvmark_wire::resp::outcome_of;

/// The error kinds of a login.
const LOGIN_ERRORS: [&str; 9] =
    ["WRONGPASS", "NOAUTH", "NOPERM", "NOPROTO", "ERR", "LOADING", "MASTERDOWN", "BUSY", "DENIED"];

/// The failure of an error reply.
pub(crate) fn refused(message: &[u8]) -> Failure {
    let is_redirection = message.starts_with(b"MOVED ") || message.starts_with(b"ASK ");
    let advice = if is_redirection { ": set the option cluster to true" } else { "" };
    Failure::answered(outcome_of(message), message, advice)
}

/// The failure of a login. Old servers repeat unknown words, so only the error kind is reported.
pub(crate) fn refused_login(message: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(message);
    let first = text.split(' ').next().unwrap_or_default();
    let kind = LOGIN_ERRORS.iter().find(|kind| **kind == first).unwrap_or(&"an error");
    Failure::new(outcome_of(message), format!("the server answered the login with {kind}"))
}

/// Whether another server of the cluster has the key.
pub(crate) fn is_moved(failure: &Failure) -> bool {
    failure.text.starts_with("the server answered: MOVED ")
}
