//! The state of servers: their load and their background work.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use kvmark_driver::OpenError;
use kvmark_plan::Outcome;

use crate::{Failure, Target};

/// Interval between the checks of [`settle`].
const INTERVAL: Duration = Duration::from_millis(100);
/// Consecutive failed checks after which [`settle`] gives up.
const FAILED_CHECKS_MAX: u32 = 10;

/// The number of executed commands of each server at the last call.
#[derive(Debug, Default)]
pub(crate) struct Load(Mutex<BTreeMap<String, f64>>);

impl Load {
    /// The sums of these numbers, separated by blanks, over the statistics of the servers; of a
    /// ratio, the maximum. Of several servers, also the busiest one's share of the `commands` since
    /// the last call, as the statistic `node_share_max`.
    pub(crate) fn sums(
        &self,
        targets: &[Target],
        numbers: &str,
        commands: &[&str],
        statistics: impl Fn(&Target) -> BTreeMap<String, String>,
    ) -> BTreeMap<String, f64> {
        let (mut sums, mut executed) = (BTreeMap::new(), BTreeMap::new());
        for target in targets {
            let statistics = statistics(target);
            for name in numbers.split(' ') {
                let number = statistics.get(name).and_then(|text| text.parse::<f64>().ok());
                let Some(number) = number else { continue };
                let sum = sums.entry(name.to_owned()).or_insert(0.0);
                *sum = if name.ends_with("_ratio") { number.max(*sum) } else { number + *sum };
                if commands.contains(&name) {
                    *executed.entry(target.to_string()).or_insert(0.0) += number;
                }
            }
        }
        let mut before = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let share = largest_share(&before, &executed).filter(|_| targets.len() > 1);
        *before = executed;
        sums.extend(share.map(|share| ("node_share_max".to_owned(), share)));
        sums
    }
}

/// Waits until a server has no background work.
///
/// # Errors
/// [`OpenError::System`] if the server rejects the check or repeatedly fails to answer.
pub fn settle(
    target: impl Display,
    is_busy: impl Fn() -> Result<bool, Failure>,
) -> Result<(), OpenError> {
    let mut failed = 0;
    loop {
        match is_busy() {
            Ok(false) => return Ok(()),
            Ok(true) => failed = 0,
            Err(failure) => {
                failed += 1;
                if failed >= FAILED_CHECKS_MAX || failure.outcome == Outcome::Refused {
                    return Err(failure.at(target));
                }
            }
        }
        thread::sleep(INTERVAL);
    }
}

/// The largest share of one server in the increments of counters. `None` if none increased.
fn largest_share(before: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>) -> Option<f64> {
    let added = |(name, count): (&String, &f64)| {
        // The counter of a restarted server begins at 0.
        let before = before.get(name).filter(|before| *before <= count);
        count - before.unwrap_or(&0.0)
    };
    let added: Vec<f64> = now.iter().map(added).collect();
    let total: f64 = added.iter().sum();
    let most = added.iter().copied().fold(0.0, f64::max);
    if total > 0.0 { Some(most / total) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_server_is_found_by_the_increments() {
        let counts = |pairs: &[(&str, f64)]| {
            pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let before = counts(&[("a", 1000.0), ("b", 10.0), ("c", 50.0)]);
        let now = counts(&[("a", 1010.0), ("b", 70.0), ("c", 30.0)]);
        assert_eq!(largest_share(&before, &now), Some(0.6));
        assert_eq!(largest_share(&now, &now), None);
    }
}
