//! Measuring how fast the scheduler finds places in a large fleet.

mod chain;
mod measure;
mod workload;

use crate::{
    args::BenchSchedArguments,
    failure::{Exit, Failure},
    printer::{Printer, lines},
};
use measure::{Measured, Size, measure};
use serde::Serialize;

/// What the help says about `bench sched`.
pub(crate) const LONG_ABOUT: &str = "\
Measure how fast the scheduler finds places in a large fleet

One thread, a made-up network: machines of thirty kinds in 24 regions, 400 kinds of tasks with all \
constraints (memory, speed, precision, models, regions, processor, host memory, trust, secrecy, \
price, bandwidth, shares of devices). The fleet fills, then blocks follow in which 1,000 tasks \
end, 1,000 come, two nodes leave and two join. Only what the scheduler does is timed. The same is \
measured with a tenth of the devices.

decisions_per_s: decisions, with all events in between; p50_us, p99_us: of one decision.
cost_growth: what a decision costs against a tenth of the devices.
rebuild_s: the index made anew from its facts.

With --chain, placements through a chain are measured instead: four validators in this process, \
each with its own disk, connections and ledger, --nodes made-up nodes with 32 slots each, and \
transactions that submit arrays of 100 tasks each, vouched for by a quorum. Claims of nodes are \
believed, and nobody runs the tasks.

placed_per_s: tasks that were given to a node in a final block, the first second left out.";

/// The fleet whose cost is compared is so many times smaller.
const SMALLER: u64 = 10;

/// What was measured.
#[derive(Serialize)]
struct Figures {
    gpus: u64,
    nodes: usize,
    queued: u64,
    seed: u64,
    running: usize,
    waiting: usize,
    groups: usize,
    states: usize,
    decisions: u64,
    placed: u64,
    decisions_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    fill_s: f64,
    rebuild_s: f64,
    cost_growth: f64,
    simulated: bool,
}

/// Carries out `bench sched`.
pub(crate) fn run(arguments: &BenchSchedArguments, printer: &Printer) -> Result<Exit, Failure> {
    let &BenchSchedArguments { gpus, queued, decisions, seed, chain, nodes, secs } = arguments;
    let progress = printer.progress("deciding");
    if chain {
        let figures = chain::measure(nodes, secs, &progress)?;
        drop(progress);
        printer.result(&figures, || figures.text());
        return Ok(Exit::Done);
    }
    let small = measure(Size { gpus: gpus.div_ceil(SMALLER), queued, decisions, seed });
    let large = measure(Size { gpus, queued, decisions, seed });
    drop(progress);
    let figures = figures(arguments, &small, &large);
    printer.result(&figures, || text(&figures));
    Ok(Exit::Done)
}

fn figures(arguments: &BenchSchedArguments, small: &Measured, large: &Measured) -> Figures {
    let micros = |per_mille: usize| large.quantile(per_mille).as_secs_f64() * 1e6;
    Figures {
        gpus: arguments.gpus,
        nodes: large.nodes,
        queued: arguments.queued,
        seed: arguments.seed,
        running: large.running,
        waiting: large.waiting,
        groups: large.groups.0,
        states: large.groups.1,
        decisions: large.decisions,
        placed: large.placed,
        decisions_per_s: 1.0 / large.cost(),
        p50_us: micros(500),
        p99_us: micros(990),
        fill_s: large.fill.as_secs_f64(),
        rebuild_s: large.rebuild.as_secs_f64(),
        cost_growth: large.cost() / small.cost(),
        simulated: true,
    }
}

fn text(figures: &Figures) -> String {
    lines(&[
        (
            "network",
            format!(
                "{} GPUs in {} machines (made up, seed {})",
                figures.gpus, figures.nodes, figures.seed
            ),
        ),
        ("tasks", format!("{} running, {} waiting", figures.running, figures.waiting)),
        ("decisions", format!("{:.0} each second", figures.decisions_per_s)),
        ("one decision", format!("{:.1} µs, 99 % within {:.1} µs", figures.p50_us, figures.p99_us)),
        ("against a tenth of the GPUs", format!("{:.2} times the cost", figures.cost_growth)),
        ("index made anew", format!("{:.2} s", figures.rebuild_s)),
    ])
}
