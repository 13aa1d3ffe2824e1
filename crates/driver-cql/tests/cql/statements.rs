//! Statements on a real node.

use std::collections::BTreeSet;

use kvmark_driver::{Driver, Layout};
use kvmark_plan::{Generator, Kind, Outcome, SizeLaw, Statement, ValueType};
use serde_json::json;

use crate::common::whole;
use crate::common::{Drawn, layout, node, open, refusal, run, session, several, statement, text};

fn with(prepare: &[&str], statements: Vec<Statement>) -> Layout {
    let prepare = prepare.iter().map(|text| (*text).to_owned()).collect();
    Layout { prepare, statements, ..layout(2) }
}

fn some_text() -> Generator {
    Generator::Text { length: SizeLaw::Constant { size: 2 } }
}

const TYPES: [(&str, &str); 21] = [
    ("i", "int"),
    ("b", "bigint"),
    ("s", "smallint"),
    ("t", "tinyint"),
    ("v", "varint"),
    ("f", "float"),
    ("d", "double"),
    ("de", "decimal"),
    ("bo", "boolean"),
    ("a", "ascii"),
    ("bl", "blob"),
    ("u", "uuid"),
    ("tu", "timeuuid"),
    ("ts", "timestamp"),
    ("da", "date"),
    ("ti", "time"),
    ("ip", "inet"),
    ("l", "list<int>"),
    ("m", "map<text, int>"),
    ("tp", "frozen<tuple<text, bigint>>"),
    ("ud", "frozen<pair>"),
];

fn generators() -> Vec<(&'static str, Generator)> {
    let number = || Generator::Gaussian { min: 0, max: 99, mean: 9.0, stddev: 2.0 };
    let two = || SizeLaw::Constant { size: 2 };
    let list = Generator::List { of: Box::new(number()), length: two() };
    let map =
        Generator::Map { keys: Box::new(some_text()), values: Box::new(number()), length: two() };
    let pair = || Generator::Tuple { of: vec![some_text(), number()] };
    let fraction = || Generator::Fraction { min: 0.0, max: 1.0 };
    let time = Generator::Timestamp { start_ms: 0, step_ms: 1 };
    let mut all: Vec<_> = ["i", "b", "s", "t", "v"].map(|name| (name, number())).into();
    all.extend(["f", "d", "de"].map(|name| (name, fraction())));
    all.extend([
        ("bo", Generator::Boolean),
        ("a", some_text()),
        ("bl", Generator::Blob { length: two() }),
        ("u", Generator::Uuid),
        ("tu", Generator::Uuid),
        ("ts", time),
        ("da", number()),
        ("ti", number()),
        ("ip", some_text()),
        ("l", list),
        ("m", map),
        ("tp", pair()),
        ("ud", pair()),
        ("k", Generator::Key),
    ]);
    all
}

fn values() -> Vec<(ValueType, Vec<u8>)> {
    let fraction = || (ValueType::Fraction, 0.25_f64.to_le_bytes().to_vec());
    let uuid = || (ValueType::Uuid, (0..16).collect());
    let mut all: Vec<_> = (0..5).map(|n| whole(40 + n)).collect();
    all.extend((0..3).map(|_| fraction()));
    all.extend([
        (ValueType::Boolean, vec![1]),
        text("hi"),
        (ValueType::Bytes, vec![0, 255]),
        uuid(),
        uuid(),
        (ValueType::Timestamp, 1_000_000_i64.to_le_bytes().to_vec()),
        whole(19_000),
        whole(5),
        text("10.0.0.1"),
        several(ValueType::List, &[whole(1), whole(-1)]),
        several(ValueType::Map, &[text("a"), whole(1), text("b"), whole(2)]),
        several(ValueType::Tuple, &[text("x"), whole(7)]),
        several(ValueType::Tuple, &[text("y"), whole(8)]),
        text("k"),
    ]);
    all
}

#[test]
#[ignore = "needs a node of Cassandra"]
fn every_type_is_written_and_read_back() {
    let address = node("kvmark_test_types");
    let columns: String = TYPES.iter().map(|(name, typ)| format!(", {name} {typ}")).collect();
    let table = format!("CREATE TABLE IF NOT EXISTS types (k text PRIMARY KEY{columns})");
    let udt = "CREATE TYPE IF NOT EXISTS pair (name text, number int)";
    let names: Vec<_> = TYPES.iter().map(|(name, _)| *name).collect();
    let marks: Vec<_> = names.iter().map(|name| format!("{{{name}}}")).collect();
    let (names, marks) = (names.join(", "), marks.join(", "));
    let write = format!("INSERT INTO types ({names}, k) VALUES ({marks}, {{k}})");
    let read = format!("SELECT {names} FROM types WHERE k = {{k}}");
    let statements = vec![
        statement(&[&write], &generators(), json!({})),
        statement(&[&read], &[("k", Generator::Key)], json!({"consistency": "one"})),
    ];
    let driver = open(&address, json!({}), &with(&[udt, &table], statements)).unwrap();
    run(async {
        let session = session(&driver);
        let done = Drawn::default().command(&values()).execute(&session, 0, Kind::Insert).await;
        assert_eq!((done.0, done.2.rows), (Outcome::Ok, 1), "{:?}", session.last_failure());
        let key = Drawn::default().command(&[text("k")]);
        let (outcome, _, reply) = key.execute(&session, 1, Kind::Read).await;
        assert_eq!((outcome, reply.rows), (Outcome::Ok, 1), "{:?}", session.last_failure());
        assert_eq!(reply.cells.len(), TYPES.len());
        for (cell, ((name, _), (kind, drawn))) in reply.cells.iter().zip(TYPES.iter().zip(values()))
        {
            let found = reply.bytes_of(cell);
            let number = || i64::from_le_bytes(drawn.clone().try_into().unwrap()).to_string();
            match (*name, kind) {
                ("de", _) => assert_eq!(found, [0, 0, 0, 2, 25]),
                ("ip", _) => assert_eq!(found, [10, 0, 0, 1]),
                ("tu", _) => assert_eq!(found[6], 0x16),
                (_, ValueType::Integer | ValueType::Timestamp) => {
                    assert_eq!(found, number().as_bytes(), "{name}");
                }
                _ => assert_eq!(found, drawn, "{name}"),
            }
        }
        let missing = Drawn::default().command(&[text("other")]);
        assert_eq!(missing.execute(&session, 1, Kind::Read).await.0, Outcome::Miss);
    });
}

#[test]
#[ignore = "needs a node of Cassandra"]
fn an_argument_that_does_not_fit_its_column_is_named() {
    let address = node("kvmark_test_refused");
    let table = "CREATE TABLE IF NOT EXISTS small (k text PRIMARY KEY, n int)";
    let refused = |text: &str, arguments: &[(&str, Generator)], options| {
        let statements = vec![statement(&[text], arguments, options)];
        refusal(&address, json!({}), &with(&[table], statements))
    };
    let write = "INSERT INTO small (k, n) VALUES ('a', {n})";
    assert_eq!(
        refused(write, &[("n", some_text())], json!({})),
        "statement 'own': argument 'n' doesn't fit: a text can't be of type int"
    );
    let unknown = refused(write, &[("m", some_text())], json!({}));
    assert!(unknown.contains("no argument 'n' (there are m)"), "{unknown}");
    let quoted = "INSERT INTO small (k, n) VALUES ('{n}', 1)";
    let error = refused(quoted, &[("n", some_text())], json!({}));
    assert!(error.contains("0 bind markers but 1 arguments outside quotes"), "{error}");
    let error = refused("INSERT INTO nowhere (k) VALUES ('a')", &[], json!({}));
    assert!(error.starts_with("statement 'own': it can't be prepared: a node answered"), "{error}");
    let error = refused("SELECT n FROM small", &[], json!({"batch": "logged"}));
    assert!(error.contains("a batch can't hold a select"), "{error}");
    let error = refused("SELECT n FROM small", &[], json!({"consistancy": "one"}));
    assert!(error.contains("statement 'own': there is no option 'consistancy'"), "{error}");
}

#[test]
#[ignore = "needs a node of Cassandra"]
fn commands_are_sent_in_a_batch_or_concurrently_and_are_counted() {
    let address = node("kvmark_test_batches");
    let tables = [
        "CREATE TABLE IF NOT EXISTS many (p text, c int, v text, PRIMARY KEY (p, c))",
        "TRUNCATE many",
    ];
    let write = "INSERT INTO many (p, c, v) VALUES ('p', {c}, {v}) USING TTL 600";
    let arguments = [("c", Generator::Ordinal), ("v", some_text())];
    let write = |options| statement(&[write], &arguments, options);
    let read = |options| statement(&["SELECT c FROM many WHERE p = 'p'"], &[], options);
    let one = [("c", Generator::Ordinal)];
    let statements = vec![
        write(json!({"batch": "unlogged"})),
        write(json!({})),
        read(json!({"page_size": 4})),
        read(json!({"page_size": 4, "pages": "first"})),
        statement(&["SELECT v FROM many WHERE p = 'p' AND c = {c}"], &one, json!({})),
    ];
    let driver = open(&address, json!({}), &with(&tables, statements)).unwrap();
    run(async {
        let session = session(&driver);
        let rows = |from: i64| {
            let row = |n| [whole(n), text(&format!("v{n}"))];
            (from..from + 6).fold(Drawn::default(), |drawn, n| drawn.command(&row(n)))
        };
        for (number, from) in [(0, 0), (1, 6)] {
            let (outcome, _, reply) = rows(from).execute(&session, number, Kind::Insert).await;
            assert_eq!((outcome, reply.rows), (Outcome::Ok, 6), "{:?}", session.last_failure());
        }
        let none = || Drawn::default().command(&[]);
        let (_, cells, reply) = none().execute(&session, 2, Kind::Read).await;
        assert_eq!(reply.rows, 12);
        assert_eq!((cells[0].as_str(), cells[11].as_str()), ("0.0=0", "11.0=11"));
        let (_, _, reply) = none().execute(&session, 3, Kind::Read).await;
        assert_eq!(reply.rows, 4);
        let three = [2, 0, 7].iter().fold(Drawn::default(), |drawn, n| drawn.command(&[whole(*n)]));
        let (_, cells, reply) = three.execute(&session, 4, Kind::Read).await;
        assert_eq!(
            (cells, reply.rows),
            (vec!["0.0=v2".into(), "1.0=v0".into(), "2.0=v7".into()], 3)
        );
    });
}

#[test]
#[ignore = "needs a node of Cassandra"]
fn an_unmet_condition_is_a_miss_and_a_counter_counts() {
    let address = node("kvmark_test_counters");
    let tables = [
        "CREATE TABLE IF NOT EXISTS once (k text PRIMARY KEY, v int)",
        "TRUNCATE once",
        "CREATE TABLE IF NOT EXISTS counts (k text PRIMARY KEY, n counter)",
        "TRUNCATE counts",
    ];
    let number = [("n", Generator::Ordinal)];
    let once = "INSERT INTO once (k, v) VALUES ('a', {n}) IF NOT EXISTS";
    let add = "UPDATE counts SET n = n + {n} WHERE k = 'a'";
    let statements = vec![
        statement(&[once], &number, json!({"serial_consistency": "local_serial"})),
        statement(&[add], &number, json!({"batch": "counter"})),
        statement(&["SELECT n FROM counts WHERE k = 'a'"], &[], json!({})),
    ];
    let driver = open(&address, json!({}), &with(&tables, statements)).unwrap();
    run(async {
        let session = session(&driver);
        let five = Drawn::default().command(&[whole(5)]);
        let (outcome, _, reply) = five.execute(&session, 0, Kind::Insert).await;
        assert_eq!((outcome, reply.rows), (Outcome::Ok, 1), "{:?}", session.last_failure());
        let (outcome, _, reply) = five.execute(&session, 0, Kind::Insert).await;
        assert_eq!((outcome, reply.rows), (Outcome::Miss, 0));
        let twice = Drawn::default().command(&[whole(2)]).command(&[whole(3)]);
        assert_eq!(twice.execute(&session, 1, Kind::Update).await.2.rows, 2);
        let sum = Drawn::default().command(&[]).execute(&session, 2, Kind::Read).await;
        assert_eq!(sum.1, ["0.0=5"]);
        let large = Drawn::default().command(&[whole(1 << 40)]);
        assert_eq!(large.execute(&session, 0, Kind::Insert).await.0, Outcome::Refused);
        let said = session.last_failure().unwrap();
        assert!(said.contains("the number 1099511627776 can't be of type int"), "{said}");
    });
}

#[test]
#[ignore = "needs a node of Cassandra"]
fn statements_use_the_keyspace_of_the_preparation() {
    let address = node("");
    let prepare = [
        "CREATE KEYSPACE IF NOT EXISTS kvmark_test_used WITH REPLICATION = {'class': \
         'SimpleStrategy', 'replication_factor': 1}",
        "USE kvmark_test_used",
        "CREATE TABLE IF NOT EXISTS t (k text PRIMARY KEY)",
    ];
    let statements = vec![statement(&["SELECT k FROM t"], &[], json!({}))];
    let driver = open(&address, json!({}), &with(&prepare, statements)).unwrap();
    let (used, named): (BTreeSet<_>, _) = run(async {
        let session = session(&driver);
        let none = Drawn::default().command(&[]);
        let outcome = none.execute(&session, 0, Kind::Scan).await.0;
        ([outcome].into_iter().collect(), session.last_failure())
    });
    assert_eq!((used, named), (BTreeSet::from([Outcome::Ok]), None));
    assert!(driver.statistics().contains_key("warnings"));
}
