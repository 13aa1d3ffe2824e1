//! A store in memory, with planted faults.
//!
//! The correct records are separate from the results of reads, so that a fault stays visible after
//! later writes. A fault that a client can no longer detect, because its record was removed or has
//! a write of unknown outcome, is moved to another record. The number of faults is exact while
//! there are records for them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kvmark_plan::{Kind, Outcome};

use super::faults::{Fault, FaultCounts};
use super::records::{StoredRecord, StoredRecords, StoredValue};
use super::request::{StoreCommand, StoreRequest};
use super::unit;
use crate::{Effect, Reply};

/// How a returned record differs from the correct one.
#[derive(Clone, Debug)]
enum Disguise {
    Lost,
    /// Without this field.
    Without(u32),
    /// A value that the field held before.
    Older(u32, Vec<u8>),
    /// A part of the field's value.
    Torn(u32),
    /// The fields of another record, which has this one's.
    SwappedWith(Vec<u8>),
    Resurrected,
    /// It has a write that was reported as failed, and accepts no more writes.
    Frozen,
}

impl Disguise {
    const fn fault(&self) -> Fault {
        match self {
            Self::Lost => Fault::LoseRecord,
            Self::Without(_) => Fault::LoseField,
            Self::Older(..) => Fault::ReturnOlder,
            Self::Torn(_) => Fault::TearValue,
            Self::SwappedWith(_) => Fault::SwapRecords,
            Self::Resurrected => Fault::ResurrectRecord,
            Self::Frozen => Fault::ApplyFailed,
        }
    }
}

/// The store.
#[derive(Debug)]
pub(super) struct MemoryStore {
    records: StoredRecords,
    /// By key.
    disguises: BTreeMap<Vec<u8>, Disguise>,
    counts: FaultCounts,
    /// By [`Fault`].
    planted: [u64; Fault::ALL.len()],
    acknowledged: u64,
    seed: u64,
    draws: u64,
}

impl MemoryStore {
    pub(super) fn new(counts: FaultCounts, seed: u64) -> Self {
        Self {
            records: StoredRecords::default(),
            disguises: BTreeMap::new(),
            counts,
            planted: [0; Fault::ALL.len()],
            acknowledged: 0,
            seed,
            draws: 0,
        }
    }

    /// The planted faults by the names of their counters, without kinds that aren't configured.
    pub(super) fn planted(&self) -> BTreeMap<String, f64> {
        let wanted = Fault::ALL.into_iter().filter(|fault| self.counts.wanted[*fault as usize] > 0);
        let counter = |fault: Fault| format!("planted.{}", fault.option());
        wanted.map(|fault| (counter(fault), self.planted[fault as usize] as f64)).collect()
    }

    /// Executes a request. The reply's instant is the result of `now_ns` afterwards.
    pub(super) fn execute(
        &mut self,
        request: &StoreRequest,
        issued_ns: u64,
        now_ns: impl FnOnce() -> u64,
        reply: &mut Reply,
    ) -> (u64, Outcome) {
        reply.clear();
        if !request.writes() {
            let outcome = self.read(request, reply);
            return (now_ns(), outcome);
        }
        if self.fails(request, issued_ns) {
            self.doubt(request);
            return (now_ns(), Outcome::Unavailable);
        }
        reply.rows = if request.commands.is_empty() { request.rows } else { 0 };
        let removes = request.kind == Kind::Delete;
        let mut missed = false;
        for (number, command) in (0..).zip(&request.commands) {
            // A reported miss must not remove a record.
            if removes && matches!(self.disguises.get(&command.key), Some(Disguise::Lost)) {
                self.take_back(&command.key);
            }
            let misses = removes && self.fields(&command.key).is_empty();
            if misses {
                reply.effects.push((number, Effect::NotApplied));
            }
            missed |= misses;
            reply.rows += u64::from(!misses);
            self.records.apply(request.kind, command, issued_ns);
        }
        let at_ns = now_ns();
        for command in &request.commands {
            self.records.acknowledge(&command.key, removes, at_ns);
        }
        self.acknowledge(request);
        (at_ns, if missed { Outcome::Miss } else { Outcome::Ok })
    }

    /// Executes a write that its client has given up.
    pub(super) fn execute_late(&mut self, request: &StoreRequest, issued_ns: u64) {
        let is_frozen = |command: &StoreCommand| self.is_frozen(&command.key);
        if request.writes() && !request.commands.iter().any(is_frozen) {
            for command in &request.commands {
                self.records.apply(request.kind, command, issued_ns);
            }
        }
        self.doubt(request);
    }

    /// Marks a request as one of unknown outcome.
    pub(super) fn doubt(&mut self, request: &StoreRequest) {
        if !request.writes() {
            return;
        }
        for command in &request.commands {
            self.records.doubt(&command.key);
            self.reconsider(&command.key);
        }
    }

    fn read(&self, request: &StoreRequest, reply: &mut Reply) -> Outcome {
        if request.commands.is_empty() {
            reply.rows = request.rows;
            return Outcome::Ok;
        }
        let (mut missed, mut unlike) = (false, false);
        for (row, command) in (0..).zip(&request.commands) {
            if request.kind == Kind::Scan {
                let keys = self.records.from(&command.key);
                let found = keys.filter(|key| !self.fields(key).is_empty());
                reply.rows += found.take(request.scan_length.max(1) as usize).count() as u64;
                continue;
            }
            let fields = self.fields(&command.key);
            missed |= fields.is_empty();
            reply.rows += u64::from(!fields.is_empty());
            if request.wants_values {
                returned(request, &fields).for_each(|(place, value)| reply.push(row, place, value));
            }
            if let Some(expected) = request.expected {
                let mut comparison = expected.compare();
                returned(request, &fields).for_each(|(_, value)| comparison.see(value));
                unlike |= !fields.is_empty() && comparison.outcome() == Outcome::Mismatch;
            }
        }
        match (missed, unlike) {
            (true, _) => Outcome::Miss,
            (false, true) => Outcome::Mismatch,
            (false, false) => Outcome::Ok,
        }
    }

    /// A record's fields as reads return them; empty without a record.
    fn fields<'a>(&'a self, key: &[u8]) -> Fields<'a> {
        let record = self.records.get(key);
        let mut fields = held(record);
        match self.disguises.get(key) {
            None | Some(Disguise::Frozen) => {}
            Some(Disguise::Lost) => fields.clear(),
            Some(Disguise::Without(field)) => drop(fields.remove(field)),
            Some(Disguise::Older(field, value)) => drop(fields.insert(*field, value.into())),
            Some(Disguise::Torn(field)) => {
                let torn = record.and_then(|record| torn(record.fields.get(field)?));
                fields.extend(torn.map(|torn| (*field, torn.into())));
            }
            Some(Disguise::SwappedWith(key)) => fields = held(self.records.get(key)),
            Some(Disguise::Resurrected) => {
                let removed = record.into_iter().flat_map(|record| &record.removed);
                fields.extend(removed.map(|(field, value)| (*field, value.into())));
            }
        }
        fields
    }

    fn is_frozen(&self, key: &[u8]) -> bool {
        matches!(self.disguises.get(key), Some(Disguise::Frozen))
    }

    /// Whether a write is to be reported as failed. The first one of a record takes effect.
    fn fails(&mut self, request: &StoreRequest, issued_ns: u64) -> bool {
        if request.commands.iter().any(|command| self.is_frozen(&command.key)) {
            return true;
        }
        if request.kind != Kind::Update || !self.is_short_of(Fault::ApplyFailed) {
            return false;
        }
        let can_freeze = |command: &&StoreCommand| {
            let is_free = !self.disguises.contains_key(&command.key);
            let Some(record) = self.records.get(&command.key) else { return false };
            let held = held(Some(record));
            let changes = |(field, value): &(u32, Vec<u8>)| {
                held.get(field).is_none_or(|held| **held != **value)
            };
            is_free && is_there(record) && command.values.iter().any(changes)
        };
        let Some(command) = request.commands.iter().find(can_freeze) else { return false };
        self.records.apply(request.kind, command, issued_ns);
        self.plant(&command.key, Disguise::Frozen);
        true
    }

    fn acknowledge(&mut self, request: &StoreRequest) {
        self.acknowledged += 1;
        if self.acknowledged == self.counts.after + 1 || request.kind == Kind::Delete {
            self.fill();
        }
        for command in &request.commands {
            self.reconsider(&command.key);
        }
    }

    /// Removes the fault of a changed record if it is no longer visible, or plants a missing one
    /// there.
    fn reconsider(&mut self, key: &[u8]) {
        match self.disguises.get(key) {
            Some(disguise) if self.is_visible(key, disguise) => {}
            Some(_) => {
                self.take_back(key);
                self.fill();
            }
            None => self.plant_one_at(key),
        }
    }

    fn take_back(&mut self, key: &[u8]) {
        let Some(disguise) = self.disguises.remove(key) else { return };
        self.planted[disguise.fault() as usize] -= 1;
        if let Disguise::SwappedWith(other) = &disguise {
            self.disguises.remove(other);
        }
    }

    /// Plants the missing faults at random records.
    fn fill(&mut self) {
        for fault in Fault::ALL {
            while self.is_short_of(fault) {
                self.draws += 1;
                let share = unit(self.seed, self.draws);
                let Some((key, disguise)) = self.place(fault, share) else { break };
                self.plant(&key, disguise);
            }
        }
    }

    /// The first record that can show a fault, starting at a share of all records.
    fn place(&self, fault: Fault, share: f64) -> Option<(Vec<u8>, Disguise)> {
        let mut keys = self.records.all_from(share);
        keys.find_map(|key| Some((key.to_vec(), self.disguise(fault, key)?)))
    }

    fn plant_one_at(&mut self, key: &[u8]) {
        let mut short = Fault::ALL.into_iter().filter(|fault| self.is_short_of(*fault));
        if let Some(disguise) = short.find_map(|fault| self.disguise(fault, key)) {
            self.plant(key, disguise);
        }
    }

    fn is_short_of(&self, fault: Fault) -> bool {
        let index = fault as usize;
        self.acknowledged > self.counts.after && self.planted[index] < self.counts.wanted[index]
    }

    fn plant(&mut self, key: &[u8], disguise: Disguise) {
        self.planted[disguise.fault() as usize] += 1;
        if let Disguise::SwappedWith(other) = &disguise {
            self.disguises.insert(other.clone(), Disguise::SwappedWith(key.into()));
        }
        self.disguises.insert(key.into(), disguise);
    }

    /// The disguise of a record that shows a fault; `None` if it can't show it.
    fn disguise(&self, fault: Fault, key: &[u8]) -> Option<Disguise> {
        let record = self.records.get(key).filter(|_| !self.disguises.contains_key(key))?;
        let is_visible = |disguise: &Disguise| self.is_visible(key, disguise);
        let mut fields = record.fields.iter();
        match fault {
            Fault::LoseRecord => Some(Disguise::Lost).filter(is_visible),
            Fault::LoseField => {
                let last = fields.next_back();
                last.map(|(field, _)| Disguise::Without(*field)).filter(is_visible)
            }
            Fault::ReturnOlder => {
                let older = |(field, held): (&u32, &StoredValue)| {
                    Some(Disguise::Older(*field, held.older.clone()?))
                };
                fields.filter_map(older).find(is_visible)
            }
            Fault::TearValue => fields.map(|(field, _)| Disguise::Torn(*field)).find(is_visible),
            Fault::SwapRecords if is_there(record) => {
                let others = self.records.all_from(0.0);
                others.map(|other| Disguise::SwappedWith(other.into())).find(is_visible)
            }
            Fault::ResurrectRecord => Some(Disguise::Resurrected).filter(is_visible),
            // These are planted by the writes that fail.
            Fault::SwapRecords | Fault::ApplyFailed => None,
        }
    }

    /// Whether a client that remembers its writes can detect the fault in the record.
    fn is_visible(&self, key: &[u8], disguise: &Disguise) -> bool {
        let Some(record) = self.records.get(key) else { return false };
        match disguise {
            Disguise::Frozen => true,
            Disguise::Resurrected => {
                record.is_certain() && record.fields.is_empty() && !record.removed.is_empty()
            }
            _ if !is_there(record) => false,
            Disguise::Lost => true,
            Disguise::Without(field) => {
                record.fields.len() > 1 && record.fields.contains_key(field)
            }
            Disguise::Older(field, value) => {
                record.fields.get(field).is_some_and(|held| held.value != *value)
            }
            Disguise::Torn(field) => {
                record.fields.get(field).is_some_and(|held| torn(held).is_some())
            }
            Disguise::SwappedWith(other) => {
                let Some(partner) = self.records.get(other) else { return false };
                let is_free = match self.disguises.get(other) {
                    None => !self.disguises.contains_key(key),
                    Some(Disguise::SwappedWith(back)) => back == key,
                    Some(_) => false,
                };
                is_free && is_there(partner) && differ(record, partner)
            }
        }
    }
}

/// A record's values by field.
type Fields<'a> = BTreeMap<u32, Cow<'a, [u8]>>;

fn held(record: Option<&StoredRecord>) -> Fields<'_> {
    let fields = record.into_iter().flat_map(|record| &record.fields);
    fields.map(|(field, stored)| (*field, (&stored.value).into())).collect()
}

/// Whether there is a record, and its clients know its values.
fn is_there(record: &StoredRecord) -> bool {
    record.is_certain() && !record.fields.is_empty()
}

/// Whether two records have the same fields, and not the same values.
fn differ(one: &StoredRecord, other: &StoredRecord) -> bool {
    one.fields.keys().eq(other.fields.keys()) && held(Some(one)) != held(Some(other))
}

/// The first half of a value, followed by the rest of the value before it or by nothing; `None` if
/// that is a written value.
fn torn(held: &StoredValue) -> Option<Vec<u8>> {
    let half = held.value.len() / 2;
    let older = held.older.as_deref();
    let rest = older.and_then(|older| older.get(half..)).unwrap_or_default();
    let mut torn = [rest, &[]].map(|rest| [&held.value[..half], rest].concat()).into_iter();
    torn.find(|torn| *torn != held.value && older != Some(&torn[..]))
}

/// A record's returned values, each with its index in the reply.
fn returned<'a>(
    request: &'a StoreRequest,
    fields: &'a Fields<'_>,
) -> impl Iterator<Item = (u32, &'a [u8])> {
    let all = request.returned.is_none();
    let own = fields.iter().filter(move |_| all).map(|(field, value)| (*field, &**value));
    let named = request.returned.iter().flatten();
    own.chain(named.filter_map(|(place, field)| Some((*place, &**fields.get(field)?))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A store that plants `count` faults of one kind.
    fn store(fault: Fault, count: u64) -> MemoryStore {
        let mut wanted = [0; Fault::ALL.len()];
        wanted[fault as usize] = count;
        MemoryStore::new(FaultCounts { wanted, after: 0 }, 1)
    }

    fn request(kind: Kind, key: &str, values: &[(u32, &str)]) -> StoreRequest {
        let values = values.iter().map(|(field, value)| (*field, value.as_bytes().into()));
        StoreRequest {
            kind,
            commands: vec![StoreCommand { key: key.into(), values: values.collect() }],
            scan_length: 0,
            wants_values: true,
            expected: None,
            returned: None,
            rows: 1,
        }
    }

    /// Executes a request that starts at this second and takes one second.
    fn at(store: &mut MemoryStore, second: u64, request: &StoreRequest) -> (Outcome, String) {
        let mut reply = Reply::default();
        let done_ns = (second + 1) * SECOND;
        let (_, outcome) = store.execute(request, second * SECOND, || done_ns, &mut reply);
        let cells = reply.cells.iter().map(|cell| reply.bytes_of(cell));
        let texts: Vec<_> = cells.map(|bytes| String::from_utf8_lossy(bytes)).collect();
        (outcome, texts.join(" "))
    }

    fn read(store: &mut MemoryStore, key: &str) -> (Outcome, String) {
        at(store, 1_000, &request(Kind::Read, key, &[]))
    }

    /// Writes two records, and the first field of both again.
    fn write_two(store: &mut MemoryStore) {
        for (second, key) in [(0, "a"), (2, "b")] {
            at(store, second, &request(Kind::Insert, key, &[(0, &key.repeat(4)), (1, key)]));
            at(store, second + 10, &request(Kind::Update, key, &[(0, &format!("{key}2345678"))]));
        }
    }

    fn found(text: &str) -> (Outcome, String) {
        (Outcome::Ok, text.to_owned())
    }

    const GONE: (Outcome, String) = (Outcome::Miss, String::new());

    #[test]
    fn without_faults_a_store_returns_the_last_write() {
        let mut store = store(Fault::LoseRecord, 0);
        write_two(&mut store);
        assert_eq!(read(&mut store, "a"), found("a2345678 a"));
        assert_eq!(at(&mut store, 20, &request(Kind::Delete, "a", &[])).0, Outcome::Ok);
        assert_eq!(at(&mut store, 22, &request(Kind::Delete, "a", &[])).0, Outcome::Miss);
        assert_eq!((read(&mut store, "a"), read(&mut store, "b")), (GONE, found("b2345678 b")));
    }

    #[test]
    fn each_fault_is_visible_in_reads() {
        for (fault, a) in [
            (Fault::LoseRecord, GONE),
            (Fault::LoseField, found("a2345678")),
            (Fault::ReturnOlder, found("aaaa a")),
            (Fault::SwapRecords, found("b2345678 b")),
            (Fault::TearValue, found("a234 a")),
        ] {
            let mut store = store(fault, 1);
            write_two(&mut store);
            assert_eq!(read(&mut store, "a"), a, "{fault:?}");
            let b = if fault == Fault::SwapRecords { "a2345678 a" } else { "b2345678 b" };
            assert_eq!(read(&mut store, "b"), found(b), "{fault:?}");
        }
    }

    #[test]
    fn a_removed_record_returns() {
        let mut store = store(Fault::ResurrectRecord, 1);
        write_two(&mut store);
        assert_eq!(at(&mut store, 20, &request(Kind::Delete, "a", &[])).0, Outcome::Ok);
        assert_eq!(read(&mut store, "a"), found("a2345678 a"));
        at(&mut store, 22, &request(Kind::Insert, "a", &[(0, "new")]));
        assert_eq!((read(&mut store, "a"), store.planted[5]), (found("new"), 0));
    }

    #[test]
    fn an_update_that_failed_stays_and_no_other_takes_effect_there() {
        let mut store = store(Fault::ApplyFailed, 1);
        write_two(&mut store);
        // The first update of a record failed, and so do later ones.
        assert_eq!(read(&mut store, "a"), found("a2345678 a"));
        let update = request(Kind::Update, "a", &[(0, "third")]);
        assert_eq!(at(&mut store, 30, &update), (Outcome::Unavailable, String::new()));
        store.execute_late(&update, 32 * SECOND);
        assert_eq!((read(&mut store, "a"), store.planted[6]), (found("a2345678 a"), 1));
    }

    #[test]
    fn a_fault_that_could_not_be_seen_any_more_is_planted_elsewhere() {
        let mut store = store(Fault::LoseRecord, 1);
        write_two(&mut store);
        assert_eq!((read(&mut store, "a"), read(&mut store, "b")), (GONE, found("b2345678 b")));
        assert_eq!(at(&mut store, 20, &request(Kind::Delete, "a", &[])).0, Outcome::Ok);
        assert_eq!((read(&mut store, "b"), store.planted[0]), (GONE, 1));
        store.doubt(&request(Kind::Update, "b", &[]));
        assert_eq!((read(&mut store, "b"), store.planted[0]), (found("b2345678 b"), 0));
    }
}
