//! Why a job waits: how many nodes each rule of the scheduler removes, and the cheapest change with
//! which one would fit. The rules are the ones that placements use.

use serde::{Deserialize, Serialize};
use tg_ledger::{JobEntry, NodeEntry, Promise, excluded, run_bond, run_span};
use tg_scheduler::{Ask, Change, Offer, explain};
use tg_types::{AccountId, Amount, Bps, JobId, JobSpec, NodeId, Params, ProgramFacts, Tick};

/// A node that might run a job.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The node.
    pub id: NodeId,
    /// Its record.
    pub entry: NodeEntry,
    /// What of its owner's stake stands for nothing yet.
    pub stake_free: Amount,
}

/// Nodes that a rule removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemovedView {
    /// The rule, as the word programs branch on.
    pub rule: String,
    /// How many.
    pub nodes: usize,
    /// The same as a sentence.
    pub sentence: String,
}

/// What stands between a job and a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyView {
    /// Nodes that could be given one more run of it now.
    pub fitting: usize,
    /// Nodes that it needs at the same time, if that is more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<u8>,
    /// Nodes that could not, rule by rule.
    pub removed: Vec<RemovedView>,
    /// The cheapest change with which a node would fit, if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

impl WhyView {
    /// Looks at all nodes as the scheduler does.
    #[must_use]
    pub fn new(
        params: &Params,
        entry: &JobEntry,
        facts: Option<&ProgramFacts>,
        nodes: &[Candidate],
        now: Tick,
    ) -> Self {
        let looked = Looked { nodes, now, job: own_slot(entry, nodes) };
        Self::looked(params, &entry.spec, &excluded(entry), facts, &looked)
    }

    /// The same for a job that is not handed in yet.
    #[must_use]
    pub fn of_spec(
        params: &Params,
        spec: &JobSpec,
        facts: Option<&ProgramFacts>,
        nodes: &[Candidate],
        now: Tick,
    ) -> Self {
        Self::looked(params, spec, &[], facts, &Looked { nodes, now, job: None })
    }

    fn looked(
        params: &Params,
        spec: &JobSpec,
        excluded: &[AccountId],
        facts: Option<&ProgramFacts>,
        looked: &Looked<'_>,
    ) -> Self {
        let bond = run_bond(params.jobs.run_bond, spec);
        let (span, job) = (run_span(params, spec, looked.now), looked.job);
        let ask = Ask { spec, facts, bond, excluded, span, job };
        let offers: Vec<Offer<'_>> = looked.nodes.iter().map(|node| node.offer(params)).collect();
        let explained = explain(&ask, &offers);
        let removed = explained.removed.iter().map(|(rule, nodes)| RemovedView {
            rule: rule.code().to_owned(),
            nodes: *nodes,
            sentence: format!("{nodes} {}", rule.sentence()),
        });
        Self {
            fitting: explained.fitting,
            needed: spec.is_gang().then_some(spec.nodes),
            removed: removed.collect(),
            change: explained.change.as_ref().map(change_words),
        }
    }

    /// The answer in one sentence, for a list of jobs.
    #[must_use]
    pub fn sentence(&self) -> String {
        let removed: Vec<&str> = self.removed.iter().map(|it| it.sentence.as_str()).collect();
        match self.needed.filter(|needed| self.fitting < usize::from(*needed)) {
            Some(needed) if self.fitting > 0 => {
                let (fitting, removed) = (self.fitting, removed.join(", "));
                let others = if removed.is_empty() { "none" } else { &removed };
                return format!(
                    "Waits: it needs {needed} nodes at once, and {fitting} could take part; of the \
                     others {others}."
                );
            }
            None if self.fitting > 0 => {
                return format!("Waits for its turn: {} nodes could take it.", self.fitting);
            }
            Some(_) | None => {}
        }
        match (removed.is_empty(), &self.change) {
            (true, _) => "Waits: no node is registered.".to_owned(),
            (false, None) => format!("Waits: of the nodes {}.", removed.join(", ")),
            (false, Some(change)) => {
                format!("Waits: of the nodes {}. Cheapest change: {change}.", removed.join(", "))
            }
        }
    }
}

/// All nodes at a time, for a job that may have a slot on one of them.
struct Looked<'a> {
    nodes: &'a [Candidate],
    now: Tick,
    job: Option<JobId>,
}

/// The id of a job for which a node keeps a slot: it is not in its own way.
fn own_slot(entry: &JobEntry, nodes: &[Candidate]) -> Option<JobId> {
    let Promise::Kept { node, from, .. } = entry.promise else { return None };
    let keeper = nodes.iter().find(|candidate| candidate.id == node)?;
    let mut kept = keeper.entry.kept.as_slice().iter();
    kept.find(|slot| slot.from == from).map(|slot| slot.job)
}

impl Candidate {
    /// What it offers now, as the score sees it.
    #[must_use]
    pub fn offer_at(&self, params: &Params, now: Tick) -> Offer<'_> {
        Offer { reputation: self.entry.reputation.lower_bound(now), ..self.offer(params) }
    }

    /// What it offers now, as the rules see it.
    #[must_use]
    pub fn offer(&self, params: &Params) -> Offer<'_> {
        Offer {
            node: self.id,
            owner: self.entry.owner,
            descriptor: &self.entry.descriptor,
            running: u16::try_from(self.entry.runs.as_slice().len()).unwrap_or(u16::MAX),
            held: self.entry.held.as_slice(),
            hosted: self.entry.hosted.as_slice(),
            kept: self.entry.kept.as_slice(),
            is_present: self.entry.absent.is_none(),
            credit: self.entry.credit(&params.capacity),
            stake_free: self.stake_free,
            // Whether a node fits does not depend on it, only which is the best.
            reputation: Bps::ZERO,
        }
    }
}

fn change_words(change: &Change) -> String {
    match change {
        Change::Wait(rule) => format!("wait; nodes that fit {}", rule.sentence()),
        Change::Pay(pay) => format!("pay a run {pay}"),
        Change::AnyRegion => "accept any region".to_owned(),
        Change::Memory(mib) => format!("ask for {mib} MiB of memory at most"),
        Change::Host(host) => format!("ask for {host} of a machine at most"),
        Change::AnyFeatures => "ask for no features".to_owned(),
        Change::Model(model) => format!("accept a {model}"),
        Change::Kind(kind) => format!("accept a {}", kind.name().to_lowercase()),
        Change::Several(spec) => {
            let memory = spec.needs.memory_mib_min;
            format!("accept any device with {memory} MiB, and pay a run {}", spec.pay)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RemovedView, WhyView};

    #[test]
    fn answer_fits_into_one_sentence() {
        let busy = RemovedView { rule: "busy".into(), nodes: 3, sentence: "3 are busy".into() };
        let answer = |fitting, needed, removed: &[RemovedView], change: Option<&str>| {
            let change = change.map(str::to_owned);
            WhyView { fitting, needed, removed: removed.to_vec(), change }.sentence()
        };
        let check = |fitting, removed: &[RemovedView], change, expected: &str| {
            assert_eq!(answer(fitting, None, removed, change), expected);
        };
        let gang = |fitting| answer(fitting, Some(3), std::slice::from_ref(&busy), None);
        let expected = "Waits: it needs 3 nodes at once, and 2 could take part; of the others 3 \
                        are busy.";
        assert_eq!(gang(2), expected);
        assert_eq!(gang(3), "Waits for its turn: 3 nodes could take it.");
        assert_eq!(gang(0), "Waits: of the nodes 3 are busy.");
        check(0, &[], None, "Waits: no node is registered.");
        check(2, std::slice::from_ref(&busy), None, "Waits for its turn: 2 nodes could take it.");
        check(0, std::slice::from_ref(&busy), None, "Waits: of the nodes 3 are busy.");
        let expected = "Waits: of the nodes 3 are busy. Cheapest change: pay a run 1 TGRID.";
        check(0, &[busy], Some("pay a run 1 TGRID"), expected);
    }
}
