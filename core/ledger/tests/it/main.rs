//! The ledger from outside: blocks go in, changes and receipts come out. Every block that a test
//! applies is also replayed, rebuilt, loaded entry by entry and counted to the last unit; see
//! `world`.

mod actions;
mod admission;
mod audit;
mod beacons;
mod blocks;
mod capacity;
mod dues;
mod entries;
mod fleet;
mod histories;
mod jobs;
mod judge;
mod missing;
#[cfg(feature = "planted-bugs")]
mod planted;
mod properties;
mod world;
