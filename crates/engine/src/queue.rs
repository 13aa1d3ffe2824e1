//! A lock with which the clients' threads take the arrivals of one schedule in order.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A value for one thread at a time. A waiting thread can do other work between attempts.
#[derive(Debug)]
pub(crate) struct HandoffLock<T> {
    state: Mutex<State<T>>,
    freed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// `None` while a thread has the value.
    value: Option<Box<T>>,
    waiting: u32,
}

/// Access to the value until it is dropped.
#[derive(Debug)]
pub(crate) struct HandoffGuard<'a, T> {
    lock: &'a HandoffLock<T>,
    /// `None` only during the drop.
    value: Option<Box<T>>,
}

impl<T> HandoffLock<T> {
    pub(crate) fn new(value: T) -> Self {
        let state = State { value: Some(Box::new(value)), waiting: 0 };
        Self { state: Mutex::new(state), freed: Condvar::new() }
    }

    /// Returns the value unless another thread has it.
    #[inline]
    pub(crate) fn try_enter(&self) -> Option<HandoffGuard<'_, T>> {
        let value = Some(self.state().value.take()?);
        Some(HandoffGuard { lock: self, value })
    }

    /// Waits for the value; `None` after the time limit.
    pub(crate) fn enter_within(&self, patience: Duration) -> Option<HandoffGuard<'_, T>> {
        let mut state = self.state();
        state.waiting += 1;
        let is_taken = |state: &mut State<T>| state.value.is_none();
        let waited = self.freed.wait_timeout_while(state, patience, is_taken);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        let value = Some(state.value.take()?);
        Some(HandoffGuard { lock: self, value })
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn drop(&mut self) {
        let mut state = self.lock.state();
        state.value = self.value.take();
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.lock.freed.notify_one();
        }
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
