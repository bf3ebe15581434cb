//! What divides by a sum: softmax and the norms.

use super::error::LowerError;
use super::layout::Held;
use super::plan::{Post, WIDE_BITS, squared};
use super::quant::{Quant, one, rescale_for};
use super::terms::{Summand, inverse_table, length};
use super::{Lowering, refuse};
use crate::graph::{Node, ValueId};
use crate::op::{Binary, Op, Reduction, Unary};
use std::ops::Range;
use tg_tensor::program::{
    Inverse, MAGNITUDE_MAX, Operand, Primitive, Rescale, Sides, Strides, Table, Window,
};

/// How deep exponentials are tabled: `e^-16` is a ten-millionth.
const EXP_DEPTH: f64 = 16.0;

/// Entries of that table.
const EXP_STEPS: i32 = 4_095;

/// Normalised numbers are tabled up to this many standard deviations.
const NORM_REACH: f64 = 12.0;

impl Lowering<'_> {
    /// Exponentials that add up to one. Maximum, difference, table, sum, division: the error of a
    /// probability is below 2^-10 of it plus one step.
    pub(super) fn softmax(
        &mut self,
        node: &Node,
        axes: Range<usize>,
        log: bool,
        result: ValueId,
    ) -> Result<(), LowerError> {
        if log {
            return Err(refuse(node, "the logarithm of small probabilities; use Softmax"));
        }
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let rest = (0..held.sides.len()).filter(|axis| !axes.contains(axis));
        let order: Vec<usize> = rest.chain(axes.clone()).collect();
        let held = self.builder.ordered(&held, &order)?;
        let len: usize = axes.clone().filter_map(|axis| held.sides.get(axis)).product();
        let rows = held.len() / len;
        let flat = Held::plain(held.slot, held.quant, vec![rows, len]);
        let name = node.name.clone();
        let most = self.row_max(&name, &flat)?;
        let step = EXP_DEPTH / f64::from(EXP_STEPS);
        let depth = Quant { scale: step, zero: 0, lo: -EXP_STEPS, hi: 0 };
        let both = vec![
            Summand { held: flat.clone(), factors: vec![1.0] },
            Summand { held: most, factors: vec![-1.0] },
        ];
        let below = self.join(&name, &[rows, len], both, &[0.0], depth)?;
        let bits = self.probability_bits(result, len);
        // The sum of a row is at most 2^(16 + bits), so that the shift of a share fits.
        let peak = (f64::from(1 << (bits + 16)) / len as f64).min(32_767.0).floor();
        let exp = Quant { scale: 1.0 / peak, zero: 0, lo: 0, hi: peak as i32 };
        let entries = (-EXP_STEPS..=0).map(|at| exp.encode((f64::from(at) * step).exp())).collect();
        let powers = self.table(&name, &below, entries, exp)?;
        let sum = self.row_sum(&name, &powers)?;
        let held_rows = self.shares(&name, &powers, &sum, bits)?;
        let held = Held { sides: held.sides, order: held.order, ..held_rows };
        let held = if self.plan.is_grouped(result) {
            self.requantised(&held, self.plan.quant(result))?
        } else {
            held
        };
        self.keep(result, held);
        Ok(())
    }

    /// Bits of probabilities: fourteen, or what their product with values of a few bits over `len`
    /// terms leaves room for.
    fn probability_bits(&self, result: ValueId, len: usize) -> u32 {
        let consumers = self.graph.consumers(result).iter();
        let mut nodes = consumers.filter_map(|index| self.graph.nodes().get(*index));
        if !nodes.any(|node| matches!(node.op, Op::MatMul | Op::Gemm { .. })) {
            return 14;
        }
        let factor = f64::from(1_u32 << (self.bits - 1));
        let room = MAGNITUDE_MAX as f64 / (factor * len as f64);
        (room.log2().floor() as u32).clamp(6, 14)
    }

    fn row_max(&mut self, name: &str, x: &Held) -> Result<Held, LowerError> {
        let [rows, len] = rows_of(x)?;
        let from = x.slot;
        let window = Window::middle(rows, len, 1);
        let slot = self.builder.push(name, x.quant.spec(rows), move |number| Primitive::Max {
            x: number(from),
            window,
        });
        Ok(Held::plain(slot, x.quant, vec![rows as usize, 1]))
    }

    /// The exact sum of each row of integers.
    fn row_sum(&mut self, name: &str, x: &Held) -> Result<Held, LowerError> {
        let [rows, len] = rows_of(x)?;
        let largest = x.quant.magnitude() * f64::from(len);
        if largest > MAGNITUDE_MAX as f64 {
            return Err(LowerError::too_large(&format!("row of {name}")));
        }
        let quant = Quant { scale: x.quant.scale, zero: 0, lo: 0, hi: largest as i32 };
        let (from, offset) = (x.slot, -x.quant.zero);
        let window = Window::middle(rows, len, 1);
        let rescale = Rescale { pre_shift: 0, multipliers: one(1), shift: 0, zero: 0 };
        let slot = self.builder.push(name, quant.spec(rows), move |number| Primitive::Sum {
            x: number(from),
            window,
            offset,
            rescale,
        });
        Ok(Held::plain(slot, quant, vec![rows as usize, 1]))
    }

    /// Each element as a share of its row's sum, in `bits` bits.
    fn shares(&mut self, name: &str, x: &Held, sum: &Held, bits: u32) -> Result<Held, LowerError> {
        let [rows, len] = rows_of(x)?;
        let (entries, scale) = inverse_table(Inverse::Reciprocal);
        let shift = (scale.log2() as u32 - bits) as u8;
        let quant = Quant { scale: 2_f64.powi(-(bits as i32)), zero: 0, lo: 0, hi: 1 << bits };
        let entries = Table::new(entries).map_err(|_| LowerError::too_large(name))?;
        let sides = Sides::new(vec![rows, len]).map_err(|_| LowerError::too_large(name))?;
        let every = Strides::new(vec![len, 1]).map_err(|_| LowerError::too_large(name))?;
        let each = Strides::new(vec![1, 0]).map_err(|_| LowerError::too_large(name))?;
        let (from, by) = (x.slot, sum.slot);
        let total = length(&x.sides, name)?;
        let slot = self.builder.push(name, quant.spec(total), move |number| Primitive::Normalise {
            sides,
            a: Operand { value: number(from), strides: every },
            offset: 0,
            x: Operand { value: number(by), strides: each },
            inverse: Inverse::Reciprocal,
            entries,
            shift,
            zero: 0,
        });
        Ok(Held::plain(slot, quant, x.sides.clone()))
    }

    /// `LayerNormalization`.
    pub(super) fn layer_norm(
        &mut self,
        node: &Node,
        axis: usize,
        epsilon: f32,
        post: &Post,
    ) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let held = self.builder.canonical(&held)?;
        let len: usize = held.sides.iter().skip(axis).product();
        let rows = held.len() / len;
        let flat = Held::plain(held.slot, held.quant, vec![rows, len]);
        let normal = self.normalised(&node.name, &flat, epsilon.into(), true)?;
        let scale = self.constant(node, 1)?.unwrap_or_else(|| vec![1.0]);
        let bias = self.constant(node, 2)?.unwrap_or_else(|| vec![0.0]);
        // Parameters broadcast over the axes before their own.
        let (scale, bias) = (repeated(scale, len), repeated(bias, len));
        let (by, plus) = (
            post.scale.first().copied().unwrap_or(1.0),
            post.shift.first().copied().unwrap_or(0.0),
        );
        let factors: Vec<f64> = scale.iter().map(|scale| scale * by).collect();
        let addend: Vec<f64> = bias.iter().map(|bias| bias * by + plus).collect();
        let quant = self.result_quant(post);
        let summand = Summand { held: normal, factors };
        let result = self.join(&node.name, &[rows, len], vec![summand], &addend, quant)?;
        self.keep(post.target, Held { sides: held.sides, order: held.order, ..result });
        Ok(())
    }

    /// `InstanceNormalization` (one group for each channel) and `GroupNormalization`.
    pub(super) fn group_norm(
        &mut self,
        node: &Node,
        groups: Option<usize>,
        epsilon: f32,
        result: ValueId,
    ) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let held = self.builder.canonical(&held)?;
        let [images, channels] = match held.sides.as_slice() {
            [images, channels, ..] => [*images, *channels],
            _ => return Err(refuse(node, "an operand without channels")),
        };
        let rows = images * groups.unwrap_or(channels);
        let len = held.len() / rows;
        let flat = Held::plain(held.slot, held.quant, vec![rows, len]);
        let normal = self.normalised(&node.name, &flat, epsilon.into(), true)?;
        let normal = Held { sides: held.sides.clone(), order: held.order, ..normal };
        let normal = self.channels_last(&normal)?;
        let missing = || refuse(node, "a scale or bias that is no constant");
        let factors = self.constant(node, 1)?.ok_or_else(missing)?;
        let addend = self.constant(node, 2)?.ok_or_else(missing)?;
        let quant = self.plan.quant(result);
        let summand = Summand { held: normal, factors };
        let held = self.join(&node.name, &held.sides, vec![summand], &addend, quant)?;
        self.keep(result, held);
        Ok(())
    }

    /// Rows divided by the root of their mean square, after their mean was taken off if `centre`.
    fn normalised(
        &mut self,
        name: &str,
        x: &Held,
        epsilon: f64,
        centre: bool,
    ) -> Result<Held, LowerError> {
        let [rows, len] = rows_of(x)?;
        let sides = [rows as usize, len as usize];
        let count = f64::from(len);
        let centred = if centre { self.centred(name, x)? } else { self.factor_of(x)? };
        let largest = centred.quant.magnitude();
        // Squares are cut so far that a row of them cannot leave 31 bits.
        // Epsilon has to fit as well, which is what decides if the data is far smaller.
        let square = centred.quant.scale * centred.quant.scale;
        let half = MAGNITUDE_MAX as f64 / 2.0;
        let needed = (largest * largest * count / half).max(epsilon * count / square / half);
        let cut = needed.log2().ceil().max(0.0);
        let unit = square * cut.exp2();
        let hi = (MAGNITUDE_MAX as f64 / 2.0 / count).floor().min(f64::from(1 << 29)) as i32;
        let squares = Quant { scale: unit, zero: 0, lo: 0, hi };
        let squares = self.multiply(name, &sides, (&centred, &centred), 1.0, squares)?;
        let sum = self.row_sum_with(name, &squares, (epsilon * count / unit).round())?;
        let steepest = largest * centred.quant.scale / epsilon.max(f64::MIN_POSITIVE).sqrt();
        // x / sqrt(sum / count), as a division of x * sqrt(count / unit) by the root of integers.
        let top = Held {
            quant: Quant { scale: centred.quant.scale * (count / unit).sqrt(), ..centred.quant },
            ..centred
        };
        let bottom = Held { quant: Quant { scale: 1.0, ..sum.quant }, ..sum };
        let reach = NORM_REACH.min(count.sqrt()).min(steepest);
        let quant = Quant::centred(-reach, reach, WIDE_BITS);
        self.divided(name, &sides, (&top, &bottom), Inverse::Root, quant)
    }

    /// Rows less their mean.
    fn centred(&mut self, name: &str, x: &Held) -> Result<Held, LowerError> {
        let [rows, len] = rows_of(x)?;
        let x = &self.factor_of(x)?;
        let largest = x.quant.magnitude();
        let mean = Quant {
            scale: x.quant.scale / 2.0,
            zero: 0,
            lo: -(largest as i32) * 2,
            hi: largest as i32 * 2,
        };
        let (from, offset) = (x.slot, -x.quant.zero);
        let rescale = rescale_for(2.0 / f64::from(len), largest * f64::from(len), 0);
        let rescale = rescale.ok_or_else(|| LowerError::too_large(&format!("row of {name}")))?;
        let window = Window::middle(rows, len, 1);
        let slot = self.builder.push(name, mean.spec(rows), move |number| Primitive::Sum {
            x: number(from),
            window,
            offset,
            rescale,
        });
        let mean = Held::plain(slot, mean, vec![rows as usize, 1]);
        let square = (MAGNITUDE_MAX as f64).sqrt().floor();
        let reach = (2.0 * largest + 1.0).min(square) as i32;
        let quant = Quant { scale: x.quant.scale, zero: 0, lo: -reach, hi: reach };
        let both = vec![
            Summand { held: x.clone(), factors: vec![1.0] },
            Summand { held: mean, factors: vec![-1.0] },
        ];
        self.join(name, &[rows as usize, len as usize], both, &[0.0], quant)
    }

    fn row_sum_with(&mut self, name: &str, x: &Held, plus: f64) -> Result<Held, LowerError> {
        let [rows, len] = rows_of(x)?;
        let zero = plus.clamp(1.0, f64::from(1 << 29)) as i32;
        let most =
            (x.quant.magnitude() * f64::from(len) + f64::from(zero)).min(MAGNITUDE_MAX as f64);
        let quant = Quant { scale: x.quant.scale, zero: 0, lo: 1, hi: most as i32 };
        let from = x.slot;
        let window = Window::middle(rows, len, 1);
        let rescale = Rescale { pre_shift: 0, multipliers: one(1), shift: 0, zero };
        let slot = self.builder.push(name, quant.spec(rows), move |number| Primitive::Sum {
            x: number(from),
            window,
            offset: 0,
            rescale,
        });
        Ok(Held::plain(slot, quant, vec![rows as usize, 1]))
    }

    /// `a / sqrt(mean(a^2) + epsilon)`, as exporters write it out.
    pub(super) fn root_norm(
        &mut self,
        node: &Node,
        (a, b): (ValueId, ValueId),
        quant: Quant,
    ) -> Result<Option<Held>, LowerError> {
        let Some(epsilon) = self.mean_square(a, b) else { return Ok(None) };
        let normal = self.root_normalised(node, a, epsilon)?;
        self.requantised(&normal, quant).map(Some)
    }

    /// The same written as a product with the inverse of the root, times a factor.
    pub(super) fn root_norm_product(
        &mut self,
        node: &Node,
        (a, b): (ValueId, ValueId),
        (scale, shift): (f64, f64),
        quant: Quant,
    ) -> Result<Option<Held>, LowerError> {
        let found = [(a, b), (b, a)].into_iter().find_map(|(value, inverse)| {
            Some((value, self.mean_square(value, self.inverted(inverse)?)?))
        });
        let Some((value, epsilon)) = found else { return Ok(None) };
        let normal = self.root_normalised(node, value, epsilon)?;
        let sides = normal.sides.clone();
        let summand = Summand { held: normal, factors: vec![scale] };
        self.join(&node.name, &sides, vec![summand], &[shift], quant).map(Some)
    }

    fn root_normalised(
        &mut self,
        node: &Node,
        value: ValueId,
        epsilon: f64,
    ) -> Result<Held, LowerError> {
        let held = self.need(value)?;
        let held = self.builder.canonical(&held)?;
        let len = held.sides.last().copied().unwrap_or(1);
        let rows = held.len() / len;
        let flat = Held::plain(held.slot, held.quant, vec![rows, len]);
        let normal = self.normalised(&node.name, &flat, epsilon, false)?;
        Ok(Held { sides: held.sides, order: held.order, ..normal })
    }

    /// What a value is the inverse of.
    fn inverted(&self, value: ValueId) -> Option<ValueId> {
        let node = self.graph.nodes().get(self.graph.producer(value)?)?;
        let operand = |place: usize| node.inputs.get(place).copied().flatten();
        if node.op == Op::Unary(Unary::Reciprocal) {
            return operand(0);
        }
        let is_quotient = node.op == Op::Binary(Binary::Div);
        let top = super::plan::floats(self.graph.constant(operand(0)?)?);
        operand(1).filter(|_| is_quotient && top == [1.0])
    }

    /// The epsilon, if `b` is `sqrt(mean(a^2) + epsilon)` over the last axis.
    fn mean_square(&self, a: ValueId, b: ValueId) -> Option<f64> {
        let node = |value: ValueId| self.graph.nodes().get(self.graph.producer(value)?);
        let operand = |node: &Node, place: usize| node.inputs.get(place).copied().flatten();
        let root = node(b)?;
        if !matches!(root.op, Op::Unary(Unary::Sqrt)) {
            return None;
        }
        let mut inner = operand(root, 0)?;
        let mut epsilon = 0.0;
        let sum = node(inner)?;
        if sum.op == Op::Binary(Binary::Add) {
            let (first, second) = (operand(sum, 0)?, operand(sum, 1)?);
            let (value, constant) = if self.graph.constant(second).is_some() {
                (first, second)
            } else {
                (second, first)
            };
            epsilon = super::plan::floats(self.graph.constant(constant)?).first().copied()?;
            inner = value;
        }
        let mean = node(inner)?;
        let Op::Reduce { kind: Reduction::Mean, axes, .. } = &mean.op else { return None };
        if axes.as_slice() != [self.graph.dims(a).len().checked_sub(1)?] {
            return None;
        }
        let square = squared(self.graph, node(operand(mean, 0)?)?)?;
        (square == a).then_some(epsilon)
    }
}

/// A list repeated to a length, unless it is one number.
fn repeated(list: Vec<f64>, len: usize) -> Vec<f64> {
    if list.len() <= 1 || list.len() == len {
        return list;
    }
    list.iter().copied().cycle().take(len).collect()
}

/// The two sides of a value of rows.
fn rows_of(held: &Held) -> Result<[u32; 2], LowerError> {
    match held.sides.as_slice() {
        [rows, len] => match (u32::try_from(*rows), u32::try_from(*len)) {
            (Ok(rows), Ok(len)) => Ok([rows, len]),
            _ => Err(LowerError::too_large("row")),
        },
        _ => Err(LowerError::too_large("rank of rows")),
    }
}
