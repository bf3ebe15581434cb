//! `why`

use super::{HINT, Turn, eta, find, gpus, jobs};
use crate::{
    args::jobs::WhyArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::Printer,
    work::{connect::Session, market::Market, order::OrderError, times::Times},
};
use serde::Serialize;
use tg_api::{
    eta::EtaView,
    picked::PickedView,
    text::Text,
    view::{JobView, PromiseView},
    why::WhyView,
    words::Standing,
};
use tg_gateway::KeyEscrow;
use tg_ledger::{JobEntry, keys};
use tg_types::{JobId, NodeId, ProgramFacts, Work};

/// Jobs that are looked at for a node unless one is named: the latest.
const JOBS_MAX: usize = 20;

#[derive(Serialize)]
struct Why {
    job: Text<JobId>,
    status: String,
    #[serde(flatten)]
    explained: WhyView,
    /// What the catalogue calls the accelerators that it asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<&'static str>,
    /// When its turn comes, if it waits.
    #[serde(flatten)]
    turn: Option<Turn>,
    /// When it runs, if it has not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    eta: Option<EtaView>,
    /// What was promised of it, if somebody asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    promise: Option<PromiseView>,
    /// The job whose run was asked to make room for it, if one was and it still waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<Text<JobId>>,
    /// How it ended, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Standing>,
    /// Whether it waits, or may wait, for its owner to hand out a key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    needs_owner: bool,
}

/// How a node stands in the competition for jobs.
#[derive(Serialize)]
struct NodeWhy {
    node: Text<NodeId>,
    jobs: Vec<PickedView>,
}

/// `why`
pub(super) fn why(
    session: &Session,
    arguments: &WhyArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    match (arguments.node, arguments.job) {
        (Some(node), job) => why_node(session, node, job, printer),
        (None, Some(job)) => why_job(session, job, printer),
        (None, None) => Err(Failure::misuse("there is no job", "give a job, or a --node")),
    }
}

/// Why a node was not given a job, or those that wait or were placed lately.
fn why_node(
    session: &Session,
    node: NodeId,
    job: Option<JobId>,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let mut all = match job {
        Some(job) => vec![(job, find(session, job)?)],
        None => jobs(session)?,
    };
    all.retain(|(_, entry)| entry.queue_key().is_some() || entry.live().count() > 0);
    all.truncate(JOBS_MAX);
    let picked = session.runtime.block_on(picked(session, &node, &all));
    let picked = picked.or_fail("the nodes cannot be looked at", HINT)?;
    let hint = "`tensorgrid nodes` lists all nodes";
    let unknown = || Failure::new(format!("there is no node {node}"), hint);
    let why = NodeWhy { node: Text(node), jobs: picked.ok_or_else(unknown)? };
    printer.result(&why, || {
        if why.jobs.is_empty() {
            return "No job waits, and none was placed lately.\n".to_owned();
        }
        let line = |it: &PickedView| format!("{}  {}: {}.\n", it.job, it.outcome, it.sentence);
        why.jobs.iter().map(line).collect()
    });
    Ok(Exit::Done)
}

/// How a node stands in the competition for each of these jobs, by the state as it is now; `None`
/// if there is no such node.
async fn picked(
    session: &Session,
    node: &NodeId,
    all: &[(JobId, JobEntry)],
) -> Result<Option<Vec<PickedView>>, OrderError> {
    let market = Market::look(&session.gateway).await?;
    if market.ground().nodes.iter().all(|candidate| candidate.id != *node) {
        return Ok(None);
    }
    let (mut times, mut picked) = (Times::new(&session.gateway), Vec::new());
    for (job, entry) in all {
        let facts = times.facts(entry).await?;
        let forecast = times.forecast(&entry.owner, &entry.spec, facts.as_ref()).await?;
        picked.extend(market.ground().picked(node, (job, entry), facts.as_ref(), &forecast));
    }
    Ok(Some(picked))
}

/// Why a job waits.
fn why_job(session: &Session, job: JobId, printer: &Printer) -> Result<Exit, Failure> {
    let entry = find(session, job)?;
    let explained = session.runtime.block_on(explanation(session, &entry));
    let explained = explained.or_fail("the nodes cannot be looked at", HINT)?;
    let status = JobView::from(&entry).status;
    let needs_owner = entry.spec.key_escrow == KeyEscrow::None && !entry.status.is_final();
    let ended = entry.status.is_final().then(|| Standing::of(&entry, None));
    let all = if entry.status.is_final() { Vec::new() } else { jobs(session)? };
    let (turn, eta) = (Turn::among(&entry, &all), eta(session, &entry, &all)?);
    let (job, promise) = (Text(job), PromiseView::of(&entry));
    let waits_for = entry.waits_for.filter(|_| entry.queue_place.is_some()).map(Text);
    let gpus = gpus(&entry.spec.needs);
    let why =
        Why { job, status, explained, gpus, turn, eta, promise, waits_for, ended, needs_owner };
    printer.result(&why, || {
        let WhyView { fitting, needed, removed, change } = &why.explained;
        let mut text = format!("The job is {}. ", why.status);
        if let Some(ended) = &why.ended {
            text.push_str(&format!("{}\n", ended.sentence));
        } else if let Some(promise) = &why.promise {
            text.push_str(&format!("{}\n", promise.sentence));
        }
        if !why.gpus.is_empty() {
            text.push_str(&format!("It asks for {}.\n", why.gpus.join(" or ")));
        }
        text.push_str(&format!("{fitting} nodes could be given one more run of it now.\n"));
        if let Some(needed) = needed.filter(|_| why.ended.is_none()) {
            text.push_str(&format!("It needs {needed} nodes at once.\n"));
        }
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
        if let Some(other) = &why.waits_for {
            let line = format!("Job {other}, which offers less, was asked to make room for it.\n");
            text.push_str(&line);
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
