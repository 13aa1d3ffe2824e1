//! Fuzz checks of the tap's parsers and of the tape reader.
//!
//! The input is a dialogue between clients and a server; the byte [`TURN`] changes the side. Its
//! recording, and what is forwarded of CQL, must not depend on how the bytes are split. The
//! recording must agree with the report, and must survive a round trip through the tape. As a tape,
//! the input must give records or an error with the damaged place.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;

use kvmark_trace::HashKey;
use kvmark_trace::tape::{Block, BlockWriter, Record, TapeReader};

use crate::connection::Connection;
use crate::content::Keeper;
use crate::cql::Rewriter;
use crate::recorder::Recorder;
use crate::shared::Shared;
use crate::store::Piece;
use crate::{Keep, TapProtocol, TapReport};

pub use kvmark_driver_server::framed::fuzz::MEMORY_MAX;

/// Changes the side of the dialogue.
pub const TURN: u8 = 0xff;
/// Longest input that is also split into single bytes.
const SINGLE_MAX: usize = 512;
/// Longest dialogue that is checked, since each new command name takes time.
const DIALOGUE_MAX: usize = 2048;
/// Memory limit of the recorder.
const MEMORY_BYTES: usize = 1 << 20;

thread_local! {
    static FILE: RefCell<File> = RefCell::new(file());
}

/// A file in memory, which is faster than one on a disk.
fn file() -> File {
    let file = tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile());
    file.expect("a file can be made")
}

/// Checks one input.
///
/// # Panics
/// When a check fails.
pub fn check(bytes: &[u8]) {
    let dialogue = &bytes[..bytes.len().min(DIALOGUE_MAX)];
    for protocol in TapProtocol::ALL {
        let [hashed, kept] = [false, true].map(|kept| {
            let keep = Keep { keys: kept, values: kept };
            let whole = recorded(protocol, dialogue, usize::MAX, keep);
            assert_eq!(recorded(protocol, dialogue, 7, keep), whole, "in small pieces");
            if dialogue.len() <= SINGLE_MAX {
                assert_eq!(recorded(protocol, dialogue, 1, keep), whole, "byte by byte");
            }
            agree(&whole);
            whole
        });
        // Requests whose contents are kept take another path.
        assert_eq!((hashed.statements, hashed.report), (kept.statements, kept.report));
    }
    let whole = forwarded(dialogue, usize::MAX);
    assert_eq!(forwarded(dialogue, 1), whole, "byte by byte");
    assert!(whole[0].len() <= dialogue.len(), "requests are never longer");
    tape(bytes);
    // Otherwise few mutations would pass the magic bytes.
    tape(&[&b"KVTAPE01"[..], bytes].concat());
}

/// The result of a connection: its tape, the number of statements, and the report.
#[derive(Debug, PartialEq, Eq)]
struct Recorded {
    tape: Vec<u8>,
    statements: usize,
    report: TapReport,
}

/// Records a dialogue in pieces of at most `longest` bytes.
fn recorded(protocol: TapProtocol, bytes: &[u8], longest: usize, keep: Keep) -> Recorded {
    let (sender, receiver) = channel();
    // Absolute expiry times are relative to the start.
    let mut shared = Shared::new(1 << 30);
    shared.start_unix_ns = 0;
    let key = HashKey::new(&[7; 16]);
    let keeper = Keeper::new(keep, key, Arc::new(shared));
    let recorder = Recorder::new(keeper, sender, 0, MEMORY_BYTES);
    let recorder = Rc::new(RefCell::new(recorder));
    let mut connection = Connection::new(protocol, Rc::clone(&recorder));
    for (turn, text) in bytes.split(|byte| *byte == TURN).enumerate() {
        for piece in text.chunks(longest) {
            if turn % 2 == 0 {
                connection.requests(piece, turn as u64);
            } else {
                connection.replies(piece, turn as u64);
            }
        }
    }
    connection.end();
    drop(connection);
    let recorder = Rc::into_inner(recorder).expect("the connection is gone").into_inner();
    let report = recorder.finish();
    let (mut tape, mut statements) = (Vec::new(), 0);
    for piece in receiver {
        match piece {
            Piece::Statement { .. } => statements += 1,
            Piece::Block { bytes, .. } => tape.extend(bytes),
        }
    }
    Recorded { tape, statements, report }
}

/// What a tap forwards of a dialogue in CQL to each side, and its own answers.
fn forwarded(bytes: &[u8], longest: usize) -> [Vec<u8>; 3] {
    let mut rewriter = Rewriter::new(([127, 0, 0, 1], 9042).into());
    let mut found = [const { Vec::new() }; 3];
    for (turn, text) in bytes.split(|byte| *byte == TURN).enumerate() {
        for piece in text.chunks(longest) {
            let passed = rewriter.pass(turn % 2, piece);
            found[turn % 2].extend(passed.bytes);
            found[2].extend(passed.answer);
        }
    }
    found
}

/// Checks that the tape agrees with the report.
fn agree(Recorded { tape: bytes, statements, report }: &Recorded) {
    let defect = report.first_garbage.as_deref().is_some_and(|why| why.contains("defect"));
    assert!(!defect, "the parser has a defect");
    let records = tape(bytes).expect("the recorder's own tape is whole");
    let operations = records.iter().filter(|record| record.items > 0).count() as u64;
    assert_eq!(operations, report.operations);
    assert!(records.is_sorted_by_key(|record| record.at_ns), "instants rise");
    assert!(records.iter().all(|record| usize::from(record.statement) < *statements));
    assert!(report.unanswered <= report.operations, "{report:?}");
    let mut rows = records.iter();
    while let Some(first) = rows.next() {
        let more = rows.by_ref().take(usize::from(first.items).saturating_sub(1));
        let more: Vec<_> = more.filter(|row| row.items == 0 && row.at_ns == first.at_ns).collect();
        assert_eq!(more.len() + 1, usize::from(first.items), "rows of an operation follow it");
    }
}

/// The records of a tape, or `None` if it is damaged.
fn tape(bytes: &[u8]) -> Option<Vec<Record>> {
    FILE.with_borrow_mut(|file| {
        file.set_len(0).expect("a file can be cut");
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut writer = File::create(&path).expect("it is open");
        writer.write_all(bytes).expect("there is room");
        let mut reader = TapeReader::open(path.as_ref()).expect("it is open");
        let mut heads = reader.clone();
        let (mut block, mut found) = (Block::default(), Vec::new());
        loop {
            match (reader.next_block(&mut block), heads.skip_block()) {
                (Ok(true), Ok(Some(head))) => {
                    assert_eq!((head.records, reader.place()), (block.len(), heads.place()));
                    found.extend((0..block.len()).filter_map(|index| block.record(index)));
                    again(&block);
                }
                // A block with truncated records may have a complete header.
                (Ok(false), Ok(_)) => return Some(found),
                (Err(read), Err(skipped)) => {
                    assert_eq!(read.to_string(), skipped.to_string());
                    return None;
                }
                (read, skipped) => panic!("{read:?} and {skipped:?} differ"),
            }
        }
    })
}

/// Writes a block again and checks its records.
fn again(block: &Block) {
    let (mut writer, mut bytes) = (BlockWriter::default(), Vec::new());
    for record in (0..block.len()).filter_map(|index| block.record(index)) {
        let (key, value) = (block.key(&record), block.value(&record));
        let length = key.map_or(0, <[u8]>::len);
        assert!(length == 0 || length == record.key_size as usize, "a key is whole");
        assert_eq!(Record::read(&record.bytes()), record);
        if writer.fits(1, length + value.map_or(0, <[u8]>::len)) {
            writer.push(&record, key, value);
        }
    }
    writer.finish(&mut bytes).expect("a write into a vector succeeds");
    assert!(writer.is_empty());
}

#[cfg(test)]
mod tests {
    use kvmark_testing::{check_seeds, seeds};

    use super::*;

    const HASHED: Keep = Keep { keys: false, values: false };

    #[test]
    fn every_seed_is_taken() {
        check_seeds(env!("CARGO_MANIFEST_DIR"), check);
    }

    #[test]
    fn seeds_of_dialogues_are_understood() {
        for (path, bytes) in seeds(env!("CARGO_MANIFEST_DIR")) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let protocol =
                name.split_once('-').and_then(|(protocol, _)| TapProtocol::named(protocol));
            if let Some(protocol) = protocol {
                let report = recorded(protocol, &bytes, usize::MAX, HASHED).report;
                assert_eq!(
                    (report.garbage, report.operations > 0),
                    (0, true),
                    "{name}: {report:?}"
                );
            }
        }
    }
}
