//! Measuring proofs: each model with public and with committed weights.

use super::{
    process::Memory,
    tensor::{imported, median, once},
};
use crate::{
    args::model::BenchProofArguments,
    failure::{Exit, Failure, OrFail as _},
    files,
    printer::{Printer, lines},
};
use serde::Serialize;
use std::{path::Path, sync::Arc, time::Instant};
use tg_proof::{Mode, Prover, Statement, Verifier};
use tg_tensor::{Model, Options, Runner, Tensor};

/// What the help says about `bench proof`.
pub(crate) const LONG_ABOUT: &str = "\
Measure proofs that models were run

One line for each model and mode, on one thread. Public: the verifier has the weights. Committed: \
it has a root of them, made once (setup_s).

prove_cpu_s, prove_wall_s: making a proof, the run itself included; mean processor time and median.
verify_ms: verifying its bytes, median. rerun_ms: running the model again instead, median.
rss_mb: the most memory while setting up, proving and verifying; where the system does not let the \
peak be set back, the most so far.
security_bits: -log2 of the chance that a false statement passes, proven.
hides: what a verifier is not shown.";

/// The measured models.
const MODELS: [&str; 3] = ["mlp", "lenet", "mlp1024"];

/// The file has three numbers.
const SCHEDULED_BYTES_MAX: u64 = 4 << 10;

const HINT: &str = "this is an error of ours";

/// What was measured of one model in one mode.
#[derive(Serialize)]
struct Figures {
    model: &'static str,
    mode: &'static str,
    inferences: usize,
    prove_cpu_s: f64,
    prove_wall_s: f64,
    verify_ms: f64,
    proof_bytes: usize,
    rss_mb: u64,
    setup_s: f64,
    security_bits: f64,
    rerun_ms: f64,
    hides: &'static str,
}

/// Carries out `bench proof`.
pub(crate) fn run(arguments: &BenchProofArguments, printer: &Printer) -> Result<Exit, Failure> {
    for name in MODELS {
        let model = Arc::new(imported(&arguments.models, name)?);
        for mode in [Mode::Public, Mode::Committed] {
            let progress = printer.progress("proving");
            let figures = measure(name, &model, mode, arguments)?;
            drop(progress);
            printer.result(&figures, || text(&figures));
        }
    }
    Ok(Exit::Done)
}

fn measure(
    name: &'static str,
    model: &Arc<Model>,
    mode: Mode,
    arguments: &BenchProofArguments,
) -> Result<Figures, Failure> {
    let what = format!("cannot measure {name}");
    let inferences = arguments.batch;
    forget_peak();
    let started = Instant::now();
    let prover = Prover::new(model.clone(), mode, inferences).or_fail(&what, HINT)?;
    let setup_s = started.elapsed().as_secs_f64();
    let verifier = match mode {
        Mode::Public => Verifier::public(model.clone(), inferences),
        Mode::Committed => {
            Verifier::committed(model.program().clone(), prover.commitment(), inferences)
        }
    };
    let verifier = verifier.or_fail(&what, HINT)?;
    let inputs: Vec<Vec<Tensor>> = (0..inferences).map(|seed| inputs(model, seed)).collect();
    let prove = || prover.prove(inputs.clone(), b"bench".to_vec()).or_fail(&what, HINT);
    let (statement, proof) = prove()?;
    let bytes = proof.to_bytes();

    let (mut proving, mut verifying) = (Vec::new(), Vec::new());
    let scheduled = scheduled_s();
    for _ in 0..arguments.repeats {
        let started = Instant::now();
        prove()?;
        proving.push(started.elapsed().as_secs_f64());
    }
    let prove_cpu_s = (scheduled_s() - scheduled) / f64::from(arguments.repeats);
    for _ in 0..arguments.repeats {
        verifying.push(verify(&verifier, &statement, &bytes).or_fail(&what, HINT)?);
    }
    let rss_mb = Memory::read().peak_mib;
    let runner = Runner::new(model.clone(), Options { threads: 1, path: None });
    let rerun = || {
        for inputs in &inputs {
            drop(std::hint::black_box(runner.run(inputs)));
        }
    };
    rerun();
    let reruns = (0..arguments.repeats).map(|_| once(rerun)).collect();
    let (mode, hides) = match mode {
        Mode::Public => ("public", "nothing"),
        Mode::Committed => ("committed", "weights, without being zero-knowledge"),
    };
    Ok(Figures {
        model: name,
        mode,
        inferences,
        prove_cpu_s,
        prove_wall_s: median(proving),
        verify_ms: median(verifying) * 1e3,
        proof_bytes: bytes.len(),
        rss_mb,
        setup_s,
        security_bits: verifier.report().bits,
        rerun_ms: median(reruns) * 1e3,
        hides,
    })
}

fn verify(
    verifier: &Verifier,
    statement: &Statement,
    bytes: &[u8],
) -> Result<f64, tg_proof::VerifyError> {
    let started = Instant::now();
    verifier.verify(statement, bytes)?;
    Ok(started.elapsed().as_secs_f64())
}

/// Inputs that are neither constant nor sorted.
fn inputs(model: &Model, seed: usize) -> Vec<Tensor> {
    let fill = |spec: &tg_tensor::program::Spec| {
        let (lo, width) = (i64::from(spec.lo), i64::from(spec.hi) - i64::from(spec.lo) + 1);
        let number = |index: i64| lo + (index * 7_919 + index * index * 31 + seed as i64) % width;
        let numbers: Vec<i64> = (0..i64::from(spec.len)).map(number).collect();
        Tensor::new(spec, &numbers).expect("numbers of the range")
    };
    model.program().inputs().iter().map(|input| fill(&input.spec)).collect()
}

/// Seconds that this thread has been running, as the system accounts for it; 0 where it does not
/// tell.
fn scheduled_s() -> f64 {
    let bytes = files::read(Path::new("/proc/thread-self/schedstat"), SCHEDULED_BYTES_MAX);
    let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
    let nanoseconds = text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

/// Sets the peak of memory back to what is used now. Where that is not possible the peak of the
/// whole process is reported, and the help says so.
fn forget_peak() {
    const PEAK: &str = "5";
    let _kept = std::fs::write("/proc/self/clear_refs", PEAK);
}

fn text(figures: &Figures) -> String {
    lines(&[
        ("model", format!("{}, {} weights", figures.model, figures.mode)),
        ("  prove", format!("{:.1} ms of processor", figures.prove_cpu_s * 1e3)),
        (
            "  verify",
            format!("{:.1} ms; running it again {:.2} ms", figures.verify_ms, figures.rerun_ms),
        ),
        (
            "  proof",
            format!("{} KB, {:.1} bits", figures.proof_bytes / 1_000, figures.security_bits),
        ),
        ("  setup", format!("{:.3} s, {} MiB", figures.setup_s, figures.rss_mb)),
    ])
}
