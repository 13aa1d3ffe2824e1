//! When an operation is due.

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Due {
    /// Its number among the group's arrivals over all shares, from 0.
    pub number: u64,
    /// The intended start, since the phase began.
    pub at_ns: u64,
}
