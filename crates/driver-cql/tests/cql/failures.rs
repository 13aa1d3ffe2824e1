//! Failures and their outcomes.

use std::sync::atomic::{AtomicU32, Ordering};

use kvmark_driver::{Columns, Driver, Request};
use kvmark_plan::{Kind, Outcome};
use serde_json::{Value, json};

use crate::common::{execute, layout, open, refusal, request, run, session};
use crate::peer::{Act, Peer};

const QUORUM: [u8; 2] = [0, 4];

/// Consistency, received, required.
fn counts(received: u32, required: u32) -> Vec<u8> {
    let mut more = QUORUM.to_vec();
    more.extend(received.to_be_bytes());
    more.extend(required.to_be_bytes());
    more
}

fn with(mut more: Vec<u8>, tail: &[u8]) -> Vec<u8> {
    more.extend_from_slice(tail);
    more
}

/// The outcome and failure text of a read from a node with this behaviour.
fn outcome_of(act: Act, options: Value) -> (Outcome, String) {
    let peer = Peer::new(move |_| act.clone());
    let driver = open(&peer.address, options, &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        let (outcome, ..) = execute(&session, &request(Kind::Read, "k")).await;
        (outcome, session.last_failure().unwrap_or_default())
    })
}

#[test]
fn a_scripted_row_is_read() {
    let peer = Peer::new(|_| Act::Row("k", "v"));
    let driver = open(&peer.address, json!({}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        let one = Request { columns: Columns::One(0), ..request(Kind::Read, "k") };
        for read in [request(Kind::Read, "k"), one] {
            let (outcome, cells, reply) = execute(&session, &read).await;
            assert_eq!((outcome, cells.as_slice()), (Outcome::Ok, &["0.0=v".to_owned()][..]));
            assert_eq!(reply.rows, 1);
        }
    });
    assert!(driver.statistics()["attempts"] >= 2.0);
}

#[test]
fn each_error_of_a_node_has_its_outcome() {
    let simple = b"\0\x06SIMPLE";
    let cases = [
        (0x1000, counts(2, 1), Outcome::Unavailable),
        (0x1001, Vec::new(), Outcome::Overloaded),
        (0x1002, Vec::new(), Outcome::Unavailable),
        (0x1003, Vec::new(), Outcome::Storage),
        (0x1100, with(counts(0, 1), simple), Outcome::Timeout),
        (0x1200, with(counts(0, 1), &[0]), Outcome::Timeout),
        (0x1300, with(counts(0, 1), &[0, 0, 0, 1, 0]), Outcome::Storage),
        (0x1500, with(with(counts(0, 1), &[0, 0, 0, 1]), simple), Outcome::Storage),
        (0x2000, Vec::new(), Outcome::Refused),
        (0x2100, Vec::new(), Outcome::Refused),
        (0x000a, Vec::new(), Outcome::Protocol),
        (0x0000, Vec::new(), Outcome::Storage),
    ];
    for (code, more, expected) in cases {
        let (outcome, text) = outcome_of(Act::Error(code, more), json!({}));
        assert_eq!(outcome, expected, "{code:#x}: {text}");
        assert!(text.starts_with("a node answered: scripted"), "{text}");
    }
}

#[test]
fn a_malformed_frame_is_a_protocol_failure() {
    assert_eq!(outcome_of(Act::Garbage, json!({})).0, Outcome::Protocol);
    assert_eq!(outcome_of(Act::Nonsense, json!({})).0, Outcome::Protocol);
}

#[test]
fn a_node_that_closes_within_a_frame_is_a_failed_connection() {
    assert_eq!(outcome_of(Act::Close, json!({})).0, Outcome::Connection);
}

#[test]
fn a_node_that_never_answers_is_a_timeout() {
    let (outcome, text) = outcome_of(Act::Silence, json!({"request_timeout_ms": 50}));
    assert_eq!(outcome, Outcome::Timeout);
    // The session's own timeout, because the node sent nothing.
    assert_eq!(text, "given up: no answer within request_timeout_ms (50)");
}

#[test]
fn a_configured_retry_is_made_and_counted() {
    for (retry, expected) in [("none", (Outcome::Timeout, 1)), ("default", (Outcome::Ok, 2))] {
        let calls = AtomicU32::new(0);
        let peer = Peer::new(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => Act::Error(0x1200, with(counts(1, 1), &[0])),
            _ => Act::Row("k", "v"),
        });
        let driver = open(&peer.address, json!({ "retry": retry }), &layout(1)).unwrap();
        let outcome = run(execute(&session(&driver), &request(Kind::Read, "k"))).0;
        assert_eq!((outcome, peer.asked().len()), expected, "{retry}");
        assert_eq!(driver.statistics()["retries"], expected.1 as f64 - 1.0);
    }
}

#[test]
fn a_write_that_counts_as_applied_returns_no_earlier_values() {
    let peer = Peer::new(|text| match text.starts_with("SELECT") {
        true => Act::Row("k", "v"),
        false => Act::Error(0x1100, with(counts(1, 2), b"\0\x06SIMPLE")),
    });
    let driver = open(&peer.address, json!({"retry": "downgrading"}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        assert_eq!(execute(&session, &request(Kind::Read, "k")).await.2.rows, 1);
        let (outcome, cells, reply) = execute(&session, &request(Kind::Delete, "k")).await;
        assert_eq!((outcome, cells.len(), reply.rows), (Outcome::Ok, 0, 0));
    });
}

#[test]
fn a_write_has_the_outcome_of_its_node() {
    let peer = Peer::new(|_| Act::Done);
    let driver = open(&peer.address, json!({}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        assert_eq!(execute(&session, &request(Kind::Delete, "k")).await.0, Outcome::Ok);
    });
}

#[test]
fn a_level_that_system_tables_lack_applies_only_to_records() {
    let peer = Peer::new(|_| Act::Done);
    let options = json!({"write_consistency": "two", "read_consistency": "one"});
    let driver = open(&peer.address, options, &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        assert_eq!(execute(&session, &request(Kind::Delete, "k")).await.0, Outcome::Ok);
    });
}

#[test]
fn warnings_of_a_node_are_counted() {
    let peer = Peer::new(|_| Act::Warning("Read 1 live rows and 2000 tombstone cells for query"));
    let driver = open(&peer.address, json!({}), &layout(1)).unwrap();
    run(async {
        let session = session(&driver);
        for _ in 0..3 {
            assert_eq!(execute(&session, &request(Kind::Delete, "k")).await.0, Outcome::Ok);
        }
    });
    let counted = driver.statistics();
    assert_eq!((counted["warnings"], counted["warnings_tombstone"]), (3.0, 3.0));
}

#[test]
fn a_silent_server_is_reported_within_the_limit() {
    let peer = Peer::mute();
    let error = refusal(&peer.address, json!({"connect_timeout_ms": 100}), &layout(1));
    assert!(error.starts_with(&format!("can't use the cluster at {}", peer.address)), "{error}");
}

#[test]
fn a_closed_port_is_reported_without_the_password() {
    let address = "ann:sesame@127.0.0.1:1";
    let error = refusal(address, json!({"connect_timeout_ms": 500}), &layout(1));
    assert!(error.starts_with("can't use the cluster at 127.0.0.1:1: "), "{error}");
    assert!(!error.contains("sesame"), "{error}");
}
