//! The agent of a provider's node, and what it runs.
//!
//! It reaches out and is never reached: it speaks to validators over [`tg_net`], follows the chain,
//! does what the chain gives its node, and says on the chain what it did. It decides nothing that
//! money depends on; whether a run is paid is the ledger's business.

pub mod agent;
pub mod chance;
pub mod contents;
pub mod float_run;
pub mod registration;
pub mod saved;
pub mod task_run;
pub mod tensor_run;
