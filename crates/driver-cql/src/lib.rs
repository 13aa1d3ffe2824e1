//! Systems that speak CQL: Cassandra, ScyllaDB, YugabyteDB's CQL API.
//!
//! The record layout equals that of YCSB's Cassandra binding (see `records.rs`). User statements
//! are prepared when the driver opens, and their arguments are checked against the types of the
//! columns (see `statement.rs`, `encode.rs`).
//!
//! One session of the `scylla` crate for all workers discovers nodes, follows changes, prepares
//! statements and knows the replicas of partitions (see `cluster.rs`). Operations use connections
//! of this driver: each worker has some to every node, shared by its clients, and writes frames
//! from prepared statements (see `text.rs`, `session.rs`). A request is sent once unless the option
//! `retry` allows more. A request that finds no node waits for an attempt to reconnect.
//!
//! The protocol version is 4. Version 5, shard-aware ports and speculative execution aren't
//! supported.

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
mod prepared;
mod records;
mod replication;
mod retry;
mod routing;
mod rows;
mod schema;
mod session;
mod settings;
mod statement;
mod text;
mod tls;
mod topology;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};

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
    cluster: Cluster,
    description: Description,
}

impl Cql {
    /// The description of this driver.
    pub const ABOUT: About = About {
        path: Some("keyspace"),
        port: Some(address::PORT),
        ycsb_bindings: &["cassandra-cql", "scylla", "site.ycsb.db.CassandraCQLClient"],
        ycsb_properties: &["cassandra.", "scylla."],
        ..About::new("cql", Place::Hosts, &[Scheme::new("cql", "cql://host:9042/keyspace")])
    };

    /// Connects to the cluster, logs in, creates a missing keyspace and table, sends the layout's
    /// preparation and prepares every statement. `open`, `session` and `settle` must not be called
    /// within an asynchronous runtime.
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
        let session = &cluster.session;
        let (keyspace, prepared, description) = cluster.runtime.block_on(async {
            let setup = Setup { session, settings: &settings, layout };
            let (keyspace, prepared) = setup.run().await?;
            let description = control::describe(session, keyspace.as_deref()).await;
            Ok::<_, OpenError>((keyspace, prepared, description))
        })?;
        let keyspaces = prepared.texts.iter().filter_map(|text| text.keyspace.clone());
        cluster.follow(keyspaces.collect());
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
