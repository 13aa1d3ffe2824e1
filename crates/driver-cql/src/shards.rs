//! ScyllaDB's shards and tablets: the part of a node, one per core, that owns a partition.
//!
//! Each shard has its own connections. The port of the client chooses the shard at the node's
//! shard-aware port. Source: ScyllaDB, `docs/dev/protocol-extensions.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU16, Ordering};

use crate::frame::Reader;

/// The option of STARTUP by which a node names the tablet of a request that came to another shard.
pub(crate) const TABLETS: &str = "TABLETS_ROUTING_V1";
/// The name of the tablet in a reply's payload.
pub(crate) const TABLET: &[u8] = b"tablets-routing-v1";
/// The only known assignment of tokens to shards.
const ALGORITHM: &str = "biased-token-round-robin";
/// Ports for dynamic use (RFC 6335, section 6).
const PORTS: RangeInclusive<u16> = 49_152..=u16::MAX;

/// The options of a SUPPORTED reply.
pub(crate) type Supported = BTreeMap<String, Vec<String>>;

/// The shards of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sharding {
    pub(crate) shards: u16,
    /// The highest bits of a token that don't matter.
    ignored_bits: u8,
    /// The shard-aware port.
    port: u16,
}

/// One shard of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    number: u16,
    of: Sharding,
}

/// A server of connections: a node, or one of its shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) node: SocketAddr,
    pub(crate) shard: Option<Shard>,
}

/// The replicas of a range of tokens of a table: hosts and their shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tablet {
    /// The first token is excluded, the last one included.
    first: i64,
    last: i64,
    pub(crate) replicas: Vec<([u8; 16], u16)>,
}

/// The known tablets of a table, in ascending order and without overlaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tablets<R>(Vec<(i64, i64, R)>);

impl Sharding {
    /// The sharding that a node's options announce, if it has a shard-aware port.
    pub(crate) fn read(supported: &Supported, encrypted: bool) -> Option<Self> {
        let word = |name: &str| supported.get(name)?.first().map(String::as_str);
        let port =
            if encrypted { "SCYLLA_SHARD_AWARE_PORT_SSL" } else { "SCYLLA_SHARD_AWARE_PORT" };
        let shards = word("SCYLLA_NR_SHARDS")?.parse().ok().filter(|shards| *shards > 0)?;
        let ignored_bits = word("SCYLLA_SHARDING_IGNORE_MSB")?.parse().ok();
        let sharding = Self {
            shards,
            ignored_bits: ignored_bits.filter(|bits| *bits < 64)?,
            port: word(port)?.parse().ok()?,
        };
        (word("SCYLLA_SHARDING_ALGORITHM") == Some(ALGORITHM)).then_some(sharding)
    }

    /// The shard of a token.
    #[inline]
    pub(crate) fn of_token(self, token: i64) -> u16 {
        let biased = token.cast_unsigned().wrapping_add(1 << 63) << self.ignored_bits;
        ((u128::from(biased) * u128::from(self.shards)) >> 64) as u16
    }
}

impl Shard {
    /// The node's shard-aware port.
    pub(crate) fn port(self) -> u16 {
        self.of.port
    }

    /// Checks the options of the shard that a connection reached.
    pub(crate) fn check(self, supported: &Supported) -> Result<(), String> {
        let reached = supported.get("SCYLLA_SHARD").and_then(|words| words.first());
        match reached {
            Some(number) if *number == self.number.to_string() => Ok(()),
            reached => Err(format!(
                "a connection to shard {} reached shard {}, as if the ports of connections were \
                 translated: give shard_aware=false",
                self.number,
                reached.map_or("?", String::as_str)
            )),
        }
    }

    /// The ports of the client for which the node chooses this shard, beginning at another one for
    /// each connection.
    pub(crate) fn client_ports(self) -> impl Iterator<Item = u16> {
        static CONNECTIONS: AtomicU16 = AtomicU16::new(0);
        let Self { number, of: Sharding { shards, .. } } = self;
        let turn = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
        let ports = PORTS.filter(move |port| port % shards == number);
        let begin = usize::from(turn / shards) % (PORTS.len() / usize::from(shards)).max(1);
        ports.clone().skip(begin).chain(ports.take(begin))
    }
}

impl Endpoint {
    /// The endpoints of a node: its shards, or itself.
    pub(crate) fn all(node: SocketAddr, sharding: Option<Sharding>) -> Vec<Self> {
        let Some(of) = sharding else { return vec![node.into()] };
        let shard = |number| Self { node, shard: Some(Shard { number, of }) };
        (0..of.shards).map(shard).collect()
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(node: SocketAddr) -> Self {
        Self { node, shard: None }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            Some(Shard { number, of }) => {
                write!(out, "{} (shard {number})", SocketAddr::new(self.node.ip(), of.port))
            }
            None => self.node.fmt(out),
        }
    }
}

impl Tablet {
    /// Reads `tuple<bigint, bigint, list<tuple<uuid, int>>>`.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let token = |bytes: &[u8]| Some(i64::from_be_bytes(bytes.try_into().ok()?));
        let mut fields = Reader(value);
        let (first, last) = (token(fields.bytes()??)?, token(fields.bytes()??)?);
        let replica = |pair: Option<&[u8]>| {
            let mut pair = Reader(pair?);
            let host = pair.bytes()??.try_into().ok()?;
            Some((host, Reader(pair.bytes()??).int()?.try_into().ok()?))
        };
        let replicas = Reader(fields.bytes()??).elements().map(replica).collect::<Option<_>>()?;
        Some(Self { first, last, replicas })
    }
}

impl<R> Tablets<R> {
    /// The replicas of a token, if its tablet is known.
    #[inline]
    pub(crate) fn replicas(&self, token: i64) -> Option<&R> {
        let next = self.0.partition_point(|(_, last, _)| *last < token);
        let (first, _, replicas) = self.0.get(next)?;
        (*first < token).then_some(replicas)
    }

    /// Remembers the replicas of a tablet in place of tablets that it overlaps.
    pub(crate) fn learn(&mut self, tablet: &Tablet, replicas: R) {
        let Tablet { first, last, .. } = *tablet;
        self.0.retain(|(other, end, _)| *end <= first || *other >= last);
        let place = self.0.partition_point(|(_, end, _)| *end < last);
        self.0.insert(place, (first, last, replicas));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::put_long;

    fn supported(words: &[(&str, &str)]) -> Supported {
        let pair = |(name, word): &(&str, &str)| ((*name).to_owned(), vec![(*word).to_owned()]);
        words.iter().map(pair).collect()
    }

    const WORDS: [(&str, &str); 5] = [
        ("SCYLLA_NR_SHARDS", "3"),
        ("SCYLLA_SHARDING_IGNORE_MSB", "12"),
        ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin"),
        ("SCYLLA_SHARD_AWARE_PORT", "19042"),
        ("SCYLLA_SHARD", "2"),
    ];

    #[test]
    fn a_node_without_complete_options_has_no_known_shards() {
        let sharding = Sharding::read(&supported(&WORDS), false).unwrap();
        assert_eq!(sharding, Sharding { shards: 3, ignored_bits: 12, port: 19042 });
        assert_eq!(Sharding::read(&supported(&WORDS), true), None);
        for (missing, _) in &WORDS[..4] {
            let mut options = supported(&WORDS);
            options.remove(*missing);
            assert_eq!(Sharding::read(&options, false), None, "{missing}");
        }
        for wrong in [("SCYLLA_NR_SHARDS", "0"), ("SCYLLA_SHARDING_IGNORE_MSB", "64")] {
            let mut options = supported(&WORDS);
            options.extend(supported(&[wrong]));
            assert_eq!(Sharding::read(&options, false), None, "{wrong:?}");
        }
    }

    #[test]
    fn the_ring_is_divided_among_shards_many_times() {
        let of = |shards, ignored_bits| Sharding { shards, ignored_bits, port: 1 };
        assert_eq!([i64::MIN, -1, 0, i64::MAX].map(|token| of(2, 0).of_token(token)), [0, 0, 1, 1]);
        // With one ignored bit each half of the ring is divided.
        let quarters = [i64::MIN, i64::MIN / 2, 0, i64::MAX / 2 + 1];
        assert_eq!(quarters.map(|token| of(2, 1).of_token(token)), [0, 1, 0, 1]);
        // As ScyllaDB's drivers for Go and Rust have it.
        let tokens = [-9_219_783_007_514_621_794, 9_222_582_454_147_032_830];
        assert_eq!(tokens.map(|token| of(4, 12).of_token(token)), [3, 3]);
    }

    #[test]
    fn a_port_of_the_client_belongs_to_the_shard() {
        for shards in [1, 7, 64, u16::MAX] {
            let of = Sharding { shards, ignored_bits: 12, port: 1 };
            let shard = Shard { number: shards - 1, of };
            let (first, second) = (shard.client_ports(), shard.client_ports());
            let all: Vec<_> = first.collect();
            let expected = PORTS.filter(|port| port % shards == shards - 1).count();
            assert_eq!((all.len(), second.count()), (expected, expected));
            assert!(all.iter().all(|port| port % shards == shards - 1 && PORTS.contains(port)));
        }
    }

    #[test]
    fn a_connection_to_another_shard_is_refused() {
        let of = Sharding::read(&supported(&WORDS), false).unwrap();
        assert_eq!(Shard { number: 2, of }.check(&supported(&WORDS)), Ok(()));
        let why = Shard { number: 1, of }.check(&supported(&WORDS)).unwrap_err();
        assert!(why.starts_with("a connection to shard 1 reached shard 2"), "{why}");
    }

    #[test]
    fn a_tablet_has_a_range_and_replicas() {
        let mut pair = Vec::new();
        put_long(&mut pair, &[7; 16]);
        put_long(&mut pair, &5_i32.to_be_bytes());
        let mut list = 1_i32.to_be_bytes().to_vec();
        put_long(&mut list, &pair);
        let mut value = Vec::new();
        put_long(&mut value, &(-9_i64).to_be_bytes());
        put_long(&mut value, &9_i64.to_be_bytes());
        put_long(&mut value, &list);
        let tablet = Tablet::read(&value).unwrap();
        assert_eq!(tablet, Tablet { first: -9, last: 9, replicas: vec![([7; 16], 5)] });
        assert!((0..value.len()).all(|end| Tablet::read(&value[..end]).is_none()));
    }

    #[test]
    fn a_new_tablet_replaces_those_that_it_overlaps() {
        let mut tablets = Tablets::default();
        let tablet = |first, last| Tablet { first, last, replicas: Vec::new() };
        for (first, last, name) in [(0, 10, 'a'), (20, 30, 'c'), (10, 20, 'b')] {
            tablets.learn(&tablet(first, last), name);
        }
        let found = |tablets: &Tablets<char>| {
            [0, 1, 10, 11, 20, 30, 31].map(|token| tablets.replicas(token).copied())
        };
        let [a, b, c] = ['a', 'b', 'c'].map(Some);
        assert_eq!(found(&tablets), [None, a, a, b, b, c, None]);
        // Two have merged.
        tablets.learn(&tablet(0, 20), 'd');
        let d = Some('d');
        assert_eq!(found(&tablets), [None, d, d, d, d, c, None]);
        // A part of it was split off.
        tablets.learn(&tablet(0, 5), 'e');
        assert_eq!(found(&tablets), [None, Some('e'), None, None, None, c, None]);
    }
}
