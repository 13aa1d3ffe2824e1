//! The operations of one group in one phase.

use kvmark_plan::{Arrival, FieldChoice, Group, Kind, PhaseName, Plan, Seed};

use crate::arguments::ArgumentBuffer;
use crate::distribution::KeyChooser;
use crate::error::WorkloadError;
use crate::inserts::InsertSequence;
use crate::mix::{Mix, MixEntry};
use crate::records::{RecordRef, Records};
use crate::size::Sizes;
use crate::statement::StatementTemplate;
use crate::value::ValueBuffer;

/// One operation, before its key and values are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Draw {
    /// The kind of operation.
    pub kind: Kind,
    /// The statement, by index in the plan; `None` for the driver's own way.
    pub statement: Option<u32>,
    /// The record, or the first one of a scan. Unused for an insert, which takes its ordinal from
    /// the [`InsertSequence`].
    pub ordinal: u64,
    /// Records of a scan; 0 for other kinds.
    pub scan_length: u64,
    /// The field, if only one is read or written.
    pub field: u32,
    /// The operation's number, which determines its values.
    pub version: u64,
}

/// Constants that separate sources of random numbers with one seed.
mod source {
    pub(super) const RANK: u64 = 0;
    pub(super) const SCAN_LENGTH: u64 = 1;
    pub(super) const FIELD: u64 = 2;
    pub(super) const POPULARITY: u64 = 3;
    /// One more for each statement of the plan.
    pub(super) const STATEMENTS: u64 = 4;
}

/// The operations of one group in one phase, by number.
#[derive(Clone, Debug)]
pub struct Stream {
    kinds: Seed,
    ranks: Seed,
    scan_lengths: Seed,
    fields: Seed,
    mix: Mix,
    keys: KeyChooser,
    scan_length: Sizes,
    /// By kind, whether one field is read or written.
    one_field: [bool; Kind::ALL.len()],
    write_fields: FieldChoice,
    needs_frontier: bool,
    records: Records,
    /// By index in the plan; `None` for statements that the group doesn't execute.
    templates: Vec<Option<StatementTemplate>>,
    /// The statement that probes for a record, with its index.
    probe: Option<(u32, StatementTemplate)>,
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
        let mix = Mix::new(&settings.mix).ok_or(WorkloadError::EmptyMix { group })?;
        let popularity = Seed::derive(plan.seeds.keys, &[source::POPULARITY]);
        let here = [phase as u64, group as u64];
        let of_keys = |source| Seed::derive(plan.seeds.keys, &[here[0], here[1], source]);
        let ranks = of_keys(source::RANK);
        let keys = KeyChooser::new(&settings.keys, popularity, Some(ranks), &place("keys"))?;
        let records = Records::new(&plan.dataset, Seed::derive(plan.seeds.values, &here))?;
        let compile = |index: u32| {
            let seed = of_keys(source::STATEMENTS + u64::from(index));
            let seed = move |source| Seed::derive(seed.at(0), &[source]);
            StatementTemplate::new(plan, index, popularity, seed)
        };
        let fill = settings.on_miss.and_then(|fill| fill.statement);
        let is_used = |index: &u32| {
            fill == Some(*index) || mix.choices().any(|one| may_execute(plan, one, *index))
        };
        let templates = (0..plan.statements.len() as u32)
            .map(|index| Some(index).filter(is_used).map(compile).transpose());
        let templates = templates.collect::<Result<_, _>>()?;
        let probe = |index| compile(index).map(|template| (index, template));
        let probe = plan.dataset.probe.map(probe).transpose()?;
        Ok(Self {
            kinds: Seed::derive(plan.seeds.mix, &here),
            ranks,
            scan_lengths: of_keys(source::SCAN_LENGTH),
            fields: of_keys(source::FIELD),
            scan_length: Sizes::new(&settings.scan_length, &place("scan_length"))?,
            one_field: uses_one_field(settings),
            write_fields: settings.write_fields,
            needs_frontier: !matches!(settings.arrival, Arrival::Tape { .. })
                && depends_on_inserts(plan, phase, &mix, &keys),
            mix,
            keys,
            records,
            templates,
            probe,
        })
    }

    /// Draws operation `number` at the current frontier.
    #[inline]
    #[must_use]
    pub fn draw(&self, number: u64, inserts: &InsertSequence) -> Draw {
        self.draw_at(number, self.frontier(inserts), inserts)
    }

    /// [`Self::draw`] in place, which avoids a copy through memory.
    #[inline(always)]
    pub fn draw_into(&self, number: u64, inserts: &InsertSequence, draw: &mut Draw) {
        *draw = self.draw_at(number, self.frontier(inserts), inserts);
    }

    /// Not read unless needed, because other threads move it.
    #[inline(always)]
    fn frontier(&self, inserts: &InsertSequence) -> u64 {
        if self.needs_frontier { inserts.frontier() } else { 0 }
    }

    /// Draws operation `number` at a given frontier. The same seeds, number, frontier and failed
    /// inserts below it always result in the same draw.
    #[inline(always)]
    #[must_use]
    pub fn draw_at(&self, number: u64, frontier: u64, inserts: &InsertSequence) -> Draw {
        let mut choice = *match self.mix.only() {
            Some(choice) => choice,
            None => self.mix.choice(self.kinds.at(number)),
        };
        if choice.kind == Kind::Insert && inserts.is_full() {
            choice = self.when_full(choice);
        }
        let MixEntry { kind, statement } = choice;
        let ordinal = if kind == Kind::Insert {
            0
        } else {
            let is_available = |ordinal| inserts.was_available(ordinal, frontier);
            self.keys.choose(number, &mut self.ranks.random(number), frontier, is_available)
        };
        let scan_length = if kind == Kind::Scan { self.scan_length(number) } else { 0 };
        let field = if self.one_field[kind as usize] {
            // Below the number of fields, which is 32 bits.
            self.fields.random(number).below(self.records.fields().into()) as u32
        } else {
            0
        };
        Draw { kind, statement, ordinal, scan_length, field, version: number }
    }

    /// The operation that replaces an insert when the dataset is full.
    /// Records that a scan reads. Not inlined: a scan takes long itself.
    #[inline(never)]
    fn scan_length(&self, number: u64) -> u64 {
        self.scan_length.draw(&mut self.scan_lengths.random(number))
    }

    #[cold]
    fn when_full(&self, insert: MixEntry) -> MixEntry {
        let template = insert.statement.and_then(|index| self.templates[index as usize].as_ref());
        let statement = template.and_then(|template| template.when_full).or(insert.statement);
        MixEntry { kind: Kind::Update, statement }
    }

    /// Assigns the ordinal of a drawn insert without a statement. If other clients took the last
    /// ordinals since the draw, the insert becomes an update of a record that the law chooses.
    #[inline]
    pub fn insert_into(&self, draw: &mut Draw, inserts: &InsertSequence) {
        match inserts.take() {
            Some(ordinal) => draw.ordinal = ordinal,
            None => *draw = self.draw(draw.version, inserts),
        }
    }

    /// Whether the law can choose a record, or none is needed to begin.
    #[must_use]
    pub fn can_begin(&self, inserts: &InsertSequence) -> bool {
        let inserts_itself = || self.mix.choices().any(|choice| choice.kind == Kind::Insert);
        !self.needs_frontier || inserts.frontier() > self.keys.start() || inserts_itself()
    }

    /// Whether draws depend on the frontier of inserts.
    #[must_use]
    pub const fn needs_frontier(&self) -> bool {
        self.needs_frontier
    }

    /// Keys and values of the dataset's records.
    #[must_use]
    #[inline]
    pub const fn records(&self) -> &Records {
        &self.records
    }

    /// Replaces `values` by those of all fields, for an insert. They depend on the number, not on
    /// the ordinal, which an insert gets by chance.
    pub fn insert_values_into(&self, number: u64, record: RecordRef<'_>, values: &mut ValueBuffer) {
        values.clear();
        for field in 0..self.records.fields() {
            self.push_value(number, field, record, values);
        }
    }

    /// Replaces `values` by those of the fields that an update writes.
    #[inline]
    pub fn update_values_into(&self, draw: &Draw, key: &[u8], values: &mut ValueBuffer) {
        let record = RecordRef { ordinal: draw.ordinal, key };
        match self.write_fields {
            FieldChoice::All | FieldChoice::AllByName => {
                self.insert_values_into(draw.version, record, values);
            }
            FieldChoice::One => {
                values.clear();
                self.push_value(draw.version, draw.field, record, values);
            }
        }
    }

    fn push_value(&self, number: u64, field: u32, record: RecordRef<'_>, values: &mut ValueBuffer) {
        values.push(field, |bytes| self.records.append_value(number, 0, field, record, bytes));
    }

    /// Replaces the buffer's content by the arguments of the drawn statement. Returns the number of
    /// arguments of an operation, a command and an item. Assigns the ordinals of an insert's
    /// records; each must end.
    ///
    /// # Panics If the draw has no statement, and so isn't this stream's.
    pub fn arguments_into(
        &self,
        draw: &Draw,
        inserts: &InsertSequence,
        buffer: &mut ArgumentBuffer,
    ) -> [u32; 3] {
        let template = self.template(draw).expect("a drawn statement is one of the mix");
        let frontier = if self.needs_frontier { inserts.frontier() } else { 0 };
        let available = |ordinal| inserts.was_available(ordinal, frontier);
        let first = template.first(draw.version);
        let ranks = self.ranks.within(draw.version);
        let mut inserted = std::mem::take(&mut buffer.inserted);
        inserted.clear();
        let ordinal = |command| {
            if draw.kind == Kind::Insert {
                if let Some(ordinal) = inserts.take() {
                    inserted.push(ordinal);
                    return ordinal;
                }
            } else if command == 0 && first == draw.version {
                return draw.ordinal;
            }
            let mut random = ranks.random(command);
            let number = first.wrapping_add(command);
            self.keys.choose(number, &mut random, frontier, available)
        };
        template.bind(&self.records, draw.version, ordinal, buffer);
        buffer.inserted = inserted;
        template.widths()
    }

    /// Replaces the buffer's content by the arguments of the dataset's probe for a record. Returns
    /// the probe's index and widths; `None` if the driver's own read is the probe.
    pub fn probe_into(&self, ordinal: u64, buffer: &mut ArgumentBuffer) -> Option<(u32, [u32; 3])> {
        let (index, template) = self.probe.as_ref()?;
        template.bind(&self.records, 0, |_| ordinal, buffer);
        Some((*index, template.widths()))
    }

    /// The drawn statement, if there is one.
    #[must_use]
    pub fn template(&self, draw: &Draw) -> Option<&StatementTemplate> {
        self.templates.get(draw.statement? as usize)?.as_ref()
    }
}

/// Whether an entry of a mix can execute the statement of this index.
fn may_execute(plan: &Plan, entry: MixEntry, index: u32) -> bool {
    let when_full = entry.statement.and_then(|own| plan.statements[own as usize].when_full);
    entry.statement == Some(index) || when_full == Some(index)
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

/// Whether draws can choose a record that this run may not have inserted yet.
fn depends_on_inserts(plan: &Plan, phase: usize, mix: &Mix, keys: &KeyChooser) -> bool {
    let loading = plan.phases.get(phase).is_some_and(|phase| phase.name == PhaseName::Load);
    let loaded = if loading { 0 } else { plan.dataset.count };
    let reaches_inserts = keys.end() > plan.dataset.start.saturating_add(loaded);
    let fills = plan.dataset.full_at.is_some();
    let draws_keys = mix.choices().any(|choice| choice.kind != Kind::Insert || fills);
    draws_keys && (keys.follows_frontier() || reaches_inserts)
}
