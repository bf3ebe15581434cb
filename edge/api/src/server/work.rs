//! The methods about jobs and nodes. Lists come page by page, each page with one reading of the
//! state, and never more than their bounds.

use super::{
    Shared, errors,
    limits::{
        JOB_BLOCKS_MAX, JOBS_DEFAULT, JOBS_MAX, NODE_BLOCKS_MAX, NODES_DEFAULT, NODES_MAX,
        WHY_NODES_MAX,
    },
};
use crate::{
    rpc::{
        Happened, JobAnswer, JobParams, JobRecord, JobsAnswer, JobsParams, ListedJob, ListedNode,
        NodeAnswer, NodeParams, NodesAnswer, NodesParams, PriceView, ProgramView, ReputationView,
        RpcError, code,
    },
    text::{Number, Text, Tgrid, Units},
    why::{Candidate, WhyView},
    words::{self, Standing, TierWords},
};
use tg_chain::History;
use tg_ledger::{
    JobEntry, LIST_PAGE_MAX, ListHead, ListOf, ListPage, NodeEntry, PieceEntry, ProgramEntry,
    StakeEntry, charges, keys,
};
use tg_types::{
    Action, Amount, Bytes, CapacityParams, Decode, Extent, Hash32, JobId, JobStatus, NodeId,
    ProofFile, ResultClaim, StateKey, Tick, TxId, Work,
};

impl Shared {
    async fn entries<T: Decode>(&self, keys: Vec<StateKey>) -> Result<Vec<Option<T>>, RpcError> {
        self.chain.entries(keys).await.map_err(errors::chain)
    }

    /// The time of the last final block.
    fn now(&self) -> Tick {
        self.chain.tip().map_or(Tick::ZERO, |(header, _)| header.tick)
    }
}

/// A page's size: what was asked for, if it is within the bounds.
fn page_size(asked: Option<u32>, usual: u32, most: u32) -> Result<usize, RpcError> {
    let limit = asked.unwrap_or(usual);
    if limit == 0 || limit > most {
        let why = format!("limit is {limit}, expected 1 to {most}");
        return Err(errors::params(why, "ask for fewer at once"));
    }
    Ok(usize::try_from(limit).unwrap_or(usize::MAX))
}

fn no_index() -> RpcError {
    let hint = "ask a node that answers clients; it keeps an index of jobs";
    errors::unknown("in which order jobs came", hint)
}

/// The method `jobs`.
pub(super) async fn jobs(shared: &Shared, params: JobsParams) -> Result<JobsAnswer, RpcError> {
    let limit = page_size(params.limit, JOBS_DEFAULT, JOBS_MAX)?;
    let before = params.before.map(|Text(before)| before);
    let found = shared.chain.last_jobs(before, limit).map_err(errors::chain)?;
    let found = found.ok_or_else(no_index)?;
    let entries: Vec<Option<JobEntry>> =
        shared.entries(found.iter().map(|(_, job)| keys::job(job)).collect()).await?;
    let whys = whys(shared, &entries).await?;
    let next = found.last().filter(|_| found.len() == limit).map(|(place, _)| Text(*place));
    let jobs = found.into_iter().zip(entries).zip(whys).map(|(((place, id), entry), why)| {
        let record = entry.map(|entry| record(shared, &entry, why.as_ref()));
        ListedJob { id: Text(id), place: Text(place), record }
    });
    Ok(JobsAnswer { jobs: jobs.collect(), next })
}

/// The latest jobs, none if this node keeps no index: the first page does without them.
pub(super) async fn jobs_or_none(shared: &Shared) -> Result<JobsAnswer, RpcError> {
    match jobs(shared, JobsParams::default()).await {
        Err(error) if error.code == code::UNKNOWN => Ok(JobsAnswer::default()),
        outcome => outcome,
    }
}

/// A job's record in words.
fn record(shared: &Shared, entry: &JobEntry, why: Option<&WhyView>) -> JobRecord {
    let genesis = shared.chain.genesis();
    let charges = charges(genesis.params(), &entry.spec, entry.extent);
    let tiles = match entry.extent {
        Extent::Whole => None,
        Extent::Tiles => Some(genesis.params().jobs.audit_tiles),
    };
    JobRecord {
        reason: Standing::of(entry, why),
        tier: TierWords::new(entry.spec.tier, genesis.spec().kind, tiles),
        price: charges.map(|charges| PriceView::new(entry, &charges)),
        closed: entry.closed.map(Number),
        job: entry.into(),
    }
}

/// What stands between waiting jobs and nodes, `None` for those that do not wait. Looking at all
/// nodes takes a while, so a list does without it where there are many.
async fn whys(
    shared: &Shared,
    entries: &[Option<JobEntry>],
) -> Result<Vec<Option<WhyView>>, RpcError> {
    let is_waiting = |entry: &JobEntry| entry.status == JobStatus::Queued;
    if !entries.iter().flatten().any(is_waiting) {
        return Ok(vec![None; entries.len()]);
    }
    let Some(fleet) = fleet(shared, WHY_NODES_MAX).await? else {
        return Ok(vec![None; entries.len()]);
    };
    let mut whys = Vec::with_capacity(entries.len());
    for entry in entries {
        let entry = entry.as_ref().filter(|entry| is_waiting(entry));
        whys.push(match entry {
            Some(entry) => Some(why(shared, entry, &fleet).await?),
            None => None,
        });
    }
    Ok(whys)
}

async fn why(shared: &Shared, entry: &JobEntry, fleet: &[Candidate]) -> Result<WhyView, RpcError> {
    let (program, known) = program(shared, entry).await?;
    let facts = known.map(|known| known.facts(program));
    let params = shared.chain.genesis().params();
    Ok(WhyView::new(params, entry, facts.as_ref(), fleet, shared.now()))
}

/// The program of a job, and what is on record of it.
async fn program(
    shared: &Shared,
    entry: &JobEntry,
) -> Result<(Hash32, Option<ProgramEntry>), RpcError> {
    match entry.spec.work {
        Work::Tensor { program, .. } => Ok((program, shared.entry(keys::program(&program)).await?)),
        Work::Opaque { task } => Ok((task, None)),
    }
}

/// All nodes, `None` if there are more than `most`.
async fn fleet(shared: &Shared, most: u64) -> Result<Option<Vec<Candidate>>, RpcError> {
    let head = node_list(shared).await?;
    if head.next.saturating_sub(head.first) > most {
        return Ok(None);
    }
    let found = registered(shared, head, None, usize::MAX).await?;
    let candidate = |(id, entry, stake): (NodeId, NodeEntry, StakeEntry)| {
        let stake_free = stake.free();
        Candidate { id, entry, stake_free }
    };
    Ok(Some(found.into_iter().map(candidate).collect()))
}

/// The method `job`.
pub(super) async fn job(shared: &Shared, params: JobParams) -> Result<JobAnswer, RpcError> {
    let id = params.job.0;
    let entry: Option<JobEntry> = shared.entry(keys::job(&id)).await?;
    let history = shared.chain.history(keys::job(&id), None, JOB_BLOCKS_MAX).await;
    let history = history.map_err(errors::chain)?.unwrap_or_default();
    if entry.is_none() && history.happenings.is_empty() {
        let hint = "jobs are forgotten some time after their end, their history with its blocks";
        return Err(errors::unknown(format!("job {id}"), hint));
    }
    let mut why_waits = None;
    let mut facts = None;
    if let Some(entry) = &entry {
        facts = program(shared, entry).await?.1;
        if entry.status == JobStatus::Queued
            && let Some(fleet) = fleet(shared, u64::MAX).await?
        {
            why_waits = Some(why(shared, entry, &fleet).await?);
        }
    }
    Ok(JobAnswer {
        id: Text(id),
        record: entry.map(|entry| record(shared, &entry, why_waits.as_ref())),
        program: facts.as_ref().map(ProgramView::from),
        why: why_waits,
        more: history.earlier.is_some(),
        receipt: receipt(&history).map(Text),
        history: history.happenings.iter().rev().filter_map(Happened::new).collect(),
    })
}

/// A job's result with all that shows it to be right, as a file. The state has the hash of it only;
/// the rest comes from the block in which it was accepted.
pub(super) async fn proof(shared: &Shared, id: JobId) -> Result<Vec<u8>, RpcError> {
    let missing = || {
        let hint = "only jobs of the tiers proof and zk have one, until they or their blocks are \
                    forgotten";
        errors::unknown(format!("a proof of job {id}"), hint)
    };
    let entry: Option<JobEntry> = shared.entry(keys::job(&id)).await?;
    let entry = entry.ok_or_else(missing)?;
    let Work::Tensor { program, weights, inputs, .. } = entry.spec.work else {
        return Err(missing());
    };
    let run = entry.live().find(|run| run.result().is_some()).ok_or_else(missing)?;
    let number = entry.run_number(&run.node).ok_or_else(missing)?;
    let by = entry.spec.tier.shown_by(number).ok_or_else(missing)?;
    let (result, height) = run.result().zip(run.committed()).ok_or_else(missing)?;
    let block = shared.chain.block(height).await.map_err(errors::chain)?;
    let (_, payload, _) = block.ok_or_else(missing)?;
    let shown = payload.txs.into_iter().find_map(|tx| {
        let Action::ProveResult { job, result: stated, shown, .. } = tx.body.action else {
            return None;
        };
        (job == id && stated == result).then_some(shown)
    });
    let known: Option<ProgramEntry> = shared.entry(keys::program(&program)).await?;
    let pieces = (0..known.ok_or_else(missing)?.pieces).map(|it| keys::program_piece(&program, it));
    let pieces: Vec<Option<PieceEntry>> = shared.entries(pieces.collect()).await?;
    let mut bytes = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece.ok_or_else(missing)?.bytes.as_slice());
    }
    let (genesis, output) = (shared.chain.domain().genesis, result.output);
    let claim =
        ResultClaim { genesis, job: id, node: run.node, program, weights, inputs, output, by };
    let program = Bytes::new(bytes).map_err(|_| missing())?;
    Ok(ProofFile { claim, program, shown: shown.ok_or_else(missing)? }.to_file())
}

/// The last transaction in a history: of a job that ended by one, the one that ended it.
fn receipt(history: &History) -> Option<TxId> {
    history.happenings.iter().find_map(|happening| happening.tx)
}

/// The bounds of the list of nodes.
async fn node_list(shared: &Shared) -> Result<ListHead, RpcError> {
    let head: Option<ListHead> = shared.entry(keys::list_head(ListOf::Nodes)).await?;
    Ok(head.unwrap_or_default())
}

/// Registered nodes with their owners' stakes, the last first, all before a place if one is given.
async fn registered(
    shared: &Shared,
    head: ListHead,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<(NodeId, NodeEntry, StakeEntry)>, RpcError> {
    let end = before.map_or(head.next, |before| before.min(head.next));
    let first = head.first.max(end.saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX)));
    if first >= end {
        return Ok(Vec::new());
    }
    let pages = first / LIST_PAGE_MAX..=(end - 1) / LIST_PAGE_MAX;
    let wanted = pages.clone().map(|page| keys::list_page(ListOf::Nodes, page)).collect();
    let found: Vec<Option<ListPage>> = shared.entries(wanted).await?;
    let mut ids = Vec::new();
    for (number, page) in pages.zip(found) {
        let items = page.iter().flat_map(|page| page.items.iter());
        let places = items.map(|(place, id)| (number * LIST_PAGE_MAX + place, NodeId::new(id)));
        ids.extend(places.filter(|(place, _)| (first..end).contains(place)).map(|(_, id)| id));
    }
    ids.reverse();
    let nodes: Vec<Option<NodeEntry>> =
        shared.entries(ids.iter().map(keys::node).collect()).await?;
    // A node that left between the two readings is left out.
    let nodes: Vec<(NodeId, NodeEntry)> =
        ids.into_iter().zip(nodes).filter_map(|(id, node)| Some((id, node?))).collect();
    let stakes: Vec<Option<StakeEntry>> =
        shared.entries(nodes.iter().map(|(_, node)| keys::stake(&node.owner)).collect()).await?;
    let stakes = stakes.into_iter().map(Option::unwrap_or_default);
    Ok(nodes.into_iter().zip(stakes).map(|((id, node), stake)| (id, node, stake)).collect())
}

/// The method `nodes`.
pub(super) async fn nodes(shared: &Shared, params: NodesParams) -> Result<NodesAnswer, RpcError> {
    let limit = page_size(params.limit, NODES_DEFAULT, NODES_MAX)?;
    let head = node_list(shared).await?;
    let end = params.before.map_or(head.next, |before| before.min(head.next));
    let first = end.saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX));
    let found = registered(shared, head, params.before, limit).await?;
    let now = shared.now();
    let params = &shared.chain.genesis().params().capacity;
    let listed = found.into_iter().map(|(id, node, stake)| listed(id, &node, &stake, params, now));
    let next = Some(first).filter(|first| *first > head.first);
    Ok(NodesAnswer {
        nodes: listed.collect(),
        count: head.next.saturating_sub(head.first),
        more: next.is_some(),
        next,
    })
}

fn listed(
    id: NodeId,
    node: &NodeEntry,
    stake: &StakeEntry,
    params: &CapacityParams,
    now: Tick,
) -> ListedNode {
    let free: Amount = stake.free();
    ListedNode {
        id: Text(id),
        node: node.into(),
        stake: stake.into(),
        stake_free: Tgrid(free),
        stake_free_units: Units(free),
        reputation: ReputationView::new(node.reputation, now),
        absent: node.absent.map(Number),
        capacity: words::capacity(node, params, now),
    }
}

/// The method `node`.
pub(super) async fn node(shared: &Shared, params: NodeParams) -> Result<NodeAnswer, RpcError> {
    let id = params.node.0;
    let entry: Option<NodeEntry> = shared.entry(keys::node(&id)).await?;
    let before = params.before.map(|Number(before)| before);
    let history = shared.chain.history(keys::node(&id), before, NODE_BLOCKS_MAX).await;
    let history = history.map_err(errors::chain)?.unwrap_or_default();
    if entry.is_none() && history.happenings.is_empty() && before.is_none() {
        let hint = "nodes that left are known as long as the blocks that speak of them are kept";
        return Err(errors::unknown(format!("node {id}"), hint));
    }
    let mut record = None;
    let mut jobs: Vec<JobId> = Vec::new();
    if let Some(entry) = &entry {
        let stake: Option<StakeEntry> = shared.entry(keys::stake(&entry.owner)).await?;
        let params = &shared.chain.genesis().params().capacity;
        record = Some(listed(id, entry, &stake.unwrap_or_default(), params, shared.now()));
        jobs.extend(entry.runs.as_slice());
    }
    Ok(NodeAnswer {
        id: Text(id),
        record,
        jobs: jobs.into_iter().map(Text).collect(),
        history: history.happenings.iter().filter_map(Happened::new).collect(),
        earlier: history.earlier.map(Number),
    })
}
