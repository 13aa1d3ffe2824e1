//! The program that looks for bytes which the tap, or who reads its tapes, can't take:
//! `make fuzz TARGET=tap`.

#![no_main]

use std::alloc::System;

use cap::Cap;
use kvmark_tap::fuzz;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, fuzz::MEMORY_MAX);

fuzz_target!(|bytes: &[u8]| fuzz::check(bytes));
