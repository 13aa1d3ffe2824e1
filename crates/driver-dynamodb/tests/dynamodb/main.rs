//! Tests of the driver for DynamoDB, with scripted servers and dynalite. Tests with dynalite are
//! ignored by default.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]

mod failures;
mod memory;
mod real;
mod requests;
mod scripted;
