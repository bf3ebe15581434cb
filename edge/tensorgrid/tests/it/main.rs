//! End to end: the program itself, as a user starts it.
#![expect(clippy::panic, reason = "a test that cannot go on says why")]

mod checkpoints;
mod doors;
mod duties;
mod float;
mod gangs;
mod jobs;
mod keys;
mod kill;
mod misuse;
mod model;
mod nat;
mod packages;
mod promises;
mod proofs;
mod provide;
mod readme;
mod stops;
mod support;
mod up;
mod verify;
mod wallet;
