//! Why nothing is proven, or a proof is refused.

use crate::plan::PlanError;
use tg_tensor::{RunError, TensorError};

/// Why there is no proof.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProveError {
    /// The program cannot be proven.
    #[error("program cannot be proven")]
    Plan(#[from] PlanError),
    /// Another number of inferences than the prover was made for.
    #[error("inputs of {found} inferences given, {expected} needed")]
    Batch {
        /// How many are given.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// As many proofs were made about a commitment to secret weights as it can hide.
    #[error("{most} proofs were made about these weights, make a new commitment to them")]
    Openings {
        /// How many can be made.
        most: u16,
    },
    /// The inputs do not fit the program.
    #[error("program cannot be run")]
    Run(#[from] RunError),
}

/// Why a proof is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// Another number of inferences than the verifier was made for.
    #[error("statement about {found} inferences, {expected} expected")]
    Batch {
        /// How many the statement has.
        found: usize,
        /// How many are expected.
        expected: usize,
    },
    /// Another number of inputs or outputs than the program has.
    #[error("inference {inference} has {found} {what}, the program {expected}")]
    Count {
        /// Which inference.
        inference: usize,
        /// Inputs or outputs.
        what: &'static str,
        /// How many.
        found: usize,
        /// How many the program has.
        expected: usize,
    },
    /// An input or output that the program cannot have.
    #[error("{what} {index} of inference {inference}")]
    Tensor {
        /// Which inference.
        inference: usize,
        /// Input or output.
        what: &'static str,
        /// Which one.
        index: usize,
        /// What is wrong with it.
        source: TensorError,
    },
    /// An output that differs from what the statement itself says it is.
    #[error("output {index} of inference {inference} is not the value it stands for")]
    Output {
        /// Which inference.
        inference: usize,
        /// Which output.
        index: usize,
    },
    /// The bytes are no proof, or not written in the one way there is.
    #[error("proof cannot be read")]
    Bytes,
    /// The bytes are too many.
    #[error("proof has {found} bytes, at most {most} are read")]
    Size {
        /// How many.
        found: usize,
        /// How many at most.
        most: usize,
    },
    /// Accumulators in the clear that are too few, too many, too large, or do not give the output.
    #[error("accumulators do not give the outputs")]
    Accumulators,
    /// The look-ups do not hold.
    #[error("look-ups do not hold")]
    Lookups,
    /// A sum-check does not hold.
    #[error("{0} sum-check does not hold")]
    Sum(&'static str),
    /// The equation of all products has another shape.
    #[error("products have another shape")]
    Products,
    /// What should be committed is shown, or the other way round.
    #[error("other inputs or outputs are shown than expected")]
    Secrecy,
    /// A commitment is not opened.
    #[error("{0} are not opened")]
    Opening(&'static str),
    /// What was claimed on the way is not what the commitments hold.
    #[error("claims do not agree with the commitments")]
    Claims,
}
