//! Number of a group's operations that are due, issued or not.

use kvmark_plan::Arrival;
use kvmark_workload::{Arrivals, NumberPartition};

use crate::scheduled::PhaseNumbers;
use crate::source::RoundRobin;
use crate::tape::Cursor;

/// Counts the operations of a group that are due in a phase.
#[derive(Debug)]
pub(crate) enum DueCounter {
    /// Closed model: an operation is due when the one before ends.
    Closed,
    /// An arrival process, and this engine's partition of it.
    Process { arrivals: Box<Arrivals>, partition: NumberPartition },
    /// The operations of a tape.
    Tape { cursor: Box<Cursor>, queried_ns: u64 },
}

impl DueCounter {
    pub(crate) fn new(arrival: &Arrival, seed: u64, turns: RoundRobin) -> Self {
        if let Arrival::Tape { speed: None, .. } = arrival {
            return Self::Closed;
        }
        let cursor = turns
            .tape_share(0, 1)
            .and_then(|share| Cursor::new(arrival, &PhaseNumbers::WHOLE, share));
        if let Some(cursor) = cursor {
            return Self::Tape { cursor: Box::new(cursor), queried_ns: 0 };
        }
        let partition = turns.arrivals();
        match Arrivals::new(arrival, seed, partition) {
            Some(arrivals) => Self::Process { arrivals: Box::new(arrivals), partition },
            None => Self::Closed,
        }
    }

    /// Operations due by this time since the phase began; `None` in the closed model.
    pub(crate) fn by(&mut self, at_ns: u64) -> Option<u64> {
        match self {
            Self::Closed => None,
            Self::Process { arrivals, partition } => {
                Some(partition.of_first(arrivals.due_by(at_ns)))
            }
            Self::Tape { cursor, queried_ns } => {
                if at_ns < *queried_ns {
                    cursor.rewind();
                }
                *queried_ns = at_ns;
                cursor.due_by(at_ns)
            }
        }
    }
}
