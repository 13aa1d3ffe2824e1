//! Outages of all nodes, and their end.

use kvmark_driver::{Driver, Session as _, Ticket};
use kvmark_driver_cql::{Cql, CqlSession};
use kvmark_plan::{Kind, Outcome};
use serde_json::{Value, json};

use crate::common::{Session, Told, execute, layout, open, own_session, request, run, session};
use crate::peer::{Act, Guard, Peer};

/// Number of operations after which a change of the connections must be noticed.
const NOTICED: u32 = 1000;

fn row(_: &str) -> Act {
    Act::Row("k", "v")
}

async fn read(session: &Session) -> Outcome {
    execute(session, &request(Kind::Read, "k")).await.0
}

/// Reads until one finds no node, because the driver notices closed connections with a delay.
async fn read_until_lost(session: &Session) {
    for _ in 0..NOTICED {
        let outcome = read(session).await;
        let text = session.last_failure().unwrap_or_default();
        if outcome == Outcome::Connection && text.starts_with("no node can be reached: ") {
            return;
        }
    }
    panic!("{:?}", session.last_failure());
}

/// Reads until one succeeds; a busy machine may exceed a short time limit.
async fn read_until_answered(session: &Session) {
    for _ in 0..NOTICED {
        if read(session).await == Outcome::Ok {
            return;
        }
    }
    panic!("{:?}", session.last_failure());
}

/// A driver whose session has lost its only node, and the free address.
fn lost(options: Value) -> (Cql, Session, String) {
    let peer = Peer::new(row);
    let driver = open(&peer.address, options, &layout(1)).unwrap();
    let session = session(&driver);
    run(read_until_answered(&session));
    let address = peer.stop();
    run(read_until_lost(&session));
    (driver, session, address)
}

/// The outcomes and failure texts of concurrent reads.
fn read_together(session: &mut CqlSession, clients: u32) -> Vec<(Ticket, Outcome, String)> {
    let mut told = Told::default();
    for client in 0..clients {
        session.submit(client, &request(Kind::Read, "k"));
    }
    while told.ended.len() < clients as usize {
        told.pass_real_time();
        session.poll(u64::MAX, &mut told);
    }
    told.ended
}

fn reconnections(driver: &Cql) -> f64 {
    driver.statistics()["reconnections"]
}

#[test]
fn clients_without_a_node_wait_for_one_attempt_and_fail_with_it() {
    let peer = Peer::new(row);
    let driver = open(&peer.address, json!({"reconnect_max_ms": 10}), &layout(1)).unwrap();
    let mut session = own_session(&driver, 100);
    peer.stop();
    let is_lost = |session: &mut CqlSession| {
        read_together(session, 1)[0].2.starts_with("no node can be reached: ")
    };
    assert!((0..NOTICED).any(|_| is_lost(&mut session)));
    let before = reconnections(&driver);
    for _ in 0..3 {
        for (_, outcome, why) in read_together(&mut session, 100) {
            assert_eq!(outcome, Outcome::Connection, "{why}");
        }
    }
    let attempts = reconnections(&driver) - before;
    assert!((1.0..=6.0).contains(&attempts), "{attempts} attempts for 300 operations");
}

#[test]
fn a_waiting_operation_is_executed_when_the_node_returns() {
    let (_driver, session, address) = lost(json!({"reconnect_max_ms": 10}));
    run(async {
        let peer = Peer::at(&address, Guard::default(), row);
        assert_eq!(read(&session).await, Outcome::Ok, "{:?}", session.last_failure());
        let address = peer.stop();
        read_until_lost(&session).await;
        let _peer = Peer::at(&address, Guard::default(), row);
        assert_eq!(read(&session).await, Outcome::Ok, "{:?}", session.last_failure());
    });
}

#[test]
fn the_limit_on_a_request_also_ends_its_waiting() {
    let options = json!({"reconnect_max_ms": 3_600_000, "request_timeout_ms": 50});
    let (_driver, session, _) = lost(options);
    run(async {
        for _ in 0..NOTICED {
            assert_eq!(read(&session).await, Outcome::Connection);
            let text = session.last_failure().unwrap_or_default();
            if text == "no node could be reached within request_timeout_ms (50)" {
                return;
            }
        }
        panic!("{:?}", session.last_failure());
    });
}
