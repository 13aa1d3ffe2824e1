//! Concurrent writers of one record don't undo each other's writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use kvmark_driver::Driver;
use kvmark_driver_rocksdb::RocksDb;
use kvmark_plan::{Kind, Outcome};

use crate::common::{Fresh, Session, execute, insert, read, request, session, write};

const ROUNDS: u32 = 20_000;
const KEY: &str = "k";

/// Runs a function while another client continuously updates field 1 of the same record.
fn beside_updates(client: impl FnOnce(&RocksDb, &Session)) {
    let Fresh { driver, session: own, folder: _folder } = Fresh::new();
    insert(&own, KEY, &[(0, "a"), (1, "b")]);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let session = session(&driver);
            while !over.load(Ordering::Relaxed) {
                let outcome = write(&session, Kind::Update, KEY, &[(1, "other")]);
                assert!([Outcome::Ok, Outcome::Miss].contains(&outcome), "{outcome:?}");
            }
        });
        let _ends = Ends(&over);
        client(&driver, &own);
    });
}

/// Ends the other client, also if an assertion fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn numbers() -> impl Iterator<Item = String> {
    (0..ROUNDS).map(|number| number.to_string())
}

/// The value of field 0, which the other client never writes.
fn own_field(session: &Session) -> Option<String> {
    read(session, KEY).into_iter().find_map(|(field, value)| (field == 0).then_some(value))
}

#[test]
fn updates_of_different_fields_of_one_record_are_all_kept() {
    beside_updates(|_, session| {
        for number in numbers() {
            assert_eq!(write(session, Kind::Update, KEY, &[(0, &number)]), Outcome::Ok);
            assert_eq!(own_field(session), Some(number));
        }
    });
}

#[test]
fn an_update_brings_back_nothing_that_an_insert_replaced() {
    beside_updates(|_, session| {
        for number in numbers() {
            assert_eq!(insert(session, KEY, &[(0, &number), (1, "b")]), Outcome::Ok);
            assert_eq!(own_field(session), Some(number));
        }
    });
}

#[test]
fn an_update_brings_no_deleted_record_back() {
    beside_updates(|_, session| {
        for number in numbers() {
            assert_eq!(insert(session, KEY, &[(0, &number), (1, "b")]), Outcome::Ok);
            assert_eq!(execute(session, &request(Kind::Delete, KEY)).0, Outcome::Ok);
            assert_eq!(execute(session, &request(Kind::Read, KEY)).0, Outcome::Miss);
        }
    });
}

#[test]
fn a_write_that_is_really_lost_is_seen_by_these_tests() {
    let fresh = Fresh::new();
    insert(&fresh.session, KEY, &[(0, "a"), (1, "b")]);
    assert_eq!(own_field(&fresh.session).as_deref(), Some("a"));
    insert(&session(&fresh.driver), KEY, &[(1, "other")]);
    assert_eq!(own_field(&fresh.session), None);
}

#[test]
fn waits_of_writers_for_each_other_are_counted() {
    let waits = |driver: &RocksDb| driver.statistics()["record_lock_waits"];
    let alone = Fresh::new();
    insert(&alone.session, KEY, &[(0, "a")]);
    write(&alone.session, Kind::Update, KEY, &[(0, "b")]);
    assert_eq!(waits(&alone.driver), 0.0);

    beside_updates(|driver, session| {
        while waits(driver) == 0.0 {
            for number in 0..1_000 {
                write(session, Kind::Update, KEY, &[(0, &number.to_string())]);
            }
        }
    });
}
