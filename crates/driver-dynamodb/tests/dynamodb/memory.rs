//! Allocations of operations.

use kvmark_driver::{AnySession, Driver, Request, Values};
use kvmark_plan::Kind;
use kvmark_testing::{CountingAllocator, carry_out, ends_allocating, request};
use serde_json::json;

use crate::scripted::{Server, open, response};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_write_allocates_nothing_in_steady_state() {
    let server = Server::of_sessions(|_, peer| {
        while peer.hear().is_some() {
            peer.say(&response(200, "{}"));
        }
    });
    let values = Values { bytes: b"a\"bc", places: &[(0, 0..4)] };
    for connections in [0, 1] {
        let driver = open(&server.address, json!({ "connections": connections })).unwrap();
        let AnySession::Asynchronous(mut session) = driver.session(4).unwrap();
        for kind in [Kind::Update, Kind::Insert, Kind::Delete] {
            let all = [Request { values, ..request(kind, "k") }; 4];
            assert!(ends_allocating(|| carry_out(&mut session, &all)), "{kind:?}");
        }
    }
}
