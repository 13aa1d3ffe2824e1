//! CQL values as the cells of a reply: integers, timestamps, dates and times become decimal text,
//! other values the bytes of the equivalent argument.

use std::net::IpAddr;

use kvmark_plan::ValueType;

use crate::frame::Reader;
use kvmark_wire::cql::types::{ColumnType, NativeType};

/// Appends a value; an unreadable value appends nothing.
pub(crate) fn append(column: &ColumnType, value: &[u8], output: &mut Vec<u8>) {
    match column {
        ColumnType::Native(native) => match number(*native, value) {
            Some(number) => output.extend_from_slice(number.to_string().as_bytes()),
            None => append_scalar(*native, value, output),
        },
        _ => append_collection(column, value, output),
    }
}

/// The number of an integer type.
pub(crate) fn number(native: NativeType, value: &[u8]) -> Option<i128> {
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

fn append_scalar(native: NativeType, value: &[u8], output: &mut Vec<u8>) {
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
fn append_element(column: &ColumnType, value: &[u8], output: &mut Vec<u8>) {
    output.push(kind_of(column) as u8);
    let place = output.len();
    output.extend_from_slice(&[0; 8]);
    let ColumnType::Native(native) = column else {
        append_collection(column, value, output);
        return set_length(output, place);
    };
    match number(*native, value).and_then(|number| i64::try_from(number).ok()) {
        Some(number) => output.extend_from_slice(&number.to_le_bytes()),
        None => append_scalar(*native, value, output),
    }
    set_length(output, place);
}

fn set_length(output: &mut [u8], place: usize) {
    let length = output.len() - place - 8;
    output[place..place + 8].copy_from_slice(&(length as u64).to_le_bytes());
}

fn kind_of(column: &ColumnType) -> ValueType {
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
        ColumnType::Map(_) => ValueType::Map,
        ColumnType::Tuple(_) | ColumnType::UserDefined(..) => ValueType::Tuple,
        _ => ValueType::List,
    }
}

fn append_collection(column: &ColumnType, value: &[u8], output: &mut Vec<u8>) {
    let place = output.len();
    output.extend_from_slice(&[0; 8]);
    let mut count = 0_u64;
    let mut push = |column: &ColumnType, value: Option<&[u8]>| {
        count += 1;
        append_element(column, value.unwrap_or_default(), output);
    };
    let mut parts = Reader(value);
    match column {
        ColumnType::Tuple(of) | ColumnType::UserDefined(_, of) => of.iter().for_each(|column| {
            parts.bytes().into_iter().for_each(|value| push(column, value));
        }),
        ColumnType::Vector(of, dimensions) => {
            let each = value.len() / usize::from(*dimensions).max(1);
            value.chunks_exact(each.max(1)).for_each(|value| push(of, Some(value)));
        }
        ColumnType::List(of) | ColumnType::Set(of) => {
            parts.elements().for_each(|value| push(of, value));
        }
        ColumnType::Map(of) => {
            let columns = of.iter().cycle();
            columns.zip(parts.elements()).for_each(|(column, value)| push(column, value));
        }
        ColumnType::Native(_) => {}
    }
    output[place..place + 8].copy_from_slice(&count.to_le_bytes());
}

/// The address of an inet.
pub(crate) fn inet(value: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(value).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}
