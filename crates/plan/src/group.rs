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
    /// Whether values read are compared with the values that must be there.
    pub check_values: bool,
}

/// One kind of operation and its weight in a mix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Weight {
    /// What it does to the records.
    pub kind: Kind,
    /// The statement that does it, by index; none for the driver's own way.
    pub statement: Option<u32>,
    /// Its relative weight, not negative.
    pub weight: f64,
}
