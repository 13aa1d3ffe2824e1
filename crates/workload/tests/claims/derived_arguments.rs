//! Arguments derived from others, checks of rows, and inserts into a full dataset.

use std::collections::{BTreeMap, BTreeSet};

use kvmark_plan::{
    Argument, Basis, Check, Distribution, Each, FormatPart, Generator, KeyChoice, KeyOrder,
    KeyText, Kind, Plan, SizeLaw, Statement, Weight,
};
use kvmark_workload::{ArgumentBuffer, Draw, InsertSequence, Stream};

use crate::plans::{ALONE, plan, stream};

fn constant(size: u64) -> SizeLaw {
    SizeLaw::Constant { size }
}

fn part(literal: &str, argument: Option<u32>) -> FormatPart {
    FormatPart { literal: literal.to_owned(), argument, zero_padding: 1 }
}

/// `val:` and the record's ordinal, which is the argument before.
fn value() -> Generator {
    Generator::Format { parts: vec![part("val:", Some(0))] }
}

fn computed(of: Basis, step: i64) -> Generator {
    Generator::Computed { of, divisor: 10, modulus: Some(4), factor: 100, start: 1, step }
}

fn statement(arguments: Vec<(Each, Generator)>) -> Statement {
    let named = arguments.into_iter().enumerate().map(|(n, (each, generator))| {
        let name = format!("a{n}");
        Argument { name, each, generator }
    });
    Statement {
        name: "DO".to_owned(),
        texts: vec!["DO".to_owned()],
        commands: constant(1),
        items: constant(1),
        rows: None,
        record: Each::Command,
        arguments: named.collect(),
        expects: Vec::new(),
        checks: Vec::new(),
        when_full: None,
        options: BTreeMap::new(),
    }
}

fn speaking(kind: Kind, statements: Vec<Statement>) -> Plan {
    let mut plan = plan();
    plan.statements = statements;
    plan.groups[0].mix = vec![Weight { kind, statement: Some(0), weight: 1.0 }];
    plan.groups[0].keys =
        KeyChoice { start: 0, count: 1_000, distribution: Distribution::Sequential };
    plan
}

fn bound(stream: &Stream, inserts: &InsertSequence, number: u64) -> (Draw, ArgumentBuffer) {
    let draw = stream.draw(number, inserts);
    let mut buffer = ArgumentBuffer::default();
    stream.arguments_into(&draw, inserts, &mut buffer);
    (draw, buffer)
}

fn text(buffer: &ArgumentBuffer, place: usize) -> &[u8] {
    &buffer.bytes[buffer.places[place].1.clone()]
}

fn integer(buffer: &ArgumentBuffer, place: usize) -> i64 {
    i64::from_le_bytes(text(buffer, place).try_into().unwrap())
}

fn loaded() -> InsertSequence {
    InsertSequence::new(1_000, ALONE)
}

#[test]
fn a_text_is_composed_of_earlier_arguments() {
    let keyed = Generator::Format {
        parts: vec![
            part("", Some(1)),
            FormatPart { literal: "_".to_owned(), argument: Some(0), zero_padding: 5 },
            part("!", None),
        ],
    };
    let arguments = vec![
        (Each::Command, Generator::Ordinal),
        (Each::Command, Generator::Key),
        (Each::Command, value()),
        (Each::Item, keyed),
    ];
    let mut plan = speaking(Kind::Read, vec![statement(arguments)]);
    plan.dataset.key =
        KeyText { prefix: "key:".to_owned(), zero_padding: 1, order: KeyOrder::Ordered };
    let (_, buffer) = bound(&stream(&plan), &loaded(), 42);
    assert_eq!(text(&buffer, 2), b"val:42");
    assert_eq!(text(&buffer, 3), b"key:42_00042!");
}

#[test]
fn a_number_is_computed_from_the_record_and_steps_within_the_operation() {
    let arguments = vec![
        (Each::Command, computed(Basis::Ordinal, 1)),
        (Each::Command, computed(Basis::Place, 0)),
        (Each::Item, computed(Basis::Operation, 7)),
    ];
    let mut spoken = statement(arguments);
    (spoken.commands, spoken.items) = (constant(20), constant(2));
    spoken.record = Each::Operation;
    let plan = speaking(Kind::Read, vec![spoken]);
    let (_, buffer) = bound(&stream(&plan), &loaded(), 57);
    assert_eq!(buffer.ordinals, [57; 20], "all commands are about one record");
    // 57 / 10 % 4 is 1.
    for (command, (first, _)) in buffer.commands.iter().enumerate() {
        let first = *first as usize;
        assert_eq!(integer(&buffer, first), 101 + command as i64);
        assert_eq!(integer(&buffer, first + 1), 1 + 100 * (command as i64 / 10));
        assert_eq!(integer(&buffer, first + 2), 101 + 7 * 2 * command as i64);
        assert_eq!(integer(&buffer, first + 3), 101 + 7 * (2 * command as i64 + 1));
    }
}

#[test]
fn a_pair_adds_up_to_the_record_and_differs_from_write_to_write() {
    let split = |rest| (Each::Command, Generator::Split { rest });
    let plan = speaking(Kind::Update, vec![statement(vec![split(true), split(false)])]);
    let stream = stream(&plan);
    let firsts = [100, 1_100, 2_100, 3_100].map(|number| {
        let (draw, buffer) = bound(&stream, &loaded(), number);
        assert_eq!(draw.ordinal, 100);
        let (rest, first) = (integer(&buffer, 0), integer(&buffer, 1));
        assert!(first >= 0 && rest >= 0 && first + rest == 100);
        first
    });
    assert!(BTreeSet::from(firsts).len() > 1);
}

#[test]
fn returned_values_are_compared_with_the_arguments() {
    let arguments = vec![(Each::Command, Generator::Ordinal), (Each::Command, value())];
    let mut read = statement(arguments);
    read.expects = vec![1];
    read.commands = constant(2);
    let stream = stream(&speaking(Kind::Read, vec![read]));
    let (draw, buffer) = bound(&stream, &loaded(), 5);
    let values = buffer.ordinals.iter().map(|ordinal| format!("val:{ordinal}").into_bytes());
    let values: Vec<_> = values.collect();
    let holds = |cells: &[(u32, u32, &[u8])]| {
        stream.template(&draw).unwrap().holds(stream.records(), &buffer, cells.iter().copied())
    };
    let [first, second] = [0, 1].map(|index: usize| &values[index][..]);
    // As two rows, or as the columns of one.
    assert!(holds(&[(0, 0, first), (1, 0, second)]));
    assert!(holds(&[(0, 0, first), (0, 1, second)]));
    assert!(!holds(&[(0, 0, first), (1, 0, b"val:7")]));
    assert!(!holds(&[(0, 0, first)]));
    // Null is before the value.
    for cells in [[(0, 1, first), (1, 0, second)], [(0, 0, first), (1, 1, second)]] {
        assert!(!holds(&cells));
    }
    assert!(!holds(&[(0, 0, first), (0, 2, second)]));
}

/// Rows of a value and a time each.
fn rows<'a>(values: &'a [[&'a str; 2]]) -> impl Iterator<Item = (u32, u32, &'a [u8])> + Clone + 'a {
    (0..).zip(values).flat_map(|(row, values)| {
        (0..).zip(values).map(move |(column, value)| (row, column, value.as_bytes()))
    })
}

#[test]
fn rows_are_counted_added_up_and_compared() {
    let mut read = statement(vec![(Each::Command, Generator::Ordinal)]);
    read.checks = vec![
        Check::Rows { least: 2, most: Some(2) },
        Check::Sum { column: 0, argument: 0 },
        Check::Same { column: 1 },
    ];
    let stream = stream(&speaking(Kind::Read, vec![read]));
    let (draw, buffer) = bound(&stream, &loaded(), 100);
    let check = |values: &[[&str; 2]]| {
        stream.template(&draw).unwrap().checks(&buffer, values.len() as u64, rows(values))
    };
    assert!(check(&[["60", "7"], ["40", "7"]]));
    assert!(!check(&[["60", "7"], ["41", "7"]]), "the sum is wrong");
    assert!(!check(&[["60", "7"], ["40", "8"]]), "the times differ");
    assert!(!check(&[["100", "7"]]), "a row is missing");
    assert!(!check(&[["60", "7"], ["x", "7"]]), "not a number");
}

#[test]
fn every_row_must_contain_the_requested_value() {
    let arguments = vec![(Each::Command, Generator::Ordinal), (Each::Command, value())];
    let mut read = statement(arguments);
    read.checks = vec![Check::Each { column: 1, argument: 1 }];
    let stream = stream(&speaking(Kind::Read, vec![read]));
    let (draw, buffer) = bound(&stream, &loaded(), 3);
    let check = |values: &[[&str; 2]]| {
        stream.template(&draw).unwrap().checks(&buffer, values.len() as u64, rows(values))
    };
    assert!(check(&[["a", "val:3"], ["b", "val:3"]]));
    assert!(!check(&[["a", "val:3"], ["b", "val:4"]]));
}

/// Inserts, ten at a time, until there are 25 records.
fn filling() -> Plan {
    let mut insert = statement(vec![(Each::Command, Generator::Ordinal)]);
    insert.commands = constant(10);
    insert.when_full = Some(1);
    let mut update = statement(vec![(Each::Command, Generator::Ordinal)]);
    update.name = "AGAIN".to_owned();
    let mut plan = speaking(Kind::Insert, vec![insert, update]);
    (plan.dataset.count, plan.dataset.full_at) = (0, Some(25));
    plan.groups[0].keys = KeyChoice { start: 0, count: 25, distribution: Distribution::Uniform };
    plan
}

#[test]
fn inserts_end_when_the_dataset_is_full_and_update_from_then_on() {
    let plan = filling();
    let stream = stream(&plan);
    let inserts = InsertSequence::new(0, ALONE).ending_at(plan.dataset.full_at);
    let mut inserted = Vec::new();
    for number in 0..3 {
        let (draw, buffer) = bound(&stream, &inserts, number);
        assert_eq!((draw.kind, draw.statement), (Kind::Insert, Some(0)));
        assert_eq!(buffer.ordinals.len(), 10);
        let known = buffer.ordinals[buffer.inserted.len()..].iter();
        assert!(known.copied().all(|ordinal| inserts.is_available(ordinal)));
        buffer.inserted.iter().for_each(|ordinal| inserts.acknowledge(*ordinal));
        inserted.extend(buffer.inserted);
    }
    assert_eq!(inserted, (0..25).collect::<Vec<_>>());
    assert!(inserts.is_full());
    let (draw, buffer) = bound(&stream, &inserts, 3);
    assert_eq!((draw.kind, draw.statement), (Kind::Update, Some(1)));
    assert!(buffer.inserted.is_empty() && buffer.ordinals[0] < 25);
}

#[test]
fn a_reader_can_begin_with_the_first_acknowledged_record() {
    let mut plan = filling();
    plan.groups[0].mix[0].kind = Kind::Read;
    let reader = stream(&plan);
    plan.groups[0].mix[0].kind = Kind::Insert;
    let writer = stream(&plan);
    let inserts = InsertSequence::new(0, ALONE);
    assert!(!reader.can_begin(&inserts) && writer.can_begin(&inserts));
    let ordinal = inserts.take().unwrap();
    assert!(!reader.can_begin(&inserts), "it isn't acknowledged yet");
    inserts.acknowledge(ordinal);
    assert!(reader.can_begin(&inserts));
}

#[test]
fn shares_of_inserts_add_up_to_all() {
    for end in [0, 1, 7, 100] {
        let taken = (0..3).flat_map(|index| {
            let share = kvmark_plan::Share { index, of: 3 };
            let inserts = InsertSequence::new(0, share).ending_at(Some(end));
            std::iter::from_fn(move || inserts.take())
        });
        let mut taken: Vec<_> = taken.collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..end).collect::<Vec<_>>());
    }
}

#[test]
fn the_newest_records_are_chosen_and_no_others() {
    let mut plan = filling();
    plan.groups[0].mix[0].kind = Kind::Read;
    plan.groups[0].keys.distribution = Distribution::Newest { window: 5 };
    let stream = stream(&plan);
    let inserts = InsertSequence::new(0, ALONE);
    for ordinal in 0..20 {
        inserts.take().unwrap();
        inserts.acknowledge(ordinal);
        let chosen = (0..100).map(|number| stream.draw(number, &inserts).ordinal);
        let newest = (ordinal + 1).saturating_sub(5)..=ordinal;
        assert_eq!(chosen.collect::<BTreeSet<_>>(), newest.collect());
    }
}
