//! A client's operation: bound to key and values, executed in one part or two, written down.
//!
//! Nothing here waits. The memory is used again from operation to operation.

use kvmark_driver::{Columns, Reply, Request, Values};
use kvmark_plan::{FieldChoice, Kind, Outcome};
use kvmark_record::Sample;
use kvmark_workload::{Draw, ValueBuffer};

use crate::ledger::Ledger;
use crate::phase::{GroupShared, PhaseShared};
use crate::source::Turn;

/// The operation that a client has under way.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    phase: &'a PhaseShared,
    group: &'a GroupShared,
    ledger: &'a Ledger<'a>,
    turn: Turn,
    draw: Draw,
    /// The read of a read-modify-write whose update is under way, and the records it returned.
    read: Option<(Executed, u64)>,
    /// The operation that ended last, until it is written down.
    ended: Option<Sample>,
    key: Vec<u8>,
    values: ValueBuffer,
    reply: Reply,
}

/// One request from issue to outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executed {
    pub(crate) issued_ns: u64,
    pub(crate) completed_ns: u64,
    pub(crate) outcome: Outcome,
}

impl<'a> Operation<'a> {
    /// The memory of a client of this group.
    pub(crate) fn new(phase: &'a PhaseShared, group: usize, ledger: &'a Ledger<'a>) -> Self {
        Self {
            phase,
            group: &phase.groups[group],
            ledger,
            turn: Turn { number: 0, intended_ns: 0 },
            draw: Draw { kind: Kind::Read, ordinal: 0, scan_length: 0, field: 0, version: 0 },
            read: None,
            ended: None,
            key: Vec::new(),
            values: ValueBuffer::default(),
            reply: Reply::default(),
        }
    }

    /// Draws the operation whose turn it is and binds key and values.
    #[inline]
    pub(crate) fn begin(&mut self, turn: Turn) {
        self.bind(turn);
        // Not before: a key is a chain of multiplications, each of which waits for the one before,
        // and this is done meanwhile.
        self.write_down();
        self.ledger.issue(self.group.group);
    }

    #[inline]
    fn bind(&mut self, turn: Turn) {
        let stream = &self.group.stream;
        let mut draw = stream.draw(turn.number, &self.phase.inserts);
        if draw.kind == Kind::Insert {
            draw.ordinal = self.phase.inserts.next();
        }
        stream.key_into(draw.ordinal, &mut self.key);
        match draw.kind {
            Kind::Insert => {
                stream.insert_values_into(turn.number, &self.key, &mut self.values);
            }
            Kind::Update | Kind::ReadModifyWrite => {
                stream.update_values_into(&draw, &self.key, &mut self.values);
            }
            Kind::Read | Kind::Scan | Kind::Delete => {}
        }
        self.turn = turn;
        self.draw = draw;
        self.read = None;
    }

    /// Writes down the operation that ended last, if that wasn't done yet. To be called before its
    /// client waits.
    #[inline]
    pub(crate) fn write_down(&mut self) {
        if let Some(sample) = &self.ended {
            self.ledger.complete(self.group.group, sample);
        }
        self.ended = None;
    }

    /// The request to be executed now, and where its reply goes.
    #[inline]
    pub(crate) fn request(&mut self) -> (Request<'_>, &mut Reply) {
        let kind = self.executing();
        let writes = matches!(kind, Kind::Update | Kind::Insert);
        let values = Values { bytes: &self.values.bytes, places: &self.values.places };
        let request = Request {
            number: self.draw.version,
            kind,
            key: &self.key,
            columns: columns(self.group, &self.draw),
            values: if writes { values } else { Values::NONE },
            scan_length: self.draw.scan_length,
            wants_values: self.group.check_values && kind == Kind::Read,
        };
        self.reply.clear();
        (request, &mut self.reply)
    }

    /// What is executed now: of a read-modify-write its read, then its update.
    #[inline]
    fn executing(&self) -> Kind {
        match (self.draw.kind, &self.read) {
            (Kind::ReadModifyWrite, None) => Kind::Read,
            (Kind::ReadModifyWrite, Some(_)) => Kind::Update,
            (kind, _) => kind,
        }
    }

    /// Decides the outcome of a request; no answer means that it was given up.
    #[inline]
    pub(crate) fn judge(
        &self,
        issued_ns: u64,
        completed_ns: u64,
        answer: Option<Outcome>,
    ) -> Executed {
        let late = self.phase.timeout_ns.is_some_and(|limit| completed_ns - issued_ns > limit);
        let outcome = match answer {
            None => Outcome::Timeout,
            Some(outcome) if late && !outcome.is_failure() => Outcome::Timeout,
            Some(Outcome::Ok) if self.is_corrupt() => Outcome::Mismatch,
            Some(outcome) => outcome,
        };
        Executed { issued_ns, completed_ns, outcome }
    }

    /// Takes what was executed; whether the operation has ended with it.
    #[inline]
    pub(crate) fn end(&mut self, done: Executed) -> bool {
        match self.draw.kind {
            Kind::ReadModifyWrite => return self.end_part(done),
            Kind::Insert => self.end_insert(done.outcome),
            Kind::Read | Kind::Update | Kind::Scan | Kind::Delete => {}
        }
        self.end_whole(&done, self.reply.rows);
        true
    }

    fn end_insert(&self, outcome: Outcome) {
        if outcome.is_failure() {
            self.phase.inserts.fail(self.draw.ordinal);
        } else {
            self.phase.inserts.acknowledge(self.draw.ordinal);
        }
    }

    /// A read and an update of one record: measured as its parts and as itself.
    fn end_part(&mut self, done: Executed) -> bool {
        let (group, rows) = (self.group.group, self.reply.rows);
        let Some((read, read_rows)) = self.read else {
            let part = sample(Kind::Read, true, self.turn.intended_ns, &done, rows);
            self.ledger.record(group, &part);
            if done.outcome.is_failure() {
                self.end_whole(&done, rows);
                return true;
            }
            self.read = Some((done, rows));
            return false;
        };
        let part = sample(Kind::Update, true, read.completed_ns, &done, rows);
        self.ledger.record(group, &part);
        let outcome = if read.outcome == Outcome::Ok { done.outcome } else { read.outcome };
        self.end_whole(&Executed { issued_ns: read.issued_ns, outcome, ..done }, read_rows);
        true
    }

    #[inline]
    fn end_whole(&mut self, whole: &Executed, rows: u64) {
        self.ended = Some(sample(self.draw.kind, false, self.turn.intended_ns, whole, rows));
    }

    /// Whether a checked read lacks a field that was asked for, or returned another value than the
    /// one that must be there.
    #[inline]
    fn is_corrupt(&self) -> bool {
        self.group.check_values && self.executing() == Kind::Read && !self.values_match()
    }

    fn values_match(&self) -> bool {
        let asked = match self.group.read_fields {
            FieldChoice::One => 1,
            FieldChoice::All | FieldChoice::AllByName => self.group.fields as usize,
        };
        let (stream, reply) = (&self.group.stream, &self.reply);
        reply.cells.len() == asked
            && reply
                .cells
                .iter()
                .all(|cell| stream.expected(&self.key, cell.field, reply.bytes_of(cell)))
    }
}

#[inline]
fn sample(kind: Kind, part: bool, intended_ns: u64, done: &Executed, rows: u64) -> Sample {
    Sample {
        kind,
        part,
        outcome: done.outcome,
        intended_ns,
        issued_ns: done.issued_ns,
        completed_ns: done.completed_ns,
        rows,
    }
}

#[inline]
fn columns(group: &GroupShared, draw: &Draw) -> Columns {
    match group.read_fields {
        FieldChoice::All => Columns::All,
        FieldChoice::AllByName => Columns::AllByName,
        FieldChoice::One => Columns::One(draw.field),
    }
}
