//! The options of this driver, in one table for parsing and documentation.

use std::collections::BTreeMap;

use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver::{OpenError, Speedup};
use kvmark_driver_server::{Credentials, Limits, SHARED_OPTIONS, Target, Tls};
use kvmark_plan::Kind;
use serde_json::Value;

use crate::keys::is_word;

/// The port of memcached.
pub(crate) const PORT: u16 = 11211;
/// The longest time to live: memcached reads a greater number as a date.
const TTL_MAX_S: i64 = 30 * 24 * 60 * 60;

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> Vec<&'static OptionDoc> {
    TABLE.iter().chain(&SHARED_OPTIONS).collect()
}

/// Suggested if updates dominate the time.
pub(crate) const REPLACING: Speedup = Speedup {
    option: "update=replace",
    kinds: &[Kind::Update],
    meaning: "writes the given fields as the whole record at once, as YCSB does, so that the \
              others are lost",
};

static TABLE: [OptionDoc; 3] = [
    option("address", Accepts::Text("host:port or a socket's path"), Some("127.0.0.1:11211"))
        .meaning(
            "The servers: [user:password@]host[:port][,host[:port]…], among which keys are \
         distributed, or a Unix socket's path.",
        ),
    option("update", Accepts::Words(&["merge", "replace"]), Some("merge")).meaning(
        "What an update of some fields does: merge reads the record and writes it whole unless \
         another client did since (gets, cas); replace writes the given fields alone, as YCSB \
         does, and the others are lost.",
    ),
    option("ttl_s", Accepts::Whole { min: 0, max: TTL_MAX_S }, Some("0"))
        .meaning("Seconds that a written record lives; 0 for ever."),
];

/// The parsed options.
#[derive(Debug)]
pub struct Settings {
    /// At least one.
    pub(crate) targets: Vec<Target>,
    pub(crate) limits: Limits,
    pub(crate) replaces: bool,
    pub(crate) ttl_s: u64,
    pub(crate) credentials: Credentials,
    pub(crate) tls: Option<Tls>,
}

impl Settings {
    pub(crate) fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let given = Given::parse(self::options(), options)?;
        let (own, place) = Credentials::split_from(given.text("address").unwrap_or_default())?;
        let credentials = login(own.completed_by(&given)?)?;
        let targets = Target::list(place, PORT)?;
        let twice = (1..targets.len()).find(|index| targets[..*index].contains(&targets[*index]));
        if let Some(index) = twice {
            let text = format!("option 'address' names {} twice: leave one out", targets[index]);
            return Err(OpenError::Option(text));
        }
        let whole = |name| given.whole(name).expect("each of these has a default");
        Ok(Self {
            limits: Limits::given(&given),
            replaces: given.text("update") == Some("replace"),
            ttl_s: whole("ttl_s"),
            credentials,
            tls: Tls::given(&given, &targets)?,
            targets,
        })
    }

    /// The first configured server.
    pub(crate) fn target(&self) -> &Target {
        self.targets.first().expect("an address names at least one server")
    }
}

/// Rejects an invalid login.
fn login(credentials: Credentials) -> Result<Credentials, OpenError> {
    let Credentials { username, password } = &credentials;
    let wrong = match (username, password) {
        (None, Some(_)) => "memcached's login has a user, too: give username",
        (Some(name), _) if !is_word(name.as_bytes()) => {
            "a user of memcached has no blanks: give another username"
        }
        _ => return Ok(credentials),
    };
    Err(OpenError::Option(wrong.to_owned()))
}
