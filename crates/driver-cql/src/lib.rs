//! Systems that speak CQL: Cassandra, ScyllaDB, YugabyteDB's CQL API.
//!
//! A record is stored as YCSB's own Cassandra binding stores it (see `records.rs`). Statements in
//! the user's own words are prepared when the driver opens, and what is drawn for them is held
//! against the columns' types then (see `statement.rs`, `encode.rs`).
//!
//! The `scylla` crate finds the nodes, hears of changes, prepares and knows who holds which
//! partition, by one session for all workers (see `cluster.rs`). What operations say goes over
//! connections of our own: each worker has some to every node, which all its clients share, and
//! writes frames from what was prepared (see `text.rs`, `session.rs`). A request is sent once
//! unless the option `retry` says otherwise. One that finds no node waits for an attempt to reach
//! one again.
//!
//! Protocol version 4. Left out are version 5, ports of shards and speculative execution.

mod address;
mod answer;
mod cluster;
mod console;
mod control;
mod counters;
mod decode;
mod encode;
mod failure;
mod frame;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod operation;
mod options;
mod prepared;
mod records;
mod replication;
mod retry;
mod routing;
mod rows;
mod schema;
mod session;
mod settings;
mod shared;
mod statement;
mod streams;
mod text;
mod tls;
mod topology;
mod wire;
mod wording;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};

use cluster::Cluster;
use settings::Settings;
use shared::Shared;
use wire::Wire;

pub use options::{options, statement_options};
pub use session::CqlSession;

/// A cluster that speaks CQL, reached.
pub struct Cql {
    shared: Shared,
    cluster: Cluster,
    description: Description,
}

impl Cql {
    /// What the driver says of itself.
    pub const ABOUT: About = About {
        path: Some("keyspace"),
        port: Some(address::PORT),
        ycsb_bindings: &["cassandra-cql", "scylla", "site.ycsb.db.CassandraCQLClient"],
        ycsb_properties: &["cassandra.", "scylla."],
        ..About::new("cql", Place::Hosts, &[Scheme::new("cql", "cql://host:9042/keyspace")])
    };

    /// Reaches the cluster, logs in, makes keyspace and table where they are missing, sends the
    /// layout's preparation and prepares every statement. Not to be called within an asynchronous
    /// runtime, nor are `session` and `settle`.
    ///
    /// # Errors
    /// [`OpenError::Option`] when an option is unknown or has a wrong value, or a statement's
    /// argument can't be of its column's type; [`OpenError::System`] when the cluster can't be
    /// reached, isn't trusted or refuses, or its table doesn't fit.
    pub fn open(
        options: &BTreeMap<String, serde_json::Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let settings = Arc::new(Settings::parse(options)?);
        let opened = control::open(&settings, layout)?;
        let control::Opened { cluster, prepared, keyspace, description } = opened;
        let shared = Shared {
            wire: Arc::new(Wire { settings: Arc::clone(&settings), keyspace }),
            settings,
            prepared: Arc::new(prepared),
            counters: Arc::default(),
            watch: Arc::clone(&cluster.watch),
        };
        Ok(Self { shared, cluster, description })
    }
}

impl Driver for Cql {
    type Blocking = Never;
    type Session = CqlSession;

    fn capabilities(&self) -> Capabilities {
        Capabilities::all(Execution::Asynchronous, false)
    }

    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn session(&self, clients: u32) -> Result<AnySession<Never, CqlSession>, OpenError> {
        CqlSession::open(self.shared.clone(), clients).map(AnySession::Asynchronous)
    }

    fn settle(&self) -> Result<(), OpenError> {
        control::settle(&self.cluster, &self.shared.settings)
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        self.shared.counters.by_name()
    }

    fn console(
        options: &BTreeMap<String, serde_json::Value>,
    ) -> Result<Option<AnyConsole>, OpenError> {
        let settings = Settings::parse(options)?;
        Ok(Some(Box::new(console::Console::new(settings)?)))
    }
}
