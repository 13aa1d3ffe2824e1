//! YCSB's layout on a real node.

use kvmark_driver::{Columns, Driver, Request, Values};
use kvmark_plan::{Kind, Outcome};
use serde_json::json;

use crate::common::{execute, layout, node, open, refusal, request, run, session};

fn insert(key: &str) -> Request<'_> {
    let values = Values { bytes: b"aabbb", places: &[(0, 0..2), (1, 2..5)] };
    Request { values, ..request(Kind::Insert, key) }
}

#[test]
#[ignore = "needs a node of Cassandra"]
fn a_record_is_written_read_changed_and_removed() {
    let address = node("kvmark_test_records");
    let driver = open(&address, json!({"compression": "lz4"}), &layout(2)).unwrap();
    assert_eq!(driver.describe().configuration["nodes"], "1");
    assert!(driver.describe().configuration.contains_key("concurrent_reads"));
    run(async {
        let session = session(&driver);
        assert_eq!(execute(&session, &insert("k")).await.0, Outcome::Ok);
        let (outcome, cells, reply) = execute(&session, &request(Kind::Read, "k")).await;
        assert_eq!((outcome, reply.rows), (Outcome::Ok, 1));
        assert_eq!(cells, ["0.0=aa", "0.1=bbb"]);
        let change = Values { bytes: b"z", places: &[(1, 0..1)] };
        let update = Request { values: change, ..request(Kind::Update, "k") };
        assert_eq!(execute(&session, &update).await.0, Outcome::Ok);
        let by_name = Request { columns: Columns::AllByName, ..request(Kind::Read, "k") };
        assert_eq!(execute(&session, &by_name).await.1, ["0.0=aa", "0.1=z"]);
        let one = Request { columns: Columns::One(1), ..request(Kind::Read, "k") };
        assert_eq!(execute(&session, &one).await.1, ["0.1=z"]);
        let both = Request { kind: Kind::Update, ..insert("k") };
        assert_eq!(execute(&session, &both).await.0, Outcome::Ok);
        assert_eq!(execute(&session, &one).await.1, ["0.1=bbb"]);
        assert_eq!(execute(&session, &request(Kind::Delete, "k")).await.0, Outcome::Ok);
        let (outcome, cells, reply) = execute(&session, &by_name).await;
        assert_eq!((outcome, cells.len(), reply.rows), (Outcome::Miss, 0, 0));
    });
}

#[test]
#[ignore = "needs a node of Cassandra"]
fn a_scan_continues_over_pages_up_to_its_length() {
    let address = node("kvmark_test_scans");
    let driver = open(&address, json!({"page_size": 2}), &layout(2)).unwrap();
    run(async {
        let session = session(&driver);
        for key in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(execute(&session, &insert(key)).await.0, Outcome::Ok);
        }
        let mut most = 0;
        for key in ["a", "b", "c", "d", "e", "f"] {
            let scan = Request { scan_length: 5, ..request(Kind::Scan, key) };
            let (outcome, cells, reply) = execute(&session, &scan).await;
            assert_eq!(outcome, Outcome::Ok);
            assert_eq!(cells.len() as u64, 2 * reply.rows);
            assert_eq!(reply.cells.last().unwrap().row + 1, reply.rows as u32);
            most = most.max(reply.rows);
        }
        assert_eq!(most, 5, "the key with the lowest token has five others behind it");
    });
}

#[test]
#[ignore = "needs a node of Cassandra"]
fn a_table_that_does_not_fit_is_rejected_with_the_difference() {
    let address = node("kvmark_test_unlike");
    drop(open(&address, json!({}), &layout(2)).unwrap());
    let error = refusal(&address, json!({}), &layout(4));
    assert!(error.contains("usertable doesn't fit this workload"), "{error}");
    assert!(error.contains("it has no column field2, field3"), "{error}");
}

#[test]
#[ignore = "needs a node of Cassandra"]
fn an_idle_node_is_settled_and_has_a_description() {
    let address = node("kvmark_test_idle");
    let driver = open(&address, json!({}), &layout(2)).unwrap();
    driver.settle().unwrap();
    let description = driver.describe();
    assert_ne!(description.version, "unknown");
    let told = format!("{:?}", description.configuration);
    assert!(!told.contains("listen_address") && told.contains("SimpleStrategy"), "{told}");
}
