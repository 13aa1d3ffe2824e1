//! Records in a real server, in YCSB's layout. Needs redis-server.

use futures_util::future::join_all;
use kvmark_driver::{Columns, Driver, Request, Values};
use kvmark_driver_resp::Resp;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::client::options_at;
use kvmark_testing::server::TestServer;
use serde_json::json;

use crate::common::{
    execute, layout, open, open_layout, outcome, read, refusal, request, run, session,
    with_session, writing,
};
use crate::real::Redis;

const ABC: Values<'static> = Values { bytes: b"abc", places: &[(0, 0..1), (1, 1..2), (2, 2..3)] };
const D: Values<'static> = Values { bytes: b"d", places: &[(1, 0..1)] };

#[test]
fn pipelined_parts_are_suggested_unless_enabled() {
    let redis = Redis::start(&[]);
    let named = |options| {
        let capabilities = open(&redis.address, options).unwrap().capabilities();
        capabilities.speedups.iter().map(|speedup| speedup.option).collect::<Vec<_>>()
    };
    assert_eq!(named(json!({})), ["pipeline_parts=true"]);
    assert!(named(json!({ "pipeline_parts": true })).is_empty());
}

#[test]
fn each_operation_sends_the_commands_of_ycsb() {
    let redis = Redis::start(&[]);
    for options in [json!({}), json!({ "pipeline_parts": true })] {
        let driver = open(&redis.address, options).unwrap();
        let mut monitor = redis.raw();
        assert_eq!(monitor.ask("MONITOR"), "+OK");
        with_session(&driver, async |session| {
            for key in ["b", "a"] {
                assert_eq!(outcome(&session, &writing(Kind::Insert, key, ABC)).await, Outcome::Ok);
            }
            assert_eq!(outcome(&session, &writing(Kind::Update, "a", D)).await, Outcome::Ok);
            read(&session, 0, "a").await;
            let named = Request { columns: Columns::AllByName, ..request(Kind::Read, "a") };
            outcome(&session, &named).await;
            let one = Request { columns: Columns::One(2), ..request(Kind::Read, "a") };
            outcome(&session, &one).await;
            outcome(&session, &request(Kind::Scan, "a")).await;
            outcome(&session, &request(Kind::Delete, "a")).await;
        });
        redis.raw().ask("ECHO end");
        let expected = [
            "PING",
            "HMSET b field0 a field1 b field2 c",
            "ZADD _indices 98 b",
            "HMSET a field0 a field1 b field2 c",
            "ZADD _indices 97 a",
            "HMSET a field1 d",
            "HGETALL a",
            "HMGET a field0 field1 field2",
            "HMGET a field2",
            "ZRANGEBYSCORE _indices 97 +inf LIMIT 0 10",
            "HGETALL a",
            "HGETALL b",
            "DEL a",
            "ZREM _indices a",
        ];
        assert_eq!(monitor.monitored(), expected);
        assert_eq!(redis.raw().ask("ZSCORE _indices b"), "$2");
        assert_eq!(redis.raw().ask("HLEN b"), ":3");
        assert_eq!(redis.raw().ask("EXISTS a"), ":0");
        assert_eq!(redis.raw().ask("ZCARD _indices"), ":1");
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_scan_passes_over_keys_without_a_record() {
    let redis = Redis::start(&[]);
    redis.raw().ask("ZADD _indices 98 b-without-record");
    for options in [json!({}), json!({ "pipeline_parts": true })] {
        let driver = open(&redis.address, options).unwrap();
        with_session(&driver, async |session| {
            for key in ["a", "b", "c", "d"] {
                let values = Values { bytes: key.as_bytes(), places: &[(0, 0..1)] };
                outcome(&session, &writing(Kind::Insert, key, values)).await;
            }
            let scan = Request { scan_length: 3, ..request(Kind::Scan, "b") };
            let found = vec!["0.0=b".to_owned(), "1.0=c".to_owned()];
            assert_eq!(execute(&session, 0, &scan).await, (Outcome::Ok, found));
        });
    }
}

#[test]
#[ignore = "needs redis-server"]
fn records_of_ten_thousand_fields_are_supported() {
    let redis = Redis::start(&[]);
    let driver = open_layout(&redis.address, json!({}), &layout(10_000)).unwrap();
    let bytes = vec![b'x'; 1_000_000];
    let many: Vec<_> = (0..10_000).map(|n| (n, n as usize * 100..n as usize * 100 + 100)).collect();
    with_session(&driver, async |session| {
        let values = Values { bytes: &bytes, places: &many };
        assert_eq!(outcome(&session, &writing(Kind::Insert, "wide", values)).await, Outcome::Ok);
        let (outcome_of_wide, cells) = read(&session, 0, "wide").await;
        assert_eq!((outcome_of_wide, cells.len()), (Outcome::Ok, 10_000));
    });
}

#[test]
#[ignore = "needs redis-server"]
fn a_server_that_denies_its_state_to_the_user_is_measured() {
    let user = ["--user", "bob", "on", ">door", "~*", "+@all", "-@dangerous"];
    let redis = Redis::start(&user);
    let driver = open(&format!("bob:door@{}", redis.address), json!({})).unwrap();
    driver.settle().unwrap();
    assert_eq!(driver.describe().version, "unknown");
    assert!(driver.statistics().is_empty());
    let missed = with_session(&driver, async |session| read(&session, 0, "a").await.0);
    assert_eq!(missed, Outcome::Miss);
}

#[test]
#[ignore = "needs redis-server"]
fn the_server_is_described_without_its_secrets() {
    let redis = Redis::start(&["--requirepass", "sesame", "--masterauth", "door"]);
    let error = refusal(&redis.address, json!({}));
    assert!(error.contains("NOAUTH"), "{error}");
    let error = refusal(&format!(":wrong-one@{}", redis.address), json!({}));
    assert!(error.contains("WRONGPASS") && !error.contains("wrong-one"), "{error}");
    let driver = open(&format!(":sesame@{}", redis.address), json!({})).unwrap();
    let description = driver.describe();
    assert_eq!(description.system, "Redis");
    assert!(description.version.starts_with(|digit: char| digit.is_ascii_digit()));
    assert_eq!(description.configuration["appendonly"], "no");
    let all = format!("{description:?}");
    assert!(!all.contains("sesame") && !all.contains("door"), "{all}");
    driver.settle().unwrap();
    let before = driver.statistics();
    with_session(&driver, async |session| read(&session, 0, "a").await);
    let after = driver.statistics();
    assert_eq!(after["keyspace_misses"] - before["keyspace_misses"], 1.0);
    assert!(after["used_memory"] > 0.0 && after["used_cpu_user"] >= 0.0);
}

#[test]
#[ignore = "needs redis-server"]
fn a_full_server_is_overloaded_and_a_replica_is_unavailable() {
    let redis = Redis::start(&[]);
    let driver = open(&redis.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        redis.raw().ask("CONFIG SET maxmemory 1");
        let insert = writing(Kind::Insert, "k", ABC);
        assert_eq!(outcome(&session, &insert).await, Outcome::Overloaded);
        redis.raw().ask("CONFIG SET maxmemory 0");
        redis.raw().ask("REPLICAOF 127.0.0.1 1");
        assert_eq!(outcome(&session, &insert).await, Outcome::Unavailable);
    });
}

#[test]
#[ignore = "needs redis-server"]
fn a_unix_socket_is_a_valid_address() {
    let redis = Redis::start(&["--unixsocket", "socket"]);
    let path = redis.folder.path().join("socket");
    let driver = open(path.to_str().unwrap(), json!({})).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "k").await.0, Outcome::Miss);
    });
}

#[test]
#[ignore = "needs redis-server"]
fn a_connection_closed_by_the_server_fails_one_operation() {
    let redis = Redis::start(&[]);
    let driver = open(&redis.address, json!({ "connections": 1 })).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "k").await.0, Outcome::Miss);
        redis.raw().ask("CLIENT KILL TYPE normal SKIPME yes");
        assert_eq!(read(&session, 0, "k").await.0, Outcome::Connection);
        assert_eq!(read(&session, 0, "k").await.0, Outcome::Miss);
    });
}

#[test]
#[ignore = "needs redis-server and 12,000 open files"]
fn ten_thousand_clients_have_a_connection_each() {
    const CLIENTS: u32 = 10_000;
    let redis = Redis::start(&["--maxclients", "10100"]);
    let driver = open(&redis.address, json!({ "connect_timeout_ms": 60_000 })).unwrap();
    run(async {
        let session = session(&driver, CLIENTS);
        let reads = (0..CLIENTS).map(|client| read(&session, client, "k"));
        let outcomes = join_all(reads).await;
        assert!(outcomes.iter().all(|(outcome, _)| *outcome == Outcome::Miss));
        // The driver has a connection itself, as has the console.
        let mut console = Resp::console(&options_at(&redis.address, json!({}))).unwrap().unwrap();
        assert_eq!(redis.connections(&mut console), u64::from(CLIENTS) + 2);
    });
}
