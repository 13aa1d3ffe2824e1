//! The options of this driver, in one table for parsing and documentation.

use std::collections::BTreeMap;

use kvmark_driver::OpenError;
use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver_server::{Credentials, Limits, SHARED_OPTIONS, Target, Tls};
use serde_json::{Map, Value, json};

/// The port of MongoDB.
pub(crate) const PORT: u16 = 27017;

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> Vec<&'static OptionDoc> {
    TABLE.iter().chain(&SHARED_OPTIONS).collect()
}

static TABLE: [OptionDoc; 5] = [
    option("address", Accepts::Text("host:port or a socket's path"), Some("127.0.0.1:27017"))
        .meaning("The primary: [user:password@]host[:port], or a Unix socket's path."),
    option("database", Accepts::Text("a database's name"), Some("ycsb")).meaning("The database."),
    option("auth_source", Accepts::Text("a database's name"), None)
        .meaning("The database that has the user; else the given database, or admin without one."),
    option("w", Accepts::Text("a number of servers from 1, or majority"), None).meaning(
        "The servers that must have a write before it is acknowledged; else the server's own \
         setting.",
    ),
    option("journal", Accepts::SWITCH, None).meaning(
        "Whether a write must be in the journal on disk before it is acknowledged; else the \
         server's own setting.",
    ),
];

/// The parsed options.
#[derive(Debug)]
pub struct Settings {
    pub(crate) target: Target,
    pub(crate) database: String,
    /// The database that has the user.
    pub(crate) source: String,
    pub(crate) credentials: Credentials,
    /// The members of the write concern, if any.
    pub(crate) concern: Map<String, Value>,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<Tls>,
}

impl Settings {
    pub(crate) fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let given = Given::parse(self::options(), options)?;
        let wrong = |text: &str| Err(OpenError::Option(text.to_owned()));
        let (own, place) = Credentials::split_from(given.text("address").unwrap_or_default())?;
        let credentials = own.completed_by(&given)?;
        if credentials.username.is_none() && credentials.password.is_some() {
            return wrong("a password has a user, too: give username");
        }
        let mut targets = Target::list(place, PORT)?;
        let tls = Tls::given(&given, &targets)?;
        let target = targets.pop().expect("an address names at least one server");
        if !targets.is_empty() {
            return wrong("option 'address' names several servers: give the primary's host:port");
        }
        let mut concern = Map::new();
        if let Some(word) = given.text("w") {
            let servers = word.parse().ok().filter(|servers: &u8| *servers > 0);
            let Some(w) = servers.map(Value::from).or((word == "majority").then(|| json!(word)))
            else {
                let text = format!(
                    "option 'w' can't be '{word}': give a number of servers from 1, or majority"
                );
                return Err(OpenError::Option(text));
            };
            concern.insert("w".to_owned(), w);
        }
        if given.text("journal").is_some() {
            concern.insert("j".to_owned(), given.switch("journal").into());
        }
        let source = given.text("auth_source").or_else(|| given.own("database"));
        Ok(Self {
            target,
            source: source.unwrap_or("admin").to_owned(),
            database: given.text("database").unwrap_or_default().to_owned(),
            credentials,
            concern,
            limits: Limits::given(&given),
            tls,
        })
    }
}
