//! Maps RocksDB's errors to outcomes of operations and to messages of failed openings.

use std::path::Path;

use kvmark_driver::OpenError;
use kvmark_embedded::StoreError;
use kvmark_plan::Outcome;
use rocksdb::ErrorKind;

/// An error of RocksDB during an operation.
pub(crate) fn failure(error: &rocksdb::Error) -> StoreError {
    StoreError::new("RocksDB", outcome_of(&error.kind()), error)
}

fn outcome_of(kind: &ErrorKind) -> Outcome {
    match kind {
        ErrorKind::NotFound => Outcome::Miss,
        ErrorKind::Busy
        | ErrorKind::TryAgain
        | ErrorKind::Incomplete
        | ErrorKind::MergeInProgress
        | ErrorKind::CompactionTooLarge => Outcome::Overloaded,
        ErrorKind::TimedOut | ErrorKind::Expired => Outcome::Timeout,
        ErrorKind::InvalidArgument | ErrorKind::NotSupported | ErrorKind::ColumnFamilyDropped => {
            Outcome::Refused
        }
        ErrorKind::ShutdownInProgress | ErrorKind::Aborted => Outcome::Unavailable,
        ErrorKind::Corruption | ErrorKind::IOError | ErrorKind::Unknown => Outcome::Storage,
    }
}

/// The sentence for an error of RocksDB while a database is opened, created or destroyed.
pub(crate) fn refusal(path: &Path, error: &rocksdb::Error) -> OpenError {
    OpenError::System(sentence(path, error.as_ref(), &error.kind()))
}

fn sentence(path: &Path, text: &str, kind: &ErrorKind) -> String {
    let path = path.display();
    let says = |part: &str| text.to_ascii_lowercase().contains(part);
    let unreadable = matches!(kind, ErrorKind::Corruption | ErrorKind::NotSupported);
    if says("lock hold by current process") {
        format!("this process has already opened the RocksDB database at {path}")
    } else if says("while lock file") && !says("permission denied") {
        format!(
            "another process has opened the RocksDB database at {path}: \
             wait until it ends, or use another path"
        )
    } else if says("no space left") {
        format!("the disk that holds {path} is full: make room or use another path")
    } else if says("permission denied") || says("read-only file system") {
        format!("no permission to write to {path}: change its owner or rights")
    } else if says("comparator") {
        format!(
            "the RocksDB database at {path} orders its keys by a custom comparator, \
             which isn't supported ({text})"
        )
    } else if unreadable || says("no such file") {
        format!(
            "the RocksDB database at {path} can't be read, \
             it is damaged or of a newer version ({text})"
        )
    } else {
        format!("RocksDB can't open the database at {path} ({text})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, kind: &ErrorKind) -> String {
        sentence(Path::new("/data/x"), text, kind)
    }

    #[test]
    fn a_lock_of_another_process_differs_from_one_of_this_process() {
        let kind = ErrorKind::IOError;
        let other = "IO error: While lock file: /data/x/LOCK: Resource temporarily unavailable";
        let own = "IO error: lock hold by current process, acquire time 1: No locks available";
        assert!(said(other, &kind).starts_with("another process has opened"));
        assert!(said(own, &kind).starts_with("this process has already opened"));
    }

    #[test]
    fn a_full_disk_and_a_forbidden_lock_file_are_named() {
        let kind = ErrorKind::IOError;
        let full = "IO error: No space left on device: While appending to file: /data/x/MANIFEST";
        let denied = "IO error: While open a file for lock: /data/x/LOCK: Permission denied";
        assert!(said(full, &kind).contains("/data/x is full"));
        assert!(said(denied, &kind).starts_with("no permission to write to /data/x"));
    }

    #[test]
    fn the_error_of_a_damaged_or_newer_database_has_rocksdbs_message() {
        let text = "Corruption: VersionEdit: unknown tag";
        assert!(said(text, &ErrorKind::Corruption).contains("newer version (Corruption:"));
    }

    #[test]
    fn each_kind_of_error_has_the_outcome_that_readers_expect() {
        let cases = [
            (ErrorKind::IOError, Outcome::Storage),
            (ErrorKind::Corruption, Outcome::Storage),
            (ErrorKind::Busy, Outcome::Overloaded),
            (ErrorKind::TryAgain, Outcome::Overloaded),
            (ErrorKind::TimedOut, Outcome::Timeout),
            (ErrorKind::InvalidArgument, Outcome::Refused),
            (ErrorKind::NotSupported, Outcome::Refused),
            (ErrorKind::ShutdownInProgress, Outcome::Unavailable),
        ];
        for (kind, outcome) in cases {
            assert_eq!(outcome_of(&kind), outcome, "{kind:?}");
        }
    }
}
