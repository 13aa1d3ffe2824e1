//! What a tap is to do, fully decided.

use kvmark_driver_server::{Target, Tls};

/// The protocol that goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoken {
    /// That of Redis, versions 2 and 3.
    Redis,
    /// memcached's text protocol.
    Memcached,
}

impl Spoken {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Redis, Self::Memcached];

    /// As the drivers of such systems are called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Memcached => "memcached",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// What is kept of what clients say, beside hashes and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The keys themselves.
    pub keys: bool,
    /// What is written.
    pub values: bool,
}

/// A tap.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where clients are taken: a host and a port, 0 for a free one.
    pub listen: (String, u16),
    /// The server.
    pub target: Target,
    /// How to encrypt towards the server, if at all.
    pub tls: Option<Tls>,
    /// The protocol.
    pub spoken: Spoken,
    /// Threads that forward.
    pub threads: usize,
    /// What is kept.
    pub keep: Keep,
    /// What operations may take of memory until they are on the disk.
    pub memory_bytes: usize,
    /// What the tapes may take of the disk.
    pub disk_bytes: u64,
}
