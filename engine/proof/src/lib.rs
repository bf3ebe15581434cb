//! Proofs that a tensor program was run: made once, verified in milliseconds.
//!
//! A proof says that a program with certain weights turns certain inputs into certain outputs.
//! Whoever verifies it does not run the program. `docs/proof.md` has the protocol; the argument why
//! a false statement does not pass stands where the code is: [`plan`](mod@self) (ranges, padding),
//! `plan/rescale.rs` (rounding), `logup.rs` (look-ups), `claims.rs` (the one equation at the end),
//! `security.rs` (the probabilities); and why a hiding proof shows nothing else in `hiding.rs`.

mod claims;
mod codec;
pub mod court;
mod error;
mod field;
mod fractions;
mod gates;
mod hash;
mod hiding;
mod leaves;
mod logup;
mod messages;
mod opening;
mod outer;
mod pairs;
mod pcs;
mod plan;
mod prove;
mod reader;
mod reads;
pub mod register;
mod replay;
mod rounds;
mod security;
mod setup;
mod sponge;
mod stack;
mod statement;
mod sumcheck;
#[cfg(test)]
mod tests;
mod transcript;
mod tree;
mod union;
mod verify;
mod wide;
mod witness;

pub use codec::{PROOF_BYTES_MAX, Proof};
pub use error::{ProveError, VerifyError};
pub use hiding::{
    HiddenWeights, HidingProof, HidingProver, HidingRoot, HidingStatement, HidingVerifier,
    InputsCommitment, Purpose, Seed, Seeds, Shown, Tensors, Weights, WeightsKey, ZkProver, ZkSeeds,
    ZkStatement, ZkVerifier,
};
pub use plan::{BATCH_MAX, PlanError};
pub use prove::Prover;
pub use security::{Report, SECURITY_BITS_MIN, Term};
pub use setup::WeightsCommitment;
pub use statement::{Mode, Statement};
pub use union::{Union, UnionError};
pub use verify::{Verifier, verify_all};
