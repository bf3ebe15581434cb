//! `run --array`: a command is run many times, and each run finds its number in a variable.

use super::{
    HINT, fetch,
    plan::{Plan, What},
    transfer,
};
use crate::{
    args::jobs::RunJobArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::Printer,
    work::{
        connect::Session,
        market::Quote,
        order::{Client, Order},
    },
};
use serde::Serialize;
use std::{io::Read, path::Path};
use tg_api::{
    text::{Text, Tgrid},
    view::JobView,
};
use tg_gateway::TaskOutput;
use tg_types::{Amount, JobId, JobStatus};

/// What became of one task.
#[derive(Serialize)]
struct Task {
    task: u32,
    job: Text<JobId>,
    status: String,
    #[serde(flatten)]
    told: Option<fetch::TaskTold>,
}

/// What became of all.
#[derive(Serialize)]
struct Ran {
    quoted: Tgrid,
    done: usize,
    failed: usize,
    tasks: Vec<Task>,
}

/// What all tasks cost together.
pub(super) fn escrow(quote: &Quote, tasks: u32) -> Result<Amount, Failure> {
    let together = quote.charges.escrow.times(tasks.into());
    together.or_fail("the array costs more than there is", "ask for fewer tasks")
}

/// Refuses what cannot be an array.
pub(super) fn check(plan: &Plan) -> Result<(), Failure> {
    match &plan.what {
        What::Task { outputs, .. } if outputs.is_empty() => Ok(()),
        What::Task { .. } => Err(Failure::misuse(
            "tasks of an array would write the same outputs",
            "leave `outputs` out of the job file; --out gives each task a folder of its own",
        )),
        What::Tensor { .. } | What::Float { .. } => Err(Failure::misuse(
            "an array is made of a command, which finds its number in $TG_TASK",
            "give a command after --, or hand the model in once for each input",
        )),
    }
}

/// Hands all tasks in, waits for their ends and takes their results, if that is wanted.
pub(super) fn run(
    session: &Session,
    (arguments, tasks): (&RunJobArguments, u32),
    (order, quote): (&Order<'_>, &Quote),
    printer: &Printer,
) -> Result<Exit, Failure> {
    let what = "the array did not go through";
    let client = Client { gateway: &session.gateway, key: &session.key };
    let handing_in = client.submit_array(order, quote, tasks);
    let jobs = transfer::shown(session, printer, "handing the tasks in", handing_in);
    let jobs = jobs.or_fail(what, HINT)?;
    let quoted = Tgrid(escrow(quote, tasks)?);
    printer.say(format_args!("{tasks} tasks are on the chain; {quoted} TGRID are locked."));
    let mut ran = Ran { quoted, done: 0, failed: 0, tasks: Vec::new() };
    if arguments.detach {
        let queued = |(task, job): (u32, &JobId)| {
            let (job, status) = (Text(*job), "queued".to_owned());
            Task { task, job, status, told: None }
        };
        ran.tasks = (0..).zip(&jobs).map(queued).collect();
        let ids: Vec<String> = jobs.iter().map(JobId::to_string).collect();
        printer.result(&ran, || ids.join("\n"));
        return Ok(Exit::Done);
    }
    let progress = printer.progress(format!("0 of {tasks} tasks have ended"));
    for (task, job) in (0..).zip(jobs) {
        let entry = session.runtime.block_on(client.follow(job, |_| {})).or_fail(what, HINT)?;
        let status = JobView::from(&entry).status;
        let told = if entry.status == JobStatus::Settled {
            let out = arguments.out.as_ref().map(|out| out.join(task.to_string()));
            Some(take(session, (job, &entry), out.as_deref(), printer)?)
        } else {
            None
        };
        let is_done = told.as_ref().is_some_and(|told| told.exit() == Exit::Done);
        ran.done += usize::from(is_done);
        ran.failed += usize::from(!is_done);
        ran.tasks.push(Task { task, job: Text(job), status, told });
        progress.set(format!("{} of {tasks} tasks have ended", ran.tasks.len()));
    }
    drop(progress);
    let exit = if ran.failed == 0 { Exit::Done } else { Exit::Failed };
    printer.result(&ran, || text(&ran));
    Ok(exit)
}

/// Takes what a task gave.
fn take(
    session: &Session,
    (job, entry): (JobId, &tg_ledger::JobEntry),
    out: Option<&Path>,
    printer: &Printer,
) -> Result<fetch::TaskTold, Failure> {
    let take =
        |output: &TaskOutput, from: &mut dyn Read| fetch::Landing::take(output, from, out, &[]);
    let (output, landing) = fetch::task_output(session, (job, entry), printer, take)?;
    landing.finish()?;
    Ok(fetch::TaskTold::new(&output))
}

/// What every task said, and how those ended that did not end well.
fn text(ran: &Ran) -> String {
    let mut text = String::new();
    for Task { task, job, status, told } in &ran.tasks {
        match told {
            Some(told) => text.push_str(&told.lines(&format!("{task}: "))),
            None => text.push_str(&format!("{task}: job {} ended as {status}\n", job.0)),
        }
    }
    text.push_str(&format!("{} tasks are done and paid, {} failed.", ran.done, ran.failed));
    text
}
