//! The driver does what every embedded store must do.

kvmark_testing::embedded_conformance!(kvmark_driver_redb::Redb);

#[test]
fn the_version_is_that_of_the_lock() {
    let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    let lock = std::fs::read_to_string(lock).expect("the lock can be read");
    let version = kvmark_driver_redb::VERSION;
    assert!(lock.contains(&format!("name = \"redb\"\nversion = \"{version}\"")));
}
