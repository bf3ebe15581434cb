//! What the fuzz targets check, apart from the engine that finds inputs: so that a finding can be
//! replayed, and seeds be tried out, by an ordinary program.
//!
//! A target takes any bytes. It panics only where our code breaks a promise: bytes that become a
//! value give the same bytes again, a checked program runs without overflow and as its meaning
//! says, and what an opening shows is true, and a
//! proof is accepted for what was proven only.

pub mod onnx;
pub mod opening;
pub mod program;
pub mod proof;
