//! `model import`

use super::inputs::{self, Port};
use super::{ENDING, grouped, read_bytes};
use crate::{
    args::model::{ImportArguments, NamedFile},
    failure::{Exit, Failure, OrFail as _},
    files::{self, Readers},
    printer::Printer,
};
use serde::Serialize;
use std::path::Path;
use tg_onnx::{Choices, Imported, Options, OutputReport, Refused, Sample, Source, generate};
use tg_tensor::Model;

/// The most samples that decide the integers; more only take time.
const CALIBRATION_MAX: usize = 256;

/// Generated samples for calibration unless told otherwise: half of what `model import` makes.
const SAMPLES_USUAL: usize = 16;

/// Bits of activations unless told otherwise.
const ACTIVATION_BITS_USUAL: u32 = 8;

/// Seeds of generated samples for calibration and for comparison.
const SEEDS: [u64; 2] = [1, 2];

#[derive(Serialize)]
struct Told<'a> {
    file: String,
    program: String,
    program_id: String,
    weights_id: String,
    operations: usize,
    multiply_adds: u64,
    bytes: usize,
    data: &'static str,
    calibrated_on: usize,
    compared_on: usize,
    skipped: usize,
    outputs: Vec<ToldOutput<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<ToldOutput<'a>>,
}

#[derive(Serialize)]
struct ToldOutput<'a> {
    name: &'a str,
    cosine: f64,
    error_max: f64,
    magnitude_max: f64,
    top1_same: usize,
    rows: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    numbers_differ: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps_max: Option<f64>,
    numbers: usize,
}

impl<'a> ToldOutput<'a> {
    fn new(report: &'a OutputReport, quantised: bool) -> Self {
        Self {
            name: &report.name,
            cosine: report.cosine,
            error_max: report.error_max,
            magnitude_max: report.magnitude_max,
            top1_same: report.top_same,
            rows: report.rows,
            numbers_differ: quantised.then_some(report.steps_differ),
            steps_max: quantised.then_some(report.steps_max),
            numbers: report.numbers,
        }
    }
}

/// What the integers are decided by, and what they are compared on.
struct Samples {
    calibration: Vec<Sample>,
    evaluation: Vec<Sample>,
    origin: &'static str,
}

pub(super) fn run(arguments: &ImportArguments, printer: &Printer) -> Result<Exit, Failure> {
    let progress = printer.progress(format!("importing {}", arguments.file.display()));
    let bytes = read_bytes(&arguments.file)?;
    let mut options = Options::default();
    for shape in &arguments.shape {
        options.shapes.insert(shape.name.clone(), shape.sides.clone());
    }
    let failed = |error: Refused| {
        let hint = hint(&error);
        let what = format!("cannot import {}", arguments.file.display());
        Failure::new(what, hint).because(&error)
    };
    let source = Source::read(&bytes, &options).map_err(failed)?;
    let samples = samples(arguments, &source)?;
    let choices = Choices { activation_bits: arguments.bits };
    let imported =
        source.import(&samples.calibration, &samples.evaluation, choices).map_err(failed)?;
    let layers = match samples.evaluation.first() {
        Some(sample) if arguments.layers => imported.layers(&source, sample).map_err(failed)?,
        _ => Vec::new(),
    };
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => arguments.file.with_extension(ENDING),
    };
    let file = imported.model.to_bytes();
    files::write(&out, &file, Readers::All)
        .or_fail(format_args!("cannot write {}", out.display()), "choose another file with -o")?;
    drop(progress);
    tell(printer, (&arguments.file, &out), &source, &imported, &samples, (&layers, file.len()));
    Ok(Exit::Done)
}

/// Imports a model as `model import` does when it is told nothing else.
pub(super) fn plainly(file: &Path) -> Result<Model, Failure> {
    let failed = |error: Refused| {
        Failure::new(format!("cannot import {}", file.display()), hint(&error)).because(&error)
    };
    let source = Source::read(&read_bytes(file)?, &Options::default()).map_err(failed)?;
    let samples = generate::samples(source.graph(), SEEDS[0], SAMPLES_USUAL);
    let choices = Choices { activation_bits: ACTIVATION_BITS_USUAL };
    Ok(source.import(&samples, &[], choices).map_err(failed)?.model)
}

fn samples(arguments: &ImportArguments, source: &Source) -> Result<Samples, Failure> {
    let graph = source.graph();
    let Some(file) = &arguments.calibrate else {
        let half = arguments.samples as usize / 2;
        let [first, second] = SEEDS.map(|seed| generate::samples(graph, seed, half.max(1)));
        return Ok(Samples { calibration: first, evaluation: second, origin: "generated" });
    };
    let ports: Vec<Port> = graph
        .inputs()
        .iter()
        .map(|input| Port {
            name: graph.value(*input).name.clone(),
            sides: graph.dims(*input).to_vec(),
        })
        .collect();
    let read = |path: &Path| {
        let file = NamedFile { name: None, path: path.to_owned() };
        inputs::samples(&inputs::gather(&[file], &ports)?, &ports)
    };
    let given = read(file)?;
    if let Some(evaluate) = &arguments.evaluate {
        let calibration = given.into_iter().take(CALIBRATION_MAX).collect();
        return Ok(Samples { calibration, evaluation: read(evaluate)?, origin: "given" });
    }
    if given.len() == 1 {
        let evaluation = generate::samples(graph, SEEDS[1], arguments.samples as usize / 2);
        let origin = "one given sample for calibration, generated ones for comparison";
        return Ok(Samples { calibration: given, evaluation, origin });
    }
    let (mut calibration, mut evaluation) = (Vec::new(), Vec::new());
    for (index, sample) in given.into_iter().enumerate() {
        if index % 2 == 0 && calibration.len() < CALIBRATION_MAX {
            calibration.push(sample);
        } else {
            evaluation.push(sample);
        }
    }
    Ok(Samples { calibration, evaluation, origin: "given" })
}

fn tell(
    printer: &Printer,
    (file, out): (&Path, &Path),
    source: &Source,
    imported: &Imported,
    samples: &Samples,
    (layers, bytes): (&[OutputReport], usize),
) {
    let program = imported.model.program();
    let quantised = source.is_quantised();
    let told = |report| ToldOutput::new(report, quantised);
    let value = Told {
        file: file.display().to_string(),
        program: out.display().to_string(),
        program_id: imported.model.id().to_string(),
        weights_id: imported.model.weights_id().to_string(),
        operations: program.operations().len(),
        multiply_adds: program.multiply_adds(),
        bytes,
        data: samples.origin,
        calibrated_on: samples.calibration.len(),
        compared_on: imported.report.samples,
        skipped: imported.report.skipped,
        outputs: imported.report.outputs.iter().map(told).collect(),
        layers: layers.iter().map(told).collect(),
    };
    printer.result(&value, || text(&value));
}

fn text(told: &Told<'_>) -> String {
    let mut lines = vec![
        format!(
            "{}: {} operations, {} multiply-adds, {} bytes",
            told.program,
            told.operations,
            grouped(told.multiply_adds),
            grouped(told.bytes as u64)
        ),
        format!("program  {}", told.program_id),
        format!("weights  {}", told.weights_id),
    ];
    for layer in &told.layers {
        lines.push(format!(
            "layer    {:.5}  error {:.4} of {:.4}  {}",
            layer.cosine, layer.error_max, layer.magnitude_max, layer.name
        ));
    }
    for output in &told.outputs {
        lines.push(format!(
            "output   {}: cosine {:.6}, largest error {:.4} of {:.4}, same top element in {} of {} \
             rows",
            output.name,
            output.cosine,
            output.error_max,
            output.magnitude_max,
            output.top1_same,
            output.rows
        ));
        if let (Some(differ), Some(steps)) = (output.numbers_differ, output.steps_max) {
            lines.push(format!(
                "         {differ} of {} numbers differ from the quantised file, by at most \
                 {steps:.0} steps",
                output.numbers
            ));
        }
    }
    lines.push(format!(
        "data     {} (calibrated on {}, compared on {} others)",
        told.data, told.calibrated_on, told.compared_on
    ));
    if told.skipped > 0 {
        lines.push(format!(
            "         {} samples skipped: they hold whole numbers beyond those of calibration",
            told.skipped
        ));
    }
    if told.data == "generated" {
        lines.push("         real inputs give better integers: --calibrate FILE".to_owned());
    }
    lines.join("\n")
}

/// What to do about a model that is refused.
fn hint(error: &Refused) -> String {
    match error {
        Refused::Graph(error) => match error.hint() {
            Some(hint) => hint.to_owned(),
            None => "check that the file is a whole ONNX model of opset 11 to 21".to_owned(),
        },
        Refused::Lower(_) => "docs/tensor-program.md lists what programs can express".to_owned(),
        Refused::Float(_) | Refused::Run(_) | Refused::Sample(_) | Refused::NoData => {
            "give inputs of the model's shapes with --calibrate".to_owned()
        }
    }
}
