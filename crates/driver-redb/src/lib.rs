//! Embedded redb: a copy-on-write B-tree in one file.
//!
//! Each write is a transaction. redb itself has no level between commits that may be lost when the
//! process dies and those that are on the disk. At `process` it commits as at `sync`, to a file
//! that passes all writes to the kernel and skips the flush to the disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver::{About, Description, Files, OpenError, Place, Scheme};
use kvmark_embedded::{Access, ByteHandle, ByteStore, Durability, Opening, StoreError};
use kvmark_plan::Outcome;
use redb::backends::FileBackend;
use redb::{
    BackendError, Builder, Database, DatabaseError, ReadableDatabase as _, StorageBackend,
    StorageError, TableDefinition, TableHandle as _, WriteTransaction,
};

const FILE: &str = "data.redb";

/// The crate doesn't report its version; a test compares this with `Cargo.lock`.
pub const VERSION: &str = "4.6.0";

static OPTIONS: [OptionDoc; 1] =
    [option("cache_bytes", Accepts::Whole { min: 0, max: 1 << 40 }, Some("33554432"))
        .meaning("Size of the page cache.")];

type Table<'a> = TableDefinition<'a, &'static [u8], &'static [u8]>;

/// The driver.
pub type Redb = kvmark_embedded::Embedded<Store>;

/// An open database.
pub struct Store {
    database: Database,
    table: String,
    durability: redb::Durability,
}

/// A client's handle.
pub struct Handle(Arc<Store>);

impl Store {
    fn table(&self) -> Table<'_> {
        Table::new(&self.table)
    }

    /// Executes a write transaction.
    fn write(
        &self,
        change: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let commit = || {
            let mut transaction = self.database.begin_write()?;
            transaction.set_durability(self.durability)?;
            change(&transaction)?;
            transaction.commit()?;
            Ok(())
        };
        commit().map_err(|error| failure(&error))
    }
}

impl ByteStore for Store {
    type Handle = Handle;

    const ABOUT: About = About {
        files: Some(Files { complete: FILE, early: &[], others: &[] }),
        memory: &[("cache_bytes", 100)],
        ..About::new("redb", Place::Folder, &[Scheme::new("redb", "redb:PATH")])
    };
    const SYSTEM: &'static str = "redb";

    fn options() -> Vec<&'static OptionDoc> {
        OPTIONS.iter().collect()
    }

    fn effective(wanted: Durability) -> Durability {
        wanted
    }

    fn open(opening: &Opening<'_>) -> Result<Self, OpenError> {
        let file = opening.path.join(FILE);
        let mut builder = Builder::new();
        builder.set_cache_size(opening.given.whole("cache_bytes").unwrap_or_default() as usize);
        let creates = opening.access == Access::Create;
        let database = match opening.durability {
            Durability::Process => open_unflushed(&builder, &file, creates),
            _ if creates => builder.create(&file),
            _ => builder.open(&file),
        };
        let durability = match opening.durability {
            Durability::None => redb::Durability::None,
            Durability::Process | Durability::Sync => redb::Durability::Immediate,
        };
        let database = database.map_err(|error| refusal(&file, &error))?;
        let store = Self { database, table: opening.table.to_owned(), durability };
        let tables = tables(&store.database).map_err(|error| unreadable(&file, &error))?;
        if !tables.contains(&store.table) {
            opening.refuse_missing_table(Self::SYSTEM, &tables)?;
            let create = |transaction: &WriteTransaction| {
                transaction.open_table(store.table())?;
                Ok(())
            };
            store.write(create).map_err(|error| OpenError::System(error.text))?;
        }
        Ok(store)
    }

    fn tables(path: &Path) -> Result<Vec<String>, OpenError> {
        let file = path.join(FILE);
        let database = Builder::new().open(&file).map_err(|error| refusal(&file, &error))?;
        tables(&database).map_err(|error| unreadable(&file, &error))
    }

    fn handle(store: &Arc<Self>) -> Result<Handle, OpenError> {
        Ok(Handle(Arc::clone(store)))
    }

    fn describe(&self, given: &Given) -> Description {
        kvmark_embedded::description(Self::SYSTEM, VERSION, given)
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        let statistics = self.database.cache_stats();
        BTreeMap::from([
            ("redb.cache.evictions".to_owned(), statistics.evictions() as f64),
            ("redb.cache.hits".to_owned(), statistics.read_hits() as f64),
            ("redb.cache.misses".to_owned(), statistics.read_misses() as f64),
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
        let read = || {
            let table = self.0.database.begin_read()?.open_table(self.0.table())?;
            Ok(table.get(key)?.map(|value| take(value.value())))
        };
        read().map_err(|error: redb::Error| failure(&error))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.0.write(|transaction| {
            transaction.open_table(self.0.table())?.insert(key, value)?;
            Ok(())
        })
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.0.write(|transaction| {
            transaction.open_table(self.0.table())?.remove(key)?;
            Ok(())
        })
    }

    fn scan(
        &mut self,
        from: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut read = || {
            let table = self.0.database.begin_read()?.open_table(self.0.table())?;
            for entry in table.range(from..)? {
                let (key, value) = entry?;
                if !each(key.value(), value.value()) {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(|error: redb::Error| failure(&error))
    }
}

/// A file whose writes reach the kernel and not at once the disk: they survive a kill of the
/// process. A power failure may damage the database.
#[derive(Debug)]
struct Unflushed(FileBackend);

impl StorageBackend for Unflushed {
    fn len(&self) -> Result<u64, io::Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, length: u64) -> Result<(), io::Error> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), io::Error> {
        self.0.write(offset, bytes)
    }

    fn close(&self) -> Result<(), io::Error> {
        self.0.close()
    }

    fn try_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(from, to)
    }

    fn try_lock_shared_range(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(from, to)
    }

    fn lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(from, to)
    }

    fn lock_shared_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(from, to)
    }

    fn unlock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(from, to)
    }

    fn query_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(from, to)
    }
}

fn open_unflushed(
    builder: &Builder,
    file: &Path,
    creates: bool,
) -> Result<Database, DatabaseError> {
    let opened = File::options().read(true).write(true).create(creates).open(file)?;
    if !creates && opened.metadata()?.len() == 0 {
        // A backend of ours would be filled with a new database.
        return builder.open(file);
    }
    builder.create_with_backend(Unflushed(FileBackend::new(opened)?))
}

fn tables(database: &Database) -> Result<Vec<String>, redb::Error> {
    let transaction = database.begin_read()?;
    Ok(transaction.list_tables()?.map(|table| table.name().to_owned()).collect())
}

fn failure(error: &redb::Error) -> StoreError {
    let outcome = match error {
        redb::Error::ValueTooLarge(_) => Outcome::Refused,
        redb::Error::DatabaseClosed => Outcome::Unavailable,
        _ => Outcome::Storage,
    };
    StoreError::new("redb", outcome, error)
}

fn refusal(file: &Path, error: &DatabaseError) -> OpenError {
    match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            kvmark_embedded::locked("redb", file)
        }
        DatabaseError::Storage(StorageError::Io(error)) => {
            kvmark_embedded::unusable("redb", file, error)
        }
        other => unreadable(file, other),
    }
}

fn unreadable(file: &Path, error: &dyn std::fmt::Display) -> OpenError {
    kvmark_embedded::unreadable("redb", file, error)
}
