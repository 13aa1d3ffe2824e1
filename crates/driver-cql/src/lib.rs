//! Systems that speak CQL: Cassandra, ScyllaDB, YugabyteDB's CQL API.
//!
//! The record layout equals that of YCSB's Cassandra binding (see `records.rs`). User statements
//! are prepared when the driver opens, and their arguments are checked against the types of the
//! columns (see `statement.rs`, `encode.rs`).
//!
//! One control connection for all workers discovers nodes and follows changes (see `cluster.rs`);
//! the replicas of partitions follow from the tokens of the nodes (see `strategy.rs`). Each worker
//! has connections to every node, shared by its clients, and writes frames from prepared statements
//! (see `text.rs`, `session.rs`). A request is sent once unless the option `retry` allows more. A
//! request that finds no node waits for an attempt to reconnect.
//!
//! ScyllaDB's shards have own connections (see `shards.rs`). The protocol version is 4. Version 5
//! and speculative execution aren't supported.

mod address;
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
mod partitioner;
mod prepared;
mod records;
mod replication;
mod retry;
mod routing;
mod rows;
mod schema;
mod session;
mod settings;
mod shards;
mod statement;
mod strategy;
mod text;
mod topology;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};
use kvmark_driver_server::framed::Lines;

use cluster::Cluster;
use schema::Setup;
use session::Shared;
use settings::Settings;
use wire::Wire;

pub use options::{options, statement_options};
pub use session::CqlSession;

/// A connected cluster with CQL.
pub struct Cql {
    shared: Shared,
    /// Connections outside of sessions.
    lines: Lines<Wire>,
    description: Description,
}

impl Cql {
    /// The description of this driver.
    pub const ABOUT: About = About {
        path: Some("keyspace"),
        port: Some(address::PORT),
        ycsb_bindings: &["cassandra-cql", "scylla", "site.ycsb.db.CassandraCQLClient"],
        ycsb_properties: &["cassandra.", "scylla."],
        stores_text: true,
        ..About::new("cql", Place::Hosts, &[Scheme::new("cql", "cql://host:9042/keyspace")])
    };

    /// Connects to the cluster, logs in, creates a missing keyspace and table, sends the layout's
    /// preparation and prepares every statement.
    ///
    /// # Errors
    /// [`OpenError::Option`] if an option is unknown or invalid, or an argument doesn't fit its
    /// column; [`OpenError::System`] if the cluster is unreachable, isn't trusted or rejects the
    /// connection, or its table doesn't fit.
    pub fn open(
        options: &BTreeMap<String, serde_json::Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let settings = Arc::new(Settings::parse(options)?);
        let cluster = Cluster::reach(&settings)?;
        let (keyspace, prepared) = Setup::new(&cluster, layout).run()?;
        let description = control::describe(&cluster, keyspace.as_deref());
        let wire = Wire::new(&settings, keyspace);
        let lines = Lines::new(Arc::clone(&wire));
        prepared.repeat_at(&cluster.nodes[1..], &lines);
        let keyspaces = prepared.texts.iter().filter_map(|text| text.keyspace.clone());
        let watch = cluster.follow(keyspaces.collect())?;
        let shared = Shared {
            wire,
            settings,
            prepared: Arc::new(prepared),
            counters: Arc::default(),
            watch,
        };
        Ok(Self { shared, lines, description })
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
        control::settle(&self.lines, &self.shared.watch.latest().nodes)
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        self.shared.counters.by_name()
    }

    fn console(
        options: &BTreeMap<String, serde_json::Value>,
    ) -> Result<Option<AnyConsole>, OpenError> {
        let settings = Settings::parse(options)?;
        Ok(Some(Box::new(console::Console::new(settings))))
    }
}
