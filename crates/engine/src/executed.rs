//! What became of a request.

use kvmark_plan::Outcome;

/// One request from issue to outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed {
    pub(crate) issued_ns: u64,
    pub(crate) completed_ns: u64,
    pub(crate) outcome: Outcome,
}
