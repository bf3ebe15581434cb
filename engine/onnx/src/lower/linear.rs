//! Products: with weights (matrix products and convolutions), and of two values.

use super::build::Slot;
use super::error::LowerError;
use super::layout::{Held, Piece, whole};
use super::plan::{Post, WIDE_BITS, adds_along_columns, floats, has_weights};
use super::quant::{FACTOR_MAX, Quant, rescale_for};
use super::terms::{Summand, length};
use super::{Lowering, refuse};
use crate::graph::{Node, ValueId};
use crate::op::{self, Op};
use tg_tensor::program::{MAGNITUDE_MAX, Multipliers, Primitive, Rescale, Window};

/// The largest magnitude of a weight.
const WEIGHT_MAX: f64 = 127.0;

/// A bias is at most this many steps of its weights, so that it leaves room for them.
const BIAS_MAX: f64 = 4_194_304.0;

/// Factors are at least this large, so that rounding them up costs at most a sixteenth of a bit.
const FACTOR_MIN: f64 = 24.0;

/// Where weights are integers already, nothing takes up the error of a factor; it shows in results
/// of up to this many steps.
const CODE_REACH: f64 = 128.0;

/// A product with weights, before it has integers.
struct Linear {
    x: Held,
    window: Window,
    columns: usize,
    groups: usize,
    /// `[columns][terms]`.
    weights: Vec<f64>,
    /// The same as codes, if the model came with them.
    codes: Option<ColumnCodes>,
    bias: Vec<f64>,
    sides: Vec<usize>,
    order: Vec<usize>,
}

/// Weights that are integers already.
struct ColumnCodes {
    codes: Vec<i64>,
    scales: Vec<f64>,
}

impl Lowering<'_> {
    /// Gemm, MatMul, Conv and ConvTranspose.
    pub(super) fn product(&mut self, node: &Node, post: &Post) -> Result<(), LowerError> {
        let has_weights = has_weights(self.graph, node);
        let is_conv = matches!(node.op, Op::Conv { .. } | Op::ConvTranspose { .. });
        if is_conv && !has_weights {
            return Err(refuse(node, "a convolution whose kernel is computed by the model"));
        }
        let has_addend = !is_conv && node.inputs.get(2).copied().flatten().is_some();
        let held = if has_addend && !(has_weights && adds_along_columns(self.graph, node)) {
            self.added(node, has_weights, post)?
        } else if has_weights {
            let linear = if let Op::Conv { window, group } = &node.op {
                self.convolution(node, window, *group)?
            } else if let Op::ConvTranspose { window, group, .. } = &node.op {
                self.transposed(node, window, *group)?
            } else {
                self.rows(node)?
            };
            self.linear(&node.name, linear, post)?
        } else {
            self.pair(node, post)?
        };
        self.keep(post.target, held);
        Ok(())
    }

    /// A Gemm whose addend is computed, or differs between rows: the product first, then the sum.
    fn added(&mut self, node: &Node, has_weights: bool, post: &Post) -> Result<Held, LowerError> {
        let Op::Gemm { beta, .. } = &node.op else {
            return Err(refuse(node, "an addend of something other than Gemm"));
        };
        let addend = self.operand(node, 2)?;
        let addend = self.either(node, addend)?;
        let target = self.result_quant(post);
        let scale = post.scale.first().copied().unwrap_or(1.0);
        let shift = post.shift.first().copied().unwrap_or(0.0);
        // What the product alone can be: the result less the largest addend.
        let reach = addend.quant.magnitude() * addend.quant.scale * f64::from(*beta).abs();
        let before = |real: f64| if scale == 0.0 { 0.0 } else { (real - shift) / scale };
        let (low, high) = target.reals();
        let (low, high) = (before(low), before(high));
        let between = Quant::spread(low.min(high) - reach, low.max(high) + reach, WIDE_BITS);
        let product = if has_weights {
            let linear = self.rows(node)?;
            self.linear_into(&node.name, linear, &Post::nothing(post.target), between)?
        } else {
            self.pair_into(node, between)?
        };
        let sides = self.result_sides(node)?;
        let summands = vec![
            Summand { held: product, factors: vec![scale] },
            Summand { held: addend, factors: vec![scale * f64::from(*beta)] },
        ];
        self.join(&node.name, &sides, summands, &[shift], target)
    }

    /// `[…, k] x [k, n]`.
    fn rows(&mut self, node: &Node) -> Result<Linear, LowerError> {
        let (x, weights) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let x = self.narrow(x)?;
        let (mut alpha, mut beta, mut turns, mut flipped) = (1.0, 0.0, false, false);
        if let Op::Gemm { alpha: by, beta: with, transpose_left, transpose_right } = node.op {
            (alpha, beta) = (f64::from(by), f64::from(with));
            (turns, flipped) = (transpose_left, transpose_right);
        }
        let x = if turns { turned(&x) } else { x };
        let last = x.sides.len().checked_sub(1).ok_or_else(|| refuse(node, "a scalar operand"))?;
        let mut order: Vec<usize> = x.order.iter().copied().filter(|axis| *axis != last).collect();
        order.push(last);
        let x = self.builder.ordered(&x, &order)?;
        let terms = x.sides.get(last).copied().unwrap_or(1);
        let rows = x.len() / terms;
        let columns = self.graph.dims(weights).iter().product::<usize>() / terms;
        let place = move |column: usize, term: usize| {
            if flipped { column * terms + term } else { term * columns + column }
        };
        let along = usize::from(!flipped);
        let (table, codes) = self.arranged(weights, along, (columns, terms), place);
        let mut bias = vec![0.0; columns];
        if adds_along_columns(self.graph, node)
            && let Some(addend) = self.constant(node, 2)?
        {
            let at = |column: usize| addend.get(if addend.len() == 1 { 0 } else { column });
            for (column, bias) in bias.iter_mut().enumerate() {
                *bias = at(column).copied().unwrap_or(0.0) * beta;
            }
        }
        let weights = table.into_iter().map(|weight| weight * alpha).collect();
        let codes = codes.filter(|_| alpha == 1.0);
        // A product with a vector has one axis less.
        let sides = self.result_sides(node)?;
        let mut order = x.order.clone();
        if sides.len() < x.sides.len() {
            order.pop();
        }
        let small =
            |number: usize| u32::try_from(number).map_err(|_| LowerError::too_large("rows"));
        let window = Window::rows(small(rows)?, small(terms)?);
        Ok(Linear { x, window, columns, groups: 1, weights, codes, bias, sides, order })
    }

    /// Weights and codes by column, from wherever the file has them. `along` is the axis of the
    /// columns.
    fn arranged(
        &self,
        value: ValueId,
        along: usize,
        (columns, terms): (usize, usize),
        place: impl Fn(usize, usize) -> usize,
    ) -> (Vec<f64>, Option<ColumnCodes>) {
        let given = self.graph.constant(value).map(floats).unwrap_or_default();
        let mut table = Vec::with_capacity(given.len());
        for column in 0..columns {
            for term in 0..terms {
                table.push(given.get(place(column, term)).copied().unwrap_or(0.0));
            }
        }
        let codes = self.column_codes(value, along, (columns, terms), place);
        (table, codes)
    }

    /// The codes of weights by column, less their zero points, if they fit a program's weights.
    fn column_codes(
        &self,
        value: ValueId,
        along: usize,
        (columns, terms): (usize, usize),
        place: impl Fn(usize, usize) -> usize,
    ) -> Option<ColumnCodes> {
        let stored = self.graph.value(value).quantised?;
        let given = floats(self.graph.constant(stored.codes)?);
        let scales = floats(self.graph.constant(stored.scale)?);
        let zeros = stored.zero_point.and_then(|zero| self.graph.constant(zero)).map(floats);
        let zeros = zeros.unwrap_or_else(|| vec![0.0]);
        if stored.axis != along && (scales.len() > 1 || zeros.len() > 1) {
            return None;
        }
        let at = |list: &[f64], column: usize| {
            list.get(if list.len() == 1 { 0 } else { column }).copied()
        };
        let mut codes = Vec::with_capacity(given.len());
        for column in 0..columns {
            let zero = at(&zeros, column)?;
            for term in 0..terms {
                let code = given.get(place(column, term))? - zero;
                if code.abs() > WEIGHT_MAX + 1.0 {
                    return None;
                }
                codes.push(code.clamp(-WEIGHT_MAX, WEIGHT_MAX) as i64);
            }
        }
        let scales: Option<Vec<f64>> = (0..columns).map(|column| at(&scales, column)).collect();
        Some(ColumnCodes { codes, scales: scales? })
    }

    fn convolution(
        &mut self,
        node: &Node,
        window: &op::Window,
        groups: usize,
    ) -> Result<Linear, LowerError> {
        let (x, weights) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let x = self.narrow(x)?;
        let x = self.channels_last(&x)?;
        let sides = self.result_sides(node)?;
        let view = view(&x.sides, &sides, window).ok_or_else(|| refuse(node, NOT_PLANAR))?;
        let shape = self.graph.dims(weights).to_vec();
        let columns = shape.first().copied().unwrap_or(1);
        let each = shape.get(1).copied().unwrap_or(1);
        let taps: usize = window.kernel.iter().product();
        // The file has [column][channel][tap], a program [column][tap][channel].
        let place =
            move |column: usize, term: usize| (column * each + term % each) * taps + term / each;
        let (weights, codes) = self.arranged(weights, 0, (columns, taps * each), place);
        let bias = self.constant(node, 2)?.unwrap_or_else(|| vec![0.0; columns]);
        let order = x.order.clone();
        Ok(Linear { x, window: view, columns, groups, weights, codes, bias, sides, order })
    }

    fn transposed(
        &mut self,
        node: &Node,
        window: &op::Window,
        groups: usize,
    ) -> Result<Linear, LowerError> {
        let (x, weights) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let x = self.narrow(x)?;
        let x = self.channels_last(&x)?;
        let sides = self.result_sides(node)?;
        let mut view = view(&x.sides, &sides, window).ok_or_else(|| refuse(node, NOT_PLANAR))?;
        // Each output place looks back at the inputs that reach it, through the kernel turned
        // round.
        let back =
            |kernel: u32, dilation: u32, pad: i32| (kernel as i32 - 1) * dilation as i32 - pad;
        view.pad_top = back(view.kernel_height, view.dilation_height, view.pad_top);
        view.pad_left = back(view.kernel_width, view.dilation_width, view.pad_left);
        (view.spread_height, view.spread_width) = (view.stride_height, view.stride_width);
        (view.stride_height, view.stride_width) = (1, 1);
        let shape = self.graph.dims(weights).to_vec();
        let per_group = shape.get(1).copied().unwrap_or(1);
        let each = shape.first().copied().unwrap_or(1) / groups;
        let columns = per_group * groups;
        let taps: usize = window.kernel.iter().product();
        let place = move |column: usize, term: usize| {
            let (tap, channel) = (taps - 1 - term / each, term % each);
            let (group, column) = (column / per_group, column % per_group);
            ((group * each + channel) * per_group + column) * taps + tap
        };
        let (weights, _) = self.arranged(weights, 1, (columns, taps * each), place);
        let bias = self.constant(node, 2)?.unwrap_or_else(|| vec![0.0; columns]);
        let order = x.order.clone();
        Ok(Linear { x, window: view, columns, groups, weights, codes: None, bias, sides, order })
    }

    fn linear(&mut self, name: &str, linear: Linear, post: &Post) -> Result<Held, LowerError> {
        let quant = self.result_quant(post);
        self.linear_into(name, linear, post, quant)
    }

    fn linear_into(
        &mut self,
        name: &str,
        linear: Linear,
        post: &Post,
        quant: Quant,
    ) -> Result<Held, LowerError> {
        let integers =
            Integers::new(&linear, post, &quant).ok_or_else(|| LowerError::too_large(name))?;
        let terms = linear.weights.len() / linear.columns.max(1);
        let shape = [linear.columns, terms];
        let weights =
            self.builder.constant(&format!("{name}.weight"), &shape, &integers.weights)?;
        let biases = [linear.columns];
        let bias = self.builder.constant(&format!("{name}.bias"), &biases, &integers.bias)?;
        let (x, window, pad) = (linear.x.slot, linear.window, linear.x.quant.zero);
        let small = |number: usize| u32::try_from(number).map_err(|_| LowerError::too_large(name));
        let (columns, groups) = (small(linear.columns)?, small(linear.groups)?);
        let (bound, rescale) = (integers.bound, integers.rescale);
        let len = length(&linear.sides, name)?;
        let slot = self.builder.push(name, quant.spec(len), move |number| Primitive::Linear {
            x: number(x),
            weights: number(weights),
            bias: Some(number(bias)),
            window,
            columns,
            groups,
            pad,
            bound,
            rescale,
        });
        Ok(Held { slot, quant, sides: linear.sides, order: linear.order })
    }

    /// A product of two values, and what follows it.
    fn pair(&mut self, node: &Node, post: &Post) -> Result<Held, LowerError> {
        let scale = post.scale.first().copied().unwrap_or(1.0);
        let shift = post.shift.first().copied().unwrap_or(0.0);
        let target = self.result_quant(post);
        if scale > 0.0 && shift == 0.0 {
            let quant = Quant { scale: target.scale / scale, ..target };
            let held = self.pair_into(node, quant)?;
            return Ok(Held { quant: target, ..held });
        }
        let end = |real: f64| if scale == 0.0 { 0.0 } else { (real - shift) / scale };
        let (low, high) = target.reals();
        let (low, high) = (end(low), end(high));
        let between = Quant::spread(low.min(high), low.max(high), WIDE_BITS);
        let held = self.pair_into(node, between)?;
        let sides = held.sides.clone();
        let summand = Summand { held, factors: vec![scale] };
        self.join(&node.name, &sides, vec![summand], &[shift], target)
    }

    /// A product of two values with given integers.
    fn pair_into(&mut self, node: &Node, quant: Quant) -> Result<Held, LowerError> {
        let (left, right) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let (mut a, mut b) = (self.pair_operand(node, left)?, self.pair_operand(node, right)?);
        let mut alpha = 1.0;
        if let Op::Gemm { alpha: by, transpose_left, transpose_right, .. } = &node.op {
            alpha = f64::from(*by);
            if *transpose_left {
                a = turned(&a);
            }
            if *transpose_right {
                b = turned(&b);
            }
        }
        let sides = self.result_sides(node)?;
        // A vector on the left is a row, one on the right a column; its axis is not in the result.
        let mut matrix = sides.clone();
        if let [side] = *a.sides.as_slice() {
            a = Held::plain(a.slot, a.quant, vec![1, side]);
            matrix.insert(matrix.len().saturating_sub(1), 1);
        }
        if let [side] = *b.sides.as_slice() {
            b = Held::plain(b.slot, b.quant, vec![side, 1]);
            matrix.push(1);
        }
        if alpha < 0.0 {
            a = self.negated(&node.name, &a)?;
        }
        let (a, b) = self.fitting_pair(a, b)?;
        let (a, b) = (self.stacked(&a, &matrix)?, self.stacked(&b, &matrix)?);
        let factor = a.quant.scale * b.quant.scale * alpha.abs() / quant.scale;
        self.mat_mul(node, &matrix, (a, b), factor, quant)
            .map(|slot| Held::plain(slot, quant, sides))
    }

    /// Two factors with so few bits that their products add up within 31.
    fn fitting_pair(&mut self, mut a: Held, mut b: Held) -> Result<(Held, Held), LowerError> {
        let inner = a.sides.last().copied().unwrap_or(1) as f64;
        let room = MAGNITUDE_MAX as f64 / inner;
        while a.quant.magnitude() * b.quant.magnitude() > room {
            if a.quant.magnitude() >= b.quant.magnitude() {
                a = self.coarser(&a)?;
            } else {
                b = self.coarser(&b)?;
            }
        }
        Ok((a, b))
    }

    /// The value with one bit less.
    fn coarser(&mut self, held: &Held) -> Result<Held, LowerError> {
        let bits = held.quant.magnitude().log2().ceil();
        if bits < 4.0 {
            return Err(LowerError::too_large("inner side of a product"));
        }
        let (low, high) = held.quant.reals();
        self.requantised(held, Quant::centred(low, high, bits as u32))
    }

    fn mat_mul(
        &mut self,
        node: &Node,
        sides: &[usize],
        (a, b): (Held, Held),
        factor: f64,
        quant: Quant,
    ) -> Result<Slot, LowerError> {
        let name = &node.name;
        let rank = sides.len();
        let natural: Vec<usize> = (0..rank).collect();
        let mut flipped = natural.clone();
        flipped.swap(rank - 2, rank - 1);
        let (a, b) = (self.builder.ordered(&a, &natural)?, self.builder.ordered(&b, &flipped)?);
        let at = |list: &[usize], back: usize| list.get(rank - back).copied().unwrap_or(1);
        let (rows, inner, columns) = (at(&a.sides, 2), at(&a.sides, 1), at(&b.sides, 1));
        let batch: usize = sides.iter().take(rank - 2).product();
        let bound = a.quant.magnitude() * b.quant.magnitude() * inner as f64;
        let rescale =
            rescale_for(factor, bound, quant.zero).ok_or_else(|| LowerError::too_large(name))?;
        let small = |number: usize| u32::try_from(number).map_err(|_| LowerError::too_large(name));
        let (batch, rows, columns, inner) =
            (small(batch)?, small(rows)?, small(columns)?, small(inner)?);
        let (from_a, from_b) = (a.slot, b.slot);
        let (offset_a, offset_b) = (-a.quant.zero, -b.quant.zero);
        let len = length(sides, name)?;
        Ok(self.builder.push(name, quant.spec(len), move |number| Primitive::MatMul {
            a: number(from_a),
            b: number(from_b),
            batch,
            rows,
            columns,
            inner,
            offset_a,
            offset_b,
            rescale,
        }))
    }

    fn pair_operand(&mut self, node: &Node, value: ValueId) -> Result<Held, LowerError> {
        if self.graph.constant(value).is_none() {
            return self.paired(value);
        }
        let held = self.constant_operand(node, value)?;
        let (low, high) = held.quant.reals();
        self.requantised(&held, Quant::centred(low, high, self.bits))
    }

    /// The value with the leading axes of a result: missing ones added, single ones repeated.
    fn stacked(&mut self, held: &Held, sides: &[usize]) -> Result<Held, LowerError> {
        let lead = sides.len() - held.sides.len();
        let mut wanted = held.sides.clone();
        for _ in 0..lead {
            wanted.insert(0, 1);
        }
        let grown = Held {
            slot: held.slot,
            quant: held.quant,
            sides: wanted.clone(),
            order: (0..lead).chain(held.order.iter().map(|axis| axis + lead)).collect(),
        };
        let batch = sides.len() - 2;
        for (own, side) in wanted.iter_mut().zip(sides).take(batch) {
            *own = *side;
        }
        if wanted == grown.sides {
            return Ok(grown);
        }
        let strides = grown.strides();
        let offsets = wanted
            .iter()
            .zip(&grown.sides)
            .zip(&strides)
            .map(|((side, own), stride)| whole(*side, if own == side { *stride } else { 0 }));
        let piece = Piece { slot: grown.slot, offsets: offsets.collect() };
        let slot = self.builder.moved("repeat", vec![piece], 0, &grown.quant, grown.quant.lo)?;
        Ok(Held::plain(slot, grown.quant, wanted))
    }
}

const NOT_PLANAR: &str = "only windows over one or two axes are supported; split a 3-D convolution";

/// The two axes of a matrix exchanged, without moving anything.
fn turned(held: &Held) -> Held {
    let mut sides = held.sides.clone();
    sides.reverse();
    let last = sides.len().saturating_sub(1);
    let order = held.order.iter().map(|axis| last - axis).collect();
    Held { sides, order, ..held.clone() }
}

/// A window over `[n, c, h, w]` or `[n, c, l]` as a program states it.
pub(super) fn view(x: &[usize], result: &[usize], window: &op::Window) -> Option<Window> {
    let small = |number: usize| u32::try_from(number).ok();
    let pair = |list: &[usize], missing: usize| -> Option<(u32, u32)> {
        match list {
            [one] => Some((small(missing)?, small(*one)?)),
            [first, second] => Some((small(*first)?, small(*second)?)),
            _ => None,
        }
    };
    let (height, width) = pair(x.get(2..)?, 1)?;
    let (out_height, out_width) = pair(result.get(2..)?, 1)?;
    let (kernel_height, kernel_width) = pair(&window.kernel, 1)?;
    let (stride_height, stride_width) = pair(&window.strides, 1)?;
    let (dilation_height, dilation_width) = pair(&window.dilations, 1)?;
    let (top, left) = pair(&window.before, 0)?;
    Some(Window {
        batch: small(*x.first()?)?,
        height,
        width,
        channels: small(*x.get(1)?)?,
        out_height,
        out_width,
        kernel_height,
        kernel_width,
        stride_height,
        stride_width,
        dilation_height,
        dilation_width,
        pad_top: i32::try_from(top).ok()?,
        pad_left: i32::try_from(left).ok()?,
        spread_height: 1,
        spread_width: 1,
    })
}

/// Weights, biases and factors of a product in integers.
struct Integers {
    weights: Vec<i64>,
    bias: Vec<i64>,
    bound: u32,
    rescale: Rescale,
}

/// How fine the factors of a product are.
struct Precision {
    /// The smallest factor.
    least: f64,
    /// The largest relative error of one.
    error: f64,
}

/// One column of weights on its way to integers.
struct Column<'a> {
    weights: &'a [f64],
    codes: Option<&'a [i64]>,
    scale: f64,
    bias: f64,
    turn: f64,
}

/// How often weights are made coarser by half until their sums fit.
const COARSER_MAX: usize = 24;

fn post_at(list: &[f64], place: usize) -> f64 {
    list.get(if list.len() == 1 { 0 } else { place }).copied().unwrap_or(0.0)
}

/// What each column of a product holds.
fn columns<'a>(linear: &'a Linear, post: &Post, quant: &Quant) -> Vec<Column<'a>> {
    let terms = linear.weights.len() / linear.columns.max(1);
    let input = &linear.x.quant;
    let column = |column: usize| {
        let range = column * terms..(column + 1) * terms;
        let weights = linear.weights.get(range.clone()).unwrap_or_default();
        let factor = post_at(&post.scale, column);
        let bias = post_at(&linear.bias, column) * factor + post_at(&post.shift, column);
        let codes = linear.codes.as_ref();
        let own = codes.and_then(|codes| codes.scales.get(column)).copied();
        let codes = codes.and_then(|codes| codes.codes.get(range));
        let largest = weights.iter().fold(0.0_f64, |most, weight| most.max(weight.abs()));
        let needed = (largest * factor.abs() / WEIGHT_MAX)
            .max(bias.abs() / (input.scale * BIAS_MAX))
            .max(quant.scale / input.scale * 1e-9);
        let scale = own.map_or(needed, |own| own * factor.abs());
        let scale = if scale > 0.0 { scale } else { needed };
        let turn = if codes.is_some() { factor.signum() } else { factor };
        Column { weights, codes, scale, bias, turn }
    };
    (0..linear.columns).map(column).collect()
}

impl Integers {
    fn new(linear: &Linear, post: &Post, quant: &Quant) -> Option<Self> {
        let input = &linear.x.quant;
        let mut columns = columns(linear, post, quant);
        let found = Self::finest(&columns, input, quant);
        if found.is_some() {
            return found;
        }
        // Codes that do not fit are weights like others.
        for (at, column) in columns.iter_mut().enumerate() {
            if column.codes.take().is_some() {
                column.turn = post_at(&post.scale, at);
            }
        }
        (0..COARSER_MAX).find_map(|_| {
            let found = Self::finest(&columns, input, quant);
            for column in &mut columns {
                column.scale *= 2.0;
            }
            found
        })
    }

    /// The integers with the finest factors that fit.
    fn finest(columns: &[Column<'_>], input: &Quant, quant: &Quant) -> Option<Self> {
        let steepest = columns.iter().fold(0.0_f64, |most, column| most.max(column.scale));
        let steepest = steepest * input.scale / quant.scale;
        let free = (-steepest.log2()).floor() - 4.0;
        let most = if free.is_finite() { free.clamp(0.0, 16.0) as u8 } else { 0 };
        let is_exact = columns.iter().any(|column| column.codes.is_some());
        let mut best: Option<(f64, Self)> = None;
        for pre_shift in 0..=most {
            let mut shifts = (0..=30_u8).rev();
            let found =
                shifts.find_map(|shift| Self::with(columns, input, quant, pre_shift, shift));
            let Some((integers, precision)) = found else { continue };
            let dropped = if pre_shift == 0 { 0.0 } else { 2_f64.powi(pre_shift.into()) };
            let loss = if is_exact {
                dropped * steepest / 2.0 + precision.error * CODE_REACH
            } else {
                // Weights take up the error of a factor, as long as it is not too coarse for them.
                1.0 / precision.least.min(FACTOR_MIN)
            };
            if best.as_ref().is_none_or(|(least, _)| loss < *least) {
                best = Some((loss, integers));
            }
            if !is_exact && precision.least >= FACTOR_MIN {
                break;
            }
        }
        best.map(|(_, integers)| integers)
    }

    /// The integers for given shifts, and how fine their factors are; `None` if something would
    /// overflow.
    fn with(
        columns: &[Column<'_>],
        input: &Quant,
        quant: &Quant,
        pre_shift: u8,
        shift: u8,
    ) -> Option<(Self, Precision)> {
        let unit = 2_f64.powi(i32::from(pre_shift) + i32::from(shift));
        let ends = [input.lo, input.hi, input.zero].map(i32::unsigned_abs);
        let largest_x = f64::from(ends.into_iter().max().unwrap_or(0));
        let mut factors = Vec::with_capacity(columns.len());
        let mut precision = Precision { least: f64::INFINITY, error: 0.0 };
        for column in columns {
            let exact = column.scale * input.scale / quant.scale * unit;
            let factor = if column.codes.is_some() { exact.round() } else { exact.ceil() };
            // A quick bound first: most shifts are far too large.
            let rough = largest_x * 64.0 / f64::from(1_u32 << pre_shift) * factor;
            if shift > 0 && (factor > FACTOR_MAX || rough > MAGNITUDE_MAX as f64 * 4.0) {
                return None;
            }
            let factor = factor.clamp(1.0, FACTOR_MAX);
            precision.least = precision.least.min(factor);
            precision.error = precision.error.max((factor / exact - 1.0).abs());
            factors.push(factor);
        }
        let mut integers = Self {
            weights: Vec::new(),
            bias: Vec::with_capacity(columns.len()),
            bound: 0,
            rescale: Rescale {
                pre_shift,
                multipliers: Multipliers::new(factors.iter().map(|f| *f as i32).collect()).ok()?,
                shift,
                zero: quant.zero,
            },
        };
        let mut bound = 0_u64;
        for (column, factor) in columns.iter().zip(&factors) {
            // A factor that had to be cut leaves a finer scale than the weights need; they are
            // clamped to a result that is clamped as well.
            let scale = (factor * quant.scale / (unit * input.scale)).max(column.scale);
            let sums = integers.column(column, scale, input);
            let reach = largest_x as u64 * sums.0 + sums.1.unsigned_abs();
            bound = bound.max(reach);
            if reach > MAGNITUDE_MAX.unsigned_abs() {
                return None;
            }
        }
        integers.bound = u32::try_from(bound).ok()?;
        integers.rescale.admits(bound as i64).then_some((integers, precision))
    }

    /// Adds a column; returns the sum of its magnitudes and its bias.
    fn column(&mut self, column: &Column<'_>, scale: f64, input: &Quant) -> (u64, i64) {
        let (mut sum, mut magnitudes) = (0_i64, 0_u64);
        for (at, weight) in column.weights.iter().enumerate() {
            let integer = match column.codes.and_then(|codes| codes.get(at)) {
                Some(code) => *code * column.turn as i64,
                None => {
                    (weight * column.turn / scale).round().clamp(-WEIGHT_MAX, WEIGHT_MAX) as i64
                }
            };
            sum += integer;
            magnitudes += integer.unsigned_abs();
            self.weights.push(integer);
        }
        let step = if column.codes.is_some() { column.scale } else { scale };
        let real = (column.bias / (input.scale * step)).round() as i64;
        let bias = real - i64::from(input.zero) * sum;
        self.bias.push(bias);
        (magnitudes, bias)
    }
}
