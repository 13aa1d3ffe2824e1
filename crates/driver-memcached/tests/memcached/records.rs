//! Records in a real server, in YCSB's layout. Needs memcached.

use kvmark_driver::{Driver, Values};
use kvmark_plan::{Kind, Outcome};
use serde_json::json;

use crate::common::{open, outcome, read, request, with_session, writing};
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
        assert_eq!(outcome(&session, &writing(Kind::Insert, "k", ABC)).await, Outcome::Ok);
        let json = "{\"field0\":\"a\",\"field1\":\"b\\\"\",\"field2\":\"c\"}";
        assert_eq!(stored().unwrap(), (json.to_owned(), "0".to_owned()));
        assert_eq!(outcome(&session, &writing(Kind::Update, "k", D)).await, Outcome::Ok);
        let merged = ["0.0=a", "0.2=c", "0.1=d"].map(str::to_owned).to_vec();
        assert_eq!(read(&session, 0, "k").await, (Outcome::Ok, merged));
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
fn a_unix_socket_is_a_valid_address() {
    let server = Server::on_socket();
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        assert_eq!(read(&session, 0, "k").await.0, Outcome::Miss);
    });
}
