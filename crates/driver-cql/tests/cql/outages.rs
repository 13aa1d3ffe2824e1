//! What happens when no node is left, and when one is there again.

use futures_util::future::join_all;
use kvmark_driver::{Driver, Session};
use kvmark_driver_cql::{Cql, CqlSession};
use kvmark_plan::{Kind, Outcome};
use serde_json::{Value, json};

use crate::common::{execute, layout, open, request, run, session};
use crate::peer::{Act, Guard, Peer};

/// Operations after which it is noticed at the latest that the connections are there, or gone.
const NOTICED: u32 = 1000;

fn row(_: &str) -> Act {
    Act::Row("k", "v")
}

async fn read(session: &CqlSession) -> Outcome {
    execute(session, &request(Kind::Read, "k")).await.0
}

/// Reads until one finds no node; the driver learns of closed connections in its own time.
async fn read_until_lost(session: &CqlSession) {
    for _ in 0..NOTICED {
        let outcome = read(session).await;
        let text = session.last_failure().unwrap_or_default();
        if outcome == Outcome::Connection && text.starts_with("no node can be reached: ") {
            return;
        }
    }
    panic!("{:?}", session.last_failure());
}

/// Reads until one is answered; where the limit on a request is short a busy machine meets it.
async fn read_until_answered(session: &CqlSession) {
    for _ in 0..NOTICED {
        if read(session).await == Outcome::Ok {
            return;
        }
    }
    panic!("{:?}", session.last_failure());
}

/// A driver with a session that has lost its only node, whose address is free now.
async fn lost(options: Value) -> (Cql, CqlSession, String) {
    let peer = Peer::new(row);
    let driver = tokio::task::spawn_blocking({
        let address = peer.address.clone();
        move || open(&address, options, &layout(1)).unwrap()
    });
    let driver = driver.await.unwrap();
    let session = session(&driver).await;
    read_until_answered(&session).await;
    let address = peer.stop();
    read_until_lost(&session).await;
    (driver, session, address)
}

fn reconnections(driver: &Cql) -> f64 {
    driver.statistics()["reconnections"]
}

#[test]
fn clients_that_find_no_node_wait_for_one_attempt_together_and_fail_with_it() {
    run(async {
        let (driver, session, _) = lost(json!({"reconnect_max_ms": 10})).await;
        let before = reconnections(&driver);
        let client = async |_| {
            for _ in 0..3 {
                assert_eq!(read(&session).await, Outcome::Connection);
            }
        };
        join_all((0..100).map(client)).await;
        let attempts = reconnections(&driver) - before;
        assert!((1.0..=6.0).contains(&attempts), "{attempts} attempts for 300 operations");
    });
}

#[test]
fn an_operation_that_waits_is_carried_out_when_the_node_is_there_again() {
    run(async {
        let (_driver, session, address) = lost(json!({"reconnect_max_ms": 10})).await;
        let peer = Peer::at(&address, Guard::default(), row);
        assert_eq!(read(&session).await, Outcome::Ok, "{:?}", session.last_failure());
        let address = peer.stop();
        read_until_lost(&session).await;
        let _peer = Peer::at(&address, Guard::default(), row);
        assert_eq!(read(&session).await, Outcome::Ok, "{:?}", session.last_failure());
    });
}

#[test]
fn the_limit_on_a_request_ends_its_waiting_too() {
    run(async {
        let options = json!({"reconnect_max_ms": 3_600_000, "request_timeout_ms": 50});
        let (_driver, session, _) = lost(options).await;
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
