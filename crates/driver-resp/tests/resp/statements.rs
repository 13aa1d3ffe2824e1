//! Statements on a real server. Needs redis-server.

use kvmark_driver_resp::Resp;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::client::{Step, assert_steps};
use kvmark_testing::{Bound, Shared, layout_of};
use serde_json::json;

use crate::common::{open_layout, with_session};
use crate::real::Redis;

fn carry_out(redis: &Redis, steps: &[Step<'_>]) {
    for protocol in [2, 3] {
        redis.raw().ask("FLUSHALL");
        let options = json!({ "protocol": protocol });
        assert_steps(|layout| open_layout(&redis.address, options, layout).unwrap(), steps);
    }
}

#[test]
#[ignore = "needs redis-server"]
fn strings_are_set_read_and_counted() {
    let redis = Redis::start(&[]);
    let (a, both) = (("a", "1", &[][..]), [("a", "1", &[][..]), ("b", "x y", &[])]);
    let steps: &[Step<'_>] = &[
        (Kind::Read, "GET {key}", &[a], Outcome::Miss, &[]),
        (Kind::Insert, "SET {key} {value} EX 60", &both, Outcome::Ok, &[]),
        (Kind::Read, "GET {key}", &both, Outcome::Ok, &["0.0=1", "1.0=x y"]),
        (Kind::Read, "GET \"{key}\"", &[a, ("c", "", &[])], Outcome::Miss, &["0.0=1"]),
        (Kind::Update, "INCR {key}", &[a, a], Outcome::Ok, &["0.0=2", "1.0=3"]),
        (Kind::Update, "SET none {value} XX", &[a], Outcome::Miss, &[]),
        (Kind::Insert, "SET {key} {value} NX", &[a], Outcome::Ok, &[]),
        (Kind::Delete, "DEL {key}", &[a], Outcome::Ok, &["0.0=1"]),
        (Kind::Delete, "DEL {key}", &[a], Outcome::Miss, &["0.0=0"]),
        (Kind::Update, "LPUSH b {value}", &[a], Outcome::Refused, &[]),
    ];
    carry_out(&redis, steps);
    assert!(matches!(redis.raw().ask("TTL b").as_str(), ":59" | ":60"));
}

#[test]
#[ignore = "needs redis-server"]
fn items_are_parts_of_one_command() {
    let redis = Redis::start(&[]);
    let items: &[&str] = &["x", "y"];
    let steps: &[Step<'_>] = &[
        (Kind::Insert, "MSET [{item} \"<{item}>\"]", &[("", "", items)], Outcome::Ok, &[]),
        (Kind::Read, "MGET [{item}] z", &[("", "", items)], Outcome::Ok, &["0.0=<x>", "0.1=<y>"]),
        (Kind::Read, "MGET p q", &[("", "", &[])], Outcome::Miss, &[]),
        (Kind::Insert, "HMSET {key} [{item} {value}]", &[("h", "v", items)], Outcome::Ok, &[]),
        (Kind::Read, "HMGET {key} [{item}]", &[("h", "", items)], Outcome::Ok, &["0.0=v", "0.1=v"]),
        (Kind::Read, "HMGET {key} [{item}]", &[("i", "", items)], Outcome::Miss, &[]),
        (Kind::Read, "HGETALL {key}", &[("i", "", &[])], Outcome::Miss, &[]),
        (Kind::Insert, "SADD {key} {list}", &[("s", "", items)], Outcome::Ok, &["0.0=2"]),
    ];
    carry_out(&redis, steps);
}

#[test]
#[ignore = "needs redis-server"]
fn lists_streams_sorted_sets_and_transactions_return_nested_replies() {
    let redis = Redis::start(&[]);
    let one = &[("k", "5", &[][..])];
    let nothing = &[("none", "5", &[][..])];
    let steps: &[Step<'_>] = &[
        (Kind::Insert, "LPUSH l:{key} {value} 6", one, Outcome::Ok, &["0.0=2"]),
        (Kind::Read, "LRANGE l:{key} 0 -1", one, Outcome::Ok, &["0.0=6", "0.1=5"]),
        (Kind::Update, "LPOP l:{key}", nothing, Outcome::Miss, &[]),
        (Kind::Insert, "XADD x:{key} 7-1 f {value}", one, Outcome::Ok, &["0.0=7-1"]),
        (Kind::Scan, "XRANGE x:{key} - +", one, Outcome::Ok, &["0.0=7-1", "0.1=f", "0.2=5"]),
        (Kind::Scan, "XRANGE x:{key} - +", nothing, Outcome::Ok, &[]),
        (Kind::Insert, "ZADD z:{key} {value} m", one, Outcome::Ok, &["0.0=1"]),
        (Kind::Read, "ZSCORE z:{key} m", one, Outcome::Ok, &["0.0=5"]),
        (
            Kind::Update,
            "MULTI; INCRBY {key} {value}; GET {key}; EXEC",
            &[("n", "5", &[]), ("n", "6", &[])],
            Outcome::Ok,
            &["0.0=5", "0.1=5", "1.0=11", "1.1=11"],
        ),
        (Kind::Update, "MULTI; INCR z:{key}; EXEC", one, Outcome::Refused, &[]),
    ];
    carry_out(&redis, steps);
}

async fn rows(session: &Shared<Resp>, bound: &Bound, kind: Kind) -> (Outcome, u64) {
    let (outcome, reply) = kvmark_testing::execute(session, 0, &bound.request(kind)).await;
    (outcome, reply.rows)
}

#[test]
#[ignore = "needs redis-server"]
fn rows_count_commands_or_items_without_the_missing_ones() {
    let redis = Redis::start(&[]);
    let texts = ["SET {key} {value}", "GET {key}", "MSET [{item} 1]"];
    let driver = open_layout(&redis.address, json!({}), &layout_of(&texts)).unwrap();
    with_session(&driver, async |session| {
        let both = |statement| Bound::new(statement).command("a", "1", &[]).command("b", "2", &[]);
        assert_eq!(rows(&session, &both(0), Kind::Insert).await, (Outcome::Ok, 2));
        let three = both(1).command("c", "", &[]);
        assert_eq!(rows(&session, &three, Kind::Read).await, (Outcome::Miss, 2));
        let items = Bound::new(2).command("", "", &["x", "y", "z"]).command("", "", &["u", "v"]);
        assert_eq!(rows(&session, &items, Kind::Insert).await, (Outcome::Ok, 5));
    });
}

#[test]
#[ignore = "needs redis-server"]
fn the_first_failure_is_the_outcome_and_the_connection_stays_open() {
    let redis = Redis::start(&[]);
    redis.raw().ask("LPUSH list x");
    let driver = open_layout(&redis.address, json!({}), &layout_of(&["GET {key}"])).unwrap();
    with_session(&driver, async |session| {
        let bound = ["none", "list", "a"].iter();
        let bound = bound.fold(Bound::new(0), |bound, key| bound.command(key, "", &[]));
        assert_eq!(rows(&session, &bound, Kind::Read).await.0, Outcome::Refused);
        assert!(session.last_failure().unwrap().contains("WRONGTYPE"));
        assert_eq!(rows(&session, &bound, Kind::Read).await.0, Outcome::Refused);
    });
    // The connections of the test, the driver, the session and this command.
    let mut raw = redis.raw();
    raw.ask("INFO stats");
    let mut lines = std::iter::repeat_with(|| raw.line());
    assert!(lines.any(|line| line == "total_connections_received:4"));
}

#[test]
#[ignore = "needs redis-server"]
fn a_server_is_prepared_once_before_sessions_are_opened() {
    let redis = Redis::start(&[]);
    let mut layout = layout_of(&[]);
    layout.prepare = vec!["SET \"a b\" 1".to_owned(), "INCR \"a b\"".to_owned()];
    let driver = open_layout(&redis.address, json!({}), &layout).unwrap();
    with_session(&driver, async |_| ());
    assert_eq!(redis.raw().ask("INCR \"a b\""), ":3");
    layout.prepare = vec!["NONSENSE".to_owned()];
    let error = open_layout(&redis.address, json!({}), &layout).err().unwrap().to_string();
    assert!(error.starts_with("'NONSENSE' of prepare failed at 127.0.0.1:"), "{error}");
    let error = open_layout(&redis.address, json!({}), &layout_of(&["GET {kye}"])).err().unwrap();
    let expected = "statement 'GET {kye}' can't be sent as 'GET {kye}': there is no argument 'kye'";
    assert!(error.to_string().starts_with(expected), "{error}");
}
