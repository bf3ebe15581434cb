//! A test library with the C interface of NVML, NVIDIA's management library; no part of the
//! product.
//!
//! It describes a machine that does not exist, with two GPUs, so that tests drive the production
//! code through the same calls as a driver would answer, on machines without a GPU. It is separate
//! because it has to be a shared library that is loaded at run time, and because its exports need
//! `unsafe`, which the product does without.
//!
//! A file beside the library changes what it says, also while it is loaded: `library.so.state` for
//! `library.so`, in lines of words (see [`machine::Machine::change`]). A test that copies the
//! library into a folder of its own has a machine of its own: the loader tells copies apart.
//!
//! What its functions cut out of a GPU is kept in another file beside it, as a driver keeps it when
//! the program that asked for it is gone.

pub mod abi;
pub mod machine;
pub mod mig;

/// The name of the library's file where cargo puts it.
pub const LIBRARY_FILE: &str = "libtg_nvml_test.so";

/// What the name of the library's file is followed by in the name of the file that changes it.
pub const STATE_ENDING: &str = ".state";

/// What the name of the library's file is followed by in the name of the file that keeps what was
/// cut out of GPUs.
pub const CUT_ENDING: &str = ".cut";
