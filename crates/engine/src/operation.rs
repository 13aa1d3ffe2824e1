//! A client's operation: bound to key and values, executed in one or two parts, recorded.
//!
//! Nothing here waits. The memory is reused from operation to operation.

use kvmark_driver::{Call, Columns, Expected, Reply, Request, Ticket, Values};
use kvmark_plan::{FieldChoice, Fill, Kind, Outcome};
use kvmark_record::{Action, Sample};
use kvmark_workload::{ArgumentBuffer, Draw, RecordRef, TapedContent, ValueBuffer};

use crate::attempts::Attempts;
use crate::claims::Claim;
use crate::op_log::Ended;
use crate::scheduled::Executed;
use crate::scheduled::ScheduledOp;
use crate::sequence::{GroupShared, PhaseSequence};
use crate::tape::TapedOp;
use crate::worker_recorder::{CountCells, WorkerRecorder};
use crate::write_history::Span;

/// A client's current operation.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    sequence: &'a PhaseSequence,
    /// Index of the client's group in the phase sequence.
    seat: usize,
    /// The group in the phase to which the operation belongs.
    group: &'a GroupShared,
    recorder: &'a WorkerRecorder<'a>,
    /// Identifies the client on its worker.
    ticket: Ticket,
    /// Whether values that are read are compared with the expected ones.
    checked: bool,
    /// Whether bound values are needed for that, for the log, or for further attempts.
    kept: bool,
    /// Whether operations aren't just drawn: they come from a tape, read records back, or expect
    /// properties of them.
    special: bool,
    counts: &'a CountCells,
    /// Whether an operation's intended start is its issue: its client has a thread, and neither a
    /// schedule nor a think time.
    pub(crate) unpaced: bool,
    turn: ScheduledOp,
    /// When the client would have been free if the worker had never been late.
    free_ns: u64,
    /// Before the current request was passed to the driver.
    pub(crate) begun_ns: u64,
    draw: Draw,
    /// The properties that a record must have when it is read.
    expected: Option<Expected>,
    /// The operation's data on a tape, if it comes from one.
    pub(crate) taped_op: TapedOp,
    /// The attempts so far, in a group with a retry policy.
    attempts: Attempts,
    /// The read of an operation whose second part is in flight, and its number of records.
    read: Option<(Executed, u64)>,
    /// The bound values if they are needed when the answer arrives.
    own: Bound,
}

/// Key, values and arguments of an operation. The memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Bound {
    pub(crate) key: Vec<u8>,
    pub(crate) values: ValueBuffer,
    pub(crate) arguments: ArgumentBuffer,
    /// Arguments of an operation, a command and an item of the drawn statement.
    pub(crate) widths: [u32; 3],
}

const NOTHING: Draw =
    Draw { kind: Kind::Read, statement: None, ordinal: 0, scan_length: 0, field: 0, version: 0 };

impl<'a> Operation<'a> {
    /// The memory of a client of this group.
    pub(crate) fn new(
        sequence: &'a PhaseSequence,
        seat: usize,
        ticket: Ticket,
        recorder: &'a WorkerRecorder<'a>,
    ) -> Self {
        let group = &sequence.phases[0].groups[seat];
        let checked = group.checks_fully || sequence.scan.is_some();
        let any = |is_it: fn(&GroupShared) -> bool| {
            sequence.phases.iter().any(|phase| is_it(&phase.groups[seat]))
        };
        let logged = any(|group| group.logged) && recorder.log_writer().is_some();
        Self {
            sequence,
            seat,
            group,
            recorder,
            ticket,
            checked,
            kept: checked || logged || any(|group| group.retries.is_some() || group.fill.is_some()),
            special: is_special(sequence, group),
            unpaced: false,
            counts: recorder.counts_of(sequence.counter(0, group.group)),
            turn: ScheduledOp { phase: 0, number: 0, intended_ns: 0 },
            free_ns: sequence.start_ns(),
            begun_ns: 0,
            draw: NOTHING,
            expected: None,
            taped_op: TapedOp::NOTHING,
            attempts: Attempts::NONE,
            read: None,
            own: Bound::default(),
        }
    }

    /// Draws the operation and binds key and values, in memory that clients share unless the values
    /// are needed later.
    #[inline(always)]
    pub(crate) fn begin(&mut self, turn: ScheduledOp, shared: &mut Bound) {
        if turn.phase != self.turn.phase {
            self.enter_phase(turn.phase);
        }
        self.turn = turn;
        self.read = None;
        if self.special {
            self.begin_special(shared);
        } else {
            self.group.stream.draw_into(turn.number, &self.sequence.inserts, &mut self.draw);
            self.bind(shared);
        }
        self.counts.issue();
    }

    /// Whether the operations come from a tape.
    #[inline]
    pub(crate) fn is_taped(&self) -> bool {
        self.group.taped
    }

    /// Takes the data of an operation from a tape, which `give` returns.
    #[inline]
    pub(crate) fn take<T>(&mut self, give: impl FnOnce(&mut TapedOp, &mut TapedContent) -> T) -> T {
        give(&mut self.taped_op, &mut self.own.arguments.taped)
    }

    /// Binds an operation of a tape: a key and a value on the tape are used as they are.
    #[inline(never)]
    fn bind_taken(&mut self, shared: &mut Bound) {
        let keeps = self.keeps();
        let Self { group, sequence, draw, taped_op, own, .. } = self;
        if draw.statement.is_some() {
            own.arguments.taped.ttl_ms = taped_op.ttl_ms;
            own.arguments.taped.scan_length = draw.scan_length;
            return bind_statement(group, sequence, draw, own);
        }
        if own.arguments.taped.is_empty() {
            return bind_drawn(group, sequence, draw, if keeps { own } else { shared });
        }
        let Bound { key, values, arguments: ArgumentBuffer { taped, .. }, .. } = own;
        let (key, values) =
            if keeps { (key, values) } else { (&mut shared.key, &mut shared.values) };
        bind_content(group, draw, taped, key, values);
    }

    /// The key or client on which the operation must not overtake others.
    #[inline]
    pub(crate) fn claim(&self) -> Option<Claim> {
        self.group.ordered.then_some(self.taped_op.claim)
    }

    /// The phase to which the operation belongs.
    pub(crate) fn phase(&self) -> usize {
        self.turn.phase
    }

    /// Whether the bound values are needed when the answer arrives.
    #[inline]
    fn keeps(&self) -> bool {
        self.kept || self.draw.statement.is_some() || self.draw.kind == Kind::ReadModifyWrite
    }

    #[cold]
    fn enter_phase(&mut self, phase: usize) {
        self.group = &self.sequence.phases[phase].groups[self.seat];
        let counter = self.sequence.counter(phase, self.group.group);
        self.counts = self.recorder.counts_of(counter);
        self.special = is_special(self.sequence, self.group);
    }

    /// Binds a drawn operation.
    #[inline(always)]
    fn bind(&mut self, shared: &mut Bound) {
        if self.draw.kind == Kind::Insert && self.draw.statement.is_none() {
            self.group.stream.insert_into(&mut self.draw, &self.sequence.inserts);
        }
        let bound = if self.keeps() { &mut self.own } else { shared };
        bind(self.group, self.sequence, &self.draw, bound);
    }

    #[inline(never)]
    fn begin_special(&mut self, shared: &mut Bound) {
        let (stream, number) = (&self.group.stream, self.turn.number);
        if self.group.taped {
            self.draw = self.taped_op.draw(number, &self.group.statements);
            return self.bind_taken(shared);
        }
        stream.draw_into(number, &self.sequence.inserts, &mut self.draw);
        if let Some(scan) = &self.sequence.scan {
            self.draw.ordinal = scan.ordinal(number);
        }
        if let Some(expected) = self.group.expected {
            let tag = expected.tag.and_then(|_| stream.records().tag(self.draw.ordinal));
            self.expected = Some(Expected { tag, ..expected });
        }
        self.bind(shared);
    }

    /// The request to execute now, bound to the same memory as when the operation began.
    #[inline]
    pub(crate) fn request<'b>(&'b self, shared: &'b Bound) -> Request<'b> {
        let kind = self.executing();
        let bound = if self.keeps() { &self.own } else { shared };
        let mut request = Request {
            number: self.draw.version,
            at_us: ((self.sequence.started_wall_ns + self.begun_ns) / 1000) as i64,
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

    /// The kind to execute now: for a read-modify-write the read, then the update.
    #[inline]
    fn executing(&self) -> Kind {
        match (self.draw.kind, &self.read) {
            (Kind::ReadModifyWrite, None) => Kind::Read,
            (Kind::ReadModifyWrite, Some(_)) => Kind::Update,
            (kind, _) => kind,
        }
    }

    /// Decides the outcome of a request; without an answer it was given up. If the engine gives
    /// requests up, an answer after the limit was only read late and may have arrived in time.
    #[inline(always)]
    pub(crate) fn judge(
        &self,
        issued_ns: u64,
        completed_ns: u64,
        answer: Option<Outcome>,
        reply: &Reply,
    ) -> Executed {
        let late = self.sequence.timeout_ns.is_some_and(|limit| completed_ns - issued_ns > limit);
        let outcome = match answer {
            None => Outcome::Timeout,
            Some(outcome) if late && !outcome.is_failure() && !self.sequence.cancels => {
                Outcome::Timeout
            }
            Some(outcome) if !outcome.is_failure() => {
                if late {
                    self.counts.note_read_late();
                }
                self.verified(outcome, reply)
            }
            Some(outcome) => outcome,
        };
        Executed { issued_ns, completed_ns, outcome }
    }

    /// Takes a failed attempt. Returns when the next one is due; `None` if it was the last. No
    /// attempt is due after the end of the phase sequence.
    #[cold]
    #[inline(never)]
    pub(crate) fn retry(&mut self, done: Executed, reply: &Reply) -> Option<u64> {
        let retries = self.group.retries.as_ref()?;
        let made = self.attempts.made + 1;
        let pause_ns = retries.pause_ns(self.turn.number, made, done.outcome)?;
        let due_ns = done.completed_ns.saturating_add(pause_ns);
        if due_ns >= self.sequence.end_ns() {
            return None;
        }
        self.remember(&done, reply);
        self.record_attempt(&done);
        (self.attempts.due_ns, self.attempts.last) = (due_ns, done);
        Some(due_ns)
    }

    /// Ends the operation before its next attempt, because the phase sequence has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_in_pause(&mut self) {
        self.attempts.are_over = true;
        self.end_failed(self.attempts.last, 0, &Reply::default());
    }

    /// As [`Self::end`], outside of the path of successful operations.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_failed(&mut self, done: Executed, rows: u64, reply: &Reply) -> bool {
        self.end(done, rows, reply)
    }

    #[cold]
    #[inline(never)]
    fn record_attempt(&mut self, done: &Executed) {
        let (intended_ns, free_ns) = match (self.attempts.made, &self.read) {
            (0, Some((read, _))) => (read.completed_ns, read.completed_ns),
            (0, None) if self.unpaced => (done.issued_ns, self.free_ns),
            (0, None) => (self.turn.intended_ns, self.free_ns),
            _ => (self.attempts.due_ns, self.attempts.due_ns),
        };
        if self.attempts.made == 0 {
            self.attempts.issued_ns = done.issued_ns;
        }
        self.attempts.made += 1;
        let attempt = sample(Action::Attempt, intended_ns, free_ns, done, 0);
        self.recorder.record(self.turn.phase, self.group.group, &attempt);
    }

    /// The request with all its attempts, after the last one.
    #[inline(never)]
    fn end_attempts(&mut self, done: Executed) -> Executed {
        if !self.attempts.are_over {
            self.record_attempt(&done);
        }
        let issued_ns = std::mem::replace(&mut self.attempts, Attempts::NONE).issued_ns;
        let whole = Executed { issued_ns, ..done };
        if self.read.is_none() {
            self.intend(&whole);
        }
        whole
    }

    /// Takes an executed request. Returns whether the operation is complete.
    #[inline(always)]
    pub(crate) fn end(&mut self, done: Executed, rows: u64, reply: &Reply) -> bool {
        self.remember(&done, reply);
        match self.draw.kind {
            Kind::ReadModifyWrite => return self.end_part(done, rows),
            Kind::Insert if !self.group.taped => self.end_inserts(done.outcome),
            Kind::Insert | Kind::Read | Kind::Update | Kind::Scan | Kind::Delete => {}
        }
        self.intend(&done);
        self.end_whole(&done, rows)
    }

    /// Sets the intended start to the issue of an operation without schedule.
    #[inline]
    fn intend(&mut self, done: &Executed) {
        if self.unpaced {
            self.turn.intended_ns = done.issued_ns;
        }
    }

    /// Gives up the request in flight with its phase. The system may still apply its write at any
    /// time.
    #[cold]
    pub(crate) fn abandon(&self, at_ns: u64) {
        let outcome = Outcome::Timeout;
        let done = Executed { issued_ns: self.begun_ns, completed_ns: at_ns, outcome };
        self.remember(&done, &Reply::default());
    }

    /// Adds the request's write to the history, if there is one.
    #[inline]
    fn remember(&self, done: &Executed, reply: &Reply) {
        if let Some(history) = &self.group.history
            && !matches!(self.executing(), Kind::Read | Kind::Scan)
        {
            let span = Span { begun_ns: self.begun_ns, completed_ns: done.completed_ns };
            let (stream, arguments) = (&self.group.stream, &self.own.arguments);
            history.end(stream, &self.draw, arguments, (span, done.outcome), reply);
        }
    }

    #[inline(never)]
    fn end_inserts(&self, outcome: Outcome) {
        if self.read.is_some() {
            // A fill takes no new record.
            return;
        }
        let own = [self.draw.ordinal];
        let several = &self.own.arguments.inserted;
        let ordinals = if self.draw.statement.is_some() { &several[..] } else { &own };
        for ordinal in ordinals {
            if outcome.is_failure() {
                self.sequence.inserts.fail(*ordinal);
            } else {
                self.sequence.inserts.acknowledge(*ordinal);
            }
        }
    }

    /// Ends a part of a read-modify-write, which is measured as two parts and as a whole.
    #[inline(never)]
    fn end_part(&mut self, done: Executed, rows: u64) -> bool {
        let group = self.group.group;
        let retries = self.group.retries.is_some();
        let done = if retries { self.end_attempts(done) } else { done };
        let Some((read, read_rows)) = self.read else {
            self.intend(&done);
            let action = Action::Part(Kind::Read);
            let part = sample(action, self.turn.intended_ns, self.free_ns, &done, rows);
            self.recorder.record(self.turn.phase, group, &part);
            if done.outcome.is_failure() {
                return self.end_whole(&done, rows);
            }
            self.read = Some((done, rows));
            return false;
        };
        let (action, read_ns) = (Action::Part(Kind::Update), read.completed_ns);
        let part = sample(action, read_ns, read_ns, &done, rows);
        self.recorder.record(self.turn.phase, group, &part);
        let outcome = read.outcome.max(done.outcome);
        self.end_whole(&Executed { issued_ns: read.issued_ns, outcome, ..done }, read_rows)
    }

    /// Returns whether the operation is complete.
    #[inline(always)]
    fn end_whole(&mut self, whole: &Executed, rows: u64) -> bool {
        if self.group.ends_apart {
            return self.end_apart(*whole, rows);
        }
        self.complete(whole, rows);
        true
    }

    /// As [`Self::complete`], with the operation's attempts, the log and the fill after a miss.
    #[inline(never)]
    fn end_apart(&mut self, mut whole: Executed, rows: u64) -> bool {
        if self.group.retries.is_some() && self.draw.kind != Kind::ReadModifyWrite {
            whole = self.end_attempts(whole);
        }
        if self.group.logged {
            self.log(whole);
        }
        let Some(fill) = self.group.fill else {
            self.complete(&whole, rows);
            return true;
        };
        if let Some((read, _)) = self.read {
            self.end_fill(fill, read.completed_ns, &whole, rows);
            return true;
        }
        self.complete(&whole, rows);
        let is_missing = (self.draw.kind, whole.outcome) == (Kind::Read, Outcome::Miss);
        if is_missing {
            self.begin_fill(fill, whole, rows);
        }
        !is_missing
    }

    /// Binds the write of the record that the read didn't find.
    fn begin_fill(&mut self, fill: Fill, read: Executed, rows: u64) {
        self.read = Some((read, rows));
        self.draw.statement = fill.statement;
        // An insert by a statement would take a new record.
        self.draw.kind = if fill.statement.is_some() { Kind::Update } else { Kind::Insert };
        bind(self.group, self.sequence, &self.draw, &mut self.own);
    }

    /// Records a fill, which was due when the read ended.
    fn end_fill(&mut self, fill: Fill, read_ns: u64, done: &Executed, rows: u64) {
        let action = fill.statement.map_or(Action::Part(Kind::Insert), Action::StatementPart);
        let part = sample(action, read_ns, read_ns, done, rows);
        self.recorder.record(self.turn.phase, self.group.group, &part);
        if !self.unpaced {
            self.free_ns += done.completed_ns - read_ns;
        }
    }

    #[inline(always)]
    fn complete(&mut self, whole: &Executed, rows: u64) {
        let action = self.draw.statement.map_or(Action::Kind(self.draw.kind), Action::Statement);
        let ended = sample(action, self.turn.intended_ns, self.free_ns, whole, rows);
        self.recorder.complete(self.turn.phase, self.group.group, self.counts, &ended);
        if !self.unpaced {
            let begun_ns = self.turn.intended_ns.max(self.free_ns);
            self.free_ns = begun_ns + (whole.completed_ns - whole.issued_ns);
        }
    }

    /// Logs the operation if a log is written.
    fn log(&self, whole: Executed) {
        if let Some(log_writer) = self.recorder.log_writer() {
            log_writer.write(&Ended {
                group: self.group.group,
                stream: &self.group.stream,
                ticket: self.ticket,
                intended_ns: self.turn.intended_ns,
                draw: &self.draw,
                done: &whole,
                bound: &self.own,
            });
        }
    }

    /// Sets when the client was free, after a wait that wasn't caused by its operations.
    pub(crate) fn free_from(&mut self, instant_ns: u64) {
        self.free_ns = instant_ns;
    }

    /// Subtracts the worker's absence from the last operation's time: the answer may have arrived
    /// at any moment of it.
    #[cold]
    pub(crate) fn forgive(&mut self, away_ns: u64) {
        let least_ns = self.turn.intended_ns;
        self.free_ns = self.free_ns.saturating_sub(away_ns).max(least_ns);
    }

    /// The outcome of an executed request after the comparison of the values.
    #[inline]
    fn verified(&self, outcome: Outcome, reply: &Reply) -> Outcome {
        if !self.checked || self.executing() != Kind::Read {
            return outcome;
        }
        if let Some(scan) = &self.sequence.scan {
            let reply = (outcome == Outcome::Ok).then_some(reply);
            return scan.judge(&self.group.stream, &self.draw, &self.own.key, reply);
        }
        if outcome == Outcome::Ok && !self.values_match(reply) {
            return Outcome::Mismatch;
        }
        outcome
    }

    /// Whether a checked read returned each requested field with the expected value.
    fn values_match(&self, reply: &Reply) -> bool {
        let stream = &self.group.stream;
        if let Some(template) = stream.template(&self.draw) {
            let cells = reply.cells.iter().map(|cell| (cell.row, cell.field, reply.bytes_of(cell)));
            return template.holds(stream.records(), &self.own.arguments, cells.clone())
                && template.checks(&self.own.arguments, reply.rows, cells);
        }
        let asked = match self.group.read_fields {
            FieldChoice::One => 1,
            FieldChoice::All | FieldChoice::AllByName => stream.records().fields() as usize,
        };
        let found = reply.cells.iter().map(|cell| (cell.field, reply.bytes_of(cell)));
        reply.cells.len() == asked && stream.records().expected(&self.own.key, found)
    }
}

/// Whether operations aren't just drawn.
fn is_special(sequence: &PhaseSequence, group: &GroupShared) -> bool {
    group.taped || sequence.scan.is_some() || group.expected.is_some()
}

#[inline(always)]
fn bind(group: &GroupShared, sequence: &PhaseSequence, draw: &Draw, bound: &mut Bound) {
    if draw.statement.is_some() {
        return bind_statement(group, sequence, draw, bound);
    }
    let stream = &group.stream;
    stream.records().key_into(draw.ordinal, &mut bound.key);
    match draw.kind {
        Kind::Insert => {
            let record = RecordRef { ordinal: draw.ordinal, key: &bound.key };
            stream.insert_values_into(draw.version, record, &mut bound.values);
        }
        Kind::Update | Kind::ReadModifyWrite => {
            stream.update_values_into(draw, &bound.key, &mut bound.values);
        }
        Kind::Read | Kind::Scan | Kind::Delete => {}
    }
}

/// [`bind`] of an operation from a tape, without its key and value.
#[inline(never)]
fn bind_drawn(group: &GroupShared, sequence: &PhaseSequence, draw: &Draw, bound: &mut Bound) {
    bind(group, sequence, draw, bound);
}

/// [`bind`] with a key or a value from a tape.
#[inline(never)]
fn bind_content(
    group: &GroupShared,
    draw: &Draw,
    taped: &TapedContent,
    key: &mut Vec<u8>,
    values: &mut ValueBuffer,
) {
    let stream = &group.stream;
    match taped.key() {
        Some(own) => {
            key.clear();
            key.extend_from_slice(own);
        }
        None => stream.records().key_into(draw.ordinal, key),
    }
    if matches!(draw.kind, Kind::Read | Kind::Scan | Kind::Delete) {
        return;
    }
    match taped.value() {
        Some(own) => {
            values.clear();
            values.bytes.extend_from_slice(own);
            values.places.push((0, 0..own.len()));
        }
        None => {
            let record = RecordRef { ordinal: draw.ordinal, key };
            stream.insert_values_into(draw.version, record, values);
        }
    }
}

#[inline(never)]
fn bind_statement(group: &GroupShared, sequence: &PhaseSequence, draw: &Draw, bound: &mut Bound) {
    let stream = &group.stream;
    bound.widths = stream.arguments_into(draw, &sequence.inserts, &mut bound.arguments);
    bound.key.clear();
    // Drivers find it among the arguments; only the verify phase needs it here.
    if sequence.scan.is_some()
        && let Some(first) = bound.arguments.ordinals.first()
    {
        stream.records().key_into(*first, &mut bound.key);
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
