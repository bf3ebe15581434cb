//! `model show` and `model list`

use super::{ENDING, grouped, read_model, sides};
use crate::{
    args::model::{ListArguments, ShowArguments},
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, Tone},
};
use serde::Serialize;
use std::{collections::BTreeMap, fs, path::Path};
use tg_tensor::program::{Place, Program, Spec, ValueId};
use tg_tensor::{Model, Options, Runner};

#[derive(Serialize)]
struct Told {
    file: String,
    program_id: String,
    weights_id: String,
    inputs: Vec<ToldPort>,
    outputs: Vec<ToldPort>,
    constants: usize,
    weights: u64,
    multiply_adds: u64,
    memory_bytes: u64,
    primitives: BTreeMap<&'static str, usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operations: Vec<ToldOperation>,
}

#[derive(Serialize)]
struct ToldPort {
    name: String,
    shape: Vec<u32>,
    lo: i32,
    hi: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    scale: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zero: Option<i32>,
}

#[derive(Serialize)]
struct ToldOperation {
    number: u32,
    primitive: &'static str,
    reads: Vec<String>,
    elements: u32,
    lo: i32,
    hi: i32,
    label: String,
}

pub(super) fn show(arguments: &ShowArguments, printer: &Printer) -> Result<Exit, Failure> {
    let model = read_model(&arguments.file)?;
    let told = told(&arguments.file, &model, arguments.operations);
    printer.result(&told, || text(&told, printer));
    Ok(Exit::Done)
}

fn told(file: &Path, model: &Model, operations: bool) -> Told {
    let program = model.program();
    let mut primitives = BTreeMap::new();
    for operation in program.operations() {
        *primitives.entry(operation.primitive.name()).or_default() += 1;
    }
    let port = |name: &str, shape: &[u32], spec: Spec, scaling: Option<_>| {
        let scaling: Option<tg_tensor::program::Scaling> = scaling;
        ToldPort {
            name: name.to_owned(),
            shape: shape.to_vec(),
            lo: spec.lo,
            hi: spec.hi,
            scale: scaling.map(|scaling| scaling.scale),
            zero: scaling.map(|scaling| scaling.zero),
        }
    };
    let empty = Spec { len: 0, lo: 0, hi: 0 };
    Told {
        file: file.display().to_string(),
        program_id: model.id().to_string(),
        weights_id: model.weights_id().to_string(),
        inputs: program
            .inputs()
            .iter()
            .map(|input| {
                port(input.label.as_str(), input.shape.as_slice(), input.spec, input.scaling)
            })
            .collect(),
        outputs: program
            .outputs()
            .iter()
            .map(|output| {
                let spec = program.spec(output.value).unwrap_or(empty);
                port(output.label.as_str(), output.shape.as_slice(), spec, output.scaling)
            })
            .collect(),
        constants: program.constants().len(),
        weights: model.constants().iter().map(|constant| constant.len() as u64).sum(),
        multiply_adds: program.multiply_adds(),
        memory_bytes: Runner::new(model.clone(), Options::default()).memory_bytes(),
        primitives,
        operations: if operations { operation_list(program) } else { Vec::new() },
    }
}

fn operation_list(program: &Program) -> Vec<ToldOperation> {
    let name = |value: ValueId| match program.place(value) {
        Some(Place::Input(index)) => format!("input {index}"),
        Some(Place::Constant(index)) => format!("constant {index}"),
        Some(Place::Operation(index)) => format!("{index}"),
        None => "?".to_owned(),
    };
    let operations = program.operations().iter().zip(0_u32..);
    operations
        .map(|(operation, number)| ToldOperation {
            number,
            primitive: operation.primitive.name(),
            reads: operation.primitive.reads().into_iter().map(name).collect(),
            elements: operation.spec.len,
            lo: operation.spec.lo,
            hi: operation.spec.hi,
            label: operation.label.as_str().to_owned(),
        })
        .collect()
}

fn text(told: &Told, printer: &Printer) -> String {
    let mut lines = vec![
        printer.word(Tone::Strong, &told.file),
        format!("program  {}", told.program_id),
        format!("weights  {}", told.weights_id),
    ];
    for (word, ports) in [("input ", &told.inputs), ("output", &told.outputs)] {
        for port in ports {
            let meaning = match (port.scale, port.zero) {
                (Some(scale), Some(zero)) => format!("real = (integer - {zero}) * {scale:.6e}"),
                _ => "plain integers".to_owned(),
            };
            lines.push(format!(
                "{word}   {}  {}  {}..={}  {meaning}",
                port.name,
                sides(&port.shape),
                port.lo,
                port.hi
            ));
        }
    }
    let kinds: Vec<String> =
        told.primitives.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    lines.push(format!(
        "work     {} multiply-adds: {}",
        grouped(told.multiply_adds),
        kinds.join(", ")
    ));
    lines.push(format!(
        "memory   {} weights in {} constants, {} bytes while running",
        grouped(told.weights),
        told.constants,
        grouped(told.memory_bytes)
    ));
    for operation in &told.operations {
        lines.push(format!(
            "{:>5}  {:9}  {:>9}  {:>6}..={:<6}  reads {:24}  {}",
            operation.number,
            operation.primitive,
            operation.elements,
            operation.lo,
            operation.hi,
            operation.reads.join(", "),
            operation.label
        ));
    }
    lines.join("\n")
}

#[derive(Serialize)]
struct Listed {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    program_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multiply_adds: Option<u64>,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

pub(super) fn list(arguments: &ListArguments, printer: &Printer) -> Result<Exit, Failure> {
    let folder = &arguments.folder;
    let what = format!("cannot list {}", folder.display());
    let entries = fs::read_dir(folder).or_fail(&what, "give a folder that exists")?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.or_fail(&what, "check its permissions")?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        printer.say(format_args!(
            "no programs in {}; make one with `tensorgrid model import FILE.onnx`",
            folder.display()
        ));
    }
    for file in files {
        let bytes = fs::metadata(&file).map_or(0, |about| about.len());
        let model = read_model(&file);
        let listed = Listed {
            file: file.display().to_string(),
            program_id: model.as_ref().ok().map(|model| model.id().to_string()),
            multiply_adds: model.as_ref().ok().map(|model| model.program().multiply_adds()),
            bytes,
            refused: model.as_ref().err().map(|failure| failure.what.clone()),
        };
        printer.result(&listed, || match (&listed.program_id, listed.multiply_adds) {
            (Some(id), Some(work)) => format!(
                "{}  {} bytes  {} multiply-adds  {id}",
                listed.file,
                grouped(bytes),
                grouped(work)
            ),
            _ => format!("{}  {}", listed.file, listed.refused.clone().unwrap_or_default()),
        });
    }
    Ok(Exit::Done)
}
