//! CQL values as the cells of a reply: integers, timestamps, dates and times become decimal text,
//! other values the bytes of the equivalent argument.

use kvmark_plan::ValueType;
use scylla::frame::response::result::{CollectionType, ColumnType, NativeType};

/// Appends a value; an unreadable value appends nothing.
pub(crate) fn append(column: &ColumnType<'_>, value: &[u8], output: &mut Vec<u8>) {
    match column {
        ColumnType::Native(native) => match number(native, value) {
            Some(number) => output.extend_from_slice(number.to_string().as_bytes()),
            None => append_scalar(native, value, output),
        },
        _ => append_collection(column, value, output),
    }
}

/// The number of an integer type.
fn number(native: &NativeType, value: &[u8]) -> Option<i128> {
    let sign = if value.first().is_some_and(|byte| *byte >= 0x80) { -1 } else { 0 };
    let signed = || value.iter().fold(sign, |number, byte| number << 8 | i128::from(*byte));
    match native {
        NativeType::Int
        | NativeType::BigInt
        | NativeType::SmallInt
        | NativeType::TinyInt
        | NativeType::Counter
        | NativeType::Timestamp
        | NativeType::Time => Some(signed()),
        NativeType::Varint if value.len() <= 16 => Some(signed()),
        NativeType::Date => {
            let days = u32::from_be_bytes(value.try_into().ok()?);
            Some(i128::from(days) - (1 << 31))
        }
        _ => None,
    }
}

fn append_scalar(native: &NativeType, value: &[u8], output: &mut Vec<u8>) {
    let fraction = match native {
        NativeType::Double => value.try_into().map(f64::from_be_bytes).ok(),
        NativeType::Float => value.try_into().map(|bytes| f32::from_be_bytes(bytes).into()).ok(),
        _ => None,
    };
    match fraction {
        Some(fraction) => output.extend_from_slice(&fraction.to_le_bytes()),
        None => output.extend_from_slice(value),
    }
}

/// Appends an element of a collection: kind, length and bytes.
fn append_element(column: &ColumnType<'_>, value: &[u8], output: &mut Vec<u8>) {
    output.push(kind_of(column) as u8);
    let place = output.len();
    output.extend_from_slice(&[0; 8]);
    let ColumnType::Native(native) = column else {
        append_collection(column, value, output);
        return set_length(output, place);
    };
    match number(native, value).and_then(|number| i64::try_from(number).ok()) {
        Some(number) => output.extend_from_slice(&number.to_le_bytes()),
        None => append_scalar(native, value, output),
    }
    set_length(output, place);
}

fn set_length(output: &mut [u8], place: usize) {
    let length = output.len() - place - 8;
    output[place..place + 8].copy_from_slice(&(length as u64).to_le_bytes());
}

fn kind_of(column: &ColumnType<'_>) -> ValueType {
    match column {
        ColumnType::Native(native) => match native {
            NativeType::Text | NativeType::Ascii => ValueType::Text,
            NativeType::Double | NativeType::Float => ValueType::Fraction,
            NativeType::Boolean => ValueType::Boolean,
            NativeType::Uuid | NativeType::Timeuuid => ValueType::Uuid,
            NativeType::Timestamp => ValueType::Timestamp,
            NativeType::Blob | NativeType::Inet | NativeType::Decimal | NativeType::Duration => {
                ValueType::Bytes
            }
            _ => ValueType::Integer,
        },
        ColumnType::Collection { typ: CollectionType::Map(..), .. } => ValueType::Map,
        ColumnType::Tuple(_) | ColumnType::UserDefinedType { .. } => ValueType::Tuple,
        _ => ValueType::List,
    }
}

fn append_collection(column: &ColumnType<'_>, value: &[u8], output: &mut Vec<u8>) {
    let place = output.len();
    output.extend_from_slice(&[0; 8]);
    let mut rest = value;
    let mut count = 0_u64;
    let mut push = |column: &ColumnType<'_>, value: Option<&[u8]>| {
        count += 1;
        append_element(column, value.unwrap_or_default(), output);
    };
    match column {
        ColumnType::Collection { typ, .. } => {
            let columns: &[&ColumnType<'_>] = match typ {
                CollectionType::List(of) | CollectionType::Set(of) => &[of],
                CollectionType::Map(keys, values) => &[keys, values],
                _ => &[],
            };
            rest = rest.get(4..).unwrap_or_default();
            let mut column_cycle = columns.iter().cycle();
            while let (Some(value), Some(column)) = (take(&mut rest), column_cycle.next()) {
                push(column, value);
            }
        }
        ColumnType::Tuple(parts) => parts.iter().for_each(|column| {
            take(&mut rest).into_iter().for_each(|value| push(column, value));
        }),
        ColumnType::UserDefinedType { definition, .. } => {
            definition.field_types.iter().for_each(|(_, column)| {
                take(&mut rest).into_iter().for_each(|value| push(column, value));
            });
        }
        ColumnType::Vector { typ, dimensions } => {
            let each = value.len() / usize::from(*dimensions).max(1);
            value.chunks_exact(each.max(1)).for_each(|value| push(typ, Some(value)));
        }
        _ => {}
    }
    output[place..place + 8].copy_from_slice(&count.to_le_bytes());
}

/// Reads a value with its length; the inner `None` is null.
fn take<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (length, behind) = rest.split_first_chunk()?;
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
        *rest = behind;
        return Some(None);
    };
    let (value, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    Some(Some(value))
}
