//! Addresses of servers.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use kvmark_driver::OpenError;

use crate::failure::Failure;
use crate::timers::Deadline;

/// Limit on a connection that only checks a server.
pub(crate) const CHECK: Duration = Duration::from_secs(2);

/// A host and a port, shown as `host:port` or `[IPv6]:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// Parses `host[:port]`, with IPv6 addresses in brackets.
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

    /// Connects to the first of the host's addresses that accepts it.
    pub(crate) fn connect(&self, deadline: Deadline) -> io::Result<TcpStream> {
        let mut refusal = io::ErrorKind::NotFound.into();
        for address in self.resolve(deadline)? {
            match TcpStream::connect_timeout(&address, deadline.rest()?) {
                Ok(stream) => return Ok(stream),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// The host's addresses. The system's resolver has no time limit, so a thread waits for it.
    ///
    /// # Errors
    /// No address is known, or the deadline passed.
    pub fn resolve(&self, deadline: Deadline) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let (sender, results) = channel();
        let Self { host, port } = self.clone();
        let look_up = move || {
            let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            // The receiver is gone after the deadline.
            sender.send(addresses).ok();
        };
        thread::Builder::new().name("kvmark-resolve".to_owned()).spawn(look_up)?;
        results.recv_timeout(deadline.rest()?).map_err(|_| io::ErrorKind::TimedOut)?
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

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A TCP address.
    Tcp(HostPort),
    /// The path of a Unix socket on this machine.
    Unix(PathBuf),
}

impl Target {
    /// Parses `host[:port][,host[:port]…]` or the path of a Unix socket: at least one server.
    ///
    /// # Errors
    /// [`OpenError::Option`] with the invalid address.
    pub fn list(place: &str, default_port: u16) -> Result<Vec<Self>, OpenError> {
        if place.starts_with('/') {
            return Ok(vec![Self::Unix(PathBuf::from(place))]);
        }
        let tcp = |place| HostPort::parse(place, default_port).map(Self::Tcp);
        place.split(',').map(|place| tcp(place).ok_or_else(|| wrong(place))).collect()
    }

    /// Checks that the server accepts connections; of a Unix socket nothing.
    ///
    /// # Errors
    /// [`OpenError::System`] if it doesn't.
    pub fn check(&self) -> Result<(), OpenError> {
        match self {
            Self::Tcp(place) => place.connect(Deadline::after(CHECK)).map(drop),
            Self::Unix(_) => Ok(()),
        }
        .map_err(|error| Failure::unreachable(&error).at(self))
    }

    /// The host that a certificate names; a Unix socket has none.
    pub fn host(&self) -> Option<&str> {
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

fn wrong(place: &str) -> OpenError {
    let text = format!("option 'address' can't be '{place}': give host:port or a socket's path");
    OpenError::Option(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        HostPort::parse(text, 6379).unwrap().to_string()
    }

    #[test]
    fn the_port_defaults_to_the_protocols_port() {
        assert_eq!(shown("example.org"), "example.org:6379");
        assert_eq!(shown("127.0.0.1:7000"), "127.0.0.1:7000");
        assert_eq!(shown("[::1]"), "[::1]:6379");
        assert_eq!(shown("[::1]:7000"), "[::1]:7000");
    }

    #[test]
    fn an_invalid_address_is_none() {
        for text in ["", ":1", "h:", "h:x", "h:0", "h:1:2", "[::1", "[::1]7", "[::1]:", "[]:1"] {
            assert_eq!(HostPort::parse(text, 6379), None, "{text}");
        }
    }
}
