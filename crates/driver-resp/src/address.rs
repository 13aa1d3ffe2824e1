//! Where a server is, as the part of its URL behind the scheme says it.

use std::fmt;
use std::path::PathBuf;

use kvmark_driver::OpenError;
use kvmark_driver_server::{Credentials, HostPort};

/// The port of the Redis protocol.
pub(crate) const PORT: u16 = 6379;

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Tcp(HostPort),
    Unix(PathBuf),
}

impl Target {
    /// What a certificate is for; a Unix socket has none.
    pub(crate) fn host(&self) -> Option<&str> {
        match self {
            Self::Tcp(place) => Some(&place.host),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(place) => place.fmt(formatter),
            Self::Unix(path) => path.display().fmt(formatter),
        }
    }
}

/// `[user[:password]@]host[:port][,host[:port]…][/database]`, or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// At least one.
    pub(crate) targets: Vec<Target>,
    pub(crate) credentials: Credentials,
    pub(crate) database: Option<String>,
}

impl Address {
    /// Reads an address. Errors show nothing of user and password.
    pub(crate) fn parse(text: &str) -> Result<Self, OpenError> {
        let (credentials, place) = Credentials::split_from(text)?;
        let (targets, database) = if place.starts_with('/') {
            (vec![Target::Unix(PathBuf::from(place))], None)
        } else {
            let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
            let database = Some(database.to_owned()).filter(|text| !text.is_empty());
            (hosts.split(',').map(tcp).collect::<Result<_, _>>()?, database)
        };
        Ok(Self { targets, credentials, database })
    }
}

fn wrong(place: &str) -> OpenError {
    let text = format!("option 'address' can't be '{place}': give host:port or a socket's path");
    OpenError::Option(text)
}

fn tcp(place: &str) -> Result<Target, OpenError> {
    HostPort::parse(place, PORT).map(Target::Tcp).ok_or_else(|| wrong(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> String {
        let targets = Address::parse(text).unwrap().targets;
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
        assert!(Address::parse("a:1,,b:2").is_err());
    }

    #[test]
    fn user_password_and_database_stand_around_the_host() {
        let address = Address::parse("ann:sesame@host/7").unwrap();
        assert_eq!(address.targets[0].to_string(), "host:6379");
        assert_eq!(address.credentials.username.as_deref(), Some("ann"));
        assert_eq!(address.database.as_deref(), Some("7"));
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_password() {
        for text in ["", "u:sesame@", "u:sesame@host:x", "u:sesame@host:0", "u:sesame@[::1", "h:"] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("option 'address' can't be"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
