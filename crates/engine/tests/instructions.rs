//! Cost of an operation in instructions, which other programs on the machine don't change.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::path::PathBuf;
use std::process::Command;

/// 5 % above the counts, for another compiler or processor: 496 and 671 with the overflow checks
/// of tests.
const BLOCKING_MOST: u64 = 521;
const ASYNCHRONOUS_MOST: u64 = 705;

/// Instructions of the program `null` for `operations` operations, by valgrind's cachegrind.
fn instructions(yields: u32, clients: u32, operations: u64) -> u64 {
    let own = std::env::current_exe().unwrap();
    let null: PathBuf = own.ancestors().nth(2).unwrap().join("examples").join("null");
    assert!(null.exists(), "build it first: cargo build --release --example null");
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("counts");
    let done = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no"])
        .arg(format!("--cachegrind-out-file={}", output.display()))
        .arg(null)
        .args([yields.to_string(), clients.to_string(), "1".to_owned(), operations.to_string()])
        .output()
        .expect("valgrind is installed: sudo apt-get install valgrind");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let counts = std::fs::read_to_string(output).unwrap();
    let total = counts.lines().find_map(|line| line.strip_prefix("summary: ")).unwrap();
    total.trim().parse().unwrap()
}

/// Instructions per operation: the difference between a long and a short run. The clock is
/// calibrated for a time, not for a number of instructions, so the long run has a million
/// operations.
fn an_operation(yields: u32, clients: u32) -> u64 {
    let (few, many) = (20_000, 1_020_000);
    let least = instructions(yields, clients, few);
    (instructions(yields, clients, many) - least) / (many - few)
}

#[test]
#[ignore = "needs valgrind"]
fn an_operation_takes_no_more_instructions_than_it_did() {
    let (blocking, asynchronous) = (an_operation(0, 1), an_operation(1, 64));
    println!("{blocking} instructions an operation, blocking; {asynchronous}, asynchronous");
    assert!(blocking <= BLOCKING_MOST, "{blocking}");
    assert!(asynchronous <= ASYNCHRONOUS_MOST, "{asynchronous}");
}
