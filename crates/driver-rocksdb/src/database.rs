//! RocksDB as a byte store: the dataset's table is a column family of its name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kvmark_driver::options::{Given, OptionDoc};
use kvmark_driver::{About, Description, Files, OpenError, Place, Scheme};
use kvmark_embedded::{Access, ByteHandle, ByteStore, Durability, Opening, StoreError};
use rocksdb::{ColumnFamily, ColumnFamilyDescriptor, DB, Options, WaitForCompactOptions};
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, ReadOptions, WriteOptions};
use self_cell::self_cell;

use crate::failure::{failure, refusal};
use crate::{effective, options, statistics};

type Family<'db> = &'db ColumnFamily;

self_cell! {
    /// RocksDB's database with the handle of the table's column family, which borrows it.
    struct Opened {
        owner: DB,
        #[covariant]
        dependent: Family,
    }
}

/// A database with the table of the dataset.
pub struct Database {
    opened: Opened,
    /// The options it was opened with; RocksDB's counters hang on them.
    pub(crate) options: Options,
    /// Whether RocksDB counts.
    pub(crate) counts: bool,
    table: String,
    durability: Durability,
}

/// A client's handle on the table.
pub struct Handle {
    database: Arc<Database>,
    reads: ReadOptions,
    writes: WriteOptions,
}

impl Database {
    /// RocksDB's own database.
    pub(crate) fn db(&self) -> &DB {
        self.opened.borrow_owner()
    }

    /// The table's column family.
    pub(crate) fn family(&self) -> &ColumnFamily {
        self.opened.borrow_dependent()
    }
}

impl ByteStore for Database {
    type Handle = Handle;

    const ABOUT: About = About {
        files: Some(Files {
            complete: "CURRENT",
            early: &[
                "IDENTITY",
                "LOCK",
                "LOG",
                "LOG.old.#",
                "MANIFEST-#",
                "MANIFEST-#.dbtmp",
                "OPTIONS-#.dbtmp",
                "#.dbtmp",
            ],
            others: &["OPTIONS-#", "#.sst", "#.log", "#.blob"],
        }),
        // Of two memtables.
        memory: &[("block_cache_bytes", 50), ("write_buffer_bytes", 25)],
        ycsb_bindings: &["rocksdb", "site.ycsb.db.rocksdb.RocksDBClient"],
        ycsb_properties: &["rocksdb."],
        ..About::new("rocksdb", Place::Folder, &[Scheme::new("rocksdb", "rocksdb:PATH")])
    };
    const SYSTEM: &'static str = "RocksDB";

    fn options() -> Vec<&'static OptionDoc> {
        options::options().iter().map(|option| &option.doc).collect()
    }

    fn effective(wanted: Durability) -> Durability {
        wanted
    }

    fn open(opening: &Opening<'_>) -> Result<Self, OpenError> {
        let Opening { path, table, given, durability, access } = *opening;
        let refused = |error: rocksdb::Error| refusal(path, &error);
        let mut options = options::engine(given).map_err(refused)?;
        let families = families(opening)?;
        options.create_if_missing(access == Access::Create);
        options.create_missing_column_families(access != Access::Read);
        let families = families.iter().map(|name| {
            let options = if name == table { options.clone() } else { Options::default() };
            ColumnFamilyDescriptor::new(name, options)
        });
        let db = match access {
            Access::Read => DB::open_cf_descriptors_read_only(&options, path, families, false),
            _ => DB::open_cf_descriptors(&options, path, families),
        };
        Ok(Self {
            counts: given.switch("statistics"),
            table: table.to_owned(),
            durability,
            options,
            opened: Opened::new(db.map_err(refused)?, |db| {
                db.cf_handle(table).expect("the table was opened with the database")
            }),
        })
    }

    fn tables(path: &Path) -> Result<Vec<String>, OpenError> {
        DB::list_cf(&Options::default(), path).map_err(|error| refusal(path, &error))
    }

    fn handle(store: &Arc<Self>) -> Result<Handle, OpenError> {
        let mut writes = WriteOptions::default();
        writes.disable_wal(store.durability == Durability::None);
        writes.set_sync(store.durability == Durability::Sync);
        Ok(Handle { database: Arc::clone(store), reads: ReadOptions::default(), writes })
    }

    fn describe(&self, given: &Given) -> Description {
        effective::describe(given, self.db(), &self.table)
    }

    /// Flushes the memtables and waits until no flush or compaction is left to do.
    fn settle(&self) -> Result<(), OpenError> {
        let mut wait = WaitForCompactOptions::default();
        wait.set_flush(true);
        self.db().wait_for_compact(&wait).map_err(|error| {
            let path = self.db().path().display();
            OpenError::System(format!("the RocksDB database at {path} doesn't settle ({error})"))
        })
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        statistics::read(self)
    }
}

impl ByteHandle for Handle {
    #[inline]
    fn get<R>(
        &mut self,
        key: &[u8],
        take: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, StoreError> {
        let Self { database, reads, .. } = self;
        let found = database.db().get_pinned_cf_opt(database.family(), key, reads);
        Ok(found.map_err(|error| failure(&error))?.map(|value| take(&value)))
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let Self { database, writes, .. } = self;
        let put = database.db().put_cf_opt(database.family(), key, value, writes);
        put.map_err(|error| failure(&error))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let Self { database, writes, .. } = self;
        let deleted = database.db().delete_cf_opt(database.family(), key, writes);
        deleted.map_err(|error| failure(&error))
    }

    fn scan(
        &mut self,
        from: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut rows = self.database.db().raw_iterator_cf(self.database.family());
        rows.seek(from);
        while let Some((key, value)) = rows.item() {
            if !each(key, value) {
                break;
            }
            rows.next();
        }
        rows.status().map_err(|error| failure(&error))
    }
}

/// The column families to open: those that are there, and the table where it may be made.
fn families(opening: &Opening<'_>) -> Result<Vec<String>, OpenError> {
    let table = opening.table;
    let mut families = match opening.access {
        Access::Create => vec![DEFAULT_COLUMN_FAMILY_NAME.to_owned()],
        _ => Database::tables(opening.path)?,
    };
    if !families.iter().any(|name| name == table) {
        let others = families.iter().filter(|name| *name != DEFAULT_COLUMN_FAMILY_NAME);
        opening.refuse_missing_table(Database::SYSTEM, &others.cloned().collect::<Vec<_>>())?;
        families.push(table.to_owned());
    }
    Ok(families)
}
