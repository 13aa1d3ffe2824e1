//! The choice of a node for a request: a replica of its partition, or else any node that is up.

use std::sync::Arc;

use kvmark_driver::Ticket;
use kvmark_driver_server::framed::Framed;

use crate::prepared::Prepared;
use crate::settings::Settings;
use crate::shards::{Endpoint, Sharding, Tablet, Tablets};
use crate::text::Text;
use crate::topology::{Node, Topology, Watch};
use crate::wire::Wire;

/// The topology of the cluster, mapped to a worker's connections.
#[derive(Default)]
pub(crate) struct Routing {
    watch: Arc<Watch>,
    version: u64,
    topology: Arc<Topology>,
    token_aware: bool,
    /// Whether requests are routed by token, which a single endpoint doesn't need.
    by_token: bool,
    datacenter: Option<String>,
    rack: Option<String>,
    /// The nodes of the topology.
    seats: Vec<Seat>,
    /// The endpoints of nodes by distance.
    by_distance: [Vec<usize>; 3],
    /// The ring of each text's keyspace.
    rings: Vec<Option<usize>>,
    /// The first text with the same table, of each text.
    tables: Vec<u32>,
    /// The tablets of that table: nodes of the topology and their shards.
    tablets: Vec<Tablets<Vec<(u32, u16)>>>,
    /// The position of the round-robin.
    position: usize,
}

/// The connections to a node of the topology.
struct Seat {
    /// 0 in the configured rack and datacenter, 1 in another rack, 2 in another datacenter.
    distance: usize,
    sharding: Option<Sharding>,
    /// Servers of connections: the node's shards, or the node.
    endpoints: Vec<usize>,
}

impl Routing {
    pub(crate) fn new(settings: &Settings, watch: &Arc<Watch>) -> Self {
        Self {
            watch: Arc::clone(watch),
            token_aware: settings.token_aware,
            datacenter: settings.datacenter.clone(),
            rack: settings.rack.clone(),
            ..Self::default()
        }
    }

    /// Whether the topology has changed.
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        self.watch.version() != self.version
    }

    /// Adopts the latest topology and connects to its nodes. Returns the endpoints that left the
    /// cluster.
    pub(crate) fn renew(&mut self, prepared: &Prepared, framed: &mut Framed<Wire>) -> Vec<usize> {
        self.version = self.watch.version();
        self.topology = self.watch.latest();
        let before: Vec<_> = self.endpoints().collect();
        let seat = |node: &Node| {
            let endpoints = Endpoint::all(node.address, node.sharding);
            let endpoints = endpoints.iter().map(|endpoint| framed.find_or_add(endpoint)).collect();
            Seat { distance: self.distance(node), sharding: node.sharding, endpoints }
        };
        self.seats = self.topology.nodes.iter().map(seat).collect();
        self.by_token = self.token_aware && self.endpoints().nth(1).is_some();
        self.by_distance = [0, 1, 2].map(|wanted| {
            let seats = self.seats.iter().filter(|seat| seat.distance == wanted);
            seats.flat_map(|seat| &seat.endpoints).copied().collect()
        });
        let texts = &prepared.texts;
        let ring = |text: &Text| self.topology.ring_index(text.keyspace.as_deref()?);
        self.rings = texts.iter().map(ring).collect();
        let is_of = |one: &Text, other: &Text| {
            (&one.keyspace, &one.table) == (&other.keyspace, &other.table)
        };
        let first = |text: &Text| texts.iter().position(|other| is_of(text, other));
        self.tables = texts.iter().map(|text| first(text).unwrap_or_default() as u32).collect();
        // Their nodes may have other positions now; replies name them again.
        self.tablets = texts.iter().map(|_| Tablets::default()).collect();
        before.into_iter().filter(|old| !self.endpoints().any(|new| new == *old)).collect()
    }

    fn distance(&self, node: &Node) -> usize {
        let is_in =
            |wanted: &Option<String>, place: &Option<String>| wanted.is_none() || wanted == place;
        match is_in(&self.datacenter, &node.datacenter) {
            true => usize::from(!is_in(&self.rack, &node.rack)),
            false => 2,
        }
    }

    fn endpoints(&self) -> impl Iterator<Item = usize> {
        self.seats.iter().flat_map(|seat| &seat.endpoints).copied()
    }

    /// Remembers the tablet of a request that came to another node or shard.
    #[cold]
    pub(crate) fn learn(&mut self, text: u32, tablet: &Tablet) {
        let nodes = &self.topology.nodes;
        let index = |host| Some(nodes.iter().position(|node| node.host == Some(host))? as u32);
        let place = |(host, shard): &([u8; 16], u16)| Some((index(*host)?, *shard));
        let replicas: Vec<_> = tablet.replicas.iter().filter_map(place).collect();
        if !replicas.is_empty() {
            self.tablets[self.tables[text as usize] as usize].learn(tablet, replicas);
        }
    }

    /// Whether requests are routed by token.
    #[inline]
    pub(crate) fn by_token(&self) -> bool {
        self.by_token
    }

    /// The connection for a request: to a replica that is up, or else to another node that is up,
    /// both round-robin. If all nodes are down, a connection to wait for. `tried` are endpoints of
    /// excluded nodes.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        framed: &Framed<Wire>,
        ticket: Ticket,
        text: u32,
        token: Option<i64>,
        tried: &[usize],
    ) -> usize {
        self.position = self.position.wrapping_add(1);
        let open = |endpoint: usize| {
            if is_of_any(framed, endpoint, tried) {
                return None;
            }
            open_connection(framed, endpoint, ticket)
        };
        if let Some(index) = token.and_then(|token| self.replica(text, token, open)) {
            return index;
        }
        let mut groups = self.by_distance.iter();
        groups
            .find_map(|endpoints| round_robin(endpoints, self.position, |one| open(*one)))
            .unwrap_or_else(|| self.awaited(framed, ticket))
    }

    /// The connection to a replica of a token.
    #[inline]
    fn replica(
        &self,
        text: u32,
        token: i64,
        open: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        let table = *self.tables.get(text as usize)?;
        if let Some(replicas) = self.tablets[table as usize].replicas(token) {
            return self.nearest(replicas, |replica| replica, open);
        }
        let replicas = self.topology.replicas(self.rings[text as usize]?, token);
        let shard = |node: u32| self.seats[node as usize].sharding.map(|of| of.of_token(token));
        self.nearest(replicas, |node| (node, shard(node).unwrap_or_default()), open)
    }

    /// The connection to one of the nearest replicas that are up; `place` has node and shard.
    #[inline]
    fn nearest<R: Copy>(
        &self,
        replicas: &[R],
        place: impl Fn(R) -> (u32, u16),
        open: impl Fn(usize) -> Option<usize>,
    ) -> Option<usize> {
        [0, 1].into_iter().find_map(|wanted| {
            round_robin(replicas, self.position, |replica| {
                let (node, shard) = place(*replica);
                let seat = &self.seats[node as usize];
                let endpoint = seat.endpoints.get(usize::from(shard));
                let endpoint = endpoint.or(seat.endpoints.first())?;
                if seat.distance == wanted { open(*endpoint) } else { None }
            })
        })
    }

    /// The connection to wait for when no node is up.
    #[cold]
    fn awaited(&self, framed: &Framed<Wire>, ticket: Ticket) -> usize {
        let endpoints = self.by_distance.iter().find(|endpoints| !endpoints.is_empty());
        let endpoints = endpoints.map_or(&[][..], Vec::as_slice);
        let position = self.position % endpoints.len().max(1);
        framed.index(endpoints.get(position).copied().unwrap_or_default(), ticket)
    }

    /// Whether a node is up.
    pub(crate) fn any_up(&self, framed: &Framed<Wire>) -> bool {
        self.endpoints().any(|endpoint| framed.is_up(endpoint))
    }

    /// Whether a node is up that has none of these endpoints.
    pub(crate) fn has_other(&self, framed: &Framed<Wire>, tried: &[usize]) -> bool {
        let mut all = self.endpoints();
        all.any(|endpoint| framed.is_up(endpoint) && !is_of_any(framed, endpoint, tried))
    }
}

/// Whether an endpoint is of the same node as one of the others.
#[inline]
fn is_of_any(framed: &Framed<Wire>, endpoint: usize, others: &[usize]) -> bool {
    let node = |endpoint: usize| framed.target(endpoint).node;
    others.iter().any(|other| node(*other) == node(endpoint))
}

/// The first match, beginning at another position each time.
#[inline]
fn round_robin<T, R>(list: &[T], position: usize, find: impl Fn(&T) -> Option<R>) -> Option<R> {
    match list {
        [] => return None,
        [only] => return find(only),
        _ => {}
    }
    let (before, from) = list.split_at(position % list.len());
    from.iter().chain(before).find_map(find)
}

/// A client's connection to a node, or else another open one.
#[inline]
fn open_connection(framed: &Framed<Wire>, node: usize, ticket: Ticket) -> Option<usize> {
    let own = framed.index(node, ticket);
    if framed.is_open(own) {
        return Some(own);
    }
    framed.connections(node).find(|index| framed.is_open(*index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_robin_skips_elements_without_a_match() {
        let list = [0, 1, 2];
        let first = |turn| round_robin(&list, turn, |one| Some(*one));
        assert_eq!([0, 1, 2, 3].map(first), [Some(0), Some(1), Some(2), Some(0)]);
        let odd = |turn| round_robin(&list, turn, |one| (one % 2 == 1).then_some(*one));
        assert_eq!([0, 1, 2].map(odd), [Some(1); 3]);
        assert_eq!(round_robin(&list, 0, |_| None::<u32>), None);
        assert_eq!(round_robin(&[0; 0], 5, |one| Some(*one)), None);
    }
}
