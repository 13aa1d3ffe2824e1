//! Allocations of operations.

use kvmark_driver::{Request, Values};
use kvmark_plan::Kind;
use kvmark_testing::client::assert_no_allocations;
use kvmark_testing::{Bound, CountingAllocator, layout_of};
use serde_json::json;

use crate::common::{open_layout, request};
use crate::scripted::{Server, item, record};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn answer(command: &str) -> String {
    match command.split(' ').next().unwrap() {
        "version" => "VERSION 1.6.18\r\n".to_owned(),
        "get" if command.contains("usertable") => record("a"),
        "get" => {
            command.split(' ').skip(1).map(|key| item(key, "value")).collect::<String>() + "END\r\n"
        }
        "gets" => "VALUE usertable-a 0 14 7\r\n{\"field0\":\"x\"}\r\nEND\r\n".to_owned(),
        "delete" => "DELETED\r\n".to_owned(),
        "incr" => "5\r\n".to_owned(),
        _ => "STORED\r\n".to_owned(),
    }
}

#[test]
fn an_operation_allocates_nothing_in_steady_state() {
    let server = || Server::new(|_, peer| peer.answer(answer));
    let (one, other) = (server(), server());
    let values = Values { bytes: b"a\"bc", places: &[(0, 0..4)] };
    let some = Values { bytes: b"abc", places: &[(1, 0..3)] };
    let get = Bound::new(0).command("a", "", &["b", "c", "d"]);
    let set = ["a", "b", "c"].iter();
    let set = set.fold(Bound::new(1), |bound, key| bound.command(key, "1", &[]));
    let requests = [
        request(Kind::Read, "a"),
        Request { values: some, ..request(Kind::Update, "a") },
        Request { values, ..request(Kind::Insert, "a") },
        request(Kind::Delete, "a"),
        get.request(Kind::Read),
        set.request(Kind::Insert),
    ];
    let layout = kvmark_driver::Layout {
        field_names: vec!["field0".to_owned(), "field1".to_owned()],
        ..layout_of(&["GET {key} [{item}]", "SET {key} x{value} EX 60; INCR {key} 1"])
    };
    let both = format!("{},{}", one.address, other.address);
    for (address, connections) in [(&one.address, 0), (&one.address, 1), (&both, 2)] {
        let options = json!({ "connections": connections });
        let driver = open_layout(address, options, &layout).unwrap();
        assert_no_allocations(&driver, &requests);
    }
}
