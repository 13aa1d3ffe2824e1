//! The operations of one thread, drawn before the clock starts.

use kvmark_plan::{Kind, Plan};
use kvmark_workload::{Draw, InsertSequence, RecordRef, Stream, ValueBuffer};
use serde_json::{Value, json};

use crate::Failure;
use crate::arguments::Arguments;

/// Sets of values that are drawn; operations take them in turn.
const VALUE_SETS: u64 = 1000;

/// One operation with its key and values.
pub(crate) struct Operation<'a> {
    pub(crate) kind: Kind,
    pub(crate) key: &'a [u8],
    /// The field that an update writes.
    pub(crate) field: u32,
    /// Values of all fields.
    pub(crate) values: &'a ValueBuffer,
}

/// A list of operations: keys in one buffer, values from a small pool.
pub(crate) struct Operations {
    keys: Vec<u8>,
    list: Vec<Listed>,
    values: Vec<ValueBuffer>,
}

struct Listed {
    kind: Kind,
    field: u32,
    key_end: usize,
}

impl Operations {
    /// The workload's operations whose number is congruent to `thread` modulo the threads.
    pub(crate) fn drawn(arguments: &Arguments, thread: u64) -> Result<Self, Failure> {
        let plan = Plan::from_json(&plan(arguments)?.to_string())?;
        let stream = Stream::new(&plan, 0, 0)?;
        let inserts = InsertSequence::new(arguments.records, plan.share);
        let (mut keys, mut list, mut key) = (Vec::new(), Vec::new(), Vec::new());
        for number in (thread..arguments.operations).step_by(arguments.threads as usize) {
            let Draw { kind, ordinal, field, .. } = stream.draw(number, &inserts);
            let ordinal = if kind == Kind::Insert { number } else { ordinal };
            stream.records().key_into(ordinal, &mut key);
            keys.extend_from_slice(&key);
            list.push(Listed { kind, field, key_end: keys.len() });
        }
        let values = (0..VALUE_SETS).map(|number| {
            let mut values = ValueBuffer::default();
            stream.insert_values_into(number, RecordRef { ordinal: number, key: &[] }, &mut values);
            values
        });
        Ok(Self { keys, list, values: values.collect() })
    }

    pub(crate) fn len(&self) -> u64 {
        self.list.len() as u64
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Operation<'_>> {
        let mut key_start = 0;
        let values = self.values.iter().cycle();
        self.list.iter().zip(values).map(move |(listed, values)| {
            let key = &self.keys[key_start..listed.key_end];
            key_start = listed.key_end;
            Operation { kind: listed.kind, key, field: listed.field, values }
        })
    }
}

fn plan(arguments: &Arguments) -> Result<Value, String> {
    let weighted =
        |kind: &str, weight: f64| json!({"kind": kind, "statement": null, "weight": weight});
    let mix = match arguments.workload.as_str() {
        "load" => json!([weighted("insert", 1.0)]),
        "a" => json!([weighted("read", 0.5), weighted("update", 0.5)]),
        "b" => json!([weighted("read", 0.95), weighted("update", 0.05)]),
        "c" => json!([weighted("read", 1.0)]),
        other => return Err(format!("'workload' can't be '{other}': give load, a, b or c")),
    };
    let distribution = match arguments.distribution.as_str() {
        "zipfian" => json!({"law": "ycsb_zipfian"}),
        "uniform" => json!({"law": "uniform"}),
        other => return Err(format!("'distribution' can't be '{other}': give zipfian or uniform")),
    };
    let (records, seed) = (arguments.records, arguments.seed);
    Ok(json!({
        "format": 1,
        "name": arguments.workload,
        "system": {"driver": "rocksdb", "options": {}},
        "seeds": {"schedule": seed, "keys": seed, "values": seed, "mix": seed},
        "share": {"index": 0, "of": 1},
        "dataset": {
            "table": crate::store::TABLE,
            "start": 0,
            "count": records,
            "full_at": null,
            "key": {"prefix": "user", "zero_padding": 1, "order": "hashed"},
            "fields": {
                "count": 10,
                "name_prefix": "field",
                "length": {"law": "constant", "size": 100},
            },
            "values": "random",
            "probe": null,
        },
        "prepare": [],
        "statements": [],
        "groups": [{
            "name": "clients",
            "clients": arguments.threads,
            "arrival": {"process": "closed", "think_time_ns": 0},
            "mix": mix,
            "keys": {"start": 0, "count": records, "distribution": distribution},
            "read_fields": "all",
            "write_fields": "one",
            "scan_length": {"law": "constant", "size": 1},
            "check_values": false,
        }],
        "phases": [{
            "name": "measure",
            "groups": [{"group": 0, "operations": arguments.operations}],
            "only_if_missing": false,
            "duration_ns": null,
            "until": null,
        }],
        "interval_ns": 1_000_000_000,
        "timeout_ns": null,
        "drain_limit_ns": 1_000_000_000,
        "verify_memory_bytes": null,
        "stall_limit_ns": null,
        "workers": 1,
        "pin": [],
    }))
}
