//! The history of a run's writes, kept until they are read back.
//!
//! For each record the history keeps the writes that its fields may hold at the end: acknowledged
//! writes that no later acknowledged write replaced, and all writes with an unknown outcome,
//! because these may take effect at any time. Values aren't kept; the write's stream and number
//! reproduce them.
//!
//! The memory is bounded. When it is full, half of the records are dropped, by the hash of their
//! ordinal, and half of the rest when it is full again. All writes of a sampled record are kept.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kvmark_plan::{Outcome, PhaseName, TAG_LENGTH, split_mix, tag_length};
use kvmark_record::{Expectation, Loss, LostWriteRecord};
use kvmark_workload::{RecordRef, Stream};

/// Number of locks: enough that two workers rarely need the same one.
const SHARDS: u64 = 256;
/// Unit of a write's duration, in nanoseconds.
const TICK_NS: u64 = 16;
/// A record with more possible writes isn't judged: each costs time and memory, and almost any
/// value would pass.
const MOST_WRITES: usize = 1024;
/// Memory per table entry: the record, the table's control byte, and the record's entry in the list
/// of records to read back.
const PLACE_BYTES: usize = size_of::<(u64, Writes)>() + 1 + size_of::<u64>();
/// Bytes at a value's start or end that identify it as a part of a write.
const PART_BYTES: usize = 8;

/// A complete write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// The operation's number in its stream.
    number: u64,
    begun_ns: u64,
    /// Duration in ticks, rounded up; the largest value for an unknown end.
    ticks: u32,
    /// The place within the operation from which values are generated.
    place: u32,
    scope: Scope,
    /// Index of its source, by [`WriteHistory::add_source`].
    source: u16,
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

    /// Whether this write leaves nothing of the other one.
    fn covers(self, other: Self) -> bool {
        self == Self::ALL || self == Self::REMOVED || self == other
    }
}

/// A write's start and end. The start isn't later than the driver's first timestamp of the write,
/// the end isn't earlier than the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) begun_ns: u64,
    pub(crate) completed_ns: u64,
}

impl Write {
    /// A write of operation `number` of a source. An unacknowledged one may or may not be applied.
    pub(crate) fn new(
        (source, number): (u16, u64),
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
            source,
            acknowledged,
        }
    }

    /// The same write for a field whose value is generated from this place.
    pub(crate) fn within(self, scope: Scope, place: u64) -> Self {
        // Only these bits of a place count.
        Self { scope, place: place as u32, ..self }
    }

    fn removes(&self) -> bool {
        self.scope == Scope::REMOVED
    }

    /// The largest value for an unknown end.
    fn ended_ns(&self) -> u64 {
        match self.ticks {
            u32::MAX => u64::MAX,
            ticks => self.begun_ns.saturating_add(u64::from(ticks) * TICK_NS),
        }
    }

    /// Whether this write certainly replaces an earlier one.
    fn replaces(&self, other: &Self) -> bool {
        self.acknowledged && other.acknowledged && other.ended_ns() < self.begun_ns
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
            // Too many writes: no longer judged.
            Self::Several(writes) if writes.is_empty() => {}
            Self::Several(writes) => {
                writes.retain(|old| !outdated(old));
                if writes.len() < MOST_WRITES {
                    writes.push(write);
                } else {
                    *writes = Vec::new();
                }
            }
        }
    }

    /// Memory besides the table entry.
    fn list_bytes(&self) -> usize {
        match self {
            Self::One(_) => 0,
            Self::Several(writes) => writes.capacity() * size_of::<Write>(),
        }
    }
}

/// The records with equal ordinals modulo the number of shards.
#[derive(Debug, Default)]
struct Shard {
    records: HashMap<u64, Writes>,
    /// Memory of lists of writes.
    lists_bytes: usize,
    /// Number of halvings of the records.
    halvings: u32,
}

impl Shard {
    /// Memory after adding a write of this record, without growth of lists.
    fn bytes_with(&self, ordinal: u64) -> usize {
        let capacity = self.records.capacity();
        let grows = self.records.len() == capacity && !self.records.contains_key(&ordinal);
        // The table has a power of two of entries and fills seven eighths of them.
        let places = (capacity + 1).next_power_of_two() << u32::from(grows);
        places * PLACE_BYTES + self.lists_bytes
    }

    fn add(&mut self, ordinal: u64, write: Write) {
        if let Some(writes) = self.records.get_mut(&ordinal) {
            let before = writes.list_bytes();
            writes.add(write);
            self.lists_bytes = self.lists_bytes + writes.list_bytes() - before;
        } else {
            self.records.insert(ordinal, Writes::One(write));
        }
    }

    /// Drops the records outside the sample.
    fn halve(&mut self, halvings: u32) {
        if self.halvings < halvings {
            self.halvings = halvings;
            self.records.retain(|ordinal, _| is_sampled(*ordinal, halvings));
            // Removed entries leave tombstones, which would count as records.
            self.records.shrink_to_fit();
            self.lists_bytes = self.records.values().map(Writes::list_bytes).sum();
        }
    }
}

/// Whether a record is in the sample after this number of halvings.
fn is_sampled(ordinal: u64, halvings: u32) -> bool {
    split_mix(ordinal).leading_zeros() >= halvings
}

/// The result of reading a record back, from best to worst. A record counts as the worst of its
/// fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finding {
    /// Each field holds an acknowledged write, or no acknowledged write was expected.
    Intact,
    /// As intact, but a field holds a write with an unknown outcome.
    Unacknowledged,
    Lost(LostWrite),
}

/// The newest acknowledged write of a lost record or field. Of a record's fields, the worst loss
/// counts, and of equal ones the newest write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LostWrite {
    pub(crate) loss: Loss,
    pub(crate) begun_ns: u64,
    pub(crate) acknowledged_ns: u64,
    pub(crate) ordinal: u64,
    /// `None` for the whole record.
    pub(crate) field: Option<u32>,
    /// Index of its source, by [`WriteHistory::add_source`].
    pub(crate) source: u16,
}

impl Finding {
    fn of_loss<'a>(
        loss: Loss,
        (ordinal, field): (u64, Option<u32>),
        writes: impl Iterator<Item = &'a Write>,
    ) -> Self {
        let acknowledged = writes.filter(|write| write.acknowledged);
        let newest = acknowledged.max_by_key(|write| write.begun_ns);
        let newest = newest.expect("only an acknowledged write can be lost");
        Self::Lost(LostWrite {
            loss,
            begun_ns: newest.begun_ns,
            acknowledged_ns: newest.ended_ns(),
            ordinal,
            field,
            source: newest.source,
        })
    }

    /// The finding as the outcome of the read.
    pub(crate) const fn outcome(self) -> Outcome {
        match self {
            Self::Intact | Self::Unacknowledged => Outcome::Ok,
            Self::Lost(LostWrite { loss: Loss::Missing, .. }) => Outcome::Miss,
            Self::Lost(_) => Outcome::Mismatch,
        }
    }
}

/// The operations of a group in a phase.
#[derive(Clone, Debug)]
pub(crate) struct WriteSource {
    pub(crate) phase: PhaseName,
    /// The group's name.
    pub(crate) group: String,
    /// Reproduces the values of its writes.
    pub(crate) stream: Stream,
}

/// All writes of a run that reads may return. Shared by the workers.
#[derive(Debug)]
pub(crate) struct WriteHistory {
    shards: Vec<Mutex<Shard>>,
    /// Most memory of a shard.
    shard_bytes: usize,
    /// Required number of halvings.
    halvings: AtomicU32,
    sources: Mutex<Vec<WriteSource>>,
}

impl WriteHistory {
    /// A history with a memory limit.
    pub(crate) fn new(memory_bytes: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_bytes: usize::try_from(memory_bytes / SHARDS).unwrap_or(usize::MAX),
            halvings: AtomicU32::new(0),
            sources: Mutex::default(),
        }
    }

    pub(crate) fn add_source(&self, source: WriteSource) -> u16 {
        let mut sources = lock(&self.sources);
        sources.push(source);
        // One for each group of a phase.
        u16::try_from(sources.len() - 1).expect("a plan has fewer phases and groups")
    }

    /// A lost write for the records.
    pub(crate) fn record(&self, lost: &LostWrite) -> LostWriteRecord {
        let WriteSource { phase, group, stream } = &lock(&self.sources)[usize::from(lost.source)];
        let mut key = Vec::new();
        stream.records().key_into(lost.ordinal, &mut key);
        let is_removal = lost.loss == Loss::Resurrected;
        LostWriteRecord {
            key: String::from_utf8(key).expect("a key is its prefix, a text, and digits"),
            field: lost.field,
            written_at_ns: lost.begun_ns,
            acknowledged_at_ns: lost.acknowledged_ns,
            phase: *phase,
            group: group.clone(),
            expected: if is_removal { Expectation::Removal } else { Expectation::Value },
            found: lost.loss,
        }
    }

    pub(crate) fn add(&self, ordinal: u64, write: Write) {
        let mut halvings = self.halvings.load(Ordering::Relaxed);
        if !is_sampled(ordinal, halvings) {
            return;
        }
        let mut shard = lock(&self.shards[(ordinal % SHARDS) as usize]);
        shard.halve(halvings);
        while shard.bytes_with(ordinal) > self.shard_bytes && halvings < u64::BITS {
            halvings = self.halvings.fetch_max(halvings + 1, Ordering::Relaxed).max(halvings + 1);
            shard.halve(halvings);
            if !is_sampled(ordinal, halvings) {
                return;
            }
        }
        shard.add(ordinal, write);
    }

    /// The sampled records, in order, and the estimated number of written records.
    pub(crate) fn ordinals(&self) -> (Vec<u64>, u64) {
        let halvings = self.halvings.load(Ordering::Relaxed);
        let (mut all, mut known) = (Vec::new(), 0_u64);
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.halve(halvings);
            known += shard.records.len() as u64;
            let judged = shard.records.iter().filter(|(_, writes)| !writes.all().is_empty());
            all.extend(judged.map(|(ordinal, _)| *ordinal));
        }
        all.sort_unstable();
        (all, known.checked_shl(halvings).unwrap_or(known))
    }

    /// Judges a record that was read or is missing. `fields` are all requested fields, each with
    /// its value if one was returned.
    pub(crate) fn judge<'a>(
        &self,
        ordinal: u64,
        key: &[u8],
        fields: Option<impl Iterator<Item = (u32, Option<&'a [u8]>)>>,
    ) -> Finding {
        let shard = lock(&self.shards[(ordinal % SHARDS) as usize]);
        let writes = shard.records.get(&ordinal).map(Writes::all);
        let Some(writes) = writes else { return Finding::Intact };
        let Some(fields) = fields else {
            return judge_absence(|| writes.iter(), Loss::Missing)
                .unwrap_or_else(|loss| Finding::of_loss(loss, (ordinal, None), writes.iter()));
        };
        let sources = lock(&self.sources);
        let mut bytes = Vec::new();
        let mut finding = Finding::Intact;
        for (field, value) in fields {
            let mut likeness = |write: &Write, value: &[u8]| {
                let records = sources[usize::from(write.source)].stream.records();
                let tag = records.tag(ordinal);
                if write.removes() {
                    return Likeness::without_value(value, tag.as_ref());
                }
                bytes.clear();
                let (number, place) = (write.number, write.place.into());
                let record = RecordRef { ordinal, key };
                records.append_value(number, place, field, record, &mut bytes);
                Likeness::of(value, &bytes, tag.as_ref())
            };
            let of_field = || writes.iter().filter(|write| write.scope.concerns(field));
            let judged = match value {
                Some(value) => judge_value(of_field, |write| likeness(write, value)),
                None => judge_absence(of_field, Loss::Incomplete),
            };
            let lost = |loss| Finding::of_loss(loss, (ordinal, Some(field)), of_field());
            finding = finding.max(judged.unwrap_or_else(lost));
        }
        finding
    }
}

/// The similarity of a value to a write's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Likeness {
    Same,
    /// It has the same start or end.
    Part,
    /// It has the record's tag.
    Tagged,
    Other,
}

impl Likeness {
    /// Compares a value with a written one. The tag, which all values of a record share, doesn't
    /// count.
    fn of(value: &[u8], written: &[u8], tag: Option<&[u8; TAG_LENGTH]>) -> Self {
        let ends = |bytes: &[u8]| {
            let noise = &bytes[if tag.is_some() { tag_length(bytes.len()) } else { 0 }..];
            (noise.first_chunk::<PART_BYTES>().copied(), noise.last_chunk::<PART_BYTES>().copied())
        };
        let ((first, last), own) = (ends(value), ends(written));
        if value == written {
            Self::Same
        } else if first.is_some() && (first == own.0 || last == own.1) {
            Self::Part
        } else {
            Self::without_value(value, tag)
        }
    }

    /// Compares a value with a write that has none.
    fn without_value(value: &[u8], tag: Option<&[u8; TAG_LENGTH]>) -> Self {
        let length = tag_length(value.len());
        let is_tagged = tag.is_some_and(|tag| length > 0 && value.starts_with(&tag[..length]));
        if is_tagged { Self::Tagged } else { Self::Other }
    }
}

/// Judges a returned field by the writes that concern it.
fn judge_value<'a, I: Iterator<Item = &'a Write> + Clone>(
    writes: impl Fn() -> I,
    mut likeness: impl FnMut(&Write) -> Likeness,
) -> Result<Finding, Loss> {
    let last = || writes().filter(|write| !writes().any(|other| other.replaces(write)));
    let mut is_uncertain = false;
    for write in last() {
        if likeness(write) == Likeness::Same {
            if write.acknowledged {
                return Ok(Finding::Intact);
            }
            is_uncertain = true;
        }
    }
    let mut acknowledged = last().filter(|write| write.acknowledged).peekable();
    if is_uncertain {
        Ok(Finding::Unacknowledged)
    } else if acknowledged.peek().is_none() {
        // The value may be from before the run.
        Ok(Finding::Intact)
    } else if acknowledged.all(Write::removes) {
        Err(Loss::Resurrected)
    } else if writes().any(|write| likeness(write) == Likeness::Part) {
        Err(Loss::Torn)
    } else if writes().any(|write| likeness(write) != Likeness::Other) {
        Err(Loss::Older)
    } else {
        Err(Loss::Other)
    }
}

/// Judges a missing record or field by the writes that concern it: absence is correct if a removal
/// may be the last of them.
fn judge_absence<'a, I: Iterator<Item = &'a Write>>(
    writes: impl Fn() -> I,
    loss: Loss,
) -> Result<Finding, Loss> {
    let puts = || writes().filter(|write| write.acknowledged && !write.removes());
    let removals = || writes().filter(|write| write.removes());
    let may_be_gone = |put: &Write| removals().any(|removal| !put.replaces(removal));
    if !puts().all(may_be_gone) {
        Err(loss)
    } else if puts().next().is_none() || removals().any(|removal| removal.acknowledged) {
        Ok(Finding::Intact)
    } else {
        Ok(Finding::Unacknowledged)
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use kvmark_testing::plans::{closed, plan};

    use super::*;

    const KEY: &[u8] = b"key";

    /// A loss without its write.
    fn lost(loss: Loss) -> Finding {
        Finding::Lost(LostWrite {
            loss,
            begun_ns: 0,
            acknowledged_ns: 0,
            ordinal: 0,
            field: None,
            source: 0,
        })
    }

    fn without_write(finding: Finding) -> Finding {
        if let Finding::Lost(write) = finding { lost(write.loss) } else { finding }
    }

    /// The history of one record. Each write takes 10 ns.
    struct OneRecord {
        history: WriteHistory,
        stream: Stream,
    }

    impl OneRecord {
        fn new() -> Self {
            let stream = Stream::new(&plan(closed(), 1), 0, 0).expect("the plan is right");
            let history = WriteHistory::new(1 << 30);
            let (phase, group) = (PhaseName::Measure, "main".to_owned());
            history.add_source(WriteSource { phase, group, stream: stream.clone() });
            Self { history, stream }
        }

        fn add(&self, number: u64, scope: Scope, begun_ns: u64, acknowledged: bool) -> &Self {
            let span = Span { begun_ns, completed_ns: begun_ns + 10 };
            self.history.add(7, Write::new((0, number), scope, span, acknowledged));
            self
        }

        /// Sequential acknowledged writes, numbered from 0.
        fn after(scopes: &[Scope]) -> Self {
            let record = Self::new();
            for (number, scope) in (0..).zip(scopes) {
                record.add(number, *scope, 100 * number, true);
            }
            record
        }

        fn value(&self, number: u64, field: u32) -> Vec<u8> {
            let mut value = Vec::new();
            let record = RecordRef { ordinal: 7, key: KEY };
            self.stream.records().append_value(number, 0, field, record, &mut value);
            value
        }

        /// The finding if each field holds the value of the write with this number, or none.
        fn holding(&self, fields: &[(u32, Option<u64>)]) -> Finding {
            let value = |(field, number): &(u32, Option<u64>)| {
                (*field, number.map(|number| self.value(number, *field)))
            };
            let values: Vec<_> = fields.iter().map(value).collect();
            let fields = values.iter().map(|(field, value)| (*field, value.as_deref()));
            without_write(self.history.judge(7, KEY, Some(fields)))
        }

        fn absent(&self) -> Finding {
            let nothing = None::<std::iter::Empty<(u32, Option<&[u8]>)>>;
            without_write(self.history.judge(7, KEY, nothing))
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
    fn a_missing_acknowledged_field_is_lost() {
        let record = OneRecord::after(&[Scope::ALL, FIRST]);
        assert_eq!(record.holding(&[(0, Some(1)), (1, None)]), lost(Loss::Incomplete));
        assert_eq!(record.holding(&[(0, None), (1, Some(0))]), lost(Loss::Incomplete));
        assert_eq!(record.absent(), lost(Loss::Missing));
        let record = OneRecord::after(&[FIRST]);
        assert_eq!(record.holding(&[(0, Some(0)), (1, None)]), Finding::Intact);
    }

    #[test]
    fn a_field_with_an_older_acknowledged_value_is_stale() {
        let record = OneRecord::after(&[Scope::ALL, FIRST]);
        assert_eq!(record.holding(&[(0, Some(0)), (1, Some(0))]), lost(Loss::Older));
        // The older write is still kept for the other fields.
        assert_eq!(record.holding(&[(0, Some(1)), (1, Some(1))]), lost(Loss::Older));
    }

    #[test]
    fn a_record_that_came_back_after_its_removal_is_resurrected() {
        let record = OneRecord::after(&[Scope::ALL, Scope::REMOVED]);
        assert_eq!(record.holding(&[(0, Some(0)), (1, None)]), lost(Loss::Resurrected));
        assert_eq!(record.absent(), Finding::Intact);
        let record = OneRecord::after(&[Scope::ALL, Scope::REMOVED, SECOND]);
        assert_eq!(record.holding(&[(0, Some(0)), (1, Some(2))]), lost(Loss::Resurrected));
        assert_eq!(record.holding(&[(0, None), (1, Some(2))]), Finding::Intact);
        assert_eq!(record.absent(), lost(Loss::Missing));
    }

    #[test]
    fn either_of_two_concurrent_writes_may_be_last() {
        let record = OneRecord::after(&[Scope::ALL]);
        record.add(5, FIRST, 100, true).add(6, FIRST, 105, true);
        for number in [5, 6] {
            assert_eq!(record.holding(&[(0, Some(number)), (1, Some(0))]), Finding::Intact);
        }
        assert_eq!(record.holding(&[(0, Some(0)), (1, Some(0))]), lost(Loss::Older));
        record.add(7, Scope::REMOVED, 103, true);
        assert_eq!([record.absent(), record.holding(&[(0, Some(6))])], [Finding::Intact; 2]);
    }

    #[test]
    fn a_write_begins_before_its_timestamp_not_when_it_is_sent() {
        // The second write was passed to the driver before the first was answered, and sent after
        // that.
        let record = OneRecord::new();
        record.add(0, Scope::ALL, 100, true).add(1, Scope::ALL, 105, true);
        assert_eq!(record.holding(&[(0, Some(0))]), Finding::Intact);
    }

    #[test]
    fn a_write_with_an_unknown_outcome_stays_possible_and_replaces_none() {
        let record = OneRecord::new();
        record.add(0, Scope::ALL, 0, false).add(1, Scope::ALL, 100, true);
        assert_eq!(record.holding(&[(0, Some(1))]), Finding::Intact);
        assert_eq!(record.holding(&[(0, Some(0))]), Finding::Unacknowledged);
        assert_eq!(record.holding(&[(0, Some(2))]), lost(Loss::Older));
        record.add(2, Scope::REMOVED, 200, false);
        assert_eq!(record.absent(), Finding::Unacknowledged);
        assert_eq!(record.holding(&[(0, None), (1, Some(1))]), Finding::Unacknowledged);
        record.add(3, Scope::ALL, 300, true);
        // A removal may be applied at any time.
        assert_eq!(record.absent(), Finding::Unacknowledged);
    }

    #[test]
    fn without_an_acknowledged_write_any_value_is_intact() {
        let record = OneRecord::new();
        record.add(0, Scope::ALL, 0, false);
        assert_eq!([record.absent(), record.holding(&[(0, Some(9))])], [Finding::Intact; 2]);
    }

    #[test]
    fn the_worst_of_a_records_fields_counts() {
        let record = OneRecord::after(&[Scope::ALL]);
        assert_eq!(
            record.holding(&[(0, Some(9)), (1, None), (2, Some(0))]),
            lost(Loss::Incomplete)
        );
    }

    #[test]
    fn replaced_writes_are_dropped() {
        let record = OneRecord::after(&[Scope::ALL, FIRST, SECOND, FIRST, Scope::ALL]);
        assert_eq!(lock(&record.history.shards[7]).records[&7].all().len(), 1);
        assert_eq!(size_of::<Writes>(), 32);
    }

    #[test]
    fn a_value_with_a_part_of_a_write_is_torn() {
        let record = OneRecord::after(&[Scope::ALL, FIRST]);
        let found = |value: &[u8]| {
            without_write(record.history.judge(7, KEY, Some(std::iter::once((0, Some(value))))))
        };
        let (new, old) = (record.value(1, 0), record.value(0, 0));
        assert_eq!([found(&new), found(&old)], [Finding::Intact, lost(Loss::Older)]);
        let half = new.len() / 2;
        for torn in [
            &new[..new.len() - 1],
            &new[half..],
            &[&new[..half], &old[half..]].concat(),
            &[&old[..half], &new[half..]].concat(),
            &[&new[..half], b"?", &new[half + 1..]].concat(),
        ] {
            assert_eq!(found(torn), lost(Loss::Torn));
        }
        assert_eq!([found(b""), found(b"?")], [lost(Loss::Other); 2]);
    }

    #[test]
    fn a_full_history_drops_half_of_the_records_and_keeps_all_writes_of_the_others() {
        let history = WriteHistory::new(1 << 20);
        let write = |number, begun_ns| {
            let span = Span { begun_ns, completed_ns: begun_ns + 10 };
            Write::new((0, number), Scope::ALL, span, true)
        };
        for number in 0..200_000 {
            history.add(number % 100_000, write(number, number * 100));
        }
        let (ordinals, written) = history.ordinals();
        let bytes: usize = history.shards.iter().map(|shard| lock(shard).bytes_with(0)).sum();
        assert!(bytes <= 1 << 20, "{bytes} bytes");
        assert!(ordinals.len() > 5_000 && ordinals.is_sorted(), "{} records", ordinals.len());
        assert!(written.abs_diff(100_000) < 5_000, "{written} written");
        for ordinal in ordinals {
            let shard = lock(&history.shards[(ordinal % SHARDS) as usize]);
            let numbers: Vec<_> = shard.records[&ordinal].all().iter().map(|w| w.number).collect();
            assert_eq!(numbers, [ordinal + 100_000]);
        }
    }

    #[test]
    fn a_record_with_too_many_possible_writes_is_not_judged() {
        let record = OneRecord::new();
        for number in 0..=MOST_WRITES as u64 {
            record.add(number, FIRST, number * 100, false);
        }
        record.add(0, FIRST, 1 << 40, true);
        assert_eq!(record.history.ordinals(), (Vec::new(), 1));
        assert_eq!(lock(&record.history.shards[7]).lists_bytes, 0);
    }
}
