//! A limit on waiting where the engine keeps no time: before the clock starts, and between phases.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

#[derive(Debug, Default)]
struct Bell {
    rung: bool,
    waker: Option<Waker>,
}

/// The future's value, or none when it takes longer than the limit. Costs a thread.
pub(crate) async fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    let bell = Arc::new(Mutex::new(Bell::default()));
    let _cancel = set(limit, Arc::clone(&bell));
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        let mut bell = bell.lock().unwrap_or_else(PoisonError::into_inner);
        if bell.rung {
            return Poll::Ready(None);
        }
        bell.waker = Some(context.waker().clone());
        Poll::Pending
    })
    .await
}

/// Rings after the time unless what is returned is dropped before.
fn set(limit: Duration, bell: Arc<Mutex<Bell>>) -> Sender<()> {
    let (cancel, cancelled) = channel::<()>();
    thread::spawn(move || {
        if cancelled.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let mut bell = bell.lock().unwrap_or_else(PoisonError::into_inner);
            bell.rung = true;
            if let Some(waker) = bell.waker.take() {
                waker.wake();
            }
        }
    });
    cancel
}
