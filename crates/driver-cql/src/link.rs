//! A worker's way to the cluster, and back to it when every node was lost.
//!
//! The crate mends its connections itself, but tries a node that stays away only every ten seconds
//! in the end, and answers requests that find no node at once: a client in a closed loop would then
//! fail millions of times a second. So a request that finds no node waits for an attempt to reach
//! the cluster anew, which all clients of the worker share, and fails with it. Attempts are spaced
//! by a pause that doubles up to the option `reconnect_max_ms`. A request is waited for in this way
//! only if it was sent to nobody, so that nothing is done twice.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::Shared;
use kvmark_driver_server::timers::{Pause, timeout};
use kvmark_plan::Outcome;
use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use tokio::sync::oneshot;

use crate::cluster::{connect, reconnect};
use crate::counters::Counters;
use crate::failure::Failure;
use crate::settings::Settings;

/// The pause before the second attempt in a row.
const PAUSE: Duration = Duration::from_millis(10);
/// Doublings after which a pause is longer than any limit on it.
const DOUBLINGS: u32 = 20;

/// The new session; none when the crate's own came back first.
type Reached = Result<Option<Arc<Session>>, Failure>;

/// A worker's session of the crate, replaced when it was lost.
pub(crate) struct Link {
    settings: Arc<Settings>,
    keyspace: Option<String>,
    counters: Arc<Counters>,
    session: RefCell<Arc<Session>>,
    /// The attempt under way.
    attempt: RefCell<Option<Shared<oneshot::Receiver<Reached>>>>,
    /// Attempts since a request was answered.
    attempts: Cell<u32>,
    /// The pause after the last attempt.
    pause: Cell<Pause>,
}

impl Link {
    pub(crate) async fn open(
        settings: &Arc<Settings>,
        keyspace: Option<&str>,
        counters: &Arc<Counters>,
    ) -> Result<Self, Failure> {
        let session = connect(settings, keyspace, settings.pool).await?;
        counters.watch(session.get_metrics());
        Ok(Self {
            settings: Arc::clone(settings),
            keyspace: keyspace.map(str::to_owned),
            counters: Arc::clone(counters),
            session: RefCell::new(Arc::new(session)),
            attempt: RefCell::default(),
            attempts: Cell::new(0),
            pause: Cell::new(Pause::of(Duration::ZERO)),
        })
    }

    /// The session as it is now.
    pub(crate) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.borrow())
    }

    /// Sends a request, once more if no node was there to take it and one is there now.
    pub(crate) async fn send<T>(
        &self,
        request: impl AsyncFn(&Session) -> Result<T, ExecutionError>,
    ) -> Result<T, Failure> {
        let mut waited = false;
        loop {
            let session = self.session();
            match request(&session).await {
                Ok(answer) => {
                    self.attempts.set(0);
                    return Ok(answer);
                }
                Err(error) if !waited && is_unsent(&error) => {
                    waited = true;
                    self.reach_in_time(&session).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns when the cluster is reached again, at most after the limit on a request.
    async fn reach_in_time(&self, lost: &Arc<Session>) -> Result<(), Failure> {
        let Some(limit) = self.settings.request_timeout else { return self.reach(lost).await };
        timeout(limit, self.reach(lost)).await.unwrap_or_else(|_| {
            let limit_ms = limit.as_millis();
            let text = format!("no node could be reached within request_timeout_ms ({limit_ms})");
            Err(Failure::new(Outcome::Connection, text))
        })
    }

    /// Returns when the cluster is reached again, or one attempt at it has failed.
    async fn reach(&self, lost: &Arc<Session>) -> Result<(), Failure> {
        while self.attempt.borrow().is_none() && self.pauses() {
            self.pause.get().end().await;
        }
        if !self.is_current(lost) {
            return Ok(());
        }
        let attempt = self.attempt.borrow_mut().get_or_insert_with(|| self.begin(lost)).clone();
        // It is dropped with the worker only, and then nobody waits for it.
        let reached = attempt.clone().await.unwrap_or(Ok(None));
        if self.attempt.borrow().as_ref().is_some_and(|current| current.ptr_eq(&attempt)) {
            self.conclude(&reached);
        }
        reached.map(drop)
    }

    /// Whether the next attempt must wait; it need not after a request that was answered.
    fn pauses(&self) -> bool {
        self.attempts.get() > 0 && !self.pause.get().is_over()
    }

    fn is_current(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session.borrow(), session)
    }

    /// Begins an attempt, on a task of its own so that it goes on when its clients give up.
    fn begin(&self, lost: &Session) -> Shared<oneshot::Receiver<Reached>> {
        self.counters.reconnecting();
        let (settings, keyspace) = (Arc::clone(&self.settings), self.keyspace.clone());
        let nodes = lost.get_cluster_state();
        let (done, waiting) = oneshot::channel();
        tokio::spawn(async move {
            let reached = reconnect(&settings, keyspace.as_deref(), &nodes).await;
            // Nobody hears it when the worker has ended.
            done.send(reached.map(|session| session.map(Arc::new))).ok();
        });
        waiting.shared()
    }

    /// Takes what came of the attempt under way, once.
    fn conclude(&self, reached: &Reached) {
        *self.attempt.borrow_mut() = None;
        self.pause.set(Pause::of(pause(self.attempts.get(), &self.settings)));
        self.attempts.set(self.attempts.get().saturating_add(1));
        if let Ok(Some(session)) = reached {
            self.counters.watch(session.get_metrics());
            *self.session.borrow_mut() = Arc::clone(session);
        }
    }
}

/// Whether a request failed because there was no node to send it to.
fn is_unsent(error: &ExecutionError) -> bool {
    matches!(error, ExecutionError::ConnectionPoolError(_) | ExecutionError::EmptyPlan)
}

/// The pause after this many attempts in vain and one more.
fn pause(attempts: u32, settings: &Settings) -> Duration {
    PAUSE.saturating_mul(1 << attempts.min(DOUBLINGS)).min(settings.reconnect_max)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn pauses_double_up_to_the_option() {
        let options = BTreeMap::from([("reconnect_max_ms".to_owned(), json!(45))]);
        let settings = Settings::parse(&options).unwrap();
        let pauses = [0, 1, 2, 3, u32::MAX].map(|attempts| pause(attempts, &settings));
        assert_eq!(pauses, [10, 20, 40, 45, 45].map(Duration::from_millis));
    }
}
