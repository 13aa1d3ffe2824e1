//! Fuzz checks of the decoder.
//!
//! The input is a server's output. Its frames must not depend on how the bytes are split, each
//! frame must be readable to its end, and every operation must accept them as replies. Encoded
//! commands must survive a round trip.

use std::cell::RefCell;
use std::path::PathBuf;

use kvmark_driver::{Columns, Reply, Request, Values};
use kvmark_driver_server::framed::fuzz::{Feed, call, finish, layout, request, statement};
use kvmark_driver_server::framed::{InFlightOperation as _, RequestReply as _};
use kvmark_driver_server::{HostPort, Target};
use kvmark_plan::Kind;
use kvmark_wire::number;

use crate::commands::Fields;
use crate::failure::{refused, refused_login};
use crate::operation::{Context, Dialect, RespOperation};
use crate::options::Settings;
use crate::prepared::Prepared;
use crate::slots::{Redirect, SLOTS, read_shares};
use kvmark_wire::resp::{Cursor, Scan, Token, is_push, put_all, put_joined};

pub use kvmark_driver_server::framed::fuzz::MEMORY_MAX;

/// Statements whose replies differ: single, several in one operation, and a transaction.
const STATEMENTS: [&[&str]; 3] = [&["GET k"], &["GET k", "DEL k"], &["MULTI", "GET k", "EXEC"]];
const KINDS: [Kind; 5] = [Kind::Read, Kind::Update, Kind::Insert, Kind::Delete, Kind::Scan];
const COLUMNS: [Columns; 3] = [Columns::All, Columns::AllByName, Columns::One(1)];
/// Greatest number of parts of an encoded command.
const PARTS: usize = 64;

thread_local! {
    static FEED: RefCell<Feed<Settings>> = RefCell::new(Feed::ordered());
    static CONTEXTS: RefCell<[Context; 2]> =
        RefCell::new([true, false].map(|together| Context::new(dialect(together), false)));
}

/// Checks one input.
///
/// # Panics
/// If a check fails.
pub fn check(bytes: &[u8]) {
    let mut frames = FEED.with_borrow_mut(|feed| feed.frames(bytes));
    frames.iter().for_each(|frame| read(frame));
    frames.retain(|frame| !is_push(frame));
    CONTEXTS.with_borrow_mut(|contexts| {
        contexts.iter_mut().for_each(|context| take(context, &frames));
    });
    write(bytes);
}

fn server() -> Target {
    Target::Tcp(HostPort { host: "asked".to_owned(), port: 6379 })
}

fn dialect(pipeline_parts: bool) -> Dialect {
    let layout = layout(&["field0", "field1"]);
    let prepared = |texts: &&[&str]| Prepared::new(&statement(texts)).expect("it is a command");
    // Statements are one pipeline in both dialects.
    let own = if pipeline_parts { &STATEMENTS[..] } else { &[] };
    let statements = own.iter().map(prepared).collect();
    Dialect { fields: Fields::new(&layout).into(), statements, pipeline_parts }
}

/// Reads a frame to its end, and as every kind of reply.
fn read(frame: &[u8]) {
    let mut cursor = Cursor::new(frame);
    cursor.skip(1).expect("a whole frame can be read");
    assert_eq!(cursor.at, frame.len(), "a frame ends with its last element");
    // The fast path doesn't apply within an array.
    let array = [b"*1\r\n", frame].concat();
    assert_eq!(Scan::START.clone().advance(&array), Ok(Some(array.len())), "it is an element");
    if let Ok(Token::Error(message)) = Cursor::new(frame).token() {
        refused(message);
        refused_login(message);
    }
    for asked in [server(), Target::Unix(PathBuf::from("/run/redis.sock"))] {
        if let Some(redirect) = Redirect::read(frame, &asked) {
            assert!(usize::from(redirect.slot) < SLOTS);
        }
        for (slots, _) in read_shares(frame, &asked).unwrap_or_default() {
            assert!(usize::from(*slots.end()) < SLOTS);
        }
    }
}

/// Passes the frames as replies to every operation.
fn take(context: &mut Context, frames: &[Vec<u8>]) {
    for kind in KINDS {
        for wants_values in [true, false] {
            let values = Values { bytes: b"v", places: &[(0, 0..1)] };
            let request = |columns, statement| Request {
                columns,
                values,
                wants_values,
                statement,
                ..request(kind)
            };
            let looks = matches!(kind, Kind::Read | Kind::Scan);
            for columns in COLUMNS.into_iter().take(if looks { COLUMNS.len() } else { 1 }) {
                take_all(context, &request(columns, None), frames);
            }
            // These kinds represent the others for statements.
            let differs = matches!(kind, Kind::Read | Kind::Insert | Kind::Delete);
            let statements = if differs { context.dialect.statements.len() } else { 0 };
            for statement in 0..statements as u32 {
                take_all(context, &request(Columns::All, Some(call(statement))), frames);
            }
        }
    }
}

/// Repeats an operation until all frames are taken.
fn take_all(context: &mut Context, request: &Request<'_>, frames: &[Vec<u8>]) {
    let (mut output, mut single) = (Vec::new(), Reply::default());
    let mut frames = frames.iter();
    while !frames.as_slice().is_empty() {
        let mut operation = RespOperation::default();
        output.clear();
        operation.begin(request, context).expect("it can be asked for");
        operation.put(0, request, context, &mut output);
        loop {
            for frame in frames.by_ref().take(operation.replies() as usize) {
                if let Err(failure) = operation.take(0, frame, context, &mut single) {
                    operation.progress.failure.get_or_insert(failure);
                }
            }
            let continues = operation.progress.failure.is_none() && !frames.as_slice().is_empty();
            if !continues || !operation.has_more() {
                break;
            }
            output.clear();
            operation.put_more(context, &mut output);
        }
        finish(&mut operation, &mut single);
        operation.clear(context);
    }
}

/// Encodes commands and reads them back.
fn write(bytes: &[u8]) {
    let parts: Vec<_> = bytes.split(|byte| *byte == b'\n').take(PARTS).collect();
    let mut command = Vec::new();
    put_all(&mut command, &parts);
    put_joined(&mut command, |output| output.extend_from_slice(bytes));
    let length = Scan::START.clone().advance(&command).expect("a command is of the protocol");
    let mut cursor = Cursor::new(&command);
    assert_eq!(cursor.elements(), Ok(parts.len()));
    for part in parts {
        assert_eq!(cursor.text(), Ok(Some(part)));
    }
    assert_eq!(Some(cursor.at), length, "a command ends with its last part");
    assert_eq!(cursor.text(), Ok(Some(bytes)));
    if let Some(chunk) = bytes.first_chunk() {
        let number = i64::from_le_bytes(*chunk);
        let mut line = vec![b':'];
        number::append(&mut line, number);
        line.extend_from_slice(b"\r\n");
        assert_eq!(Cursor::new(&line).token(), Ok(Token::Integer(number)));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_seed_is_taken() {
        kvmark_testing::check_seeds(env!("CARGO_MANIFEST_DIR"), super::check);
    }
}
