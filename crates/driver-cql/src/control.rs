//! The description of a cluster, and waiting until it is idle.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use kvmark_driver::{Description, Durability, OpenError};
use kvmark_plan::Outcome;
use scylla::client::session::Session;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};

use crate::cluster::Cluster;
use crate::failure::{Failure, failure_of};
use crate::schema::{rows, texts};
use crate::settings::Settings;

/// Interval between the checks of `settle`.
const LOOK: Duration = Duration::from_millis(200);
/// Greatest number of checks, for one hour.
const LOOKS: u32 = 18_000;
/// Consecutive checks that must find no compaction.
const QUIET_LOOKS: u32 = 3;

/// Parts of names of settings that describe a node's location, trust or secrets, not its behaviour.
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

/// Describes the cluster, as far as known.
pub(crate) async fn describe(session: &Session, keyspace: Option<&str>) -> Description {
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
    // With `periodic`, the process keeps the commit log's newest bytes after the reply.
    let durability = configuration.get("commitlog_sync").map(|mode| match mode.as_str() {
        "batch" | "group" => Durability::Sync,
        _ => Durability::None,
    });
    configuration.extend(durability.map(|level| ("durability".to_owned(), level.to_string())));
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

/// Waits until no node compacts, if nodes report it (Cassandra 4.0 and later).
pub(crate) fn settle(cluster: &Cluster, settings: &Settings) -> Result<(), OpenError> {
    let mut quiet = 0;
    for _ in 0..LOOKS {
        let busy = cluster.runtime.block_on(is_busy(&cluster.session));
        match busy.map_err(|failure| settings.refused(failure))? {
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

/// Whether a node compacts; `None` if nodes don't report it.
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
        match session.query_unpaged(query, ()).await.map_err(failure_of) {
            Ok(result) => {
                if rows(result)?.rows_num() > 0 {
                    return Ok(Some(true));
                }
            }
            Err(failure) if failure.outcome == Outcome::Refused => return Ok(None),
            Err(failure) => return Err(failure),
        }
    }
    Ok(Some(false))
}
