//! The arguments of statements.

use std::collections::BTreeMap;

use kvmark_plan::{
    Argument, Distribution, Each, Generator, KeyChoice, KeyOrder, KeyText, Kind, Plan, SizeLaw,
    Statement, ValueKind, ValueType, Weight,
};
use kvmark_workload::{ArgumentBuffer, Draw, RecordRef, Stream};

use crate::plans::{inserts_after, plan, stream};

fn constant(size: u64) -> SizeLaw {
    SizeLaw::Constant { size }
}

pub(crate) fn statement(commands: u64, items: u64, arguments: Vec<(Each, Generator)>) -> Statement {
    let named = arguments.into_iter().enumerate().map(|(n, (each, generator))| {
        let name = format!("a{n}");
        Argument { name, each, generator }
    });
    Statement {
        name: "DO".to_owned(),
        texts: vec!["DO".to_owned()],
        commands: constant(commands),
        items: constant(items),
        rows: None,
        record: Each::Command,
        checks: Vec::new(),
        when_full: None,
        arguments: named.collect(),
        expects: Vec::new(),
        options: BTreeMap::new(),
    }
}

fn speaking(kind: Kind, statement: Statement) -> Plan {
    let mut plan = plan();
    plan.statements = vec![statement];
    plan.groups[0].mix = vec![Weight { kind, statement: Some(0), weight: 1.0 }];
    plan
}

fn bound(stream: &Stream, plan: &Plan, number: u64) -> (Draw, ArgumentBuffer) {
    let inserts = inserts_after(plan);
    let draw = stream.draw(number, &inserts);
    let mut buffer = ArgumentBuffer::default();
    stream.arguments_into(&draw, &inserts, &mut buffer);
    (draw, buffer)
}

fn of(generator: Generator) -> impl Iterator<Item = (ValueType, Vec<u8>)> {
    let plan = speaking(Kind::Read, statement(1, 1, vec![(Each::Command, generator)]));
    let stream = stream(&plan);
    (0..2_000).map(move |number| {
        let (_, buffer) = bound(&stream, &plan, number);
        let (kind, place) = buffer.places[0].clone();
        (kind, buffer.bytes[place].to_vec())
    })
}

fn integers(generator: Generator) -> Vec<i64> {
    of(generator).map(|(_, bytes)| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

#[test]
fn arguments_are_a_function_of_seed_and_number() {
    let law = Generator::Text { length: SizeLaw::Uniform { min: 1, max: 40 } };
    assert!(of(law.clone()).eq(of(law)));
}

#[test]
fn content_of_a_tape_is_bound_unchanged_and_other_values_are_drawn() {
    let arguments = [Generator::Key, Generator::Field { field: 0 }, Generator::ScanLength];
    let arguments = arguments.map(|generator| (Each::Command, generator)).to_vec();
    let texts = vec!["DO {a0} {a1} {a2}".to_owned()];
    let plan = speaking(Kind::Update, Statement { texts, ..statement(1, 1, arguments) });
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    let draw = stream.draw(7, &inserts);
    let (_, drawn) = bound(&stream, &plan, 7);
    let of = |buffer: &ArgumentBuffer| {
        let place = |n: usize| buffer.bytes[buffer.places[n].1.clone()].to_vec();
        [0, 1, 2].map(place)
    };
    let mut buffer = ArgumentBuffer::default();
    buffer.taped.scan_length = 300;
    let kept: [Option<&[u8]>; 3] = [None, Some(b""), Some(b"\xff very")];
    for (key, value) in kept.iter().flat_map(|key| kept.iter().map(move |value| (*key, *value))) {
        buffer.taped.set(key, value);
        stream.arguments_into(&draw, &inserts, &mut buffer);
        let [own_key, own_value, count] = of(&buffer);
        assert_eq!(own_key, key.map_or_else(|| of(&drawn)[0].clone(), <[u8]>::to_vec));
        assert_eq!(own_value, value.map_or_else(|| of(&drawn)[1].clone(), <[u8]>::to_vec));
        assert_eq!(count, 300_i64.to_le_bytes());
    }
}

#[test]
fn arguments_are_in_the_order_operation_command_item() {
    let text = || Generator::Text { length: constant(4) };
    let arguments = vec![
        (Each::Item, text()),
        (Each::Operation, text()),
        (Each::Command, Generator::Key),
        (Each::Command, text()),
    ];
    let plan = speaking(Kind::Update, statement(3, 2, arguments));
    let (draw, buffer) = bound(&stream(&plan), &plan, 7);
    assert_eq!(buffer.commands, [(1, 2), (5, 2), (9, 2)]);
    assert_eq!(buffer.places.len(), 1 + 3 * (2 + 2));
    assert_eq!(buffer.ordinals[0], draw.ordinal);
    let mut key = Vec::new();
    stream(&plan).records().key_into(buffer.ordinals[1], &mut key);
    let second_key = buffer.places[5].1.clone();
    assert_eq!(buffer.bytes[second_key], key[..]);
}

#[test]
fn an_argument_is_the_same_whatever_else_is_drawn() {
    let text = Generator::Text { length: SizeLaw::Uniform { min: 0, max: 9 } };
    let choice = KeyChoice { start: 0, count: 7, distribution: Distribution::Sequential };
    let own = [
        Generator::Key,
        Generator::Field { field: 1 },
        text.clone(),
        Generator::Number { choice },
        Generator::Ordinal,
    ];
    let own = own.map(|generator| (Each::Command, generator)).to_vec();
    // With it commands are drawn one by one, without it argument by argument.
    let with = [own.clone(), vec![(Each::Operation, text)]].concat();
    let [without, with] = [own, with].map(|arguments| {
        let mut statement = statement(3, 1, arguments);
        statement.items = SizeLaw::Uniform { min: 1, max: 9 };
        speaking(Kind::Update, statement)
    });
    let values = |buffer: &ArgumentBuffer, command: usize| {
        let (first, items) = buffer.commands[command];
        let own = buffer.places[first as usize..first as usize + 5].iter();
        let value = |(kind, place): &(ValueType, std::ops::Range<usize>)| {
            (*kind, buffer.bytes[place.clone()].to_vec())
        };
        (items, own.map(value).collect::<Vec<_>>())
    };
    let (one, other) = (stream(&without), stream(&with));
    for number in 0..100 {
        let [one, other] = [bound(&one, &without, number), bound(&other, &with, number)];
        assert_eq!(one.1.ordinals, other.1.ordinals);
        for command in 0..3 {
            assert_eq!(values(&one.1, command), values(&other.1, command));
        }
    }
}

#[test]
fn each_command_of_an_insert_has_a_new_record() {
    let plan = speaking(Kind::Insert, statement(4, 1, vec![(Each::Command, Generator::Ordinal)]));
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    let mut buffer = ArgumentBuffer::default();
    let mut ordinals = Vec::new();
    for number in 0..10 {
        stream.arguments_into(&stream.draw(number, &inserts), &inserts, &mut buffer);
        ordinals.extend_from_slice(&buffer.ordinals);
    }
    let end = plan.dataset.start + plan.dataset.count;
    assert_eq!(ordinals, (end..end + 40).collect::<Vec<_>>());
}

#[test]
fn numbers_follow_their_law_between_their_bounds() {
    let choice = KeyChoice { start: 5, count: 10, distribution: Distribution::Uniform };
    let drawn = integers(Generator::Number { choice });
    assert!((5..15).all(|number| drawn.iter().filter(|one| **one == number).count() > 130));
    let choice = KeyChoice { start: 0, count: 7, distribution: Distribution::Sequential };
    let drawn = integers(Generator::Number { choice });
    assert!(drawn.iter().zip(0..).all(|(one, number)| *one == number % 7));
}

#[test]
fn a_normal_law_has_its_mean_and_deviation_and_ends_at_its_bounds() {
    let law = Generator::Gaussian { min: -300, max: 300, mean: 10.0, stddev: 100.0 };
    let drawn = integers(law);
    assert!(drawn.iter().all(|one| (-300..=300).contains(one)));
    let mean = drawn.iter().sum::<i64>() as f64 / drawn.len() as f64;
    let square = drawn.iter().map(|one| (*one as f64 - mean).powi(2)).sum::<f64>();
    let deviation = (square / drawn.len() as f64).sqrt();
    assert!((mean - 10.0).abs() < 8.0, "mean {mean}");
    assert!((deviation - 99.0).abs() < 6.0, "deviation {deviation}");
}

#[test]
fn names_uuids_and_instants_have_their_forms() {
    let text = KeyText { prefix: "m-".to_owned(), zero_padding: 5, order: KeyOrder::Ordered };
    let choice = KeyChoice { start: 1, count: 9, distribution: Distribution::Sequential };
    let (kind, name) = of(Generator::Name { text, choice }).next().unwrap();
    assert_eq!((kind, &name[..]), (ValueType::Text, &b"m-00001"[..]));
    let uuids: Vec<_> = of(Generator::Uuid).map(|(_, bytes)| bytes).collect();
    assert!(uuids.iter().all(|bytes| bytes[6] >> 4 == 4 && bytes[8] >> 6 == 2));
    let instants = integers(Generator::Timestamp { start_ms: 1_000, step_ms: 5 });
    assert_eq!(instants[..3], [1_000, 1_005, 1_010]);
}

#[test]
fn a_map_holds_keys_and_values_in_turn() {
    let choice = KeyChoice { start: 0, count: 3, distribution: Distribution::Uniform };
    let keys = Box::new(Generator::Number { choice });
    let law = Generator::Map { keys, values: Box::new(Generator::Boolean), length: constant(2) };
    let (kind, bytes) = of(law).next().unwrap();
    assert_eq!(kind, ValueType::Map);
    assert_eq!(bytes[..8], 4_u64.to_le_bytes());
    let kinds = [bytes[8], bytes[8 + 9 + 8]];
    assert_eq!(kinds, [ValueType::Integer as u8, ValueType::Boolean as u8]);
    assert_eq!(bytes.len(), 8 + 2 * (9 + 8 + 9 + 1));
}

#[test]
fn a_field_that_only_replies_hold_is_not_made_and_checked_all_the_same() {
    let arguments =
        vec![(Each::Command, Generator::Key), (Each::Command, Generator::Field { field: 0 })];
    let mut read = statement(1, 1, arguments);
    read.texts = vec!["GET {a0}".to_owned()];
    read.expects = vec![1];
    let mut plan = speaking(Kind::Read, read);
    plan.dataset.values = ValueKind::Integrity;
    let reads = stream(&plan);
    let (draw, buffer) = bound(&reads, &plan, 3);
    let [key, field] = [0, 1].map(|place: usize| &buffer.bytes[buffer.places[place].1.clone()]);
    assert!(field.is_empty());
    let mut value = Vec::new();
    reads.records().append_value(0, 0, 0, RecordRef { ordinal: draw.ordinal, key }, &mut value);
    let holds = |value: &[u8]| {
        let template = reads.template(&draw).unwrap();
        template.holds(reads.records(), &buffer, [(0, 0, value)].into_iter())
    };
    assert!(holds(&value));
    assert!(!holds(&value[1..]));
    plan.statements[0].texts = vec!["SET {a0} {a1} GET".to_owned()];
    let (_, told) = bound(&stream(&plan), &plan, 3);
    assert_eq!(told.bytes[told.places[1].1.clone()], value);
}
