//! RocksDB's effective configuration: from the OPTIONS file that it writes when a database opens,
//! and from its properties.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rocksdb::DB;

use crate::options::{RocksDbOption, Scope, Settings, options};

/// Options of a database's location, which aren't configuration.
const NOT_CONFIGURATION: [&str; 2] = ["path", "create"];

/// Origin of the RocksDB library: compiled in a few parts, by its crate, or given by the user.
const BUILD: &str = match (option_env!("KVMARK_ROCKSDB_BUILD"), option_env!("ROCKSDB_LIB_DIR")) {
    (Some(build), _) => build,
    (None, None) => "crate",
    (None, Some(_)) => "library",
};

/// An OPTIONS file: `name=value` lines by section.
pub(crate) struct OptionsFile {
    values: BTreeMap<(String, String), String>,
}

impl OptionsFile {
    /// The newest one of the database; empty if there is none.
    pub(crate) fn newest(path: &Path) -> Self {
        let text = newest_file(path).and_then(|file| fs::read_to_string(file).ok());
        Self::parse(&text.unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut values = BTreeMap::new();
        let mut section = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.to_owned();
            } else if let Some((name, value)) = line.split_once('=') {
                values.insert((section.clone(), name.to_owned()), value.to_owned());
            }
        }
        Self { values }
    }

    fn value(&self, section: &str, name: &str) -> Option<&str> {
        self.values.get(&(section.to_owned(), name.to_owned())).map(String::as_str)
    }

    /// RocksDB's version.
    pub(crate) fn version(&self) -> String {
        self.value("Version", "rocksdb_version").unwrap_or("unknown").to_owned()
    }
}

fn newest_file(path: &Path) -> Option<PathBuf> {
    let numbered = fs::read_dir(path).ok()?.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix("OPTIONS-")?.parse::<u64>().ok()?;
        Some((number, entry.path()))
    });
    numbered.max_by_key(|(number, _)| *number).map(|(_, file)| file)
}

/// The effective value of every option that shapes how the system behaves, by our names.
pub(crate) fn configuration(
    settings: &Settings,
    file: &OptionsFile,
    db: &DB,
    table: &str,
) -> BTreeMap<String, String> {
    let shaping = options().iter().filter(|option| !NOT_CONFIGURATION.contains(&option.doc.name));
    let values = shaping.filter_map(|option| {
        let name = option.doc.name;
        let value = match option.scope {
            Scope::Driver => Some(settings.text(name).to_owned()),
            Scope::Cache => cache_bytes(db, table),
            Scope::Database => from_file(file, option, "DBOptions"),
            Scope::Table => from_file(file, option, &format!("CFOptions \"{table}\"")),
            Scope::Blocks => {
                from_file(file, option, &format!("TableOptions/BlockBasedTable \"{table}\""))
            }
        };
        Some((name.to_owned(), value?))
    });
    let build = ("build".to_owned(), BUILD.to_owned());
    values.chain([build]).collect()
}

fn from_file(file: &OptionsFile, option: &RocksDbOption, section: &str) -> Option<String> {
    file.value(section, option.own_names.first()?).map(|spelled| option.value_of(spelled))
}

fn cache_bytes(db: &DB, table: &str) -> Option<String> {
    let family = db.cf_handle(table)?;
    let bytes = db.property_int_value_cf(family, "rocksdb.block-cache-capacity").ok()?;
    // Without a cache RocksDB doesn't know the property.
    Some(bytes.unwrap_or(0).to_string())
}
