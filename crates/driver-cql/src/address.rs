//! Where a cluster is, as the part of its URL behind the scheme says it.

use std::fmt;

use kvmark_driver::OpenError;

use crate::secret::Secret;

/// The port of CQL.
const PORT: u16 = 9042;

/// One node to begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    host: String,
    port: u16,
}

impl fmt::Display for Node {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(formatter, "[{host}]:{port}")
        } else {
            write!(formatter, "{host}:{port}")
        }
    }
}

/// `[user[:password]@]host[:port][,host[:port]…][/keyspace]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) nodes: Vec<Node>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) keyspace: Option<String>,
}

impl Address {
    /// Reads an address. Errors show nothing of user and password.
    pub(crate) fn parse(text: &str) -> Result<Self, OpenError> {
        let (user, place) = match text.rsplit_once('@') {
            Some((user, place)) => (user, place),
            None => ("", text),
        };
        let (username, password) = credentials(user)?;
        let (hosts, keyspace) = place.split_once('/').unwrap_or((place, ""));
        let nodes: Option<Vec<_>> = with_one_port(hosts).iter().map(|host| node(host)).collect();
        let nodes = nodes.ok_or_else(|| wrong(place))?;
        let keyspace = Some(keyspace.to_owned()).filter(|name| !name.is_empty());
        Ok(Self { nodes, username, password, keyspace })
    }

    /// The nodes as text.
    pub(crate) fn hosts(&self) -> Vec<String> {
        self.nodes.iter().map(ToString::to_string).collect()
    }
}

fn wrong(place: &str) -> OpenError {
    OpenError::Option(format!(
        "option 'address' can't be '{place}': give host[:port][,host…][/keyspace]"
    ))
}

/// The hosts; a port behind the last one is the port of all that name none, as in `a,b,c:9043`.
fn with_one_port(hosts: &str) -> Vec<String> {
    let port_of = |host: &str| {
        let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
        behind.rsplit_once(':').map(|(_, port)| port.to_owned())
    };
    let last = hosts.rsplit(',').next().and_then(port_of);
    let named = |host: &str| match &last {
        Some(port) if port_of(host).is_none() => format!("{host}:{port}"),
        _ => host.to_owned(),
    };
    hosts.split(',').map(named).collect()
}

fn node(text: &str) -> Option<Node> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
    } else {
        text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
    };
    let port = port.map_or(Some(PORT), |port| port.parse().ok().filter(|port| *port != 0))?;
    if host.is_empty() { None } else { Some(Node { host: host.to_owned(), port }) }
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

    fn hosts(text: &str) -> String {
        Address::parse(text).unwrap().hosts().join(" ")
    }

    #[test]
    fn a_port_is_the_protocols_own_unless_given() {
        assert_eq!(hosts("example.org"), "example.org:9042");
        assert_eq!(hosts("127.0.0.1:9142/ks"), "127.0.0.1:9142");
        assert_eq!(hosts("[::1]"), "[::1]:9042");
        assert_eq!(hosts("[::1]:9142"), "[::1]:9142");
    }

    #[test]
    fn several_nodes_share_the_last_ones_port() {
        assert_eq!(hosts("a,b"), "a:9042 b:9042");
        assert_eq!(hosts("a,b,[::1]:9043/ks"), "a:9043 b:9043 [::1]:9043");
        assert_eq!(hosts("a:1,b:2"), "a:1 b:2");
    }

    #[test]
    fn user_password_and_keyspace_stand_around_the_hosts() {
        let address = Address::parse("ann:p%40ss@host:1/bank").unwrap();
        assert_eq!(address.username.as_deref(), Some("ann"));
        assert_eq!(address.password, Some(Secret::new("p@ss".to_owned())));
        assert_eq!(address.keyspace.as_deref(), Some("bank"));
        assert_eq!(Address::parse("host/").unwrap().keyspace, None);
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_password() {
        for text in ["", "u:sesame@", "u:sesame@host:x", "u:sesame@a,,b", "u:sesame@[::1", "h:"] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("option 'address' can't be"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
