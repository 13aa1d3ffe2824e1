//! Checks the folder of a database before RocksDB opens it.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;

use kvmark_driver::OpenError;

/// The file that makes a folder a RocksDB database.
const CURRENT: &str = "CURRENT";
/// kvmark's mark of a database that it created and may remove.
const MARK: &str = ".kvmark";
/// Files that RocksDB or kvmark makes before that one; none of them holds data.
const EARLY_NAMES: [&str; 4] = ["IDENTITY", "LOCK", "LOG", MARK];
const EARLY_PREFIXES: [&str; 2] = ["LOG.old.", "MANIFEST-"];

/// The content of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A RocksDB database.
    Database,
    /// Nothing, an empty folder, or what an interrupted creation left: a database can be created.
    Vacant,
}

/// Checks the path, and creates a missing folder if `create` allows it.
pub(crate) fn prepare(path: &Path, create: bool) -> Result<Standing, OpenError> {
    let standing = standing(path)?;
    if standing == Standing::Vacant && !create {
        let path = path.display();
        let text = format!(
            "there is no RocksDB database at {path}: \
             load the dataset first, or set create=true to make a new one"
        );
        return Err(OpenError::System(text));
    }
    if !path.exists() {
        fs::create_dir(path).map_err(|error| unusable(path, &error))?;
    }
    Ok(standing)
}

fn standing(path: &Path) -> Result<Standing, OpenError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => return Err(refused(path, "is a file, not a folder")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return standing_of_nothing(path),
        Err(error) => return Err(unusable(path, &error)),
    }
    let entries = fs::read_dir(path).and_then(Iterator::collect);
    let entries: Vec<DirEntry> = entries.map_err(|error| unusable(path, &error))?;
    if entries.iter().any(|entry| entry.file_name() == CURRENT) {
        return Ok(Standing::Database);
    }
    if entries.iter().all(is_early) {
        return Ok(Standing::Vacant);
    }
    Err(refused(path, "holds other files and no RocksDB database: use an empty or a new folder"))
}

fn standing_of_nothing(path: &Path) -> Result<Standing, OpenError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Some(parent) = parent.filter(|parent| !parent.is_dir()) else {
        return Ok(Standing::Vacant);
    };
    let (path, parent) = (path.display(), parent.display());
    let text = format!("the folder {parent} of the RocksDB path {path} doesn't exist: make it");
    Err(OpenError::System(text))
}

fn is_early(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let Some(name) = name.to_str() else { return false };
    EARLY_NAMES.contains(&name)
        || EARLY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name.ends_with(".dbtmp")
}

fn refused(path: &Path, what: &str) -> OpenError {
    OpenError::System(format!("{} {what}", path.display()))
}

fn unusable(path: &Path, error: &io::Error) -> OpenError {
    let path = path.display();
    OpenError::System(match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            format!("no permission to use {path}: change its owner or rights")
        }
        io::ErrorKind::StorageFull => {
            format!("the disk that holds {path} is full: make room or use another path")
        }
        _ => format!("the RocksDB path {path} can't be used ({error})"),
    })
}
