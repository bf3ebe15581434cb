//! Gangs: jobs that run on several nodes at the same time, or not at all.
//!
//! All members are given their nodes in one block, each another one; a gang that waits holds none,
//! so no two of them can wait for each other. Jobs behind it take what it cannot use. One that has
//! waited for long is looked at before all others, one in a block, and if enough nodes would take
//! it once their runs have ended, as many as it lacks leave it a place for a while. Only the first
//! such gang has that; whoever had it in vain, or cannot have it, goes behind the others. Jobs for
//! several GPUs of one node wait in the same way.
//!
//! If a member fails, nobody can go on without it: all runs end, and the gang waits again. Whoever
//! did its part is paid for its time, by the owner of a member that the ledger saw failing, and for
//! no higher price than that one asks itself, since the client chooses what it pays. A member that
//! gives up says so itself, and may do so for what the client handed in: then the client pays for
//! the time, and the job ends, unless it was hardly begun. Otherwise a client could have its friend
//! give up at the end, and have had the work of all others for nothing.

use tg_types::ids::{AccountId, JobId};
use tg_types::job::NODES_PER_JOB_MAX;
use tg_types::{
    Amount, DurationMs, Event, GpuAsk, HostPart, JobSpec, JobStatus, NodeId, Reason, Tier, Work,
};

use super::fleet::Fleet;
use super::place;
use super::record::{GangPlace, JobEntry, Run, RunState};
use super::{settle, stop};
use crate::error::Stop;
use crate::keys;
use crate::list::{self, LIST_PAGE_MAX, ListOf};
use crate::session::Session;
use crate::totals::{Flow, Part};

/// How long a gang waits before it comes first and nodes are held back for it.
pub const GANG_PATIENCE: DurationMs = DurationMs::new(5 * DurationMs::MINUTE.get());

/// From how many processors on, or how much memory, a job waits for much at once: several times
/// what a usual command has.
pub const HOST_MUCH: HostPart = HostPart { cpu_milli: 4_000, memory_mib: 1 << 14 };

/// How long nodes are held back for a gang, before the others that wait have their turn: longer
/// than most runs, so that what it lacks comes free, and not so long that one which waits for runs
/// that hardly end keeps nodes from all others.
pub const GANG_HOLD_MAX: DurationMs = DurationMs::new(30 * DurationMs::MINUTE.get());

/// Gangs that have waited longest and that a block looks at: for some there may be too few nodes.
const ELDERS_MAX: usize = 8;

/// Places of the list in which a block looks for them: others have left holes.
const ELDERS_REACH: u64 = LIST_PAGE_MAX;

/// Who gives up sooner has cost the others nothing. Much shorter than what else counts as hardly
/// begun, or a client could have its work done in slices that are not paid.
const GIVEN_UP_AT_ONCE: DurationMs = DurationMs::new(5_000);

/// Refuses gangs that cannot be.
pub(super) fn check_spec(spec: &JobSpec) -> Result<(), Reason> {
    if spec.nodes == 0 || spec.nodes > NODES_PER_JOB_MAX {
        return Err(Reason::NodesWrong);
    }
    let is_plain = spec.promise.is_none() && spec.checkpoint.is_none();
    match (&spec.work, spec.tier) {
        (Work::Opaque { .. }, Tier::Trusted) if is_plain => Ok(()),
        (Work::Opaque { .. } | Work::Tensor { .. }, _) if spec.is_gang() => {
            Err(Reason::GangNeedsCommand)
        }
        (Work::Opaque { .. } | Work::Tensor { .. }, _) => Ok(()),
    }
}

/// Whether a job waits for so much at once that others would always be before it: several nodes,
/// several GPUs of one, or much of its processors or memory.
pub(super) fn is_listed(spec: &JobSpec) -> bool {
    let has_several = match spec.held_gpus() {
        GpuAsk::Whole { count } => count > 1,
        GpuAsk::Usual | GpuAsk::Part { .. } => false,
    };
    let HostPart { cpu_milli, memory_mib } = spec.needs.host;
    let has_much = cpu_milli >= HOST_MUCH.cpu_milli || memory_mib >= HOST_MUCH.memory_mib;
    spec.is_gang() || has_several || has_much
}

/// Lists a gang that waits.
pub(super) fn enlist(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    if is_listed(&entry.spec) && entry.gang_place.is_none() {
        let from = session.env.tick.plus(GANG_PATIENCE)?;
        let place = list::push(session, ListOf::Gangs, *job.as_bytes())?;
        entry.gang_place = Some(GangPlace { place, from, until: None });
    }
    Ok(())
}

/// Takes a gang off the list that waits no more.
pub(super) fn delist(session: &mut Session<'_>, entry: &mut JobEntry) -> Result<(), Stop> {
    match entry.gang_place.take() {
        Some(at) => list::set(session, ListOf::Gangs, at.place, None),
        None => Ok(()),
    }
}

/// Puts a gang behind all others: it is looked at again when they have had their turn.
fn go_behind(session: &mut Session<'_>, job: &JobId, mut entry: JobEntry) -> Result<(), Stop> {
    delist(session, &mut entry)?;
    enlist(session, job, &mut entry)?;
    session.tables.jobs.put(job.as_bytes(), Some(entry))
}

/// Loads what listing gangs needs.
pub(super) fn load_end(session: &mut Session<'_>) -> Result<(), Stop> {
    session.require(&[keys::list_head(ListOf::Gangs)])?;
    list::load_end(session, ListOf::Gangs)
}

/// The gangs that have waited longest.
fn elders(session: &mut Session<'_>) -> Result<Vec<JobId>, Stop> {
    session.require(&[keys::list_head(ListOf::Gangs)])?;
    let head = list::head(session, ListOf::Gangs)?;
    let end = head.next.min(head.first.saturating_add(ELDERS_REACH));
    let found = list::range(session, ListOf::Gangs, head.first..end)?;
    Ok(found.into_iter().take(ELDERS_MAX).map(|(_, id)| JobId::new(id)).collect())
}

/// Loads what looking at gangs that have waited for long needs.
pub(super) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    let jobs = elders(session)?;
    if jobs.is_empty() {
        return Ok(());
    }
    let loads = [place::load_waiting(session, &jobs), load_end(session)];
    session.all_of(loads)
}

/// Places the first gang that has waited for long and finds its nodes, before all other jobs; says
/// whose it is and how many runs it got. For the first that finds too few now, and would find
/// enough when runs have ended, nodes are held back; those for which that was in vain, or cannot
/// be, go behind the others.
pub(super) fn place_elders(
    session: &mut Session<'_>,
    fleet: &mut Fleet,
) -> Result<Option<(AccountId, usize)>, Stop> {
    let now = session.env.tick;
    list::skip_holes(session, ListOf::Gangs)?;
    load_ahead(session)?;
    let mut given = None;
    for job in elders(session)? {
        let entry = super::known(session, &job)?;
        let Some(at) = entry.gang_place else { continue };
        if at.from > now || !fleet.has_time_for_elders() {
            break; // those behind came later
        }
        if !fleet.has_time_for(&entry.owner) {
            continue;
        }
        if given.is_none() {
            let count = place::place(session, &job, fleet)?;
            if count > 0 {
                given = Some((entry.owner, count));
                continue;
            }
        }
        let is_over = at.until.is_some_and(|until| until <= now);
        if is_over || !fleet.hold_for(session, &job, &entry) {
            go_behind(session, &job, entry)?;
            continue;
        }
        if at.until.is_none() {
            let until = Some(now.plus(GANG_HOLD_MAX)?);
            let entry = JobEntry { gang_place: Some(GangPlace { until, ..at }), ..entry };
            session.tables.jobs.put(job.as_bytes(), Some(entry))?;
        }
        break;
    }
    Ok(given)
}

/// Gives all members of a gang their nodes, or none; says how many.
pub(super) fn place_all(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    fleet: &mut Fleet,
) -> Result<usize, Stop> {
    if !fleet.has_time_for(&entry.owner) {
        return Ok(0);
    }
    fleet.learn(session, &entry, None)?;
    let Some(members) = fleet.find_gang(session, job, &entry) else { return Ok(0) };
    for member in &members {
        let node = fleet.id(member.number);
        place::assign(session, job, &mut entry, (&node, member.class), None)?;
        fleet.follow(session, member.number);
    }
    place::dequeue(session, &mut entry)?;
    entry.status = JobStatus::Running;
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    Ok(members.len())
}

/// What became of a gang whose member failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It may be run again.
    Waits,
    /// Its client has paid for the time of the others: it ends.
    Ends,
}

/// Members of a gang have ended without a result: so do all others, and are paid for their time.
pub(super) fn break_up(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    (culprits, why): (&[NodeId], Reason),
) -> Result<Broken, Stop> {
    let Some(first) = culprits.first().filter(|_| entry.spec.is_gang()) else {
        return Ok(Broken::Waits);
    };
    let peers: Vec<Run> = entry.live().cloned().collect();
    let runs = entry.runs.as_slice();
    let run_of = |node: &NodeId| runs.iter().rfind(|run| run.node == *node).cloned();
    let failed: Vec<Run> = culprits.iter().filter_map(run_of).collect();
    let is_seen = matches!(why, Reason::RunLost | Reason::RunMissed | Reason::ResultUndefended);
    let mut paid = Amount::ZERO;
    for peer in &peers {
        settle::release_run(session, job, peer)?;
        if failed.iter().any(|run| run.owner == peer.owner) {
            continue; // nobody earns by its own failure
        }
        let Some(worked) = worked(session, &entry.spec, peer, is_seen)? else { continue };
        let got = if is_seen {
            pay_from_stake(session, job, &entry.spec, (&failed, peer), worked)?
        } else {
            pay_from_escrow(session, job, entry, peer, worked)?
        };
        paid = paid.plus(got)?;
    }
    entry.runs.retain(|run| !run.is_live());
    session.emit(Event::GangBroken { job: *job, node: *first, paid });
    let is_spent = !is_seen && paid > Amount::ZERO;
    Ok(if is_spent { Broken::Ends } else { Broken::Waits })
}

/// For how much time a member that did not fail is paid: for all that there is if its result is
/// shown; nothing if it is absent too, or hardly begun.
fn worked(
    session: &mut Session<'_>,
    spec: &JobSpec,
    peer: &Run,
    is_seen: bool,
) -> Result<Option<DurationMs>, Stop> {
    let after = session.params.jobs.yields.after;
    let least = if is_seen { after } else { after.min(GIVEN_UP_AT_ONCE) };
    let node = session.tables.nodes.get(peer.node.as_bytes())?;
    let is_absent = node.is_none_or(|node| node.absent.is_some());
    let ran = session.env.tick.since(peer.begun).unwrap_or(DurationMs::ZERO);
    let ran = peer.took.unwrap_or(ran);
    Ok(match peer.state {
        RunState::Revealed { .. } => Some(spec.run_max),
        // What was committed to was not seen yet.
        RunState::Placed | RunState::Committed { .. } if is_absent || ran < least => None,
        RunState::Placed | RunState::Committed { .. } => Some(ran),
        RunState::Ended { .. } => None,
    })
}

/// Pays a member out of the stake of those who failed, as far as that goes and at the price that
/// these ask at most; says how much.
fn pay_from_stake(
    session: &mut Session<'_>,
    job: &JobId,
    spec: &JobSpec,
    (failed, peer): (&[Run], &Run),
    worked: DurationMs,
) -> Result<Amount, Stop> {
    let due = stop::time_pay(spec, worked);
    let mut left = due;
    for run in failed {
        let asked = run.asked.unwrap_or(spec.pay);
        let most = stop::time_share(asked, spec.run_max, worked);
        let taken = settle::compensate(session, &run.owner, &peer.owner, left.min(most))?;
        left = left.minus(taken)?;
        if taken > Amount::ZERO {
            let (node, owner) = (run.node, run.owner);
            session.emit(Event::NodeFined { job: *job, node, owner, amount: taken });
        }
    }
    let paid = due.minus(left)?;
    tell_paid(session, job, peer, paid);
    Ok(paid)
}

/// Pays a member out of what its client has locked; says how much.
fn pay_from_escrow(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    peer: &Run,
    worked: DurationMs,
) -> Result<Amount, Stop> {
    let due = stop::time_pay(&entry.spec, worked);
    entry.escrow = entry.escrow.minus(due)?;
    entry.paid = entry.paid.plus(due)?;
    settle::pay_owner_and_node(session, (&peer.owner, &peer.node), due, Amount::ZERO)?;
    session.totals.shift(Flow { from: Part::Escrow, to: Part::Balances, amount: due })?;
    tell_paid(session, job, peer, due);
    Ok(due)
}

fn tell_paid(session: &mut Session<'_>, job: &JobId, peer: &Run, amount: Amount) {
    if amount > Amount::ZERO {
        let (node, owner) = (peer.node, peer.owner);
        session.emit(Event::ProviderPaid { job: *job, node, owner, amount });
    }
}
