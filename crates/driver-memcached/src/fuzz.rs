//! Fuzz checks of the decoder.
//!
//! The input is a server's output. Its frames must not depend on how the bytes are split, each
//! frame must be readable to its end, and every operation must accept them as replies. Blocks are
//! read as records. Encoded records must survive a round trip.

use std::cell::RefCell;

use kvmark_driver::{Columns, Reply, Request, Values};
use kvmark_driver_server::framed::fuzz::{Feed, call, finish, layout, request, statement};
use kvmark_driver_server::framed::{InFlightOperation as _, Progress, RequestReply as _};
use kvmark_plan::Kind;

use crate::failure::{refused, refused_login};
use crate::json::{Members, append_escaped, append_unescaped, escaped_length};
use crate::operation::{Dialect, MemcachedOperation};
use crate::options::Settings;
use crate::records::Records;
use crate::statements::Prepared;
use kvmark_wire::memcached::{Answer, Next, Scan, answer, stats};

pub use kvmark_driver_server::framed::fuzz::MEMORY_MAX;

/// Statements whose replies differ.
const STATEMENTS: [&[&str]; 5] =
    [&["GET k j"], &["GETS k", "DELETE k"], &["INCR k 1"], &["MG k v t"], &["SET k v"]];
const KINDS: [Kind; 4] = [Kind::Read, Kind::Update, Kind::Insert, Kind::Delete];
/// One of two fields, so that an update must read the other.
const VALUES: Values<'_> = Values { bytes: b"new", places: &[(1, 0..3)] };

thread_local! {
    static FEED: RefCell<Feed<Settings>> = RefCell::new(Feed::ordered());
    static DIALECT: RefCell<Dialect> = RefCell::new(dialect());
}

/// Checks one input.
///
/// # Panics
/// If a check fails.
pub fn check(bytes: &[u8]) {
    let frames = FEED.with_borrow_mut(|feed| feed.frames(bytes));
    frames.iter().for_each(|frame| read(frame));
    DIALECT.with_borrow_mut(|dialect| take(dialect, &frames));
    write(bytes);
}

fn dialect() -> Dialect {
    let layout = layout(&["f", "g\""]);
    let prepared = |texts: &[&str]| Prepared::new(&statement(texts)).expect("it is a command");
    Dialect {
        records: Records::new(&layout, 0, false).expect("the table's name is short").into(),
        statements: STATEMENTS.map(prepared).into(),
        servers: 1,
        merged: Vec::new(),
        unique: Vec::new(),
    }
}

/// Reads a frame to its end.
fn read(frame: &[u8]) {
    assert_eq!(Scan::default().advance(frame), Ok(Some(frame.len())), "a frame is whole");
    match answer(frame).expect("a whole frame can be read") {
        Answer::Error(line) => {
            refused(line);
            refused_login(line);
        }
        Answer::Items(mut items) => {
            let mut seen = 0;
            while let Ok(Next::Item(item)) = items.next_item() {
                seen += item.key.len() + item.block.len() + item.unique.len();
                record(item.block);
            }
            assert!(seen < frame.len(), "items don't overlap");
        }
        Answer::Block(block) => assert!(block.len() < frame.len()),
        _ => {}
    }
    stats(frame).for_each(drop);
}

/// Reads a block as a record, merges a field into it and reads the field back.
fn record(block: &[u8]) {
    DIALECT.with_borrow(|Dialect { records, .. }| {
        let mut reply = Reply::default();
        let is_record = records.take(block, Columns::All, &mut reply).is_ok();
        let mut merged = Vec::new();
        let is_merged = records.append_merged(&mut merged, block, VALUES).is_ok();
        if is_record {
            assert!(is_merged, "what can be read can be merged");
            reply.clear();
            records.take(&merged, Columns::One(1), &mut reply).expect("it is a record again");
            assert_eq!(reply.bytes, VALUES.bytes);
        }
    });
}

/// Passes the frames as replies to every operation.
fn take(dialect: &mut Dialect, frames: &[Vec<u8>]) {
    for kind in KINDS {
        for wants_values in [true, false] {
            let values = VALUES;
            let request = |columns, statement| Request {
                columns,
                values,
                wants_values,
                statement,
                ..request(kind)
            };
            for columns in [Columns::All, Columns::One(1)] {
                take_all(dialect, &request(columns, None), frames);
            }
            for statement in 0..dialect.statements.len() as u32 {
                take_all(dialect, &request(Columns::All, Some(call(statement))), frames);
            }
        }
    }
}

/// Repeats an operation until all frames are taken.
fn take_all(dialect: &mut Dialect, request: &Request<'_>, frames: &[Vec<u8>]) {
    let (mut operation, mut single, mut output) =
        (MemcachedOperation::default(), Reply::default(), Vec::new());
    let mut frames = frames.iter();
    while !frames.as_slice().is_empty() {
        single.clear();
        operation.begin(request, dialect).expect("it can be asked for");
        let mut parts = 0..operation.subcommands.len();
        parts.clone().for_each(|part| operation.put(part, request, dialect, &mut output));
        while !parts.is_empty() {
            for (part, frame) in parts.zip(frames.by_ref()) {
                if let Err(failure) = operation.take(part, frame, dialect, &mut single) {
                    operation.progress.failure.get_or_insert(failure);
                }
            }
            output.clear();
            let continues = operation.progress.failure.is_none() && !frames.as_slice().is_empty();
            parts = 0..usize::from(continues && operation.has_more());
            if !parts.is_empty() {
                operation.put_more(dialect, &mut output);
            }
        }
        finish(&mut operation, &mut single);
        operation.progress = Progress::default();
        operation.clear(dialect);
    }
}

/// Writes a text as a member of a record and reads it back.
fn write(bytes: &[u8]) {
    let (mut escaped, mut back) = (Vec::new(), Vec::new());
    append_escaped(&mut escaped, bytes);
    assert_eq!(escaped.len(), escaped_length(bytes), "its length is computed in advance");
    append_unescaped(&mut back, &escaped).expect("it was escaped");
    assert_eq!(back, bytes);
    let stored = [&b"{\"f\":\""[..], &escaped, b"\"}"].concat();
    let mut members = Members::of(&stored).expect("it is a record");
    assert_eq!(members.next(), Ok(Some((&b"f"[..], &escaped[..]))));
    record(bytes);
    record(&stored);
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_seed_is_taken() {
        kvmark_testing::check_seeds(env!("CARGO_MANIFEST_DIR"), super::check);
    }
}
