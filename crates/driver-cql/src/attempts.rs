//! How often a request was sent.
//!
//! The driver crate tells a listener of every attempt, but not whose it is. It does so while the
//! operation's future is polled, and a session is polled by one thread: so what the listener heard
//! during a poll belongs to that operation.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use scylla::errors::{RequestAttemptError, RequestError};
use scylla::observability::history::{AttemptId, HistoryListener, RequestId, SpeculativeId};
use scylla::policies::retry::RetryDecision;

#[derive(Debug)]
struct Heard {
    requests: AtomicU32,
    attempts: AtomicU32,
}

/// The attempts of one session.
#[derive(Clone, Debug)]
pub(crate) struct Attempts(Arc<Heard>);

impl Attempts {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Heard { requests: AtomicU32::new(0), attempts: AtomicU32::new(0) }))
    }

    /// Tells this what happens to a statement.
    pub(crate) fn listener(&self) -> Arc<dyn HistoryListener> {
        Arc::clone(&self.0) as _
    }

    /// The work's output, and the attempts it made beyond one for each of its requests.
    pub(crate) async fn of<F: Future>(&self, work: F) -> (F::Output, u32) {
        let mut work = pin!(work);
        let (mut requests, mut attempts) = (0, 0);
        let output = poll_fn(|context| {
            let polled = work.as_mut().poll(context);
            requests += self.0.requests.swap(0, Ordering::Relaxed);
            attempts += self.0.attempts.swap(0, Ordering::Relaxed);
            polled
        })
        .await;
        (output, attempts.saturating_sub(requests))
    }
}

impl HistoryListener for Heard {
    fn log_request_start(&self) -> RequestId {
        self.requests.fetch_add(1, Ordering::Relaxed);
        RequestId(0)
    }

    fn log_request_success(&self, _: RequestId) {}

    fn log_request_error(&self, _: RequestId, _: &RequestError) {}

    fn log_new_speculative_fiber(&self, _: RequestId) -> SpeculativeId {
        SpeculativeId(0)
    }

    fn log_attempt_start(
        &self,
        _: RequestId,
        _: Option<SpeculativeId>,
        _: SocketAddr,
    ) -> AttemptId {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        AttemptId(0)
    }

    fn log_attempt_success(&self, _: AttemptId) {}

    fn log_attempt_error(&self, _: AttemptId, _: &RequestAttemptError, _: &RetryDecision) {}
}
