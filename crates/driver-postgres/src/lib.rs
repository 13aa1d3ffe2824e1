//! PostgreSQL, and what speaks version 3 of its protocol.
//!
//! A record is a row in the table of YCSB's JDBC binding (see `records.rs`). Statements are SQL,
//! with `{name}` for an argument. Each connection prepares all texts when it opens. An operation is
//! one transaction for each of its texts, executed by `Bind`, `Execute` and `Sync` in one write; so
//! several are in flight on a connection, and an error fails only its own.
//!
//! Each client has a connection, or the clients of a worker share a few with pipelined requests. A
//! request on a closed connection waits for the current attempt to reopen it and fails with it. A
//! request is never sent twice.

mod connect;
mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod message;
mod operation;
mod options;
mod prepare;
mod records;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};
use kvmark_driver_server::framed::RequestReplySession;

use connect::Wire;
use control::Control;
use operation::{PostgresOperation, Prepared};
use options::Settings;
use prepare::{Ready, Setup};

pub use options::options;

/// A worker's session.
pub type PostgresSession = RequestReplySession<Wire, PostgresOperation>;

/// A connected server with PostgreSQL's protocol.
pub struct Postgres {
    control: Control,
    wire: Arc<Wire>,
    prepared: Arc<Prepared>,
    is_lost: bool,
}

impl Postgres {
    /// The description of this driver.
    pub const ABOUT: About = About {
        path: Some("database"),
        port: Some(options::PORT),
        counts_whole_server: true,
        ycsb_bindings: &["jdbc", "site.ycsb.db.JdbcDBClient"],
        ycsb_properties: &["db.", "jdbc."],
        ..About::new(
            "postgres",
            Place::Hosts,
            &[
                Scheme::new("postgres", "postgres://user@host:5432/database"),
                Scheme::new("postgresql", "postgresql://user@host:5432/database"),
            ],
        )
    };

    /// Connects to the server, logs in, and creates YCSB's table if it is missing.
    ///
    /// # Errors
    /// [`OpenError::Option`] if an option or a statement is invalid; [`OpenError::System`] if the
    /// server is unreachable, isn't trusted or rejects the connection, or if the table doesn't fit.
    pub fn open(
        options: &BTreeMap<String, serde_json::Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let settings = Arc::new(Settings::parse(options)?);
        let control = Control::new(&settings);
        control.query("").map_err(|failure| failure.at(&settings.target))?;
        let Ready { texts, prepared, is_lost } = Setup { control: &control, layout }.run()?;
        let wire = Arc::new(Wire::new(settings, texts.iter().map(String::as_str)));
        Ok(Self { control, wire, prepared: Arc::new(prepared), is_lost })
    }
}

impl Driver for Postgres {
    type Blocking = Never;
    type Session = PostgresSession;

    fn capabilities(&self) -> Capabilities {
        Capabilities::all(Execution::Asynchronous, false)
    }

    fn describe(&self) -> Description {
        self.control.describe(self.is_lost)
    }

    fn session(&self, clients: u32) -> Result<AnySession<Never, PostgresSession>, OpenError> {
        let Settings { target, limits, .. } = &*self.wire.settings;
        let (wire, targets) = (Arc::clone(&self.wire), std::slice::from_ref(target));
        let prepared = Arc::clone(&self.prepared);
        RequestReplySession::open(wire, targets, *limits, prepared, clients)
            .map(AnySession::Asynchronous)
    }

    fn settle(&self) -> Result<(), OpenError> {
        self.control.settle()
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
