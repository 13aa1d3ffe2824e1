//! A connection that speaks the Redis protocol: requests, and the replies to them.

mod requests;

use std::collections::VecDeque;

use kvmark_plan::Outcome;
use kvmark_trace::tape::Record;
use kvmark_trace::verbs::{DELETE, READ};
use kvmark_wire::Malformed;
use kvmark_wire::resp::outcome_of;
use kvmark_wire::resp::stream::{Event, Leaf, Replies};

use crate::content::Keeper;
use crate::recorder::{KEYS_MAX, Recorder, Sizes};
use crate::side::{Ends, IN_FLIGHT_MAX, Side, too_many_requests};
use crate::verbs::{Effect, Verb};

use requests::{Request, Requests};

#[derive(Clone, Copy, Debug)]
struct Pending {
    number: u64,
    effect: Effect,
    kind: u8,
    keys: usize,
}

/// The reply that is being read.
#[derive(Debug, Default)]
struct Answer {
    leaf: Leaf,
    bytes: u64,
    has_strings: bool,
    /// Whether it has an element that isn't null.
    found: bool,
    /// Whether it is an empty aggregate.
    is_empty: bool,
    /// Sizes of its first elements.
    parts: Vec<u32>,
}

/// A connection that speaks the Redis protocol.
pub(crate) struct Redis {
    requests: Requests,
    replies: Replies,
    dialogue: Dialogue,
}

/// The requests in flight.
#[derive(Default)]
struct Dialogue {
    waiting: VecDeque<Pending>,
    in_transaction: bool,
    /// Commands that wait for EXEC.
    queued: Vec<Pending>,
    /// The number of them with a reply, while the reply to EXEC is read.
    executed: Option<usize>,
    answer: Answer,
}

impl Redis {
    pub(crate) fn new(keeper: Keeper) -> Self {
        Self {
            requests: Requests::new(keeper),
            replies: Replies::default(),
            dialogue: Dialogue::default(),
        }
    }
}

impl Side for Redis {
    fn request(&mut self, bytes: &[u8], recorder: &mut Recorder) -> Result<usize, Ends> {
        let (taken, request) = self.requests.next(bytes, &mut recorder.verbs)?;
        if let Some(request) = request {
            self.dialogue.begin(request, recorder)?;
        }
        Ok(taken)
    }

    fn replies(&mut self, bytes: &[u8], recorder: &mut Recorder) -> Result<(), Ends> {
        let Self { replies, dialogue, .. } = self;
        replies.read(bytes, &mut |event| dialogue.take(event, recorder))?;
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.dialogue.waiting.is_empty()
    }

    fn give_up(&mut self, recorder: &mut Recorder) {
        for one in self.dialogue.waiting.drain(..).chain(self.dialogue.queued.drain(..)) {
            recorder.give_up(one.number);
        }
    }
}

impl Dialogue {
    fn begin(&mut self, request: Request, recorder: &mut Recorder) -> Result<(), Ends> {
        let Verb { name, effect, command } = recorder.verbs.get(request.operation.verb);
        let (effect, kind) = (*effect, command.kind());
        if effect == Effect::Unsupported || effect == Effect::Client && request.is_client_reply {
            return Err(Ends::Unsupported(name.clone()));
        }
        if self.waiting.len() + self.queued.len() >= IN_FLIGHT_MAX {
            return Err(too_many_requests());
        }
        let keys = request.operation.keys.len();
        let number = recorder.begin(request.operation);
        self.waiting.push_back(Pending { number, effect, kind, keys });
        Ok(())
    }

    /// Takes the next event of a reply.
    fn take(&mut self, event: Event<'_>, recorder: &mut Recorder) -> Result<(), Malformed> {
        let level = usize::from(self.executed.is_some());
        match event {
            Event::Leaf { depth, leaf, text } if depth == level => {
                self.answer.begin();
                self.answer.leaf = leaf;
                self.answer.add(leaf);
                self.complete(text, recorder)?;
            }
            Event::Leaf { depth, leaf, .. } => {
                if depth == level + 1 {
                    self.answer.add_part(leaf);
                }
                self.answer.add(leaf);
                self.answer.is_empty = false;
            }
            Event::Open { depth: 0 } if self.is_exec() => self.executed = Some(0),
            Event::Open { depth } if depth == level => {
                self.answer.begin();
                self.answer.leaf = Leaf::Other;
                self.answer.is_empty = true;
            }
            Event::Close { depth: 0 } if self.executed.is_some() => {
                let done = self.executed.take().unwrap_or(0).min(self.queued.len());
                self.queued.drain(..done);
                self.end_transaction(recorder);
                if let Some(exec) = self.waiting.pop_front() {
                    recorder.complete(exec.number, Outcome::Ok, Sizes::Unknown);
                }
            }
            Event::Close { depth } if depth == level => self.complete(b"", recorder)?,
            Event::Open { .. } | Event::Close { .. } => {}
        }
        Ok(())
    }

    fn is_exec(&self) -> bool {
        self.in_transaction && self.waiting.front().is_some_and(|one| one.effect == Effect::Exec)
    }

    /// Ends a transaction; the commands that still wait weren't executed.
    fn end_transaction(&mut self, recorder: &mut Recorder) {
        self.in_transaction = false;
        for one in self.queued.drain(..) {
            recorder.report.not_carried_out += 1;
            recorder.withdraw(one.number);
        }
    }

    fn complete(&mut self, text: &[u8], recorder: &mut Recorder) -> Result<(), Malformed> {
        if let Some(place) = &mut self.executed {
            if let Some(one) = self.queued.get(*place) {
                self.answer.report(one, text, recorder);
            }
            *place += 1;
            return Ok(());
        }
        let one = self.waiting.pop_front().ok_or(Malformed("a reply without a request"))?;
        let failed = self.answer.leaf == Leaf::Error;
        let is_queued =
            self.in_transaction && self.answer.leaf == Leaf::Simple && text == b"QUEUED";
        match one.effect {
            Effect::Plain | Effect::Client if is_queued => {
                recorder.in_transaction(one.number);
                self.queued.push(one);
                return Ok(());
            }
            Effect::Multi if !failed => self.in_transaction = true,
            Effect::Exec => self.end_transaction(recorder),
            Effect::Discard if !failed => self.end_transaction(recorder),
            _ => {}
        }
        self.answer.report(&one, text, recorder);
        Ok(())
    }
}

impl Answer {
    fn begin(&mut self) {
        (self.bytes, self.has_strings, self.found, self.is_empty) = (0, false, false, false);
        self.parts.clear();
    }

    fn add(&mut self, leaf: Leaf) {
        self.found |= leaf != Leaf::Null;
        if let Leaf::Bulk(size) = leaf {
            self.bytes = self.bytes.saturating_add(size);
            self.has_strings = true;
        }
    }

    fn add_part(&mut self, leaf: Leaf) {
        if self.parts.len() < KEYS_MAX {
            let size = if let Leaf::Bulk(size) = leaf { clamped(size) } else { Record::UNKNOWN };
            self.parts.push(size);
        }
    }

    /// Passes the outcome of an operation to the recorder.
    fn report(&self, to: &Pending, text: &[u8], recorder: &mut Recorder) {
        let outcome = match self.leaf {
            Leaf::Error => outcome_of(text),
            Leaf::Null => Outcome::Miss,
            Leaf::Other if to.kind == READ && !self.found => Outcome::Miss,
            Leaf::Other if to.kind == DELETE && text == b"0" => Outcome::Miss,
            _ => Outcome::Ok,
        };
        if self.leaf == Leaf::Error {
            recorder.report.moved += u64::from(text.starts_with(b"MOVED "));
            recorder.report.asked += u64::from(text.starts_with(b"ASK "));
            if text.starts_with(b"ERR unknown command") {
                recorder.report.unknown_commands += 1;
                return recorder.withdraw(to.number);
            }
        }
        let sizes = match self.leaf {
            // A list of nulls only, as of MGET with one missing key, found nothing.
            _ if to.kind != READ || !(self.has_strings || self.is_empty) => Sizes::Unknown,
            Leaf::Other if to.keys > 1 && self.parts.len() == to.keys => Sizes::Each(&self.parts),
            _ => Sizes::One(clamped(self.bytes)),
        };
        recorder.complete(to.number, outcome, sizes);
    }
}

/// A size as stored on tapes; the maximum represents all greater sizes.
fn clamped(size: u64) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX).min(Record::UNKNOWN - 1)
}
