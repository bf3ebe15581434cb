//! `resume`: a job that was stopped, failed or expired is handed in again. Its sealed package is
//! still with the validators, so nothing has to be read or sealed anew, and nobody needs the files
//! it was made of. It goes on where its state was saved last, or begins at its beginning.

use super::{find, why::program_facts};
use crate::{
    args::jobs::JobArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::Printer,
    work::{
        connect::Session,
        market::{Market, Quote, Urgency},
        order::{Client, OrderError},
    },
};
use serde::Serialize;
use tg_api::{
    text::{Text, Tgrid},
    view::JobView,
};
use tg_gateway::KeyEscrow;
use tg_ledger::JobEntry;
use tg_types::{JobId, JobStatus, Tier};

#[derive(Serialize)]
struct Resumed {
    job: Text<JobId>,
    /// The job that it goes on with.
    from: Text<JobId>,
    /// What is locked for it at most.
    escrow: Tgrid,
    /// Whether it goes on from a checkpoint.
    goes_on: bool,
}

/// `resume`
pub(super) fn resume(
    session: &Session,
    arguments: &JobArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let from = arguments.job;
    let entry = find(session, from)?;
    refuse(session, from, &entry)?;
    let hint = "packages are kept for a while only; hand it in anew with `tensorgrid run`";
    let handed_in = session.runtime.block_on(hand_in(session, &entry));
    let ((job, kept_by, goes_on), quote) =
        handed_in.or_fail("the job cannot be handed in again", hint)?;
    let escrow = Tgrid(quote.charges.escrow);
    let resumed = Resumed { job: Text(job), from: Text(from), escrow, goes_on };
    if !goes_on && entry.begins_with().is_some() {
        printer.say(format_args!("Validators do not keep its checkpoint any more."));
    }
    printer.result(&resumed, || {
        format!(
            "Job {job} does the work of {from}, {}; {} TGRID are locked.\n\
             `tensorgrid cp {job}` gets the result.\n",
            if goes_on { "from where it was saved last" } else { "from its beginning" },
            resumed.escrow
        )
    });
    if kept_by == KeyEscrow::None {
        printer.say(format_args!(
            "Nobody but you has the key of its data: `tensorgrid keys {job}` hands it out."
        ));
    }
    Ok(Exit::Done)
}

/// Refuses what needs no second try.
fn refuse(session: &Session, job: JobId, entry: &JobEntry) -> Result<(), Failure> {
    if entry.owner != session.account() {
        let hint = "only its owner can; `tensorgrid wallet list` shows your accounts";
        return Err(Failure::new(format!("job {job} is somebody else's"), hint));
    }
    if matches!(entry.spec.tier, Tier::Zk { .. }) {
        let what = "what hides the inputs of a job serves for that job only";
        return Err(Failure::new(what, "hand it in anew with `tensorgrid run`"));
    }
    let status = JobView::from(entry).status;
    match entry.status {
        JobStatus::Cancelled | JobStatus::Expired | JobStatus::Failed => Ok(()),
        JobStatus::Settled => {
            let hint = format!("`tensorgrid cp {job}` gets its result");
            Err(Failure::new(format!("job {job} is done"), hint))
        }
        JobStatus::Queued | JobStatus::Running | JobStatus::Checking | JobStatus::Disputed => {
            let hint = format!("`tensorgrid why {job}` tells what it waits for");
            Err(Failure::new(format!("job {job} is {status} and goes on by itself"), hint))
        }
    }
}

async fn hand_in(
    session: &Session,
    entry: &JobEntry,
) -> Result<((JobId, KeyEscrow, bool), Quote), OrderError> {
    let facts = program_facts(session, entry).await?;
    let market = Market::look(&session.gateway).await?;
    let quote = market.quote(&entry.spec, facts.as_ref(), Urgency::Usual)?;
    let client = Client { gateway: &session.gateway, key: &session.key };
    Ok((client.submit_again(entry, &quote).await?, quote))
}
