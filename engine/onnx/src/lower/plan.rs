//! Decides, before anything is written, which values of a graph become values of the program and
//! with which integers.
//!
//! Three things are settled here. Element-by-element chains on one value are *functions of a root*
//! and become one table. Scalings, batch norms and clamps behind a producer are taken into its
//! rescale (its *post*). And values that are only moved, sliced or concatenated form *groups* that
//! share their integers, so that moving needs no arithmetic.

mod integers;

pub(crate) use integers::{WIDE_BITS, scaling_of};

use super::quant::Quant;
use super::ranges::Ranges;
use crate::dtype::Dtype;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Binary, Op, PoolKind, Reduction, Unary};
use integers::Groups;
use tg_tensor::{Array, Data};

/// What follows a producer: `clamp(real * scale + shift, min, max)`, and which value that is.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    /// The value that is made in the end.
    pub(crate) target: ValueId,
    /// Factors: one, or one for each channel.
    pub(crate) scale: Vec<f64>,
    /// Summands: one, or one for each channel.
    pub(crate) shift: Vec<f64>,
    /// The smallest real result.
    pub(crate) min: f64,
    /// The largest real result.
    pub(crate) max: f64,
}

/// How a value is used, for the choice of its integers.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    convolved: bool,
    multiplied: bool,
    paired: bool,
    tabled: bool,
    wide: bool,
}

/// The decisions.
#[derive(Debug)]
pub(crate) struct Plan {
    roots: Vec<ValueId>,
    posts: Vec<Option<Post>>,
    absorbed: Vec<bool>,
    quants: Vec<Quant>,
    narrow: Vec<Quant>,
    paired: Vec<Quant>,
    grouped: Vec<bool>,
}

impl Plan {
    /// Looks at the whole graph.
    pub(crate) fn new(graph: &Graph, ranges: &Ranges, activation_bits: u32) -> Self {
        let mut plan = Planning::new(graph);
        plan.find_roots();
        plan.find_uses();
        let groups = Groups::new(&plan);
        plan.decide(&groups, ranges, activation_bits)
    }

    /// The value that this one is a function of; itself if it is none.
    pub(crate) fn root(&self, value: ValueId) -> ValueId {
        self.roots.get(value.index()).copied().unwrap_or(value)
    }

    /// What follows a producing node.
    pub(crate) fn post(&self, node: usize, value: ValueId) -> Post {
        let post = self.posts.get(node).cloned().flatten();
        post.unwrap_or_else(|| Post::nothing(value))
    }

    /// Whether a node is part of the post of another.
    pub(crate) fn is_absorbed(&self, node: usize) -> bool {
        self.absorbed.get(node).copied().unwrap_or(false)
    }

    /// The integers of a value.
    pub(crate) fn quant(&self, value: ValueId) -> Quant {
        self.quants.get(value.index()).copied().unwrap_or(Quant::plain(0, 1))
    }

    /// The integers of a value as an operand of a product with weights.
    pub(crate) fn narrow(&self, value: ValueId) -> Quant {
        self.narrow.get(value.index()).copied().unwrap_or_else(|| self.quant(value))
    }

    /// The integers of a value as an operand of a product of two values.
    pub(crate) fn paired(&self, value: ValueId) -> Quant {
        self.paired.get(value.index()).copied().unwrap_or_else(|| self.quant(value))
    }

    /// Whether a value shares its integers with others.
    pub(crate) fn is_grouped(&self, value: ValueId) -> bool {
        self.grouped.get(value.index()).copied().unwrap_or(false)
    }
}

impl Post {
    /// Nothing follows.
    pub(crate) fn nothing(target: ValueId) -> Self {
        Self {
            target,
            scale: vec![1.0],
            shift: vec![0.0],
            min: f64::NEG_INFINITY,
            max: f64::INFINITY,
        }
    }

    fn affine(&mut self, scale: &[f64], shift: &[f64]) {
        let (own_scale, own_shift) = (self.scale.clone(), self.shift.clone());
        let channels = [&own_scale, &own_shift].map(|own| own.len()).into_iter().max().unwrap_or(1);
        let channels = channels.max(scale.len()).max(shift.len());
        let at = |list: &[f64], place: usize| {
            list.get(if list.len() == 1 { 0 } else { place }).copied().unwrap_or(0.0)
        };
        self.scale = (0..channels).map(|c| at(&own_scale, c) * at(scale, c)).collect();
        self.shift =
            (0..channels).map(|c| at(&own_shift, c) * at(scale, c) + at(shift, c)).collect();
        if let ([scale], [shift]) = (scale, shift)
            && self.is_clamped()
        {
            let (min, max) = (self.min * scale + shift, self.max * scale + shift);
            (self.min, self.max) = if *scale < 0.0 { (max, min) } else { (min, max) };
        }
    }

    fn clamp(&mut self, min: f64, max: f64) {
        self.min = self.min.max(min).min(max);
        self.max = self.max.min(max).max(min);
    }

    fn is_clamped(&self) -> bool {
        self.min > f64::NEG_INFINITY || self.max < f64::INFINITY
    }
}

struct Planning<'a> {
    graph: &'a Graph,
    consumers: Vec<Vec<usize>>,
    is_output: Vec<bool>,
    roots: Vec<ValueId>,
    posts: Vec<Option<Post>>,
    absorbed: Vec<bool>,
    uses: Vec<Uses>,
}

impl<'a> Planning<'a> {
    fn new(graph: &'a Graph) -> Self {
        let count = graph.values().len();
        let mut consumers = vec![Vec::new(); count];
        for (index, node) in graph.nodes().iter().enumerate() {
            for value in node.inputs.iter().flatten() {
                if let Some(list) = consumers.get_mut(value.index()) {
                    list.push(index);
                }
            }
        }
        let mut is_output = vec![false; count];
        for value in graph.outputs() {
            if let Some(flag) = is_output.get_mut(value.index()) {
                *flag = true;
            }
        }
        Self {
            graph,
            consumers,
            is_output,
            roots: (0..count).map(ValueId::from_index).collect(),
            posts: vec![None; graph.nodes().len()],
            absorbed: vec![false; graph.nodes().len()],
            uses: vec![Uses::default(); count],
        }
    }

    fn root(&self, value: ValueId) -> ValueId {
        self.roots.get(value.index()).copied().unwrap_or(value)
    }

    fn find_roots(&mut self) {
        for (index, node) in self.graph.nodes().iter().enumerate() {
            if self.absorbed.get(index) == Some(&true) {
                continue;
            }
            let Some(result) = node.outputs.first().copied() else { continue };
            if let Some(root) = self.common_root(node, result) {
                if let Some(own) = self.roots.get_mut(result.index()) {
                    *own = root;
                }
                continue;
            }
            if let Some(channels) = producer_channels(self.graph, node) {
                let post = self.follow(result, channels);
                if let Some(own) = self.posts.get_mut(index) {
                    *own = Some(post);
                }
            }
        }
    }

    /// The one value that an element-by-element node is a function of.
    fn common_root(&self, node: &Node, result: ValueId) -> Option<ValueId> {
        if !is_scalar(&node.op) || rooted_squares(self.graph, node).is_some() {
            return None;
        }
        let mut found = None;
        for operand in node.inputs.iter().flatten() {
            if let Some(constant) = self.graph.constant(*operand) {
                if constant.len() != 1 {
                    return None;
                }
                continue;
            }
            let root = self.root(*operand);
            let same_shape = self.graph.dims(*operand) == self.graph.dims(result)
                && self.graph.dims(root) == self.graph.dims(result);
            if !same_shape || found.is_some_and(|found| found != root) {
                return None;
            }
            found = Some(root);
        }
        found
    }

    /// Takes what follows a producer into its post, as far as nobody else looks at what lies
    /// between.
    fn follow(&mut self, result: ValueId, channel_axis: Option<usize>) -> Post {
        let mut post = Post::nothing(result);
        loop {
            let value = post.target;
            if self.is_output.get(value.index()) == Some(&true) {
                return post;
            }
            let next = match self.consumers.get(value.index()).map(Vec::as_slice) {
                Some([next]) => *next,
                _ => return post,
            };
            let Some(node) = self.graph.nodes().get(next) else { return post };
            if !self.take(&mut post, node, channel_axis) {
                return post;
            }
            let Some(target) = node.outputs.first().copied() else { return post };
            post.target = target;
            if let Some(flag) = self.absorbed.get_mut(next) {
                *flag = true;
            }
            if matches!(node.op, Op::Quantize { .. }) {
                return post;
            }
        }
    }

    fn take(&self, post: &mut Post, node: &Node, channel_axis: Option<usize>) -> bool {
        if let Op::Binary(operator) = node.op {
            return self.take_binary(post, node, operator, channel_axis);
        }
        if let Op::BatchNorm { epsilon } = node.op {
            let fits = channel_axis == Some(1) && !post.is_clamped();
            let affine = batch_norm(self.graph, node, epsilon).filter(|_| fits);
            return affine.map(|(scale, shift)| post.affine(&scale, &shift)).is_some();
        }
        if node.op == Op::Unary(Unary::Relu) {
            post.clamp(0.0, f64::INFINITY);
        } else if let Op::Unary(Unary::Clip { min, max }) = node.op {
            post.clamp(min.into(), max.into());
        } else if node.op == Op::Unary(Unary::Neg) {
            post.affine(&[-1.0], &[0.0]);
        } else if matches!(node.op, Op::Quantize { .. }) {
            return scaling_of(self.graph, node).is_some();
        } else {
            return node.op == Op::Identity;
        }
        true
    }

    fn take_binary(
        &self,
        post: &mut Post,
        node: &Node,
        operator: Binary,
        channel_axis: Option<usize>,
    ) -> bool {
        let [Some(a), Some(b)] = node.inputs.as_slice() else { return false };
        let (other, is_first) = if *a == post.target { (*b, true) } else { (*a, false) };
        let Some(constant) = self.graph.constant(other) else { return false };
        let result = node.outputs.first().map(|value| self.graph.dims(*value));
        if result != Some(self.graph.dims(post.target)) {
            return false;
        }
        let numbers = match along_channels(constant, self.graph.dims(post.target), channel_axis) {
            Some(numbers) if numbers.len() == 1 || !post.is_clamped() => numbers,
            _ => return false,
        };
        let inverse = || numbers.iter().map(|number| 1.0 / number).collect::<Vec<f64>>();
        let minus = || numbers.iter().map(|number| -number).collect::<Vec<f64>>();
        match operator {
            Binary::Add => post.affine(&[1.0], &numbers),
            Binary::Sub if is_first => post.affine(&[1.0], &minus()),
            Binary::Sub => post.affine(&[-1.0], &numbers),
            Binary::Mul => post.affine(&numbers, &[0.0]),
            Binary::Div if is_first && !numbers.contains(&0.0) => {
                post.affine(&inverse(), &[0.0]);
            }
            Binary::Max if numbers.len() == 1 => {
                post.clamp(numbers.first().copied().unwrap_or(0.0), f64::INFINITY);
            }
            Binary::Min if numbers.len() == 1 => {
                post.clamp(f64::NEG_INFINITY, numbers.first().copied().unwrap_or(0.0));
            }
            Binary::Div
            | Binary::Max
            | Binary::Min
            | Binary::Pow
            | Binary::PRelu
            | Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual => return false,
        }
        true
    }

    fn find_uses(&mut self) {
        for (index, node) in self.graph.nodes().iter().enumerate() {
            if is_steep(node) {
                self.note_root(node);
            }
            if self.is_gone(index, node) {
                continue;
            }
            if let Some((x, _)) = rooted_squares(self.graph, node) {
                self.note(x, |uses| uses.wide = true);
            }
            for (place, operand) in node.inputs.iter().enumerate() {
                let Some(operand) = operand else { continue };
                if self.graph.constant(*operand).is_none() {
                    self.note(*operand, |uses| mark(uses, self.graph, node, place));
                }
            }
        }
        for output in self.graph.outputs() {
            self.note(*output, |uses| uses.wide = true);
        }
    }

    /// The root of a steep function has as many bits as there are.
    fn note_root(&mut self, node: &Node) {
        let root = node.outputs.first().map(|result| self.root(*result));
        if let Some(uses) = root.and_then(|root| self.uses.get_mut(root.index())) {
            uses.wide = true;
        }
    }

    /// Whether a node is not lowered as such: part of a post, or a function of a root.
    fn is_gone(&self, index: usize, node: &Node) -> bool {
        let is_function = node.outputs.first().is_some_and(|value| self.root(*value) != *value);
        self.absorbed.get(index) == Some(&true) || is_function
    }

    fn note(&mut self, value: ValueId, mark: impl FnOnce(&mut Uses)) {
        if let Some(uses) = self.uses.get_mut(value.index()) {
            mark(uses);
        }
        let root = self.root(value);
        if root != value
            && let Some(uses) = self.uses.get_mut(root.index())
        {
            uses.tabled = true;
        }
    }
}

fn mark(uses: &mut Uses, graph: &Graph, node: &Node, place: usize) {
    let is_product = matches!(node.op, Op::Gemm { .. } | Op::MatMul) && place < 2;
    if matches!(node.op, Op::Conv { .. } | Op::ConvTranspose { .. }) && place == 0 {
        uses.convolved = true;
    } else if is_product && place == 0 && has_weights(graph, node) {
        uses.multiplied = true;
    } else if is_product {
        uses.paired = true;
    } else if !is_move(&node.op) {
        uses.wide = true;
    }
}

/// What a node takes the square root of the sum of squares of, and over which axes. In steps of its
/// own the squares would need twice the bits.
pub(crate) fn rooted_squares(graph: &Graph, node: &Node) -> Option<(ValueId, Vec<usize>)> {
    let operand = |node: &Node, place: usize| node.inputs.get(place).copied().flatten();
    let producer = |value: ValueId| graph.nodes().get(graph.producer(value)?);
    if node.op != Op::Unary(Unary::Sqrt) {
        return None;
    }
    let sum = producer(operand(node, 0)?)?;
    let summed = operand(sum, 0)?;
    let Op::Reduce { kind, axes, .. } = &sum.op else { return None };
    let x = if *kind == Reduction::SumSquare {
        summed
    } else if *kind == Reduction::Sum {
        squared(graph, producer(summed)?)?
    } else {
        return None;
    };
    Some((x, axes.clone()))
}

/// What a node is the square of.
pub(crate) fn squared(graph: &Graph, node: &Node) -> Option<ValueId> {
    let [Some(a), Some(b)] = node.inputs.as_slice() else { return None };
    let is_square = if node.op == Op::Binary(Binary::Pow) {
        floats(graph.constant(*b)?) == [2.0]
    } else {
        node.op == Op::Binary(Binary::Mul) && a == b
    };
    is_square.then_some(*a)
}

/// Whether a node's second operand is a constant that can be weights: one matrix, or kernels.
pub(crate) fn has_weights(graph: &Graph, node: &Node) -> bool {
    let [Some(x), Some(weights), ..] = node.inputs.as_slice() else { return false };
    let fixed = graph.constant(*x).is_none() && graph.constant(*weights).is_some();
    let takes = matches!(node.op, Op::Conv { .. } | Op::ConvTranspose { .. } | Op::Gemm { .. })
        || (node.op == Op::MatMul && graph.dims(*weights).len() <= 2);
    fixed && takes
}

/// Whether a function is so steep somewhere that small steps of its operand show.
fn is_steep(node: &Node) -> bool {
    matches!(
        node.op,
        Op::Unary(Unary::Log | Unary::Sqrt | Unary::Reciprocal | Unary::Exp)
            | Op::Binary(Binary::Div | Binary::Pow)
    )
}

/// Whether a node computes each element from the elements at the same place.
pub(crate) fn is_scalar(op: &Op) -> bool {
    matches!(op, Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast { .. } | Op::Identity)
}

/// Whether a node only moves elements, so that operand and result share their integers.
pub(crate) fn is_move(op: &Op) -> bool {
    matches!(
        op,
        Op::Concat { .. }
            | Op::Slice { .. }
            | Op::Split { .. }
            | Op::Pad { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Expand { .. }
            | Op::Tile { .. }
            | Op::Gather { .. }
            | Op::Where
            | Op::Resize { .. }
            | Op::DepthToSpace { .. }
            | Op::SpaceToDepth { .. }
            | Op::Pool { kind: PoolKind::Max, .. }
            | Op::GlobalPool(PoolKind::Max)
            | Op::Reduce { kind: Reduction::Max, .. }
            | Op::Dequantize { .. }
    )
}

/// The channel axis of a node whose result can take a post; `Some(None)` if only scalars fit.
fn producer_channels(graph: &Graph, node: &Node) -> Option<Option<usize>> {
    let result = node.outputs.first().copied()?;
    if graph.values().get(result.index())?.dtype != Dtype::Float {
        return None;
    }
    if has_weights(graph, node) && adds_along_columns(graph, node) {
        let last = graph.dims(result).len().checked_sub(1);
        return Some(if node.op == Op::MatMul { last } else { Some(1) });
    }
    let takes_scalars = matches!(
        node.op,
        Op::Gemm { .. }
            | Op::MatMul
            | Op::BatchNorm { .. }
            | Op::LayerNorm { .. }
            | Op::Pool { kind: PoolKind::Average { .. }, .. }
            | Op::GlobalPool(PoolKind::Average { .. })
            | Op::Reduce { kind: Reduction::Mean | Reduction::Sum, .. }
            | Op::Binary(Binary::Add | Binary::Sub | Binary::Mul)
    );
    takes_scalars.then_some(None)
}

/// Whether nothing but a bias of each column is added to a product with weights, so that what comes
/// behind can be taken into it channel by channel.
pub(crate) fn adds_along_columns(graph: &Graph, node: &Node) -> bool {
    let operand = |place: usize| node.inputs.get(place).copied().flatten();
    if node.op == Op::MatMul {
        // A product with a vector has one column and no axis for it.
        return operand(1).is_some_and(|weights| graph.dims(weights).len() == 2);
    }
    let Some(addend) = operand(2).filter(|_| matches!(node.op, Op::Gemm { .. })) else {
        return true;
    };
    let columns = node.outputs.first().and_then(|value| graph.dims(*value).last());
    let own = graph.dims(addend);
    let (last, others) = (own.last(), own.split_last().map_or(&[][..], |pair| pair.1));
    graph.constant(addend).is_some()
        && others.iter().all(|side| *side == 1)
        && (last.is_none_or(|last| *last == 1) || last == columns)
}

/// Scale and shift of each channel of a batch norm with constant parameters.
pub(crate) fn batch_norm(graph: &Graph, node: &Node, epsilon: f32) -> Option<(Vec<f64>, Vec<f64>)> {
    let parameter = |place: usize| {
        let value = node.inputs.get(place).copied().flatten()?;
        Some(floats(graph.constant(value)?))
    };
    let (scale, bias, mean, variance) =
        (parameter(1)?, parameter(2)?, parameter(3)?, parameter(4)?);
    let factors: Vec<f64> = scale
        .iter()
        .zip(&variance)
        .map(|(scale, variance)| scale / (variance + f64::from(epsilon)).sqrt())
        .collect();
    let shifts = bias.iter().zip(&mean).zip(&factors);
    let shifts = shifts.map(|((bias, mean), factor)| bias - mean * factor).collect();
    Some((factors, shifts))
}

/// A constant's numbers.
pub(crate) fn floats(constant: &Array) -> Vec<f64> {
    match constant.data() {
        Data::Float(numbers) => numbers.iter().map(|number| f64::from(*number)).collect(),
        Data::Int(numbers) => numbers.iter().map(|number| *number as f64).collect(),
    }
}

/// The numbers of a constant that differs at most along one axis of what it meets.
pub(crate) fn along_channels(
    constant: &Array,
    sides: &[usize],
    channel_axis: Option<usize>,
) -> Option<Vec<f64>> {
    let numbers = floats(constant);
    if numbers.len() == 1 {
        return Some(numbers);
    }
    let axis = channel_axis?;
    let own = constant.shape();
    let lead = sides.len().checked_sub(own.len())?;
    let fits = own
        .iter()
        .enumerate()
        .all(|(at, side)| *side == 1 || (at + lead == axis && sides.get(axis) == Some(side)));
    fits.then_some(numbers)
}
