//! The operations of clients: their frames and results.

use kvmark_driver::{Call, Effect, Expected, Reply, Request};
use kvmark_driver_server::framed::{InFlightOperation, Progress};
use kvmark_plan::{Kind, Outcome};

use crate::failure::Failure;
use crate::prepared::Prepared;
use crate::records;
use crate::retry::Repeats;
use crate::session::Shared;
use crate::settings::Consistency;
use crate::statement::UserStatement;
use crate::text::{Batch, Places, Terms, Text};

/// The state of a step's frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sent {
    #[default]
    Nowhere,
    /// On a connection, with a stream number.
    On { index: usize, stream: u16 },
    /// Waits until a statement is prepared on a connection.
    AfterPreparing { index: usize },
}

/// The retries of a step.
#[derive(Debug)]
pub(crate) struct Retries {
    pub(crate) repeats: Repeats,
    /// Whether it was sent more than once.
    pub(crate) is_repeated: bool,
    /// Nodes that aren't tried again.
    pub(crate) nodes: Vec<usize>,
    pub(crate) level: Consistency,
}

/// One text, or a batch of texts, of a command.
#[derive(Default)]
pub(crate) struct Step {
    /// The frame without its stream number.
    pub(crate) frame: Vec<u8>,
    pub(crate) places: Places,
    /// The text; the first one of a batch.
    pub(crate) text: u32,
    /// The text with the partition key, and the index of its values in the frame.
    keyed: Option<(u32, u32)>,
    pub(crate) sent: Sent,
    pub(crate) command: u32,
    /// Whether it is the last step of the command.
    pub(crate) is_last: bool,
    /// Whether a condition of its command wasn't met.
    pub(crate) is_missed: bool,
    /// The number of times a node prepared a statement for it.
    pub(crate) preparations: u32,
    pub(crate) retries: Option<Box<Retries>>,
}

/// The operation of a client. The next one reuses its memory.
#[derive(Default)]
pub(crate) struct CqlOperation {
    steps: Vec<Step>,
    /// The number of steps of the current operation.
    count: usize,
    is_read: bool,
    pub(crate) wants_values: bool,
    pub(crate) expected: Option<Expected>,
    /// Whether the record differs from the expected one.
    pub(crate) is_unlike: bool,
    /// Whether pages after the first are fetched.
    pub(crate) all_pages: bool,
    /// The batch of its texts, if they are sent together.
    pub(crate) batch: Option<Batch>,
    /// Whether a command counts as a row if its condition is met.
    counts_commands: bool,
    commands: u32,
    is_missed: bool,
    /// Its outstanding exchanges are the commands that haven't ended.
    progress: Progress,
    /// The replies by command; empty if one frame answers all commands.
    pub(crate) replies: Vec<Reply>,
    /// The effects of ended commands that may not be applied, by number.
    effects: Vec<(u32, Effect)>,
}

impl CqlOperation {
    /// Writes the frames of a request. `time` is the client's for a write, if it gives one.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        prepared: &Prepared,
        request: &Request<'_>,
        time: Option<i64>,
    ) -> Result<(), Failure> {
        self.count = 0;
        self.is_read = request.kind == Kind::Read;
        (self.wants_values, self.expected) = (request.wants_values, request.expected.copied());
        self.is_unlike = false;
        self.is_missed = false;
        self.replies.clear();
        self.effects.clear();
        match &request.statement {
            None => self.of_record(prepared, request, time),
            Some(call) => self.of_statement(prepared, call, time),
        }
    }

    #[inline]
    fn of_record(
        &mut self,
        prepared: &Prepared,
        request: &Request<'_>,
        time: Option<i64>,
    ) -> Result<(), Failure> {
        (self.all_pages, self.batch, self.counts_commands) = (true, None, false);
        (self.commands, self.progress.outstanding) = (1, 1);
        let number = prepared.of_record(request)?;
        let text = prepared.text(number);
        self.add(number, 0, true).write(text, time, |values| {
            records::bind(request, values);
            Ok(())
        })
    }

    fn of_statement(
        &mut self,
        prepared: &Prepared,
        call: &Call<'_>,
        time: Option<i64>,
    ) -> Result<(), Failure> {
        let statement = &prepared.statements[call.statement as usize];
        let commands = call.commands.len();
        // A single command isn't sent as a batch.
        let batch = statement.batch.filter(|_| commands * statement.parts.len() > 1);
        (self.all_pages, self.batch) = (statement.all_pages, batch);
        self.commands = commands as u32;
        self.counts_commands = !statement.selects;
        if let Some(batch) = batch {
            self.progress.outstanding = 1;
            return self.of_batch(prepared, statement, batch, call, time);
        }
        self.progress.outstanding = self.commands;
        if commands > 1 || statement.parts.len() > 1 {
            self.replies.resize_with(commands, Reply::default);
        }
        for command in 0..commands {
            for (place, part) in statement.parts.iter().enumerate() {
                let text = prepared.text(part.text);
                let step = self.add(part.text, command as u32, place + 1 == statement.parts.len());
                // A later part must have a later time.
                let time = time.map(|time| time + place as i64);
                step.write(text, time, |values| part.bind(text, call, command, values))?;
            }
        }
        Ok(())
    }

    fn of_batch(
        &mut self,
        prepared: &Prepared,
        statement: &UserStatement,
        batch: Batch,
        call: &Call<'_>,
        time: Option<i64>,
    ) -> Result<(), Failure> {
        let commands = call.commands.len();
        let first = statement.parts.first().map_or(0, |part| part.text);
        let step = self.add(first, 0, true);
        batch.begin(&mut step.frame, commands * statement.parts.len())?;
        step.keyed = None;
        for command in 0..commands {
            for part in &statement.parts {
                let text = prepared.text(part.text);
                Batch::put(&mut step.frame, text);
                let values = step.frame.len();
                part.bind(text, call, command, &mut step.frame)?;
                if step.keyed.is_none() && text.token(&step.frame[values..]).is_some() {
                    step.keyed = Some((part.text, values as u32));
                }
            }
        }
        step.places = batch.end(&mut step.frame, time);
        Ok(())
    }

    #[inline]
    fn add(&mut self, text: u32, command: u32, is_last: bool) -> &mut Step {
        if self.count == self.steps.len() {
            self.steps.push(Step::default());
        }
        let step = &mut self.steps[self.count];
        self.count += 1;
        (step.text, step.command, step.is_last) = (text, command, is_last);
        (step.sent, step.is_missed, step.preparations) = (Sent::Nowhere, false, 0);
        step.retries = None;
        step
    }

    /// The steps of the current operation.
    pub(crate) fn steps(&mut self) -> &mut [Step] {
        &mut self.steps[..self.count]
    }

    #[inline]
    pub(crate) fn step(&mut self, number: u32) -> &mut Step {
        &mut self.steps[number as usize]
    }

    /// Whether it has a single step.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.count == 1
    }

    /// The first step of each command; these are sent together.
    pub(crate) fn firsts(&self) -> impl ExactSizeIterator<Item = u32> + use<> {
        let each = self.count.checked_div(self.progress.outstanding as usize).unwrap_or(1).max(1);
        (0..self.count as u32).step_by(each)
    }

    /// The terms of a step's execution.
    pub(crate) fn terms(&self, prepared: &Prepared, number: u32) -> Terms {
        let text = self.steps[number as usize].text;
        self.batch.as_ref().map_or(prepared.text(text).terms, |batch| batch.terms)
    }

    /// Ends a step. Returns the next step of its command, or whether all commands have ended.
    #[inline]
    pub(crate) fn end_step(&mut self, number: u32) -> Next {
        let Step { is_missed, is_last, command, .. } = self.steps[number as usize];
        if !is_last {
            self.steps[number as usize + 1].is_missed = is_missed;
            return Next::Step(number + 1);
        }
        self.is_missed |= is_missed;
        if is_missed {
            self.add_effect(number, Effect::NotApplied);
        }
        if self.counts_commands
            && !is_missed
            && let Some(reply) = self.replies.get_mut(command as usize)
        {
            reply.rows += 1;
        }
        self.end_command()
    }

    /// Fails a command with this step. Returns whether all commands have ended.
    pub(crate) fn fail(&mut self, number: u32, failure: Failure) -> Next {
        // A repeated step may have been executed by a node whose reply was lost.
        let retries = self.steps[number as usize].retries.as_ref();
        let is_repeated = retries.is_some_and(|retries| retries.is_repeated);
        let effect = if is_repeated { Effect::Unknown } else { Effect::of(failure.outcome) };
        self.add_effect(number, effect);
        self.progress.failure.get_or_insert(failure);
        self.end_command()
    }

    /// Adds the effect of a step's command, or of all commands in a batch. One of several texts of
    /// a command doesn't show the effects of the others.
    fn add_effect(&mut self, number: u32, effect: Effect) {
        let Step { command, is_last, .. } = self.steps[number as usize];
        if self.batch.is_some() {
            return self.effects.extend((0..self.commands).map(|command| (command, effect)));
        }
        let is_first = number.checked_sub(1).is_none_or(|before| {
            let before = &self.steps[before as usize];
            before.command != command
        });
        let effect = if is_first && is_last { effect } else { Effect::Unknown };
        self.effects.push((command, effect));
    }

    #[inline]
    fn end_command(&mut self) -> Next {
        self.progress.outstanding -= 1;
        if self.progress.outstanding == 0 { Next::End } else { Next::Nothing }
    }
}

impl InFlightOperation for CqlOperation {
    type Context = Shared;

    #[inline]
    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    #[inline]
    fn finish<'a>(&'a mut self, single: &'a mut Reply) -> (Outcome, &'a Reply) {
        let reply = match &mut self.replies[..] {
            [] => {
                // The number of rows that it would have counted by command.
                if self.counts_commands && !self.is_missed {
                    single.rows = u64::from(self.commands);
                }
                single
            }
            [first, others @ ..] => {
                others.iter().for_each(|other| append(first, other));
                first
            }
        };
        reply.effects.clone_from(&self.effects);
        let nothing = self.is_read && reply.rows == 0;
        let outcome = match self.is_missed || nothing {
            true => Outcome::Miss,
            false if self.is_unlike => Outcome::Mismatch,
            false => Outcome::Ok,
        };
        (outcome, reply)
    }
}

/// The action after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Step(u32),
    /// Other commands haven't ended.
    Nothing,
    /// The operation has ended.
    End,
}

impl Step {
    /// Its retries, which begin with this consistency level.
    pub(crate) fn retries(&mut self, level: Consistency) -> &mut Retries {
        let (repeats, nodes) = (Repeats::default(), Vec::new());
        let begun = || Box::new(Retries { repeats, is_repeated: false, nodes, level });
        self.retries.get_or_insert_with(begun)
    }

    /// The token of its partition.
    #[inline]
    pub(crate) fn token(&self, prepared: &Prepared) -> Option<i64> {
        let (text, values) = self.keyed?;
        prepared.text(text).token(&self.frame[values as usize..])
    }

    /// Writes the frame of a text, whose values `bind` appends; a write has the client's time.
    #[inline]
    fn write(
        &mut self,
        text: &Text,
        time: Option<i64>,
        bind: impl FnOnce(&mut Vec<u8>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.places = text.begin(&mut self.frame);
        bind(&mut self.frame)?;
        self.keyed = Some((self.text, self.places.values));
        let time = time.filter(|_| !text.is_select());
        text.end(&mut self.frame, &mut self.places, time);
        Ok(())
    }
}

/// Appends the rows of another reply.
fn append(reply: &mut Reply, other: &Reply) {
    let first = u32::try_from(reply.rows).unwrap_or(u32::MAX);
    for cell in &other.cells {
        reply.push(first.saturating_add(cell.row), cell.field, other.bytes_of(cell));
    }
    reply.rows += other.rows;
}
