//! Counts the allocations of each thread.
#![expect(unsafe_code, reason = "a counting allocator must implement an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Hundreds of rounds within which memory must be there.
const STRETCHES_MAX: u32 = 20;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counted. A test makes it its `#[global_allocator]`.
#[derive(Debug)]
pub struct CountingAllocator;

/// Allocations of this thread so far.
#[must_use]
pub fn allocations() -> u64 {
    ALLOCATIONS.get()
}

/// Whether a hundred rounds in a row allocate nothing, once their memory is there: when that is
/// depends on how the replies come, as a buffer for the first that comes in two parts does.
pub fn ends_allocating(mut round: impl FnMut()) -> bool {
    (0..STRETCHES_MAX).any(|_| {
        let before = allocations();
        (0..100).for_each(|_| round());
        allocations() == before
    })
}

fn count() {
    // A thread that ends has no counter any more.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}
