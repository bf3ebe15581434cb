//! Why a model is not imported.
//!
//! [`ImportError`] says what is wrong with the file or the graph; when it is one node, it names
//! the node and holds a [`NodeError`] as its source. [`ImportError::hint`] says what a user can
//! do about it, where something can be done.

use tg_tensor::ArrayError;

use crate::dtype::Dtype;
use crate::float::FloatError;
use crate::proto::{ProtoError, TensorError};

/// Why a file does not become a graph.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The bytes are no ONNX model.
    #[error("the file is no readable ONNX model")]
    Format(#[from] ProtoError),
    /// The standard operators are used in a version that is not understood, or in none.
    #[error("operator set {found:?} is not supported, expected {min} to {max}")]
    Opset {
        /// The version found.
        found: Option<i64>,
        /// The oldest version understood.
        min: i64,
        /// The newest version understood.
        max: i64,
    },
    /// The graph declares no outputs.
    #[error("the graph has no outputs")]
    NoOutputs,
    /// Two things define the same value.
    #[error("value {name:?} is defined twice")]
    Duplicate {
        /// The value.
        name: String,
    },
    /// A value is used that nothing defines.
    #[error("value {name:?}, used by {user:?}, is defined nowhere")]
    Undefined {
        /// The value.
        name: String,
        /// The node that uses it, or the value itself if it is an output.
        user: String,
    },
    /// A node needs its own result.
    #[error("node {node:?} depends on its own result")]
    Cycle {
        /// One node of the circle.
        node: String,
    },
    /// An initialiser that cannot be used.
    #[error("initialiser {name:?} cannot be used")]
    Initializer {
        /// The initialiser.
        name: String,
        /// Why.
        source: TensorError,
    },
    /// An input whose type is not understood.
    #[error("input {name:?} has element kind {element}, which is not supported")]
    InputElement {
        /// The input.
        name: String,
        /// The number of its element kind.
        element: i64,
    },
    /// An input without a shape, neither in the file nor in the options.
    #[error("input {name:?} has no declared shape")]
    InputShape {
        /// The input.
        name: String,
    },
    /// A shape in the options that does not fit the declared one.
    #[error("shape {asked:?} does not fit input {name:?}, declared as {declared:?}")]
    InputOverride {
        /// The input.
        name: String,
        /// The shape in the options.
        asked: Vec<usize>,
        /// The declared shape; nothing where a side is free.
        declared: Vec<Option<usize>>,
    },
    /// A shape in the options for an input that does not exist.
    #[error("there is no input {name:?} to give a shape to")]
    InputUnknown {
        /// The name in the options.
        name: String,
    },
    /// An input that is empty or too large.
    #[error("input {name:?} of shape {shape:?} is empty or has more than {max} elements")]
    InputSize {
        /// The input.
        name: String,
        /// Its shape.
        shape: Vec<usize>,
        /// How many elements are allowed.
        max: usize,
    },
    /// A node that cannot be imported.
    #[error("node {node:?} ({operator}) cannot be imported")]
    Node {
        /// The node's name, or that of its first result.
        node: String,
        /// The operator.
        operator: String,
        /// Why.
        source: NodeError,
    },
}

impl ImportError {
    /// What a user can do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Format(_) => Some("check that the file is an .onnx file and complete"),
            Self::Opset { .. } => Some("export the model again with an opset from 11 to 21"),
            Self::InputShape { .. } | Self::InputOverride { .. } | Self::InputUnknown { .. } => {
                Some("give every input a shape that fits its declaration")
            }
            Self::Initializer { source, .. } => tensor_hint(source),
            Self::Node { source, .. } => source.hint(),
            Self::NoOutputs
            | Self::Duplicate { .. }
            | Self::Undefined { .. }
            | Self::Cycle { .. }
            | Self::InputElement { .. }
            | Self::InputSize { .. } => None,
        }
    }
}

fn tensor_hint(error: &TensorError) -> Option<&'static str> {
    match error {
        TensorError::External => {
            Some("save the model with its weights inside the file (save_as_external_data=False)")
        }
        TensorError::NotANumber { .. } => Some("the weights are broken; train or convert again"),
        TensorError::Element { .. }
        | TensorError::Shape { .. }
        | TensorError::RawBytes { .. }
        | TensorError::Count(_)
        | TensorError::Range { .. } => None,
    }
}

/// Why a node cannot be imported. An `index` counts operands from zero.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// An operator that is not supported.
    #[error("the operator is not supported")]
    Unsupported {
        /// What would help.
        hint: &'static str,
    },
    /// An operator of somebody else.
    #[error("operators of domain {domain:?} are not known")]
    Domain {
        /// The domain.
        domain: String,
    },
    /// A supported operator in a form that is not.
    #[error("{what} is not supported")]
    Form {
        /// The form.
        what: &'static str,
    },
    /// Too few or too many operands.
    #[error("{found} operands, expected {min} to {max}")]
    OperandCount {
        /// How many there are.
        found: usize,
        /// The fewest allowed.
        min: usize,
        /// The most allowed.
        max: usize,
    },
    /// An operand that must be there is not.
    #[error("operand {index} is missing")]
    OperandMissing {
        /// Which.
        index: usize,
    },
    /// Not as many results as the operator gives.
    #[error("{found} results, the operator gives {given}")]
    ResultCount {
        /// How many the node names.
        found: usize,
        /// How many there are.
        given: usize,
    },
    /// An operand that decides the shape or the meaning depends on the data.
    #[error("{what} (operand {index}) depends on the data")]
    NotConstant {
        /// Which.
        index: usize,
        /// What it means to the operator.
        what: &'static str,
    },
    /// An attribute that must be there is not.
    #[error("attribute {name:?} is missing")]
    AttributeMissing {
        /// The attribute.
        name: &'static str,
    },
    /// An attribute of the wrong kind.
    #[error("attribute {name:?} is of kind {found}, expected {expected}")]
    AttributeKind {
        /// The attribute.
        name: &'static str,
        /// The number of the kind found.
        found: i64,
        /// The kind expected.
        expected: &'static str,
    },
    /// A text attribute with a value that is not known.
    #[error("attribute {name:?} is {found:?}, which is not known")]
    AttributeText {
        /// The attribute.
        name: &'static str,
        /// The value.
        found: String,
    },
    /// A tensor in an attribute that cannot be used.
    #[error("attribute {name:?} holds a tensor that cannot be used")]
    AttributeTensor {
        /// The attribute.
        name: &'static str,
        /// Why.
        source: TensorError,
    },
    /// A number outside its range.
    #[error("{what} is {found}, which is out of range")]
    Range {
        /// What the number means.
        what: &'static str,
        /// The number.
        found: i64,
    },
    /// Not as many numbers as the operand has axes.
    #[error("{what}: {found} numbers, expected {expected}")]
    Length {
        /// What the numbers mean.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// An operand of the wrong rank.
    #[error("operand {index} has rank {found}, expected {expected}")]
    Rank {
        /// Which.
        index: usize,
        /// Its rank.
        found: usize,
        /// The ranks allowed.
        expected: &'static str,
    },
    /// An operand of the wrong kind.
    #[error("operand {index} is {found}, expected {expected}")]
    Kind {
        /// Which.
        index: usize,
        /// Its kind.
        found: Dtype,
        /// The kinds allowed.
        expected: &'static str,
    },
    /// Operands whose shapes do not fit each other.
    #[error("shapes {left:?} and {right:?} do not fit each other")]
    Shapes {
        /// One shape.
        left: Vec<usize>,
        /// The other.
        right: Vec<usize>,
    },
    /// A result that is too large, or whose size overflows.
    #[error("a result would have {found:?} elements, at most {max} are allowed")]
    Size {
        /// How many elements; nothing if that cannot be counted.
        found: Option<usize>,
        /// How many are allowed.
        max: usize,
    },
    /// All results together are too large.
    #[error("all results together would have more than {max} elements")]
    SizeTotal {
        /// How many are allowed.
        max: usize,
    },
    /// A result that depends on the data and has no elements.
    #[error("a result would have the empty shape {shape:?}")]
    Empty {
        /// The shape.
        shape: Vec<usize>,
    },
    /// Evaluating constants would take too long.
    #[error("evaluating constants would take more than {max} steps")]
    Work {
        /// How many are allowed.
        max: u64,
    },
    /// An index outside its axis.
    #[error("index {found} is outside of an axis of {side}")]
    Index {
        /// The index.
        found: i64,
        /// The side.
        side: usize,
    },
    /// Integer arithmetic on constants leaves 64 bits, or divides by zero.
    #[error("integer arithmetic on constants overflows")]
    Arithmetic,
    /// A constant result that is not a number.
    #[error("a constant result is not usable")]
    Constant(#[from] TensorError),
    /// A result that is no array, which is an error of ours or of the float engine.
    #[error("a constant result has another shape than expected")]
    Array(#[from] ArrayError),
    /// The float engine refuses to evaluate a constant.
    #[error("a constant cannot be evaluated")]
    Float(#[source] Box<FloatError>),
}

impl From<FloatError> for NodeError {
    fn from(error: FloatError) -> Self {
        Self::Float(Box::new(error))
    }
}

impl NodeError {
    /// What a user can do about it, where something can be done.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unsupported { hint } => Some(hint),
            Self::Domain { .. } => {
                Some("export with standard operators only (ai.onnx), without runtime fusions")
            }
            Self::NotConstant { .. } => {
                Some("export with fixed shapes, so that no size depends on the data")
            }
            Self::Empty { .. } | Self::Shapes { .. } => {
                Some("give the inputs shapes the model was made for")
            }
            Self::Size { .. } | Self::SizeTotal { .. } => Some("choose smaller input shapes"),
            Self::AttributeTensor { source, .. } | Self::Constant(source) => tensor_hint(source),
            Self::Form { .. }
            | Self::OperandCount { .. }
            | Self::OperandMissing { .. }
            | Self::ResultCount { .. }
            | Self::AttributeMissing { .. }
            | Self::AttributeKind { .. }
            | Self::AttributeText { .. }
            | Self::Range { .. }
            | Self::Length { .. }
            | Self::Rank { .. }
            | Self::Kind { .. }
            | Self::Work { .. }
            | Self::Index { .. }
            | Self::Arithmetic
            | Self::Array(_)
            | Self::Float(_) => None,
        }
    }
}
