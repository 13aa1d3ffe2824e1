//! Operations on dynalite.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use kvmark_driver::{AnyConsole, Columns, Driver, Request};
use kvmark_driver_dynamodb::DynamoDb;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::client::{Open, ask, write};
use kvmark_testing::server::{ServerProcess, TestServer, certificate, free_port, reply_to};
use kvmark_testing::{request, session};
use serde_json::json;
use tempfile::TempDir;

use crate::scripted::{open, refusal};

const PACKAGE: &str = "dynalite@4.0.0";

/// Where the package is, fetched once: a folder with this name is complete.
static FETCHED: LazyLock<PathBuf> = LazyLock::new(|| {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = place.join(PACKAGE.replace('@', "-"));
    if !folder.exists() {
        let part = TempDir::new_in(place).unwrap();
        let mut fetch = Command::new("npm");
        fetch.args(["install", "--silent", "--no-fund", "--no-audit", "--prefix"]);
        assert!(fetch.arg(part.path()).arg(PACKAGE).status().unwrap().success());
        std::fs::rename(part.keep(), &folder).unwrap();
    }
    folder.join("node_modules/dynalite")
});

struct Dynalite {
    child: ServerProcess,
    /// What creates it.
    script: String,
    address: String,
}

impl Dynalite {
    /// Starts a server with these options on a free loopback port.
    fn start(options: &str) -> Self {
        let package = &*FETCHED;
        let script = format!("require({package:?})({{ createTableMs: 5, {options} }})");
        let address = format!("127.0.0.1:{}", free_port());
        Self { child: listening(&script, &address), script, address }
    }
}

/// Runs a script that creates a server, which listens when this returns.
fn listening(script: &str, address: &str) -> ServerProcess {
    let (host, port) = address.split_once(':').unwrap();
    let script = format!("{script}.listen({port}, '{host}')");
    let node = Command::new("node").arg("-e").arg(script).stdin(Stdio::null()).spawn();
    let mut child = node.unwrap();
    while TcpStream::connect(address).is_err() {
        assert!(child.try_wait().unwrap().is_none(), "dynalite ended");
        std::thread::yield_now();
    }
    ServerProcess(child)
}

/// The names of the table and of a record's key, in the form of a request's members.
fn key_members(key: &str) -> String {
    format!(r#""TableName":"usertable","Key":{{"part":{{"S":"YCSB_0"}},"_key":{{"S":"{key}"}}}}"#)
}

impl TestServer for Dynalite {
    type Driver = DynamoDb;

    const OPEN: Open<DynamoDb> = DynamoDb::open;
    const VARIANTS: &'static [&'static str] =
        &[r#"{ "partition_key": "part", "consistent": true }"#];
    const SKIPS: &'static [(&'static str, &'static str)] =
        &[("each_client_has_a_connection_unless_they_share", "the API doesn't count connections")];
    const IS_TEXT: bool = true;
    /// An item has at most 400 KiB.
    const LARGEST: usize = 400_000;
    const TOO_LARGE: Option<(usize, &'static str)> =
        Some((500_000, "Item size has exceeded the maximum allowed size"));
    const MISSING: [Outcome; 2] = [Outcome::Miss, Outcome::Ok];
    /// Its tables are lost.
    const RESTARTED: Outcome = Outcome::Refused;

    fn start() -> Self {
        Self::start("")
    }

    fn start_encrypted(certificate: &str, key: &str) -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap();
        let (certificate, key) = (read(certificate), read(key));
        Self::start(&format!("ssl: true, ca: [], cert: {certificate:?}, key: {key:?}"))
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn kill(&mut self) {
        self.child.kill();
    }

    fn start_again(&mut self) {
        self.child = listening(&self.script, &self.address);
    }

    fn count(&self, console: &mut AnyConsole) -> u64 {
        let body = r#"{"TableName":"usertable","Select":"COUNT","ConsistentRead":true}"#;
        reply_to(console, &["Scan", body])["Count"].as_u64().unwrap()
    }

    fn removal(&self, key: &str) -> Vec<String> {
        vec!["DeleteItem".to_owned(), format!("{{{}}}", key_members(key))]
    }

    fn change(&self, key: &str) -> Vec<String> {
        let members = key_members(key);
        let values = r#""ExpressionAttributeValues":{":v":{"S":"changed"}}"#;
        let body = format!(r#"{{{members},"UpdateExpression":"SET field0=:v",{values}}}"#);
        vec!["UpdateItem".to_owned(), body]
    }
}

kvmark_testing::server_conformance!(Dynalite, "needs npm");

#[test]
#[ignore = "needs npm"]
fn a_table_without_a_partition_key_is_scanned_in_the_order_of_the_keys_hashes() {
    let server = Dynalite::start("");
    let driver = open(&server.address, json!({ "capacity": true })).unwrap();
    assert_eq!(driver.describe().configuration["billing_mode"], "PAY_PER_REQUEST");
    let client = session(&driver, 1);
    let key = |number| format!("user{number:02}");
    for number in 0..20 {
        let value = "a\"\n\u{e9}\u{1f600}b".as_bytes();
        assert_eq!(write(&client, Kind::Insert, &key(number), &[(1, value)]), Outcome::Ok);
    }
    let scan = |number, scan_length| {
        let one = Request { columns: Columns::One(1), ..request(Kind::Scan, "") };
        ask(&client, &Request { scan_length, key: key(number).as_bytes(), ..one }).1
    };
    let first = scan(0, 1);
    assert_eq!((first.rows, first.bytes), (1, "a\"\n\u{e9}\u{1f600}b".into()));
    // From each key on, another number is left.
    let mut left: Vec<_> = (0..20).map(|number| scan(number, 100).rows).collect();
    left.sort_unstable();
    assert_eq!(left, (1..=20).collect::<Vec<_>>());
    assert!(driver.statistics()["capacity_units"] > 20.0);
    // The table exists now.
    open(&server.address, json!({})).unwrap();
}

#[test]
#[ignore = "needs npm"]
fn a_server_that_alone_speaks_tls_is_named() {
    let folder = TempDir::new().unwrap();
    let [certificate, key] = certificate(folder.path());
    let server = Dynalite::start_encrypted(&certificate, &key);
    let error = refusal(&server.address, json!({}));
    assert!(error.ends_with("it speaks TLS: use dynamodbs:// or give tls=true"), "{error}");
}
