//! One connection's requests with their replies.

use std::collections::VecDeque;

use kvmark_driver_server::errors;
use kvmark_plan::Outcome;
use kvmark_trace::tape::Record;

use super::replies::{Replies, Said};
use super::requests::{Expects, Request, Requests};
use crate::content::Keeper;
use crate::recorder::{Recorder, Sizes, Withdrawn};
use crate::side::{Ends, Side};
use crate::word::Garbage;

/// Most requests that wait for a reply.
const UNDER_WAY_MAX: usize = 1 << 20;

#[derive(Debug)]
struct Pending {
    number: u64,
    expects: Expects,
    /// Of its keys, what was read of each.
    keys: Vec<(u64, u32)>,
    /// Keys up to there have their answer.
    next_key: usize,
    /// Quiet commands before it, since the last `mn`: their answers can't be told from its own.
    quiet: u64,
}

/// A connection that speaks memcached's text protocol.
pub(crate) struct Memcached {
    requests: Requests,
    replies: Replies,
    dialogue: Dialogue,
}

/// What is under way.
struct Dialogue {
    waiting: VecDeque<Pending>,
    /// Quiet commands that may still be answered, and those that were asked since the last `mn`.
    quiet: u64,
    quiet_asked: u64,
}

impl Memcached {
    /// Times to live that are instants are counted from this one.
    pub(crate) fn new(start_unix_s: i64, keeper: Keeper) -> Self {
        Self {
            requests: Requests::new(start_unix_s, keeper),
            replies: Replies::new(),
            dialogue: Dialogue { waiting: VecDeque::new(), quiet: 0, quiet_asked: 0 },
        }
    }
}

impl Side for Memcached {
    fn requests(
        &mut self,
        bytes: &[u8],
        at_ns: u64,
        client: u32,
        recorder: &mut Recorder,
    ) -> Result<(), Ends> {
        if self.requests.are_binary(bytes) {
            return Err(Ends::Left("the binary protocol".to_owned()));
        }
        let mut at = 0;
        while at < bytes.len() {
            let Recorder { verbs, hash_key, .. } = recorder;
            let (taken, request) = self.requests.next(&bytes[at..], verbs, hash_key)?;
            at += taken;
            let Some(request) = request else { break };
            self.dialogue.ask(request, at_ns, client, recorder)?;
        }
        Ok(())
    }

    fn replies(&mut self, bytes: &[u8], at_ns: u64, recorder: &mut Recorder) -> Result<(), Ends> {
        let Self { replies, dialogue, .. } = self;
        replies.read(bytes, &mut |said| dialogue.hear(said, at_ns, recorder))?;
        Ok(())
    }

    fn owes_nothing(&self) -> bool {
        self.dialogue.waiting.is_empty()
    }

    fn give_up(&mut self, recorder: &mut Recorder) {
        for one in self.dialogue.waiting.drain(..) {
            recorder.give_up(one.number);
        }
    }
}

impl Dialogue {
    fn ask(
        &mut self,
        request: Request,
        at_ns: u64,
        client: u32,
        recorder: &mut Recorder,
    ) -> Result<(), Ends> {
        let name = recorder.verbs.name(request.asked.verb);
        if matches!(name, "watch" | "lru_crawler") {
            return Err(Ends::Left(name.to_owned()));
        }
        if self.waiting.len() >= UNDER_WAY_MAX {
            return Err(Ends::Left("more than a million requests under way".to_owned()));
        }
        recorder.told.cut_keys += request.cut_keys;
        let number = recorder.ask(at_ns, client, &request.asked, request.contents);
        match request.expects {
            Expects::Nothing => recorder.owes_no_answer(number),
            Expects::Quiet => {
                recorder.owes_no_answer(number);
                self.quiet += 1;
                self.quiet_asked += 1;
            }
            expects => {
                let keys = request.asked.keys.iter().map(|key| (key.hash, Record::UNKNOWN));
                let keys = if expects == Expects::Values { keys.collect() } else { Vec::new() };
                let one = Pending { number, expects, keys, next_key: 0, quiet: self.quiet_asked };
                if expects == Expects::NoOperation {
                    self.quiet_asked = 0;
                }
                self.waiting.push_back(one);
            }
        }
        Ok(())
    }

    /// The next line of a reply.
    fn hear(&mut self, said: Said<'_>, at_ns: u64, recorder: &mut Recorder) -> Result<(), Garbage> {
        let strange = Garbage("a reply came that nobody asked for");
        let Some(first) = self.waiting.front_mut() else {
            return if self.is_passed_over(said) { Ok(()) } else { Err(strange) };
        };
        match (said, first.expects) {
            (Said::Value { key, bytes }, Expects::Values) => {
                let hash = recorder.hash_key.hash(key);
                let keys = &mut first.keys;
                let found = keys.iter().skip(first.next_key).position(|(one, _)| *one == hash);
                if let Some(place) = found {
                    let place = first.next_key + place;
                    keys[place].1 = u32::try_from(bytes).unwrap_or(Record::UNKNOWN - 1);
                    first.next_key = place + 1;
                }
                Ok(())
            }
            (Said::Meta { bytes }, Expects::Meta) => {
                let size = u32::try_from(bytes).unwrap_or(Record::UNKNOWN - 1);
                let sizes = if first.quiet > 0 { Sizes::Unknown } else { Sizes::One(size) };
                self.complete(Outcome::Ok, sizes, at_ns, recorder);
                Ok(())
            }
            (Said::Line(line), _) => self.line(line, at_ns, recorder),
            (_, Expects::NoOperation) if self.quiet > 0 => Ok(()),
            _ => Err(strange),
        }
    }

    /// Whether this may be the answer of a quiet command, or of one that failed.
    fn is_passed_over(&self, said: Said<'_>) -> bool {
        match said {
            Said::Line(line) => self.quiet > 0 || is_error(line),
            Said::Meta { .. } => self.quiet > 0,
            Said::Value { .. } => false,
        }
    }

    /// A line that is no value, while something is waited for.
    fn line(&mut self, line: &[u8], at_ns: u64, recorder: &mut Recorder) -> Result<(), Garbage> {
        let Some(first) = self.waiting.front() else { return Ok(()) };
        if line == b"ERROR" {
            if let Some(one) = self.waiting.pop_front() {
                recorder.withdraw(one.number, Withdrawn::Unknown);
            }
            return Ok(());
        }
        if is_error(line) {
            self.complete(errors::memcached(line), Sizes::Unknown, at_ns, recorder);
            return Ok(());
        }
        let is_meta = matches!(line.get(..2), Some(b"HD" | b"EN" | b"NS" | b"EX" | b"NF" | b"MN"))
            && matches!(line.get(2), None | Some(b' '))
            || line.starts_with(b"ME ");
        match first.expects {
            Expects::Values if line == b"END" => self.complete_values(at_ns, recorder),
            Expects::Listing if matches!(line, b"END" | b"RESET" | b"OK") => {
                self.complete(Outcome::Ok, Sizes::Unknown, at_ns, recorder);
            }
            Expects::Listing => {}
            Expects::NoOperation if line == b"MN" => {
                self.quiet -= first.quiet.min(self.quiet);
                self.complete(Outcome::Ok, Sizes::Unknown, at_ns, recorder);
            }
            Expects::NoOperation if is_meta && self.quiet > 0 => {}
            Expects::Meta if is_meta => {
                let miss = matches!(line.get(..2), Some(b"EN" | b"NF" | b"NS" | b"EX"));
                let outcome = if miss { Outcome::Miss } else { Outcome::Ok };
                self.complete(outcome, Sizes::Unknown, at_ns, recorder);
            }
            Expects::Line if line != b"END" && !is_meta => {
                let miss = matches!(line, b"NOT_FOUND" | b"NOT_STORED" | b"EXISTS");
                let outcome = if miss { Outcome::Miss } else { Outcome::Ok };
                self.complete(outcome, Sizes::Unknown, at_ns, recorder);
            }
            _ => return Err(Garbage("a reply doesn't fit what was asked")),
        }
        Ok(())
    }

    fn complete_values(&mut self, at_ns: u64, recorder: &mut Recorder) {
        let Some(one) = self.waiting.pop_front() else { return };
        let sizes: Vec<u32> = one.keys.iter().map(|(_, size)| *size).collect();
        let found = sizes.iter().any(|size| *size != Record::UNKNOWN);
        let outcome = if found { Outcome::Ok } else { Outcome::Miss };
        recorder.answer(one.number, at_ns, outcome, Sizes::Each(&sizes));
    }

    fn complete(
        &mut self,
        outcome: Outcome,
        sizes: Sizes<'_>,
        at_ns: u64,
        recorder: &mut Recorder,
    ) {
        if let Some(one) = self.waiting.pop_front() {
            recorder.answer(one.number, at_ns, outcome, sizes);
        }
    }
}

fn is_error(line: &[u8]) -> bool {
    let word = line.split(|byte| *byte == b' ').next();
    matches!(word, Some(b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR"))
}
