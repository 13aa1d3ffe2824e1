//! The parsed options.

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use kvmark_driver::OpenError;
use kvmark_driver::options::Given;
use kvmark_driver_server::{Secret, Tls};
use serde_json::Value;

use crate::address::Address;
use crate::failure::refused_at;
use crate::frame::Compression;
use crate::options;
use crate::replication::Replication;

/// A consistency level; its number is that of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consistency {
    Any,
    One,
    Two,
    Three,
    Quorum,
    All,
    LocalQuorum,
    EachQuorum,
    Serial,
    LocalSerial,
    LocalOne,
}

/// The retry policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    None,
    Default,
    Downgrading,
}

/// The parsed options.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    /// The configured keyspace.
    pub(crate) keyspace: Option<String>,
    /// The keyspace of YCSB's table if none is configured.
    pub(crate) default_keyspace: String,
    pub(crate) replication: Replication,
    /// Options of a created table, in CQL.
    pub(crate) table_options: Option<String>,
    pub(crate) login: Option<(String, Secret)>,
    pub(crate) read: Consistency,
    pub(crate) write: Consistency,
    pub(crate) serial: Consistency,
    /// Connections of a worker to each node.
    pub(crate) connections: usize,
    pub(crate) compression: Option<Compression>,
    pub(crate) tls: Option<Tls>,
    pub(crate) datacenter: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) token_aware: bool,
    pub(crate) shard_aware: bool,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) reconnect_max: Duration,
    pub(crate) retry: Retry,
    pub(crate) page_size: i32,
    pub(crate) client_timestamps: bool,
    pub(crate) tcp_nodelay: bool,
}

impl Settings {
    pub(crate) fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let mut given = Given::parse(options::options(), options)?;
        let mut address = Address::parse(given.text("address").unwrap_or_default())?;
        given.take_from_address("keyspace", address.keyspace.take())?;
        let millis = |name| given.whole(name).map(Duration::from_millis);
        let level = |name| given.text(name).map(Consistency::named);
        let both = level("consistency").unwrap_or(Consistency::Quorum);
        Ok(Self {
            keyspace: keyspace(&given)?,
            default_keyspace: given.text("keyspace").unwrap_or_default().to_owned(),
            replication: given.read("replication")?,
            table_options: given.text("table_options").map(str::to_owned),
            login: mem::take(&mut address.credentials).completed_by(&given)?.login()?,
            read: level("read_consistency").unwrap_or(both),
            write: level("write_consistency").unwrap_or(both),
            serial: level("serial_consistency").unwrap_or(Consistency::Serial),
            connections: given.whole("connections_per_node").map_or(1, |count| count as usize),
            compression: match given.text("compression") {
                Some("lz4") => Some(Compression::Lz4),
                Some("snappy") => Some(Compression::Snappy),
                _ => None,
            },
            tls: Tls::given(&given, &[])?,
            datacenter: given.text("datacenter").map(str::to_owned),
            rack: given.text("rack").map(str::to_owned),
            token_aware: given.switch("token_aware"),
            shard_aware: given.switch("shard_aware"),
            request_timeout: millis("request_timeout_ms").filter(|limit| !limit.is_zero()),
            connect_timeout: millis("connect_timeout_ms").unwrap_or(Duration::MAX),
            reconnect_max: millis("reconnect_max_ms").unwrap_or(Duration::MAX),
            retry: match given.text("retry") {
                Some("default") => Retry::Default,
                Some("downgrading") => Retry::Downgrading,
                _ => Retry::None,
            },
            page_size: given.whole("page_size").and_then(|n| n.try_into().ok()).unwrap_or(i32::MAX),
            client_timestamps: given.text("timestamps") == Some("client"),
            tcp_nodelay: given.switch("tcp_nodelay"),
            address,
        })
    }
}

impl Settings {
    /// The reason why the cluster can't be used.
    pub(crate) fn refused(&self, why: impl std::fmt::Display) -> OpenError {
        refused_at(&self.address.hosts(), why)
    }
}

/// The consistency levels by their numbers, with their names in options.
const LEVELS: [(&str, Consistency); 11] = [
    ("any", Consistency::Any),
    ("one", Consistency::One),
    ("two", Consistency::Two),
    ("three", Consistency::Three),
    ("quorum", Consistency::Quorum),
    ("all", Consistency::All),
    ("local_quorum", Consistency::LocalQuorum),
    ("each_quorum", Consistency::EachQuorum),
    ("serial", Consistency::Serial),
    ("local_serial", Consistency::LocalSerial),
    ("local_one", Consistency::LocalOne),
];

impl Consistency {
    /// The level of this name.
    pub(crate) fn named(name: &str) -> Self {
        let level = LEVELS.iter().find(|(other, _)| *other == name);
        level.map_or(Self::Quorum, |(_, level)| *level)
    }

    /// The name of the level of this number.
    pub(crate) fn name_of(number: u16) -> String {
        let level = LEVELS.get(usize::from(number));
        level.map_or_else(|| number.to_string(), |(_, level)| format!("{level:?}"))
    }
}

fn refused(text: impl Into<String>) -> OpenError {
    OpenError::Option(text.into())
}

fn keyspace(given: &Given) -> Result<Option<String>, OpenError> {
    let plain = |name: &str| {
        name.len() <= 48
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    match given.own("keyspace") {
        Some(name) if !plain(name) => Err(refused(format!(
            "no keyspace can be called '{name}': give up to 48 letters, digits and underscores"
        ))),
        name => Ok(name.map(str::to_owned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(options: &[(&str, &str)]) -> Result<Settings, String> {
        let option = |(name, text): &(&str, &str)| ((*name).to_owned(), Value::from(*text));
        Settings::parse(&options.iter().map(option).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn reads_and_writes_default_to_the_common_level() {
        let settings = parse(&[("consistency", "one"), ("write_consistency", "TWO")]).unwrap();
        assert_eq!((settings.read, settings.write), (Consistency::One, Consistency::Two));
        let settings = parse(&[]).unwrap();
        assert_eq!((settings.read, settings.write), (Consistency::Quorum, Consistency::Quorum));
    }

    #[test]
    fn nothing_is_retried_by_default() {
        let repeats = |options: &[(&str, &str)]| parse(options).unwrap().retry != Retry::None;
        assert!(!repeats(&[]));
        assert!(repeats(&[("retry", "default")]));
    }

    #[test]
    fn contradictory_options_are_rejected() {
        let cases: [(&[(&str, &str)], &str); 6] = [
            (&[("replication", "3")], "'replication' can't be '3': give simple:1, network:dc1=3"),
            (&[("address", "h/a"), ("keyspace", "b")], "keyspace' is given twice"),
            (&[("address", "h/a-b")], "no keyspace can be called 'a-b'"),
            (&[("ca_file", "x.pem")], "option 'ca_file' has no effect while 'tls' is 'false'"),
            (&[("username", "ann")], "a user needs a password"),
            (&[("address", "u:sesame@h"), ("password_env", "P")], "the password is given twice"),
        ];
        for (options, expected) in cases {
            let error = parse(options).unwrap_err();
            assert!(error.contains(expected) && !error.contains("sesame"), "{error}");
        }
    }

    #[test]
    fn a_password_is_not_shown_with_the_settings() {
        let settings = parse(&[("address", "ann:sesame@h")]).unwrap();
        assert!(!format!("{settings:?}").contains("sesame"));
    }
}
