//! Recording allocates nothing once the series exist and batches are recycled.

use kvmark_plan::{Kind, Outcome};
use kvmark_record::{Action, Names, Recorder, Sample};
use kvmark_testing::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn record_an_interval(recorder: &mut Recorder) {
    for n in 0..10_000 {
        let action = Action::Kind(Kind::ALL[n % 6]);
        let outcome = if n % 100 == 0 { Outcome::Timeout } else { Outcome::Ok };
        let intended_ns = 1000 * n as u64;
        let issued_ns = intended_ns + 100 * (n as u64 % 50);
        let completed_ns = issued_ns + 977 * n as u64;
        let sample = Sample {
            action,
            outcome,
            intended_ns,
            free_ns: intended_ns,
            issued_ns,
            completed_ns,
            rows: 1,
        };
        recorder.record(1, &sample);
        recorder.record_lag(Some(977 * n as u64));
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
    let before = allocations();
    for _ in 0..10 {
        record_an_interval(&mut recorder);
        let batch = recorder.take();
        recorder.recycle(batch);
    }
    assert_eq!(allocations() - before, 0);
    assert!(before > 0, "the counter counts");
}
