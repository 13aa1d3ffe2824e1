//! Rows as cassandra-stress generates them: each tool can read the other's rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The columns of a table, whose values depend only on a partition's number, and the rows of a
/// partition that one command of a statement concerns.
///
/// An argument names a column by its place: those of the partition key come first, then those that
/// order the rows within it, then the others. The record's ordinal is the partition's number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// Columns of the partition key.
    pub partition: Vec<RowColumn>,
    /// Clustering columns, outermost first.
    pub clustering: Vec<RowColumn>,
    /// All others.
    pub values: Vec<RowColumn>,
    /// Whether a partition's rows come in the order of their clustering values.
    pub sorted: bool,
    /// The rows that a command concerns.
    pub visit: Visit,
    /// Where a write of a share of the rows ends, by clustering column; empty for after the last
    /// row. The write ends after one more than this number of values of a column other than the
    /// first and the last one.
    pub ends: Vec<u64>,
    /// Number of partitions of each operation, repeated cyclically. Not empty; each is at least 1.
    pub partitions: Vec<u64>,
    /// Partitions of all operations together, with which the last of them ends; none for no end.
    pub partitions_in_all: Option<u64>,
    /// The written share of the other columns, drawn for each partition. Columns after that share
    /// are null.
    pub filled: RowShare,
}

/// A draw divided by a number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowShare {
    /// The draw.
    pub law: RowLaw,
    /// The divisor, above 0.
    pub of: u64,
}

impl Rows {
    /// The columns in the order in which arguments name them.
    pub fn columns(&self) -> impl Iterator<Item = &RowColumn> {
        self.partition.iter().chain(&self.clustering).chain(&self.values)
    }
}

/// The rows of a partition that an operation concerns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "rows", rename_all = "snake_case", deny_unknown_fields)]
pub enum Visit {
    /// A share of the rows, each in its own command: all rows below some values of the outermost
    /// clustering column. The probability of each value is a draw divided by a number. At least the
    /// last value is chosen.
    Each {
        /// The draw.
        law: RowLaw,
        /// The divisor, above 0.
        of: u64,
    },
    /// One at random.
    One,
    /// A random one for each argument.
    Several,
}

/// A column: how its values are drawn from the seed of its partition or row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowColumn {
    /// Text that separates columns with one seed.
    pub label: String,
    /// The value generated from a drawn number.
    pub becomes: Becomes,
    /// The number.
    pub identity: RowLaw,
    /// Bytes, characters or elements.
    pub size: RowLaw,
    /// Values below one value of the preceding column, for a clustering column.
    pub count: RowLaw,
}

/// The value that a column generates from a drawn number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Becomes {
    /// The digits of further numbers, as bytes: the key of the predefined tables.
    Digits,
    /// Bytes of any value.
    Bytes,
    /// ASCII, control characters among it.
    Text,
    /// Its lowest bits: 8, 16, 32 or 64 of them. As a date it is a day, counted from 1970.
    Integer {
        /// How many.
        bits: u32,
    },
    /// A number with a fraction, drawn without rounding.
    Fraction {
        /// Whether it is kept in 32 bits.
        single: bool,
    },
    /// True.
    Boolean,
    /// A UUID of which both halves are the number.
    Uuid,
    /// A UUID of version 1 of that millisecond since 1970.
    TimeUuid,
    /// That millisecond since 1970.
    Timestamp,
    /// An IPv4 address from the lowest 32 bits.
    Inet,
    /// Several of one kind.
    List {
        /// Each of them.
        of: Box<RowColumn>,
    },
    /// Several of different kinds: a tuple, or a user-defined type.
    Tuple {
        /// Its parts.
        of: Vec<RowColumn>,
    },
    /// Keys and their values.
    Map {
        /// A key.
        keys: Box<RowColumn>,
        /// A value.
        values: Box<RowColumn>,
    },
}

/// A law of cassandra-stress (`settings/OptionDistribution.java`). Bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowLaw {
    /// Smallest.
    pub min: i64,
    /// Largest; the smallest again makes any law fixed.
    pub max: i64,
    /// How likely each is.
    pub shape: Shape,
    /// Whether the largest is as likely as the smallest would be, and so on.
    pub inverted: bool,
}

/// How likely the numbers between two bounds are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// All alike.
    Uniform,
    /// Normally distributed.
    Gaussian {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        stddev: f64,
    },
    /// Exponential, the smallest most likely.
    Exponential,
    /// Weibull.
    Extreme {
        /// Its shape.
        shape: f64,
    },
    /// Weibull in steps, within which all are alike.
    QuantizedExtreme {
        /// Its shape.
        shape: f64,
        /// How many steps.
        steps: u32,
    },
    /// One after the other.
    Sequence,
}
