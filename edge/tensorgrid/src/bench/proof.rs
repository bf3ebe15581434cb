//! Measuring proofs: models of a folder, a batch, and networks of known shapes.

mod ezkl;
mod networks;
mod ready;

use super::{
    process::Memory,
    tensor::{imported, imported_from, median, once},
};
use crate::{
    args::model::BenchProofArguments,
    failure::{Exit, Failure, OrFail as _},
    files,
    printer::{Printer, lines},
};
use ezkl::Peer;
use ready::{Measured, Ready};
use serde::Serialize;
use std::{path::Path, sync::Arc, time::Instant};
use tg_proof::Mode;
use tg_tensor::{Model, Options, Runner, Tensor};

/// What the help says about `bench proof`.
pub(crate) const LONG_ABOUT: &str = "\
Measure proofs that models were run

One line for each model, mode and batch, on all cores. Public: the verifier has the weights. \
Committed: it has a root of them, made once (setup_s). Zk: it has the weights, and of the inputs a \
root. Measured are the models of --models; \
digits, one and 64 inferences in a proof; vgg16, thirteen convolutions on 32 x 32 pixels, and \
gpt2-block, a block of a transformer of 768 numbers and 12 heads on 64 tokens, both with random \
weights.

prove_cpu_s, prove_wall_s: making a proof, the run itself included; mean processor time of all \
threads and median.
verify_ms: verifying its bytes, median. rerun_ms: running the model again instead, median.
macs: multiply-adds of all inferences; ns_per_mac, overhead: prove_cpu_s by these and by rerun_ms.
rss_mb: the most memory while setting up, proving and verifying; where the system does not let the \
peak be set back, the most so far.
security_bits: -log2 of the chance that a false statement passes, proven.
hides: what a verifier is not shown.
batch_prove, batch_verify: of the batch of digits, processor time to prove for each inference and \
time to verify all, divided by those of one alone. Both are measured in turns, since a machine's \
speed varies; the median of as many turns as --repeats says.
ratio_prove, ratio_verify: processor time of ezkl divided by ours, with --ezkl.";

/// The measured models of a folder.
const MODELS: [&str; 3] = ["mlp", "lenet", "mlp1024"];

/// A small network for digits.
const DIGITS: &[u8] = include_bytes!("../../../../fixtures/digits/digits.onnx");

/// Inferences of a batch of it.
const BATCH: usize = 64;

/// Single proofs of a turn: about as much work as a batch.
const SINGLES: u32 = 8;

/// Seconds after which a step is not repeated any more.
const BUDGET_S: f64 = 20.0;

/// Seconds for which a step is repeated at least. The system accounts for what runs once in a few
/// milliseconds, so what is as short as a verification must be repeated to be measured.
const MEASURED_S_MIN: f64 = 0.5;

/// The file has three numbers.
const SCHEDULED_BYTES_MAX: u64 = 4 << 10;

const HINT: &str = "this is an error of ours";

/// What was measured of one model in one mode.
#[derive(Serialize)]
struct Figures {
    model: &'static str,
    mode: &'static str,
    batch: usize,
    prove_cpu_s: f64,
    prove_wall_s: f64,
    verify_ms: f64,
    proof_bytes: usize,
    rss_mb: u64,
    setup_s: f64,
    security_bits: f64,
    rerun_ms: f64,
    hides: &'static str,
    macs: u64,
    ns_per_mac: f64,
    overhead: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_prove: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_verify: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_prove: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_verify: Option<f64>,
}

/// Carries out `bench proof`.
pub(crate) fn run(arguments: &BenchProofArguments, printer: &Printer) -> Result<Exit, Failure> {
    let public = Measured::Plain(Mode::Public);
    let is_wanted = |name: &str| {
        arguments.only.is_empty() || arguments.only.iter().any(|wanted| wanted == name)
    };
    let show = |name, model: &Arc<Model>, mode, batch, peer| -> Result<(), Failure> {
        let progress = printer.progress("proving");
        let mut figures = measure(name, model, (mode, batch), arguments.repeats, peer)?;
        if name == "digits" && batch > 1 {
            let found = in_turns(model, mode, arguments.repeats)?;
            (figures.batch_prove, figures.batch_verify) = (Some(found[0]), Some(found[1]));
        }
        drop(progress);
        printer.result(&figures, || text(&figures));
        Ok(())
    };
    let folder = arguments.models.as_deref();
    for (name, folder) in MODELS.into_iter().filter_map(|name| Some((name, folder?))) {
        if is_wanted(name) {
            let model = Arc::new(imported(folder, name)?);
            let python = arguments.ezkl.as_deref();
            let peer = python.map(|python| ezkl::measure(python, folder, name)).transpose()?;
            for mode in Measured::ALL {
                show(name, &model, mode, arguments.batch, peer)?;
            }
        }
    }
    if is_wanted("digits") {
        let model = Arc::new(imported_from(DIGITS, "cannot measure digits", HINT)?);
        for (mode, batch) in Measured::ALL.into_iter().flat_map(|mode| [(mode, 1), (mode, BATCH)]) {
            show("digits", &model, mode, batch, None)?;
        }
    }
    if is_wanted("vgg16") {
        show("vgg16", &Arc::new(networks::vgg16()), public, 1, None)?;
    }
    if is_wanted("gpt2-block") {
        show("gpt2-block", &Arc::new(networks::gpt2_block()), public, 1, None)?;
    }
    Ok(Exit::Done)
}

fn measure(
    name: &'static str,
    model: &Arc<Model>,
    (mode, batch): (Measured, usize),
    repeats: u32,
    peer: Option<Peer>,
) -> Result<Figures, Failure> {
    let what = format!("cannot measure {name}");
    forget_peak();
    let inputs: Vec<Vec<Tensor>> = (0..batch).map(|seed| inputs(model, seed)).collect();
    let ready = Ready::new(model, mode, &inputs, &what)?;
    let started = Instant::now();
    let bytes = (ready.prove)()?;
    let first_s = started.elapsed().as_secs_f64();
    let repeats = repeats.min((BUDGET_S / first_s) as u32).max(1);

    let (proving, prove_cpu_s) = repeated(repeats, || (ready.prove)().map(drop))?;
    let verify = || (ready.verify)(&bytes).or_fail(&what, HINT);
    let (verifying, verify_cpu_s) = repeated(repeats, verify)?;
    let rss_mb = Memory::read().peak_mib;
    let verify_ms = median(verifying) * 1e3;
    let rerun_ms = rerun_ms(model, &inputs, repeats);
    let macs = networks::multiply_adds(model.program()) * batch as u64;
    let (mode, hides) = mode.names();
    Ok(Figures {
        model: name,
        mode,
        batch,
        prove_cpu_s,
        prove_wall_s: median(proving),
        verify_ms,
        proof_bytes: bytes.len(),
        rss_mb,
        setup_s: ready.setup_s,
        security_bits: ready.security_bits,
        rerun_ms,
        hides,
        macs,
        ns_per_mac: prove_cpu_s * 1e9 / macs as f64,
        overhead: prove_cpu_s * 1e3 / rerun_ms,
        batch_prove: None,
        batch_verify: None,
        ratio_prove: peer.map(|peer| peer.prove_cpu_s / prove_cpu_s),
        ratio_verify: peer.map(|peer| peer.verify_s / verify_cpu_s),
    })
}

/// Seconds of every repetition of a step, and the mean of its processor time.
fn repeated(
    repeats: u32,
    step: impl Fn() -> Result<(), Failure>,
) -> Result<(Vec<f64>, f64), Failure> {
    let (mut times, started, scheduled) = (Vec::new(), Instant::now(), scheduled_s());
    while times.len() < repeats as usize || started.elapsed().as_secs_f64() < MEASURED_S_MIN {
        let started = Instant::now();
        step()?;
        times.push(started.elapsed().as_secs_f64());
    }
    let mean_s = (scheduled_s() - scheduled) / times.len() as f64;
    Ok((times, mean_s))
}

/// What a batch takes against one inference alone: processor time to prove for each of them, and
/// time to verify all.
fn in_turns(model: &Arc<Model>, mode: Measured, repeats: u32) -> Result<[f64; 2], Failure> {
    let what = "cannot measure a batch";
    let inputs: Vec<Vec<Tensor>> = (0..BATCH).map(|seed| inputs(model, seed)).collect();
    let one = Ready::new(model, mode, &inputs[..1], what)?;
    let batch = Ready::new(model, mode, &inputs, what)?;
    let bytes = [(one.prove)()?, (batch.prove)()?];
    let scheduled = |work: &dyn Fn()| {
        let before = scheduled_s();
        work();
        scheduled_s() - before
    };
    let (mut proving, mut verifying) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        let singles = || (0..SINGLES).for_each(|_| drop(std::hint::black_box((one.prove)())));
        let single_s = scheduled(&singles) / f64::from(SINGLES);
        let batch_s = scheduled(&|| drop(std::hint::black_box((batch.prove)())));
        proving.push(batch_s / BATCH as f64 / single_s);
        let verify =
            |ready: &Ready, bytes: &[u8]| drop(std::hint::black_box((ready.verify)(bytes)));
        let singles = || (0..SINGLES).for_each(|_| verify(&one, &bytes[0]));
        let single_s = once(singles) / f64::from(SINGLES);
        verifying.push(once(|| verify(&batch, &bytes[1])) / single_s);
    }
    Ok([median(proving), median(verifying)])
}

/// The median of running a model on all inputs.
fn rerun_ms(model: &Arc<Model>, inputs: &[Vec<Tensor>], repeats: u32) -> f64 {
    let runner = Runner::new(model.clone(), Options { threads: 1, path: None });
    let rerun = || {
        for inputs in inputs {
            drop(std::hint::black_box(runner.run(inputs)));
        }
    };
    rerun();
    median((0..repeats).map(|_| once(rerun)).collect()) * 1e3
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

/// Seconds that all threads of this process have been running, as the system accounts for it; 0
/// where it does not tell. The threads that prove stay until the end.
fn scheduled_s() -> f64 {
    let of = |task: &Path| {
        let bytes = files::read(&task.join("schedstat"), SCHEDULED_BYTES_MAX);
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        text.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.map(|task| of(&task.path())).sum::<f64>() / 1e9
}

/// Sets the peak of memory back to what is used now. Where that is not possible the peak of the
/// whole process is reported, and the help says so.
fn forget_peak() {
    const PEAK: &str = "5";
    let _kept = std::fs::write("/proc/self/clear_refs", PEAK);
}

fn text(figures: &Figures) -> String {
    let Figures { model, mode, batch, .. } = figures;
    let mut rows = vec![
        ("model", format!("{model}, {mode}, {batch} in a proof")),
        (
            "  prove",
            format!(
                "{:.1} ms of processor, {:.2} ns for a multiply-add, {:.0} runs",
                figures.prove_cpu_s * 1e3,
                figures.ns_per_mac,
                figures.overhead
            ),
        ),
        (
            "  verify",
            format!("{:.1} ms; running it again {:.2} ms", figures.verify_ms, figures.rerun_ms),
        ),
        (
            "  proof",
            format!("{} KB, {:.1} bits", figures.proof_bytes / 1_000, figures.security_bits),
        ),
        ("  setup", format!("{:.3} s, {} MiB", figures.setup_s, figures.rss_mb)),
    ];
    if let (Some(prove), Some(verify)) = (figures.batch_prove, figures.batch_verify) {
        let text = format!("each {prove:.3} of one alone to prove, all {verify:.1} to verify");
        rows.push(("  batch", text));
    }
    if let (Some(prove), Some(verify)) = (figures.ratio_prove, figures.ratio_verify) {
        rows.push(("  ezkl", format!("{prove:.0} times to prove, {verify:.0} times to verify")));
    }
    lines(&rows)
}

#[cfg(test)]
mod tests {
    use super::{DIGITS, HINT, imported_from, inputs};
    use std::sync::Arc;
    use tg_proof::{Mode, Prover, Verifier};

    /// Goal: what is imported can be proven. Method: fixtures of all kinds, with public and with
    /// secret weights.
    #[test]
    fn imported_fixtures_are_proven() {
        const BLOCK: &[u8] = include_bytes!("../../../../fixtures/transformer/block.onnx");
        const TOKENS: &[u8] = include_bytes!("../../../../fixtures/transformer/tokens.onnx");
        for bytes in [DIGITS, BLOCK, TOKENS] {
            let model = Arc::new(imported_from(bytes, "a fixture", HINT).expect("it is imported"));
            for mode in [Mode::Public, Mode::Committed] {
                let prover = Prover::new(model.clone(), mode, 1).expect("it can be proven");
                let (statement, proof) =
                    prover.prove(vec![inputs(&model, 3)], b"test".to_vec()).expect("it fits");
                let verifier = match mode {
                    Mode::Public => Verifier::public(model.clone(), 1),
                    Mode::Committed => {
                        Verifier::committed(model.program().clone(), prover.commitment(), 1)
                    }
                };
                let verifier = verifier.expect("it can be verified");
                let found = verifier.verify(&statement, &proof.to_bytes()).map(|found| found.bits);
                assert!(found.clone().is_ok_and(|bits| bits >= 100.0), "{found:?}");
            }
        }
    }
}
