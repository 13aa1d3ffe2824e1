//! The options of this driver in one table, used to read them, pass them to RocksDB, read them back
//! and document them.

use kvmark_driver::options::{self, Accepts, Given, OptionDoc};
use rocksdb::{BlockBasedOptions, Cache, Options};

/// One option: a line of the table.
#[derive(Debug)]
pub struct RocksDbOption {
    /// The documentation. The default is RocksDB's.
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

/// An option, whose scope and meaning follow.
const fn option(
    name: &'static str,
    accepts: Accepts,
    default: Option<&'static str>,
) -> RocksDbOption {
    let doc = options::option(name, accepts, default);
    RocksDbOption { doc, own_names: &[], scope: Scope::Driver }
}

/// Every option of this driver, in the order of the documentation.
#[must_use]
pub fn options() -> &'static [RocksDbOption] {
    &TABLE
}

static TABLE: [RocksDbOption; 18] = [
    option("statistics", Accepts::SWITCH, Some("false"))
        .within(Scope::Driver, &["statistics"])
        .meaning("Whether RocksDB collects statistics; costs a few percent of the throughput."),
    option("write_buffer_bytes", bytes(64 << 10), Some("67108864"))
        .within(Scope::Table, &["write_buffer_size"])
        .meaning("Size of a memtable."),
    option("max_write_buffers", count(2), Some("2"))
        .within(Scope::Table, &["max_write_buffer_number"])
        .meaning("Memtables, the active one and those being flushed, before writes stop."),
    option("block_cache_bytes", bytes(0), Some("33554432"))
        .within(Scope::Cache, &["block_cache"])
        .meaning("Size of the cache of uncompressed blocks, a hyper clock cache; 0 for no cache."),
    option("block_bytes", Accepts::Whole { min: 1 << 10, max: 1 << 30 }, Some("4096"))
        .within(Scope::Blocks, &["block_size"])
        .meaning("Size of a block before compression."),
    option("bloom_bits_per_key", Accepts::Whole { min: 0, max: 100 }, Some("0"))
        .within(Scope::Blocks, &["filter_policy"])
        .meaning("Bits per key of the Bloom filter; 0 for no filter."),
    option("cache_index_and_filter_blocks", Accepts::SWITCH, Some("false"))
        .within(Scope::Blocks, &["cache_index_and_filter_blocks"])
        .meaning("Whether index and filter blocks live in the block cache."),
    option("compression", Accepts::Words(&["none", "snappy", "lz4", "zstd"]), Some("lz4"))
        .within(Scope::Table, &["compression"])
        .meaning("Compression of blocks in files."),
    option("target_file_bytes", bytes(64 << 10), Some("67108864"))
        .within(Scope::Table, &["target_file_size_base"])
        .meaning("Size of a file in level 1."),
    option("level_base_bytes", bytes(64 << 10), Some("268435456"))
        .within(Scope::Table, &["max_bytes_for_level_base"])
        .meaning("Size of level 1."),
    option("level0_file_num_compaction_trigger", count(1), Some("4"))
        .within(Scope::Table, &["level0_file_num_compaction_trigger"])
        .meaning("Files in level 0 that start a compaction."),
    option("level0_slowdown_writes_trigger", count(1), Some("20"))
        .within(Scope::Table, &["level0_slowdown_writes_trigger"])
        .meaning("Files in level 0 from which writes are slowed down."),
    option("level0_stop_writes_trigger", count(1), Some("36"))
        .within(Scope::Table, &["level0_stop_writes_trigger"])
        .meaning("Files in level 0 at which writes stop."),
    option("max_background_jobs", Accepts::Whole { min: 1, max: 1024 }, Some("2"))
        .within(Scope::Database, &["max_background_jobs"])
        .meaning("Threads for flushes and compactions together."),
    option("max_subcompactions", Accepts::Whole { min: 1, max: 1024 }, Some("1"))
        .within(Scope::Database, &["max_subcompactions"])
        .meaning("Threads that may share one compaction."),
    option("max_open_files", count(-1), Some("-1"))
        .within(Scope::Database, &["max_open_files"])
        .meaning("Files kept open; -1 for all."),
    option("bytes_per_sync", bytes(0), Some("0"))
        .within(Scope::Database, &["bytes_per_sync"])
        .meaning("Bytes of a file after which they go to the disk; 0 leaves it to the kernel."),
    option("direct_io", Accepts::SWITCH, Some("false"))
        .within(Scope::Database, &["use_direct_reads", "use_direct_io_for_flush_and_compaction"])
        .meaning("Whether reads, flushes and compactions go past the kernel's page cache."),
];

impl RocksDbOption {
    const fn within(self, scope: Scope, own_names: &'static [&'static str]) -> Self {
        Self { own_names, scope, ..self }
    }

    const fn meaning(self, meaning: &'static str) -> Self {
        Self { doc: self.doc.meaning(meaning), ..self }
    }

    /// `name=value` in RocksDB's spelling, for each of its names.
    fn assignments(&self, value: &str) -> String {
        let spelled = match self.own_names {
            ["compression"] => compression(value, |(own, spelled)| (own, spelled)),
            ["filter_policy"] if value == "0" => "nullptr".to_owned(),
            ["filter_policy"] => format!("bloomfilter:{value}:false"),
            _ => value.to_owned(),
        };
        self.own_names.iter().map(|name| format!("{name}={spelled};")).collect()
    }

    /// The value in our spelling, from RocksDB's.
    pub(crate) fn value_of(&self, spelled: &str) -> String {
        match self.own_names {
            ["compression"] => compression(spelled, |(own, spelled)| (spelled, own)),
            ["filter_policy"] => spelled.split(':').nth(1).unwrap_or("0").to_owned(),
            _ => spelled.to_owned(),
        }
    }
}

/// The other spelling of a compression.
fn compression(
    name: &str,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> String {
    let mut pairs = COMPRESSIONS.into_iter().map(direction);
    pairs.find(|(from, _)| *from == name).map_or(name, |(_, to)| to).to_owned()
}

/// RocksDB's options: its defaults, and what was given.
pub(crate) fn engine(given: &Given) -> Result<Options, rocksdb::Error> {
    let mut base = Options::default();
    if let Some(bytes) = given.own("block_cache_bytes") {
        base.set_block_based_table_factory(&blocks(bytes.parse().unwrap_or_default()));
    }
    let assigned = |scope| {
        let own = |option: &RocksDbOption| Some(option.assignments(given.own(option.doc.name)?));
        let here = TABLE.iter().filter(|option| option.scope == scope);
        here.filter_map(own).collect::<String>()
    };
    let (database, table) = (assigned(Scope::Database), assigned(Scope::Table));
    let text = match assigned(Scope::Blocks) {
        blocks if blocks.is_empty() => database + &table,
        blocks => format!("{database}{table}block_based_table_factory={{{blocks}}};"),
    };
    let mut options = base.get_options_from_string(text)?;
    if given.switch("statistics") {
        options.enable_statistics();
    }
    Ok(options)
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

#[cfg(test)]
mod tests {
    use super::*;

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
