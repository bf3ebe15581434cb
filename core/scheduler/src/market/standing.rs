//! How a node stands in the competition for a run: which rule removes it, or by how much of which
//! part of the score it is behind, and the cheapest change with which it would win. Providers ask
//! this; placements come from the same rules and the same score.

use super::{GpuMix, Market, Names, quarter_octaves};
use crate::catalogue::Catalogue;
use crate::index::{Score, TaskSpec};
use crate::pace::Paces;
use crate::{Ask, Measure, Meter, Offer, Pricing, Rule, fit};
use tg_types::{Amount, NodeDescriptor};

/// Steps of a quarter of an octave by which a price is lowered at most: beyond that the score
/// counts no more.
const PRICE_STEPS_MAX: i64 = 40;

/// How a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A rule removes it.
    Removed(Rule),
    /// It is asked only if nobody else fits: its owner has no stake, or it lists too many devices.
    Aside,
    /// None is better; so many others are as good, and a draw decides between them.
    Best {
        /// How many.
        equals: usize,
    },
    /// Another one is better.
    Behind {
        /// Its place.
        best: usize,
        /// Its score.
        its: Score,
        /// The node's own.
        own: Score,
    },
}

/// What a provider could do to be given a run like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gain {
    /// Ask for this price, of an hour or of 10^12 multiply-adds.
    Price(Pricing, Amount),
    /// Stake so much more.
    Stake(Amount),
}

/// All that compete for a run.
#[derive(Clone, Copy, Debug)]
pub struct Contest<'a> {
    /// The run.
    pub ask: &'a Ask<'a>,
    /// Where such work is done soon.
    pub paces: &'a Paces,
    /// All nodes.
    pub offers: &'a [Offer<'a>],
    /// The node that was given the run, if it was: others are held against it.
    pub given: Option<usize>,
    /// What is usually asked for of GPUs.
    pub mix: &'a GpuMix,
}

impl Contest<'_> {
    /// How a node stands; `None` if there is no such node.
    pub fn standing(&self, number: usize) -> Option<Standing> {
        if let Err(rule) = fit(self.ask, self.offers.get(number)?) {
            return Some(Standing::Removed(rule));
        }
        let scores = self.scores();
        let Some(own) = scores.get(number).copied().flatten() else {
            return Some(Standing::Aside);
        };
        let given = self.given.and_then(|place| Some((place, scores.get(place).copied()??)));
        let others = scores.iter().enumerate().filter(|(place, _)| *place != number);
        let others = others.filter_map(|(place, score)| Some((place, (*score)?)));
        let best = given.or_else(|| others.clone().max_by_key(|(_, score)| score.total()));
        Some(match best {
            Some((best, its)) if its.total() > own.total() => Standing::Behind { best, its, own },
            _ => {
                let is_equal = |(_, score): &(usize, Score)| score.total() == own.total();
                Standing::Best { equals: others.filter(is_equal).count() }
            }
        })
    }

    /// What would have to change for a node that does not win, if its provider can change that.
    pub fn gain(&self, number: usize) -> Option<Gain> {
        let offer = self.offers.get(number)?;
        match self.standing(number)? {
            Standing::Best { .. } | Standing::Aside => None,
            Standing::Removed(Rule::Stake) => {
                let lacking = self.ask.bond.minus(offer.stake_free).ok()?;
                let richer = Offer { stake_free: self.ask.bond, ..*offer };
                self.wins(number, richer).then_some(Gain::Stake(lacking))
            }
            Standing::Removed(Rule::Price) | Standing::Behind { .. } => self.price(number, offer),
            Standing::Removed(
                Rule::Absent
                | Rule::Unproved
                | Rule::Closed
                | Rule::Excluded
                | Rule::Region
                | Rule::Kind
                | Rule::Model
                | Rule::Features
                | Rule::Memory
                | Rule::Count
                | Rule::Host
                | Rule::Busy
                | Rule::Gpus
                | Rule::Part
                | Rule::Room
                | Rule::Kept
                | Rule::Closing,
            ) => None,
        }
    }

    /// The highest price below its own at which a node would win, to a quarter of an octave.
    fn price(&self, number: usize, offer: &Offer<'_>) -> Option<Gain> {
        let pricing = Pricing::of_job(self.ask.spec, self.ask.facts);
        let most = Measure::of(self.ask.spec, self.ask.facts).price_max(self.ask.spec.pay);
        let now = pricing.of(offer.descriptor).units().min(most);
        let lowered = |steps: i64| {
            let units = highest_at(quarter_octaves(now) - steps).min(now);
            Amount::new(units).ok().map(|price| (price, pricing.with(offer.descriptor, price)))
        };
        let wins = |steps: i64| {
            lowered(steps).is_some_and(|(_, descriptor)| {
                self.wins(number, Offer { descriptor: &descriptor, ..*offer })
            })
        };
        let (mut least, mut enough) = (0, PRICE_STEPS_MAX);
        if !wins(enough) {
            return None;
        }
        while least < enough {
            let middle = i64::midpoint(least, enough);
            if wins(middle) { enough = middle } else { least = middle + 1 }
        }
        lowered(enough).map(|(price, _)| Gain::Price(pricing, price))
    }

    /// Whether a node would win with another offer.
    fn wins(&self, number: usize, offer: Offer<'_>) -> bool {
        let mut offers = self.offers.to_vec();
        let Some(place) = offers.get_mut(number) else { return false };
        *place = offer;
        let changed = Contest { offers: &offers, ..*self };
        matches!(changed.standing(number), Some(Standing::Best { .. }))
    }

    /// The best score of each node that fits and has stalls.
    fn scores(&self) -> Vec<Option<Score>> {
        let mut names = Names::default();
        let market = Market::for_job(self.ask, self.mix, &mut names, self.offers.iter().copied());
        let asked = self.ask.spec.needs.model.as_ref();
        let meant = asked.map(|asked| names.meant(asked, &Meter::default()));
        let Some(task) = market.task(self.ask, meant.as_ref()) else {
            return vec![None; self.offers.len()];
        };
        let score = |(offer, stalls): (&Offer<'_>, &Vec<super::Stall>)| {
            fit(self.ask, offer).ok()?;
            let admitted = stalls.iter().filter(|stall| {
                stall.offer.is_open && meant.as_ref().is_none_or(|it| it.has(stall.name))
            });
            let scores = admitted.filter_map(|stall| {
                let score = stall.score(&task, self.paces)?;
                if !market.is_of_gpus {
                    return Some(score);
                }
                market.index.worth_of_left(&stall.id, &task).map(|left| score.leaving(left))
            });
            scores.max_by_key(Score::total)
        };
        self.offers.iter().zip(&market.stalls).map(score).collect()
    }
}

impl super::Stall {
    fn score(&self, task: &TaskSpec, paces: &Paces) -> Option<Score> {
        Score::of(&self.offer, task, paces, Catalogue::shared())
    }
}

impl Pricing {
    /// The same offer at another price.
    fn with(self, offer: &NodeDescriptor, price: Amount) -> NodeDescriptor {
        match self {
            Self::Hour => NodeDescriptor { price_per_hour: price, ..offer.clone() },
            Self::Tera => NodeDescriptor { price_per_tera: price, ..offer.clone() },
        }
    }
}

/// The highest number with at most so many quarter octaves.
fn highest_at(quarters: i64) -> u64 {
    let Ok(quarters) = u64::try_from(quarters) else { return 0 };
    let whole = u32::try_from(quarters / 4).unwrap_or(u32::MAX);
    // The next step begins at (5 + quarters of it) / 4 of the power.
    let next =
        (5 + u128::from(quarters % 4)).checked_shl(whole).map_or(u128::MAX, |it| it.div_ceil(4));
    u64::try_from(next - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
