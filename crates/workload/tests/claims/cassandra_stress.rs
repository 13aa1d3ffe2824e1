//! Rows as cassandra-stress itself wrote them, cell by cell (`tests/data`).

use std::fmt::Write;

use kvmark_plan::{
    Becomes, Distribution, Each, Generator, KeyChoice, Kind, Plan, RowColumn, RowLaw, RowShare,
    Rows, Shape, ValueType, Visit, Weight,
};
use kvmark_stress_rows::drawn;
use kvmark_workload::{ArgumentBuffer, Stream};

use crate::plans::{inserts_after, plan, stream};
use crate::statements::statement;

const IDENTITY: RowLaw = uniform(1, 100_000_000_000);
const ALL: Visit = Visit::Each { law: fixed(1), of: 1 };

const WHOLE: RowShare = RowShare { law: fixed(1), of: 1 };

const fn law(min: i64, max: i64, shape: Shape) -> RowLaw {
    RowLaw { min, max, shape, inverted: false }
}

const fn fixed(value: i64) -> RowLaw {
    law(value, value, Shape::Uniform)
}

const fn uniform(min: i64, max: i64) -> RowLaw {
    law(min, max, Shape::Uniform)
}

const fn gaussian(min: i64, max: i64, mean: f64, stddev: f64) -> RowLaw {
    law(min, max, Shape::Gaussian { mean, stddev })
}

fn column(label: &str, becomes: Becomes, identity: RowLaw, size: RowLaw) -> RowColumn {
    RowColumn { label: label.to_owned(), becomes, identity, size, count: fixed(1) }
}

/// A column of a user's profile.
fn own(name: &str, becomes: Becomes, identity: RowLaw, size: RowLaw) -> RowColumn {
    column(&format!("seed for stress{name}"), becomes, identity, size)
}

/// The predefined table with a number of columns.
fn standard(key_size: i64, columns: usize, size: RowLaw) -> Rows {
    let mut names: Vec<_> = (0..columns).map(|n| format!("C{n}")).collect();
    names.sort();
    let value = |name: &String| column(&format!("randomstr{name}"), Becomes::Bytes, IDENTITY, size);
    Rows {
        partition: vec![column("randomstrkey", Becomes::Digits, IDENTITY, fixed(key_size))],
        clustering: Vec::new(),
        values: names.iter().map(value).collect(),
        sorted: false,
        visit: ALL,
        ends: Vec::new(),
        partitions: vec![1],
        partitions_in_all: None,
        filled: WHOLE,
    }
}

/// A statement of all columns, once for each of the first `partitions` partitions.
fn writing(rows: Rows, first: u64, partitions: u64) -> Plan {
    let columns = 0..rows.columns().count() as u32;
    let arguments =
        columns.map(|column| (Each::Command, Generator::Column { column })).collect::<Vec<_>>();
    let mut plan = plan();
    plan.dataset.count = first + partitions;
    plan.statements =
        vec![kvmark_plan::Statement { rows: Some(rows), ..statement(1, 1, arguments) }];
    plan.groups[0].mix = vec![Weight { kind: Kind::Update, statement: Some(0), weight: 1.0 }];
    let distribution = Distribution::Sequential;
    plan.groups[0].keys = KeyChoice { start: first, count: partitions, distribution };
    plan
}

/// The rows of one partition as lines of a table, its number first.
fn lines(plan: &Plan, stream: &Stream, number: u64) -> Vec<String> {
    let inserts = inserts_after(plan);
    let draw = stream.draw(number, &inserts);
    let mut buffer = ArgumentBuffer::default();
    let [_, width, _] = stream.arguments_into(&draw, &inserts, &mut buffer);
    let line = |(first, _): &(u32, u32)| {
        let cells = &buffer.places[*first as usize..][..width as usize];
        let cells = cells.iter().map(|(kind, range)| cell(*kind, &buffer.bytes[range.clone()]));
        std::iter::once(draw.ordinal.to_string()).chain(cells).collect::<Vec<_>>().join(",")
    };
    buffer.commands.iter().map(line).collect()
}

fn cell(kind: ValueType, bytes: &[u8]) -> String {
    let number = || i64::from_le_bytes(bytes.try_into().unwrap());
    match kind {
        ValueType::Integer | ValueType::Timestamp => number().to_string(),
        ValueType::Fraction => f64::from_bits(number() as u64).to_string(),
        ValueType::Uuid => {
            let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|part| hex(&bytes[part]));
            format!("{a}-{b}-{c}-{d}-{e}")
        }
        _ => hex(bytes),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn assert_writes(rows: Rows, table: &str) {
    let expected: Vec<_> = table.lines().skip(1).collect();
    let first: u64 = expected[0].split(',').next().unwrap().parse().unwrap();
    let last: u64 = expected.last().unwrap().split(',').next().unwrap().parse().unwrap();
    let plan = writing(rows, first, last - first + 1);
    let stream = stream(&plan);
    let written = (0..=last - first).flat_map(|number| lines(&plan, &stream, number));
    let written: Vec<_> = written.collect();
    assert_eq!(written.len(), expected.len());
    for (written, expected) in written.iter().zip(expected) {
        assert_eq!(written, expected);
    }
}

#[test]
fn the_predefined_table_is_cassandra_stress_s() {
    let table = include_str!("../data/cassandra-stress-standard1.csv");
    assert_writes(standard(10, 5, fixed(34)), table);
}

#[test]
fn other_numbers_of_columns_and_other_sizes_are_cassandra_stress_s() {
    let table = include_str!("../data/cassandra-stress-standard1-3x100.csv");
    assert_writes(standard(10, 3, fixed(100)), table);
}

#[test]
fn long_keys_and_varying_sizes_are_cassandra_stress_s() {
    let table = include_str!("../data/cassandra-stress-standard1-extra.csv");
    assert_writes(standard(40, 12, uniform(1, 600)), table);
}

#[test]
fn counters_stand_under_cassandra_stress_s_keys() {
    let table = include_str!("../data/cassandra-stress-counter1.csv");
    let mut rows = standard(10, 5, fixed(34));
    for value in &mut rows.values {
        value.becomes = Becomes::Integer { bits: 64 };
        value.identity = fixed(1);
    }
    assert_writes(rows, table);
}

#[test]
fn a_profile_s_table_is_cassandra_stress_s_type_by_type() {
    let size = uniform(4, 8);
    let integer = Becomes::Integer { bits: 32 };
    let rows = Rows {
        partition: vec![own("id", Becomes::Text, uniform(1, 1_000_000), uniform(6, 14))],
        clustering: Vec::new(),
        values: vec![
            own("grade", integer, gaussian(1, 1_000, 500.0, 120.0), size),
            own("payload", Becomes::Bytes, uniform(1, 10_000_000), fixed(40)),
            own("owner", Becomes::Uuid, uniform(1, 100_000), size),
            own(
                "seen",
                Becomes::Timestamp,
                gaussian(1, 2_000_000_000, 1_000_000_000.5, 999_999_999.5 / 3.0),
                size,
            ),
            own("note", Becomes::Text, fixed(77), gaussian(4, 60, 32.0, 28.0 / 3.0)),
            own(
                "total",
                Becomes::Integer { bits: 64 },
                law(1, 1_000_000, Shape::Exponential),
                size,
            ),
            own("ratio", Becomes::Fraction { single: false }, IDENTITY, size),
        ],
        sorted: false,
        visit: ALL,
        ends: Vec::new(),
        partitions: vec![1],
        partitions_in_all: None,
        filled: WHOLE,
    };
    assert_writes(rows, include_str!("../data/cassandra-stress-user.csv"));
}

/// The profile with two clustering columns.
fn events(visit: Visit, sorted: bool) -> Rows {
    let counted = |column: RowColumn, count| RowColumn { count: fixed(count), ..column };
    let integer = || Becomes::Integer { bits: 32 };
    let (ten_thousand, size) = (uniform(1, 10_000), uniform(4, 8));
    Rows {
        partition: vec![own("host", Becomes::Text, uniform(1, 1_000_000), fixed(8))],
        clustering: vec![
            counted(own("slot", integer(), ten_thousand, size), 4),
            counted(own("sub", integer(), ten_thousand, size), 3),
        ],
        values: vec![
            own("body", Becomes::Bytes, IDENTITY, uniform(10, 20)),
            own("level", integer(), uniform(1, 7), size),
        ],
        sorted,
        visit,
        ends: Vec::new(),
        partitions: vec![1],
        partitions_in_all: None,
        filled: WHOLE,
    }
}

#[test]
fn the_rows_of_a_partition_are_cassandra_stress_s() {
    let table = include_str!("../data/cassandra-stress-user-clustering.csv");
    assert_writes(events(ALL, false), table);
}

#[test]
fn sorted_rows_are_the_same_rows_in_the_order_of_their_columns() {
    let table = include_str!("../data/cassandra-stress-user-clustering.csv");
    let plan = writing(events(ALL, true), 1, 10);
    let stream = stream(&plan);
    for number in 0..10 {
        let sorted = lines(&plan, &stream, number);
        let numbers = |line: &String| {
            let cells: Vec<_> = line.split(',').collect();
            [cells[2], cells[3]].map(|cell| cell.parse::<i64>().unwrap())
        };
        assert!(sorted.iter().map(numbers).is_sorted());
        let mark = format!("{},", number + 1);
        let mut expected: Vec<_> = table.lines().filter(|line| line.starts_with(&mark)).collect();
        let mut found: Vec<_> = sorted.iter().map(String::as_str).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[test]
fn a_query_of_one_row_takes_each_as_often_as_any_other() {
    let plan = writing(events(Visit::One, false), 1, 1);
    let stream = stream(&plan);
    let mut seen = std::collections::BTreeMap::new();
    for number in 0..6_000 {
        let lines = lines(&plan, &stream, number);
        assert_eq!(lines.len(), 1);
        *seen.entry(lines[0].clone()).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 12);
    assert!(seen.values().all(|count| (400..600).contains(count)), "{seen:?}");
}

#[test]
fn a_query_of_several_rows_mixes_them() {
    let table = include_str!("../data/cassandra-stress-user-clustering.csv");
    let plan = writing(events(Visit::Several, false), 1, 1);
    let stream = stream(&plan);
    let mixed = (0..100).flat_map(|number| lines(&plan, &stream, number));
    assert!(mixed.filter(|line| !table.contains(line.as_str())).count() > 50);
}

#[test]
fn operations_of_several_partitions_take_each_once() {
    let partitions = vec![3, 1, 6];
    let rows = Rows { partitions, partitions_in_all: Some(32), ..standard(10, 1, fixed(1)) };
    let plan = writing(rows, 1, 40);
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    let taken = (0..11).map(|number| {
        let mut buffer = ArgumentBuffer::default();
        stream.arguments_into(&stream.draw(number, &inserts), &inserts, &mut buffer);
        buffer.ordinals
    });
    let taken: Vec<_> = taken.collect();
    // The last operation ends with the last partition.
    assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 6, 3, 1, 6, 3, 1, 6, 2, 1]);
    assert_eq!(taken[..10].concat(), (1..=32).collect::<Vec<_>>());
}

#[test]
fn numbers_of_partitions_are_drawn_from_a_seed() {
    let counts = drawn(&uniform(1, 50), 7, 10_000).unwrap();
    assert_eq!(counts, drawn(&uniform(1, 50), 7, 10_000).unwrap());
    assert!(counts.iter().all(|count| (1..=50).contains(count)));
    let sum: i64 = counts.iter().sum();
    assert!((250_000..260_000).contains(&sum), "{sum}");
    assert!(drawn(&uniform(2, 1), 7, 1).is_err());
}

#[test]
fn a_share_of_the_rows_is_written_where_that_is_asked_for_but_never_none() {
    let visit = Visit::Each { law: fixed(1), of: 4 };
    let plan = writing(events(visit, false), 1, 10);
    let stream = stream(&plan);
    let counts: Vec<_> = (0..2_000).map(|number| lines(&plan, &stream, number).len()).collect();
    assert!(counts.iter().all(|count| (1..=12).contains(count)));
    // Each of four slots has three rows, all or none of which are written.
    let mean = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    let forced = 0.75_f64.powi(4);
    assert!((mean - 3.0 * (1.0 + forced)).abs() < 0.15, "{mean}");
    assert!(counts.iter().all(|count| count % 3 == 0));
}

#[test]
fn columns_behind_the_share_that_is_written_are_null() {
    let filled = RowShare { law: uniform(1, 2), of: 2 };
    let plan = writing(Rows { filled, ..standard(10, 5, fixed(1)) }, 1, 1_000);
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    let kinds = (0..1_000).map(|number| {
        let mut buffer = ArgumentBuffer::default();
        stream.arguments_into(&stream.draw(number, &inserts), &inserts, &mut buffer);
        buffer.places.iter().filter(|(kind, _)| *kind == ValueType::Null).count()
    });
    let mut rows = [0; 6];
    kinds.for_each(|nulls| rows[nulls] += 1);
    // Half of five columns is two.
    assert!(rows[0] > 400 && rows[3] > 400 && rows[0] + rows[3] == 1_000, "{rows:?}");
}

#[test]
fn a_write_ends_where_a_column_between_the_others_has_had_its_values() {
    let mut rows = events(ALL, false);
    rows.clustering.insert(1, RowColumn { count: fixed(2), ..rows.clustering[1].clone() });
    let written = |ends: &[u64], visit| {
        let rows = Rows { ends: ends.to_vec(), visit, ..rows.clone() };
        let plan = writing(rows, 1, 1);
        lines(&plan, &stream(&plan), 0)
    };
    let all = written(&[], ALL);
    assert_eq!(all.len(), 4 * 2 * 3);
    assert_eq!(written(&[9, 0, 0], ALL), all[..3]);
    assert_eq!(written(&[9, 1, 0], ALL), all[..6]);
    assert_eq!(written(&[0, 2, 0], ALL), all);
    assert_eq!(written(&[9, 0, 0], Visit::Each { law: fixed(1), of: 2 }).len(), 3);
}

/// Numbers of partitions, drawn by a law.
fn numbers(of: RowLaw) -> Vec<u64> {
    let mut plan = writing(standard(10, 1, fixed(1)), 0, 1_001);
    plan.groups[0].keys.distribution = Distribution::Row { of };
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    (0..20_000).map(|number| stream.draw(number, &inserts).ordinal).collect()
}

fn mean(numbers: &[u64]) -> f64 {
    numbers.iter().sum::<u64>() as f64 / numbers.len() as f64
}

#[test]
fn populations_follow_their_laws_within_their_bounds() {
    // Draws beyond the larger bound are clamped: a share of the width's root, by the law's scale.
    // Whole numbers are rounded down, too.
    let beyond = 1.0 / 999.0_f64.sqrt();
    let stretched = 999.0 / -beyond.ln() * (1.0 - beyond) + 0.5;
    let shapes = [
        (Shape::Uniform, 500.5),
        (Shape::Gaussian { mean: 500.5, stddev: 166.5 }, 500.5),
        (Shape::Exponential, stretched),
        (Shape::Extreme { shape: 1.0 }, stretched),
        (Shape::QuantizedExtreme { shape: 1.0, steps: 200 }, stretched),
    ];
    for (shape, expected) in shapes {
        let drawn = numbers(law(1, 1_000, shape));
        assert!(drawn.iter().all(|number| (1..=1_000).contains(number)), "{shape:?}");
        let found = mean(&drawn);
        assert!((found - expected).abs() < 0.04 * expected, "{shape:?}: {found}, not {expected}");
        let inverted = mean(&numbers(RowLaw { inverted: true, ..law(1, 1_000, shape) }));
        assert!((1_001.0 - inverted - expected).abs() < 0.04 * expected, "{shape:?} inverted");
    }
    assert!(numbers(fixed(7)).iter().all(|number| *number == 7));
}

#[test]
fn collections_hold_as_many_elements_as_their_size_says() {
    let text = || Box::new(own("tags", Becomes::Text, IDENTITY, fixed(5)));
    let list = Becomes::List { of: text() };
    let map = Becomes::Map {
        keys: text(),
        values: Box::new(own("tags.v", Becomes::Uuid, IDENTITY, fixed(1))),
    };
    let tuple = Becomes::Tuple {
        of: vec![
            own("u.a", Becomes::Boolean, IDENTITY, fixed(1)),
            own("u.b", Becomes::Inet, IDENTITY, fixed(1)),
        ],
    };
    let mut rows = standard(10, 1, fixed(1));
    rows.values = vec![
        own("list", list, IDENTITY, fixed(3)),
        own("map", map, IDENTITY, fixed(2)),
        own("tuple", tuple, IDENTITY, fixed(9)),
    ];
    let plan = writing(rows, 1, 10);
    let stream = stream(&plan);
    let inserts = inserts_after(&plan);
    for number in 0..10 {
        let mut buffer = ArgumentBuffer::default();
        stream.arguments_into(&stream.draw(number, &inserts), &inserts, &mut buffer);
        let kinds = [ValueType::Bytes, ValueType::List, ValueType::Map, ValueType::Tuple];
        for ((kind, range), (expected, count)) in
            buffer.places.iter().zip(kinds.into_iter().zip([0, 3, 4, 2]))
        {
            assert_eq!(*kind, expected);
            let bytes = &buffer.bytes[range.clone()];
            assert!(count == 0 || bytes[..8] == u64::to_le_bytes(count));
        }
    }
}

#[test]
fn reads_are_compared_with_the_expected_row() {
    let mut plan = writing(standard(10, 5, fixed(34)), 1, 10);
    plan.statements[0].expects = vec![1, 2, 3, 4, 5];
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    let draw = stream.draw(3, &inserts);
    let mut buffer = ArgumentBuffer::default();
    stream.arguments_into(&draw, &inserts, &mut buffer);
    let mut values: Vec<_> =
        buffer.places[1..].iter().map(|(_, range)| &buffer.bytes[range.clone()]).collect();
    let holds = |values: &[&[u8]]| {
        let cells = (0..).zip(values).map(|(column, value)| (0, column, *value));
        stream.template(&draw).unwrap().holds(stream.records(), &buffer, cells)
    };
    assert!(holds(&values));
    assert!(!holds(&values[1..]), "a column is missing");
    values.reverse();
    assert!(!holds(&values), "the columns hold each other's values");
}

#[test]
fn laws_that_cannot_be_drawn_are_refused_with_their_place() {
    let refused = |change: fn(&mut RowColumn)| {
        let mut rows = standard(10, 1, fixed(1));
        change(&mut rows.values[0]);
        Stream::new(&writing(rows, 1, 1), 0, 0).unwrap_err().to_string()
    };
    let told = refused(|column| column.identity = uniform(2, 1));
    assert_eq!(told, "statements[0].rows.values[0].identity.min is 2; use a number up to max");
    let told = refused(|column| column.size = fixed(-1));
    assert!(told.contains("size.min is -1; use a length from 0"), "{told}");
    let told = refused(|column| column.becomes = Becomes::Integer { bits: 7 });
    assert!(told.contains("becomes.bits is 7; use 8, 16, 32 or 64"), "{told}");
    let told = refused(|column| column.identity = gaussian(1, 9, 5.0, 0.0));
    assert!(told.contains("identity.stddev is 0; use a deviation above 0"), "{told}");
}
