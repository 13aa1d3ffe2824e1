//! The thread that writes the tapes, so that forwarding never waits for a disk.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Receiver;

use kvmark_plan::Outcome;
use serde_json::json;

use crate::shared::Shared;

/// A part of the files of a thread.
#[derive(Debug)]
pub(crate) enum Piece {
    /// A block of the tape.
    Block { tape: usize, bytes: Vec<u8> },
    /// The next numbered statement, which later blocks refer to.
    Statement { tape: usize, line: String },
}

/// The files of one thread.
#[derive(Debug)]
pub(crate) struct Files {
    tape: File,
    statements: File,
}

impl Files {
    /// Creates the files, which must not exist. The first line names the outcomes.
    pub(crate) fn create(folder: &Path, number: usize) -> io::Result<Self> {
        let create = |name: String| File::create_new(folder.join(name));
        let tape = create(format!("tape-{number:02}.tape"))?;
        let mut statements = create(format!("tape-{number:02}.jsonl"))?;
        writeln!(statements, "{}", json!({ "outcomes": Outcome::ALL.map(Outcome::name) }))?;
        Ok(Self { tape, statements })
    }
}

/// Writes all pieces until the channel is closed. Returns the reason if recording ended early.
///
/// Recording ends when the tapes would exceed `disk_bytes` or a write fails. Later pieces are
/// dropped.
pub(crate) fn write_all(
    mut files: Vec<Files>,
    pieces: &Receiver<Piece>,
    disk_bytes: u64,
    shared: &Shared,
) -> Option<String> {
    let mut left = disk_bytes;
    let mut ended = None;
    for piece in pieces {
        let (tape, bytes, is_block) = match &piece {
            Piece::Block { tape, bytes } => (*tape, bytes.as_slice(), true),
            Piece::Statement { tape, line } => (*tape, line.as_bytes(), false),
        };
        if ended.is_none() {
            let place = &mut files[tape];
            let file = if is_block { &mut place.tape } else { &mut place.statements };
            ended = written(file, bytes, &mut left).err();
            if ended.is_some() {
                shared.recording.store(false, Relaxed);
            }
        }
        if is_block {
            shared.unwritten.fetch_sub(bytes.len(), Relaxed);
        }
    }
    ended
}

fn written(file: &mut File, bytes: &[u8], left: &mut u64) -> Result<(), String> {
    *left = left
        .checked_sub(bytes.len() as u64)
        .ok_or_else(|| "the tapes have reached the limit of --disk".to_owned())?;
    file.write_all(bytes).map_err(|problem| format!("the tapes can't be written: {problem}"))
}
