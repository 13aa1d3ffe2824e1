//! The options of this driver in one table, used to read them, pass them to RocksDB, read them back
//! and document them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kvmark_driver::OpenError;
use kvmark_driver::options::{Accepts, Given, OptionDoc};
use rocksdb::{BlockBasedOptions, Cache, Options};
use serde_json::Value;

/// One option: a line of the table.
#[derive(Debug)]
pub struct RocksDbOption {
    /// The documentation. The default is RocksDB's; a required option has none.
    pub doc: OptionDoc,
    /// RocksDB's names for it; empty if the driver implements it.
    pub own_names: &'static [&'static str],
    pub(crate) scope: Scope,
}

/// The scope of an option, which determines its section in RocksDB's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The driver implements it.
    Driver,
    /// The whole database.
    Database,
    /// The table's column family.
    Table,
    /// The blocks of its files.
    Blocks,
    /// The block cache, made by the driver.
    Cache,
}

/// Upper bound of counts, RocksDB's `int`.
const COUNT_MAX: i64 = i32::MAX as i64;
/// Upper bound of sizes: 1 TiB, beyond any machine this runs on.
const BYTES_MAX: i64 = 1 << 40;
/// RocksDB's spelling of the compressions, in the order of the option's words.
const COMPRESSIONS: [(&str, &str); 4] = [
    ("none", "kNoCompression"),
    ("snappy", "kSnappyCompression"),
    ("lz4", "kLZ4Compression"),
    ("zstd", "kZSTD"),
];

const fn bytes(min: i64) -> Accepts {
    Accepts::Whole { min, max: BYTES_MAX }
}

const fn count(min: i64) -> Accepts {
    Accepts::Whole { min, max: COUNT_MAX }
}

/// An option with its accepted values and default, and with its scope and RocksDB's names.
const fn option(
    name: &'static str,
    meaning: &'static str,
    (accepts, default): (Accepts, Option<&'static str>),
    (scope, own_names): (Scope, &'static [&'static str]),
) -> RocksDbOption {
    RocksDbOption { doc: OptionDoc { name, meaning, accepts, default }, own_names, scope }
}

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> &'static [RocksDbOption] {
    &TABLE
}

static TABLE: [RocksDbOption; 22] = [
    option(
        "path",
        "Folder of the database. Its parent must exist.",
        (Accepts::Text("the path of a folder"), None),
        (Scope::Driver, &[]),
    ),
    option(
        "create",
        "Whether a database that isn't there is created.",
        (Accepts::SWITCH, Some("false")),
        (Scope::Driver, &["create_if_missing"]),
    ),
    option(
        "wal",
        "Whether writes go to the write-ahead log; without it a crash loses \
                      memtables.",
        (Accepts::SWITCH, Some("true")),
        (Scope::Driver, &["disableWAL"]),
    ),
    option(
        "sync",
        "Whether a write waits until the log is on the disk; needs wal.",
        (Accepts::SWITCH, Some("false")),
        (Scope::Driver, &["sync"]),
    ),
    option(
        "statistics",
        "Whether RocksDB collects statistics; costs a few percent of the throughput.",
        (Accepts::SWITCH, Some("false")),
        (Scope::Driver, &["statistics"]),
    ),
    option(
        "write_buffer_bytes",
        "Size of a memtable.",
        (bytes(64 << 10), Some("67108864")),
        (Scope::Table, &["write_buffer_size"]),
    ),
    option(
        "max_write_buffers",
        "Memtables, the active one and those being flushed, before writes stop.",
        (count(2), Some("2")),
        (Scope::Table, &["max_write_buffer_number"]),
    ),
    option(
        "block_cache_bytes",
        "Size of the cache of uncompressed blocks, a hyper clock cache; 0 for no \
                      cache.",
        (bytes(0), Some("33554432")),
        (Scope::Cache, &["block_cache"]),
    ),
    option(
        "block_bytes",
        "Size of a block before compression.",
        (Accepts::Whole { min: 1 << 10, max: 1 << 30 }, Some("4096")),
        (Scope::Blocks, &["block_size"]),
    ),
    option(
        "bloom_bits_per_key",
        "Bits per key of the Bloom filter; 0 for no filter.",
        (Accepts::Whole { min: 0, max: 100 }, Some("0")),
        (Scope::Blocks, &["filter_policy"]),
    ),
    option(
        "cache_index_and_filter_blocks",
        "Whether index and filter blocks live in the block cache.",
        (Accepts::SWITCH, Some("false")),
        (Scope::Blocks, &["cache_index_and_filter_blocks"]),
    ),
    option(
        "compression",
        "Compression of blocks in files.",
        (Accepts::Words(&["none", "snappy", "lz4", "zstd"]), Some("lz4")),
        (Scope::Table, &["compression"]),
    ),
    option(
        "target_file_bytes",
        "Size of a file in level 1.",
        (bytes(64 << 10), Some("67108864")),
        (Scope::Table, &["target_file_size_base"]),
    ),
    option(
        "level_base_bytes",
        "Size of level 1.",
        (bytes(64 << 10), Some("268435456")),
        (Scope::Table, &["max_bytes_for_level_base"]),
    ),
    option(
        "level0_file_num_compaction_trigger",
        "Files in level 0 that start a compaction.",
        (count(1), Some("4")),
        (Scope::Table, &["level0_file_num_compaction_trigger"]),
    ),
    option(
        "level0_slowdown_writes_trigger",
        "Files in level 0 from which writes are slowed down.",
        (count(1), Some("20")),
        (Scope::Table, &["level0_slowdown_writes_trigger"]),
    ),
    option(
        "level0_stop_writes_trigger",
        "Files in level 0 at which writes stop.",
        (count(1), Some("36")),
        (Scope::Table, &["level0_stop_writes_trigger"]),
    ),
    option(
        "max_background_jobs",
        "Threads for flushes and compactions together.",
        (Accepts::Whole { min: 1, max: 1024 }, Some("2")),
        (Scope::Database, &["max_background_jobs"]),
    ),
    option(
        "max_subcompactions",
        "Threads that may share one compaction.",
        (Accepts::Whole { min: 1, max: 1024 }, Some("1")),
        (Scope::Database, &["max_subcompactions"]),
    ),
    option(
        "max_open_files",
        "Files kept open; -1 for all.",
        (count(-1), Some("-1")),
        (Scope::Database, &["max_open_files"]),
    ),
    option(
        "bytes_per_sync",
        "Bytes of a file after which they go to the disk; 0 leaves it to the kernel.",
        (bytes(0), Some("0")),
        (Scope::Database, &["bytes_per_sync"]),
    ),
    option(
        "direct_io",
        "Whether reads, flushes and compactions go past the kernel's page cache.",
        (Accepts::SWITCH, Some("false")),
        (Scope::Database, &["use_direct_reads", "use_direct_io_for_flush_and_compaction"]),
    ),
];

impl RocksDbOption {
    /// `name=value` in RocksDB's spelling, for each of its names.
    fn assignments(&self, value: &str) -> String {
        let spelled = match self.own_names {
            ["compression"] => compression(value, |pair| (pair.0, pair.1)).unwrap_or(value).into(),
            ["filter_policy"] if value == "0" => "nullptr".to_owned(),
            ["filter_policy"] => format!("bloomfilter:{value}:false"),
            _ => value.to_owned(),
        };
        self.own_names.iter().map(|name| format!("{name}={spelled};")).collect()
    }

    /// The value in our spelling, from RocksDB's.
    pub(crate) fn value_of(&self, spelled: &str) -> String {
        match self.own_names {
            ["compression"] => {
                compression(spelled, |pair| (pair.1, pair.0)).unwrap_or(spelled).into()
            }
            ["filter_policy"] => spelled.split(':').nth(1).unwrap_or("0").to_owned(),
            _ => spelled.to_owned(),
        }
    }
}

fn compression(
    from: &str,
    direction: impl Fn(&(&'static str, &'static str)) -> (&'static str, &'static str),
) -> Option<&'static str> {
    COMPRESSIONS.iter().map(direction).find(|(key, _)| *key == from).map(|(_, other)| other)
}

/// The given options, checked against the table.
#[derive(Debug)]
pub(crate) struct Settings {
    given: Given,
}

impl Settings {
    pub(crate) fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let docs = || TABLE.iter().map(|option| &option.doc);
        if let Some(name) = options.keys().find(|name| docs().all(|doc| doc.name != *name)) {
            return Err(unknown(name));
        }
        let given = Given::parse(docs(), options)?;
        if let Some(doc) = docs().find(|doc| given.text(doc.name).is_none()) {
            let text = format!("option '{}' is missing: give {}", doc.name, doc.accepts);
            return Err(OpenError::Option(text));
        }
        if given.switch("sync") && !given.switch("wal") {
            let text = "option 'sync' can't be 'true' while 'wal' is 'false': a write that goes \
                        to no log can't wait for it";
            return Err(OpenError::Option(text.to_owned()));
        }
        Ok(Self { given })
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(self.text("path"))
    }

    /// The value of a switch that the driver implements.
    pub(crate) fn switch(&self, name: &str) -> bool {
        self.given.switch(name)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.given.text(name).expect("an option has a default, or is refused where it is missing")
    }

    /// RocksDB's options: its defaults, and what was given.
    pub(crate) fn engine(&self) -> Result<Options, rocksdb::Error> {
        let mut base = Options::default();
        if let Some(bytes) = self.given.own("block_cache_bytes") {
            base.set_block_based_table_factory(&blocks(bytes.parse().unwrap_or_default()));
        }
        let assigned = |scope| {
            let own =
                |option: &RocksDbOption| Some(option.assignments(self.given.own(option.doc.name)?));
            let here = TABLE.iter().filter(|option| option.scope == scope);
            here.filter_map(own).collect::<String>()
        };
        let (database, table) = (assigned(Scope::Database), assigned(Scope::Table));
        let text = match assigned(Scope::Blocks) {
            blocks if blocks.is_empty() => database + &table,
            blocks => format!("{database}{table}block_based_table_factory={{{blocks}}};"),
        };
        let mut options = base.get_options_from_string(text)?;
        if self.switch("statistics") {
            options.enable_statistics();
        }
        Ok(options)
    }
}

fn blocks(cache_bytes: usize) -> BlockBasedOptions {
    let mut blocks = BlockBasedOptions::default();
    if cache_bytes == 0 {
        blocks.disable_cache();
    } else {
        // RocksDB's default kind of cache; a charge of 0 makes it adapt to the blocks.
        blocks.set_block_cache(&Cache::new_hyper_clock_cache(cache_bytes, 0));
    }
    blocks
}

/// The error of [`Given`] with the nearest name.
fn unknown(name: &str) -> OpenError {
    let known: Vec<_> = TABLE.iter().map(|option| option.doc.name).collect();
    let near = known.iter().map(|known| (distance(name, known), known)).min();
    let near = near.filter(|(distance, _)| *distance <= 1 + name.len() / 4);
    let hint = near.map_or_else(String::new, |(_, near)| format!(", did you mean '{near}'?"));
    let known = known.join(", ");
    OpenError::Option(format!("there is no option '{name}'{hint}; known are {known}"))
}

/// Levenshtein's: insertions, deletions and replacements that turn one name into the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: Value) -> Result<Settings, String> {
        let options = serde_json::from_value(value).unwrap();
        Settings::parse(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn values_may_be_json_or_text() {
        for value in [json!(true), json!("true")] {
            assert!(parse(json!({"path": "x", "sync": value})).unwrap().switch("sync"));
        }
        for value in [json!(8192), json!("8192")] {
            let settings = parse(json!({"path": "x", "block_bytes": value})).unwrap();
            assert_eq!(settings.text("block_bytes"), "8192");
        }
    }

    #[test]
    fn an_unknown_option_is_refused_with_the_nearest_and_all_known_names() {
        let error = parse(json!({"path": "x", "block_cache_size": 1})).unwrap_err();
        assert!(error.starts_with("there is no option 'block_cache_size', did you mean"));
        assert!(error.contains("'block_cache_bytes'?"));
        assert!(error.contains("known are path, create, wal, sync"));
        let error = parse(json!({"path": "x", "zzz": 1})).unwrap_err();
        assert!(error.starts_with("there is no option 'zzz'; known are"), "{error}");
    }

    #[test]
    fn an_invalid_value_is_rejected_with_the_accepted_ones() {
        let cases = [
            (json!({"wal": "yes"}), "option 'wal' can't be 'yes': give true or false"),
            (
                json!({"block_bytes": 12}),
                "option 'block_bytes' can't be '12': give a whole number from 1024 to 1073741824",
            ),
            (
                json!({"compression": "gzip"}),
                "option 'compression' can't be 'gzip': give one of none, snappy, lz4, zstd",
            ),
            (json!({"path": ""}), "option 'path' can't be '': give the path of a folder"),
            (
                json!({"max_background_jobs": 1.5}),
                "option 'max_background_jobs' can't be '1.5': give a whole number from 1 to 1024",
            ),
        ];
        for (mut options, sentence) in cases {
            let map = options.as_object_mut().unwrap();
            map.entry("path").or_insert(json!("x"));
            assert_eq!(parse(options).unwrap_err(), sentence);
        }
    }

    #[test]
    fn the_path_must_be_given_and_sync_needs_the_log() {
        let error = parse(json!({})).unwrap_err();
        assert_eq!(error, "option 'path' is missing: give the path of a folder");
        let error = parse(json!({"path": "x", "sync": true, "wal": false})).unwrap_err();
        assert!(error.starts_with("option 'sync' can't be 'true' while 'wal' is 'false'"));
    }

    #[test]
    fn names_are_unique_and_defaults_are_accepted() {
        for (index, RocksDbOption { doc, .. }) in TABLE.iter().enumerate() {
            let mut before = TABLE[..index].iter();
            assert!(before.all(|other| other.doc.name != doc.name), "{}", doc.name);
            let default = doc.default.map(|text| doc.accepts.read(text));
            assert!(default.is_none_or(|read| read.is_some()), "{}", doc.name);
        }
    }
}
