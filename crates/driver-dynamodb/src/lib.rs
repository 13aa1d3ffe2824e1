//! The driver for the API of DynamoDB: AWS, ScyllaDB's Alternator, DynamoDB local, dynalite.
//!
//! Requests are JSON over HTTP/1.1, each signed (see `signature.rs`). Records have the layout of
//! YCSB's binding (see `records.rs`). A missing table is created.
//!
//! Operations go to the servers of the address in turn. Each client has a connection to each
//! server, or the clients of a worker share a few with pipelined requests. A request on a closed
//! connection waits for the current attempt to reopen it and fails with it. A request is never sent
//! twice.

mod connect;
mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod http;
mod operation;
mod options;
mod records;
mod signature;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};
use kvmark_driver_server::framed::{Lines, RequestReplySession};

use control::{Console, Control};
use operation::Dialect;
use options::Settings;
use records::Records;
use signature::Requests;

pub use operation::DynamoDbOperation;
pub use options::options;

/// A connected server with the API of DynamoDB.
pub struct DynamoDb {
    settings: Arc<Settings>,
    records: Arc<Records>,
    control: Control,
    /// The consumed capacity in thousandths of a unit.
    capacity: Arc<AtomicU64>,
}

impl DynamoDb {
    /// The description of this driver.
    pub const ABOUT: About = About {
        port: Some(options::PORT),
        ycsb_bindings: &["dynamodb", "site.ycsb.db.DynamoDBClient"],
        ycsb_properties: &["dynamodb."],
        ..About::new(
            "dynamodb",
            Place::Hosts,
            &[
                Scheme::new("dynamodb", "dynamodb://host:8000"),
                Scheme {
                    name: "dynamodbs",
                    example: "dynamodbs://dynamodb.us-east-1.amazonaws.com",
                    implied: &[("tls", "true")],
                },
            ],
        )
    };

    /// Connects to the first server and creates the table if it is missing.
    ///
    /// # Errors
    /// [`OpenError::Option`] if an option is unknown or invalid; [`OpenError::System`] if the
    /// server is unreachable, isn't trusted or rejects the request, or the table has another key.
    pub fn open(
        options: &BTreeMap<String, serde_json::Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let settings = Arc::new(Settings::parse(options)?);
        let records = Arc::new(Records::new(layout, &settings));
        let control = Control::open(Arc::clone(&settings), &layout.table)?;
        Ok(Self { settings, records, control, capacity: Arc::default() })
    }
}

impl Driver for DynamoDb {
    type Blocking = Never;
    type Session = RequestReplySession<Settings, DynamoDbOperation>;

    fn capabilities(&self) -> Capabilities {
        Capabilities { statements: false, ..Capabilities::all(Execution::Asynchronous, false) }
    }

    fn describe(&self) -> Description {
        self.control.describe()
    }

    fn session(&self, clients: u32) -> Result<AnySession<Never, Self::Session>, OpenError> {
        let Self { settings, records, capacity, .. } = self;
        let requests = settings.targets.iter();
        let requests = requests.map(|target| Requests::new(Arc::clone(settings), target));
        let dialect = Dialect {
            records: Arc::clone(records),
            requests: requests.collect(),
            body: Vec::new(),
            capacity: Arc::clone(capacity),
        };
        let (protocol, limits) = (Arc::clone(settings), settings.limits);
        RequestReplySession::open(protocol, &settings.targets, limits, dialect, clients)
            .map(AnySession::Asynchronous)
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        let units = self.capacity.load(Ordering::Relaxed) as f64 / 1000.0;
        let counts = self.settings.counts_capacity;
        counts.then(|| ("capacity_units".to_owned(), units)).into_iter().collect()
    }

    fn console(
        options: &BTreeMap<String, serde_json::Value>,
    ) -> Result<Option<AnyConsole>, OpenError> {
        Ok(Some(Box::new(Console(Lines::new(Arc::new(Settings::parse(options)?))))))
    }
}
