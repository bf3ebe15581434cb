//! Tests of the crate from outside, in one binary.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on says why")]

mod spec;
