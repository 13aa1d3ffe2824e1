//! Clients that behave alike, and their mix of operations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arrival::Arrival;
use crate::dataset::{FieldChoice, KeyChoice, SizeLaw};
use crate::words::Kind;

/// Clients that behave alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Name in tables and histogram tags.
    pub name: String,
    /// Closed model: the number of clients. Open model: the limit on operations in flight. Over all
    /// shares: client `c` lives in share `c` modulo their number.
    pub clients: u32,
    /// When operations are due.
    pub arrival: Arrival,
    /// Proportions of operation kinds; weights are relative and need not add up to one.
    pub mix: Vec<Weight>,
    /// How keys of reads, updates, deletes and scan starts are chosen.
    pub keys: KeyChoice,
    /// Which fields a read asks for.
    pub read_fields: FieldChoice,
    /// Which fields an update writes; an insert always writes all.
    pub write_fields: FieldChoice,
    /// Records per scan.
    pub scan_length: SizeLaw,
    /// The check of values that are read.
    pub check_values: ValueCheck,
}

/// What values that are read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueCheck {
    /// Anything.
    None,
    /// The number of fields, the length of each value if it is constant, and the record's tag if
    /// values have one. Values of statements aren't checked.
    Tag,
    /// The expected values, byte by byte.
    Full,
}

/// One kind of operation and its weight in a mix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// The kind of operation.
    pub kind: Kind,
    /// The statement, by index; none for the driver's own way.
    pub statement: Option<u32>,
    /// Its relative weight, not negative.
    pub weight: f64,
}
