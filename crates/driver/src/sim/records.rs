//! The records of a simulated store without faults, with the history that is needed to plant
//! detectable faults.

use std::collections::BTreeMap;
use std::ops::Bound;

use kvmark_plan::Kind;

use super::request::StoreCommand;

/// Time between the acknowledgement of a write and the start of another one that makes their order
/// certain: more than a client needs to send a request.
const APART_NS: u64 = 10_000_000;

/// A field's value.
#[derive(Clone, Debug)]
pub(super) struct StoredValue {
    pub(super) value: Vec<u8>,
    issued_ns: u64,
    /// When its write was acknowledged; no instant before that.
    completed_ns: u64,
    /// The field's value before, from an acknowledged write that ended before this one began.
    pub(super) older: Option<Vec<u8>>,
}

/// A record, or the history of a removed one.
#[derive(Debug, Default)]
pub(super) struct StoredRecord {
    /// By field; empty when there is no such record.
    pub(super) fields: BTreeMap<u32, StoredValue>,
    /// When the last removal was acknowledged.
    removed_ns: Option<u64>,
    /// The fields at the removal, if all were acknowledged before the removal began.
    pub(super) removed: BTreeMap<u32, Vec<u8>>,
    /// Whether the outcome of a write is unknown to its client.
    is_doubtful: bool,
}

impl StoredRecord {
    /// Whether clients know the value of every field: all writes were acknowledged, and no removal
    /// was concurrent.
    pub(super) fn is_certain(&self) -> bool {
        let is_after =
            |one: &StoredValue| self.removed_ns.is_none_or(|at_ns| is_before(at_ns, one.issued_ns));
        !self.is_doubtful && self.fields.values().all(is_after)
    }

    fn put(&mut self, command: &StoreCommand, issued_ns: u64) {
        for (field, value) in &command.values {
            let older = self.fields.remove(field).and_then(|old| {
                if is_before(old.completed_ns, issued_ns) { Some(old.value) } else { old.older }
            });
            let value = value.clone();
            let stored = StoredValue { value, issued_ns, completed_ns: u64::MAX, older };
            self.fields.insert(*field, stored);
        }
    }

    fn remove(&mut self, issued_ns: u64) {
        if self.fields.is_empty() {
            return;
        }
        let fields = std::mem::take(&mut self.fields);
        let ended_before = fields.values().all(|one| is_before(one.completed_ns, issued_ns));
        let values = fields.into_iter().map(|(field, one)| (field, one.value));
        self.removed = if ended_before { values.collect() } else { BTreeMap::new() };
    }
}

fn is_before(completed_ns: u64, issued_ns: u64) -> bool {
    completed_ns.saturating_add(APART_NS) < issued_ns
}

/// All records, by key.
#[derive(Debug, Default)]
pub(super) struct StoredRecords(BTreeMap<Vec<u8>, StoredRecord>);

impl StoredRecords {
    pub(super) fn get(&self, key: &[u8]) -> Option<&StoredRecord> {
        self.0.get(key)
    }

    /// Writes the command's fields, or removes its record if it exists.
    pub(super) fn apply(&mut self, kind: Kind, command: &StoreCommand, issued_ns: u64) {
        if kind != Kind::Delete && !command.values.is_empty() {
            self.0.entry(command.key.clone()).or_default().put(command, issued_ns);
        } else if kind == Kind::Delete
            && let Some(record) = self.0.get_mut(&command.key)
        {
            record.remove(issued_ns);
        }
    }

    /// Marks all writes of a record as acknowledged.
    pub(super) fn acknowledge(&mut self, key: &[u8], removes: bool, at_ns: u64) {
        let record = self.0.entry(key.into()).or_default();
        if removes {
            record.removed_ns = Some(at_ns);
        }
        for one in record.fields.values_mut() {
            one.completed_ns = one.completed_ns.min(at_ns);
        }
    }

    /// Marks a record with a write of unknown outcome.
    pub(super) fn doubt(&mut self, key: &[u8]) {
        self.0.entry(key.into()).or_default().is_doubtful = true;
    }

    /// The keys from this one on, in order.
    pub(super) fn from(&self, key: &[u8]) -> impl Iterator<Item = &[u8]> {
        let range = (Bound::Included(key), Bound::Unbounded);
        self.0.range::<[u8], _>(range).map(|(key, _)| &key[..])
    }

    /// All keys, from the one at a share of them on, and then those before.
    pub(super) fn all_from(&self, share: f64) -> impl Iterator<Item = &[u8]> {
        let first = (self.0.len() as f64 * share) as usize;
        let keys = || self.0.keys().map(|key| &key[..]);
        keys().skip(first).chain(keys().take(first))
    }
}
