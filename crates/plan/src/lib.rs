//! What one run does, fully decided.
//!
//! A [`Plan`] is the value that Python passes to the engine. It has no defaults: every open choice
//! was made before the plan was written. Unknown fields are rejected. Durations and instants are
//! nanoseconds of monotonic time, rates are operations per second, sizes are bytes.
//!
//! Definitions that all crates share are here, too: the names [`Kind`], [`Outcome`] and
//! [`PhaseName`], and the random numbers [`Seed`] and [`Random`].

mod chance;
mod check;
mod dataset;
mod error;
mod group;
mod plan;
mod rows;
mod statement;
mod words;

pub use chance::{GOLDEN, Random, Seed, cumulative, split_mix};
pub use dataset::{Compressible, Dataset, Distribution, FieldChoice, FieldLayout, KeyChoice};
pub use dataset::{KeyOrder, KeyText, LineFile, SizeLaw, TAG_LENGTH, ValueKind, tag_length};
pub use error::{OutOfRange, PlanError, require};
pub use group::{
    Arrival, Fill, Group, Jitter, RatePoint, RetryPolicy, TapeOrder, ValueCheck, Weight,
};
pub use plan::{ActiveGroup, FORMAT, Phase, Plan, Seeds, Share, System, Until, UntilRule, schema};
pub use rows::{Becomes, RowColumn, RowLaw, RowShare, Rows, Shape, Visit};
pub use statement::{Argument, Basis, Check, Each, FormatPart, Generator, Statement, ValueType};
pub use words::{Kind, Outcome, PhaseName};
