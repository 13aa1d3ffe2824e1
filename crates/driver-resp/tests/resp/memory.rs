//! Memory of sessions.

use std::process::Command;

use kvmark_driver::{Request, Values};
use kvmark_plan::Kind;
use kvmark_testing::client::assert_no_allocations;
use kvmark_testing::{Bound, CountingAllocator, carry_out, layout_of};
use serde_json::json;

use crate::common::{open, open_layout, request};
use crate::real::Redis;
use crate::scripted::{Server, be_node, record};
use crate::worker::session_of;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn answer(command: &str) -> String {
    match command.split(' ').next().unwrap() {
        "PING" => "+PONG\r\n".to_owned(),
        "ZRANGEBYSCORE" => "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n".to_owned(),
        "HGETALL" => record("value"),
        "GET" => "$5\r\nvalue\r\n".to_owned(),
        "ZADD" | "ZREM" | "DEL" => ":1\r\n".to_owned(),
        _ => "+OK\r\n".to_owned(),
    }
}

#[test]
fn an_operation_allocates_nothing_in_steady_state() {
    let server = Server::new(|_, peer| be_node(peer, "0-16383", |command, _| answer(command)));
    let values = Values { bytes: b"abc", places: &[(0, 0..3)] };
    let get = Bound::new(0).command("a", "", &[]);
    let set = ["a", "b", "c"].iter();
    let set = set.fold(Bound::new(1), |bound, key| bound.command(key, "1", &["x"]));
    let requests = [
        request(Kind::Read, "a"),
        Request { values, ..request(Kind::Update, "a") },
        Request { values, ..request(Kind::Insert, "b") },
        request(Kind::Delete, "c"),
        request(Kind::Scan, "a"),
        get.request(Kind::Read),
        set.request(Kind::Insert),
    ];
    for options in [
        json!({}),
        json!({ "pipeline_parts": true, "connections": 2 }),
        json!({ "cluster": true, "connections": 1 }),
    ] {
        let layout = layout_of(&["GET {key}", "MSET [{item} {value}]"]);
        let driver = open_layout(&server.address, options, &layout).unwrap();
        assert_no_allocations(&driver, &requests);
    }
}

/// Resident memory of this process in kilobytes.
fn resident_kb() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Set in a separate process for this test.
const ALONE: &str = "KVMARK_TEST_ALONE";

#[test]
#[ignore = "needs redis-server and 12,000 open files"]
fn ten_thousand_connections_take_forty_megabytes_at_most() {
    if std::env::var_os(ALONE).is_none() {
        // Otherwise the memory of other tests would count.
        let name = "memory::ten_thousand_connections_take_forty_megabytes_at_most";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", name, "--include-ignored"]).env(ALONE, "1");
        assert!(alone.status().unwrap().success());
        return;
    }
    const CLIENTS: u32 = 10_000;
    let redis = Redis::start(&["--maxclients", "10100"]);
    let driver = open(&redis.address, json!({ "connect_timeout_ms": 60_000 })).unwrap();
    redis.raw().ask("HSET a field0 value");
    let before_kb = resident_kb();
    let mut session = session_of(&driver, CLIENTS);
    let requests: Vec<_> = (0..CLIENTS).map(|_| request(Kind::Read, "a")).collect();
    (0..3).for_each(|_| carry_out(&mut session, &requests));
    let taken_kb = resident_kb() - before_kb;
    assert!(taken_kb <= 40 << 10, "{taken_kb} kB");
}
