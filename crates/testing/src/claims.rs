//! Claims of both suites: about embedded stores and about servers.

use kvmark_driver::{Columns, Driver, Request};
use kvmark_plan::{Kind, Outcome};

use crate::client::{ask, values_of, write};
use crate::{Shared, request, session};

/// Writes a record whose three fields have the same value.
pub(crate) fn put<D: Driver>(client: &Shared<D>, key: &str, value: &[u8]) {
    let outcome = write(client, Kind::Insert, key, &[(0, value), (1, value), (2, value)]);
    assert_eq!(outcome, Outcome::Ok, "{:?}", client.last_failure());
}

/// The outcome of a read and its sorted values.
pub(crate) fn read<D: Driver>(client: &Shared<D>, key: &str) -> (Outcome, Vec<String>) {
    values_of(client, &request(Kind::Read, key))
}

/// A record of [`put`], as [`read`] returns it.
pub(crate) fn whole(value: &str) -> (Outcome, Vec<String>) {
    (Outcome::Ok, [0, 1, 2].map(|field| format!("0.{field}={value}")).into())
}

/// By two sessions.
pub(crate) fn records_are_written_read_and_removed<D: Driver>(driver: &D) {
    let (client, other) = (session(driver, 1), session(driver, 1));
    for value in ["a", "b"] {
        put(&client, "k", value.as_bytes());
        assert_eq!(read(&client, "k"), whole(value));
        assert_eq!(read(&other, "k"), whole(value));
    }
    assert_eq!(ask(&other, &request(Kind::Delete, "k")).0, Outcome::Ok);
    assert_eq!(read(&client, "k"), (Outcome::Miss, vec![]));
}

/// An update is a merge, and a read returns the requested fields.
pub(crate) fn an_update_changes_its_fields_alone<D: Driver>(client: &Shared<D>) {
    write(client, Kind::Insert, "k", &[(0, b"a"), (1, b"b"), (2, b"c")]);
    assert_eq!(write(client, Kind::Update, "k", &[(1, b"new")]), Outcome::Ok);
    let read = |columns| values_of(client, &Request { columns, ..request(Kind::Read, "k") }).1;
    for columns in [Columns::All, Columns::AllByName] {
        assert_eq!(read(columns), ["0.0=a", "0.1=new", "0.2=c"]);
    }
    assert_eq!(read(Columns::One(2)), ["0.2=c"]);
    let all: [(u32, &[u8]); 3] = [(0, b"x"), (1, b"y"), (2, b"z")];
    assert_eq!(write(client, Kind::Update, "k", &all), Outcome::Ok);
    assert_eq!(read(Columns::All), ["0.0=x", "0.1=y", "0.2=z"]);
}

/// With any fields, read or not.
pub(crate) fn a_read_of_a_missing_record_is_a_miss<D: Driver>(client: &Shared<D>) {
    for columns in [Columns::All, Columns::AllByName, Columns::One(1)] {
        for wants_values in [false, true] {
            let read = Request { columns, wants_values, ..request(Kind::Read, "k") };
            assert_eq!(values_of(client, &read), (Outcome::Miss, vec![]));
        }
    }
}

/// Updates of different fields of one record by three threads, each of which reads its own.
pub(crate) fn concurrent_writers_lose_nothing<D: Driver>(driver: &D, rounds: u32) {
    put(&session(driver, 1), "k", b"0");
    std::thread::scope(|scope| {
        for field in 0..3 {
            scope.spawn(move || {
                let client = session(driver, 1);
                for round in 1..=rounds {
                    let value = round.to_string();
                    let written = write(&client, Kind::Update, "k", &[(field, value.as_bytes())]);
                    assert_eq!(written, Outcome::Ok, "{:?}", client.last_failure());
                    let own = format!("0.{field}={value}");
                    assert!(read(&client, "k").1.contains(&own), "{own} was undone");
                }
            });
        }
    });
    assert_eq!(read(&session(driver, 1), "k"), whole(&rounds.to_string()));
}
