//! The format of stored records.

use kvmark_driver::{Columns, Request};
use kvmark_plan::{Kind, Outcome};
use rocksdb::{DB, Options};
use serde_json::json;

use crate::common::{Fresh, TABLE, cells, execute, insert, open, read, request, session, write};

fn owned(fields: &[(u32, &str)]) -> Vec<(u32, String)> {
    fields.iter().map(|(field, value)| (*field, (*value).to_owned())).collect()
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
fn cells_are_filled_only_when_values_are_wanted() {
    let fresh = Fresh::new();
    insert(&fresh.session, "k", &[(0, "a")]);
    let blind = Request { wants_values: false, ..request(Kind::Read, "k") };
    let (outcome, reply) = execute(&fresh.session, &blind);
    assert_eq!((outcome, reply.rows), (Outcome::Ok, 1));
    assert!(reply.cells.is_empty() && reply.bytes.is_empty());
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
