//! Many clients of one session.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use futures_util::future::{Either, join_all, select};
use kvmark_driver::Session as _;
use kvmark_plan::{Kind, Outcome};
use serde_json::json;

use crate::common::{
    Session, Told, execute, execute_as, layout, open, own_session, request, run, session,
};
use crate::peer::{Act, Peer};

const CLIENTS: u32 = 64;

/// Delays the first answers, each until the next undelayed request.
fn late_at_first(late: u32) -> impl Fn(&str) -> Act {
    let calls = AtomicU32::new(0);
    move |_| {
        if calls.fetch_add(1, Ordering::SeqCst) < late {
            Act::Late("k", "late")
        } else {
            Act::Row("k", "v")
        }
    }
}

/// Submits a request and gives it up when the node has received this number.
async fn give_up_when_heard(session: &Session, peer: &Peer, requests: usize) {
    let read = request(Kind::Read, "k");
    let asking = pin!(execute(session, &read));
    let heard = poll_fn(|context| {
        context.waker().wake_by_ref();
        if peer.asked().len() >= requests { Poll::Ready(()) } else { Poll::Pending }
    });
    let first = select(asking, heard).await;
    assert!(matches!(first, Either::Right(_)), "it was answered");
}

#[test]
fn requests_of_all_clients_are_in_flight_at_once() {
    let peer = Peer::new(late_at_first(CLIENTS - 1));
    let driver = open(&peer.address, json!({"request_timeout_ms": 60_000}), &layout(1)).unwrap();
    let session = kvmark_testing::session(&driver, CLIENTS);
    let read = request(Kind::Read, "k");
    let all = (0..CLIENTS).map(|client| execute_as(&session, client, &read));
    let done = run(join_all(all));
    assert!(done.iter().all(|(outcome, ..)| *outcome == Outcome::Ok), "{done:?}");
    assert_eq!(done.iter().filter(|(_, cells, _)| *cells == ["0.0=v"]).count(), 1);
}

#[test]
fn an_abandoned_request_leaves_the_connection_usable() {
    let calls = AtomicU32::new(0);
    let peer = Peer::new(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Act::Silence,
        _ => Act::Row("k", "v"),
    });
    let driver = open(&peer.address, json!({}), &layout(1)).unwrap();
    let session = session(&driver);
    run(async {
        give_up_when_heard(&session, &peer, 1).await;
        assert_eq!(execute(&session, &request(Kind::Read, "k")).await.0, Outcome::Ok);
    });
}

#[test]
fn the_late_answer_to_an_abandoned_request_does_not_answer_the_next_one() {
    let peer = Peer::new(late_at_first(3));
    let driver = open(&peer.address, json!({}), &layout(1)).unwrap();
    let session = session(&driver);
    run(async {
        for requests in 1..=3 {
            give_up_when_heard(&session, &peer, requests).await;
        }
        for _ in 0..3 {
            let (outcome, cells, _) = execute(&session, &request(Kind::Read, "k")).await;
            assert_eq!((outcome, cells), (Outcome::Ok, vec!["0.0=v".to_owned()]));
        }
    });
    assert_eq!(peer.asked().len(), 6);
}

#[test]
fn a_poll_without_patience_sends_and_does_not_wait() {
    let peer = Peer::new(|_| Act::Silence);
    let driver = open(&peer.address, json!({"request_timeout_ms": 0}), &layout(1)).unwrap();
    let mut session = own_session(&driver, 2);
    let mut told = Told::default();
    session.poll(0, &mut told);
    session.submit(1, &request(Kind::Read, "k"));
    assert!(told.issued.is_empty());
    while peer.asked().is_empty() {
        session.poll(0, &mut told);
    }
    assert_eq!((told.issued, told.ended), (vec![1], Vec::new()));
}

#[test]
fn an_immediate_failure_does_not_block_other_requests() {
    let peer = Peer::new(|_| Act::Row("k", "v"));
    let driver = open(&peer.address, json!({}), &layout(2)).unwrap();
    let mut session = own_session(&driver, 2);
    let mut told = Told::default();
    session.submit(0, &request(Kind::Read, "k"));
    // A write without fields isn't supported.
    let ended = |told: &Told, ticket, outcome| {
        told.ended.iter().any(|ended| (ended.0, ended.1) == (ticket, outcome))
    };
    while !ended(&told, 0, Outcome::Ok) {
        session.submit(1, &request(Kind::Update, "k"));
        session.poll(u64::MAX, &mut told);
    }
    assert!(ended(&told, 1, Outcome::Refused));
}
