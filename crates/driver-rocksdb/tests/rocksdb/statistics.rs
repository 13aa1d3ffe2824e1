//! RocksDB's counters, and settling.

use kvmark_driver::Driver;
use serde_json::json;

use crate::common::{Fresh, insert};

#[test]
fn the_state_and_the_stalls_are_always_there() {
    let counters = Fresh::new().driver.statistics();
    for name in [
        "rocksdb.is-write-stopped",
        "rocksdb.actual-delayed-write-rate",
        "rocksdb.num-running-compactions",
        "rocksdb.num-running-flushes",
        "rocksdb.estimate-num-keys",
        "rocksdb.total-sst-files-size",
        "rocksdb.cur-size-all-mem-tables",
        "rocksdb.num-files-at-level0",
        "rocksdb.cf-write-stall-stats.total-delays",
        "rocksdb.cf-write-stall-stats.total-stops",
    ] {
        assert!(counters.contains_key(name), "{name} is missing");
    }
    assert!(!counters.contains_key("rocksdb.stall.micros"));
}

#[test]
fn the_option_statistics_adds_counters() {
    let fresh = Fresh::with(json!({"statistics": true}));
    insert(&fresh.session, "k", &[(0, "a")]);
    let counters = fresh.driver.statistics();
    assert_eq!(counters["rocksdb.number.keys.written"], 1.0);
    assert!(counters["rocksdb.bytes.written"] > 0.0);
    for name in [
        "rocksdb.stall.micros",
        "rocksdb.block.cache.hit",
        "rocksdb.block.cache.miss",
        "rocksdb.compact.read.bytes",
        "rocksdb.compact.write.bytes",
    ] {
        assert!(counters.contains_key(name), "{name} is missing");
    }
}

#[test]
fn settling_empties_the_memtables_into_files() {
    let fresh = Fresh::new();
    for n in 0..100 {
        insert(&fresh.session, &format!("k{n}"), &[(0, "a")]);
    }
    assert_eq!(fresh.driver.statistics()["rocksdb.total-sst-files-size"], 0.0);
    fresh.driver.settle().unwrap();
    let after = fresh.driver.statistics();
    assert!(after["rocksdb.total-sst-files-size"] > 0.0);
    assert_eq!(after["rocksdb.num-running-compactions"], 0.0);
    assert_eq!(after["rocksdb.estimate-num-keys"], 100.0);
}
