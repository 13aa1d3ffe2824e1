//! The errors of CQL's protocol as outcomes.
//!
//! Source: Apache Cassandra, `doc/native_protocol_v4.spec`, section 9. Classification of ambiguous
//! errors: a read or write that replicas failed (too many tombstones, a corrupt table), a failed
//! truncation and an internal error of a node are storage failures. A conditional write with an
//! unknown result is a timeout. A node that is starting is unavailable.

use kvmark_plan::Outcome;

/// An internal error.
pub const SERVER_ERROR: i32 = 0x0000;
/// A frame can't be read, or its version isn't supported.
pub const PROTOCOL_ERROR: i32 = 0x000a;
/// Too few replicas are alive.
pub const UNAVAILABLE: i32 = 0x1000;
/// A node has too much to do.
pub const OVERLOADED: i32 = 0x1001;
/// A node is starting.
pub const BOOTSTRAPPING: i32 = 0x1002;
/// A truncation failed.
pub const TRUNCATE_ERROR: i32 = 0x1003;
/// Too few replicas confirmed a write in time.
pub const WRITE_TIMEOUT: i32 = 0x1100;
/// Too few replicas answered a read in time.
pub const READ_TIMEOUT: i32 = 0x1200;
/// A replica failed to read.
pub const READ_FAILURE: i32 = 0x1300;
/// A replica failed to write.
pub const WRITE_FAILURE: i32 = 0x1500;
/// A statement isn't prepared.
pub const UNPREPARED: i32 = 0x2500;

/// The outcome and the description of each error by its code.
const ERRORS: [(i32, Outcome, &str); 20] = [
    (SERVER_ERROR, Outcome::Storage, "Internal server error. This indicates a server-side bug"),
    (PROTOCOL_ERROR, Outcome::Protocol, "Invalid protocol message received from the driver"),
    (0x0100, Outcome::Refused, "Authentication failed - bad credentials"),
    (
        UNAVAILABLE,
        Outcome::Unavailable,
        "Not enough nodes are alive to satisfy required consistency level",
    ),
    (
        OVERLOADED,
        Outcome::Overloaded,
        "The request cannot be processed because the coordinator node is overloaded",
    ),
    (BOOTSTRAPPING, Outcome::Unavailable, "The coordinator node is still bootstrapping"),
    (TRUNCATE_ERROR, Outcome::Storage, "Error during truncate operation"),
    (
        WRITE_TIMEOUT,
        Outcome::Timeout,
        "Not enough nodes responded to the write request in time to satisfy required consistency \
         level",
    ),
    (
        READ_TIMEOUT,
        Outcome::Timeout,
        "Not enough nodes responded to the read request in time to satisfy required consistency \
         level",
    ),
    (READ_FAILURE, Outcome::Storage, "A non-timeout error during a read request"),
    (0x1400, Outcome::Refused, "User defined function failed during execution"),
    (WRITE_FAILURE, Outcome::Storage, "A non-timeout error during a write request"),
    (0x1600, Outcome::Storage, "The change log (CDC) is full"),
    (0x1700, Outcome::Timeout, "The result of a conditional write is unknown"),
    (0x2000, Outcome::Refused, "The submitted query has a syntax error"),
    (0x2100, Outcome::Refused, "The logged user doesn't have the right to perform the query"),
    (0x2200, Outcome::Refused, "The query is syntactically correct but invalid"),
    (0x2300, Outcome::Refused, "The query is invalid because of some configuration issue"),
    (
        0x2400,
        Outcome::Refused,
        "Attempted to create a keyspace or a table that was already existing",
    ),
    (UNPREPARED, Outcome::Refused, "Tried to execute a prepared statement that is not prepared"),
];

/// The outcome and the description of an error; `None` if its code is unknown.
#[must_use]
pub fn meaning(code: i32) -> Option<(Outcome, &'static str)> {
    let known = ERRORS.iter().find(|(known, ..)| *known == code);
    known.map(|(_, outcome, text)| (*outcome, *text))
}
