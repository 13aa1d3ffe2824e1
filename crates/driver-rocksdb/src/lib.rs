//! Embedded RocksDB.
//!
//! A table of the dataset is a column family of the same name; a key is stored as it is, a record
//! as YCSB's own RocksDB binding writes it (see `codec.rs`), so that either can read what the other
//! loaded. RocksDB's calls block and run in the client's thread. An update reads the record, merges
//! the new values into it and writes it whole, as YCSB does; a delete is blind. Unlike in YCSB, a
//! lock serializes the writers of one record (see `locks.rs`), so that an update is atomic.
//!
//! The folder given as `path` is created only when `create` is set, and never written to when it
//! holds anything but a RocksDB database with the dataset's table.

mod codec;
mod console;
mod database;
mod effective;
mod failure;
mod folder;
mod locks;
mod options;
mod session;
mod statistics;

use std::collections::BTreeMap;
use std::sync::Arc;

use kvmark_driver::{
    About, AnyConsole, AnySession, Capabilities, Description, Driver, Execution, Layout, Never,
    OpenError, Place, Scheme,
};

use database::Database;

pub use options::{RocksDbOption, options};
pub use session::RocksDbSession;

/// An open RocksDB database. It is closed, and its lock released, when the driver and all its
/// sessions are gone.
pub struct RocksDb {
    database: Arc<Database>,
}

impl RocksDb {
    /// The driver's static properties.
    pub const ABOUT: About = About {
        ycsb_bindings: &["rocksdb", "site.ycsb.db.rocksdb.RocksDBClient"],
        ycsb_properties: &["rocksdb."],
        ..About::new("rocksdb", Place::Folder, &[Scheme::new("rocksdb", "rocksdb:PATH")])
    };

    /// Opens the database, or creates it where the option `create` allows that.
    ///
    /// # Errors
    /// [`OpenError::Option`] when an option is unknown, missing or has a wrong value;
    /// [`OpenError::System`] when the folder isn't there, isn't a RocksDB database, lacks the
    /// table, is locked, or can't be read or written.
    pub fn open(
        options: &BTreeMap<String, serde_json::Value>,
        layout: &Layout,
    ) -> Result<Self, OpenError> {
        let database = Database::open(&options::parse(options)?, layout)?;
        Ok(Self { database: Arc::new(database) })
    }
}

impl Driver for RocksDb {
    type Blocking = RocksDbSession;
    type Session = Never;

    fn capabilities(&self) -> Capabilities {
        Capabilities { statements: false, ..Capabilities::all(Execution::Blocking, true) }
    }

    fn describe(&self) -> Description {
        self.database.description.clone()
    }

    fn session(&self, _clients: u32) -> Result<AnySession<RocksDbSession, Never>, OpenError> {
        Ok(AnySession::Blocking(RocksDbSession::new(Arc::clone(&self.database))))
    }

    fn settle(&self) -> Result<(), OpenError> {
        self.database.settle()
    }

    fn statistics(&self) -> BTreeMap<String, f64> {
        statistics::read(&self.database)
    }

    fn console(
        options: &BTreeMap<String, serde_json::Value>,
    ) -> Result<Option<AnyConsole>, OpenError> {
        Ok(Some(Box::new(console::Console::new(&options::parse(options)?))))
    }
}
