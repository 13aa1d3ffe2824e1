//! What every driver of a server must do: one suite, which each driver runs against a real server
//! with one line, `kvmark_testing::server_conformance!(SERVER, "needs redis-server");`.
//!
//! A [`TestServer`] starts the server and has the driver's differences as data. The differences are
//! listed in `docs/method/servers.md`.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Child;

use kvmark_driver::{AnyConsole, Driver, Expected, Layout, OpenError, Request};
use kvmark_plan::{Kind, Outcome};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::claims::{self, put, read, whole};
use crate::client::{Open, ask, options_at, refusal, values_of, write};
use crate::{Shared, execute, layout, request, run, session};

const SKIPPED: &str = "the test that needs this is skipped";

/// A server for tests, and the differences of its driver.
pub trait TestServer: Sized {
    /// The driver.
    type Driver: Driver;

    /// How it is opened.
    const OPEN: Open<Self::Driver>;
    /// The options with which each test runs, as JSON; each run has a new server.
    const VARIANTS: &'static [&'static str] = &["{}"];
    /// The tests that don't apply, each with the reason.
    const SKIPS: &'static [(&'static str, &'static str)] = &[];
    /// Whether values must be text.
    const IS_TEXT: bool = false;
    /// The size of a large value that the store accepts.
    const LARGEST: usize = 1 << 20;
    /// The size of a value that the store rejects, and a part of the error.
    const TOO_LARGE: Option<(usize, &'static str)> = None;
    /// The outcomes of an update and a removal of a missing record.
    const MISSING: [Outcome; 2] = [Outcome::Miss, Outcome::Miss];
    /// The outcome of a read of an earlier record when the server has been killed and restarted.
    const RESTARTED: Outcome = Outcome::Miss;

    /// Starts a server.
    fn start() -> Self;

    /// Starts a server that encrypts with the files of a certificate and its key.
    fn start_encrypted(_: &str, _: &str) -> Self {
        unreachable!("{SKIPPED}")
    }

    /// Its address as the driver's option.
    fn address(&self) -> String;

    /// Kills it, as `kill -9` does.
    fn kill(&mut self) {
        unreachable!("{SKIPPED}")
    }

    /// Restarts it at its address.
    fn start_again(&mut self) {
        unreachable!("{SKIPPED}")
    }

    /// The number of records that the server itself counts.
    fn count(&self, console: &mut AnyConsole) -> u64;

    /// The number of its connections.
    fn connections(&self, _: &mut AnyConsole) -> u64 {
        unreachable!("{SKIPPED}")
    }

    /// The console's command that removes a record.
    fn removal(&self, key: &str) -> Vec<String>;

    /// The console's command that changes the first field of a record to `changed`.
    fn change(&self, key: &str) -> Vec<String>;
}

/// The process of a server, which is killed when it is dropped.
pub struct ServerProcess(pub Child);

impl ServerProcess {
    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Makes a test of each function of the suite.
#[macro_export]
macro_rules! server_conformance {
    ($server:ty, $needs:tt) => {
        $crate::server_conformance!($server, $needs,
            wrong_options_are_rejected_in_a_sentence,
            an_unreachable_or_mute_server_is_named_when_opening,:
            records_are_written_read_and_removed,
            values_of_each_size_are_returned,
            an_update_changes_its_fields_alone,
            a_missing_record_is_a_miss,
            a_scan_reads_the_requested_number_of_records,
            reads_are_compared_with_expected_values,
            concurrent_writers_lose_nothing,
            a_repeated_load_leaves_each_record_once,
            a_record_that_another_program_removed_or_changed_is_found,
            each_client_has_a_connection_unless_they_share,
            engines_that_open_a_new_table_together_all_use_it,
            a_restarted_server_is_used_again,
            large_values_are_written_and_read_over_tls,
        );
    };
    ($server:ty, $needs:tt, $($offline:ident,)*: $($name:ident,)*) => {
        $(#[test]
        #[ignore = $needs]
        fn $name() {
            if $crate::server::applies::<$server>(stringify!($name)) {
                $crate::server::check::<$server>($crate::server::$name::<$server>);
            }
        })*

        $(#[test]
        fn $offline() {
            if $crate::server::applies::<$server>(stringify!($offline)) {
                $crate::server::$offline::<$server>();
            }
        })*

        #[test]
        fn each_skip_has_a_test_and_a_reason() {
            let tests = [$(stringify!($name),)* $(stringify!($offline)),*];
            for (name, reason) in <$server as $crate::server::TestServer>::SKIPS {
                assert!(tests.contains(name) && !reason.is_empty(), "{name}");
            }
        }
    };
}

/// A server with an opened driver.
pub struct Opened<S: TestServer> {
    server: S,
    options: Value,
    driver: S::Driver,
    client: Shared<S::Driver>,
}

/// Whether a test applies to a server.
pub fn applies<S: TestServer>(name: &str) -> bool {
    S::SKIPS.iter().all(|(skipped, _)| *skipped != name)
}

/// Runs a test with each variant of the options, each with a new server.
pub fn check<S: TestServer>(test: fn(Opened<S>)) {
    S::VARIANTS.iter().for_each(|variant| test(Opened::new(S::start(), variant)));
}

impl<S: TestServer> Opened<S> {
    fn new(server: S, variant: &str) -> Self {
        let options = serde_json::from_str(variant).expect("a variant is an object of JSON");
        let driver = opened(&server, &options, json!({}));
        let client = session(&driver, 1);
        Self { server, options, driver, client }
    }

    /// Opens the driver again, with further options.
    fn open(&self, further: Value) -> S::Driver {
        opened(&self.server, &self.options, further)
    }

    fn console(&self) -> AnyConsole {
        let options = options_at(&self.server.address(), self.options.clone());
        let console = S::Driver::console(&options).expect("the options are accepted");
        console.expect("the driver has a console")
    }
}

fn opened<S: TestServer>(server: &S, options: &Value, further: Value) -> S::Driver {
    let mut all = options_at(&server.address(), options.clone());
    all.extend(options_at(&server.address(), further));
    S::OPEN(&all, &layout(3)).unwrap_or_else(|error| panic!("{error}"))
}

/// A port that is free for now.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    free.local_addr().expect("a listener has an address").port()
}

/// Sends a command to a console and returns the reply.
///
/// # Panics
/// If the server rejects it.
pub fn reply_to(console: &mut AnyConsole, words: &[&str]) -> Value {
    let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
    console.ask(&words).unwrap_or_else(|error| panic!("{error}"))
}

/// By two sessions.
pub fn records_are_written_read_and_removed<S: TestServer>(opened: Opened<S>) {
    claims::records_are_written_read_and_removed(&opened.driver);
}

/// A value beyond the store's limit is rejected, and its connection remains usable.
pub fn values_of_each_size_are_returned<S: TestServer>(Opened { client, .. }: Opened<S>) {
    let byte = |n: usize| if S::IS_TEXT { b' ' + (n * 7 % 95) as u8 } else { (n * 7) as u8 };
    let value = |size: usize| (0..size).map(byte).collect::<Vec<u8>>();
    let insert =
        |size: usize| write(&client, Kind::Insert, "k", &[(0, &value(size)), (1, b""), (2, b"x")]);
    for size in [0, 1, 255, 4_096, 65_536, S::LARGEST] {
        assert_eq!(insert(size), Outcome::Ok, "{size}: {:?}", client.last_failure());
        let (outcome, reply) = ask(&client, &request(Kind::Read, "k"));
        assert_eq!((outcome, reply.rows), (Outcome::Ok, 1));
        let first = reply.cells.iter().find(|cell| cell.field == 0).expect("it has all fields");
        assert!(reply.bytes_of(first) == value(size), "{size} bytes differ");
    }
    if let Some((size, error)) = S::TOO_LARGE {
        assert_eq!(insert(size), Outcome::Refused);
        let text = client.last_failure().unwrap_or_default();
        assert!(text.contains(error), "{text}");
        assert_eq!(insert(10), Outcome::Ok);
    }
}

/// An update is a merge, and a read returns the requested fields.
pub fn an_update_changes_its_fields_alone<S: TestServer>(Opened { client, .. }: Opened<S>) {
    claims::an_update_changes_its_fields_alone(&client);
}

/// For a read; and unless the store writes without looking, for an update and a removal.
pub fn a_missing_record_is_a_miss<S: TestServer>(Opened { client, .. }: Opened<S>) {
    let [updated, removed] = S::MISSING;
    claims::a_read_of_a_missing_record_is_a_miss(&client);
    let removal = ask(&client, &request(Kind::Delete, "k")).0;
    let update = write(&client, Kind::Update, "k", &[(0, b"a")]);
    assert_eq!([update, removal], [updated, removed]);
    if updated == Outcome::Miss {
        claims::a_read_of_a_missing_record_is_a_miss(&client);
    }
}

/// From a key on, in the order of the keys.
pub fn a_scan_reads_the_requested_number_of_records<S: TestServer>(opened: Opened<S>) {
    let client = opened.client;
    for number in (10..30).rev() {
        put(&client, &format!("user{number}"), number.to_string().as_bytes());
    }
    let scan = |from: &str, scan_length| {
        let columns = kvmark_driver::Columns::One(1);
        values_of(&client, &Request { scan_length, columns, ..request(Kind::Scan, from) })
    };
    let values = |all: &[&str]| (Outcome::Ok, all.iter().map(|&value| value.to_owned()).collect());
    assert_eq!(scan("user12", 3), values(&["0.1=12", "1.1=13", "2.1=14"]));
    assert_eq!(scan("user28", 3), values(&["0.1=28", "1.1=29"]));
    assert_eq!(scan("user10", 100).1.len(), 20);
    assert_eq!(scan("user99", 3), values(&[]));
}

/// By their number, lengths and tags.
pub fn reads_are_compared_with_expected_values<S: TestServer>(Opened { client, .. }: Opened<S>) {
    run(crate::assert_compares(&client));
}

/// Updates of different fields of one record.
pub fn concurrent_writers_lose_nothing<S: TestServer>(Opened { driver, .. }: Opened<S>) {
    claims::concurrent_writers_lose_nothing(&driver, 100);
}

/// As the server counts them.
pub fn a_repeated_load_leaves_each_record_once<S: TestServer>(opened: Opened<S>) {
    const RECORDS: u64 = 50;
    let mut console = opened.console();
    for load in ["first", "second"] {
        let client = session(&opened.open(json!({})), 1);
        (0..RECORDS).for_each(|number| put(&client, &format!("user{number}"), load.as_bytes()));
        assert_eq!(opened.server.count(&mut console), RECORDS, "{load}");
    }
    assert_eq!(read(&opened.client, "user7"), whole("second"));
    assert_eq!(ask(&opened.client, &request(Kind::Delete, "user7")).0, Outcome::Ok);
    assert_eq!(opened.server.count(&mut console), RECORDS - 1);
}

/// A read that knows its record finds the loss; the other records are intact.
pub fn a_record_that_another_program_removed_or_changed_is_found<S: TestServer>(opened: Opened<S>) {
    let (client, mut console) = (&opened.client, opened.console());
    let key = |number: u32| format!("user{number}");
    let value = |number: u32| format!("tag{number:05}{}", "x".repeat(56));
    (0..10).for_each(|number| put(client, &key(number), value(number).as_bytes()));
    for command in [opened.server.removal(&key(3)), opened.server.change(&key(7))] {
        console.ask(&command).unwrap_or_else(|error| panic!("{error}"));
    }
    for number in 0..10 {
        let tag = value(number).as_bytes().first_chunk().copied();
        let expected = Expected { fields: Some(3), length: Some(64), tag, proves: true };
        let key = key(number);
        let read = Request { expected: Some(&expected), ..request(Kind::Read, &key) };
        let outcome = match number {
            3 => Outcome::Miss,
            7 => Outcome::Mismatch,
            _ => Outcome::Ok,
        };
        assert_eq!(ask(client, &read).0, outcome, "{key}");
    }
}

/// As the server counts them.
pub fn each_client_has_a_connection_unless_they_share<S: TestServer>(opened: Opened<S>) {
    const CLIENTS: u32 = 80;
    let mut console = opened.console();
    for (connections, expected) in [(3, 3), (0, u64::from(CLIENTS))] {
        let driver = opened.open(json!({ "connections": connections }));
        let before = opened.server.connections(&mut console);
        let session = session(&driver, CLIENTS);
        for client in 0..CLIENTS {
            let found = run(execute(&session, client, &request(Kind::Read, "k"))).0;
            assert_eq!(found, Outcome::Miss);
        }
        assert_eq!(opened.server.connections(&mut console) - before, expected);
        drop((session, driver));
        // The server notices the ends later.
        while opened.server.connections(&mut console) >= before {}
    }
}

/// Requests fail while it is down. Afterwards its data may be lost, and a load succeeds.
pub fn a_restarted_server_is_used_again<S: TestServer>(mut opened: Opened<S>) {
    let options = json!({ "connections": 1, "reconnect_max_ms": 10 });
    let client = session(&opened.open(options), 1);
    put(&client, "k", b"a");
    opened.server.kill();
    assert_eq!(read(&client, "k").0, Outcome::Connection);
    opened.server.start_again();
    let mut outcome = Outcome::Connection;
    while outcome == Outcome::Connection {
        outcome = read(&client, "k").0;
    }
    assert_eq!(outcome, S::RESTARTED);
    let _again = opened.open(json!({}));
    put(&client, "k", b"b");
    assert_eq!(read(&client, "k"), whole("b"));
}

/// A certificate for 127.0.0.1 that is its own authority, and its key, as files.
///
/// # Panics
/// If they can't be made.
pub fn certificate(folder: &Path) -> [String; 2] {
    use std::os::unix::fs::PermissionsExt as _;
    let names = ["127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(names).expect("a certificate can be made");
    [("cert.pem", cert.pem()), ("key.pem", signing_key.serialize_pem())].map(|(name, text)| {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file can be written");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&path, private).expect("a file can be made private");
        path.to_str().expect("the path is text").to_owned()
    })
}

/// By clients that share a connection, and by one with its own.
pub fn large_values_are_written_and_read_over_tls<S: TestServer>(plain: Opened<S>) {
    let folder = TempDir::new().expect("a temporary folder");
    let [certificate, key] = certificate(folder.path());
    let server = S::start_encrypted(&certificate, &key);
    let value = "x".repeat(100_000);
    for connections in [0, 1] {
        let further = json!({ "tls": true, "ca_file": certificate, "connections": connections });
        let client = session(&opened(&server, &plain.options, further), 1);
        put(&client, "k", value.as_bytes());
        assert!(read(&client, "k") == whole(&value), "the value differs");
    }
}

/// As the machines of a fleet do.
pub fn engines_that_open_a_new_table_together_all_use_it<S: TestServer>(opened: Opened<S>) {
    let options = options_at(&opened.server.address(), opened.options.clone());
    for round in 0..4 {
        // A table that no earlier test has created.
        let table = format!("t{}_{round}", std::process::id());
        let layout = Layout { table, ..layout(3) };
        std::thread::scope(|scope| {
            let engines = [(); 4].map(|()| scope.spawn(|| S::OPEN(&options, &layout)));
            for engine in engines {
                let driver = engine.join().expect("an opening doesn't panic");
                let driver = driver.unwrap_or_else(|error| panic!("{error}"));
                put(&session(&driver, 1), "k", b"a");
            }
        });
    }
}

/// The mistakes of users that all drivers reject.
pub fn wrong_options_are_rejected_in_a_sentence<S: TestServer>() {
    let cases = [
        (json!({ "colour": 1 }), "there is no option 'colour'; known are address, "),
        (json!({ "connections": -1 }), "option 'connections' can't be '-1': give a whole number"),
        (json!({ "tls": "yes" }), "option 'tls' can't be 'yes': give true or false"),
        (json!({ "ca_file": "x" }), "option 'ca_file' has no effect while 'tls' is 'false'"),
        (json!({ "tls": true, "ca_file": "/nowhere" }), "the ca_file /nowhere can't be used"),
        (json!({ "tls": true, "cert_file": "x" }), "cert_file and key_file belong together"),
        (json!({ "password_env": "KVMARK_NOT_SET" }), "option 'password_env' names KVMARK_NOT_SET"),
    ];
    for (options, expected) in cases {
        let error = S::OPEN(&options_at("127.0.0.1:1", options), &layout(3)).err();
        assert!(matches!(error, Some(OpenError::Option(_))), "{expected}");
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.starts_with(expected), "{error}");
    }
}

/// A server that doesn't listen, and one that doesn't answer.
pub fn an_unreachable_or_mute_server_is_named_when_opening<S: TestServer>() {
    let error =
        |address: &str, options| refusal(S::OPEN(&options_at(address, options), &layout(3)));
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = mute.local_addr().expect("a listener has an address").to_string();
    let within = error(&address, json!({ "connect_timeout_ms": 20 }));
    assert_eq!(within, format!("can't use the server at {address}: no connection within 20 ms"));
    let unreachable = error("127.0.0.1:1", json!({}));
    let start = "can't use the server at 127.0.0.1:1: it can't be reached (";
    assert!(unreachable.starts_with(start), "{unreachable}");
}
