//! The end of a job: who is paid, who gets back what, who loses what. Every way a job can end
//! passes through here, so that the escrow leaves exactly once and no bond stays behind.

use tg_types::ids::{AccountId, JobId, NodeId};
use tg_types::{Amount, Bps, Event, Extent, JobStatus, Reason, Tick};

use super::charges::{Charges, charges};
use super::promise::{self, Promise};
use super::record::{Check, CheckState, Checks, JobEntry, Run, RunState};
use super::{make_room, pace, place, save};
use crate::due::{self, DueItem};
use crate::error::{ApplyError, Stop};
use crate::planted::planted;
use crate::session::Session;
use crate::table::Slot;
use crate::totals::{Flow, Part};
use crate::{account, keys, node, weights};

/// Pays the runs that are left and the checks that passed, and gives the rest back.
pub(crate) fn accept(session: &mut Session<'_>, job: &JobId, entry: JobEntry) -> Result<(), Stop> {
    let prices = charges(&session.params, &entry.spec, entry.extent);
    let prices = prices.ok_or(ApplyError::Incomplete(keys::job(job)))?;
    pay_out(session, job, entry, &prices)
}

/// As [`accept`], at these prices, which may be below those that were locked.
pub(crate) fn pay_out(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    prices: &Charges,
) -> Result<(), Stop> {
    let unpayable = || ApplyError::Incomplete(keys::job(job));
    let output = entry.result().ok_or_else(unpayable)?.output;
    let runs: Vec<Run> = entry.live().cloned().collect();
    let checks: Vec<Check> = entry.checks.as_slice().to_vec();
    let passed = |check: &&Check| matches!(check.state, CheckState::Passed);
    let count = checks.iter().filter(passed).count();
    // Only jobs with one run have checkpoints.
    let saves = save::fees(&session.params, &entry)?;
    let charged = prices.of(runs.len(), count).ok_or_else(unpayable)?.plus(saves)?;
    let refund = entry.escrow.minus(charged)?;

    // What checkers get besides that had to recompute what was not shown, its provider does not.
    let unshown = checks.iter().filter(passed).filter(|check| was_unshown(entry.extent, check));
    let unshown = prices.unshown.times(unshown.count().try_into().unwrap_or(u64::MAX))?;
    let pay = prices.pay.minus(unshown)?;
    for run in &runs {
        pay_run(session, job, run, (pay, prices.fees.plus(saves)?))?;
    }
    for check in checks.iter().filter(passed) {
        let is_unshown = was_unshown(entry.extent, check);
        let more = if is_unshown { prices.unshown } else { Amount::ZERO };
        pay_check(session, job, check, (prices.check_pay.plus(more)?, prices.check_fees))?;
    }
    pace::learn(session, &entry)?;
    release_checks(session, &mut entry)?;
    let escrow = entry.escrow;
    let client = session.tables.accounts.find(entry.owner.as_bytes())?;
    account::credit(session, client, refund)?;
    session.totals.shift(Flow { from: Part::Escrow, to: Part::Balances, amount: escrow })?;
    let (owner, charged) = (entry.owner, charged.plus(entry.paid)?);
    finish(session, job, entry, JobStatus::Settled)?;
    session.emit(Event::JobSettled { job: *job, owner, output, charged, refund });
    Ok(())
}

/// Whether a checker of tiles has shown that it recomputed the whole run.
fn was_unshown(extent: Extent, check: &Check) -> bool {
    extent == Extent::Tiles && check.lot.is_none()
}

fn pay_run(
    session: &mut Session<'_>,
    job: &JobId,
    run: &Run,
    (pay, fees): (Amount, Amount),
) -> Result<(), Stop> {
    release_run(session, job, run)?;
    let now = session.env.tick;
    node::update(session, &run.node, |node| node.judge(true, pay, now))?;
    pay_owner_and_node(session, (&run.owner, &run.node), pay, fees)?;
    if planted!(session.rules, PayTwiceOnSettle) {
        pay_owner_and_node(session, (&run.owner, &run.node), pay, Amount::ZERO)?;
    }
    let (node, owner) = (run.node, run.owner);
    session.emit(Event::ProviderPaid { job: *job, node, owner, amount: pay });
    Ok(())
}

fn pay_check(
    session: &mut Session<'_>,
    job: &JobId,
    check: &Check,
    (pay, fees): (Amount, Amount),
) -> Result<(), Stop> {
    let now = session.env.tick;
    node::update(session, &check.node, |node| node.judge(true, pay, now))?;
    pay_owner_and_node(session, (&check.owner, &check.node), pay, fees)?;
    let (node, owner) = (check.node, check.owner);
    session.emit(Event::CheckerPaid { job: *job, node, owner, amount: pay });
    Ok(())
}

/// The owner earns; the node gets back what its transactions cost.
pub(super) fn pay_owner_and_node(
    session: &mut Session<'_>,
    (owner, node): (&AccountId, &NodeId),
    pay: Amount,
    fees: Amount,
) -> Result<(), Stop> {
    let slot = session.tables.accounts.find(owner.as_bytes())?;
    account::credit(session, slot, pay)?;
    let slot = session.tables.accounts.find(node.as_bytes())?;
    account::credit(session, slot, fees)
}

/// Ends a job without an accepted result and gives its escrow back.
pub(crate) fn fail(session: &mut Session<'_>, job: &JobId, entry: JobEntry) -> Result<(), Stop> {
    let (owner, refund) = (entry.owner, entry.escrow);
    close(session, job, entry, JobStatus::Failed)?;
    session.emit(Event::JobFailed { job: *job, owner, refund });
    Ok(())
}

/// Ends a job whose end cannot be promised and gives its escrow back.
pub(super) fn refuse(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    why: Reason,
    earliest: Option<Tick>,
) -> Result<(), Stop> {
    let (owner, refund) = (entry.owner, entry.escrow);
    promise::void(session, job, &mut entry)?;
    entry.promise = Promise::Refused { why, earliest };
    close(session, job, entry, JobStatus::Failed)?;
    session.emit(Event::PromiseRefused { job: *job, owner, why, earliest, refund });
    Ok(())
}

/// Ends a job whose date has passed and gives its escrow back.
pub(crate) fn expire(session: &mut Session<'_>, job: &JobId, entry: JobEntry) -> Result<(), Stop> {
    let (owner, refund) = (entry.owner, entry.escrow);
    close(session, job, entry, JobStatus::Expired)?;
    session.emit(Event::JobExpired { job: *job, owner, refund });
    Ok(())
}

/// Gives the escrow back, frees everybody and sets the status.
pub(crate) fn close(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    status: JobStatus,
) -> Result<(), Stop> {
    let refund = entry.escrow;
    let owner = session.tables.accounts.find(entry.owner.as_bytes())?;

    for run in entry.runs.as_mut_slice().iter_mut().filter(|run| run.is_live()) {
        release_run(session, job, run)?;
        run.state = RunState::Ended { why: Reason::JobClosed };
    }
    release_checks(session, &mut entry)?;
    if !planted!(session.rules, LoseRefund) {
        account::credit(session, owner, refund)?;
    }
    session.totals.shift(Flow { from: Part::Escrow, to: Part::Balances, amount: refund })?;
    finish(session, job, entry, status)
}

/// Stores a job that has ended, to be forgotten after a while.
fn finish(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    status: JobStatus,
) -> Result<(), Stop> {
    place::dequeue(session, &mut entry)?;
    weights::give_back(session, &entry)?;
    make_room::delist(session, &mut entry)?;
    promise::finish(session, job, &mut entry, status)?;
    if !planted!(session.rules, KeepEscrow) {
        entry.escrow = Amount::ZERO;
    }
    entry.status = status;
    entry.closed = Some(session.env.tick);
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    let forgotten = session.env.tick.plus(super::kept(&session.params))?;
    due::add(session, forgotten, DueItem::CloseJob { job: *job })
}

/// A run stands for nothing any more.
pub(crate) fn release_run(session: &mut Session<'_>, job: &JobId, run: &Run) -> Result<(), Stop> {
    release(session, &run.owner, run.bond)?;
    node::update(session, &run.node, |node| node.end_run(job))
}

/// A check stands for nothing any more.
pub(crate) fn release_check(session: &mut Session<'_>, check: &Check) -> Result<(), Stop> {
    release(session, &check.owner, check.bond)?;
    node::update(session, &check.node, |node| node.checks = node.checks.saturating_sub(1))
}

/// Frees all checkers of a job and forgets the checks of its result.
pub(crate) fn release_checks(session: &mut Session<'_>, entry: &mut JobEntry) -> Result<(), Stop> {
    let checks = std::mem::take(&mut entry.checks);
    let mut kept = Checks::default();
    for check in checks.as_slice() {
        if check.is_bonded() {
            release_check(session, check)?;
        }
        // What was found stays on record; what was never said does not.
        if matches!(check.state, CheckState::Passed | CheckState::Excused) {
            let room = kept.push(check.clone());
            debug_assert!(room.is_ok(), "there are not more than before");
        }
    }
    entry.checks = kept;
    Ok(())
}

/// A bond stands for nothing any more.
pub(super) fn release(
    session: &mut Session<'_>,
    owner: &AccountId,
    bond: Amount,
) -> Result<(), Stop> {
    if planted!(session.rules, ForgetBond) {
        return Ok(());
    }
    let slot = session.tables.stakes.find(owner.as_bytes())?;
    let stake = session.tables.stakes.at_mut(slot);
    if let Some(entry) = stake {
        entry.release(bond)?;
        *stake = entry.clone().unless_empty();
    }
    Ok(())
}

/// Stake that is lost.
pub(crate) struct Loss<'a> {
    node: &'a NodeId,
    owner: &'a AccountId,
    amount: Amount,
    is_shown: bool,
}

impl<'a> Loss<'a> {
    /// All of a bond: for what was shown to be wrong.
    pub(crate) const fn whole(node: &'a NodeId, owner: &'a AccountId, amount: Amount) -> Self {
        Self { node, owner, amount, is_shown: true }
    }

    /// Half of a bond: for what was committed to and not defended.
    pub(crate) fn half(node: &'a NodeId, owner: &'a AccountId, bond: Amount) -> Self {
        Self { node, owner, amount: bond.share_floor(HALF), is_shown: false }
    }
}

/// What silence about one's own result costs of the bond.
const HALF: Bps = Bps::constant(5_000);

/// What of that whoever objected gets: as much as a run is paid if the bond is twenty times that.
/// It covers the work of looking, and is little enough that a liar who is about to be caught gains
/// nothing by letting a friend object.
const SILENCE: Bps = Bps::constant(1_000);

/// Takes stake away: a share goes to whoever showed the fault, the rest is burned.
pub(crate) fn slash(
    session: &mut Session<'_>,
    job: &JobId,
    loss: &Loss<'_>,
    challenger: Option<Slot>,
) -> Result<(), Stop> {
    let taken = burn_stake(session, loss.owner, loss.amount)?;
    let bounty = match challenger {
        Some(slot) => {
            let share = if loss.is_shown { session.params.jobs.challenge_bounty } else { SILENCE };
            let bounty = taken.share_floor(share);
            unburn(session, slot, bounty)?;
            bounty
        }
        None => Amount::ZERO,
    };
    let (node, owner) = (*loss.node, *loss.owner);
    session.emit(Event::NodeSlashed { job: *job, node, owner, amount: taken, bounty });
    Ok(())
}

/// Takes stake away for a result that does not open: a share of all there is, but at least what was
/// paid for the run. That much goes back to the client, the rest is burned. Says how much was
/// taken.
pub(crate) fn forfeit(
    session: &mut Session<'_>,
    job: &JobId,
    run: &Run,
    paid: Amount,
    client: Slot,
) -> Result<Amount, Stop> {
    let slot = session.tables.stakes.find(run.owner.as_bytes())?;
    let stake = session.tables.stakes.at(slot).cloned().unwrap_or_default();
    let held = stake.active.plus(stake.unbonding.total()?)?;
    let share = held.share_floor(session.params.jobs.complaint_slash_bps);
    let amount = burn_stake(session, &run.owner, share.max(paid))?;
    let bounty = amount.min(paid);
    unburn(session, client, bounty)?;
    let (node, owner) = (run.node, run.owner);
    session.emit(Event::NodeSlashed { job: *job, node, owner, amount, bounty });
    Ok(amount)
}

/// Takes stake away for a promise that was failed and gives it to the client, or what there is of
/// it; says how much.
pub(super) fn compensate(
    session: &mut Session<'_>,
    owner: &AccountId,
    client: &AccountId,
    amount: Amount,
) -> Result<Amount, Stop> {
    let client = session.tables.accounts.find(client.as_bytes())?;
    let taken = burn_stake(session, owner, amount)?;
    unburn(session, client, taken)?;
    Ok(taken)
}

/// Gives somebody a part of what was just burned.
fn unburn(session: &mut Session<'_>, slot: Slot, amount: Amount) -> Result<(), Stop> {
    account::credit(session, slot, amount)?;
    let (from, to) = (Part::Burned, Part::Balances);
    Ok(session.totals.shift(Flow { from, to, amount })?)
}

/// Takes a fine from an owner's stake and burns it.
pub(crate) fn fine(
    session: &mut Session<'_>,
    job: &JobId,
    node: &NodeId,
    owner: &AccountId,
) -> Result<(), Stop> {
    let amount = burn_stake(session, owner, session.params.jobs.fine)?;
    session.emit(Event::NodeFined { job: *job, node: *node, owner: *owner, amount });
    Ok(())
}

/// Burns stake, or what there is of it; says how much. What stands for other work stays in place as
/// a debt: the owner gets no more work until its stake covers it again.
fn burn_stake(
    session: &mut Session<'_>,
    owner: &AccountId,
    amount: Amount,
) -> Result<Amount, Stop> {
    let slot = session.tables.stakes.find(owner.as_bytes())?;
    let stake = session.tables.stakes.at(slot).cloned().unwrap_or_default();
    let held = stake.active.plus(stake.unbonding.total()?)?;
    let taken = amount.min(held);
    let (stake, from_active) = stake.without(taken)?;
    let from_unbonding = taken.minus(from_active)?;
    *session.tables.stakes.at_mut(slot) = stake.unless_empty();
    let to = Part::Burned;
    session.totals.shift(Flow { from: Part::Staked, to, amount: from_active })?;
    session.totals.shift(Flow { from: Part::Unbonding, to, amount: from_unbonding })?;
    Ok(taken)
}
