//! Operations on FerretDB, which keeps documents in SQLite.

use std::process::{Command, Stdio};

use kvmark_driver::{AnyConsole, Columns, Driver, Request};
use kvmark_driver_mongodb::MongoDb;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::client::{Open, options_at, refusal, values_of, write};
use kvmark_testing::server::{ServerProcess, TestServer, certificate, free_port, reply_to};
use kvmark_testing::{layout, request, session};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Ferret {
    child: ServerProcess,
    folder: TempDir,
    arguments: Vec<String>,
    pub(crate) address: String,
    /// Options with which it answers.
    options: Value,
}

impl Ferret {
    /// Starts a server with these arguments, and waits until it answers with these options.
    fn with(arguments: &[&str], options: Value) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let is_encrypted = options.get("tls").is_some();
        let listen = if is_encrypted { "tls" } else { "addr" };
        let listen = format!("--listen-{listen}={address}");
        let mut all: Vec<_> = arguments.iter().map(|one| (*one).to_owned()).collect();
        all.push(listen);
        if is_encrypted {
            all.push("--listen-addr=".to_owned());
        }
        let folder = TempDir::new().unwrap();
        let child = started(&all, &folder, &address, &options);
        Self { child, folder, arguments: all, address, options }
    }

    pub(crate) fn open(&self, options: Value) -> MongoDb {
        MongoDb::open(&options_at(&self.address, options), &layout(3)).unwrap()
    }

    fn console(&self) -> AnyConsole {
        console(&self.address, &self.options)
    }
}

fn console(address: &str, options: &Value) -> AnyConsole {
    MongoDb::console(&options_at(address, options.clone())).unwrap().unwrap()
}

fn started(
    arguments: &[String],
    folder: &TempDir,
    address: &str,
    options: &Value,
) -> ServerProcess {
    let folder = folder.path().to_str().unwrap();
    let mut command = Command::new("ferretdb");
    command.args([
        "--handler=sqlite",
        "--debug-addr=-",
        "--telemetry=disable",
        "--log-level=ERROR",
    ]);
    command.arg(format!("--sqlite-url=file:{folder}/")).arg(format!("--state-dir={folder}"));
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    while console(address, options).ask(&["ping", "{}"].map(str::to_owned)).is_err() {
        assert!(child.try_wait().unwrap().is_none(), "ferretdb ended");
        std::thread::yield_now();
    }
    ServerProcess(child)
}

fn write_command(command: &str, writes: &str, write: Value) -> Vec<String> {
    vec![command.to_owned(), json!({ command: "usertable", writes: [write] }).to_string()]
}

impl TestServer for Ferret {
    type Driver = MongoDb;

    const OPEN: Open<MongoDb> = MongoDb::open;
    const VARIANTS: &'static [&'static str] = &["{}", r#"{ "w": "majority", "journal": true }"#];
    const SKIPS: &'static [(&'static str, &'static str)] = &[
        ("each_client_has_a_connection_unless_they_share", "FerretDB doesn't count connections"),
        ("concurrent_writers_lose_nothing", "FerretDB 1.24 reads and writes without isolation"),
    ];
    const RESTARTED: Outcome = Outcome::Ok;

    fn start() -> Self {
        Self::with(&[], json!({}))
    }

    fn start_encrypted(certificate: &str, key: &str) -> Self {
        let files = [("cert", certificate), ("key", key)]
            .map(|(name, path)| format!("--listen-tls-{name}-file={path}"));
        Self::with(
            &files.each_ref().map(|one| &**one),
            json!({ "tls": true, "ca_file": certificate }),
        )
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn kill(&mut self) {
        self.child.kill();
    }

    fn start_again(&mut self) {
        self.child = started(&self.arguments, &self.folder, &self.address, &self.options);
    }

    fn count(&self, console: &mut AnyConsole) -> u64 {
        reply_to(console, &["count", r#"{ "count": "usertable" }"#])["n"].as_u64().unwrap()
    }

    fn removal(&self, key: &str) -> Vec<String> {
        write_command("delete", "deletes", json!({ "q": { "_id": key }, "limit": 1 }))
    }

    fn change(&self, key: &str) -> Vec<String> {
        let change = json!({ "$set": { "field0": "changed" } });
        write_command("update", "updates", json!({ "q": { "_id": key }, "u": change }))
    }
}

kvmark_testing::server_conformance!(Ferret, "needs ferretdb");

#[test]
#[ignore = "needs ferretdb"]
fn records_are_documents_of_ycsbs_and_a_scan_has_several_replies() {
    let server = Ferret::start();
    let driver = server.open(json!({ "database": "other" }));
    let client = session(&driver, 1);
    // More documents than a reply of FerretDB has.
    let value = vec![b'x'; 1 << 20];
    let keys: Vec<_> = (0..40).map(|number| format!("user{number:02}")).collect();
    for key in &keys {
        assert_eq!(write(&client, Kind::Insert, key, &[(0, &value), (2, b"y")]), Outcome::Ok);
    }
    let scan = |scan_length, from| Request {
        scan_length,
        columns: Columns::One(2),
        ..request(Kind::Scan, from)
    };
    assert_eq!(values_of(&client, &scan(3, "user10")).1, ["0.2=y", "1.2=y", "2.2=y"]);
    let all = Request { columns: Columns::All, ..scan(100, "user02") };
    assert_eq!(values_of(&client, &all).1.len(), 2 * 38);
    let mut console = console(&server.address, &json!({ "database": "other" }));
    let find = json!({ "find": "usertable", "filter": { "_id": "user07" } }).to_string();
    let found = &reply_to(&mut console, &["find", &find])["cursor"]["firstBatch"];
    let text = str::from_utf8(&value).unwrap();
    let binary = |text| json!({ "$binary": text });
    assert_eq!(*found, json!([{ "_id": "user07", "field0": binary(text), "field2": binary("y") }]));
    let description = driver.describe();
    assert_eq!((&*description.system, &*description.version), ("FerretDB", "v1.24.0"));
    assert!(!description.configuration.contains_key("durability"));
    assert_eq!(description.configuration["maxBsonObjectSize"], "16777216");
}

#[test]
#[ignore = "needs ferretdb"]
fn a_user_logs_in_with_any_password_and_is_rejected_without_the_right_one() {
    let secret = "p@ss:w/rd=,\u{e9}\u{2168}";
    let arguments = [
        "--test-enable-new-auth",
        "--setup-database=admin",
        "--setup-username=a@n",
        &format!("--setup-password={secret}"),
    ];
    let login = "a%40n:p%40ss%3Aw%2Frd%3D%2C%C3%A9%E2%85%A8";
    let server = Ferret::with(&arguments, json!({}));
    let at = |user: &str, options| {
        let address = format!("{user}{}", server.address);
        MongoDb::open(&options_at(&address, options), &layout(3))
    };
    let driver = at(&format!("{login}@"), json!({ "connections": 1 })).unwrap();
    let client = session(&driver, 1);
    assert_eq!(write(&client, Kind::Insert, "k", &[(0, b"v")]), Outcome::Ok);
    let start = format!("can't use the server at {}: the server answered: ", server.address);
    for (user, options) in [
        ("", json!({})),
        ("a%40n:wrong@", json!({})),
        ("nobody:wrong@", json!({})),
        (&*format!("{login}@"), json!({ "auth_source": "elsewhere" })),
    ] {
        let error = refusal(at(user, options));
        assert!(error.starts_with(&start), "{error}");
        assert!(!error.contains("a@n") && !error.contains("nobody"), "{error}");
    }
}

#[test]
#[ignore = "needs ferretdb"]
fn a_server_that_alone_speaks_tls_is_named() {
    let folder = TempDir::new().unwrap();
    let [certificate, key] = certificate(folder.path());
    let server = Ferret::start_encrypted(&certificate, &key);
    let error = refusal(MongoDb::open(&options_at(&server.address, json!({})), &layout(3)));
    assert!(error.ends_with("it speaks TLS: give tls=true"), "{error}");
    reply_to(&mut server.console(), &["ping", "{}"]);
    let plain = Ferret::start();
    let options = options_at(&plain.address, json!({ "tls": true, "ca_file": certificate }));
    let error = refusal(MongoDb::open(&options, &layout(3)));
    assert!(error.ends_with("it doesn't speak TLS: leave tls out"), "{error}");
}
