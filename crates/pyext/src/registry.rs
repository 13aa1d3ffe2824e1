//! The drivers of this build: one line each.

use std::collections::BTreeMap;
use std::path::Path;

use kvmark_driver::options::OptionDoc;
use kvmark_driver::{About, AnyConsole, Driver, Layout, OpenError, Place};
use kvmark_engine::{Completed, EngineError, Observer, Recording};
use kvmark_plan::Plan;
use serde_json::{Value, json};

type Options = BTreeMap<String, Value>;

/// Executes a plan, with an optional log of its operations.
type Run =
    fn(&Plan, &Path, Option<&Recording>, &mut dyn Observer) -> Result<Completed, EngineError>;

/// A driver: its properties, the function that executes a plan with it, and its console.
struct Entry {
    about: About,
    options: fn() -> Vec<&'static OptionDoc>,
    run: Run,
    console: fn(&Options) -> Result<Option<AnyConsole>, OpenError>,
}

/// The entry of a driver, which is opened with its options and optionally the layout; `simulated`
/// is for one that can simulate time.
macro_rules! entry {
    (simulated $($rest:tt)*) => { entry!(@run, $($rest)*) };
    (@$run:ident, $driver:ty, $options:expr $(, $layout:expr)?) => {
        Entry {
            about: <$driver>::ABOUT,
            options: $options,
            run: |plan, folder, recording, observer| {
                let own = plan.clone();
                let open = move || <$driver>::open(&own.system.options $(, &$layout(&own))?);
                let driver = kvmark_engine::interruptible(observer, open)??;
                kvmark_engine::$run(plan, driver, folder, recording, observer)
            },
            console: <$driver as Driver>::console,
        }
    };
    ($($rest:tt)*) => { entry!(@run_in_real_time, $($rest)*) };
}

const DRIVERS: &[Entry] = &[
    entry!(kvmark_driver_rocksdb::RocksDb, kvmark_driver_rocksdb::RocksDb::options, Layout::of),
    entry!(kvmark_driver_lmdb::Lmdb, kvmark_driver_lmdb::Lmdb::options, Layout::of),
    entry!(kvmark_driver_redb::Redb, kvmark_driver_redb::Redb::options, Layout::of),
    entry!(kvmark_driver_fjall::Fjall, kvmark_driver_fjall::Fjall::options, Layout::of),
    entry!(kvmark_driver_sqlite::Sqlite, kvmark_driver_sqlite::Sqlite::options, Layout::of),
    entry!(kvmark_driver::null::Null, kvmark_driver::null::options),
    entry!(simulated kvmark_driver::sim::Sim, kvmark_driver::sim::options, Layout::of),
    entry!(kvmark_driver_resp::Resp, kvmark_driver_resp::Resp::options, Layout::of),
    entry!(
        kvmark_driver_memcached::Memcached,
        kvmark_driver_memcached::Memcached::options,
        Layout::of
    ),
    entry!(kvmark_driver_postgres::Postgres, kvmark_driver_postgres::Postgres::options, Layout::of),
    entry!(kvmark_driver_mongodb::MongoDb, kvmark_driver_mongodb::MongoDb::options, Layout::of),
    entry!(kvmark_driver_cql::Cql, || kvmark_driver_cql::options().iter().collect(), Layout::of),
    entry!(kvmark_driver_dynamodb::DynamoDb, kvmark_driver_dynamodb::DynamoDb::options, Layout::of),
    entry!(
        kvmark_driver_ycsb_binding::YcsbBinding,
        kvmark_driver_ycsb_binding::options,
        Layout::of
    ),
];

/// The options of the drivers by their names, for the documentation.
pub(crate) fn options() -> Value {
    let row = |doc: &OptionDoc| {
        json!({
            "name": doc.name,
            "meaning": doc.meaning,
            "accepts": doc.accepts.to_string(),
            "default": doc.default,
        })
    };
    let rows = |entry: &Entry| (entry.options)().into_iter().map(row).collect::<Vec<_>>();
    DRIVERS.iter().map(|entry| (entry.about.name.to_owned(), json!(rows(entry)))).collect()
}

/// The properties of the drivers.
pub(crate) fn about() -> Vec<About> {
    DRIVERS.iter().map(|entry| entry.about).collect()
}

/// Opens the plan's driver and executes the plan.
pub(crate) fn run(
    plan: &Plan,
    folder: &Path,
    recording: Option<&Recording>,
    observer: &mut dyn Observer,
) -> Result<Completed, EngineError> {
    let entry = found(&plan.system.driver)?;
    let mut completed = (entry.run)(plan, folder, recording, observer)?;
    // Java's threads go on, and its compiled code would favour the next plan.
    completed.abandoned |= entry.about.place == Place::Class;
    Ok(completed)
}

/// A console of the server that a driver's options name first.
pub(crate) fn console(driver: &str, options: &Options) -> Result<AnyConsole, EngineError> {
    (found(driver)?.console)(options)?.ok_or_else(|| {
        EngineError::Unsupported(format!("driver '{driver}' has no server that could be asked"))
    })
}

fn found(wanted: &str) -> Result<&'static Entry, EngineError> {
    DRIVERS.iter().find(|entry| entry.about.name == wanted).ok_or_else(|| {
        let mut names: Vec<_> = DRIVERS.iter().map(|entry| entry.about.name).collect();
        names.sort_unstable();
        EngineError::Unsupported(format!(
            "this build has no driver '{wanted}'; it has {}",
            names.join(", ")
        ))
    })
}
