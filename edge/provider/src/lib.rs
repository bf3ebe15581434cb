//! The provider's machine: what it has, and when it may be used.
//!
//! This room touches hardware and the operating system on behalf of somebody who offers a machine:
//! [`devices`] says what there is and what is wrong with it, [`hours`] and [`idle`] when it is to
//! be used. It decides nothing about jobs; it reports facts, and a fact that cannot be had is
//! absent or an error, never a guess.

pub mod devices;
pub mod hours;
pub mod idle;
mod processes;
mod root;
#[cfg(test)]
mod testing;
