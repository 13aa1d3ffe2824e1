//! RocksDB's own counters, under RocksDB's own names.

use std::collections::BTreeMap;

use rocksdb::statistics::Ticker;

use crate::database::Database;

/// What the table and the database are like now. Always there.
const PROPERTIES: [&str; 16] = [
    "rocksdb.actual-delayed-write-rate",
    "rocksdb.background-errors",
    "rocksdb.block-cache-capacity",
    "rocksdb.block-cache-usage",
    "rocksdb.compaction-pending",
    "rocksdb.cur-size-all-mem-tables",
    "rocksdb.estimate-num-keys",
    "rocksdb.estimate-pending-compaction-bytes",
    "rocksdb.estimate-table-readers-mem",
    "rocksdb.is-write-stopped",
    "rocksdb.live-sst-files-size",
    "rocksdb.mem-table-flush-pending",
    "rocksdb.num-files-at-level0",
    "rocksdb.num-running-compactions",
    "rocksdb.num-running-flushes",
    "rocksdb.total-sst-files-size",
];

/// Writes that were delayed or stopped, by cause. Always there.
const STALLS: &str = "rocksdb.cf-write-stall-stats";

/// What happened since the database was opened. There when the option `statistics` is on.
const TICKERS: [Ticker; 19] = [
    Ticker::BlockCacheHit,
    Ticker::BlockCacheMiss,
    Ticker::BlockCacheBytesRead,
    Ticker::BloomFilterUseful,
    Ticker::BytesRead,
    Ticker::BytesWritten,
    Ticker::CompactReadBytes,
    Ticker::CompactWriteBytes,
    Ticker::FlushWriteBytes,
    Ticker::IterBytesRead,
    Ticker::MemtableHit,
    Ticker::MemtableMiss,
    Ticker::NumberKeysRead,
    Ticker::NumberKeysWritten,
    Ticker::StallMicros,
    Ticker::WalFileBytes,
    Ticker::WalFileSynced,
    Ticker::WriteWithWal,
    Ticker::NumberDbSeek,
];

/// Every counter that RocksDB has a number for.
pub(crate) fn read(database: &Database) -> BTreeMap<String, f64> {
    let Database { options, counts, .. } = database;
    let (db, family) = (database.db(), database.family());
    let mut counters = BTreeMap::new();
    for name in PROPERTIES {
        if let Ok(Some(value)) = db.property_int_value_cf(family, name) {
            counters.insert(name.to_owned(), value as f64);
        }
    }
    if let Ok(Some(text)) = db.property_value_cf(family, STALLS) {
        counters.extend(stalls(&text).map(|(cause, n)| (format!("{STALLS}.{cause}"), n)));
    }
    if *counts {
        let tickers = TICKERS
            .iter()
            .map(|ticker| (ticker.name().to_owned(), options.get_ticker_count(*ticker) as f64));
        counters.extend(tickers);
    }
    counters
}

/// `cause: count` pairs of RocksDB's text.
fn stalls(text: &str) -> impl Iterator<Item = (&str, f64)> {
    let line = text.lines().next().unwrap_or_default();
    let pairs = line.strip_prefix("Write Stall (count): ").unwrap_or_default().split(", ");
    pairs.filter_map(|pair| {
        let (cause, count) = pair.split_once(": ")?;
        Some((cause, count.parse().ok()?))
    })
}
