//! The five kinds of operation that a session executes.

use kvmark_driver::{Columns, Driver, Request};
use kvmark_plan::{Kind, Outcome};
use rocksdb::{DB, Options};
use serde_json::json;

use crate::common::{Fresh, TABLE, cells, execute, insert, open, read, request, session, write};

fn owned(fields: &[(u32, &str)]) -> Vec<(u32, String)> {
    fields.iter().map(|(field, value)| (*field, (*value).to_owned())).collect()
}

fn scan(fresh: &Fresh, key: &str, length: u64) -> Vec<(u32, u32, String)> {
    let scan = Request { scan_length: length, ..request(Kind::Scan, key) };
    let (outcome, reply) = execute(&fresh.session, &scan);
    assert_eq!(outcome, Outcome::Ok);
    cells(&reply)
}

/// Writes bytes to the table without the driver.
fn plant(fresh: Fresh, key: &str, bytes: &[u8]) -> Fresh {
    let path = fresh.path();
    let folder = fresh.close();
    {
        let db = DB::open_cf(&Options::default(), &path, [TABLE]).unwrap();
        db.put_cf(db.cf_handle(TABLE).unwrap(), key, bytes).unwrap();
    }
    let driver = open(&path, json!({})).unwrap();
    let session = session(&driver);
    Fresh { folder, driver, session }
}

#[test]
fn an_inserted_record_is_read() {
    let fresh = Fresh::new();
    assert_eq!(insert(&fresh.session, "k", &[(0, "a"), (1, ""), (2, "c")]), Outcome::Ok);
    assert_eq!(read(&fresh.session, "k"), owned(&[(0, "a"), (1, ""), (2, "c")]));
}

#[test]
fn an_insert_over_a_record_replaces_it() {
    let fresh = Fresh::new();
    insert(&fresh.session, "k", &[(0, "a"), (1, "b")]);
    insert(&fresh.session, "k", &[(0, "c")]);
    assert_eq!(read(&fresh.session, "k"), owned(&[(0, "c")]));
}

#[test]
fn the_stored_bytes_are_those_of_ycsb() {
    let fresh = Fresh::new();
    insert(&fresh.session, "user1", &[(0, "ab"), (2, "c")]);
    let path = fresh.path();
    let _folder = fresh.close();
    let db = DB::open_cf(&Options::default(), &path, [TABLE]).unwrap();
    let stored = db.get_cf(db.cf_handle(TABLE).unwrap(), "user1").unwrap().unwrap();
    assert_eq!(stored, b"\0\0\0\x06field0\0\0\0\x02ab\0\0\0\x06field2\0\0\0\x01c");
}

#[test]
fn a_record_that_ycsb_wrote_in_another_order_is_read() {
    let stored = b"\0\0\0\x06field2\0\0\0\x01c\0\0\0\x05other\0\0\0\0\0\0\0\x06field0\0\0\0\x02ab";
    let fresh = plant(Fresh::new(), "user1", stored);
    assert_eq!(read(&fresh.session, "user1"), owned(&[(2, "c"), (0, "ab")]));
}

#[test]
fn a_read_of_one_field_gives_that_field() {
    let fresh = Fresh::new();
    insert(&fresh.session, "k", &[(0, "a"), (1, "b"), (2, "c")]);
    let one = Request { columns: Columns::One(1), ..request(Kind::Read, "k") };
    let (outcome, reply) = execute(&fresh.session, &one);
    assert_eq!((outcome, reply.rows), (Outcome::Ok, 1));
    assert_eq!(cells(&reply), [(0, 1, "b".to_owned())]);
}

#[test]
fn reads_are_compared_with_the_expected_values() {
    let fresh = Fresh::new();
    kvmark_testing::run(kvmark_testing::assert_compares(&fresh.session));
}

#[test]
fn cells_are_filled_only_when_values_are_wanted() {
    let fresh = Fresh::new();
    insert(&fresh.session, "k", &[(0, "a")]);
    let blind = Request { wants_values: false, ..request(Kind::Read, "k") };
    let (outcome, reply) = execute(&fresh.session, &blind);
    assert_eq!((outcome, reply.rows), (Outcome::Ok, 1));
    assert!(reply.cells.is_empty() && reply.bytes.is_empty());
}

#[test]
fn an_update_merges_its_fields_into_the_record() {
    let fresh = Fresh::new();
    insert(&fresh.session, "k", &[(0, "a"), (1, "b")]);
    assert_eq!(write(&fresh.session, Kind::Update, "k", &[(1, "new"), (2, "c")]), Outcome::Ok);
    assert_eq!(read(&fresh.session, "k"), owned(&[(0, "a"), (1, "new"), (2, "c")]));
}

#[test]
fn reads_and_updates_of_a_missing_record_miss_and_create_nothing() {
    let fresh = Fresh::new();
    assert_eq!(write(&fresh.session, Kind::Update, "k", &[(0, "a")]), Outcome::Miss);
    let (outcome, reply) = execute(&fresh.session, &request(Kind::Read, "k"));
    assert_eq!((outcome, reply.rows), (Outcome::Miss, 0));
    assert_eq!(fresh.session.last_failure(), None);
}

#[test]
fn a_delete_is_blind_and_the_record_is_gone() {
    let fresh = Fresh::new();
    insert(&fresh.session, "k", &[(0, "a")]);
    for _ in 0..2 {
        assert_eq!(execute(&fresh.session, &request(Kind::Delete, "k")).0, Outcome::Ok);
    }
    assert_eq!(execute(&fresh.session, &request(Kind::Read, "k")).0, Outcome::Miss);
}

#[test]
fn a_scan_gives_records_in_key_order_from_its_key_on() {
    let fresh = Fresh::new();
    for key in ["k3", "k1", "k4", "k2"] {
        insert(&fresh.session, key, &[(0, key)]);
    }
    let rows = |expected: &[(u32, &str)]| -> Vec<(u32, u32, String)> {
        expected.iter().map(|(row, value)| (*row, 0, (*value).to_owned())).collect()
    };
    assert_eq!(scan(&fresh, "k2", 2), rows(&[(0, "k2"), (1, "k3")]));
    assert_eq!(scan(&fresh, "k25", 1), rows(&[(0, "k3")]));
}

#[test]
fn a_scan_past_the_end_returns_the_existing_records() {
    let fresh = Fresh::new();
    insert(&fresh.session, "k1", &[(0, "a")]);
    insert(&fresh.session, "k2", &[(0, "b")]);
    assert_eq!(scan(&fresh, "k2", 10).len(), 1);
    assert_eq!(scan(&fresh, "k3", 10).len(), 0);
    assert_eq!(scan(&fresh, "k1", 0).len(), 0);
}

#[test]
fn a_damaged_record_is_a_protocol_failure_that_names_its_key() {
    let fresh = plant(Fresh::new(), "bad", b"\0\0\0\x06field0\0\0\xff\xffab");
    for kind in [Kind::Read, Kind::Scan] {
        let asked = Request { scan_length: 1, ..request(kind, "bad") };
        assert_eq!(execute(&fresh.session, &asked).0, Outcome::Protocol);
    }
    assert_eq!(write(&fresh.session, Kind::Update, "bad", &[(0, "a")]), Outcome::Protocol);
    let failure = fresh.session.last_failure().unwrap();
    assert!(failure.contains("the record of key \"bad\" can't be decoded"), "{failure}");
}

#[test]
fn a_record_is_decoded_only_where_its_values_are_wanted() {
    let half = b"\0\0\0\x06field0\0\0\0\x01a\0\0\0\x06field1\0\0\xff\xffb";
    let fresh = plant(Fresh::new(), "half", half);
    let blind = Request { wants_values: false, ..request(Kind::Read, "half") };
    let (outcome, reply) = execute(&fresh.session, &blind);
    assert_eq!((outcome, reply.rows), (Outcome::Ok, 1));
    let one = Request { columns: Columns::One(0), ..request(Kind::Read, "half") };
    let (outcome, reply) = execute(&fresh.session, &one);
    assert_eq!((outcome, cells(&reply)), (Outcome::Ok, vec![(0, 0, "a".to_owned())]));
    let damaged = Request { columns: Columns::One(1), ..one };
    assert_eq!(execute(&fresh.session, &damaged).0, Outcome::Protocol);
}

#[test]
fn a_read_modify_write_is_left_to_the_engine() {
    let fresh = Fresh::new();
    let (outcome, _) = execute(&fresh.session, &request(Kind::ReadModifyWrite, "k"));
    assert_eq!(outcome, Outcome::Refused);
    assert_eq!(fresh.driver.capabilities().kinds, Kind::ALL);
}

#[test]
fn sessions_see_each_others_writes() {
    let fresh = Fresh::new();
    let other = session(&fresh.driver);
    insert(&fresh.session, "k", &[(0, "a")]);
    assert_eq!(read(&other, "k"), owned(&[(0, "a")]));
}

#[test]
fn data_is_kept_when_the_database_is_opened_again() {
    for wal in [true, false] {
        let fresh = Fresh::with(json!({"wal": wal}));
        insert(&fresh.session, "k", &[(0, "a")]);
        let path = fresh.path();
        let _folder = fresh.close();
        let driver = open(&path, json!({})).unwrap();
        assert_eq!(read(&session(&driver), "k"), owned(&[(0, "a")]));
    }
}
