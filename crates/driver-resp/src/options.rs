//! The options of this driver, in one table for parsing and documentation.

use std::collections::BTreeMap;

use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver::{OpenError, Speedup};
use kvmark_driver_server::{Credentials, Limits, SHARED_OPTIONS, Target, Tls};
use kvmark_plan::Kind;
use serde_json::Value;

/// The port of the Redis protocol.
pub(crate) const PORT: u16 = 6379;

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> Vec<&'static OptionDoc> {
    TABLE.iter().chain(&SHARED_OPTIONS).collect()
}

/// Suggested if the commands of an operation dominate the time.
pub(crate) const PARTS_TOGETHER: Speedup = Speedup {
    option: "pipeline_parts=true",
    kinds: &[Kind::Insert, Kind::Scan, Kind::Delete],
    meaning: "sends the commands of one operation together, where YCSB sends each when the one \
              before it is answered",
};

static TABLE: [OptionDoc; 5] = [
    option("address", Accepts::Text("host:port or a socket's path"), Some("127.0.0.1:6379"))
        .meaning(
            "The server: [user[:password]@]host[:port][/database], or a Unix socket's path; of a \
         cluster any servers, as host:port,host:port.",
        ),
    option("cluster", Accepts::SWITCH, Some("false"))
        .meaning("Whether the server belongs to a Redis Cluster, whose slots are then followed."),
    option("pipeline_parts", Accepts::SWITCH, Some("false")).meaning(
        "Whether the commands of one operation (an insert, a delete, the reads of a scan) are sent \
         together; YCSB sends each when the one before it is answered.",
    ),
    option("protocol", Accepts::Whole { min: 2, max: 3 }, Some("2"))
        .meaning("Version of the protocol; 3 is asked for by HELLO."),
    option("database", Accepts::Whole { min: 0, max: i32::MAX as i64 }, Some("0"))
        .meaning("Number of the database, unless the address names one."),
];

/// The parsed options.
#[derive(Debug)]
pub struct Settings {
    /// One server, or some servers of a cluster.
    pub(crate) targets: Vec<Target>,
    pub(crate) cluster: bool,
    pub(crate) limits: Limits,
    pub(crate) pipeline_parts: bool,
    pub(crate) protocol: u64,
    pub(crate) credentials: Credentials,
    pub(crate) database: u64,
    pub(crate) tls: Option<Tls>,
}

impl Settings {
    pub(crate) fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let mut given = Given::parse(self::options(), options)?;
        let address = read_address(given.text("address").unwrap_or_default())?;
        let (credentials, targets, database) = address;
        given.take_from_address("database", database)?;
        let credentials = credentials.completed_by(&given)?;
        let whole = |name| given.whole(name).expect("each of these has a default");
        let database = whole("database");
        let cluster = given.switch("cluster");
        check_cluster(cluster, &targets, database)?;
        Ok(Self {
            cluster,
            limits: Limits::given(&given),
            pipeline_parts: given.switch("pipeline_parts"),
            protocol: whole("protocol"),
            credentials,
            database,
            tls: Tls::given(&given, &targets)?,
            targets,
        })
    }

    /// The first configured server.
    pub(crate) fn target(&self) -> &Target {
        self.targets.first().expect("an address names at least one server")
    }
}

/// Reads `[user[:password]@]host[:port][,host[:port]…][/database]`, or the path of a Unix socket.
/// Returns at least one server. Errors never show user and password.
fn read_address(text: &str) -> Result<(Credentials, Vec<Target>, Option<String>), OpenError> {
    let (credentials, place) = Credentials::split_from(text)?;
    let parts = place.split_once('/').filter(|(hosts, _)| !hosts.is_empty());
    let (hosts, database) = parts.unwrap_or((place, ""));
    let database = Some(database.to_owned()).filter(|text| !text.is_empty());
    Ok((credentials, Target::list(hosts, PORT)?, database))
}

/// Checks that several servers form a cluster, which requires host names and has one database.
fn check_cluster(cluster: bool, targets: &[Target], database: u64) -> Result<(), OpenError> {
    let wrong = if !cluster && targets.len() > 1 {
        "option 'address' names several servers: set cluster to true, or give one host:port"
    } else if cluster && targets.iter().any(|target| matches!(target, Target::Unix(_))) {
        "a cluster can't be reached through a Unix socket: give host:port"
    } else if cluster && database != 0 {
        "a cluster has database 0 only: leave out the database"
    } else {
        return Ok(());
    };
    Err(OpenError::Option(wrong.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> String {
        let targets = read_address(text).unwrap().1;
        targets.iter().map(Target::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_server_is_a_host_or_a_sockets_path() {
        assert_eq!(target("example.org"), "example.org:6379");
        assert_eq!(target("/run/redis.sock"), "/run/redis.sock");
    }

    #[test]
    fn several_servers_are_separated_by_commas() {
        assert_eq!(target("u:p@a:1,b,[::1]:3/0"), "a:1 b:6379 [::1]:3");
        assert!(read_address("a:1,,b:2").is_err());
    }

    #[test]
    fn an_address_may_have_user_password_and_database() {
        let (credentials, targets, database) = read_address("ann:sesame@host/7").unwrap();
        assert_eq!(targets[0].to_string(), "host:6379");
        assert_eq!(credentials.username.as_deref(), Some("ann"));
        assert_eq!(database.as_deref(), Some("7"));
    }

    #[test]
    fn an_invalid_address_is_rejected_without_showing_its_password() {
        for text in ["", "u:sesame@", "u:sesame@host:x", "u:sesame@host:0", "u:sesame@[::1", "h:"] {
            let error = read_address(text).unwrap_err().to_string();
            assert!(error.starts_with("option 'address' can't be"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
