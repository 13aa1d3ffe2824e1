//! The options of this driver: one table from which they are read, given to RocksDB, read back from
//! it and documented.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kvmark_driver::OpenError;
use kvmark_driver::options::Accepts;
use rocksdb::{BlockBasedOptions, Cache, Options};
use serde_json::Value;

/// One option as documentation shows it.
#[derive(Debug)]
pub struct OptionDoc {
    /// Its name in plans and URLs.
    pub name: &'static str,
    /// What it does.
    pub meaning: &'static str,
    /// What it accepts.
    pub accepts: Accepts,
    /// Its value where it isn't given: RocksDB's own default; none where it must be given.
    pub default: Option<&'static str>,
    /// RocksDB's own names for it; empty where the driver itself acts on it.
    pub own_names: &'static [&'static str],
    pub(crate) place: Place,
}

/// Where RocksDB keeps an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere: the driver acts on it.
    Driver,
    /// In the options of the whole database.
    Database,
    /// In those of the table's column family.
    Table,
    /// In those of its block-based file format.
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
pub fn options() -> &'static [OptionDoc] {
    &TABLE
}

static TABLE: [OptionDoc; 22] = [
    OptionDoc {
        name: "path",
        meaning: "Folder of the database. Its parent must exist.",
        accepts: Accepts::Text("the path of a folder"),
        default: None,
        own_names: &[],
        place: Place::Driver,
    },
    OptionDoc {
        name: "create",
        meaning: "Whether a database that isn't there is created.",
        accepts: Accepts::SWITCH,
        default: Some("false"),
        own_names: &["create_if_missing"],
        place: Place::Driver,
    },
    OptionDoc {
        name: "wal",
        meaning: "Whether writes go to the write-ahead log; without it a crash loses memtables.",
        accepts: Accepts::SWITCH,
        default: Some("true"),
        own_names: &["disableWAL"],
        place: Place::Driver,
    },
    OptionDoc {
        name: "sync",
        meaning: "Whether a write waits until the log is on the disk; needs wal.",
        accepts: Accepts::SWITCH,
        default: Some("false"),
        own_names: &["sync"],
        place: Place::Driver,
    },
    OptionDoc {
        name: "statistics",
        meaning: "Whether RocksDB counts what it does; costs a few percent of the throughput.",
        accepts: Accepts::SWITCH,
        default: Some("false"),
        own_names: &["statistics"],
        place: Place::Driver,
    },
    OptionDoc {
        name: "write_buffer_bytes",
        meaning: "Size of a memtable.",
        accepts: bytes(64 << 10),
        default: Some("67108864"),
        own_names: &["write_buffer_size"],
        place: Place::Table,
    },
    OptionDoc {
        name: "max_write_buffers",
        meaning: "Memtables, the active one and those being flushed, before writes stop.",
        accepts: count(2),
        default: Some("2"),
        own_names: &["max_write_buffer_number"],
        place: Place::Table,
    },
    OptionDoc {
        name: "block_cache_bytes",
        meaning: "Size of the cache of uncompressed blocks, a hyper clock cache; 0 for no cache.",
        accepts: bytes(0),
        default: Some("33554432"),
        own_names: &["block_cache"],
        place: Place::Cache,
    },
    OptionDoc {
        name: "block_bytes",
        meaning: "Size of a block before compression.",
        accepts: Accepts::Whole { min: 1 << 10, max: 1 << 30 },
        default: Some("4096"),
        own_names: &["block_size"],
        place: Place::Blocks,
    },
    OptionDoc {
        name: "bloom_bits_per_key",
        meaning: "Bits per key of the Bloom filter; 0 for no filter.",
        accepts: Accepts::Whole { min: 0, max: 100 },
        default: Some("0"),
        own_names: &["filter_policy"],
        place: Place::Blocks,
    },
    OptionDoc {
        name: "cache_index_and_filter_blocks",
        meaning: "Whether index and filter blocks live in the block cache.",
        accepts: Accepts::SWITCH,
        default: Some("false"),
        own_names: &["cache_index_and_filter_blocks"],
        place: Place::Blocks,
    },
    OptionDoc {
        name: "compression",
        meaning: "Compression of blocks in files.",
        accepts: Accepts::Words(&["none", "snappy", "lz4", "zstd"]),
        default: Some("lz4"),
        own_names: &["compression"],
        place: Place::Table,
    },
    OptionDoc {
        name: "target_file_bytes",
        meaning: "Size of a file in level 1.",
        accepts: bytes(64 << 10),
        default: Some("67108864"),
        own_names: &["target_file_size_base"],
        place: Place::Table,
    },
    OptionDoc {
        name: "level_base_bytes",
        meaning: "Size of level 1.",
        accepts: bytes(64 << 10),
        default: Some("268435456"),
        own_names: &["max_bytes_for_level_base"],
        place: Place::Table,
    },
    OptionDoc {
        name: "level0_file_num_compaction_trigger",
        meaning: "Files in level 0 that start a compaction.",
        accepts: count(1),
        default: Some("4"),
        own_names: &["level0_file_num_compaction_trigger"],
        place: Place::Table,
    },
    OptionDoc {
        name: "level0_slowdown_writes_trigger",
        meaning: "Files in level 0 from which writes are slowed down.",
        accepts: count(1),
        default: Some("20"),
        own_names: &["level0_slowdown_writes_trigger"],
        place: Place::Table,
    },
    OptionDoc {
        name: "level0_stop_writes_trigger",
        meaning: "Files in level 0 at which writes stop.",
        accepts: count(1),
        default: Some("36"),
        own_names: &["level0_stop_writes_trigger"],
        place: Place::Table,
    },
    OptionDoc {
        name: "max_background_jobs",
        meaning: "Threads for flushes and compactions together.",
        accepts: Accepts::Whole { min: 1, max: 1024 },
        default: Some("2"),
        own_names: &["max_background_jobs"],
        place: Place::Database,
    },
    OptionDoc {
        name: "max_subcompactions",
        meaning: "Threads that may share one compaction.",
        accepts: Accepts::Whole { min: 1, max: 1024 },
        default: Some("1"),
        own_names: &["max_subcompactions"],
        place: Place::Database,
    },
    OptionDoc {
        name: "max_open_files",
        meaning: "Files kept open; -1 for all.",
        accepts: count(-1),
        default: Some("-1"),
        own_names: &["max_open_files"],
        place: Place::Database,
    },
    OptionDoc {
        name: "bytes_per_sync",
        meaning: "Bytes of a file after which they go to the disk; 0 leaves it to the kernel.",
        accepts: bytes(0),
        default: Some("0"),
        own_names: &["bytes_per_sync"],
        place: Place::Database,
    },
    OptionDoc {
        name: "direct_io",
        meaning: "Whether reads, flushes and compactions go past the kernel's page cache.",
        accepts: Accepts::SWITCH,
        default: Some("false"),
        own_names: &["use_direct_reads", "use_direct_io_for_flush_and_compaction"],
        place: Place::Database,
    },
];

impl OptionDoc {
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

/// The options as given, checked, each in its one spelling.
#[derive(Debug)]
pub(crate) struct Settings {
    given: BTreeMap<&'static str, String>,
}

impl Settings {
    pub(crate) fn parse(options: &BTreeMap<String, Value>) -> Result<Self, OpenError> {
        let mut given = BTreeMap::new();
        for (name, value) in options {
            let doc = TABLE.iter().find(|doc| doc.name == name).ok_or_else(|| unknown(name))?;
            given.insert(doc.name, doc.accepts.checked(name, value)?);
        }
        let missing =
            TABLE.iter().find(|doc| doc.default.is_none() && !given.contains_key(doc.name));
        if let Some(doc) = missing {
            let text = format!("option '{}' is missing: give {}", doc.name, doc.accepts);
            return Err(OpenError::Option(text));
        }
        let settings = Self { given };
        if settings.switch("sync") && !settings.switch("wal") {
            let text = "option 'sync' can't be 'true' while 'wal' is 'false': a write that goes \
                        to no log can't wait for it";
            return Err(OpenError::Option(text.to_owned()));
        }
        Ok(settings)
    }

    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(self.text("path"))
    }

    /// The value of a switch that the driver itself acts on.
    pub(crate) fn switch(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        let default = || TABLE.iter().find(|doc| doc.name == name).and_then(|doc| doc.default);
        self.given.get(name).map(String::as_str).or_else(default).unwrap_or_default()
    }

    /// RocksDB's options: its defaults, and what was given.
    pub(crate) fn engine(&self) -> Result<Options, rocksdb::Error> {
        let mut base = Options::default();
        if let Some(bytes) = self.given.get("block_cache_bytes") {
            base.set_block_based_table_factory(&blocks(bytes.parse().unwrap_or_default()));
        }
        let assigned = |place| {
            let here = TABLE.iter().filter(move |doc| doc.place == place);
            let given = here.filter_map(|doc| Some(doc.assignments(self.given.get(doc.name)?)));
            given.collect::<String>()
        };
        let (database, table) = (assigned(Place::Database), assigned(Place::Table));
        let text = match assigned(Place::Blocks) {
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

fn unknown(name: &str) -> OpenError {
    let near = TABLE.iter().map(|doc| (distance(name, doc.name), doc.name)).min();
    let near = near.filter(|(distance, _)| *distance <= 1 + name.len() / 4);
    let hint = near.map_or_else(String::new, |(_, near)| format!(", did you mean '{near}'?"));
    let known: Vec<_> = TABLE.iter().map(|doc| doc.name).collect();
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
        for (index, doc) in TABLE.iter().enumerate() {
            assert!(TABLE[..index].iter().all(|other| other.name != doc.name), "{}", doc.name);
            let default = doc.default.map(|text| doc.accepts.read(text));
            assert!(default.is_none_or(|read| read.is_some()), "{}", doc.name);
        }
    }
}
