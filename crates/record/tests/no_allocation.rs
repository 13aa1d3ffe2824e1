//! Recording allocates nothing once the series exist and their memory goes round.
#![expect(unsafe_code, reason = "a counting allocator must implement an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use kvmark_plan::{Kind, Outcome};
use kvmark_record::{Action, Names, Recorder, Sample};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that ends has no counter any more.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
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

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn record_an_interval(recorder: &mut Recorder) {
    for n in 0..10_000 {
        let action = Action::Kind(Kind::ALL[n % 6]);
        let outcome = if n % 100 == 0 { Outcome::Timeout } else { Outcome::Ok };
        let intended_ns = 1000 * n as u64;
        let issued_ns = intended_ns + 100 * (n as u64 % 50);
        let completed_ns = issued_ns + 977 * n as u64;
        let sample = Sample { action, outcome, intended_ns, issued_ns, completed_ns, rows: 1 };
        recorder.record(1, &sample);
    }
}

#[test]
fn a_warm_recorder_records_takes_and_recycles_without_allocating() {
    let groups = vec!["idle".to_owned(), "clients".to_owned()];
    let names = Names { groups, statements: Vec::new() };
    let mut recorder = Recorder::new(&names);
    for _ in 0..2 {
        record_an_interval(&mut recorder);
        let batch = recorder.take();
        recorder.recycle(batch);
    }
    let before = ALLOCATIONS.get();
    for _ in 0..10 {
        record_an_interval(&mut recorder);
        let batch = recorder.take();
        recorder.recycle(batch);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(before > 0, "the counter counts");
}
