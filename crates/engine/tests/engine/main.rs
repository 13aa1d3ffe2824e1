//! Tests of runs, in one program. What depends on the process is a program of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by it")]

#[path = "../support/mod.rs"]
mod support;

mod closed_form;
mod event_loop;
mod generator_lag;
mod lateness;
mod outcomes;
mod pairs;
mod planted_faults;
mod replay;
mod retries;
mod runs;
mod seats;
mod silence;
mod statements;
mod streams;
mod verify;
mod warm_up;
