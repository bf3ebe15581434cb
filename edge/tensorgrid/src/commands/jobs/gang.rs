//! Jobs for several nodes at once: what can be one, and what their members gave. Each member's
//! files go to a folder with its rank for a name.

use super::{
    fetch::{self, TaskTold},
    plan::{Plan, What},
};
use crate::{
    failure::{Exit, Failure},
    printer::Printer,
    work::connect::Session,
};
use std::{io::Read, path::Path};
use tg_gateway::TaskOutput;
use tg_ledger::JobEntry;
use tg_types::job::NODES_PER_JOB_MAX;
use tg_types::{JobId, Tier};

/// Refuses what cannot run on several nodes, with a better hint than the ledger has.
pub(super) fn check(plan: &Plan) -> Result<(), Failure> {
    if plan.nodes == 1 {
        return Ok(());
    }
    if plan.nodes > NODES_PER_JOB_MAX {
        let what = format!("a job runs on {NODES_PER_JOB_MAX} nodes at most");
        return Err(Failure::misuse(what, "ask for fewer, or hand in an array"));
    }
    let What::Task { outputs, .. } = &plan.what else {
        let what = "only a command runs on several nodes; a model is run on one";
        return Err(Failure::misuse(what, "leave --nodes and num_nodes out"));
    };
    if !outputs.is_empty() {
        return Err(Failure::misuse(
            "members of a job would write the same outputs",
            "leave `outputs` out of the job file; --out gives each member a folder of its own",
        ));
    }
    if plan.tier != Tier::Trusted {
        let what = "members have different work, so their results cannot be compared or checked";
        return Err(Failure::misuse(what, "use --verify none for a job on several nodes"));
    }
    if plan.promise.is_some() || plan.checkpoint.is_some() {
        let what = "a job on several nodes cannot be promised and has no checkpoints";
        return Err(Failure::misuse(what, "leave --promise and --checkpoint out"));
    }
    Ok(())
}

/// Refuses arrays of such jobs.
pub(super) fn check_array(plan: &Plan) -> Result<(), Failure> {
    if plan.nodes == 1 {
        return Ok(());
    }
    let what = "tasks of an array run on one node each";
    Err(Failure::misuse(what, "leave --array or --nodes out"))
}

/// A job as if a member of it was all; any other job as it is.
pub(super) fn member(mut entry: JobEntry, rank: u8) -> Result<JobEntry, Failure> {
    if rank >= entry.spec.nodes {
        let what = format!("there is no member {rank} of {}", entry.spec.nodes);
        return Err(Failure::misuse(what, "members are counted from 0"));
    }
    if !entry.spec.is_gang() {
        return Ok(entry);
    }
    let run = entry.live().nth(rank.into()).map(|run| run.node);
    entry.runs.retain(|other| other.is_live() && Some(other.node) == run);
    Ok(entry)
}

/// Takes what all members gave, each into a folder of its own.
pub(super) fn take_all(
    session: &Session,
    (job, entry): (JobId, &JobEntry),
    out: Option<&Path>,
    printer: &Printer,
) -> Result<Vec<TaskTold>, Failure> {
    let mut told = Vec::new();
    for rank in 0..entry.spec.nodes {
        let member = member(entry.clone(), rank)?;
        let folder = out.map(|out| out.join(rank.to_string()));
        let take = |output: &TaskOutput, from: &mut dyn Read| {
            fetch::Landing::take(output, from, folder.as_deref(), &[])
        };
        let (output, landing) = fetch::task_output(session, (job, &member), printer, take)?;
        landing.finish()?;
        told.push(TaskTold::new(&output));
    }
    Ok(told)
}

/// What every member said, and how those ended that did not end well.
pub(super) fn text(members: &[TaskTold]) -> String {
    (0..).zip(members).map(|(rank, told): (u8, _)| told.lines(&format!("{rank}: "))).collect()
}

/// All have to end well.
pub(super) fn exit(members: &[TaskTold]) -> Exit {
    let is_done = members.iter().all(|told| told.exit() == Exit::Done);
    if is_done { Exit::Done } else { Exit::Failed }
}
