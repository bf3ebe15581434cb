//! The ledger on the BFT engine: mempool, execution, receipts, proofs.
//!
//! This room carries out what the ledger decides and feeds it what the world sends. It knows both
//! the ledger and the engine's interface; it knows neither HTTP nor the engine's own types.

mod certificates;
mod chain;
mod execution;
pub mod gossip;
pub mod index;
pub mod light;
mod machine;
pub mod mempool;
pub mod metrics;
pub mod network;
pub mod notice;
mod outbox;
pub mod payload;
pub mod record;
mod report;
mod start;

pub use chain::{Chain, ChainError, ChainStatus, Happening, History, NONCE_AHEAD_MAX};
pub use machine::{FinalReceipts, Outcome};
pub use notice::{Notice, NoticeError};
pub use start::{
    ChainConfig, ChainStartError, IndexPlace, Prepared, RunningChain, genesis_header, prepare,
    start,
};
pub use tg_bft::{NetConfig, Peer};
