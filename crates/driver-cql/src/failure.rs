//! Errors of nodes and of the `scylla` crate as failures with outcomes.
//!
//! Classification of ambiguous errors: a read or write that replicas failed (too many tombstones, a
//! corrupt table), a failed truncation and an internal error of a node are storage failures. A
//! conditional write with an unknown result is a timeout. A node that is starting is unavailable.

use kvmark_driver::OpenError;
pub(crate) use kvmark_driver_server::Failure;
use kvmark_plan::Outcome;
use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError,
    MetadataError, NewSessionError, PrepareError, RequestAttemptError, UseKeyspaceError,
};
use scylla_cql_core::frame::protocol_features::ProtocolFeatures;
use scylla_cql_core::frame::response::error::Error;

/// Length limit of a message.
const MESSAGE_MAX: usize = 300;

/// The result of a conditional write is unknown.
const CAS_WRITE_UNKNOWN: i32 = 0x1700;
/// The change log (CDC) is full.
const CDC_WRITE_FAILURE: i32 = 0x1600;

/// The failure of an unreadable or unexpected reply.
#[cold]
pub(crate) fn impossible(why: impl std::fmt::Display) -> Failure {
    Failure::new(Outcome::Protocol, shortened(&format!("the reply can't be read ({why})")))
}

/// The reason why the cluster can't be opened.
pub(crate) fn refused_at(hosts: &[String], why: impl std::fmt::Display) -> OpenError {
    OpenError::System(format!("can't use the cluster at {}: {why}", hosts.join(", ")))
}

/// The failure of a login that is missing.
pub(crate) fn missing_login() -> Failure {
    Failure::new(Outcome::Refused, "it wants a login: give username and password_env")
}

/// A message as one line of limited length.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MESSAGE_MAX).collect()
}

/// The error in the body of a reply.
#[cold]
pub(crate) fn db_error(mut body: &[u8]) -> Result<Error, Failure> {
    Error::deserialize(&ProtocolFeatures::default(), &mut body).map_err(impossible)
}

/// The failure of a node's error.
pub(crate) fn refused(error: &DbError, message: &str) -> Failure {
    let details = error.to_string();
    let text = if message.is_empty() {
        format!("a node answered: {details}")
    } else {
        format!("a node answered: {message} ({details})")
    };
    Failure::new(class(error), shortened(&text))
}

/// The outcome of a node's error.
fn class(error: &DbError) -> Outcome {
    match error {
        DbError::Unavailable { .. } | DbError::IsBootstrapping => Outcome::Unavailable,
        DbError::Overloaded | DbError::RateLimitReached { .. } => Outcome::Overloaded,
        DbError::ReadTimeout { .. }
        | DbError::WriteTimeout { .. }
        | DbError::Other(CAS_WRITE_UNKNOWN) => Outcome::Timeout,
        DbError::TruncateError
        | DbError::ReadFailure { .. }
        | DbError::WriteFailure { .. }
        | DbError::ServerError
        | DbError::Other(CDC_WRITE_FAILURE) => Outcome::Storage,
        DbError::ProtocolError => Outcome::Protocol,
        _ => Outcome::Refused,
    }
}

/// The failure of an error of the `scylla` crate, without credentials.
pub(crate) fn failure_of(error: impl Into<ExecutionError>) -> Failure {
    match error.into() {
        ExecutionError::ConnectionPoolError(error)
        | ExecutionError::PrepareError(PrepareError::ConnectionPoolError(error)) => match error {
            ConnectionPoolError::Broken { last_connection_error } => {
                failure_to_connect(&last_connection_error)
            }
            other => other_failure(&other),
        },
        ExecutionError::LastAttemptError(error)
        | ExecutionError::PrepareError(PrepareError::AllAttemptsFailed { first_attempt: error })
        | ExecutionError::UseKeyspaceError(UseKeyspaceError::RequestError(error)) => match error {
            RequestAttemptError::DbError(error, message) => refused(&error, &message),
            other => other_failure(&other),
        },
        ExecutionError::PrepareError(other) => other_failure(&other),
        ExecutionError::UseKeyspaceError(other) => other_failure(&other),
        other => other_failure(&other),
    }
}

fn failure_to_connect(error: &ConnectionError) -> Failure {
    use ConnectionSetupRequestErrorKind::{DbError as Refusal, MissingAuthentication};
    match error {
        ConnectionError::ConnectTimeout => {
            let text = "it can't be reached within connect_timeout_ms";
            Failure::new(Outcome::Connection, text)
        }
        ConnectionError::UseKeyspaceError(error) => failure_of(error.clone()),
        ConnectionError::ConnectionSetupRequestError(error) => match error.get_error() {
            // The node's message might repeat a login.
            Refusal(error @ DbError::AuthenticationError, _) => refused(error, ""),
            Refusal(error, message) => refused(error, message),
            MissingAuthentication => missing_login(),
            other => other_failure(other),
        },
        other => {
            let Failure { outcome, text } = other_failure(other);
            let advice = kvmark_driver_server::advice(&text);
            Failure::new(outcome, format!("{text}{advice}"))
        }
    }
}

/// The failure to open a session of the `scylla` crate.
pub(crate) fn failure_to_open(error: NewSessionError) -> Failure {
    match error {
        NewSessionError::MetadataError(MetadataError::ConnectionPoolError(error)) => {
            failure_of(error)
        }
        NewSessionError::UseKeyspaceError(error) => failure_of(error),
        NewSessionError::FailedToResolveAnyHostname(_) => {
            Failure::new(Outcome::Connection, "no address is known for its name")
        }
        other => other_failure(&other),
    }
}

/// The failure of any other error. Its outcome is never reported, because these errors occur only
/// before the clock starts.
fn other_failure(error: &dyn std::error::Error) -> Failure {
    Failure::new(Outcome::Connection, shortened(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use scylla::errors::WriteType;
    use scylla::statement::Consistency;

    use super::*;

    #[test]
    fn each_error_of_a_node_has_its_outcome() {
        let consistency = Consistency::Two;
        let unavailable = DbError::Unavailable { consistency, required: 2, alive: 1 };
        let timeout = DbError::WriteTimeout {
            consistency,
            received: 1,
            required: 2,
            write_type: WriteType::Simple,
        };
        let failure = DbError::ReadFailure {
            consistency,
            received: 1,
            required: 2,
            numfailures: 1,
            data_present: false,
        };
        let cases = [
            (unavailable, Outcome::Unavailable),
            (DbError::IsBootstrapping, Outcome::Unavailable),
            (DbError::Overloaded, Outcome::Overloaded),
            (timeout, Outcome::Timeout),
            (DbError::Other(CAS_WRITE_UNKNOWN), Outcome::Timeout),
            (failure, Outcome::Storage),
            (DbError::TruncateError, Outcome::Storage),
            (DbError::ServerError, Outcome::Storage),
            (DbError::ProtocolError, Outcome::Protocol),
            (DbError::SyntaxError, Outcome::Refused),
            (DbError::Invalid, Outcome::Refused),
            (DbError::Unauthorized, Outcome::Refused),
            (DbError::Other(0x7777), Outcome::Refused),
        ];
        for (error, outcome) in cases {
            assert_eq!(class(&error), outcome, "{error}");
        }
    }

    #[test]
    fn the_message_of_a_node_comes_first_and_in_one_line() {
        let error = RequestAttemptError::DbError(DbError::Overloaded, "too\n   much".to_owned());
        let text = failure_of(error).text;
        assert!(text.starts_with("a node answered: too much (The request cannot"), "{text}");
    }
}
