//! Proofs that hide inputs and all numbers on the way.
//!
//! | # | absorbed | drawn |
//! |---|---|---|
//! | 1 | statement, root of the inputs, root of the run with pads, masks and noise | α, β |
//! | 2 | look-ups, covered ([`pads`]) | point p, γ, point t |
//! | 3 | first sum-check and claims, covered | point s, ρ, κ |
//! | 4 | coefficients of the equation of products, covered ([`products`]) | e |
//! | 5 | its factors, each moved by a pad | τ |
//! | 6 | last sum-check, masked ([`last`]) | point r, λ, point z |
//! | 7 | openings of run and inputs ([`pcs`]) | |
//!
//! # Why nothing is shown
//! Everything but the openings is either covered by a pad that covers nothing else, or uniform by
//! masks and noise; the openings show values that were counted among these, and otherwise nothing.
//! So a simulator that does not know the inputs sends uniform numbers, chooses challenges so that
//! the few equations among them hold, and lets the simulator of the openings do the rest.

mod last;
mod owned;
mod pads;
mod pcs;
mod products;
mod proof;
mod prove;
mod seed;
mod setup;
mod stack;
mod statement;
#[cfg(test)]
mod tests;
mod verify;
mod walk;

#[cfg(test)]
pub(crate) use last::LastProof;
pub use owned::{HiddenWeights, WeightsKey};
#[cfg(test)]
pub(crate) use pcs::HiddenOpening;
pub use proof::HidingProof;
pub use prove::{HidingProver, Seeds, ZkProver, ZkSeeds};
#[cfg(test)]
pub(crate) use seed::Stream;
pub use seed::{Purpose, Seed};
pub(crate) use setup::{HidingSetup, Secrecy};
pub use statement::{HidingRoot, HidingStatement, InputsCommitment, Tensors, ZkStatement};
pub use verify::{HidingVerifier, Shown, Weights, ZkVerifier};
