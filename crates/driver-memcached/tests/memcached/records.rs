//! Records in a real server, in YCSB's layout. Needs memcached.

use futures_util::future::join_all;
use kvmark_driver::{Columns, Driver, Request, Values};
use kvmark_plan::{Kind, Outcome};
use serde_json::json;

use crate::common::{execute, open, outcome, read, request, run, session, with_session, writing};
use crate::real::Server;

const ABC: Values<'static> = Values { bytes: b"ab\"c", places: &[(0, 0..1), (1, 1..3), (2, 3..4)] };
const D: Values<'static> = Values { bytes: b"d", places: &[(1, 0..1)] };

#[test]
#[ignore = "needs memcached"]
fn records_are_stored_as_ycsb_stores_them() {
    let server = Server::start(&[]);
    let driver = open(&server.address, json!({})).unwrap();
    let stored = || server.raw().get("usertable-k");
    with_session(&driver, async |session| {
        for kind in [Kind::Update, Kind::Delete] {
            assert_eq!(outcome(&session, &writing(kind, "k", ABC)).await, Outcome::Miss);
            assert_eq!(outcome(&session, &writing(kind, "k", D)).await, Outcome::Miss);
        }
        assert_eq!(read(&session, 0, "k").await, (Outcome::Miss, vec![]));
        for _ in 0..2 {
            assert_eq!(outcome(&session, &writing(Kind::Insert, "k", ABC)).await, Outcome::Ok);
        }
        let json = "{\"field0\":\"a\",\"field1\":\"b\\\"\",\"field2\":\"c\"}";
        assert_eq!(stored().unwrap(), (json.to_owned(), "0".to_owned()));
        assert_eq!(outcome(&session, &writing(Kind::Update, "k", D)).await, Outcome::Ok);
        let merged = vec!["0.0=a".to_owned(), "0.2=c".to_owned(), "0.1=d".to_owned()];
        assert_eq!(read(&session, 0, "k").await, (Outcome::Ok, merged));
        let one = Request { columns: Columns::One(1), ..request(Kind::Read, "k") };
        assert_eq!(execute(&session, 0, &one).await, (Outcome::Ok, vec!["0.1=d".to_owned()]));
        assert_eq!(outcome(&session, &writing(Kind::Update, "k", ABC)).await, Outcome::Ok);
        assert_eq!(stored().unwrap().0, json);
        assert_eq!(outcome(&session, &request(Kind::Delete, "k")).await, Outcome::Ok);
        assert_eq!(stored(), None);
        assert_eq!(outcome(&session, &request(Kind::Scan, "k")).await, Outcome::Refused);
    });
    assert!(!driver.capabilities().kinds.contains(&Kind::Scan));
    assert_eq!(driver.capabilities().speedups[0].option, "update=replace");
}

#[test]
#[ignore = "needs memcached"]
fn reads_are_compared_with_the_expected_values() {
    let server = Server::start(&[]);
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| kvmark_testing::assert_compares(&session).await);
}

#[test]
#[ignore = "needs memcached"]
fn an_update_replaces_the_record_if_configured() {
    let server = Server::start(&[]);
    let driver = open(&server.address, json!({ "update": "replace" })).unwrap();
    assert!(driver.capabilities().speedups.is_empty());
    with_session(&driver, async |session| {
        assert_eq!(outcome(&session, &writing(Kind::Update, "k", D)).await, Outcome::Miss);
        outcome(&session, &writing(Kind::Insert, "k", ABC)).await;
        assert_eq!(outcome(&session, &writing(Kind::Update, "k", D)).await, Outcome::Ok);
        assert_eq!(read(&session, 0, "k").await, (Outcome::Ok, vec!["0.1=d".to_owned()]));
    });
}

#[test]
#[ignore = "needs memcached"]
fn updates_of_one_record_by_many_clients_lose_nothing() {
    const CLIENTS: u32 = 8;
    const EACH: u32 = 200;
    let server = Server::start(&[]);
    let layout = kvmark_testing::layout(CLIENTS);
    let driver = crate::common::open_layout(&server.address, json!({}), &layout).unwrap();
    run(async {
        let session = session(&driver, CLIENTS);
        outcome(&session, &writing(Kind::Insert, "k", Values::NONE)).await;
        let client = async |client: u32| {
            for round in 0..EACH {
                let text = format!("{round}");
                let places = [(client, 0..text.len())];
                let values = Values { bytes: text.as_bytes(), places: &places };
                let update = writing(Kind::Update, "k", values);
                assert_eq!(execute(&session, client, &update).await.0, Outcome::Ok);
            }
        };
        join_all((0..CLIENTS).map(client)).await;
        let mut cells = read(&session, 0, "k").await.1;
        cells.sort();
        let last = |client| format!("0.{client}={}", EACH - 1);
        assert_eq!(cells, (0..CLIENTS).map(last).collect::<Vec<_>>());
    });
    assert_eq!(driver.statistics()["cas_hits"], f64::from(CLIENTS * EACH));
}

#[test]
#[ignore = "needs memcached"]
fn a_value_beyond_the_servers_limit_is_rejected_and_the_connection_stays_open() {
    let server = Server::start(&[]);
    let driver = open(&server.address, json!({})).unwrap();
    let before = driver.statistics()["total_connections"];
    let bytes = vec![b'x'; 3_000_000];
    with_session(&driver, async |session| {
        for (length, expected) in
            [(1_000_000, Outcome::Ok), (3_000_000, Outcome::Refused), (10, Outcome::Ok)]
        {
            let values = Values { bytes: &bytes, places: &[(0, 0..length)] };
            let insert = writing(Kind::Insert, "k", values);
            assert_eq!(outcome(&session, &insert).await, expected);
        }
        let said = "the server answered: SERVER_ERROR object too large for cache";
        assert_eq!(session.last_failure().as_deref(), Some(said));
        assert_eq!(read(&session, 0, "k").await.1, ["0.0=xxxxxxxxxx"]);
    });
    assert_eq!(driver.statistics()["total_connections"], before + 1.0);
}

#[test]
#[ignore = "needs memcached"]
fn a_full_server_that_evicts_nothing_is_overloaded() {
    let server = Server::start(&["-M", "-m", "2"]);
    let driver = open(&server.address, json!({})).unwrap();
    let bytes = vec![b'x'; 500_000];
    with_session(&driver, async |session| {
        let outcomes = async |number: u32| {
            let values = Values { bytes: &bytes, places: &[(0, 0..500_000)] };
            let key = number.to_string();
            outcome(&session, &writing(Kind::Insert, &key, values)).await
        };
        let mut number = 0;
        while outcomes(number).await == Outcome::Ok {
            number += 1;
            assert!(number < 1000);
        }
        assert_eq!(outcomes(number).await, Outcome::Overloaded);
    });
}

#[test]
#[ignore = "needs memcached"]
fn a_written_record_lives_for_the_configured_time() {
    let server = Server::start(&[]);
    let driver = open(&server.address, json!({ "ttl_s": 1000 })).unwrap();
    with_session(&driver, async |session| {
        outcome(&session, &writing(Kind::Insert, "k", ABC)).await;
        let ttl = server.raw().ask("mg usertable-k t");
        assert!(matches!(ttl.as_str(), "HD t999" | "HD t1000"), "{ttl}");
        assert_eq!(server.raw().ask("touch usertable-k 5"), "TOUCHED");
        outcome(&session, &writing(Kind::Update, "k", D)).await;
        let ttl = server.raw().ask("mg usertable-k t");
        assert!(matches!(ttl.as_str(), "HD t999" | "HD t1000"), "{ttl}");
    });
}

#[test]
#[ignore = "needs memcached"]
fn the_server_has_a_description_and_statistics() {
    let server = Server::start(&["-t", "2", "-m", "100"]);
    let driver = open(&server.address, json!({})).unwrap();
    let description = driver.describe();
    assert_eq!(description.system, "memcached");
    assert!(description.version.starts_with(|digit: char| digit.is_ascii_digit()));
    assert_eq!(description.configuration["num_threads"], "2");
    assert_eq!(description.configuration["maxbytes"], (100 << 20).to_string());
    assert!(!description.configuration.contains_key("tcpport"));
    driver.settle().unwrap();
    let before = driver.statistics();
    with_session(&driver, async |session| read(&session, 0, "a").await);
    let after = driver.statistics();
    assert_eq!(after["get_misses"] - before["get_misses"], 1.0);
    assert!(after["rusage_user"] >= 0.0 && !after.contains_key("node_share_max"));
}

#[test]
#[ignore = "needs memcached"]
fn a_server_that_returns_is_used_again() {
    let mut server = Server::start(&[]);
    let options = json!({ "connections": 1, "reconnect_max_ms": 10 });
    let driver = open(&server.address, options).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "k").await.0, Outcome::Miss);
        server.kill();
        assert_eq!(read(&session, 0, "k").await.0, Outcome::Connection);
        server.start_again();
        while read(&session, 0, "k").await.0 != Outcome::Miss {}
    });
    assert!(driver.statistics()["curr_items"] == 0.0);
}

#[test]
#[ignore = "needs memcached"]
fn a_unix_socket_is_a_valid_address() {
    let server = Server::on_socket();
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "k").await.0, Outcome::Miss);
    });
}

#[test]
#[ignore = "needs memcached"]
fn four_hundred_clients_have_a_connection_each() {
    const CLIENTS: u32 = 400;
    let server = Server::start(&[]);
    let driver = open(&server.address, json!({})).unwrap();
    let before = driver.statistics()["total_connections"];
    run(async {
        let session = session(&driver, CLIENTS);
        let reads = (0..CLIENTS).map(|client| read(&session, client, "k"));
        let outcomes = join_all(reads).await;
        assert!(outcomes.iter().all(|(outcome, _)| *outcome == Outcome::Miss));
        assert_eq!(driver.statistics()["total_connections"], before + f64::from(CLIENTS));
    });
}
