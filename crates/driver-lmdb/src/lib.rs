//! Embedded LMDB: a copy-on-write B-tree in a memory map.
//!
//! Each write is a transaction. LMDB writes at once to the operating system, so
//! acknowledged writes survive a kill of the process at every level.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, MdbError, WithoutTls};
use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver::{About, Description, Files, OpenError, Place, Scheme};
use kvmark_embedded::{Access, ByteHandle, ByteStore, Durability, Opening, StoreError};
use kvmark_plan::Outcome;

/// Tables of a database.
const TABLES_MAX: u32 = 64;
/// Concurrent readers.
const READERS_MAX: u32 = 4096;

static OPTIONS: [OptionDoc; 2] = [
    option("map_bytes", Accepts::Whole { min: 1 << 20, max: 1 << 44 }, Some("274877906944"))
        .meaning("Greatest size of the database; a multiple of the page size."),
    option("read_ahead", Accepts::SWITCH, Some("true"))
        .meaning("Whether the kernel reads ahead; false suits more data than memory."),
];

type Table = Database<'static, Bytes, Bytes>;

/// The driver.
pub type Lmdb = kvmark_embedded::Embedded<Store>;

/// An open database.
pub struct Store {
    env: Env<WithoutTls>,
    table: Table,
}

/// A client's handle.
pub struct Handle(Arc<Store>);

impl ByteStore for Store {
    type Handle = Handle;

    const ABOUT: About = About {
        files: Some(Files { complete: "data.mdb", early: &["lock.mdb"], others: &[] }),
        ..About::new("lmdb", Place::Folder, &[Scheme::new("lmdb", "lmdb:PATH")])
    };
    const SYSTEM: &'static str = "LMDB";
    const LOCKS: bool = false;

    fn options() -> Vec<&'static OptionDoc> {
        OPTIONS.iter().collect()
    }

    fn effective(wanted: Durability) -> Durability {
        wanted.max(Durability::Process)
    }

    fn open(opening: &Opening<'_>) -> Result<Self, OpenError> {
        let Opening { path, table, given, durability, access } = *opening;
        let mut flags = EnvFlags::empty();
        flags.set(EnvFlags::NO_SYNC, durability < Durability::Sync);
        flags.set(EnvFlags::NO_READ_AHEAD, !given.switch("read_ahead"));
        flags.set(EnvFlags::READ_ONLY, access == Access::Read);
        let map_bytes = given.whole("map_bytes").unwrap_or_default() as usize;
        let refused = |error: heed::Error| refusal(path, &error);
        let env = open(path, map_bytes, flags).map_err(refused)?;
        if let Some(table) = existing(&env, table).map_err(refused)? {
            return Ok(Self { env, table });
        }
        opening.refuse_missing_table(Self::SYSTEM, &names(&env).map_err(refused)?)?;
        let table = create(&env, table).map_err(refused)?;
        Ok(Self { env, table })
    }

    fn tables(path: &Path) -> Result<Vec<String>, OpenError> {
        let env = open(path, 0, EnvFlags::READ_ONLY).map_err(|error| refusal(path, &error))?;
        names(&env).map_err(|error| refusal(path, &error))
    }

    fn handle(store: &Arc<Self>) -> Result<Handle, OpenError> {
        Ok(Handle(Arc::clone(store)))
    }

    fn describe(&self, given: &Given) -> Description {
        let (major, minor, patch) = {
            let version = heed::lmdb_version();
            (version.major, version.minor, version.patch)
        };
        kvmark_embedded::description(Self::SYSTEM, &format!("{major}.{minor}.{patch}"), given)
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        let pages = self.env.info().last_page_number;
        BTreeMap::from([("lmdb.pages".to_owned(), pages as f64)])
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
            let transaction = self.0.env.read_txn()?;
            Ok(self.0.table.get(&transaction, key)?.map(take))
        };
        read().map_err(|error| failure(&error))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let write = || {
            let mut transaction = self.0.env.write_txn()?;
            self.0.table.put(&mut transaction, key, value)?;
            transaction.commit()
        };
        write().map_err(|error| failure(&error))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let write = || {
            let mut transaction = self.0.env.write_txn()?;
            self.0.table.delete(&mut transaction, key)?;
            transaction.commit()
        };
        write().map_err(|error| failure(&error))
    }

    fn scan(
        &mut self,
        from: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        // LMDB has no empty key.
        let first = if from.is_empty() { Bound::Unbounded } else { Bound::Included(from) };
        let range = (first, Bound::Unbounded);
        let mut read = || {
            let transaction = self.0.env.read_txn()?;
            for entry in self.0.table.range(&transaction, &range)? {
                let (key, value) = entry?;
                if !each(key, value) {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(|error| failure(&error))
    }
}

#[expect(unsafe_code, reason = "an LMDB environment is a memory map of a file")]
fn open(path: &Path, map_bytes: usize, flags: EnvFlags) -> heed::Result<Env<WithoutTls>> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(map_bytes).max_dbs(TABLES_MAX).max_readers(READERS_MAX);
    // SAFETY: The flags change when bytes reach the disk and whether they may be written, not
    // LMDB's locks of readers and writers, which order all processes that map the file. kvmark
    // changes the file only through LMDB, and heed refuses a second environment in this process.
    unsafe { options.flags(flags).open(path) }
}

fn existing(env: &Env<WithoutTls>, table: &str) -> heed::Result<Option<Table>> {
    let opened = env.open_databases_and_commit(env.read_txn()?, |opener, transaction| {
        Ok::<_, heed::Error>(
            match opener.open_database::<Bytes, Bytes>(transaction, Some(table))? {
                Some(table) => CommitOrAbort::Commit(table),
                None => CommitOrAbort::Abort(()),
            },
        )
    })?;
    Ok(opened.commit())
}

fn create(env: &Env<WithoutTls>, table: &str) -> heed::Result<Table> {
    let created = env.create_databases_and_commit(env.write_txn()?, |opener, transaction| {
        let table = opener.create_database::<Bytes, Bytes>(transaction, Some(table))?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(table))
    })?;
    Ok(created.unwrap_commit())
}

/// The names of all tables: LMDB keeps them as keys.
fn names(env: &Env<WithoutTls>) -> heed::Result<Vec<String>> {
    let opened = env.open_databases_and_commit(env.read_txn()?, |opener, transaction| {
        Ok::<_, heed::Error>(match opener.open_database::<Bytes, Bytes>(transaction, None)? {
            Some(table) => CommitOrAbort::Commit(table),
            None => CommitOrAbort::Abort(()),
        })
    })?;
    let (Some(root), transaction) = (opened.commit(), env.read_txn()?) else {
        return Ok(Vec::new());
    };
    let names = root.iter(&transaction)?.map(|entry| {
        let (name, _) = entry?;
        Ok(String::from_utf8_lossy(name).into_owned())
    });
    names.collect()
}

fn failure(error: &heed::Error) -> StoreError {
    let outcome = match error {
        heed::Error::Mdb(MdbError::BadValSize | MdbError::KeyExist) => Outcome::Refused,
        heed::Error::Mdb(MdbError::ReadersFull | MdbError::TxnFull) => Outcome::Overloaded,
        _ => Outcome::Storage,
    };
    StoreError::new("LMDB", outcome, error)
}

fn refusal(path: &Path, error: &heed::Error) -> OpenError {
    match error {
        heed::Error::EnvAlreadyOpened => kvmark_embedded::locked("LMDB", path),
        heed::Error::Io(error) if error.kind() != io::ErrorKind::InvalidInput => {
            kvmark_embedded::unusable("LMDB", path, error)
        }
        other => kvmark_embedded::unreadable("LMDB", path, other),
    }
}
