//! The provider's machine: what it has, when it may be used, and what using it costs.
//!
//! This room touches hardware and the operating system on behalf of somebody who offers a machine:
//! [`devices`] says what there is and what is wrong with it, [`hours`] and [`idle`] when it is to
//! be used, [`power`] what the electricity costs; [`partition`] splits GPUs as the scheduler has
//! decided. It decides nothing about jobs; it reports facts, and a fact that cannot be had is
//! absent or an error, never a guess.

pub mod devices;
pub mod hours;
pub mod idle;
pub mod partition;
pub mod power;
mod processes;
mod root;
#[cfg(test)]
mod testing;
