//! Fuzz target: see `tg_fuzz::opening`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tg_fuzz::opening::check(bytes));
