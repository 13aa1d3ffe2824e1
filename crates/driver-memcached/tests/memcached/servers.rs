//! Distribution of keys over several servers.

use kvmark_driver::{Driver, Values};
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::server::TestServer;
use kvmark_testing::{Bound, layout_of};
use serde_json::json;

use crate::common::{execute, open, open_layout, outcome, read, refusal, with_session, writing};
use crate::real;

const X: Values<'static> = Values { bytes: b"x", places: &[(0, 0..1)] };

/// Java's hash code, by its definition.
fn hash(key: &str) -> u32 {
    key.bytes().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)))
}

#[test]
fn a_duplicate_server_is_rejected() {
    let expected = "option 'address' names a:11211 twice: leave one out";
    assert_eq!(refusal("a,b:1,a:11211", json!({})), expected);
}

#[test]
#[ignore = "needs memcached"]
fn each_key_is_on_the_server_of_its_hash() {
    let servers = [(); 3].map(|()| real::Server::start(&[]));
    let address = servers.iter().map(|server| server.address.as_str()).collect::<Vec<_>>();
    let driver = open(&address.join(","), json!({})).unwrap();
    assert_eq!(driver.describe().configuration["servers"], "3");
    driver.settle().unwrap();
    driver.statistics();
    with_session(&driver, async |session| {
        for number in 0..30 {
            let key = format!("user{number}");
            assert_eq!(outcome(&session, &writing(Kind::Insert, &key, X)).await, Outcome::Ok);
            let stored = format!("usertable-{key}");
            let own = hash(&stored) as usize % 3;
            for (place, server) in servers.iter().enumerate() {
                assert_eq!(server.raw().get(&stored).is_some(), place == own, "{stored} {place}");
            }
            assert_eq!(read(&session, 0, &key).await.0, Outcome::Ok);
        }
    });
    let statistics = driver.statistics();
    assert_eq!(statistics["curr_items"], 30.0);
    assert!((1.0 / 3.0..0.6).contains(&statistics["node_share_max"]), "{statistics:?}");
}

#[test]
#[ignore = "needs memcached"]
fn a_get_of_keys_on_several_servers_is_one_get_and_its_values_keep_their_order() {
    let servers = [(); 2].map(|()| real::Server::start(&[]));
    let address = format!("{},{}", servers[0].address, servers[1].address);
    let layout = layout_of(&["SET {key} {value}", "GET none [{item}]", "GET {key}; INCR {key} 1"]);
    let driver = open_layout(&address, json!({}), &layout).unwrap();
    with_session(&driver, async |session| {
        let keys = ["a", "b", "c", "d", "e"];
        let all = keys.iter().fold(Bound::new(0), |bound, key| bound.command(key, key, &[]));
        assert_eq!(outcome(&session, &all.request(Kind::Insert)).await, Outcome::Ok);
        let get = Bound::new(1).command("", "", &["e", "x", "d", "a"]).command("", "", &["b"]);
        let found = ["0.1=e", "0.3=d", "0.4=a", "1.1=b"].map(str::to_owned).to_vec();
        assert_eq!(execute(&session, 0, &get.request(Kind::Read)).await, (Outcome::Ok, found));
        let none = Bound::new(1).command("", "", &["x", "y", "z"]);
        assert_eq!(outcome(&session, &none.request(Kind::Read)).await, Outcome::Miss);
        let counts = Bound::new(0).command("n", "4", &[]).command("m", "8", &[]);
        assert_eq!(outcome(&session, &counts.request(Kind::Insert)).await, Outcome::Ok);
        let both = Bound::new(2).command("n", "", &[]).command("m", "", &[]);
        let found = ["0.0=4", "0.1=5", "1.0=8", "1.1=9"].map(str::to_owned).to_vec();
        assert_eq!(execute(&session, 0, &both.request(Kind::Update)).await, (Outcome::Ok, found));
    });
    let items = servers.iter().filter(|server| server.raw().get("a").is_some()).count();
    assert_eq!(items, 1);
}

#[test]
#[ignore = "needs memcached"]
fn the_keys_of_a_lost_server_fail_until_it_returns_and_the_others_succeed() {
    let mut servers = [(); 2].map(|()| real::Server::start(&[]));
    let address = format!("{},{}", servers[0].address, servers[1].address);
    let layout = layout_of(&["GET [{item}]"]);
    let driver = open_layout(&address, json!({ "reconnect_max_ms": 10 }), &layout).unwrap();
    with_session(&driver, async |session| {
        let keys: Vec<_> = (0..10).map(|number| format!("user{number}")).collect();
        let mut raws = [servers[0].raw(), servers[1].raw()];
        let is_lost = |key: &String| hash(key).is_multiple_of(2);
        for key in &keys {
            let raw = &mut raws[usize::from(!is_lost(key))];
            assert_eq!(raw.ask(&format!("set {key} 0 0 1\r\nx")), "STORED");
        }
        servers[0].kill();
        let get = |keys: &[&str]| Bound::new(0).command("", "", keys);
        for key in &keys {
            let expected = if is_lost(key) { Outcome::Connection } else { Outcome::Ok };
            assert_eq!(outcome(&session, &get(&[key]).request(Kind::Read)).await, expected);
        }
        let all: Vec<_> = keys.iter().map(String::as_str).collect();
        let all = get(&all);
        assert_eq!(outcome(&session, &all.request(Kind::Read)).await, Outcome::Connection);
        servers[0].start_again();
        let again = async || outcome(&session, &all.request(Kind::Read)).await;
        while again().await != Outcome::Ok {}
        let (_, cells) = execute(&session, 0, &all.request(Kind::Read)).await;
        assert_eq!(cells.len(), keys.iter().filter(|key| !is_lost(key)).count());
    });
}
