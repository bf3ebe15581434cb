//! The ledger: accounts, stake, nodes, jobs and their money as one deterministic state machine.
//!
//! It is a function of a view of the state and a block, and answers with the entries that change
//! and with receipts. It has no clock, no randomness, no disk and no threads, and computes with
//! integers only, so every node that executes a block gets the same bytes. Signatures are checked
//! before ([`tg_types::CheckedTx`]); evidence and certificates are judged through traits, because
//! their formats belong to the engine.
//!
//! Invariants: money is neither made nor lost, and every block proves it to itself; a transaction
//! that fails changes nothing but its sender's fee and nonce; the work of a block is bounded.

mod absence;
mod account;
mod admit;
mod beacon;
mod block;
mod capacity;
mod cursor;
mod due;
mod entry;
mod error;
mod fee;
mod first;
mod job;
pub mod keys;
mod list;
mod log;
mod node;
mod params;
mod planted;
mod program;
pub mod query;
mod reads;
mod reputation;
mod rules;
mod seen;
mod session;
mod slash;
mod stake;
mod table;
mod totals;
mod view;
mod voucher;
mod weights;

pub use absence::{AbsenceEntry, Seats, quorum};
pub use account::{AccountEntry, Lanes};
pub use beacon::{
    BeaconEntry, CERTIFICATE_BYTES_MAX, CERTIFICATE_LAG_MAX, HeaderEntry, RING_HEIGHTS,
};
pub use block::{Applied, Built, FIRST_BLOCK_DELAY_MAX, JOBS_PER_BLOCK_MAX, apply, build};
pub use capacity::{Capacity, CapacityStep, Fill, Proofs, blocks_for, drawn_place};
pub use cursor::{Cursor, PromiseCounts};
pub use due::{DueHead, DueItem, DueItems, DuePage, PAGE_ITEMS_MAX, PageOf, SECONDS_PER_BLOCK_MAX};
pub use error::ApplyError;
pub use fee::{floor as fee_floor, try_floor as try_fee_floor};
pub use job::SYNC_OWNERS_MIN;
pub use job::charges::{Charges, charges};
pub use job::dispute::{DisputeEntry, Turn};
pub use job::draw::{BEACON_DELAY, drawn_lot};
pub use job::gang::{GANG_HOLD_MAX, GANG_PATIENCE, HOST_MUCH};
pub use job::gpus::{GpuMixEntry, HeldGpus, HeldHosts};
pub use job::kept as job_kept;
pub use job::pace::{PACE_PLACES, PaceEntry, Subject, forecast, subjects};
pub use job::place::{excluded, run_bond};
pub use job::promise::{
    ASK_AGAIN, Blamed, CANCEL_PART, KEPT_PER_NODE_MAX, KeptSlots, SLOT_AHEAD_MAX, SLOT_MARGIN,
    ahead_of, rest_of_run, run_span, slot_length,
};
pub use job::{
    BONUS_MAX, BONUS_PER_OCTAVE, Check, CheckState, Checks, ComplaintEntry, Draw, GangPlace,
    JobEntry, Promise, QueueKey, QueueRow, ROWS, Run, RunState, Runs, SavedState, Verdict, YieldTo,
    awaits_result, check_shown,
};
pub use list::{LIST_PAGE_MAX, ListHead, ListItems, ListOf, ListPage};
pub use log::LogEntry;
pub use node::{NodeEntry, NodeRuns};
pub use params::ParamsEntry;
#[cfg(feature = "planted-bugs")]
pub use planted::PlantedBug;
pub use program::{DraftEntry, PROGRAMS_PER_BLOCK_MAX, PieceEntry, ProgramEntry};
pub use reads::reads;
pub use reputation::{HALF_LIFE, Reputation};
pub use rules::{BlockEnv, Budget, Rules};
pub use seen::SeenEntry;
pub use slash::{EVIDENCE_PER_BLOCK_MAX, ValidatorEntry};
pub use stake::{StakeEntry, UNBONDING_MAX, Unbonding, Unbondings};
pub use totals::{Part, Totals};
pub use view::{ChangeSet, Lookup, MemoryView, PartialView, View};
pub use voucher::VOUCHER_SIGNATURES_PER_BLOCK_MAX;
pub use weights::{WeightsEntry, check_registration};
