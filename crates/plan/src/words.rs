//! Names that all crates share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of an operation. A read-modify-write is measured as a whole and as its two parts.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// One record, or one of its fields.
    Read,
    /// One or all fields of a record that exists.
    Update,
    /// A record that does not exist yet.
    Insert,
    /// Records in key order from a start key.
    Scan,
    /// A read, then an update of the same record.
    ReadModifyWrite,
    /// Removes a record.
    Delete,
}

impl Kind {
    /// Every kind, in the order of their indices.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Update, Self::Insert, Self::Scan, Self::ReadModifyWrite, Self::Delete];

    /// The name in tables and histogram tags, as YCSB spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "READ",
            Self::Update => "UPDATE",
            Self::Insert => "INSERT",
            Self::Scan => "SCAN",
            Self::ReadModifyWrite => "READ-MODIFY-WRITE",
            Self::Delete => "DELETE",
        }
    }
}

/// How an operation ended: a closed set with stable names. All but `Ok` and `Miss` are failures.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Successful.
    Ok,
    /// A read, update or delete of a missing record.
    Miss,
    /// A returned value differs from the expected one.
    Mismatch,
    /// No outcome within the limit on service time.
    Timeout,
    /// The connection failed or was closed.
    Connection,
    /// The system reports that it can't serve: too few replicas, loading, read-only.
    Unavailable,
    /// The system reports overload, or lack of memory.
    Overloaded,
    /// The system rejects the request: rights, syntax, missing table.
    Refused,
    /// The answer breaks the protocol or can't be decoded.
    Protocol,
    /// The system's storage failed: full or broken disk, corruption.
    Storage,
}

impl Outcome {
    /// Every outcome, in the order of their indices.
    pub const ALL: [Self; 10] = [
        Self::Ok,
        Self::Miss,
        Self::Mismatch,
        Self::Timeout,
        Self::Connection,
        Self::Unavailable,
        Self::Overloaded,
        Self::Refused,
        Self::Protocol,
        Self::Storage,
    ];

    /// The stable name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Miss => "miss",
            Self::Mismatch => "mismatch",
            Self::Timeout => "timeout",
            Self::Connection => "connection",
            Self::Unavailable => "unavailable",
            Self::Overloaded => "overloaded",
            Self::Refused => "refused",
            Self::Protocol => "protocol",
            Self::Storage => "storage",
        }
    }

    /// Whether the operation failed.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Ok | Self::Miss)
    }
}

/// The purpose of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PhaseName {
    /// Put the dataset in place.
    Load,
    /// Wait until the system is quiet.
    Settle,
    /// The measured workload, not counted.
    WarmUp,
    /// The counted phase.
    Measure,
    /// Read back the run's writes.
    Verify,
}

impl PhaseName {
    /// The name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Settle => "settle",
            Self::WarmUp => "warm_up",
            Self::Measure => "measure",
            Self::Verify => "verify",
        }
    }
}
