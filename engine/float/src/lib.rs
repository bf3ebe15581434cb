//! ONNX models run as they are, in floating point, by `rten`.
//!
//! A room of its own beside `tg-onnx`, because it has the opposite aim: that one turns a model into
//! integers that mean the same everywhere and knows every operator it accepts; this one runs
//! whatever the runtime can run, control flow and free sides included, and promises less.
//!
//! **What a result is worth.** Floating-point sums depend on their order. The runtime picks its
//! kernels by the instructions of the processor, cuts products by the number of threads, fuses
//! operators, and changes from version to version; another runtime differs in the last bits on the
//! same file. So two outputs can be compared bit by bit only between equal builds of this room,
//! with as many threads ([`FloatModel::with_threads`]), on processors with the same vector
//! instructions, and nobody can recompute a single step of a run to settle a dispute. That leaves
//! two ways of being sure: the provider's word (`none`), and several providers that must give the
//! same bytes (`redundant:n`). Audits and disputes are for tensor programs.
//!
//! A model comes from a stranger. [`FloatModel::from_bytes`] holds it against bounds before the
//! runtime sees it, and a panic of the runtime is an error here. What a run takes in memory and
//! time is not bounded here, because one small node can ask for a tensor of any size: run models of
//! strangers in a sandbox.
//!
//! The room does no I/O. Numbers go in and out as [`Arrays`], which have one canonical byte form.

mod arrays;
mod model;
mod survey;
#[cfg(test)]
mod testing;

pub use arrays::{
    ARRAYS_MAX, Array, ArrayError, Arrays, BYTES_MAX, Data, ELEMENTS_MAX, Element, NAME_BYTES_MAX,
    RANK_MAX,
};
pub use model::{FloatModel, ModelError, Port, RunError, Side, THREADS_MAX};
pub use survey::{DEPTH_MAX, FormError, ITEMS_MAX, MODEL_BYTES_MAX, NODES_MAX};

/// The variable that tells the runtime how many threads to use where nothing else does: while it
/// reads a model. It takes no more than the machine has cores.
pub const THREADS_VARIABLE: &str = "RTEN_NUM_THREADS";
