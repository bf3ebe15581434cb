//! What must have happened for a promise to say anything: nobody is shown to be safe from what
//! nobody tried. How often at least is fixed before a run, by theory and the number of jobs; what
//! happened less often was not exercised, and that is a failure.

use super::{
    checker::OBJECTS_EACH,
    complaint::COMPLAINT_EACH,
    plan::{Checker, DISHONEST, PARTIES, Ploy, Scenario},
    play::{STRANGER_EACH, TEMPTED_EACH},
    provider, theory,
};
use std::collections::BTreeMap;
use tg_types::params::{JobParams, Params};

/// Dishonest owners among all.
const SHARE: f64 = DISHONEST as f64 / PARTIES as f64;

/// At least so many of all jobs are given to providers that lose by what they do: a fifteenth of
/// their share, because who has lost has a worse reputation and gets less work.
const LOSERS_SHARE: f64 = SHARE / 15.0;

/// How many lies that are defended are followed down to a step, at least: liars often come to where
/// they have nothing more to say.
const DEFENDED_SHARE: f64 = 0.25;

/// How often a copy is a result; otherwise it is a seal.
const COPIED_RESULTS: f64 = 0.5;

/// Half of what theory expects is enough, less what chance may take of few events.
const SLACK: f64 = 0.5;

/// What chance may take, in standard deviations of a count.
const CHANCE_SIGMA: f64 = 2.0;

/// Something that a scenario is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trigger {
    /// A result was paid.
    Settled,
    /// An honest checker has shown that it looked.
    Checked,
    /// A provider has committed to a lie of this kind.
    Lied(Ploy),
    /// A lie was paid, where that is to happen now and then.
    Passed,
    /// An honest challenger has shown that a result is wrong.
    Refuted,
    /// An honest challenger has objected, and nobody could or would defend the result.
    Undefended,
    /// A result was committed to and never shown, and its provider has lost for that.
    NotShown,
    /// The provider's own owner has objected and taken what there is for it.
    Helped,
    /// Who vouched for a friend has lost with it although nothing was shown to be wrong.
    FriendFell,
    /// Who vouched has won a dispute in the place of a provider that was away.
    StoodIn,
    /// Who spoke in a provider's place has lost for a false sum.
    Framed,
    /// A checker has lost the bond of an objection to a right result.
    FalseCheck,
    /// A stranger has.
    FalseChallenge,
    /// A check was missed by a checker that does nothing.
    Silence,
    /// An answer of a checker that has not looked was refused.
    Guess,
    /// A checker of tiles was paid for the whole run.
    Whole,
    /// Validators found that a result does not open.
    Unreadable,
    /// Validators found that a result opens about which its client has complained.
    FalseComplaint,
}

impl Trigger {
    /// What it is, in reports.
    pub(super) fn name(self) -> String {
        match self {
            Self::Settled => "result paid",
            Self::Checked => "honest check passed",
            Self::Lied(ploy) => return format!("{} lie committed", ploy.name()),
            Self::Passed => "lie paid",
            Self::Refuted => "lie refuted by evidence",
            Self::Undefended => "objection to a lie not answered",
            Self::NotShown => "committed result not shown",
            Self::Helped => "objection by the provider's owner",
            Self::FriendFell => "friend lost with a silent liar",
            Self::StoodIn => "dispute won in the provider's place",
            Self::Framed => "false sum in the provider's place",
            Self::FalseCheck => "checker's false objection lost",
            Self::FalseChallenge => "stranger's false objection lost",
            Self::Silence => "silent checker missed its check",
            Self::Guess => "guessed answer refused",
            Self::Whole => "whole run shown instead of tiles",
            Self::Unreadable => "complaint about a result upheld",
            Self::FalseComplaint => "client's false complaint lost",
        }
        .to_owned()
    }
}

/// How often something must have happened, and how often it has.
pub(super) struct Exercise {
    pub(super) trigger: Trigger,
    pub(super) least: u64,
    pub(super) fired: u64,
}

impl Exercise {
    /// Whether that is enough.
    pub(super) const fn is_enough(&self) -> bool {
        self.fired >= self.least
    }
}

/// How often everything that a scenario is there for must happen in so many jobs.
pub(super) fn least(scenario: &Scenario, jobs: u64) -> BTreeMap<Trigger, u64> {
    let mut rates = Rates::of(scenario);
    for ploy in scenario.ploys {
        rates.add_ploy(*ploy);
    }
    for checker in scenario.checkers {
        rates.add_checker(*checker);
    }
    let frames = scenario.checkers.contains(&Checker::Frames);
    if scenario.has_challengers && !frames {
        rates.add(Trigger::FalseChallenge, (1.0 - SHARE) / f64::from(STRANGER_EACH));
    }
    let least = |rate: f64| {
        let mean = jobs as f64 * rate;
        (mean * SLACK - mean.sqrt() * CHANCE_SIGMA).ceil().max(1.0) as u64
    };
    rates.each.into_iter().map(|(trigger, rate)| (trigger, least(rate))).collect()
}

/// How often things are expected to happen for a job.
struct Rates<'a> {
    scenario: &'a Scenario,
    params: JobParams,
    each: BTreeMap<Trigger, f64>,
}

impl<'a> Rates<'a> {
    fn of(scenario: &'a Scenario) -> Self {
        let mut params = Params::local().jobs;
        params.sync_checkers = scenario.checkers_drawn.unwrap_or(params.sync_checkers);
        let mut rates = Self { scenario, params, each: BTreeMap::new() };
        rates.add(Trigger::Settled, 1.0);
        rates.add(Trigger::Checked, rates.checks() * (1.0 - SHARE));
        rates
    }

    fn add(&mut self, trigger: Trigger, rate: f64) {
        *self.each.entry(trigger).or_default() += rate;
    }

    fn odds(&self, ploy: Ploy) -> theory::Odds {
        let others = (PARTIES - DISHONEST, DISHONEST - 1);
        provider::odds(&self.params, self.scenario, (ploy, provider::wrong_tiles(ploy)), others)
    }

    /// Checks for a job.
    fn checks(&self) -> f64 {
        let odds = self.odds(Ploy::Honest);
        odds.drawn * f64::from(odds.checkers)
    }

    fn add_ploy(&mut self, ploy: Ploy) {
        let odds = self.odds(ploy);
        let share = LOSERS_SHARE / self.scenario.ploys.len() as f64;
        let noticed = share * (1.0 - odds.accepted());
        if ploy.lies() {
            self.add(Trigger::Lied(ploy), share);
        }
        if ploy.lies() && self.scenario.checkers_drawn.is_some() {
            self.add(Trigger::Passed, share * odds.accepted());
        }
        match ploy {
            Ploy::Honest => {}
            Ploy::Lazy | Ploy::Middle | Ploy::Last | Ploy::FakeOutput => {
                self.add(Trigger::Refuted, noticed * DEFENDED_SHARE);
            }
            Ploy::Garbage | Ploy::Withheld => self.add(Trigger::Undefended, noticed),
            Ploy::Mute => {
                self.add(Trigger::Undefended, noticed);
                let chances = theory::honest_drawn(odds.checkers, odds.honest, odds.dishonest);
                let some: f64 = chances.iter().skip(1).rev().skip(1).sum();
                self.add(Trigger::FriendFell, share * odds.drawn * some);
            }
            Ploy::Copied => {
                self.add(Trigger::Undefended, noticed * COPIED_RESULTS);
                self.add(Trigger::NotShown, share * (1.0 - COPIED_RESULTS));
            }
            Ploy::NoAnswer | Ploy::Late => self.add(Trigger::NotShown, share * odds.drawn),
            Ploy::Accomplice => self.add(Trigger::Helped, noticed),
            Ploy::Unshown => self.add(Trigger::Whole, SHARE * self.checks()),
            Ploy::Unreadable => {
                self.add(Trigger::Unreadable, share);
                let others = (1.0 - SHARE) / f64::from(COMPLAINT_EACH);
                self.add(Trigger::FalseComplaint, others);
            }
            Ploy::Away if self.scenario.checkers.contains(&Checker::Frames) => {
                let first = odds.dishonest as f64 / (odds.honest + odds.dishonest) as f64;
                self.add(Trigger::Framed, share * odds.drawn * first);
            }
            Ploy::Away => {
                self.add(Trigger::StoodIn, SHARE * odds.drawn / f64::from(TEMPTED_EACH));
            }
        }
    }

    fn add_checker(&mut self, checker: Checker) {
        let checks = self.checks() * SHARE / self.scenario.checkers.len() as f64;
        match checker {
            Checker::Honest | Checker::Accepts | Checker::Hasty | Checker::Frames => {}
            Checker::Objects => {
                self.add(Trigger::FalseCheck, checks / f64::from(OBJECTS_EACH));
            }
            Checker::Silent => self.add(Trigger::Silence, checks),
            Checker::Idle => self.add(Trigger::Guess, checks),
            Checker::Greedy => self.add(Trigger::Whole, checks),
            Checker::Allied => {
                let friend = (DISHONEST - 1) as f64 / (PARTIES - 1) as f64;
                self.add(Trigger::Whole, checks * friend);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Trigger, least};
    use crate::jobs::plan;

    #[test]
    fn every_scenario_asks_for_what_it_is_there_for() {
        for scenario in plan::all() {
            let title = scenario.title();
            let asked = least(&scenario, 20_000);
            assert!(asked.values().all(|least| *least > 0), "{title}: {asked:?}");
            let plain = [Trigger::Settled, Trigger::Checked];
            let own = asked.keys().filter(|trigger| !plain.contains(trigger)).count();
            assert_eq!(own > 0, scenario.name != "honest", "{title}: {asked:?}");
            let lies = scenario.ploys.iter().filter(|ploy| ploy.lies());
            lies.for_each(|ploy| assert!(asked.contains_key(&Trigger::Lied(*ploy)), "{title}"));
        }
    }

    #[test]
    fn without_jobs_nothing_is_exercised() {
        for scenario in plan::all() {
            assert!(least(&scenario, 0).values().all(|least| *least == 1), "{}", scenario.title());
        }
    }
}
