//! The session of the `scylla` crate. It discovers nodes, follows changes, prepares statements and
//! knows the replicas of partitions. Operations use the connections of this driver.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use kvmark_driver::OpenError;
use kvmark_driver_server::framed::{KEEPALIVE, SILENCE};
use kvmark_driver_server::{Target, TlsProbe};
use kvmark_plan::Outcome;
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::{Session, TlsContext};
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use crate::failure::{Failure, failure_to_open};
use crate::settings::Settings;
use crate::topology::{Topology, Watch};

/// Time limit to open a session, as a multiple of the limit on connecting: one to discover the
/// nodes, one to connect to all of them, and one for a node that is down.
const EXCHANGES: u32 = 3;
/// An OPTIONS frame, which needs no login.
const TLS_PROBE: TlsProbe = TlsProbe {
    request: &[4, 0, 0, 0, 5, 0, 0, 0, 0],
    without: "leave tls out",
    with: "give tls=true",
};
/// Interval between checks for changes of the cluster.
const LOOK: Duration = Duration::from_millis(500);

/// The crate's session, on a separate thread.
pub(crate) struct Cluster {
    pub(crate) session: Arc<Session>,
    pub(crate) watch: Arc<Watch>,
    /// Dropped after its tasks.
    pub(crate) runtime: Runtime,
}

impl Cluster {
    /// Connects to the cluster. Must not be called within an asynchronous runtime.
    pub(crate) fn reach(settings: &Settings) -> Result<Self, OpenError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kvmark-cluster")
            .enable_all()
            .build();
        let runtime = runtime
            .map_err(|error| OpenError::System(format!("can't create an event loop ({error})")))?;
        let session = runtime.block_on(build(settings));
        let session = session.map_err(|failure| {
            let first = settings.address.nodes.first().expect("an address names at least one");
            let target = Target::Tcp(first.clone());
            settings.refused(TLS_PROBE.explain(failure, &target, settings.tls.is_some()))
        })?;
        Ok(Self { session: Arc::new(session), watch: Arc::default(), runtime })
    }

    /// Publishes the topology to the workers, now and after each change.
    pub(crate) fn follow(&self, keyspaces: BTreeSet<String>) {
        let (session, watch) = (Arc::clone(&self.session), Arc::clone(&self.watch));
        let mut known = session.get_cluster_state();
        watch.publish(Topology::of(&known, &keyspaces));
        self.runtime.spawn(async move {
            loop {
                sleep(LOOK).await;
                let state = session.get_cluster_state();
                if !Arc::ptr_eq(&state, &known) {
                    watch.publish(Topology::of(&state, &keyspaces));
                    known = state;
                }
            }
        });
    }
}

async fn build(settings: &Settings) -> Result<Session, Failure> {
    let mut builder = SessionBuilder::new()
        .known_nodes(settings.address.hosts())
        .pool_size(PoolSize::PerHost(NonZeroUsize::MIN))
        .compression(settings.compression)
        .connection_timeout(settings.connect_timeout)
        .metadata_request_clientside_timeout(settings.connect_timeout)
        .tcp_keepalive_interval(KEEPALIVE)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(SILENCE - KEEPALIVE)
        .hostname_resolution_timeout(Some(settings.connect_timeout))
        .fetch_full_schema_metadata(false)
        .tcp_nodelay(settings.tcp_nodelay)
        .driver_config_reporting(false)
        .default_execution_profile_handle(profile(settings).into_handle());
    if let Some((username, password)) = &settings.login {
        builder = builder.user(username, password.reveal());
    }
    if let Some(tls) = &settings.tls {
        builder = builder.tls_context(Some(TlsContext::Rustls023(Arc::clone(tls))));
    }
    if let Some(datacenter) = &settings.datacenter {
        builder = builder.prefer_datacenter(datacenter.clone());
    }
    // The crate limits the time to connect, but not that of the requests after it.
    let limit = settings.connect_timeout.saturating_mul(EXCHANGES);
    let session = timeout(limit, builder.build()).await.map_err(|_| {
        let limit_ms = limit.as_millis();
        let text = format!(
            "no description of the cluster within {limit_ms} ms, {EXCHANGES} times \
             connect_timeout_ms"
        );
        Failure::new(Outcome::Connection, text)
    })?;
    session.map_err(failure_to_open)
}

fn profile(settings: &Settings) -> ExecutionProfile {
    ExecutionProfile::builder()
        .consistency(settings.write)
        .serial_consistency(Some(settings.serial))
        .request_timeout(settings.request_timeout)
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .build()
}
