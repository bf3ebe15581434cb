//! `tg-sim`: runs simulated networks from seeds, on several threads, and reports what did not hold.
//!
//! Seeds do not know of each other: each has its own runtime on its own thread, so the result of a
//! seed never depends on which others run beside it.

mod args;
mod audit;
mod book;
mod client;
mod closing;
mod hostile;
mod jobs;
mod judge;
mod log;
mod planted;
mod report;
mod run;
mod scan;
mod storm;
mod trace;
mod violation;
mod worker;
mod workload;
mod world;

use args::{Args, Command};
use clap::Parser as _;
use planted::Plant;
use report::{Report, Summary};
use serde_json::json;
use std::{
    process::ExitCode,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Instant,
};

/// Stack of a thread that runs seeds: the engine's futures are large.
const STACK_BYTES: usize = 32 << 20;

/// Finished runs waiting to be printed.
const REPORTS_MAX: usize = 64;

const DONE: u8 = 0;
const FAILED: u8 = 1;
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(filter) = &args.log {
        log::print(filter);
    }
    if let Some(Command::Jobs(args)) = &args.command {
        return ExitCode::from(match jobs::run(args) {
            Some(true) => DONE,
            Some(false) => FAILED,
            None => MISUSED,
        });
    }
    if args.planted_all {
        return ExitCode::from(plant_all(&args));
    }
    match &args.plant {
        Some(name) => match Plant::all().into_iter().find(|plant| plant.name() == name) {
            Some(plant) => ExitCode::from(plant_one(&args, plant)),
            None => ExitCode::from(unknown_plant(name)),
        },
        None => ExitCode::from(run_seeds(&args)),
    }
}

/// The seeds asked for.
fn seeds(args: &Args) -> std::ops::Range<u64> {
    match args.seed {
        Some(seed) => seed..seed.saturating_add(1),
        None => args.first..args.first.saturating_add(args.seeds),
    }
}

/// Runs seeds on threads and hands over every report as it comes; stops early if told so.
fn each(args: &Args, plant: Option<Plant>, mut take: impl FnMut(Report) -> bool) {
    let seeds = seeds(args);
    let (next, stop) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let (sender, reports) = mpsc::sync_channel(REPORTS_MAX);
    thread::scope(|scope| {
        for _ in 0..args.threads.max(1) {
            let (sender, seeds, next, stop) = (sender.clone(), &seeds, &next, &stop);
            let worker = move || {
                while !stop.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) || sender.send(run_seed(seed, plant)).is_err() {
                        return;
                    }
                }
            };
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            builder.spawn_scoped(scope, worker).expect("the system gives threads");
        }
        drop(sender);
        for report in reports {
            if !take(report) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
}

/// Runs one seed: a whole network, or the courts alone if the bug is there.
fn run_seed(seed: u64, plant: Option<Plant>) -> Report {
    match plant.filter(|plant| plant.is_in_court()) {
        Some(plant) => {
            let violations = jobs::find(seed, plant).into_iter().collect();
            Report { violations, ..Report::empty(seed) }
        }
        None => run::run(seed, plant),
    }
}

fn run_seeds(args: &Args) -> u8 {
    let began = Instant::now();
    let mut summary = Summary::default();
    each(args, None, |report| {
        if args.json {
            println!("{}", report.to_json());
        } else {
            eprintln!("{}", report.to_line());
        }
        summary.add(&report);
        true
    });
    let wall_s = began.elapsed().as_secs_f64();
    if !args.json {
        println!("{}", summary.to_text(wall_s));
    } else if args.seed.is_none() {
        println!("{}", summary.to_json(wall_s));
    }
    if summary.failed.is_empty() { DONE } else { FAILED }
}

/// Runs seeds with a planted bug until one finds it; the lowest such seed wins.
fn find(args: &Args, plant: Plant) -> (Option<Report>, u64) {
    let mut found: Option<Report> = None;
    let mut tried = 0;
    each(args, Some(plant), |report| {
        tried += 1;
        if !report.violations.is_empty()
            && found.as_ref().is_none_or(|earlier| report.seed < earlier.seed)
        {
            found = Some(report);
        }
        found.is_none()
    });
    (found, tried)
}

fn plant_one(args: &Args, plant: Plant) -> u8 {
    let began = Instant::now();
    let (found, tried) = find(args, plant);
    let seconds = began.elapsed().as_secs_f64();
    let name = plant.name();
    let seed = found.as_ref().map(|report| report.seed);
    let how = found.as_ref().and_then(|report| report.violations.first());
    if args.json {
        let how = how.map(ToString::to_string);
        let object = json!({
            "plant": name, "found_at_seed": seed, "how": how, "tried": tried, "real_s": seconds,
        });
        println!("{object}");
    } else {
        match (seed, how) {
            (Some(seed), Some(how)) => {
                println!("{name:<20} found by seed {seed:>3} in {seconds:>5.1} s: {how}");
            }
            _ => println!("{name:<20} NOT FOUND by {tried} seeds in {seconds:.1} s"),
        }
    }
    if found.is_some() { DONE } else { FAILED }
}

fn plant_all(args: &Args) -> u8 {
    if Plant::all().is_empty() {
        return unknown_plant("any bug");
    }
    let codes = Plant::all().into_iter().map(|plant| plant_one(args, plant));
    codes.max().unwrap_or(DONE)
}

fn unknown_plant(name: &str) -> u8 {
    let known: Vec<&str> = Plant::all().into_iter().map(Plant::name).collect();
    eprintln!("error: cannot plant {name}");
    if known.is_empty() {
        eprintln!("hint: this build has no bugs to plant; build with --features planted-bugs");
    } else {
        eprintln!("hint: choose one of {}", known.join(", "));
    }
    MISUSED
}
