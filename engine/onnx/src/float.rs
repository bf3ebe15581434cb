//! Graphs computed in floating point, by rten.
//!
//! A program that works with integers is an approximation of a float model, and one has to know
//! of what. [`Reference`] computes any value of a [`Graph`]: the inputs a user gives, the results,
//! and everything in between, which is where ranges are measured and differences are found.
//!
//! The engine is told what the importer understood, not what the file said (see `emit`), and it is
//! told not to optimise, so that every value exists. It knows `f32`, `i32`, `i8` and `u8`: truth
//! values and 64-bit integers are `i32` on the way through, and an integer that does not fit is
//! refused instead of cut.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rten::{LoadError, Model, ModelOptions, NodeId, RunError, Value as Tensor, ValueOrView};
use tg_tensor::{Array, ArrayError, Data};

use crate::dtype::Dtype;
use crate::emit::{Emitter, Ends, Named};
use crate::graph::{Graph, ValueId};
use crate::op::Op;
use crate::proto::{ModelProto, TensorError};
use crate::shape::Type;

/// Why a graph cannot be computed in floating point.
#[derive(Debug, thiserror::Error)]
pub enum FloatError {
    /// The engine does not take the graph.
    #[error("the float engine does not take the graph")]
    Load(#[source] LoadError),
    /// The engine stops in the middle.
    #[error("the float engine cannot compute the graph")]
    Run(#[source] RunError),
    /// The engine panics, which is an error of its own.
    #[error("the float engine panicked")]
    Panicked,
    /// Not as many inputs as the graph has.
    #[error("{found} inputs, expected {expected}")]
    InputCount {
        /// How many were given.
        found: usize,
        /// How many the graph has.
        expected: usize,
    },
    /// An input of another shape than the graph was read for.
    #[error("input {name:?} has the shape {found:?}, expected {expected:?}")]
    InputShape {
        /// The input.
        name: String,
        /// The shape given.
        found: Vec<usize>,
        /// The shape expected.
        expected: Vec<usize>,
    },
    /// Floats for an input of whole numbers.
    #[error("input {name:?} holds floats, expected {expected}")]
    InputKind {
        /// The input.
        name: String,
        /// The kind expected.
        expected: Dtype,
    },
    /// An integer that does not fit the engine's type.
    #[error("integer {found} does not fit {expected}")]
    Wide {
        /// The integer.
        found: i64,
        /// The engine's type.
        expected: &'static str,
    },
    /// A value of another graph.
    #[error("there is no value {index}")]
    Unknown {
        /// Its index.
        index: usize,
    },
    /// A result of another kind or shape than the importer found.
    #[error("a result is not {dtype} of shape {shape:?}")]
    Result {
        /// The kind expected.
        dtype: Dtype,
        /// The shape expected.
        shape: Vec<usize>,
    },
    /// A constant that cannot be written down.
    #[error("a constant cannot be written down")]
    Constant(#[from] TensorError),
    /// A result that is no array.
    #[error("a result is no array")]
    Array(#[from] ArrayError),
}

/// A graph, ready to be computed as often as needed.
pub struct Reference {
    model: Model,
    /// For each value of the graph: its name, its type and where the engine keeps it.
    values: Vec<(String, Type, NodeId)>,
    inputs: Vec<ValueId>,
}

impl std::fmt::Debug for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reference").field("values", &self.values.len()).finish_non_exhaustive()
    }
}

impl Reference {
    /// Prepares a graph.
    pub fn new(graph: &Graph) -> Result<Self, FloatError> {
        let names: Vec<String> = (0..graph.values().len()).map(|at| format!("v{at}")).collect();
        let named = |id: ValueId| {
            let value = graph.value(id);
            let name = names.get(id.index()).map_or("", String::as_str);
            Named { name, dtype: value.dtype, shape: &value.shape }
        };
        let mut emitter = Emitter::default();
        for id in graph.inputs() {
            emitter.input(named(*id));
        }
        for (value, name) in graph.values().iter().zip(&names) {
            if let Some(constant) = &value.constant {
                narrow(constant)?;
                emitter.constant(name, value.dtype, constant)?;
            }
        }
        for node in graph.nodes() {
            let inputs = node.inputs.iter().map(|input| input.map(named)).collect();
            let outputs = node.outputs.iter().map(|output| named(*output)).collect();
            emitter.operation(&node.op, &Ends { inputs, outputs })?;
        }
        for id in graph.outputs() {
            emitter.output(named(*id));
        }
        let model = Engine::default().load(&emitter.finish())?;
        let mut values = Vec::with_capacity(names.len());
        for (value, name) in graph.values().iter().zip(&names) {
            let place = model.node_id(name).map_err(FloatError::Run)?;
            let kind = Type { dtype: value.dtype, shape: value.shape.clone() };
            values.push((value.name.clone(), kind, place));
        }
        Ok(Self { model, values, inputs: graph.inputs().to_vec() })
    }

    /// Computes the wanted values from the inputs, which stand in the order of the graph's.
    pub fn run(&self, inputs: &[Array], wanted: &[ValueId]) -> Result<Vec<Array>, FloatError> {
        if inputs.len() != self.inputs.len() {
            let (found, expected) = (inputs.len(), self.inputs.len());
            return Err(FloatError::InputCount { found, expected });
        }
        let mut given = Vec::with_capacity(inputs.len());
        for (id, array) in self.inputs.iter().zip(inputs) {
            let (name, kind, place) = self.value(*id)?;
            if array.shape() != kind.shape {
                return Err(FloatError::InputShape {
                    name: name.clone(),
                    found: array.shape().to_vec(),
                    expected: kind.shape.clone(),
                });
            }
            let whole = !kind.dtype.is_float();
            if whole && matches!(array.data(), Data::Float(_)) {
                let expected = kind.dtype;
                return Err(FloatError::InputKind { name: name.clone(), expected });
            }
            given.push((*place, tensor(array, kind.dtype)?.into()));
        }
        // The engine wants every value once, and none that was given.
        let mut places = Vec::with_capacity(wanted.len());
        let mut asked = std::collections::BTreeMap::new();
        for id in wanted {
            let (_, kind, place) = self.value(*id)?;
            if !self.inputs.contains(id) && !asked.contains_key(id) {
                asked.insert(*id, places.len());
                places.push((*place, kind));
            }
        }
        let results = run(&self.model, given, &places)?;
        let mut found = Vec::with_capacity(wanted.len());
        for id in wanted {
            let input = self.inputs.iter().position(|input| input == id);
            let array = match (input, asked.get(id)) {
                (Some(at), _) => inputs.get(at),
                (None, Some(at)) => results.get(*at),
                (None, None) => None,
            };
            found.push(array.cloned().ok_or(FloatError::Unknown { index: id.index() })?);
        }
        Ok(found)
    }

    fn value(&self, id: ValueId) -> Result<&(String, Type, NodeId), FloatError> {
        self.values.get(id.index()).ok_or(FloatError::Unknown { index: id.index() })
    }
}

/// The engine with its table of operators, which takes longer to make than a small model.
pub(crate) struct Engine {
    options: ModelOptions,
}

impl Default for Engine {
    fn default() -> Self {
        let mut options = ModelOptions::with_all_ops();
        options.enable_optimization(false);
        Self { options }
    }
}

impl Engine {
    fn load(&self, model: &ModelProto) -> Result<Model, FloatError> {
        let bytes = model.to_bytes();
        guarded(|| self.options.load(bytes))?.map_err(FloatError::Load)
    }

    /// Computes one operation on constants.
    pub(crate) fn evaluate(
        &self,
        op: &Op,
        operands: &[Option<(Type, &Array)>],
        results: &[Type],
    ) -> Result<Vec<Array>, FloatError> {
        let input_names: Vec<String> = (0..operands.len()).map(|at| format!("x{at}")).collect();
        let output_names: Vec<String> = (0..results.len()).map(|at| format!("y{at}")).collect();
        let inputs = operands.iter().zip(&input_names);
        let inputs: Vec<Option<Named<'_>>> = inputs
            .map(|(one, name)| one.as_ref().map(|(kind, _)| Named::new(name, kind)))
            .collect();
        let outputs = results.iter().zip(&output_names);
        let outputs: Vec<Named<'_>> = outputs.map(|(kind, name)| Named::new(name, kind)).collect();
        let mut emitter = Emitter::default();
        for input in inputs.iter().flatten() {
            emitter.input(*input);
        }
        for output in &outputs {
            emitter.output(*output);
        }
        emitter.operation(op, &Ends { inputs, outputs })?;
        let model = self.load(&emitter.finish())?;

        let mut given = Vec::with_capacity(operands.len());
        for (operand, name) in operands.iter().zip(&input_names) {
            if let Some((kind, array)) = operand {
                let place = model.node_id(name).map_err(FloatError::Run)?;
                given.push((place, tensor(array, kind.dtype)?.into()));
            }
        }
        let mut places = Vec::with_capacity(results.len());
        for (kind, name) in results.iter().zip(&output_names) {
            places.push((model.node_id(name).map_err(FloatError::Run)?, kind));
        }
        run(&model, given, &places)
    }
}

fn run(
    model: &Model,
    given: Vec<(NodeId, ValueOrView<'_>)>,
    places: &[(NodeId, &Type)],
) -> Result<Vec<Array>, FloatError> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<NodeId> = places.iter().map(|(place, _)| *place).collect();
    let results = guarded(|| model.run(given, &ids, None))?.map_err(FloatError::Run)?;
    results.into_iter().zip(places).map(|(result, (_, kind))| array(result, kind)).collect()
}

/// Calls the engine. Its operators check their operands, but not all of them check everything
/// (an integer division by zero panics), and a stranger's model must not end the process. The
/// engine's state cannot be left broken: what is called either only reads or is dropped.
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, FloatError> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| FloatError::Panicked)
}

/// Refuses integers that the engine would cut without a word.
fn narrow(array: &Array) -> Result<(), FloatError> {
    match array.data() {
        Data::Float(_) => Ok(()),
        Data::Int(values) => fitting::<i32>(values, "32 bits").map(drop),
    }
}

fn fitting<T: TryFrom<i64>>(values: &[i64], expected: &'static str) -> Result<Vec<T>, FloatError> {
    let fit =
        |found: &i64| T::try_from(*found).map_err(|_| FloatError::Wide { found: *found, expected });
    values.iter().map(fit).collect()
}

/// An array as the engine's type for its kind. Whole numbers may stand for floats.
fn tensor(array: &Array, dtype: Dtype) -> Result<Tensor, FloatError> {
    let shape = array.shape();
    let wrong = || FloatError::Result { dtype, shape: shape.to_vec() };
    let values = match (dtype, array.data()) {
        (Dtype::Float, _) => {
            return Tensor::from_shape(shape, array.to_floats()).map_err(|_| wrong());
        }
        (_, Data::Float(_)) => return Err(wrong()),
        (_, Data::Int(values)) => values,
    };
    match dtype {
        Dtype::Int8 => Tensor::from_shape(shape, fitting::<i8>(values, "8 bits with sign")?)
            .map_err(|_| wrong()),
        Dtype::Uint8 => {
            Tensor::from_shape(shape, fitting::<u8>(values, "8 bits")?).map_err(|_| wrong())
        }
        Dtype::Int | Dtype::Bool | Dtype::Float => {
            Tensor::from_shape(shape, fitting::<i32>(values, "32 bits")?).map_err(|_| wrong())
        }
    }
}

/// Takes a tensor of a rank that is only known while running out of the engine's fixed-rank type.
macro_rules! shape_and_data {
    ($value:expr, $rank:expr, $element:ty) => {
        shape_and_data!(@ranks $value, $rank, $element, 0 1 2 3 4 5 6 7 8)
    };
    (@ranks $value:expr, $rank:expr, $element:ty, $($known:literal)*) => {
        match $rank {
            $($known => $value
                .into_shape_vec::<$element, $known>()
                .ok()
                .map(|(shape, data)| (shape.to_vec(), data)),)*
            _ => None,
        }
    };
}

/// A tensor of the engine as an array of the kind and shape it must have.
fn array(value: Tensor, kind: &Type) -> Result<Array, FloatError> {
    let wrong = || FloatError::Result { dtype: kind.dtype, shape: kind.shape.clone() };
    let rank = kind.shape.len();
    let (shape, data) = if kind.dtype.is_float() {
        let (shape, data) = shape_and_data!(value, rank, f32).ok_or_else(wrong)?;
        (shape, Data::Float(data))
    } else {
        let (shape, data) = whole(value, rank).ok_or_else(wrong)?;
        (shape, Data::Int(data))
    };
    if shape != kind.shape {
        return Err(wrong());
    }
    Ok(Array::new(shape, data)?)
}

fn whole(value: Tensor, rank: usize) -> Option<(Vec<usize>, Vec<i64>)> {
    fn widen<T: Into<i64>>((shape, data): (Vec<usize>, Vec<T>)) -> (Vec<usize>, Vec<i64>) {
        (shape, data.into_iter().map(Into::into).collect())
    }
    // Which of its types the engine used follows from nothing the importer knows; only one fits.
    let int32 = matches!(value, Tensor::Int32Tensor(_));
    let int8 = matches!(value, Tensor::Int8Tensor(_));
    if int32 {
        shape_and_data!(value, rank, i32).map(widen)
    } else if int8 {
        shape_and_data!(value, rank, i8).map(widen)
    } else {
        shape_and_data!(value, rank, u8).map(widen)
    }
}

#[cfg(test)]
mod tests;
