//! Finds how many records of a dataset an earlier load left, by probing records.
//!
//! Clients take the records of a load in order. An interrupted load left all records up to some
//! position, except a few before it that were still in flight. A binary search finds that position.
//! Records shortly before it are loaded again, and a sample of the rest is probed.

use std::sync::Arc;

use kvmark_driver::Expected;
use kvmark_plan::{Dataset, Plan, Share, ValueCheck};
use kvmark_record::Notice;
use kvmark_workload::{NumberPartition, Stream};
use serde_json::json;

use crate::clock::Clock;
use crate::coordinator::{Coordinator, LOOK_UP};
use crate::error::EngineError;
use crate::observer::Control;
use crate::probe::Probe;
use crate::worker::WorkerCommand;
use crate::worker_recorder::{Probed, Report};

/// Number of records before the end of an earlier load that are loaded again: more than all clients
/// have in flight at once.
const AGAIN: u64 = 4096;
/// At least this part of the records is loaded again, because a killed store may have lost its last
/// acknowledged writes.
const AGAIN_OF: u64 = 100;
/// Number of probed records over the whole loaded range, and again at its end.
const SAMPLE: u64 = 256;
/// Number of records that are checked for a tag.
const TAGGED: u64 = 8;
/// Multiples of it spread evenly over any range.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The result of an earlier load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loaded {
    /// Everything: the first, middle and last record exist.
    All,
    /// This number of the share's records, from the first on.
    First(u64),
}

impl<C: Clock> Coordinator<'_, C> {
    /// The part of the dataset that is already loaded.
    pub(crate) fn look_for_records(&mut self, streams: &[Stream]) -> Result<Loaded, EngineError> {
        let dataset = &self.plan.dataset;
        let Some(stream) = streams.first() else { return Ok(Loaded::All) };
        if dataset.count == 0 {
            return Ok(Loaded::All);
        }
        let whole = [0, dataset.count / 2, dataset.count - 1].map(|n| dataset.start + n);
        if self.are_there(stream, whole.into())? {
            let is_another = self.is_own_of_another_shape(stream, &whole)?;
            return Ok(if is_another { Loaded::First(0) } else { Loaded::All });
        }
        let plan = self.plan;
        let share = plan.share;
        let count = NumberPartition::of_share(share).of_first(plan.dataset.count);
        let there = ended_at(count, |positions| {
            let ordinals = positions.iter().map(|position| ordinal(plan, share, *position));
            self.are_there(stream, ordinals.collect())
        })?;
        Ok(Loaded::First(there))
    }

    /// Whether all records exist.
    fn are_there(&mut self, stream: &Stream, ordinals: Vec<u64>) -> Result<bool, EngineError> {
        let records = ordinals.iter().map(|one| Probe::new(stream, *one, None)).collect();
        Ok(matches!(self.look_at(records)?, Some(Probed::Present)))
    }

    /// Whether the tags prove that all these records are kvmark's, and their fields or lengths
    /// differ from the plan. Then all records are loaded again. Data of other tools stays as it is.
    fn is_own_of_another_shape(
        &mut self,
        stream: &Stream,
        ordinals: &[u64],
    ) -> Result<bool, EngineError> {
        let plan = self.plan;
        let reads = plan.groups.iter().any(|group| group.check_values == ValueCheck::Tag);
        if !reads || !self.driver.capabilities().compares {
            return Ok(false);
        }
        let (fields, length) = (Some(plan.dataset.fields.count), stream.records().value_length());
        for ordinal in ordinals {
            let Some(tag) = stream.records().tag(*ordinal) else { return Ok(false) };
            let whole = Expected { fields, length, tag: Some(tag), proves: false };
            let own = Expected { fields: None, length: None, tag: Some(tag), proves: true };
            let [whole, own] =
                [whole, own].map(|one| vec![Probe::new(stream, *ordinal, Some(one))]);
            if !matches!(self.look_at(whole)?, Some(Probed::Unlike))
                || !matches!(self.look_at(own)?, Some(Probed::Present))
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether values start with the tags of their records, which other tools' values don't.
    /// Missing records don't count.
    pub(crate) fn finds_tags(&mut self, stream: &Stream) -> Result<bool, EngineError> {
        let Dataset { start, count, .. } = &self.plan.dataset;
        let mut is_untagged = false;
        for place in 0..TAGGED.min(*count) {
            let ordinal = start + place * (count / TAGGED.min(*count));
            let tag = stream.records().tag(ordinal);
            let expected = Expected { fields: None, length: None, tag, proves: false };
            match self.look_at(vec![Probe::new(stream, ordinal, Some(expected))])? {
                Some(Probed::Present) => return Ok(true),
                Some(Probed::Unlike) => is_untagged = true,
                _ => {}
            }
        }
        Ok(!is_untagged)
    }

    /// The result of a probe; `None` if the user interrupted it.
    fn look_at(&mut self, records: Vec<Probe>) -> Result<Option<Probed>, EngineError> {
        if self.record.interrupted {
            return Ok(None);
        }
        let (records, limit_ns) = (Arc::new(records), self.plan.stall_limit_ns);
        drop(self.pool.workers[0].commands.send(WorkerCommand::Probe { records, limit_ns }));
        loop {
            match self.reports.recv_timeout(LOOK_UP) {
                Ok(Report::Probed(Probed::Silent { awaited })) => {
                    return Err(self.no_answer(&awaited));
                }
                Ok(Report::Probed(probed)) => return Ok(Some(probed)),
                Ok(Report::Panicked { worker, message }) => {
                    return Err(EngineError::Panicked { worker, message });
                }
                Ok(_) | Err(_) => {}
            }
            let silent_ns = self.silent_ns(|_| true).unwrap_or(0);
            if self.plan.stall_limit_ns.is_some_and(|limit_ns| silent_ns >= limit_ns) {
                self.pool.abandoned = true;
                return Err(self.no_answer(&[]));
            }
            if self.observer.poll() != Control::Continue {
                // The worker still waits for the system and can't end.
                self.pool.abandoned = true;
                self.interrupt()?;
                return Ok(None);
            }
        }
    }
}

/// The notice that a load continues after this number of the share's records.
pub(crate) fn goes_on(phase: usize, records: u64) -> Notice {
    Notice {
        code: "load_went_on",
        phase: Some(phase as u32),
        message: format!("the load continued after {records} records of an earlier load"),
        evidence: json!({ "records_found": records }),
        advice: "if their sizes or fields differ, load all records again with --load always",
    }
}

/// The notice that reads are checked less closely than requested.
pub(crate) fn untagged(phase: usize) -> Notice {
    let message = "the stored values have no record tags, as if another tool had written them: \
                   reads are checked only for the number and the lengths of their fields";
    Notice {
        code: "values_untagged",
        phase: Some(phase as u32),
        message: message.to_owned(),
        evidence: json!({}),
        advice: "load the records with kvmark, with --load always, to have their tags checked",
    }
}

/// The ordinal of a share's record by its position in the share.
fn ordinal(plan: &Plan, share: Share, position: u64) -> u64 {
    plan.dataset.start + u64::from(share.index) + position * u64::from(share.of)
}

/// How many of `count` records a load can keep from an earlier one; 0 if the existing records don't
/// match an interrupted load.
fn ended_at<E>(count: u64, mut are_there: impl FnMut(&[u64]) -> Result<bool, E>) -> Result<u64, E> {
    if count == 0 || !are_there(&[0])? {
        return Ok(0);
    }
    let (mut there, mut missing) = (0, count);
    while missing - there > 1 {
        let middle = there + (missing - there) / 2;
        if are_there(&[middle])? {
            there = middle;
        } else {
            missing = middle;
        }
    }
    let end = missing.saturating_sub(AGAIN.max(missing / AGAIN_OF));
    if end == 0 {
        return Ok(0);
    }
    let spread = (1..=SAMPLE).map(|n| n.wrapping_mul(SPREAD) % end);
    let sample: Vec<_> = spread.chain(end.saturating_sub(SAMPLE)..end).collect();
    Ok(if are_there(&sample)? { end } else { 0 })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn found(count: u64, holds: impl Fn(u64) -> bool) -> (u64, usize) {
        let mut asked = 0;
        let Ok(end) = ended_at(count, |positions| {
            asked += positions.len();
            Ok::<_, Infallible>(positions.iter().all(|position| holds(*position)))
        });
        (end, asked)
    }

    #[test]
    fn a_load_continues_shortly_before_its_end() {
        for ended in [5_000, 123_456, 999_999, 50_000_000] {
            let (end, asked) = found(100_000_000, |position| position < ended);
            let again = ended - end;
            assert!(end < ended && again <= AGAIN.max(ended / AGAIN_OF), "{ended}: {again}");
            assert!(asked < 600, "{asked}");
        }
    }

    #[test]
    fn records_in_flight_at_the_end_are_loaded_again() {
        // Of the last thousand every third one is missing.
        let holds =
            |position: u64| position < 70_000 || (position < 71_000 && !position.is_multiple_of(3));
        let (end, _) = found(100_000, holds);
        assert!((0..end).all(holds), "{end}");
        assert!(end > 65_000, "{end}");
    }

    #[test]
    fn records_that_match_no_interrupted_load_are_not_kept() {
        // Another number of machines had loaded: one of two shares is ahead.
        let (end, _) = found(100_000, |position| position < 20_000 || position % 2 == 0);
        assert_eq!(end, 0);
        // A part of the records was removed again.
        let (end, _) = found(100_000, |position| position < 90_000 && position % 10 != 5);
        assert_eq!(end, 0);
    }

    #[test]
    fn a_load_of_few_records_starts_from_the_beginning() {
        for ended in [0, 1, 4096] {
            assert_eq!(found(100_000, |position| position < ended).0, 0);
        }
        assert_eq!(found(0, |_| true).0, 0);
    }
}
