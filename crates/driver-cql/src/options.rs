//! The options of this driver, in one table for parsing and documentation.

use kvmark_driver::options::{Accepts, OptionDoc};
use kvmark_driver_server::{CA_FILE, PASSWORD_ENV, PASSWORD_FILE, USERNAME};

const HOUR_MS: i64 = 3_600_000;

const SWITCH: Accepts = Accepts::SWITCH;

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

/// A row of a table of options.
const fn option(
    name: &'static str,
    meaning: &'static str,
    accepts: Accepts,
    default: Option<&'static str>,
) -> OptionDoc {
    OptionDoc { name, meaning, accepts, default }
}

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

static TABLE: [OptionDoc; 25] = [
    option(
        "address",
        "Nodes to begin with: [user[:password]@]host[:port][,host…][/keyspace].",
        Accepts::Text("host[:port][,host…][/keyspace]"),
        Some("127.0.0.1:9042"),
    ),
    option(
        "keyspace",
        "Keyspace, unless the address names one; created if missing. With user statements, there \
         is no default.",
        Accepts::Text("a keyspace's name"),
        Some("ycsb"),
    ),
    option(
        "replication",
        "Replication of a created keyspace: simple:COPIES, network:DATACENTER=COPIES,… or a map \
         in CQL.",
        Accepts::Text("simple:1, network:dc1=3 or a map in CQL"),
        Some("simple:1"),
    ),
    option(
        "table_options",
        "Options of a created table in CQL, such as \
         memtable_flush_period_in_ms = 5000 AND gc_grace_seconds = 0.",
        Accepts::Text("table options in CQL"),
        None,
    ),
    USERNAME,
    PASSWORD_ENV,
    PASSWORD_FILE,
    option("consistency", "Consistency level of reads and writes.", LEVEL, Some("quorum")),
    option("read_consistency", "Consistency level of reads, if another.", LEVEL, None),
    option("write_consistency", "Consistency level of writes, if another.", LEVEL, None),
    option(
        "serial_consistency",
        "Consistency level of the conditions of conditional writes.",
        SERIAL_LEVEL,
        Some("serial"),
    ),
    option(
        "connections_per_node",
        "Connections of a worker to each node, shared by its clients.",
        Accepts::Whole { min: 1, max: 10_000 },
        Some("1"),
    ),
    option(
        "compression",
        "Compression of frames; nodes that don't support it are rejected.",
        Accepts::Words(&["none", "lz4", "snappy"]),
        Some("none"),
    ),
    option(
        "tls",
        "Whether connections are encrypted and the nodes' certificates are checked.",
        SWITCH,
        Some("false"),
    ),
    CA_FILE,
    option(
        "server_name",
        "Name that every certificate must be for, in place of the node's address; needs tls.",
        Accepts::Text("a host's name"),
        None,
    ),
    option(
        "datacenter",
        "Datacenter whose nodes receive the requests; others are used only if all are down.",
        Accepts::Text("a datacenter's name"),
        None,
    ),
    option(
        "token_aware",
        "Whether a request goes to a replica of its partition; else to all nodes, round-robin.",
        SWITCH,
        Some("true"),
    ),
    option(
        "request_timeout_ms",
        "Limit on a request with its retries, beside the run's own; 0 for none.",
        Accepts::Whole { min: 0, max: HOUR_MS },
        Some("0"),
    ),
    option(
        "connect_timeout_ms",
        "Limit on the time to connect and log in.",
        Accepts::Whole { min: 1, max: HOUR_MS },
        Some("5000"),
    ),
    option(
        "reconnect_max_ms",
        "Longest pause between attempts to reopen a lost connection; the first attempt is \
         immediate, the next follows after 10 ms, then the pause doubles. If no node is left, \
         requests wait for the attempt and fail with it.",
        Accepts::Whole { min: 10, max: HOUR_MS },
        Some("1000"),
    ),
    option(
        "retry",
        "Which failed requests are retried: none; those that are safe by the default policy; \
         or, with downgrading, also reads and writes at a lower consistency level.",
        Accepts::Words(&["none", "default", "downgrading"]),
        Some("none"),
    ),
    option(
        "page_size",
        "Rows of a page, in scans and statements.",
        Accepts::Whole { min: 1, max: i32::MAX as i64 },
        Some("5000"),
    ),
    option(
        "timestamps",
        "Source of write timestamps: the coordinating node, or the client with one clock for all \
         writes.",
        Accepts::Words(&["server", "client"]),
        Some("server"),
    ),
    option("tcp_nodelay", "Whether the system sends small packets at once.", SWITCH, Some("true")),
];

static STATEMENT_TABLE: [OptionDoc; 7] = [
    option("consistency", "Consistency level, in place of the driver's.", LEVEL, None),
    option(
        "serial_consistency",
        "Consistency level of its conditions, in place of the driver's.",
        SERIAL_LEVEL,
        None,
    ),
    option(
        "page_size",
        "Rows of a page, in place of the driver's.",
        Accepts::Whole { min: 1, max: i32::MAX as i64 },
        None,
    ),
    option(
        "pages",
        "Pages to fetch in sequence within the operation.",
        Accepts::Words(&["first", "all"]),
        Some("all"),
    ),
    option(
        "batch",
        "Batch of the commands; without one, the commands are sent concurrently.",
        Accepts::Words(&["none", "unlogged", "logged", "counter"]),
        Some("none"),
    ),
    option(
        "timestamp",
        "Time of the writes in microseconds since 1970, the same for all; to draw it, write \
         USING TIMESTAMP with an argument.",
        Accepts::Whole { min: 0, max: i64::MAX },
        None,
    ),
    option(
        "idempotent",
        "Whether a repetition has no further effect, so that it may be retried.",
        SWITCH,
        Some("false"),
    ),
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
