//! The BFT engine, instantiated once.
//!
//! This room turns commonware's primitives into one replicated state machine: ordered blocks with
//! BFT finality, authenticated state with proofs and sync, threshold certificates. It knows
//! payloads as bytes and state as keyed entries; what they mean is behind [`machine::Machine`]. It
//! is apart from the chain room because compiling the engine's generics takes minutes and the
//! ledger changes daily.
//!
//! No type of the engine leaves this room, except the generic [`node::start_node`] that the
//! simulator instantiates on its own runtime.

mod app;
mod block;
mod certify;
pub mod committee;
mod gossip;
pub mod handle;
pub mod machine;
mod net;
pub mod node;
mod paced;
mod parts;
pub mod proof;
pub mod recover;
mod state;
mod store;

pub use app::Pace;
pub use net::{NetConfig, Peer, RunningNode, StartError, start};
pub use state::Runtime;
