//! The options of this driver: one table from which they are read and documented.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{env, fmt, fs};

use kvmark_driver::OpenError;
use serde_json::Value;

use crate::address::{Address, Target};
use crate::secret::Secret;
use crate::tls::{Tls, TlsFiles};

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
    /// `true` or `false`.
    Switch,
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
            Self::Switch => formatter.write_str("true or false"),
            Self::Whole { min, max } => write!(formatter, "a whole number from {min} to {max}"),
        }
    }
}

impl Accepts {
    fn accepts(&self, text: &str) -> bool {
        match self {
            Self::Text(_) => !text.is_empty(),
            Self::Switch => matches!(text, "true" | "false"),
            Self::Whole { min, max } => {
                text.parse::<u64>().is_ok_and(|number| (*min..=*max).contains(&number))
            }
        }
    }
}

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> &'static [OptionDoc] {
    &TABLE
}

const HOUR_MS: u64 = 3_600_000;

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
        accepts: Accepts::Switch,
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
        accepts: Accepts::Switch,
        default: Some("false"),
    },
    OptionDoc {
        name: "protocol",
        meaning: "Version of the protocol; 3 is asked for by HELLO.",
        accepts: Accepts::Whole { min: 2, max: 3 },
        default: Some("2"),
    },
    OptionDoc {
        name: "username",
        meaning: "User to log in as, unless the address names one.",
        accepts: Accepts::Text("a user's name"),
        default: None,
    },
    OptionDoc {
        name: "password_env",
        meaning: "Environment variable that holds the password.",
        accepts: Accepts::Text("the name of an environment variable"),
        default: None,
    },
    OptionDoc {
        name: "password_file",
        meaning: "File whose first line is the password.",
        accepts: Accepts::Text("the path of a file"),
        default: None,
    },
    OptionDoc {
        name: "database",
        meaning: "Number of the database, unless the address names one.",
        accepts: Accepts::Whole { min: 0, max: i32::MAX as u64 },
        default: Some("0"),
    },
    OptionDoc {
        name: "tls",
        meaning: "Whether connections are encrypted and the server's certificate is checked.",
        accepts: Accepts::Switch,
        default: Some("false"),
    },
    OptionDoc {
        name: "ca_file",
        meaning: "PEM file of the authorities to trust in place of the machine's own; needs tls.",
        accepts: Accepts::Text("the path of a file"),
        default: None,
    },
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
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: u64,
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
    pub(crate) reconnect_max: Duration,
}

impl Settings {
    pub(crate) fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let given = Given::parse(options)?;
        let address = Address::parse(given.text("address").unwrap_or_default())?;
        let database = match &address.database {
            Some(text) => given.checked("database", text)?,
            None => given.whole("database"),
        };
        let connections = usize::try_from(given.whole("connections")).unwrap_or(usize::MAX);
        let username = address.username.or_else(|| given.text("username").map(str::to_owned));
        let password = password(address.password, &given)?;
        if username.is_some() && password.is_none() {
            let text = "a user needs a password: give password_env or password_file";
            return Err(OpenError::Option(text.to_owned()));
        }
        let cluster = given.switch("cluster");
        check_cluster(cluster, &address.targets, database)?;
        Ok(Self {
            cluster,
            connections: Some(connections).filter(|count| *count > 0),
            pipeline_parts: given.switch("pipeline_parts"),
            protocol: given.whole("protocol"),
            username,
            password,
            database,
            tls: tls(&address.targets, &given)?,
            targets: address.targets,
            connect_timeout: Duration::from_millis(given.whole("connect_timeout_ms")),
            reconnect_max: Duration::from_millis(given.whole("reconnect_max_ms")),
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

/// The options as text, each accepted by its line of the table.
struct Given(BTreeMap<&'static str, String>);

impl Given {
    fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let mut given = BTreeMap::new();
        for (name, value) in options {
            let doc = TABLE.iter().find(|doc| doc.name == name).ok_or_else(|| unknown(name))?;
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if !doc.accepts.accepts(&text) {
                return Err(wrong(doc, &text));
            }
            given.insert(doc.name, text);
        }
        Ok(Self(given))
    }

    fn text(&self, name: &str) -> Option<&str> {
        let default = || TABLE.iter().find(|doc| doc.name == name).and_then(|doc| doc.default);
        self.0.get(name).map(String::as_str).or_else(default)
    }

    fn switch(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    fn whole(&self, name: &str) -> u64 {
        let text = self.text(name).unwrap_or_default();
        text.parse().expect("the table accepts whole numbers only, and each has a default")
    }

    /// A number that stands elsewhere, held to the option's bounds.
    fn checked(&self, name: &str, text: &str) -> Result<u64, OpenError> {
        let doc = TABLE.iter().find(|doc| doc.name == name).ok_or_else(|| unknown(name))?;
        if self.0.contains_key(name) {
            let text = format!("option '{name}' is given twice: the address has one as well");
            return Err(OpenError::Option(text));
        }
        let number = text.parse().ok().filter(|_| doc.accepts.accepts(text));
        number.ok_or_else(|| wrong(doc, text))
    }
}

fn unknown(name: &str) -> OpenError {
    let known: Vec<_> = TABLE.iter().map(|doc| doc.name).collect();
    let known = known.join(", ");
    OpenError::Option(format!("there is no option '{name}'; known are {known}"))
}

fn wrong(doc: &OptionDoc, text: &str) -> OpenError {
    let OptionDoc { name, accepts, .. } = doc;
    OpenError::Option(format!("option '{name}' can't be '{text}': give {accepts}"))
}

fn password(own: Option<Secret>, given: &Given) -> Result<Option<Secret>, OpenError> {
    let (variable, file) = (given.text("password_env"), given.text("password_file"));
    let places = [own.is_some(), variable.is_some(), file.is_some()];
    if places.iter().filter(|there| **there).count() > 1 {
        let text = "the password is given twice: keep one of the address, password_env and \
                    password_file";
        return Err(OpenError::Option(text.to_owned()));
    }
    if let Some(name) = variable {
        let value = env::var(name).map_err(|_| {
            OpenError::Option(format!(
                "option 'password_env' names {name}, which isn't set: set it to the password"
            ))
        })?;
        return Ok(Some(Secret::new(value)));
    }
    let Some(path) = file else { return Ok(own) };
    let text = fs::read_to_string(path).map_err(|error| {
        OpenError::Option(format!("the password file {path} can't be read ({error})"))
    })?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Some(Secret::new(line.to_owned()))),
        _ => Err(OpenError::Option(format!("the first line of the password file {path} is empty"))),
    }
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
        return Tls::new(targets, TlsFiles { ca, own, server_name }).map(Some);
    }
    match names.iter().find(|name| given.text(name).is_some()) {
        None => Ok(None),
        Some(name) => Err(OpenError::Option(format!(
            "option '{name}' has no effect while 'tls' is 'false': set tls to true or leave it out"
        ))),
    }
}
