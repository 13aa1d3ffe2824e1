//! The operations of one group in one phase.

use kvmark_plan::{Dataset, FieldChoice, Group, Kind, PhaseName, Plan, ValueKind};

use crate::distribution::KeyChooser;
use crate::error::WorkloadError;
use crate::inserts::InsertSequence;
use crate::integrity;
use crate::key::KeyWriter;
use crate::mix::Mix;
use crate::random::Seed;
use crate::size::Sizes;
use crate::value::{ValueBuffer, append_noise};

/// One operation, before its key and values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Draw {
    /// What to do.
    pub kind: Kind,
    /// The record, or the first of a scan. Unused for an insert, which takes its ordinal from the
    /// [`InsertSequence`].
    pub ordinal: u64,
    /// Records of a scan; 0 for other kinds.
    pub scan_length: u64,
    /// The field, where only one is read or written.
    pub field: u32,
    /// The operation's number, from which its values are made.
    pub version: u64,
}

/// Words that keep sources of chance with one seed apart.
mod source {
    pub(super) const RANK: u64 = 0;
    pub(super) const SCAN_LENGTH: u64 = 1;
    pub(super) const FIELD: u64 = 2;
    pub(super) const POPULARITY: u64 = 3;
}

/// The operations of one group in one phase, by number.
#[derive(Clone, Debug)]
pub struct Stream {
    kinds: Seed,
    ranks: Seed,
    scan_lengths: Seed,
    fields: Seed,
    values: Seed,
    mix: Mix,
    keys: KeyChooser,
    scan_length: Sizes,
    /// By kind, whether one field is read or written.
    one_field: [bool; Kind::ALL.len()],
    write_fields: FieldChoice,
    needs_frontier: bool,
    key_writer: KeyWriter,
    field_names: Vec<String>,
    field_length: Sizes,
    value_kind: ValueKind,
}

impl Stream {
    /// The stream of a group in a phase, both by index. Streams of different phases or groups are
    /// independent, but agree on which keys are popular.
    ///
    /// # Errors
    /// [`WorkloadError`] when the plan has no such group or a law's parameter can't be used.
    pub fn new(plan: &Plan, phase: usize, group: usize) -> Result<Self, WorkloadError> {
        let groups = plan.groups.len();
        let settings = plan.groups.get(group).ok_or(WorkloadError::NoGroup { group, groups })?;
        let place = |name: &str| format!("groups[{group}].{name}");
        let Dataset { key, fields, values, .. } = &plan.dataset;
        let mix = Mix::new(&settings.mix).ok_or(WorkloadError::EmptyMix { group })?;
        let popularity = Seed::derive(plan.seeds.keys, &[source::POPULARITY]);
        let keys = KeyChooser::new(&settings.keys, popularity, &place("keys"))?;
        let field_length = Sizes::new(&fields.length, "dataset.fields.length")?;
        if *values == ValueKind::Integrity && field_length.constant().is_none() {
            return Err(WorkloadError::VaryingIntegrity);
        }
        let here = [phase as u64, group as u64];
        let of_keys = |source| Seed::derive(plan.seeds.keys, &[here[0], here[1], source]);
        Ok(Self {
            kinds: Seed::derive(plan.seeds.mix, &here),
            ranks: of_keys(source::RANK),
            scan_lengths: of_keys(source::SCAN_LENGTH),
            fields: of_keys(source::FIELD),
            values: Seed::derive(plan.seeds.values, &here),
            scan_length: Sizes::new(&settings.scan_length, &place("scan_length"))?,
            one_field: uses_one_field(settings),
            write_fields: settings.write_fields,
            needs_frontier: depends_on_inserts(plan, phase, &mix, &keys),
            mix,
            keys,
            key_writer: KeyWriter::new(key),
            field_names: (0..fields.count).map(|n| format!("{}{n}", fields.name_prefix)).collect(),
            field_length,
            value_kind: *values,
        })
    }

    /// Draws operation `number` at the frontier of this instant.
    #[inline]
    #[must_use]
    pub fn draw(&self, number: u64, inserts: &InsertSequence) -> Draw {
        // Where nothing depends on it, it isn't even looked at: other threads move it.
        let frontier = if self.needs_frontier { inserts.frontier() } else { 0 };
        self.draw_at(number, frontier, inserts)
    }

    /// Draws operation `number` as it was when the frontier was there: the same seeds, number and
    /// frontier, and the same failed inserts below it, always give the same draw.
    #[inline]
    #[must_use]
    pub fn draw_at(&self, number: u64, frontier: u64, inserts: &InsertSequence) -> Draw {
        let kind = match self.mix.only() {
            Some(kind) => kind,
            None => self.mix.kind(self.kinds.at(number)),
        };
        let ordinal = if kind == Kind::Insert {
            0
        } else {
            let is_available = |ordinal| inserts.was_available(ordinal, frontier);
            self.keys.choose(number, &mut self.ranks.random(number), frontier, is_available)
        };
        let scan_length = if kind == Kind::Scan {
            self.scan_length.draw(&mut self.scan_lengths.random(number))
        } else {
            0
        };
        let field = if self.one_field[kind as usize] {
            // Below the number of fields, which is 32 bits.
            self.fields.random(number).below(self.field_names.len() as u64) as u32
        } else {
            0
        };
        Draw { kind, ordinal, scan_length, field, version: number }
    }

    /// Whether draws depend on how far inserts have ended.
    #[must_use]
    pub const fn needs_frontier(&self) -> bool {
        self.needs_frontier
    }

    /// Replaces `key` by the key of an ordinal. Allocates only while `key` grows.
    #[inline]
    pub fn key_into(&self, ordinal: u64, key: &mut Vec<u8>) {
        self.key_writer.write(ordinal, key);
    }

    /// Replaces `values` by those of all fields, for an insert. They are the number's, not the
    /// ordinal's, which an insert gets by chance.
    pub fn insert_values_into(&self, number: u64, key: &[u8], values: &mut ValueBuffer) {
        values.clear();
        for field in 0..self.field_names.len() as u32 {
            self.push_value(number, field, key, values);
        }
    }

    /// Replaces `values` by those of the fields that an update writes.
    #[inline]
    pub fn update_values_into(&self, draw: &Draw, key: &[u8], values: &mut ValueBuffer) {
        match self.write_fields {
            FieldChoice::All | FieldChoice::AllByName => {
                self.insert_values_into(draw.version, key, values);
            }
            FieldChoice::One => {
                values.clear();
                self.push_value(draw.version, draw.field, key, values);
            }
        }
    }

    fn push_value(&self, number: u64, field: u32, key: &[u8], values: &mut ValueBuffer) {
        let mut random = self.values.random_of_part(number, field.into());
        let length = self.field_length.draw(&mut random) as usize;
        values.push(field, |bytes| match self.value_kind {
            ValueKind::Random => append_noise(&mut random, length, bytes),
            ValueKind::Integrity => {
                integrity::append(key, self.field_names[field as usize].as_bytes(), length, bytes);
            }
        });
    }

    /// Whether a value read is the one that must be there: the integrity text of key and field.
    /// Noise can't be told from its key, so it always passes.
    #[must_use]
    pub fn expected(&self, key: &[u8], field: u32, found: &[u8]) -> bool {
        if self.value_kind == ValueKind::Random {
            return true;
        }
        let name = self.field_names.get(field as usize);
        self.field_length.constant() == Some(found.len() as u64)
            && name.is_some_and(|name| integrity::matches(key, name.as_bytes(), found))
    }
}

fn uses_one_field(group: &Group) -> [bool; Kind::ALL.len()] {
    let reads = group.read_fields == FieldChoice::One;
    let writes = group.write_fields == FieldChoice::One;
    Kind::ALL.map(|kind| match kind {
        Kind::Read | Kind::Scan => reads,
        Kind::Update => writes,
        Kind::ReadModifyWrite => reads || writes,
        Kind::Insert | Kind::Delete => false,
    })
}

/// Whether a key can be drawn whose record this run may not have inserted yet.
fn depends_on_inserts(plan: &Plan, phase: usize, mix: &Mix, keys: &KeyChooser) -> bool {
    let loading = plan.phases.get(phase).is_some_and(|phase| phase.name == PhaseName::Load);
    let loaded = if loading { 0 } else { plan.dataset.count };
    let reaches_inserts = keys.end() > plan.dataset.start.saturating_add(loaded);
    let draws_keys = mix.kinds().any(|kind| kind != Kind::Insert);
    draws_keys && (keys.follows_frontier() || reaches_inserts)
}
