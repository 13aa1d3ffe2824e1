//! The address of a cluster: its URL without the scheme.

use kvmark_driver::OpenError;
use kvmark_driver_server::{Credentials, HostPort};

/// The port of CQL.
pub(crate) const PORT: u16 = 9042;

/// `[user[:password]@]host[:port][,host[:port]…][/keyspace]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The contact points.
    pub(crate) nodes: Vec<HostPort>,
    pub(crate) credentials: Credentials,
    pub(crate) keyspace: Option<String>,
}

impl Address {
    /// Parses an address. Errors never show user and password.
    pub(crate) fn parse(text: &str) -> Result<Self, OpenError> {
        let (credentials, place) = Credentials::split_from(text)?;
        let (hosts, keyspace) = place.split_once('/').unwrap_or((place, ""));
        let node = |text: &String| HostPort::parse(text, PORT);
        let nodes: Option<Vec<_>> = with_one_port(hosts).iter().map(node).collect();
        let nodes = nodes.ok_or_else(|| wrong(place))?;
        let keyspace = Some(keyspace.to_owned()).filter(|name| !name.is_empty());
        Ok(Self { nodes, credentials, keyspace })
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

/// The hosts. The port of the last one is the default of all others, as in `a,b,c:9043`.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> String {
        Address::parse(text).unwrap().hosts().join(" ")
    }

    #[test]
    fn several_nodes_share_the_last_ones_port() {
        assert_eq!(hosts("a,b"), "a:9042 b:9042");
        assert_eq!(hosts("a,b,[::1]:9043/ks"), "a:9043 b:9043 [::1]:9043");
        assert_eq!(hosts("a:1,b:2"), "a:1 b:2");
    }

    #[test]
    fn an_address_may_have_user_password_and_keyspace() {
        let address = Address::parse("ann:sesame@host/bank").unwrap();
        assert_eq!(address.hosts(), ["host:9042"]);
        assert_eq!(address.credentials.username.as_deref(), Some("ann"));
        assert_eq!(address.keyspace.as_deref(), Some("bank"));
        assert_eq!(Address::parse("host/").unwrap().keyspace, None);
    }

    #[test]
    fn an_invalid_address_is_rejected_without_showing_its_password() {
        for text in ["", "u:sesame@", "u:sesame@host:x", "u:sesame@a,,b", "u:sesame@[::1", "h:"] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("option 'address' can't be"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
