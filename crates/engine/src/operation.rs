//! A client's operation: bound to key and values, executed in one part or two, written down.
//!
//! Nothing here waits. The memory is used again from operation to operation.

use kvmark_driver::{Call, Columns, Expected, Reply, Request, Ticket, Values};
use kvmark_plan::{FieldChoice, Kind, Outcome};
use kvmark_record::{Action, Sample};
use kvmark_workload::{ArgumentBuffer, Draw, Kept, Owner, ValueBuffer};

use crate::executed::Executed;
use crate::ledger::Ledger;
use crate::log::Ended;
use crate::numbering::Turn;
use crate::order::Claim;
use crate::phase::{GroupShared, Keeps, Stretch};
use crate::source::{Access, Source};
use crate::tape::Taken;
use crate::verify_scan::WriteEnd;

/// The operation that a client has under way.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    stretch: &'a Stretch,
    /// Index of the client's group in the stretch.
    seat: usize,
    /// The group in the phase to which the operation belongs.
    group: &'a GroupShared,
    ledger: &'a Ledger<'a>,
    /// By which its client is known to its worker.
    ticket: Ticket,
    /// Whether what is read is compared with what must be there.
    checked: bool,
    /// Whether what is bound is needed for that, or for the log.
    kept: bool,
    turn: Turn,
    /// When the client would have been free for it, had the worker done everything in time.
    free_ns: u64,
    /// Before its present request was handed to the driver.
    pub(crate) begun_ns: u64,
    draw: Draw,
    /// What the record that it reads must be like.
    expected: Option<Expected>,
    /// What a tape says of it, where one does.
    pub(crate) taken: Taken,
    /// The read of a read-modify-write whose update is under way, and the records it returned.
    read: Option<(Executed, u64)>,
    /// The operation that ended last and its phase, until it is written down.
    ended: Option<(usize, Sample)>,
    /// What is bound, where it is needed when the answer is there.
    own: Bound,
}

/// Key, values and arguments of an operation. The memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    key: Vec<u8>,
    values: ValueBuffer,
    arguments: ArgumentBuffer,
    /// Arguments of an operation, a command and an item of the drawn statement.
    widths: [u32; 3],
}

const NOTHING: Draw =
    Draw { kind: Kind::Read, statement: None, ordinal: 0, scan_length: 0, field: 0, version: 0 };

impl<'a> Operation<'a> {
    /// The memory of a client of this group.
    pub(crate) fn new(
        stretch: &'a Stretch,
        seat: usize,
        ticket: Ticket,
        ledger: &'a Ledger<'a>,
    ) -> Self {
        let group = &stretch.legs[0].groups[seat];
        let checked = group.checks_fully || stretch.scan.is_some();
        let logged = stretch.legs.iter().any(|leg| leg.groups[seat].logged());
        Self {
            stretch,
            seat,
            group,
            ledger,
            ticket,
            checked,
            kept: checked || (logged && ledger.pen().is_some()),
            turn: Turn { leg: 0, number: 0, intended_ns: 0 },
            free_ns: stretch.start_ns(),
            begun_ns: 0,
            draw: NOTHING,
            expected: None,
            taken: Taken::NOTHING,
            read: None,
            ended: None,
            own: Bound::default(),
        }
    }

    /// Draws the operation whose turn it is and binds key and values, in the memory that clients
    /// share where nothing of them is needed later.
    #[inline(always)]
    pub(crate) fn begin(&mut self, turn: Turn, shared: &mut Bound) {
        // One by one: what is handed over in memory would have to be stored before it is read.
        self.begin_as(turn.leg, turn.number, turn.intended_ns, shared);
    }

    fn begin_as(&mut self, leg: usize, number: u64, intended_ns: u64, shared: &mut Bound) {
        self.draw(leg, number, intended_ns);
        if self.group.taped {
            self.bind_taken(shared);
        } else {
            let bound = if self.keeps() { &mut self.own } else { shared };
            bind(self.group, self.stretch, &self.draw, bound);
        }
        // Not before: a key is a chain of multiplications, each of which waits for the one before,
        // and this is done meanwhile.
        self.write_down();
        self.ledger.issue(leg, self.group.group);
    }

    /// Whether a tape says what its operations are.
    #[inline]
    pub(crate) fn is_taped(&self) -> bool {
        self.group.taped
    }

    /// Takes what a tape says of the operation whose turn it is.
    #[inline]
    pub(crate) fn take(&mut self, place: &Access<'_>) {
        place.give(&mut self.taken, &mut self.own.arguments.kept);
    }

    /// Takes the next operation of a tape that nobody else has.
    #[inline]
    pub(crate) fn take_next(&mut self, source: &Source<'_>, ready_ns: u64) -> Option<Turn> {
        source.take(ready_ns, &mut self.taken, &mut self.own.arguments.kept)
    }

    /// Binds what a tape says: a key and a value that were kept are taken as they are.
    fn bind_taken(&mut self, shared: &mut Bound) {
        let keeps = self.keeps();
        let Self { group, stretch, draw, taken, own, .. } = self;
        if draw.statement.is_some() {
            own.arguments.ttl_ms = taken.ttl_ms;
            own.arguments.scan_length = draw.scan_length;
            return bind_statement(group, stretch, draw, own);
        }
        if own.arguments.kept.is_nothing() {
            return bind(group, stretch, draw, if keeps { own } else { shared });
        }
        let Bound { key, values, arguments: ArgumentBuffer { kept, .. }, .. } = own;
        let (key, values) =
            if keeps { (key, values) } else { (&mut shared.key, &mut shared.values) };
        bind_kept(group, draw, kept, key, values);
    }

    /// What the operation must not overtake others on.
    #[inline]
    pub(crate) fn claim(&self) -> Option<Claim> {
        self.group.ordered.then_some(self.taken.claim)
    }

    /// The phase to which the operation belongs.
    pub(crate) fn leg(&self) -> usize {
        self.turn.leg
    }

    /// Whether what is bound is needed when the answer is there.
    #[inline]
    fn keeps(&self) -> bool {
        self.kept || self.draw.statement.is_some() || self.draw.kind == Kind::ReadModifyWrite
    }

    #[inline]
    fn draw(&mut self, leg: usize, number: u64, intended_ns: u64) {
        if leg != self.turn.leg {
            self.group = &self.stretch.legs[leg].groups[self.seat];
        }
        let stream = &self.group.stream;
        self.turn.leg = leg;
        self.turn.number = number;
        self.turn.intended_ns = intended_ns;
        self.read = None;
        if self.group.taped {
            self.draw = self.taken.draw(number, &self.group.statements);
            return;
        }
        stream.draw_into(number, &self.stretch.inserts, &mut self.draw);
        if let Some(scan) = &self.stretch.scan {
            self.draw.ordinal = scan.ordinal(number);
        }
        if let Some(expected) = self.group.expected {
            let tag = expected.tag.and_then(|_| stream.tag(self.draw.ordinal));
            self.expected = Some(Expected { tag, ..expected });
        }
        if self.draw.kind == Kind::Insert && self.draw.statement.is_none() {
            stream.insert_into(&mut self.draw, &self.stretch.inserts);
        }
    }

    /// Writes down the operation that ended last, if that wasn't done yet. To be called before its
    /// client waits.
    #[inline]
    pub(crate) fn write_down(&mut self) {
        if let Some((leg, sample)) = &self.ended {
            self.ledger.complete(*leg, self.group.group, sample);
        }
        self.ended = None;
    }

    /// The request to be executed now, bound to the same memory as when it began.
    #[inline]
    pub(crate) fn request<'b>(&'b self, shared: &'b Bound) -> Request<'b> {
        let kind = self.executing();
        let bound = if self.keeps() { &self.own } else { shared };
        let mut request = Request {
            number: self.draw.version,
            at_us: ((self.stretch.started_wall_ns + self.begun_ns) / 1000) as i64,
            kind,
            key: &bound.key,
            columns: columns(self.group, &self.draw),
            values: Values::NONE,
            scan_length: self.draw.scan_length,
            wants_values: kind == Kind::Read && self.checked,
            expected: if kind == Kind::Read { self.expected.as_ref() } else { None },
            statement: None,
        };
        if matches!(kind, Kind::Update | Kind::Insert) {
            request.values = Values { bytes: &bound.values.bytes, places: &bound.values.places };
        }
        if let Some(index) = self.draw.statement {
            request.statement = Some(call(index, &bound.arguments, bound.widths));
        }
        request
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

    /// Decides the outcome of a request; no answer means that it was given up. Where the engine
    /// gives requests up, one that was answered had not been found without its answer after the
    /// limit: the answer was read late, and may have come in time.
    #[inline(always)]
    pub(crate) fn judge(
        &self,
        issued_ns: u64,
        completed_ns: u64,
        answer: Option<Outcome>,
        reply: &Reply,
    ) -> Executed {
        let late = self.stretch.timeout_ns.is_some_and(|limit| completed_ns - issued_ns > limit);
        let outcome = match answer {
            None => Outcome::Timeout,
            Some(outcome) if late && !outcome.is_failure() && !self.stretch.cancels => {
                Outcome::Timeout
            }
            Some(outcome) if !outcome.is_failure() => {
                if late {
                    self.ledger.note_read_late(self.turn.leg, self.group.group);
                }
                self.verified(outcome, reply)
            }
            Some(outcome) => outcome,
        };
        Executed { issued_ns, completed_ns, outcome }
    }

    /// Takes what was executed; whether the operation has ended with it.
    #[inline(always)]
    pub(crate) fn end(&mut self, done: Executed, rows: u64, reply: &Reply) -> bool {
        self.remember(&done, reply);
        match self.draw.kind {
            Kind::ReadModifyWrite => return self.end_part(done, rows),
            Kind::Insert if !self.group.taped => self.end_inserts(done.outcome),
            Kind::Insert | Kind::Read | Kind::Update | Kind::Scan | Kind::Delete => {}
        }
        self.end_whole(&done, rows);
        true
    }

    /// Takes that the request under way was given up with its phase. What it writes may be done at
    /// any time.
    #[cold]
    pub(crate) fn abandon(&self, at_ns: u64) {
        let outcome = Outcome::Timeout;
        let done = Executed { issued_ns: self.begun_ns, completed_ns: at_ns, outcome };
        self.remember(&done, &Reply::default());
    }

    /// Adds what a request wrote to the history, where there is one.
    #[inline]
    fn remember(&self, done: &Executed, reply: &Reply) {
        if let Some(history) = self.group.keeps.as_ref().and_then(|keeps| keeps.history.as_ref())
            && !matches!(self.executing(), Kind::Read | Kind::Scan)
        {
            let end = WriteEnd { begun_ns: self.begun_ns, done, reply };
            history.end(&self.group.stream, &self.draw, &self.own.arguments, &end);
        }
    }

    fn end_inserts(&self, outcome: Outcome) {
        let own = [self.draw.ordinal];
        let several = &self.own.arguments.inserted;
        let ordinals = if self.draw.statement.is_some() { &several[..] } else { &own };
        for ordinal in ordinals {
            if outcome.is_failure() {
                self.stretch.inserts.fail(*ordinal);
            } else {
                self.stretch.inserts.acknowledge(*ordinal);
            }
        }
    }

    /// A read and an update of one record: measured as its parts and as itself.
    fn end_part(&mut self, done: Executed, rows: u64) -> bool {
        let group = self.group.group;
        let Some((read, read_rows)) = self.read else {
            let action = Action::Part(Kind::Read);
            let part = sample(action, self.turn.intended_ns, self.free_ns, &done, rows);
            self.ledger.record(self.turn.leg, group, &part);
            if done.outcome.is_failure() {
                self.end_whole(&done, rows);
                return true;
            }
            self.read = Some((done, rows));
            return false;
        };
        let (action, read_ns) = (Action::Part(Kind::Update), read.completed_ns);
        let part = sample(action, read_ns, read_ns, &done, rows);
        self.ledger.record(self.turn.leg, group, &part);
        let outcome = read.outcome.max(done.outcome);
        self.end_whole(&Executed { issued_ns: read.issued_ns, outcome, ..done }, read_rows);
        true
    }

    #[inline]
    fn end_whole(&mut self, whole: &Executed, rows: u64) {
        if let Some(keeps) = &self.group.keeps {
            self.keep(keeps, whole);
        }
        let action = self.draw.statement.map_or(Action::Kind(self.draw.kind), Action::Statement);
        let ended = sample(action, self.turn.intended_ns, self.free_ns, whole, rows);
        self.ended = Some((self.turn.leg, ended));
        let begun_ns = self.turn.intended_ns.max(self.free_ns);
        self.free_ns = begun_ns + (whole.completed_ns - whole.issued_ns);
    }

    /// Logs the operation, where that is wanted.
    #[inline(never)]
    fn keep(&self, keeps: &Keeps, whole: &Executed) {
        let (stream, own) = (&self.group.stream, &self.own);
        if let Some(pen) = self.ledger.pen().filter(|_| keeps.logged) {
            pen.write(&Ended {
                group: self.group.group,
                ticket: self.ticket,
                intended_ns: self.turn.intended_ns,
                draw: &self.draw,
                done: whole,
                key: &own.key,
                written: own.values.bytes.len(),
                arguments: &own.arguments,
                widths: own.widths,
                stream,
            });
        }
    }

    /// The client had to wait for something else than its operations until then.
    pub(crate) fn free_from(&mut self, instant_ns: u64) {
        self.free_ns = instant_ns;
    }

    /// Takes time in which the worker was away off what the last operation took: its answer may
    /// have come at any moment of it.
    #[cold]
    pub(crate) fn forgive(&mut self, away_ns: u64) {
        let least_ns = self.turn.intended_ns;
        self.free_ns = self.free_ns.saturating_sub(away_ns).max(least_ns);
    }

    /// The outcome of a request that was carried out, once what it read is compared with what must
    /// be there.
    #[inline]
    fn verified(&self, outcome: Outcome, reply: &Reply) -> Outcome {
        if !self.checked || self.executing() != Kind::Read {
            return outcome;
        }
        if let Some(scan) = &self.stretch.scan {
            let reply = (outcome == Outcome::Ok).then_some(reply);
            return scan.judge(&self.group.stream, &self.draw, &self.own.key, reply);
        }
        if outcome == Outcome::Ok && !self.values_match(reply) {
            return Outcome::Mismatch;
        }
        outcome
    }

    /// Whether a checked read returned each field that was asked for, with the value that must be
    /// there.
    fn values_match(&self, reply: &Reply) -> bool {
        let stream = &self.group.stream;
        if self.draw.statement.is_some() {
            let found = reply.cells.iter().map(|cell| reply.bytes_of(cell));
            let cells = reply.cells.iter().map(|cell| (cell.row, cell.field, reply.bytes_of(cell)));
            return stream.holds(&self.draw, &self.own.arguments, found)
                && stream.checks(&self.draw, &self.own.arguments, reply.rows, cells);
        }
        let asked = match self.group.read_fields {
            FieldChoice::One => 1,
            FieldChoice::All | FieldChoice::AllByName => self.group.fields as usize,
        };
        let found = reply.cells.iter().map(|cell| (cell.field, reply.bytes_of(cell)));
        reply.cells.len() == asked && stream.expected(&self.own.key, found)
    }
}

#[inline]
fn bind(group: &GroupShared, stretch: &Stretch, draw: &Draw, bound: &mut Bound) {
    if draw.statement.is_some() {
        return bind_statement(group, stretch, draw, bound);
    }
    let stream = &group.stream;
    stream.key_into(draw.ordinal, &mut bound.key);
    match draw.kind {
        Kind::Insert => {
            let owner = Owner { ordinal: draw.ordinal, key: &bound.key };
            stream.insert_values_into(draw.version, owner, &mut bound.values);
        }
        Kind::Update | Kind::ReadModifyWrite => {
            stream.update_values_into(draw, &bound.key, &mut bound.values);
        }
        Kind::Read | Kind::Scan | Kind::Delete => {}
    }
}

/// [`bind`] of what was kept.
#[inline(never)]
fn bind_kept(
    group: &GroupShared,
    draw: &Draw,
    kept: &Kept,
    key: &mut Vec<u8>,
    values: &mut ValueBuffer,
) {
    let stream = &group.stream;
    match kept.key() {
        Some(own) => {
            key.clear();
            key.extend_from_slice(own);
        }
        None => stream.key_into(draw.ordinal, key),
    }
    if matches!(draw.kind, Kind::Read | Kind::Scan | Kind::Delete) {
        return;
    }
    match kept.value() {
        Some(own) => {
            values.clear();
            values.bytes.extend_from_slice(own);
            values.places.push((0, 0..own.len()));
        }
        None => {
            let owner = Owner { ordinal: draw.ordinal, key };
            stream.insert_values_into(draw.version, owner, values);
        }
    }
}

#[inline(never)]
fn bind_statement(group: &GroupShared, stretch: &Stretch, draw: &Draw, bound: &mut Bound) {
    let stream = &group.stream;
    bound.widths = stream.arguments_into(draw, &stretch.inserts, &mut bound.arguments);
    bound.key.clear();
    // Drivers find it among the arguments; only who looks for what was written asks for it.
    if stretch.scan.is_some()
        && let Some(first) = bound.arguments.ordinals.first()
    {
        stream.key_into(*first, &mut bound.key);
    }
}

#[inline]
fn sample(action: Action, intended_ns: u64, free_ns: u64, done: &Executed, rows: u64) -> Sample {
    Sample {
        action,
        outcome: done.outcome,
        intended_ns,
        free_ns,
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

/// A statement with its arguments.
#[inline]
pub(crate) fn call(statement: u32, arguments: &ArgumentBuffer, widths: [u32; 3]) -> Call<'_> {
    let ArgumentBuffer { bytes, places, commands, .. } = arguments;
    Call { statement, bytes, places, commands, widths }
}
