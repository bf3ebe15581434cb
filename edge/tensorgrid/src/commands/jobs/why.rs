//! `why`

use super::{HINT, Turn, eta, find, jobs};
use crate::{
    args::jobs::JobArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::Printer,
    work::{connect::Session, market::Market, order::OrderError},
};
use serde::Serialize;
use tg_api::{
    eta::EtaView,
    text::Text,
    view::{JobView, PromiseView},
    why::WhyView,
    words::Standing,
};
use tg_gateway::KeyEscrow;
use tg_ledger::{JobEntry, keys};
use tg_types::{JobId, ProgramFacts, Work};

#[derive(Serialize)]
struct Why {
    job: Text<JobId>,
    status: String,
    #[serde(flatten)]
    explained: WhyView,
    /// When its turn comes, if it waits.
    #[serde(flatten)]
    turn: Option<Turn>,
    /// When it runs, if it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    eta: Option<EtaView>,
    /// What was promised of it, if somebody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    promise: Option<PromiseView>,
    /// How it ended, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Standing>,
    /// Whether it waits, or may wait, for its owner to hand out a key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    needs_owner: bool,
}

/// `why`
pub(super) fn why(
    session: &Session,
    arguments: &JobArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let entry = find(session, arguments.job)?;
    let explained = session.runtime.block_on(explanation(session, &entry));
    let explained = explained.or_fail("the nodes cannot be looked at", HINT)?;
    let status = JobView::from(&entry).status;
    let needs_owner = entry.spec.key_escrow == KeyEscrow::None && !entry.status.is_final();
    let ended = entry.status.is_final().then(|| Standing::of(&entry, None));
    let all = if entry.status.is_final() { Vec::new() } else { jobs(session)? };
    let (turn, eta) = (Turn::among(&entry, &all), eta(session, &entry, &all)?);
    let (job, promise) = (Text(arguments.job), PromiseView::of(&entry));
    let why = Why { job, status, explained, turn, eta, promise, ended, needs_owner };
    printer.result(&why, || {
        let WhyView { fitting, removed, change } = &why.explained;
        let mut text = format!("The job is {}. ", why.status);
        if let Some(ended) = &why.ended {
            text.push_str(&format!("{}\n", ended.sentence));
        } else if let Some(promise) = &why.promise {
            text.push_str(&format!("{}\n", promise.sentence));
        }
        text.push_str(&format!("{fitting} nodes could be given one more run of it now.\n"));
        for removed in removed {
            text.push_str(&format!("  {} ({})\n", removed.sentence, removed.rule));
        }
        if let Some(change) = change {
            text.push_str(&format!("Cheapest change: {change}.\n"));
        }
        if let Some(turn) = &why.turn {
            text.push_str(&format!("In the queue: {turn}.\n"));
        }
        if let Some(eta) = &why.eta {
            text.push_str(&format!("Time: {}.\n", eta.sentence));
        }
        if why.needs_owner {
            text.push_str(&format!(
                "Nobody but its owner has the key of its data: while neither its `tensorgrid run` \
                 nor\n`tensorgrid keys {}` is online, no node can run or check it.\n",
                why.job
            ));
        }
        text
    });
    Ok(Exit::Done)
}

/// Looks at all nodes as the scheduler does.
async fn explanation(session: &Session, entry: &JobEntry) -> Result<WhyView, OrderError> {
    let facts = program_facts(session, entry).await?;
    Ok(Market::look(&session.gateway).await?.explain(entry, facts.as_ref()))
}

/// What is known of a job's program, if it is one of tensors.
pub(super) async fn program_facts(
    session: &Session,
    entry: &JobEntry,
) -> Result<Option<ProgramFacts>, OrderError> {
    let Work::Tensor { program, .. } = entry.spec.work else { return Ok(None) };
    let known: Option<tg_ledger::ProgramEntry> =
        session.gateway.entry(keys::program(&program)).await?;
    Ok(known.map(|known| known.facts(program)))
}
