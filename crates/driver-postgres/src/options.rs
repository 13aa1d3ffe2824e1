//! The options of this driver, in one table for parsing and documentation.

use std::collections::BTreeMap;

use kvmark_driver::OpenError;
use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver_server::{Credentials, Limits, SHARED_OPTIONS, Secret, Target, Tls};
use serde_json::Value;

/// The port of PostgreSQL.
pub(crate) const PORT: u16 = 5432;
/// The user without the option.
const USER: &str = "postgres";

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> Vec<&'static OptionDoc> {
    TABLE.iter().chain(&SHARED_OPTIONS).collect()
}

static TABLE: [OptionDoc; 3] = [
    option("address", Accepts::Text("host:port or a socket's path"), Some("127.0.0.1:5432"))
        .meaning("The server: [user:password@]host[:port], or a Unix socket's path."),
    option("database", Accepts::Text("a database's name"), None)
        .meaning("The database, which must exist; else the one of the user's name."),
    option(
        "synchronous_commit",
        Accepts::Words(&["off", "local", "remote_write", "on", "remote_apply"]),
        None,
    )
    .meaning("What an acknowledged write waits for; else the server's own setting."),
];

/// The parsed options.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) target: Target,
    pub(crate) username: String,
    pub(crate) password: Option<Secret>,
    /// Settings of the server's sessions, by name.
    pub(crate) parameters: Vec<(&'static str, String)>,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<Tls>,
}

impl Settings {
    pub(crate) fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let given = Given::parse(self::options(), options)?;
        let (own, place) = Credentials::split_from(given.text("address").unwrap_or_default())?;
        let Credentials { username, password } = own.extended_by(&given)?;
        let username = username.unwrap_or_else(|| USER.to_owned());
        let mut targets = Target::list(place, PORT)?;
        let tls = Tls::given(&given, &targets)?;
        let target = targets.pop().expect("an address names at least one server");
        if !targets.is_empty() {
            let text = "option 'address' names several servers: give one host:port";
            return Err(OpenError::Option(text.to_owned()));
        }
        let database = given.text("database").unwrap_or(&username);
        let fixed = [
            ("user", username.as_str()),
            ("database", database),
            ("application_name", "kvmark"),
            ("client_encoding", "UTF8"),
        ];
        let own = given.text("synchronous_commit").map(|word| ("synchronous_commit", word));
        let parameters = fixed.into_iter().chain(own);
        let parameters = parameters.map(|(name, value)| (name, value.to_owned())).collect();
        Ok(Self { target, password, parameters, limits: Limits::given(&given), tls, username })
    }
}
