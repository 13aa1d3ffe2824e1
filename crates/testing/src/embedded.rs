//! What every embedded store must do: one suite, which each driver runs with one line,
//! `kvmark_testing::embedded_conformance!(DRIVER);`.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kvmark_driver::{Driver, Layout, OpenError, Request};
use kvmark_embedded::{ByteStore, Embedded};
use kvmark_plan::{Kind, Outcome};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{ask, write};
use crate::{Shared, cells, claims, layout, request, run, session};

/// How a driver is opened.
pub type Open<S> = crate::client::Open<Embedded<S>>;
type Client<S> = Shared<Embedded<S>>;

/// The folder in which a child process writes, and the level.
const CHILD: &str = "KVMARK_TEST_CHILD";
const LEVELS: [&str; 3] = ["none", "process", "sync"];

/// Makes a test of each function of the suite.
#[macro_export]
macro_rules! embedded_conformance {
    ($driver:ty) => {
        $crate::embedded_conformance!($driver,
            records_are_written_read_and_removed,
            values_of_any_size_come_back,
            an_update_changes_its_fields_alone,
            scans_go_in_the_order_of_keys,
            a_missing_record_is_a_miss,
            reads_are_compared_with_expected_values,
            data_is_kept_when_a_database_is_opened_again,
            a_database_is_created_only_when_asked_to,
            unknown_options_and_other_folders_are_refused,
            a_missing_table_is_named,
            an_open_database_is_refused,
            concurrent_writers_lose_nothing,
            the_console_lists_all_keys,
            defaults_are_described_and_disk_space_is_counted,
            acknowledged_writes_survive_a_kill,
            child,
        );

        #[test]
        #[ignore = "needs strace"]
        fn each_acknowledgement_waits_for_the_disk() {
            $crate::embedded::each_acknowledgement_waits_for_the_disk(<$driver>::open);
        }
    };
    ($driver:ty, $($name:ident,)*) => {
        $(#[test]
        fn $name() {
            $crate::embedded::$name(<$driver>::open);
        })*
    };
}

/// A database in a temporary folder, with a client.
struct Fresh<S: ByteStore> {
    folder: TempDir,
    driver: Embedded<S>,
    client: Client<S>,
}

impl<S: ByteStore> Fresh<S> {
    fn new(open: Open<S>) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let driver = opened(open, &folder.path().join("db"), json!({"create": true}));
        let client = session(&driver, 1);
        Self { folder, driver, client }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("db")
    }

    /// Closes the database and opens it again.
    fn again(self, open: Open<S>) -> Self {
        let Self { folder, driver, client } = self;
        drop((driver, client));
        let driver = opened(open, &folder.path().join("db"), json!({}));
        let client = session(&driver, 1);
        Self { folder, driver, client }
    }
}

fn try_open<S: ByteStore>(
    open: Open<S>,
    path: &Path,
    options: &Value,
) -> Result<Embedded<S>, OpenError> {
    let object = options.as_object().expect("options are an object");
    let mut options: BTreeMap<_, _> = object.clone().into_iter().collect();
    options.insert("path".to_owned(), json!(path));
    open(&options, &layout(3))
}

fn opened<S: ByteStore>(open: Open<S>, path: &Path, options: Value) -> Embedded<S> {
    try_open(open, path, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal<S: ByteStore>(open: Open<S>, path: &Path, options: Value) -> OpenError {
    try_open(open, path, &options).err().expect("it should be refused")
}

fn insert<S: ByteStore>(client: &Client<S>, key: &str, value: &str) {
    let outcome = write(client, Kind::Insert, key, &[(0, value.as_bytes())]);
    assert_eq!(outcome, Outcome::Ok, "{:?}", client.last_failure());
}

fn is_there<S: ByteStore>(client: &Client<S>, key: &str) -> bool {
    claims::read(client, key).0 == Outcome::Ok
}

/// Every kind of operation.
pub fn records_are_written_read_and_removed<S: ByteStore>(open: Open<S>) {
    let Fresh { client, driver, folder: _folder } = Fresh::new(open);
    claims::records_are_written_read_and_removed(&driver);
    assert_eq!(ask(&client, &request(Kind::ReadModifyWrite, "k")).0, Outcome::Refused);
    assert_eq!(driver.capabilities().kinds, Kind::ALL);
}

/// From no bytes to a MiB, all byte values.
pub fn values_of_any_size_come_back<S: ByteStore>(open: Open<S>) {
    let fresh = Fresh::new(open);
    let sizes = [0, 1, 255, 4_096, 65_536, 1 << 20];
    let value = |size: usize| (0..size).map(|n| (n * 7) as u8).collect::<Vec<u8>>();
    for size in sizes {
        let key = format!("key{size}");
        assert_eq!(write(&fresh.client, Kind::Insert, &key, &[(0, &value(size))]), Outcome::Ok);
    }
    let fresh = fresh.again(open);
    for size in sizes {
        let (outcome, reply) = ask(&fresh.client, &request(Kind::Read, &format!("key{size}")));
        assert_eq!(outcome, Outcome::Ok);
        assert!(reply.bytes == value(size), "{size} bytes differ");
    }
}

/// An update is a merge; a read of one field gives that one.
pub fn an_update_changes_its_fields_alone<S: ByteStore>(open: Open<S>) {
    let Fresh { client, folder: _folder, .. } = Fresh::new(open);
    claims::an_update_changes_its_fields_alone(&client);
}

/// From a key on, as many as asked for, by bytes.
pub fn scans_go_in_the_order_of_keys<S: ByteStore>(open: Open<S>) {
    let Fresh { client, folder: _folder, .. } = Fresh::new(open);
    for key in ["b", "a", "d", "c", "aa", "B"] {
        insert(&client, key, key);
    }
    let scan = |from: &str, scan_length| {
        let scan = Request { scan_length, ..request(Kind::Scan, from) };
        let (outcome, reply) = ask(&client, &scan);
        assert_eq!(outcome, Outcome::Ok);
        (reply.rows, cells(&reply))
    };
    assert_eq!(scan("a", 3).1, ["0.0=a", "1.0=aa", "2.0=b"]);
    assert_eq!(scan("bb", 10).1, ["0.0=c", "1.0=d"]);
    assert_eq!(scan("A", 1).1, ["0.0=B"]);
    assert_eq!((scan("z", 5).0, scan("a", 0).0), (0, 0));
}

/// Reads and updates of what isn't there.
pub fn a_missing_record_is_a_miss<S: ByteStore>(open: Open<S>) {
    let Fresh { client, folder: _folder, .. } = Fresh::new(open);
    claims::a_read_of_a_missing_record_is_a_miss(&client);
    assert_eq!(write(&client, Kind::Update, "k", &[(0, b"a")]), Outcome::Miss);
    claims::a_read_of_a_missing_record_is_a_miss(&client);
}

/// By their number, lengths and tags.
pub fn reads_are_compared_with_expected_values<S: ByteStore>(open: Open<S>) {
    let fresh = Fresh::new(open);
    run(crate::assert_compares(&fresh.client));
}

/// At each level, and after settling.
pub fn data_is_kept_when_a_database_is_opened_again<S: ByteStore>(open: Open<S>) {
    for durability in LEVELS {
        let folder = TempDir::new().expect("a temporary folder");
        let path = folder.path().join("db");
        let driver = opened(open, &path, json!({"create": true, "durability": durability}));
        let client = session(&driver, 1);
        insert(&client, "a", "1");
        driver.settle().expect("it settles");
        insert(&client, "b", "2");
        drop((driver, client));
        let driver = opened(open, &path, json!({}));
        let client = session(&driver, 1);
        assert!(is_there(&client, "a") && is_there(&client, "b"), "{durability}");
    }
}

/// Nothing is made without `create`.
pub fn a_database_is_created_only_when_asked_to<S: ByteStore>(open: Open<S>) {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("db");
    let sentence = refusal(open, &path, json!({})).to_string();
    assert!(sentence.starts_with(&format!("there is no {} database at", S::SYSTEM)), "{sentence}");
    assert!(!path.exists());
    let sentence = refusal(open, &folder.path().join("no/db"), json!({"create": true}));
    assert!(sentence.to_string().ends_with("doesn't exist: make it"), "{sentence}");
    // An interrupted creation, or kvmark's mark alone.
    fs::create_dir(&path).expect("a folder is made");
    fs::write(path.join(".kvmark"), "{}").expect("a mark is written");
    opened(open, &path, json!({"create": true}));
    assert!(path.join(".kvmark").exists());
    opened(open, &path, json!({"create": true}));
}

/// The user's mistakes, which touch nothing.
pub fn unknown_options_and_other_folders_are_refused<S: ByteStore>(open: Open<S>) {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("db");
    for wrong in [json!({"colour": 1}), json!({"durability": "yes"}), json!({"create": 3})] {
        assert!(matches!(refusal(open, &path, wrong), OpenError::Option(_)));
    }
    assert!(!path.exists());
    fs::write(&path, "text").expect("a file is written");
    let sentence = refusal(open, &path, json!({"create": true})).to_string();
    assert!(sentence.ends_with("is a file, not a folder"), "{sentence}");
    fs::write(folder.path().join("notes.txt"), "precious").expect("a file is written");
    let sentence = refusal(open, folder.path(), json!({"create": true})).to_string();
    assert!(sentence.contains("holds other files and no"), "{sentence}");
}

/// A database with other tables keeps them.
pub fn a_missing_table_is_named<S: ByteStore>(open: Open<S>) {
    let fresh = Fresh::new(open);
    let path = fresh.path();
    let _folder = fresh.folder;
    drop((fresh.driver, fresh.client));
    let other = Layout { table: "orders".to_owned(), ..layout(1) };
    for create in [true, false] {
        let options = [("path", json!(path)), ("create", json!(create))];
        let options = options.map(|(name, value)| (name.to_owned(), value)).into();
        let sentence = open(&options, &other).err().expect("there is no such table").to_string();
        assert!(sentence.contains("has no table orders (its tables: usertable)"), "{sentence}");
    }
    for table in ["", "a\0b"] {
        let layout = Layout { table: table.to_owned(), ..layout(1) };
        let options = [("path".to_owned(), json!(path))].into();
        assert!(matches!(open(&options, &layout), Err(OpenError::Option(_))));
    }
}

/// By this process and by another.
pub fn an_open_database_is_refused<S: ByteStore>(open: Open<S>) {
    let fresh = Fresh::new(open);
    let path = fresh.path();
    let refused = |path: &Path| {
        let sentence = refusal(open, path, json!({"create": true})).to_string();
        assert!(sentence.contains("open already") || sentence.contains("opened"), "{sentence}");
    };
    refused(&path);
    drop(fresh.driver);
    refused(&path);
    drop(fresh.client);
    opened(open, &path, json!({}));
    let folder = TempDir::new().expect("a temporary folder");
    let mut other = Other::start(&folder.path().join("db"), "hold");
    other.wait_for("ready");
    refused(&folder.path().join("db"));
    other.end();
    opened(open, &folder.path().join("db"), json!({}));
}

/// Updates of different fields of one record, and readers beside them.
pub fn concurrent_writers_lose_nothing<S: ByteStore>(open: Open<S>) {
    let Fresh { driver, folder: _folder, .. } = Fresh::new(open);
    claims::concurrent_writers_lose_nothing(&driver, 500);
}

/// In pages, of a closed database.
pub fn the_console_lists_all_keys<S: ByteStore>(open: Open<S>) {
    let fresh = Fresh::new(open);
    let expected: Vec<_> = (0..1500).map(|number| format!("key{number:04}")).collect();
    expected.iter().for_each(|key| insert(&fresh.client, key, ""));
    let path = fresh.path();
    let _folder = fresh.folder;
    drop((fresh.driver, fresh.client));
    let options = [("path".to_owned(), json!(path))].into();
    let mut console =
        Embedded::<S>::console(&options).expect("options are accepted").expect("it has a console");
    let mut ask = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let answer = console.ask(&words).unwrap_or_else(|error| panic!("{error}"));
        let texts = answer.as_array().expect("the answer is a list").iter();
        texts.map(|text| text.as_str().expect("a key is a text").to_owned()).collect::<Vec<_>>()
    };
    assert!(ask(&["TABLES"]).contains(&"usertable".to_owned()));
    let mut found = ask(&["KEYS", "usertable"]);
    while let Some(last) = found.last().cloned() {
        let more = ask(&["KEYS", "usertable", &last]);
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    assert_eq!(found, expected);
    let unknown =
        console.ask(&["KEYS".to_owned(), "such".to_owned()]).expect_err("there is no such table");
    assert!(unknown.to_string().contains("no table such"), "{unknown}");
}

/// Every option of the documentation has its default in the description.
pub fn defaults_are_described_and_disk_space_is_counted<S: ByteStore>(open: Open<S>) {
    let fresh = Fresh::new(open);
    let description = fresh.driver.describe();
    assert_eq!(description.system, S::SYSTEM);
    assert!(description.version.starts_with(|letter: char| letter.is_ascii_digit()));
    for doc in Embedded::<S>::options() {
        let value = description.configuration.get(doc.name).map(String::as_str);
        match doc.name {
            "path" | "create" => assert_eq!(value, None),
            "durability" => {
                let wanted = kvmark_embedded::Durability::Process;
                assert_eq!(value, Some(S::effective(wanted).to_string().as_str()));
            }
            name => assert_eq!(value, doc.default, "{name}"),
        }
    }
    let before = fresh.driver.statistics()["disk_bytes"];
    let mut random = 1_u32;
    for number in 0..64 {
        // Bytes that can't be compressed.
        let value: Vec<u8> = (0..1 << 14).map(|_| next(&mut random)).collect();
        write(&fresh.client, Kind::Insert, &format!("k{number}"), &[(0, &value)]);
    }
    fresh.driver.settle().expect("it settles");
    assert!(fresh.driver.statistics()["disk_bytes"] > before + f64::from(64 * (1 << 10)));
}

/// The next byte of a linear congruential generator.
fn next(random: &mut u32) -> u8 {
    *random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    (*random >> 24) as u8
}

/// Every write that was acknowledged before a SIGKILL is there, where the level promises it.
pub fn acknowledged_writes_survive_a_kill<S: ByteStore>(open: Open<S>) {
    const WRITES: usize = 200;
    for durability in ["process", "sync"] {
        let folder = TempDir::new().expect("a temporary folder");
        let path = folder.path().join("db");
        let mut other = Other::start(&path, durability);
        let acknowledged: Vec<String> = (0..WRITES).map(|_| other.wait_for("wrote ")).collect();
        other.kill();
        let driver = opened(open, &path, json!({}));
        let client = session(&driver, 1);
        for key in acknowledged {
            assert!(is_there(&client, &key), "{durability}: {key} is lost");
        }
    }
}

/// At the level `sync`, a system call puts each write on the disk before its acknowledgement.
pub fn each_acknowledgement_waits_for_the_disk<S: ByteStore>(_: Open<S>) {
    const WRITES: usize = 50;
    let folder = TempDir::new().expect("a temporary folder");
    let calls = folder.path().join("calls");
    let output = calls.to_str().expect("a path of text");
    let strace = ["strace", "-f", "-qq", "-o", output, "-e", "trace=fsync,fdatasync,msync"];
    let task = format!("sync:{WRITES}");
    Other::start_by(&strace, &folder.path().join("db"), &task).end();
    let counted = fs::read_to_string(&calls).unwrap_or_default().matches("sync(").count();
    assert!(counted >= WRITES, "{counted} calls for {WRITES} acknowledgements");
}

/// Not a test: what a process does that the tests above start.
pub fn child<S: ByteStore>(open: Open<S>) {
    let Ok(task) = env::var(CHILD) else { return };
    let (what, path) = task.split_once(' ').expect("a task and a folder");
    let (level, count) = what.split_once(':').unwrap_or((what, "1000000"));
    let count: usize = count.parse().expect("a number of writes");
    let durability = if level == "hold" { "process" } else { level };
    let options = json!({"create": true, "durability": durability});
    let driver = opened(open, Path::new(path), options);
    let client = session(&driver, 1);
    let say = |text: &str| {
        // Not `println!`, which tests capture; a broken pipe ends the process.
        let line = format!("\n{text}\n");
        io::stdout().write_all(line.as_bytes()).expect("the other process listens");
    };
    if what == "hold" {
        say("ready");
        io::stdin().read_to_end(&mut Vec::new()).expect("its input");
        return;
    }
    for number in 0..count {
        let key = format!("key{number}");
        insert(&client, &key, "value");
        say(&format!("wrote {key}"));
    }
}

/// Another process, which executes [`child`].
struct Other {
    process: Child,
    lines: io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Other {
    fn start(path: &Path, what: &str) -> Self {
        Self::start_by(&[], path, what)
    }

    /// Starts it with these words before its command.
    fn start_by(before: &[&str], path: &Path, what: &str) -> Self {
        let program = env::current_exe().expect("this program");
        let mut words = before.iter().map(OsString::from).chain([program.into_os_string()]);
        let mut process = Command::new(words.next().expect("a program"))
            .args(words)
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, format!("{what} {}", path.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the process starts");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        Self { process, lines }
    }

    /// The rest of the next line that begins so.
    fn wait_for(&mut self, beginning: &str) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        let rest = lines.find_map(|line| line.strip_prefix(beginning).map(str::to_owned));
        rest.expect("the other process should say so")
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().expect("its end is waited for").success());
    }

    fn kill(mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("its end is waited for");
    }
}
