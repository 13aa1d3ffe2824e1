//! Errors of nodes as failures with outcomes.

use kvmark_driver::OpenError;
pub(crate) use kvmark_driver_server::Failure;
use kvmark_plan::Outcome;
pub(crate) use kvmark_wire::cql::errors::{
    BOOTSTRAPPING, OVERLOADED, READ_TIMEOUT, SERVER_ERROR, TRUNCATE_ERROR, UNAVAILABLE, UNPREPARED,
    WRITE_TIMEOUT,
};
use kvmark_wire::cql::errors::{READ_FAILURE, WRITE_FAILURE, meaning};

use crate::frame::{Reader, cut_off};
use crate::settings::Consistency;

/// Length limit of a message.
const MESSAGE_MAX: usize = 300;

/// An error of a node, with the details that it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeError {
    pub(crate) code: i32,
    pub(crate) message: String,
    /// The number of the consistency level.
    pub(crate) level: u16,
    /// The number of replicas that are alive or have answered.
    pub(crate) received: i32,
    pub(crate) required: i32,
    /// Whether the replica with the data has answered a read.
    pub(crate) is_data_present: bool,
    pub(crate) write_type: String,
    /// The id of the statement that isn't prepared.
    pub(crate) statement: Vec<u8>,
}

impl NodeError {
    /// Reads the body of an error.
    #[cold]
    pub(crate) fn read(body: &[u8]) -> Result<Self, Failure> {
        Self::parse(Reader(body)).ok_or_else(cut_off)
    }

    fn parse(mut body: Reader<'_>) -> Option<Self> {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (code, message) = (body.int()?, text(body.short_bytes()?));
        let mut error = Self { code, message, ..Self::default() };
        match code {
            UNAVAILABLE => {
                error.level = body.short()?;
                (error.required, error.received) = (body.int()?, body.int()?);
            }
            READ_TIMEOUT | WRITE_TIMEOUT | READ_FAILURE | WRITE_FAILURE => {
                error.level = body.short()?;
                (error.received, error.required) = (body.int()?, body.int()?);
                if matches!(code, READ_FAILURE | WRITE_FAILURE) {
                    // The number of failures.
                    body.int()?;
                }
                if matches!(code, READ_TIMEOUT | READ_FAILURE) {
                    error.is_data_present = body.take(1)? != [0];
                } else {
                    error.write_type = text(body.short_bytes()?);
                }
            }
            UNPREPARED => error.statement = body.short_bytes()?.to_vec(),
            _ => {}
        }
        Some(error)
    }

    /// The failure, with a description in place of the node's message, which might repeat a login.
    pub(crate) fn without_message(self) -> Failure {
        Self { message: String::new(), ..self }.into()
    }

    /// The counts of replicas, if it has some.
    fn counts(&self) -> String {
        let Self { level, received, required, write_type, .. } = self;
        if *required == 0 {
            return String::new();
        }
        let level = Consistency::name_of(*level);
        let kind = if write_type.is_empty() { "" } else { ", write_type: " };
        format!(
            " (consistency: {level}, received: {received}, required: {required}{kind}{write_type})"
        )
    }
}

impl From<NodeError> for Failure {
    #[cold]
    fn from(error: NodeError) -> Self {
        let (code, message) = (error.code, &error.message);
        let unknown = || (Outcome::Refused, format!("error {code:#06x}"));
        let known = meaning(code).map(|(outcome, text)| (outcome, text.to_owned()));
        let (outcome, meaning) = known.unwrap_or_else(unknown);
        let details = meaning + &error.counts();
        let text = if message.is_empty() { details } else { format!("{message} ({details})") };
        Self::new(outcome, shortened(&format!("a node answered: {text}")))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::put_short;

    fn error(code: i32, message: &str, details: &[u8]) -> Result<NodeError, Failure> {
        let mut body = code.to_be_bytes().to_vec();
        put_short(&mut body, message.as_bytes());
        NodeError::read(&[&body, details].concat())
    }

    #[test]
    fn the_details_of_an_error_are_read() {
        let counts = b"\0\x04\0\0\0\x01\0\0\0\x02";
        let simple = [&counts[..], b"\0\x06SIMPLE"].concat();
        let failed = [&counts[..], b"\0\0\0\x01\0\x06SIMPLE"].concat();
        let cases: [(i32, &[u8], [i32; 2], &str); 4] = [
            (UNAVAILABLE, counts, [2, 1], ""),
            (READ_TIMEOUT, &[&counts[..], &[1]].concat(), [1, 2], ""),
            (WRITE_TIMEOUT, &simple, [1, 2], "SIMPLE"),
            (WRITE_FAILURE, &failed, [1, 2], "SIMPLE"),
        ];
        for (code, details, expected, write_type) in cases {
            let read = error(code, "m", details).unwrap();
            assert_eq!(([read.received, read.required], &*read.write_type), (expected, write_type));
            assert_eq!(read.is_data_present, code == READ_TIMEOUT);
            for end in 0..details.len() {
                assert_eq!(
                    error(code, "m", &details[..end]).unwrap_err().outcome,
                    Outcome::Protocol
                );
            }
        }
        assert_eq!(error(UNPREPARED, "", b"\0\x02id").unwrap().statement, b"id");
    }

    #[test]
    fn the_message_of_a_node_comes_first_and_in_one_line() {
        let text = |code, details: &[u8]| {
            Failure::from(error(code, "too\n   much", details).unwrap()).text
        };
        let overloaded = text(OVERLOADED, b"");
        assert!(overloaded.starts_with("a node answered: too much (The request cannot"));
        let late = text(WRITE_TIMEOUT, b"\0\x04\0\0\0\x01\0\0\0\x02\0\x06SIMPLE");
        let end = "(consistency: Quorum, received: 1, required: 2, write_type: SIMPLE))";
        assert!(late.ends_with(end), "{late}");
        assert_eq!(text(0x7777, b""), "a node answered: too much (error 0x7777)");
    }
}
