//! Where a server listens.

use std::fmt;

/// A host and a port, shown as `host:port` or `[IPv6]:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// Reads `host[:port]`, IPv6 in brackets. None where it isn't one.
    #[must_use]
    pub fn parse(text: &str, default_port: u16) -> Option<Self> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, port) = rest.split_once(']')?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':')?) })
        } else {
            text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
        };
        let port = port.map_or(Some(default_port), |port| port.parse().ok())?;
        let usable = !host.is_empty() && port != 0;
        usable.then(|| Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(formatter, "[{host}]:{port}")
        } else {
            write!(formatter, "{host}:{port}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        HostPort::parse(text, 6379).unwrap().to_string()
    }

    #[test]
    fn a_port_is_the_protocols_own_unless_given() {
        assert_eq!(shown("example.org"), "example.org:6379");
        assert_eq!(shown("127.0.0.1:7000"), "127.0.0.1:7000");
        assert_eq!(shown("[::1]"), "[::1]:6379");
        assert_eq!(shown("[::1]:7000"), "[::1]:7000");
    }

    #[test]
    fn what_names_no_host_and_port_is_none() {
        for text in ["", ":1", "h:", "h:x", "h:0", "h:1:2", "[::1", "[::1]7", "[::1]:", "[]:1"] {
            assert_eq!(HostPort::parse(text, 6379), None, "{text}");
        }
    }
}
