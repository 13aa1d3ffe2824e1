//! Operations on dynalite.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use kvmark_driver::{Columns, Driver, Request, Values};
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::{assert_compares, cells, execute, request, run, session};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tempfile::NamedTempFile;

use crate::scripted::{open, refusal};

const PACKAGE: &str = "dynalite@4.0.0";

struct Dynalite {
    child: Child,
    address: String,
}

impl Dynalite {
    /// Starts a server with these options on a free loopback port. The package is fetched once.
    fn start(options: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(PACKAGE);
        let package = folder.join("node_modules/dynalite");
        if !package.exists() {
            let mut fetch = Command::new("npm");
            fetch.args(["install", "--silent", "--no-fund", "--no-audit", "--prefix"]);
            assert!(fetch.arg(&folder).arg(PACKAGE).status().unwrap().success());
        }
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let script = format!(
            "require({:?})({{ createTableMs: 5, {options} }}).listen({}, '127.0.0.1')",
            package,
            free.port()
        );
        let child = Command::new("node").arg("-e").arg(script).stdin(Stdio::null()).spawn();
        let started = Self { child: child.unwrap(), address: free.to_string() };
        while TcpStream::connect(free).is_err() {
            std::thread::yield_now();
        }
        started
    }
}

impl Drop for Dynalite {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
#[ignore = "needs npm"]
fn records_are_written_read_scanned_and_deleted() {
    let server = Dynalite::start("");
    let options = json!({ "consistent": true, "capacity": true });
    let driver = open(&server.address, options).unwrap();
    assert_eq!(driver.describe().configuration["billing_mode"], "PAY_PER_REQUEST");
    let session = session(&driver, 1);
    let done = |request: &Request<'_>| {
        let (outcome, reply) = run(execute(&session, 0, request));
        (outcome, reply.rows, cells(&reply))
    };
    run(assert_compares(&session));
    assert_eq!(done(&request(Kind::Delete, "tagged")).0, Outcome::Ok);
    let bytes = "a\"\n\u{e9}\u{1f600}b".as_bytes();
    let places = [(0, 0..9), (1, 9..10)];
    for number in 0..20 {
        let key = format!("user{number:02}");
        let values = Values { bytes, places: &places };
        let insert = Request { values, ..request(Kind::Insert, &key) };
        assert_eq!(done(&insert).0, Outcome::Ok);
    }
    let values = Values { bytes: b"new", places: &[(2, 0..3)] };
    let update = Request { values, ..request(Kind::Update, "user07") };
    assert_eq!(done(&update).0, Outcome::Ok);
    let missing = Request { values, ..request(Kind::Update, "nobody") };
    assert_eq!(done(&missing).0, Outcome::Miss);
    assert_eq!(done(&request(Kind::Read, "nobody")).0, Outcome::Miss);
    let mut read = done(&request(Kind::Read, "user07"));
    read.2.sort();
    let first = format!("0.0={}", str::from_utf8(&bytes[..9]).unwrap());
    assert_eq!(read, (Outcome::Ok, 1, vec![first, "0.1=b".to_owned(), "0.2=new".to_owned()]));
    let one = Request { columns: Columns::One(1), ..request(Kind::Read, "user08") };
    assert_eq!(done(&one).2, ["0.1=b"]);
    let one = Request { columns: Columns::One(1), ..request(Kind::Scan, "user00") };
    let scan = Request { scan_length: 1, ..one };
    assert_eq!(done(&scan), (Outcome::Ok, 1, vec!["0.1=b".to_owned()]));
    // The order is that of the keys' hashes: from each key on, another number is left.
    let left = |number| {
        let key = format!("user{number:02}");
        done(&Request { scan_length: 100, key: key.as_bytes(), ..one }).1
    };
    let mut left: Vec<_> = (0..20).map(left).collect();
    left.sort_unstable();
    assert_eq!(left, (1..=20).collect::<Vec<_>>());
    assert_eq!(done(&request(Kind::Delete, "user08")).0, Outcome::Ok);
    assert_eq!(done(&request(Kind::Read, "user08")).0, Outcome::Miss);
    assert!(driver.statistics()["capacity_units"] > 20.0);
    // The table exists now.
    open(&server.address, json!({})).unwrap();
}

#[test]
#[ignore = "needs npm"]
fn records_of_a_partition_are_scanned_in_the_order_of_their_keys() {
    let server = Dynalite::start("");
    let driver = open(&server.address, json!({ "partition_key": "hash" })).unwrap();
    let session = session(&driver, 1);
    for number in (10..30).rev() {
        let key = format!("user{number}");
        let values = Values { bytes: &key.as_bytes()[4..], places: &[(0, 0..2)] };
        let insert = Request { values, ..request(Kind::Insert, &key) };
        assert_eq!(run(execute(&session, 0, &insert)).0, Outcome::Ok);
    }
    let read = request(Kind::Read, "user12");
    assert_eq!(cells(&run(execute(&session, 0, &read)).1), ["0.0=12"]);
    let scan = Request { scan_length: 3, ..request(Kind::Scan, "user115") };
    assert_eq!(cells(&run(execute(&session, 0, &scan)).1), ["0.0=12", "1.0=13", "2.0=14"]);
    let scan = Request { scan_length: 3, ..request(Kind::Scan, "user28") };
    assert_eq!(cells(&run(execute(&session, 0, &scan)).1), ["0.0=28", "1.0=29"]);
}

#[test]
#[ignore = "needs npm"]
fn a_server_is_written_and_read_over_tls() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (cert.pem(), signing_key.serialize_pem());
    let options = format!("ssl: true, ca: [], cert: {certificate:?}, key: {key:?}");
    let server = Dynalite::start(&options);
    let file = NamedTempFile::new().unwrap();
    std::fs::write(&file, certificate).unwrap();
    let options = json!({ "tls": true, "ca_file": file.path().to_str().unwrap() });
    let driver = open(&server.address, options).unwrap();
    let session = session(&driver, 1);
    let bytes = vec![b'x'; 300_000];
    let values = Values { bytes: &bytes, places: &[(0, 0..300_000)] };
    let insert = Request { values, ..request(Kind::Insert, "k") };
    assert_eq!(run(execute(&session, 0, &insert)).0, Outcome::Ok);
    assert_eq!(run(execute(&session, 0, &request(Kind::Read, "k"))).1.bytes, bytes);
    let error = refusal(&server.address, json!({}));
    assert!(error.ends_with("it speaks TLS: use dynamodbs:// or give tls=true"), "{error}");
}
