//! The drivers of this build: one line each.

use std::path::Path;

use kvmark_driver::{About, Layout};
use kvmark_engine::{Completed, EngineError, Observer};
use kvmark_plan::Plan;

/// A driver, and what opens it for a plan and carries that out.
type Entry = (About, fn(&Plan, &Path, &mut dyn Observer) -> Result<Completed, EngineError>);

/// The entry of a driver, which is opened with its options and, where that is said, the layout.
macro_rules! entry {
    ($driver:ty $(, $layout:expr)?) => {
        (<$driver>::ABOUT, |plan, folder, observer| {
            let driver = <$driver>::open(&plan.system.options $(, &$layout(plan))?)?;
            kvmark_engine::run(plan, driver, folder, observer)
        })
    };
}

const DRIVERS: &[Entry] = &[
    entry!(kvmark_driver_rocksdb::RocksDb, Layout::of),
    entry!(kvmark_driver::null::Null),
    entry!(kvmark_driver::sim::Sim),
    entry!(kvmark_driver_resp::Resp, Layout::of),
    entry!(kvmark_driver_memcached::Memcached, Layout::of),
    entry!(kvmark_driver_cql::Cql, Layout::of),
];

/// What the drivers say of themselves.
pub(crate) fn about() -> Vec<About> {
    DRIVERS.iter().map(|(about, _)| *about).collect()
}

/// Opens the plan's driver and carries the plan out.
pub(crate) fn run(
    plan: &Plan,
    folder: &Path,
    observer: &mut dyn Observer,
) -> Result<Completed, EngineError> {
    let wanted = plan.system.driver.as_str();
    match DRIVERS.iter().find(|(about, _)| about.name == wanted) {
        Some((_, carry_out)) => carry_out(plan, folder, observer),
        None => {
            let mut names: Vec<_> = DRIVERS.iter().map(|(about, _)| about.name).collect();
            names.sort_unstable();
            Err(EngineError::Unsupported(format!(
                "this build has no driver '{wanted}'; it has {}",
                names.join(", ")
            )))
        }
    }
}
