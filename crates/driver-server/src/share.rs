//! The distribution of load over servers.

use std::collections::BTreeMap;

/// The largest share of one server in the increments of counters. `None` if none increased.
pub fn largest_share(before: &BTreeMap<String, f64>, now: &BTreeMap<String, f64>) -> Option<f64> {
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
