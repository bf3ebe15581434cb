//! The economy of verification on the real ledger with the real tensor engine, without a network:
//! providers, checkers and challengers, some of whom lie in every way we know of.
//!
//! For every scenario it is said before the run how likely a lie may pass; afterwards how many did,
//! how likely that is, and what honesty and lies have earned. What was promised and did not hold
//! makes the run fail.

mod cast;
mod checker;
mod court;
mod grid;
mod plan;
mod play;
mod provider;
mod report;
mod tally;
mod tensor;
mod theory;

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
    let scenarios: Vec<Scenario> = plan::all().into_iter().filter(is_asked).collect();
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
    let (mut broken, mut unclear) = (Vec::new(), Vec::new());
    let (mut earnings, mut seeds) = (Vec::new(), BTreeMap::<u64, SeedSum>::new());
    for scenario in &scenarios {
        if !args.json {
            announce(scenario);
        }
        let (outcome, parts) = run_scenario(args, scenario);
        for part in &parts {
            seeds.entry(part.seed.unwrap_or(0)).or_default().add(part);
        }
        let name = scenario.title();
        for promise in outcome.promises() {
            match promise.verdict {
                Verdict::Kept => {}
                Verdict::Broken => broken.push(format!("{name}: not so: {}", promise.what)),
                Verdict::Unclear => unclear.push(format!("{name}: {}", promise.what)),
            }
        }
        for (seed, found) in &outcome.violations {
            broken.push(format!("{name}: TG_SEED={seed} {found}"));
        }
        if args.json {
            println!("{}", outcome.to_json());
        } else {
            println!("{}", outcome.to_row());
            earnings.extend(outcome.to_earnings());
        }
    }
    if !args.json {
        let rows: Vec<String> = seeds.iter().map(|(seed, sum)| sum.to_row(*seed)).collect();
        println!("\n{}\n{}", report::seeds_head(), rows.join("\n"));
        println!("\n{}\n{}", report::earnings_head(), earnings.join("\n"));
        println!(
            "net is what each time earned after computing, in multiples of a run's pay; it pays \
             if computing a run costs more than that share of its pay\n"
        );
        unclear.iter().for_each(|line| println!("UNCLEAR {line}"));
        broken.iter().for_each(|line| println!("BROKEN {line}"));
        let seconds = began.elapsed().as_secs_f64();
        let (broken, unclear) = (broken.len(), unclear.len());
        println!("{broken} promises broken, {unclear} unclear; {seconds:.0} s");
    }
    Some(broken.is_empty())
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
