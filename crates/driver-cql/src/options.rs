//! The options of this driver, in one table for parsing and documentation.

use kvmark_driver::options::{Accepts, OptionDoc, option};
use kvmark_driver_server::{
    CA_FILE, CERT_FILE, CONNECT_TIMEOUT_MS, KEY_FILE, PASSWORD_ENV, PASSWORD_FILE, SERVER_NAME,
    TLS, USERNAME,
};

const HOUR_MS: i64 = 3_600_000;

const LEVEL: Accepts = Accepts::Words(&[
    "any",
    "one",
    "two",
    "three",
    "quorum",
    "all",
    "local_one",
    "local_quorum",
    "each_quorum",
    "serial",
    "local_serial",
]);

const SERIAL_LEVEL: Accepts = Accepts::Words(&["serial", "local_serial"]);

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> &'static [OptionDoc] {
    &TABLE
}

/// Every option of a statement, in the order of the documentation.
#[must_use]
pub fn statement_options() -> &'static [OptionDoc] {
    &STATEMENT_TABLE
}

static TABLE: [OptionDoc; 29] = [
    option("address", Accepts::Text("host[:port][,host…][/keyspace]"), Some("127.0.0.1:9042"))
        .meaning("Nodes to begin with: [user[:password]@]host[:port][,host…][/keyspace]."),
    option("keyspace", Accepts::Text("a keyspace's name"), Some("ycsb")).meaning(
        "Keyspace, unless the address names one; created if missing. With user statements, there \
         is no default.",
    ),
    option(
        "replication",
        Accepts::Text("simple:1, network:dc1=3 or a map in CQL"),
        Some("simple:1"),
    )
    .meaning(
        "Replication of a created keyspace: simple:COPIES, network:DATACENTER=COPIES,… or a map \
         in CQL.",
    ),
    option("table_options", Accepts::Text("table options in CQL"), None).meaning(
        "Options of a created table in CQL, such as \
         memtable_flush_period_in_ms = 5000 AND gc_grace_seconds = 0.",
    ),
    USERNAME,
    PASSWORD_ENV,
    PASSWORD_FILE,
    option("consistency", LEVEL, Some("quorum")).meaning("Consistency level of reads and writes."),
    option("read_consistency", LEVEL, None).meaning("Consistency level of reads, if another."),
    option("write_consistency", LEVEL, None).meaning("Consistency level of writes, if another."),
    option("serial_consistency", SERIAL_LEVEL, Some("serial"))
        .meaning("Consistency level of the conditions of conditional writes."),
    option("connections_per_node", Accepts::Whole { min: 1, max: 10_000 }, Some("1"))
        .meaning("Connections of a worker to each node, shared by its clients."),
    option("compression", Accepts::Words(&["none", "lz4", "snappy"]), Some("none"))
        .meaning("Compression of frames; nodes that don't support it are rejected."),
    TLS,
    CA_FILE,
    CERT_FILE,
    KEY_FILE,
    SERVER_NAME,
    option("datacenter", Accepts::Text("a datacenter's name"), None).meaning(
        "Datacenter whose nodes receive the requests; others are used only if all are down.",
    ),
    option("rack", Accepts::Text("a rack's name"), None)
        .meaning("Rack whose replicas and nodes are preferred to others of the datacenter."),
    option("token_aware", Accepts::SWITCH, Some("true")).meaning(
        "Whether a request goes to a replica of its partition; else to all nodes, round-robin.",
    ),
    option("shard_aware", Accepts::SWITCH, Some("true")).meaning(
        "Whether a worker has connections to each shard of ScyllaDB's nodes, and a request goes to \
         the shard of its partition.",
    ),
    option("request_timeout_ms", Accepts::Whole { min: 0, max: HOUR_MS }, Some("0"))
        .meaning("Limit on a request with its retries, beside the run's own; 0 for none."),
    CONNECT_TIMEOUT_MS,
    option("reconnect_max_ms", Accepts::Whole { min: 10, max: HOUR_MS }, Some("1000")).meaning(
        "Longest pause between attempts to reopen a lost connection; the first attempt is \
         immediate, the next follows after 10 ms, then the pause doubles. If no node is left, \
         requests wait for the attempt and fail with it.",
    ),
    option("retry", Accepts::Words(&["none", "default", "downgrading"]), Some("none")).meaning(
        "Which failed requests are retried: none; those that are safe by the default policy; \
         or, with downgrading, also reads and writes at a lower consistency level.",
    ),
    option("page_size", Accepts::Whole { min: 1, max: i32::MAX as i64 }, Some("5000"))
        .meaning("Rows of a page, in scans and statements."),
    option("timestamps", Accepts::Words(&["server", "client"]), Some("server")).meaning(
        "Source of write timestamps: the coordinating node, or the client with one clock for all \
         writes.",
    ),
    option("tcp_nodelay", Accepts::SWITCH, Some("true"))
        .meaning("Whether the system sends small packets at once."),
];

static STATEMENT_TABLE: [OptionDoc; 7] = [
    option("consistency", LEVEL, None).meaning("Consistency level, in place of the driver's."),
    option("serial_consistency", SERIAL_LEVEL, None)
        .meaning("Consistency level of its conditions, in place of the driver's."),
    option("page_size", Accepts::Whole { min: 1, max: i32::MAX as i64 }, None)
        .meaning("Rows of a page, in place of the driver's."),
    option("pages", Accepts::Words(&["first", "all"]), Some("all"))
        .meaning("Pages to fetch in sequence within the operation."),
    option("batch", Accepts::Words(&["none", "unlogged", "logged", "counter"]), Some("none"))
        .meaning("Batch of the commands; without one, the commands are sent concurrently."),
    option("timestamp", Accepts::Whole { min: 0, max: i64::MAX }, None).meaning(
        "Time of the writes in microseconds since 1970, the same for all; to draw it, write \
         USING TIMESTAMP with an argument.",
    ),
    option("idempotent", Accepts::SWITCH, Some("false"))
        .meaning("Whether a repetition has no further effect, so that it may be retried."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_valid() {
        for doc in TABLE.iter().chain(&STATEMENT_TABLE) {
            let accepted = doc.default.is_none_or(|text| doc.accepts.read(text).is_some());
            assert!(accepted, "{}", doc.name);
        }
    }
}
