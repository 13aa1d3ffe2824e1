//! The choice of a node for a request: a replica of its partition, or else any node that is up.

use std::sync::Arc;

use kvmark_driver::Ticket;
use kvmark_driver_server::framed::Framed;

use crate::prepared::Prepared;
use crate::settings::Settings;
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
    datacenter: Option<String>,
    rack: Option<String>,
    /// The connection node of each node of the topology.
    nodes: Vec<usize>,
    /// The distance of each node of the topology: 0 in the configured rack and datacenter, 1 in
    /// another rack, 2 in another datacenter.
    distances: Vec<usize>,
    /// The nodes by distance.
    by_distance: [Vec<usize>; 3],
    /// The ring of each text's keyspace.
    rings: Vec<Option<usize>>,
    /// The position of the round-robin.
    position: usize,
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

    /// Adopts the latest topology and connects to its nodes. Returns the nodes that left the
    /// cluster.
    pub(crate) fn renew(&mut self, prepared: &Prepared, framed: &mut Framed<Wire>) -> Vec<usize> {
        self.version = self.watch.version();
        self.topology = self.watch.latest();
        let before = std::mem::take(&mut self.nodes);
        let index = |place: &Node| framed.find_or_add(&place.address);
        self.nodes = self.topology.nodes.iter().map(index).collect();
        let is_in =
            |wanted: &Option<String>, place: &Option<String>| wanted.is_none() || wanted == place;
        let distance = |node: &Node| match is_in(&self.datacenter, &node.datacenter) {
            true => usize::from(!is_in(&self.rack, &node.rack)),
            false => 2,
        };
        self.distances = self.topology.nodes.iter().map(distance).collect();
        self.by_distance = [0, 1, 2].map(|wanted| {
            let nodes = self.nodes.iter().zip(&self.distances);
            nodes.filter(|(_, distance)| **distance == wanted).map(|(node, _)| *node).collect()
        });
        let ring = |text: &Text| self.topology.ring_index(text.keyspace.as_deref()?);
        self.rings = prepared.texts.iter().map(ring).collect();
        before.into_iter().filter(|node| !self.nodes.contains(node)).collect()
    }

    /// Whether requests are routed by token, which a single node doesn't need.
    #[inline]
    pub(crate) fn by_token(&self) -> bool {
        self.token_aware && self.nodes.len() > 1
    }

    /// The connection for a request: to a replica that is up, or else to another node that is up,
    /// both round-robin. If all nodes are down, a connection to wait for. `tried` are excluded
    /// nodes.
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
        let open = |node: usize| {
            if tried.contains(&node) { None } else { open_connection(framed, node, ticket) }
        };
        let ring = self.rings.get(text as usize).copied().flatten();
        if let (Some(ring), Some(token)) = (ring, token) {
            let replicas = self.topology.replicas(ring, token);
            for wanted in [0, 1] {
                let near = |replica: &u32| {
                    let replica = *replica as usize;
                    (self.distances[replica] == wanted).then(|| self.nodes[replica])
                };
                let replica = round_robin(replicas, self.position, |replica| open(near(replica)?));
                if let Some(index) = replica {
                    return index;
                }
            }
        }
        let mut groups = self.by_distance.iter();
        groups
            .find_map(|nodes| round_robin(nodes, self.position, |node| open(*node)))
            .unwrap_or_else(|| self.awaited(framed, ticket))
    }

    /// The connection to wait for when no node is up.
    #[cold]
    fn awaited(&self, framed: &Framed<Wire>, ticket: Ticket) -> usize {
        let nodes = self.by_distance.iter().find(|nodes| !nodes.is_empty());
        let nodes = nodes.map_or(&[][..], Vec::as_slice);
        let node = nodes.get(self.position % nodes.len().max(1)).copied().unwrap_or_default();
        framed.index(node, ticket)
    }

    /// Whether a node is up.
    pub(crate) fn any_up(&self, framed: &Framed<Wire>) -> bool {
        self.nodes.iter().any(|node| framed.is_up(*node))
    }

    /// The connection nodes of the topology.
    pub(crate) fn nodes(&self) -> &[usize] {
        &self.nodes
    }
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
