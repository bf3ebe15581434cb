//! What a scenario came to, and whether what was promised holds.

use super::{
    complaint::CLIENT,
    plan::{
        CHANCE_MIN, COST_PERCENT, Checker, DISHONEST, Group, PARTIES, Ploy, SIGMA_MAX, Scenario,
        VARIANCE_MIN, tier_name,
    },
    tally::{Line, Role, Tally},
    theory,
    trigger::{self, Exercise},
};
use crate::violation::Violation;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What honesty earns with a run, in multiples of its pay.
const HONEST_RUN: f64 = 1.0 - COST_PERCENT as f64 / 100.0;

/// What is won or lost by a lie at most, in multiples of a run's pay: the pay and the bond.
const STAKES: f64 = 21.0;

/// What an objection earns, in multiples of a run's pay.
const BOUNTY: f64 = 10.0;

/// Earnings that lie closer together than so many standard errors say nothing.
const ERRORS_MIN: f64 = 3.0;

/// Earnings that lie closer together than this are the same: they are multiples of a millionth.
const ROUNDING: f64 = 1e-9;

/// A checker that recomputes what was shown to it may gain only where computing a run costs less of
/// its pay than this: `docs/protocol.md`, tiles that are not shown.
const GREED_PAYS_BELOW: f64 = 1.0 / 3.0;

/// Two checkers that know each other and share that work may gain so much with a check at most, in
/// multiples of a run's pay: it is paid 30 % more, and half a run instead of a tenth costs 20 %
/// more. That is a known limit, not something that is prevented.
const ALLIES_GAIN_MAX: f64 = 0.1;

/// What a scenario came to.
pub(super) struct Outcome {
    pub(super) scenario: Scenario,
    /// The seed, if it is one alone.
    pub(super) seed: Option<u64>,
    pub(super) tally: Tally,
    /// What must always hold and did not, by seed.
    pub(super) violations: Vec<(u64, Violation)>,
}

/// Whether something that is promised holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It does.
    Kept,
    /// It does not.
    Broken,
    /// Too little happened to tell.
    Unclear,
    /// What it is about did not happen, or less often than was fixed before the run.
    NotExercised,
}

/// Something that is promised.
pub(super) struct Promise {
    pub(super) what: String,
    pub(super) verdict: Verdict,
}

impl Outcome {
    /// Lies accepted.
    fn accepted(&self) -> usize {
        usize::try_from(self.tally.lies_accepted).unwrap_or(usize::MAX)
    }

    /// How likely it is that at least as many lies are accepted, under the bound.
    fn chance(&self) -> f64 {
        theory::tail(&self.tally.all_lies(), self.accepted())
    }

    /// How far the detection rate lies from theory; above 0, more was noticed.
    fn sigma(&self) -> f64 {
        -theory::sigma(&self.tally.all_lies(), self.accepted())
    }

    fn line(&self, role: Role, name: &'static str) -> Line {
        self.tally.lines.get(&(role, name)).copied().unwrap_or_default()
    }

    /// What a kind of checkers earned with a check, what they won and lost by objecting included.
    fn checking(&self, checker: Checker) -> Line {
        let mut line = self.line(Role::Check, checker.name());
        // Who frames somebody does so together with a stranger.
        let name = if checker == Checker::Frames { "stranger" } else { checker.name() };
        let objections = self.line(Role::Challenge, name);
        line.income += objections.income;
        line.cost += objections.cost;
        line
    }

    /// Everything that is promised, and whether it holds. What depends on chance is asked of the
    /// sum over all seeds only.
    pub(super) fn promises(&self) -> Vec<Promise> {
        let tally = &self.tally;
        let mut promises = vec![
            promise("no honest node is slashed", tally.honest_slashed == 0),
            promise("no honest challenger loses its bond", tally.honest_bonds_lost == 0),
            promise("money and work add up in every block", self.violations.is_empty()),
        ];
        if self.seed.is_some() {
            return promises;
        }
        let (chance, sigma) = (self.chance(), self.sigma());
        let what = format!("lies accepted are within the bound (chance {chance:.2e})");
        promises.push(promise(&what, chance >= CHANCE_MIN));
        let is_many = theory::variance(&tally.all_lies()) >= VARIANCE_MIN;
        if self.is_exact() && is_many {
            let what = format!("lies are noticed as often as theory says ({sigma:+.2} sigma)");
            promises.push(promise(&what, sigma.abs() <= SIGMA_MAX));
        }
        self.promise_exercises(&mut promises);
        self.promise_runs(&mut promises);
        self.promise_away(&mut promises);
        self.promise_friends(&mut promises);
        self.promise_checks(&mut promises);
        self.promise_complaints(&mut promises);
        promises
    }

    /// What the scenario is there for, how often that must have happened, and how often it has.
    pub(super) fn exercises(&self) -> Vec<Exercise> {
        let fired = |trigger| self.tally.fired.get(&trigger).copied().unwrap_or_default();
        trigger::least(&self.scenario, self.tally.jobs)
            .into_iter()
            .map(|(trigger, least)| Exercise { trigger, least, fired: fired(trigger) })
            .collect()
    }

    /// What the other promises are about has really happened.
    fn promise_exercises(&self, promises: &mut Vec<Promise>) {
        for exercise in self.exercises() {
            let Exercise { trigger, least, fired } = &exercise;
            let what = format!("{}: {fired} times, at least {least}", trigger.name());
            let is_enough = exercise.is_enough();
            let verdict = if is_enough { Verdict::Kept } else { Verdict::NotExercised };
            promises.push(Promise { what, verdict });
        }
    }

    /// Whether theory knows the rate itself and not only a bound: silent checkers are replaced by
    /// others, which theory leaves out.
    fn is_exact(&self) -> bool {
        !self.scenario.checkers.contains(&Checker::Silent) && !self.tally.lies.is_empty()
    }

    /// No way to lie about runs earns as much as doing the work. Where there are several, each has
    /// too few runs to tell, and all of them are added up.
    fn promise_runs(&self, promises: &mut Vec<Promise>) {
        let mut all = Line::default();
        let earns_less =
            |ploy: &&Ploy| ploy.lies() || matches!(ploy, Ploy::Unshown | Ploy::Unreadable);
        for ploy in self.scenario.ploys.iter().filter(earns_less) {
            all.add(&self.line(Role::Run, ploy.name()));
        }
        let (count, net) = (all.count, all.net());
        if count == 0 {
            return;
        }
        let lies = self.tally.all_lies();
        let variance: f64 = lies.iter().map(|chance| chance * (1.0 - chance)).sum();
        let error = STAKES * variance.sqrt() / count as f64;
        let name = self.scenario.name;
        let what = format!(
            "{name} earns less than honesty with a run ({net:+.3} against {HONEST_RUN:+.3})"
        );
        promises.push(Promise { what, verdict: less(net, HONEST_RUN, error) });
    }

    /// A provider that is away when somebody objects loses nothing, if those who vouched for its
    /// result are honest and there.
    fn promise_away(&self, promises: &mut Vec<Promise>) {
        let line = self.line(Role::Run, Ploy::Away.name());
        if line.count > 0 && self.scenario.checkers == [Checker::Honest] {
            let net = line.net();
            let what = format!("who is away earns as much as others with a run ({net:+.3})");
            promises.push(promise(&what, net > HONEST_RUN - ROUNDING));
        }
    }

    /// Liars and checkers that accept their lies are one party: what one gains by vouching and the
    /// other loses by being caught is added up. No such party earns as much as honest owners.
    fn promise_friends(&self, promises: &mut Vec<Promise>) {
        if !self.scenario.ploys.iter().all(|ploy| ploy.lies()) {
            return;
        }
        let total = |is_asked: fn(&str) -> bool| {
            let lines = self.tally.lines.iter().filter(|((_, name), _)| is_asked(name));
            lines.map(|(_, line)| line.net() * line.count as f64).sum::<f64>()
        };
        let honest = total(|name| name == "honest") / (PARTIES - DISHONEST) as f64;
        let friends = total(|name| name != "honest" && name != "stranger") / DISHONEST as f64;
        let variance: f64 = self.tally.all_lies().iter().map(|it| it * (1.0 - it)).sum();
        let error = STAKES * variance.sqrt() / DISHONEST as f64;
        let what = format!(
            "liars and their friends earn less than honest owners ({friends:+.1} against \
             {honest:+.1} for each)"
        );
        promises.push(Promise { what, verdict: less(friends, honest, error) });
    }

    /// No checker that shirks on its own earns more than an honest one, and objecting to what is
    /// right loses.
    fn promise_checks(&self, promises: &mut Vec<Promise>) {
        let honest = self.checking(Checker::Honest);
        let objections = self.line(Role::Challenge, Checker::Honest.name()).count as f64;
        let error = BOUNTY * (objections + 1.0).sqrt() / honest.count.max(1) as f64;
        for checker in self.scenario.checkers.iter().filter(|checker| checker.is_alone()) {
            let line = self.checking(*checker);
            if line.count > 0 && honest.count > 0 {
                let (net, honest) = (line.net(), honest.net());
                let what = format!(
                    "a checker that {} earns no more than an honest one ({net:+.3} against \
                     {honest:+.3})",
                    checker.does()
                );
                promises.push(Promise { what, verdict: no_more(net, honest, error) });
            }
        }
        self.promise_greed(promises);
        let allied = self.checking(Checker::Allied);
        if allied.count > 0 {
            let gain = allied.net() - honest.net();
            let what = format!("checkers that share the work gain {gain:+.3} with a check");
            promises.push(promise(&what, gain <= ALLIES_GAIN_MAX + ROUNDING));
        }
        let stranger = self.line(Role::Challenge, "stranger");
        if stranger.count > 0 && !self.scenario.checkers.contains(&Checker::Frames) {
            let what = format!("objecting to right results loses ({:+.1})", stranger.net());
            promises.push(promise(&what, stranger.net() < 0.0));
        }
    }

    /// Recomputing a run of which tiles were shown pays only where computing is cheap.
    fn promise_greed(&self, promises: &mut Vec<Promise>) {
        let [greedy, honest] =
            [Checker::Greedy, Checker::Honest].map(|it| self.line(Role::Check, it.name()));
        if greedy.count == 0 || honest.count == 0 {
            return;
        }
        let below = greedy.pays_below(&honest).unwrap_or(f64::INFINITY);
        let what = format!(
            "recomputing what was shown pays only where a run costs less than {:.1} % of its pay",
            100.0 * below
        );
        promises.push(promise(&what, below < GREED_PAYS_BELOW + ROUNDING));
    }

    /// Complaining about what opens loses.
    fn promise_complaints(&self, promises: &mut Vec<Promise>) {
        let client = self.line(Role::Challenge, CLIENT);
        if client.count > 0 {
            let what = format!("complaining about good results loses ({:+.1})", client.net());
            promises.push(promise(&what, client.net() < 0.0));
        }
    }

    /// One object.
    pub(super) fn to_json(&self) -> Value {
        let tally = &self.tally;
        let lines = tally.lines.iter().map(|((role, name), line)| {
            json!({
                "role": role.name(), "who": name, "count": line.count,
                "income": line.income.to_string(), "cost": line.cost.to_string(),
                "net_per_pay": round(line.net()),
                "pays_above_cost_share": line.break_even().map(round),
            })
        });
        let promises = self.promises();
        let with = |verdict: Verdict| {
            let found = promises.iter().filter(move |promise| promise.verdict == verdict);
            found.map(|promise| promise.what.clone()).collect::<Vec<_>>()
        };
        let lies = tally.all_lies();
        let mean: f64 = lies.iter().sum();
        json!({
            "tier": tier_name(self.scenario.tier),
            "scenario": self.scenario.name,
            "seed": self.seed,
            "jobs": tally.jobs,
            "settled": tally.settled,
            "failed": tally.failed,
            "expired": tally.expired,
            "blocks": tally.blocks,
            "lies": lies.len(),
            "lies_accepted": tally.lies_accepted,
            "lies_accepted_bound": mean,
            "chance_under_bound": self.chance(),
            "detection_sigma": finite(self.sigma()),
            "disputes": tally.disputes,
            "claims_picked": tally.picks,
            "disputes_won_by_honest": tally.won,
            "fees_per_won_dispute": tally.won_fees.checked_div(tally.won),
            "honest_slashed": tally.honest_slashed,
            "honest_fined": tally.honest_fined,
            "honest_bonds_lost": tally.honest_bonds_lost,
            "refused": tally.refused,
            "earnings": lines.collect::<Vec<_>>(),
            "violations": self.violations.iter()
                .map(|(seed, found)| format!("TG_SEED={seed} {found}")).collect::<Vec<_>>(),
            "exercised": self.exercises().iter().map(|it| json!({
                "what": it.trigger.name(), "least": it.least, "fired": it.fired,
            })).collect::<Vec<_>>(),
            "broken": with(Verdict::Broken),
            "not_exercised": with(Verdict::NotExercised),
            "unclear": with(Verdict::Unclear),
        })
    }

    /// The line of a table.
    pub(super) fn to_row(&self) -> String {
        let tally = &self.tally;
        let lies = tally.all_lies();
        let (lies, mean) = (lies.len(), lies.iter().fold(0.0, |sum, chance| sum + chance));
        let noticed = 100.0 - 100.0 * tally.lies_accepted as f64 / lies.max(1) as f64;
        let theory = 100.0 - 100.0 * mean / lies.max(1) as f64;
        let name = self.scenario.title();
        let detection = if lies == 0 {
            "-".to_owned()
        } else {
            format!("{noticed:.2}/{theory:.2} % {:+.1}", self.sigma())
        };
        format!(
            "{name:<25} {:>6} {:>6} {lies:>5} {:>6} {mean:>9.3} {:>7.1e} {detection:>21} \
             {:>4} {:>5} {:>5}",
            tally.jobs,
            tally.settled,
            tally.lies_accepted,
            self.chance(),
            tally.honest_slashed,
            tally.honest_bonds_lost,
            tally.honest_fined,
        )
    }

    /// Who earned what, a line each.
    pub(super) fn to_earnings(&self) -> Vec<String> {
        let name = self.scenario.title();
        let line = |((role, who), line): (&(Role, &'static str), &Line)| {
            let even = if *role == Role::Run { line.break_even() } else { None };
            format!(
                "{name:<25} {:<10} {who:<12} {:>8} {:>+10.3} {:>12}",
                role.name(),
                line.count,
                line.net(),
                even.map_or("-".to_owned(), |share| format!("{:.0} %", 100.0 * share)),
            )
        };
        self.tally.lines.iter().map(line).collect()
    }
}

/// The head of the table.
pub(super) fn head() -> String {
    format!(
        "{:<25} {:>6} {:>6} {:>5} {:>6} {:>9} {:>7} {:>21} {:>4} {:>5} {:>5}",
        "scenario",
        "jobs",
        "done",
        "lies",
        "passed",
        "bound",
        "chance",
        "noticed/theory sigma",
        "slsh",
        "bonds",
        "fined",
    )
}

/// What happened, how often at least it had to, and whether that was so: a line each.
pub(super) fn exercise_rows(outcome: &Outcome) -> Vec<String> {
    let name = outcome.scenario.title();
    let row = |it: &Exercise| {
        let word = if it.is_enough() { "" } else { " not exercised" };
        format!("{name:<25} {:<35} {:>7} {:>7}{word}", it.trigger.name(), it.least, it.fired)
    };
    outcome.exercises().iter().map(row).collect()
}

/// The head of the table of what happened.
pub(super) fn exercise_head() -> String {
    format!("{:<25} {:<35} {:>7} {:>7}", "scenario", "what happened", "least", "times")
}

/// The head of the table of earnings.
pub(super) fn earnings_head() -> String {
    format!(
        "{:<25} {:<10} {:<12} {:>8} {:>10} {:>12}",
        "scenario", "role", "who", "times", "net", "pays above"
    )
}

fn promise(what: &str, holds: bool) -> Promise {
    let verdict = if holds { Verdict::Kept } else { Verdict::Broken };
    Promise { what: what.to_owned(), verdict }
}

/// Whether the first is less; if it is hardly less, that says nothing.
fn less(first: f64, second: f64, error: f64) -> Verdict {
    if first >= second {
        Verdict::Broken
    } else if first + ERRORS_MIN * error < second {
        Verdict::Kept
    } else {
        Verdict::Unclear
    }
}

/// Whether the first is less or the same.
fn no_more(first: f64, second: f64, error: f64) -> Verdict {
    let is_same = (first - second).abs() < ROUNDING;
    if is_same { Verdict::Kept } else { less(first, second, error) }
}

/// What was counted for a seed, by the group of its scenarios.
#[derive(Default)]
pub(super) struct SeedSum {
    groups: BTreeMap<Group, Tally>,
    violations: usize,
}

impl SeedSum {
    /// Adds what a scenario came to with this seed.
    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.groups.entry(outcome.scenario.group()).or_default().add(&outcome.tally);
        self.violations += outcome.violations.len();
    }

    /// The line of a table.
    pub(super) fn to_row(&self, seed: u64) -> String {
        let mut row = format!("{seed:>4}");
        for group in Group::ALL {
            let none = Tally::default();
            let tally = self.groups.get(&group).unwrap_or(&none);
            let lies = tally.all_lies();
            let bound = lies.iter().fold(0.0, |sum, chance| sum + chance);
            let digits = if group == Group::Sync { 3 } else { 1 };
            let passed = tally.lies_accepted;
            row += &format!(" {:>6} {passed:>6} {bound:>7.digits$}", lies.len());
        }
        let all = |count: fn(&Tally) -> u64| self.groups.values().map(count).sum::<u64>();
        let jobs = all(|tally| tally.jobs);
        let (slashed, bonds) = (all(|it| it.honest_slashed), all(|it| it.honest_bonds_lost));
        row + &format!(" {jobs:>6} {slashed:>4} {bonds:>5} {:>6}", self.violations)
    }
}

/// The head of the table of seeds.
pub(super) fn seeds_head() -> String {
    let each = format!(" {:>6} {:>6} {:>7}", "lies", "passed", "bound");
    let heads = ["audit", "audit, 4 tiles", "sync", "two checkers"].map(|it| format!(" {it:>21}"));
    format!(
        "{:>4}{}\n{:>4}{} {:>6} {:>4} {:>5} {:>6}",
        "",
        heads.concat(),
        "seed",
        each.repeat(heads.len()),
        "jobs",
        "slsh",
        "bonds",
        "broken",
    )
}

fn round(number: f64) -> f64 {
    (number * 10_000.0).round() / 10_000.0
}

/// JSON has no infinity.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then(|| round(number))
}
