//! How much of a dataset an earlier load put there, found by looking at records of it.
//!
//! Clients take the records of a load in order, so that one which was cut short left all records up
//! to some place, but for a few before it that were still under way. That place is found by halves;
//! what lies close before it is loaded again, and a sample of the rest is looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{Driver, Expected};
use kvmark_plan::{Dataset, Plan, Share, ValueCheck};
use kvmark_record::Notice;
use kvmark_workload::Stream;

use crate::clock::Clock;
use crate::coordinator::{Coordinator, LOOK_UP};
use crate::error::EngineError;
use crate::ledger::{Probed, Report};
use crate::observer::Control;
use crate::probe::Probe;
use crate::source::part_of;
use crate::worker::Order;

/// So many records before the place where a load seems to have ended are loaded again: more than
/// all clients have under way at once.
const AGAIN: u64 = 4096;
/// And at least this part of what seems to be there: a store that was killed too may have lost the
/// last that it acknowledged.
const AGAIN_OF: u64 = 100;
/// Records that are looked at all over what is taken to be there, and as many at its end.
const SAMPLE: u64 = 256;
/// Records that are asked for a tag.
const TAGGED: u64 = 8;
/// The golden ratio's share of the numbers: multiples of it spread evenly over any range.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// What an earlier load put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum There {
    /// Everything, as far as its first, middle and last record say.
    All,
    /// So many of this share's records, from the first on.
    First(u64),
}

impl<D: Driver, C: Clock> Coordinator<'_, D, C> {
    /// What is there of the dataset that a load would put there.
    pub(crate) fn look_for_records(&mut self, streams: &[Stream]) -> Result<There, EngineError> {
        let dataset = &self.plan.dataset;
        let Some(stream) = streams.first() else { return Ok(There::All) };
        if dataset.count == 0 {
            return Ok(There::All);
        }
        let whole = [0, dataset.count / 2, dataset.count - 1].map(|n| dataset.start + n);
        if self.are_there(stream, whole.into())? {
            let is_another = self.is_own_of_another_shape(stream, &whole)?;
            return Ok(if is_another { There::First(0) } else { There::All });
        }
        let plan = self.plan;
        let share = plan.share;
        let count = part_of(plan.dataset.count, share);
        let there = ended_at(count, |positions| {
            let ordinals = positions.iter().map(|position| ordinal(plan, share, *position));
            self.are_there(stream, ordinals.collect())
        })?;
        Ok(There::First(there))
    }

    /// Whether records are all there.
    fn are_there(&mut self, stream: &Stream, ordinals: Vec<u64>) -> Result<bool, EngineError> {
        let records = ordinals.iter().map(|one| Probe::new(stream, *one, None)).collect();
        Ok(matches!(self.look_at(records)?, Some(Probed::Present)))
    }

    /// Whether all of these records are proven to be kvmark's, by their tags, and have other fields
    /// or lengths than the plan says: then all are loaded anew. What another tool loaded is left as
    /// it is.
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
        let (fields, length) = (Some(plan.dataset.fields.count), stream.value_length());
        for ordinal in ordinals {
            let Some(tag) = stream.tag(*ordinal) else { return Ok(false) };
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

    /// Whether values bear the tags of their records: what other tools loaded doesn't. Records that
    /// aren't there say nothing.
    pub(crate) fn finds_tags(&mut self, stream: &Stream) -> Result<bool, EngineError> {
        let Dataset { start, count, .. } = &self.plan.dataset;
        let mut is_untagged = false;
        for place in 0..TAGGED.min(*count) {
            let ordinal = start + place * (count / TAGGED.min(*count));
            let tag = stream.tag(ordinal);
            let expected = Expected { fields: None, length: None, tag, proves: false };
            match self.look_at(vec![Probe::new(stream, ordinal, Some(expected))])? {
                Some(Probed::Present) => return Ok(true),
                Some(Probed::Unlike) => is_untagged = true,
                _ => {}
            }
        }
        Ok(!is_untagged)
    }

    /// What became of records that are looked at; none when the user doesn't wait for the answer.
    fn look_at(&mut self, records: Vec<Probe>) -> Result<Option<Probed>, EngineError> {
        if self.interrupted {
            return Ok(None);
        }
        let (records, limit_ns) = (Arc::new(records), self.plan.stall_limit_ns);
        drop(self.crew.workers[0].orders.send(Order::Probe { records, limit_ns }));
        loop {
            match self.next_report(LOOK_UP) {
                Some(Report::Probed(Probed::Silent { awaited })) => {
                    return Err(self.no_answer(&awaited));
                }
                Some(Report::Probed(probed)) => return Ok(Some(probed)),
                Some(Report::Panicked { worker, message }) => {
                    return Err(EngineError::Panicked { worker, message });
                }
                Some(_) | None => {}
            }
            let silent_ns = self.silent_ns(|_| true).unwrap_or(0);
            if self.plan.stall_limit_ns.is_some_and(|limit_ns| silent_ns >= limit_ns) {
                self.crew.abandoned = true;
                return Err(self.no_answer(&[]));
            }
            if self.observer.poll() != Control::Continue {
                // The worker still waits for the system, so that it can't be told to end.
                self.crew.abandoned = true;
                self.interrupt()?;
                return Ok(None);
            }
        }
    }
}

/// That a load goes on behind so many records of this share. What a killed run's logs say of it
/// stands here.
pub(crate) fn goes_on(phase: usize, records: u64) -> Notice {
    let evidence = BTreeMap::from([("records_found".to_owned(), records.into())]);
    Notice {
        code: "load_went_on".to_owned(),
        phase: Some(phase as u32),
        message: format!(
            "the load went on behind {records} records that an earlier one had put there"
        ),
        evidence,
        advice:
            "if those are of another size, or of other fields, load all anew with --load always"
                .to_owned(),
    }
}

/// That reads are checked less closely than was asked.
pub(crate) fn untagged(phase: usize) -> Notice {
    Notice {
        code: "values_untagged".to_owned(),
        phase: Some(phase as u32),
        message: "the values in the system bear no tags of their records, as another tool's: of \
                  each read the number and the lengths of its fields are checked alone"
            .to_owned(),
        evidence: BTreeMap::new(),
        advice: "load the records with kvmark, by --load always, to have their tags checked"
            .to_owned(),
    }
}

/// The ordinal of a share's record by its position in the share.
fn ordinal(plan: &Plan, share: Share, position: u64) -> u64 {
    plan.dataset.start + u64::from(share.index) + position * u64::from(share.of)
}

/// How many of `count` records a load can count on that goes on where another one ended: none when
/// what is there isn't what such a load leaves.
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
    fn a_load_goes_on_shortly_before_the_place_where_it_ended() {
        for ended in [5_000, 123_456, 999_999, 50_000_000] {
            let (end, asked) = found(100_000_000, |position| position < ended);
            let again = ended - end;
            assert!(end < ended && again <= AGAIN.max(ended / AGAIN_OF), "{ended}: {again}");
            assert!(asked < 600, "{asked}");
        }
    }

    #[test]
    fn what_was_under_way_when_it_ended_is_loaded_again() {
        // Of the last thousand every third one is missing.
        let holds =
            |position: u64| position < 70_000 || (position < 71_000 && !position.is_multiple_of(3));
        let (end, _) = found(100_000, holds);
        assert!((0..end).all(holds), "{end}");
        assert!(end > 65_000, "{end}");
    }

    #[test]
    fn records_that_no_such_load_left_are_not_counted_on() {
        // Another number of machines had loaded: of two shares one came further.
        let (end, _) = found(100_000, |position| position < 20_000 || position % 2 == 0);
        assert_eq!(end, 0);
        // A part was removed again.
        let (end, _) = found(100_000, |position| position < 90_000 && position % 10 != 5);
        assert_eq!(end, 0);
    }

    #[test]
    fn a_load_that_hardly_began_begins_anew() {
        for ended in [0, 1, 4096] {
            assert_eq!(found(100_000, |position| position < ended).0, 0);
        }
        assert_eq!(found(0, |_| true).0, 0);
    }
}
