//! memcached, and what speaks its text protocol.
//!
//! A record is one value in the format of YCSB's memcached binding (see `records.rs` for the format
//! and for updates). Scans aren't supported. Statements are commands of memcached (see
//! `statements.rs`). The driver uses commands that every server supports; statements may also use
//! the meta commands of version 1.6.
//!
//! Keys are distributed over the servers of the address (see `keys.rs`). A get with keys on several
//! servers sends one command to each. The keys of a failed server aren't redistributed: operations
//! on them fail until the server returns.
//!
//! Each client has a connection to each server, or the clients of a worker share a few with
//! pipelined requests. A request on a closed connection waits for the current attempt to reopen it
//! and fails with it. A request is never sent twice.

mod connect;
mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod json;
mod keys;
mod operation;
mod options;
mod records;
mod statements;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};
use kvmark_driver_server::framed::{Lines, RequestReplySession};
use kvmark_plan::Kind;

use control::{Console, Control};
use operation::{Dialect, MemcachedOperation};
use records::Records;
use statements::{Prepared, plain};

pub use options::options;

/// A worker's session.
pub type MemcachedSession = RequestReplySession<options::Settings, MemcachedOperation>;

/// Connected servers with memcached's text protocol.
pub struct Memcached {
    settings: Arc<options::Settings>,
    records: Arc<Records>,
    statements: Arc<[Prepared]>,
    control: Control,
}

impl Memcached {
    /// The description of this driver.
    pub const ABOUT: About = About {
        port: Some(options::PORT),
        counts_whole_server: true,
        lacks: &[Kind::Scan],
        ycsb_bindings: &["memcached", "site.ycsb.db.MemcachedClient"],
        ycsb_properties: &["memcached."],
        ..About::new(
            "memcached",
            Place::Hosts,
            &[Scheme::new("memcached", "memcached://host:11211")],
        )
    };

    /// Connects to the servers and logs in.
    ///
    /// # Errors
    /// [`OpenError::Option`] if an option is unknown or invalid; [`OpenError::System`] if a server
    /// is unreachable, isn't trusted or rejects the connection.
    pub fn open(
        options: &BTreeMap<String, serde_json::Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let settings = Arc::new(options::Settings::parse(options)?);
        let records = Arc::new(Records::new(layout, settings.ttl_s, settings.replaces)?);
        let statements = layout.statements.iter().map(Prepared::new);
        let statements: Arc<[Prepared]> = statements.collect::<Result<_, _>>()?;
        let lines = layout.prepare.iter().map(|text| plain(text));
        let lines = lines.collect::<Result<Vec<_>, _>>()?;
        let control = Control::open(Arc::clone(&settings))?;
        if let Some(statement) = statements.iter().find(|statement| statement.is_meta()) {
            control.needs_meta(&statement.name)?;
        }
        control.prepare(&layout.prepare, &lines)?;
        Ok(Self { settings, records, statements, control })
    }
}

impl Driver for Memcached {
    type Blocking = Never;
    type Session = MemcachedSession;

    fn capabilities(&self) -> Capabilities {
        let speedups = if self.settings.replaces { Vec::new() } else { vec![options::REPLACING] };
        let has = |kind: &Kind| !Self::ABOUT.lacks.contains(kind);
        let kinds = Kind::ALL.into_iter().filter(has).collect();
        Capabilities { speedups, kinds, ..Capabilities::all(Execution::Asynchronous, false) }
    }

    fn describe(&self) -> Description {
        self.control.describe()
    }

    fn session(&self, clients: u32) -> Result<AnySession<Never, MemcachedSession>, OpenError> {
        let Self { settings, records, statements, .. } = self;
        let dialect = Dialect {
            records: Arc::clone(records),
            statements: Arc::clone(statements),
            servers: settings.targets.len(),
            merged: Vec::new(),
            unique: Vec::new(),
        };
        let (protocol, targets) = (Arc::clone(settings), &settings.targets);
        RequestReplySession::open(protocol, targets, settings.limits, dialect, clients)
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
        let settings = options::Settings::parse(options)?;
        Ok(Some(Box::new(Console(Lines::new(Arc::new(settings))))))
    }
}
