//! Measuring what partitions made on demand give out, against the best fixed ones, on the same
//! tasks in the same order.

mod bound;
mod fixed;
mod replay;
mod tasks;

use super::draws::Draws;
use super::record;
use crate::{
    args::BenchMigArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, lines},
};
use fixed::{Found, Search};
use replay::Demanded;
use serde::Serialize;
use tasks::{Lifetimes, Load, Sequence, Task};
use tg_scheduler::packing::GPU_MILLI;

/// What the help says about `bench mig`.
pub(crate) const LONG_ABOUT: &str = "\
Measure what partitions made on demand give out, against the best fixed partition

A simulation: no GPU is used. The fleet is of A100s in machines of eight. Tasks are those of the \
lists that want one GPU or less (num_gpu 1), with --shares those that want less; gpu_milli is what \
they demand. They are taken as many times as there are, drawn with replacement by the seed, and \
come in the order of their creation, evenly spaced. They run as long as recorded (deletion_time \
less creation_time), where a few tasks that hardly end have most of the time of all, or for a \
drawn time (exponential, mean 1 h). The spacing is such that, if nobody had to wait, they would \
demand 100 % (then 130 %) of the fleet on average over the window, which ends with the last \
arrival.

ours: the scheduler's pool starts tasks, each in the smallest partition that covers it, made when \
it starts and removed when it ends, or on a whole GPU if no partition covers it. Of the tasks that \
wait it starts those that fill a GPU best together, and nobody is passed over for ever.
index: the same with the scheduler's index, which looks at one task after the other in the order \
in which they came.
static: every GPU has one division into partitions all the time; a task takes the smallest free \
partition that covers it. Which GPUs have which division is searched for on the very same \
sequence, knowing all of it: hill climbing, one GPU at a time, from 4 random partitions and from \
all that divide every GPU alike, until no change of one GPU helps; with and without small tasks in \
partitions larger than the smallest size that covers them.
same: the best static partition that divides every GPU alike, of all there are, as MISO (Li et \
al., SoCC'22) compares itself with.
ordered: the best static partition if the task that demands most goes first, found by climbing \
from the best one and from undivided GPUs.
For static, same and index, tasks wait in one queue, in which the first that has a place goes \
first. Making and removing partitions takes no time, and a running task is never moved.
bound: what no policy can exceed, with tasks that may be stopped, split and moved at will.

Each figure is the time average of the thousandths demanded by running tasks, as a share of the \
fleet, in percent; ratio is ours by static, ratio_same ours by same, ratio_ordered ours by \
ordered, ratio_max bound by static. One line for each list, lifetimes and load.

Files may be compressed with gzip.";

/// What is offered, in percent of the fleet.
const LOADS: [u64; 2] = [100, 130];
/// How long tasks run.
const LIFETIMES: [Lifetimes; 2] = [Lifetimes::Recorded, Lifetimes::Drawn];
/// Keeps the seeds of sequences and of searches apart.
const SEED_STEP: u64 = 7_919;
const HINT: &str = "see `bench mig --help` for what the files hold";

/// What was measured on one list at one load.
#[derive(Serialize)]
struct Figures {
    trace: String,
    lifetimes: &'static str,
    shares_only: bool,
    gpus: u32,
    load: u64,
    seeds: u64,
    first_seed: u64,
    tasks: usize,
    runs: Vec<Run>,
    ours: f64,
    index: f64,
    #[serde(rename = "static")]
    fixed: f64,
    same: f64,
    ordered: f64,
    bound: f64,
    ratio: f64,
    ratio_min: f64,
    ratio_same: f64,
    ratio_same_min: f64,
    ratio_ordered: f64,
    ratio_ordered_min: f64,
    ratio_max: f64,
    simulated: bool,
}

/// What was measured with one seed.
#[derive(Serialize)]
struct Run {
    seed: u64,
    ours: f64,
    index: f64,
    #[serde(rename = "static")]
    fixed: f64,
    same: f64,
    ordered: f64,
    /// What no policy can exceed.
    bound: f64,
    ratio: f64,
    ratio_same: f64,
    ratio_ordered: f64,
    ratio_max: f64,
    /// The partition that was found: compute slices of the divisions, and how many GPUs have each.
    partition: Vec<(String, u32)>,
    /// The best division of all GPUs alike.
    division: String,
    evaluations: u32,
}

/// Carries out `bench mig`.
pub(crate) fn run(arguments: &BenchMigArguments, printer: &Printer) -> Result<Exit, Failure> {
    for path in &arguments.tasks {
        let what = format!("{} cannot be read as a list of tasks", path.display());
        let mut tasks = tasks::parse(&record::read(path, HINT)?).or_fail(what, HINT)?;
        if arguments.shares {
            tasks.retain(|task| task.milli < GPU_MILLI);
            if tasks.is_empty() {
                let what = format!("{} has no task that wants less than a GPU", path.display());
                return Err(Failure::new(what, HINT));
            }
        }
        let cases = LIFETIMES.iter().flat_map(|lifetimes| LOADS.map(|load| (*lifetimes, load)));
        for (lifetimes, load) in cases {
            let progress = printer.progress("replaying");
            let figures = figures(record::trace_name(path), &tasks, (lifetimes, load), arguments);
            drop(progress);
            printer.result(&figures, || text(&figures));
        }
    }
    Ok(Exit::Done)
}

fn figures(
    trace: String,
    tasks: &[Task],
    (lifetimes, load): (Lifetimes, u64),
    arguments: &BenchMigArguments,
) -> Figures {
    let &BenchMigArguments { gpus, seeds, first_seed, shares, .. } = arguments;
    let all = first_seed..first_seed.saturating_add(seeds);
    let offered = Load { gpus, percent: load };
    let runs: Vec<Run> = all.map(|seed| one(tasks, lifetimes, offered, seed)).collect();
    let mean = |of: fn(&Run) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    let least = |of: fn(&Run) -> f64| runs.iter().map(of).fold(f64::INFINITY, f64::min);
    Figures {
        trace,
        lifetimes: match lifetimes {
            Lifetimes::Recorded => "recorded",
            Lifetimes::Drawn => "drawn",
        },
        shares_only: shares,
        gpus,
        load,
        seeds,
        first_seed,
        tasks: tasks.len(),
        ours: mean(|run| run.ours),
        index: mean(|run| run.index),
        fixed: mean(|run| run.fixed),
        same: mean(|run| run.same),
        ordered: mean(|run| run.ordered),
        bound: mean(|run| run.bound),
        ratio: mean(|run| run.ratio),
        ratio_min: least(|run| run.ratio),
        ratio_same: mean(|run| run.ratio_same),
        ratio_same_min: least(|run| run.ratio_same),
        ratio_ordered: mean(|run| run.ratio_ordered),
        ratio_ordered_min: least(|run| run.ratio_ordered),
        ratio_max: mean(|run| run.ratio_max),
        simulated: true,
        runs,
    }
}

fn one(tasks: &[Task], lifetimes: Lifetimes, load: Load, seed: u64) -> Run {
    let start = seed.wrapping_mul(SEED_STEP);
    let sequence = Sequence::new(tasks, lifetimes, load, start);
    let percent = |given: Demanded| 100.0 * given.share(load.gpus, sequence.window);
    let ours = percent(replay::ours(&sequence, load.gpus));
    let index = percent(replay::indexed(&sequence, load.gpus));
    let bound = 100.0 * bound::bound(&sequence, load.gpus);
    let search = Search::new(&sequence, load.gpus, Draws::new(start.wrapping_add(1)));
    let Found { given, partition, same, ordered, evaluations } = search.best();
    let (fixed, same, division) = (percent(given), percent(same.0), same.1);
    let ordered = percent(ordered);
    Run {
        seed,
        ours,
        index,
        fixed,
        same,
        ordered,
        bound,
        ratio: ours / fixed,
        ratio_same: ours / same,
        ratio_ordered: ours / ordered,
        ratio_max: bound / fixed,
        partition,
        division,
        evaluations,
    }
}

fn text(figures: &Figures) -> String {
    let mut rows = vec![
        (
            "trace",
            format!(
                "{}, {} tasks, lifetimes {}, {} GPUs, load {} % (simulated)",
                figures.trace, figures.tasks, figures.lifetimes, figures.gpus, figures.load
            ),
        ),
        (
            "  given out",
            "ours / best static partition / all GPUs alike / bound, by seed".to_owned(),
        ),
    ];
    let row = |[ours, fixed, same, bound, ratio, ratio_same]: [f64; 6]| {
        format!("{ours:.2} / {fixed:.2} / {same:.2} / {bound:.2} %, {ratio:.3}, {ratio_same:.3}")
    };
    for run in &figures.runs {
        let all = [run.ours, run.fixed, run.same, run.bound, run.ratio, run.ratio_same];
        rows.push(("  seed", format!("{}: {}", run.seed, row(all))));
    }
    let Figures { ours, fixed, same, bound, ratio, ratio_same, .. } = *figures;
    rows.push(("  mean", row([ours, fixed, same, bound, ratio, ratio_same])));
    lines(&rows)
}

#[cfg(test)]
mod tests {
    use super::{Lifetimes, figures};
    use crate::args::BenchMigArguments;
    use crate::bench::mig::tasks::Task;

    /// Goal: what could be known is found. Method: all tasks are alike, so a fixed division into
    /// what they take is as good as any other.
    #[test]
    fn equal_tasks_gain_nothing_from_partitions_on_demand() {
        let tasks = vec![Task { created: 0, milli: 140, seconds: 1_000 }; 200];
        let (seeds, first_seed, gpus) = (1, 1, 2);
        let (tasks_from, shares) = (Vec::new(), false);
        let arguments = BenchMigArguments { tasks: tasks_from, gpus, seeds, first_seed, shares };
        let case = (Lifetimes::Recorded, 130);
        let found = figures("equal".to_owned(), &tasks, case, &arguments);
        assert!((found.ratio - 1.0).abs() < 1e-9, "{} against {}", found.ours, found.fixed);
        let [run] = &found.runs[..] else { panic!("one seed") };
        assert_eq!(run.partition, [("1+1+1+1+1+1+1".to_owned(), 2)]);
        assert_eq!(run.division, "1+1+1+1+1+1+1");
        assert!(found.simulated);
    }
}
