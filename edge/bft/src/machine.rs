//! What the engine asks of the state machine it replicates.
//!
//! The engine orders opaque payloads and keeps keyed entries; what a payload means is decided
//! behind [`Machine`]. Nothing here names the ledger, so the ledger can change without compiling
//! the engine's generics again, and nothing here names the engine, so a machine never sees its
//! types.

use bytes::Bytes;
use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};
use tg_types::{
    header::Header,
    ids::{AccountId, HeaderDigest, StateKey},
    key::PublicKey,
    tick::{Height, Tick},
};

/// Largest payload of one block, in bytes. Bounds every message on the wire.
pub const PAYLOAD_BYTES_MAX: usize = 3 << 20;

/// Largest value of one state entry, in bytes. Bounds state-sync messages.
pub const ENTRY_BYTES_MAX: usize = 64 << 10;

/// Entries read for an execution. A key that is missing from the map has not been read yet;
/// `None` means that the state holds nothing under it. Only looked up, never walked: a block that
/// places jobs looks up all nodes, again and again.
pub type Loaded = HashMap<StateKey, Option<Bytes>>;

/// Where in the chain an execution happens.
#[derive(Clone, Debug)]
pub struct Place {
    /// Height of the block being built or executed.
    pub height: Height,
    /// Its timestamp.
    pub tick: Tick,
    /// Digest of the parent's header.
    pub parent: HeaderDigest,
    /// Timestamp of the parent.
    pub parent_tick: Tick,
    /// The seat that proposes the block.
    pub proposer: AccountId,
}

/// How far an execution may rely on checks made by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Nobody vouches for the payload: check everything, signatures included.
    Candidate,
    /// A quorum finalised the payload: signatures need not be checked again.
    Finalised,
}

/// What a block would contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing.
    None,
    /// Something; a moment later it may be more.
    Some,
    /// As much as fits.
    Full,
}

/// The outcome of an execution.
#[derive(Clone, Debug)]
pub struct Executed {
    /// The block's payload (built by [`Machine::draft`], or the one given to [`Machine::open`]).
    pub payload: Bytes,
    /// Entries to write (`Some`) or remove (`None`).
    pub changes: BTreeMap<StateKey, Option<Vec<u8>>>,
    /// Root over the block's receipts.
    pub receipts_root: [u8; 32],
    /// Root of the header log up to the parent.
    pub log_root: [u8; 32],
    /// What the node keeps about the block beside the payload: its encoded receipts.
    pub record: Bytes,
    /// What the machine wants back if the block becomes final.
    pub memo: Memo,
}

/// Something of the machine's own that the engine keeps for it.
pub type Memo = Arc<dyn Any + Send + Sync>;

/// Why an execution did not produce an outcome.
#[derive(Clone, Debug)]
pub enum RunError {
    /// These entries have to be loaded first; run again with them.
    Missing(Vec<StateKey>),
    /// The payload breaks a rule for ever; the reason is for the log.
    Invalid(String),
}

/// An execution that waits for its entries.
pub trait Run: Send {
    /// Entries that are surely needed, so that one load suffices for ordinary blocks.
    fn keys(&self) -> Vec<StateKey>;

    /// Executes on the loaded entries.
    ///
    /// # Errors
    /// [`RunError::Missing`] as long as entries are lacking, [`RunError::Invalid`] for a payload
    /// that breaks a rule.
    fn run(&mut self, loaded: &Loaded) -> Result<Executed, RunError>;
}

/// A block that became final, with what its execution produced.
#[derive(Clone, Debug)]
pub struct FinalBlock {
    /// The block's header.
    pub header: Header,
    /// Digest of the header, which the committee certifies afterwards.
    pub digest: HeaderDigest,
    /// The block's payload.
    pub payload: Bytes,
    /// What its execution left, see [`Executed::memo`].
    pub memo: Memo,
}

/// The replicated state machine, as the engine sees it. All methods return promptly.
pub trait Machine: Send + Sync + 'static {
    /// What a block built now would contain.
    fn work(&self) -> Work;

    /// Starts to build a block.
    fn draft(&self, place: &Place) -> Box<dyn Run>;

    /// Starts to execute a block that somebody else built.
    ///
    /// # Errors
    /// A payload that is malformed or, for [`Trust::Candidate`], wrongly signed is refused with the
    /// reason for the log.
    fn open(&self, place: &Place, payload: &Bytes, trust: Trust) -> Result<Box<dyn Run>, String>;

    /// A block became final and is on this node's disk. Called once per height and process, in
    /// order.
    fn finalised(&self, block: &FinalBlock);

    /// The committee's threshold certificate over (height, header digest) is known.
    fn certified(&self, height: Height, certificate: &Bytes);

    /// The height up to which final blocks carry certificates; those are not needed any more.
    fn carried(&self) -> Option<Height>;

    /// A seat signed two conflicting votes; the bytes prove it to third parties.
    fn equivocated(&self, evidence: &Bytes);

    /// A peer sent bytes on the gossip channel. Bytes returned are sent back to that peer alone.
    /// What takes long is left for [`Machine::do_chores`].
    fn gossiped(&self, from: &PublicKey, message: &Bytes) -> Option<Bytes>;

    /// Whether there is something for [`Machine::do_chores`].
    fn has_chores(&self) -> bool;

    /// Works off what gossip left behind, as much as there is now. Called on a thread of its own,
    /// one call at a time.
    fn do_chores(&self);

    /// Called about ten times a second; bytes returned are sent to every peer.
    fn pulse(&self) -> Vec<Bytes>;
}

/// A machine shared between the engine's tasks.
pub type SharedMachine = Arc<dyn Machine>;
