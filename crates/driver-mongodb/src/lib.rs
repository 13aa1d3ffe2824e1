//! MongoDB, and what serves its wire protocol.
//!
//! A record is a document of YCSB's binding (see `records.rs`). An operation is one command in one
//! message (`OP_MSG`); a scan whose documents don't fit into a reply has several.
//!
//! The address names one server, the primary. Each client has a connection, or the clients of a
//! worker share a few with pipelined requests. A request on a closed connection waits for the
//! current attempt to reopen it and fails with it. A request is never sent twice.

mod bson;
mod connect;
mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod message;
mod operation;
mod options;
mod records;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};
use kvmark_driver_server::framed::RequestReplySession;

use control::Control;
use operation::{Dialect, MongoDbOperation};
use options::Settings;
use records::Records;

pub use options::options;

/// A worker's session.
pub type MongoDbSession = RequestReplySession<Settings, MongoDbOperation>;

/// A connected server with MongoDB's protocol.
pub struct MongoDb {
    settings: Arc<Settings>,
    records: Arc<Records>,
    control: Control,
}

impl MongoDb {
    /// The description of this driver.
    pub const ABOUT: About = About {
        path: Some("database"),
        port: Some(options::PORT),
        counts_whole_server: true,
        ycsb_bindings: &["mongodb", "site.ycsb.db.MongoDbClient"],
        ycsb_properties: &["mongodb."],
        ..About::new(
            "mongodb",
            Place::Hosts,
            &[Scheme::new("mongodb", "mongodb://user@host:27017/database")],
        )
    };

    /// Connects to the server and logs in.
    ///
    /// # Errors
    /// [`OpenError::Option`] if an option or a field's name is invalid; [`OpenError::System`] if
    /// the server is unreachable, isn't trusted or rejects the connection.
    pub fn open(
        options: &BTreeMap<String, serde_json::Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let settings = Arc::new(Settings::parse(options)?);
        let records = Arc::new(Records::new(layout, &settings)?);
        let control = Control::new(&settings);
        control.check()?;
        Ok(Self { settings, records, control })
    }
}

impl Driver for MongoDb {
    type Blocking = Never;
    type Session = MongoDbSession;

    fn capabilities(&self) -> Capabilities {
        Capabilities { statements: false, ..Capabilities::all(Execution::Asynchronous, false) }
    }

    fn describe(&self) -> Description {
        self.control.describe()
    }

    fn session(&self, clients: u32) -> Result<AnySession<Never, MongoDbSession>, OpenError> {
        let dialect = Dialect { records: Arc::clone(&self.records), latest: 0 };
        let Settings { target, limits, .. } = &*self.settings;
        let (protocol, targets) = (Arc::clone(&self.settings), std::slice::from_ref(target));
        RequestReplySession::open(protocol, targets, *limits, dialect, clients)
            .map(AnySession::Asynchronous)
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        self.control.statistics()
    }

    fn console(
        options: &BTreeMap<String, serde_json::Value>,
    ) -> Result<Option<AnyConsole>, OpenError> {
        let settings = Arc::new(Settings::parse(options)?);
        Ok(Some(Box::new(Control::new(&settings))))
    }
}
