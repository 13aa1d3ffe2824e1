//! Which clients of a session can go on.

use std::mem::swap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use kvmark_driver::Ticket;

/// Remembers the clients that were woken, and wakes the runtime unless the session looks anyway.
#[derive(Debug, Default)]
pub(crate) struct Woken(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    /// In order; a client may be there twice.
    tickets: Vec<Ticket>,
    /// What wakes the runtime while the session rests in it.
    resting: bool,
    runtime: Option<Waker>,
}

/// What wakes one client.
struct Client {
    woken: Arc<Woken>,
    ticket: Ticket,
}

impl Wake for Client {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut remembered = self.woken.lock();
        remembered.tickets.push(self.ticket);
        if remembered.resting
            && let Some(runtime) = &remembered.runtime
        {
            runtime.wake_by_ref();
        }
    }
}

impl Woken {
    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What wakes this client.
    pub(crate) fn waker(self: &Arc<Self>, ticket: Ticket) -> Waker {
        Waker::from(Arc::new(Client { woken: Arc::clone(self), ticket }))
    }

    /// Moves those that were woken into the list, which is empty.
    pub(crate) fn take(&self, tickets: &mut Vec<Ticket>) {
        let mut remembered = self.lock();
        remembered.resting = false;
        swap(&mut remembered.tickets, tickets);
    }

    /// Has the runtime woken for the next client, at once if one was woken already.
    pub(crate) fn rest(&self, runtime: &Waker) {
        let mut remembered = self.lock();
        if !remembered.tickets.is_empty() {
            return runtime.wake_by_ref();
        }
        remembered.resting = true;
        match &mut remembered.runtime {
            Some(known) => known.clone_from(runtime),
            none => *none = Some(runtime.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_runtime_is_woken_only_while_the_session_rests() {
        let (woken, count) = (Arc::new(Woken::default()), Arc::new(Count::default()));
        let runtime = Waker::from(Arc::clone(&count));
        let times = || count.0.load(Ordering::Relaxed);
        let mut tickets = Vec::new();
        woken.waker(3).wake();
        assert_eq!(times(), 0);
        woken.rest(&runtime);
        assert_eq!(times(), 1, "one was woken before");
        woken.take(&mut tickets);
        assert_eq!(tickets, [3]);
        tickets.clear();
        woken.rest(&runtime);
        assert_eq!(times(), 1);
        woken.waker(5).wake();
        assert_eq!(times(), 2);
        woken.take(&mut tickets);
        assert_eq!(tickets, [5]);
    }
}
