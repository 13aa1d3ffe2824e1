//! Errors of the server as failures of an operation.

pub(crate) use kvmark_driver_server::Failure;
use kvmark_plan::Outcome;

/// The field of this kind in an error.
fn field(body: &[u8], kind: u8) -> &[u8] {
    let mut fields = body.split(|byte| *byte == 0);
    fields.find_map(|field| field.strip_prefix(&[kind])).unwrap_or_default()
}

/// Whether an error ends the connection.
pub(crate) fn is_fatal(body: &[u8]) -> bool {
    // Before version 9.6 the word is in the server's language only.
    let severity = Some(field(body, b'V')).filter(|word| !word.is_empty());
    matches!(severity.unwrap_or_else(|| field(body, b'S')), b"FATAL" | b"PANIC")
}

/// The failure of an error.
#[cold]
pub(crate) fn refused(body: &[u8]) -> Failure {
    let code = String::from_utf8_lossy(field(body, b'C'));
    Failure::answered(class(&code), field(body, b'M'), &format!(" ({code})"))
}

/// The failure of an operation, which closes the connection if the server does, and only then:
/// triggers may raise errors with any code.
#[cold]
pub(crate) fn ended(body: &[u8]) -> Failure {
    let Failure { outcome, text } = refused(body);
    let outcome = match (is_fatal(body), outcome) {
        (true, _) => Outcome::Connection,
        (false, Outcome::Connection) => Outcome::Unavailable,
        (false, outcome) => outcome,
    };
    Failure::new(outcome, text)
}

/// The failure of a login, without the user's name.
#[cold]
pub(crate) fn refused_login(body: &[u8], username: &str) -> Failure {
    let Failure { outcome, text } = refused(body);
    Failure::new(outcome, text.replace(&format!("\"{username}\""), "***"))
}

/// The outcome of an error by its SQLSTATE.
///
/// A conflict of transactions is unavailable, because the same request may succeed next; an
/// internal error is one of the storage.
fn class(code: &str) -> Outcome {
    match (code.get(..2).unwrap_or_default(), code) {
        ("08", _) | (_, "57P01" | "57P02" | "57P05") => Outcome::Connection,
        (_, "57014" | "55P03" | "25P03" | "25P04") => Outcome::Timeout,
        ("40", _) | (_, "57P03" | "25006") => Outcome::Unavailable,
        ("58" | "XX", _) | (_, "53100") => Outcome::Storage,
        ("53", _) => Outcome::Overloaded,
        _ => Outcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sqlstate_has_its_outcome() {
        let cases = [
            ("57P01", Outcome::Connection),
            ("08006", Outcome::Connection),
            ("57014", Outcome::Timeout),
            ("55P03", Outcome::Timeout),
            ("40001", Outcome::Unavailable),
            ("40P01", Outcome::Unavailable),
            ("57P03", Outcome::Unavailable),
            ("25006", Outcome::Unavailable),
            ("53300", Outcome::Overloaded),
            ("53100", Outcome::Storage),
            ("XX001", Outcome::Storage),
            ("42P01", Outcome::Refused),
            ("28P01", Outcome::Refused),
            ("", Outcome::Refused),
        ];
        for (code, outcome) in cases {
            assert_eq!(class(code), outcome, "{code}");
        }
    }

    #[test]
    fn an_error_is_named_with_its_sqlstate_and_without_the_user() {
        let body = b"SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for \"ann\"\0\0";
        let text = "the server answered: password authentication failed for *** (28P01)";
        assert_eq!(refused_login(body, "ann").text, text);
        assert_eq!((is_fatal(body), ended(body).outcome), (true, Outcome::Connection));
        assert!(!is_fatal(b"SFATAL\0VERROR\0\0") && is_fatal(b"SPANIC\0\0"));
        let raised = ended(b"SERROR\0VERROR\0C08001\0Mno link\0\0");
        assert_eq!(raised.outcome, Outcome::Unavailable);
    }
}
