//! The records of a run: three instants, histograms, intervals, outcomes, notices, and their files.
//!
//! A worker's [`Recorder`] takes a [`Sample`] per complete operation and returns a [`Batch`] once
//! per interval. The coordinator adds the batches to a [`PhaseAggregate`], which closes intervals
//! in order. A [`RunWriter`] appends each [`ClosedInterval`] to the run's folder. At the end, one
//! [`RunRecord`] has the totals and all other results.
//!
//! Instants and durations are nanoseconds; instants count from the run's origin on the monotonic
//! clock. Histograms have three significant digits, between 1 ns and [`LONGEST_NS`]; least, mean
//! and largest value are exact beside them.

mod batch;
mod drift;
mod durations;
mod encoded;
mod encoder;
mod event;
mod hlog;
mod lag;
mod names;
mod notice;
mod phase;
mod precision;
mod recorder;
mod row;
mod run;
mod series;
mod stop;
mod tallies;
mod tally;
mod writer;

pub use batch::Batch;
pub use durations::{Distribution, Quantiles};
pub use encoded::{Bucket, EncodedError, decoded, encoded};
pub use event::{Event, EventKind};
pub use lag::LagRecord;
pub use names::{Action, Names};
pub use notice::Notice;
pub use phase::{ClosedInterval, PhaseAggregate};
pub use recorder::Recorder;
pub use row::{GroupAccounting, IntervalRow, RowOutcome, TotalColumns};
pub use run::{COUNTING, Change, ClockRecord, GroupRecord, PhaseRecord, ProcessRecord, RunRecord};
pub use run::{Expectation, Loss, LostWriteRecord, LostWritesRecord, VerifyRecord};
pub use run::{StoppedBy, TotalRecord, WorkerRecord};
pub use series::{LATE_TOLERANCE_NS, Sample};
pub use stop::{RateSample, StopRule};
pub use tally::LONGEST_NS;
pub use writer::{RecordError, RunWriter};
