//! The drivers of this build: one line each.

use std::path::Path;

use kvmark_driver::{Layout, null::Null, sim::Sim};
use kvmark_driver_rocksdb::RocksDb;
use kvmark_engine::{Completed, EngineError, Observer};
use kvmark_plan::Plan;

/// Names of the drivers, as plans spell them.
pub(crate) const NAMES: [&str; 3] = ["null", "rocksdb", "sim"];

/// Opens the plan's driver and carries the plan out.
pub(crate) fn run(
    plan: &Plan,
    folder: &Path,
    observer: &mut dyn Observer,
) -> Result<Completed, EngineError> {
    let options = &plan.system.options;
    let layout = Layout::of(&plan.dataset);
    match plan.system.driver.as_str() {
        "null" => kvmark_engine::run(plan, Null::open(options)?, folder, observer),
        "rocksdb" => kvmark_engine::run(plan, RocksDb::open(options, &layout)?, folder, observer),
        "sim" => kvmark_engine::run(plan, Sim::open(options)?, folder, observer),
        other => Err(EngineError::Unsupported(format!(
            "this build has no driver '{other}'; it has {}",
            NAMES.join(", ")
        ))),
    }
}
