//! Clients that behave alike: their mix of operations, and when these are due.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Further attempts of failed requests; none for one attempt each.
    pub retry: Option<RetryPolicy>,
    /// The write that follows a read of a missing record; none for no write.
    pub on_miss: Option<Fill>,
}

/// A write of a record that a read didn't find, by the same client at once, as an application fills
/// a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fill {
    /// The statement, by index; none for an insert in the driver's own way.
    pub statement: Option<u32>,
}

/// When a request that failed is made again, as applications do it. Each attempt has the plan's
/// limit on service time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicy {
    /// Most attempts, the first one included.
    pub attempts: u32,
    /// How a pause is drawn.
    pub jitter: Jitter,
    /// The pause after the first attempt. It doubles with each further one.
    pub backoff_ns: u64,
    /// The longest pause.
    pub backoff_limit_ns: u64,
}

/// How the pause between two attempts is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// As long as the policy states.
    None,
    /// Uniform between 0 and that.
    Full,
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

/// The law of intended start times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "process", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrival {
    /// Closed model: a client's next operation is due when its last one ended, plus the think time.
    Closed {
        /// Pause between completion and next start.
        think_time_ns: u64,
    },
    /// Open model, evenly spaced at the current rate.
    Constant {
        /// The rate over the phase, see [`RatePoint`].
        rates: Vec<RatePoint>,
    },
    /// Open model, a Poisson process at the current rate.
    Poisson {
        /// The rate over the phase, see [`RatePoint`].
        rates: Vec<RatePoint>,
    },
    /// Operations from a tape, with their intended starts. A tape is split between shares so that
    /// operations with an order, see [`TapeOrder`], stay in one share.
    Tape {
        /// The file, see `kvmark_trace::tape`.
        path: String,
        /// Speed relative to the tape; none for as fast as possible.
        speed: Option<f64>,
        /// Which operations keep their order.
        order: TapeOrder,
        /// Number of consecutive passes over the tape.
        loops: u32,
        /// Time from the start of one pass to the start of the next, on the tape.
        length_ns: u64,
        /// The source of the tape, for display.
        trace: String,
        /// Notes on how the tape was made, for display.
        told: Vec<String>,
    },
}

/// Which operations of a tape keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TapeOrder {
    /// Operations on one key, except reads among each other.
    Key,
    /// Operations of one client.
    Client,
    /// None.
    None,
}

impl Arrival {
    /// The rates of an open model; none in the closed one, and none of a tape.
    #[must_use]
    pub fn rates(&self) -> Option<&[RatePoint]> {
        match self {
            Self::Closed { .. } | Self::Tape { .. } => None,
            Self::Constant { rates } | Self::Poisson { rates } => Some(rates),
        }
    }
}

/// The rate of a whole group over all shares at one instant of the phase. Between points the rate
/// moves linearly; after the last it stays. The first point is at 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatePoint {
    /// Time since the phase began.
    pub at_ns: u64,
    /// Operations per second.
    pub rate: f64,
}
