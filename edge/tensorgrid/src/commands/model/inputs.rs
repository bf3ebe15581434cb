//! Arrays from files, put in the order of a model's inputs.

use crate::{
    args::model::NamedFile,
    arrays,
    failure::{Failure, OrFail as _},
};
use std::path::Path;
use tg_tensor::{Array, program::Input};

/// What a model takes: names and shapes, in order.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Port {
    pub(super) name: String,
    pub(super) sides: Vec<usize>,
}

impl Port {
    /// What an input of a program takes.
    pub(in crate::commands) fn of(input: &Input) -> Self {
        let sides = input.shape.as_slice().iter().map(|side| *side as usize).collect();
        Self { name: input.label.as_str().to_owned(), sides }
    }

    /// An input of this name whose shape is somebody else's business.
    pub(in crate::commands) fn named(name: &str) -> Self {
        Self { name: name.to_owned(), sides: Vec::new() }
    }
}

/// The arrays of a file, refused with a hint.
pub(super) fn read(path: &Path) -> Result<arrays::ArrayList, Failure> {
    arrays::read(path).map_err(|error| {
        let what = format!("cannot read numbers from {}", path.display());
        Failure::new(what, error.hint()).because(&error)
    })
}

/// One array for each input: by the name given, by the name in the file, or by order.
pub(in crate::commands) fn gather(
    files: &[NamedFile],
    ports: &[Port],
) -> Result<Vec<Array>, Failure> {
    let mut found: Vec<Option<Array>> = vec![None; ports.len()];
    for file in files {
        for (place, (inner, array)) in read(&file.path)?.into_iter().enumerate() {
            let name = file.name.as_ref().or(inner.as_ref());
            let index = name.and_then(|name| ports.iter().position(|port| port.name == *name));
            let by_order = || found.iter().position(Option::is_none).filter(|_| name.is_none());
            let only = (ports.len() == 1 && place == 0).then_some(0);
            let Some(index) = index.or_else(by_order).or(only) else {
                let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
                let name = name.cloned().unwrap_or_default();
                return Err(Failure::misuse(
                    format_args!("{} has an array {name:?} that is no input", file.path.display()),
                    format_args!("the inputs are: {}", names.join(", ")),
                ));
            };
            if let Some(slot) = found.get_mut(index) {
                *slot = Some(array);
            }
        }
    }
    let mut arrays = Vec::new();
    for (port, array) in ports.iter().zip(found) {
        let missing = || {
            let hint = format!("give it with --input '{}=FILE'", port.name);
            Failure::misuse(format_args!("input {:?} is missing", port.name), hint)
        };
        arrays.push(array.ok_or_else(missing)?);
    }
    Ok(arrays)
}

/// Cuts arrays that hold several samples along their first axis into the inputs of each sample.
pub(super) fn samples(arrays: &[Array], ports: &[Port]) -> Result<Vec<Vec<Array>>, Failure> {
    let mut columns: Vec<Vec<Array>> = Vec::new();
    for (array, port) in arrays.iter().zip(ports) {
        columns.push(cut(array, port)?);
    }
    let count = columns.iter().map(Vec::len).max().unwrap_or(0);
    if columns.iter().any(|column| column.len() != count) {
        return Err(Failure::misuse(
            "the inputs hold different numbers of samples",
            "give every input the same first side",
        ));
    }
    let mut samples: Vec<Vec<Array>> = vec![Vec::new(); count];
    for column in columns {
        for (sample, array) in samples.iter_mut().zip(column) {
            sample.push(array);
        }
    }
    Ok(samples)
}

fn cut(array: &Array, port: &Port) -> Result<Vec<Array>, Failure> {
    let each: usize = port.sides.iter().product();
    let wide = |sides: &[usize]| -> Vec<usize> {
        sides.iter().copied().filter(|side| *side != 1).collect()
    };
    let whole = wide(array.shape()) == wide(&port.sides) || array.shape() == [each];
    let rest = array.shape().get(1..).unwrap_or_default();
    let inner = port.sides.get(1..).unwrap_or_default();
    let batched = wide(rest) == wide(&port.sides) || wide(rest) == wide(inner);
    if each == 0 || array.is_empty() || !array.len().is_multiple_of(each) || !(whole || batched) {
        return Err(Failure::misuse(
            format_args!("{:?} takes {:?}, got {:?}", port.name, port.sides, array.shape()),
            "give the input that shape, or samples of it along the first axis; free sides are set \
             with --shape when importing",
        ));
    }
    array.chunks(&port.sides).or_fail("cannot cut the input into samples", "check its shape")
}
