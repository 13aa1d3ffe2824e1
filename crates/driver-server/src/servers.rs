//! The options that drivers share: servers, login, encryption, connections and their time limits.

use std::time::Duration;

use kvmark_driver::OpenError;
use kvmark_driver::options::{Accepts, Given, OptionDoc};

use crate::address::Target;
use crate::credentials::{Credentials, PASSWORD_ENV, PASSWORD_FILE, USERNAME};
use crate::tls::{CA_FILE, CERT_FILE, KEY_FILE, SERVER_NAME, TLS, Tls};

/// An option without a default, which accepts a text.
pub(crate) const fn optional(
    name: &'static str,
    meaning: &'static str,
    value: &'static str,
) -> OptionDoc {
    OptionDoc { name, meaning, accepts: Accepts::Text(value), default: None }
}

const HOUR_MS: i64 = 3_600_000;

/// The option `connections`.
pub(crate) const CONNECTIONS: OptionDoc = OptionDoc {
    name: "connections",
    meaning: "Connections of a worker to each server, shared by its clients, with \
              their requests pipelined; 0 for one per client.",
    accepts: Accepts::Whole { min: 0, max: 1_000_000 },
    default: Some("0"),
};

/// The option `connect_timeout_ms`.
pub const CONNECT_TIMEOUT_MS: OptionDoc = OptionDoc {
    name: "connect_timeout_ms",
    meaning: "Limit on the time to connect and log in.",
    accepts: Accepts::Whole { min: 1, max: HOUR_MS },
    default: Some("5000"),
};

/// The option `reconnect_max_ms`.
pub(crate) const RECONNECT_MAX_MS: OptionDoc = OptionDoc {
    name: "reconnect_max_ms",
    meaning: "Longest pause between attempts to reopen a lost connection; the first attempt is \
              immediate, the next follows after 10 ms, then the pause doubles.",
    accepts: Accepts::Whole { min: 10, max: HOUR_MS },
    default: Some("1000"),
};

/// The options of every driver with ordered connections, after its own.
pub static SHARED_OPTIONS: [OptionDoc; 11] = [
    CONNECTIONS,
    USERNAME,
    PASSWORD_ENV,
    PASSWORD_FILE,
    TLS,
    CA_FILE,
    CERT_FILE,
    KEY_FILE,
    SERVER_NAME,
    CONNECT_TIMEOUT_MS,
    RECONNECT_MAX_MS,
];

/// What [`CONNECTIONS`], [`CONNECT_TIMEOUT_MS`] and [`RECONNECT_MAX_MS`] say.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections of a session to each server; `None` means one per client.
    connections: Option<usize>,
    /// Limit on the time to connect and log in.
    pub connect_timeout: Duration,
    /// Longest pause between two attempts to open a connection.
    pub reconnect_max: Duration,
}

impl Limits {
    /// Those of the given options, among which are all three.
    #[must_use]
    pub fn given(given: &Given) -> Self {
        let whole = |doc: &OptionDoc| given.whole(doc.name).expect("each of these has a default");
        let connections = usize::try_from(whole(&CONNECTIONS)).unwrap_or(usize::MAX);
        Self {
            connections: Some(connections).filter(|count| *count > 0),
            connect_timeout: Duration::from_millis(whole(&CONNECT_TIMEOUT_MS)),
            reconnect_max: Duration::from_millis(whole(&RECONNECT_MAX_MS)),
        }
    }

    /// The number of connections to each server for a session with this many clients.
    #[must_use]
    pub fn width(&self, clients: u32) -> usize {
        self.connections.unwrap_or(usize::MAX).min(clients as usize)
    }
}

/// The servers of a driver, and how they are reached.
#[derive(Clone, Debug)]
pub struct Servers {
    /// At least one.
    pub targets: Vec<Target>,
    /// User and password, each if given.
    pub credentials: Credentials,
    /// The limits on connections.
    pub limits: Limits,
    /// The encryption, if any.
    pub tls: Option<Tls>,
}

impl Servers {
    /// Reads the shared options, and the option `address` as `[user[:password]@]host[:port][,…]`.
    ///
    /// # Errors
    /// [`OpenError::Option`] if the address or an option is invalid.
    pub fn given(given: &Given, port: u16) -> Result<Self, OpenError> {
        let (own, place) = Credentials::split_from(given.text("address").unwrap_or_default())?;
        Self::at(place, own, given, port)
    }

    /// Reads the shared options. The address has been split into place and credentials.
    ///
    /// # Errors
    /// [`OpenError::Option`] if the place or an option is invalid.
    pub fn at(place: &str, own: Credentials, given: &Given, port: u16) -> Result<Self, OpenError> {
        let targets = Target::list(place, port)?;
        let (credentials, limits) = (own.completed_by(given)?, Limits::given(given));
        Ok(Self { credentials, limits, tls: Tls::given(given, &targets)?, targets })
    }

    /// The first server.
    pub fn first(&self) -> &Target {
        self.targets.first().expect("an address names at least one server")
    }

    /// Rejects an address with several servers.
    ///
    /// # Errors
    /// [`OpenError::Option`] for such an address.
    pub fn only(self) -> Result<Self, OpenError> {
        if self.targets.len() == 1 {
            return Ok(self);
        }
        let text = "option 'address' names several servers: give one host:port";
        Err(OpenError::Option(text.to_owned()))
    }
}
