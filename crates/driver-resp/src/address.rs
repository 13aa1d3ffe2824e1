//! The address of a server: its URL without the scheme.

use kvmark_driver::OpenError;
use kvmark_driver_server::{Credentials, Target};

/// The port of the Redis protocol.
pub(crate) const PORT: u16 = 6379;

/// `[user[:password]@]host[:port][,host[:port]…][/database]`, or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// At least one.
    pub(crate) targets: Vec<Target>,
    pub(crate) credentials: Credentials,
    pub(crate) database: Option<String>,
}

impl Address {
    /// Parses an address. Errors never show user and password.
    pub(crate) fn parse(text: &str) -> Result<Self, OpenError> {
        let (credentials, place) = Credentials::split_from(text)?;
        if place.starts_with('/') {
            return Ok(Self { targets: Target::list(place, PORT)?, credentials, database: None });
        }
        let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
        let database = Some(database.to_owned()).filter(|text| !text.is_empty());
        let targets = Target::list(hosts, PORT)?;
        Ok(Self { targets, credentials, database })
    }
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
    fn an_address_may_have_user_password_and_database() {
        let address = Address::parse("ann:sesame@host/7").unwrap();
        assert_eq!(address.targets[0].to_string(), "host:6379");
        assert_eq!(address.credentials.username.as_deref(), Some("ann"));
        assert_eq!(address.database.as_deref(), Some("7"));
    }

    #[test]
    fn an_invalid_address_is_rejected_without_showing_its_password() {
        for text in ["", "u:sesame@", "u:sesame@host:x", "u:sesame@host:0", "u:sesame@[::1", "h:"] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("option 'address' can't be"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
