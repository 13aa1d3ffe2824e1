//! Where clients on threads of their own take the arrivals of one schedule in turn.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// A value that one thread has at a time. Who waits for it can look after something else meanwhile.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    value: Mutex<T>,
    /// Threads that wait, or are about to.
    waiting: AtomicU32,
    gate: Mutex<()>,
    freed: Condvar,
}

/// The value, until it is dropped.
#[derive(Debug)]
pub(crate) struct Held<'a, T> {
    queue: &'a Queue<T>,
    /// None only while it is dropped.
    value: Option<MutexGuard<'a, T>>,
}

impl<T> Queue<T> {
    pub(crate) fn new(value: T) -> Self {
        let (waiting, gate) = (AtomicU32::new(0), Mutex::new(()));
        Self { value: Mutex::new(value), waiting, gate, freed: Condvar::new() }
    }

    /// The value, if no other thread has it.
    #[inline]
    pub(crate) fn try_enter(&self) -> Option<Held<'_, T>> {
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Held { queue: self, value: Some(value) })
    }

    /// The value as soon as no other thread has it; none if one has it for longer than this.
    pub(crate) fn enter_within(&self, patience: Duration) -> Option<Held<'_, T>> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Whoever frees the value from now on sees this thread, or is seen to have freed it.
        fence(Ordering::SeqCst);
        let mut found = None;
        let waits = |_: &mut ()| {
            found = self.try_enter();
            found.is_none()
        };
        drop(self.freed.wait_timeout_while(gate, patience, waits));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        found
    }
}

impl<T> Held<'_, T> {
    #[inline(never)]
    fn release(&mut self) {
        self.value = None;
        fence(Ordering::SeqCst);
        if self.queue.waiting.load(Ordering::Relaxed) > 0 {
            // Who waits has looked for the value within the gate, or will.
            drop(self.queue.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.queue.freed.notify_one();
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is held until it is dropped")
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("it is held until it is dropped")
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn each_thread_has_the_value_alone_and_none_waits_for_ever() {
        let queue = Queue::new(0_u64);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let held = queue.try_enter();
                        let long = Duration::from_secs(3600);
                        let mut held = held.or_else(|| queue.enter_within(long)).unwrap();
                        *held += 1;
                    }
                });
            }
        });
        assert_eq!(*queue.try_enter().unwrap(), 80_000);
    }

    #[test]
    fn who_waits_in_vain_is_let_go_on() {
        let queue = Queue::new(());
        let held = queue.try_enter();
        thread::scope(|scope| {
            scope.spawn(|| assert!(queue.enter_within(Duration::from_millis(1)).is_none()));
        });
        drop(held);
        assert!(queue.enter_within(Duration::ZERO).is_some());
    }
}
