//! Ending a job before it is finished: one that waits is taken back, one that runs is stopped.

use super::{Listed, find};
use crate::{
    args::jobs::JobArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::Printer,
    work::connect::Session,
};
use serde::Serialize;
use std::time::{Duration, Instant};
use tg_api::text::{Text, Tgrid};
use tg_ledger::JobEntry;
use tg_types::{Action, Amount, JobId, JobStatus, Lane};

/// How often to look whether a node has ended its run.
const LOOK: Duration = Duration::from_millis(200);

/// How much longer than it has to end a run a node is waited for.
const MARGIN: Duration = Duration::from_secs(10);

/// What is said of a job whose node was asked to end its run.
pub(super) const ASKED: &str = "asked for; its node saves what there is to save and ends the run";

#[derive(Serialize)]
struct Stopped {
    #[serde(flatten)]
    listed: Listed,
    /// What runs were paid for the time that they ran.
    paid: Tgrid,
}

/// `stop`
pub(super) fn stop(
    session: &Session,
    arguments: &JobArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let what = "the job was not stopped";
    let account = session.key.public().into();
    let job = arguments.job;
    let stopped = session.runtime.block_on(async {
        let nonce = session.gateway.nonce(account, Lane::FIRST).await?;
        let action = Action::CancelJob { job };
        session.gateway.send(&session.key, (Lane::FIRST, nonce), action).await
    });
    let hint = "a job whose result was committed to ends by itself; `tensorgrid show` says how far";
    stopped.or_fail(what, hint)?;
    let entry = wait(session, job, printer)?;
    let listed = Listed { job: Text(job), view: (&entry).into() };
    let stopped = Stopped { listed, paid: Tgrid(entry.paid) };
    printer.result(&stopped, || sentence(job, &entry, &stopped.listed.view.status));
    Ok(Exit::Done)
}

/// Waits until a job that was stopped has ended, as long as its node has time for that.
fn wait(session: &Session, job: JobId, printer: &Printer) -> Result<JobEntry, Failure> {
    let within = session.gateway.params().jobs.yields.within.get();
    let end = Instant::now() + Duration::from_millis(within) + MARGIN;
    let mut is_told = false;
    loop {
        let entry = find(session, job)?;
        if entry.status.is_final() || Instant::now() >= end {
            return Ok(entry);
        }
        if !is_told {
            printer.say("The node was asked to end the run; waiting until it has.");
            is_told = true;
        }
        std::thread::sleep(LOOK);
    }
}

/// What became of a job, for people.
fn sentence(job: JobId, entry: &JobEntry, status: &str) -> String {
    if !entry.status.is_final() {
        return format!(
            "Job {job} is {status}: its node has not answered. It ends with its run at the latest; \
             `tensorgrid show {job}` tells.\n"
        );
    }
    match (entry.status, entry.paid) {
        (JobStatus::Settled, _) => {
            format!("Job {job} is {status}: its node had finished, and was paid in full.\n")
        }
        (_, Amount::ZERO) => format!("Job {job} is {status}; its escrow is back.\n"),
        (_, paid) => {
            let saved = entry.saved.map(|_| " `tensorgrid resume` goes on where it was saved.");
            let saved = saved.unwrap_or_default();
            format!(
                "Job {job} is {status}; {paid} was paid for what it had taken, and the rest of \
                 its escrow is back.{saved}\n"
            )
        }
    }
}
