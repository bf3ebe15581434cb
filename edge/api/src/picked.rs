//! Why a node was not given a run: for its provider. Which rule removed it, or by how many points
//! of which part of the score it is behind the best one, and the cheapest change that would win. It
//! is the scheduler's own contest, held again on the state as it is now.

use crate::eta::Ground;
use crate::text::{Text, Tgrid};
use serde::{Deserialize, Serialize};
use tg_ledger::{JobEntry, excluded, run_bond, run_span};
use tg_scheduler::index::{Score, ScorePart};
use tg_scheduler::pace::Forecast;
use tg_scheduler::{Ask, Contest, Gain, Offer, Pricing, Rule, Standing};
use tg_types::{AccountId, Amount, HeldGpu, HeldHost, JobId, NodeId, ProgramFacts};

/// By how much a node is behind in a part of the score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BehindView {
    /// "tier", "price", "speed", "reputation", "load" or "left".
    pub part: String,
    /// Points; below 0 it is ahead in that part.
    pub points: i32,
}

/// How a node stands in the competition for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PickedView {
    /// The job.
    pub job: Text<JobId>,
    /// "given" if it runs there, "removed", "aside", "best" or "behind".
    pub outcome: String,
    /// The rule that removes it, as the word programs branch on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The node that is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<Text<NodeId>>,
    /// By how much, part by part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<BehindView>,
    /// The highest price of an hour with which it would win.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_hour: Option<Tgrid>,
    /// The highest price of 10^12 multiply-adds with which it would win.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_tera: Option<Tgrid>,
    /// More stake with which it would win.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stake_more: Option<Tgrid>,
    /// The same for people.
    pub sentence: String,
}

impl Ground<'_> {
    /// How a node stands in the competition for a job that waits or runs; `None` if there is no
    /// such node.
    #[must_use]
    pub fn picked(
        &self,
        node: &NodeId,
        (job, entry): (&JobId, &JobEntry),
        facts: Option<&ProgramFacts>,
        forecast: &Forecast,
    ) -> Option<PickedView> {
        let number = self.nodes.iter().position(|candidate| candidate.id == *node)?;
        let view = |outcome: &str, sentence: &str| PickedView {
            job: Text(*job),
            outcome: outcome.to_owned(),
            rule: None,
            best: None,
            behind: Vec::new(),
            price_per_hour: None,
            price_per_tera: None,
            stake_more: None,
            sentence: sentence.to_owned(),
        };
        if entry.live().any(|run| run.node == *node) {
            return Some(view("given", "it was given this job"));
        }
        let bond = run_bond(self.params.jobs.run_bond, &entry.spec);
        let given = entry.live().last().map(|run| run.node);
        let given = given.and_then(|it| self.nodes.iter().position(|other| other.id == it));
        let is_running = !entry.status.is_final();
        let before = given.filter(|_| is_running);
        let host = before.and_then(|place| self.nodes.get(place));
        let held = host.map_or(&[][..], |node| node.entry.held.as_slice()).iter();
        let held: Vec<HeldGpu> = held.filter(|held| held.job != *job).copied().collect();
        let hosted = host.map_or(&[][..], |node| node.entry.hosted.as_slice()).iter();
        let hosted: Vec<HeldHost> = hosted.filter(|held| held.job != *job).copied().collect();
        let offers = self.offers_before(before, bond, (&held, &hosted));
        // Whoever runs it is held against the others as if it did not yet.
        let winner = given.and_then(|place| offers.get(place)).map(|offer| offer.owner);
        let mut out: Vec<AccountId> = excluded(entry);
        out.retain(|owner| Some(*owner) != winner);
        let span = run_span(self.params, &entry.spec, self.now);
        let ask = Ask { spec: &entry.spec, facts, bond, excluded: &out, span, job: Some(*job) };
        let (paces, mix) = (&forecast.paces(), self.mix);
        let contest = Contest { ask: &ask, paces, offers: &offers, given, mix };
        let standing = contest.standing(number)?;
        let mut shown = match standing {
            Standing::Best { equals: 0 } => view("best", "it is the best of all for this job"),
            Standing::Best { .. } => view("best", "others are as good, and the draw decides"),
            Standing::Aside => view("aside", ASIDE),
            Standing::Removed(rule) => {
                let rule_code = Some(rule.code().to_owned());
                PickedView { rule: rule_code, ..view("removed", removed(rule)) }
            }
            Standing::Behind { best, its, own } => {
                let best = offers.get(best).map(|offer| Text(offer.node));
                let behind = behind(&its, &own);
                PickedView { best, behind, ..view("behind", &behind_words(&its, &own)) }
            }
        };
        shown.add(contest.gain(number));
        Some(shown)
    }

    /// What nodes offer now; the one that was given the run as if it was not yet.
    fn offers_before<'a>(
        &'a self,
        given: Option<usize>,
        bond: Amount,
        (held, hosted): (&'a [HeldGpu], &'a [HeldHost]),
    ) -> Vec<Offer<'a>> {
        let mut offers = self.offers();
        if let Some(offer) = given.and_then(|place| offers.get_mut(place)) {
            offer.held = held;
            offer.hosted = hosted;
            offer.running = offer.running.saturating_sub(1);
            offer.stake_free = offer.stake_free.plus(bond).unwrap_or(Amount::CAP);
        }
        offers
    }
}

const ASIDE: &str = "it is asked only if nobody else fits: its owner has no free stake, or it \
                     lists more kinds of devices than are told apart";

impl PickedView {
    fn add(&mut self, gain: Option<Gain>) {
        let change = match gain {
            None => return,
            Some(Gain::Price(Pricing::Hour, price)) => {
                self.price_per_hour = Some(Tgrid(price));
                format!("ask for {price} an hour")
            }
            Some(Gain::Price(Pricing::Tera, price)) => {
                self.price_per_tera = Some(Tgrid(price));
                format!("ask for {price} for 10^12 multiply-adds")
            }
            Some(Gain::Stake(more)) => {
                self.stake_more = Some(Tgrid(more));
                format!("stake {more} more")
            }
        };
        self.sentence.push_str(&format!("; cheapest change: {change}"));
    }
}

fn behind(its: &Score, own: &Score) -> Vec<BehindView> {
    let parts = ScorePart::ALL.into_iter().map(|part| BehindView {
        part: part.code().to_owned(),
        points: its.part(part) - own.part(part),
    });
    parts.filter(|behind| behind.points != 0).collect()
}

fn behind_words(its: &Score, own: &Score) -> String {
    let parts = behind(its, own);
    let words = |is_behind: bool| {
        let some = parts.iter().filter(|it| (it.points > 0) == is_behind);
        let some = some.map(|it| format!("{} by {}", it.part, it.points.abs()));
        some.collect::<Vec<_>>().join(", ")
    };
    let (lacks, leads) = (words(true), words(false));
    let leads = if leads.is_empty() { leads } else { format!(", although it leads in {leads}") };
    format!("it is {} points behind: {lacks}{leads}", its.total() - own.total())
}

/// Why a rule removes the node, as its provider is told.
const fn removed(rule: Rule) -> &'static str {
    match rule {
        Rule::Absent => "validators do not see it: is it online?",
        Rule::Unproved => "it has not proved what it can do yet",
        Rule::Closed => "it takes no runs at this time: look at its hours and idleness",
        Rule::Excluded => "it, or another node of its owner, has had this job before",
        Rule::Region => "the job asks for another region",
        Rule::Kind => "the job asks for another kind of device",
        Rule::Model => "the job asks for another model",
        Rule::Features => "the job asks for features that its devices do not have",
        Rule::Memory => "the job asks for more memory than its devices have shown",
        Rule::Count => "the job asks for more GPUs than it has of one model",
        Rule::Host => "the job asks for more processors or memory than its machine has",
        Rule::Price => "it asks for more than a run is paid",
        Rule::Stake => "its owner has too little stake left to stand for the run",
        Rule::Busy => "all its slots are taken",
        Rule::Gpus => "others have its GPUs",
        Rule::Part => "others have so much of its GPUs that no part is left which is enough",
        Rule::Room => "others hold its processors or its memory",
        Rule::Kept => "what it has free is kept for jobs that were promised",
        Rule::Closing => "it closes before the run may have ended",
    }
}

#[cfg(test)]
mod tests;
