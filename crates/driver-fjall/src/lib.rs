//! Embedded fjall: a log-structured merge tree.
//!
//! A table of the dataset is a keyspace.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver::{About, Description, Files, OpenError, Place, Scheme};
use kvmark_embedded::{ByteHandle, ByteStore, Durability, Opening, StoreError};
use kvmark_plan::Outcome;

/// Greatest length of a key.
const KEY_MAX: usize = 1 << 16;
/// How often settling looks whether work is left.
const LOOK: Duration = Duration::from_millis(5);

/// The crate doesn't report its version; a test compares this with `Cargo.lock`.
pub const VERSION: &str = "3.1.13";

static OPTIONS: [OptionDoc; 3] = [
    option("cache_bytes", Accepts::Whole { min: 0, max: 1 << 40 }, Some("33554432"))
        .meaning("Size of the block cache."),
    option("memtable_bytes", Accepts::Whole { min: 1 << 20, max: 1 << 40 }, Some("67108864"))
        .meaning("Size of a memtable."),
    option("worker_threads", Accepts::Whole { min: 1, max: 1024 }, Some("2"))
        .meaning("Threads for flushes and compactions."),
];

/// The driver.
pub type Fjall = kvmark_embedded::Embedded<Store>;

/// An open database.
pub struct Store {
    database: Database,
    table: Keyspace,
    syncs: bool,
}

/// A client's handle.
pub struct Handle(Arc<Store>);

impl Handle {
    /// Makes a write as durable as it must be.
    fn persist(&self) -> fjall::Result<()> {
        if self.0.syncs { self.0.database.persist(PersistMode::SyncAll) } else { Ok(()) }
    }
}

impl ByteStore for Store {
    type Handle = Handle;

    const ABOUT: About = About {
        files: Some(Files {
            complete: "version",
            early: &["lock"],
            others: &[
                "#.jnl",
                "keyspaces/#/current",
                "keyspaces/#/v#",
                "keyspaces/#/tables/#",
                "keyspaces/#/blobs/#",
            ],
        }),
        memory: &[("cache_bytes", 50), ("memtable_bytes", 25)],
        ..About::new("fjall", Place::Folder, &[Scheme::new("fjall", "fjall:PATH")])
    };
    const SYSTEM: &'static str = "fjall";

    fn options() -> Vec<&'static OptionDoc> {
        OPTIONS.iter().collect()
    }

    fn effective(wanted: Durability) -> Durability {
        wanted
    }

    fn open(opening: &Opening<'_>) -> Result<Self, OpenError> {
        let Opening { path, table, given, durability, .. } = *opening;
        let whole = |name| given.whole(name).unwrap_or_default();
        let builder = Database::builder(path)
            .cache_size(whole("cache_bytes"))
            .worker_threads(whole("worker_threads") as usize);
        let refused = |error: fjall::Error| refusal(path, &error);
        let database = builder.open().map_err(refused)?;
        if !database.keyspace_exists(table) {
            opening.refuse_missing_table(Self::SYSTEM, &names(&database))?;
        }
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(whole("memtable_bytes"))
                .manual_journal_persist(durability == Durability::None)
        };
        let table = database.keyspace(table, options).map_err(refused)?;
        Ok(Self { database, table, syncs: durability == Durability::Sync })
    }

    fn tables(path: &Path) -> Result<Vec<String>, OpenError> {
        let opened = Database::builder(path).open();
        Ok(names(&opened.map_err(|error| refusal(path, &error))?))
    }

    fn handle(store: &Arc<Self>) -> Result<Handle, OpenError> {
        Ok(Handle(Arc::clone(store)))
    }

    fn describe(&self, given: &Given) -> Description {
        kvmark_embedded::description(Self::SYSTEM, VERSION, given)
    }

    /// Flushes the memtable and waits until no flush or compaction goes on.
    fn settle(&self) -> Result<(), OpenError> {
        let failed = |error| OpenError::System(format!("fjall doesn't settle ({error})"));
        self.table.rotate_memtable_and_wait().map_err(failed)?;
        while self.database.outstanding_flushes() + self.database.active_compactions() > 0 {
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        let Self { database, table, .. } = self;
        BTreeMap::from([
            ("fjall.compactions".to_owned(), database.compactions_completed() as f64),
            ("fjall.compaction_s".to_owned(), database.time_compacting().as_secs_f64()),
            ("fjall.journals".to_owned(), database.journal_count() as f64),
            ("fjall.tables".to_owned(), table.table_count() as f64),
        ])
    }
}

impl ByteHandle for Handle {
    #[inline]
    fn get<R>(
        &mut self,
        key: &[u8],
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let found = self.0.table.get(key).map_err(|error| failure(&error))?;
        Ok(found.map(|value| take(&value)))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        if key.len() >= KEY_MAX {
            let text = format!("a key has fewer than {KEY_MAX} bytes");
            return Err(StoreError::new("fjall", Outcome::Refused, text));
        }
        let put = self.0.table.insert(key, value).and_then(|()| self.persist());
        put.map_err(|error| failure(&error))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let deleted = self.0.table.remove(key).and_then(|()| self.persist());
        deleted.map_err(|error| failure(&error))
    }

    fn scan(
        &mut self,
        from: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        for entry in self.0.table.range(from..) {
            let (key, value) = entry.into_inner().map_err(|error| failure(&error))?;
            if !each(&key, &value) {
                break;
            }
        }
        Ok(())
    }
}

fn names(database: &Database) -> Vec<String> {
    database.list_keyspace_names().iter().map(ToString::to_string).collect()
}

fn failure(error: &fjall::Error) -> StoreError {
    let outcome = match error {
        fjall::Error::Poisoned | fjall::Error::KeyspaceDeleted => Outcome::Unavailable,
        _ => Outcome::Storage,
    };
    StoreError::new("fjall", outcome, error)
}

fn refusal(path: &Path, error: &fjall::Error) -> OpenError {
    match error {
        fjall::Error::Locked => kvmark_embedded::locked("fjall", path),
        fjall::Error::Io(error) => kvmark_embedded::unusable("fjall", path, error),
        other => kvmark_embedded::unreadable("fjall", path, other),
    }
}
