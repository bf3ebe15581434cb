//! What the ledger's own learning of run times is worth: the ledger as validators run it, on nodes
//! that are simulated, once as it is and once forgetting after every block what it has learned.

mod grid;

use crate::{
    args::BenchLearningArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, lines},
};
use grid::{Done, Grid, GridError, NODES, SLOTS};
use serde::Serialize;

/// What the help says about `bench learning`.
pub(crate) const LONG_ABOUT: &str = "\
Measure what the ledger learns of run times from settled jobs

The ledger's own code, block by block, on simulated nodes: nine with four slots, of three models \
that differ in no part of the score but their times. 300 commands of six kinds that suit models \
more or less (8 s to 4 min), as fast as 60 % of all slots could do them without any choice. \
Blocks of a second. The same jobs twice: as the ledger is, and with all that it has learned \
forgotten after every block. One object for each seed, then one for the mean. None of these \
figures depends on the speed of the machine.

mean_jct_s: from the time at which a job comes until it is settled, learned and forgetting.
better_pct: by how much the mean completion time is shorter with learning.
predicted: runs of which `quote` could say before they began how long they take; error_s: how far \
that was off in the mean, limit_error_s: how far the declared limit of an hour was.";

const HINT: &str = "this is a fault of the measurement; please report it with the seed";

/// A figure with what was learned and without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
struct Both {
    learned: f64,
    forgetting: f64,
}

/// What was measured with a seed, or the mean of several.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Figures {
    /// `None` for the mean of all seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// Those of which this is the mean.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mean_of_seeds: Vec<u64>,
    jobs: usize,
    nodes: u8,
    slots: u16,
    mean_jct_s: Both,
    better_pct: f64,
    predicted: f64,
    error_s: f64,
    limit_error_s: f64,
    simulated_nodes: bool,
}

impl Figures {
    fn new(seed: u64, learned: &[Done], forgetting: &[Done]) -> Self {
        let told: Vec<_> = learned.iter().filter_map(|it| Some((it, it.predicted?))).collect();
        let errors = told.iter().map(|(it, predicted)| predicted.get().abs_diff(it.took.get()));
        let limits = told.iter().map(|(it, _)| it.limit.get().abs_diff(it.took.get()));
        let spent = |all: &[Done]| mean_s(all.iter().map(|it| it.spent.get()));
        let mean_jct_s = Both { learned: spent(learned), forgetting: spent(forgetting) };
        Self {
            seed: Some(seed),
            mean_of_seeds: Vec::new(),
            jobs: learned.len(),
            nodes: NODES,
            slots: SLOTS,
            mean_jct_s,
            better_pct: better_pct(mean_jct_s),
            predicted: told.len() as f64,
            error_s: mean_s(errors),
            limit_error_s: mean_s(limits),
            simulated_nodes: true,
        }
    }

    /// The mean of seeds; `None` of none.
    fn mean(all: &[Self]) -> Option<Self> {
        let first = all.first()?;
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        let mean_jct_s = Both {
            learned: mean(|it| it.mean_jct_s.learned),
            forgetting: mean(|it| it.mean_jct_s.forgetting),
        };
        Some(Self {
            seed: None,
            mean_of_seeds: all.iter().filter_map(|it| it.seed).collect(),
            mean_jct_s,
            better_pct: better_pct(mean_jct_s),
            predicted: mean(|it| it.predicted),
            error_s: mean(|it| it.error_s),
            limit_error_s: mean(|it| it.limit_error_s),
            ..first.clone()
        })
    }

    fn text(&self) -> String {
        let Both { learned, forgetting } = self.mean_jct_s;
        let name = self.seed.map_or("mean".to_owned(), |seed| format!("seed {seed}"));
        let better = self.better_pct;
        let times = format!("{learned:.1} s, forgetting {forgetting:.1} s: {better:.1} % better");
        let (error, limit) = (self.error_s, self.limit_error_s);
        let told = format!("{:.0} of {} runs", self.predicted, self.jobs);
        lines(&[
            (name.as_str(), format!("{} jobs on {} simulated nodes", self.jobs, self.nodes)),
            ("  completion", times),
            ("  run times told", format!("{told}, {error:.1} s off (the limit {limit:.0} s)")),
        ])
    }
}

fn better_pct(mean_jct_s: Both) -> f64 {
    100.0 * (mean_jct_s.forgetting - mean_jct_s.learned) / mean_jct_s.forgetting
}

/// The mean of milliseconds, in seconds; 0 of none.
fn mean_s(times: impl ExactSizeIterator<Item = u64>) -> f64 {
    let count = times.len().max(1) as f64;
    times.sum::<u64>() as f64 / count / 1_000.0
}

/// Carries out `bench learning`.
pub(crate) fn run(arguments: &BenchLearningArguments, printer: &Printer) -> Result<Exit, Failure> {
    let progress = printer.progress("simulating");
    let mut all = Vec::new();
    for seed in &arguments.seeds {
        progress.set(format!("simulating: seed {seed}"));
        let figures = measure(*seed).or_fail(format!("seed {seed} was not measured"), HINT)?;
        printer.result(&figures, || figures.text());
        all.push(figures);
    }
    drop(progress);
    if let Some(mean) = Figures::mean(&all) {
        printer.result(&mean, || mean.text());
    }
    Ok(Exit::Done)
}

fn measure(seed: u64) -> Result<Figures, GridError> {
    let learned = Grid::new(true)?.run(seed)?;
    let forgetting = Grid::new(false)?.run(seed)?;
    Ok(Figures::new(seed, &learned, &forgetting))
}

#[cfg(test)]
mod tests {
    use super::{Figures, measure};

    /// Goal: what is learned shortens the mean completion time by a tenth at least, and tells run
    /// times better than limits do; the same seed gives the same figures. The seeds were fixed
    /// beforehand.
    #[test]
    fn sim_learned_times_shorten_a_mix() {
        let all: Vec<Figures> = (1..=5).map(|seed| measure(seed).expect("is measured")).collect();
        assert_eq!(all.first(), measure(1).ok().as_ref(), "the same again");
        let mean = Figures::mean(&all).expect("five seeds");
        assert!(mean.better_pct >= 10.0, "{mean:?}");
        assert!(mean.predicted >= 250.0 && mean.error_s < mean.limit_error_s, "{mean:?}");
    }
}
