//! A lock with which the clients' threads take the arrivals of one schedule in order.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// A value for one thread at a time. A waiting thread can do other work between attempts.
#[derive(Debug)]
pub(crate) struct HandoffLock<T> {
    value: Mutex<T>,
    /// The number of threads that wait or are about to.
    waiting: AtomicU32,
    /// Whether a thread was woken that hasn't tried to take the value yet.
    woken: AtomicBool,
    gate: Mutex<()>,
    freed: Condvar,
}

/// Access to the value until it is dropped.
#[derive(Debug)]
pub(crate) struct HandoffGuard<'a, T> {
    lock: &'a HandoffLock<T>,
    /// `None` only during the drop.
    value: Option<MutexGuard<'a, T>>,
}

impl<T> HandoffLock<T> {
    pub(crate) fn new(value: T) -> Self {
        let (waiting, woken) = (AtomicU32::new(0), AtomicBool::new(false));
        let (gate, freed) = (Mutex::new(()), Condvar::new());
        Self { value: Mutex::new(value), waiting, woken, gate, freed }
    }

    /// Returns the value unless another thread has it.
    #[inline]
    pub(crate) fn try_enter(&self) -> Option<HandoffGuard<'_, T>> {
        let value = match self.value.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(HandoffGuard { lock: self, value: Some(value) })
    }

    /// Waits for the value; `None` after the time limit.
    pub(crate) fn enter_within(&self, patience: Duration) -> Option<HandoffGuard<'_, T>> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let mut found = None;
        let waits = |_: &mut ()| {
            self.woken.store(false, Ordering::Relaxed);
            // A thread that releases the value later sees both; an earlier release is visible here.
            fence(Ordering::SeqCst);
            found = self.try_enter();
            found.is_none()
        };
        drop(self.freed.wait_timeout_while(gate, patience, waits));
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        found
    }
}

impl<T> HandoffGuard<'_, T> {
    #[inline(never)]
    fn release(&mut self) {
        self.value = None;
        fence(Ordering::SeqCst);
        // One thread is woken at a time: the value may be taken and released often until it runs.
        if self.lock.waiting.load(Ordering::Relaxed) > 0
            && !self.lock.woken.swap(true, Ordering::Relaxed)
        {
            // A waiting thread has tried to take the value within the gate, or will try.
            drop(self.lock.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.lock.freed.notify_one();
        }
    }
}

impl<T> Deref for HandoffGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.as_ref().expect("the value is held until the drop")
    }
}

impl<T> DerefMut for HandoffGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("the value is held until the drop")
    }
}

impl<T> Drop for HandoffGuard<'_, T> {
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
    fn one_thread_has_the_value_at_a_time_and_no_thread_waits_forever() {
        let queue = HandoffLock::new(0_u64);
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
    fn a_wait_ends_after_its_limit() {
        let queue = HandoffLock::new(());
        let held = queue.try_enter();
        thread::scope(|scope| {
            scope.spawn(|| assert!(queue.enter_within(Duration::from_millis(1)).is_none()));
        });
        drop(held);
        assert!(queue.enter_within(Duration::ZERO).is_some());
    }
}
