//! Promises: a client may ask that a job is done by a time, and is told in the block that takes the
//! job in, or in one of the next, whether it will be.
//!
//! Yes means that a run which ends in time by its own dates is under way, or that a node keeps a
//! slot for it, with all that the run will hold: no run is placed there that might still have it
//! when the slot begins ([`tg_scheduler::Rule::Kept`]), and the owner's stake stands for it from
//! then on. A promised job waits in the queue as any other and may be placed earlier; in its slot
//! it begins at the latest. No means that the job ends, and names the earliest deadline that would
//! have been promised.
//!
//! Whoever has a slot or a run of a promised job and fails it makes the ledger decide anew, before
//! the queue takes what is free. If nobody else can keep the promise, it is broken openly: the job
//! ends, the escrow goes back, and the owner of the node that is to blame pays the client what
//! a run is paid. Nobody is to blame where a node has given the run up, because then clients could
//! earn by handing in what cannot be run, or where the chain stood still.

mod decide;
mod keep;
mod spans;

pub(crate) use decide::{decide_all, load_ahead, renew_all};
pub(crate) use keep::{fall_due, recheck};
pub use spans::{ahead_of, rest_of_run, run_span, slot_length};

use tg_scheduler::Offer;
use tg_scheduler::slots::KeptSlot;
use tg_types::ids::{AccountId, JobId, NodeId, StateKey};
use tg_types::{
    Amount, DurationMs, Event, JobSpec, JobStatus, KeyEscrow, List, ProgramFacts, Reason, Tick,
    TimeError, Work, wire,
};

use super::record::JobEntry;
use super::{fleet, settle};
use crate::error::Stop;
use crate::list::{self, LIST_PAGE_MAX, ListOf};
use crate::session::Session;
use crate::table::Slot;
use crate::totals::{Flow, Part};
use crate::{account, keys, node, program};

/// What a slot is longer than the dates of a run: dates are looked after in the first block that
/// comes after their second, and a run that ends at its date makes room a block later.
pub const SLOT_MARGIN: DurationMs = DurationMs::new(5_000);

/// Slots that a node keeps at most: every run that is placed is held against them.
pub const KEPT_PER_NODE_MAX: usize = 16;

/// How far ahead a slot begins at most: until then the node and the stake that stands for it are
/// there for little else.
pub const SLOT_AHEAD_MAX: DurationMs = DurationMs::DAY;

/// What whoever keeps a slot is paid if the client takes its job back: one part in so many of what
/// the run is paid.
pub const CANCEL_PART: u64 = 10;

/// The lists of promises that are to be decided about, in their order.
const LISTS: [ListOf; 2] = [ListOf::Renewals, ListOf::Promises];

/// The list in which a promise waits that was given before, or was not.
const fn list_of(was_given: bool) -> ListOf {
    if was_given { ListOf::Renewals } else { ListOf::Promises }
}

/// What the earliest deadline that is named leaves for asking again.
pub const ASK_AGAIN: DurationMs = DurationMs::new(10_000);

/// Slots that a node keeps.
pub type KeptSlots = List<KeptSlot, 0, KEPT_PER_NODE_MAX>;

wire! {
    /// A node that failed a promise.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Blamed {
        /// Which.
        pub node: NodeId,
        /// Whose it is.
        pub owner: AccountId,
    }
}

wire! {
    /// What was promised of a job. By when is its expiry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Promise {
        /// Nobody asked, or the client's own package voided it.
        None = 1,
        /// It is to be decided about.
        Asked {
            /// Its place in the list of such jobs.
            place: u64,
            /// Whether it was given before, and whoever had it failed.
            was_given: bool,
            /// Who failed it, if anybody is to blame.
            blamed: Option<Blamed>,
        } = 2,
        /// A node keeps a slot.
        Kept {
            /// Which.
            node: NodeId,
            /// Whose it is.
            owner: AccountId,
            /// What of the owner's stake stands for it.
            bond: Amount,
            /// When it begins at the latest.
            from: Tick,
        } = 3,
        /// A run is under way, or gave the result.
        Running {
            /// Who failed it, if its run ended without a result and somebody is to blame.
            blamed: Option<Blamed>,
        } = 4,
        /// It was not given.
        Refused {
            /// Why.
            why: Reason,
            /// The earliest deadline that would have been promised, if there is one.
            earliest: Option<Tick>,
        } = 5,
        /// It was given and broken.
        Broken {
            /// What the client received.
            compensation: Amount,
        } = 6,
    }
}

/// When a job expires that is submitted now.
pub(super) fn expiry(now: Tick, spec: &JobSpec) -> Result<Tick, TimeError> {
    let latest = now.plus(spec.expires_after)?;
    Ok(spec.promise.map_or(latest, |by| by.min(latest)).max(now))
}

/// Refuses what can never be promised.
pub(super) fn check_spec(spec: &JobSpec) -> Result<(), Reason> {
    if spec.promise.is_none() {
        return Ok(());
    }
    if !spec.tier.ends_with_its_run() {
        return Err(Reason::PromiseNeedsDate);
    }
    match spec.key_escrow {
        KeyEscrow::Validators => Ok(()),
        KeyEscrow::None => Err(Reason::PromiseNeedsShares),
    }
}

/// Loads what asking for promises needs, if any of these jobs does.
pub(super) fn load_end(session: &mut Session<'_>, has_promise: bool) -> Result<(), Stop> {
    if !has_promise {
        return Ok(());
    }
    session.require(&LISTS.map(keys::list_head))?;
    let ends = LISTS.map(|list| list::load_end(session, list));
    session.all_of(ends)
}

/// Keys of what a step of a job may touch because of its promise.
pub(super) fn keys_around(promise: &Promise, out: &mut Vec<StateKey>) {
    let of = |node: &NodeId, owner: &AccountId| [keys::node(node), keys::stake(owner)];
    match promise {
        Promise::Asked { place, was_given, blamed } => {
            out.push(keys::list_page(list_of(*was_given), place / LIST_PAGE_MAX));
            out.extend(blamed.iter().flat_map(|it| of(&it.node, &it.owner)));
        }
        Promise::Kept { node, owner, .. } => {
            out.extend(of(node, owner));
            out.push(keys::account(owner));
        }
        Promise::Running { blamed } => {
            out.extend(blamed.iter().flat_map(|it| of(&it.node, &it.owner)));
        }
        Promise::None | Promise::Refused { .. } | Promise::Broken { .. } => {}
    }
}

/// A job is taken in: its promise is decided about at the end of the block.
pub(super) fn ask(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    if entry.spec.promise.is_some() {
        enlist(session, job, entry, false, None)?;
    }
    Ok(())
}

/// The run of a job ended without a result: if it was promised, that is decided about anew.
pub(super) fn ask_again(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    match entry.promise {
        Promise::Running { blamed } => enlist(session, job, entry, true, blamed),
        Promise::None
        | Promise::Asked { .. }
        | Promise::Kept { .. }
        | Promise::Refused { .. }
        | Promise::Broken { .. } => Ok(()),
    }
}

fn enlist(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    was_given: bool,
    blamed: Option<Blamed>,
) -> Result<(), Stop> {
    let place = list::push(session, list_of(was_given), *job.as_bytes())?;
    entry.promise = Promise::Asked { place, was_given, blamed };
    Ok(())
}

/// Whether a job may be given to a node now: a promised one only if it ends in time by its dates.
pub(super) fn may_begin(session: &Session<'_>, entry: &JobEntry) -> bool {
    match entry.promise {
        Promise::Asked { .. } | Promise::Kept { .. } => {
            run_span(&session.params, &entry.spec, session.env.tick).to <= entry.expires
        }
        Promise::None
        | Promise::Running { .. }
        | Promise::Refused { .. }
        | Promise::Broken { .. } => true,
    }
}

/// A job is given to a node now: what was kept for it is free again.
pub(super) fn begin(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    node: &NodeId,
) -> Result<(), Stop> {
    match entry.promise {
        Promise::Asked { was_given, .. } => {
            tell(session, (job, entry.expires), (node, session.env.tick), was_given);
        }
        Promise::Kept { .. } => {}
        Promise::None
        | Promise::Running { .. }
        | Promise::Refused { .. }
        | Promise::Broken { .. } => return Ok(()),
    }
    release(session, job, entry)?;
    entry.promise = Promise::Running { blamed: None };
    Ok(())
}

fn tell(
    session: &mut Session<'_>,
    (job, by): (&JobId, Tick),
    (node, from): (&NodeId, Tick),
    was_given: bool,
) {
    if !was_given {
        session.cursor.promises.given = session.cursor.promises.given.saturating_add(1);
    }
    session.emit(Event::PromiseGiven { job: *job, node: *node, from, by });
}

/// Gives up what a promise holds: its place in the list, or its slot.
fn release(session: &mut Session<'_>, job: &JobId, entry: &JobEntry) -> Result<(), Stop> {
    match &entry.promise {
        Promise::Asked { place, was_given, .. } => {
            list::set(session, list_of(*was_given), *place, None)
        }
        Promise::Kept { node, owner, bond, .. } => {
            node::update(session, node, |node| node.kept.retain(|slot| slot.job != *job))?;
            settle::release(session, owner, *bond)
        }
        Promise::None
        | Promise::Running { .. }
        | Promise::Refused { .. }
        | Promise::Broken { .. } => Ok(()),
    }
}

/// A run of a promised job ended without a result: says who is to blame, if the ledger has seen
/// that it is the node. A node that gives a run up is not, whatever it says: it may say so because
/// of what the client has handed in, and nobody else can tell.
pub(super) fn blame(entry: &mut JobEntry, by: Blamed, why: Reason) {
    let is_seen = matches!(
        why,
        Reason::RunLost | Reason::RunMissed | Reason::ResultUndefended | Reason::ResultRefuted
    );
    if let Promise::Running { blamed } = &mut entry.promise
        && is_seen
    {
        *blamed = Some(by);
    }
}

/// The client's own package is bad: nothing is promised any more.
pub(super) fn void(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    release(session, job, entry)?;
    entry.promise = Promise::None;
    Ok(())
}

/// A job ends: its promise was kept, or it is broken.
pub(super) fn finish(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    status: JobStatus,
) -> Result<(), Stop> {
    release(session, job, entry)?;
    let (is_given, blamed) = match entry.promise {
        Promise::None | Promise::Refused { .. } | Promise::Broken { .. } => return Ok(()),
        Promise::Asked { was_given, blamed, .. } => (was_given, blamed),
        Promise::Kept { .. } => (true, None),
        Promise::Running { blamed } => (true, blamed),
    };
    let is_late = session.env.tick > entry.expires;
    match status {
        JobStatus::Settled if !is_late => {
            let counts = &mut session.cursor.promises;
            counts.kept = counts.kept.saturating_add(1);
            Ok(())
        }
        JobStatus::Cancelled => {
            entry.promise = Promise::None;
            Ok(())
        }
        JobStatus::Expired if !is_given => {
            entry.promise = Promise::Refused { why: Reason::PromiseNoRoom, earliest: None };
            Ok(())
        }
        JobStatus::Settled
        | JobStatus::Failed
        | JobStatus::Expired
        | JobStatus::Queued
        | JobStatus::Running
        | JobStatus::Checking
        | JobStatus::Disputed => break_openly(session, job, entry, blamed),
    }
}

/// A client takes its job back: whoever keeps a slot for it is paid a part of the escrow.
pub(super) fn pay_keeper(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    let Promise::Kept { node, owner, .. } = entry.promise else {
        return Ok(());
    };
    let amount = Amount::new(entry.spec.pay.units().div_ceil(CANCEL_PART))?.min(entry.escrow);
    let keeper = session.tables.accounts.find(owner.as_bytes())?;
    account::credit(session, keeper, amount)?;
    session.totals.shift(Flow { from: Part::Escrow, to: Part::Balances, amount })?;
    entry.escrow = entry.escrow.minus(amount)?;
    entry.paid = entry.paid.plus(amount)?;
    session.emit(Event::ProviderPaid { job: *job, node, owner, amount });
    Ok(())
}

/// Says that a promise is broken; who is to blame pays the client what a run is paid.
fn break_openly(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    blamed: Option<Blamed>,
) -> Result<(), Stop> {
    let (owner, by) = (entry.owner, entry.expires);
    session.emit(Event::PromiseBroken { job: *job, owner, by });
    let counts = &mut session.cursor.promises;
    counts.broken = counts.broken.saturating_add(1);
    let mut compensation = Amount::ZERO;
    if let Some(Blamed { node, owner }) = blamed {
        let (client, pay) = (entry.owner, entry.spec.pay);
        compensation = settle::compensate(session, &owner, &client, pay)?;
        let amount = compensation;
        session.emit(Event::ClientCompensated { job: *job, node, owner, client, amount });
    }
    entry.promise = Promise::Broken { compensation };
    Ok(())
}

fn facts(session: &mut Session<'_>, entry: &JobEntry) -> Result<Option<ProgramFacts>, Stop> {
    match &entry.spec.work {
        Work::Tensor { program, .. } => program::facts(session, program),
        Work::Opaque { .. } => Ok(None),
    }
}

/// A node and where it lies.
struct Seat {
    id: NodeId,
    node: Slot,
    stake: Slot,
}

impl Seat {
    fn find(session: &mut Session<'_>, id: &NodeId) -> Result<Self, Stop> {
        let node = session.tables.nodes.find(id.as_bytes())?;
        let owner = session.tables.nodes.at(node).map(|entry| entry.owner);
        // Nobody's stake stands for a node that is gone.
        let owner = owner.map_or(*id.as_bytes(), |owner| *owner.as_bytes());
        Ok(Self { id: *id, node, stake: session.tables.stakes.find(&owner)? })
    }

    fn offer<'a>(&self, session: &'a Session<'_>) -> Option<Offer<'a>> {
        fleet::offer_of(session, self.id, self.node, self.stake)
    }
}
