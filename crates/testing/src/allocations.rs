//! Counts the allocations of each thread.
#![expect(unsafe_code, reason = "a counting allocator must implement an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Hundreds of rounds within which allocations must stop.
const HUNDREDS_MAX: u32 = 20;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter, for use as a test's `#[global_allocator]`.
#[derive(Debug)]
pub struct CountingAllocator;

/// Allocations of this thread so far.
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Whether a hundred consecutive rounds allocate nothing. The first rounds may allocate buffers, as
/// for a reply that arrives in two parts.
pub fn ends_allocating(mut round: impl FnMut()) -> bool {
    (0..HUNDREDS_MAX).any(|_| {
        let before = allocations();
        (0..100).for_each(|_| round());
        allocations() == before
    })
}

fn count() {
    // The counter of an ending thread is gone.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}
