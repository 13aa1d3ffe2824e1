//! Builders that keep the claims short.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use kvmark_driver::{Columns, Driver, Layout, OpenError, Reply, Request, Session, Time, Values};
use kvmark_driver_rocksdb::{RocksDb, RocksDbSession};
use kvmark_plan::{Kind, Outcome};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const TABLE: &str = "usertable";

/// The value of a future that must be ready at once, as a blocking driver's is.
pub(crate) fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a blocking driver answered later"),
    }
}

struct NoTime;

impl Time for NoTime {
    fn now_ns(&self) -> u64 {
        panic!("a driver reads no clock")
    }

    fn wake_at(&self, _instant_ns: u64, _context: &Context<'_>) {
        panic!("a blocking driver doesn't wait")
    }
}

pub(crate) fn layout(fields: u32) -> Layout {
    let field_names = (0..fields).map(|n| format!("field{n}")).collect();
    Layout { table: TABLE.to_owned(), field_names, prepare: Vec::new(), statements: Vec::new() }
}

/// Opens with these options beside the path.
pub(crate) fn open(path: &Path, options: Value) -> Result<RocksDb, OpenError> {
    let mut options: BTreeMap<String, Value> = serde_json::from_value(options).unwrap();
    options.insert("path".to_owned(), json!(path.to_str().unwrap()));
    RocksDb::open(&options, &layout(3))
}

/// The sentence with which opening is refused.
pub(crate) fn refusal(path: &Path, options: Value) -> String {
    match open(path, options) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error.to_string(),
    }
}

/// A new database in a folder of its own, with one session.
pub(crate) struct Fresh {
    pub(crate) folder: TempDir,
    pub(crate) driver: RocksDb,
    pub(crate) session: RocksDbSession,
}

impl Fresh {
    pub(crate) fn new() -> Self {
        Self::with(json!({}))
    }

    pub(crate) fn with(mut options: Value) -> Self {
        options["create"] = json!(true);
        let folder = TempDir::new().unwrap();
        let driver = open(&folder.path().join("db"), options).unwrap();
        let session = session(&driver);
        Self { folder, driver, session }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("db")
    }

    /// Closes the database and keeps its folder.
    pub(crate) fn close(self) -> TempDir {
        self.folder
    }
}

pub(crate) fn session(driver: &RocksDb) -> RocksDbSession {
    ready(driver.session(0..1, Rc::new(NoTime))).unwrap()
}

/// Bytes and places of values, field by field.
pub(crate) struct Fields {
    bytes: Vec<u8>,
    places: Vec<(u32, Range<usize>)>,
}

pub(crate) fn fields(values: &[(u32, &str)]) -> Fields {
    let mut fields = Fields { bytes: Vec::new(), places: Vec::new() };
    for (field, value) in values {
        let start = fields.bytes.len();
        fields.bytes.extend_from_slice(value.as_bytes());
        fields.places.push((*field, start..fields.bytes.len()));
    }
    fields
}

/// A request for all fields, with the values wanted.
pub(crate) fn request<'a>(kind: Kind, key: &'a str) -> Request<'a> {
    Request {
        number: 0,
        kind,
        key: key.as_bytes(),
        columns: Columns::All,
        values: Values::NONE,
        scan_length: 0,
        wants_values: true,
        statement: None,
    }
}

pub(crate) fn execute(session: &RocksDbSession, request: &Request<'_>) -> (Outcome, Reply) {
    let mut reply = Reply::default();
    reply.clear();
    let outcome = ready(session.execute(0, request, &mut reply));
    (outcome, reply)
}

pub(crate) fn write(
    session: &RocksDbSession,
    kind: Kind,
    key: &str,
    values: &[(u32, &str)],
) -> Outcome {
    let fields = fields(values);
    let values = Values { bytes: &fields.bytes, places: &fields.places };
    execute(session, &Request { values, ..request(kind, key) }).0
}

pub(crate) fn insert(session: &RocksDbSession, key: &str, values: &[(u32, &str)]) -> Outcome {
    write(session, Kind::Insert, key, values)
}

/// Row, field and value of each cell of a reply.
pub(crate) fn cells(reply: &Reply) -> Vec<(u32, u32, String)> {
    let text = |cell| String::from_utf8(reply.bytes_of(cell).to_vec()).unwrap();
    reply.cells.iter().map(|cell| (cell.row, cell.field, text(cell))).collect()
}

/// Field and value of each cell of one record.
pub(crate) fn read(session: &RocksDbSession, key: &str) -> Vec<(u32, String)> {
    let (outcome, reply) = execute(session, &request(Kind::Read, key));
    assert_eq!(outcome, Outcome::Ok);
    cells(&reply).into_iter().map(|(_, field, value)| (field, value)).collect()
}
