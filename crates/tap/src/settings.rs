//! The settings of a tap, without defaults.

use kvmark_driver_server::{Target, Tls};
use kvmark_wire::cql::{OPTIONS, VERSION};

/// The protocol of the clients and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapProtocol {
    /// The Redis protocol, versions 2 and 3.
    Redis,
    /// memcached's text protocol.
    Memcached,
    /// CQL's native protocol, version 4.
    Cql,
}

impl TapProtocol {
    /// All protocols.
    pub const ALL: [Self; 3] = [Self::Redis, Self::Memcached, Self::Cql];

    /// The name of the driver with this protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Memcached => "memcached",
            Self::Cql => "cql",
        }
    }

    /// A request with a short answer.
    pub const fn probe(self) -> &'static [u8] {
        match self {
            // memcached's answer is an error.
            Self::Redis | Self::Memcached => b"PING\r\n",
            Self::Cql => &[VERSION, 0, 0, 0, OPTIONS, 0, 0, 0, 0],
        }
    }

    /// Whether drivers spread the requests of all clients over a pool of connections.
    pub const fn pools_clients(self) -> bool {
        matches!(self, Self::Cql)
    }

    /// Looks up a protocol by name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// The contents to keep besides hashes and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The keys themselves.
    pub keys: bool,
    /// The written values.
    pub values: bool,
}

/// The settings of a tap.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The host and port to listen at; port 0 selects a free one.
    pub listen: (String, u16),
    /// The server.
    pub target: Target,
    /// The encryption towards the server, if any.
    pub tls: Option<Tls>,
    /// The protocol.
    pub protocol: TapProtocol,
    /// The number of threads that forward.
    pub threads: usize,
    /// The contents to keep.
    pub keep: Keep,
    /// Memory limit for operations that aren't on the disk yet.
    pub memory_bytes: usize,
    /// Size limit of the tapes.
    pub disk_bytes: u64,
}
