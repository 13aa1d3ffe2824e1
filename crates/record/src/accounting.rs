//! The accounting of a group: operations due, issued and in flight.

/// The accounting of a group at the end of an interval; counts are since the phase began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAccounting {
    /// The group's index in the plan.
    pub group: usize,
    /// Arrivals due; none in the closed model.
    pub due: Option<u64>,
    /// Operations issued.
    pub issued: u64,
    /// Answers that a delayed worker read after the limit on service time; they aren't timeouts.
    pub read_late: u64,
    /// Due and not yet issued; none in the closed model.
    pub backlog: Option<u64>,
    /// Operations in flight.
    pub in_flight: u64,
    /// End of the acknowledged ordinals, exclusive.
    pub frontier: u64,
}
