//! The seed inputs of fuzz checks.

use std::fs;
use std::path::{Path, PathBuf};

/// Checks every seed input of the crate in this folder.
///
/// # Panics
/// If a check fails, or there is no seed.
#[expect(clippy::print_stdout, reason = "a test that fails names its input")]
pub fn check_seeds(folder: &str, check: impl Fn(&[u8])) {
    for (path, bytes) in seeds(folder) {
        println!("{}", path.display());
        check(&bytes);
    }
}

/// The seed inputs of the crate in this folder.
///
/// # Panics
/// If they can't be read, or there are none.
pub fn seeds(folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(folder).join("fuzz/seeds");
    let entries = fs::read_dir(folder).expect("a crate with a decoder has seeds");
    let seeds = entries.map(|entry| {
        let path = entry.expect("the folder can be listed").path();
        let bytes = fs::read(&path).expect("a seed can be read");
        (path, bytes)
    });
    let seeds: Vec<_> = seeds.collect();
    assert!(!seeds.is_empty(), "a crate with a decoder has seeds");
    seeds
}
