//! Tensor programs: what a job means, to the bit.

mod array;
pub mod capacity;
pub mod commit;
pub mod dispute;
pub mod element;
pub mod freivalds;
#[cfg(feature = "wgpu")]
pub mod gpu;
pub mod judge;
mod kernels;
mod model;
mod port;
pub mod program;
mod run;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
mod tensor;
pub mod trace;

pub use array::{Array, ArrayError, Data};
pub use kernels::Path;
pub use model::{MAGIC, Model, ModelError, WeightsId};
pub use port::PortError;
pub use program::{Program, ProgramError, ProgramId};
pub use run::{Elements, Options, RunError, Runner};
pub use tensor::{Tensor, TensorError};
