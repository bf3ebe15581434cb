//! The provider's machine: what it has.
//!
//! This room touches hardware and the operating system on behalf of somebody who offers a machine:
//! [`devices`] says what there is and what is wrong with it. It decides nothing about jobs; it
//! reports facts, and a fact that cannot be had is absent or an error, never a guess.

pub mod devices;
mod processes;
mod root;
#[cfg(test)]
mod testing;
