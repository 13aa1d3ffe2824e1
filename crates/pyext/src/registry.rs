//! The drivers of this build: one line each.

use std::path::Path;

use kvmark_driver::{Layout, null::Null, sim::Sim};
use kvmark_driver_cql::Cql;
use kvmark_driver_resp::Resp;
use kvmark_driver_rocksdb::RocksDb;
use kvmark_engine::{Completed, EngineError, Observer};
use kvmark_plan::Plan;

/// Names of the drivers, as plans spell them.
pub(crate) const NAMES: [&str; 5] = ["cql", "null", "redis", "rocksdb", "sim"];

/// Opens the plan's driver and carries the plan out.
pub(crate) fn run(
    plan: &Plan,
    folder: &Path,
    observer: &mut dyn Observer,
) -> Result<Completed, EngineError> {
    let options = &plan.system.options;
    let layout = Layout::of(plan);
    match plan.system.driver.as_str() {
        "cql" => kvmark_engine::run(plan, Cql::open(options, &layout)?, folder, observer),
        "null" => kvmark_engine::run(plan, Null::open(options)?, folder, observer),
        "redis" => kvmark_engine::run(plan, Resp::open(options, &layout)?, folder, observer),
        "rocksdb" => kvmark_engine::run(plan, RocksDb::open(options, &layout)?, folder, observer),
        "sim" => kvmark_engine::run(plan, Sim::open(options)?, folder, observer),
        other => Err(EngineError::Unsupported(format!(
            "this build has no driver '{other}'; it has {}",
            NAMES.join(", ")
        ))),
    }
}
