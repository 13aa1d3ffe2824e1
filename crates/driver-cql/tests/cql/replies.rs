//! Answers that a real node rarely or never sends.

use std::sync::atomic::{AtomicU32, Ordering};

use kvmark_driver::{Driver, Request, Session as _, Values};
use kvmark_plan::{Kind, Outcome};
use serde_json::{Value, json};

use crate::common::{Told, execute, layout, open, own_session, request, run, session};
use crate::peer::{Act, Peer};

/// Options of a session with two nodes.
const CLIENTS: u32 = 32;

/// The outcomes of sequential reads from a node with this initial behaviour.
fn outcomes(first: Act, options: Value, reads: usize) -> Vec<(Outcome, Vec<String>)> {
    let calls = AtomicU32::new(0);
    let peer = Peer::new(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => first.clone(),
        _ => Act::Row("k", "next"),
    });
    let driver = open(&peer.address, options, &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        let mut outcomes = Vec::new();
        for _ in 0..reads {
            let (outcome, cells, _) = execute(&session, &request(Kind::Read, "k")).await;
            outcomes.push((outcome, cells));
        }
        outcomes
    })
}

fn ok(value: &str) -> (Outcome, Vec<String>) {
    (Outcome::Ok, vec![format!("0.0={value}")])
}

#[test]
fn an_answer_may_be_split_and_may_follow_an_event() {
    for act in [Act::Split("k", "first"), Act::AfterEvent("k", "first")] {
        assert_eq!(outcomes(act, json!({}), 2), [ok("first"), ok("next")]);
    }
}

#[test]
fn a_malformed_answer_ends_its_connection_and_the_next_request_has_another() {
    let stray = Act::Stray("k", "first");
    for act in [stray, Act::TooLong, Act::OtherVersion, Act::Garbage] {
        let told = format!("{act:?}");
        let outcomes = outcomes(act, json!({}), 2);
        assert_eq!(outcomes[0].0, Outcome::Protocol, "{told}");
        assert_eq!(outcomes[1], ok("next"), "{told}");
    }
}

#[test]
fn answers_find_their_requests_in_any_order() {
    let calls = AtomicU32::new(0);
    // The third request is answered first, then the second and the first.
    let peer = Peer::new(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Act::Late("k", "one"),
        1 => Act::Late("k", "two"),
        _ => Act::Row("k", "three"),
    });
    let driver = open(&peer.address, json!({}), &layout(1)).unwrap();
    let mut session = own_session(&driver, 3);
    let mut told = Told::default();
    for client in 0..3 {
        session.submit(client, &request(Kind::Read, "k"));
    }
    while told.ended.len() < 3 {
        session.poll(u64::MAX, &mut told);
    }
    assert_eq!(told.values, ["0=one", "1=two", "2=three"]);
}

/// A node that loses every prepared statement once.
fn forgetful(times: u32) -> Peer {
    let calls = AtomicU32::new(0);
    Peer::new(move |text| {
        if calls.fetch_add(1, Ordering::SeqCst) < times {
            let mut id = (text.len() as u16).to_be_bytes().to_vec();
            id.extend_from_slice(text.as_bytes());
            Act::Error(0x2500, id)
        } else {
            Act::Row("k", "v")
        }
    })
}

#[test]
fn a_statement_that_a_node_lost_is_prepared_once_for_all_requests() {
    let peer = forgetful(5);
    let driver = open(&peer.address, json!({}), &layout(1)).unwrap();
    let mut session = own_session(&driver, 5);
    let mut told = Told::default();
    for client in 0..5 {
        session.submit(client, &request(Kind::Read, "k"));
    }
    while told.ended.len() < 5 {
        session.poll(u64::MAX, &mut told);
    }
    let all = told.ended.iter().all(|(_, outcome, _)| *outcome == Outcome::Ok);
    assert!(all, "{:?}", told.ended);
    let counted = driver.statistics();
    assert_eq!(counted["preparations"], 1.0);
    assert_eq!((counted["attempts"], counted["retries"]), (5.0 + 5.0, 0.0));
}

#[test]
fn a_node_that_repeatedly_loses_a_statement_fails_the_request() {
    let peer = forgetful(u32::MAX);
    let driver = open(&peer.address, json!({}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        assert_eq!(execute(&session, &request(Kind::Read, "k")).await.0, Outcome::Protocol);
    });
}

#[test]
fn unread_requests_of_one_node_do_not_delay_the_others() {
    let heard = AtomicU32::new(0);
    let peers = Peer::cluster(2, move |_, _| match heard.fetch_add(1, Ordering::SeqCst) {
        0 => Act::Deaf,
        _ => Act::Done,
    });
    let options = json!({"token_aware": false});
    let driver = open(&peers[0].address, options, &layout(1)).unwrap();
    let mut session = own_session(&driver, CLIENTS);
    let mut told = Told::default();
    let value = vec![b'x'; 1 << 20];
    let places = [(0, 0..value.len())];
    let values = Values { bytes: &value, places: &places };
    let write = Request { values, ..request(Kind::Insert, "k") };
    for client in 0..CLIENTS {
        session.submit(client, &write);
    }
    // Each node has half of them, some megabytes, which exceed a socket buffer.
    while told.ended.len() < CLIENTS as usize / 2 {
        session.poll(u64::MAX, &mut told);
    }
    assert!(told.ended.iter().all(|(_, outcome, _)| *outcome == Outcome::Ok), "{:?}", told.ended);
    session.poll(0, &mut told);
    assert_eq!(told.ended.len(), CLIENTS as usize / 2);
}
