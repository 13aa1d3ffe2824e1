//! The least cost of an operation in any engine: two stamps and a record, and nothing else.
//!
//! Argument: operations.

#![expect(clippy::print_stdout, reason = "a program for the terminal")]
#![expect(clippy::expect_used, reason = "a wrong argument may end it")]

use std::hint::black_box;

use hdrhistogram::Histogram;

fn main() {
    let operations = std::env::args().nth(1).map_or(20_000_000, |word| {
        word.parse::<u64>().expect("the argument is a number of operations")
    });
    let clock = quanta::Clock::new();
    let mut durations = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3)
        .expect("the bounds are in order");
    let start = clock.raw();
    for _ in 0..operations {
        let issued = clock.raw();
        let completed = black_box(clock.raw());
        durations.saturating_record(completed.saturating_sub(issued));
    }
    let ns = clock.delta_as_nanos(start, clock.raw()) as f64 / operations as f64;
    println!("{ns:.2} ns per operation");
}
