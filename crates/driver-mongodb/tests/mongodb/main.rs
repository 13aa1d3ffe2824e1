//! Tests of the driver for MongoDB. Those with FerretDB are ignored by default.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]

mod memory;
mod real;
mod scripted;
