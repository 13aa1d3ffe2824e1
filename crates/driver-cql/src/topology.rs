//! The nodes of the cluster and the replicas of partitions, for lookups without a lock.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::shards::Sharding;
use crate::strategy::Strategy;

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    pub(crate) datacenter: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) host: Option<[u8; 16]>,
    /// Of a node of ScyllaDB.
    pub(crate) sharding: Option<Sharding>,
    /// The ends of its token ranges.
    pub(crate) tokens: Vec<i64>,
}

/// A snapshot of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    pub(crate) nodes: Vec<Node>,
    /// The rings by keyspace.
    rings: Vec<(String, Ring)>,
}

/// Replicas of a keyspace's partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ring {
    /// The ends of the token ranges, in ascending order.
    tokens: Vec<i64>,
    /// The end of each range's replicas.
    ends: Vec<u32>,
    /// Indices of nodes.
    replicas: Vec<u32>,
}

impl Topology {
    /// The nodes, and the rings of keyspaces with these strategies.
    pub(crate) fn new(mut nodes: Vec<Node>, strategies: &[(String, Strategy)]) -> Self {
        // The order must not depend on the node that lists the others.
        nodes.sort_unstable();
        let ring =
            |(keyspace, strategy): &(String, Strategy)| (keyspace.clone(), strategy.ring(&nodes));
        let rings = strategies.iter().map(ring).collect();
        Self { nodes, rings }
    }

    /// The number of a keyspace's ring, if its replication is known.
    pub(crate) fn ring_index(&self, keyspace: &str) -> Option<usize> {
        self.rings.iter().position(|(name, _)| name == keyspace)
    }

    /// The replicas of a token in this ring.
    #[inline]
    pub(crate) fn replicas(&self, ring: usize, token: i64) -> &[u32] {
        self.rings[ring].1.replicas(token)
    }
}

impl Ring {
    pub(crate) fn push(&mut self, token: i64, replicas: impl Iterator<Item = u32>) {
        self.tokens.push(token);
        self.replicas.extend(replicas);
        self.ends.push(self.replicas.len() as u32);
    }

    /// The replicas of a token.
    #[inline]
    pub(crate) fn replicas(&self, token: i64) -> &[u32] {
        let range = match self.tokens.partition_point(|end| *end < token) {
            past if past == self.tokens.len() => 0,
            range => range,
        };
        let Some(end) = self.ends.get(range) else { return &[] };
        let start = range.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.replicas[start as usize..*end as usize]
    }
}

/// The latest topology, for all workers.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    version: AtomicU64,
    latest: Mutex<Arc<Topology>>,
}

impl Watch {
    /// Publishes a topology if it has changed.
    pub(crate) fn publish(&self, topology: Topology) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if **latest != topology {
            *latest = Arc::new(topology);
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// A number that changes with each topology.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn latest(&self) -> Arc<Topology> {
        Arc::clone(&self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_belongs_to_the_first_range_that_ends_at_or_after_it() {
        let mut ring = Ring::default();
        ring.push(-100, [0, 1].into_iter());
        ring.push(50, [1].into_iter());
        ring.push(200, [2, 0].into_iter());
        let cases: [(i64, &[u32]); 7] = [
            (i64::MIN + 1, &[0, 1]),
            (-100, &[0, 1]),
            (-99, &[1]),
            (50, &[1]),
            (51, &[2, 0]),
            (200, &[2, 0]),
            (201, &[0, 1]),
        ];
        for (token, replicas) in cases {
            assert_eq!(ring.replicas(token), replicas, "{token}");
        }
        assert!(Ring::default().replicas(7).is_empty());
    }

    #[test]
    fn a_topology_is_published_once() {
        let watch = Watch::default();
        let address = "127.0.0.1:9042".parse().unwrap();
        let (datacenter, rack, host, sharding) = (None, None, None, None);
        let node = Node { address, datacenter, rack, host, sharding, tokens: vec![1] };
        let topology = Topology::new(vec![node], &[]);
        watch.publish(topology.clone());
        let version = watch.version();
        watch.publish(topology.clone());
        assert_eq!((watch.version(), &*watch.latest()), (version, &topology));
        watch.publish(Topology::default());
        assert_ne!(watch.version(), version);
    }
}
