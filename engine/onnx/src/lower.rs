//! A checked float graph becomes a tensor program.
//!
//! The graph is walked once in order. Every node is written in terms of the twelve primitives, with
//! the integers that [`plan`] chose; a new operator needs a rule here and no new primitive.

#![expect(
    clippy::needless_pass_by_value,
    reason = "lists of summands, entries and offsets are made for the call that takes them"
)]

mod build;
mod error;
mod layout;
mod linear;
mod moves;
mod norm;
mod plan;
mod pointwise;
mod quant;
mod ranges;
mod reduce;
mod scalar;
mod terms;

pub use error::LowerError;
pub(crate) use ranges::Ranges;

use crate::dtype::Dtype;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Op, PoolKind};
use build::{Builder, Slot};
use layout::Held;
use plan::{Plan, Post};
use quant::Quant;
use std::collections::BTreeMap;
use terms::length;
use tg_tensor::program::{Primitive, Table};
use tg_tensor::{Model, Tensor};

/// Entries of the largest table.
const TABLE_MAX: i64 = 65_536;

/// The most whole numbers at which a function is tried, to see where it does not change any more.
const WHOLE_MAX: i64 = 1 << 22;

/// What can be chosen about a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choices {
    /// Bits of what is multiplied with weights: 8 for speed and proofs, up to 15 for accuracy.
    pub activation_bits: u32,
}

/// Where a value of the graph is in the program.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// The value of the graph.
    pub(crate) value: ValueId,
    /// The operation that makes it.
    pub(crate) operation: usize,
    quant: Quant,
    strides: Vec<usize>,
    sides: Vec<usize>,
}

impl Layer {
    /// The real distance of two neighbouring integers.
    pub(crate) const fn step(&self) -> f64 {
        self.quant.scale
    }

    /// The real numbers of the operation's output, in the graph's order.
    pub(crate) fn decode(&self, tensor: &Tensor) -> Vec<f64> {
        let count: usize = self.sides.iter().product();
        let real = |index: usize| {
            let mut left = index;
            let mut at = 0;
            for (side, stride) in self.sides.iter().zip(&self.strides).rev() {
                at += left % side * stride;
                left /= side;
            }
            self.quant.decode(tensor.get(at).unwrap_or(0).into())
        };
        (0..count).map(real).collect()
    }
}

/// Writes a graph as a program, with integers that fit the ranges seen.
pub(crate) fn lower(
    graph: &Graph,
    ranges: &Ranges,
    choices: Choices,
) -> Result<(Model, Vec<Layer>), LowerError> {
    let plan = Plan::new(graph, ranges, choices.activation_bits);
    let mut lowering = Lowering {
        graph,
        plan: &plan,
        builder: Builder::default(),
        held: BTreeMap::new(),
        narrowed: BTreeMap::new(),
        bits: choices.activation_bits,
    };
    lowering.inputs()?;
    for (index, node) in graph.nodes().iter().enumerate() {
        if !plan.is_absorbed(index) {
            lowering.node(index, node)?;
        }
    }
    lowering.outputs()?;
    let (model, places) = lowering.builder.finish()?;
    let layer = |(value, held): (&ValueId, &Held)| {
        let Slot::Operation(index) = held.slot else { return None };
        Some(Layer {
            value: *value,
            operation: *places.get(&index)?,
            quant: held.quant,
            strides: held.strides(),
            sides: held.sides.clone(),
        })
    };
    let mut layers: Vec<Layer> = lowering.held.iter().filter_map(layer).collect();
    layers.sort_by_key(|layer| layer.operation);
    Ok((model, layers))
}

/// A [`Quant`] in an order.
type QuantKey = (u64, i32, i32, i32);

/// A program under construction, and where the graph's values are in it.
struct Lowering<'a> {
    graph: &'a Graph,
    plan: &'a Plan,
    builder: Builder,
    held: BTreeMap<ValueId, Held>,
    narrowed: BTreeMap<(Slot, QuantKey, QuantKey), Held>,
    bits: u32,
}

impl Lowering<'_> {
    fn inputs(&mut self) -> Result<(), LowerError> {
        for value in self.graph.inputs() {
            let found = self.value(*value)?;
            let (name, sides, dtype) = (found.name.clone(), found.shape.clone(), found.dtype);
            let quant = self.plan.quant(*value);
            let len = length(&sides, &name)?;
            let scaling = match dtype {
                Dtype::Float => Some(quant.scaling()),
                Dtype::Int | Dtype::Bool | Dtype::Int8 | Dtype::Uint8 => None,
            };
            let given = if dtype == Dtype::Uint8 { unsigned(&quant) } else { quant };
            let slot = self.builder.input(&name, &sides, given.spec(len), scaling)?;
            let held = self.requantised(&Held::plain(slot, given, sides), quant)?;
            self.held.insert(*value, held);
        }
        Ok(())
    }

    fn outputs(&mut self) -> Result<(), LowerError> {
        for value in self.graph.outputs() {
            let found = self.value(*value)?;
            let (name, sides, dtype) = (found.name.clone(), found.shape.clone(), found.dtype);
            if found.constant.is_some() {
                return Err(LowerError::ConstantOutput(name));
            }
            let held = self.need(*value)?;
            let mut held = self.builder.canonical(&held)?;
            if dtype == Dtype::Uint8 {
                held = self.requantised(&held, unsigned(&held.quant))?;
            }
            let quant = match dtype {
                Dtype::Float => Some(&held.quant),
                Dtype::Int | Dtype::Bool | Dtype::Int8 | Dtype::Uint8 => None,
            };
            self.builder.output(&name, &sides, held.slot, quant)?;
        }
        Ok(())
    }

    fn value(&self, value: ValueId) -> Result<&crate::graph::Value, LowerError> {
        let missing = || LowerError::Missing(format!("{value:?}"));
        self.graph.values().get(value.index()).ok_or_else(missing)
    }

    fn node(&mut self, index: usize, node: &Node) -> Result<(), LowerError> {
        let result =
            node.outputs.first().copied().ok_or_else(|| refuse(node, "it has no result"))?;
        if self.plan.root(result) != result {
            return Ok(()); // a function of its root, written as a table when somebody needs it
        }
        let post = self.plan.post(index, result);
        match &node.op {
            Op::Gemm { .. } | Op::MatMul | Op::Conv { .. } | Op::ConvTranspose { .. } => {
                self.product(node, &post)
            }
            Op::Binary(operator) => self.binary(node, *operator, &post),
            Op::Where => self.select(node, result),
            Op::BatchNorm { epsilon } => self.batch_norm(node, *epsilon, &post),
            Op::LayerNorm { axis, epsilon } => self.layer_norm(node, *axis, *epsilon, &post),
            Op::InstanceNorm { epsilon } => self.group_norm(node, None, *epsilon, result),
            Op::GroupNorm { groups, epsilon } => {
                self.group_norm(node, Some(*groups), *epsilon, result)
            }
            Op::Softmax { axes, log } => self.softmax(node, axes.clone(), *log, result),
            Op::Pool { kind, window, .. } => self.pool(node, *kind, window, &post),
            Op::GlobalPool(kind) => self.global_pool(node, *kind, &post),
            Op::Reduce { kind, axes, .. } => self.reduce(node, *kind, axes, &post),
            Op::ArgExtreme { smallest, axis, .. } => self.arg(node, *smallest, *axis, result),
            Op::Quantize { .. } => self.quantise(node, result),
            Op::Dequantize { .. } => self.dequantise(node, result),
            Op::Unary(_) | Op::Cast { .. } | Op::Identity => {
                if let Some((x, axes)) = plan::rooted_squares(self.graph, node) {
                    return self.root_of_squares(node, x, &axes, result);
                }
                Err(refuse(node, "its operand is a constant that could not be folded"))
            }
            Op::Concat { .. }
            | Op::Slice { .. }
            | Op::Split { .. }
            | Op::Pad { .. }
            | Op::Reshape { .. }
            | Op::Transpose { .. }
            | Op::Expand { .. }
            | Op::Tile { .. }
            | Op::Gather { .. }
            | Op::Resize { .. }
            | Op::DepthToSpace { .. }
            | Op::SpaceToDepth { .. } => self.moves(node),
        }
    }

    /// The value of the program that holds a value of the graph. A function of another value is
    /// written as a table here.
    fn need(&mut self, value: ValueId) -> Result<Held, LowerError> {
        if let Some(held) = self.held.get(&value) {
            return Ok(held.clone());
        }
        let root = self.plan.root(value);
        if root == value {
            return Err(LowerError::Missing(self.value(value)?.name.clone()));
        }
        let source = self.need_own(root)?;
        let quant = self.plan.quant(value);
        let chain = self.chain(root, value);
        let apply = |x: f64| self.follow(&chain, root, value, x);
        let dtype = self.value(value)?.dtype;
        let held = match proportional(&apply, &source.quant) {
            Some(factor) if !self.plan.is_grouped(value) && dtype == Dtype::Float => {
                let scale = source.quant.scale * factor;
                Held { quant: Quant { scale, ..source.quant }, ..source }
            }
            Some(_) | None => {
                let name = self.value(value)?.name.clone();
                let domain = self.domain(value, &source.quant, &apply)?;
                let numbers = domain.lo..=domain.hi;
                let entries = numbers
                    .map(|integer| quant.encode(apply(domain.decode(integer.into()))))
                    .collect();
                let source = self.requantised(&source, domain)?;
                self.table(&name, &source, entries, quant).map_err(|error| {
                    let node =
                        self.graph.producer(value).and_then(|index| self.graph.nodes().get(index));
                    node.map_or(error, |node| refuse(node, "whole numbers beyond 16 bits"))
                })?
            }
        };
        self.held.insert(value, held.clone());
        Ok(held)
    }

    /// The integers of a root when it is looked up: its own if a table can hold them all. Whole
    /// numbers are cut where the function does not change any more; real numbers become coarser.
    fn domain(
        &self,
        value: ValueId,
        quant: &Quant,
        apply: &impl Fn(f64) -> f64,
    ) -> Result<Quant, LowerError> {
        let numbers = i64::from(quant.hi) - i64::from(quant.lo) + 1;
        if numbers <= TABLE_MAX {
            return Ok(*quant);
        }
        let is_whole = quant.scale == 1.0 && quant.zero == 0;
        if !is_whole {
            let (low, high) = quant.reals();
            return Ok(Quant::spread(low, high, plan::WIDE_BITS));
        }
        let node = self.graph.producer(value).and_then(|index| self.graph.nodes().get(index));
        let refused = || match node {
            Some(node) => refuse(node, "a function of whole numbers over too wide a range"),
            None => LowerError::too_large("range"),
        };
        if numbers > WHOLE_MAX {
            return Err(refused());
        }
        let at = |integer: i32| apply(f64::from(integer));
        let (first, last) = (at(quant.lo), at(quant.hi));
        let lo = (quant.lo..quant.hi).find(|integer| at(integer + 1) != first);
        let hi = (quant.lo..quant.hi).rev().find(|integer| at(*integer) != last);
        let lo = lo.unwrap_or(quant.lo);
        let hi = hi.map_or(lo, |integer| integer + 1);
        if i64::from(hi) - i64::from(lo) >= TABLE_MAX {
            return Err(refused());
        }
        Ok(Quant::plain(lo, hi))
    }

    fn need_own(&self, value: ValueId) -> Result<Held, LowerError> {
        let held = self.held.get(&value).cloned();
        held.ok_or_else(|| {
            let name = self.graph.values().get(value.index()).map(|value| value.name.clone());
            LowerError::Missing(name.unwrap_or_default())
        })
    }

    /// The nodes between a root and a function of it, in order.
    fn chain(&self, root: ValueId, value: ValueId) -> Vec<usize> {
        let mut wanted = vec![value];
        let mut chain = Vec::new();
        while let Some(next) = wanted.pop() {
            if next == root || self.graph.constant(next).is_some() {
                continue;
            }
            let Some(node) = self.graph.producer(next) else { continue };
            if chain.contains(&node) {
                continue;
            }
            chain.push(node);
            if let Some(node) = self.graph.nodes().get(node) {
                wanted.extend(node.inputs.iter().flatten());
            }
        }
        chain.sort_unstable();
        chain
    }

    /// Computes a function of a root at one place.
    fn follow(&self, chain: &[usize], root: ValueId, value: ValueId, x: f64) -> f64 {
        let mut known: BTreeMap<ValueId, f64> = BTreeMap::from([(root, x)]);
        for index in chain {
            let Some(node) = self.graph.nodes().get(*index) else { continue };
            let operand = |place: usize| {
                let Some(value) = node.inputs.get(place).copied().flatten() else { return 0.0 };
                let constant = || plan::floats(self.graph.constant(value)?).first().copied();
                known.get(&value).copied().or_else(constant).unwrap_or(0.0)
            };
            let Some(target) = node.outputs.first() else { continue };
            let result = if let Op::Unary(function) = &node.op {
                scalar::unary(function, operand(0))
            } else if let Op::Binary(function) = node.op {
                let exact = scalar::binary(function, operand(0), operand(1));
                let is_float = self.graph.value(*target).dtype.is_float();
                if is_float { exact } else { exact.trunc() }
            } else if node.op == Op::Where {
                operand(if operand(0) != 0.0 { 1 } else { 2 })
            } else if let Op::Cast { to } = node.op {
                cast(to, operand(0))
            } else {
                operand(0) // the identity
            };
            known.insert(*target, result);
        }
        known.get(&value).copied().unwrap_or(0.0)
    }

    /// Looks every element up.
    fn table(
        &mut self,
        name: &str,
        source: &Held,
        entries: Vec<i64>,
        quant: Quant,
    ) -> Result<Held, LowerError> {
        let entries: Option<Vec<i16>> =
            entries.iter().map(|entry| i16::try_from(*entry).ok()).collect();
        let entries = entries.ok_or_else(|| LowerError::too_large(name))?;
        let (least, most) = entries.iter().fold((i16::MAX, i16::MIN), |(least, most), entry| {
            (least.min(*entry), most.max(*entry))
        });
        let quant = Quant { lo: least.into(), hi: most.into(), ..quant };
        let entries = Table::new(entries).map_err(|_| LowerError::too_large(name))?;
        let len = length(&source.sides, name)?;
        let from = source.slot;
        let slot = self.builder.push(name, quant.spec(len), move |number| Primitive::Table {
            x: number(from),
            entries,
        });
        Ok(Held { slot, quant, ..source.clone() })
    }

    /// The value as an operand beside weights: few bits, whatever it has elsewhere.
    fn narrow(&mut self, value: ValueId) -> Result<Held, LowerError> {
        let held = self.need(value)?;
        let quant = self.plan.narrow(value);
        self.narrowed_to(held, quant)
    }

    /// The value as a factor of a product of two values: few bits around zero.
    fn paired(&mut self, value: ValueId) -> Result<Held, LowerError> {
        let held = self.need(value)?;
        if held.quant.zero == 0 && held.quant.lo == 0 {
            return Ok(held); // probabilities bring their own
        }
        let quant = self.plan.paired(value);
        if held.quant.zero == 0 && held.quant.scale == quant.scale {
            return Ok(held);
        }
        self.narrowed_to(held, quant)
    }

    fn narrowed_to(&mut self, held: Held, quant: Quant) -> Result<Held, LowerError> {
        let limit = 1 << self.bits;
        let own = [held.quant.lo, held.quant.hi, held.quant.zero];
        let is_small = own.iter().all(|number| (-limit..limit).contains(number));
        let numbers = i64::from(held.quant.hi) - i64::from(held.quant.lo);
        let is_narrow = is_small && numbers < i64::from(limit);
        if is_narrow && (quant.zero != 0 || held.quant.zero == 0) {
            return Ok(held);
        }
        let key = (held.slot, key(&held.quant), key(&quant));
        if let Some(known) = self.narrowed.get(&key) {
            return Ok(Held { sides: held.sides, order: held.order, ..known.clone() });
        }
        let narrow = self.requantised(&held, quant)?;
        self.narrowed.insert(key, narrow.clone());
        Ok(narrow)
    }

    fn quantise(&mut self, node: &Node, result: ValueId) -> Result<(), LowerError> {
        plan::scaling_of(self.graph, node).ok_or_else(|| refuse(node, MANY_SCALES))?;
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let quant = self.plan.quant(result);
        let codes = self.requantised(&held, quant)?;
        self.held.insert(result, codes);
        Ok(())
    }

    /// Codes as real numbers: the same integers.
    fn dequantise(&mut self, node: &Node, result: ValueId) -> Result<(), LowerError> {
        let (scale, zero) =
            plan::scaling_of(self.graph, node).ok_or_else(|| refuse(node, MANY_SCALES))?;
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let moved =
            if self.graph.value(x).dtype == Dtype::Uint8 && held.quant.lo < 0 { 128 } else { 0 };
        let quant = Quant { scale, zero: zero as i32 - moved, ..held.quant };
        self.held.insert(result, Held { quant, ..held });
        Ok(())
    }

    /// The operand at a place.
    fn operand(&self, node: &Node, place: usize) -> Result<ValueId, LowerError> {
        let found = node.inputs.get(place).copied().flatten();
        found.ok_or_else(|| refuse(node, "an operand is missing"))
    }

    /// The numbers of a constant operand.
    fn constant(&self, node: &Node, place: usize) -> Result<Option<Vec<f64>>, LowerError> {
        let Some(value) = node.inputs.get(place).copied().flatten() else { return Ok(None) };
        let constant = self.graph.constant(value);
        constant.map(|constant| Some(plan::floats(constant))).ok_or_else(|| {
            refuse(node, "this operand must be a constant; export with fixed parameters")
        })
    }

    /// Notes where a value is.
    fn keep(&mut self, value: ValueId, held: Held) {
        self.held.insert(value, held);
    }

    /// The integers of the value that a node makes in the end, clamped as its post says.
    fn result_quant(&self, post: &Post) -> Quant {
        self.plan.quant(post.target).clipped(post.min, post.max)
    }
}

/// The integers of unsigned codes as files have them, which are moved within a program.
fn unsigned(quant: &Quant) -> Quant {
    if quant.lo >= 0 {
        return *quant;
    }
    Quant { scale: quant.scale, zero: quant.zero + 128, lo: 0, hi: u8::MAX.into() }
}

fn cast(to: Dtype, x: f64) -> f64 {
    match to {
        Dtype::Float => x,
        Dtype::Bool => {
            if x == 0.0 {
                0.0
            } else {
                1.0
            }
        }
        Dtype::Int | Dtype::Int8 | Dtype::Uint8 => x.trunc(),
    }
}

const MANY_SCALES: &str = "one scale for each channel of a value; only weights can have them";

fn key(quant: &Quant) -> QuantKey {
    (quant.scale.to_bits(), quant.zero, quant.lo, quant.hi)
}

/// The factor of a function that only scales, seen at the ends and the middle of the integers.
fn proportional(apply: &impl Fn(f64) -> f64, quant: &Quant) -> Option<f64> {
    if apply(0.0) != 0.0 {
        return None;
    }
    let factor = apply(quant.scale) / quant.scale;
    if !(factor.is_finite() && factor > 0.0) {
        return None;
    }
    let steps = 64;
    let width = i64::from(quant.hi) - i64::from(quant.lo);
    let places = (0..=steps).map(|step| i64::from(quant.lo) + width * step / steps);
    let scales = |integer: i64| {
        let x = quant.decode(integer);
        (apply(x) - x * factor).abs() <= x.abs() * factor * 1e-9
    };
    places.into_iter().all(scales).then_some(factor)
}

fn refuse(node: &Node, why: &'static str) -> LowerError {
    LowerError::Node { node: node.name.clone(), operator: node.source.operator.clone(), why }
}

/// Whether an average counts its padding.
fn counts_pads(kind: PoolKind) -> Option<bool> {
    match kind {
        PoolKind::Max => None,
        PoolKind::Average { count_pads } => Some(count_pads),
    }
}

#[cfg(test)]
mod tests;
