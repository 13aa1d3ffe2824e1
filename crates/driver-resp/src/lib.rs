//! Systems that speak the Redis protocol: Redis, Valkey, YugabyteDB's Redis API.
//!
//! A record is stored as YCSB's own Redis binding stores it (see `commands.rs`), so that either can
//! read what the other loaded. A table's name isn't part of the keys. Each client has a connection
//! of its own, or the clients of a worker share a few and their requests are pipelined in order.
//!
//! A request on a connection that is down waits for the attempt under way to open it and ends with
//! that attempt's outcome if it fails. A request is never sent twice, unless a server of a cluster
//! passed it on without carrying it out.
//!
//! Operations in the user's own words are commands such as `SET {key} {value} EX 60` (see
//! `words.rs` of `driver-server` for their grammar and `answers.rs` for what their replies mean).
//! All commands of one operation are one pipeline.
//!
//! With the option `cluster` the slots of a Redis Cluster are followed (see `cluster.rs`). The slot
//! of a command is that of its key: the first word that holds a record's key, or else the first
//! argument. A command with keys in several slots is refused by the server, and so is, by the
//! driver, what stands between MULTI and EXEC. In YCSB's layout `_indices` is one key, so one
//! server carries the index of all records, which `node_share_max` among the statistics shows.

mod address;
mod answers;
mod argument;
mod cluster;
mod cluster_batch;
mod commands;
mod connect;
mod console;
mod control;
mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod operation;
mod options;
mod prepared;
mod session;
mod slots;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};

use commands::Fields;
use control::Control;
use prepared::{Prepared, plain};

pub use options::options;
pub use session::RespSession;

/// A server that speaks the Redis protocol, reached.
pub struct Resp {
    settings: Arc<options::Settings>,
    fields: Arc<Fields>,
    statements: Arc<[Prepared]>,
    control: Control,
}

impl Resp {
    /// What the driver says of itself.
    pub const ABOUT: About = About {
        path: Some("database"),
        port: Some(address::PORT),
        counts_whole_server: true,
        one_thread_unless: Some("io-threads"),
        ycsb_bindings: &["redis", "site.ycsb.db.RedisClient"],
        ycsb_properties: &["redis."],
        ..About::new(
            "redis",
            Place::Hosts,
            &[
                Scheme::new("redis", "redis://host:6379"),
                Scheme {
                    implied: &[("tls", "true")],
                    ..Scheme::new("rediss", "rediss://host:6379")
                },
            ],
        )
    };

    /// Reaches the server and logs in. Not to be called within an asynchronous runtime, nor are
    /// `describe`, `statistics` and `settle`.
    ///
    /// # Errors
    /// [`OpenError::Option`] when an option is unknown or has a wrong value;
    /// [`OpenError::System`] when the server can't be reached, isn't trusted or refuses.
    pub fn open(
        options: &BTreeMap<String, serde_json::Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let settings = Arc::new(options::Settings::parse(options)?);
        let statements: Result<_, _> = layout.statements.iter().map(Prepared::new).collect();
        let prepare: Vec<_> = layout.prepare.iter().map(|text| plain(text)).collect();
        let prepare = prepare.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (fields, statements) = (Arc::new(Fields::new(layout)), statements?);
        let control = Control::open(Arc::clone(&settings))?;
        control.prepare(&layout.prepare, &prepare)?;
        Ok(Self { settings, fields, statements, control })
    }
}

impl Driver for Resp {
    type Blocking = Never;
    type Session = RespSession;

    fn capabilities(&self) -> Capabilities {
        let speedups =
            if self.settings.pipeline_parts { Vec::new() } else { vec![options::PARTS_TOGETHER] };
        Capabilities { speedups, ..Capabilities::all(Execution::Asynchronous, false) }
    }

    fn describe(&self) -> Description {
        self.control.describe()
    }

    fn session(&self, clients: u32) -> Result<AnySession<Never, RespSession>, OpenError> {
        let session = RespSession::open(&self.settings, &self.fields, &self.statements, clients)?;
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
