//! Options take effect in RocksDB, and match their documentation.

use std::collections::BTreeMap;

use kvmark_driver::{Driver, OpenError};
use kvmark_driver_rocksdb::{RocksDbOption, options};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{Fresh, open};

fn configuration(options: Value) -> BTreeMap<String, String> {
    Fresh::with(options).driver.describe().configuration
}

#[test]
fn defaults_in_the_documentation_are_those_of_rocksdb() {
    let effective = configuration(json!({}));
    for RocksDbOption { doc, .. } in options() {
        assert_eq!(effective.get(doc.name).map(String::as_str), doc.default, "{}", doc.name);
    }
}

#[test]
fn how_rocksdb_was_compiled_is_told() {
    let linked = option_env!("ROCKSDB_LIB_DIR").map_or("crate", |_| "library");
    let build = option_env!("KVMARK_ROCKSDB_BUILD").unwrap_or(linked);
    assert_eq!(configuration(json!({}))["build"], build);
}

#[test]
fn every_option_that_is_given_takes_effect() {
    let given = json!({
        "durability": "none",
        "statistics": true,
        "write_buffer_bytes": 1_048_576,
        "max_write_buffers": 4,
        "block_cache_bytes": 8_388_608,
        "block_bytes": 8192,
        "bloom_bits_per_key": 10,
        "cache_index_and_filter_blocks": true,
        "compression": "lz4",
        "target_file_bytes": 2_097_152,
        "level_base_bytes": 16_777_216,
        "level0_file_num_compaction_trigger": 8,
        "level0_slowdown_writes_trigger": 30,
        "level0_stop_writes_trigger": 50,
        "max_background_jobs": 3,
        "max_subcompactions": 2,
        "max_open_files": 500,
        "bytes_per_sync": 1_048_576,
    });
    let effective = configuration(given.clone());
    for (name, value) in given.as_object().unwrap() {
        assert_eq!(effective[name], value.to_string().replace('"', ""), "{name}");
    }
    assert_eq!(configuration(json!({"durability": "sync"}))["durability"], "sync");
}

#[test]
fn every_compression_is_built_in() {
    for word in ["none", "snappy", "lz4", "zstd"] {
        assert_eq!(configuration(json!({"compression": word}))["compression"], word);
    }
}

#[test]
fn a_cache_of_no_bytes_is_no_cache() {
    assert_eq!(configuration(json!({"block_cache_bytes": 0}))["block_cache_bytes"], "0");
}

#[test]
fn options_may_change_from_one_opening_to_the_next() {
    let fresh = Fresh::with(json!({"write_buffer_bytes": 1_048_576}));
    let path = fresh.path();
    let _folder = fresh.close();
    let driver = open(&path, json!({"write_buffer_bytes": "2097152"})).unwrap();
    assert_eq!(driver.describe().configuration["write_buffer_bytes"], "2097152");
}

#[test]
fn the_description_names_the_engine_and_its_version() {
    let description = Fresh::new().driver.describe();
    assert_eq!(description.system, "RocksDB");
    let parts: Vec<_> = description.version.split('.').map(str::parse::<u32>).collect();
    assert!(parts.len() == 3 && parts.iter().all(Result::is_ok), "{}", description.version);
}

#[test]
fn unknown_options_and_wrong_values_are_the_users_mistake_and_touch_nothing() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    for wrong in [json!({"colour": 1}), json!({"durability": 3}), json!({"block_bytes": "4k"})] {
        assert!(matches!(open(&path, wrong), Err(OpenError::Option(_))));
    }
    assert!(!path.exists());
}
