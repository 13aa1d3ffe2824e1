//! Where a server is, as the part of its URL behind the scheme says it.

use std::fmt;
use std::path::PathBuf;

use kvmark_driver::OpenError;

use crate::secret::Secret;

/// The port of the Redis protocol.
const PORT: u16 = 6379;

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => {
                write!(formatter, "[{host}]:{port}")
            }
            Self::Tcp { host, port } => write!(formatter, "{host}:{port}"),
            Self::Unix(path) => write!(formatter, "{}", path.display()),
        }
    }
}

/// `[user[:password]@]host[:port][,host[:port]…][/database]`, or the path of a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// At least one.
    pub(crate) targets: Vec<Target>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: Option<String>,
}

impl Address {
    /// Reads an address. Errors show nothing of user and password.
    pub(crate) fn parse(text: &str) -> Result<Self, OpenError> {
        let (user, place) = match text.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, text),
        };
        let (username, password) = credentials(user.unwrap_or_default())?;
        let (targets, database) = if place.starts_with('/') {
            (vec![Target::Unix(PathBuf::from(place))], None)
        } else {
            let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
            let database = Some(database.to_owned()).filter(|text| !text.is_empty());
            (hosts.split(',').map(tcp).collect::<Result<_, _>>()?, database)
        };
        Ok(Self { targets, username, password, database })
    }
}

fn wrong(place: &str) -> OpenError {
    let text = format!("option 'address' can't be '{place}': give host:port or a socket's path");
    OpenError::Option(text)
}

fn tcp(place: &str) -> Result<Target, OpenError> {
    let (host, port) = if let Some(rest) = place.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or_else(|| wrong(place))?;
        let port = if port.is_empty() { None } else { port.strip_prefix(':').or(Some("")) };
        (host, port)
    } else {
        place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port)))
    };
    let port = port.map_or(Some(PORT), |port| port.parse().ok().filter(|port| *port != 0));
    match port {
        Some(port) if !host.is_empty() => Ok(Target::Tcp { host: host.to_owned(), port }),
        _ => Err(wrong(place)),
    }
}

fn credentials(text: &str) -> Result<(Option<String>, Option<Secret>), OpenError> {
    let (username, password) = match text.split_once(':') {
        Some((username, password)) => (username, Some(password)),
        None => (text, None),
    };
    let read = |text: &str| {
        unescaped(text).ok_or_else(|| {
            let text = "the user and password in option 'address' can't be read: \
                        write special characters as %XX";
            OpenError::Option(text.to_owned())
        })
    };
    let username = Some(read(username)?).filter(|name| !name.is_empty());
    let password = password.map(read).transpose()?.map(Secret::new);
    Ok((username, password))
}

/// The text with `%XX` resolved.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push((digit()? * 16 + digit()?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> String {
        let targets = Address::parse(text).unwrap().targets;
        targets.iter().map(Target::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_port_is_the_protocols_own_unless_given() {
        assert_eq!(target("example.org"), "example.org:6379");
        assert_eq!(target("127.0.0.1:7000"), "127.0.0.1:7000");
        assert_eq!(target("[::1]"), "[::1]:6379");
        assert_eq!(target("[::1]:7000"), "[::1]:7000");
        assert_eq!(target("/run/redis.sock"), "/run/redis.sock");
    }

    #[test]
    fn several_servers_are_separated_by_commas() {
        assert_eq!(target("u:p@a:1,b,[::1]:3/0"), "a:1 b:6379 [::1]:3");
        assert!(Address::parse("a:1,,b:2").is_err());
    }

    #[test]
    fn user_password_and_database_stand_around_the_host() {
        let address = Address::parse("ann:p%40ss:w@host:1/7").unwrap();
        assert_eq!(address.username.as_deref(), Some("ann"));
        assert_eq!(address.password, Some(Secret::new("p@ss:w".to_owned())));
        assert_eq!(address.database.as_deref(), Some("7"));
        assert_eq!(Address::parse(":secret@host").unwrap().username, None);
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_password() {
        for text in ["", "u:sesame@", "u:sesame@host:x", "u:sesame@host:0", "u:sesame@[::1", "h:"] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("option 'address' can't be"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
        let error = Address::parse("u:%zz@host").unwrap_err().to_string();
        assert!(error.contains("%XX") && !error.contains("zz"), "{error}");
    }
}
