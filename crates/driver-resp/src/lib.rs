//! Systems that speak the Redis protocol: Redis, Valkey, YugabyteDB's Redis API.
//!
//! The record layout equals that of YCSB's Redis binding (see `commands.rs`), so each tool can read
//! the data of the other. Keys don't contain the table's name. Each client has a connection, or the
//! clients of a worker share a few with pipelined requests.
//!
//! A request on a closed connection waits for the current attempt to reopen it and fails with it. A
//! request is sent once, unless a server of a cluster redirects it without executing it.
//!
//! Statements are commands such as `SET {key} {value} EX 60` (see `words.rs` of `driver-server` for
//! the grammar and `answers.rs` for the replies). All commands of an operation are one pipeline.
//!
//! The option `cluster` enables Redis Cluster (see `cluster.rs`). The key of a command is the first
//! word with a record's key, or else its first argument. Servers reject commands with keys in
//! several slots, and the driver rejects such transactions. In YCSB's layout `_indices` is a single
//! key, so one server has the index of all records. The statistic `node_share_max` shows this.

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
mod slots;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};

use kvmark_driver_server::framed::{Lines, RequestReplySession};

use cluster::Cluster;
use commands::Fields;
use connect::Connections;
use control::Control;
use operation::{Context, Dialect, RespOperation};
use prepared::{Prepared, plain};

pub use options::options;

/// A worker's session.
pub type RespSession = RequestReplySession<options::Settings, RespOperation, Cluster>;

/// A connected server with the Redis protocol.
pub struct Resp {
    settings: Arc<options::Settings>,
    fields: Arc<Fields>,
    statements: Arc<[Prepared]>,
    control: Control,
}

impl Resp {
    /// The description of this driver.
    pub const ABOUT: About = About {
        path: Some("database"),
        port: Some(options::PORT),
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

    /// Connects to the server and logs in.
    ///
    /// # Errors
    /// [`OpenError::Option`] if an option is unknown or invalid; [`OpenError::System`] if the
    /// server is unreachable, isn't trusted or rejects the connection.
    pub fn open(
        options: &BTreeMap<String, serde_json::Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let settings = Arc::new(options::Settings::parse(options)?);
        let prepare = layout.prepare.iter().map(|text| plain(text));
        let prepare = prepare.collect::<Result<Vec<_>, _>>()?;
        let statements = layout.statements.iter().map(Prepared::new).collect::<Result<_, _>>()?;
        let fields = Arc::new(Fields::new(layout));
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
        let Self { settings, fields, statements, control } = self;
        let dialect = Dialect {
            fields: Arc::clone(fields),
            statements: Arc::clone(statements),
            pipeline_parts: settings.pipeline_parts,
        };
        let context = Context::new(dialect, settings.cluster);
        let (protocol, limits) = (Arc::clone(settings), settings.limits);
        if !settings.cluster {
            return RespSession::open(protocol, &settings.targets, limits, context, clients)
                .map(AnySession::Asynchronous);
        }
        let mut connections = Connections::new(protocol, limits.width(clients))?;
        let cluster = Cluster::open(control.shares()?, &mut connections)?;
        Ok(AnySession::Asynchronous(RespSession::routed(connections, cluster, context, clients)))
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
        Ok(Some(Box::new(console::Console(Lines::new(Arc::new(settings))))))
    }
}
