//! A limit on waiting where the engine keeps no time: before the clock starts, and between phases.

use std::pin::pin;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::oneshot;

/// The future's value, or none when it takes longer than the limit. Costs a thread.
pub async fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    let (ring, rung) = oneshot::channel::<()>();
    // Dropped with this future, which ends the thread.
    let (_cancel, cancelled) = channel::<()>();
    thread::spawn(move || {
        if cancelled.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // Nobody hears it when the work was done in the same moment.
            ring.send(()).ok();
        }
    });
    match select(pin!(work), rung).await {
        Either::Left((output, _)) => Some(output),
        Either::Right(_) => None,
    }
}
