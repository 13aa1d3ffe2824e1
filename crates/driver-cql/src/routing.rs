//! Which node a request goes to: one that holds its partition, in turn, else any that is up.

use std::net::SocketAddr;
use std::sync::Arc;

use kvmark_driver::Ticket;
use kvmark_driver_server::framed::Framed;

use crate::prepared::Prepared;
use crate::settings::Settings;
use crate::text::Text;
use crate::topology::{Topology, Watch};
use crate::wire::Wire;

/// What is known of the cluster, in terms of a worker's own connections.
pub(crate) struct Routing {
    watch: Arc<Watch>,
    version: u64,
    topology: Arc<Topology>,
    token_aware: bool,
    datacenter: Option<String>,
    /// Of the topology's nodes, those of the connections.
    nodes: Vec<usize>,
    /// Those in the datacenter that is asked; all, where none is named.
    near: Vec<usize>,
    /// The others.
    far: Vec<usize>,
    /// Whether a node of the topology is near.
    is_near: Vec<bool>,
    /// By text: the index of its keyspace's ring.
    rings: Vec<Option<usize>>,
    turn: usize,
}

impl Routing {
    pub(crate) fn new(settings: &Settings, watch: &Arc<Watch>) -> Self {
        Self {
            watch: Arc::clone(watch),
            version: 0,
            topology: Arc::default(),
            token_aware: settings.token_aware,
            datacenter: settings.datacenter.clone(),
            nodes: Vec::new(),
            near: Vec::new(),
            far: Vec::new(),
            is_near: Vec::new(),
            rings: Vec::new(),
            turn: 0,
        }
    }

    /// Whether there is another topology than the one in use.
    #[inline]
    pub(crate) fn is_stale(&self) -> bool {
        self.watch.version() != self.version
    }

    /// Takes the latest topology; `open` gives a node its connections. Returns those of nodes that
    /// left the cluster.
    pub(crate) fn renew(
        &mut self,
        prepared: &Prepared,
        mut open: impl FnMut(SocketAddr) -> usize,
    ) -> Vec<usize> {
        self.version = self.watch.version();
        self.topology = self.watch.latest();
        let before = std::mem::take(&mut self.nodes);
        self.nodes = self.topology.nodes.iter().map(|place| open(place.address)).collect();
        let wanted = self.datacenter.as_deref();
        let near =
            |datacenter: &Option<String>| wanted.is_none() || datacenter.as_deref() == wanted;
        self.is_near = self.topology.nodes.iter().map(|place| near(&place.datacenter)).collect();
        let of = |near: bool| {
            let nodes = self.nodes.iter().zip(&self.is_near);
            nodes.filter(|(_, is_near)| **is_near == near).map(|(node, _)| *node).collect()
        };
        (self.near, self.far) = (of(true), of(false));
        let ring = |text: &Text| self.topology.ring_index(text.keyspace.as_deref()?);
        self.rings = prepared.texts.iter().map(ring).collect();
        before.into_iter().filter(|node| !self.nodes.contains(node)).collect()
    }

    /// Whether a request's token says to which node it goes; there may be only one.
    #[inline]
    pub(crate) fn by_token(&self) -> bool {
        self.token_aware && self.nodes.len() > 1
    }

    /// The connection on which a request goes out: of a replica that is up, in turn, or of another
    /// node that is; where none is, of one to wait for. `tried` are nodes that had it before.
    #[inline]
    pub(crate) fn choose(
        &mut self,
        framed: &Framed<Wire>,
        ticket: Ticket,
        text: u32,
        token: Option<i64>,
        tried: &[usize],
    ) -> usize {
        self.turn = self.turn.wrapping_add(1);
        let open = |node: usize| {
            if tried.contains(&node) { None } else { open_connection(framed, node, ticket) }
        };
        let ring = self.rings.get(text as usize).copied().flatten();
        if let (Some(ring), Some(token)) = (ring, token) {
            let replicas = self.topology.replicas(ring, token);
            let near = |replica: &u32| {
                let replica = *replica as usize;
                self.is_near[replica].then(|| self.nodes[replica])
            };
            let found = in_turn(replicas, self.turn, |replica| open(near(replica)?));
            if let Some(index) = found {
                return index;
            }
        }
        in_turn(&self.near, self.turn, |node| open(*node))
            .or_else(|| in_turn(&self.far, self.turn, |node| open(*node)))
            .unwrap_or_else(|| self.awaited(framed, ticket))
    }

    /// The connection that is waited for when no node is up.
    #[cold]
    fn awaited(&self, framed: &Framed<Wire>, ticket: Ticket) -> usize {
        let nodes = if self.near.is_empty() { &self.far } else { &self.near };
        let node = nodes.get(self.turn % nodes.len().max(1)).copied().unwrap_or_default();
        framed.index(node, ticket)
    }

    /// Whether a node is up.
    pub(crate) fn any_up(&self, framed: &Framed<Wire>) -> bool {
        self.nodes.iter().any(|node| framed.is_up(*node))
    }

    /// The nodes of the connections.
    pub(crate) fn nodes(&self) -> &[usize] {
        &self.nodes
    }
}

/// What is found first, from another place each turn.
#[inline]
fn in_turn<T, R>(list: &[T], turn: usize, find: impl Fn(&T) -> Option<R>) -> Option<R> {
    match list {
        [] => return None,
        [only] => return find(only),
        _ => {}
    }
    let (before, from) = list.split_at(turn % list.len());
    from.iter().chain(before).find_map(find)
}

/// A client's own connection to a node, or another that is open.
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
    fn turns_go_round_and_pass_over_what_is_not_there() {
        let list = [0, 1, 2];
        let first = |turn| in_turn(&list, turn, |one| Some(*one));
        assert_eq!([0, 1, 2, 3].map(first), [Some(0), Some(1), Some(2), Some(0)]);
        let odd = |turn| in_turn(&list, turn, |one| (one % 2 == 1).then_some(*one));
        assert_eq!([0, 1, 2].map(odd), [Some(1); 3]);
        assert_eq!(in_turn(&list, 0, |_| None::<u32>), None);
        assert_eq!(in_turn(&[0; 0], 5, |one| Some(*one)), None);
    }
}
