//! Draws the arguments of a statement.

use kvmark_plan::{
    Argument, Check, Each, Generator, OutOfRange, Plan, Random, Seed, Statement, ValueType,
};

use crate::arguments::{ArgumentAt, ArgumentBuffer, EarlierArguments, Element, starts};
use crate::checks;
use crate::generator::ArgumentGenerator;
use crate::records::Records;
use crate::size::Sizes;
use kvmark_stress_rows::{PartitionCounts, Table};

/// A [`Statement`], ready to draw its arguments.
#[derive(Clone, Debug)]
pub struct StatementTemplate {
    commands: Sizes,
    items: Sizes,
    /// cassandra-stress's table, if the statement writes or reads its rows.
    table: Option<Box<(Table, PartitionCounts)>>,
    /// Seed of the numbers of commands and items.
    shape: Seed,
    /// By [`Each`], in the statement's order.
    generators: [Vec<ArgumentGenerator>; 3],
    /// Whether values of the record's fields are generated.
    makes_fields: bool,
    /// Whether all commands concern one record.
    one_record: bool,
    /// Whether all arguments are drawn per command, none refers to others, and each command has its
    /// own record.
    is_each: bool,
    checks: Vec<Check>,
    /// The arguments in the statement's order.
    slots: Vec<ArgumentAt>,
    /// The replacement of this statement for a full dataset.
    pub(crate) when_full: Option<u32>,
    /// The arguments that replies must contain.
    expects: Vec<ArgumentAt>,
    /// Fields of the record among the arguments, with their scopes.
    written: Vec<(Each, u32)>,
    /// Fields of the record in replies, each after its index among the reply's values.
    expected: Vec<(u32, u32)>,
    /// Largest number of commands and items, for positions in the stream.
    most: [u64; 2],
}

impl StatementTemplate {
    /// The statement of this index in the plan; `seed` is the group's and phase's.
    pub(crate) fn new(
        plan: &Plan,
        index: u32,
        popularity: Seed,
        seed: impl Fn(u64) -> Seed,
    ) -> Result<Self, OutOfRange> {
        let statement = &plan.statements[index as usize];
        let place = |name: &str| format!("statements[{index}].{name}");
        let mut generators: [Vec<ArgumentGenerator>; 3] = Default::default();
        let mut slots = Vec::new();
        for (number, argument) in statement.arguments.iter().enumerate() {
            let here = place(&format!("arguments[{number}]"));
            let drawn = &mut generators[argument.each as usize];
            slots.push((argument.each, drawn.len()));
            let seeds = (seed(number as u64 + 1), seed(u64::MAX));
            let one =
                ArgumentGenerator::new(&argument.generator, &slots, seeds, popularity, &here)?;
            drawn.push(if is_used(statement, number) { one } else { one.for_replies_only() });
        }
        let expects = statement.expects.iter().map(|index| slots[*index as usize]).collect();
        let most = [&statement.commands, &statement.items].map(|law| law.largest().max(1));
        let written = |argument: &Argument| Some((argument.each, field_of(argument)?));
        let written = statement.arguments.iter().filter_map(written).collect();
        let expected = |(place, index): (u32, &u32)| {
            Some((place, field_of(&statement.arguments[*index as usize])?))
        };
        let expected = (0..).zip(&statement.expects).filter_map(expected).collect();
        let table =
            |rows| Ok(Box::new((Table::new(rows, &place("rows"))?, PartitionCounts::new(rows))));
        let table = statement.rows.as_ref().map(table).transpose()?;
        let of_command = |number: usize| number == Each::Command as usize;
        let is_each = statement.record == Each::Command
            && (0..generators.len())
                .all(|number| of_command(number) || generators[number].is_empty())
            && !generators.iter().flatten().any(ArgumentGenerator::refers_to_others);
        Ok(Self {
            commands: Sizes::new(&statement.commands, &place("commands"))?,
            items: Sizes::new(&statement.items, &place("items"))?,
            table,
            is_each,
            shape: seed(0),
            makes_fields: generators.iter().flatten().any(ArgumentGenerator::makes_field),
            generators,
            one_record: statement.record == Each::Operation,
            checks: statement.checks.clone(),
            slots,
            when_full: statement.when_full,
            expects,
            written,
            expected,
            most,
        })
    }

    /// Arguments of an operation, of a command, and of an item.
    pub(crate) fn widths(&self) -> [u32; 3] {
        [0, 1, 2].map(|each: usize| self.generators[each].len() as u32)
    }

    /// Replaces the buffer's content by the arguments of operation `number`. `ordinal` returns the
    /// record of each command.
    pub(crate) fn bind(
        &self,
        records: &Records,
        number: u64,
        mut ordinal: impl FnMut(u64) -> u64,
        buffer: &mut ArgumentBuffer,
    ) {
        buffer.clear();
        let mut shape = self.shape.random(number);
        if let Some(table) = &self.table {
            let (table, counts) = &**table;
            let first = counts.first(number);
            for place in 0..counts.count(number) {
                let position = first.wrapping_add(place);
                let ordinal = ordinal(place);
                let element = Element { number, place, position, ordinal };
                self.bind_rows(table, records, element, &mut shape, buffer);
            }
            return;
        }
        let commands = self.commands.draw(&mut shape).max(1);
        let needs_key = self.makes_fields && records.values_hold_keys();
        if self.is_each && !needs_key && buffer.taped.is_empty() {
            return self.bind_each(records, number, commands, ordinal, &mut shape, buffer);
        }
        let mut own = None;
        for command in 0..commands {
            let ordinal = match own {
                Some(own) if self.one_record => own,
                _ => *own.insert(ordinal(command)),
            };
            if needs_key {
                records.key_into(ordinal, &mut buffer.key);
            }
            buffer.ordinals.push(ordinal);
            let position = number.wrapping_mul(self.most[0]).wrapping_add(command);
            let element = Element { number, place: command, position, ordinal };
            if command == 0 {
                let first = Element { position: number, ..element };
                self.make(Each::Operation, records, first, buffer);
            }
            let first = buffer.places.len() as u32;
            self.make(Each::Command, records, element, buffer);
            let items = self.items.draw(&mut shape);
            buffer.commands.push((first, items as u32));
            if self.generators[Each::Item as usize].is_empty() {
                continue;
            }
            for item in 0..items {
                let place = command * self.most[1] + item;
                let position = position.wrapping_mul(self.most[1]).wrapping_add(item);
                self.make(Each::Item, records, Element { place, position, ..element }, buffer);
            }
        }
    }

    /// Draws each argument for all commands at once, so that its recipe is matched only once.
    fn bind_each(
        &self,
        records: &Records,
        number: u64,
        commands: u64,
        ordinal: impl FnMut(u64) -> u64,
        shape: &mut Random,
        buffer: &mut ArgumentBuffer,
    ) {
        let generators = &self.generators[Each::Command as usize];
        let width = generators.len();
        buffer.ordinals.extend((0..commands).map(ordinal));
        buffer.commands.extend((0..commands).map(|command| {
            let items = self.items.draw(shape);
            ((command * width as u64) as u32, items as u32)
        }));
        let position = number.wrapping_mul(self.most[0]);
        let first = Element { number, place: 0, position, ordinal: 0 };
        let ArgumentBuffer { bytes, places, ordinals, taped, .. } = buffer;
        places.resize(ordinals.len() * width, (ValueType::Text, 0..0));
        for (slot, generator) in generators.iter().enumerate() {
            let places = places[slot..].iter_mut().step_by(width);
            generator.append_each(records, first, ordinals, taped, bytes, places);
        }
    }

    /// Adds a command for each visited row of a partition.
    #[inline(never)]
    fn bind_rows(
        &self,
        table: &Table,
        records: &Records,
        element: Element,
        shape: &mut Random,
        buffer: &mut ArgumentBuffer,
    ) {
        records.key_into(element.ordinal, &mut buffer.key);
        if element.place == 0 {
            self.make(Each::Operation, records, element, buffer);
        }
        let ArgumentBuffer { bytes, places, commands, ordinals, key, partition, taped, .. } =
            buffer;
        table.open(element.ordinal, shape, partition);
        let partition = &*partition;
        let mut apart = shape.clone();
        table.visit(partition, shape, |row| {
            ordinals.push(element.ordinal);
            let here = places.len();
            commands.push((here as u32, 1));
            for generator in &self.generators[Each::Command as usize] {
                let start = bytes.len();
                let kind = match generator.column() {
                    Some(column) => {
                        let row = row.unwrap_or_else(|| apart.below(partition.rows()));
                        table.append(partition, row, column, bytes)
                    }
                    None => {
                        let earlier = EarlierArguments { places, starts: [0, here, here] };
                        generator.append(records, element, earlier, key, taped, bytes)
                    }
                };
                places.push((kind, start..bytes.len()));
            }
        });
    }

    fn make(&self, each: Each, records: &Records, element: Element, buffer: &mut ArgumentBuffer) {
        let ArgumentBuffer { bytes, places, commands, key, taped, .. } = buffer;
        let starts = starts(each, places.len(), commands);
        for generator in &self.generators[each as usize] {
            let start = bytes.len();
            let earlier = EarlierArguments { places, starts };
            let kind = generator.append(records, element, earlier, key, taped, bytes);
            places.push((kind, start..bytes.len()));
        }
    }

    /// Number of records that earlier operations chose, if each has its own number.
    pub(crate) fn first(&self, number: u64) -> u64 {
        self.table.as_ref().map_or(number, |table| table.1.first(number))
    }

    /// Fields of the record among a command's arguments, each with the place that generates its
    /// value. The last item's value remains.
    #[must_use]
    pub fn written(&self, command: u32, items: u32) -> impl ExactSizeIterator<Item = (u32, u64)> {
        let command = u64::from(command);
        let last = command * self.most[1] + u64::from(items.saturating_sub(1));
        self.written.iter().map(move |(each, field)| match each {
            Each::Operation => (*field, 0),
            Each::Command => (*field, command),
            Each::Item => (*field, last),
        })
    }

    /// Fields of the record in the reply to a command, each after its index among the values.
    #[must_use]
    pub fn expected(&self) -> &[(u32, u32)] {
        &self.expected
    }

    /// Whether the rows of a reply pass the checks. `cells` are its values with row and column.
    pub fn checks<'a>(
        &self,
        buffer: &ArgumentBuffer,
        rows: u64,
        cells: impl Iterator<Item = (u32, u32, &'a [u8])> + Clone,
    ) -> bool {
        let holds = |one: &Check| checks::holds(one, &self.slots, buffer, rows, cells.clone());
        self.checks.iter().all(holds)
    }

    /// Whether the returned values are the expected arguments in order, for each command, and for
    /// each of its items if an expected argument is drawn per item. `cells` are the values with row
    /// and column; a column without a value is null, which equals no argument.
    pub fn holds<'a>(
        &self,
        records: &Records,
        buffer: &ArgumentBuffer,
        mut cells: impl Iterator<Item = (u32, u32, &'a [u8])>,
    ) -> bool {
        let [_, own, each_item] = self.widths().map(|width| width as usize);
        let per_item = self.expects.iter().any(|(each, _)| *each == Each::Item);
        if self.expects.is_empty() {
            return true;
        }
        let (mut key, mut next) = (Vec::new(), (0, 0));
        for ((first, items), ordinal) in buffer.commands.iter().zip(&buffer.ordinals) {
            records.key_into(*ordinal, &mut key);
            let rounds = if per_item { *items as usize } else { 1 };
            for round in 0..rounds {
                for (each, slot) in &self.expects {
                    let Some((row, column, found)) = cells.next() else { return false };
                    if column != if row == next.0 { next.1 } else { 0 } {
                        return false;
                    }
                    next = (row, column + 1);
                    let first = *first as usize;
                    let starts = [0, first, first + own + round * each_item];
                    let drawn = EarlierArguments { places: &buffer.places, starts };
                    let generator = &self.generators[*each as usize][*slot];
                    let at = (drawn, (*each, *slot));
                    if !generator.matches(records, &key, at, &buffer.bytes, found) {
                        return false;
                    }
                }
            }
        }
        cells.next().is_none()
    }
}

/// Whether an argument is sent, or used by a check. A name in doubled braces counts, too, which
/// does no harm.
fn is_used(statement: &Statement, index: usize) -> bool {
    let place = format!("{{{}}}", statement.arguments[index].name);
    let is_it = |other: u32| other as usize == index;
    let refers = |argument: &Argument| match &argument.generator {
        Generator::Format { parts } => parts.iter().filter_map(|part| part.argument).any(is_it),
        Generator::Checked { prefix, .. } => is_it(*prefix),
        _ => false,
    };
    let compares = |check: &Check| match check {
        Check::Each { argument, .. } | Check::Sum { argument, .. } => is_it(*argument),
        Check::Rows { .. } | Check::Same { .. } => false,
    };
    statement.texts.iter().any(|text| text.contains(&place))
        || statement.arguments.iter().any(refers)
        || statement.checks.iter().any(compares)
}

fn field_of(argument: &Argument) -> Option<u32> {
    if let Generator::Field { field } = argument.generator { Some(field) } else { None }
}
