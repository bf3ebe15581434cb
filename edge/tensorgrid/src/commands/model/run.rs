//! `model run`

use super::inputs::{self, Port};
use super::{read_bytes, read_model};
use crate::{
    args::model::{DeviceName, RunArguments},
    arrays,
    failure::{Exit, Failure, OrFail as _},
    files,
    printer::Printer,
};
use serde::Serialize;
use std::time::{Duration, Instant};
use tg_onnx::{OutputReport, Source};
use tg_tensor::commit::Salt;
use tg_tensor::trace::{TraceBuilder, inputs_root, outputs_root};
use tg_tensor::{Array, Data, MAGIC, Model, Options, Path as Kernels, Runner, Tensor};

/// How many numbers of an output are shown.
const SHOWN: usize = 8;

#[derive(Serialize)]
struct Told {
    file: String,
    arithmetic: &'static str,
    runs: usize,
    run_us: f64,
    outputs: Vec<ToldOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top1: Option<ToldTop>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traces: Vec<ToldTrace>,
}

#[derive(Serialize)]
struct ToldOutput {
    name: String,
    shape: Vec<usize>,
    first: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cosine: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_max: Option<f64>,
}

#[derive(Serialize)]
struct ToldTop {
    right: usize,
    of: usize,
    percent: f64,
}

#[derive(Clone, Serialize)]
struct ToldTrace {
    program_id: String,
    weights_id: String,
    input_root: String,
    output_id: String,
    trace_root: String,
}

/// What runs gave: one array for each output, over all runs.
struct Outcome {
    names: Vec<String>,
    arrays: Vec<Array>,
    runs: usize,
    took: Duration,
    traces: Vec<ToldTrace>,
}

pub(super) fn run(arguments: &RunArguments, printer: &Printer) -> Result<Exit, Failure> {
    let bytes = read_bytes(&arguments.file)?;
    let is_program = bytes.starts_with(&MAGIC);
    let progress = printer.progress(format!("running {}", arguments.file.display()));
    let outcome = if is_program {
        run_program(read_model(&arguments.file)?, arguments)?
    } else {
        run_float(&bytes, arguments)?
    };
    drop(progress);
    if let Some(out) = &arguments.out {
        let named: Vec<(String, Array)> =
            outcome.names.iter().cloned().zip(outcome.arrays.iter().cloned()).collect();
        arrays::write(out, &named).map_err(|error| {
            Failure::new(format_args!("cannot write {}", out.display()), error.hint())
                .because(&error)
        })?;
    }
    let told = Told {
        file: arguments.file.display().to_string(),
        arithmetic: if is_program { "integer" } else { "float" },
        runs: outcome.runs,
        run_us: outcome.took.as_secs_f64() * 1e6 / outcome.runs.max(1) as f64,
        outputs: told_outputs(&outcome, arguments)?,
        top1: top1(&outcome, arguments)?,
        traces: outcome.traces.clone(),
    };
    printer.result(&told, || text(&told));
    Ok(Exit::Done)
}

fn run_program(model: Model, arguments: &RunArguments) -> Result<Outcome, Failure> {
    let program = model.program().clone();
    let ports: Vec<Port> = program.inputs().iter().map(Port::of).collect();
    let samples = inputs::samples(&inputs::gather(&arguments.input, &ports)?, &ports)?;
    let runner = device(model, arguments)?;
    let mut traces = Vec::new();
    let mut parts: Vec<Vec<Array>> = vec![Vec::new(); program.outputs().len()];
    let mut took = Duration::ZERO;
    for sample in &samples {
        let encoded: Result<Vec<Tensor>, _> =
            program.inputs().iter().zip(sample).map(|(port, array)| port.encode(array)).collect();
        let encoded = encoded.or_fail("the input does not fit the program", RANGE_HINT)?;
        let started = Instant::now();
        let found = if arguments.trace {
            let (found, trace) = traced(&runner, &encoded)?;
            traces.push(trace);
            found
        } else {
            runner.run(&encoded).or_fail("the program cannot be run", RANGE_HINT)?
        };
        took += started.elapsed();
        for ((part, port), tensor) in parts.iter_mut().zip(program.outputs()).zip(&found) {
            part.push(port.decode(tensor));
        }
    }
    let names = program.outputs().iter().map(|output| output.label.as_str().to_owned()).collect();
    let arrays = parts.into_iter().map(|parts| stack(&parts)).collect::<Result<_, _>>()?;
    Ok(Outcome { names, arrays, runs: samples.len(), took, traces })
}

const RANGE_HINT: &str = "`tensorgrid model show` tells the shapes and ranges of its inputs";

fn device(model: Model, arguments: &RunArguments) -> Result<Runner, Failure> {
    let path = arguments.portable.then_some(Kernels::Portable);
    let options = Options { threads: arguments.threads, path };
    let runner = Runner::new(model, options);
    match arguments.device {
        DeviceName::Cpu => Ok(runner),
        DeviceName::Gpu(number) => on_gpu(runner, number),
    }
}

#[cfg(feature = "wgpu")]
fn on_gpu(runner: Runner, number: usize) -> Result<Runner, Failure> {
    use tg_tensor::gpu::{self, Gpu};
    let names: Vec<String> = (0_usize..)
        .zip(gpu::devices())
        .map(|(at, info)| format!("gpu:{at} {}", info.name))
        .collect();
    let hint = match names.as_slice() {
        [] => "no GPU was found; use --device cpu".to_owned(),
        found => format!("there are: {}; or use --device cpu", found.join(", ")),
    };
    let what = format!("gpu:{number} cannot be used");
    let gpu = Gpu::open(number).or_fail(&what, &hint)?;
    runner.on(&gpu).or_fail(&what, &hint)
}

#[cfg(not(feature = "wgpu"))]
fn on_gpu(_runner: Runner, number: usize) -> Result<Runner, Failure> {
    Err(Failure::misuse(
        format_args!("there is no gpu:{number}: this build has no GPU kernels"),
        "build with `cargo build --release --features wgpu`, or use --device cpu",
    ))
}

/// Runs with a trace under a fresh salt.
fn traced(runner: &Runner, inputs: &[Tensor]) -> Result<(Vec<Tensor>, ToldTrace), Failure> {
    let hint = "try without --trace";
    let secret = files::random::<32>().or_fail("no salt for the trace", hint)?;
    let program = runner.model().program();
    let mut builder = TraceBuilder::new(program, Salt::new(secret));
    let mut refused = None;
    let outputs = runner
        .run_observed(inputs, &mut |operation, elements| {
            if let Err(error) = builder.operation(operation, elements) {
                refused = Some(error);
            }
        })
        .or_fail("the program cannot be run", RANGE_HINT)?;
    if let Some(error) = refused {
        return Err(Failure::new("the trace cannot be made", hint).because(&error));
    }
    let trace = builder.finish().or_fail("the trace cannot be made", hint)?;
    let told = ToldTrace {
        program_id: runner.model().id().to_string(),
        weights_id: runner.model().weights_id().to_string(),
        input_root: inputs_root(inputs, &Salt::NONE).to_string(),
        output_id: outputs_root(outputs.iter()).to_string(),
        trace_root: trace.root().to_string(),
    };
    Ok((outputs, told))
}

fn run_float(bytes: &[u8], arguments: &RunArguments) -> Result<Outcome, Failure> {
    let hint = "an ONNX file is run in floats; `tensorgrid model import` makes a program of it";
    let source = Source::read(bytes, &tg_onnx::Options::default())
        .or_fail(format_args!("cannot run {}", arguments.file.display()), hint)?;
    let graph = source.graph();
    let ports: Vec<Port> = graph
        .inputs()
        .iter()
        .map(|input| Port {
            name: graph.value(*input).name.clone(),
            sides: graph.dims(*input).to_vec(),
        })
        .collect();
    let samples = inputs::samples(&inputs::gather(&arguments.input, &ports)?, &ports)?;
    let mut parts: Vec<Vec<Array>> = vec![Vec::new(); graph.outputs().len()];
    let started = Instant::now();
    for sample in &samples {
        let found = source.run(sample).or_fail("the float model cannot be run", hint)?;
        for (part, array) in parts.iter_mut().zip(found) {
            part.push(array);
        }
    }
    let took = started.elapsed();
    let names = graph.outputs().iter().map(|output| graph.value(*output).name.clone()).collect();
    let arrays = parts.into_iter().map(|parts| stack(&parts)).collect::<Result<_, _>>()?;
    Ok(Outcome { names, arrays, runs: samples.len(), took, traces: Vec::new() })
}

/// Several runs' arrays as one, with the runs along the first axis.
fn stack(parts: &[Array]) -> Result<Array, Failure> {
    let [first, rest @ ..] = parts else {
        return Err(Failure::misuse("there is nothing to run", "give an input that is not empty"));
    };
    if rest.is_empty() {
        return Ok(first.clone());
    }
    let mut shape = first.shape().to_vec();
    match shape.first_mut() {
        Some(side) => *side *= parts.len(),
        None => shape.push(parts.len()),
    }
    let data = match first.data() {
        Data::Float(_) => Data::Float(parts.iter().flat_map(Array::to_floats).collect()),
        Data::Int(_) => {
            let numbers = |part: &Array| match part.data() {
                Data::Int(numbers) => numbers.clone(),
                Data::Float(numbers) => numbers.iter().map(|number| *number as i64).collect(),
            };
            Data::Int(parts.iter().flat_map(numbers).collect())
        }
    };
    Array::new(shape, data).or_fail("outputs of runs differ in shape", "this is an error of ours")
}

fn told_outputs(outcome: &Outcome, arguments: &RunArguments) -> Result<Vec<ToldOutput>, Failure> {
    let expected = match &arguments.compare {
        Some(path) => inputs::read(path)?,
        None => Vec::new(),
    };
    let mut told = Vec::new();
    for (index, (name, array)) in outcome.names.iter().zip(&outcome.arrays).enumerate() {
        let by_name = expected.iter().find(|(own, _)| own.as_ref() == Some(name));
        let wanted = by_name.or_else(|| expected.get(index)).map(|(_, array)| array);
        if let Some(wanted) = wanted
            && wanted.len() != array.len()
        {
            return Err(Failure::misuse(
                format_args!("{name:?} has {} numbers, {} to compare", array.len(), wanted.len()),
                "compare with outputs of the same inputs",
            ));
        }
        let report = wanted.map(|wanted| OutputReport::compare(name, array, wanted, 1.0));
        told.push(ToldOutput {
            name: name.clone(),
            shape: array.shape().to_vec(),
            first: array.to_floats().iter().take(SHOWN).map(|number| f64::from(*number)).collect(),
            cosine: report.as_ref().map(|report| report.cosine),
            error_max: report.as_ref().map(|report| report.error_max),
        });
    }
    Ok(told)
}

fn top1(outcome: &Outcome, arguments: &RunArguments) -> Result<Option<ToldTop>, Failure> {
    let Some(path) = &arguments.labels else { return Ok(None) };
    let labels = inputs::read(path)?;
    let labels = labels.first().map(|(_, array)| array.to_floats()).unwrap_or_default();
    let Some(output) = outcome.arrays.first() else { return Ok(None) };
    let numbers = output.to_floats();
    let row = numbers.len() / labels.len().max(1);
    if row == 0 || row * labels.len() != numbers.len() {
        return Err(Failure::misuse(
            format_args!("{} labels for {} numbers", labels.len(), numbers.len()),
            "give one label for each run",
        ));
    }
    let best = |row: &[f32]| {
        let largest = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
        largest.map_or(0, |(place, _)| place)
    };
    let rows = numbers.chunks(row).zip(&labels);
    let right = rows.filter(|(row, label)| best(row) as f32 == **label).count();
    let percent = right as f64 * 100.0 / labels.len() as f64;
    Ok(Some(ToldTop { right, of: labels.len(), percent }))
}

fn text(told: &Told) -> String {
    let mut lines = vec![format!(
        "{}: {} runs in {} arithmetic, {:.1} µs each",
        told.file, told.runs, told.arithmetic, told.run_us
    )];
    for output in &told.outputs {
        let first: Vec<String> = output.first.iter().map(|number| format!("{number:.5}")).collect();
        let more = if output.shape.iter().product::<usize>() > SHOWN { " …" } else { "" };
        lines.push(format!("{} {:?}: {}{more}", output.name, output.shape, first.join(" ")));
        if let (Some(cosine), Some(error)) = (output.cosine, output.error_max) {
            lines.push(format!("  cosine {cosine:.6}, largest error {error:.5}"));
        }
    }
    if let Some(top) = &told.top1 {
        lines.push(format!("right class in {} of {} ({:.2} %)", top.right, top.of, top.percent));
    }
    for trace in &told.traces {
        lines.push(format!("program {}", trace.program_id));
        lines.push(format!("weights {}", trace.weights_id));
        lines.push(format!("input   {}", trace.input_root));
        lines.push(format!("output  {}", trace.output_id));
        lines.push(format!("trace   {}", trace.trace_root));
    }
    lines.join("\n")
}
