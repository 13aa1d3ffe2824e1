//! Allocations of operations.

use kvmark_driver::Values;
use kvmark_plan::Kind;
use kvmark_testing::CountingAllocator;
use kvmark_testing::client::{assert_no_allocations, writing};
use serde_json::json;

use crate::scripted::{Server, open, response};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_write_allocates_nothing_in_steady_state() {
    let server = Server::of_sessions(|_, peer| peer.repeat(&response(200, "{}")));
    let values = Values { bytes: b"a\"bc", places: &[(0, 0..4)] };
    let writes = [Kind::Update, Kind::Insert, Kind::Delete].map(|kind| writing(kind, "k", values));
    for connections in [0, 1] {
        let driver = open(&server.address, json!({ "connections": connections })).unwrap();
        assert_no_allocations(&driver, &writes);
    }
}
