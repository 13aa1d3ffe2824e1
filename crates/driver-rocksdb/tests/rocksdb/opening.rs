//! Opening and creating databases, and errors.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use kvmark_driver::Driver;
use kvmark_driver_rocksdb::RocksDb;
use rocksdb::{DB, Options};
use serde_json::json;
use tempfile::TempDir;

use crate::common::{Fresh, TABLE, open, refusal};

/// A database with these tables beside `default`.
fn database(path: &Path, tables: &[&str]) {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    DB::open_cf(&options, path, tables).unwrap();
}

fn create() -> serde_json::Value {
    json!({"create": true})
}

#[test]
fn an_empty_folder_can_become_a_database() {
    let folder = TempDir::new().unwrap();
    open(folder.path(), create()).unwrap();
}

#[test]
fn an_interrupted_creation_can_be_completed() {
    let folder = TempDir::new().unwrap();
    for name in ["LOCK", "LOG", "LOG.old.1700000000", "IDENTITY", "MANIFEST-000001"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    open(folder.path(), create()).unwrap();
}

#[test]
fn a_console_lists_every_key_of_every_table_in_pages() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let db = DB::open_cf(&options, &path, ["usertable"]).unwrap();
    let table = db.cf_handle("usertable").unwrap();
    let expected: Vec<_> = (0..2500).map(|number| format!("key{number:04}")).collect();
    for key in &expected {
        db.put_cf(table, key, "").unwrap();
    }
    db.put("\u{e9}", "").unwrap();
    drop(db);
    let options = [("path".to_owned(), json!(path))].into();
    let mut console = RocksDb::console(&options).unwrap().unwrap();
    let mut ask = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let answer = console.ask(&words).unwrap();
        let texts = answer.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(ask(&["TABLES"]), ["default", "usertable"]);
    assert_eq!(ask(&["KEYS", "default"]), ["\u{e9}"]);
    let mut found = ask(&["KEYS", "usertable"]);
    while let Some(last) = found.last().cloned() {
        let more = ask(&["KEYS", "usertable", &last]);
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    assert_eq!(found, expected);
    let unknown = console.ask(&["KEYS".to_owned(), "such".to_owned()]).unwrap_err().to_string();
    assert!(unknown.contains("no table such"), "{unknown}");
}

#[test]
fn a_folder_with_other_files_is_left_alone() {
    for name in ["notes.txt", "000012.sst", "000004.log"] {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join(name), "precious").unwrap();
        let sentence = refusal(folder.path(), create());
        assert!(sentence.contains("holds other files and no RocksDB database"), "{sentence}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

const BOUND: &str = "KVMARK_TEST_BOUND_BY_PERMISSIONS";

/// Repeats a test in a process of root that is subject to permissions.
fn repeat_bound_by_permissions(test: &str) {
    assert!(env::var_os(BOUND).is_none(), "root must be able to give up this capability");
    let done = Command::new("setpriv")
        .args(["--bounding-set=-dac_override", "--inh-caps=-dac_override"])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test])
        .env(BOUND, "yes")
        .output()
        .expect("setpriv must be installed (Debian's package util-linux)");
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_folder_without_write_permission_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let may_write_anyway = fs::write(folder.path().join("probe"), "").is_ok();
    if may_write_anyway {
        // Permissions don't apply to root.
        return repeat_bound_by_permissions(
            "opening::a_folder_without_write_permission_is_refused",
        );
    }
    let sentence = refusal(&folder.path().join("db"), create());
    assert!(sentence.starts_with("no permission to"), "{sentence}");
}

#[test]
fn a_missing_table_is_named_with_those_that_are_there() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    database(&path, &["orders", "people"]);
    for options in [json!({}), create()] {
        let sentence = refusal(&path, options);
        assert!(
            sentence.contains("has no table usertable (its tables: orders, people)"),
            "{sentence}"
        );
    }
    assert_eq!(DB::list_cf(&Options::default(), &path).unwrap(), ["default", "orders", "people"]);
}

#[test]
fn few_of_many_tables_are_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    database(&path, &["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    let sentence = refusal(&path, json!({}));
    assert!(sentence.contains("(its tables: a, b, c, d, e, f, g, h, …)"), "{sentence}");
}

#[test]
fn a_database_without_any_table_gets_one_when_creating_is_allowed() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    database(&path, &[]);
    assert!(refusal(&path, json!({})).contains("(its tables: none)"));
    open(&path, create()).unwrap();
}

#[test]
fn other_tables_are_kept() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    database(&path, &["people", TABLE]);
    open(&path, json!({})).unwrap();
    let tables = DB::list_cf(&Options::default(), &path).unwrap();
    assert_eq!(tables, ["default", "people", TABLE]);
}

#[test]
fn a_database_with_a_comparator_of_its_own_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("db");
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_comparator("backwards", Box::new(|one, other| other.cmp(one)));
    DB::open_cf_with_opts(&options, &path, [(TABLE, options.clone())]).unwrap();
    let sentence = refusal(&path, json!({}));
    assert!(sentence.contains("orders its keys by a custom comparator"), "{sentence}");
}

#[test]
fn a_missing_or_damaged_manifest_is_rejected_with_rocksdbs_message() {
    for gone in [true, false] {
        let fresh = Fresh::new();
        let path = fresh.path();
        let _folder = fresh.close();
        let manifest = path.join(fs::read_to_string(path.join("CURRENT")).unwrap().trim());
        if gone {
            fs::remove_file(manifest).unwrap();
        } else {
            let mut bytes = fs::read(&manifest).unwrap();
            bytes[8] ^= 1;
            fs::write(manifest, bytes).unwrap();
        }
        let sentence = refusal(&path, json!({}));
        assert!(sentence.contains("it is damaged or of a newer version ("), "{sentence}");
    }
}
