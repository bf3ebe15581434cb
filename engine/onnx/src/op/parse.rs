//! Nodes become operations: one function for each family of operators.

use tg_tensor::{Array, Data};

use super::attributes::{axes, axis, size};
use super::refused::unsupported;
use super::{Binary, Op, PoolKind, Reduction, Unary, window};
use super::{layout, quantised};
use crate::dtype::Dtype;
use crate::error::NodeError;
use crate::graph::ValueId;
use crate::proto::{AttributeValue, NodeProto};

/// The oldest version of the standard operators that is understood: before it, broadcasting
/// followed other rules.
pub const OPSET_MIN: i64 = 7;

/// The newest version of the standard operators that is understood.
pub const OPSET_MAX: i64 = 24;

/// The domain of the operators that ONNX Runtime adds. A few of them stand in quantised models.
pub(crate) const MICROSOFT: &str = "com.microsoft";

/// Operators normalised jointly before this version of the standard operators.
const OPSET_SOFTMAX_ONE_AXIS: i64 = 13;

/// One operand, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a> {
    pub(crate) id: ValueId,
    pub(crate) dtype: Dtype,
    pub(crate) shape: &'a [usize],
    pub(crate) constant: Option<&'a Array>,
}

/// What is known of a node.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) node: &'a NodeProto,
    /// The version of the standard operators.
    pub(crate) opset: i64,
    /// The operands, nothing where one is left out.
    pub(crate) operands: Vec<Option<Operand<'a>>>,
    /// How many elements a constant may have.
    pub(crate) elements_max: usize,
}

/// What a node turns out to be.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// A constant.
    Constant(Dtype, Array),
    /// An operation on operands.
    Operation(Op, Vec<Option<ValueId>>),
}

impl Context<'_> {
    /// An operation on the first `count` operands, as far as they are there.
    pub(super) fn operation(&self, op: Op, count: usize) -> Meaning {
        let ids = self.operands.iter().take(count).map(|operand| operand.map(|found| found.id));
        let mut ids: Vec<Option<ValueId>> = ids.collect();
        while ids.last() == Some(&None) {
            ids.pop();
        }
        Meaning::Operation(op, ids)
    }

    /// The rank of the first operand.
    pub(super) fn rank(&self) -> Result<usize, NodeError> {
        Ok(self.operand(0)?.shape.len())
    }
}

/// Finds out what a node means.
pub(crate) fn parse(context: &Context<'_>) -> Result<Meaning, NodeError> {
    let domain = context.node.domain.as_str();
    match domain {
        "" | "ai.onnx" => {}
        MICROSOFT
            if matches!(context.node.operator.as_str(), "Gelu" | "QuantizeLinear")
                || context.node.operator == "DequantizeLinear" => {}
        _ => return Err(NodeError::Domain { domain: domain.to_owned() }),
    }
    if let Some(unary) = unary(context)? {
        return Ok(context.operation(Op::Unary(unary), 1));
    }
    if let Some(binary) = binary(&context.node.operator) {
        context.count(2, 2)?;
        return Ok(context.operation(Op::Binary(binary), 2));
    }
    if let Some(kind) = reduction(&context.node.operator) {
        return reduce(context, kind);
    }
    match context.node.operator.as_str() {
        "Gemm" => gemm(context),
        "MatMul" => plain(context, 2, Op::MatMul),
        "Conv" => window::conv(context),
        "ConvTranspose" => window::conv_transpose(context),
        "Softmax" => softmax(context, false),
        "LogSoftmax" => softmax(context, true),
        "LayerNormalization" => layer_norm(context),
        "InstanceNormalization" => {
            let epsilon = context.float_or("epsilon", 1e-5)?;
            plain(context, 3, Op::InstanceNorm { epsilon })
        }
        "GroupNormalization" => group_norm(context),
        "BatchNormalization" => batch_norm(context),
        "MaxPool" => window::pool(context, PoolKind::Max),
        "AveragePool" => {
            let count_pads = context.flag_or("count_include_pad", false)?;
            window::pool(context, PoolKind::Average { count_pads })
        }
        "GlobalMaxPool" => plain(context, 1, Op::GlobalPool(PoolKind::Max)),
        "GlobalAveragePool" => {
            plain(context, 1, Op::GlobalPool(PoolKind::Average { count_pads: false }))
        }
        // With more than two operands these were taken apart before, see `expand`.
        "Min" => few(context, Binary::Min),
        "Max" => few(context, Binary::Max),
        "Sum" => few(context, Binary::Add),
        "ArgMax" => arg_extreme(context, false),
        "ArgMin" => arg_extreme(context, true),
        "Where" => plain(context, 3, Op::Where),
        "Cast" => {
            let to = context.element("to")?;
            cast(context, 1, to.ok_or(NodeError::AttributeMissing { name: "to" })?)
        }
        "CastLike" => cast(context, 2, context.operand(1)?.dtype),
        "Identity" => plain(context, 1, Op::Identity),
        "Dropout" => dropout(context),
        "QuantizeLinear" => quantised::quantize(context),
        "DequantizeLinear" => quantised::dequantize(context),
        "Constant" => constant(context),
        _ => layout::parse(context)?.ok_or_else(|| unsupported(&context.node.operator)),
    }
}

/// An operator with a fixed number of operands.
fn plain(context: &Context<'_>, count: usize, op: Op) -> Result<Meaning, NodeError> {
    context.count(count, count)?;
    Ok(context.operation(op, count))
}

fn unary(context: &Context<'_>) -> Result<Option<Unary>, NodeError> {
    let float = |name, default| context.float_or(name, default);
    let function = match context.node.operator.as_str() {
        "Clip" => return clip(context).map(Some),
        "Relu" => Unary::Relu,
        "LeakyRelu" => Unary::LeakyRelu { alpha: float("alpha", 0.01)? },
        "Elu" => Unary::Elu { alpha: float("alpha", 1.0)? },
        "Selu" => {
            Unary::Selu { alpha: float("alpha", 1.673_263_2)?, gamma: float("gamma", 1.050_701)? }
        }
        "Celu" => match float("alpha", 1.0)? {
            alpha if alpha > 0.0 => Unary::Celu { alpha },
            _ => return Err(NodeError::Form { what: "an alpha that is not positive" }),
        },
        "Softplus" => Unary::Softplus,
        "Softsign" => Unary::Softsign,
        "Sigmoid" => Unary::Sigmoid,
        "HardSigmoid" => {
            Unary::HardSigmoid { alpha: float("alpha", 0.2)?, beta: float("beta", 0.5)? }
        }
        "HardSwish" => Unary::HardSwish,
        "Tanh" => Unary::Tanh,
        "Erf" => Unary::Erf,
        "Gelu" => Unary::Gelu {
            approximate: context.word("approximate", "none", &[("none", false), ("tanh", true)])?,
        },
        "Mish" => Unary::Mish,
        "Sqrt" => Unary::Sqrt,
        "Exp" => Unary::Exp,
        "Log" => Unary::Log,
        "Abs" => Unary::Abs,
        "Neg" => Unary::Neg,
        "Reciprocal" => Unary::Reciprocal,
        "Floor" => Unary::Floor,
        "Ceil" => Unary::Ceil,
        "Round" => Unary::Round,
        "Sign" => Unary::Sign,
        "Not" => Unary::Not,
        _ => return Ok(None),
    };
    context.count(1, 1)?;
    Ok(Some(function))
}

/// The bounds of a clip are attributes before opset 11 and operands since.
fn clip(context: &Context<'_>) -> Result<Unary, NodeError> {
    context.count(1, 3)?;
    let bound = |name, index| match context.node.attribute(name) {
        Some(AttributeValue::Float(value)) if !value.is_nan() => Ok(Some(*value)),
        Some(other) => {
            let found = other.kind();
            Err(NodeError::AttributeKind { name, found, expected: "a number" })
        }
        None => context.constant_number(index, "a bound"),
    };
    // Exporters write the largest finite number for "no bound".
    let min = bound("min", 1)?.filter(|min| *min > f32::MIN).unwrap_or(f32::NEG_INFINITY);
    let max = bound("max", 2)?.filter(|max| *max < f32::MAX).unwrap_or(f32::INFINITY);
    Ok(Unary::Clip { min, max })
}

fn binary(operator: &str) -> Option<Binary> {
    Some(match operator {
        "Add" => Binary::Add,
        "Sub" => Binary::Sub,
        "Mul" => Binary::Mul,
        "Div" => Binary::Div,
        "Pow" => Binary::Pow,
        "PRelu" => Binary::PRelu,
        "And" => Binary::And,
        "Or" => Binary::Or,
        "Xor" => Binary::Xor,
        "Equal" => Binary::Equal,
        "Less" => Binary::Less,
        "LessOrEqual" => Binary::LessOrEqual,
        "Greater" => Binary::Greater,
        "GreaterOrEqual" => Binary::GreaterOrEqual,
        _ => return None,
    })
}

/// One operand is itself; two are a binary operation.
fn few(context: &Context<'_>, binary: Binary) -> Result<Meaning, NodeError> {
    context.count(1, 2)?;
    if context.operands.len() == 1 {
        return Ok(context.operation(Op::Identity, 1));
    }
    Ok(context.operation(Op::Binary(binary), 2))
}

fn reduction(operator: &str) -> Option<Reduction> {
    Some(match operator {
        "ReduceMean" => Reduction::Mean,
        "ReduceSum" => Reduction::Sum,
        "ReduceMax" => Reduction::Max,
        "ReduceMin" => Reduction::Min,
        "ReduceProd" => Reduction::Prod,
        "ReduceSumSquare" => Reduction::SumSquare,
        "ReduceL2" => Reduction::L2,
        "ReduceL1" => Reduction::L1,
        _ => return None,
    })
}

fn reduce(context: &Context<'_>, kind: Reduction) -> Result<Meaning, NodeError> {
    context.count(1, 2)?;
    let rank = context.rank()?;
    let keep = context.flag_or("keepdims", true)?;
    let listed = context.ints_of("axes", 1, "the axes")?;
    let axes = match listed {
        Some([]) | None if context.flag_or("noop_with_empty_axes", false)? => {
            return Ok(context.operation(Op::Identity, 1));
        }
        Some([]) | None => (0..rank).collect(),
        Some(list) => axes(list, rank)?,
    };
    Ok(context.operation(Op::Reduce { kind, axes, keep }, 1))
}

fn arg_extreme(context: &Context<'_>, smallest: bool) -> Result<Meaning, NodeError> {
    context.count(1, 1)?;
    context.unset("select_last_index", "the last of several equal extremes")?;
    let axis = axis(context.int_or("axis", 0)?, context.rank()?)?;
    let keep = context.flag_or("keepdims", true)?;
    Ok(context.operation(Op::ArgExtreme { smallest, axis, keep }, 1))
}

fn gemm(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(2, 3)?;
    let op = Op::Gemm {
        alpha: context.float_or("alpha", 1.0)?,
        beta: context.float_or("beta", 1.0)?,
        transpose_left: context.flag_or("transA", false)?,
        transpose_right: context.flag_or("transB", false)?,
    };
    Ok(context.operation(op, 3))
}

/// Before opset 13 all axes from the given one on are normalised together, and it counts from 1
/// by default. Sides of one at either end change nothing, so they are left out.
fn softmax(context: &Context<'_>, log: bool) -> Result<Meaning, NodeError> {
    context.count(1, 1)?;
    let shape = context.operand(0)?.shape;
    let joint = context.opset < OPSET_SOFTMAX_ONE_AXIS;
    let default = if joint { 1 } else { -1 };
    let first = axis(context.int_or("axis", default)?, shape.len())?;
    let mut axes = if joint { first..shape.len() } else { first..first + 1 };
    while axes.len() > 1 && shape.get(axes.end - 1) == Some(&1) {
        axes.end -= 1;
    }
    while axes.len() > 1 && shape.get(axes.start) == Some(&1) {
        axes.start += 1;
    }
    Ok(context.operation(Op::Softmax { axes, log }, 1))
}

fn layer_norm(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(2, 3)?;
    let axis = axis(context.int_or("axis", -1)?, context.rank()?)?;
    let epsilon = context.float_or("epsilon", 1e-5)?;
    Ok(context.operation(Op::LayerNorm { axis, epsilon }, 3))
}

fn group_norm(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(3, 3)?;
    let found = context.int("num_groups")?;
    let found = found.ok_or(NodeError::AttributeMissing { name: "num_groups" })?;
    let groups = size(found, "the number of groups")?;
    let channels = context.operand(0)?.shape.get(1).copied().unwrap_or_default();
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(NodeError::Range { what: "the number of groups", found });
    }
    if context.opset < 21 && context.operand(1)?.shape != [channels] {
        return Err(NodeError::Form { what: "a scale for each group (before opset 21)" });
    }
    let epsilon = context.float_or("epsilon", 1e-5)?;
    Ok(context.operation(Op::GroupNorm { groups, epsilon }, 3))
}

fn batch_norm(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.unset("training_mode", "training")?;
    if !context.flag_or("spatial", true)? {
        return Err(NodeError::Form { what: "normalising every pixel on its own" });
    }
    let epsilon = context.float_or("epsilon", 1e-5)?;
    plain(context, 5, Op::BatchNorm { epsilon })
}

fn cast(context: &Context<'_>, count: usize, to: Dtype) -> Result<Meaning, NodeError> {
    context.count(count, count)?;
    let same = context.operand(0)?.dtype == to;
    Ok(context.operation(if same { Op::Identity } else { Op::Cast { to } }, 1))
}

/// When not training, nothing is dropped.
fn dropout(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(1, 3)?;
    if context.constant_number(2, "whether to train")?.is_some_and(|train| train != 0.0) {
        return Err(NodeError::Form { what: "training" });
    }
    Ok(context.operation(Op::Identity, 1))
}

fn constant(context: &Context<'_>) -> Result<Meaning, NodeError> {
    context.count(0, 0)?;
    if let Some((dtype, array)) = context.tensor("value")? {
        return Ok(Meaning::Constant(dtype, array));
    }
    if context.node.attribute("value_float").is_some() {
        let value = context.float_or("value_float", 0.0)?;
        return Ok(Meaning::Constant(Dtype::Float, Array::new(vec![], Data::Float(vec![value]))?));
    }
    if let Some(value) = context.int("value_int")? {
        return Ok(Meaning::Constant(Dtype::Int, Array::new(vec![], Data::Int(vec![value]))?));
    }
    if let Some(values) = context.ints("value_ints")? {
        let data = Data::Int(values.to_vec());
        return Ok(Meaning::Constant(Dtype::Int, Array::new(vec![values.len()], data)?));
    }
    if let Some(values) = context.floats("value_floats")? {
        let data = Data::Float(crate::proto::finite(values.to_vec())?);
        return Ok(Meaning::Constant(Dtype::Float, Array::new(vec![values.len()], data)?));
    }
    Err(NodeError::Form { what: "a constant that is a text, sparse, or not there" })
}
