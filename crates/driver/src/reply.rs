//! What a session answers, besides the outcome.

use std::ops::Range;

/// What came back for one request; its memory is used again and never shrunk.
#[derive(Debug, Default)]
pub struct Reply {
    /// Records returned.
    pub rows: u64,
    /// Bytes of the cells, one after the other.
    pub bytes: Vec<u8>,
    /// The values returned, where the request wants them.
    pub cells: Vec<Cell>,
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
    }

    /// Adds a value of a row.
    pub fn push(&mut self, row: u32, field: u32, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.cells.push(Cell { row, field, place: start..self.bytes.len() });
    }

    /// The bytes of a cell.
    #[must_use]
    pub fn bytes_of(&self, cell: &Cell) -> &[u8] {
        &self.bytes[cell.place.clone()]
    }
}
