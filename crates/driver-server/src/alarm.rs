//! A limit on waiting where the engine keeps no time: before the clock starts, between phases, and
//! for connections that are opened beside the turns of a worker.

use std::pin::pin;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::{oneshot, watch};

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

/// Steps into which an [`Alarm`] divides its limit.
const STEPS: u32 = 16;

/// The same limit on any number of waits at once, for one thread that counts steps while somebody
/// waits. It reads no clock, so a limit is kept to a sixteenth more.
#[derive(Debug)]
pub struct Alarm {
    /// Steps so far.
    steps: Arc<watch::Sender<u64>>,
    // Woken when the steps are gone, so that it ends.
    thread: Woken,
}

/// A thread that is woken when nobody needs it any more.
#[derive(Debug)]
struct Woken(Thread);

impl Drop for Woken {
    fn drop(&mut self) {
        self.0.unpark();
    }
}

impl Alarm {
    /// An alarm for waits of this limit. Its thread ends with it.
    ///
    /// # Errors
    /// The system's, when there can't be another thread.
    pub fn new(limit: Duration) -> std::io::Result<Self> {
        let steps = Arc::new(watch::Sender::new(0));
        let of_thread = Arc::downgrade(&steps);
        let count = move || count(limit / STEPS, &of_thread);
        let thread = thread::Builder::new().name("kvmark-alarm".to_owned()).spawn(count)?;
        Ok(Self { steps, thread: Woken(thread.thread().clone()) })
    }

    /// The future's value, or none when it takes longer than the limit.
    pub fn within<F: Future>(&self, work: F) -> impl Future<Output = Option<F::Output>> + use<F> {
        let mut steps = self.steps.subscribe();
        // The first step may be nearly over.
        let last = *steps.borrow() + u64::from(STEPS) + 1;
        self.thread.0.unpark();
        async move {
            let over = async { steps.wait_for(|step| *step >= last).await.is_ok() };
            match select(pin!(work), pin!(over)).await {
                Either::Left((output, _)) => Some(output),
                Either::Right(_) => None,
            }
        }
    }
}

/// Counts steps while somebody waits, as long as there is an alarm.
fn count(step: Duration, steps: &Weak<watch::Sender<u64>>) {
    while let Some(counter) = steps.upgrade() {
        let somebody_waits = counter.receiver_count() > 0;
        drop(counter);
        if somebody_waits {
            thread::sleep(step);
            if let Some(counter) = steps.upgrade() {
                counter.send_modify(|steps| *steps += 1);
            }
        } else {
            thread::park();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn work_that_never_ends_is_ended_and_what_is_done_is_not() {
        let alarm = Alarm::new(Duration::from_millis(1)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for _ in 0..3 {
            let endless: Vec<_> = (0..100).map(|_| alarm.within(pending::<()>())).collect();
            assert_eq!(runtime.block_on(alarm.within(ready(7))), Some(7));
            for work in endless {
                assert_eq!(runtime.block_on(work), None);
            }
        }
    }
}
