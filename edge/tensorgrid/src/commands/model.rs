//! `model`: programs are made, shown, run and listed, and secret weights committed to. Nothing here
//! needs a network, but to register such weights with one.

mod import;
mod inputs;
mod run;
mod secret;
mod show;

use crate::{
    args::model::ModelArguments,
    failure::{Exit, Failure, OrFail as _},
    files,
    printer::Printer,
    work::connect::Way,
};
pub(super) use inputs::{Port, gather};
pub(super) use secret::look;
use std::path::Path;
use tg_tensor::Model;

/// The largest program or ONNX file that is read.
const MODEL_BYTES_MAX: u64 = 1 << 30;

/// The ending of a program's file.
const ENDING: &str = "tgp";

/// Carries out a `model` command.
pub(super) fn run(
    way: &Way,
    arguments: &ModelArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    match arguments {
        ModelArguments::Import(import) => import::run(import, printer),
        ModelArguments::Show(show) => show::show(show, printer),
        ModelArguments::Run(run) => run::run(run, printer),
        ModelArguments::List(list) => show::list(list, printer),
        ModelArguments::Commit(commit) => secret::commit(&way.keys, commit, printer),
        ModelArguments::Register(register) => secret::register(way, register, printer),
    }
}

/// Reads a program.
pub(super) fn read_model(path: &Path) -> Result<Model, Failure> {
    let bytes = read_bytes(path)?;
    Model::from_bytes(&bytes).or_fail(
        format_args!("{} is no tensor program", path.display()),
        "make one with `tensorgrid model import FILE.onnx`",
    )
}

/// Reads a program, or makes one of a model, with numbers of its own choice to decide the integers.
pub(super) fn read_program(path: &Path) -> Result<Model, Failure> {
    if path.extension().is_some_and(|ending| ending == "onnx") {
        return import::plainly(path);
    }
    read_model(path)
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let what = format_args!("cannot read {}", path.display()).to_string();
    files::read(path, MODEL_BYTES_MAX).or_fail(what, "check the path and its permissions")
}

/// A number with its thousands set apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let lead = digits.len() % 3;
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && place % 3 == lead {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A shape as people write it.
fn sides(shape: &[u32]) -> String {
    if shape.is_empty() {
        return "1".to_owned();
    }
    shape.iter().map(u32::to_string).collect::<Vec<_>>().join("x")
}

#[cfg(test)]
mod tests {
    use super::{grouped, sides};

    #[test]
    fn numbers_and_shapes_read_well() {
        let numbers = [0, 12, 999, 1_000, 1_234_567];
        assert_eq!(numbers.map(grouped), ["0", "12", "999", "1,000", "1,234,567"]);
        assert_eq!(sides(&[1, 3, 28]), "1x3x28");
    }
}
