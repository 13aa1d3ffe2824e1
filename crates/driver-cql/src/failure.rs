//! What goes wrong with an operation, and which outcome it is.
//!
//! Where the protocol leaves it open: a read or write that replicas failed (too many tombstones, a
//! broken table), a truncation that failed and an error inside a node are the storage's; a
//! conditional write of which nobody knows whether it was done is a timeout; a node that is
//! starting up is unavailable.

use kvmark_driver::OpenError;
use kvmark_plan::Outcome;
use scylla::errors::{
    BrokenConnectionError, BrokenConnectionErrorKind, ConnectionError, ConnectionPoolError,
    ConnectionSetupRequestErrorKind, DbError, ExecutionError, FrameHeaderParseError, MetadataError,
    NewSessionError, PrepareError, RequestAttemptError, UseKeyspaceError,
};

/// Characters of a message that are kept.
const MESSAGE_MAX: usize = 300;

/// Nobody knows whether a conditional write was done.
const CAS_WRITE_UNKNOWN: i32 = 0x1700;
/// The log of changes is full.
const CDC_WRITE_FAILURE: i32 = 0x1600;

/// Why an operation failed, or a system couldn't be opened.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    /// One clause without credentials.
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(outcome: Outcome, text: impl Into<String>) -> Self {
        Self { outcome, text: text.into() }
    }

    /// The answer isn't one that this request can have.
    pub(crate) fn impossible(why: impl std::fmt::Display) -> Self {
        Self::new(Outcome::Protocol, shortened(&format!("the answer can't be read ({why})")))
    }

    /// As the reason why the system can't be opened.
    pub(crate) fn at(&self, hosts: &[String]) -> OpenError {
        let hosts = hosts.join(", ");
        OpenError::System(format!("can't use the cluster at {hosts}: {}", self.text))
    }
}

/// The first characters, in one line.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MESSAGE_MAX).collect()
}

/// A node said no.
fn said(error: &DbError, message: &str) -> Failure {
    let details = error.to_string();
    let text = if message.is_empty() {
        format!("a node answered: {details}")
    } else {
        format!("a node answered: {message} ({details})")
    };
    Failure::new(class(error), shortened(&text))
}

/// The outcome that a node's error stands for.
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

impl From<ExecutionError> for Failure {
    fn from(error: ExecutionError) -> Self {
        match &error {
            ExecutionError::LastAttemptError(error) => Self::from(error),
            ExecutionError::ConnectionPoolError(error) => Self::from(error),
            ExecutionError::PrepareError(error) => Self::from(error),
            ExecutionError::RequestTimeout(limit) => {
                let limit_ms = limit.as_millis();
                let text = format!("no answer within request_timeout_ms ({limit_ms})");
                Self::new(Outcome::Timeout, text)
            }
            ExecutionError::BadQuery(error) => Self::new(Outcome::Refused, chain(error)),
            ExecutionError::EmptyPlan => {
                Self::new(Outcome::Connection, "no node that may be asked is known")
            }
            ExecutionError::UseKeyspaceError(error) => Self::from(error),
            other => Self::new(Outcome::Unavailable, chain(other)),
        }
    }
}

impl From<&RequestAttemptError> for Failure {
    fn from(error: &RequestAttemptError) -> Self {
        match error {
            RequestAttemptError::DbError(error, message) => said(error, message),
            RequestAttemptError::BrokenConnectionError(error) => Self::from(error),
            RequestAttemptError::SerializationError(_)
            | RequestAttemptError::CqlRequestSerialization(_) => {
                Self::new(Outcome::Refused, chain(error))
            }
            RequestAttemptError::UnableToAllocStreamId => {
                let text = "a connection has as many requests in flight as it can have: \
                            give more connections_per_node";
                Self::new(Outcome::Connection, text)
            }
            _ => Self::new(Outcome::Protocol, chain(error)),
        }
    }
}

impl From<&BrokenConnectionError> for Failure {
    fn from(error: &BrokenConnectionError) -> Self {
        let garbage = match error.downcast_ref::<BrokenConnectionErrorKind>() {
            Some(BrokenConnectionErrorKind::FrameHeaderParseError(error)) => !matches!(
                error,
                FrameHeaderParseError::HeaderIoError(_)
                    | FrameHeaderParseError::BodyChunkIoError(..)
                    | FrameHeaderParseError::ConnectionClosed(..)
            ),
            Some(
                BrokenConnectionErrorKind::UnexpectedStreamId(_)
                | BrokenConnectionErrorKind::CqlEventHandlingError(_),
            ) => true,
            _ => false,
        };
        let outcome = if garbage { Outcome::Protocol } else { Outcome::Connection };
        Self::new(outcome, chain(error))
    }
}

impl From<&ConnectionPoolError> for Failure {
    fn from(error: &ConnectionPoolError) -> Self {
        match error {
            ConnectionPoolError::Broken { last_connection_error } => {
                Self::from(last_connection_error)
            }
            other => Self::new(Outcome::Connection, chain(other)),
        }
    }
}

impl From<&ConnectionError> for Failure {
    fn from(error: &ConnectionError) -> Self {
        match error {
            ConnectionError::BrokenConnection(error) => Self::from(error),
            ConnectionError::ConnectTimeout => {
                let text = "it can't be reached within connect_timeout_ms";
                Self::new(Outcome::Connection, text)
            }
            ConnectionError::UseKeyspaceError(error) => Self::from(error),
            ConnectionError::ConnectionSetupRequestError(error) => match error.get_error() {
                ConnectionSetupRequestErrorKind::DbError(error, message) => said(error, message),
                ConnectionSetupRequestErrorKind::BrokenConnection(error) => Self::from(error),
                ConnectionSetupRequestErrorKind::MissingAuthentication => {
                    let text = "it wants a login: give username and password_env";
                    Self::new(Outcome::Refused, text)
                }
                other => Self::new(Outcome::Protocol, chain(other)),
            },
            other => Self::new(Outcome::Connection, chain(other)),
        }
    }
}

impl From<&UseKeyspaceError> for Failure {
    fn from(error: &UseKeyspaceError) -> Self {
        match error {
            UseKeyspaceError::RequestError(error) => Self::from(error),
            other => Self::new(Outcome::Refused, chain(other)),
        }
    }
}

impl From<&PrepareError> for Failure {
    fn from(error: &PrepareError) -> Self {
        match error {
            PrepareError::AllAttemptsFailed { first_attempt } => Self::from(first_attempt),
            PrepareError::ConnectionPoolError(error) => Self::from(error),
            other => Self::new(Outcome::Protocol, chain(other)),
        }
    }
}

impl From<&NewSessionError> for Failure {
    fn from(error: &NewSessionError) -> Self {
        match error {
            NewSessionError::MetadataError(MetadataError::ConnectionPoolError(error)) => {
                Self::from(error)
            }
            NewSessionError::UseKeyspaceError(error) => Self::from(error),
            NewSessionError::FailedToResolveAnyHostname(_) => {
                Self::new(Outcome::Connection, "no address is known for its name")
            }
            other => Self::new(Outcome::Connection, chain(other)),
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    shortened(&error.to_string())
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
    fn a_nodes_words_come_first_and_in_one_line() {
        let error = RequestAttemptError::DbError(DbError::Overloaded, "too\n   much".to_owned());
        let text = Failure::from(&error).text;
        assert!(text.starts_with("a node answered: too much (The request cannot"), "{text}");
    }
}
