//! `keys`: whoever gave validators no shares of a key has to be online while a job runs and is
//! checked. `run` is, until it is stopped; this goes on with it, here or on another machine that
//! has the account's key.

use super::{HINT, find, jobs};
use crate::{
    args::jobs::KeysArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::Printer,
    work::{connect::Session, handing::Handing, order::Client},
};
use serde::Serialize;
use tg_api::{text::Text, view::JobView};
use tg_gateway::KeyEscrow;
use tg_ledger::JobEntry;
use tg_types::{JobId, JobStatus};

#[derive(Serialize)]
struct Ended {
    job: Text<JobId>,
    status: String,
}

/// `keys`
pub(super) fn keys(
    session: &Session,
    arguments: &KeysArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let jobs = match arguments.jobs.as_slice() {
        [] => waiting(session)?,
        named => named.iter().map(|job| checked(session, *job)).collect::<Result<_, _>>()?,
    };
    let handing = Handing::start(session, *printer)?;
    printer.say(format_args!(
        "Nodes that run or check your jobs are given their keys, until {} of them have ended. ^C \
         stops that, and another `tensorgrid keys` goes on.",
        jobs.len()
    ));
    let ended = ends(session, &jobs, printer);
    handing.close(session);
    ended
}

/// Waits for the ends of jobs, one after the other; keys are handed out meanwhile.
fn ends(session: &Session, jobs: &[JobId], printer: &Printer) -> Result<Exit, Failure> {
    let client = Client { gateway: &session.gateway, key: &session.key };
    let mut exit = Exit::Done;
    for job in jobs {
        let followed = session.runtime.block_on(client.follow(*job, |_| {}));
        let entry = followed.or_fail("the job cannot be followed", HINT)?;
        if entry.status != JobStatus::Settled {
            exit = Exit::Failed;
        }
        let ended = Ended { job: Text(*job), status: JobView::from(&entry).status };
        printer.result(&ended, || format!("Job {job} ended as {}.\n", ended.status));
    }
    Ok(exit)
}

/// The jobs of this account that have not ended and whose key nobody else has.
fn waiting(session: &Session) -> Result<Vec<JobId>, Failure> {
    let is_waiting = |entry: &JobEntry| {
        let is_ours = entry.owner == session.account() && !entry.status.is_final();
        is_ours && entry.spec.key_escrow == KeyEscrow::None
    };
    let waiting = jobs(session)?.into_iter().filter(|(_, entry)| is_waiting(entry));
    let waiting: Vec<JobId> = waiting.map(|(job, _)| job).collect();
    if waiting.is_empty() {
        let hint = "`tensorgrid ps` lists the jobs on record";
        return Err(Failure::new("no job of yours waits for its key", hint));
    }
    Ok(waiting)
}

/// A job that was named, if it is ours to hand out its key.
fn checked(session: &Session, job: JobId) -> Result<JobId, Failure> {
    let entry = find(session, job)?;
    if entry.owner != session.account() {
        let hint = "only its owner has its key; `tensorgrid wallet list` shows your accounts";
        return Err(Failure::new(format!("job {job} is somebody else's"), hint));
    }
    match entry.spec.key_escrow {
        KeyEscrow::None => Ok(job),
        KeyEscrow::Validators => {
            let hint = "they hand it out by themselves; you need not be online";
            Err(Failure::new(format!("validators keep the key of job {job}"), hint))
        }
    }
}
