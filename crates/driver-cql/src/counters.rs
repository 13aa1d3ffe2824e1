//! Counters shared by all sessions of a driver.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of warnings, each a part of the text that identifies it. The texts of Cassandra 5.0:
/// `Read … live rows and … tombstone cells`, `Batch for … is of size …, exceeding specified
/// threshold`, `Unlogged batch covering … partitions`.
const KINDS: [&str; 2] = ["tombstone", "batch"];

/// The counters besides warnings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// Requests to nodes, including retries and further pages.
    Attempts,
    /// Failed requests.
    AttemptsFailed,
    /// Retried requests.
    Retries,
    /// Operations that exceeded `request_timeout_ms`.
    RequestTimeouts,
    /// Attempts to reopen a connection.
    Reconnections,
    /// Statements that a node prepared again.
    Preparations,
}

const NAMES: [&str; 6] =
    ["attempts", "attempts_failed", "retries", "request_timeouts", "reconnections", "preparations"];

/// Counters of a driver, shared by its sessions.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    counts: [AtomicU64; NAMES.len()],
    /// Warnings in replies, by kind; the last counter is for other kinds.
    warnings: [AtomicU64; KINDS.len() + 1],
}

/// The unpublished counts of one session.
#[derive(Debug, Default)]
pub(crate) struct Tally([u64; NAMES.len()]);

impl Tally {
    #[inline]
    pub(crate) fn add(&mut self, count: Count, number: u64) {
        self.0[count as usize] += number;
    }
}

impl Counters {
    /// Adds and resets the counts of a session.
    pub(crate) fn take(&self, tally: &mut Tally) {
        for (all, own) in self.counts.iter().zip(&mut tally.0) {
            if *own > 0 {
                all.fetch_add(std::mem::take(own), Ordering::Relaxed);
            }
        }
    }

    /// Counts a warning of a reply.
    pub(crate) fn warned(&self, text: &str) {
        let text = text.to_ascii_lowercase();
        let kind = KINDS.iter().position(|kind| text.contains(kind));
        self.warnings[kind.unwrap_or(KINDS.len())].fetch_add(1, Ordering::Relaxed);
    }

    /// The counters by name.
    pub(crate) fn by_name(&self) -> BTreeMap<String, f64> {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        let counts = NAMES.map(str::to_owned).into_iter().zip(self.counts.iter().map(load));
        let warnings = self.warnings.each_ref().map(load);
        let kinds = KINDS.iter().map(|kind| format!("warnings_{kind}")).zip(warnings);
        let all = ("warnings".to_owned(), warnings.iter().sum());
        counts.chain(kinds).chain([all]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_classified_by_their_text() {
        let counters = Counters::default();
        counters.warned("Read 10 live rows and 1500 tombstone cells for query SELECT * FROM t");
        counters.warned("Batch for [ks.t] is of size 6.000KiB, exceeding specified threshold");
        counters.warned("Unlogged batch covering 12 partitions detected against table [ks.t]");
        counters.warned("Aggregation query used without partition key");
        let by_name = counters.by_name();
        assert_eq!(by_name["warnings_tombstone"], 1.0);
        assert_eq!(by_name["warnings_batch"], 2.0);
        assert_eq!(by_name["warnings"], 4.0);
    }

    #[test]
    fn the_counts_of_a_session_are_added_once() {
        let (counters, mut tally) = (Counters::default(), Tally::default());
        tally.add(Count::Attempts, 2);
        tally.add(Count::Preparations, 1);
        for _ in 0..2 {
            counters.take(&mut tally);
        }
        let by_name = counters.by_name();
        assert_eq!([by_name["attempts"], by_name["preparations"]], [2.0, 1.0]);
    }
}
