//! Models in floating point, from a client's side: what is handed in, and what comes back.
//!
//! The model is read here too, so that a wrong input is refused before money is locked. It is the
//! client's own file; on the provider's side it is a stranger's and is read in a sandbox.

use super::{fetch, plan::What};
use crate::{
    args::model::NamedFile,
    commands::model::{self, Port},
    failure::{Failure, OrFail as _},
    files,
    work::order::{OrderError, TaskFile, TaskOrder},
};
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};
use tg_agent::float_run::{INPUTS_FILE, MODEL_FILE, OUTPUTS_FILE};
use tg_float::{Arrays, Data, Element, FloatModel, MODEL_BYTES_MAX};
use tg_gateway::package::check_memory;
use tg_gateway::task::{NamedFile as OutputFile, Root, TaskLimits};
use tg_gateway::{PackageError, TaskOutput};
use tg_tensor::Array;
use tg_types::{Decode as _, Encode as _};

/// A number that an input cannot hold.
#[derive(Debug, thiserror::Error)]
enum NumberError {
    #[error("input {name:?} takes whole numbers ({expected}), but its file holds floats")]
    Float { name: String, expected: Element },
    #[error("input {name:?} takes {expected}, which cannot hold {found}")]
    Wide { name: String, expected: Element, found: i64 },
}

/// What is handed in for a model.
pub(super) fn what(
    path: &Path,
    inputs: Vec<NamedFile>,
    outputs: Vec<(String, PathBuf)>,
    limits: TaskLimits,
) -> Result<What, Failure> {
    if path.extension().is_none_or(|ending| ending != "onnx") {
        let hint = "leave --float out for programs (.tgp), which are whole numbers";
        return Err(Failure::misuse(format!("{} is no .onnx file", path.display()), hint));
    }
    let max = u64::try_from(MODEL_BYTES_MAX).unwrap_or(u64::MAX);
    let bytes = files::read(path, max)
        .or_fail(format_args!("cannot read {}", path.display()), "is the path right?")?;
    let model = FloatModel::from_bytes(&bytes).or_fail(
        format_args!("{} cannot be run in floating point", path.display()),
        "an image with the runtime it was made for can run it: --image NAME -- COMMAND",
    )?;
    let order = TaskOrder {
        program: Vec::new(),
        environment: Vec::new(),
        root: Root::Onnx,
        limits,
        network: false,
        checkpoint: None,
        files: vec![(MODEL_FILE.to_owned(), TaskFile::Bytes(bytes.into()))],
    };
    Ok(What::Float { model: Box::new(model), inputs, order: Box::new(order), outputs })
}

/// The file with the inputs of a run.
pub(super) fn read_inputs(
    model: &FloatModel,
    files: &[NamedFile],
) -> Result<(String, TaskFile), Failure> {
    let ports: Vec<Port> = model.inputs().iter().map(|port| Port::named(&port.name)).collect();
    let found = model::gather(files, &ports)?;
    let what = "an input does not fit the model";
    let mut arrays = Arrays::new();
    for (port, array) in model.inputs().iter().zip(&found) {
        let hint = "convert the array first, say with array.astype(numpy.int32)";
        let data = data(&port.name, port.element, array).or_fail(what, hint)?;
        let array = tg_float::Array::new(array.shape().to_vec(), data);
        let hint = "give it fewer numbers; one job is one run";
        arrays.insert(&port.name, array.or_fail(what, hint)?).or_fail(what, hint)?;
    }
    model.check(&arrays).or_fail(what, "free sides have names, the others a fixed length")?;
    Ok((INPUTS_FILE.to_owned(), TaskFile::Bytes(arrays.to_bytes().into())))
}

/// The numbers of a file as an input takes them. Whole numbers may stand for floats.
fn data(name: &str, element: Option<Element>, array: &Array) -> Result<Data, NumberError> {
    let name = || name.to_owned();
    let (numbers, expected) = match (array.data(), element) {
        (tg_tensor::Data::Float(numbers), Some(Element::F32) | None) => {
            return Ok(Data::F32(numbers.clone()));
        }
        (tg_tensor::Data::Float(_), Some(expected)) => {
            return Err(NumberError::Float { name: name(), expected });
        }
        (tg_tensor::Data::Int(_), Some(Element::F32)) => return Ok(Data::F32(array.to_floats())),
        (tg_tensor::Data::Int(numbers), element) => (numbers, element.unwrap_or(Element::I32)),
    };
    let wide = |found: i64| NumberError::Wide { name: name(), expected, found };
    Ok(match expected {
        Element::I8 => Data::I8(narrow(numbers, wide)?),
        Element::U8 => Data::U8(narrow(numbers, wide)?),
        Element::I32 | Element::F32 => Data::I32(narrow(numbers, wide)?),
    })
}

fn narrow<T: TryFrom<i64>>(
    numbers: &[i64],
    wide: impl Fn(i64) -> NumberError,
) -> Result<Vec<T>, NumberError> {
    numbers.iter().map(|number| T::try_from(*number).map_err(|_| wide(*number))).collect()
}

/// Whether a task's output is that of a float model.
pub(super) fn is_output(output: &TaskOutput) -> bool {
    matches!(output.files.as_slice(), [file] if is_outputs_file(file))
}

/// Takes the bytes of the outputs of a model from a task's files.
pub(super) fn take(output: &TaskOutput, from: &mut dyn Read) -> Result<Vec<u8>, OrderError> {
    let mut outputs = Vec::new();
    for file in output.files.as_slice() {
        let is_wanted = is_outputs_file(file) && outputs.is_empty();
        let read = if is_wanted {
            check_memory(file.bytes)?;
            file.read(from, &mut outputs)
        } else {
            file.read(from, &mut io::sink())
        };
        read.map_err(PackageError::from)?;
    }
    Ok(outputs)
}

fn is_outputs_file(file: &OutputFile) -> bool {
    file.path.as_slice() == OUTPUTS_FILE.as_bytes()
}

/// Writes the outputs of a model: all into one file, and each into its own.
pub(super) fn write(
    bytes: &[u8],
    out: Option<&Path>,
    named: &[(String, PathBuf)],
) -> Result<(), Failure> {
    let hint = "the provider answers something odd; ask another one";
    let arrays = Arrays::from_bytes(bytes);
    let arrays = arrays.or_fail("the outputs cannot be read", hint)?;
    let mut decoded = Vec::new();
    for (name, array) in arrays.iter() {
        let shape = array.shape().to_vec();
        let array = Array::new(shape, numbers(array.data()));
        decoded.push((name.to_owned(), array.or_fail("the outputs cannot be read", hint)?));
    }
    fetch::write_arrays(&decoded, out, named)
}

fn numbers(data: &Data) -> tg_tensor::Data {
    fn widen<T: Copy + Into<i64>>(numbers: &[T]) -> tg_tensor::Data {
        tg_tensor::Data::Int(numbers.iter().map(|number| (*number).into()).collect())
    }
    match data {
        Data::F32(numbers) => tg_tensor::Data::Float(numbers.clone()),
        Data::I32(numbers) => widen(numbers),
        Data::I8(numbers) => widen(numbers),
        Data::U8(numbers) => widen(numbers),
    }
}

#[cfg(test)]
mod tests {
    use super::{NumberError, data, numbers};
    use tg_float::{Data, Element};
    use tg_tensor::Array;

    #[test]
    fn numbers_fit_their_input_or_are_refused() {
        let whole = Array::new(vec![2], tg_tensor::Data::Int(vec![-1, 200])).expect("an array");
        let floats = Array::new(vec![1], tg_tensor::Data::Float(vec![0.5])).expect("an array");
        let fit = |element, array: &Array| data("x", element, array);
        assert!(matches!(fit(None, &whole), Ok(Data::I32(found)) if found == [-1, 200]));
        let float = Some(Element::F32);
        assert!(matches!(fit(float, &whole), Ok(Data::F32(found)) if found == [-1.0, 200.0]));
        assert!(matches!(fit(None, &floats), Ok(Data::F32(found)) if found == [0.5]));
        for (element, wide) in [(Element::I8, 200), (Element::U8, -1)] {
            let refused = fit(Some(element), &whole);
            assert!(matches!(refused, Err(NumberError::Wide { found, .. }) if found == wide));
        }
        let refused = fit(Some(Element::I32), &floats);
        assert!(matches!(refused, Err(NumberError::Float { expected: Element::I32, .. })));
        assert_eq!(numbers(&Data::I8(vec![-3])), tg_tensor::Data::Int(vec![-3]));
    }
}
