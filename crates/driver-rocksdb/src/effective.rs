//! RocksDB's effective configuration: from the OPTIONS file that it writes when a database opens,
//! and from its properties.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kvmark_driver::Description;
use kvmark_driver::options::Given;
use rocksdb::DB;

use crate::options::{Scope, options};

/// Origin of the RocksDB library: compiled in a few parts, by its crate, or given by the user.
const BUILD: &str = match (option_env!("KVMARK_ROCKSDB_BUILD"), option_env!("ROCKSDB_LIB_DIR")) {
    (Some(build), _) => build,
    (None, None) => "crate",
    (None, Some(_)) => "library",
};

/// Describes an open database, with the effective value of every option that shapes how it behaves,
/// by our names.
pub(crate) fn describe(given: &Given, db: &DB, table: &str) -> Description {
    let file = newest_file(db.path()).and_then(|file| fs::read_to_string(file).ok());
    let file = parse(&file.unwrap_or_default());
    let value = |section: &str, name: &str| file.get(&(section.to_owned(), name.to_owned()));
    let values = options().iter().filter_map(|option| {
        let name = option.doc.name;
        let section = match option.scope {
            Scope::Driver => return Some((name.to_owned(), given.text(name)?.to_owned())),
            Scope::Cache => return Some((name.to_owned(), cache_bytes(db, table)?)),
            Scope::Database => "DBOptions".to_owned(),
            Scope::Table => format!("CFOptions \"{table}\""),
            Scope::Blocks => format!("TableOptions/BlockBasedTable \"{table}\""),
        };
        let spelled = value(&section, option.own_names.first()?)?;
        Some((name.to_owned(), option.value_of(spelled)))
    });
    let version = value("Version", "rocksdb_version").map_or("unknown", String::as_str);
    Description {
        system: "RocksDB".to_owned(),
        version: version.to_owned(),
        configuration: values.chain([("build".to_owned(), BUILD.to_owned())]).collect(),
    }
}

/// The values of an OPTIONS file by section and name.
fn parse(text: &str) -> BTreeMap<(String, String), String> {
    let mut values = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((name, value)) = line.split_once('=') {
            values.insert((section.clone(), name.to_owned()), value.to_owned());
        }
    }
    values
}

fn newest_file(path: &Path) -> Option<PathBuf> {
    let numbered = fs::read_dir(path).ok()?.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix("OPTIONS-")?.parse::<u64>().ok()?;
        Some((number, entry.path()))
    });
    numbered.max_by_key(|(number, _)| *number).map(|(_, file)| file)
}

fn cache_bytes(db: &DB, table: &str) -> Option<String> {
    let family = db.cf_handle(table)?;
    let bytes = db.property_int_value_cf(family, "rocksdb.block-cache-capacity").ok()?;
    // Without a cache RocksDB doesn't know the property.
    Some(bytes.unwrap_or(0).to_string())
}
