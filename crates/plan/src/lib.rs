//! What one run does, fully decided.
//!
//! A [`Plan`] is the one value that goes down from Python to the engine. It holds no defaults:
//! every choice a user left open was made before a plan was written. Unknown fields are refused.
//! Durations and instants are nanoseconds of monotonic time, rates are operations per second, sizes
//! are bytes.
//!
//! What every crate shares lives here too, so that it is spelled once: the words [`Kind`],
//! [`Outcome`] and [`PhaseName`], and [`split_mix`], which makes chance of seeds.

mod arrival;
mod chance;
mod check;
mod dataset;
mod error;
mod group;
mod phase;
mod plan;
mod rows;
mod statement;
mod text;
mod words;

pub use arrival::{Arrival, RatePoint, TapeOrder};
pub use chance::{GOLDEN, split_mix};
pub use dataset::{Dataset, Distribution, FieldChoice, FieldLayout, KeyChoice, KeyOrder, KeyText};
pub use dataset::{SizeLaw, TAG_LENGTH, ValueKind, tag_length};
pub use error::PlanError;
pub use group::{Group, ValueCheck, Weight};
pub use phase::{ActiveGroup, Phase, Until, UntilRule};
pub use plan::{FORMAT, Plan, Seeds, Share, System};
pub use rows::{Becomes, RowColumn, RowLaw, RowShare, Rows, Shape, Visit};
pub use statement::{Argument, Basis, Check, Each, FormatPart, Generator, Statement, ValueType};
pub use text::schema;
pub use words::{Kind, Outcome, PhaseName};
