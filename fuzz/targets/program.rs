//! Fuzz target: see `tg_fuzz::program`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tg_fuzz::program::check(bytes));
