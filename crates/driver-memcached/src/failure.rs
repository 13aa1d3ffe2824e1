//! Error replies as failures of an operation.

pub(crate) use kvmark_driver_server::Failure;
use kvmark_plan::Outcome;

use crate::json::Damaged;
use kvmark_wire::memcached::outcome_of;

/// The failure of an error reply.
pub(crate) fn refused(line: &[u8]) -> Failure {
    let is_login = line == b"CLIENT_ERROR unauthenticated";
    let advice = if is_login { ": give username and password_env or password_file" } else { "" };
    Failure::answered(outcome_of(line), line, advice)
}

/// The failure of a login. The server's message might repeat the password.
pub(crate) fn refused_login(line: &[u8]) -> Failure {
    let kind = String::from_utf8_lossy(line.split(|byte| *byte == b' ').next().unwrap_or(line));
    Failure::new(Outcome::Refused, format!("the server answered the login with {kind}"))
}

/// The failure of a reply with an unrequested record.
pub(crate) fn unasked(key: &[u8]) -> Failure {
    let key = String::from_utf8_lossy(key);
    let text = format!("the server answered a get with the unrequested key '{key}'");
    Failure::new(Outcome::Protocol, text)
}

/// The failure of a record that doesn't belong to the dataset.
pub(crate) fn damaged(key: &[u8], why: Damaged) -> Failure {
    let key = String::from_utf8_lossy(key);
    Failure::new(Outcome::Storage, format!("the record '{key}' can't be decoded: {why}"))
}
