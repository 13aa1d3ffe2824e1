//! How a group stands: what is due, issued and in flight.

/// How a group stands when an interval ends; counts are since the phase began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupAccounting {
    /// The group's index in the plan.
    pub group: usize,
    /// Arrivals due; none in the closed model.
    pub due: Option<u64>,
    /// Operations issued.
    pub issued: u64,
    /// Answers that were read after the limit on service time, because the worker came late to
    /// them; no timeouts.
    pub read_late: u64,
    /// Due and not yet issued; none in the closed model.
    pub backlog: Option<u64>,
    /// Operations in flight.
    pub in_flight: u64,
    /// End of the acknowledged ordinals, exclusive.
    pub frontier: u64,
}
