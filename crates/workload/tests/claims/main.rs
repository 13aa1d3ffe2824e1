//! The behaviour of the workload, by subject.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod again;
mod arrivals;
mod cassandra_stress;
mod compressible;
mod derived_arguments;
mod distributions;
mod inserts;
mod integrity;
mod keys;
mod lines;
mod plans;
mod refusals;
mod sizes;
mod statements;
mod statistics;
mod streams;
