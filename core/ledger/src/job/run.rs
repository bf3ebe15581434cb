//! Runs: a node commits to its result, then shows it. The commitment names the node, so that a
//! result which is seen cannot be handed in as one's own; and it comes before the beacon that
//! decides who checks.

use tg_types::ids::{Hash32, JobId, NodeId};
use tg_types::tx::{OpenedResult, Sealed};
use tg_types::voucher::Voucher;
use tg_types::{Event, JobStatus, Params, Reason, RunFailure, Tick, Tier, TimeError};

use super::gang::{self, Broken};
use super::promise::{self, Blamed};
use super::record::{Draw, JobEntry, Run, RunState, YieldTo};
use super::{check, make_room, place, settle, stop};
use crate::due::{self, DueItem};
use crate::error::{Fail, Stop};
use crate::list::{self, ListOf};
use crate::node;
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::voucher::Vouched;

/// The node for which an account speaks: a node's id is its key.
pub(crate) fn speaker(call: &Call) -> NodeId {
    NodeId::new(*call.sender.as_bytes())
}

/// Carries out every item that may be; refuses only if none may. Items are about different jobs, so
/// one that came too late must not hold the others up.
pub(crate) fn each<T>(
    session: &mut Session<'_>,
    items: &[T],
    job: impl Fn(&T) -> JobId,
    mut act: impl FnMut(&mut Session<'_>, &T) -> Result<(), Fail>,
) -> Result<(), Fail> {
    let jobs: Vec<JobId> = items.iter().map(job).collect();
    super::load(session, &jobs)?;
    let mut refused = None;
    let mut done = 0_usize;
    for item in items {
        match act(session, item) {
            Ok(()) => done += 1,
            Err(Fail::Refused(reason)) => refused = refused.or(Some(reason)),
            Err(Fail::Stop(stop)) => return Err(stop.into()),
        }
    }
    match refused {
        Some(reason) if done == 0 => Err(reason.into()),
        Some(_) | None => Ok(()),
    }
}

/// Takes commitments to results.
pub(crate) fn commit(session: &mut Session<'_>, call: &Call, seals: &[Sealed]) -> Result<(), Fail> {
    let node = speaker(call);
    each(
        session,
        seals,
        |item| item.job,
        |session, item| commit_one(session, &node, &item.job, item.seal),
    )
}

fn commit_one(
    session: &mut Session<'_>,
    node: &NodeId,
    job: &JobId,
    seal: Hash32,
) -> Result<(), Fail> {
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let is_shown_at_once = entry.spec.tier.is_shown();
    let run = entry.run_of(node).ok_or(Reason::RunUnknown)?;
    if run.state != RunState::Placed {
        return Err(Reason::RunNotThere.into());
    }
    if is_shown_at_once {
        return Err(Reason::RunNotThere.into()); // there is nothing to wait for
    }
    let stopped = run.yields_to.and_then(YieldTo::client_until);
    if stopped.is_some_and(|by| session.env.tick > by) {
        return Err(Reason::RunNotThere.into()); // or nobody who is asked to stop would
    }
    let height = session.env.height;
    let answer = session.env.tick.plus(session.params.jobs.answer_within)?;

    run.state = RunState::Committed { seal, height };
    run.end_at(session.env.tick);
    run.deadline = answer;
    let is_open = match entry.spec.tier {
        Tier::Trusted | Tier::Proof { .. } | Tier::Rerun | Tier::Zk { .. } => true,
        Tier::Audit | Tier::Sync => {
            list::push(session, ListOf::Commits(height), *job.as_bytes())?;
            true
        }
        // A replica shows its output only when all have committed to theirs.
        Tier::Redundant { .. } => {
            let date = if are_committed(&entry) { answer } else { Tick::MAX };
            for run in entry.runs.as_mut_slice() {
                if matches!(run.state, RunState::Committed { .. }) {
                    run.deadline = date;
                }
            }
            date == answer
        }
    };
    if is_open {
        due::add(session, answer, DueItem::JobStep { job: *job })?;
    }
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    session.emit(Event::ResultCommitted { job: *job, node: *node });
    Ok(())
}

/// Whether all wanted runs are there and have committed to a result.
fn are_committed(entry: &JobEntry) -> bool {
    let is_committed = |run: &Run| run.state != RunState::Placed;
    entry.live().count() >= usize::from(entry.wanted) && entry.live().all(is_committed)
}

/// Takes results that were committed to.
pub(crate) fn reveal(
    session: &mut Session<'_>,
    call: &Call,
    results: &[OpenedResult],
    vouchers: &[Voucher],
) -> Result<(), Fail> {
    let node = speaker(call);
    // Signatures are costly, so nothing may be missing any more when they are checked.
    let jobs: Vec<JobId> = results.iter().map(|item| item.job).collect();
    super::load(session, &jobs)?;
    let vouched = Vouched::by(session, vouchers);
    each(
        session,
        results,
        |item| item.job,
        |session, item| {
            vouched.check(item.result.package_ref())?;
            reveal_one(session, &node, item)
        },
    )
}

fn reveal_one(session: &mut Session<'_>, node: &NodeId, item: &OpenedResult) -> Result<(), Fail> {
    let OpenedResult { job, result, salt } = item;
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let is_alone = !matches!(entry.spec.tier, Tier::Redundant { .. });
    let is_open = is_alone || are_committed(&entry);
    let run = entry.run_of(node).ok_or(Reason::RunUnknown)?;
    let RunState::Committed { seal, height } = run.state else {
        return Err(Reason::RunNotThere.into());
    };
    if !is_open {
        return Err(Reason::RunNotThere.into());
    }
    if result.seal(node, salt) != seal && !planted!(session.rules, SkipSeal) {
        return Err(Reason::SealWrong.into());
    }

    run.state = RunState::Revealed { result: *result, height };
    run.deadline = Tick::MAX;
    session.emit(Event::ResultRevealed { job: *job, node: *node, result: *result });
    Ok(advance(session, job, entry)?)
}

/// Does what follows from the results that are shown, and stores the job. A dispute is finished
/// first.
pub(crate) fn advance(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
) -> Result<(), Stop> {
    let is_shown = entry.live().all(|run| run.result().is_some());
    let is_complete = is_shown && entry.live().count() >= usize::from(entry.wanted);
    if !is_complete || entry.status == JobStatus::Disputed {
        return session.tables.jobs.put(job.as_bytes(), Some(entry));
    }
    entry.status = JobStatus::Checking;
    match (entry.spec.tier, entry.draw) {
        (Tier::Trusted | Tier::Proof { .. } | Tier::Rerun | Tier::Zk { .. }, _)
        | (_, Draw::Spared) => settle::accept(session, job, entry),
        (Tier::Redundant { replicas }, _) => compare(session, job, entry, replicas.into()),
        (Tier::Audit | Tier::Sync, Draw::Pending) => {
            session.tables.jobs.put(job.as_bytes(), Some(entry))
        }
        (Tier::Audit | Tier::Sync, Draw::Drawn { .. }) => check::begin(session, job, entry),
    }
}

/// Accepts what enough replicas agree on; otherwise asks one more, or gives up.
fn compare(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    needed: usize,
) -> Result<(), Stop> {
    let mut outputs: Vec<Hash32> =
        entry.live().filter_map(Run::result).map(|it| it.output).collect();
    outputs.sort_unstable();
    let agreed = outputs.chunk_by(|left, right| left == right).find(|same| same.len() >= needed);
    if let Some(output) = agreed.and_then(|same| same.first()) {
        for run in entry.runs.as_mut_slice() {
            if run.result().is_some_and(|result| result.output != *output) {
                settle::release_run(session, job, run)?;
                run.state = RunState::Ended { why: Reason::RunsDisagreed };
            }
        }
        return settle::accept(session, job, entry);
    }
    session.emit(Event::RunsDisagreed { job: *job });
    if entry.wanted >= entry.spec.runs_paid_max() {
        return settle::fail(session, job, entry);
    }
    entry.wanted += 1;
    entry.status = JobStatus::Running;
    place::enqueue(session, job, &mut entry)?;
    session.tables.jobs.put(job.as_bytes(), Some(entry))
}

/// A node gives a run up: that costs it nothing but a good word. That a result cannot be shown may
/// be the client's own doing, so whoever says so is blamed only if somebody else shows it after all
/// ([`blame_doubters`]).
pub(crate) fn give_up(
    session: &mut Session<'_>,
    call: &Call,
    job: &JobId,
    failure: RunFailure,
) -> Result<(), Fail> {
    let node = speaker(call);
    super::load(session, &[*job])?;
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let run = entry.run_of(&node).ok_or(Reason::RunUnknown)?;
    if run.state != RunState::Placed {
        return Err(Reason::RunNotThere.into());
    }

    let is_shown = entry.spec.tier.is_shown();
    let why = match failure {
        RunFailure::NotShowable if is_shown => Reason::ResultNotShowable,
        RunFailure::NotShowable
        | RunFailure::Declined
        | RunFailure::PackageMissing
        | RunFailure::PackageWrong
        | RunFailure::TooLarge
        | RunFailure::DeviceFailed => Reason::RunGivenUp,
    };
    end(session, job, &mut entry, &node, why)?;
    Ok(end_attempt(session, job, entry, (&[node], why))?)
}

/// A result was shown of which some nodes have said that this cannot be: they were wrong.
pub(crate) fn blame_doubters(session: &mut Session<'_>, entry: &JobEntry) -> Result<(), Stop> {
    let (pay, now) = (entry.spec.pay, session.env.tick);
    let has_doubted = |run: &&Run| run.state == RunState::Ended { why: Reason::ResultNotShowable };
    for run in entry.runs.as_slice().iter().filter(has_doubted) {
        node::update(session, &run.node, |node| node.judge(false, pay, now))?;
    }
    Ok(())
}

/// When members of gangs on a node that disappeared then are lost. One that is back before goes on:
/// losing its run would cost all others theirs, and its owner what these are paid.
pub(crate) fn gangs_lost(params: &Params, absent: Tick) -> Result<Tick, TimeError> {
    absent.plus(params.jobs.yields.after)
}

/// A node disappeared. What it computes is given to others; what it has committed to stays until
/// its date. If it came back meanwhile, it keeps its runs.
pub(crate) fn lose(session: &mut Session<'_>, id: &NodeId) -> Result<(), Stop> {
    let entry = session.tables.nodes.get(id.as_bytes())?;
    let absent = entry.and_then(|entry| Some((entry.absent?, entry.runs.as_slice().to_vec())));
    let Some((absent, jobs)) = absent else { return Ok(()) };
    let is_short = gangs_lost(&session.params, absent)? > session.env.tick;
    for job in &jobs {
        lose_one(session, job, id, is_short)?;
    }
    Ok(())
}

fn lose_one(
    session: &mut Session<'_>,
    job: &JobId,
    id: &NodeId,
    is_short: bool,
) -> Result<(), Stop> {
    let mut entry = super::known(session, job)?;
    let is_lost = |run: &Run| run.node == *id && run.state == RunState::Placed;
    let is_put_off = is_short && entry.spec.is_gang();
    if is_put_off || !entry.runs.as_slice().iter().any(is_lost) {
        return Ok(());
    }
    end(session, job, &mut entry, id, Reason::RunLost)?;
    gang::break_up(session, job, &mut entry, (&[*id], Reason::RunLost))?;
    // It is no failure of the job's, so it does not stay in the record; unless there are
    // commitments for so many runs only, and the lost one may have shown a proof about its own.
    if !matches!(entry.spec.tier, Tier::Zk { .. }) {
        let is_lost = |run: &Run| run.state == RunState::Ended { why: Reason::RunLost };
        entry.runs.retain(|run| !is_lost(run));
    }
    retry(session, job, entry)
}

/// Ends a node's run without a result.
pub(crate) fn end(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    id: &NodeId,
    why: Reason,
) -> Result<(), Stop> {
    let (pay, now) = (entry.spec.pay, session.env.tick);
    if let Some(run) = entry.run_of(id) {
        settle::release_run(session, job, run)?;
        run.state = RunState::Ended { why };
        let owner = run.owner;
        make_room::delist(session, entry)?;
        entry.saves = 0; // what it did was for nothing, and what it saved belongs to the next
        promise::blame(entry, Blamed { node: *id, owner }, why);
        if why != Reason::ResultNotShowable {
            node::update(session, id, |node| node.judge(false, pay, now))?;
        }
        session.emit(Event::RunEnded { job: *job, node: *id, why });
    }
    Ok(())
}

/// Runs of these nodes have ended: nobody goes on without the others of a gang. Then looks for
/// other nodes.
pub(crate) fn end_attempt(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    ended: (&[NodeId], Reason),
) -> Result<(), Stop> {
    let broken = gang::break_up(session, job, &mut entry, ended)?;
    go_on(session, job, entry, broken)
}

/// Looks for other nodes after runs have ended, or ends a job that its client has paid for.
pub(super) fn go_on(
    session: &mut Session<'_>,
    job: &JobId,
    entry: JobEntry,
    broken: Broken,
) -> Result<(), Stop> {
    match broken {
        Broken::Waits => retry(session, job, entry),
        Broken::Ends => settle::fail(session, job, entry),
    }
}

/// Looks for another node, unless too many have failed or the job's date has passed meanwhile, and
/// stores the job.
pub(crate) fn retry(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
) -> Result<(), Stop> {
    if entry.is_stopped {
        return stop::close(session, job, entry);
    }
    let failed = entry.runs.as_slice().iter().filter(|run| !run.is_live()).count();
    if failed > usize::from(session.params.jobs.runs_failed_max) {
        return settle::fail(session, job, entry);
    }
    let is_idle = entry.live().count() == 0;
    if is_idle && entry.expires <= session.env.tick {
        return settle::expire(session, job, entry);
    }
    entry.status = if is_idle { JobStatus::Queued } else { JobStatus::Running };
    place::enqueue(session, job, &mut entry)?;
    promise::ask_again(session, job, &mut entry)?;
    session.tables.jobs.put(job.as_bytes(), Some(entry))
}
