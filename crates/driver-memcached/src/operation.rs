//! The operations of clients: their commands and the interpretation of the replies.
//!
//! An operation has one subcommand per command and server. The values of a single subcommand are
//! stored in the session; an operation with several collects them itself.

use std::ops::Range;
use std::sync::Arc;

use kvmark_driver::{Call, Columns, Effect, Expected, Reply, Request, Values};
use kvmark_driver_server::framed::{InFlightOperation, Progress, RequestReply};
use kvmark_driver_server::text::Texts;
use kvmark_plan::{Kind, Outcome};

use crate::failure::{Failure, damaged, refused, unasked};
use crate::keys::{check, is_word, server};
use crate::records::Records;
use crate::statements::{CommandId, Prepared, Shape};
use kvmark_wire::memcached::{Answer, Item, Items, Next, answer};

/// The translation of operations into commands.
pub struct Dialect {
    pub(crate) records: Arc<Records>,
    pub(crate) statements: Arc<[Prepared]>,
    pub(crate) servers: usize,
    /// The record that an update writes next, and its `cas unique`.
    pub(crate) merged: Vec<u8>,
    pub(crate) unique: Vec<u8>,
}

/// A command for one server.
#[derive(Debug)]
pub(crate) struct Subcommand {
    /// Index of the server.
    pub(crate) node: usize,
    command: CommandId,
    /// The keys of the command, including those on other servers.
    keys: Range<u32>,
    /// Number of the command's first value within its round.
    field: u32,
    /// The number of records that were found or written.
    found: u32,
    /// The effect of its write.
    effect: Effect,
}

/// The operation of a client.
#[derive(Debug, Default)]
pub struct MemcachedOperation {
    pub(crate) progress: Progress,
    kind: Option<Kind>,
    columns: Columns,
    wants_values: bool,
    expected: Option<Expected>,
    /// Whether the record differs from the expected one.
    is_unlike: bool,
    /// The next step of an update that reads the record before it writes.
    step: Option<Step>,
    statement: Option<u32>,
    keys: Texts,
    pub(crate) subcommands: Vec<Subcommand>,
    /// The values of several subcommands.
    gathered: Reply,
    /// The values of an update that reads before it writes.
    bytes: Vec<u8>,
    places: Vec<(u32, Range<usize>)>,
}

/// The next step of an update that reads before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Read,
    Swap,
    Done,
}

impl MemcachedOperation {
    fn begin_statement(&mut self, call: &Call<'_>, dialect: &Dialect) -> Result<(), Failure> {
        let prepared = &dialect.statements[call.statement as usize];
        for round in 0..call.commands.len() as u32 {
            let mut field = 0;
            for text in 0..prepared.texts() {
                let id = CommandId { round, text };
                let keys = prepared.add_keys(call, id, &mut self.keys)?;
                let first = self.subcommands.len();
                for index in keys.clone() {
                    let node = server(self.keys.get(index), dialect.servers);
                    if self.subcommands[first..].iter().all(|part| part.node != node) {
                        self.subcommands.push(Subcommand::new(node, id, keys.clone(), field));
                    }
                }
                let is_get = prepared.shape(id) == Shape::Items;
                field += if is_get { keys.len() as u32 } else { 1 };
            }
        }
        if self.subcommands.len() > 1 {
            self.gathered.clear();
        }
        Ok(())
    }
}

impl RequestReply for MemcachedOperation {
    #[inline]
    fn begin(&mut self, request: &Request<'_>, dialect: &mut Dialect) -> Result<(), Failure> {
        self.keys.clear();
        self.subcommands.clear();
        let Request { kind, columns, wants_values, expected, statement, values, .. } = *request;
        (self.kind, self.columns, self.wants_values) = (Some(kind), columns, wants_values);
        (self.expected, self.is_unlike, self.step) = (expected.copied(), false, None);
        self.statement = statement.map(|call| call.statement);
        if let Some(call) = &statement {
            return self.begin_statement(call, dialect);
        }
        match kind {
            Kind::Update if !dialect.records.is_blind(values) => {
                self.bytes.clear();
                self.bytes.extend_from_slice(values.bytes);
                self.places.clear();
                self.places.extend_from_slice(values.places);
                self.step = Some(Step::Read);
            }
            Kind::Scan | Kind::ReadModifyWrite => {
                let text = "memcached has no scan, and a read-modify-write is a read and an update";
                return Err(Failure::new(Outcome::Refused, text));
            }
            Kind::Read | Kind::Insert | Kind::Delete | Kind::Update => {}
        }
        check(self.keys.add(|output| dialect.records.append_key(output, request.key)))?;
        let node = server(self.keys.get(0), dialect.servers);
        let id = CommandId { round: 0, text: 0 };
        self.subcommands.push(Subcommand::new(node, id, 0..1, 0));
        Ok(())
    }

    #[inline]
    fn requests(&self) -> usize {
        self.subcommands.len()
    }

    #[inline]
    fn node(&self, number: usize) -> usize {
        self.subcommands[number].node
    }

    #[inline]
    fn put(
        &self,
        number: usize,
        request: &Request<'_>,
        dialect: &mut Dialect,
        output: &mut Vec<u8>,
    ) {
        let Subcommand { node, command, keys, .. } = &self.subcommands[number];
        if let Some(call) = &request.statement {
            let keys = keys.clone().map(|index| self.keys.get(index));
            let own = keys.filter(|key| server(key, dialect.servers) == *node);
            return dialect.statements[call.statement as usize].put(output, call, *command, own);
        }
        let (records, key) = (&dialect.records, self.keys.get(0));
        match request.kind {
            Kind::Read => put_line(output, b"get ", key),
            Kind::Delete => put_line(output, b"delete ", key),
            Kind::Insert => records.put_write(output, b"set ", key, request.values),
            _ if self.step.is_some() => put_line(output, b"gets ", key),
            _ => records.put_write(output, b"replace ", key, request.values),
        }
    }

    #[inline]
    fn take(
        &mut self,
        number: usize,
        reply: &[u8],
        dialect: &mut Dialect,
        single: &mut Reply,
    ) -> Result<(), Failure> {
        let Self { keys, subcommands, gathered, bytes, places, wants_values, .. } = self;
        let into = if subcommands.len() > 1 {
            gathered
        } else {
            single.clear();
            single
        };
        let answer = answer(reply)?;
        let part = &mut subcommands[number];
        if let Answer::Error(line) = answer {
            let failure = refused(line);
            part.effect = Effect::of(failure.outcome);
            return Err(failure);
        }
        if let Some(statement) = self.statement {
            let shape = dialect.statements[statement as usize].shape(part.command);
            part.take(shape, answer, keys, wants_values.then_some(into))?;
            part.effect = if part.found > 0 { Effect::Applied } else { Effect::NotApplied };
        } else if let Some(step) = &mut self.step {
            let values = Values { bytes, places };
            part.found = u32::from(step.take(answer, keys, values, dialect)?);
        } else if self.kind == Some(Kind::Read) {
            let Some(item) = only(answer, keys)? else { return Ok(()) };
            part.found = 1;
            into.rows = 1;
            if *wants_values || self.expected.is_some() {
                let taken = dialect.records.take(item.block, self.columns, into);
                taken.map_err(|why| damaged(keys.get(0), why))?;
            }
            if let Some(expected) = &self.expected {
                self.is_unlike = into.compare(expected) == Outcome::Mismatch;
            }
        } else {
            part.found = match answer {
                Answer::Done => 1,
                Answer::Nothing if self.kind != Some(Kind::Insert) => 0,
                _ => return Err(Failure::unexpected_reply("a write")),
            };
        }
        Ok(())
    }

    #[inline]
    fn has_more(&self) -> bool {
        matches!(self.step, Some(Step::Read | Step::Swap))
    }

    fn put_more(&mut self, dialect: &mut Dialect, output: &mut Vec<u8>) {
        let key = self.keys.get(0);
        if self.step == Some(Step::Swap) {
            dialect.records.put_swap(output, key, &dialect.merged, &dialect.unique);
        } else {
            put_line(output, b"gets ", key);
        }
    }
}

impl InFlightOperation for MemcachedOperation {
    type Context = Dialect;

    #[inline]
    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    /// Counts the records and reports the effects of the writes.
    #[inline]
    fn finish<'a>(&'a mut self, single: &'a mut Reply) -> (Outcome, &'a Reply) {
        let reply = if self.subcommands.len() > 1 { &mut self.gathered } else { single };
        let misses = matches!(self.kind, Some(Kind::Read | Kind::Update | Kind::Delete));
        if self.statement.is_none() {
            let outcome = match (misses && self.subcommands[0].found == 0, self.is_unlike) {
                (true, _) => Outcome::Miss,
                (false, true) => Outcome::Mismatch,
                (false, false) => Outcome::Ok,
            };
            return (outcome, reply);
        }
        add_effects(&self.subcommands, &mut reply.effects);
        let is_missed = count(&self.subcommands, &mut reply.rows);
        // The replies of several servers arrive in any order.
        reply.cells.sort_unstable_by_key(|cell| (cell.row, cell.field));
        (if is_missed && misses { Outcome::Miss } else { Outcome::Ok }, reply)
    }
}

impl Step {
    /// Takes the reply to this step. Returns whether it completes the update.
    fn take(
        &mut self,
        answer: Answer<'_>,
        keys: &Texts,
        values: Values<'_>,
        dialect: &mut Dialect,
    ) -> Result<bool, Failure> {
        let (next, is_done) = match self {
            Self::Read => match only(answer, keys)? {
                Some(item) => {
                    let Dialect { records, merged, unique, .. } = dialect;
                    merged.clear();
                    let put = records.append_merged(merged, item.block, values);
                    put.map_err(|why| damaged(item.key, why))?;
                    unique.clear();
                    unique.extend_from_slice(item.unique);
                    if !is_word(unique) {
                        return Err(Failure::unexpected_reply("gets"));
                    }
                    (Self::Swap, false)
                }
                None => (Self::Done, false),
            },
            _ => match answer {
                Answer::Done => (Self::Done, true),
                Answer::Changed => (Self::Read, false),
                Answer::Nothing => (Self::Done, false),
                _ => return Err(Failure::unexpected_reply("cas")),
            },
        };
        *self = next;
        Ok(is_done)
    }
}

impl Subcommand {
    fn new(node: usize, command: CommandId, keys: Range<u32>, field: u32) -> Self {
        Self { node, command, keys, field, found: 0, effect: Effect::Unknown }
    }

    /// Takes the reply to a command of a statement.
    fn take(
        &mut self,
        shape: Shape,
        answer: Answer<'_>,
        keys: &Texts,
        reply: Option<&mut Reply>,
    ) -> Result<(), Failure> {
        let value = match (shape, answer) {
            (Shape::Items, Answer::Items(items)) => return self.take_items(items, keys, reply),
            (Shape::Number, Answer::Number(value)) | (Shape::Meta, Answer::Block(value)) => {
                Some(value)
            }
            (Shape::Word | Shape::Meta, Answer::Done) => None,
            (Shape::Word | Shape::Meta, Answer::Nothing | Answer::Changed)
            | (Shape::Number, Answer::Nothing) => return Ok(()),
            _ => return Err(Failure::unexpected_reply("a command")),
        };
        self.found = 1;
        if let (Some(value), Some(reply)) = (value, reply) {
            reply.push(self.command.round, self.field, value);
        }
        Ok(())
    }

    /// Takes the items of a get. They are in the order of the keys unless a proxy merges the
    /// replies of several servers.
    fn take_items(
        &mut self,
        mut items: Items<'_>,
        keys: &Texts,
        mut reply: Option<&mut Reply>,
    ) -> Result<(), Failure> {
        let Range { start, end } = self.keys;
        let mut expected = start;
        loop {
            let item = match items.next_item()? {
                Next::Item(item) => item,
                Next::End => return Ok(()),
                Next::Error(line) => return Err(refused(line)),
            };
            let mut indices = (expected..end).chain(start..expected);
            let index = indices.find(|index| keys.get(*index) == item.key);
            let index = index.ok_or_else(|| unasked(item.key))?;
            expected = index + 1;
            self.found += 1;
            if let Some(reply) = reply.as_deref_mut() {
                reply.push(self.command.round, self.field + (index - start), item.block);
            }
        }
    }
}

/// Encodes a command with a key.
#[inline]
fn put_line(output: &mut Vec<u8>, command: &[u8], key: &[u8]) {
    output.extend_from_slice(command);
    output.extend_from_slice(key);
    output.extend_from_slice(b"\r\n");
}

/// The item of a get with a single key.
#[inline]
fn only<'a>(answer: Answer<'a>, keys: &Texts) -> Result<Option<Item<'a>>, Failure> {
    let Answer::Items(mut items) = answer else { return Err(Failure::unexpected_reply("a get")) };
    let mut found = None;
    loop {
        match items.next_item()? {
            Next::Item(item) if found.is_none() && item.key == keys.get(0) => found = Some(item),
            Next::Item(item) => return Err(unasked(item.key)),
            Next::End => return Ok(found),
            Next::Error(line) => return Err(refused(line)),
        }
    }
}

/// Adds the effects of the writes of each round. One of several commands for a record doesn't show
/// the effects of the others.
fn add_effects(subcommands: &[Subcommand], effects: &mut Vec<(u32, Effect)>) {
    for round in subcommands.chunk_by(|one, next| one.command.round == next.command.round) {
        let id = round[0].command;
        let is_only = round.iter().all(|part| part.command.text == id.text);
        match round.iter().find(|part| part.effect != Effect::Applied) {
            Some(part) if is_only => effects.push((id.round, part.effect)),
            Some(_) => effects.push((id.round, Effect::Unknown)),
            None => {}
        }
    }
}

/// Counts the records of each round without a miss. Returns whether a command missed.
fn count(subcommands: &[Subcommand], rows: &mut u64) -> bool {
    let mut is_missed = false;
    for round in subcommands.chunk_by(|one, next| one.command.round == next.command.round) {
        let commands = round.chunk_by(|one, next| one.command.text == next.command.text);
        let found =
            commands.map(|subcommands| subcommands.iter().map(|part| part.found).sum::<u32>());
        let (least, most) =
            found.fold((u32::MAX, 0), |(least, most), found| (found.min(least), found.max(most)));
        is_missed |= least == 0;
        if least > 0 {
            *rows += u64::from(most);
        }
    }
    is_missed
}
