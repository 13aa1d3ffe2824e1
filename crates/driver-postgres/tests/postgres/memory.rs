//! Allocations of operations.

use kvmark_driver::{Request, Values};
use kvmark_plan::Kind;
use kvmark_testing::client::assert_no_allocations;
use kvmark_testing::{Bound, CountingAllocator, layout_of};
use serde_json::json;

use crate::common::{open, open_layout, request, with_session, writing};
use crate::real::Server;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
#[ignore = "needs postgres"]
fn an_operation_allocates_nothing_in_steady_state() {
    let server = Server::start(&["fsync=off"]);
    let values = Values { bytes: b"abc", places: &[(0, 0..1), (1, 1..2), (2, 2..3)] };
    let insert = writing(Kind::Insert, "k", values);
    with_session(&open(&server.address, json!({})).unwrap(), async |session| {
        crate::common::outcome(&session, &insert).await;
    });
    let text = "SELECT field0 FROM usertable WHERE ycsb_key = {key}";
    let layout = kvmark_driver::Layout {
        field_names: kvmark_testing::layout(3).field_names,
        ..layout_of(&[text])
    };
    let several = Bound::new(0).command("k", "", &[]).command("k", "", &[]);
    let some = Values { places: &values.places[..1], ..values };
    let requests = [
        request(Kind::Read, "k"),
        request(Kind::Scan, "k"),
        Request { values: some, ..request(Kind::Update, "k") },
        insert,
        several.request(Kind::Read),
    ];
    for connections in [0, 1] {
        let options = json!({ "connections": connections });
        let driver = open_layout(&server.address, options, &layout).unwrap();
        assert_no_allocations(&driver, &requests);
    }
}
