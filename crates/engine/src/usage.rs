//! Resource use of threads and of the process.

use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use kvmark_record::ProcessRecord;

/// Times of the calling thread in nanoseconds: totals since it began, or differences.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadUsage {
    pub(crate) cpu_ns: u64,
    pub(crate) waiting_for_core_ns: u64,
    /// Time spent polling without work.
    pub(crate) idle_spin_ns: u64,
}

impl ThreadUsage {
    /// The calling thread's totals, with the time that it has counted as polling.
    pub(crate) fn now(idle_spin_ns: u64) -> Self {
        let cpu = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
        Self {
            cpu_ns: cpu.map_or(0, |cpu| cpu.as_nanos() as u64),
            waiting_for_core_ns: run_queue_wait_ns().unwrap_or(0),
            idle_spin_ns,
        }
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        let since = |of: fn(&Self) -> u64| of(&self).saturating_sub(of(&earlier));
        Self {
            cpu_ns: since(|usage| usage.cpu_ns),
            waiting_for_core_ns: since(|usage| usage.waiting_for_core_ns),
            idle_spin_ns: since(|usage| usage.idle_spin_ns),
        }
    }
}

/// Time that the calling thread was ready and had no core (Linux:
/// Documentation/scheduler/sched-stats).
fn run_queue_wait_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The totals of the process.
pub(crate) fn process_usage() -> ProcessRecord {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return ProcessRecord::default() };
    let nanoseconds = |time: nix::sys::time::TimeVal| {
        time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_usec().unsigned_abs() * 1_000
    };
    ProcessRecord {
        cpu_user_ns: nanoseconds(usage.user_time()),
        cpu_system_ns: nanoseconds(usage.system_time()),
        max_resident_bytes: peak_resident_bytes().unwrap_or(0),
        voluntary_switches: usage.voluntary_context_switches().unsigned_abs(),
        involuntary_switches: usage.involuntary_context_switches().unsigned_abs(),
    }
}

/// The resource use between two totals.
pub(crate) fn process_use(before: &ProcessRecord, after: &ProcessRecord) -> ProcessRecord {
    ProcessRecord {
        cpu_user_ns: after.cpu_user_ns - before.cpu_user_ns,
        cpu_system_ns: after.cpu_system_ns - before.cpu_system_ns,
        max_resident_bytes: after.max_resident_bytes,
        voluntary_switches: after.voluntary_switches - before.voluntary_switches,
        involuntary_switches: after.involuntary_switches - before.involuntary_switches,
    }
}

/// The process's own peak. `getrusage` returns the parent process's peak if that is larger.
fn peak_resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Binds the calling thread to a core.
pub(crate) fn pin(core: u32) -> Result<(), String> {
    let thread = Pid::from_raw(0);
    let mut set = CpuSet::new();
    let pinned = set.set(core as usize).and_then(|()| sched_setaffinity(thread, &set));
    pinned.map_err(|errno| match sched_getaffinity(thread) {
        Ok(usable) => no_such_core(core, &usable),
        Err(_) => format!("--pin: a worker can't be bound to core {core}: {}", errno.desc()),
    })
}

fn no_such_core(core: u32, usable: &CpuSet) -> String {
    let cores = (0..CpuSet::count()).filter(|core| usable.is_set(*core).unwrap_or(false));
    let cores: Vec<_> = cores.map(|core| core.to_string()).collect();
    format!("--pin: core {core} isn't available; use some of {}", cores.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_missing_core_lists_the_usable_ones() {
        let usable = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let missing = (0..CpuSet::count()).rev().find(|core| !usable.is_set(*core).unwrap());
        let missing = missing.unwrap() as u32;
        assert_eq!(pin(missing), Err(no_such_core(missing, &usable)));
        let mut two = CpuSet::new();
        two.set(0).unwrap();
        two.set(1).unwrap();
        let message = no_such_core(9, &two);
        assert_eq!(message, "--pin: core 9 isn't available; use some of 0,1");
    }
}
