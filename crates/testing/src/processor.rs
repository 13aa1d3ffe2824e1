//! CPU time of this process.

use std::io;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// User and system time of this process, in nanoseconds.
///
/// # Errors
/// The system call failed.
pub fn cpu_ns() -> io::Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok(usage.user_time().num_nanoseconds() + usage.system_time().num_nanoseconds())
}
