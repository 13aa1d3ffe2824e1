//! The operations of one group in one phase.

use kvmark_plan::{Arrival, FieldChoice, Group, Kind, PhaseName, Plan, Statement, TAG_LENGTH};

use crate::arguments::ArgumentBuffer;
use crate::distribution::KeyChooser;
use crate::error::WorkloadError;
use crate::inserts::InsertSequence;
use crate::mix::{Choice, Mix};
use crate::random::Seed;
use crate::records::{Owner, Records};
use crate::size::Sizes;
use crate::statement::Template;
use crate::value::ValueBuffer;

/// One operation, before its key and values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Draw {
    /// What it does to the records.
    pub kind: Kind,
    /// The statement that does it, by index in the plan; none for the driver's own way.
    pub statement: Option<u32>,
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
    /// By index in the plan; those that the mix doesn't name are left out.
    templates: Vec<Option<Template>>,
    /// The statement by which a record is looked for, and its index.
    probe: Option<(u32, Template)>,
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
        let templates = templates(plan, &mix, popularity, of_keys)?;
        let probe = probe(plan, popularity, of_keys)?;
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

    /// Draws operation `number` at the frontier of this instant.
    #[inline]
    #[must_use]
    pub fn draw(&self, number: u64, inserts: &InsertSequence) -> Draw {
        self.draw_at(number, self.frontier(inserts), inserts)
    }

    /// [`Self::draw`] to where it stays: a copy would have to wait until its parts are stored.
    #[inline]
    pub fn draw_into(&self, number: u64, inserts: &InsertSequence, draw: &mut Draw) {
        *draw = self.draw_at(number, self.frontier(inserts), inserts);
    }

    /// Where nothing depends on it, it isn't even looked at: other threads move it.
    #[inline(always)]
    fn frontier(&self, inserts: &InsertSequence) -> u64 {
        if self.needs_frontier { inserts.frontier() } else { 0 }
    }

    /// Draws operation `number` as it was when the frontier was there: the same seeds, number and
    /// frontier, and the same failed inserts below it, always give the same draw.
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
        let Choice { kind, statement } = choice;
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
            self.fields.random(number).below(self.records.fields().into()) as u32
        } else {
            0
        };
        Draw { kind, statement, ordinal, scan_length, field, version: number }
    }

    /// What an insert becomes when there is nothing left to insert.
    #[cold]
    fn when_full(&self, insert: Choice) -> Choice {
        let template = insert.statement.and_then(|index| self.templates[index as usize].as_ref());
        let statement = template.and_then(Template::when_full).or(insert.statement);
        Choice { kind: Kind::Update, statement }
    }

    /// The ordinal of a drawn insert that no statement does. Where others took the last ones since
    /// it was drawn, it becomes an update of a record that the law chooses.
    #[inline]
    pub fn insert_into(&self, draw: &mut Draw, inserts: &InsertSequence) {
        match inserts.take() {
            Some(ordinal) => draw.ordinal = ordinal,
            None => *draw = self.draw(draw.version, inserts),
        }
    }

    /// Whether there is a record that the law can choose, or none is needed to begin.
    #[must_use]
    pub fn can_begin(&self, inserts: &InsertSequence) -> bool {
        let inserts_itself = || self.mix.choices().any(|choice| choice.kind == Kind::Insert);
        !self.needs_frontier || inserts.frontier() > self.keys.start() || inserts_itself()
    }

    /// Whether draws depend on how far inserts have ended.
    #[must_use]
    pub const fn needs_frontier(&self) -> bool {
        self.needs_frontier
    }

    /// Replaces `key` by the key of an ordinal. Allocates only while `key` grows.
    #[inline]
    pub fn key_into(&self, ordinal: u64, key: &mut Vec<u8>) {
        self.records.key_into(ordinal, key);
    }

    /// Replaces `values` by those of all fields, for an insert. They are the number's, not the
    /// ordinal's, which an insert gets by chance.
    pub fn insert_values_into(&self, number: u64, owner: Owner<'_>, values: &mut ValueBuffer) {
        values.clear();
        for field in 0..self.records.fields() {
            self.push_value(number, field, owner, values);
        }
    }

    /// Replaces `values` by those of the fields that an update writes.
    #[inline]
    pub fn update_values_into(&self, draw: &Draw, key: &[u8], values: &mut ValueBuffer) {
        let owner = Owner { ordinal: draw.ordinal, key };
        match self.write_fields {
            FieldChoice::All | FieldChoice::AllByName => {
                self.insert_values_into(draw.version, owner, values);
            }
            FieldChoice::One => {
                values.clear();
                self.push_value(draw.version, draw.field, owner, values);
            }
        }
    }

    fn push_value(&self, number: u64, field: u32, owner: Owner<'_>, values: &mut ValueBuffer) {
        values.push(field, |bytes| self.append_value(number, 0, field, owner, bytes));
    }

    /// Appends the value of a field, as the element of this place in operation `number` writes it:
    /// 0 for the driver's own way, the command's place for a statement.
    #[inline]
    pub fn append_value(
        &self,
        number: u64,
        place: u64,
        field: u32,
        owner: Owner<'_>,
        bytes: &mut Vec<u8>,
    ) {
        self.records.append_value(number, place, field, owner, bytes);
    }

    /// The length of all values, where they have one.
    #[must_use]
    pub fn value_length(&self) -> Option<u64> {
        self.records.value_length()
    }

    /// What the values of a record begin with; none where they are made otherwise.
    #[must_use]
    #[inline]
    pub fn tag(&self, ordinal: u64) -> Option<[u8; TAG_LENGTH]> {
        self.records.tag(ordinal)
    }

    /// The length of the first field's value, as operation `number` writes it in the driver's own
    /// way and a law says it.
    #[must_use]
    pub fn first_value_length(&self, number: u64) -> u64 {
        self.records.first_value_length(number)
    }

    /// Replaces what the buffer holds by the arguments of the drawn statement, and says how many
    /// arguments an operation, a command and an item have. An insert gets the ordinals of its
    /// records here; each must end.
    ///
    /// # Panics
    /// When the draw, which isn't this stream's then, has no statement.
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

    /// Replaces what the buffer holds by what the dataset's probe needs to look for a record, and
    /// gives the probe's index and widths; none when the driver's own read does it.
    pub fn probe_into(&self, ordinal: u64, buffer: &mut ArgumentBuffer) -> Option<(u32, [u32; 3])> {
        let (index, template) = self.probe.as_ref()?;
        template.bind(&self.records, 0, |_| ordinal, buffer);
        Some((*index, template.widths()))
    }

    fn template(&self, draw: &Draw) -> Option<&Template> {
        self.templates.get(draw.statement? as usize)?.as_ref()
    }

    /// Fields of the record among the arguments of a command of the drawn statement, which has so
    /// many items; each with the place from which [`Self::append_value`] makes its value.
    ///
    /// # Panics
    /// When the draw, which isn't this stream's then, has no statement.
    pub fn written_fields(
        &self,
        draw: &Draw,
        command: u32,
        items: u32,
    ) -> impl ExactSizeIterator<Item = (u32, u64)> {
        let template = self.template(draw).expect("a drawn statement is one of the mix");
        template.written(command, items)
    }

    /// Fields of the record in the reply to the drawn statement, each behind its place among the
    /// reply's values.
    #[must_use]
    pub fn expected_fields(&self, draw: &Draw) -> &[(u32, u32)] {
        self.template(draw).map_or(&[], Template::expected)
    }

    /// Whether the values that the drawn statement returned are those that must be there.
    pub fn holds<'a>(
        &self,
        draw: &Draw,
        buffer: &ArgumentBuffer,
        found: impl Iterator<Item = &'a [u8]>,
    ) -> bool {
        self.template(draw).is_none_or(|template| template.holds(&self.records, buffer, found))
    }

    /// Whether the rows that the drawn statement returned are as they must be; each value comes
    /// with its row and column.
    pub fn checks<'a>(
        &self,
        draw: &Draw,
        buffer: &ArgumentBuffer,
        rows: u64,
        cells: impl Iterator<Item = (u32, u32, &'a [u8])> + Clone,
    ) -> bool {
        self.template(draw).is_none_or(|template| template.checks(buffer, rows, cells))
    }

    /// Whether the values read of a record, each with its field, are those that must be there: the
    /// integrity texts of key and field. Noise can't be told from its key, so it always passes.
    #[inline]
    pub fn expected<'a>(&self, key: &[u8], found: impl Iterator<Item = (u32, &'a [u8])>) -> bool {
        self.records.expected(key, found)
    }
}

/// The statements of the mix.
fn templates(
    plan: &Plan,
    mix: &Mix,
    popularity: Seed,
    of_keys: impl Fn(u64) -> Seed,
) -> Result<Vec<Option<Template>>, WorkloadError> {
    let stands_in = |one: Choice| plan.statements[one.statement? as usize].when_full;
    let named = |index: usize| {
        let index = u32::try_from(index).ok();
        mix.choices().any(|one| {
            one.statement == index || stands_in(one).is_some_and(|other| Some(other) == index)
        })
    };
    let compile = |(index, statement): (usize, &Statement)| {
        let seed = of_keys(source::STATEMENTS + index as u64);
        let seed = move |source| Seed::derive(seed.at(0), &[source]);
        let template = || Template::new(statement, index, popularity, seed);
        named(index).then(template).transpose()
    };
    plan.statements.iter().enumerate().map(compile).collect()
}

fn probe(
    plan: &Plan,
    popularity: Seed,
    of_keys: impl Fn(u64) -> Seed,
) -> Result<Option<(u32, Template)>, WorkloadError> {
    let Some(index) = plan.dataset.probe else { return Ok(None) };
    let seed = of_keys(source::STATEMENTS + u64::from(index));
    let seed = move |source| Seed::derive(seed.at(0), &[source]);
    let statement = &plan.statements[index as usize];
    Ok(Some((index, Template::new(statement, index as usize, popularity, seed)?)))
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
    let fills = plan.dataset.full_at.is_some();
    let draws_keys = mix.choices().any(|choice| choice.kind != Kind::Insert || fills);
    draws_keys && (keys.follows_frontier() || reaches_inserts)
}
