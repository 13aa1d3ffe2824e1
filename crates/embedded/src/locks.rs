//! Locks that serialize the writers of one record.
//!
//! An embedded store can't update a part of a record: an update is a read and a write of the whole
//! record. Without a lock, a concurrent write between the two would be lost although it was
//! acknowledged.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Enough that writers of two records rarely share a lock: of eight concurrent writers each meets
/// another in at most 7 of 4096 writes. 32 KiB.
const STRIPES: usize = 1 << 12;

/// A fixed number of locks; records share one when their keys' hashes end alike.
#[derive(Debug)]
pub(crate) struct Locks {
    stripes: Box<[Mutex<()>]>,
    waits: AtomicU64,
}

impl Locks {
    pub(crate) fn new() -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::new(()));
        Self { stripes: stripes.collect(), waits: AtomicU64::new(0) }
    }

    /// Waits until no other writer holds the record of the key, and holds it until the guard is
    /// dropped. A thread may hold one record at a time.
    pub(crate) fn hold(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(key);
        let stripe = &self.stripes[hash as usize % STRIPES];
        // The lock itself has no data, so a panicked thread leaves nothing inconsistent.
        match stripe.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.waits.fetch_add(1, Ordering::Relaxed);
                stripe.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// How often a writer had to wait for another.
    pub(crate) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    #[test]
    fn a_second_writer_of_a_record_waits_and_is_counted() {
        let locks = Locks::new();
        let held = locks.hold(b"k");
        thread::scope(|scope| {
            let other = scope.spawn(|| drop(locks.hold(b"k")));
            while locks.waits() == 0 {
                thread::yield_now();
            }
            assert!(!other.is_finished());
            drop(held);
        });
        assert_eq!(locks.waits(), 1);
    }

    #[test]
    fn writers_one_after_the_other_never_wait() {
        let locks = Locks::new();
        for key in [b"k", b"k", b"l"] {
            drop(locks.hold(key));
        }
        assert_eq!(locks.waits(), 0);
    }

    #[test]
    fn a_record_is_free_again_after_its_writer_panicked() {
        let locks = Locks::new();
        let writer = || {
            let _held = locks.hold(b"k");
            panic!("in the middle of a write");
        };
        assert!(catch_unwind(AssertUnwindSafe(writer)).is_err());
        drop(locks.hold(b"k"));
        assert_eq!(locks.waits(), 0);
    }
}
