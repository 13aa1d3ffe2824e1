//! A Redis Cluster, scripted and real.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use kvmark_driver::{Driver, Request, Values};
use kvmark_driver_resp::Resp;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::server::TestServer;
use kvmark_testing::{Bound, Shared, layout_of};
use serde_json::json;

use crate::common::{execute, open_layout, read, refusal, request, run, session, with_session};
use crate::real_cluster::RealCluster;
use crate::scripted::{Server, be_node, record};

const ALL: &str = "0-16383";

fn open_cluster(address: &str, statements: &[&str]) -> Resp {
    let options = json!({ "cluster": true, "reconnect_max_ms": 50 });
    open_layout(address, options, &layout_of(statements)).unwrap()
}

/// The outcome and the failure text of a read.
async fn ends(session: &Shared<Resp>, key: &str) -> (Outcome, String) {
    let (outcome, _) = read(session, 0, key).await;
    (outcome, session.last_failure().unwrap_or_default())
}

/// The number of reads of "a" that a server received.
fn reads(server: &Server) -> usize {
    server.heard.lock().unwrap().iter().filter(|heard| *heard == "HGETALL a").count()
}

#[test]
fn a_moved_slot_is_followed_and_the_map_is_updated() {
    let other = Server::new(|_, peer| be_node(peer, ALL, |_, _| record("there")));
    let port = other.address.rsplit(':').next().unwrap().to_owned();
    // The slot of "a" is 15495.
    let server = Server::new(move |_, peer| {
        be_node(peer, ALL, |_, _| format!("-MOVED 15495 127.0.0.1:{port}\r\n"));
    });
    let driver = open_cluster(&server.address, &[]);
    with_session(&driver, async |session| {
        assert_eq!(ends(&session, "a").await, (Outcome::Ok, String::new()));
        assert_eq!(ends(&session, "a").await, (Outcome::Ok, String::new()));
    });
    assert_eq!((reads(&server), reads(&other)), (1, 2));
}

#[test]
fn a_migrating_slot_is_followed_once_and_the_map_stays() {
    let other = Server::new(|_, peer| {
        be_node(peer, ALL, |command, _| match command {
            "ASKING" => "+OK\r\n".to_owned(),
            _ => record("there"),
        });
    });
    let port = other.address.rsplit(':').next().unwrap().to_owned();
    let server = Server::new(move |_, peer| {
        be_node(peer, ALL, |_, _| format!("-ASK 15495 127.0.0.1:{port}\r\n"));
    });
    let driver = open_cluster(&server.address, &[]);
    with_session(&driver, async |session| {
        for _ in 0..2 {
            assert_eq!(read(&session, 0, "a").await, (Outcome::Ok, vec!["0.0=there".to_owned()]));
        }
    });
    let heard = other.heard.lock().unwrap();
    assert_eq!(heard[..], ["PING", "ASKING", "HGETALL a", "ASKING", "HGETALL a"]);
}

#[test]
fn endless_redirections_and_a_cluster_that_is_down_are_unavailable() {
    let cases = [
        (
            "-MOVED 15495 127.0.0.1:PORT\r\n",
            6,
            "the servers redirected a command more than 5 times",
        ),
        ("-TRYAGAIN Multiple keys request\r\n", 1, "the server answered: TRYAGAIN Multiple keys"),
        ("-CLUSTERDOWN The cluster is down\r\n", 1, "the server answered: CLUSTERDOWN The"),
    ];
    for (said, attempts, account) in cases {
        let server = Server::new(move |_, peer| {
            be_node(peer, ALL, |_, port| said.replace("PORT", &port.to_string()));
        });
        let driver = open_cluster(&server.address, &[]);
        with_session(&driver, async |session| {
            let (outcome, told) = ends(&session, "a").await;
            assert_eq!((outcome, reads(&server)), (Outcome::Unavailable, attempts), "{said}");
            assert!(told.starts_with(account), "{told}");
        });
    }
}

#[test]
fn a_slot_without_a_server_is_unavailable_and_a_cluster_without_slots_is_rejected() {
    let server = Server::new(|_, peer| be_node(peer, "0-100", |_, _| record("x")));
    let driver = open_cluster(&server.address, &[]);
    with_session(&driver, async |session| {
        let (outcome, account) = ends(&session, "a").await;
        assert_eq!(outcome, Outcome::Unavailable);
        assert_eq!(account, "no server of the cluster has slot 15495");
    });
    let alone = Server::new(|_, peer| {
        while let Some(command) = peer.hear() {
            let off = "-ERR This instance has cluster support disabled\r\n";
            peer.say(if command == "PING" { "+PONG\r\n" } else { off });
        }
    });
    let error = refusal(&alone.address, json!({ "cluster": true }));
    assert!(error.ends_with("This instance has cluster support disabled"), "{error}");
}

#[test]
fn a_server_without_a_map_is_skipped() {
    let port_of = |server: &Server| server.address.rsplit(':').next().unwrap().to_owned();
    let sound = Server::new(|_, peer| be_node(peer, ALL, |_, _| record("there")));
    let (first, second) = (port_of(&sound), Arc::new(OnceLock::new()));
    let (own, is_down) = (Arc::clone(&second), AtomicBool::new(false));
    let silent = Server::new(move |_, peer| {
        let share =
            |slots: &str, port: &str| format!("*3\r\n{slots}*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
        while let Some(command) = peer.hear() {
            match command.as_str() {
                "PING" => peer.say("+PONG\r\n"),
                "CLUSTER SLOTS" if is_down.load(Ordering::SeqCst) => {}
                "CLUSTER SLOTS" => {
                    let theirs = share(":0\r\n:100\r\n", &first);
                    let own: &String = own.get().unwrap();
                    peer.say(&format!("*2\r\n{theirs}{}", share(":101\r\n:16383\r\n", own)));
                }
                _ => {
                    is_down.store(true, Ordering::SeqCst);
                    peer.say("-CLUSTERDOWN The cluster is down\r\n");
                }
            }
        }
    });
    second.set(port_of(&silent)).unwrap();
    let driver = open_cluster(&silent.address, &[]);
    with_session(&driver, async |session| {
        assert_eq!(ends(&session, "a").await.0, Outcome::Unavailable);
        assert_eq!(read(&session, 0, "a").await, (Outcome::Ok, vec!["0.0=there".to_owned()]));
    });
    let asked = silent.heard.lock().unwrap();
    assert_eq!(asked.last().map(String::as_str), Some("CLUSTER SLOTS"));
}

#[test]
#[ignore = "needs redis-server"]
fn commands_of_one_operation_are_split_by_server_and_their_replies_merged() {
    let cluster = RealCluster::start(false);
    let texts = [
        "SET {key} {value}",
        "GET {key}",
        "MSET [{item} {value}]",
        "MULTI; SET {key} {value}; GET {key}; EXEC",
        "MULTI; SET {key} 1; SET other{key} 1; EXEC",
    ];
    let driver = open_cluster(&cluster.addresses(), &texts);
    let before = driver.statistics();
    let keys: Vec<_> = (0..60).map(|n| format!("key{n}")).collect();
    let of_all = |statement| {
        keys.iter().fold(Bound::new(statement), |bound, key| bound.command(key, key, &[]))
    };
    with_session(&driver, async |session| {
        let written = execute(&session, 0, &of_all(0).request(Kind::Insert)).await;
        assert_eq!(written, (Outcome::Ok, vec![]));
        let expected: Vec<_> =
            keys.iter().enumerate().map(|(n, key)| format!("{n}.0={key}")).collect();
        let found = execute(&session, 0, &of_all(1).request(Kind::Read)).await;
        assert_eq!(found, (Outcome::Ok, expected));
        let outcome =
            async |bound: Bound| execute(&session, 0, &bound.request(Kind::Update)).await.0;
        let together = Bound::new(2).command("", "1", &["{t}a", "{t}b"]);
        assert_eq!(outcome(together).await, Outcome::Ok);
        let apart = Bound::new(2).command("", "1", &["a", "b"]);
        assert_eq!(outcome(apart).await, Outcome::Refused);
        assert!(session.last_failure().unwrap().contains("CROSSSLOT"));
        let transaction = Bound::new(3).command("p", "1", &[]).command("q", "2", &[]);
        let found = execute(&session, 0, &transaction.request(Kind::Update)).await;
        assert_eq!(found, (Outcome::Ok, vec!["0.0=1".to_owned(), "1.0=2".to_owned()]));
        assert_eq!(outcome(Bound::new(4).command("a", "", &[])).await, Outcome::Refused);
    });
    let after = driver.statistics();
    assert!(cluster.nodes.iter().all(|node| node.raw().ask("DBSIZE") != ":0"));
    assert_eq!(after["keyspace_hits"] - before["keyspace_hits"], 62.0);
    assert!((1.0 / 3.0..0.9).contains(&after["node_share_max"]), "{}", after["node_share_max"]);
    assert_eq!(driver.describe().configuration["cluster-primaries"], "3");
}

#[test]
#[ignore = "needs redis-server"]
fn ycsbs_layout_works_on_a_cluster_from_any_of_its_servers() {
    let cluster = RealCluster::start(false);
    for (address, parts) in [(&cluster.nodes[2].address, false), (&cluster.nodes[0].address, true)]
    {
        let options = json!({ "cluster": true, "pipeline_parts": parts, "connections": 1 });
        let driver = open_layout(address, options, &layout_of(&[])).unwrap();
        run(async {
            let session = session(&driver, 2);
            for (client, key) in [(0, "a"), (1, "b"), (0, "c")] {
                let values = Values { bytes: key.as_bytes(), places: &[(0, 0..1)] };
                let insert = Request { values, ..request(Kind::Insert, key) };
                assert_eq!(execute(&session, client, &insert).await.0, Outcome::Ok);
            }
            let scan = execute(&session, 1, &request(Kind::Scan, "b")).await;
            assert_eq!(scan, (Outcome::Ok, vec!["0.0=b".to_owned(), "1.0=c".to_owned()]));
            let delete = request(Kind::Delete, "a");
            assert_eq!(execute(&session, 0, &delete).await.0, Outcome::Ok);
            assert_eq!(execute(&session, 0, &delete).await.0, Outcome::Miss);
        });
    }
}

#[test]
#[ignore = "needs redis-server"]
fn a_slot_that_moves_during_reads_causes_redirections_and_no_failure() {
    let cluster = RealCluster::start(false);
    // The slot of "a" is 15495, on the last server.
    let (from, to) = (&cluster.nodes[2], &cluster.nodes[0]);
    let (from_id, to_id) = (from.raw().text("CLUSTER MYID"), to.raw().text("CLUSTER MYID"));
    let driver = open_cluster(&from.address, &["SET {key} {value}", "GET {key}"]);
    // Servers count each redirected command as an error.
    let redirections = || {
        let told = [from, to].map(|node| node.raw().text("INFO errorstats")).join("\n");
        let count = |line: &str| {
            let (kind, count) = line.strip_prefix("errorstat_")?.split_once(":count=")?;
            matches!(kind, "MOVED" | "ASK").then(|| count.parse::<u32>().unwrap())
        };
        told.lines().filter_map(|line| count(line.trim_end())).sum::<u32>()
    };
    with_session(&driver, async |session| {
        let carry_out = async |statement: u32, key: &str| {
            let bound = Bound::new(statement).command(key, "1", &[]);
            let request = bound.request(if statement == 0 { Kind::Update } else { Kind::Read });
            let before = redirections();
            let (outcome, _) = execute(&session, 0, &request).await;
            (outcome, redirections() - before)
        };
        assert_eq!(carry_out(0, "a").await, (Outcome::Ok, 0));
        to.raw().ask(&format!("CLUSTER SETSLOT 15495 IMPORTING {from_id}"));
        from.raw().ask(&format!("CLUSTER SETSLOT 15495 MIGRATING {to_id}"));
        assert_eq!(carry_out(1, "a").await, (Outcome::Ok, 0));
        assert_eq!(carry_out(0, "{a}new").await, (Outcome::Ok, 1));
        let place = to.address.replace(':', " ");
        assert_eq!(from.raw().ask(&format!("MIGRATE {place} a 0 1000")), "+OK");
        assert_eq!(carry_out(1, "a").await, (Outcome::Ok, 1));
        for node in [to, from] {
            assert_eq!(node.raw().ask(&format!("CLUSTER SETSLOT 15495 NODE {to_id}")), "+OK");
        }
        assert_eq!(carry_out(1, "a").await, (Outcome::Ok, 1));
        assert_eq!(carry_out(1, "{a}new").await, (Outcome::Ok, 0));
    });
}

#[test]
#[ignore = "needs redis-server"]
fn a_promoted_replica_is_found() {
    let mut cluster = RealCluster::start(true);
    // The slot of "b" is 3300, on the first server.
    let driver = open_cluster(&cluster.addresses(), &["SET {key} {value}"]);
    let bound = Bound::new(0).command("b", "1", &[]);
    with_session(&driver, async |session| {
        let write = async || execute(&session, 0, &bound.request(Kind::Update)).await.0;
        assert_eq!(write().await, Outcome::Ok);
        cluster.nodes[0].kill();
        let mut outcomes = vec![write().await];
        assert_eq!(cluster.nodes[3].raw().ask("CLUSTER FAILOVER TAKEOVER"), "+OK");
        while outcomes.last() != Some(&Outcome::Ok) {
            outcomes.push(write().await);
        }
        assert_eq!(outcomes[0], Outcome::Connection);
        let known = [Outcome::Ok, Outcome::Connection, Outcome::Unavailable];
        assert!(outcomes.iter().all(|outcome| known.contains(outcome)), "{outcomes:?}");
    });
    assert!(driver.statistics()["total_commands_processed"] > 0.0);
}
