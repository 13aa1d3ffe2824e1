//! Systems that speak CQL: Cassandra, ScyllaDB, YugabyteDB's CQL API.
//!
//! A record is stored as YCSB's own Cassandra binding stores it (see `records.rs`). Statements in
//! the user's own words are prepared when the driver opens, and what is drawn for them is held
//! against the columns' types then (see `statement.rs`, `encode.rs`).
//!
//! Each worker has a session of the `scylla` crate on its own thread, with a few connections to
//! every node that all its clients share (see `cluster.rs`). A request is sent once unless the
//! options `retry` or `speculative_attempts` say otherwise. One that finds no node waits for an
//! attempt to reach the cluster again (see `link.rs`).
//!
//! The crate's calls are futures of tokio: a session runs them in a runtime of its own, on its
//! worker's thread, which goes on in each of its turns (see `session.rs`). It measures nothing by a
//! clock of its own: tokio's timers are for pauses and limits of milliseconds.
//!
//! A call that the engine gives up leaves its answer to be passed over. A connection that waits
//! long for more than 1024 such answers is closed and opened again by the crate.

mod address;
mod answer;
mod calls;
mod cluster;
mod control;
mod counters;
mod decode;
mod encode;
mod failure;
mod lane;
mod letter;
mod link;
mod options;
mod records;
mod replication;
mod schema;
mod session;
mod settings;
mod statement;
mod tls;
mod woken;
mod wording;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    AnySession, Capabilities, Description, Driver, Execution, Layout, Never, OpenError,
};

use control::Control;
use schema::Prepare;
use settings::Settings;

pub use options::{options, statement_options};
pub use session::CqlSession;

/// A cluster that speaks CQL, reached.
pub struct Cql {
    settings: Arc<Settings>,
    prepare: Prepare,
    control: Control,
}

impl Cql {
    /// Reaches the cluster, logs in, makes keyspace and table where they are missing, sends the
    /// layout's preparation and prepares every statement once. Not to be called within an
    /// asynchronous runtime, nor are `session` and `settle`.
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
        let (control, prepare) = control::open(&settings, layout)?;
        Ok(Self { settings, prepare, control })
    }
}

impl Driver for Cql {
    type Blocking = Never;
    type Session = CqlSession;

    fn capabilities(&self) -> Capabilities {
        Capabilities::all(Execution::Asynchronous, false)
    }

    fn describe(&self) -> Description {
        self.control.describe()
    }

    fn session(&self, clients: u32) -> Result<AnySession<Never, CqlSession>, OpenError> {
        CqlSession::open(&self.settings, &self.prepare, &self.control.counters, clients)
            .map(AnySession::Asynchronous)
    }

    fn settle(&self) -> Result<(), OpenError> {
        control::settle(&self.settings)
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        self.control.counters.by_name()
    }
}
