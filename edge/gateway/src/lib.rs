//! What validators do for machines that nobody can reach from outside: they answer calls over
//! [`tg_net`], pass transactions on, tell what became final, keep sealed packages, and give shares
//! of a package's key to those the chain has chosen.
//!
//! Providers and clients speak to validators only through [`Gateway`]; validators answer with
//! [`Door`]; a [`card`] says where a door is. Both speak [`message`], and what they carry is a
//! [`package`]. A validator decides nothing here: whether somebody may have a share, what is kept
//! and for how long is what the chain says ([`custody`]). A client that gives validators no shares
//! answers for itself, with a [`KeyDesk`].

pub mod card;
pub mod client;
mod complaint;
pub mod custody;
pub mod desk;
pub mod door;
mod fetch;
mod keeper;
mod key;
pub mod local;
pub mod message;
pub mod package;
pub mod presence;
mod report;
mod roll;
mod rounds;
pub mod stream;
pub mod task;

pub use card::{CardError, DoorCard};
pub use client::{Blocks, Gateway, GatewayError, Kept, doors_of, genesis_of};
pub use complaint::Contents;
pub use desk::KeyDesk;
pub use door::{Door, DoorConfig, DoorError};
pub use key::KeyOrder;
pub use local::LocalPackage;
pub use package::{Holders, Lock, Package, PackageError, Seal, TensorInputs, WeightsSecret};
pub use stream::Plain;
pub use task::{TaskInputs, TaskOutput};
pub use tg_types::KeyEscrow;
