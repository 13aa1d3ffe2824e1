//! The options of this driver: one table from which they are read, given to RocksDB, read back from
//! it and documented.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kvmark_driver::OpenError;
use kvmark_driver::options::{Accepts, Given, OptionDoc};
use rocksdb::{BlockBasedOptions, Cache, Options};
use serde_json::Value;

/// One option: a line of the table.
#[derive(Debug)]
pub struct RocksDbOption {
    /// What documentation shows. The default is RocksDB's own; there is none where the option must
    /// be given.
    pub doc: OptionDoc,
    /// RocksDB's own names for it; empty where the driver itself acts on it.
    pub own_names: &'static [&'static str],
    pub(crate) scope: Scope,
}

/// What an option applies to, and so among which of RocksDB's options it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The driver, which acts on it itself.
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

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> &'static [RocksDbOption] {
    &TABLE
}

static TABLE: [RocksDbOption; 22] = [
    RocksDbOption {
        doc: OptionDoc {
            name: "path",
            meaning: "Folder of the database. Its parent must exist.",
            accepts: Accepts::Text("the path of a folder"),
            default: None,
        },
        own_names: &[],
        scope: Scope::Driver,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "create",
            meaning: "Whether a database that isn't there is created.",
            accepts: Accepts::SWITCH,
            default: Some("false"),
        },
        own_names: &["create_if_missing"],
        scope: Scope::Driver,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "wal",
            meaning: "Whether writes go to the write-ahead log; without it a crash loses \
                      memtables.",
            accepts: Accepts::SWITCH,
            default: Some("true"),
        },
        own_names: &["disableWAL"],
        scope: Scope::Driver,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "sync",
            meaning: "Whether a write waits until the log is on the disk; needs wal.",
            accepts: Accepts::SWITCH,
            default: Some("false"),
        },
        own_names: &["sync"],
        scope: Scope::Driver,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "statistics",
            meaning: "Whether RocksDB counts what it does; costs a few percent of the throughput.",
            accepts: Accepts::SWITCH,
            default: Some("false"),
        },
        own_names: &["statistics"],
        scope: Scope::Driver,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "write_buffer_bytes",
            meaning: "Size of a memtable.",
            accepts: bytes(64 << 10),
            default: Some("67108864"),
        },
        own_names: &["write_buffer_size"],
        scope: Scope::Table,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "max_write_buffers",
            meaning: "Memtables, the active one and those being flushed, before writes stop.",
            accepts: count(2),
            default: Some("2"),
        },
        own_names: &["max_write_buffer_number"],
        scope: Scope::Table,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "block_cache_bytes",
            meaning: "Size of the cache of uncompressed blocks, a hyper clock cache; 0 for no \
                      cache.",
            accepts: bytes(0),
            default: Some("33554432"),
        },
        own_names: &["block_cache"],
        scope: Scope::Cache,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "block_bytes",
            meaning: "Size of a block before compression.",
            accepts: Accepts::Whole { min: 1 << 10, max: 1 << 30 },
            default: Some("4096"),
        },
        own_names: &["block_size"],
        scope: Scope::Blocks,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "bloom_bits_per_key",
            meaning: "Bits per key of the Bloom filter; 0 for no filter.",
            accepts: Accepts::Whole { min: 0, max: 100 },
            default: Some("0"),
        },
        own_names: &["filter_policy"],
        scope: Scope::Blocks,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "cache_index_and_filter_blocks",
            meaning: "Whether index and filter blocks live in the block cache.",
            accepts: Accepts::SWITCH,
            default: Some("false"),
        },
        own_names: &["cache_index_and_filter_blocks"],
        scope: Scope::Blocks,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "compression",
            meaning: "Compression of blocks in files.",
            accepts: Accepts::Words(&["none", "snappy", "lz4", "zstd"]),
            default: Some("lz4"),
        },
        own_names: &["compression"],
        scope: Scope::Table,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "target_file_bytes",
            meaning: "Size of a file in level 1.",
            accepts: bytes(64 << 10),
            default: Some("67108864"),
        },
        own_names: &["target_file_size_base"],
        scope: Scope::Table,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "level_base_bytes",
            meaning: "Size of level 1.",
            accepts: bytes(64 << 10),
            default: Some("268435456"),
        },
        own_names: &["max_bytes_for_level_base"],
        scope: Scope::Table,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "level0_file_num_compaction_trigger",
            meaning: "Files in level 0 that start a compaction.",
            accepts: count(1),
            default: Some("4"),
        },
        own_names: &["level0_file_num_compaction_trigger"],
        scope: Scope::Table,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "level0_slowdown_writes_trigger",
            meaning: "Files in level 0 from which writes are slowed down.",
            accepts: count(1),
            default: Some("20"),
        },
        own_names: &["level0_slowdown_writes_trigger"],
        scope: Scope::Table,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "level0_stop_writes_trigger",
            meaning: "Files in level 0 at which writes stop.",
            accepts: count(1),
            default: Some("36"),
        },
        own_names: &["level0_stop_writes_trigger"],
        scope: Scope::Table,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "max_background_jobs",
            meaning: "Threads for flushes and compactions together.",
            accepts: Accepts::Whole { min: 1, max: 1024 },
            default: Some("2"),
        },
        own_names: &["max_background_jobs"],
        scope: Scope::Database,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "max_subcompactions",
            meaning: "Threads that may share one compaction.",
            accepts: Accepts::Whole { min: 1, max: 1024 },
            default: Some("1"),
        },
        own_names: &["max_subcompactions"],
        scope: Scope::Database,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "max_open_files",
            meaning: "Files kept open; -1 for all.",
            accepts: count(-1),
            default: Some("-1"),
        },
        own_names: &["max_open_files"],
        scope: Scope::Database,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "bytes_per_sync",
            meaning: "Bytes of a file after which they go to the disk; 0 leaves it to the kernel.",
            accepts: bytes(0),
            default: Some("0"),
        },
        own_names: &["bytes_per_sync"],
        scope: Scope::Database,
    },
    RocksDbOption {
        doc: OptionDoc {
            name: "direct_io",
            meaning: "Whether reads, flushes and compactions go past the kernel's page cache.",
            accepts: Accepts::SWITCH,
            default: Some("false"),
        },
        own_names: &["use_direct_reads", "use_direct_io_for_flush_and_compaction"],
        scope: Scope::Database,
    },
];

impl RocksDbOption {
    /// `name=value` in RocksDB's spelling, for each of its own names.
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

/// The options as given, held against the table.
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

    /// The value of a switch that the driver itself acts on.
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
        // The kind that RocksDB makes by default; a charge of 0 lets it adapt to the blocks.
        blocks.set_block_cache(&Cache::new_hyper_clock_cache(cache_bytes, 0));
    }
    blocks
}

/// As [`Given`] says it, with the nearest name.
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
    fn a_wrong_value_is_refused_with_what_is_accepted() {
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
