//! Measuring the queue: completion times and deadlines against the policies of the literature on
//! recorded jobs, promises, and what learning is worth.

mod deadlines;
mod ours;
mod replay;
mod rods;
mod routing;
mod trace;

use super::record;
use crate::{
    args::{BenchDeadlinesArguments, BenchJctArguments, BenchRoutingArguments},
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, lines},
};
use ours::Ours;
use replay::{Clock, Outcome, replay};
use rods::{Order, Rod};
use serde::Serialize;
use tg_scheduler::queue::{Board, Settings};
use trace::{Job, Recorded};

/// What the help says about `bench jct`.
pub(crate) const LONG_ABOUT: &str = "\
Measure job completion times and deadlines

Replays recorded jobs on machines of 8 GPUs: gangs start whole, rounds of 60 s, an interruption \
costs 60 s. Deadlines are drawn for every seed: 1.2 and an exponentially distributed number of \
mean 1 times the duration, at most 10 times, from the round on in which a job is known. All \
policies are told the same estimates, which are off by a log-normal factor (--sigma). Ours is the \
queue of the network itself; it refuses nobody. All jobs have the same bid.

curve: mixtures of SRSF and EDF, weight of EDF from 0 to 1, of the logarithms of remaining \
GPU-time and time to the deadline (`log`) and of these themselves over their means (`linear`).
above_curve_pct: GPU-hours on time of ours less those of the best mixture that has no longer \
completion time, or lies on the line between two mixtures there.

The file has columns timestamp, duration (s) and num_gpus and may be compressed with gzip. \
Without one, jobs are made up.";

/// What the help says about `bench deadlines`.
pub(crate) const DEADLINES_ABOUT: &str = "\
Measure promised deadlines

Random jobs ask for a promise on 48 machines of 8 GPUs; together they declare 160 % of what there \
is and need 115 %. First without failures, then with a machine that fails every few hours.

accepted_pct: promised jobs over those whose deadlines preemptive EDF meets that knows the true \
durations, restarts for nothing, spreads gangs at will and drops who cannot make it any more.
broken: promises broken without a word; compensated: those that the queue said it breaks.";

/// What the help says about `bench routing`.
pub(crate) const ROUTING_ABOUT: &str = "\
Measure what it is worth to learn run times and failures

Jobs of 12 programs with biased estimates on 4 kinds of GPUs that suit them more or less, where \
one machine in 8 fails jobs. The same jobs with learning and without. All made up.";

const HINT: &str = "see `bench jct --help` for what the file holds";
const CLOCK: Clock = Clock { round: 60_000, restart: 60_000 };
const NODE_SIZE: u16 = 8;

/// How a policy did, mean over all seeds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Score {
    mean_jct_s: f64,
    p99_jct_s: f64,
    on_time_jobs_pct: f64,
    on_time_gpu_hours_pct: f64,
    utilisation: f64,
    wait_max_s: f64,
    preemptions: f64,
    preemptions_max: f64,
}

impl Score {
    fn new(jobs: &[Job], outcome: &Outcome, gpus: u32) -> Self {
        let done = || jobs.iter().zip(&outcome.finished);
        let mut times: Vec<u64> = done().map(|(job, end)| end - job.submitted).collect();
        times.sort_unstable();
        let count = jobs.len() as f64;
        let work = |job: &Job| job.duration as f64 * f64::from(job.gpus);
        let on_time = || done().filter(|(job, end)| **end <= job.deadline).map(|(job, _)| job);
        let all: f64 = jobs.iter().map(work).sum();
        let last = outcome.last.max(1) as f64;
        Self {
            mean_jct_s: times.iter().sum::<u64>() as f64 / count / 1_000.0,
            p99_jct_s: times[(times.len() - 1) * 99 / 100] as f64 / 1_000.0,
            on_time_jobs_pct: 100.0 * on_time().count() as f64 / count,
            on_time_gpu_hours_pct: 100.0 * on_time().map(work).sum::<f64>() / all,
            utilisation: outcome.useful as f64 / (last * f64::from(gpus)),
            wait_max_s: outcome.wait_max as f64 / 1_000.0,
            preemptions: outcome.preemptions as f64,
            preemptions_max: f64::from(outcome.preemptions_max),
        }
    }

    fn mean(scores: &[Self]) -> Self {
        let count = scores.len() as f64;
        let mean = |of: fn(&Self) -> f64| scores.iter().map(of).sum::<f64>() / count;
        Self {
            mean_jct_s: mean(|score| score.mean_jct_s),
            p99_jct_s: mean(|score| score.p99_jct_s),
            on_time_jobs_pct: mean(|score| score.on_time_jobs_pct),
            on_time_gpu_hours_pct: mean(|score| score.on_time_gpu_hours_pct),
            utilisation: mean(|score| score.utilisation),
            wait_max_s: mean(|score| score.wait_max_s),
            preemptions: mean(|score| score.preemptions),
            preemptions_max: mean(|score| score.preemptions_max),
        }
    }
}

/// A mixture of SRSF and EDF.
#[derive(Clone, Copy, Debug, Serialize)]
struct Mixture {
    mix: &'static str,
    weight: f64,
    mean_jct_s: f64,
    on_time_gpu_hours_pct: f64,
}

/// What was measured.
#[derive(Serialize)]
struct Figures {
    trace: String,
    jobs: usize,
    gpus: u32,
    sigma: f64,
    seeds: Vec<u64>,
    ours: Score,
    ours_without_learning: Score,
    fifo: Score,
    fifo_backfill: Score,
    srsf: Score,
    edf: Score,
    las_2d: Score,
    curve: Vec<Mixture>,
    above_curve_pct: f64,
    jct_over_srsf: f64,
    estimate_error_s: f64,
    learned_error_s: f64,
}

/// Carries out `bench jct`.
pub(crate) fn run(arguments: &BenchJctArguments, printer: &Printer) -> Result<Exit, Failure> {
    let (trace, recorded) = match &arguments.jobs {
        Some(path) => {
            let refused = format!("{} cannot be read as a list", path.display());
            let recorded = trace::parse(&record::read(path, HINT)?).or_fail(refused, HINT)?;
            (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), recorded)
        }
        None => ("made up".to_owned(), trace::stand_in(arguments.gpus)),
    };
    let fits = |job: &Recorded| u32::from(job.gpus) <= arguments.gpus;
    let recorded: Vec<Recorded> = recorded.into_iter().filter(fits).collect();
    let progress = printer.progress("replaying");
    let figures = measure(trace, &recorded, arguments);
    drop(progress);
    printer.result(&figures, || text(&figures));
    Ok(Exit::Done)
}

/// Carries out `bench deadlines`.
pub(crate) fn promises(
    arguments: &BenchDeadlinesArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let failing = Some(arguments.fails_every_h * 3_600_000);
    for fails_every in [None, failing] {
        let figures = deadlines::measure(arguments.jobs, arguments.seed, fails_every);
        printer.result(&figures, || format!("{figures:#?}"));
    }
    Ok(Exit::Done)
}

/// What learning was worth.
#[derive(Serialize)]
struct Learning {
    jobs: usize,
    seeds: Vec<u64>,
    learned: routing::Figures,
    not_learned: routing::Figures,
    jct_better_pct: f64,
    error_better_pct: f64,
}

/// Carries out `bench routing`.
pub(crate) fn learning(
    arguments: &BenchRoutingArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let sum = |is_learning: bool| {
        let mut sum = routing::Figures::default();
        for seed in &arguments.seeds {
            let one = routing::measure(arguments.jobs, *seed, is_learning);
            sum.mean_jct_s += one.mean_jct_s / arguments.seeds.len() as f64;
            sum.mean_error_s += one.mean_error_s / arguments.seeds.len() as f64;
            sum.failures += one.failures / arguments.seeds.len() as f64;
        }
        sum
    };
    let (learned, not_learned) = (sum(true), sum(false));
    let better = |with: f64, without: f64| 100.0 * (without - with) / without;
    let figures = Learning {
        jobs: arguments.jobs,
        seeds: arguments.seeds.clone(),
        learned,
        not_learned,
        jct_better_pct: better(learned.mean_jct_s, not_learned.mean_jct_s),
        error_better_pct: better(learned.mean_error_s, not_learned.mean_error_s),
    };
    printer.result(&figures, || {
        let show = |figures: &routing::Figures| {
            let routing::Figures { mean_jct_s, mean_error_s, failures } = figures;
            format!("JCT {mean_jct_s:.0} s, error {mean_error_s:.0} s, {failures:.0} failures")
        };
        lines(&[
            ("jobs", format!("{} made up, {} seeds", figures.jobs, figures.seeds.len())),
            ("learning", show(&figures.learned)),
            ("without", show(&figures.not_learned)),
            (
                "better",
                format!(
                    "JCT {:.1} %, error {:.1} %",
                    figures.jct_better_pct, figures.error_better_pct
                ),
            ),
        ])
    });
    Ok(Exit::Done)
}

fn board(gpus: u32) -> Board {
    let mut board = Board::default();
    let (mut left, mut node) = (gpus, 0);
    while left > 0 {
        let size = left.min(u32::from(NODE_SIZE)) as u16;
        board.join(node, 0, size);
        (left, node) = (left - u32::from(size), node + 1);
    }
    board
}

fn measure(trace: String, recorded: &[Recorded], arguments: &BenchJctArguments) -> Figures {
    let (gpus, sigma, seeds) = (arguments.gpus, arguments.sigma, &arguments.seeds);
    let drawn: Vec<Vec<Job>> =
        seeds.iter().map(|seed| trace::draw(recorded, *seed, sigma, CLOCK.round)).collect();
    let rod = |order: Order| {
        let scores: Vec<Score> = drawn
            .iter()
            .map(|jobs| {
                let mut rod = Rod::new(order, board(gpus), CLOCK.restart);
                Score::new(jobs, &replay(jobs, CLOCK, &mut rod), gpus)
            })
            .collect();
        Score::mean(&scores)
    };
    let mut errors = (0.0, 0.0);
    let mut ours = |is_learning: bool| {
        let settings = Settings { is_learning, ..Settings::default() };
        let mut scores = Vec::new();
        for jobs in &drawn {
            let mut ours = Ours::new(gpus, NODE_SIZE, settings);
            scores.push(Score::new(jobs, &replay(jobs, CLOCK, &mut ours), gpus));
            if is_learning {
                for (job, expected) in jobs.iter().zip(&ours.expected) {
                    let count = (jobs.len() * drawn.len()) as f64 * 1_000.0;
                    errors.0 += job.estimate.abs_diff(job.duration) as f64 / count;
                    errors.1 += expected.abs_diff(job.duration) as f64 / count;
                }
            }
        }
        Score::mean(&scores)
    };
    let (with, without) = (ours(true), ours(false));
    let curve: Vec<Mixture> = ["log", "linear"]
        .into_iter()
        .flat_map(|mix| (0..=10).map(move |tenth| (mix, f64::from(tenth) / 10.0)))
        .map(|(mix, weight)| {
            let is_log = mix == "log";
            let score = rod(if is_log { Order::Mixed(weight) } else { Order::MixedLinear(weight) });
            let Score { mean_jct_s, on_time_gpu_hours_pct, .. } = score;
            Mixture { mix, weight, mean_jct_s, on_time_gpu_hours_pct }
        })
        .collect();
    let srsf = rod(Order::Srsf);
    Figures {
        trace,
        jobs: recorded.len(),
        gpus,
        sigma,
        seeds: seeds.clone(),
        ours: with,
        ours_without_learning: without,
        fifo: rod(Order::Fifo),
        fifo_backfill: rod(Order::Backfill),
        srsf,
        edf: rod(Order::Edf),
        las_2d: rod(Order::Las),
        above_curve_pct: with.on_time_gpu_hours_pct - best_at(&curve, with.mean_jct_s),
        curve,
        jct_over_srsf: with.mean_jct_s / srsf.mean_jct_s,
        estimate_error_s: errors.0,
        learned_error_s: errors.1,
    }
}

/// The most GPU-hours on time that mixtures have at a completion time: of one that is no longer, or
/// on the line between two. The least of all, if all are longer.
fn best_at(curve: &[Mixture], jct: f64) -> f64 {
    let point = |mixture: &Mixture| (mixture.mean_jct_s, mixture.on_time_gpu_hours_pct);
    let shorter = curve.iter().map(point).filter(|(time, _)| *time <= jct);
    let mut best = shorter.clone().map(|(_, hours)| hours).fold(f64::NEG_INFINITY, f64::max);
    for (start, low) in shorter {
        for (end, high) in curve.iter().map(point).filter(|(time, _)| *time > jct) {
            best = best.max(low + (high - low) * (jct - start) / (end - start));
        }
    }
    if best.is_finite() {
        return best;
    }
    curve.iter().map(|mixture| mixture.on_time_gpu_hours_pct).fold(f64::INFINITY, f64::min)
}

fn text(figures: &Figures) -> String {
    let show = |score: &Score| {
        format!(
            "JCT {:.0} s, p99 {:.0} s; on time {:.1} % of jobs, {:.1} % of GPU-hours; used {:.1} %",
            score.mean_jct_s,
            score.p99_jct_s,
            score.on_time_jobs_pct,
            score.on_time_gpu_hours_pct,
            100.0 * score.utilisation,
        )
    };
    let Figures { trace, jobs, gpus, sigma, seeds, .. } = figures;
    let error = format!(
        "{:.0} s of estimates, {:.0} s when learned",
        figures.estimate_error_s, figures.learned_error_s
    );
    lines(&[
        (
            "trace",
            format!("{trace}, {jobs} jobs, {gpus} GPUs, sigma {sigma}, {} seeds", seeds.len()),
        ),
        ("  ours", show(&figures.ours)),
        ("  not learning", show(&figures.ours_without_learning)),
        ("  SRSF", show(&figures.srsf)),
        ("  EDF", show(&figures.edf)),
        ("  2D-LAS", show(&figures.las_2d)),
        ("  FIFO, backfill", show(&figures.fifo_backfill)),
        ("  FIFO", show(&figures.fifo)),
        ("  above the curve", format!("{:.1} % of GPU-hours", figures.above_curve_pct)),
        ("  JCT over SRSF", format!("{:.3}", figures.jct_over_srsf)),
        ("  mean error", error),
    ])
}
