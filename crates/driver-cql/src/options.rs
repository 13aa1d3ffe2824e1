//! The options of this driver: one table from which they are read and documented.

use std::collections::BTreeMap;
use std::fmt;

use kvmark_driver::OpenError;
use serde_json::Value;

/// One option as documentation shows it.
#[derive(Debug)]
pub struct OptionDoc {
    /// Its name in plans and URLs.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// What it accepts.
    pub accepts: Accepts,
    /// Its value where it isn't given; none where nothing stands for it.
    pub default: Option<&'static str>,
}

/// What an option accepts. Its text completes the sentence "give …".
#[derive(Debug)]
pub enum Accepts {
    /// Any text.
    Text(&'static str),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number within bounds, both included.
    Whole {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
    },
}

impl fmt::Display for Accepts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(what) => formatter.write_str(what),
            Self::Words([first, second]) => write!(formatter, "{first} or {second}"),
            Self::Words(words) => write!(formatter, "one of {}", words.join(", ")),
            Self::Whole { min, max } => write!(formatter, "a whole number from {min} to {max}"),
        }
    }
}

impl Accepts {
    fn accepts(&self, text: &str) -> bool {
        match self {
            Self::Text(_) => !text.is_empty(),
            Self::Words(words) => words.contains(&text),
            Self::Whole { min, max } => {
                text.parse::<u64>().is_ok_and(|number| (*min..=*max).contains(&number))
            }
        }
    }
}

const HOUR_MS: u64 = 3_600_000;

const SWITCH: Accepts = Accepts::Words(&["true", "false"]);

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

/// An option of the cluster as a whole.
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

/// Every option that one statement takes, in the order of the documentation.
#[must_use]
pub fn statement_options() -> &'static [OptionDoc] {
    &STATEMENT_TABLE
}

static TABLE: [OptionDoc; 28] = [
    option(
        "address",
        "Nodes to begin with: [user[:password]@]host[:port][,host…][/keyspace].",
        Accepts::Text("host[:port][,host…][/keyspace]"),
        Some("127.0.0.1:9042"),
    ),
    option(
        "keyspace",
        "Keyspace, unless the address names one; made when missing. Where there are statements \
         of the user's own, none is chosen unless one is named.",
        Accepts::Text("a keyspace's name"),
        Some("ycsb"),
    ),
    option(
        "replication",
        "How a keyspace that is made is replicated: simple:COPIES, network:DATACENTER=COPIES,… \
         or a map in CQL.",
        Accepts::Text("simple:1, network:dc1=3 or a map in CQL"),
        Some("simple:1"),
    ),
    option(
        "username",
        "User to log in as, unless the address names one.",
        Accepts::Text("a user's name"),
        None,
    ),
    option(
        "password_env",
        "Environment variable that holds the password.",
        Accepts::Text("the name of an environment variable"),
        None,
    ),
    option(
        "password_file",
        "File whose first line is the password.",
        Accepts::Text("the path of a file"),
        None,
    ),
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
        None,
    ),
    option(
        "connections_per_shard",
        "Connections of a worker to each shard of a node; a node without shards is one.",
        Accepts::Whole { min: 1, max: 10_000 },
        Some("1"),
    ),
    option(
        "compression",
        "Compression of what is sent, if the nodes can do it.",
        Accepts::Words(&["none", "lz4", "snappy"]),
        Some("none"),
    ),
    option(
        "tls",
        "Whether connections are encrypted and the nodes' certificates are checked.",
        SWITCH,
        Some("false"),
    ),
    option(
        "ca_file",
        "PEM file of the authorities to trust in place of the machine's own; needs tls.",
        Accepts::Text("the path of a file"),
        None,
    ),
    option(
        "server_name",
        "Name that every certificate must be for, in place of the node's address; needs tls.",
        Accepts::Text("a host's name"),
        None,
    ),
    option(
        "datacenter",
        "Datacenter whose nodes are asked; others only when none of them is there.",
        Accepts::Text("a datacenter's name"),
        None,
    ),
    option(
        "token_aware",
        "Whether a request goes to a node that holds its partition; else to all in turn.",
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
        "Longest pause between attempts to reach the cluster again when no node is left; the \
         first comes at once, the next after 10 ms, then twice as long each time. Requests wait \
         for the attempt and fail with it.",
        Accepts::Whole { min: 10, max: HOUR_MS },
        Some("1000"),
    ),
    option(
        "retry",
        "Which failed requests are sent again: none; those that the driver's default policy \
         holds for safe; or, with downgrading, reads and writes at a lower level as well.",
        Accepts::Words(&["none", "default", "downgrading"]),
        Some("none"),
    ),
    option(
        "speculative_attempts",
        "How often a slow request is sent to one more node; 0 for never.",
        Accepts::Whole { min: 0, max: 100 },
        Some("0"),
    ),
    option(
        "speculative_delay_ms",
        "How long a request is waited for before it is sent to one more node.",
        Accepts::Whole { min: 1, max: HOUR_MS },
        Some("100"),
    ),
    option(
        "page_size",
        "Rows of a page, in scans and statements.",
        Accepts::Whole { min: 1, max: i32::MAX as u64 },
        Some("5000"),
    ),
    option(
        "timestamps",
        "Who gives a write its time: the coordinating node, or the client, always rising.",
        Accepts::Words(&["server", "client"]),
        Some("server"),
    ),
    option(
        "write_coalescing",
        "Whether a connection waits one turn of the worker before it sends, so that requests \
         go out together.",
        SWITCH,
        Some("true"),
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
        Accepts::Whole { min: 1, max: i32::MAX as u64 },
        None,
    ),
    option(
        "pages",
        "Pages that are fetched, one after the other within the operation.",
        Accepts::Words(&["first", "all"]),
        Some("all"),
    ),
    option(
        "batch",
        "Batch in which the commands go out; without one they go out at the same time.",
        Accepts::Words(&["none", "unlogged", "logged", "counter"]),
        Some("none"),
    ),
    option(
        "timestamp",
        "Time of the writes in microseconds since 1970, the same for all; to draw it, write \
         USING TIMESTAMP with an argument.",
        Accepts::Whole { min: 0, max: i64::MAX as u64 },
        None,
    ),
    option(
        "idempotent",
        "Whether doing it twice is the same as once, so that it may be sent again.",
        SWITCH,
        Some("false"),
    ),
];

/// Options as text, each accepted by its line of a table.
#[derive(Debug)]
pub(crate) struct Given {
    table: &'static [OptionDoc],
    values: BTreeMap<&'static str, String>,
}

impl Given {
    pub(crate) fn of_cluster(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        Self::parse(&TABLE, options).map_err(OpenError::Option)
    }

    /// The error is a clause that the statement's name goes before.
    pub(crate) fn of_statement(options: &BTreeMap<String, Value>) -> Result<Self, String> {
        Self::parse(&STATEMENT_TABLE, options)
    }

    fn parse(
        table: &'static [OptionDoc],
        options: &BTreeMap<String, Value>,
    ) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for (name, value) in options {
            let doc = table.iter().find(|doc| doc.name == name).ok_or_else(|| {
                let known: Vec<_> = table.iter().map(|doc| doc.name).collect();
                format!("there is no option '{name}'; known are {}", known.join(", "))
            })?;
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let text = match doc.accepts {
                Accepts::Words(_) => text.to_ascii_lowercase(),
                _ => text,
            };
            if !doc.accepts.accepts(&text) {
                let accepts = &doc.accepts;
                return Err(format!("option '{name}' can't be '{text}': give {accepts}"));
            }
            values.insert(doc.name, text);
        }
        Ok(Self { table, values })
    }

    /// The option's text or its default.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let default = || self.table.iter().find(|doc| doc.name == name)?.default;
        self.own(name).or_else(default)
    }

    /// The option's text where it was given.
    pub(crate) fn own(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub(crate) fn switch(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// A whole number, where it was given or has a default.
    pub(crate) fn whole(&self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        Some(text.parse().expect("the table accepts nothing but whole numbers"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, value: Value) -> Result<Given, OpenError> {
        Given::of_cluster(&BTreeMap::from([(name.to_owned(), value)]))
    }

    #[test]
    fn every_default_is_accepted_by_its_own_line() {
        for doc in TABLE.iter().chain(&STATEMENT_TABLE) {
            assert!(doc.default.is_none_or(|text| doc.accepts.accepts(text)), "{}", doc.name);
        }
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_known_ones() {
        let error = given("consistancy", Value::from("one")).unwrap_err().to_string();
        assert!(error.starts_with("there is no option 'consistancy'; known are address, "));
        assert!(error.contains("read_consistency"), "{error}");
    }

    #[test]
    fn a_value_that_cannot_be_says_what_could() {
        let error = given("compression", Value::from("zip")).unwrap_err().to_string();
        assert_eq!(error, "option 'compression' can't be 'zip': give one of none, lz4, snappy");
        let error = given("tls", Value::from(1)).unwrap_err().to_string();
        assert_eq!(error, "option 'tls' can't be '1': give true or false");
        assert!(given("page_size", Value::from(0)).is_err());
    }

    #[test]
    fn words_are_read_in_any_case() {
        let given = given("consistency", Value::from("LOCAL_ONE")).unwrap();
        assert_eq!(given.text("consistency"), Some("local_one"));
        assert_eq!(given.text("retry"), Some("none"));
        assert_eq!(given.own("retry"), None);
    }
}
