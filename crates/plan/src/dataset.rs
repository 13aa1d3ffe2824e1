//! Keys and values: the records and how they are chosen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RowLaw;

/// The records that exist or are to be loaded: ordinals `start .. start + count`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Table, column family or key prefix, as the driver understands it.
    pub table: String,
    /// First ordinal.
    pub start: u64,
    /// Number of records.
    pub count: u64,
    /// The ordinal at which the dataset is full. From then on, an insert updates a record that the
    /// group's law chooses. None if inserts never end.
    pub full_at: Option<u64>,
    /// How an ordinal becomes a key.
    pub key: KeyText,
    /// The fields of a record.
    pub fields: FieldLayout,
    /// What the fields hold.
    pub values: ValueKind,
    /// The statement that probes for a record, by index; none for the driver's own read.
    pub probe: Option<u32>,
}

/// How an ordinal becomes a key: prefix, then the number in decimal, zero-padded on the left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyText {
    /// Literal text in front, `user` in YCSB.
    pub prefix: String,
    /// Least number of digits.
    pub zero_padding: u32,
    /// Whether the number is the ordinal or its hash.
    pub order: KeyOrder,
}

/// Whether neighbouring ordinals are neighbours in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyOrder {
    /// YCSB's 64-bit FNV-1a hash of the ordinal.
    Hashed,
    /// The ordinal itself.
    Ordered,
    /// The ordinal's upper 56 bits in ten characters, and full stops up to the length in its low
    /// byte, without prefix and padding.
    Sized,
    /// The ordinal's line of a file, the first after the last, without prefix and padding.
    Lines(LineFile),
}

/// Fields of a record: names are the prefix and a number from 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldLayout {
    /// Number of fields.
    pub count: u32,
    /// Text in front of the field's number.
    pub name_prefix: String,
    /// Bytes per field.
    pub length: SizeLaw,
}

/// A law for sizes and counts, drawn each time. Bounds are inclusive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum SizeLaw {
    /// Always the same.
    Constant {
        /// The size.
        size: u64,
    },
    /// Each value equally likely.
    Uniform {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// Zipfian with theta 0.99, the smallest value the most likely.
    Zipfian {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
    /// YCSB's histogram: bucket i has size `(i + 1) * block_size`.
    Histogram {
        /// Width of a bucket.
        block_size: u64,
        /// Relative frequency of each bucket.
        weights: Vec<u64>,
    },
}

impl SizeLaw {
    /// The largest size that can be drawn.
    #[must_use]
    pub const fn largest(&self) -> u64 {
        match self {
            Self::Constant { size } => *size,
            Self::Uniform { max, .. } | Self::Zipfian { max, .. } => *max,
            Self::Histogram { block_size, weights } => {
                block_size.saturating_mul(weights.len() as u64)
            }
        }
    }
}

/// Bytes of a record's tag, with which its noise begins.
pub const TAG_LENGTH: usize = 8;

/// Length of the tag in a value of this length: half of a short value, because the rest
/// distinguishes the writes of the record.
#[must_use]
#[inline]
pub const fn tag_length(value_length: usize) -> usize {
    if value_length < 2 * TAG_LENGTH { value_length / 2 } else { TAG_LENGTH }
}

/// What a field holds. Random, integrity and sized values are printable ASCII, so that they fit
/// text columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    /// Noise from the values seed and the operation's number, behind a tag of the record.
    Random,
    /// Noise and tag as [`Self::Random`], with runs of one character that compressors remove.
    Compressible(Compressible),
    /// Random lines of a file.
    Lines(LineFile),
    /// YCSB's data-integrity text, a function of key and field.
    Integrity,
    /// Noise as [`Self::Random`], with the length on a tape.
    Sized,
}

/// How far values can be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compressible {
    /// Share of the bytes that a compressor removes, from 0 to below 1.
    pub share: f64,
    /// Whether the rest is printable ASCII, of which entropy coders (Zstd, Deflate) remove further
    /// 18 %, and not bytes of any value.
    pub text: bool,
}

/// The lines of a text file, or the cells of a CSV column, each after its length in four bytes,
/// lowest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LineFile {
    /// Path of the lengths and lines.
    pub path: String,
    /// Name of the user's file.
    pub name: String,
    /// Name of the CSV column; none for whole lines.
    pub column: Option<String>,
    /// SHA-256 of the user's file.
    pub sha256: String,
    /// Number of lines.
    pub count: u64,
}

/// How keys are chosen among ordinals `start .. start + count`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyChoice {
    /// First ordinal that can be chosen.
    pub start: u64,
    /// How many ordinals the distribution covers; those not yet acknowledged are drawn again.
    pub count: u64,
    /// The law.
    pub distribution: Distribution,
}

/// The law by which an ordinal is chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// Each key equally likely.
    Uniform,
    /// YCSB's scrambled zipfian: a zipfian draw over 10^10 items, hashed, modulo the count.
    YcsbZipfian,
    /// Exact zipfian over the count, most popular first; any theta above 0.
    Zipfian {
        /// The exponent.
        theta: f64,
        /// Spread popular ranks over the key space by a permutation instead of keeping them in
        /// front.
        scrambled: bool,
    },
    /// The most popular keys have individual shares; the others share the rest as `rank^-theta`.
    /// Spread over the key space by a permutation.
    Head {
        /// Share of the operations on each of the first ranks.
        shares: Vec<f64>,
        /// The exponent for the other ranks, above 0.
        theta: f64,
    },
    /// A share of the operations uses the key of an earlier one, the others draw by a law.
    Again {
        /// That share, from 0 to below 1.
        share: f64,
        /// Relative frequency of gaps from 2^i operations to below 2^(i+1), by i.
        gaps: Vec<u64>,
        /// The law, which doesn't start at the newest record.
        of: Box<Distribution>,
    },
    /// The newest acknowledged record most likely, zipfian with theta 0.99 from there back.
    Latest,
    /// Each of the newest `window` acknowledged records equally likely.
    Newest {
        /// How many, above 0.
        window: u64,
    },
    /// A share of the operations goes to a share of the keys, uniform within both parts.
    Hotspot {
        /// Share of the keys that is hot.
        data_fraction: f64,
        /// Share of the operations that goes there.
        operation_fraction: f64,
    },
    /// Operation n takes ordinal n modulo the count.
    Sequential,
    /// Exponential: `percentile` percent of the operations go to the newest `fraction` of the keys.
    Exponential {
        /// In percent.
        percentile: f64,
        /// Share of the keys.
        fraction: f64,
    },
    /// A law of cassandra-stress, which draws the ordinal itself.
    Row {
        /// The law, whose bounds lie within the range.
        of: RowLaw,
    },
}

/// Which fields an operation touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FieldChoice {
    /// All of them.
    All,
    /// One at random.
    One,
    /// All of them, each named in the request.
    AllByName,
}
