//! Measuring how well the scheduler fills machines, against the policies of the literature on the
//! same tasks in the same order.

mod policy;
mod trace;

use super::draws::Draws;
use super::record;
use crate::{
    args::BenchPackingArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, lines},
};
use policy::{BestFit, Fgd};
use serde::Serialize;
use std::{collections::BTreeMap, path::Path};
use tg_scheduler::packing::{Demand, Fleet, Judge, Learner, Mix, Placed};
use trace::{Cluster, arrivals};

/// What the help says about `bench packing`.
pub(crate) const LONG_ABOUT: &str = "\
Measure how well the scheduler fills machines

Replays recorded tasks without departures, as the paper on FGD (Weng et al., ATC'23) does: all \
tasks of the trace in random order, then tasks drawn from it until they want 130 % of all GPUs. \
One line for each trace and each way to know what usually comes: `learned` from the tasks so far, \
or `known` in advance, as FGD does.

ours_N, fgd_N, bestfit_N, random_N: GPU that is not given out when tasks that want N % have come, \
in percent, mean over all seeds.
minus_fgd_N: ours less FGD on the same sequences; minus_fgd_N_upper: the upper end of its 95 % \
confidence interval.

Files may be compressed with gzip.";

/// Keeps the seeds of sequences, of shuffled machines and of random places apart.
const SEED_STEP: u64 = 7_919;
/// How much has come when it is looked, in percent.
const LOADS: [u64; 3] = [95, 100, 130];
const HINT: &str = "see `bench packing --help` for what the files hold";

/// What is not given out at each of the loads, in percent.
type Unallocated = [f64; LOADS.len()];

/// What was measured on one trace.
#[derive(Serialize)]
struct Figures {
    trace: String,
    mix: &'static str,
    seeds: u64,
    first_seed: u64,
    shuffled_nodes: bool,
    ours_95: f64,
    ours_100: f64,
    ours_130: f64,
    fgd_95: f64,
    fgd_100: f64,
    fgd_130: f64,
    bestfit_130: f64,
    random_130: f64,
    minus_fgd_95: f64,
    minus_fgd_95_upper: f64,
    minus_fgd_100: f64,
    minus_fgd_100_upper: f64,
    minus_fgd_130: f64,
    minus_fgd_130_upper: f64,
}

/// Carries out `bench packing`.
pub(crate) fn run(arguments: &BenchPackingArguments, printer: &Printer) -> Result<Exit, Failure> {
    let nodes = record::read(&arguments.nodes, HINT)?;
    let refused = |path: &Path| format!("{} cannot be read as a list", path.display());
    let cluster = Cluster::parse(&nodes).or_fail(refused(&arguments.nodes), HINT)?;
    for path in &arguments.tasks {
        let tasks = cluster.tasks(&record::read(path, HINT)?).or_fail(refused(path), HINT)?;
        let progress = printer.progress("placing");
        let runs = Runs::new(&cluster, &tasks, arguments);
        drop(progress);
        for (mix, ours) in [("learned", &runs.learned), ("known", &runs.known)] {
            let figures = figures(record::trace_name(path), mix, ours, &runs, arguments);
            printer.result(&figures, || text(&figures));
        }
    }
    Ok(Exit::Done)
}

/// What every policy left over, seed by seed.
#[derive(Default)]
struct Runs {
    learned: Vec<Unallocated>,
    known: Vec<Unallocated>,
    fgd: Vec<Unallocated>,
    best_fit: Vec<Unallocated>,
    random: Vec<Unallocated>,
}

impl Runs {
    fn new(cluster: &Cluster, tasks: &[Demand], arguments: &BenchPackingArguments) -> Self {
        let mut runs = Self::default();
        for seed in arguments.first_seed..arguments.first_seed.saturating_add(arguments.seeds) {
            let replay = Replay::new(cluster, tasks, seed, arguments.shuffle_nodes);
            runs.learned.push(replay.learned());
            runs.known.push(replay.known(tasks));
            runs.fgd.push(replay.judged(Fgd::new(tasks)));
            runs.best_fit.push(replay.judged(BestFit));
            runs.random.push(replay.random(seed));
        }
        runs
    }
}

/// A cluster and the tasks that come to it.
struct Replay {
    shapes: Vec<tg_scheduler::packing::Shape>,
    arrivals: Vec<Demand>,
    gpu_milli: u64,
}

impl Replay {
    fn new(cluster: &Cluster, tasks: &[Demand], seed: u64, is_shuffled: bool) -> Self {
        let start = seed.wrapping_mul(SEED_STEP);
        let gpu_milli = cluster.gpu_milli();
        let arrivals = arrivals(tasks, gpu_milli, &mut Draws::new(start));
        let mut shapes = cluster.shapes.clone();
        if is_shuffled {
            Draws::new(start.wrapping_add(1)).shuffle(&mut shapes);
        }
        Self { shapes, arrivals, gpu_milli }
    }

    fn learned(&self) -> Unallocated {
        let mut fleet = Fleet::new(self.shapes.iter().copied(), Mix::default());
        let shapes = fleet.shapes();
        let mut learner = Learner::default();
        self.fill(&mut fleet, |fleet, demand| {
            if learner.observe(demand) {
                fleet.judge_by(learner.mix(&shapes));
            }
            fleet.best(demand)
        })
    }

    fn known(&self, tasks: &[Demand]) -> Unallocated {
        let mut counts: BTreeMap<Demand, u64> = BTreeMap::new();
        for task in tasks {
            *counts.entry(*task).or_default() += 1;
        }
        let shapes = Fleet::new(self.shapes.iter().copied(), BestFit).shapes();
        let counted = counts.iter().map(|(task, count)| (task, *count));
        self.judged(Mix::new(counted, &shapes))
    }

    fn judged<J: Judge>(&self, judge: J) -> Unallocated {
        let mut fleet = Fleet::new(self.shapes.iter().copied(), judge);
        self.fill(&mut fleet, |fleet, demand| fleet.best(demand))
    }

    fn random(&self, seed: u64) -> Unallocated {
        let mut draws = Draws::new(seed.wrapping_mul(SEED_STEP).wrapping_add(2));
        let mut fleet = Fleet::new(self.shapes.iter().copied(), BestFit);
        self.fill(&mut fleet, |fleet, demand| policy::random(fleet, demand, &mut draws))
    }

    /// Places all tasks. As in the paper, what is given out at a load is the mean over all tasks
    /// that come while what has come rounds to it.
    fn fill<J: Judge>(
        &self,
        fleet: &mut Fleet<J>,
        mut choose: impl FnMut(&mut Fleet<J>, &Demand) -> Option<Placed>,
    ) -> Unallocated {
        let (mut arrived, mut used) = (0, 0);
        let mut sums: BTreeMap<u64, (f64, u32)> = BTreeMap::new();
        for demand in &self.arrivals {
            let milli = u64::from(demand.gpus.milli());
            arrived += milli;
            let placed = choose(fleet, demand);
            if placed.is_some_and(|placed| fleet.place(demand, placed)) {
                used += milli;
            }
            let load = (100 * arrived + self.gpu_milli / 2) / self.gpu_milli.max(1);
            let (sum, count) = sums.entry(load).or_default();
            *sum += 100.0 * used as f64 / self.gpu_milli as f64;
            *count += 1;
        }
        LOADS.map(|load| {
            let near = [load, load - 1, load + 1];
            let found = near.iter().find_map(|load| sums.get(load));
            found.map_or(f64::NAN, |(sum, count)| 100.0 - sum / f64::from(*count))
        })
    }
}

fn figures(
    trace: String,
    mix: &'static str,
    ours: &[Unallocated],
    runs: &Runs,
    arguments: &BenchPackingArguments,
) -> Figures {
    let at = |all: &[Unallocated], load: usize| mean(all.iter().map(|run| run[load]));
    let pairs = |load: usize| ours.iter().zip(&runs.fgd).map(move |(a, b)| a[load] - b[load]);
    Figures {
        trace,
        mix,
        seeds: arguments.seeds,
        first_seed: arguments.first_seed,
        shuffled_nodes: arguments.shuffle_nodes,
        ours_95: at(ours, 0),
        ours_100: at(ours, 1),
        ours_130: at(ours, 2),
        fgd_95: at(&runs.fgd, 0),
        fgd_100: at(&runs.fgd, 1),
        fgd_130: at(&runs.fgd, 2),
        bestfit_130: at(&runs.best_fit, 2),
        random_130: at(&runs.random, 2),
        minus_fgd_95: mean(pairs(0)),
        minus_fgd_95_upper: upper(pairs(0)),
        minus_fgd_100: mean(pairs(1)),
        minus_fgd_100_upper: upper(pairs(1)),
        minus_fgd_130: mean(pairs(2)),
        minus_fgd_130_upper: upper(pairs(2)),
    }
}

fn mean(numbers: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = numbers.clone().count();
    numbers.sum::<f64>() / count as f64
}

/// The upper end of the 95 % confidence interval of the mean, by Student's distribution; not a
/// number for fewer than two.
fn upper(numbers: impl Iterator<Item = f64> + Clone) -> f64 {
    let (count, mean) = (numbers.clone().count(), mean(numbers.clone()));
    let squares: f64 = numbers.map(|number| (number - mean).powi(2)).sum();
    let freedom = count as f64 - 1.0;
    mean + student(freedom) * (squares / freedom / count as f64).sqrt()
}

/// The 97.5 % quantile of Student's distribution, by its expansion around that of the normal one
/// (Abramowitz and Stegun 26.7.5): within 1 % from four degrees of freedom on, too low below.
fn student(freedom: f64) -> f64 {
    let z: f64 = 1.959_964;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

fn text(figures: &Figures) -> String {
    let three = |[a, b, c]: [f64; 3]| format!("{a:.2} / {b:.2} / {c:.2} %");
    lines(&[
        ("trace", format!("{}, mix {}, {} seeds", figures.trace, figures.mix, figures.seeds)),
        ("  loads", "95 / 100 / 130 %, GPU that is not given out".to_owned()),
        ("  ours", three([figures.ours_95, figures.ours_100, figures.ours_130])),
        ("  FGD", three([figures.fgd_95, figures.fgd_100, figures.fgd_130])),
        ("  Best Fit", format!("{:.2} % at 130 %", figures.bestfit_130)),
        ("  random", format!("{:.2} % at 130 %", figures.random_130)),
    ])
}

#[cfg(test)]
mod tests {
    use super::{mean, student, upper};
    use crate::bench::record::trace_name;
    use std::path::Path;

    #[test]
    fn interval_is_that_of_students_distribution() {
        assert!((student(9.0) - 2.262).abs() < 0.001);
        assert!((student(4.0) - 2.776).abs() < 0.02);
        let numbers = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert!((mean(numbers.into_iter()) - 3.0).abs() < 1e-9);
        assert!((upper(numbers.into_iter()) - 4.96).abs() < 0.02);
        assert!(upper([1.0].into_iter()).is_nan());
    }

    #[test]
    fn trace_is_named_after_its_file() {
        assert_eq!(trace_name(Path::new("a/openb_pod_list_cpu050.csv.gz")), "cpu050");
        assert_eq!(trace_name(Path::new("tasks.csv")), "tasks");
    }
}
