//! The control connection: it discovers the nodes of the cluster and follows changes.
//!
//! One node lists all nodes and reports events. The topology is read again after events, in
//! intervals, and when the connection was lost; then another node takes over. Source: Apache
//! Cassandra, `doc/native_protocol_v4.spec`, sections 4.1.8 and 4.2.6, and the system tables.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use kvmark_driver::OpenError;
use kvmark_driver_server::framed::{Lines, Stream, ask};
use kvmark_driver_server::timers::Deadline;
use kvmark_driver_server::{HostPort, Target, TlsProbe};
use kvmark_plan::Outcome;

use crate::decode::inet;
use crate::failure::{Failure, impossible};
use crate::frame::Reader;
use crate::partitioner;
use crate::rows::{Row, text};
use crate::settings::Settings;
use crate::shards::Sharding;
use crate::strategy::Strategy;
use crate::topology::{Node, Topology, Watch};
use crate::wire::{Wire, select};

/// An OPTIONS frame, which needs no login.
const TLS_PROBE: TlsProbe = TlsProbe {
    request: &[4, 0, 0, 0, 5, 0, 0, 0, 0],
    without: "leave tls out",
    with: "give tls=true",
};
/// Time in which several events cause one refresh, and the pause between attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);
/// The number of pauses until a refresh without an event, for one minute.
const QUIET_PAUSES: u32 = 120;
/// Interval between checks whether the nodes agree about the schema.
const LOOK: Duration = Duration::from_millis(200);
/// Greatest number of these checks, for one minute.
const LOOKS: u32 = 300;

const LOCAL: &str = "SELECT data_center, rack, host_id, tokens, partitioner FROM system.local \
                     WHERE key = 'local'";
/// Other nodes and their ports (Cassandra 4.0 and later).
const PEERS_WITH_PORTS: &str =
    "SELECT native_address, native_port, data_center, rack, host_id, tokens FROM system.peers_v2";
const PEERS: &str = "SELECT rpc_address, data_center, rack, host_id, tokens FROM system.peers";
const KEYSPACES: &str = "SELECT keyspace_name, replication FROM system_schema.keyspaces";
const SCHEMA: &str = "SELECT schema_version FROM system.local WHERE key = 'local'";

/// A cluster that can be reached.
pub(crate) struct Cluster {
    pub(crate) settings: Arc<Settings>,
    /// Connections without a keyspace.
    pub(crate) lines: Lines<Wire>,
    /// The known nodes; the first one has the control connection.
    pub(crate) nodes: Vec<SocketAddr>,
    /// The keyspaces whose replicas are needed.
    keyspaces: BTreeSet<String>,
    /// The shards of nodes, which are kept while these are down.
    shardings: BTreeMap<SocketAddr, Sharding>,
}

impl Cluster {
    /// Finds the first contact point that describes the cluster.
    pub(crate) fn reach(settings: &Arc<Settings>) -> Result<Self, OpenError> {
        let mut cluster = Self {
            settings: Arc::clone(settings),
            lines: Lines::new(Wire::new(settings, None)),
            nodes: Vec::new(),
            keyspaces: BTreeSet::new(),
            shardings: BTreeMap::new(),
        };
        let contacts = &settings.address.nodes;
        let mut refusal = None;
        for contact in contacts {
            match cluster.ask_contact(contact) {
                Ok(_) => return Ok(cluster),
                Err(failure) => refusal = refusal.or(Some(failure)),
            }
        }
        let (first, failure) = contacts.first().zip(refusal).expect("an address names a node");
        let target = Target::Tcp(first.clone());
        Err(settings.refused(TLS_PROBE.explain(failure, &target, settings.tls.is_some())))
    }

    /// Reads the topology at the first address of a contact point that answers.
    fn ask_contact(&mut self, contact: &HostPort) -> Result<Topology, Failure> {
        let addresses = contact.resolve(Deadline::after(self.settings.connect_timeout));
        let addresses = addresses.map_err(|error| Failure::unreachable(&error))?;
        let mut found = Err(Failure::unreachable(&std::io::ErrorKind::NotFound.into()));
        for address in addresses {
            found = found.or_else(|_| self.discover(address));
        }
        found
    }

    /// Reads the topology at a node, which becomes the first one.
    fn discover(&mut self, node: SocketAddr) -> Result<Topology, Failure> {
        let lines = &self.lines;
        let local = select(lines, node, LOCAL, &[])?.into_iter().next();
        let local = local.ok_or_else(|| impossible("system.local is empty"))?;
        let peers = match select(lines, node, PEERS_WITH_PORTS, &[]) {
            Err(failure) if failure.outcome == Outcome::Refused => select(lines, node, PEERS, &[])?,
            peers => peers?,
        };
        let mut nodes: Vec<_> = peers.iter().filter_map(|row| peer(row, node.port())).collect();
        nodes.retain(|peer| peer.address != node);
        self.nodes = once(node).chain(nodes.iter().map(|peer| peer.address)).collect();
        nodes.extend(local.first_chunk().map(|place| described(node, place)));
        let partitioner = local.last().map(|name| text(name.as_deref())).unwrap_or_default();
        let mut strategies = Vec::new();
        if !self.keyspaces.is_empty() && partitioner.ends_with(partitioner::NAME) {
            let rows = select(lines, node, KEYSPACES, &[])?;
            strategies.extend(rows.iter().filter_map(|row| {
                let [name, replication] = row.first_chunk()?;
                let name = Some(text(name.as_deref())).filter(|name| self.keyspaces.contains(name));
                Some((name?, Strategy::parse(&texts(replication.as_deref()))?))
            }));
        }
        self.find_shards();
        for node in &mut nodes {
            node.sharding = self.shardings.get(&node.address).copied();
        }
        Ok(Topology::new(nodes, &strategies))
    }

    /// Asks the nodes for their shards, if the first one has some.
    fn find_shards(&mut self) {
        if !self.settings.shard_aware {
            return;
        }
        for node in &self.nodes {
            let wire = &self.lines.protocol;
            let asked = self.lines.ask(&(*node).into(), &[], |stream, _| wire.supported(stream));
            let Ok(supported) = asked else { continue };
            match Sharding::read(&supported, self.settings.tls.is_some()) {
                Some(sharding) => _ = self.shardings.insert(*node, sharding),
                None => return,
            }
        }
    }

    /// Waits until all nodes that can be reached have the same schema.
    pub(crate) fn await_agreement(&self) -> Result<(), Failure> {
        let mut nodes = self.nodes.clone();
        for _ in 0..LOOKS {
            let mut versions = BTreeSet::new();
            nodes.retain(|node| match select(&self.lines, *node, SCHEMA, &[]) {
                Ok(version) => {
                    versions.insert(version);
                    true
                }
                Err(_) => false,
            });
            if versions.len() < 2 {
                return Ok(());
            }
            thread::sleep(LOOK);
        }
        let text = "the nodes disagree about the schema after a minute";
        Err(Failure::new(Outcome::Unavailable, text))
    }

    /// Publishes the topology with the replicas of these keyspaces, now and after each change, as
    /// long as the result is in use.
    pub(crate) fn follow(mut self, keyspaces: BTreeSet<String>) -> Result<Arc<Watch>, OpenError> {
        self.keyspaces = keyspaces;
        let watch = Arc::default();
        let published = Arc::downgrade(&watch);
        let events = self.begin(&published).map_err(|failure| self.settings.refused(failure))?;
        let thread = thread::Builder::new().name("kvmark-cluster".to_owned());
        thread.spawn(move || self.run(events, &published)).map_err(|error| {
            OpenError::System(format!("can't start the thread that follows the cluster ({error})"))
        })?;
        Ok(watch)
    }

    fn run(mut self, events: Stream, watch: &Weak<Watch>) {
        let mut events = Ok(events);
        while watch.strong_count() > 0 {
            events = events.and_then(|events| {
                let events = await_change(events, watch)?;
                self.refresh(watch).map(|()| events)
            });
            if events.is_err() {
                self.add_contacts();
                self.nodes.rotate_left(1);
                thread::sleep(PAUSE);
                events = self.begin(watch);
            }
        }
    }

    /// Adds the contact points, whose names may have other addresses by now.
    fn add_contacts(&mut self) {
        for contact in &self.settings.address.nodes {
            let found = contact.resolve(Deadline::after(self.settings.connect_timeout));
            let mut addresses = found.unwrap_or_default();
            addresses.retain(|address| !self.nodes.contains(address));
            self.nodes.append(&mut addresses);
        }
    }

    /// Opens the control connection at the first node, and publishes the topology.
    fn begin(&mut self, watch: &Weak<Watch>) -> Result<Stream, Failure> {
        let events = self.lines.protocol.subscribe(self.nodes[0])?;
        self.refresh(watch).map(|()| events)
    }

    fn refresh(&mut self, watch: &Weak<Watch>) -> Result<(), Failure> {
        let topology = self.discover(self.nodes[0])?;
        if let Some(watch) = watch.upgrade() {
            watch.publish(topology);
        }
        Ok(())
    }
}

/// Waits for events, or until the next refresh is due.
fn await_change(mut events: Stream, watch: &Weak<Watch>) -> Result<Stream, Failure> {
    let heard = Cell::new(false);
    for _ in 0..QUIET_PAUSES {
        let deadline = Deadline::after(PAUSE);
        events = events.until(deadline);
        let ended = ask::<Wire>(&mut events, &[], |_| {
            heard.set(true);
            false
        });
        if let Err(failure) = ended
            && deadline.rest().is_ok()
        {
            return Err(failure);
        }
        if heard.get() || watch.strong_count() == 0 {
            break;
        }
    }
    Ok(events)
}

/// A node in a table of peers: its address, its port if the table has ports, and its place. A node
/// without an address or without tokens doesn't answer requests.
fn peer(row: &Row, port: u16) -> Option<Node> {
    let (address, place) = row.split_last_chunk()?;
    let [_, _, _, Some(_)] = place else { return None };
    let port = match address.get(1) {
        Some(port) => u16::try_from(Reader(port.as_deref()?).int()?).ok()?,
        None => port,
    };
    let host = inet(address.first()?.as_deref()?)?;
    Some(described(SocketAddr::new(host, port), place))
}

/// A node with this datacenter, rack, host and tokens.
fn described(address: SocketAddr, place: &[Option<Vec<u8>>; 4]) -> Node {
    let [datacenter, rack, host, tokens] = place.each_ref().map(Option::as_deref);
    let name = |name: Option<&[u8]>| name.map(|name| text(Some(name)));
    let tokens = texts(tokens).iter().filter_map(|token| token.parse().ok()).collect();
    let host = host.and_then(|id| id.try_into().ok());
    let (datacenter, rack) = (name(datacenter), name(rack));
    Node { address, datacenter, rack, host, sharding: None, tokens }
}

/// The elements of a collection of texts.
fn texts(value: Option<&[u8]>) -> Vec<String> {
    Reader(value.unwrap_or_default()).elements().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::put_long;

    #[test]
    fn a_peer_needs_an_address_and_tokens() {
        let mut tokens = 2_u32.to_be_bytes().to_vec();
        put_long(&mut tokens, b"-7");
        put_long(&mut tokens, b"42");
        let [host, port, datacenter, rack] =
            [&[127, 0, 0, 2][..], &[0, 0, 0x23, 0x53], b"dc1", b"r1"].map(|one| Some(one.to_vec()));
        let place = [datacenter, rack, Some(vec![7; 16]), Some(tokens)];
        let row =
            |address: &[Option<Vec<u8>>], place: &[Option<Vec<u8>>]| [address, place].concat();
        let with_port = peer(&row(&[host.clone(), port.clone()], &place), 9042).unwrap();
        assert_eq!(with_port.address, "127.0.0.2:9043".parse().unwrap());
        assert_eq!(with_port.datacenter.as_deref(), Some("dc1"));
        assert_eq!(with_port.rack.as_deref(), Some("r1"));
        assert_eq!(with_port.host, Some([7; 16]));
        assert_eq!(with_port.tokens, [-7, 42]);
        let without = peer(&row(std::slice::from_ref(&host), &place), 9042).unwrap();
        assert_eq!(without.address, "127.0.0.2:9042".parse().unwrap());
        let mut no_tokens = place.clone();
        no_tokens[3] = None;
        for row in [
            row(&[None], &place),
            row(&[host.clone(), None], &place),
            row(&[None, port], &place),
            row(&[host], &no_tokens),
        ] {
            assert_eq!(peer(&row, 9042), None, "{row:?}");
        }
    }
}
