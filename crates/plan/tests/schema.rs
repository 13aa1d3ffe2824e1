//! The schema that Python carries is the one these types generate.

use std::path::PathBuf;

#[test]
fn the_carried_schema_is_the_generated_one() {
    // Read when the test runs: clones share compiled code, so no path may be compiled in.
    let crate_folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let carried = PathBuf::from(crate_folder).join("../../python/kvmark/plan/plan.schema.json");
    let carried = std::fs::read_to_string(carried).unwrap();
    assert!(
        carried.trim_end() == kvmark_plan::schema(),
        "write it anew: cargo run -p kvmark-plan --example schema \
         > python/kvmark/plan/plan.schema.json"
    );
}
