//! What validators do for machines that nobody can reach from outside: they answer calls over
//! [`tg_net`], pass transactions on, tell what became final, keep sealed packages, and give shares
//! of a package's key to those the chain has chosen.
//!
//! Providers and clients speak to validators only through [`Gateway`]; validators answer with
//! [`Door`]. Both speak [`message`], and what they carry is a [`package`]. A validator decides
//! nothing here: whether somebody may have a share is what the chain says.

pub mod client;
pub mod door;
pub mod message;
pub mod package;
pub mod presence;
pub mod task;

pub use client::{Gateway, GatewayError, genesis_of};
pub use door::{Door, DoorConfig, DoorError};
pub use package::{Package, PackageError, TensorInputs};
pub use task::{TaskInputs, TaskOutput};
