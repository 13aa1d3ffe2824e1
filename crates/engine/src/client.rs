//! A client: takes its next operation, waits until it is due, executes it, writes it down.
//!
//! The same loop serves the closed and the open model, threads and tasks, real and simulated time.
//! In the open model a free client takes the next arrival and waits for it, so arrivals are issued
//! in order, and one that is late is issued all the same, with its intended start.

use kvmark_driver::{Columns, Reply, Request, Session, Values};
use kvmark_plan::{FieldChoice, Kind, Outcome};
use kvmark_record::Sample;
use kvmark_workload::{Draw, ValueBuffer};

use crate::ledger::Ledger;
use crate::phase::{GroupShared, PhaseShared, Seat};
use crate::source::{Source, Turn};
use crate::wait::Wait;

/// What the clients of one worker have before them during a phase.
#[derive(Debug)]
pub(crate) struct Desk<'a, S, W> {
    pub(crate) phase: &'a PhaseShared,
    pub(crate) session: &'a S,
    pub(crate) wait: &'a W,
    pub(crate) ledger: &'a Ledger<'a>,
    /// One per group of the phase.
    pub(crate) sources: Vec<Source<'a>>,
}

/// A client's memory, used again for each operation.
#[derive(Debug, Default)]
struct Buffers {
    key: Vec<u8>,
    values: ValueBuffer,
    reply: Reply,
}

/// One request from issue to outcome.
#[derive(Clone, Copy, Debug)]
struct Executed {
    issued_ns: u64,
    completed_ns: u64,
    outcome: Outcome,
    waited: bool,
}

/// Runs a client until its numbers are used up or the phase ends.
pub(crate) async fn client<S: Session, W: Wait>(desk: &Desk<'_, S, W>, seat: Seat) {
    let phase = desk.phase;
    let source = &desk.sources[seat.group];
    let mut buffers = Buffers::default();
    let mut ready_ns = phase.start_ns;
    if !desk.wait.until(ready_ns, phase).await {
        return;
    }
    loop {
        // Where the place holds a lock the client has a thread of its own, so nothing suspends.
        let mut place = source.enter();
        let Some(turn) = place.next(ready_ns) else { return };
        let in_time = if turn.intended_ns <= ready_ns {
            ready_ns < phase.end_ns()
        } else {
            desk.wait.until(turn.intended_ns, phase).await
        };
        drop(place);
        if !in_time {
            return;
        }
        ready_ns = desk.perform(seat, turn, &mut buffers).await;
    }
}

impl<S: Session, W: Wait> Desk<'_, S, W> {
    /// Carries out one operation; returns when the client is free again.
    #[inline]
    async fn perform(&self, seat: Seat, turn: Turn, buffers: &mut Buffers) -> u64 {
        let group = &self.phase.groups[seat.group];
        let draw = group.stream.draw(turn.number, &self.phase.inserts);
        let done = if draw.kind == Kind::ReadModifyWrite {
            self.read_modify_write(seat, turn, &draw, buffers).await
        } else {
            self.single(seat, turn, &draw, buffers).await
        };
        if !done.waited {
            self.wait.breathe().await;
        }
        done.completed_ns
    }

    #[inline]
    async fn single(&self, seat: Seat, turn: Turn, draw: &Draw, buffers: &mut Buffers) -> Executed {
        let group = &self.phase.groups[seat.group];
        let inserts = draw.kind == Kind::Insert;
        let ordinal = if inserts { self.phase.inserts.next() } else { draw.ordinal };
        group.stream.key_into(ordinal, &mut buffers.key);
        if inserts {
            group.stream.insert_values_into(turn.number, &buffers.key, &mut buffers.values);
        } else if draw.kind == Kind::Update {
            group.stream.update_values_into(draw, &buffers.key, &mut buffers.values);
        }
        self.ledger.issue(group.group);
        let done = self.execute(seat, draw, draw.kind, buffers).await;
        if inserts {
            self.end_insert(ordinal, done.outcome);
        }
        let sample = sample(draw.kind, false, turn.intended_ns, &done, buffers.reply.rows);
        self.ledger.complete(group.group, &sample);
        done
    }

    /// A read and an update of one record: measured as itself and as its parts.
    async fn read_modify_write(
        &self,
        seat: Seat,
        turn: Turn,
        draw: &Draw,
        buffers: &mut Buffers,
    ) -> Executed {
        let group = &self.phase.groups[seat.group];
        group.stream.key_into(draw.ordinal, &mut buffers.key);
        group.stream.update_values_into(draw, &buffers.key, &mut buffers.values);
        self.ledger.issue(group.group);
        let read = self.execute(seat, draw, Kind::Read, buffers).await;
        let rows = buffers.reply.rows;
        self.ledger.record(group.group, &sample(Kind::Read, true, turn.intended_ns, &read, rows));
        let mut whole = read;
        if !read.outcome.is_failure() {
            let update = self.execute(seat, draw, Kind::Update, buffers).await;
            let part = sample(Kind::Update, true, read.completed_ns, &update, buffers.reply.rows);
            self.ledger.record(group.group, &part);
            whole.completed_ns = update.completed_ns;
            whole.waited |= update.waited;
            if read.outcome == Outcome::Ok {
                whole.outcome = update.outcome;
            }
        }
        let sample = sample(Kind::ReadModifyWrite, false, turn.intended_ns, &whole, rows);
        self.ledger.complete(group.group, &sample);
        whole
    }

    /// Stamps, hands the request to the session, stamps, and checks what came back.
    #[inline]
    async fn execute(
        &self,
        seat: Seat,
        draw: &Draw,
        kind: Kind,
        buffers: &mut Buffers,
    ) -> Executed {
        let group = &self.phase.groups[seat.group];
        let Buffers { key, values, reply } = buffers;
        let wants_values = group.check_values && kind == Kind::Read;
        let writes = matches!(kind, Kind::Update | Kind::Insert);
        let request = Request {
            number: draw.version,
            kind,
            key,
            columns: columns(group, draw),
            values: if writes {
                Values { bytes: &values.bytes, places: &values.places }
            } else {
                Values::NONE
            },
            scan_length: draw.scan_length,
            wants_values,
        };
        reply.clear();
        let limit_ns = if self.phase.cancels { self.phase.timeout_ns } else { None };
        let issued_ns = self.wait.now_ns();
        let work = self.session.execute(seat.client, &request, reply);
        let within = self.wait.within(seat.client as usize, limit_ns, work).await;
        let completed_ns = self.wait.now_ns();
        let late = self.phase.timeout_ns.is_some_and(|limit| completed_ns - issued_ns > limit);
        let mut outcome = match within.output {
            None => Outcome::Timeout,
            Some(outcome) if late && !outcome.is_failure() => Outcome::Timeout,
            Some(outcome) => outcome,
        };
        if wants_values && outcome == Outcome::Ok && !matches(group, key, request.columns, reply) {
            outcome = Outcome::Mismatch;
        }
        if outcome.is_failure() {
            self.ledger.note_failure(outcome, self.session.last_failure());
        }
        Executed { issued_ns, completed_ns, outcome, waited: within.waited }
    }

    fn end_insert(&self, ordinal: u64, outcome: Outcome) {
        if outcome.is_failure() {
            self.phase.inserts.fail(ordinal);
        } else {
            self.phase.inserts.acknowledge(ordinal);
        }
    }
}

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

fn columns(group: &GroupShared, draw: &Draw) -> Columns {
    match group.read_fields {
        FieldChoice::All => Columns::All,
        FieldChoice::AllByName => Columns::AllByName,
        FieldChoice::One => Columns::One(draw.field),
    }
}

/// Whether a reply holds every field asked for, each with the value that must be there.
fn matches(group: &GroupShared, key: &[u8], columns: Columns, reply: &Reply) -> bool {
    let asked = if matches!(columns, Columns::One(_)) { 1 } else { group.fields as usize };
    reply.cells.len() == asked
        && reply
            .cells
            .iter()
            .all(|cell| group.stream.expected(key, cell.field, reply.bytes_of(cell)))
}
