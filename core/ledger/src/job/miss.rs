//! What happens when a step does not come in time. Not answering is never proof of a lie: it costs
//! the reward and a fine, the work goes to somebody else. Only a node that has committed to a
//! result and then neither shows nor defends it loses half of its bond, because otherwise a liar
//! that is about to be checked would simply fall silent.

use tg_types::ids::{JobId, NodeId};
use tg_types::{Event, JobStatus, Reason};

use super::record::{CheckState, Draw, JobEntry, Run};
use super::{check, dispute, draw, gang, keyless, run, settle};
use crate::error::Stop;
use crate::session::Session;

/// Some date of a job has come; dates that have moved since are passed over.
pub(crate) fn fall_due(session: &mut Session<'_>, job: &JobId) -> Result<(), Stop> {
    let Some(entry) = session.tables.jobs.get(job.as_bytes())?.cloned() else {
        return Ok(());
    };
    if entry.status.is_final() {
        return Ok(());
    }
    if entry.status == JobStatus::Disputed {
        return dispute::fall_due(session, job);
    }
    let now = session.env.tick;
    let late = entry.runs.as_slice().iter().filter(|run| run.is_live() && run.deadline <= now);
    let late: Vec<NodeId> = late.map(|run| run.node).collect();
    if late.is_empty() {
        return miss_checks(session, job, entry);
    }
    let mut entry = entry;
    let is_silent = entry.live().all(|run| run.deadline > now || run.committed().is_some());
    let mut missed = Vec::new();
    for node in &late {
        missed.extend(end_run(session, job, &mut entry, node)?);
    }
    let why = if is_silent { Reason::ResultUndefended } else { Reason::RunMissed };
    // Whoever lost its work by this comes before what is burned.
    let broken = gang::break_up(session, job, &mut entry, (&late, why))?;
    for run in &missed {
        punish(session, job, run)?;
    }
    run::go_on(session, job, entry, broken)
}

/// A node did not commit in time, or did not show what it committed to: its run ends. Gives the run
/// as it was.
fn end_run(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    node: &NodeId,
) -> Result<Option<Run>, Stop> {
    let Some(run) = entry.run_of(node).cloned() else {
        return Ok(None);
    };
    let is_broken = run.committed().is_some();
    let why = if is_broken { Reason::ResultUndefended } else { Reason::RunMissed };
    run::end(session, job, entry, node, why)?;
    // What follows is a new result with a draw of its own.
    entry.draw = Draw::Pending;
    settle::release_checks(session, entry)?;
    Ok(Some(run))
}

/// What missing its date costs the owner of a run.
fn punish(session: &mut Session<'_>, job: &JobId, run: &Run) -> Result<(), Stop> {
    if run.committed().is_some() {
        let loss = settle::Loss::half(&run.node, &run.owner, run.bond);
        return settle::slash(session, job, &loss, None);
    }
    settle::fine(session, job, &run.node, &run.owner)
}

/// Checkers that did not commit or answer in time are replaced. Those are not to blame that said
/// that they have no key.
fn miss_checks(session: &mut Session<'_>, job: &JobId, mut entry: JobEntry) -> Result<(), Stop> {
    let now = session.env.tick;
    let mut late = Vec::new();
    for check in entry.checks.as_mut_slice() {
        if check.is_open() && check.deadline <= now {
            let is_keyless = check.state == CheckState::Waiting;
            check.state = if is_keyless { CheckState::Excused } else { CheckState::Missed };
            late.push(check.clone());
        }
    }
    if late.is_empty() {
        return Ok(());
    }
    for missed in &late {
        if missed.state == CheckState::Excused {
            keyless::excuse(session, job, missed)?;
        } else {
            settle::release_check(session, missed)?;
            settle::fine(session, job, &missed.node, &missed.owner)?;
            session.emit(Event::CheckMissed { job: *job, node: missed.node });
        }
        check::open_round(session, job, &mut entry, missed.round)?;
    }
    draw::draw_again(session, job, entry)
}
