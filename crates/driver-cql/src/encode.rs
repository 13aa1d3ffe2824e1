//! Arguments as CQL values: the types that fit a column, and their bytes.
//!
//! A text becomes text, ascii, blob or inet; bytes a blob; a whole number any type of number, a
//! date (days since 1970), a time (nanoseconds of the day) or a timestamp (milliseconds since
//! 1970); a fraction a float, double or decimal; a timestamp also a date or a bigint; a UUID a uuid
//! or, with its version changed to 1, a timeuuid; a list a list, set or vector of numbers; a tuple
//! a tuple or a user-defined type; a map a map.

use std::net::IpAddr;

use kvmark_driver::Elements;
use kvmark_plan::{Generator, ValueType};

use kvmark_wire::cql::types::{ColumnType, NativeType};

/// Day 0 of a date is 2^31 days before 1970.
const DATE_EPOCH: i64 = 1 << 31;
const DAY_MS: i64 = 86_400_000;
const NS_PER_MS: i64 = 1_000_000;

/// A value that doesn't fit the type of its column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value} can't be of type {column}")]
pub(crate) struct Misfit {
    value: String,
    column: String,
}

impl Misfit {
    fn new(value: impl Into<String>, column: &ColumnType) -> Self {
        Self { value: value.into(), column: column.to_string() }
    }
}

/// Checks that the values of a generator fit a column. Values that exceed a type only sometimes are
/// found when they do.
pub(crate) fn check(generator: &Generator, column: &ColumnType) -> Result<(), Misfit> {
    let misfit = |what: &str| Err(Misfit::new(what, column));
    match generator {
        // The generator was derived from the column.
        Generator::Column { .. } => Ok(()),
        Generator::List { of, .. } => match elements_of(column) {
            Some(element) => check(of, element),
            None => misfit("a list"),
        },
        Generator::Map { keys, values, .. } => match column {
            ColumnType::Map(of) => check(keys, &of[0]).and_then(|()| check(values, &of[1])),
            _ => misfit("a map"),
        },
        Generator::Tuple { of } => {
            let parts = parts_of(column);
            let is_tuple = matches!(column, ColumnType::Tuple(_));
            if of.len() > parts.len() || (is_tuple && of.len() < parts.len()) || of.is_empty() {
                return misfit(&format!("a tuple of {}", of.len()));
            }
            of.iter().zip(parts).try_for_each(|(part, column)| check(part, column))
        }
        Generator::Field { .. } if is(column, &[NativeType::Text, NativeType::Ascii]) => Ok(()),
        Generator::Gaussian { min, max, .. } => {
            let ends = [min, max].map(|end| native(column, ValueType::Integer, &end.to_le_bytes()));
            ends.into_iter().try_for_each(|end| end.map(drop))
        }
        scalar => {
            let (kind, sample, what) = sample(scalar);
            native(column, kind, sample).map(drop).map_err(|_| Misfit::new(what, column))
        }
    }
}

fn is(column: &ColumnType, natives: &[NativeType]) -> bool {
    matches!(column, ColumnType::Native(native) if natives.contains(native))
}

/// The type of a list's, set's or vector's elements.
fn elements_of(column: &ColumnType) -> Option<&ColumnType> {
    match column {
        ColumnType::List(of) | ColumnType::Set(of) => Some(of),
        ColumnType::Vector(of, _) => match **of {
            ColumnType::Native(native) if native.is_fixed_in_vectors() => Some(of),
            _ => None,
        },
        _ => None,
    }
}

/// The types of a tuple's parts, or of a user-defined type's fields.
fn parts_of(column: &ColumnType) -> &[ColumnType] {
    match column {
        ColumnType::Tuple(of) | ColumnType::UserDefined(_, of) => of,
        _ => &[],
    }
}

/// A sample value of a scalar generator, with a name for such values.
const fn sample(generator: &Generator) -> (ValueType, &'static [u8], &'static str) {
    match generator {
        Generator::Field { .. }
        | Generator::Blob { .. }
        | Generator::Checked { ascii: false, .. } => (ValueType::Bytes, b"", "bytes"),
        Generator::Ordinal
        | Generator::Number { .. }
        | Generator::Computed { .. }
        | Generator::Split { .. }
        | Generator::Ttl { .. }
        | Generator::ScanLength => (ValueType::Integer, &[0; 8], "a whole number"),
        Generator::Fraction { .. } => (ValueType::Fraction, &[0; 8], "a fraction"),
        Generator::Boolean => (ValueType::Boolean, &[0], "a boolean"),
        Generator::Uuid => (ValueType::Uuid, &[0; 16], "a UUID"),
        Generator::Timestamp { .. } => (ValueType::Timestamp, &[0; 8], "a timestamp"),
        // An address, so that text columns and inet columns accept it.
        _ => (ValueType::Text, b"::", "a text"),
    }
}

/// Appends an argument as a value of the column's type, after its length.
pub(crate) fn write(
    column: &ColumnType,
    kind: ValueType,
    bytes: &[u8],
    output: &mut Vec<u8>,
) -> Result<(), Misfit> {
    if kind == ValueType::Null {
        output.extend_from_slice(&(-1_i32).to_be_bytes());
        return Ok(());
    }
    let start = output.len() + 4;
    output.extend_from_slice(&[0; 4]);
    write_bare(column, kind, bytes, output)?;
    let length = i32::try_from(output.len() - start);
    let length = length.map_err(|_| Misfit::new("a value of 2 GiB", column))?;
    output[start - 4..start].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Appends an argument without its length.
fn write_bare(
    column: &ColumnType,
    kind: ValueType,
    bytes: &[u8],
    output: &mut Vec<u8>,
) -> Result<(), Misfit> {
    match kind {
        ValueType::List | ValueType::Tuple | ValueType::Map => {
            return write_elements(column, kind, bytes, output);
        }
        ValueType::Text | ValueType::Bytes if is_plain(column) => output.extend_from_slice(bytes),
        _ => output.extend_from_slice(native(column, kind, bytes)?.as_slice()),
    }
    Ok(())
}

/// Whether the column stores bytes without conversion.
fn is_plain(column: &ColumnType) -> bool {
    is(column, &[NativeType::Text, NativeType::Ascii, NativeType::Blob])
}

fn write_elements(
    column: &ColumnType,
    kind: ValueType,
    bytes: &[u8],
    output: &mut Vec<u8>,
) -> Result<(), Misfit> {
    let misfit = || Misfit::new("a collection", column);
    let mut elements = Elements::of(bytes);
    let count = elements.len();
    // The types of the elements in turns, and the number of these.
    let (columns, turns) = match (kind, column) {
        (ValueType::List, ColumnType::Vector(of, dimensions)) => {
            if count != usize::from(*dimensions) {
                return Err(Misfit::new(format!("a list of {count}"), column));
            }
            return elements.try_for_each(|(kind, bytes)| write_bare(of, kind, bytes, output));
        }
        (ValueType::Tuple, _) => {
            return parts_of(column)
                .iter()
                .zip(elements)
                .try_for_each(|(column, (kind, bytes))| write(column, kind, bytes, output));
        }
        (ValueType::List, _) => ([elements_of(column).ok_or_else(misfit)?; 2], count),
        (ValueType::Map, ColumnType::Map(of)) => ([&of[0], &of[1]], count / 2),
        _ => return Err(misfit()),
    };
    let turns = i32::try_from(turns).map_err(|_| misfit())?;
    output.extend_from_slice(&turns.to_be_bytes());
    columns
        .into_iter()
        .cycle()
        .zip(elements)
        .try_for_each(|(column, (kind, bytes))| write(column, kind, bytes, output))
}

/// A scalar's bytes, on the stack.
#[derive(Debug)]
pub(crate) struct Scalar {
    bytes: [u8; 24],
    length: usize,
}

impl Scalar {
    fn new(value: &[u8]) -> Self {
        let mut bytes = [0; 24];
        bytes[..value.len()].copy_from_slice(value);
        Self { bytes, length: value.len() }
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A scalar as a value of the column's type. Text and bytes for text and blob columns are only
/// checked, because they are sent without conversion.
fn native(column: &ColumnType, kind: ValueType, bytes: &[u8]) -> Result<Scalar, Misfit> {
    let ColumnType::Native(native) = column else {
        return Err(Misfit::new("a single value", column));
    };
    let scalar = match kind {
        ValueType::Integer | ValueType::Timestamp => {
            let number = i64::from_le_bytes(bytes.try_into().unwrap_or_default());
            return whole(native, kind, number)
                .ok_or_else(|| Misfit::new(format!("the number {number}"), column));
        }
        ValueType::Fraction => {
            let number = f64::from_le_bytes(bytes.try_into().unwrap_or_default());
            return fraction(native, number)
                .ok_or_else(|| Misfit::new(format!("the number {number}"), column));
        }
        ValueType::Boolean => (*native == NativeType::Boolean).then(|| Scalar::new(bytes)),
        ValueType::Uuid => match native {
            NativeType::Uuid => Some(Scalar::new(bytes)),
            NativeType::Timeuuid => {
                let mut scalar = Scalar::new(bytes);
                scalar.bytes[6] = scalar.bytes[6] & 0x0f | 0x10;
                Some(scalar)
            }
            _ => None,
        },
        ValueType::Bytes => (*native == NativeType::Blob).then(|| Scalar::new(&[])),
        ValueType::Text if is_plain(column) => Some(Scalar::new(&[])),
        ValueType::Text if *native == NativeType::Inet => inet(bytes),
        _ => None,
    };
    scalar.ok_or_else(|| Misfit::new(format!("a value of kind {kind:?}"), column))
}

fn scalar<const N: usize>(value: [u8; N]) -> Option<Scalar> {
    Some(Scalar::new(&value))
}

fn inet(text: &[u8]) -> Option<Scalar> {
    match std::str::from_utf8(text).ok()?.parse().ok()? {
        IpAddr::V4(address) => scalar(address.octets()),
        IpAddr::V6(address) => scalar(address.octets()),
    }
}

fn whole(native: &NativeType, kind: ValueType, number: i64) -> Option<Scalar> {
    let is_time = kind == ValueType::Timestamp;
    let wide = Scalar::new(&number.to_be_bytes());
    match native {
        NativeType::BigInt | NativeType::Timestamp => Some(wide),
        NativeType::Date => {
            let days = if is_time { number.div_euclid(DAY_MS) } else { number };
            let days = u32::try_from(days.checked_add(DATE_EPOCH)?).ok()?;
            scalar(days.to_be_bytes())
        }
        NativeType::Time if is_time => {
            scalar((number.rem_euclid(DAY_MS) * NS_PER_MS).to_be_bytes())
        }
        _ if is_time => None,
        NativeType::Counter => Some(wide),
        NativeType::Time => (0..DAY_MS * NS_PER_MS).contains(&number).then_some(wide),
        NativeType::Int => scalar(i32::try_from(number).ok()?.to_be_bytes()),
        NativeType::SmallInt => scalar(i16::try_from(number).ok()?.to_be_bytes()),
        NativeType::TinyInt => scalar(i8::try_from(number).ok()?.to_be_bytes()),
        NativeType::Varint => Some(Scalar::new(shortest(&number.to_be_bytes()))),
        NativeType::Decimal => decimal(0, number.into()),
        NativeType::Double | NativeType::Float => fraction(native, number as f64),
        _ => None,
    }
}

fn fraction(native: &NativeType, number: f64) -> Option<Scalar> {
    match native {
        NativeType::Double => scalar(number.to_be_bytes()),
        NativeType::Float => scalar((number as f32).to_be_bytes()),
        NativeType::Decimal => {
            let text = number.to_string();
            let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
            let unscaled = format!("{whole}{part}").parse().ok()?;
            decimal(i32::try_from(part.len()).ok()?, unscaled)
        }
        _ => None,
    }
}

/// `unscaled` × 10^-`scale`.
fn decimal(scale: i32, unscaled: i128) -> Option<Scalar> {
    let mut bytes = scale.to_be_bytes().to_vec();
    bytes.extend_from_slice(shortest(&unscaled.to_be_bytes()));
    Some(Scalar::new(&bytes))
}

/// A number in two's complement without redundant leading bytes.
fn shortest(bytes: &[u8]) -> &[u8] {
    let is_redundant = |pair: &&[u8]| match pair {
        [0, next] => *next < 0x80,
        [0xff, next] => *next >= 0x80,
        _ => false,
    };
    &bytes[bytes.windows(2).take_while(is_redundant).count()..]
}

#[cfg(test)]
mod tests;
