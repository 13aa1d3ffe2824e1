//! A session of the driver crate, made from the settings.
//!
//! Each worker has one on its own single-threaded executor: its connections, and the tasks behind
//! them, then never leave the worker's thread, and nothing is shared between workers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kvmark_driver_server::timers::{sleep, timeout};
use kvmark_plan::Outcome;
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::{Session, TlsContext};
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::ClusterState;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::retry::{
    DefaultRetryPolicy, DowngradingConsistencyRetryPolicy, FallthroughRetryPolicy, RetryPolicy,
};
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::policies::timestamp_generator::MonotonicTimestampGenerator;

use crate::failure::Failure;
use crate::settings::{Retry, Settings};

/// Limits on a connection that opening a session may take: one to hear of the nodes, one to reach
/// them all, and one for a node that is down.
const EXCHANGES: u32 = 3;
/// How often a session looks whether its connections are there.
const LOOK: Duration = Duration::from_millis(1);

/// Connects, and waits until every connection to the nodes that are up is open.
pub(crate) async fn connect(
    settings: &Settings,
    keyspace: Option<&str>,
    pool: PoolSize,
) -> Result<Session, Failure> {
    let session = build(settings, keyspace, pool, &[]).await?;
    wait_for_connections(&session, pool, settings.connect_timeout).await;
    Ok(session)
}

/// Connects anew to a cluster whose nodes were all lost, with one connection to each that is up
/// and the others in the background; none when the session that lost them has a node again.
pub(crate) async fn reconnect(
    settings: &Settings,
    keyspace: Option<&str>,
    lost: &ClusterState,
) -> Result<Option<Session>, Failure> {
    let nodes = lost.get_nodes_info();
    if nodes.iter().any(|node| node.is_connected()) {
        return Ok(None);
    }
    let known: Vec<_> =
        nodes.iter().map(|node| SocketAddr::new(node.address.ip(), node.address.port())).collect();
    let session = build(settings, keyspace, settings.pool, &known).await;
    session.map(Some).map_err(|failure| {
        let text = format!("no node can be reached: {}", failure.text);
        Failure::new(Outcome::Connection, text)
    })
}

async fn build(
    settings: &Settings,
    keyspace: Option<&str>,
    pool: PoolSize,
    known: &[SocketAddr],
) -> Result<Session, Failure> {
    let mut builder = SessionBuilder::new()
        .known_nodes(settings.address.hosts())
        .known_nodes_addr(known)
        .pool_size(pool)
        .compression(settings.compression)
        .connection_timeout(settings.connect_timeout)
        .metadata_request_clientside_timeout(settings.connect_timeout)
        .hostname_resolution_timeout(Some(settings.connect_timeout))
        .fetch_full_schema_metadata(false)
        .write_coalescing(settings.write_coalescing)
        .tcp_nodelay(settings.tcp_nodelay)
        .driver_config_reporting(false)
        .default_execution_profile_handle(profile(settings).into_handle());
    if let Some((username, password)) = &settings.login {
        builder = builder.user(username, password.reveal());
    }
    if let Some(tls) = &settings.tls {
        builder = builder.tls_context(Some(TlsContext::Rustls023(Arc::clone(&tls.0))));
    }
    if let Some(datacenter) = &settings.datacenter {
        builder = builder.prefer_datacenter(datacenter.clone());
    }
    if settings.client_timestamps {
        builder = builder.timestamp_generator(Arc::new(MonotonicTimestampGenerator::new()));
    }
    if let Some(keyspace) = keyspace {
        builder = builder.use_keyspace(keyspace, true);
    }
    // The crate limits the way to a node, but not what is said then.
    let limit = settings.connect_timeout.saturating_mul(EXCHANGES);
    let session = timeout(limit, builder.build()).await.map_err(|_| {
        let limit_ms = limit.as_millis();
        let text = format!(
            "it doesn't say what it is within {limit_ms} ms, {EXCHANGES} times \
                            connect_timeout_ms"
        );
        Failure::new(Outcome::Connection, text)
    })?;
    session.map_err(|error| {
        let failure = Failure::from(&error);
        Failure::new(failure.outcome, settings.without_secret(&failure.text))
    })
}

fn profile(settings: &Settings) -> ExecutionProfile {
    let retry: Arc<dyn RetryPolicy> = match settings.retry {
        Retry::None => Arc::new(FallthroughRetryPolicy::new()),
        Retry::Default => Arc::new(DefaultRetryPolicy::new()),
        Retry::Downgrading => Arc::new(DowngradingConsistencyRetryPolicy::new()),
    };
    let balancing = DefaultPolicy::builder()
        .token_aware(settings.token_aware)
        .permit_dc_failover(settings.datacenter.is_some());
    let speculation = settings.speculation.map(|speculation| {
        let policy = SimpleSpeculativeExecutionPolicy {
            max_retry_count: speculation.attempts,
            retry_interval: speculation.delay,
        };
        Arc::new(policy) as _
    });
    ExecutionProfile::builder()
        .consistency(settings.write)
        .serial_consistency(Some(settings.serial))
        .request_timeout(settings.request_timeout)
        .retry_policy(retry)
        .load_balancing_policy(balancing.build())
        .speculative_execution_policy(speculation)
        .build()
}

/// A session begins with one connection per node and opens the others in the background: what
/// isn't there within the limit is left to it, because a node may be down.
async fn wait_for_connections(session: &Session, pool: PoolSize, limit: Duration) {
    let metrics = session.get_metrics();
    for _ in 0..limit.as_millis() / LOOK.as_millis() {
        if metrics.get_total_connections() >= expected(session, pool) {
            return;
        }
        sleep(LOOK).await;
    }
}

/// Connections that a full pool has to the nodes that are up.
fn expected(session: &Session, pool: PoolSize) -> u64 {
    let state = session.get_cluster_state();
    let nodes = state.get_nodes_info().iter().filter(|node| node.is_connected());
    let connections = nodes.map(|node| match pool {
        PoolSize::PerHost(count) => count.get(),
        PoolSize::PerShard(count) => {
            let shards = node.sharder().map_or(1, |sharder| sharder.nr_shards.get().into());
            count.get() * shards
        }
    });
    connections.sum::<usize>() as u64
}
