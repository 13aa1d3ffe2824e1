//! Operations in the user's own words: commands and statements, and what is put into them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{KeyChoice, KeyText, SizeLaw};

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
    /// What is sent, for example `SET {key} {value} EX 60`. Read by the driver alone.
    pub texts: Vec<String>,
    /// How often the texts are carried out in one operation.
    pub commands: SizeLaw,
    /// How often what stands in square brackets is repeated in one command.
    pub items: SizeLaw,
    /// What goes into the texts, and what replies are held against.
    pub arguments: Vec<Argument>,
    /// Arguments, by index, that the values of each reply must equal, in the order in which the
    /// system returns them. Empty when replies aren't checked.
    pub expects: Vec<u32>,
    /// What else the driver has to know, such as a consistency level. Read by the driver alone.
    pub options: BTreeMap<String, serde_json::Value>,
}

/// Something drawn anew for each operation, command or item.
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

/// For how much of an operation an argument stays the same.
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
    /// What the record's field of this index holds: the dataset's values and lengths.
    Field {
        /// Index of the field.
        field: u32,
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

/// What kind of value a drawn argument is. Its bytes are: text and bytes as they are; whole
/// numbers, fractions and timestamps as 8 bytes, least significant first; a boolean as one byte, 0
/// or 1; a UUID as its 16 bytes. A collection's bytes are the number of its elements as 8 bytes,
/// then for each element its kind as one byte, its length as 8 bytes and its bytes; a map's
/// elements are keys and values in turn.
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
}
