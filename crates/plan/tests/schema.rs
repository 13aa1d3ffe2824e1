//! Python's copy of the schema matches these types.

use std::path::PathBuf;

#[test]
fn the_carried_schema_is_the_generated_one() {
    // Read when the test runs: clones share compiled code, so no path may be compiled in.
    let crate_folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let carried = PathBuf::from(crate_folder).join("../../python/kvmark/plan/plan.schema.json");
    let carried = std::fs::read_to_string(carried).unwrap();
    assert!(
        carried.trim_end() == kvmark_plan::schema(),
        "regenerate it: cargo run -p kvmark-plan --example schema \
         > python/kvmark/plan/plan.schema.json"
    );
}
