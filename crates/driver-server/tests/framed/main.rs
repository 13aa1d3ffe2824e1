//! What framed connections promise to every protocol, by one of lines that a test answers by hand.

#![expect(clippy::unwrap_used, reason = "the builders of tests may panic as tests do")]

mod exchanges;
mod lines;
mod memory;
mod reopening;
mod servers;
