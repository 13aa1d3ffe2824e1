//! Builders for the tests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use kvmark_driver::{Layout, OpenError, Reply, Request, Values};
use kvmark_driver_rocksdb::RocksDb;
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::{Shared, run};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A client of the database.
pub(crate) type Session = Shared<RocksDb>;

pub(crate) const TABLE: &str = "usertable";

pub(crate) fn layout(fields: u32) -> Layout {
    Layout { table: TABLE.to_owned(), ..kvmark_testing::layout(fields) }
}

/// Opens with these options beside the path.
pub(crate) fn open(path: &Path, options: Value) -> Result<RocksDb, OpenError> {
    let mut options: BTreeMap<String, Value> = serde_json::from_value(options).unwrap();
    options.insert("path".to_owned(), json!(path.to_str().unwrap()));
    RocksDb::open(&options, &layout(3))
}

/// The error of opening.
pub(crate) fn refusal(path: &Path, options: Value) -> String {
    match open(path, options) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error.to_string(),
    }
}

/// A new database in a temporary folder, with one session.
pub(crate) struct Fresh {
    pub(crate) folder: TempDir,
    pub(crate) driver: RocksDb,
    pub(crate) session: Session,
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

pub(crate) fn session(driver: &RocksDb) -> Session {
    kvmark_testing::session(driver, 1)
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
    Request { scan_length: 0, ..kvmark_testing::request(kind, key) }
}

pub(crate) fn execute(session: &Session, request: &Request<'_>) -> (Outcome, Reply) {
    run(kvmark_testing::execute(session, 0, request))
}

pub(crate) fn write(session: &Session, kind: Kind, key: &str, values: &[(u32, &str)]) -> Outcome {
    let fields = fields(values);
    let values = Values { bytes: &fields.bytes, places: &fields.places };
    execute(session, &Request { values, ..request(kind, key) }).0
}

pub(crate) fn insert(session: &Session, key: &str, values: &[(u32, &str)]) -> Outcome {
    write(session, Kind::Insert, key, values)
}

/// Row, field and value of each cell of a reply.
pub(crate) fn cells(reply: &Reply) -> Vec<(u32, u32, String)> {
    let text = |cell| String::from_utf8(reply.bytes_of(cell).to_vec()).unwrap();
    reply.cells.iter().map(|cell| (cell.row, cell.field, text(cell))).collect()
}

/// Field and value of each cell of one record.
pub(crate) fn read(session: &Session, key: &str) -> Vec<(u32, String)> {
    let (outcome, reply) = execute(session, &request(Kind::Read, key));
    assert_eq!(outcome, Outcome::Ok);
    cells(&reply).into_iter().map(|(_, field, value)| (field, value)).collect()
}
