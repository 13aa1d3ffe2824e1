//! The options of this driver: one table from which they are read and documented.

use std::collections::BTreeMap;
use std::time::Duration;

use kvmark_driver::options::{Accepts, Given, OptionDoc};
use kvmark_driver::{OpenError, Speedup};
use kvmark_driver_server::{
    CA_FILE, Credentials, PASSWORD_ENV, PASSWORD_FILE, Tls, TlsFiles, USERNAME,
};
use kvmark_plan::Kind;
use serde_json::Value;

use crate::address::{Address, Target};

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> &'static [OptionDoc] {
    &TABLE
}

/// Told where the parts of operations take most of the time.
pub(crate) const PARTS_TOGETHER: Speedup = Speedup {
    option: "pipeline_parts=true",
    kinds: &[Kind::Insert, Kind::Scan, Kind::Delete],
    meaning: "sends the commands of one operation together, where YCSB sends each when the one \
              before it is answered",
};

const HOUR_MS: i64 = 3_600_000;

static TABLE: [OptionDoc; 16] = [
    OptionDoc {
        name: "address",
        meaning: "The server: [user[:password]@]host[:port][/database], or a Unix socket's path; \
                  of a cluster any servers, as host:port,host:port.",
        accepts: Accepts::Text("host:port or a socket's path"),
        default: Some("127.0.0.1:6379"),
    },
    OptionDoc {
        name: "cluster",
        meaning: "Whether the server belongs to a Redis Cluster, whose slots are then followed.",
        accepts: Accepts::SWITCH,
        default: Some("false"),
    },
    OptionDoc {
        name: "connections",
        meaning: "Connections of a worker to each server, shared by its clients in turn with \
                  their requests pipelined; 0 for one per client.",
        accepts: Accepts::Whole { min: 0, max: 1_000_000 },
        default: Some("0"),
    },
    OptionDoc {
        name: "pipeline_parts",
        meaning: "Whether the commands of one operation (an insert, a delete, the reads of a \
                  scan) are sent together; YCSB sends each when the one before it is answered.",
        accepts: Accepts::SWITCH,
        default: Some("false"),
    },
    OptionDoc {
        name: "protocol",
        meaning: "Version of the protocol; 3 is asked for by HELLO.",
        accepts: Accepts::Whole { min: 2, max: 3 },
        default: Some("2"),
    },
    USERNAME,
    PASSWORD_ENV,
    PASSWORD_FILE,
    OptionDoc {
        name: "database",
        meaning: "Number of the database, unless the address names one.",
        accepts: Accepts::Whole { min: 0, max: i32::MAX as i64 },
        default: Some("0"),
    },
    OptionDoc {
        name: "tls",
        meaning: "Whether connections are encrypted and the server's certificate is checked.",
        accepts: Accepts::SWITCH,
        default: Some("false"),
    },
    CA_FILE,
    OptionDoc {
        name: "cert_file",
        meaning: "PEM file of the client's own certificate, where the server asks for one; needs \
                  tls and key_file.",
        accepts: Accepts::Text("the path of a file"),
        default: None,
    },
    OptionDoc {
        name: "key_file",
        meaning: "PEM file of the key to cert_file.",
        accepts: Accepts::Text("the path of a file"),
        default: None,
    },
    OptionDoc {
        name: "server_name",
        meaning: "Name that the certificate must be for, in place of the host; needs tls.",
        accepts: Accepts::Text("a host's name"),
        default: None,
    },
    OptionDoc {
        name: "connect_timeout_ms",
        meaning: "Limit on the time to connect and log in.",
        accepts: Accepts::Whole { min: 1, max: HOUR_MS },
        default: Some("5000"),
    },
    OptionDoc {
        name: "reconnect_max_ms",
        meaning: "Longest pause before a lost connection is tried again; the first retry comes \
                  at once, the next after 10 ms, then twice as long each time.",
        accepts: Accepts::Whole { min: 10, max: HOUR_MS },
        default: Some("1000"),
    },
];

/// The options as given, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    /// One server, or any of a cluster.
    pub(crate) targets: Vec<Target>,
    pub(crate) cluster: bool,
    /// Connections of a session to each server; none for one per client.
    pub(crate) connections: Option<usize>,
    pub(crate) pipeline_parts: bool,
    pub(crate) protocol: u64,
    pub(crate) credentials: Credentials,
    pub(crate) database: u64,
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
    pub(crate) reconnect_max: Duration,
}

impl Settings {
    pub(crate) fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let mut given = Given::parse(&TABLE, options)?;
        let address = Address::parse(given.text("address").unwrap_or_default())?;
        given.take_from_address("database", address.database)?;
        let credentials = address.credentials.completed_by(&given)?;
        let whole = |name| given.whole(name).expect("each of these has a default");
        let connections = usize::try_from(whole("connections")).unwrap_or(usize::MAX);
        let database = whole("database");
        let cluster = given.switch("cluster");
        check_cluster(cluster, &address.targets, database)?;
        Ok(Self {
            cluster,
            connections: Some(connections).filter(|count| *count > 0),
            pipeline_parts: given.switch("pipeline_parts"),
            protocol: whole("protocol"),
            credentials,
            database,
            tls: tls(&address.targets, &given)?,
            targets: address.targets,
            connect_timeout: Duration::from_millis(whole("connect_timeout_ms")),
            reconnect_max: Duration::from_millis(whole("reconnect_max_ms")),
        })
    }

    /// The server, or the first of a cluster that the address names.
    pub(crate) fn target(&self) -> &Target {
        self.targets.first().expect("an address names at least one server")
    }
}

/// Several servers are those of a cluster, which has names for its servers and one database.
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

fn tls(targets: &[Target], given: &Given) -> Result<Option<Tls>, OpenError> {
    let names = ["ca_file", "cert_file", "key_file", "server_name"];
    let [ca, certificate, key, server_name] = names.map(|name| given.text(name));
    if given.switch("tls") {
        let own = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let text = "cert_file and key_file belong together: give both or neither";
                return Err(OpenError::Option(text.to_owned()));
            }
        };
        let tls = Tls::new(TlsFiles { ca, own, server_name })?;
        for target in targets {
            tls.name_of(target.host()).map_err(OpenError::Option)?;
        }
        return Ok(Some(tls));
    }
    match names.iter().find(|name| given.text(name).is_some()) {
        None => Ok(None),
        Some(name) => Err(OpenError::Option(format!(
            "option '{name}' has no effect while 'tls' is 'false': set tls to true or leave it out"
        ))),
    }
}
