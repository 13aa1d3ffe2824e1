//! A bare loop over RocksDB: the baseline of driver and engine.
//!
//! It executes the operations of YCSB's workloads with the keys, the record format and the options
//! that kvmark's driver uses, directly through the rocksdb crate. Operations are drawn before the
//! clock starts. The loop has no generator, time stamps, histograms or locks, so it may lose one of
//! two concurrent updates of a record.
//!
//! ```text
//! bare_loop path=FOLDER workload=load|a|b|c records=N [operations=N] [threads=1]
//!           [distribution=zipfian|uniform] [seed=1] [write_buffer_bytes=67108864]
//!           [block_cache_bytes=33554432] [compression=lz4]
//! ```
//!
//! One JSON document on standard output. Its memory includes the list of operations.

mod arguments;
mod operations;
mod store;

use std::error::Error;
use std::io::{self, Write};
use std::sync::Barrier;
use std::time::Instant;
use std::{fs, thread};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use serde_json::{Value, json};

use arguments::Arguments;
use operations::Operations;
use store::Store;

/// Any error: this program only reports it.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let store = Store::open(&arguments)?;
    let lists = (0..arguments.threads).map(|thread| Operations::drawn(&arguments, thread));
    let lists = lists.collect::<Result<Vec<_>, _>>()?;
    let report = measure(&store, &lists)?;
    if arguments.loads() {
        store.settle()?;
    }
    writeln!(io::stdout(), "{report:#}")?;
    Ok(())
}

fn measure(store: &Store, lists: &[Operations]) -> Result<Value, Failure> {
    let start = Barrier::new(lists.len() + 1);
    let before = getrusage(UsageWho::RUSAGE_SELF)?;
    let (began, executed) = thread::scope(|scope| {
        let workers: Vec<_> =
            lists.iter().map(|list| scope.spawn(|| execute(store, list, &start))).collect();
        // Before the barrier: on busy cores this thread may be the last to leave it.
        let began = Instant::now();
        start.wait();
        let mut executed = 0;
        for worker in workers {
            executed += worker.join().map_err(|_| "a thread panicked")??;
        }
        Ok::<_, Failure>((began, executed))
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let after = getrusage(UsageWho::RUSAGE_SELF)?;
    let spent = |time: fn(&Usage) -> TimeVal| {
        (time(&after) - time(&before)).num_microseconds() as f64 / 1e6
    };
    Ok(json!({
        "operations": executed,
        "seconds": seconds,
        "ops_per_s": executed as f64 / seconds,
        "cpu_user_s": spent(Usage::user_time),
        "cpu_system_s": spent(Usage::system_time),
        "max_resident_bytes": max_resident_bytes()?,
    }))
}

/// The kernel's high-water mark of this program; getrusage's would include the one that started it.
fn max_resident_bytes() -> Result<u64, Failure> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmHWM")?;
    Ok(kibibytes.parse::<u64>()? * 1024)
}

fn execute(store: &Store, list: &Operations, start: &Barrier) -> Result<u64, Failure> {
    let table = store.table();
    let mut record = Vec::with_capacity(2048);
    start.wait();
    for operation in list.iter() {
        store.execute(table, &operation, &mut record)?;
    }
    Ok(list.len())
}
