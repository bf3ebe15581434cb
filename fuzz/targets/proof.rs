//! Fuzz target: see `tg_fuzz::proof`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: tg_fuzz::proof::prepare(), |bytes: &[u8]| {
    tg_fuzz::proof::check(bytes);
});
