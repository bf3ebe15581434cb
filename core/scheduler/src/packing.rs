//! Sharing machines out so that what is left of them is still of use.
//!
//! A machine whose processor is used up has GPUs that nobody can rent, and a GPU of which a fifth
//! is left serves few. So a place is judged by what it does to the machine: how much of it the
//! tasks that usually come can no longer use ([`Mix`]). Which tasks usually come is learned from
//! those that came ([`Learner`]). Nothing depends on names or on the order of machines, except
//! between places that are equally good.

mod demand;
mod fleet;
mod learner;
mod machine;
mod mix;
#[cfg(test)]
mod tests;

pub use demand::{Demand, GPU_MILLI, GPUS_MAX, Gpus, Models};
pub use fleet::{Fleet, Judge, Placed};
pub use learner::Learner;
pub use machine::{Machine, Shape, Slot};
pub use mix::Mix;
