//! What a fuzzer holds the tap's parsers and the reader of tapes to.
//!
//! Any bytes are what clients and a server say to each other, in turns that end where a byte
//! [`TURN`] stands. Whatever they are, they are recorded alike in any pieces, what is recorded
//! agrees with what is told, and the tape says it again. Bytes that are a tape give records, or
//! the place where it is damaged.

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
use crate::recorder::Recorder;
use crate::shared::Shared;
use crate::store::Piece;
use crate::{Keep, Spoken, Told};

pub use kvmark_driver_server::framed::fuzz::MEMORY_MAX;

/// Behind it the other side speaks.
pub const TURN: u8 = 0xff;
/// Longest input of which every byte comes alone.
const SINGLE_MAX: usize = 512;
/// What is looked at of a dialogue: each new name of a command takes its time.
const DIALOGUE_MAX: usize = 2048;
/// What waits for answers takes of memory.
const MEMORY_BYTES: usize = 1 << 20;

thread_local! {
    static FILE: RefCell<File> = RefCell::new(file());
}

/// A file in memory: on a disk, most of the time would be its.
fn file() -> File {
    let made = tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile());
    made.expect("a file can be made")
}

/// Holds bytes to all of it.
///
/// # Panics
/// Where it doesn't hold.
pub fn check(bytes: &[u8]) {
    let dialogue = &bytes[..bytes.len().min(DIALOGUE_MAX)];
    for spoken in Spoken::ALL {
        let [hashed, kept] = [false, true].map(|kept| {
            let keep = Keep { keys: kept, values: kept };
            let whole = recorded(spoken, dialogue, usize::MAX, keep);
            assert_eq!(recorded(spoken, dialogue, 7, keep), whole, "in small pieces");
            if dialogue.len() <= SINGLE_MAX {
                assert_eq!(recorded(spoken, dialogue, 1, keep), whole, "byte by byte");
            }
            agree(&whole);
            whole
        });
        // Requests are read in another way where contents are kept.
        assert_eq!((hashed.statements, hashed.told), (kept.statements, kept.told));
    }
    tape(bytes);
    // Few changes would get behind the first bytes else.
    tape(&[&b"KVTAPE01"[..], bytes].concat());
}

/// What came of a connection: its tape, how many statements it has, and what is told.
#[derive(Debug, PartialEq, Eq)]
struct Recorded {
    tape: Vec<u8>,
    statements: usize,
    told: Told,
}

/// Records a dialogue of which no piece is longer.
fn recorded(spoken: Spoken, bytes: &[u8], longest: usize, keep: Keep) -> Recorded {
    let (sender, receiver) = channel();
    // Times to live that are instants are counted from the beginning.
    let mut shared = Shared::new(1 << 30);
    shared.start_unix_ns = 0;
    let key = HashKey::new(&[7; 16]);
    let shared = Arc::new(shared);
    let keeper = Keeper::new(keep, Arc::clone(&shared));
    let recorder = Recorder::new(key, keeper, shared, sender, 0, MEMORY_BYTES);
    let recorder = Rc::new(RefCell::new(recorder));
    let mut connection = Connection::new(spoken, Rc::clone(&recorder));
    for (turn, said) in bytes.split(|byte| *byte == TURN).enumerate() {
        for piece in said.chunks(longest) {
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
    let told = recorder.finish();
    let (mut tape, mut statements) = (Vec::new(), 0);
    for piece in receiver {
        match piece {
            Piece::Statement { .. } => statements += 1,
            Piece::Block { bytes, .. } => tape.extend(bytes),
        }
    }
    Recorded { tape, statements, told }
}

/// Looks whether tape and what is told agree.
fn agree(Recorded { tape: bytes, statements, told }: &Recorded) {
    let defect = told.first_garbage.as_deref().is_some_and(|why| why.contains("defect"));
    assert!(!defect, "the parser has a defect");
    let records = tape(bytes).expect("the recorder's own tape is whole");
    let operations = records.iter().filter(|record| record.items > 0).count() as u64;
    assert_eq!(operations, told.operations);
    assert!(records.is_sorted_by_key(|record| record.at_ns), "instants rise");
    assert!(records.iter().all(|record| usize::from(record.statement) < *statements));
    assert!(told.unanswered <= told.operations, "{told:?}");
    let mut rows = records.iter();
    while let Some(first) = rows.next() {
        let more = rows.by_ref().take(usize::from(first.items).saturating_sub(1));
        let more: Vec<_> = more.filter(|row| row.items == 0 && row.at_ns == first.at_ns).collect();
        assert_eq!(more.len() + 1, usize::from(first.items), "rows of an operation follow it");
    }
}

/// The records of bytes that are a tape; none where they are damaged.
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
                // Whose records are cut off may have a whole head.
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

/// Writes a block again, and looks whether its records are what they were.
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
    writer.finish(&mut bytes).expect("a vector takes all that is written");
    assert!(writer.is_empty());
}

#[cfg(test)]
mod tests {
    use kvmark_driver_server::framed::fuzz::seeds;

    use super::*;

    const HASHED: Keep = Keep { keys: false, values: false };

    #[test]
    fn every_seed_is_taken() {
        for (path, bytes) in seeds(env!("CARGO_MANIFEST_DIR")) {
            println!("{}", path.display());
            check(&bytes);
        }
    }

    #[test]
    fn seeds_of_dialogues_are_understood() {
        for (path, bytes) in seeds(env!("CARGO_MANIFEST_DIR")) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let spoken = name.split_once('-').and_then(|(spoken, _)| Spoken::named(spoken));
            if let Some(spoken) = spoken {
                let told = recorded(spoken, &bytes, usize::MAX, HASHED).told;
                assert_eq!((told.garbage, told.operations > 0), (0, true), "{name}: {told:?}");
            }
        }
    }
}
