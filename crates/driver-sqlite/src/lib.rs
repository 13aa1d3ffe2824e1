//! Embedded SQLite, in WAL mode.
//!
//! A table of the dataset is a table of keys and values. Each client has its own connection;
//! writers wait for each other at a mutex of ours, since SQLite would sleep and try again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use kvmark_driver::options::{Accepts, Given, OptionDoc, option};
use kvmark_driver::{About, Description, Files, OpenError, Place, Scheme};
use kvmark_embedded::{Access, ByteHandle, ByteStore, Durability, Opening, StoreError};
use kvmark_plan::Outcome;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension as _};

const FILE: &str = "data.sqlite";

static OPTIONS: [OptionDoc; 3] = [
    option("cache_bytes", Accepts::Whole { min: 0, max: 1 << 40 }, Some("33554432"))
        .meaning("Size of the page cache of each connection."),
    option("map_bytes", Accepts::Whole { min: 0, max: 1 << 44 }, Some("0"))
        .meaning("Bytes of the file that are read through a memory map."),
    option("rowid", Accepts::SWITCH, Some("true"))
        .meaning("Whether a new table numbers its rows and has a separate index of its keys."),
];

/// The driver.
pub type Sqlite = kvmark_embedded::Embedded<Store>;

/// An open database.
pub struct Store {
    file: PathBuf,
    flags: OpenFlags,
    /// What a new connection executes.
    settings: String,
    sql: Sql,
    writing: Mutex<()>,
    /// Kept open, so that the log isn't removed between two clients.
    _first: Mutex<Connection>,
}

/// The statements on the table.
struct Sql {
    get: String,
    put: String,
    delete: String,
    scan: String,
}

/// A client's handle.
pub struct Handle {
    store: Arc<Store>,
    connection: Connection,
}

impl Sql {
    fn of(table: &str) -> Self {
        let table = quoted(table);
        Self {
            get: format!("SELECT value FROM {table} WHERE key = ?"),
            put: format!(
                "INSERT INTO {table} (key, value) VALUES (?, ?) \
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value"
            ),
            delete: format!("DELETE FROM {table} WHERE key = ?"),
            scan: format!("SELECT key, value FROM {table} WHERE key >= ? ORDER BY key"),
        }
    }
}

impl Store {
    fn connect(&self) -> rusqlite::Result<Connection> {
        connect(&self.file, self.flags, &self.settings)
    }
}

impl ByteStore for Store {
    type Handle = Handle;

    const ABOUT: About = About {
        files: Some(Files {
            complete: FILE,
            early: &["data.sqlite-wal", "data.sqlite-shm", "data.sqlite-journal"],
            others: &[],
        }),
        memory: &[("cache_bytes", 100)],
        ..About::new("sqlite", Place::Folder, &[Scheme::new("sqlite", "sqlite:PATH")])
    };
    const SYSTEM: &'static str = "SQLite";
    const LOCKS: bool = false;

    fn options() -> Vec<&'static OptionDoc> {
        OPTIONS.iter().collect()
    }

    fn effective(wanted: Durability) -> Durability {
        wanted.max(Durability::Process)
    }

    fn open(opening: &Opening<'_>) -> Result<Self, OpenError> {
        let Opening { path, table, given, durability, access } = *opening;
        let file = path.join(FILE);
        let flags = flags(access);
        let level = if durability == Durability::Sync { "FULL" } else { "NORMAL" };
        let whole = |name| given.whole(name).unwrap_or_default();
        let settings = format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = {level}; PRAGMA cache_size = -{}; \
             PRAGMA mmap_size = {}; PRAGMA busy_timeout = 10000;",
            whole("cache_bytes") / 1024,
            whole("map_bytes"),
        );
        let refused = |error: rusqlite::Error| refusal(&file, &error);
        let first = connect(&file, flags, &settings).map_err(refused)?;
        let tables = tables(&first).map_err(refused)?;
        if !tables.iter().any(|name| name == table) {
            opening.refuse_missing_table(Self::SYSTEM, &tables)?;
            let ending = if given.switch("rowid") { "" } else { " WITHOUT ROWID" };
            let create = format!(
                "CREATE TABLE {} (key BLOB PRIMARY KEY, value BLOB NOT NULL){ending}",
                quoted(table)
            );
            first.execute_batch(&create).map_err(refused)?;
        }
        let (sql, writing) = (Sql::of(table), Mutex::new(()));
        Ok(Self { file, flags, settings, sql, writing, _first: Mutex::new(first) })
    }

    fn tables(path: &Path) -> Result<Vec<String>, OpenError> {
        let file = path.join(FILE);
        let opened = connect(&file, flags(Access::Read), "").and_then(|opened| tables(&opened));
        opened.map_err(|error| refusal(&file, &error))
    }

    fn handle(store: &Arc<Self>) -> Result<Handle, OpenError> {
        let connection = store.connect().map_err(|error| refusal(&store.file, &error))?;
        Ok(Handle { store: Arc::clone(store), connection })
    }

    fn describe(&self, given: &Given) -> Description {
        kvmark_embedded::description(Self::SYSTEM, rusqlite::version(), given)
    }

    /// Writes the log back into the database.
    fn settle(&self) -> Result<(), OpenError> {
        let settled = self.connect().and_then(|connection| {
            let busy = |row: &rusqlite::Row<'_>| row.get::<_, bool>(0);
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], busy)
        });
        if settled.map_err(|error| refusal(&self.file, &error))? {
            return Err(OpenError::System(format!(
                "SQLite can't write the log of {} back into it: another program reads from it",
                self.file.display()
            )));
        }
        Ok(())
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
            let mut statement = self.connection.prepare_cached(&self.store.sql.get)?;
            let taken = |row: &rusqlite::Row<'_>| Ok(take(row.get_ref(0)?.as_blob()?));
            statement.query_row([key], taken).optional()
        };
        read().map_err(|error| failure(&error))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let _alone = self.store.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let put = self.connection.prepare_cached(&self.store.sql.put);
        let put = put.and_then(|mut statement| statement.execute([key, value]));
        put.map(|_| ()).map_err(|error| failure(&error))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        let _alone = self.store.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let deleted = self.connection.prepare_cached(&self.store.sql.delete);
        let deleted = deleted.and_then(|mut statement| statement.execute([key]));
        deleted.map(|_| ()).map_err(|error| failure(&error))
    }

    fn scan(
        &mut self,
        from: &[u8],
        mut each: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut read = || {
            let mut statement = self.connection.prepare_cached(&self.store.sql.scan)?;
            let mut rows = statement.query([from])?;
            while let Some(row) = rows.next()? {
                if !each(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?) {
                    break;
                }
            }
            Ok(())
        };
        read().map_err(|error| failure(&error))
    }
}

fn flags(access: Access) -> OpenFlags {
    let threads = OpenFlags::SQLITE_OPEN_NO_MUTEX;
    threads
        | match access {
            Access::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            Access::Extend | Access::Use => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        }
}

fn connect(file: &Path, flags: OpenFlags, settings: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(file, flags)?;
    if !flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        connection.execute_batch(settings)?;
    }
    Ok(connection)
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let mut statement = connection.prepare(sql)?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// A name in SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn failure(error: &rusqlite::Error) -> StoreError {
    let outcome = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Outcome::Overloaded,
        Some(ErrorCode::TooBig) => Outcome::Refused,
        _ => Outcome::Storage,
    };
    StoreError::new("SQLite", outcome, error)
}

fn refusal(file: &Path, error: &rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            kvmark_embedded::locked("SQLite", file)
        }
        _ => kvmark_embedded::unreadable("SQLite", file, error),
    }
}
