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
}

impl Arrival {
    /// The rates of an open model; none in the closed one.
    #[must_use]
    pub fn rates(&self) -> Option<&[RatePoint]> {
        match self {
            Self::Closed { .. } => None,
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
