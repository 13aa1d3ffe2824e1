//! Tests of framed connections with a protocol of lines.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]

mod exchanges;
mod lines;
mod memory;
mod opening;
mod reopening;
mod servers;
