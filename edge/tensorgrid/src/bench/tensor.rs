//! Measuring tensor programs on this machine, each figure beside its peer in the same run.

mod peer;
mod stand_in;

use crate::{
    args::model::BenchTensorArguments,
    failure::{Exit, Failure, OrFail as _},
    files,
    printer::{Printer, lines},
};
use serde::Serialize;
use std::{
    hint::black_box,
    path::Path,
    time::{Duration, Instant},
};
use tg_onnx::{Choices, Source, generate};
use tg_tensor::commit::Salt;
use tg_tensor::freivalds::{self, Claimed, Operands, Vector};
use tg_tensor::trace::TraceBuilder;
use tg_tensor::{Model, Options, Runner, Tensor};

/// What the help says about `bench tensor`.
pub(crate) const LONG_ABOUT: &str = "\
Measure tensor programs on this machine

int8_gmacs_per_core: a whole operation, 1024 x 1024 x 1024, rescale to 8 bits included, one thread.
f32_gmacs_per_core: the same product by the crate gemm in f32, one thread, in alternation; \
ratio_vs_f32_gemm is the quotient.
check_speedup: recomputing that operation divided by checking a claimed result of it with a random \
vector, all cores.
lenet_infer_us, mlp1024_infer_us: one input, all cores, median.
trace_overhead_*: run with trace divided by run without, medians, in alternation.
onnxruntime_*: its f32 time divided by our integer time on the same model, one thread each; needs \
--models, --onnxruntime and a build with the feature onnxruntime.";

/// Side of the measured matrix product.
const SIDE: usize = 1_024;

/// The largest model file.
const MODEL_BYTES_MAX: u64 = 1 << 28;

/// Fewest repetitions of anything.
const REPEATS_MIN: usize = 5;

#[derive(Serialize)]
struct Figures {
    int8_gmacs_per_core: f64,
    int8_portable_gmacs_per_core: f64,
    f32_gmacs_per_core: f64,
    ratio_vs_f32_gemm: f64,
    check_speedup: f64,
    lenet_infer_us: f64,
    mlp1024_infer_us: f64,
    conv_stack_infer_us: f64,
    conv_stack_gmacs: f64,
    trace_overhead: f64,
    trace_overhead_mlp1024: f64,
    trace_overhead_conv: f64,
    models: &'static str,
    cores: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    onnxruntime_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    onnxruntime_ratio_lenet: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    onnxruntime_ratio_mlp1024: Option<f64>,
}

/// Carries out `bench tensor`.
pub(crate) fn run(arguments: &BenchTensorArguments, printer: &Printer) -> Result<Exit, Failure> {
    let budget = Duration::from_secs(arguments.secs);
    let progress = printer.progress("measuring the matrix product");
    let (int8, float, portable) = products(budget)?;
    progress.set("measuring checks");
    let checks = check_speedup(budget)?;
    progress.set("measuring models");
    let (lenet, mlp, models) = match &arguments.models {
        Some(folder) => (imported(folder, "lenet")?, imported(folder, "mlp1024")?, "given"),
        None => (stand_in::lenet()?, stand_in::mlp1024()?, "generated"),
    };
    let conv = stand_in::conv_stack()?;
    let conv_work = conv.program().multiply_adds() as f64;
    let (lenet_us, _) = traced(&lenet, budget)?;
    let (mlp_us, mlp_overhead) = traced(&mlp, budget)?;
    let (conv_us, conv_overhead) = traced(&conv, budget)?;
    progress.set("measuring the peer");
    let peers = peer::ratios(arguments, &lenet, &mlp, budget)?;
    drop(progress);
    let figures = Figures {
        int8_gmacs_per_core: int8,
        int8_portable_gmacs_per_core: portable,
        f32_gmacs_per_core: float,
        ratio_vs_f32_gemm: int8 / float,
        check_speedup: checks,
        lenet_infer_us: lenet_us,
        mlp1024_infer_us: mlp_us,
        conv_stack_infer_us: conv_us,
        conv_stack_gmacs: conv_work / conv_us / 1e3,
        trace_overhead: mlp_overhead.max(conv_overhead),
        trace_overhead_mlp1024: mlp_overhead,
        trace_overhead_conv: conv_overhead,
        models,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        onnxruntime_ratio: peers.map(|(lenet, mlp)| lenet.min(mlp)),
        onnxruntime_ratio_lenet: peers.map(|(lenet, _)| lenet),
        onnxruntime_ratio_mlp1024: peers.map(|(_, mlp)| mlp),
    };
    printer.result(&figures, || text(&figures));
    Ok(Exit::Done)
}

/// Rates of a matrix product in integers, in floats, and in integers without SIMD.
fn products(budget: Duration) -> Result<(f64, f64, f64), Failure> {
    let model = stand_in::product(SIDE as u32)?;
    let inputs = zeros(&model);
    let single = |path| Options { threads: 1, path };
    let fast = Runner::new(model.clone(), single(None));
    let plain = Runner::new(model, single(Some(tg_tensor::Path::Portable)));
    let mut float = peer::FloatProduct::new(SIDE);
    let mut times = [Vec::new(), Vec::new()];
    let started = Instant::now();
    while started.elapsed() < budget || times[0].len() < REPEATS_MIN {
        times[0].push(once(|| drop(black_box(fast.run(&inputs)))));
        times[1].push(once(|| float.run()));
    }
    let slow: Vec<f64> =
        (0..REPEATS_MIN).map(|_| once(|| drop(black_box(plain.run(&inputs))))).collect();
    let work = (SIDE * SIDE * SIDE) as f64 / 1e9;
    let [int8, float] = times.map(|times| work / median(times));
    Ok((int8, float, work / median(slow)))
}

/// How much longer recomputing a product takes than checking what somebody claims of it.
fn check_speedup(budget: Duration) -> Result<f64, Failure> {
    let failed = "a generated product cannot be checked";
    let hint = "this is an error of ours";
    let model = stand_in::product(SIDE as u32)?;
    let program = model.program();
    let inputs = zeros(&model);
    let runner = Runner::new(model.clone(), Options::default());
    let accumulators = runner.accumulators(0, &[&inputs[0]]).or_fail(failed, hint)?;
    let output = runner.run(&inputs).or_fail(failed, hint)?.remove(0);
    let constants = model.constants();
    let operands = Operands { x: &inputs[0], weights: &constants[0], bias: constants.get(1) };
    let claimed = Claimed { accumulators: &accumulators, output: &output };
    let check = || {
        let vector = Vector::for_operation(&[1; 32], program, 0)?;
        freivalds::check(program, 0, &operands, &claimed, &vector).ok()
    };
    let mut times = [Vec::new(), Vec::new()];
    let started = Instant::now();
    while started.elapsed() < budget || times[0].len() < REPEATS_MIN {
        times[0].push(once(|| drop(black_box(runner.run(&inputs)))));
        times[1].push(once(|| {
            black_box(check());
        }));
    }
    let [recomputed, checked] = times.map(median);
    Ok(recomputed / checked)
}

/// The median time of a run in microseconds, and how much longer it takes with a trace.
fn traced(model: &Model, budget: Duration) -> Result<(f64, f64), Failure> {
    let runner = Runner::new(model.clone(), Options::default());
    let inputs = zeros(model);
    let mut times = [Vec::new(), Vec::new()];
    let hint = "this is an error of ours";
    runner.run(&inputs).or_fail("a generated model cannot be run", hint)?;
    let started = Instant::now();
    while started.elapsed() < budget || times[0].len() < REPEATS_MIN {
        times[0].push(once(|| drop(black_box(runner.run(&inputs)))));
        times[1].push(once(|| {
            let mut builder = TraceBuilder::new(model.program(), Salt::new([7; 32]));
            let _refused_is_measured_too = runner.run_observed(&inputs, &mut |index, elements| {
                let _never_here = builder.operation(index, elements);
            });
            drop(black_box(builder.finish()));
        }));
    }
    let [plain, with] = times.map(median);
    Ok((plain * 1e6, with / plain))
}

pub(super) fn imported(folder: &Path, name: &str) -> Result<Model, Failure> {
    let path = folder.join(format!("{name}.onnx"));
    let what = format!("cannot measure {}", path.display());
    let hint = format!("--models names a folder with {name}.onnx");
    let bytes = files::read(&path, MODEL_BYTES_MAX).or_fail(&what, &hint)?;
    imported_from(&bytes, &what, &hint)
}

/// A model of eight bits, calibrated on random numbers.
pub(super) fn imported_from(bytes: &[u8], what: &str, hint: &str) -> Result<Model, Failure> {
    let source = Source::read(bytes, &tg_onnx::Options::default()).or_fail(what, hint)?;
    let samples = generate::samples(source.graph(), 1, 16);
    let choices = Choices { activation_bits: 8 };
    Ok(source.import(&samples, &[], choices).or_fail(what, hint)?.model)
}

fn zeros(model: &Model) -> Vec<Tensor> {
    model.program().inputs().iter().map(|input| Tensor::zeros(&input.spec)).collect()
}

pub(super) fn once(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

pub(super) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn text(figures: &Figures) -> String {
    let mut rows = vec![
        ("int8, one core", format!("{:.1} GMAC/s", figures.int8_gmacs_per_core)),
        ("  without SIMD", format!("{:.1} GMAC/s", figures.int8_portable_gmacs_per_core)),
        ("f32 gemm, one core", format!("{:.1} GMAC/s", figures.f32_gmacs_per_core)),
        ("ratio", format!("{:.2}", figures.ratio_vs_f32_gemm)),
        ("check of a product", format!("{:.1} times faster", figures.check_speedup)),
        ("lenet", format!("{:.1} µs", figures.lenet_infer_us)),
        ("mlp1024", format!("{:.1} µs", figures.mlp1024_infer_us)),
        (
            "3x3 convolutions",
            format!(
                "{:.0} µs, {:.1} GMAC/s",
                figures.conv_stack_infer_us, figures.conv_stack_gmacs
            ),
        ),
        ("trace, mlp1024", format!("{:.3} times", figures.trace_overhead_mlp1024)),
        ("trace, convolutions", format!("{:.3} times", figures.trace_overhead_conv)),
    ];
    if let Some(ratio) = figures.onnxruntime_ratio {
        rows.push(("faster than onnxruntime f32", format!("{ratio:.2} times")));
    }
    lines(&rows)
}
