//! A connection that speaks memcached's text protocol: requests, and the replies to them.

mod requests;

use std::collections::VecDeque;

use kvmark_plan::Outcome;
use kvmark_trace::tape::Record;
use kvmark_wire::Malformed;
use kvmark_wire::memcached::outcome_of;
use kvmark_wire::memcached::stream::{Event, Replies};

use crate::content::Keeper;
use crate::recorder::{Recorder, Sizes};
use crate::side::{Ends, IN_FLIGHT_MAX, Side, too_many_requests};

use requests::{Expects, Request, Requests};

#[derive(Debug)]
struct Pending {
    number: u64,
    expects: Expects,
    /// The hash of each key, and the number of bytes read.
    keys: Vec<(u64, u32)>,
    /// Earlier keys have their answer.
    next_key: usize,
    /// Quiet commands since the last `mn`, whose replies look like this one's.
    quiet: u64,
}

/// A connection that speaks memcached's text protocol.
pub(crate) struct Memcached {
    requests: Requests,
    replies: Replies,
    dialogue: Dialogue,
}

/// The requests in flight.
#[derive(Default)]
struct Dialogue {
    waiting: VecDeque<Pending>,
    /// Quiet commands that may still be answered.
    quiet: u64,
    /// Quiet commands since the last `mn`.
    quiet_sent: u64,
}

impl Memcached {
    /// `start_unix_s` converts absolute expiry times to times to live.
    pub(crate) fn new(start_unix_s: i64, keeper: Keeper) -> Self {
        Self {
            requests: Requests::new(start_unix_s, keeper),
            replies: Replies::default(),
            dialogue: Dialogue::default(),
        }
    }
}

impl Side for Memcached {
    fn request(&mut self, bytes: &[u8], recorder: &mut Recorder) -> Result<usize, Ends> {
        if self.requests.are_binary(bytes) {
            return Err(Ends::Unsupported("the binary protocol".to_owned()));
        }
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
        for one in self.dialogue.waiting.drain(..) {
            recorder.give_up(one.number);
        }
    }
}

impl Dialogue {
    fn begin(&mut self, request: Request, recorder: &mut Recorder) -> Result<(), Ends> {
        let name = recorder.verbs.get(request.operation.verb).name.as_str();
        if matches!(name, "watch" | "lru_crawler") {
            return Err(Ends::Unsupported(name.to_owned()));
        }
        if self.waiting.len() >= IN_FLIGHT_MAX {
            return Err(too_many_requests());
        }
        let keys = request.operation.keys.iter().map(|key| (key.hash, Record::UNKNOWN));
        let keys = keys.filter(|_| request.expects == Expects::Values).collect();
        let number = recorder.begin(request.operation);
        match request.expects {
            Expects::Nothing => recorder.complete_without_reply(number),
            Expects::Quiet => {
                recorder.complete_without_reply(number);
                self.quiet += 1;
                self.quiet_sent += 1;
            }
            expects => {
                let one = Pending { number, expects, keys, next_key: 0, quiet: self.quiet_sent };
                if expects == Expects::NoOperation {
                    self.quiet_sent = 0;
                }
                self.waiting.push_back(one);
            }
        }
        Ok(())
    }

    /// Takes the next event of a reply.
    fn take(&mut self, event: Event<'_>, recorder: &mut Recorder) -> Result<(), Malformed> {
        let unexpected = Malformed("a reply without a request");
        let Some(first) = self.waiting.front_mut() else {
            return if self.may_be_unexpected(event) { Ok(()) } else { Err(unexpected) };
        };
        match (event, first.expects) {
            (Event::Value { key, length }, Expects::Values) => {
                let hash = recorder.keeper.hash_key.hash(key);
                let keys = &mut first.keys;
                let found = keys.iter().skip(first.next_key).position(|(one, _)| *one == hash);
                if let Some(place) = found {
                    let place = first.next_key + place;
                    keys[place].1 = u32::try_from(length).unwrap_or(Record::UNKNOWN - 1);
                    first.next_key = place + 1;
                }
                Ok(())
            }
            (Event::Meta { length }, Expects::Meta) => {
                let size = u32::try_from(length).unwrap_or(Record::UNKNOWN - 1);
                let sizes = if first.quiet > 0 { Sizes::Unknown } else { Sizes::One(size) };
                self.complete(Outcome::Ok, sizes, recorder);
                Ok(())
            }
            (Event::Line(line), _) => self.line(line, recorder),
            (_, Expects::NoOperation) if self.quiet > 0 => Ok(()),
            _ => Err(unexpected),
        }
    }

    /// Whether this may be the reply to a quiet command, or an error without a request.
    fn may_be_unexpected(&self, event: Event<'_>) -> bool {
        match event {
            Event::Line(line) => self.quiet > 0 || is_error(line),
            Event::Meta { .. } => self.quiet > 0,
            Event::Value { .. } => false,
        }
    }

    /// Takes a line without a value while a request is in flight.
    fn line(&mut self, line: &[u8], recorder: &mut Recorder) -> Result<(), Malformed> {
        let Some(first) = self.waiting.front() else { return Ok(()) };
        if line == b"ERROR" {
            if let Some(one) = self.waiting.pop_front() {
                recorder.report.unknown_commands += 1;
                recorder.withdraw(one.number);
            }
            return Ok(());
        }
        if is_error(line) {
            self.complete(outcome_of(line), Sizes::Unknown, recorder);
            return Ok(());
        }
        let is_meta = matches!(line.get(..2), Some(b"HD" | b"EN" | b"NS" | b"EX" | b"NF" | b"MN"))
            && matches!(line.get(2), None | Some(b' '))
            || line.starts_with(b"ME ");
        match first.expects {
            Expects::Values if line == b"END" => self.complete_values(recorder),
            Expects::Listing if matches!(line, b"END" | b"RESET" | b"OK") => {
                self.complete(Outcome::Ok, Sizes::Unknown, recorder);
            }
            Expects::Listing => {}
            Expects::NoOperation if line == b"MN" => {
                self.quiet -= first.quiet.min(self.quiet);
                self.complete(Outcome::Ok, Sizes::Unknown, recorder);
            }
            Expects::NoOperation if is_meta && self.quiet > 0 => {}
            Expects::Meta if is_meta => {
                let miss = matches!(line.get(..2), Some(b"EN" | b"NF" | b"NS" | b"EX"));
                let outcome = if miss { Outcome::Miss } else { Outcome::Ok };
                self.complete(outcome, Sizes::Unknown, recorder);
            }
            Expects::Line if line != b"END" && !is_meta => {
                let miss = matches!(line, b"NOT_FOUND" | b"NOT_STORED" | b"EXISTS");
                let outcome = if miss { Outcome::Miss } else { Outcome::Ok };
                self.complete(outcome, Sizes::Unknown, recorder);
            }
            _ => return Err(Malformed("a reply doesn't match its request")),
        }
        Ok(())
    }

    fn complete_values(&mut self, recorder: &mut Recorder) {
        let Some(one) = self.waiting.pop_front() else { return };
        let sizes: Vec<u32> = one.keys.iter().map(|(_, size)| *size).collect();
        let found = sizes.iter().any(|size| *size != Record::UNKNOWN);
        let outcome = if found { Outcome::Ok } else { Outcome::Miss };
        recorder.complete(one.number, outcome, Sizes::Each(&sizes));
    }

    fn complete(&mut self, outcome: Outcome, sizes: Sizes<'_>, recorder: &mut Recorder) {
        if let Some(one) = self.waiting.pop_front() {
            recorder.complete(one.number, outcome, sizes);
        }
    }
}

fn is_error(line: &[u8]) -> bool {
    let word = line.split(|byte| *byte == b' ').next();
    matches!(word, Some(b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR"))
}
