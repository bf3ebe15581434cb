//! A model that can be run: what it takes, what it gives, and running it.
//!
//! Inputs are held against what the model states before the runtime is called, so that whoever
//! sent them learns which one is wrong; the runtime's own errors are about the model.

use std::error::Error as _;
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rten::{
    DataType, Dimension, LoadError, LoadErrorKind, Model, NodeId, RunOptions, ThreadPool, Value,
    ValueType,
};
use rten_tensor::Layout as _;

use crate::arrays::{Array, ArrayError, Arrays, Data, Element, NAME_BYTES_MAX, is_name};
use crate::survey::{FormError, Survey};

/// Most threads of a run: the cores of a large machine, and half of the processes a job may have.
pub const THREADS_MAX: usize = 128;

/// Why bytes are no model that can be run.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The bytes are no model within the bounds.
    #[error("the bytes are no ONNX model within the bounds")]
    Form(#[from] FormError),
    /// An operator that the runtime does not have, or not in this version.
    #[error("operator {operator} is not supported")]
    UnsupportedOperator {
        /// The operator, with its domain if that is not the usual one.
        operator: String,
        /// What the runtime says.
        #[source]
        source: LoadError,
    },
    /// The runtime refuses the model.
    #[error("the runtime refuses the model")]
    Load(#[source] LoadError),
    /// The runtime panicked, which is an error of its own.
    #[error("the runtime panicked while it read the model")]
    Panicked,
    /// An input or output without a usable name.
    #[error("{name:?} is no name for an array, as an input or output must have")]
    PortName {
        /// The name, cut.
        name: String,
    },
}

/// Why a model was not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An input is missing.
    #[error("input {name:?} is missing")]
    Missing {
        /// Its name.
        name: String,
    },
    /// An array that is no input.
    #[error("there is no input {name:?}")]
    Unknown {
        /// Its name.
        name: String,
    },
    /// An input with elements of another kind.
    #[error("input {name:?} has {found} elements, expected {expected}")]
    Element {
        /// Its name.
        name: String,
        /// What they are.
        found: Element,
        /// What the model takes.
        expected: Element,
    },
    /// An input of another shape.
    #[error("input {name:?} has the shape {}, expected {}", sides(found), sides(expected))]
    Shape {
        /// Its name.
        name: String,
        /// Its shape.
        found: Vec<usize>,
        /// What the model takes.
        expected: Vec<Side>,
    },
    /// The runtime stopped in the middle.
    #[error("the runtime cannot compute the model")]
    Compute(#[source] rten::RunError),
    /// The runtime panicked, which is an error of its own.
    #[error("the runtime panicked while it ran the model")]
    Panicked,
    /// An output that is no array.
    #[error("output {name:?} is no array")]
    Kind {
        /// Its name.
        name: String,
    },
    /// An output beyond the bounds of arrays.
    #[error("output {name:?} is beyond the bounds")]
    Output {
        /// Its name.
        name: String,
        /// Which bound.
        #[source]
        source: ArrayError,
    },
}

/// One side of a shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// Always this long.
    Fixed(usize),
    /// As long as the input is, under the model's name for it.
    Free(String),
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(length) => write!(f, "{length}"),
            Self::Free(name) => f.write_str(name),
        }
    }
}

/// A shape as people write it.
fn sides<T: ToString>(shape: &[T]) -> String {
    format!("[{}]", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// What its elements are, if the model says it.
    pub element: Option<Element>,
    /// Its shape, if the model says it.
    pub shape: Option<Vec<Side>>,
}

impl Port {
    fn of(model: &Model, id: NodeId) -> Self {
        let info = model.node_info(id);
        let name = info.as_ref().and_then(rten::NodeInfo::name).unwrap_or_default().to_owned();
        let element = info.as_ref().and_then(rten::NodeInfo::dtype).and_then(element);
        let side = |side: Dimension| match side {
            Dimension::Fixed(length) => Side::Fixed(length),
            Dimension::Symbolic(name) => Side::Free(name),
        };
        let shape = info.and_then(|info| info.shape());
        Self { name, element, shape: shape.map(|shape| shape.into_iter().map(side).collect()) }
    }

    /// Whether an array may be given for this input.
    fn check(&self, array: &Array) -> Result<(), RunError> {
        let found = array.data().element();
        if let Some(expected) = self.element.filter(|expected| *expected != found) {
            return Err(RunError::Element { name: self.name.clone(), found, expected });
        }
        let Some(expected) = &self.shape else { return Ok(()) };
        let fits = |(side, length): (&Side, &usize)| match side {
            Side::Fixed(fixed) => fixed == length,
            Side::Free(_) => true,
        };
        let found = array.shape();
        if expected.len() == found.len() && expected.iter().zip(found).all(fits) {
            return Ok(());
        }
        let (name, found, expected) = (self.name.clone(), found.to_vec(), expected.clone());
        Err(RunError::Shape { name, found, expected })
    }
}

fn element(kind: ValueType) -> Option<Element> {
    match kind {
        ValueType::Tensor(DataType::Float) => Some(Element::F32),
        ValueType::Tensor(DataType::Int32) => Some(Element::I32),
        ValueType::Tensor(DataType::Int8) => Some(Element::I8),
        ValueType::Tensor(DataType::UInt8) => Some(Element::U8),
        // The runtime may learn more kinds.
        ValueType::Tensor(_) | ValueType::Sequence(_) | _ => None,
    }
}

/// A model, ready to be run as often as needed.
pub struct FloatModel {
    model: Model,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    threads: Option<Arc<ThreadPool>>,
}

impl fmt::Debug for FloatModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FloatModel");
        shown.field("inputs", &self.inputs).field("outputs", &self.outputs).finish_non_exhaustive()
    }
}

impl FloatModel {
    /// Reads the bytes of an `.onnx` file.
    ///
    /// # Errors
    /// If they are no model within the bounds, or none that the runtime can run.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        let survey = Survey::of(bytes)?;
        let loaded = catch_unwind(AssertUnwindSafe(|| Model::load(bytes.to_vec())));
        let loaded = loaded.map_err(|_| ModelError::Panicked)?;
        let model = loaded.map_err(|error| refused(&survey, error))?;
        let ports =
            |ids: &[NodeId]| -> Vec<Port> { ids.iter().map(|id| Port::of(&model, *id)).collect() };
        let (inputs, outputs) = (ports(model.input_ids()), ports(model.output_ids()));
        let mut all = inputs.iter().chain(&outputs);
        if let Some(Port { name, .. }) = all.find(|port| !is_name(&port.name)) {
            return Err(ModelError::PortName { name: name.chars().take(NAME_BYTES_MAX).collect() });
        }
        Ok(Self { model, inputs, outputs, threads: None })
    }

    /// Runs it on so many threads, at most [`THREADS_MAX`], whatever the machine has; on all cores
    /// unless this is said. The runtime cuts its products by this number, so the last bits of a
    /// result may depend on it.
    #[must_use]
    pub fn with_threads(self, count: NonZeroUsize) -> Self {
        let pool = ThreadPool::with_num_threads(count.get().min(THREADS_MAX));
        Self { threads: Some(Arc::new(pool)), ..self }
    }

    /// What it takes.
    #[must_use]
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    /// What it gives.
    #[must_use]
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    /// Checks inputs without running the model.
    ///
    /// # Errors
    /// The first that is missing, unknown, or of another kind or shape than the model takes.
    pub fn check(&self, inputs: &Arrays) -> Result<(), RunError> {
        for port in &self.inputs {
            let missing = || RunError::Missing { name: port.name.clone() };
            port.check(inputs.get(&port.name).ok_or_else(missing)?)?;
        }
        let is_known = |name: &str| self.inputs.iter().any(|port| port.name == name);
        match inputs.iter().find(|(name, _)| !is_known(name)) {
            Some((name, _)) => Err(RunError::Unknown { name: name.to_owned() }),
            None => Ok(()),
        }
    }

    /// Runs the model.
    ///
    /// # Errors
    /// If the inputs are not what it takes, or the runtime cannot compute it.
    pub fn run(&self, inputs: &Arrays) -> Result<Arrays, RunError> {
        self.check(inputs)?;
        let mut given = Vec::with_capacity(self.inputs.len());
        for (port, id) in self.inputs.iter().zip(self.model.input_ids()) {
            let array = inputs.get(&port.name);
            let array = array.ok_or_else(|| RunError::Missing { name: port.name.clone() })?;
            given.push((*id, value(&port.name, array)?.into()));
        }
        // The runtime computes values; those that were given are not its business.
        let is_given = |id: &NodeId| self.model.input_ids().contains(id);
        let wanted = self.model.output_ids().iter().copied().filter(|id| !is_given(id));
        let wanted: Vec<NodeId> = wanted.collect();
        let options = RunOptions::default().with_thread_pool(self.threads.clone());
        let ran = catch_unwind(AssertUnwindSafe(|| self.model.run(given, &wanted, Some(options))));
        let ran = ran.map_err(|_| RunError::Panicked)?.map_err(RunError::Compute)?;
        let mut ran = ran.into_iter();
        let mut outputs = Arrays::new();
        for (port, id) in self.outputs.iter().zip(self.model.output_ids()) {
            let name = || port.name.clone();
            let found = if is_given(id) {
                inputs.get(&port.name).cloned()
            } else {
                ran.next().map(|value| array(&port.name, value)).transpose()?
            };
            let found = found.ok_or_else(|| RunError::Kind { name: name() })?;
            let inserted = outputs.insert(&port.name, found);
            inserted.map_err(|source| RunError::Output { name: name(), source })?;
        }
        Ok(outputs)
    }
}

/// Which operator the runtime lacks, if that is why it refuses. Its error names the operator in a
/// sentence only, so the operators of the model are looked for in it; the longest one found is
/// meant, since the sentence about `MatMul` also ends in one about `Mul`.
fn refused(survey: &Survey, source: LoadError) -> ModelError {
    if source.kind() != LoadErrorKind::OperatorInvalid {
        return ModelError::Load(source);
    }
    let sentence = source.source().map(ToString::to_string).unwrap_or_default();
    let is_named = |operator: &&String| {
        ["not supported", "not enabled", "uses opset"]
            .iter()
            .any(|end| sentence.contains(&format!("{operator} operator {end}")))
    };
    let named = survey.operators.iter().filter(is_named).max_by_key(|operator| operator.len());
    match named.cloned() {
        Some(operator) => ModelError::UnsupportedOperator { operator, source },
        None => ModelError::Load(source),
    }
}

/// An array as the runtime takes it.
fn value(name: &str, array: &Array) -> Result<Value, RunError> {
    let shape = array.shape();
    let value = match array.data() {
        Data::F32(values) => Value::from_shape(shape, values.clone()).ok(),
        Data::I32(values) => Value::from_shape(shape, values.clone()).ok(),
        Data::I8(values) => Value::from_shape(shape, values.clone()).ok(),
        Data::U8(values) => Value::from_shape(shape, values.clone()).ok(),
    };
    // There always is one: an array's numbers fill its shape.
    value.ok_or_else(|| RunError::Kind { name: name.to_owned() })
}

/// What the runtime gave, as an array.
fn array(name: &str, value: Value) -> Result<Array, RunError> {
    let name = || name.to_owned();
    let (shape, data) = match value {
        Value::FloatTensor(tensor) => (tensor.shape().to_vec(), Data::F32(tensor.into_data())),
        Value::Int32Tensor(tensor) => (tensor.shape().to_vec(), Data::I32(tensor.into_data())),
        Value::Int8Tensor(tensor) => (tensor.shape().to_vec(), Data::I8(tensor.into_data())),
        Value::UInt8Tensor(tensor) => (tensor.shape().to_vec(), Data::U8(tensor.into_data())),
        // The runtime may learn more kinds.
        Value::Sequence(_) | _ => return Err(RunError::Kind { name: name() }),
    };
    Array::new(shape, data).map_err(|source| RunError::Output { name: name(), source })
}

#[cfg(test)]
mod tests;
