//! A Redis Cluster for tests: primaries with equal shares of the slots, and a replica of the first
//! one.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use crate::real::Redis;

const SLOTS: usize = 16_384;
const PRIMARIES: usize = 3;

pub(crate) struct RealCluster {
    /// The primaries, in the order of their slots, then the replica.
    pub(crate) nodes: Vec<Redis>,
    bus_ports: Vec<u16>,
}

impl RealCluster {
    /// Starts the servers, with or without the replica, and waits until all agree.
    pub(crate) fn start(with_replica: bool) -> Self {
        let count = PRIMARIES + usize::from(with_replica);
        let (mut nodes, mut bus_ports) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let bus = free.local_addr().unwrap().port();
            drop(free);
            let bus_text = bus.to_string();
            let arguments = ["--cluster-enabled", "yes", "--cluster-port", &bus_text];
            // A long timeout, because a busy machine may delay a server.
            let patience = ["--cluster-node-timeout", "600000", "--repl-diskless-sync-delay", "0"];
            nodes.push(Redis::start(&[&arguments[..], &patience[..]].concat()));
            bus_ports.push(bus);
        }
        let cluster = Self { nodes, bus_ports };
        for (index, node) in cluster.nodes[..PRIMARIES].iter().enumerate() {
            let slots = |index: usize| index * SLOTS / PRIMARIES;
            let last = slots(index + 1) - 1;
            node.raw().ask(&format!("CLUSTER ADDSLOTSRANGE {} {last}", slots(index)));
            node.raw().ask(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1));
        }
        cluster.introduce();
        if with_replica {
            let id = cluster.nodes[0].raw().text("CLUSTER MYID");
            cluster.nodes[PRIMARIES].raw().ask(&format!("CLUSTER REPLICATE {id}"));
            cluster.wait(PRIMARIES, "INFO replication", "master_link_status:up");
            cluster.wait(0, "CLUSTER NODES", "slave");
            cluster.wait(1, "CLUSTER NODES", "slave");
            cluster.wait(2, "CLUSTER NODES", "slave");
        }
        for index in 0..count {
            cluster.wait(index, "CLUSTER INFO", "cluster_state:ok");
        }
        cluster
    }

    fn introduce(&self) {
        // Each meets each, because with a long timeout gossip is slow.
        for (index, (node, bus)) in self.nodes.iter().zip(&self.bus_ports).enumerate() {
            let place = node.address.replace(':', " ");
            for other in &self.nodes[..index] {
                other.raw().ask(&format!("CLUSTER MEET {place} {bus}"));
            }
        }
        // A server has no name until the handshake is complete.
        let names: Vec<_> = self.nodes.iter().map(|node| node.raw().text("CLUSTER MYID")).collect();
        for index in 0..self.nodes.len() {
            for name in &names {
                self.wait(index, "CLUSTER NODES", name);
            }
        }
    }

    /// Waits until a server's reply contains a text.
    pub(crate) fn wait(&self, index: usize, command: &str, text: &str) {
        let mut raw = self.nodes[index].raw();
        while !raw.text(command).contains(text) {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// All addresses in the driver's format.
    pub(crate) fn addresses(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(|node| node.address.as_str()).collect();
        addresses.join(",")
    }
}
