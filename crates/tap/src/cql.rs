//! A connection that speaks CQL's native protocol, version 4: requests by stream, and replies.

mod frames;
mod request;
mod rewriter;
mod statement;

use std::collections::HashMap;

use kvmark_plan::Outcome;
use kvmark_trace::tape::Record;
use kvmark_trace::verbs::READ;
use kvmark_wire::cql::errors::meaning;
use kvmark_wire::cql::{
    ANSWER, APPLIED, BATCH, COMPRESSED, Description, ERROR, EXECUTE, PREPARE, PREPARED,
    Preparation, QUERY, RESULT, ROWS, Reader, VERSION,
};

use crate::content::Keeper;
use crate::recorder::{Recorder, Sizes};
use crate::side::{Ends, Side};

use frames::{Frame, Frames, text};
use request::{Request, Requests};

#[cfg(test)]
pub(crate) use rewriter::Passed;
pub(crate) use rewriter::Rewriter;
use statement::Draft;
pub(crate) use statement::Statements;

/// A request that waits for its reply.
#[derive(Debug)]
enum Pending {
    Operation {
        number: u64,
        /// Whether it reads by a key, the first page: no rows are a miss.
        looks: bool,
        kind: u8,
    },
    Preparation(Draft),
}

/// A connection that speaks CQL.
pub(crate) struct Cql {
    requests: Frames,
    replies: Frames,
    reader: Requests,
    /// By stream.
    waiting: HashMap<u16, Pending>,
}

impl Cql {
    pub(crate) fn new(keeper: Keeper) -> Self {
        Self {
            requests: Frames::default(),
            replies: Frames::default(),
            reader: Requests::new(keeper),
            waiting: HashMap::new(),
        }
    }
}

impl Side for Cql {
    fn request(&mut self, bytes: &[u8], recorder: &mut Recorder) -> Result<usize, Ends> {
        let Self { requests, reader, waiting, .. } = self;
        let (taken, frame) = requests.next(bytes)?;
        let Some(frame) = frame else { return Ok(taken) };
        match frame.version {
            VERSION if frame.flags & COMPRESSED == 0 => {}
            VERSION => return Err(Ends::Unsupported("compression".to_owned())),
            1..=6 => {
                let name = format!("version {} of CQL's protocol", frame.version);
                return Err(Ends::Unsupported(name));
            }
            _ => return Err(Ends::Garbage("a request isn't CQL")),
        }
        let pending = match frame.opcode {
            PREPARE => {
                let text = frame.body().and_then(|body| text(&mut Reader(body)));
                text.and_then(Draft::of).map(Pending::Preparation)
            }
            QUERY | EXECUTE | BATCH => reader.read(&frame, recorder).map(|request| {
                let Request { operation, looks } = request;
                let kind = recorder.verbs.get(operation.verb).command.kind();
                Pending::Operation { number: recorder.begin(operation), looks, kind }
            }),
            // Logins, options and events aren't operations; their contents may be secret.
            _ => None,
        };
        if let Some(pending) = pending
            && let Some(Pending::Operation { number, .. }) = waiting.insert(frame.stream, pending)
        {
            recorder.give_up(number);
        }
        Ok(taken)
    }

    fn replies(&mut self, mut bytes: &[u8], recorder: &mut Recorder) -> Result<(), Ends> {
        let Self { replies, waiting, .. } = self;
        while !bytes.is_empty() {
            let (taken, frame) = replies.next(bytes)?;
            bytes = &bytes[taken..];
            let Some(frame) = frame else { continue };
            if frame.version != ANSWER {
                return Err(Ends::Garbage("a reply isn't of version 4 of CQL's protocol"));
            }
            // Events and the replies to what isn't recorded have no request.
            match waiting.remove(&frame.stream) {
                Some(Pending::Operation { number, looks, kind }) => {
                    let (outcome, size) = answer(&frame, looks, kind);
                    let sizes = size.map_or(Sizes::Unknown, Sizes::One);
                    recorder.complete(number, outcome, sizes);
                }
                Some(Pending::Preparation(draft)) => {
                    let statements = &recorder.shared.statements;
                    if let Some(prepared) = frame.result(PREPARED).and_then(Preparation::read) {
                        statements.add(&draft, &prepared);
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    fn give_up(&mut self, recorder: &mut Recorder) {
        // In order, so that equal bytes give equal tapes.
        let mut numbers: Vec<_> = self.waiting.drain().filter_map(Pending::number).collect();
        numbers.sort_unstable();
        numbers.into_iter().for_each(|number| recorder.give_up(number));
    }
}

impl Pending {
    fn number((_, pending): (u16, Self)) -> Option<u64> {
        match pending {
            Self::Operation { number, .. } => Some(number),
            Self::Preparation(_) => None,
        }
    }
}

/// The outcome of an operation, and the bytes that a read returned.
fn answer(frame: &Frame<'_>, looks: bool, kind: u8) -> (Outcome, Option<u32>) {
    if frame.opcode == ERROR {
        let code = frame.body().and_then(|body| Reader(body).int());
        let known = code.and_then(meaning).map(|(outcome, _)| outcome);
        return (known.unwrap_or(Outcome::Refused), None);
    }
    let rows = || {
        let mut body = frame.result(ROWS)?;
        let described = Description::read(&mut body)?;
        let count = u64::try_from(body.int()?).ok()?;
        Some((described, count, body))
    };
    if frame.opcode != RESULT {
        return (Outcome::Refused, None);
    }
    let Some((described, count, mut cells)) = rows() else { return (Outcome::Ok, None) };
    if described.columns.first().is_some_and(|column| column.name == APPLIED) {
        let is_applied = cells.bytes() == Some(Some(&[1]));
        return (if is_applied { Outcome::Ok } else { Outcome::Miss }, None);
    }
    if count == 0 {
        return (if looks { Outcome::Miss } else { Outcome::Ok }, None);
    }
    // Each value follows its length.
    let lengths = 4 * count.saturating_mul(described.count as u64);
    let bytes = (cells.0.len() + frame.cut) as u64;
    let size = u32::try_from(bytes.saturating_sub(lengths)).unwrap_or(Record::UNKNOWN - 1);
    (Outcome::Ok, (kind == READ).then_some(size))
}
