//! Allocations of operations.

use kvmark_driver::{Request, Values};
use kvmark_plan::Kind;
use kvmark_testing::client::{ask, assert_no_allocations, writing};
use kvmark_testing::server::TestServer as _;
use kvmark_testing::{CountingAllocator, request, session};
use serde_json::json;

use crate::real::Ferret;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
#[ignore = "needs ferretdb"]
fn an_operation_allocates_nothing_in_steady_state() {
    let server = Ferret::start();
    let values = Values { bytes: b"abc", places: &[(0, 0..1), (1, 1..2), (2, 2..3)] };
    let insert = writing(Kind::Insert, "k", values);
    ask(&session(&server.open(json!({})), 1), &insert);
    let some = Values { places: &values.places[..1], ..values };
    let update = Request { values: some, ..request(Kind::Update, "k") };
    let requests = [request(Kind::Read, "k"), request(Kind::Scan, "k"), update, insert];
    for connections in [0, 1] {
        assert_no_allocations(&server.open(json!({ "connections": connections })), &requests);
    }
}
