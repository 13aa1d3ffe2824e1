//! The user's commands and statements, and their arguments.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{KeyChoice, KeyText, Rows, SizeLaw};

/// An operation in the system's own language. A mix names it by its index in the plan.
///
/// One operation carries out `texts` in order, `commands` times over, as one exchange with the
/// system (a pipeline or a batch); a part of a text in square brackets is repeated `items` times
/// within its command. `{name}` in a text is the place of an argument, `{{` and `}}` are braces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Name in tables and histogram tags, for example `GET`.
    pub name: String,
    /// The text to send, for example `SET {key} {value} EX 60`. Read only by the driver.
    pub texts: Vec<String>,
    /// How often the texts are carried out in one operation.
    pub commands: SizeLaw,
    /// How often the part in square brackets is repeated in one command.
    pub items: SizeLaw,
    /// Scope of the record: the operation or one command.
    pub record: Each,
    /// The columns of cassandra-stress's table that arguments can name; none for other tables. With
    /// them, `commands` counts partitions, each with one command per visited row.
    pub rows: Option<Rows>,
    /// The arguments of texts, and the values that replies are compared with.
    pub arguments: Vec<Argument>,
    /// Arguments, by index, that the values of each reply must equal, in the order in which the
    /// system returns them. Empty when replies aren't checked.
    pub expects: Vec<u32>,
    /// Further checks of a reply's rows.
    pub checks: Vec<Check>,
    /// For an insert: the statement that replaces it when the dataset is full, by index; none if
    /// this statement updates, too.
    pub when_full: Option<u32>,
    /// Further settings, such as a consistency level. Read only by the driver.
    pub options: BTreeMap<String, serde_json::Value>,
}

/// A check of the rows in a statement's reply. Columns are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "check", rename_all = "snake_case", deny_unknown_fields)]
pub enum Check {
    /// How many rows there are. None at all is a miss, and not checked.
    Rows {
        /// Fewest.
        least: u64,
        /// Most; none for no limit.
        most: Option<u64>,
    },
    /// Every row's value equals the argument.
    Each {
        /// The column.
        column: u32,
        /// The argument, by index.
        argument: u32,
    },
    /// The values of all rows, whole numbers, add up to the argument.
    Sum {
        /// The column.
        column: u32,
        /// The argument, by index.
        argument: u32,
    },
    /// All rows have the same value.
    Same {
        /// The column.
        column: u32,
    },
}

/// A value that is drawn for each operation, command or item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Argument {
    /// Name, as texts spell it.
    pub name: String,
    /// How often it is drawn.
    pub each: Each,
    /// How it is drawn.
    pub generator: Generator,
}

/// The scope of an argument within an operation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Each {
    /// The same in all commands of an operation.
    Operation,
    /// New for each command.
    Command,
    /// New for each item of a command.
    Item,
}

/// How an argument is drawn. All but the record's own key are functions of seed and number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "generator", rename_all = "snake_case", deny_unknown_fields)]
pub enum Generator {
    /// The text of the record's key: chosen by the group's law, or a new record's in an insert.
    Key,
    /// The record's ordinal.
    Ordinal,
    /// The value of the record's field of this index, with the dataset's kind and length.
    Field {
        /// Index of the field.
        field: u32,
    },
    /// The value of the statement's column of this index in the command's row.
    Column {
        /// Place of the column.
        column: u32,
    },
    /// A whole number `start ..` by a law.
    Number {
        /// The law, and where it begins.
        choice: KeyChoice,
    },
    /// A prefix and such a number in decimal.
    Name {
        /// How the number becomes text.
        text: KeyText,
        /// The law, and where it begins.
        choice: KeyChoice,
    },
    /// A whole number, normally distributed and cut off at both ends.
    Gaussian {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
        /// Mean.
        mean: f64,
        /// Standard deviation, above 0.
        stddev: f64,
    },
    /// A number with a fraction, each as likely as any other.
    Fraction {
        /// Smallest.
        min: f64,
        /// Largest, which is never reached.
        max: f64,
    },
    /// Printable ASCII noise.
    Text {
        /// Characters.
        length: SizeLaw,
    },
    /// Bytes of any value.
    Blob {
        /// Bytes.
        length: SizeLaw,
    },
    /// True or false, either as likely.
    Boolean,
    /// A random UUID (RFC 9562, version 4).
    Uuid,
    /// Milliseconds since 1970: `start_ms` and `step_ms` more for each element drawn before.
    Timestamp {
        /// The first.
        start_ms: i64,
        /// From one to the next.
        step_ms: i64,
    },
    /// The time to live on a tape, in units of `unit_ms` milliseconds, at least one.
    Ttl {
        /// Above 0.
        unit_ms: u64,
    },
    /// The number of records of a scan, from a tape.
    ScanLength,
    /// A whole number computed from another: `start + x / divisor % modulus * factor`, and `step`
    /// more for each element before within the operation.
    Computed {
        /// What x is.
        of: Basis,
        /// Above 0.
        divisor: u64,
        /// Above 0; none to leave the remainder out.
        modulus: Option<u64>,
        /// What the remainder is multiplied by.
        factor: i64,
        /// The smallest, where the others are positive.
        start: i64,
        /// From one element of an operation to the next.
        step: i64,
    },
    /// One of two whole numbers that add up to the record's ordinal, each division as likely as any
    /// other and new for each operation.
    Split {
        /// Whether it is the second number, the remainder after the first.
        rest: bool,
    },
    /// Text composed of literals and the statement's earlier arguments.
    Format {
        /// The parts in order.
        parts: Vec<FormatPart>,
    },
    /// A value with a checksum, as in yb-sample-apps: a marker, the prefix if the value is longer
    /// than 16 bytes, noise, and the Adler-32 of all preceding bytes if that leaves room for one
    /// byte.
    Checked {
        /// The earlier argument that is the prefix, by index.
        prefix: u32,
        /// Bytes, above 0.
        length: SizeLaw,
        /// Whether it is printable ASCII with the checksum in hexadecimal.
        ascii: bool,
    },
    /// Several of one kind, in the order drawn.
    List {
        /// How each is drawn.
        of: Box<Generator>,
        /// How many.
        length: SizeLaw,
    },
    /// Several of different kinds: a tuple, or a user-defined type's fields in order.
    Tuple {
        /// How each is drawn.
        of: Vec<Generator>,
    },
    /// Keys and their values.
    Map {
        /// How a key is drawn.
        keys: Box<Generator>,
        /// How a value is drawn.
        values: Box<Generator>,
        /// How many.
        length: SizeLaw,
    },
}

/// The basis of a computed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The record's ordinal.
    Ordinal,
    /// The operation's number.
    Operation,
    /// The element's place within its operation, from 0.
    Place,
}

/// A piece of a text: a literal, then an argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FormatPart {
    /// The literal.
    pub literal: String,
    /// The argument behind it, by index; none at the end.
    pub argument: Option<u32>,
    /// Least number of digits where the argument is a whole number.
    pub zero_padding: u32,
}

/// The type of a drawn argument. Its bytes are: text and bytes as they are; whole numbers,
/// fractions and timestamps as 8 bytes, least significant first; a boolean as one byte, 0 or 1; a
/// UUID as its 16 bytes. A collection's bytes are the number of its elements as 8 bytes, then for
/// each element its type as one byte, its length as 8 bytes and its bytes. A map's elements
/// alternate between keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ValueType {
    /// UTF-8 text.
    Text,
    /// Bytes of any value.
    Bytes,
    /// A whole number, `i64`.
    Integer,
    /// A number with a fraction, `f64`.
    Fraction,
    /// True or false.
    Boolean,
    /// A UUID.
    Uuid,
    /// Milliseconds since 1970, `i64`.
    Timestamp,
    /// A list or set.
    List,
    /// A tuple or a user-defined type.
    Tuple,
    /// A map.
    Map,
    /// Nothing: a column that has no value. No bytes.
    Null,
}

impl ValueType {
    /// All types, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Text,
        Self::Bytes,
        Self::Integer,
        Self::Fraction,
        Self::Boolean,
        Self::Uuid,
        Self::Timestamp,
        Self::List,
        Self::Tuple,
        Self::Map,
        Self::Null,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_a_type_is_its_number() {
        assert!(ValueType::ALL.iter().enumerate().all(|(number, kind)| number == *kind as usize));
    }
}
