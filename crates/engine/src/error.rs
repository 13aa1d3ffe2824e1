//! Why a run could not be carried out, or not to its end.

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
    /// The plan asks for what this driver or machine can't do.
    #[error("{0}")]
    Unsupported(String),
    /// A tape can't be replayed.
    #[error("the tape {path} can't be replayed: {problem}; remove it, and it is made anew")]
    Tape {
        /// The file.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The system can't be opened or connected to.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The records can't be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The log of operations can't be begun.
    #[error("operations can't be recorded: {0}")]
    Log(std::io::Error),
    /// Loading the dataset failed, so that measuring would mean nothing.
    #[error("loading stopped because {message}")]
    LoadFailed {
        /// How many operations failed, with which class, and what the driver said.
        message: String,
    },
    /// The system answered nothing for as long as the plan lets it.
    #[error(
        "{system} answered nothing for {limit_s} s: see whether it still works, or allow it more \
         with --stall-limit"
    )]
    NoAnswer {
        /// The servers that owe an answer, or the system's name.
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
    /// A thread or runtime couldn't be made.
    #[error("the machine refuses a thread for worker {worker}: {source}")]
    Thread {
        /// The worker's number.
        worker: usize,
        /// The system's reason.
        source: std::io::Error,
    },
}
