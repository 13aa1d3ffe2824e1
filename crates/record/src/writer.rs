//! The files that a run appends to.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::event::Event;
use crate::hlog::{self, Log};
use crate::names::Names;
use crate::phase::ClosedInterval;
use crate::run::LostWriteRecord;

const LOST_WRITES: &str = "lost_writes.jsonl";
/// Bytes of lines that are written at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Errors of writing a run's records.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A run is never overwritten.
    #[error("{path} already exists and a run is never overwritten: choose another folder")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// No space left.
    #[error("{path} can't be written because the disk is full: free some space and run again")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Any other error of the operating system.
    #[error("{path} can't be written ({source}): check the folder and its permissions")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Appends to `intervals.jsonl`, `histograms.hlog` and `events.jsonl`. Each call writes whole
/// lines, so that a killed process loses at most the current interval.
pub struct RunWriter {
    intervals: LineFile,
    histograms: LineFile,
    events: LineFile,
    log: Log,
}

impl RunWriter {
    /// Creates the files in a folder that exists. The origin is wall time since the Unix epoch; the
    /// names are the plan's. Others may append to `events.jsonl` too.
    ///
    /// # Errors
    /// [`RecordError::Exists`] when the folder has records already; otherwise what the system says.
    pub fn create(
        folder: &Path,
        started_wall_ns: u64,
        names: Arc<Names>,
    ) -> Result<Self, RecordError> {
        let (rows, histograms) = (folder.join("intervals.jsonl"), folder.join("histograms.hlog"));
        if let Some(path) = [&rows, &histograms].into_iter().find(|path| path.exists()) {
            return Err(RecordError::Exists { path: path.clone() });
        }
        let events = LineFile::open(folder.join("events.jsonl"), None)?;
        let intervals = LineFile::open(rows, Some(0))?;
        let mut histograms = LineFile::open(histograms, Some(0))?;
        histograms.append(hlog::header(started_wall_ns).as_bytes())?;
        Ok(Self { intervals, histograms, events, log: Log::new(names) })
    }

    /// Appends a closed interval.
    ///
    /// # Errors
    /// What the system says; the files keep the intervals before.
    pub fn interval(&mut self, interval: &ClosedInterval) -> Result<(), RecordError> {
        let mut rows = Vec::new();
        for row in &interval.rows {
            put_line(&mut rows, row);
        }
        self.intervals.append(&rows)?;
        let mut lines = String::new();
        self.log.append(interval, &mut lines);
        self.histograms.append(lines.as_bytes())
    }

    /// Appends an event.
    ///
    /// # Errors
    /// What the system says.
    pub fn event(&mut self, event: &Event) -> Result<(), RecordError> {
        let mut line = Vec::new();
        put_line(&mut line, event);
        self.events.append(&line)
    }

    /// Writes `lost_writes.jsonl` unless there are none.
    ///
    /// # Errors
    /// What the system says; the file keeps whole lines.
    pub fn lost_writes(
        &self,
        writes: impl Iterator<Item = LostWriteRecord>,
    ) -> Result<(), RecordError> {
        let mut writes = writes.peekable();
        if writes.peek().is_none() {
            return Ok(());
        }
        let mut file = LineFile::open(self.events.path.with_file_name(LOST_WRITES), Some(0))?;
        let mut lines = Vec::new();
        while let Some(write) = writes.next() {
            put_line(&mut lines, &write);
            if lines.len() >= CHUNK_BYTES || writes.peek().is_none() {
                file.append(&lines)?;
                lines.clear();
            }
        }
        file.sync()
    }

    /// Brings everything to the disk.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(self) -> Result<(), RecordError> {
        [self.intervals, self.histograms, self.events].iter().try_for_each(LineFile::sync)
    }
}

fn put_line<T: serde::Serialize>(lines: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(&mut *lines, value).expect("records are plain JSON, memory takes them");
    lines.push(b'\n');
}

fn failure(path: &Path, source: io::Error) -> RecordError {
    let path = path.to_owned();
    match source.kind() {
        ErrorKind::AlreadyExists => RecordError::Exists { path },
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => RecordError::Full { path },
        _ => RecordError::Io { path, source },
    }
}

/// A file that only grows, by whole lines.
struct LineFile {
    path: PathBuf,
    file: File,
    /// Where the last whole line ends; none when others append too.
    length: Option<u64>,
}

impl LineFile {
    /// A new file, or without a length one that may exist. New files are private to the user.
    fn open(path: PathBuf, length: Option<u64>) -> Result<Self, RecordError> {
        let mut options = OpenOptions::new();
        options.append(true).mode(0o600).create(true).create_new(length.is_some());
        match options.open(&path) {
            Ok(file) => Ok(Self { path, file, length }),
            Err(source) => Err(failure(&path, source)),
        }
    }

    /// Appends whole lines with one call to the system where it takes them at once.
    fn append(&mut self, lines: &[u8]) -> Result<(), RecordError> {
        self.file.write_all(lines).map_err(|source| {
            // A full disk may have taken half a line. If it can't be cut off, readers ignore it.
            let _ = self.length.map(|length| self.file.set_len(length));
            failure(&self.path, source)
        })?;
        self.length = self.length.map(|length| length + lines.len() as u64);
        Ok(())
    }

    fn sync(&self) -> Result<(), RecordError> {
        self.file.sync_all().map_err(|source| failure(&self.path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_full_disk_names_the_file() {
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new().append(true).open(&path).expect("Linux has it");
        let mut full = LineFile { path, file, length: None };
        let error = full.append(b"{}\n").expect_err("there is never room");
        assert_eq!(
            error.to_string(),
            "/dev/full can't be written because the disk is full: free some space and run again"
        );
    }

    #[test]
    fn the_error_of_a_missing_folder_names_it() {
        let folder = Path::new("/nowhere/at/all");
        let error =
            RunWriter::create(folder, 0, Arc::default()).err().expect("nothing to write in");
        let error = error.to_string();
        assert!(error.starts_with("/nowhere/at/all/events.jsonl can't be written"), "{error}");
    }
}
