//! When operations are due.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Operations from a tape: what they are, and when they are due. Their order words, see
    /// [`TapeOrder`], are this share's.
    Tape {
        /// The file, see `kvmark_trace::tape`.
        path: String,
        /// How many times as fast as on the tape; none for as fast as clients go.
        speed: Option<f64>,
        /// Which operations keep their order.
        order: TapeOrder,
        /// How often it is carried out, one time behind the other.
        loops: u32,
        /// From the beginning of a time to that of the next, on the tape.
        length_ns: u64,
        /// What the tape was made of; for people.
        trace: String,
        /// What should be known of how it was made; for people.
        told: Vec<String>,
    },
}

/// Which operations of a tape wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TapeOrder {
    /// Those of one key, but for reads among each other.
    Key,
    /// Those of one client.
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
