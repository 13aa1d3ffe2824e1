//! The operations of clients: their requests and results.

use std::sync::Arc;

use kvmark_driver::{Columns, Effect, Expected, Reply, Request, Slot};
use kvmark_driver_server::framed::{InFlightOperation, Progress, RequestReply};
use kvmark_plan::{Kind, Outcome};

use crate::failure::{Failure, ended, is_fatal};
use crate::message::{Messages, Reader};
use crate::records::{Records, put_values};
use crate::text::{Text, put_argument};

/// The prepared texts, and their use.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) texts: Vec<Text>,
    /// The operations on YCSB's table, if it exists.
    pub(crate) records: Option<Records>,
    /// Number and arguments of each text of the user's statements.
    pub(crate) statements: Vec<Vec<(u32, Vec<Slot>)>>,
}

/// An execution of a text.
#[derive(Debug)]
struct Part {
    text: u32,
    command: u32,
    /// The number of rows that a write affected.
    affected: Option<u64>,
    effect: Effect,
}

/// The operation of a client.
#[derive(Debug, Default)]
pub struct PostgresOperation {
    progress: Progress,
    parts: Vec<Part>,
    is_read: bool,
    /// The only field of the rows, if they are records with one.
    only: Option<u32>,
    wants_values: bool,
    /// Whether rows are records, which are compared.
    is_record: bool,
    expected: Option<Expected>,
    /// Whether the record differs from the expected one.
    is_unlike: bool,
    /// The values of several parts.
    gathered: Reply,
}

impl PostgresOperation {
    /// Takes a row.
    #[inline]
    fn take_row(&mut self, mut row: Reader<'_>, reply: &mut Reply) -> Result<(), Failure> {
        let number = reply.rows as u32;
        reply.rows += 1;
        if !self.wants_values && self.expected.is_none() {
            return Ok(());
        }
        let mut comparison = self.expected.as_ref().map(Expected::compare);
        for field in 0..u32::from(row.count()?) {
            // Null is a missing field.
            let Some(value) = row.value()? else { continue };
            if let Some(comparison) = &mut comparison {
                comparison.see(value);
            }
            if self.wants_values {
                reply.push(number, self.only.unwrap_or(field), value);
            }
        }
        self.is_unlike |= comparison.is_some_and(|found| found.outcome() == Outcome::Mismatch);
        Ok(())
    }
}

impl RequestReply for PostgresOperation {
    #[inline]
    fn begin(
        &mut self,
        request: &Request<'_>,
        prepared: &mut Arc<Prepared>,
    ) -> Result<(), Failure> {
        self.parts.clear();
        self.gathered.clear();
        self.is_read = request.kind == Kind::Read;
        self.is_record = request.statement.is_none();
        (self.wants_values, self.is_unlike) = (request.wants_values, false);
        self.expected = request.expected.copied().filter(|_| self.is_record);
        self.only = match request.columns {
            Columns::One(field) if self.is_record => Some(field),
            _ => None,
        };
        let part = |text, command| Part { text, command, affected: None, effect: Effect::Unknown };
        if let Some(call) = &request.statement {
            let texts = &prepared.statements[call.statement as usize];
            for command in 0..call.commands.len() as u32 {
                self.parts.extend(texts.iter().map(|(text, _)| part(*text, command)));
            }
            return Ok(());
        }
        let records = prepared.records.ok_or_else(|| {
            let text = "there is no table with YCSB's columns: create it in the workload's \
                        preparation or use statements only";
            Failure::new(Outcome::Refused, text)
        })?;
        self.parts.push(part(records.text(request)?, 0));
        Ok(())
    }

    #[inline]
    fn requests(&self) -> usize {
        self.parts.len()
    }

    #[inline]
    fn put(
        &self,
        number: usize,
        request: &Request<'_>,
        prepared: &mut Arc<Prepared>,
        output: &mut Vec<u8>,
    ) {
        let Part { text, command, .. } = self.parts[number];
        let text = &prepared.texts[text as usize];
        let Some(call) = &request.statement else {
            return text.put(output, |output| put_values(output, request));
        };
        let texts = &prepared.statements[call.statement as usize];
        let (_, slots) = &texts[number % texts.len()];
        text.put(output, |output| {
            for (slot, parameter) in slots.iter().zip(&text.parameters) {
                let (kind, bytes) = call.argument(*slot, command as usize, 0);
                put_argument(output, *parameter, kind, bytes);
            }
        });
    }

    #[inline]
    fn take(
        &mut self,
        number: usize,
        reply: &[u8],
        _: &mut Arc<Prepared>,
        single: &mut Reply,
    ) -> Result<(), Failure> {
        let mut gathered = std::mem::take(&mut self.gathered);
        let into = if self.parts.len() > 1 {
            &mut gathered
        } else {
            single.clear();
            single
        };
        let mut taken = None;
        for (tag, body) in Messages(reply) {
            match tag {
                b'D' => self.take_row(Reader(body), into)?,
                b'C' | b'I' => {
                    let part = &mut self.parts[number];
                    part.affected = affected(body);
                    let applied = part.affected != Some(0);
                    part.effect = if applied { Effect::Applied } else { Effect::NotApplied };
                    taken = Some(Ok(()));
                }
                b'E' => {
                    // A connection may end after the transaction.
                    if !is_fatal(body) {
                        self.parts[number].effect = Effect::NotApplied;
                    }
                    taken = Some(Err(ended(body)));
                }
                _ => {}
            }
        }
        self.gathered = gathered;
        taken.unwrap_or_else(|| Err(Failure::unexpected_reply("a statement")))
    }
}

impl InFlightOperation for PostgresOperation {
    type Context = Arc<Prepared>;

    #[inline]
    fn progress(&mut self) -> &mut Progress {
        &mut self.progress
    }

    /// Counts the records and reports the effects of the writes. One of several texts of a command
    /// doesn't show the effects of the others.
    #[inline]
    fn finish<'a>(&'a mut self, single: &'a mut Reply) -> (Outcome, &'a Reply) {
        let reply = if self.parts.len() > 1 { &mut self.gathered } else { single };
        let mut is_missed = self.is_read && reply.rows == 0;
        let mut written = 0;
        for command in self.parts.chunk_by(|one, next| one.command == next.command) {
            let unapplied = command.iter().find(|part| part.effect != Effect::Applied);
            if let Some(Part { command: number, effect, .. }) = unapplied {
                let effect = if command.len() == 1 { *effect } else { Effect::Unknown };
                reply.effects.push((*number, effect));
                is_missed |= command.iter().any(|part| part.affected == Some(0));
            } else if command.iter().any(|part| part.affected.is_some()) {
                written += 1;
            }
        }
        if !self.is_record && reply.rows == 0 {
            reply.rows = written;
        }
        let outcome = match (is_missed, self.is_unlike) {
            (true, _) => Outcome::Miss,
            (false, true) => Outcome::Mismatch,
            (false, false) => Outcome::Ok,
        };
        (outcome, reply)
    }
}

/// The number of rows that a completed write affected; `None` for other statements.
#[inline]
fn affected(tag: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(tag.strip_suffix(b"\0")?).ok()?;
    let (words, count) = text.rsplit_once(' ')?;
    let is_write = matches!(words.split(' ').next()?, "INSERT" | "UPDATE" | "DELETE" | "MERGE");
    is_write.then(|| count.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_counts_its_rows() {
        let cases = [
            (&b"INSERT 0 1\0"[..], Some(1)),
            (b"UPDATE 0\0", Some(0)),
            (b"DELETE 12\0", Some(12)),
            (b"SELECT 3\0", None),
            (b"BEGIN\0", None),
            (b"", None),
        ];
        for (tag, count) in cases {
            assert_eq!(affected(tag), count);
        }
    }
}
