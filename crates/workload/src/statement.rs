//! The arguments of a statement, drawn.

use std::ops::Range;

use kvmark_plan::{Argument, Check, Each, Generator, Statement, ValueType};

use crate::cassandra_stress::{Partition, Table};
use crate::checks::Checks;
use crate::error::WorkloadError;
use crate::generator::Maker;
use crate::made::{Earlier, Made};
use crate::random::{Random, Seed};
use crate::size::Sizes;
use crate::stream::Stream;

/// The arguments of one operation. Reused from operation to operation.
#[derive(Clone, Debug, Default)]
pub struct ArgumentBuffer {
    /// Bytes of the arguments, one after the other.
    pub bytes: Vec<u8>,
    /// Type and place of each: the operation's, then of each command its own and its items'.
    pub places: Vec<(ValueType, Range<usize>)>,
    /// For each command, where its arguments begin in `places`, and how many items it has.
    pub commands: Vec<(u32, u32)>,
    /// For each command, the record it concerns.
    pub ordinals: Vec<u64>,
    /// Records that an insert adds, each once.
    pub inserted: Vec<u64>,
    /// The key of the command's record, where values are made of it.
    key: Vec<u8>,
    /// The partition of cassandra-stress's table that the command is about.
    partition: Partition,
}

impl ArgumentBuffer {
    fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.commands.clear();
        self.ordinals.clear();
    }
}

/// Where the elements of each kind begin while those of one kind are drawn, the first of them at
/// `here`.
fn starts(each: Each, here: usize, commands: &[(u32, u32)]) -> [usize; 3] {
    let command = commands.last().map_or(0, |(first, _)| *first as usize);
    match each {
        Each::Operation => [0; 3],
        Each::Command => [0, here, here],
        Each::Item => [0, command, here],
    }
}

/// Which element of a statement's operation is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    /// The operation's number.
    pub(crate) number: u64,
    /// The element's place within its operation, from 0.
    pub(crate) place: u64,
    /// Its place in the whole stream, where operations have as many elements as they can have.
    pub(crate) position: u64,
    /// The record's ordinal.
    pub(crate) ordinal: u64,
}

/// A [`Statement`], ready to draw its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    commands: Sizes,
    items: Sizes,
    /// cassandra-stress's table, if its rows are what is written or read.
    table: Option<Box<Table>>,
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
    checks: Checks,
    when_full: Option<u32>,
    /// What replies must hold: how often it is drawn, and its place there.
    expects: Vec<(Each, usize)>,
    /// Fields of the record that its commands write or are told, and that replies hold.
    written: Vec<u32>,
    expected: Vec<u32>,
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
        let written = statement.arguments.iter().filter_map(field_of).collect();
        let expected = |index: &u32| field_of(&statement.arguments[*index as usize]);
        let expected = statement.expects.iter().filter_map(expected).collect();
        let table = statement.rows.as_ref().map(|rows| Table::new(rows, &place("rows")));
        let table = table.transpose()?.map(Box::new);
        Ok(Self {
            commands,
            items,
            table,
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
        stream: &Stream,
        number: u64,
        mut ordinal: impl FnMut(u64) -> u64,
        buffer: &mut ArgumentBuffer,
    ) {
        buffer.clear();
        let mut shape = self.shape.random(number);
        let commands = self.commands.draw(&mut shape).max(1);
        if let Some(table) = &self.table {
            for command in 0..commands {
                let element = Element {
                    number,
                    place: command,
                    position: number.wrapping_mul(self.most[0]).wrapping_add(command),
                    ordinal: ordinal(command),
                };
                self.bind_rows(table, stream, element, &mut shape, buffer);
            }
            return;
        }
        let needs_key = self.makes_fields && stream.values_hold_keys();
        let mut own = None;
        for command in 0..commands {
            let ordinal = match own {
                Some(own) if self.one_record => own,
                _ => *own.insert(ordinal(command)),
            };
            if needs_key {
                stream.key_into(ordinal, &mut buffer.key);
            }
            buffer.ordinals.push(ordinal);
            let position = number.wrapping_mul(self.most[0]).wrapping_add(command);
            let element = Element { number, place: command, position, ordinal };
            if command == 0 {
                self.make(Each::Operation, stream, Element { position: number, ..element }, buffer);
            }
            let first = buffer.places.len() as u32;
            self.make(Each::Command, stream, element, buffer);
            let items = self.items.draw(&mut shape);
            buffer.commands.push((first, items as u32));
            if self.makers[Each::Item as usize].is_empty() {
                continue;
            }
            for item in 0..items {
                let place = command * self.most[1] + item;
                let position = position.wrapping_mul(self.most[1]).wrapping_add(item);
                self.make(Each::Item, stream, Element { place, position, ..element }, buffer);
            }
        }
    }

    /// Adds a command for each row of a partition that is visited.
    #[inline(never)]
    fn bind_rows(
        &self,
        table: &Table,
        stream: &Stream,
        element: Element,
        shape: &mut Random,
        buffer: &mut ArgumentBuffer,
    ) {
        stream.key_into(element.ordinal, &mut buffer.key);
        if element.place == 0 {
            self.make(Each::Operation, stream, element, buffer);
        }
        let ArgumentBuffer { bytes, places, commands, ordinals, key, partition, .. } = buffer;
        table.open(element.ordinal, partition);
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
                    None => maker.append(stream, element, key, bytes),
                };
                places.push((kind, start..bytes.len()));
            }
        });
    }

    fn make(&self, each: Each, stream: &Stream, element: Element, buffer: &mut ArgumentBuffer) {
        let ArgumentBuffer { bytes, places, commands, key, .. } = buffer;
        let here = places.len();
        for (maker, made) in self.makers[each as usize].iter().zip(&self.made[each as usize]) {
            let start = bytes.len();
            let kind = match made {
                Some(made) => {
                    let starts = starts(each, here, commands);
                    made.append(element, Earlier { places, starts }, bytes)
                }
                None => maker.append(stream, element, key, bytes),
            };
            places.push((kind, start..bytes.len()));
        }
    }

    /// Partitions of cassandra-stress's table in an operation, each with a number of its own; 1 for
    /// other tables.
    pub(crate) fn partitions(&self) -> u64 {
        if self.table.is_some() { self.most[0] } else { 1 }
    }

    /// Fields of the record among the arguments of a command.
    pub(crate) fn written(&self) -> &[u32] {
        &self.written
    }

    /// Fields of the record in the reply to a command, in order.
    pub(crate) fn expected(&self) -> &[u32] {
        &self.expected
    }

    /// Whether replies are held against arguments.
    pub(crate) fn is_checked(&self) -> bool {
        !self.expects.is_empty() || !self.checks.is_empty()
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
        stream: &Stream,
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
            stream.key_into(*ordinal, &mut key);
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
                            maker.matches(stream, &key, *kind, bound, found)
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
