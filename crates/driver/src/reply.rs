//! The content of a session's answer.

use std::ops::Range;

use kvmark_plan::Outcome;

use crate::request::Expected;

/// The reply to one request; its memory is reused and never shrunk.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// Records returned.
    pub rows: u64,
    /// Bytes of the cells, one after the other.
    pub bytes: Vec<u8>,
    /// The values returned, where the request wants them.
    pub cells: Vec<Cell>,
    /// The writes of a request whose effect isn't [`Effect::Applied`], or differs from the
    /// outcome's: each with the number of its command. If empty, the outcome applies to all
    /// commands ([`Effect::of`]); otherwise the commands that aren't listed were applied.
    pub effects: Vec<(u32, Effect)>,
}

/// The effect of a command's write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The system acknowledged it.
    Applied,
    /// The system didn't do it: a condition didn't hold, or it refused.
    NotApplied,
    /// It may have been done, all of it or a part, or be done later.
    Unknown,
}

impl Effect {
    /// The effect of a request's only command, as far as its outcome implies it.
    #[must_use]
    pub const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Ok | Outcome::Mismatch => Self::Applied,
            Outcome::Miss | Outcome::Refused => Self::NotApplied,
            Outcome::Timeout
            | Outcome::Connection
            | Outcome::Unavailable
            | Outcome::Overloaded
            | Outcome::Protocol
            | Outcome::Storage => Self::Unknown,
        }
    }
}

/// One returned value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Row within the reply.
    pub row: u32,
    /// Index into [`crate::Layout::field_names`].
    pub field: u32,
    /// Place in [`Reply::bytes`].
    pub place: Range<usize>,
}

impl Reply {
    /// Empties the reply and keeps its memory.
    pub fn clear(&mut self) {
        self.rows = 0;
        self.bytes.clear();
        self.cells.clear();
        self.effects.clear();
    }

    /// The effect of a command of a request with this outcome.
    #[must_use]
    pub fn effect(&self, outcome: Outcome, command: u32) -> Effect {
        if self.effects.is_empty() {
            return Effect::of(outcome);
        }
        let own = self.effects.iter().find(|(other, _)| *other == command);
        own.map_or(Effect::Applied, |(_, effect)| *effect)
    }

    /// Adds a value of a row.
    #[inline]
    pub fn push(&mut self, row: u32, field: u32, bytes: &[u8]) {
        self.push_with(row, field, |output| output.extend_from_slice(bytes));
    }

    /// Adds a value of a row, which `append` writes. Returns the result of `append`.
    #[inline]
    pub fn push_with<T>(
        &mut self,
        row: u32,
        field: u32,
        append: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        let start = self.bytes.len();
        let appended = append(&mut self.bytes);
        self.cells.push(Cell { row, field, place: start..self.bytes.len() });
        appended
    }

    /// The outcome of a read that returned these values of one record.
    #[inline]
    #[must_use]
    pub fn compare(&self, expected: &Expected) -> Outcome {
        let mut comparison = expected.compare();
        self.cells.iter().for_each(|cell| comparison.see(self.bytes_of(cell)));
        comparison.outcome()
    }

    /// The bytes of a cell.
    #[must_use]
    pub fn bytes_of(&self, cell: &Cell) -> &[u8] {
        &self.bytes[cell.place.clone()]
    }
}
