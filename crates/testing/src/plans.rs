//! Plans for tests.

use std::collections::BTreeMap;

use kvmark_plan::*;

/// A plan with one group of clients that read 1000 records.
pub fn plan(arrival: Arrival, clients: u32) -> Plan {
    let key = KeyText { prefix: "user".to_owned(), zero_padding: 1, order: KeyOrder::Hashed };
    let length = SizeLaw::Constant { size: 100 };
    let fields = FieldLayout { count: 10, name_prefix: "field".to_owned(), length };
    Plan {
        format: FORMAT,
        name: "test".to_owned(),
        system: System { driver: "sim".to_owned(), options: BTreeMap::new() },
        seeds: Seeds { schedule: 1, keys: 2, values: 3, mix: 4 },
        share: Share { index: 0, of: 1 },
        dataset: Dataset {
            table: "usertable".to_owned(),
            start: 0,
            count: 1000,
            full_at: None,
            key,
            fields,
            values: ValueKind::Random,
            probe: None,
        },
        prepare: Vec::new(),
        statements: Vec::new(),
        groups: vec![Group {
            name: "clients".to_owned(),
            clients,
            arrival,
            mix: vec![Weight { kind: Kind::Read, statement: None, weight: 1.0 }],
            keys: KeyChoice { start: 0, count: 1000, distribution: Distribution::Uniform },
            read_fields: FieldChoice::All,
            write_fields: FieldChoice::One,
            scan_length: SizeLaw::Uniform { min: 1, max: 100 },
            check_values: ValueCheck::None,
            retry: None,
            on_miss: None,
        }],
        phases: vec![Phase {
            name: PhaseName::Measure,
            groups: vec![ActiveGroup { group: 0, operations: None }],
            only_if_missing: false,
            duration_ns: None,
            until: None,
        }],
        interval_ns: 1_000_000_000,
        timeout_ns: None,
        drain_limit_ns: 10_000_000_000,
        verify_memory_bytes: None,
        stall_limit_ns: None,
        workers: 1,
        pin: Vec::new(),
    }
}

/// The closed model without think time.
pub fn closed() -> Arrival {
    Arrival::Closed { think_time_ns: 0 }
}

/// Arrivals at a constant rate.
pub fn constant(rate: f64) -> Arrival {
    Arrival::Constant { rates: vec![RatePoint { at_ns: 0, rate }] }
}

/// Arrivals of a Poisson process.
pub fn poisson(rate: f64) -> Arrival {
    Arrival::Poisson { rates: vec![RatePoint { at_ns: 0, rate }] }
}
