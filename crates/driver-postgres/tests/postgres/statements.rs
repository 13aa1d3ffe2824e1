//! Statements with arguments on a real server.

use kvmark_driver::Layout;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::client::{Step, assert_steps, refusal};
use kvmark_testing::{Bound, layout_of};
use serde_json::json;

use crate::common::{ask, open_layout, read, with_session};
use crate::real::Server;

const CREATE: &str = "CREATE TABLE IF NOT EXISTS t (k text PRIMARY KEY, v bytea, n int DEFAULT 0)";

fn prepared(texts: &[&str]) -> Layout {
    Layout { prepare: vec![CREATE.to_owned()], ..layout_of(texts) }
}

#[test]
#[ignore = "needs postgres"]
fn statements_write_and_return_rows() {
    let (a, both) = (&[("a", "1", &[][..])], &[("a", "1", &[][..]), ("b", "2", &[])]);
    let all = &[("", "", &["a", "b", "\"\\"][..])];
    let insert = "INSERT INTO t VALUES ({key}, {value}) ON CONFLICT DO NOTHING";
    let increment = "UPDATE t SET n = n + 5 WHERE k = {key} RETURNING n";
    let many = "SELECT k, v, n FROM t WHERE k = ANY({list}) ORDER BY k";
    let steps: &[Step<'_>] = &[
        (Kind::Read, "SELECT v FROM t WHERE k = {key}", a, Outcome::Miss, &[]),
        (Kind::Insert, insert, both, Outcome::Ok, &[]),
        (Kind::Insert, insert, a, Outcome::Miss, &[]),
        (Kind::Update, increment, both, Outcome::Ok, &["0.0=5", "1.0=5"]),
        (
            Kind::Read,
            many,
            all,
            Outcome::Ok,
            &["0.0=a", "0.1=1", "0.2=5", "1.0=b", "1.1=2", "1.2=5"],
        ),
        (Kind::Read, "SELECT '{{1}}'::int[]", a, Outcome::Ok, &["0.0={1}"]),
        (Kind::Read, "SELECT 1/(n-5) FROM t", a, Outcome::Refused, &[]),
        (
            Kind::Delete,
            "DELETE FROM t WHERE k = {key}; SELECT count(*) FROM t",
            a,
            Outcome::Ok,
            &["0.0=1"],
        ),
    ];
    let server = Server::start(&[]);
    ask(&server.address, CREATE).unwrap();
    assert_steps(|layout| open_layout(&server.address, json!({}), layout).unwrap(), steps);
}

#[test]
#[ignore = "needs postgres"]
fn effects_and_rows_count_the_commands_that_wrote() {
    use kvmark_driver::Effect;
    let server = Server::start(&[]);
    ask(&server.address, CREATE).unwrap();
    let layout =
        prepared(&["UPDATE t SET v = {value} WHERE k = {key}", "INSERT INTO t VALUES ({key})"]);
    let driver = open_layout(&server.address, json!({}), &layout).unwrap();
    with_session(&driver, async |session| {
        let run = async |bound: &Bound| {
            let request = bound.request(Kind::Insert);
            let (outcome, reply) = kvmark_testing::execute(&session, 0, &request).await;
            (outcome, reply.rows, reply.effects)
        };
        let two = Bound::new(1).command("a", "", &[]).command("b", "", &[]);
        assert_eq!(run(&two).await, (Outcome::Ok, 2, vec![]));
        let again = Bound::new(1).command("c", "", &[]).command("a", "", &[]);
        let (outcome, _, effects) = run(&again).await;
        assert_eq!((outcome, effects), (Outcome::Refused, vec![(1, Effect::NotApplied)]));
        let update = Bound::new(0).command("a", "1", &[]).command("none", "1", &[]);
        let expected = (Outcome::Miss, 1, vec![(1, Effect::NotApplied)]);
        assert_eq!(run(&update).await, expected);
        // There is no table of YCSB.
        assert_eq!(read(&session, 0, "k").await.0, Outcome::Refused);
    });
}

#[test]
#[ignore = "needs postgres"]
fn a_statement_that_cannot_be_sent_is_rejected_with_the_reason() {
    let server = Server::start(&[]);
    let cases = [
        ("SELECT {other}", "its text is invalid: there is no argument 'other'"),
        ("SELECT {item}", "its text draws 'item' per item"),
        ("SELECT '{key}'", "its text has 0 parameters but 1 arguments: write every value as"),
        ("SELEC {key}", "it can't be prepared: the server answered: syntax error"),
        ("SELECT 1, {key", "its text has an unmatched '{'"),
    ];
    for (text, why) in cases {
        let error = refusal(open_layout(&server.address, json!({}), &prepared(&[text])));
        assert!(error.starts_with(&format!("statement '{text}': {why}")), "{error}");
    }
    let layout = Layout { prepare: vec!["CREATE TABEL t".to_owned()], ..layout_of(&[]) };
    let error = refusal(open_layout(&server.address, json!({}), &layout));
    assert!(error.starts_with("the preparation 'CREATE TABEL t' failed: the server answered: syn"));
}
