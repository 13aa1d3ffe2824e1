//! Executes one plan on the null driver, for profilers: only the engine's own cost.
//!
//! Arguments: yields (0 for a blocking driver), clients, workers, operations, and their kind:
//! `uniform`, `zipfian`, `mixed` (half of them writes, as on the tape), or `tape` (these,
//! replayed).

#![expect(clippy::print_stdout, reason = "a program for the terminal")]
#![expect(clippy::unwrap_used, reason = "a wrong argument may end it")]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use kvmark_driver::null::Null;
use kvmark_engine::{Unobserved, run};
use kvmark_plan::*;
use kvmark_trace::tape::{BlockWriter, RECORDS_MAX, Record};

#[path = "../tests/support/mod.rs"]
mod support;

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |default: u64| words.next().map_or(default, |word| word.parse().unwrap());
    let (yields, clients) = (number(0), number(1) as u32);
    let (workers, operations) = (number(1) as u32, number(20_000_000));
    let mut plan = support::plan(support::closed(), clients);
    plan.workers = workers;
    // The cost of intervals isn't part of an operation's cost.
    plan.interval_ns = 3_600_000_000_000;
    plan.phases[0].groups[0].operations = Some(operations);
    let folder = tempfile::tempdir().unwrap();
    match std::env::args().nth(5).as_deref() {
        Some("zipfian") => plan.groups[0].keys.distribution = Distribution::YcsbZipfian,
        Some("mixed") => mix(&mut plan),
        Some("tape") => {
            mix(&mut plan);
            replay(&mut plan, operations, &folder.path().join("tape"));
        }
        _ => {}
    }
    let options = BTreeMap::from([("yields".to_owned(), yields.into())]);
    let driver = Null::open(&options).unwrap();
    let record = run(&plan, driver, folder.path(), None, &mut Unobserved).unwrap().record;
    let phase = &record.phases[0];
    let ns = (phase.end_ns - phase.start_ns) as f64 / operations as f64;
    println!("{ns:.1} ns per operation, {:.2} M/s", 1e3 / ns);
}

/// Half of the operations write, on 100,000 keys of 20 bytes alike.
fn mix(plan: &mut Plan) {
    plan.dataset.count = KEYS;
    plan.dataset.key =
        KeyText { prefix: "user".to_owned(), zero_padding: 16, order: KeyOrder::Ordered };
    plan.dataset.fields.count = 1;
    let group = &mut plan.groups[0];
    group.mix = [Kind::Read, Kind::Update].map(weight).to_vec();
    group.keys.count = KEYS;
    group.write_fields = FieldChoice::All;
}

const KEYS: u64 = 100_000;

fn weight(kind: Kind) -> Weight {
    Weight { kind, statement: None, weight: 1.0 }
}

/// The same from a tape.
fn replay(plan: &mut Plan, operations: u64, path: &Path) {
    let (mut file, mut writer) = (File::create(path).unwrap(), BlockWriter::default());
    let mut state = 1;
    for number in 0..operations {
        state = split_mix(state);
        let kind = if state & 1 == 0 { Kind::Read } else { Kind::Insert };
        let key = split_mix((state >> 1) % KEYS) & !0xFF | 20;
        let at_ns = number;
        let (value_size, kind) = (if kind == Kind::Read { 0 } else { 100 }, kind as u8);
        let sizes = Record { key_size: 20, value_size, items: 1, ..Record::default() };
        writer.push(&Record { at_ns, key, kind, ..sizes }, None, None);
        if writer.len() == RECORDS_MAX {
            writer.finish(&mut file).unwrap();
        }
    }
    writer.finish(&mut file).unwrap();
    plan.dataset.key.order = KeyOrder::Sized;
    plan.dataset.values = ValueKind::Sized;
    plan.groups[0].mix = [Kind::Read, Kind::Insert].map(weight).to_vec();
    plan.groups[0].arrival = Arrival::Tape {
        path: path.to_string_lossy().into_owned(),
        speed: None,
        order: TapeOrder::Key,
        loops: 1,
        length_ns: operations,
        trace: String::new(),
        told: Vec::new(),
    };
}
