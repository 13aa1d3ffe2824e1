//! Checks the folder of a database before its engine opens it.

use std::fmt::Display;
use std::fs::{self, DirEntry, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kvmark_driver::{Files, OpenError};

/// kvmark's mark of a database that it created and may remove.
const MARK: &str = ".kvmark";

/// The content of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A database of the engine.
    Database,
    /// Nothing, an empty folder, or what an interrupted creation left: a database can be created.
    Vacant,
}

/// Checks the path, and creates a missing folder if `create` allows it.
pub(crate) fn prepare(
    path: &Path,
    system: &str,
    files: Files,
    create: bool,
) -> Result<Standing, OpenError> {
    let standing = standing(path, system, files)?;
    if standing == Standing::Vacant && !create {
        let path = path.display();
        let text = format!(
            "there is no {system} database at {path}: \
             load the dataset first, or set create=true to make a new one"
        );
        return Err(OpenError::System(text));
    }
    if !path.exists() {
        fs::create_dir(path).map_err(|error| unusable(system, path, &error))?;
    }
    Ok(standing)
}

fn standing(path: &Path, system: &str, files: Files) -> Result<Standing, OpenError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => return Err(refused(path, "is a file, not a folder")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return standing_of_nothing(path, system);
        }
        Err(error) => return Err(unusable(system, path, &error)),
    }
    let entries = fs::read_dir(path).and_then(Iterator::collect);
    let entries: Vec<DirEntry> = entries.map_err(|error| unusable(system, path, &error))?;
    if entries.iter().any(|entry| files.is_complete(&entry.file_name())) {
        return Ok(Standing::Database);
    }
    if entries.iter().all(|entry| is_early(entry, files)) {
        return Ok(Standing::Vacant);
    }
    let what = format!("holds other files and no {system} database: use an empty or a new folder");
    Err(refused(path, &what))
}

fn standing_of_nothing(path: &Path, system: &str) -> Result<Standing, OpenError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Some(parent) = parent.filter(|parent| !parent.is_dir()) else {
        return Ok(Standing::Vacant);
    };
    let (path, parent) = (path.display(), parent.display());
    let text = format!("the folder {parent} of the {system} path {path} doesn't exist: make it");
    Err(OpenError::System(text))
}

fn is_early(entry: &DirEntry, files: Files) -> bool {
    let name = entry.file_name();
    name.to_str().is_some_and(|name| name == MARK || files.may_be_early(name))
}

fn refused(path: &Path, what: &str) -> OpenError {
    OpenError::System(format!("{} {what}", path.display()))
}

/// Locks a folder until the file is dropped.
pub(crate) fn lock(path: &Path, system: &str) -> Result<FolderLock, OpenError> {
    let folder = File::open(path).map_err(|error| unusable(system, path, &error))?;
    folder.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => locked(system, path),
        TryLockError::Error(error) => unusable(system, path, &error),
    })?;
    Ok(FolderLock(folder))
}

/// A locked folder. The lock is released explicitly: a process that is being started has the open
/// file, too, until its program is loaded.
pub(crate) struct FolderLock(File);

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing the file releases the lock at the latest.
        self.0.unlock().ok();
    }
}

/// The bytes that the files in a folder occupy.
pub(crate) fn bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes(&entry.path()),
        // A sparse file has fewer than its length says.
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

/// The refusal of a database that is open.
#[must_use]
pub fn locked(system: &str, path: &Path) -> OpenError {
    let path = path.display();
    OpenError::System(format!(
        "the {system} database at {path} is open already, in this or another process: \
         wait until that ends, or use another path"
    ))
}

/// The refusal of a database that its engine can't read.
#[must_use]
pub fn unreadable(system: &str, path: &Path, error: &dyn Display) -> OpenError {
    let path = path.display();
    OpenError::System(format!(
        "the {system} database at {path} can't be read, \
         it is damaged or of another version ({error})"
    ))
}

/// The refusal of files that the operating system doesn't give.
#[must_use]
pub fn unusable(system: &str, path: &Path, error: &io::Error) -> OpenError {
    let path = path.display();
    OpenError::System(match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            format!("no permission to use {path}: change its owner or rights")
        }
        io::ErrorKind::StorageFull => {
            format!("the disk that holds {path} is full: make room or use another path")
        }
        _ => format!("the {system} path {path} can't be used ({error})"),
    })
}
