//! memcached, and what speaks its text protocol.
//!
//! A record is one value, in the form of YCSB's memcached binding (see `records.rs`, which also
//! says how updates are done). There is no scan. Operations in the user's own words are memcached's
//! commands (see `statements.rs`). Commands are those that every server has; the meta commands, of
//! 1.6, are there for the user's own words.
//!
//! Keys are distributed among the servers of the address (see `keys.rs`), and a get of keys on
//! several servers is one command to each. A server that is gone keeps its keys: operations on them
//! fail until it is back.
//!
//! Each client has a connection of its own to each server, or the clients of a worker share a few
//! and their requests are pipelined in order. A request on a connection that is down waits for the
//! attempt under way to open it and ends with that attempt's outcome if it fails. A request is
//! never sent twice.

mod connect;
mod console;
mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod json;
mod keys;
mod operation;
mod options;
mod records;
mod session;
mod statements;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};
use kvmark_plan::Kind;

use control::Control;
use records::Records;
use statements::{Prepared, plain};

pub use options::options;
pub use session::MemcachedSession;

/// Servers that speak memcached's text protocol, reached.
pub struct Memcached {
    settings: Arc<options::Settings>,
    records: Arc<Records>,
    statements: Arc<[Prepared]>,
    control: Control,
}

impl Memcached {
    /// What the driver says of itself.
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

    /// Reaches the servers and logs in. Not to be called within an asynchronous runtime, nor are
    /// `describe`, `statistics` and `settle`.
    ///
    /// # Errors
    /// [`OpenError::Option`] when an option is unknown or has a wrong value;
    /// [`OpenError::System`] when a server can't be reached, isn't trusted or refuses.
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
        let session = MemcachedSession::open(settings, records, statements, clients)?;
        Ok(AnySession::Asynchronous(session))
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
        Ok(Some(Box::new(console::Console::new(settings)?)))
    }
}
