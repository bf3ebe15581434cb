//! The economy of verification on the real ledger with the real tensor engine, without a network:
//! providers, checkers and challengers, some of whom lie in every way we know of.
//!
//! For every scenario it is said before the run how likely a lie may pass; afterwards how many did,
//! how likely that is, and what honesty and lies have earned. What was promised and did not hold
//! makes the run fail, and so does what did not happen often enough to say anything.

mod cast;
mod checker;
mod complaint;
mod court;
mod grid;
mod plan;
mod play;
mod provider;
mod report;
mod tally;
mod tensor;
mod theory;
mod trigger;

use crate::{
    args::JobsArgs,
    planted::Plant,
    violation::{Invariant, Violation},
};
use plan::{COST_PERCENT, DISHONEST, PARTIES, Scenario, tier_name};
use play::Play;
use report::{Outcome, SeedSum, Verdict};
use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Instant,
};
use tally::Tally;
use tg_types::params::Params;

/// Finished runs waiting to be counted.
const OUTCOMES_MAX: usize = 64;

/// Jobs of a run that looks for a planted bug.
const PLANT_JOBS: u64 = 120;

/// Runs all scenarios that are asked for; says whether every promise holds, or that none is known.
pub(crate) fn run(args: &JobsArgs) -> Option<bool> {
    let is_asked = |scenario: &Scenario| {
        let tier = args.tier.as_ref().is_none_or(|tier| tier == tier_name(scenario.tier));
        tier && args.scenario.as_ref().is_none_or(|name| name == scenario.name)
    };
    let mut scenarios: Vec<Scenario> = plan::all().into_iter().filter(is_asked).collect();
    for scenario in &mut scenarios {
        scenario.is_armed = !args.disarmed;
    }
    if scenarios.is_empty() {
        let names: Vec<&str> = plan::all().iter().map(|scenario| scenario.name).collect();
        eprintln!("error: no such scenario");
        eprintln!("hint: tiers are audit and sync, scenarios {}", names.join(", "));
        return None;
    }
    let began = Instant::now();
    if !args.json {
        introduce(args);
    }
    let mut ending = Ending::default();
    for scenario in &scenarios {
        if !args.json {
            announce(scenario);
        }
        let (outcome, parts) = run_scenario(args, scenario);
        ending.add(&outcome, &parts);
        if args.json {
            println!("{}", outcome.to_json());
        } else {
            println!("{}", outcome.to_row());
        }
    }
    if !args.json {
        ending.print(began.elapsed().as_secs_f64());
    }
    Some(ending.broken.is_empty() && ending.idle.is_empty())
}

/// What is said after all scenarios.
#[derive(Default)]
struct Ending {
    broken: Vec<String>,
    unclear: Vec<String>,
    /// What was not exercised.
    idle: Vec<String>,
    exercises: Vec<String>,
    earnings: Vec<String>,
    seeds: BTreeMap<u64, SeedSum>,
}

impl Ending {
    /// Adds what a scenario came to, in all and with each seed.
    fn add(&mut self, outcome: &Outcome, parts: &[Outcome]) {
        for part in parts {
            self.seeds.entry(part.seed.unwrap_or(0)).or_default().add(part);
        }
        let name = outcome.scenario.title();
        for promise in outcome.promises() {
            let what = promise.what;
            match promise.verdict {
                Verdict::Kept => {}
                Verdict::Broken => self.broken.push(format!("{name}: not so: {what}")),
                Verdict::Unclear => self.unclear.push(format!("{name}: {what}")),
                Verdict::NotExercised => self.idle.push(format!("{name}: {what}")),
            }
        }
        for (seed, found) in &outcome.violations {
            self.broken.push(format!("{name}: TG_SEED={seed} {found}"));
        }
        self.earnings.extend(outcome.to_earnings());
        self.exercises.extend(report::exercise_rows(outcome));
    }

    fn print(&self, seconds: f64) {
        let rows: Vec<String> = self.seeds.iter().map(|(seed, sum)| sum.to_row(*seed)).collect();
        println!("\n{}\n{}", report::seeds_head(), rows.join("\n"));
        println!("\n{}\n{}", report::earnings_head(), self.earnings.join("\n"));
        println!(
            "net is what each time earned after computing, in multiples of a run's pay; it pays \
             if computing a run costs more than that share of its pay\n"
        );
        println!("{}\n{}\n", report::exercise_head(), self.exercises.join("\n"));
        self.unclear.iter().for_each(|line| println!("UNCLEAR {line}"));
        self.idle.iter().for_each(|line| println!("NOT EXERCISED {line}"));
        self.broken.iter().for_each(|line| println!("BROKEN {line}"));
        let [broken, idle, unclear] = [&self.broken, &self.idle, &self.unclear].map(Vec::len);
        println!(
            "{broken} promises broken, {idle} not exercised, {unclear} unclear; {seconds:.0} s"
        );
    }
}

fn introduce(args: &JobsArgs) {
    println!(
        "seeds {} to {} of {} jobs each; {DISHONEST} of {PARTIES} owners with the same stake are \
         dishonest; computing a run of {} tiles costs {COST_PERCENT} % of its pay\n{}",
        args.first,
        args.first.saturating_add(args.seeds).saturating_sub(1),
        args.jobs,
        tensor::TILES,
        report::head()
    );
}

/// Says before a run how likely lies may pass.
fn announce(scenario: &Scenario) {
    let mut params = Params::local().jobs;
    params.sync_checkers = scenario.checkers_drawn.unwrap_or(params.sync_checkers);
    let others = (PARTIES - DISHONEST, DISHONEST - 1);
    for ploy in scenario.ploys.iter().filter(|ploy| ploy.lies()) {
        let wrong = provider::wrong_tiles(*ploy);
        let odds = provider::odds(&params, scenario, (*ploy, wrong), others);
        let (title, ploy, chance) = (scenario.title(), ploy.name(), odds.accepted());
        eprintln!("{title}: {ploy} passes with at most {chance:.3e} at the first try");
    }
}

/// Runs a scenario with all seeds; gives the sum and what each came to.
fn run_scenario(args: &JobsArgs, scenario: &Scenario) -> (Outcome, Vec<Outcome>) {
    let mut sum = Outcome {
        scenario: *scenario,
        seed: None,
        tally: Tally::default(),
        violations: Vec::new(),
    };
    let seeds = args.first..args.first.saturating_add(args.seeds);
    let next = AtomicU64::new(seeds.start);
    let (sender, outcomes) = mpsc::sync_channel(OUTCOMES_MAX);
    let mut parts: Vec<Outcome> = Vec::new();
    thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            let (sender, next, seeds) = (sender.clone(), &next, &seeds);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        return;
                    }
                    if sender.send(run_seed(scenario, seed, args.jobs, None)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        parts.extend(outcomes);
    });
    parts.sort_by_key(|part| part.seed);
    for part in &parts {
        if args.json {
            println!("{}", part.to_json());
        }
        sum.tally.add(&part.tally);
        sum.violations.extend(part.violations.iter().cloned());
    }
    (sum, parts)
}

fn run_seed(scenario: &Scenario, seed: u64, jobs: u64, plant: Option<Plant>) -> Outcome {
    let (tally, found) = Play::new(scenario, seed, jobs, plant).run();
    let violations = found.into_vec().into_iter().map(|found| (seed, found)).collect();
    Outcome { scenario: *scenario, seed: Some(seed), tally, violations }
}

/// Looks for a planted bug with one seed: what does not hold although it holds without the bug.
pub(crate) fn find(seed: u64, plant: Plant) -> Option<Violation> {
    for scenario in plan::all().iter().filter(|scenario| scenario.name == "mixed") {
        let outcome = run_seed(scenario, seed, PLANT_JOBS, Some(plant));
        if let Some((_, found)) = outcome.violations.into_iter().next() {
            return Some(found);
        }
        if outcome.tally.honest_slashed > 0 {
            let detail = format!("{} honest nodes were slashed", outcome.tally.honest_slashed);
            let invariant = Invariant::Slashing;
            return Some(Violation { invariant, detail });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{
        plan::{self, Checker, Scenario},
        run_seed,
        trigger::Trigger,
    };

    /// Whether something happens often enough in 60 jobs of a scenario of tier `sync`, as it is and
    /// as changed.
    fn check(name: &str, trigger: Trigger, change: impl FnOnce(&mut Scenario)) {
        let is_asked = |it: &Scenario| it.title() == format!("sync/{name}");
        let as_is = plan::all().into_iter().find(is_asked).expect("a scenario");
        let mut changed = as_is;
        change(&mut changed);
        for (scenario, expected) in [(as_is, true), (changed, false)] {
            let outcome = run_seed(&scenario, 1, 60, None);
            let exercises = outcome.exercises();
            let found = exercises.iter().find(|it| it.trigger == trigger).expect("it is asked for");
            assert_eq!(found.is_enough(), expected, "{name}: {} times", found.fired);
        }
    }

    /// Goal: a scenario with one part missing does not count as played, although all others do
    /// their part. Method: friends that wait for objections, and nobody who objects.
    #[test]
    fn scenarios_with_a_part_missing_are_not_exercised() {
        check("mute", Trigger::FriendFell, |it| it.checkers = &[Checker::Accepts]);
        check("away", Trigger::StoodIn, |it| it.has_challengers = false);
        check("framed", Trigger::Framed, |it| it.has_challengers = false);
        check("framed", Trigger::Framed, |it| it.is_armed = false);
    }
}
