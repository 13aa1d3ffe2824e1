//! Fuzz checks of the decoder.
//!
//! The input is a node's output. Its frames must not depend on how the bytes are split, and each
//! frame is read as every kind of reply: rows with cells of every column type, errors, supported
//! options. Encoded integers, lists and compressed frames must survive a round trip.
//!
//! A mutated body rarely has the length in its header, so the input is also read as one frame with
//! the correct length.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use kvmark_driver::{Elements, Reply};
use kvmark_driver_server::framed::Exchanges as _;
use kvmark_driver_server::framed::fuzz::Feed;
use kvmark_plan::ValueType;

use crate::failure::{Failure, NodeError};
use crate::frame::{self, Compression, Frame, HEADER, Note};
use crate::retry::{self, Decision, Repeats};
use crate::rows::{self, Answer, Rows};
use crate::settings::{Consistency, Retry, Settings};
use crate::shards::{Tablet, Tablets};
use crate::wire::{Wire, supported};
use crate::{decode, encode, text};
use kvmark_wire::cql::types::{ColumnType, NativeType};

pub use kvmark_driver_server::framed::fuzz::MEMORY_MAX;

const COMPRESSIONS: [Option<Compression>; 3] =
    [None, Some(Compression::Lz4), Some(Compression::Snappy)];
const RETRIES: [Retry; 3] = [Retry::None, Retry::Default, Retry::Downgrading];
/// The widths of whole numbers, in bytes.
const WHOLE: [(NativeType, usize); 4] = [
    (NativeType::TinyInt, 1),
    (NativeType::SmallInt, 2),
    (NativeType::Int, 4),
    (NativeType::BigInt, 8),
];
const NATIVE: [NativeType; 14] = [
    NativeType::Blob,
    NativeType::Boolean,
    NativeType::Counter,
    NativeType::Date,
    NativeType::Decimal,
    NativeType::Double,
    NativeType::Float,
    NativeType::Inet,
    NativeType::Int,
    NativeType::SmallInt,
    NativeType::Text,
    NativeType::Time,
    NativeType::Timeuuid,
    NativeType::Varint,
];

thread_local! {
    static FEED: RefCell<Feed<Wire>> = RefCell::new(feed());
    static COLUMNS: Vec<ColumnType> = columns();
}

/// Checks one input.
///
/// # Panics
/// If a check fails.
pub fn check(bytes: &[u8]) {
    FEED.with_borrow_mut(|feed| {
        feed.frames(bytes).iter().for_each(|frame| read(frame));
        if let Some(one) = as_one(bytes) {
            assert_eq!(feed.frames(&one), [&one[..]], "a frame comes back");
            read(&one);
        }
    });
    write(bytes);
}

fn feed() -> Feed<Wire> {
    let options = BTreeMap::from([("address".to_owned(), "localhost".into())]);
    let settings = Settings::parse(&options).expect("only the address is required");
    let wire =
        Wire { limit: settings.connect_timeout, settings: Arc::new(settings), keyspace: None };
    let node = SocketAddr::from((Ipv4Addr::LOCALHOST, 9042));
    Feed::new(wire, node.into(), |exchanges| {
        exchanges.enter(0, 0);
        exchanges.fresh(|_| ());
    })
}

fn columns() -> Vec<ColumnType> {
    let native = |native: &NativeType| ColumnType::Native(*native);
    let list = |of| ColumnType::List(Box::new(of));
    let [blob, varint] = [NativeType::Blob, NativeType::Varint].map(ColumnType::Native);
    let pair = ColumnType::Tuple(vec![varint.clone(), list(blob.clone())]);
    let mut columns: Vec<_> = NATIVE.iter().map(native).collect();
    columns.extend([
        list(varint),
        ColumnType::Map(Box::new([blob.clone(), pair.clone()])),
        pair.clone(),
        ColumnType::UserDefined("type".to_owned(), vec![blob, pair.clone()]),
        ColumnType::Vector(Box::new(native(&NativeType::Float)), 3),
        ColumnType::Vector(Box::new(list(pair)), 0),
    ]);
    columns
}

/// The bytes as one frame of a node.
fn as_one(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut one = bytes.to_vec();
    let version = one.get_mut(..HEADER)?.first_mut()?;
    *version = frame::ANSWER;
    frame::set_length(&mut one);
    Some(one)
}

/// Reads a frame as every kind of reply.
fn read(bytes: &[u8]) {
    let frame = Frame::read(bytes);
    for compression in COMPRESSIONS {
        let body = frame.body(compression, |note| {
            if let Note::Payload(_, value) = note
                && let Some(tablet) = Tablet::read(value)
            {
                Tablets::default().learn(&tablet, ());
            }
        });
        let Ok(body) = body else { continue };
        if let Ok(Answer::Rows(rows)) = rows::read(&body) {
            take(&rows, &body);
        }
        refuse(&body);
        supported(&body).ok();
        rows::preparation(&body).ok();
        rows::table(&body).ok();
    }
}

/// Takes rows as an operation does.
fn take(rows: &Rows<'_>, body: &[u8]) {
    let mut reply = Reply::default();
    COLUMNS.with(|columns| {
        let taken = rows.take_cells(&mut reply, |column, value, output| {
            let column = &columns[column % columns.len()];
            let start = output.len();
            decode::append(column, value, output);
            if !matches!(column, ColumnType::Native(_)) {
                walk(&output[start..]);
            }
        });
        for cell in &reply.cells {
            assert!(cell.place.end <= reply.bytes.len());
        }
        if taken.is_ok() {
            assert!(reply.cells.len() <= body.len() / 4, "each cell has a length");
        }
    });
    if let Some(state) = rows.next {
        assert!(state.len() <= body.len());
    }
    // Must return, with or without an error.
    rows.applied().ok();
}

/// Walks through a collection as replies are checked.
fn walk(bytes: &[u8]) {
    for (kind, bytes) in Elements::of(bytes) {
        if matches!(kind, ValueType::List | ValueType::Tuple | ValueType::Map) {
            walk(bytes);
        }
    }
}

/// Reads a body as an error.
fn refuse(body: &[u8]) {
    let error = NodeError::read(body);
    let failure = error.clone().map_or_else(|failure| failure, Failure::from);
    assert!(failure.text.len() < 2000, "a failure is one line");
    let Ok(error) = error else { return };
    for retry in RETRIES {
        let mut repeats = Repeats::default();
        let mut next = || retry::decide(retry, &mut repeats, &error, true, Consistency::Quorum);
        let again = (0..5).take_while(|_| matches!(next(), Decision::SameNode(_))).count();
        assert!(again <= 1, "a rule is followed once");
    }
}

/// Encodes values and frames and reads them back.
fn write(bytes: &[u8]) {
    for (native, width) in WHOLE {
        let column = ColumnType::Native(native);
        let values: Vec<_> = bytes.chunks_exact(width).take(8).collect();
        for value in &values {
            let mut number = Vec::new();
            decode::append(&column, value, &mut number);
            let number = std::str::from_utf8(&number).ok().and_then(|text| text.parse().ok());
            let number: i64 = number.expect("a whole number is decimal text");
            assert_eq!(written(&column, ValueType::Integer, &number.to_le_bytes()), *value);
        }
        let column = ColumnType::List(Box::new(column));
        let mut list = (values.len() as u32).to_be_bytes().to_vec();
        values.iter().for_each(|value| frame::put_long(&mut list, value));
        let mut elements = Vec::new();
        decode::append(&column, &list, &mut elements);
        assert_eq!(written(&column, ValueType::List, &elements), list);
    }
    let mut request = Vec::new();
    frame::begin(&mut request, frame::RESULT);
    request.extend_from_slice(bytes);
    for compression in COMPRESSIONS.into_iter().flatten() {
        let packed = text::compressed(&request, compression).expect("it can be compressed");
        let body = Frame::read(&packed).body(Some(compression), |_| ());
        assert_eq!(&*body.expect("it can be decompressed"), bytes);
    }
}

/// A value as a column's bytes.
fn written(column: &ColumnType, kind: ValueType, bytes: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    encode::write(column, kind, bytes, &mut output).expect("a value that was read fits");
    output.split_off(4)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_seed_is_taken() {
        kvmark_testing::check_seeds(env!("CARGO_MANIFEST_DIR"), super::check);
    }
}
