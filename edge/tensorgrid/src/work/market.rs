//! What nodes offer now, looked at with the scheduler's own rules: the lowest price at which a job
//! would be placed, and why it would not be.

use super::order::OrderError;
use crate::network::now;
use tg_api::eta::Ground;
use tg_api::why::{Candidate, WhyView};
use tg_gateway::Gateway;
use tg_gateway::message::Request;
use tg_jobfile::Priority;
use tg_ledger::{
    ASK_AGAIN, Charges, GpuMixEntry, JobEntry, KEPT_PER_NODE_MAX, NodeEntry, QueueRow,
    SLOT_AHEAD_MAX, StakeEntry, ahead_of, charges, keys, run_bond, run_span, slot_length,
};
use tg_scheduler::{Ask, GpuMix, Meter, fit_later, is_of_model, price};
use tg_types::{
    Amount, Decode as _, DurationMs, Extent, JobSpec, Name, NodeId, Params, ProgramFacts, Tick,
};

/// All nodes on record.
pub(crate) struct Market {
    nodes: Vec<Candidate>,
    mix: GpuMix,
    params: Params,
    now: Tick,
}

/// A price and where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Quote {
    /// All parts of the price.
    pub(crate) charges: Charges,
    /// How much of a run a drawn checker recomputes.
    pub(crate) extent: Extent,
    /// Nodes that would do it for that now.
    pub(crate) fitting: usize,
    /// Where it would wait at this price.
    pub(crate) row: QueueRow,
    /// Where it would wait at the lowest.
    pub(crate) usual_row: QueueRow,
    /// Whether it would be promised now, if that is asked for.
    pub(crate) promise: Option<PromiseQuote>,
}

/// Whether a job would be promised now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PromiseQuote {
    /// By when.
    pub(crate) by: Tick,
    /// Nodes that could begin with it early enough, now or in a slot that they would keep.
    pub(crate) nodes: usize,
    /// The earliest deadline that could be promised, whatever was asked for.
    pub(crate) earliest: Option<Tick>,
}

/// What somebody offers to be served sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The lowest price.
    Usual,
    /// The lowest price, doubled so many times.
    Priority(Priority),
    /// This for a run.
    Bid(Amount),
}

impl Quote {
    /// How much earlier jobs at the lowest price may have come before which it goes.
    pub(crate) fn ahead(&self) -> DurationMs {
        let (bonus, usual) = (self.row.bonus().get(), self.usual_row.bonus().get());
        DurationMs::new(bonus.saturating_sub(usual))
    }
}

impl Market {
    /// Looks at all nodes.
    pub(crate) async fn look(gateway: &Gateway) -> Result<Self, OrderError> {
        let mut nodes = Vec::new();
        for listed in gateway.entries(&Request::Nodes).await? {
            let entry = NodeEntry::from_bytes(listed.bytes.as_slice())?;
            let stake: Option<StakeEntry> = gateway.entry(keys::stake(&entry.owner)).await?;
            let stake_free = stake.map_or(Amount::ZERO, |stake| stake.free());
            let id = NodeId::new(*listed.id.as_bytes());
            nodes.push(Candidate { id, entry, stake_free });
        }
        let mix: Option<GpuMixEntry> = gateway.entry(keys::gpu_mix()).await?;
        let mix = mix.map_or_else(GpuMix::default, |entry| entry.mix);
        Ok(Self { nodes, mix, params: gateway.params().clone(), now: now() })
    }

    /// The lowest price at which a node takes the job now, or as many as it needs at once, or what
    /// is offered. If too few do, the lowest that so many ask for: then the job would wait.
    pub(crate) fn quote(
        &self,
        spec: &JobSpec,
        facts: Option<&ProgramFacts>,
        urgency: Urgency,
    ) -> Result<Quote, OrderError> {
        let lowest = self.params.jobs.pay_min;
        let offers = self.nodes.iter().map(|node| &node.entry.descriptor);
        let asked = offers.filter_map(|offer| price(spec, facts, offer));
        let mut asked: Vec<Amount> = asked.map(|price| price.max(lowest)).collect();
        asked.sort_unstable();
        // All members of a gang are paid alike, so it needs as many nodes at that price.
        let wanted = usize::from(spec.nodes.max(1));
        let first = asked.get(wanted - 1).or(asked.last()).copied().ok_or(OrderError::NoNode)?;
        asked.dedup();
        let fitting = |pay: Amount| {
            let spec = JobSpec { pay, ..spec.clone() };
            (pay, WhyView::of_spec(&self.params, &spec, facts, &self.nodes, self.now).fitting)
        };
        let found = asked.iter().map(|pay| fitting(*pay)).find(|(_, count)| *count >= wanted);
        let usual = found.unwrap_or_else(|| fitting(first));
        let usual_row = QueueRow::of(&JobSpec { pay: usual.0, ..spec.clone() }, facts);
        let (pay, fitting) = match urgency {
            Urgency::Usual => usual,
            // A run that is paid more puts more at risk, so other nodes may fit.
            Urgency::Priority(priority) => {
                let doubled = usual.0.times(1 << priority.get());
                fitting(doubled.map_err(|_| OrderError::Price)?)
            }
            Urgency::Bid(bid) if bid < lowest => return Err(OrderError::BidLow { least: lowest }),
            Urgency::Bid(bid) => fitting(bid),
        };
        let spec = JobSpec { pay, ..spec.clone() };
        let row = QueueRow::of(&spec, facts);
        let multiply_adds = facts.map_or(0, |facts| facts.multiply_adds);
        let extent = self.params.jobs.extent(spec.tier, multiply_adds);
        let charges = charges(&self.params, &spec, extent).ok_or(OrderError::Price)?;
        Ok(Quote { charges, extent, fitting, row, usual_row, promise: None })
    }

    /// Whether a job would be promised now. The ledger looks at a bounded number of nodes, this at
    /// all.
    pub(crate) async fn promise(
        &self,
        gateway: &Gateway,
        spec: &JobSpec,
        facts: Option<&ProgramFacts>,
    ) -> Result<PromiseQuote, OrderError> {
        let bond = run_bond(self.params.jobs.run_bond, spec);
        let (span, length) =
            (run_span(&self.params, spec, self.now), slot_length(&self.params, spec));
        let ask = Ask { spec, facts, bond, excluded: &[], span, job: None };
        let by = spec.promise.unwrap_or(Tick::MAX);
        let mut quote = PromiseQuote { by, nodes: 0, earliest: None };
        let Some(length) = length else { return Ok(quote) };
        let last = self.now.plus(SLOT_AHEAD_MAX).unwrap_or(Tick::MAX);
        let may_keep = |it: &&Candidate| it.entry.kept.as_slice().len() < KEPT_PER_NODE_MAX;
        let keepers = self.nodes.iter().filter(may_keep);
        let fitting = keepers.filter(|it| fit_later(&ask, &it.offer(&self.params)).is_ok());
        for candidate in fitting {
            let Candidate { id, entry, .. } = candidate;
            let mut runs = Vec::new();
            for job in entry.runs.as_slice() {
                let run = gateway.entry::<JobEntry>(keys::job(job)).await?;
                runs.extend(run.map(|run| (*job, run)));
            }
            let ahead = ahead_of(&self.params, (id, entry), &runs, self.now);
            let (offer, when) = (candidate.offer(&self.params), (self.now, length));
            let room = offer.earliest_room(spec, &ahead, when, &Meter::default());
            let start = room.map(|room| room.from).filter(|start| *start <= last);
            let end = start.and_then(|start| start.plus(length).ok());
            // As a refusal does, it leaves time for asking.
            let named = end.and_then(|end| end.plus(ASK_AGAIN).ok());
            quote.earliest = [quote.earliest, named].into_iter().flatten().min();
            quote.nodes += usize::from(end.is_some_and(|end| end <= by));
        }
        Ok(quote)
    }

    /// Whether any node has a device of this model.
    pub(crate) fn has_model(&self, model: &Name) -> bool {
        let devices = self.nodes.iter().flat_map(|node| node.entry.descriptor.devices.as_slice());
        devices.into_iter().any(|device| is_of_model(model, &device.model))
    }

    /// All nodes, for what is to be expected of jobs.
    pub(crate) fn ground(&self) -> Ground<'_> {
        Ground { params: &self.params, nodes: &self.nodes, mix: &self.mix, now: self.now }
    }

    /// How many nodes each rule removes, and what would help.
    pub(crate) fn explain(&self, entry: &JobEntry, facts: Option<&ProgramFacts>) -> WhyView {
        WhyView::new(&self.params, entry, facts, &self.nodes, self.now)
    }
}
