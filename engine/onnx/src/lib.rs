//! ONNX models become tensor programs.
//!
//! The way in: [`proto`] reads the bytes, [`graph`] makes a checked graph of them in which every
//! shape is known, every constant is computed and every node has one of the meanings in [`op`].
//! [`float`] computes such a graph in floating point, which is what everything that comes later
//! is held against.
//!
//! A file comes from a stranger. Whatever it holds gives a graph or an error: no panic, and no
//! more memory or work than the [`Limits`] allow.

mod dtype;
mod emit;
mod error;
mod expand;
pub mod float;
mod fold;
pub mod generate;
pub mod graph;
mod import;
mod lower;
pub mod op;
pub mod proto;
mod report;
mod shape;
#[cfg(test)]
mod testing;

pub use dtype::{Dtype, ElementKind};
pub use error::{ImportError, NodeError};
pub use float::{FloatError, Reference};
pub use graph::{Graph, Limits, Node, Options, Quantised, Value, ValueId};
pub use import::{Imported, Refused, Sample, Source};
pub use lower::{Choices, LowerError};
pub use op::Op;
pub use report::{OutputReport, Report};
