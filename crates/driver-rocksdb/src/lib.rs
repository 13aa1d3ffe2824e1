//! Embedded RocksDB.

mod database;
mod effective;
mod failure;
mod options;
mod statistics;

pub use database::Database;
pub use options::{RocksDbOption, options};

/// The driver. YCSB's own RocksDB binding and kvmark read what the other loaded.
pub type RocksDb = kvmark_embedded::Embedded<Database>;
