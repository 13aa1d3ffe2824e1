//! Nodes that join or leave, the replicas of records, and the schema of all nodes.

use std::sync::atomic::Ordering;

use kvmark_plan::{Kind, Outcome};
use serde_json::json;

use crate::common::{Session, execute, layout, open, request, run, session};
use crate::peer::{Act, Peer};

/// Greatest number of reads until a change of the cluster is followed.
const FOLLOWED: u32 = 10_000_000;

fn cluster(nodes: u8) -> Vec<Peer> {
    Peer::cluster(nodes, |_, _| Act::Row("k", "v"))
}

/// Reads until a node has received a read.
async fn read_until_asked(session: &Session, peer: &Peer) {
    for number in 0..FOLLOWED {
        execute(session, &request(Kind::Read, &format!("k{number}"))).await;
        if !peer.asked().is_empty() {
            return;
        }
    }
    panic!("{:?}", session.last_failure());
}

#[test]
fn a_request_goes_to_the_replica_of_its_key() {
    let peers = cluster(3);
    let driver = open(&peers[1].address, json!({}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        // Their tokens are in the first, the third and the second part of the ring.
        for (key, owner) in [("test", 0), ("xd", 2), ("primary_key", 1)] {
            let before = peers[owner].asked().len();
            for _ in 0..5 {
                let (outcome, ..) = execute(&session, &request(Kind::Read, key)).await;
                assert_eq!(outcome, Outcome::Ok, "{:?}", session.last_failure());
            }
            assert_eq!(peers[owner].asked().len(), before + 5, "{key}");
        }
    });
}

fn sharded(nodes: u8) -> Vec<Peer> {
    Peer::sharded(nodes, 4, |_, _| Act::Row("k", "v"))
}

/// Reads a record several times. Returns the node and the shard that each read reached.
async fn reached(session: &Session, peers: &[Peer], key: &str) -> Vec<(u8, u16)> {
    let mut reached = Vec::new();
    for _ in 0..10 {
        let (outcome, ..) = execute(session, &request(Kind::Read, key)).await;
        assert_eq!(outcome, Outcome::Ok, "{:?}", session.last_failure());
        for (node, peer) in (0..).zip(peers) {
            reached.extend(peer.take_reached().into_iter().map(|shard| (node, shard)));
        }
    }
    reached
}

#[test]
fn a_request_goes_to_the_shard_of_its_key() {
    let peers = sharded(3);
    let driver = open(&peers[1].address, json!({}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        for (key, place) in [("test", (0, 3)), ("xd", (2, 3)), ("primary_key", (1, 1))] {
            assert_eq!(reached(&session, &peers, key).await, [place; 10], "{key}");
        }
    });
}

#[test]
fn requests_follow_a_tablet_that_moves() {
    let peers = sharded(3);
    peers[0].list(2);
    let driver = open(&peers[0].address, json!({}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        let mut before = None;
        for place in [(1, 3), (0, 0), (1, 2)] {
            peers[0].move_tablet(place.0, place.1);
            let places = reached(&session, &peers, "test").await;
            // The first reply names it.
            assert_eq!(places[1..], [place; 9]);
            assert_eq!(before.unwrap_or(places[0]), places[0]);
            before = Some(place);
        }
        peers[0].move_tablet(2, 1);
        peers[0].list(3);
        // The node that joined.
        read_until_asked(&session, &peers[2]).await;
        assert_eq!(reached(&session, &peers, "test").await.pop(), Some((2, 1)));
    });
}

#[test]
fn shards_can_be_ignored() {
    let connections = |options| {
        let peers = sharded(1);
        let driver = open(&peers[0].address, options, &layout(1)).unwrap();
        let before = peers[0].connections();
        let _session = session(&driver);
        peers[0].connections() - before
    };
    assert_eq!(connections(json!({})), 4);
    assert_eq!(connections(json!({"shard_aware": false})), 1);
}

#[test]
fn a_node_that_joins_is_found_although_the_control_connection_is_lost() {
    let mut peers = cluster(3);
    peers[0].list(2);
    let driver = open(&peers[0].address, json!({}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        read_until_asked(&session, &peers[1]).await;
        assert_eq!(peers[2].asked().len(), 0);
        // The node with the control connection.
        peers.remove(0).stop();
        peers[0].list(3);
        read_until_asked(&session, &peers[1]).await;
    });
}

#[test]
fn a_contact_point_replaces_the_last_known_node() {
    let mut peers = cluster(2);
    peers[0].list(1);
    let address = format!("{},{}", peers[0].address, peers[1].address);
    let driver = open(&address, json!({"reconnect_max_ms": 10}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        assert_eq!(execute(&session, &request(Kind::Read, "k")).await.0, Outcome::Ok);
        peers.remove(0).stop();
        read_until_asked(&session, &peers[0]).await;
    });
}

#[test]
fn an_event_is_followed() {
    let peers = cluster(2);
    peers[0].list(1);
    let driver = open(&peers[0].address, json!({}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        assert_eq!(execute(&session, &request(Kind::Read, "k")).await.0, Outcome::Ok);
        peers[0].list(2);
        read_until_asked(&session, &peers[1]).await;
    });
}

#[test]
fn a_new_table_is_awaited_at_all_nodes() {
    let peers = cluster(2);
    peers[1].late().store(3, Ordering::SeqCst);
    open(&peers[0].address, json!({}), &layout(1)).unwrap();
    assert_eq!(peers[1].late().load(Ordering::SeqCst), 0);
}
