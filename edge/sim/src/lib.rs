//! Whole networks on a seeded runtime: the same node as in the product, with a network, clocks and
//! disks that fail on command.
//!
//! This library is the part that rarely changes: it instantiates the engine's generics on the
//! simulator's runtime, which takes minutes to compile, behind types that are not generic. What is
//! simulated (scenarios, workload, checks) is in the binary, which compiles in seconds.

pub mod cluster;
