//! What the workload promises, by subject.

#![expect(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod again;
mod cassandra_stress;
mod distributions;
mod inserts;
mod integrity;
mod keys;
mod made;
mod plans;
mod refusals;
mod sizes;
mod statements;
mod statistics;
mod streams;
