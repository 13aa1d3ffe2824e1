//! Errors of a run.

use kvmark_driver::OpenError;
use kvmark_plan::PlanError;
use kvmark_record::RecordError;
use kvmark_workload::WorkloadError;

/// Failures of the engine itself; failures of operations are outcomes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The plan contradicts itself.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The workload can't be generated.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The plan needs a feature that this driver or machine lacks.
    #[error("{0}")]
    Unsupported(String),
    /// A tape can't be replayed.
    #[error("the tape {path} can't be replayed: {problem}; remove it to have it recreated")]
    Tape {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The system can't be opened or connected to.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The user ended the run before it began.
    #[error("interrupted before the system was open: nothing was measured")]
    Interrupted,
    /// The records can't be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The log of operations can't be created.
    #[error("operations can't be recorded: {0}")]
    Log(std::io::Error),
    /// Loading the dataset failed, so that a measurement would be meaningless.
    #[error("loading stopped because {message}")]
    LoadFailed {
        /// Number and class of the failures, and the driver's message.
        message: String,
    },
    /// The system sent no answer within the stall limit.
    #[error(
        "{system} answered nothing for {limit_s} s: check that it still works, or raise the limit \
         with --stall-limit"
    )]
    NoAnswer {
        /// The servers with outstanding requests, or the system's name.
        system: String,
        /// The plan's limit, in seconds.
        limit_s: f64,
    },
    /// Operations in flight didn't end.
    #[error("{workers} workers still wait for an operation {limit_s} s after the phase ended")]
    Unresponsive {
        /// How many.
        workers: usize,
        /// The plan's limit on the drain, in seconds.
        limit_s: f64,
    },
    /// A worker thread panicked: a defect of this program.
    #[error("worker {worker} stopped by a defect in kvmark: {message}")]
    Panicked {
        /// The worker's number.
        worker: usize,
        /// The panic's text.
        message: String,
    },
    /// A thread couldn't be created.
    #[error("can't create a thread for worker {worker}: {source}")]
    Thread {
        /// The worker's number.
        worker: usize,
        /// The system's reason.
        source: std::io::Error,
    },
}
