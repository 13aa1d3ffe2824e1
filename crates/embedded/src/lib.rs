//! Embedded engines: an engine is a [`ByteStore`], and [`Embedded`] makes a driver of it.
//!
//! A table of the dataset is a part of the store with the same name; a key is stored as it is, a
//! record as YCSB's RocksDB binding writes it (see `codec.rs`). Calls block and run in the client's
//! thread. An update reads the record, merges the new values into it and writes it whole, as YCSB
//! does; a delete is blind. Unlike in YCSB, a lock serializes the writers of one record (see
//! `locks.rs`), so that an update is atomic.
//!
//! The folder given as `path` is created only when `create` is set, and never written to when it
//! holds anything but a database of the engine.

mod codec;
mod console;
mod folder;
mod locks;
mod session;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError,
};
use kvmark_plan::Outcome;
use serde_json::Value;

use codec::Names;
use folder::{FolderLock, Standing};
use locks::Locks;

pub use folder::{locked, unreadable, unusable};
pub use kvmark_driver::Durability;
pub use session::EmbeddedSession;

/// An embedded engine that stores bytes by key, ordered by the keys' bytes.
pub trait ByteStore: Sized + Send + Sync + 'static {
    /// What a client works with.
    type Handle: ByteHandle;

    /// Its driver's properties; the place is a folder, with the files of a database.
    const ABOUT: About;
    /// Its name in sentences.
    const SYSTEM: &'static str;
    /// Whether it refuses to open a database that is open; otherwise its folder is locked.
    const LOCKS: bool = true;

    /// Its own options, beside [`OPTIONS`].
    fn options() -> Vec<&'static OptionDoc>;

    /// The level that it has for a wanted one: the same, or the next stronger one that it has.
    fn effective(wanted: Durability) -> Durability;

    /// Opens or creates a database.
    ///
    /// # Errors
    /// [`OpenError`] when it is locked, can't be read or written, lacks the table, or an option's
    /// value can't be used.
    fn open(opening: &Opening<'_>) -> Result<Self, OpenError>;

    /// The tables of an existing database.
    ///
    /// # Errors
    /// [`OpenError::System`] when it can't be read.
    fn tables(path: &Path) -> Result<Vec<String>, OpenError>;

    /// A client's handle.
    ///
    /// # Errors
    /// [`OpenError::System`] when the engine refuses one more.
    fn handle(store: &Arc<Self>) -> Result<Self::Handle, OpenError>;

    /// Its version and effective configuration, without the durability.
    fn describe(&self, given: &Given) -> Description;

    /// Returns when the engine has no work left to do in the background.
    ///
    /// # Errors
    /// [`OpenError::System`] if it fails during the wait.
    fn settle(&self) -> Result<(), OpenError> {
        Ok(())
    }

    /// Its own counters.
    fn statistics(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }
}

/// A client's way to an open table. `&mut` is for buffers and transactions that a client reuses.
pub trait ByteHandle: Send {
    /// Passes the value of a key to `take`; `None` without the key.
    ///
    /// # Errors
    /// [`StoreError`] if the engine fails.
    fn get<R>(
        &mut self,
        key: &[u8],
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError>;

    /// Stores a value. It is as durable as the effective level says when this returns.
    ///
    /// # Errors
    /// [`StoreError`] if the engine fails.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// [`StoreError`] if the engine fails.
    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError>;

    /// Passes keys and values in order, from this key on, to `each` until it returns false.
    ///
    /// # Errors
    /// [`StoreError`] if the engine fails.
    fn scan(
        &mut self,
        from: &[u8],
        each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError>;
}

/// Why an engine didn't carry out a call.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct StoreError {
    /// The outcome of the operation.
    pub outcome: Outcome,
    /// The engine's name and its message.
    pub text: String,
}

impl StoreError {
    /// An engine's error.
    pub fn new(system: &str, outcome: Outcome, error: impl Display) -> Self {
        Self { outcome, text: format!("{system}: {error}") }
    }
}

/// How a database is opened.
#[derive(Debug)]
pub struct Opening<'a> {
    /// Its folder, which exists.
    pub path: &'a Path,
    /// The table to open.
    pub table: &'a str,
    /// All options.
    pub given: &'a Given,
    /// The effective level.
    pub durability: Durability,
    /// What may be done.
    pub access: Access,
}

impl Opening<'_> {
    /// Refuses a database that lacks the table, unless the table may be added.
    ///
    /// # Errors
    /// [`OpenError::System`] with the tables that are there.
    pub fn refuse_missing_table(&self, system: &str, tables: &[String]) -> Result<(), OpenError> {
        let may_add = matches!(self.access, Access::Create | Access::Extend);
        if may_add && tables.is_empty() {
            return Ok(());
        }
        let shown = &tables[..tables.len().min(MOST_NAMED)];
        let more = if shown.len() < tables.len() { ", …" } else { "" };
        let there = if tables.is_empty() { "none".to_owned() } else { shown.join(", ") + more };
        Err(OpenError::System(format!(
            "the {system} database at {} has no table {} (its tables: {there}): \
             name one of them or use another path",
            self.path.display(),
            self.table
        )))
    }
}

/// What may be done to a database and its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The database isn't there and is created with the table.
    Create,
    /// It is there; the table may be added to one without tables.
    Extend,
    /// Database and table must be there.
    Use,
    /// No record is written.
    Read,
}

/// The options of all embedded stores.
pub static OPTIONS: [OptionDoc; 3] = [
    option("path", Accepts::Text("the path of a folder"), None)
        .meaning("Folder of the database. Its parent must exist."),
    option("create", Accepts::SWITCH, Some("false"))
        .meaning("Whether a database that isn't there is created."),
    option("durability", Accepts::Words(&Durability::WORDS), Some("process")).meaning(
        "Acknowledged writes survive: none: perhaps nothing; process: a kill of the process; sync: \
         a power failure.",
    ),
];

/// The description of an engine that reports no configuration: with all options in effect.
#[must_use]
pub fn description(system: &str, version: &str, given: &Given) -> Description {
    let configuration = given.all().filter(|(name, _)| !["path", "create"].contains(name));
    let configuration = configuration.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let (system, version) = (system.to_owned(), version.to_owned());
    Description { system, version, configuration: configuration.collect() }
}

/// An open database. It is closed, and its lock released, when the driver and all its sessions are
/// gone.
pub struct Embedded<S: ByteStore> {
    shared: Arc<Shared<S>>,
}

/// What a driver and its sessions share.
pub(crate) struct Shared<S> {
    store: Arc<S>,
    names: Names,
    /// Held while a record is written.
    locks: Locks,
    description: Description,
    path: PathBuf,
    /// The locked folder of an engine that doesn't lock its database; dropped after the store.
    _lock: Option<FolderLock>,
}

/// Tables in an error: in somebody else's LMDB database every key looks like one.
const MOST_NAMED: usize = 8;
/// Writes that waited here, not in the engine, for another write of the same record, or
/// seldom of one that shares its lock.
const LOCK_WAITS: &str = "record_lock_waits";
/// Bytes of the files in the database's folder.
const DISK_BYTES: &str = "disk_bytes";

impl<S: ByteStore> Embedded<S> {
    /// The driver's static properties.
    pub const ABOUT: About = S::ABOUT;

    /// All options of the driver.
    #[must_use]
    pub fn options() -> Vec<&'static OptionDoc> {
        OPTIONS.iter().chain(S::options()).collect()
    }

    /// Opens the database, or creates it where the option `create` allows that.
    ///
    /// # Errors
    /// [`OpenError::Option`] when an option is unknown, missing or has a wrong value;
    /// [`OpenError::System`] when the folder isn't there, has no database of the engine, lacks the
    /// table, is locked, or can't be read or written.
    pub fn open(options: &BTreeMap<String, Value>, layout: &Layout) -> Result<Self, OpenError> {
        let given = parse::<S>(options)?;
        let (path, table) = (path(&given), layout.table.as_str());
        if table.is_empty() || table.contains('\0') {
            let text = format!("the table can't be named {table:?}: give a name of printable text");
            return Err(OpenError::Option(text));
        }
        let create = given.switch("create");
        let files = S::ABOUT.files.unwrap_or_default();
        let access = match (folder::prepare(&path, S::SYSTEM, files, create)?, create) {
            (Standing::Vacant, _) => Access::Create,
            (Standing::Database, true) => Access::Extend,
            (Standing::Database, false) => Access::Use,
        };
        let lock = if S::LOCKS { None } else { Some(folder::lock(&path, S::SYSTEM)?) };
        let durability = S::effective(given.read("durability")?);
        let opening = Opening { path: &path, table, given: &given, durability, access };
        let store = Arc::new(S::open(&opening)?);
        let mut description = store.describe(&given);
        description.configuration.insert("durability".to_owned(), durability.to_string());
        let (names, locks) = (Names(layout.field_names.clone()), Locks::new());
        let shared = Shared { store, names, locks, description, path, _lock: lock };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl<S: ByteStore> Driver for Embedded<S> {
    type Blocking = EmbeddedSession<S>;
    type Session = Never;

    fn capabilities(&self) -> Capabilities {
        Capabilities { statements: false, ..Capabilities::all(Execution::Blocking, true) }
    }

    fn describe(&self) -> Description {
        self.shared.description.clone()
    }

    fn session(&self, _clients: u32) -> Result<AnySession<EmbeddedSession<S>, Never>, OpenError> {
        let session = EmbeddedSession::open(Arc::clone(&self.shared))?;
        Ok(AnySession::Blocking(session))
    }

    fn settle(&self) -> Result<(), OpenError> {
        self.shared.store.settle()
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        let mut counters = self.shared.store.statistics();
        counters.insert(LOCK_WAITS.to_owned(), self.shared.locks.waits() as f64);
        counters.insert(DISK_BYTES.to_owned(), folder::bytes(&self.shared.path) as f64);
        counters
    }

    fn console(options: &BTreeMap<String, Value>) -> Result<Option<AnyConsole>, OpenError> {
        Ok(Some(Box::new(console::Console::<S>::new(parse::<S>(options)?))))
    }
}

/// The given options, checked against the tables.
fn parse<S: ByteStore>(options: &BTreeMap<String, Value>) -> Result<Given, OpenError> {
    let given = Given::parse(Embedded::<S>::options(), options)?;
    if given.own("path").is_none() {
        let text = format!("option 'path' is missing: give {}", OPTIONS[0].accepts);
        return Err(OpenError::Option(text));
    }
    Ok(given)
}

/// The folder of the database.
fn path(given: &Given) -> PathBuf {
    given.text("path").expect("options without a path are refused").into()
}
