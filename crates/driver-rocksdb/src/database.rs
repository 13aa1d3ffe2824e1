//! The open database that a driver and its sessions share.

use std::path::Path;

use kvmark_driver::options::Given;
use kvmark_driver::{Description, Layout, OpenError};
use rocksdb::{ColumnFamily, ColumnFamilyDescriptor, DB, Options, WaitForCompactOptions};
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, WriteOptions};
use self_cell::self_cell;

use crate::codec::Names;
use crate::effective::describe;
use crate::failure::refusal;
use crate::folder::{self, Standing};
use crate::locks::Locks;
use crate::options;

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
pub(crate) struct Database {
    opened: Opened,
    /// The options it was opened with; RocksDB's counters hang on them.
    pub(crate) options: Options,
    /// Whether RocksDB counts.
    pub(crate) counts: bool,
    pub(crate) names: Names,
    /// Held while a record is written.
    pub(crate) locks: Locks,
    pub(crate) description: Description,
    wal: bool,
    sync: bool,
}

impl Database {
    pub(crate) fn open(given: &Given, layout: &Layout) -> Result<Self, OpenError> {
        let (path, table) = (options::path(given), layout.table.as_str());
        if table.is_empty() || table.contains('\0') {
            let text = format!("the table can't be named {table:?}: give a name of printable text");
            return Err(OpenError::Option(text));
        }
        let standing = folder::prepare(&path, given.switch("create"))?;
        let mut options = options::engine(given).map_err(|error| refusal(&path, &error))?;
        let families = families(&path, standing, given.switch("create"), table)?;
        options.create_if_missing(standing == Standing::Vacant);
        options.create_missing_column_families(true);
        let families = families.iter().map(|name| {
            let options = if name == table { options.clone() } else { Options::default() };
            ColumnFamilyDescriptor::new(name, options)
        });
        let db = DB::open_cf_descriptors(&options, &path, families)
            .map_err(|error| refusal(&path, &error))?;
        Ok(Self {
            description: describe(given, &db, table),
            names: Names(layout.field_names.clone()),
            locks: Locks::new(),
            counts: given.switch("statistics"),
            wal: given.switch("wal"),
            sync: given.switch("sync"),
            options,
            opened: Opened::new(db, |db| {
                db.cf_handle(table).expect("the table was opened with the database")
            }),
        })
    }

    /// RocksDB's own database.
    pub(crate) fn db(&self) -> &DB {
        self.opened.borrow_owner()
    }

    /// The table's column family.
    pub(crate) fn family(&self) -> &ColumnFamily {
        self.opened.borrow_dependent()
    }

    pub(crate) fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.disable_wal(!self.wal);
        options.set_sync(self.sync);
        options
    }

    /// Flushes the memtables and waits until no flush or compaction is left to do.
    pub(crate) fn settle(&self) -> Result<(), OpenError> {
        let mut wait = WaitForCompactOptions::default();
        wait.set_flush(true);
        self.db().wait_for_compact(&wait).map_err(|error| {
            let path = self.db().path().display();
            OpenError::System(format!("the RocksDB database at {path} doesn't settle ({error})"))
        })
    }
}

/// The column families to open: those that are there, and the table where it may be made.
fn families(
    path: &Path,
    standing: Standing,
    create: bool,
    table: &str,
) -> Result<Vec<String>, OpenError> {
    let mut families = match standing {
        Standing::Vacant => vec![DEFAULT_COLUMN_FAMILY_NAME.to_owned()],
        Standing::Database => {
            DB::list_cf(&Options::default(), path).map_err(|error| refusal(path, &error))?
        }
    };
    if families.iter().any(|name| name == table) {
        return Ok(families);
    }
    let others: Vec<_> =
        families.iter().filter(|name| *name != DEFAULT_COLUMN_FAMILY_NAME).cloned().collect();
    if create && others.is_empty() {
        families.push(table.to_owned());
        return Ok(families);
    }
    let there = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
    Err(OpenError::System(format!(
        "the RocksDB database at {} has no table {table} (its tables: {there}): \
         name one of them or use another path",
        path.display()
    )))
}
