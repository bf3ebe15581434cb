//! Whole models: imported, and run to the same bits on everything there is.
#![expect(clippy::panic, reason = "a test that cannot go on says why")]

mod models;
