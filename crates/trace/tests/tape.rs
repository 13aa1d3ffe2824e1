//! A written tape is read, also with a damaged end.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::fs;
use std::path::{Path, PathBuf};

use kvmark_trace::tape::{Block, BlockWriter, RECORDS_MAX, Record, TapeError, TapeReader};
use proptest::prelude::*;

/// A record, with its stored key and value.
type Kept = (Record, Option<Vec<u8>>, Option<Vec<u8>>);

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kvmark-tape-{name}-{}", std::process::id()))
}

prop_compose! {
    fn record()(
        at_ns: u64, key: u64, completed_ns: u64, ttl_ms: u64, client: u32, count: u32,
        statement: u16, items: u16, kind: u8, outcome: u8,
        own in proptest::option::of(prop::collection::vec(any::<u8>(), 0..9)),
        value in proptest::option::of(prop::collection::vec(any::<u8>(), 0..9)),
        key_size: u32, value_size: u32,
    ) -> Kept {
        let length =
            |kept: &Option<Vec<u8>>, size| kept.as_ref().map_or(size, |one| one.len() as u32);
        let flags = (u8::from(own.is_some()) * Record::KEY_KEPT)
            | (u8::from(value.is_some()) * Record::VALUE_KEPT);
        let record = Record {
            at_ns, key, completed_ns, ttl_ms, client, count, statement, items, kind, outcome, flags,
            key_size: length(&own, key_size), value_size: length(&value, value_size), heap: 0,
        };
        (record, own, value)
    }
}

/// A tape of these records, some a block.
fn tape(records: &[Kept], each: usize) -> Vec<u8> {
    let (mut bytes, mut writer) = (Vec::new(), BlockWriter::default());
    for part in records.chunks(each) {
        for (record, key, value) in part {
            writer.push(record, key.as_deref(), value.as_deref());
        }
        writer.finish(&mut bytes).unwrap();
    }
    bytes
}

/// All readable records, and the end of reading.
fn read(path: &Path) -> (Vec<Kept>, Option<TapeError>) {
    let (mut found, mut block) = (Vec::new(), Block::default());
    let mut reader = TapeReader::open(path).unwrap();
    loop {
        match reader.next_block(&mut block) {
            Ok(true) => {}
            Ok(false) => return (found, None),
            Err(problem) => return (found, Some(problem)),
        }
        for index in 0..block.len() {
            let record = block.record(index).unwrap();
            let kept = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
            let (key, value) = (kept(block.key(&record)), kept(block.value(&record)));
            found.push((Record { heap: 0, ..record }, key, value));
        }
    }
}

proptest! {
    #[test]
    fn a_tape_is_read_up_to_its_last_complete_block(
        records in prop::collection::vec(record(), 1..40), each in 1usize..8, cut in 0.0f64..=1.0,
    ) {
        let path = file("whole");
        let bytes = tape(&records, each);
        let left = (bytes.len() as f64 * cut) as usize;
        fs::write(&path, &bytes[..left]).unwrap();
        let (found, problem) = read(&path);
        prop_assert!(problem.is_none());
        prop_assert_eq!(&found[..], &records[..found.len()]);
        if left == bytes.len() {
            prop_assert_eq!(found.len(), records.len());
        } else {
            let blocks = found.len().div_ceil(each);
            prop_assert!(tape(&records[..found.len()], each).len() <= left);
            let next = records.len().min((blocks + 1) * each);
            prop_assert!(tape(&records[..next], each).len() > left);
        }
    }

    #[test]
    fn any_bytes_give_records_or_an_error(
        records in prop::collection::vec(record(), 1..9),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
    ) {
        let path = file("any");
        let mut bytes = tape(&records, 4);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        fs::write(&path, &bytes).unwrap();
        let (found, _) = read(&path);
        prop_assert!(found.len() <= RECORDS_MAX);
    }
}

#[test]
fn a_file_that_is_no_tape_is_refused_with_the_place() {
    let path = file("none");
    fs::write(&path, [b'x'; 100]).unwrap();
    let problem = read(&path).1.unwrap();
    assert_eq!(problem.to_string(), "it is damaged at byte 0: no block begins there");
}

#[test]
fn block_headers_give_the_number_of_records() {
    let path = file("heads");
    let record = |at_ns| (Record { at_ns, items: 1, ..Record::default() }, None, None);
    fs::write(&path, tape(&[record(3), record(5), record(9)], 2)).unwrap();
    let mut reader = TapeReader::open(&path).unwrap();
    let heads: Vec<_> = std::iter::from_fn(|| reader.skip_block().unwrap()).collect();
    let said: Vec<_> = heads.iter().map(|head| (head.before, head.records)).collect();
    assert_eq!(said, [(0, 2), (2, 1)]);
    assert_eq!((heads[0].first_at_ns, heads[0].last_at_ns), (3, 5));
}
