//! Why a graph does not become a program.

use tg_tensor::{ModelError, ProgramError};

/// Why a graph cannot be expressed as a tensor program.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LowerError {
    /// A node that has no meaning in integers, or not with these operands.
    #[error("node {node:?} ({operator}) cannot be expressed: {why}")]
    Node {
        /// The node's name.
        node: String,
        /// Its operator.
        operator: String,
        /// What is in the way, and what would help.
        why: &'static str,
    },
    /// A number or a size that no program can hold.
    #[error("{what} is too large for a tensor program")]
    TooLarge {
        /// Of what.
        what: String,
    },
    /// An output that does not depend on any input.
    #[error("output {0:?} does not depend on the inputs")]
    ConstantOutput(String),
    /// A value that was to be read before it was made, which is an error of ours.
    #[error("value {0:?} is read before it is made")]
    Missing(String),
    /// The program did not pass its checks.
    #[error("the program made of the graph is refused")]
    Program(#[from] ProgramError),
    /// The weights did not pass their checks.
    #[error("the weights made of the graph are refused")]
    Model(#[from] ModelError),
}

impl LowerError {
    pub(crate) fn too_large(what: &str) -> Self {
        Self::TooLarge { what: what.to_owned() }
    }
}
