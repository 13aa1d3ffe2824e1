//! Records in a real server, in YCSB's layout.

use kvmark_driver::{Columns, Driver, Request, Values};
use kvmark_plan::{Kind, Outcome};
use serde_json::json;

use crate::common::{ask, execute, open, outcome, read, refusal, request, with_session, writing};
use crate::real::Server;

const ABC: Values<'static> =
    Values { bytes: b"a\xff\0c", places: &[(0, 0..1), (1, 1..3), (2, 3..4)] };

#[test]
#[ignore = "needs postgres"]
fn records_are_rows_of_ycsbs_table_and_scanned_in_the_order_of_the_keys_bytes() {
    let server = Server::start(&[]);
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        for key in ["k", "a", "Z"] {
            assert_eq!(outcome(&session, &writing(Kind::Insert, key, ABC)).await, Outcome::Ok);
        }
        let part = Values { bytes: b"d", places: &[(1, 0..1)] };
        assert_eq!(outcome(&session, &writing(Kind::Insert, "x", part)).await, Outcome::Refused);
        let scan = Request { scan_length: 2, columns: Columns::One(0), ..request(Kind::Scan, "Y") };
        let found = ["0.0=a", "1.0=a"].map(str::to_owned).to_vec();
        assert_eq!(execute(&session, 0, &scan).await, (Outcome::Ok, found));
        assert_eq!(outcome(&session, &request(Kind::Delete, "k")).await, Outcome::Ok);
    });
    let query = "SELECT ycsb_key, encode(field1, 'hex') AS field1 FROM usertable ORDER BY 1";
    let row = |key| json!({ "ycsb_key": key, "field1": "ff00" });
    assert_eq!(ask(&server.address, query).unwrap(), json!([row("Z"), row("a")]));
}

#[test]
#[ignore = "needs postgres"]
fn ycsbs_own_table_is_used_and_another_one_rejected() {
    let server = Server::start(&[]);
    let create = "CREATE TABLE usertable (YCSB_KEY VARCHAR(255) PRIMARY KEY, FIELD0 TEXT, \
                  FIELD1 TEXT, FIELD2 TEXT)";
    ask(&server.address, create).unwrap();
    let driver = open(&server.address, json!({})).unwrap();
    with_session(&driver, async |session| {
        let values = Values { bytes: b"abc", places: &[(0, 0..1), (1, 1..2), (2, 2..3)] };
        assert_eq!(outcome(&session, &writing(Kind::Insert, "k", values)).await, Outcome::Ok);
        assert_eq!(read(&session, 0, "k").await.1, ["0.0=a", "0.1=b", "0.2=c"]);
        // Text has no zero byte.
        assert_eq!(outcome(&session, &writing(Kind::Insert, "k", ABC)).await, Outcome::Refused);
        let why = session.last_failure().unwrap();
        assert!(why.contains("invalid byte sequence") && why.ends_with("(22021)"), "{why}");
    });
    ask(&server.address, "ALTER TABLE usertable DROP COLUMN field2").unwrap();
    let error = refusal(&server.address, json!({}));
    let expected = "the table usertable doesn't fit this workload, because it has no column \
                    field2: drop it or name another database";
    assert_eq!(error, expected);
}

#[test]
#[ignore = "needs postgres"]
fn the_server_has_a_description_and_statistics() {
    let server = Server::start(&["fsync=off", "work_mem=5MB"]);
    let driver = open(&server.address, json!({})).unwrap();
    let description = driver.describe();
    assert_eq!(description.system, "PostgreSQL");
    assert!(description.version.starts_with(|digit: char| digit.is_ascii_digit()));
    let configuration = description.configuration;
    assert_eq!((&*configuration["work_mem"], &*configuration["durability"]), ("5120", "process"));
    assert!(!configuration.contains_key("port") && !configuration.contains_key("data_directory"));
    let off = open(&server.address, json!({ "synchronous_commit": "off" })).unwrap();
    assert_eq!(off.describe().configuration["durability"], "none");
    ask(&server.address, "ALTER TABLE usertable SET UNLOGGED").unwrap();
    let unlogged = open(&server.address, json!({})).unwrap();
    assert_eq!(unlogged.describe().configuration["durability"], "none");
    driver.settle().unwrap();
    let statistics = driver.statistics();
    assert!(statistics["wal_bytes"] > 0.0 && statistics["numbackends"] >= 1.0, "{statistics:?}");
}
