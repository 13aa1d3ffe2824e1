//! What the driver asks the cluster about itself, on connections of its own that are closed again.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kvmark_driver::{Description, Layout, OpenError};
use kvmark_plan::Outcome;
use scylla::client::PoolSize;
use scylla::client::session::Session;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};
use tokio::runtime::{Builder, Runtime};

use crate::cluster::connect;
use crate::counters::Counters;
use crate::failure::Failure;
use crate::schema::{Prepare, texts};
use crate::settings::Settings;

/// How often `settle` looks.
const LOOK: Duration = Duration::from_millis(200);
/// How often it looks at most: for an hour.
const LOOKS: u32 = 18_000;
/// Looks in a row that must find nothing going on.
const QUIET_LOOKS: u32 = 3;

/// Parts of names of settings that say where a node is, whom it trusts or what it was told in
/// secret, not how it works.
const PLACES: [&str; 12] = [
    "address",
    "cluster_name",
    "director",
    "encryption",
    "host_id",
    "initial_token",
    "interface",
    "keystore",
    "password",
    "_port",
    "seed_provider",
    "truststore",
];

/// What the driver knows of the cluster between sessions.
pub(crate) struct Control {
    description: Description,
    /// Counters of every session.
    pub(crate) counters: Arc<Counters>,
}

/// Reaches the cluster, makes what is missing, prepares everything once and asks what it is.
pub(crate) fn open(settings: &Settings, layout: &Layout) -> Result<(Control, Prepare), OpenError> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let session = reach(settings).await?;
        let prepare = Prepare::open(&session, settings, layout).await?;
        prepare.carry_out(&session, settings).await?;
        let description = describe(&session, prepare.keyspace.as_deref()).await;
        let control = Control { description, counters: Arc::default() };
        Ok((control, prepare))
    })
}

/// A runtime for this thread.
pub(crate) fn runtime() -> Result<Runtime, OpenError> {
    Builder::new_current_thread().enable_all().build().map_err(|error| {
        OpenError::System(format!("no event loop for the cluster's connections ({error})"))
    })
}

async fn reach(settings: &Settings) -> Result<Session, OpenError> {
    let pool = PoolSize::PerHost(NonZeroUsize::MIN);
    let session = connect(settings, None, pool).await;
    session.map_err(|failure| failure.at(&settings.address.hosts()))
}

impl Control {
    pub(crate) fn describe(&self) -> Description {
        self.description.clone()
    }
}

/// What the cluster says it is. What it doesn't say is left out.
async fn describe(session: &Session, keyspace: Option<&str>) -> Description {
    let ask = async |query: &str, values: &[&str]| {
        texts(session, query, values).await.unwrap_or_default()
    };
    let one = async |query: &str| Some(ask(query, &[]).await.first()?.first()?.clone());
    let mut configuration = BTreeMap::new();
    for row in ask("SELECT name, value FROM system_views.settings", &[]).await {
        if let Ok([name, value]) = <[String; 2]>::try_from(row)
            && !PLACES.iter().any(|place| name.contains(place))
        {
            configuration.insert(name, value);
        }
    }
    let local = "FROM system.local WHERE key = 'local'";
    let partitioner = one(&format!("SELECT partitioner {local}")).await;
    configuration.extend(partitioner.map(|name| ("partitioner".to_owned(), name)));
    let nodes = session.get_cluster_state().get_nodes_info().len();
    configuration.insert("nodes".to_owned(), nodes.to_string());
    if let Some(keyspace) = keyspace {
        let query = "SELECT toJson(replication) FROM system_schema.keyspaces \
                     WHERE keyspace_name = ?";
        let replication = ask(query, &[keyspace]).await.into_iter().flatten().next();
        configuration.extend(replication.map(|map| ("replication".to_owned(), map)));
    }
    let scylla = one("SELECT version FROM system.versions WHERE key = 'local'").await;
    let yugabyte = texts(session, "SELECT partition_id FROM system.partitions LIMIT 1", &[]).await;
    let release = one(&format!("SELECT release_version {local}")).await;
    let (system, version) = match (scylla, yugabyte) {
        (Some(version), _) => ("ScyllaDB", Some(version)),
        (None, Ok(_)) => ("YugabyteDB", release),
        (None, Err(_)) => ("Cassandra", release),
    };
    let version = version.unwrap_or_else(|| "unknown".to_owned());
    Description { system: system.to_owned(), version, configuration }
}

/// Waits until no node compacts, where nodes say so (Cassandra from 4.0 on); elsewhere there is
/// nothing to wait for.
pub(crate) fn settle(settings: &Settings) -> Result<(), OpenError> {
    let runtime = runtime()?;
    let session = runtime.block_on(reach(settings))?;
    let mut quiet = 0;
    for _ in 0..LOOKS {
        let busy = runtime.block_on(is_busy(&session));
        match busy.map_err(|failure| failure.at(&settings.address.hosts()))? {
            None => return Ok(()),
            Some(true) => quiet = 0,
            Some(false) => quiet += 1,
        }
        if quiet >= QUIET_LOOKS {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
    let text = "the cluster still compacts after an hour: wait for it, or load less";
    Err(OpenError::System(text.to_owned()))
}

/// Whether a node that is up compacts; none when nodes don't say.
async fn is_busy(session: &Session) -> Result<Option<bool>, Failure> {
    for node in session.get_cluster_state().get_nodes_info() {
        if !node.is_connected() {
            continue;
        }
        let mut query = Statement::new("SELECT task_id FROM system_views.sstable_tasks");
        query.set_consistency(Consistency::One);
        let node = NodeIdentifier::HostId(node.host_id);
        let only = SingleTargetLoadBalancingPolicy::new(node, None);
        query.set_load_balancing_policy(Some(only));
        match session.query_unpaged(query, ()).await.map_err(Failure::from) {
            Ok(result) => {
                if crate::answer::rows(result)?.rows_num() > 0 {
                    return Ok(Some(true));
                }
            }
            Err(failure) if failure.outcome == Outcome::Refused => return Ok(None),
            Err(failure) => return Err(failure),
        }
    }
    Ok(Some(false))
}
