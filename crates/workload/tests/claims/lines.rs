//! Keys and values from the lines of a file.

use std::collections::BTreeMap;
use std::io::Write;

use kvmark_plan::{KeyOrder, LineFile, ValueKind};
use kvmark_workload::{RecordRef, Stream, ValueBuffer};
use tempfile::NamedTempFile;

use crate::plans::plan;
use crate::statistics::assert_follows;

const WORDS: [&[u8]; 4] = [b"a", b"longer\n", b"\xFF\0", b"d"];

/// A file with the words, of which the plan expects a number.
fn file(bytes: &[u8], count: u64) -> (NamedTempFile, LineFile) {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let (name, sha256) = ("words.txt".to_owned(), String::new());
    (file, LineFile { path, name, column: None, sha256, count })
}

fn words() -> Vec<u8> {
    WORDS.iter().flat_map(|word| [&(word.len() as u32).to_le_bytes(), *word].concat()).collect()
}

#[test]
fn each_line_is_equally_likely_as_a_value_and_has_its_own_length() {
    let (_file, lines) = file(&words(), 4);
    let mut plan = plan();
    plan.dataset.values = ValueKind::Lines(lines);
    let stream = Stream::new(&plan, 0, 0).unwrap();
    let (mut values, mut counts) = (ValueBuffer::default(), BTreeMap::new());
    for number in 0..2_000 {
        stream.insert_values_into(number, RecordRef { ordinal: 1, key: b"" }, &mut values);
        let first = &values.bytes[values.places[0].1.clone()];
        assert_eq!(stream.records().first_value_length(number), first.len() as u64);
        for (_, place) in &values.places {
            *counts.entry(values.bytes[place.clone()].to_vec()).or_insert(0) += 1;
        }
    }
    assert!(WORDS.iter().all(|word| counts.contains_key(*word)));
    assert_follows(&counts.into_values().collect::<Vec<u64>>(), [0.25; 4].into_iter(), "lines");
    assert_eq!((stream.records().tag(1), stream.records().value_length()), (None, None));
}

#[test]
fn a_key_is_the_line_of_its_ordinal() {
    let (_file, lines) = file(&words(), 4);
    let mut plan = plan();
    plan.dataset.key.order = KeyOrder::Lines(lines);
    let stream = Stream::new(&plan, 0, 0).unwrap();
    let mut key = Vec::new();
    for ordinal in 0..9 {
        stream.records().key_into(ordinal, &mut key);
        assert_eq!(key, WORDS[ordinal as usize % 4]);
    }
}

#[test]
fn a_missing_or_incomplete_file_is_rejected() {
    let refusal = |lines| {
        let mut plan = plan();
        plan.dataset.values = ValueKind::Lines(lines);
        Stream::new(&plan, 0, 0).unwrap_err().to_string()
    };
    for (bytes, count) in [(&words()[..], 5), (&words()[..8], 2), (b"", 0), (b"abc", 0)] {
        let (_file, lines) = file(bytes, count);
        assert!(refusal(lines).contains("it isn't complete; remove it"));
    }
    let (file, lines) = file(&words(), 4);
    drop(file);
    assert!(refusal(lines).contains("can't be read: No such file"));
}
