//! The program that looks for bytes which the decoder can't take: `make fuzz TARGET=mongodb`.

#![no_main]

use std::alloc::System;

use cap::Cap;
use kvmark_driver_mongodb::fuzz;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, fuzz::MEMORY_MAX);

fuzz_target!(|bytes: &[u8]| fuzz::check(bytes));
