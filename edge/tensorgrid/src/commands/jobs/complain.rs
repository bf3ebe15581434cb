//! `complain`: a result that is there and does not open. The secret that should open it becomes
//! public, so that every validator can try; each order has its own, so nothing else is told.

use super::find;
use crate::{
    args::jobs::JobArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::Printer,
    work::{
        connect::Session,
        order::{Client, Judged},
    },
};
use serde::Serialize;
use tg_api::text::{Text, Tgrid};
use tg_ledger::JobEntry;
use tg_types::{Amount, JobId, JobStatus};

#[derive(Serialize)]
struct Complained {
    job: Text<JobId>,
    /// What validators found: `upheld`, `rejected` or, if too few of them tried, `lapsed`.
    verdict: &'static str,
    /// What the provider lost, or we did.
    lost: Tgrid,
}

/// `complain`
pub(super) fn complain(
    session: &Session,
    arguments: &JobArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let job = arguments.job;
    let entry = find(session, job)?;
    refuse(session, job, &entry)?;
    let client = Client { gateway: &session.gateway, key: &session.key };
    let bond = session.gateway.params().jobs.complaint_bond;
    session.afford(bond)?;
    printer.say(format_args!(
        "The result does not open. Its key is made public, and {bond} stand for the complaint\n\
         until the validators have tried it."
    ));
    let hint = "complaints are taken for a while after a job has ended, and once";
    let judged = session.runtime.block_on(client.complain(job, &entry));
    let (verdict, lost) = match judged.or_fail("the complaint was not taken", hint)? {
        Judged::Upheld(lost) => ("upheld", lost),
        Judged::Rejected(lost) => ("rejected", lost),
        Judged::Lapsed => ("lapsed", Amount::ZERO),
    };
    let complained = Complained { job: Text(job), verdict, lost: Tgrid(lost) };
    printer.result(&complained, || match verdict {
        "upheld" => format!(
            "The validators found that it does not open. The provider loses {} TGRID of its\n\
             stake, and what you paid for the run is yours again.\n",
            complained.lost
        ),
        "rejected" => {
            format!("The validators can open it. The complaint cost {} TGRID.\n", complained.lost)
        }
        _ => "Too few validators tried it in time; the bond is back.\n".to_owned(),
    });
    Ok(if verdict == "upheld" { Exit::Done } else { Exit::Failed })
}

/// Refuses complaints that would cost their bond.
fn refuse(session: &Session, job: JobId, entry: &JobEntry) -> Result<(), Failure> {
    if entry.owner != session.account() {
        let hint = "only its owner can complain; `tensorgrid wallet list` shows your accounts";
        return Err(Failure::new(format!("job {job} is somebody else's"), hint));
    }
    if entry.status != JobStatus::Settled {
        let hint = format!("`tensorgrid show {job}` tells how far it is");
        return Err(Failure::new(format!("job {job} has no result that was accepted"), hint));
    }
    let client = Client { gateway: &session.gateway, key: &session.key };
    let hint = "is the network still there? `tensorgrid status` tells";
    let opens = session.runtime.block_on(client.opens(job, entry));
    if opens.or_fail("the result cannot be looked at", hint)? {
        let hint = format!("`tensorgrid cp {job}` gets it; a complaint would cost its bond");
        return Err(Failure::new(format!("the result of job {job} opens"), hint));
    }
    Ok(())
}
