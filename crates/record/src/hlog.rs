//! Histograms as an HdrHistogram log: text with one line per interval, series and kind of duration.
//!
//! The lag of the generator's stamps has its own tag, [`LAG`].
//!
//! The format is version 1.3 of the public `HistogramLogWriter`; stamps are relative to `BaseTime`.

use std::fmt::Write;
use std::sync::Arc;

use kvmark_plan::PhaseName;

use crate::durations::Durations;
use crate::encoder::Encoder;
use crate::names::Names;
use crate::phase::ClosedInterval;
use crate::series::Series;

/// The tag after the name of the phase.
const LAG: &str = "generator-lag";

const NS_PER_S: u64 = 1_000_000_000;
/// The unit of `Interval_Max` is milliseconds.
const NS_PER_MS: u64 = 1_000_000;

/// The lines before the first interval; the origin is wall time since the Unix epoch.
pub(crate) fn header(started_wall_ns: u64) -> String {
    let epoch = Seconds(started_wall_ns);
    format!(
        "#[Histogram log format version 1.3]\n\
         #[StartTime: {epoch} (seconds since epoch)]\n\
         #[BaseTime: {epoch} (seconds since epoch)]\n\
         #[MaxValueDivisor: {NS_PER_MS}.0]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\
         \"Interval_Compressed_Histogram\"\n"
    )
}

/// Formats intervals as lines.
pub(crate) struct Log {
    names: Arc<Names>,
    /// Text before the operation's name, one per group of the plan.
    prefixes: Vec<String>,
    encoder: Encoder,
}

impl Log {
    pub(crate) fn new(names: Arc<Names>) -> Self {
        let several = names.groups.len() > 1;
        let prefix = |name: &String| if several { tag_text(name) + "." } else { String::new() };
        let prefixes = names.groups.iter().map(prefix).collect();
        Self { names, prefixes, encoder: Encoder::new() }
    }

    /// Appends the lines of an interval.
    pub(crate) fn append(&mut self, interval: &ClosedInterval, text: &mut String) {
        let Self { names, prefixes, encoder } = self;
        let start = Seconds(interval.start_ns);
        let length = Seconds(interval.end_ns.saturating_sub(interval.start_ns));
        let mut put = |tag: &str, durations: &Durations| {
            let (max_ms, rest_ns) = (durations.max_ns / NS_PER_MS, durations.max_ns % NS_PER_MS);
            let histogram = encoder.text(&durations.counts);
            writeln!(text, "Tag={tag},{start},{length},{max_ms}.{rest_ns:06},{histogram}")
                .expect("writing to a string succeeds");
        };
        let phase = match interval.phase_name {
            PhaseName::Measure => String::new(),
            other => format!("{}:", other.name()),
        };
        for (prefix, group) in prefixes.iter().zip(&interval.groups) {
            for (key, series) in group.iter().filter(|(_, series)| series.count > 0) {
                let name = tag_text(&names.series(*key));
                let Series { service, response, wait, .. } = series;
                for (sort, durations) in [("st", service), ("rt", response), ("wt", wait)] {
                    put(&format!("{phase}{prefix}{name}-{sort}"), durations);
                }
            }
        }
        if interval.lag.lag.count > 0 {
            put(&format!("{phase}{LAG}"), &interval.lag.lag);
        }
    }
}

/// Replaces characters that end a tag.
fn tag_text(name: &str) -> String {
    name.replace(|c: char| c == ',' || c.is_whitespace() || c.is_control(), "_")
}

/// Nanoseconds written as seconds, all digits.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.0 / NS_PER_S, self.0 % NS_PER_S)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_end_a_tag_are_replaced() {
        assert_eq!(tag_text("slow readers,2"), "slow_readers_2");
    }
}
