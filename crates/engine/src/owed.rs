//! How many operations of a group are due, whether or not they were issued.

use kvmark_plan::Arrival;
use kvmark_schedule::{Arrivals, Part};

use crate::numbering::Numbering;
use crate::tape::{Cursor, Owner};

/// What a group owes in a phase.
#[derive(Debug)]
pub(crate) enum Owed {
    /// Nothing: operations are due when others end.
    Nothing,
    /// What a law says, and this engine's part of it.
    Law { arrivals: Arrivals, part: Part },
    /// What is on a tape.
    Tape { cursor: Box<Cursor>, asked_ns: u64 },
}

impl Owed {
    pub(crate) fn new(arrival: &Arrival, seed: u64, part: Part, owner: Option<Owner>) -> Self {
        if let Arrival::Tape { speed: None, .. } = arrival {
            return Self::Nothing;
        }
        let cursor = owner.and_then(|owner| Cursor::new(arrival, &Numbering::WHOLE, owner));
        if let Some(cursor) = cursor {
            return Self::Tape { cursor: Box::new(cursor), asked_ns: 0 };
        }
        match Arrivals::new(arrival, seed, part) {
            Some(arrivals) => Self::Law { arrivals, part },
            None => Self::Nothing,
        }
    }

    /// How many are due this long after the phase began, or before; none in the closed model.
    pub(crate) fn by(&mut self, at_ns: u64) -> Option<u64> {
        match self {
            Self::Nothing => None,
            Self::Law { arrivals, part } => Some(part.of_first(arrivals.due_by(at_ns))),
            Self::Tape { cursor, asked_ns } => {
                if at_ns < *asked_ns {
                    cursor.rewind();
                }
                *asked_ns = at_ns;
                cursor.due_by(at_ns)
            }
        }
    }
}
