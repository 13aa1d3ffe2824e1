//! Statements. Some tests need a real server.

use kvmark_plan::{Kind, Outcome};
use kvmark_testing::client::{Step, assert_steps, refusal};
use kvmark_testing::{Bound, layout_of};
use serde_json::json;

use crate::common::{open_layout, outcome, with_session};
use crate::real::Server;
use crate::scripted;

fn carry_out(server: &Server, steps: &[Step<'_>]) {
    assert_steps(|layout| open_layout(&server.address, json!({}), layout).unwrap(), steps);
}

#[test]
#[ignore = "needs memcached"]
fn values_are_set_read_extended_and_counted() {
    let server = Server::start(&[]);
    let (a, both) = (("a", "1", &[][..]), [("a", "1", &[][..]), ("b", "x\r\ny", &[])]);
    let steps: &[Step<'_>] = &[
        (Kind::Read, "GET {key}", &[a], Outcome::Miss, &[]),
        (Kind::Update, "REPLACE {key} {value}", &[a], Outcome::Miss, &[]),
        (Kind::Update, "APPEND {key} {value}", &[a], Outcome::Miss, &[]),
        (Kind::Insert, "set {key} {value} EX 60 FLAGS 7", &both, Outcome::Ok, &[]),
        (Kind::Insert, "ADD {key} {value}", &[a], Outcome::Ok, &[]),
        (Kind::Update, "ADD {key} {value}", &[a], Outcome::Miss, &[]),
        (Kind::Read, "GETS {key}", &both, Outcome::Ok, &["0.0=1", "1.0=x\r\ny"]),
        (Kind::Read, "GET {key}", &[a, ("c", "", &[])], Outcome::Miss, &["0.0=1"]),
        (Kind::Update, "INCR {key} 5", &[a, a], Outcome::Ok, &["0.0=6", "1.0=11"]),
        (Kind::Update, "DECR {key} 1", &[a], Outcome::Ok, &["0.0=10"]),
        (Kind::Update, "INCR c 5", &[a], Outcome::Miss, &[]),
        (Kind::Update, "INCR b 5", &[a], Outcome::Refused, &[]),
        (Kind::Update, "PREPEND {key} <{value}:", &[a], Outcome::Ok, &[]),
        (Kind::Update, "APPEND {key} \" >\"", &[a], Outcome::Ok, &[]),
        (Kind::Read, "GAT 60 {key}", &[a], Outcome::Ok, &["0.0=<1:10 >"]),
        (Kind::Update, "TOUCH {key} 60", &[a], Outcome::Ok, &[]),
        (Kind::Update, "TOUCH c 60", &[a], Outcome::Miss, &[]),
        (Kind::Delete, "DELETE {key}", &[a], Outcome::Ok, &[]),
        (Kind::Delete, "DELETE {key}", &[a], Outcome::Miss, &[]),
    ];
    carry_out(&server, steps);
    assert_eq!(server.raw().get("b").unwrap().1, "7");
}

#[test]
#[ignore = "needs memcached"]
fn a_get_of_many_keys_returns_values_in_key_order() {
    let server = Server::start(&[]);
    let items: &[&str] = &["x", "y", "z"];
    let set = &[("x", "1", &[][..]), ("z", "3", &[])];
    let steps: &[Step<'_>] = &[
        (Kind::Insert, "SET {key} {value}", set, Outcome::Ok, &[]),
        (Kind::Read, "GET [{item}] q", &[("", "", items)], Outcome::Ok, &["0.0=1", "0.2=3"]),
        (
            Kind::Read,
            "GETS q [{item} p:{item}]",
            &[("", "", items)],
            Outcome::Ok,
            &["0.1=1", "0.5=3"],
        ),
        (Kind::Read, "GET q r", &[("", "", &[])], Outcome::Miss, &[]),
        (Kind::Read, "GET [{item}]", &[("", "", &[])], Outcome::Refused, &[]),
        (
            Kind::Read,
            "GET x; GET [{item}]",
            &[("", "", items)],
            Outcome::Ok,
            &["0.0=1", "0.1=1", "0.3=3"],
        ),
    ];
    carry_out(&server, steps);
}

#[test]
#[ignore = "needs memcached"]
fn meta_commands_return_their_replies() {
    let server = Server::start(&[]);
    let a = &[("a", "1", &[][..])];
    let steps: &[Step<'_>] = &[
        (Kind::Read, "MG {key} v", a, Outcome::Miss, &[]),
        (Kind::Insert, "MS {key} {value}\\ T60 F5", a, Outcome::Ok, &[]),
        (Kind::Read, "MG {key} v t", a, Outcome::Ok, &["0.0=1\\"]),
        (Kind::Read, "MG {key}", a, Outcome::Ok, &[]),
        (Kind::Insert, "MS n 7", a, Outcome::Ok, &[]),
        (Kind::Update, "MA n v D5", a, Outcome::Ok, &["0.0=12"]),
        (Kind::Delete, "MD {key}", a, Outcome::Ok, &[]),
        (Kind::Delete, "MD {key}", a, Outcome::Miss, &[]),
    ];
    carry_out(&server, steps);
}

#[test]
#[ignore = "needs memcached"]
fn rows_count_the_existing_records() {
    let server = Server::start(&[]);
    let layout = layout_of(&["SET {key} {value}", "GET {key} [{item}]"]);
    let driver = open_layout(&server.address, json!({}), &layout).unwrap();
    with_session(&driver, async |session| {
        let rows = async |bound: &Bound, kind| {
            let request = bound.request(kind);
            let (outcome, reply) = kvmark_testing::execute(&session, 0, &request).await;
            (outcome, reply.rows)
        };
        let both = Bound::new(0).command("a", "1", &[]).command("b", "2", &[]);
        assert_eq!(rows(&both, Kind::Insert).await, (Outcome::Ok, 2));
        let get = Bound::new(1).command("a", "", &["b", "c"]);
        assert_eq!(rows(&get, Kind::Read).await, (Outcome::Ok, 2));
        let get = get.command("c", "", &["d"]);
        assert_eq!(rows(&get, Kind::Read).await, (Outcome::Miss, 2));
    });
}

#[test]
fn an_invalid_text_is_rejected_with_its_statement_and_the_reason() {
    let cases = [
        ("GTE {key}", "there is no command GTE; did you mean GET?"),
        ("DELET {key}", "there is no command DELET; did you mean DELETE?"),
        ("CAS {key} {value} 5", "there is no command CAS; known are GET, "),
        ("HGETALL {key}", "there is no command HGETALL; known are GET, GETS, GAT, "),
        ("{key}", "it doesn't begin with a command's name"),
        ("GET", "GET needs a key"),
        ("GAT {key}", "GAT needs a key"),
        ("GAT x{key} {key}", "GAT needs a time to live and keys, a whole number"),
        ("GAT", "GAT needs a time to live and keys"),
        ("GAT 60", "GAT needs a key"),
        ("SET {key}", "SET needs a key and a value"),
        ("SET {key} {value} 60", "'60' isn't EX or FLAGS, each of which is once"),
        ("SET {key} {value} EX", "SET needs seconds behind EX"),
        ("SET {key} {value} EX 99999999999", "SET needs seconds behind EX, a whole number"),
        ("SET {key} {value} FLAGS {value}", "FLAGS is a number without arguments"),
        ("SET [{item} 1]", "SET has one key: leave the brackets out"),
        ("INCR {key}", "INCR needs a key and a number"),
        ("DELETE {key} 5", "DELETE has too many arguments"),
        ("MG {key} v q", "flag q suppresses the reply: leave it out"),
        ("GET {kye}", "there is no argument 'kye' (there are key, value, list, item)"),
        ("GET {item}", "'item' is drawn for each item, so put it in square brackets"),
        ("SET {key} {list}", "'list' is a collection, which isn't part of a word"),
    ];
    for (text, why) in cases {
        let error = refusal(open_layout("127.0.0.1:1", json!({}), &layout_of(&[text])));
        let expected = format!("statement '{text}' can't be sent as '{text}': {why}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn an_argument_that_breaks_the_protocol_is_rejected_and_not_sent() {
    let server = scripted::Server::of_sessions(|_, peer| peer.repeat("STORED\r\n"));
    let layout = layout_of(&["SET {key} 1 EX {value}", "SET {key} {value}"]);
    let driver = open_layout(&server.address, json!({}), &layout).unwrap();
    with_session(&driver, async |session| {
        let command = |statement, key, value| Bound::new(statement).command(key, value, &[]);
        for bound in [command(0, "a", "x 1"), command(1, "a b", "1"), command(1, "", "1")] {
            assert_eq!(outcome(&session, &bound.request(Kind::Insert)).await, Outcome::Refused);
        }
        let good = command(1, "a", "1");
        assert_eq!(outcome(&session, &good.request(Kind::Insert)).await, Outcome::Ok);
    });
    assert_eq!(server.heard.lock().unwrap().last().unwrap(), "set a 0 0 1 1");
    assert_eq!(server.heard.lock().unwrap().len(), 4);
}

#[test]
fn a_server_without_meta_commands_is_rejected_if_a_statement_uses_one() {
    let server = scripted::Server::new(|_, peer| {
        while let Some(command) = peer.hear() {
            peer.say(if command == "version" { "VERSION 1.5.22\r\n" } else { "ERROR\r\n" });
        }
    });
    let error = refusal(open_layout(&server.address, json!({}), &layout_of(&["MG {key} v"])));
    let expected = format!(
        "the server at {}, version 1.5.22, doesn't support meta commands, which statement \
         'MG {{key}} v' uses: use GET, SET, DELETE or INCR",
        server.address
    );
    assert_eq!(error, expected);
}

#[test]
#[ignore = "needs memcached"]
fn a_server_is_prepared_once_before_sessions_are_opened() {
    let server = Server::start(&[]);
    assert_eq!(server.raw().ask("set n 0 0 1\r\n7"), "STORED");
    let mut layout = layout_of(&[]);
    layout.prepare = vec!["incr n 5".to_owned(), "verbosity 1".to_owned()];
    let driver = open_layout(&server.address, json!({}), &layout).unwrap();
    with_session(&driver, async |_| ());
    assert_eq!(server.raw().get("n").unwrap().0, "12");
    layout.prepare = vec!["NONSENSE".to_owned()];
    let error = refusal(open_layout(&server.address, json!({}), &layout));
    let expected =
        format!("'NONSENSE' of prepare failed at {}: the server answered: ERROR", server.address);
    assert_eq!(error, expected);
    layout.prepare = vec!["set a 0 0 1".to_owned()];
    let error = refusal(open_layout(&server.address, json!({}), &layout));
    assert!(error.ends_with("a command with a value is allowed only in a statement"), "{error}");
}
