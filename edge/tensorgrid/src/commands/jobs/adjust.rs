//! Changing what is wanted of a job: its offer and its nodes while it waits, its date until it has
//! ended.

use super::{HINT, Listed, find};
use crate::{
    args::jobs::AdjustArguments,
    failure::{Exit, Failure, OrFail as _},
    network::now,
    printer::Printer,
    work::connect::Session,
};
use serde::Serialize;
use tg_api::text::{Text, Tgrid};
use tg_ledger::{JobEntry, charges};
use tg_types::{Action, Adjustment, Amount, JobSpec, JobStatus, Lane};

#[derive(Serialize)]
struct Adjusted {
    #[serde(flatten)]
    listed: Listed,
    /// What is locked for it now.
    escrow: Tgrid,
}

/// `adjust`
pub(super) fn adjust(
    session: &Session,
    arguments: &AdjustArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let job = arguments.job;
    let entry = find(session, job)?;
    let change = change(arguments)?;
    check(&entry, &change)?;
    let escrow = needed(session, &entry, &change)?;
    if let Some(max) = arguments.max.filter(|max| escrow > *max) {
        let what = format!("{escrow} would be locked for it, which is more than {max}");
        return Err(Failure::misuse(what, "raise --max, or change less"));
    }
    let escrow_max = escrow.minus(entry.escrow).unwrap_or(Amount::ZERO);
    let account = session.key.public().into();
    let sent = session.runtime.block_on(async {
        let nonce = session.gateway.nonce(account, Lane::FIRST).await?;
        let action = Action::AdjustJob { job, change, escrow_max };
        session.gateway.send(&session.key, (Lane::FIRST, nonce), action).await
    });
    let hint = "`tensorgrid show` says how far the job is; it may have begun meanwhile";
    sent.or_fail("the job was not changed", hint)?;
    let entry = find(session, job)?;
    let listed = Listed { job: Text(job), view: (&entry).into() };
    let adjusted = Adjusted { listed, escrow: Tgrid(entry.escrow) };
    printer.result(&adjusted, || {
        let JobSpec { pay, nodes, .. } = entry.spec;
        let on = if nodes == 1 { String::new() } else { format!(" on each of {nodes} nodes") };
        format!("Job {job}: a run is paid {pay}{on}; {} are locked for it.\n", entry.escrow)
    });
    Ok(Exit::Done)
}

/// What was typed.
fn change(arguments: &AdjustArguments) -> Result<Adjustment, Failure> {
    let within = arguments.within.map(|span| now().plus(span.get()));
    let within = within.transpose().or_fail("there is no such time", "give a shorter --within")?;
    let expires = within.or(arguments.deadline.map(|deadline| deadline.get()));
    Ok(Adjustment { pay: arguments.bid, expires, nodes: arguments.nodes })
}

/// Refuses what the ledger would refuse, with a better hint.
fn check(entry: &JobEntry, change: &Adjustment) -> Result<(), Failure> {
    if entry.status.is_final() {
        let what = "the job has ended";
        return Err(Failure::new(what, "`tensorgrid resume` hands it in again"));
    }
    let is_of_waiting = change.pay.is_some() || change.nodes.is_some();
    if is_of_waiting && entry.status != JobStatus::Queued {
        return Err(Failure::new(
            "the job runs, so its node has taken it as it is",
            "give it more time, or `tensorgrid stop` and hand it in anew",
        ));
    }
    if change.expires.is_some_and(|expires| expires <= now()) {
        return Err(Failure::misuse("the date has passed already", "give a later one"));
    }
    Ok(())
}

/// What would be locked for a job after a change.
fn needed(session: &Session, entry: &JobEntry, change: &Adjustment) -> Result<Amount, Failure> {
    let params = session.gateway.params();
    let spec = JobSpec {
        pay: change.pay.unwrap_or(entry.spec.pay),
        nodes: change.nodes.unwrap_or(entry.spec.nodes),
        ..entry.spec.clone()
    };
    let escrow = |spec: &JobSpec| charges(params, spec, entry.extent).map(|all| all.escrow);
    let escrows = escrow(&spec).zip(escrow(&entry.spec));
    let sum = escrows.and_then(|(after, before)| entry.escrow.plus(after).ok()?.minus(before).ok());
    sum.ok_or_else(|| Failure::misuse("no amount is large enough for that", HINT))
}
