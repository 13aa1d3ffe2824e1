//! What a run wrote, remembered until it is read back.
//!
//! For each record the writes are kept that its fields may hold at the end: of the acknowledged
//! ones those that no other acknowledged write began after, and all whose outcome isn't known, for
//! these may have taken effect at any time since. A value isn't kept: it can be made again from the
//! write's stream and number.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kvmark_plan::Outcome;
use kvmark_workload::Stream;

/// Locks that workers share: enough that two seldom want the same.
const SHARDS: u64 = 256;
/// Nanoseconds in which a write's duration is kept.
const TICK_NS: u64 = 16;

/// A write that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// The operation's number in its stream.
    number: u64,
    begun_ns: u64,
    /// From its begin to its end, in ticks, rounded up; the largest stands for an end that isn't
    /// known.
    ticks: u32,
    /// From which place in its operation its values are made.
    place: u32,
    scope: Scope,
    /// Index of its stream, by [`WriteHistory::add_stream`].
    stream: u16,
    acknowledged: bool,
}

/// What a write does to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope(u32);

impl Scope {
    /// Writes all fields.
    pub(crate) const ALL: Self = Self(u32::MAX);
    /// Removes the record.
    pub(crate) const REMOVED: Self = Self(u32::MAX - 1);

    /// Writes the field of this index.
    pub(crate) const fn field(field: u32) -> Self {
        Self(field)
    }

    fn concerns(self, field: u32) -> bool {
        self.0 == field || self == Self::ALL || self == Self::REMOVED
    }

    /// Whether nothing is left of the other once this is done.
    fn covers(self, other: Self) -> bool {
        self == Self::ALL || self == Self::REMOVED || self == other
    }
}

/// A write's two instants: none later than the first timestamp that its driver gave it, and none
/// earlier than its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begun_ns: u64,
    pub(crate) completed_ns: u64,
}

impl Write {
    /// Of operation `number` in a stream. An unacknowledged one may or may not have been done.
    pub(crate) fn new(
        (stream, number): (u16, u64),
        scope: Scope,
        span: Span,
        acknowledged: bool,
    ) -> Self {
        let ticks = (span.completed_ns - span.begun_ns).div_ceil(TICK_NS);
        Self {
            number,
            begun_ns: span.begun_ns,
            ticks: u32::try_from(ticks).unwrap_or(u32::MAX),
            place: 0,
            scope,
            stream,
            acknowledged,
        }
    }

    /// The same of a field whose value is made from this place.
    pub(crate) fn within(self, scope: Scope, place: u64) -> Self {
        // Of a place only these bits count.
        Self { scope, place: place as u32, ..self }
    }

    fn removes(&self) -> bool {
        self.scope == Scope::REMOVED
    }

    /// Whether nothing of an earlier write can be left where this one wrote.
    fn replaces(&self, other: &Self) -> bool {
        let ended_ns = || match other.ticks {
            u32::MAX => u64::MAX,
            ticks => other.begun_ns.saturating_add(u64::from(ticks) * TICK_NS),
        };
        self.acknowledged && other.acknowledged && ended_ns() < self.begun_ns
    }
}

/// The writes of one record.
#[derive(Debug)]
enum Writes {
    One(Write),
    Several(Vec<Write>),
}

impl Writes {
    fn all(&self) -> &[Write] {
        match self {
            Self::One(write) => std::slice::from_ref(write),
            Self::Several(writes) => writes,
        }
    }

    fn add(&mut self, write: Write) {
        let outdated = |old: &Write| write.scope.covers(old.scope) && write.replaces(old);
        match self {
            Self::One(one) if outdated(one) => *one = write,
            Self::One(one) => *self = Self::Several(vec![*one, write]),
            Self::Several(writes) => {
                writes.retain(|old| !outdated(old));
                writes.push(write);
            }
        }
    }
}

/// What reading a record back shows, from best to worst. A record counts as the worst that holds of
/// any of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finding {
    /// Each field holds an acknowledged write, or nothing acknowledged had to be there.
    Intact,
    /// The same, but a field holds a write whose outcome wasn't known.
    Unacknowledged,
    /// A field is there though the last acknowledged write removed the record.
    Resurrected,
    /// A field holds something else than its last acknowledged writes.
    Stale,
    /// A field is gone though an acknowledged write put it there.
    Incomplete,
    /// The record is gone though an acknowledged write put it there.
    Missing,
}

impl Finding {
    /// As the outcome of the read.
    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self::Intact | Self::Unacknowledged => Outcome::Ok,
            Self::Missing => Outcome::Miss,
            Self::Resurrected | Self::Stale | Self::Incomplete => Outcome::Mismatch,
        }
    }
}

/// All writes of a run that may still be seen. Shared by the workers.
#[derive(Debug, Default)]
pub(crate) struct WriteHistory {
    shards: Vec<Mutex<HashMap<u64, Writes>>>,
    streams: Mutex<Vec<Stream>>,
}

impl WriteHistory {
    pub(crate) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), ..Self::default() }
    }

    /// Keeps the stream that writes are made again from.
    pub(crate) fn add_stream(&self, stream: &Stream) -> u16 {
        let mut streams = lock(&self.streams);
        streams.push(stream.clone());
        // One for each group of a phase.
        u16::try_from(streams.len() - 1).expect("a plan has fewer phases and groups")
    }

    pub(crate) fn add(&self, ordinal: u64, write: Write) {
        let mut shard = lock(&self.shards[(ordinal % SHARDS) as usize]);
        match shard.get_mut(&ordinal) {
            Some(writes) => writes.add(write),
            None => drop(shard.insert(ordinal, Writes::One(write))),
        }
    }

    /// The records that were written, in order.
    pub(crate) fn ordinals(&self) -> Vec<u64> {
        let mut all = Vec::new();
        self.shards.iter().for_each(|shard| all.extend(lock(shard).keys()));
        all.sort_unstable();
        all
    }

    /// Judges a record that was read, or wasn't there: `fields` are all that were asked for, each
    /// with its value if it came back.
    pub(crate) fn judge<'a>(
        &self,
        ordinal: u64,
        key: &[u8],
        fields: Option<impl Iterator<Item = (u32, Option<&'a [u8]>)>>,
    ) -> Finding {
        let shard = lock(&self.shards[(ordinal % SHARDS) as usize]);
        let Some(writes) = shard.get(&ordinal).map(Writes::all) else { return Finding::Intact };
        let Some(fields) = fields else { return judge_absence(|| writes.iter(), Finding::Missing) };
        let streams = lock(&self.streams);
        let mut bytes = Vec::new();
        let mut finding = Finding::Intact;
        for (field, value) in fields {
            let mut makes = |write: &Write, value: &[u8]| {
                bytes.clear();
                let stream = &streams[usize::from(write.stream)];
                stream.append_value(write.number, write.place.into(), field, key, &mut bytes);
                !write.removes() && bytes == value
            };
            let of_field = || writes.iter().filter(|write| write.scope.concerns(field));
            finding = finding.max(match value {
                Some(value) => judge_value(of_field, |write| makes(write, value)),
                None => judge_absence(of_field, Finding::Incomplete),
            });
        }
        finding
    }
}

/// Judges a field that came back, by the writes that concern it.
fn judge_value<'a, I: Iterator<Item = &'a Write> + Clone>(
    writes: impl Fn() -> I,
    mut makes: impl FnMut(&Write) -> bool,
) -> Finding {
    let last = || writes().filter(|write| !writes().any(|other| other.replaces(write)));
    let mut is_uncertain = false;
    for write in last() {
        if makes(write) {
            if write.acknowledged {
                return Finding::Intact;
            }
            is_uncertain = true;
        }
    }
    let mut acknowledged = last().filter(|write| write.acknowledged).peekable();
    if is_uncertain {
        Finding::Unacknowledged
    } else if acknowledged.peek().is_none() {
        // What was there before the run is nobody's.
        Finding::Intact
    } else if acknowledged.all(Write::removes) {
        Finding::Resurrected
    } else {
        Finding::Stale
    }
}

/// Judges a record or field that isn't there, by the writes that concern it: this is right when a
/// removal may be the last of them.
fn judge_absence<'a, I: Iterator<Item = &'a Write>>(
    writes: impl Fn() -> I,
    loss: Finding,
) -> Finding {
    let puts = || writes().filter(|write| write.acknowledged && !write.removes());
    let removals = || writes().filter(|write| write.removes());
    let may_be_gone = |put: &Write| removals().any(|removal| !put.replaces(removal));
    if !puts().all(may_be_gone) {
        loss
    } else if puts().next().is_none() || removals().any(|removal| removal.acknowledged) {
        Finding::Intact
    } else {
        Finding::Unacknowledged
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use kvmark_testing::plans::{closed, plan};

    use super::*;

    const KEY: &[u8] = b"key";

    /// The history of one record, whose writes take 10 ns each.
    struct OneRecord {
        history: WriteHistory,
        stream: Stream,
    }

    impl OneRecord {
        fn new() -> Self {
            let stream = Stream::new(&plan(closed(), 1), 0, 0).expect("the plan is right");
            let history = WriteHistory::new();
            history.add_stream(&stream);
            Self { history, stream }
        }

        fn add(&self, number: u64, scope: Scope, begun_ns: u64, acknowledged: bool) -> &Self {
            let span = Span { begun_ns, completed_ns: begun_ns + 10 };
            self.history.add(7, Write::new((0, number), scope, span, acknowledged));
            self
        }

        /// Acknowledged writes, each after the one before; of the first the number is 0.
        fn after(scopes: &[Scope]) -> Self {
            let record = Self::new();
            for (number, scope) in (0..).zip(scopes) {
                record.add(number, *scope, 100 * number, true);
            }
            record
        }

        fn value(&self, number: u64, field: u32) -> Vec<u8> {
            let mut value = Vec::new();
            self.stream.append_value(number, 0, field, KEY, &mut value);
            value
        }

        /// What is found when each field holds the value of the write of this number, or none.
        fn holding(&self, fields: &[(u32, Option<u64>)]) -> Finding {
            let value = |(field, number): &(u32, Option<u64>)| {
                (*field, number.map(|number| self.value(number, *field)))
            };
            let values: Vec<_> = fields.iter().map(value).collect();
            let fields = values.iter().map(|(field, value)| (*field, value.as_deref()));
            self.history.judge(7, KEY, Some(fields))
        }

        fn absent(&self) -> Finding {
            self.history.judge(7, KEY, None::<std::iter::Empty<(u32, Option<&[u8]>)>>)
        }
    }

    const FIRST: Scope = Scope::field(0);
    const SECOND: Scope = Scope::field(1);

    #[test]
    fn a_field_that_holds_its_last_acknowledged_write_is_intact() {
        let record = OneRecord::after(&[Scope::ALL, FIRST, FIRST]);
        assert_eq!(record.holding(&[(0, Some(2)), (1, Some(0))]), Finding::Intact);
    }

    #[test]
    fn an_acknowledged_field_that_is_gone_is_lost() {
        let record = OneRecord::after(&[Scope::ALL, FIRST]);
        assert_eq!(record.holding(&[(0, Some(1)), (1, None)]), Finding::Incomplete);
        assert_eq!(record.holding(&[(0, None), (1, Some(0))]), Finding::Incomplete);
        assert_eq!(record.absent(), Finding::Missing);
        let record = OneRecord::after(&[FIRST]);
        assert_eq!(record.holding(&[(0, Some(0)), (1, None)]), Finding::Intact);
    }

    #[test]
    fn a_field_with_an_older_acknowledged_value_is_stale() {
        let record = OneRecord::after(&[Scope::ALL, FIRST]);
        assert_eq!(record.holding(&[(0, Some(0)), (1, Some(0))]), Finding::Stale);
        // Though the older write is still kept for the other fields.
        assert_eq!(record.holding(&[(0, Some(1)), (1, Some(1))]), Finding::Stale);
    }

    #[test]
    fn a_record_that_came_back_after_its_removal_is_resurrected() {
        let record = OneRecord::after(&[Scope::ALL, Scope::REMOVED]);
        assert_eq!(record.holding(&[(0, Some(0)), (1, None)]), Finding::Resurrected);
        assert_eq!(record.absent(), Finding::Intact);
        let record = OneRecord::after(&[Scope::ALL, Scope::REMOVED, SECOND]);
        assert_eq!(record.holding(&[(0, Some(0)), (1, Some(2))]), Finding::Resurrected);
        assert_eq!(record.holding(&[(0, None), (1, Some(2))]), Finding::Intact);
        assert_eq!(record.absent(), Finding::Missing);
    }

    #[test]
    fn of_writes_at_the_same_time_either_may_be_last() {
        let record = OneRecord::after(&[Scope::ALL]);
        record.add(5, FIRST, 100, true).add(6, FIRST, 105, true);
        for number in [5, 6] {
            assert_eq!(record.holding(&[(0, Some(number)), (1, Some(0))]), Finding::Intact);
        }
        assert_eq!(record.holding(&[(0, Some(0)), (1, Some(0))]), Finding::Stale);
        record.add(7, Scope::REMOVED, 103, true);
        assert_eq!([record.absent(), record.holding(&[(0, Some(6))])], [Finding::Intact; 2]);
    }

    #[test]
    fn a_write_begins_before_its_timestamp_and_not_when_it_is_sent() {
        // The second was handed to its driver before the first was answered, and sent after.
        let record = OneRecord::new();
        record.add(0, Scope::ALL, 100, true).add(1, Scope::ALL, 105, true);
        assert_eq!(record.holding(&[(0, Some(0))]), Finding::Intact);
    }

    #[test]
    fn a_write_of_unknown_outcome_is_admissible_for_ever_and_replaces_none() {
        let record = OneRecord::new();
        record.add(0, Scope::ALL, 0, false).add(1, Scope::ALL, 100, true);
        assert_eq!(record.holding(&[(0, Some(1))]), Finding::Intact);
        assert_eq!(record.holding(&[(0, Some(0))]), Finding::Unacknowledged);
        assert_eq!(record.holding(&[(0, Some(2))]), Finding::Stale);
        record.add(2, Scope::REMOVED, 200, false);
        assert_eq!(record.absent(), Finding::Unacknowledged);
        assert_eq!(record.holding(&[(0, None), (1, Some(1))]), Finding::Unacknowledged);
        record.add(3, Scope::ALL, 300, true);
        // A removal of which nobody knows when it is done.
        assert_eq!(record.absent(), Finding::Unacknowledged);
    }

    #[test]
    fn where_nothing_was_acknowledged_anything_may_be() {
        let record = OneRecord::new();
        record.add(0, Scope::ALL, 0, false);
        assert_eq!([record.absent(), record.holding(&[(0, Some(9))])], [Finding::Intact; 2]);
    }

    #[test]
    fn the_worst_of_a_records_fields_counts() {
        let record = OneRecord::after(&[Scope::ALL]);
        assert_eq!(record.holding(&[(0, Some(9)), (1, None), (2, Some(0))]), Finding::Incomplete);
    }

    #[test]
    fn writes_that_can_be_seen_no_more_are_dropped() {
        let record = OneRecord::after(&[Scope::ALL, FIRST, SECOND, FIRST, Scope::ALL]);
        assert_eq!(lock(&record.history.shards[7])[&7].all().len(), 1);
        assert_eq!(size_of::<Writes>(), 32);
    }
}
