//! Errors of the server as failures of an operation.

pub(crate) use kvmark_driver_server::Failure;
use kvmark_plan::Outcome;

use crate::bson::{Document, Value};

/// The failure of an error.
#[cold]
pub(crate) fn refused(error: Document<'_>) -> Failure {
    let member = |name| error.find(name).ok().flatten();
    let code = member("code").and_then(Value::number);
    let text = member("errmsg").and_then(Value::bytes).unwrap_or(b"an error without a text");
    let name = match (member("codeName").and_then(Value::bytes), code) {
        (Some(name), _) => String::from_utf8_lossy(name).into_owned(),
        (None, Some(code)) => format!("code {code}"),
        (None, None) => "no code".to_owned(),
    };
    let outcome = class(code.unwrap_or_default());
    Failure::answered(outcome, text, &format!(" ({name})"))
}

/// The outcome of an error by its code. Source: MongoDB's `error_codes.yml`.
///
/// A conflict of writes is unavailable, because the same request may succeed next. So are the
/// errors of a server that isn't the primary or loses its role.
const fn class(code: i64) -> Outcome {
    match code {
        // Limits of a lock, an operation, a network and a write concern.
        24 | 50 | 64 | 89 | 202 | 262 => Outcome::Timeout,
        // Unreachable parts of a cluster; not the primary; interrupted; conflicts.
        6 | 7 | 9001 | 91 | 112 | 133 | 134 | 189 | 10107 | 11600 | 11602 | 13435 | 13436 => {
            Outcome::Unavailable
        }
        // Memory and rates.
        146 | 365 | 462 => Outcome::Overloaded,
        // An internal and an unknown error, files and disk.
        1 | 8 | 39 | 14031 => Outcome::Storage,
        _ => Outcome::Refused,
    }
}

/// The failure of bytes that don't follow the protocol.
#[cold]
pub(crate) fn unreadable() -> Failure {
    Failure::new(Outcome::Protocol, "the server's bytes aren't a reply in MongoDB's protocol")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{Answer, command, reply};

    #[test]
    fn each_error_has_its_outcome_and_the_servers_sentence() {
        let cases = [
            (json!({ "ok": 1.0, "n": 1 }), None),
            (json!({ "ok": true, "n": 1 }), None),
            (json!({ "ok": 0, "code": 50, "errmsg": "e" }), Some((Outcome::Timeout, "code 50"))),
            (
                json!({ "ok": 0, "code": 10107, "codeName": "NotWritablePrimary", "errmsg": "e" }),
                Some((Outcome::Unavailable, "NotWritablePrimary")),
            ),
            (json!({ "ok": 0, "code": 462, "errmsg": "e" }), Some((Outcome::Overloaded, "462"))),
            (json!({ "ok": 0, "code": 14031, "errmsg": "e" }), Some((Outcome::Storage, "14031"))),
            (json!({ "ok": 0, "code": 13, "errmsg": "e" }), Some((Outcome::Refused, "13"))),
            (json!({ "ok": 0 }), Some((Outcome::Refused, "no code"))),
            (
                json!({ "ok": 1, "writeErrors": [{ "code": 112, "errmsg": "e" }] }),
                Some((Outcome::Unavailable, "112")),
            ),
            (
                json!({ "ok": 1, "writeConcernError": { "code": 64, "errmsg": "e" } }),
                Some((Outcome::Timeout, "64")),
            ),
            (json!({ "ok": 1, "writeErrors": [] }), Some((Outcome::Protocol, "bytes"))),
        ];
        for (document, expected) in cases {
            let frame = command("ok", &document, "d");
            let answer = Answer::read(reply(&frame).unwrap().1);
            let is_applied = answer.as_ref().is_ok_and(|answer| answer.unconfirmed.is_some());
            assert_eq!(is_applied, document.get("writeConcernError").is_some());
            let failure = answer.map_or_else(Some, |answer| answer.unconfirmed);
            assert_eq!(failure.is_some(), expected.is_some(), "{document}");
            if let (Some(failure), Some((outcome, text))) = (failure, expected) {
                assert_eq!(failure.outcome, outcome, "{document}");
                assert!(failure.text.contains(text), "{document}");
            }
        }
    }
}
