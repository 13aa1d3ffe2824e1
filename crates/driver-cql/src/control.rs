//! The description of a cluster, and waiting until it is idle.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use kvmark_driver::{Description, Durability, OpenError};
use kvmark_driver_server::framed::Lines;
use kvmark_plan::Outcome;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::schema::texts;
use crate::topology::Node;
use crate::wire::{Wire, select};

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
pub(crate) fn describe(cluster: &Cluster, keyspace: Option<&str>) -> Description {
    let Cluster { lines, nodes, .. } = cluster;
    let read = |query: &str, values: &[&str]| texts(lines, nodes[0], query, values);
    let ask = |query: &str, values: &[&str]| read(query, values).unwrap_or_default();
    let one = |query: &str| Some(ask(query, &[]).first()?.first()?.clone());
    let mut configuration = BTreeMap::new();
    for row in ask("SELECT name, value FROM system_views.settings", &[]) {
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
    let partitioner = one(&format!("SELECT partitioner {local}"));
    configuration.extend(partitioner.map(|name| ("partitioner".to_owned(), name)));
    configuration.insert("nodes".to_owned(), nodes.len().to_string());
    if let Some(keyspace) = keyspace {
        let query = "SELECT toJson(replication) FROM system_schema.keyspaces \
                     WHERE keyspace_name = ?";
        let replication = ask(query, &[keyspace]).into_iter().flatten().next();
        configuration.extend(replication.map(|map| ("replication".to_owned(), map)));
    }
    let scylla = one("SELECT version FROM system.versions WHERE key = 'local'");
    let yugabyte = read("SELECT partition_id FROM system.partitions LIMIT 1", &[]);
    let release = one(&format!("SELECT release_version {local}"));
    let (system, version) = match (scylla, yugabyte) {
        (Some(version), _) => ("ScyllaDB", Some(version)),
        (None, Ok(_)) => ("YugabyteDB", release),
        (None, Err(_)) => ("Cassandra", release),
    };
    let version = version.unwrap_or_else(|| "unknown".to_owned());
    Description { system: system.to_owned(), version, configuration }
}

/// Waits until no node compacts, if nodes report it (Cassandra 4.0 and later).
pub(crate) fn settle(lines: &Lines<Wire>, nodes: &[Node]) -> Result<(), OpenError> {
    let mut quiet = 0;
    for _ in 0..LOOKS {
        let busy = is_busy(lines, nodes);
        match busy.map_err(|failure| lines.protocol.settings.refused(failure))? {
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

/// Whether a node compacts; `None` if nodes don't report it. Nodes that are down don't compact.
fn is_busy(lines: &Lines<Wire>, nodes: &[Node]) -> Result<Option<bool>, Failure> {
    let query = "SELECT task_id FROM system_views.sstable_tasks";
    for node in nodes {
        match select(lines, node.address, query, &[]) {
            Ok(tasks) if tasks.is_empty() => {}
            Ok(_) => return Ok(Some(true)),
            Err(failure) => match failure.outcome {
                Outcome::Connection => {}
                Outcome::Refused => return Ok(None),
                _ => return Err(failure),
            },
        }
    }
    Ok(Some(false))
}
