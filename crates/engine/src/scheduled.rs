//! Operations as scheduled, and requests as executed.

use kvmark_plan::Outcome;

/// A client's next operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScheduledOp {
    /// Index of the phase, within the sequence, in which it is due.
    pub(crate) phase: usize,
    /// Number in the group's stream of that phase.
    pub(crate) number: u64,
    /// The intended start.
    pub(crate) intended_ns: u64,
}

/// The numbers of a group in one phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PhaseNumbers {
    /// Operations over all shares.
    pub(crate) operations: Option<u64>,
    /// Numbers of this share, from the first on, that an earlier load has taken. 0 except
    /// in the closed model, which loads use.
    pub(crate) done: u64,
    pub(crate) seed: u64,
    pub(crate) start_ns: u64,
    /// Start of the next phase of the sequence.
    pub(crate) end_ns: u64,
}

impl PhaseNumbers {
    /// All operations, from instant 0.
    pub(crate) const WHOLE: Self =
        Self { operations: None, done: 0, seed: 0, start_ns: 0, end_ns: u64::MAX };

    /// Whether an arrival is beyond the last one of the phase.
    #[inline]
    pub(crate) fn excludes(&self, number: u64, intended_ns: u64) -> bool {
        intended_ns >= self.end_ns || self.operations.is_some_and(|operations| number >= operations)
    }
}

/// A request from issue to outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed {
    pub(crate) issued_ns: u64,
    pub(crate) completed_ns: u64,
    pub(crate) outcome: Outcome,
}
