//! What a node means, once everything that depends on the file's age is settled.
//!
//! The same operation is written in many ways: an axis counted from the end, axes as an attribute
//! or as an operand, padding as a word or as numbers, a flattening hidden in a version number. An
//! [`Op`] has one form for each meaning. Every number in it is absolute and in range for the
//! shapes of the node's operands, so what comes after never looks at attributes again.
//!
//! [`parse`] makes an [`Op`] of a node. An operand that only decides (axes, a target shape, the
//! bounds of a clip) is taken into the [`Op`] and is no operand any more.

mod attributes;
mod layout;
mod parse;
mod quantised;
mod refused;
mod window;

pub(crate) use parse::{Context, MICROSOFT, Meaning, Operand, parse};
pub use parse::{OPSET_MAX, OPSET_MIN};

use std::ops::Range;

use crate::dtype::Dtype;

/// The operation of a node. The comment of each variant names its operands in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// `alpha · a · b + beta · c`, where a and b may be transposed: a, b, and optionally c.
    Gemm {
        /// Factor of the product.
        alpha: f32,
        /// Factor of the addend.
        beta: f32,
        /// Whether a is transposed first.
        transpose_left: bool,
        /// Whether b is transposed first.
        transpose_right: bool,
    },
    /// The product of stacks of matrices, which broadcast: a, b.
    MatMul,
    /// A convolution: x, weights `[out, in / group, …]`, and optionally a bias.
    Conv {
        /// Where the kernel stands.
        window: Window,
        /// Into how many independent parts the channels fall.
        group: usize,
    },
    /// A transposed convolution: x, weights `[in, out / group, …]`, and optionally a bias.
    ConvTranspose {
        /// Where the kernel stands; pads are cut off the result.
        window: Window,
        /// Into how many independent parts the channels fall.
        group: usize,
        /// What is added at the end of each spatial axis, before the pads are cut.
        output_padding: Vec<usize>,
    },
    /// A function of each element: x.
    Unary(Unary),
    /// A function of two elements, with broadcasting: a, b.
    Binary(Binary),
    /// Exponentials that add up to one over some neighbouring axes: x.
    Softmax {
        /// The axes that are normalised together. More than one only before opset 13.
        axes: Range<usize>,
        /// Whether the logarithm is taken afterwards.
        log: bool,
    },
    /// Mean zero and variance one over the axes from `axis` on: x, scale, and optionally a bias.
    LayerNorm {
        /// The first axis that is normalised.
        axis: usize,
        /// Added to the variance.
        epsilon: f32,
    },
    /// Mean zero and variance one over each channel of each example: x, scale, bias.
    InstanceNorm {
        /// Added to the variance.
        epsilon: f32,
    },
    /// Mean zero and variance one over groups of channels: x, scale and bias per channel.
    GroupNorm {
        /// How many groups.
        groups: usize,
        /// Added to the variance.
        epsilon: f32,
    },
    /// A fixed scaling of each channel: x, scale, bias, mean, variance.
    BatchNorm {
        /// Added to the variance.
        epsilon: f32,
    },
    /// The mean or the maximum under a moving window: x.
    Pool {
        /// Which of the two.
        kind: PoolKind,
        /// Where the window stands.
        window: Window,
        /// Whether a last window that is only partly inside counts.
        ceil: bool,
    },
    /// The mean or the maximum of each channel: x. Padding does not occur.
    GlobalPool(PoolKind),
    /// A number over some axes: x.
    Reduce {
        /// Which number.
        kind: Reduction,
        /// The axes, ascending.
        axes: Vec<usize>,
        /// Whether the axes stay, with side one.
        keep: bool,
    },
    /// The position of the largest or smallest element along an axis: x.
    ArgExtreme {
        /// Whether the smallest is sought.
        smallest: bool,
        /// The axis.
        axis: usize,
        /// Whether the axis stays, with side one.
        keep: bool,
    },
    /// Operands behind each other: any number of them.
    Concat {
        /// The axis along which.
        axis: usize,
    },
    /// A part of an operand: x.
    Slice {
        /// What is taken of each axis.
        spans: Vec<Span>,
    },
    /// Parts of an operand, one for each result: x.
    Split {
        /// The axis that is cut.
        axis: usize,
        /// The sides of the parts.
        sides: Vec<usize>,
    },
    /// A border around an operand: x.
    Pad {
        /// What the border holds.
        mode: PadMode,
        /// How much comes before each axis.
        before: Vec<usize>,
        /// How much comes after each axis.
        after: Vec<usize>,
    },
    /// The same elements in another shape, also for `Flatten`, `Squeeze` and `Unsqueeze`: x.
    Reshape {
        /// The new shape.
        shape: Vec<usize>,
    },
    /// Axes in another order: x.
    Transpose {
        /// Which axis of the operand each axis of the result is.
        order: Vec<usize>,
    },
    /// Repetition of sides that are one, as broadcasting does it: x.
    Expand {
        /// The resulting shape.
        shape: Vec<usize>,
    },
    /// Repetition of the whole: x.
    Tile {
        /// How often along each axis.
        repeats: Vec<usize>,
    },
    /// Rows chosen by index: x, indices. A negative index counts from the end.
    Gather {
        /// The axis along which is chosen.
        axis: usize,
    },
    /// One of two, for each element: condition, if true, if false.
    Where,
    /// Another element kind: x.
    Cast {
        /// The kind of the result.
        to: Dtype,
    },
    /// The operand itself: x.
    Identity,
    /// More or fewer elements by interpolation: x.
    Resize {
        /// How elements in between are found.
        mode: ResizeMode,
        /// Which place in the operand an element of the result stands for.
        coordinates: Coordinates,
        /// The factor of each axis.
        scales: Vec<f32>,
        /// The resulting shape.
        shape: Vec<usize>,
    },
    /// Channels laid out as blocks of pixels: x `[n, c, h, w]`.
    DepthToSpace {
        /// The side of a block.
        block: usize,
        /// Whether the channel is the slowest part of the depth (CRD), not the fastest (DCR).
        channel_first: bool,
    },
    /// Blocks of pixels laid out as channels: x `[n, c, h, w]`.
    SpaceToDepth {
        /// The side of a block.
        block: usize,
    },
    /// Floats as codes: x, scale, and optionally the zero point.
    Quantize {
        /// The axis along which scales differ, if there is more than one.
        axis: usize,
        /// The kind of the codes.
        to: Dtype,
    },
    /// Codes as floats: codes, scale, and optionally the zero point.
    Dequantize {
        /// The axis along which scales differ, if there is more than one.
        axis: usize,
    },
}

/// A function of one element. Booleans belong to [`Unary::Not`], all others to numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// `max(x, 0)`.
    Relu,
    /// `x` or `alpha · x` if negative.
    LeakyRelu {
        /// The slope below zero.
        alpha: f32,
    },
    /// `x` or `alpha · (e^x - 1)` if negative.
    Elu {
        /// The limit below zero, negated.
        alpha: f32,
    },
    /// `gamma · x` or `gamma · alpha · (e^x - 1)` if negative.
    Selu {
        /// The limit below zero, negated.
        alpha: f32,
        /// The factor of everything.
        gamma: f32,
    },
    /// `x` or `alpha · (e^(x / alpha) - 1)` if negative.
    Celu {
        /// The limit below zero, negated.
        alpha: f32,
    },
    /// `log(1 + e^x)`.
    Softplus,
    /// `x / (1 + |x|)`.
    Softsign,
    /// `x` held within bounds; a bound that is not given is infinite.
    Clip {
        /// The lower bound.
        min: f32,
        /// The upper bound.
        max: f32,
    },
    /// `1 / (1 + e^-x)`.
    Sigmoid,
    /// `alpha · x + beta`, held within 0 and 1.
    HardSigmoid {
        /// The slope.
        alpha: f32,
        /// The value at zero.
        beta: f32,
    },
    /// `x · hard_sigmoid(x)` with the slope 1/6 and 1/2 at zero.
    HardSwish,
    /// The hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// `x · Φ(x)`, exactly or by the hyperbolic tangent.
    Gelu {
        /// Whether `Φ` is approximated by the hyperbolic tangent.
        approximate: bool,
    },
    /// `x · tanh(softplus(x))`.
    Mish,
    /// The square root.
    Sqrt,
    /// `e^x`.
    Exp,
    /// The natural logarithm.
    Log,
    /// The absolute value.
    Abs,
    /// `-x`.
    Neg,
    /// `1 / x`.
    Reciprocal,
    /// The next whole number below.
    Floor,
    /// The next whole number above.
    Ceil,
    /// The nearest whole number, and the even one of two.
    Round,
    /// -1, 0 or 1.
    Sign,
    /// Whether `x` is false.
    Not,
}

/// A function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a · b`.
    Mul,
    /// `a / b`; of integers, rounded toward zero.
    Div,
    /// `a` to the power of `b`, of the kind of `a`.
    Pow,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
    /// `a` or `a · b` if `a` is negative.
    PRelu,
    /// Whether both are true.
    And,
    /// Whether one is true.
    Or,
    /// Whether just one is true.
    Xor,
    /// `a = b`.
    Equal,
    /// `a < b`.
    Less,
    /// `a ≤ b`.
    LessOrEqual,
    /// `a > b`.
    Greater,
    /// `a ≥ b`.
    GreaterOrEqual,
}

/// A number computed over axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// The mean.
    Mean,
    /// The sum.
    Sum,
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
    /// The product.
    Prod,
    /// The sum of squares.
    SumSquare,
    /// The square root of the sum of squares.
    L2,
    /// The sum of absolute values.
    L1,
}

/// What a pool computes of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// The largest element.
    Max,
    /// The mean.
    Average {
        /// Whether elements of the padding count, as zeros.
        count_pads: bool,
    },
}

/// Where a kernel or window stands. Every list has one entry for each spatial axis, one or two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The sides of the kernel.
    pub kernel: Vec<usize>,
    /// The distance between neighbouring places.
    pub strides: Vec<usize>,
    /// The distance between neighbouring elements of the kernel.
    pub dilations: Vec<usize>,
    /// The padding before each axis.
    pub before: Vec<usize>,
    /// The padding after each axis.
    pub after: Vec<usize>,
}

/// What a slice takes of one axis: `start`, `start + step`, and so on, `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first index.
    pub start: usize,
    /// The distance to the next, never zero.
    pub step: i64,
    /// How many.
    pub count: usize,
}

/// What a border holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    /// One value.
    Constant(f32),
    /// The operand mirrored at its first and last element, which are not repeated.
    Reflect,
    /// The first and the last element.
    Edge,
}

/// How elements in between are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeMode {
    /// By the nearest element.
    Nearest(Nearest),
    /// By the weighted mean of the neighbours.
    Linear,
}

/// Which of two neighbours is the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// The one below.
    Floor,
    /// The one above.
    Ceil,
    /// The nearer one, of two equally near the one below.
    PreferFloor,
    /// The nearer one, of two equally near the one above.
    PreferCeil,
}

/// Which place `p` in the operand the element `q` of the result stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// `p = q / scale`.
    Asymmetric,
    /// `p = (q + 1/2) / scale - 1/2`.
    HalfPixel,
    /// As [`Self::HalfPixel`], but 0 if the result has one element.
    PytorchHalfPixel,
    /// The first and the last elements of both stand for each other.
    AlignCorners,
}
