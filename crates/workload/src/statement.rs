//! The arguments of a statement, drawn.

use kvmark_plan::{Argument, Check, Each, Generator, Statement, ValueType};

use crate::arguments::{ArgumentAt, ArgumentBuffer, Earlier, Element, starts};
use crate::cassandra_stress::{Table, Turns};
use crate::checks::Checks;
use crate::error::WorkloadError;
use crate::generator::Maker;
use crate::made::Made;
use crate::random::{Random, Seed};
use crate::records::Records;
use crate::size::Sizes;

/// A [`Statement`], ready to draw its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    commands: Sizes,
    items: Sizes,
    /// cassandra-stress's table, if its rows are what is written or read.
    table: Option<Box<(Table, Turns)>>,
    /// Sizes of commands and items.
    shape: Seed,
    /// By [`Each`], in the statement's order.
    makers: [Vec<Maker>; 3],
    /// Those of them that are made of others.
    made: [Vec<Option<Made>>; 3],
    /// Whether values of the record's fields are made.
    makes_fields: bool,
    /// Whether all commands are about one record.
    one_record: bool,
    /// Whether it has arguments of commands alone, none of which is made of others, and each
    /// command a record of its own.
    is_each: bool,
    checks: Checks,
    when_full: Option<u32>,
    /// What replies must hold: how often it is drawn, and its place there.
    expects: Vec<ArgumentAt>,
    /// Fields of the record that its commands write or are told, and how often each is drawn.
    written: Vec<(Each, u32)>,
    /// Fields of the record that replies hold, each behind its place among a reply's values.
    expected: Vec<(u32, u32)>,
    /// Most commands and items, for positions in the stream.
    most: [u64; 2],
}

impl Template {
    /// The statement of this index in the plan; `seed` is the group's and phase's.
    pub(crate) fn new(
        statement: &Statement,
        index: usize,
        popularity: Seed,
        seed: impl Fn(u64) -> Seed,
    ) -> Result<Self, WorkloadError> {
        let place = |name: &str| format!("statements[{index}].{name}");
        let mut makers: [Vec<Maker>; 3] = Default::default();
        let mut made: [Vec<Option<Made>>; 3] = Default::default();
        let mut slots = Vec::new();
        for (number, argument) in statement.arguments.iter().enumerate() {
            let here = place(&format!("arguments[{number}]"));
            let drawn = &mut makers[argument.each as usize];
            slots.push((argument.each, drawn.len()));
            let seeds = (seed(number as u64 + 1), seed(u64::MAX));
            let one = Made::new(&argument.generator, &slots, seeds, &here)?;
            made[argument.each as usize].push(one);
            let (seed, _) = seeds;
            let maker = Maker::new(&argument.generator, seed, popularity, &here)?;
            drawn.push(if is_used(statement, number) { maker } else { maker.awaiting() });
        }
        let commands = Sizes::new(&statement.commands, &place("commands"))?;
        let items = Sizes::new(&statement.items, &place("items"))?;
        let expects = statement.expects.iter().map(|index| slots[*index as usize]).collect();
        let most = [commands.largest().max(1), items.largest().max(1)];
        let written = |argument: &Argument| Some((argument.each, field_of(argument)?));
        let written = statement.arguments.iter().filter_map(written).collect();
        let expected = |(place, index): (u32, &u32)| {
            Some((place, field_of(&statement.arguments[*index as usize])?))
        };
        let expected = (0..).zip(&statement.expects).filter_map(expected).collect();
        let table = |rows| Ok(Box::new((Table::new(rows, &place("rows"))?, Turns::new(rows))));
        let table = statement.rows.as_ref().map(table).transpose()?;
        let of_command = |number: usize| number == Each::Command as usize;
        let is_each = statement.record == Each::Command
            && (0..makers.len()).all(|number| of_command(number) || makers[number].is_empty())
            && made.iter().flatten().all(Option::is_none);
        Ok(Self {
            commands,
            items,
            table,
            is_each,
            shape: seed(0),
            makes_fields: makers.iter().flatten().any(Maker::makes_field),
            makers,
            made,
            one_record: statement.record == Each::Operation,
            checks: Checks::new(statement, &slots),
            when_full: statement.when_full,
            expects,
            written,
            expected,
            most,
        })
    }

    /// Arguments of an operation, of a command, and of an item.
    pub(crate) fn widths(&self) -> [u32; 3] {
        [0, 1, 2].map(|each: usize| self.makers[each].len() as u32)
    }

    /// Replaces what the buffer holds by the arguments of operation `number`; `ordinal` gives the
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
            let (table, turns) = &**table;
            let first = turns.first(number);
            for place in 0..turns.count(number) {
                let position = first.wrapping_add(place);
                let ordinal = ordinal(place);
                let (ttl_ms, scan_length) = (0, 0);
                let element = Element { number, place, position, ordinal, ttl_ms, scan_length };
                self.bind_rows(table, records, element, &mut shape, buffer);
            }
            return;
        }
        let commands = self.commands.draw(&mut shape).max(1);
        let needs_key = self.makes_fields && records.values_hold_keys();
        if self.is_each && !needs_key && buffer.kept.is_nothing() {
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
            let ArgumentBuffer { ttl_ms, scan_length, .. } = *buffer;
            let place = command;
            let element = Element { number, place, position, ordinal, ttl_ms, scan_length };
            if command == 0 {
                let first = Element { position: number, ..element };
                self.make(Each::Operation, records, first, buffer);
            }
            let first = buffer.places.len() as u32;
            self.make(Each::Command, records, element, buffer);
            let items = self.items.draw(&mut shape);
            buffer.commands.push((first, items as u32));
            if self.makers[Each::Item as usize].is_empty() {
                continue;
            }
            for item in 0..items {
                let place = command * self.most[1] + item;
                let position = position.wrapping_mul(self.most[1]).wrapping_add(item);
                self.make(Each::Item, records, Element { place, position, ..element }, buffer);
            }
        }
    }

    /// Draws an argument for all commands before the next one: what it is is looked at once.
    fn bind_each(
        &self,
        records: &Records,
        number: u64,
        commands: u64,
        ordinal: impl FnMut(u64) -> u64,
        shape: &mut Random,
        buffer: &mut ArgumentBuffer,
    ) {
        let makers = &self.makers[Each::Command as usize];
        let width = makers.len();
        buffer.ordinals.extend((0..commands).map(ordinal));
        buffer.commands.extend((0..commands).map(|command| {
            let items = self.items.draw(shape);
            ((command * width as u64) as u32, items as u32)
        }));
        let position = number.wrapping_mul(self.most[0]);
        let ArgumentBuffer { ttl_ms, scan_length, .. } = *buffer;
        let first = Element { number, place: 0, position, ordinal: 0, ttl_ms, scan_length };
        let ArgumentBuffer { bytes, places, ordinals, .. } = buffer;
        places.resize(ordinals.len() * width, (ValueType::Text, 0..0));
        for (slot, maker) in makers.iter().enumerate() {
            let places = places[slot..].iter_mut().step_by(width);
            maker.append_each(records, first, ordinals, bytes, places);
        }
    }

    /// Adds a command for each row of a partition that is visited.
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
        let ArgumentBuffer { bytes, places, commands, ordinals, key, partition, kept, .. } = buffer;
        table.open(element.ordinal, shape, partition);
        let partition = &*partition;
        let mut apart = shape.clone();
        table.visit(partition, shape, |row| {
            ordinals.push(element.ordinal);
            commands.push((places.len() as u32, 1));
            for maker in &self.makers[Each::Command as usize] {
                let start = bytes.len();
                let kind = match maker.column() {
                    Some(column) => {
                        let row = row.unwrap_or_else(|| apart.below(partition.rows()));
                        table.append(partition, row, column, bytes)
                    }
                    None => maker.append(records, element, key, kept, bytes),
                };
                places.push((kind, start..bytes.len()));
            }
        });
    }

    fn make(&self, each: Each, records: &Records, element: Element, buffer: &mut ArgumentBuffer) {
        let ArgumentBuffer { bytes, places, commands, key, kept, .. } = buffer;
        let here = places.len();
        for (maker, made) in self.makers[each as usize].iter().zip(&self.made[each as usize]) {
            let start = bytes.len();
            let kind = match made {
                Some(made) => {
                    let starts = starts(each, here, commands);
                    made.append(element, Earlier { places, starts }, bytes)
                }
                None => maker.append(records, element, key, kept, bytes),
            };
            places.push((kind, start..bytes.len()));
        }
    }

    /// Records that operations before this one chose, where each has a number of its own.
    pub(crate) fn first(&self, number: u64) -> u64 {
        self.table.as_ref().map_or(number, |table| table.1.first(number))
    }

    /// Fields of the record among the arguments of a command of so many items, each with the place
    /// from which its value is made. Of the items the last one's is what remains.
    pub(crate) fn written(
        &self,
        command: u32,
        items: u32,
    ) -> impl ExactSizeIterator<Item = (u32, u64)> {
        let command = u64::from(command);
        let last = command * self.most[1] + u64::from(items.saturating_sub(1));
        self.written.iter().map(move |(each, field)| match each {
            Each::Operation => (*field, 0),
            Each::Command => (*field, command),
            Each::Item => (*field, last),
        })
    }

    /// Fields of the record in the reply to a command, each behind its place among the values.
    pub(crate) fn expected(&self) -> &[(u32, u32)] {
        &self.expected
    }

    /// The statement that stands in for this one when the dataset is full.
    pub(crate) const fn when_full(&self) -> Option<u32> {
        self.when_full
    }

    /// Whether the rows of a reply are as they must be; each value comes with its row and column.
    pub(crate) fn checks<'a>(
        &self,
        buffer: &ArgumentBuffer,
        rows: u64,
        cells: impl Iterator<Item = (u32, u32, &'a [u8])> + Clone,
    ) -> bool {
        self.checks.hold(buffer, rows, cells)
    }

    /// Whether the values returned are those that must be there: for each command, and for each of
    /// its items if one of them is drawn per item, the expected arguments in order.
    pub(crate) fn holds<'a>(
        &self,
        records: &Records,
        buffer: &ArgumentBuffer,
        mut found: impl Iterator<Item = &'a [u8]>,
    ) -> bool {
        let [_, own, each_item] = self.widths().map(|width| width as usize);
        let per_item = self.expects.iter().any(|(each, _)| *each == Each::Item);
        if self.expects.is_empty() {
            return true;
        }
        let mut key = Vec::new();
        for ((first, items), ordinal) in buffer.commands.iter().zip(&buffer.ordinals) {
            records.key_into(*ordinal, &mut key);
            let rounds = if per_item { *items as usize } else { 1 };
            for round in 0..rounds {
                for (each, slot) in &self.expects {
                    let Some(found) = found.next() else { return false };
                    let first = *first as usize;
                    let starts = [0, first, first + own + round * each_item];
                    let (kind, range) = &buffer.places[starts[*each as usize] + slot];
                    let bound = &buffer.bytes[range.clone()];
                    let same = match &self.made[*each as usize][*slot] {
                        Some(made) => {
                            let earlier = Earlier { places: &buffer.places, starts };
                            made.matches(earlier, bound, &buffer.bytes, found)
                        }
                        None => {
                            let maker = &self.makers[*each as usize][*slot];
                            maker.matches(records, &key, *kind, bound, found)
                        }
                    };
                    if !same {
                        return false;
                    }
                }
            }
        }
        found.next().is_none()
    }
}

/// Whether the value of an argument is looked at before a reply comes, or is what a check compares
/// with. A name in braces that are doubled counts too, which does no harm.
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
