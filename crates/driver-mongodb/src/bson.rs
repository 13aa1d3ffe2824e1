//! BSON with the types that the driver needs; others are skipped.

use serde_json::{Map, Value as Json, json};

use crate::failure::{Failure, unreadable};

pub(crate) const DOCUMENT: u8 = 3;
pub(crate) const ARRAY: u8 = 4;
const DOUBLE: u8 = 1;
const TEXT: u8 = 2;
const BINARY: u8 = 5;
const BOOLEAN: u8 = 8;
const NULL: u8 = 10;
const INT32: u8 = 16;
const INT64: u8 = 18;

/// The deepest nesting; MongoDB's limit is 180.
const DEPTH_MAX: u32 = 200;

/// Appends a document, whose elements `put` appends.
#[inline]
pub(crate) fn put_document(output: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = output.len();
    output.extend_from_slice(&[0; 4]);
    put(output);
    output.push(0);
    set_length(output, start);
}

/// Writes the number of bytes since `start` there.
#[inline]
pub(crate) fn set_length(output: &mut [u8], start: usize) {
    let length = (output.len() - start) as u32;
    output[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends an element whose value has these parts.
#[inline]
fn put(output: &mut Vec<u8>, kind: u8, name: &str, parts: &[&[u8]]) {
    output.push(kind);
    output.extend_from_slice(name.as_bytes());
    output.push(0);
    parts.iter().for_each(|part| output.extend_from_slice(part));
}

/// Appends a document or an array as an element.
#[inline]
pub(crate) fn put_nested(
    output: &mut Vec<u8>,
    kind: u8,
    name: &str,
    elements: impl FnOnce(&mut Vec<u8>),
) {
    put(output, kind, name, &[]);
    put_document(output, elements);
}

/// Appends a text, which is UTF-8.
#[inline]
pub(crate) fn put_text(output: &mut Vec<u8>, name: &str, text: &[u8]) {
    put(output, TEXT, name, &[&(text.len() as u32 + 1).to_le_bytes(), text, b"\0"]);
}

#[inline]
pub(crate) fn put_binary(output: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    put(output, BINARY, name, &[&(bytes.len() as u32).to_le_bytes(), b"\0", bytes]);
}

#[inline]
pub(crate) fn put_int64(output: &mut Vec<u8>, name: &str, number: i64) {
    put(output, INT64, name, &[&number.to_le_bytes()]);
}

#[inline]
pub(crate) fn put_int32(output: &mut Vec<u8>, name: &str, number: i32) {
    put(output, INT32, name, &[&number.to_le_bytes()]);
}

#[inline]
pub(crate) fn put_boolean(output: &mut Vec<u8>, name: &str, value: bool) {
    put(output, BOOLEAN, name, &[&[u8::from(value)]]);
}

/// Appends a value of JSON.
pub(crate) fn put_json(output: &mut Vec<u8>, name: &str, value: &Json) {
    match value {
        Json::Null => put(output, NULL, name, &[]),
        Json::Bool(value) => put_boolean(output, name, *value),
        Json::String(text) => put_text(output, name, text.as_bytes()),
        // A cursor must be one of 64 bits.
        Json::Number(number) => match number.as_i64() {
            Some(number) => put_int64(output, name, number),
            None => {
                let double = number.as_f64().unwrap_or_default();
                put(output, DOUBLE, name, &[&double.to_le_bytes()]);
            }
        },
        Json::Array(items) => put_nested(output, ARRAY, name, |output| {
            let items = items.iter().enumerate();
            items.for_each(|(place, item)| put_json(output, &place.to_string(), item));
        }),
        Json::Object(members) => put_nested(output, DOCUMENT, name, |output| {
            members.iter().for_each(|(name, value)| put_json(output, name, value));
        }),
    }
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Double(f64),
    Text(&'a [u8]),
    Document(Document<'a>),
    Array(Document<'a>),
    Binary(&'a [u8]),
    Boolean(bool),
    Integer(i64),
    /// A null, or a value of a type that isn't needed.
    Other,
}

impl<'a> Value<'a> {
    /// The bytes of a field.
    #[inline]
    pub(crate) const fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Binary(bytes) | Self::Text(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// A whole number, which servers may send as any type of number.
    pub(crate) const fn number(self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(number),
            Self::Double(number) => Some(number as i64),
            Self::Boolean(value) => Some(value as i64),
            _ => None,
        }
    }

    /// The value as JSON, at this depth of nesting.
    fn json(self, depth: u32) -> Result<Json, Failure> {
        let text = String::from_utf8_lossy;
        Ok(match self {
            _ if depth > DEPTH_MAX => return Err(unreadable()),
            Self::Double(number) => number.into(),
            Self::Text(bytes) => text(bytes).into(),
            Self::Document(document) => document.json(depth)?,
            Self::Array(items) => {
                let items = items.map(|item| item?.1.json(depth + 1));
                Json::Array(items.collect::<Result<_, _>>()?)
            }
            Self::Binary(bytes) => json!({ "$binary": text(bytes) }),
            Self::Boolean(value) => value.into(),
            Self::Integer(number) => number.into(),
            Self::Other => Json::Null,
        })
    }
}

/// The elements of a document or array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document<'a>(&'a [u8]);

impl<'a> Document<'a> {
    /// The document at the start of these bytes, and the others.
    #[inline]
    pub(crate) fn split_from(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Failure> {
        let length = bytes.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
        let parts = length.and_then(|length| bytes.split_at_checked(length));
        let (document, rest) = parts.ok_or_else(unreadable)?;
        let elements = document.get(4..).and_then(|bytes| bytes.strip_suffix(b"\0"));
        Ok((Self(elements.ok_or_else(unreadable)?), rest))
    }

    #[inline]
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Failure> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(unreadable)?;
        self.0 = rest;
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(unreadable)?;
        self.0 = rest;
        Ok(*bytes)
    }

    /// A length of a value in bytes.
    #[inline]
    fn length(&mut self) -> Result<usize, Failure> {
        self.array().map(|length| u32::from_le_bytes(length) as usize)
    }

    #[inline]
    fn element(&mut self) -> Result<(&'a [u8], Value<'a>), Failure> {
        let [kind] = self.array()?;
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(unreadable)?;
        let (name, _) = (self.bytes(end)?, self.bytes(1)?);
        let mut skip = |length| self.bytes(length).map(|_| Value::Other);
        let value = match kind {
            DOUBLE => Value::Double(f64::from_le_bytes(self.array()?)),
            TEXT => {
                let length = self.length()?;
                Value::Text(self.bytes(length)?.strip_suffix(b"\0").ok_or_else(unreadable)?)
            }
            DOCUMENT | ARRAY => {
                let (document, rest) = Self::split_from(self.0)?;
                self.0 = rest;
                if kind == ARRAY { Value::Array(document) } else { Value::Document(document) }
            }
            BINARY => {
                let (length, _subtype) = (self.length()?, self.bytes(1)?);
                Value::Binary(self.bytes(length)?)
            }
            BOOLEAN => Value::Boolean(self.array::<1>()? != [0]),
            INT32 => Value::Integer(i32::from_le_bytes(self.array()?).into()),
            INT64 => Value::Integer(i64::from_le_bytes(self.array()?)),
            // Undefined and null; ObjectId; date and timestamp; decimal.
            6 | NULL => Value::Other,
            7 => skip(12)?,
            9 | 17 => skip(8)?,
            19 => skip(16)?,
            _ => return Err(unreadable()),
        };
        Ok((name, value))
    }

    /// The value of this name.
    pub(crate) fn find(mut self, name: &str) -> Result<Option<Value<'a>>, Failure> {
        let is_it = |element: &Result<(&[u8], _), _>| {
            element.as_ref().is_ok_and(|(own, _)| *own == name.as_bytes()) || element.is_err()
        };
        Iterator::find(&mut self, is_it).transpose().map(|found| found.map(|(_, value)| value))
    }

    /// The document as JSON, at this depth of nesting.
    pub(crate) fn json(self, depth: u32) -> Result<Json, Failure> {
        let member = |element: Result<(&[u8], Value<'_>), Failure>| {
            let (name, value) = element?;
            Ok((String::from_utf8_lossy(name).into_owned(), value.json(depth + 1)?))
        };
        self.map(member).collect::<Result<Map<_, _>, Failure>>().map(Json::Object)
    }
}

impl<'a> Iterator for Document<'a> {
    type Item = Result<(&'a [u8], Value<'a>), Failure>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let element = self.element();
        if element.is_err() {
            self.0 = &[];
        }
        Some(element)
    }
}
