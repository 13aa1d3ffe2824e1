//! State shared by the sessions of a cluster.

use std::sync::Arc;

use crate::counters::Counters;
use crate::prepared::Prepared;
use crate::settings::Settings;
use crate::topology::Watch;
use crate::wire::Wire;

/// The shared state, created when the cluster is opened.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) watch: Arc<Watch>,
}
