//! What all sessions of a driver count together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use scylla::observability::metrics::Metrics;

/// Kinds of warnings, and a part of the text that tells each. What Cassandra 5.0 says:
/// `Read … live rows and … tombstone cells`, `Batch for … is of size …, exceeding specified
/// threshold`, `Unlogged batch covering … partitions`.
const KINDS: [(&str, &str); 2] = [("tombstone", "tombstone"), ("batch", "batch")];

/// A counter's name, and where the crate keeps it.
type Counter = (&'static str, fn(&Metrics) -> u64);

/// Counters of a driver, shared by its sessions.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Those that the crate keeps for each of its sessions.
    metrics: Mutex<Vec<Arc<Metrics>>>,
    /// Warnings of each kind that came with answers, and of all others.
    warnings: [AtomicU64; KINDS.len() + 1],
    /// Attempts to reach the cluster again when no node was left.
    reconnections: AtomicU64,
}

impl Counters {
    /// Counts what the crate counts for a session, from now on.
    pub(crate) fn watch(&self, metrics: Arc<Metrics>) {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).push(metrics);
    }

    /// Counts a warning that came with an answer.
    pub(crate) fn warned(&self, text: &str) {
        let text = text.to_ascii_lowercase();
        let kind = KINDS.iter().position(|(_, part)| text.contains(part));
        self.warnings[kind.unwrap_or(KINDS.len())].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an attempt to reach the cluster again.
    pub(crate) fn reconnecting(&self) {
        self.reconnections.fetch_add(1, Ordering::Relaxed);
    }

    /// All counters by name.
    pub(crate) fn by_name(&self) -> BTreeMap<String, f64> {
        let sessions = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let counters: [Counter; 6] = [
            ("attempts", |m| m.get_requests_unpaged_num() + m.get_requests_manually_paged_num()),
            ("attempts_failed", |m| m.get_errors_unpaged_num() + m.get_errors_manually_paged_num()),
            ("connection_timeouts", Metrics::get_connection_timeouts),
            ("connections", Metrics::get_total_connections),
            ("request_timeouts", Metrics::get_request_timeouts),
            ("retries", Metrics::get_retries_num),
        ];
        let sum = |count: fn(&Metrics) -> u64| sessions.iter().map(|m| count(m)).sum::<u64>();
        let mut by_name: BTreeMap<_, _> =
            counters.iter().map(|(name, count)| ((*name).to_owned(), sum(*count) as f64)).collect();
        let warnings = self.warnings.each_ref().map(|count| count.load(Ordering::Relaxed) as f64);
        for ((kind, _), count) in KINDS.iter().zip(&warnings) {
            by_name.insert(format!("warnings_{kind}"), *count);
        }
        by_name.insert("warnings".to_owned(), warnings.iter().sum());
        let reconnections = self.reconnections.load(Ordering::Relaxed);
        by_name.insert("reconnections".to_owned(), reconnections as f64);
        by_name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_told_apart_by_their_text() {
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
}
