//! Many elements become one: pools, reductions and the place of the largest.

use super::build::Builder;
use super::error::LowerError;
use super::layout::Held;
use super::linear::view;
use super::plan::{Post, WIDE_BITS};
use super::quant::{Quant, fixed_point, rescale_for};
use super::terms::{Summand, length};
use super::{Lowering, counts_pads, refuse};
use crate::graph::{Node, ValueId};
use crate::op::{self, PoolKind, Reduction};
use tg_tensor::program::{Inverse, MAGNITUDE_MAX, Multipliers, Primitive, Rescale, Window};

/// What inverse roots are computed from: 28 bits below are left for the inverse.
const ROOT_ONE: i64 = 1 << 14;

/// What roots are computed from, and what the root of 28 bits is.
const ROOT_TOP: i64 = 32_000;

impl Lowering<'_> {
    /// The mean or the maximum under a moving window.
    pub(super) fn pool(
        &mut self,
        node: &Node,
        kind: PoolKind,
        window: &op::Window,
        post: &Post,
    ) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let held = self.channels_last(&held)?;
        let sides = self.result_sides(node)?;
        let planar = "only pools over one or two axes are supported";
        let view = view(&held.sides, &sides, window).ok_or_else(|| refuse(node, planar))?;
        let order = held.order.clone();
        let result = match counts_pads(kind) {
            None => self.windowed_max(&node.name, &held, view, sides, order)?,
            Some(counts) => {
                let taps = view.taps() as f64;
                let shares = if counts { vec![1.0 / taps] } else { inside(&view) };
                self.windowed_sum(&node.name, &held, view, &shares, post, (sides, order))?
            }
        };
        self.keep(post.target, result);
        Ok(())
    }

    /// The mean or the maximum of each channel.
    pub(super) fn global_pool(
        &mut self,
        node: &Node,
        kind: PoolKind,
        post: &Post,
    ) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let axes: Vec<usize> = (2..held.sides.len()).collect();
        let kind = match kind {
            PoolKind::Max => Reduction::Max,
            PoolKind::Average { .. } => Reduction::Mean,
        };
        self.reduce(node, kind, &axes, post)
    }

    /// A number over some axes.
    pub(super) fn reduce(
        &mut self,
        node: &Node,
        kind: Reduction,
        axes: &[usize],
        post: &Post,
    ) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let (flat, view) = self.middle(&held, axes)?;
        let sides = self.result_sides(node)?;
        let count = f64::from(view.kernel_height);
        let name = node.name.clone();
        // The axes that are left lie as they lay before, and those that went are of one place.
        let order = left_order(&held, axes, &sides);
        let result = match kind {
            Reduction::Mean => {
                self.windowed_sum(&name, &flat, view, &[1.0 / count], post, (sides, order))?
            }
            Reduction::Sum => {
                self.windowed_sum(&name, &flat, view, &[1.0], post, (sides, order))?
            }
            Reduction::Max => self.windowed_max(&name, &flat, view, sides, order)?,
            Reduction::Min => {
                let turned = self.negated(&name, &flat)?;
                let flat_sides = vec![view.batch as usize, view.channels as usize];
                let most = self.windowed_max(&name, &turned, view, flat_sides, vec![0, 1])?;
                let summand = Summand { held: most.clone(), factors: vec![-1.0] };
                let quant = self.plan.quant(post.target);
                let least = self.join(&name, &most.sides, vec![summand], &[0.0], quant)?;
                Held { sides, order, ..least }
            }
            Reduction::L1 => {
                let sizes = self.table_of(&name, &flat, f64::abs)?;
                self.windowed_sum(&name, &sizes, view, &[1.0], post, (sides, order))?
            }
            Reduction::SumSquare => {
                let squares = self.squared(&name, &flat, count)?;
                self.windowed_sum(&name, &squares, view, &[1.0], post, (sides, order))?
            }
            Reduction::L2 => return self.root_of_squares(node, x, axes, post.target),
            Reduction::Prod => {
                return Err(refuse(node, "a product over an axis leaves every integer range"));
            }
        };
        self.keep(post.target, result);
        Ok(())
    }

    /// The square root of the sum of squares over some axes.
    pub(super) fn root_of_squares(
        &mut self,
        node: &Node,
        x: ValueId,
        axes: &[usize],
        result: ValueId,
    ) -> Result<(), LowerError> {
        let held = self.need(x)?;
        let (flat, view) = self.middle(&held, axes)?;
        let sides = self.graph.dims(result).to_vec();
        let order = left_order(&held, axes, &sides);
        let squares = self.squared(&node.name, &flat, f64::from(view.kernel_height))?;
        let hi = (squares.quant.magnitude() * f64::from(view.kernel_height)) as i32;
        let exact = Quant { hi, ..squares.quant };
        let sum = self.sum_into(&node.name, &squares, view, &[1.0], exact)?;
        let root = self.rooted(&node.name, &sum)?;
        let root = self.requantised(&root, self.plan.quant(result))?;
        self.keep(result, Held { sides, order, ..root });
        Ok(())
    }

    /// The square root of integers from zero up to 28 bits, as one over their inverse root: a table
    /// of them would have to be cut to 16 bits. Zero becomes the root of one step.
    fn rooted(&mut self, name: &str, x: &Held) -> Result<Held, LowerError> {
        let fixed = |builder: &mut Builder, number: i64| {
            let slot = builder.constant(name, &[1], &[number])?;
            let only = number as i32;
            Ok::<Held, LowerError>(Held::plain(slot, Quant::plain(only, only), vec![1]))
        };
        let counted = Held { quant: Quant { scale: 1.0, zero: 0, ..x.quant }, ..x.clone() };
        // ROOT_ONE * 2^14 / sqrt(x), between 2^14 and 2^28; then ROOT_TOP * 2^14 over it.
        let wide = Quant::plain(0, 1 << 28);
        let one = fixed(&mut self.builder, ROOT_ONE)?;
        let inverse = self.normal(name, (&one, &counted), Inverse::Root, 5, wide)?;
        let top = fixed(&mut self.builder, ROOT_TOP)?;
        let found = Quant::plain(0, ROOT_TOP as i32);
        let root = self.normal(name, (&top, &inverse), Inverse::Reciprocal, 10, found)?;
        let scale = x.quant.scale.sqrt() * ROOT_ONE as f64 / ROOT_TOP as f64;
        Ok(Held { quant: Quant { scale, ..root.quant }, ..root })
    }

    /// The square of each element, with so many bits that `count` of them can be added.
    fn squared(&mut self, name: &str, x: &Held, count: f64) -> Result<Held, LowerError> {
        let x = self.factor_of(x)?;
        let largest = x.quant.magnitude().max(1.0);
        let hi = (MAGNITUDE_MAX as f64 / 4.0 / count).min(largest * largest).floor().max(1.0);
        let scale = (largest * x.quant.scale).powi(2) / hi;
        let quant = Quant { scale, zero: 0, lo: 0, hi: hi as i32 };
        let sides = x.sides.clone();
        self.multiply(name, &sides, (&x, &x), 1.0, quant)
    }

    /// The place of the largest or smallest element along an axis.
    pub(super) fn arg(
        &mut self,
        node: &Node,
        smallest: bool,
        axis: usize,
        result: ValueId,
    ) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let held = self.need(x)?;
        let (flat, view) = self.middle(&held, &[axis])?;
        let flat = if smallest { self.negated(&node.name, &flat)? } else { flat };
        let sides = self.result_sides(node)?;
        let order = left_order(&held, &[axis], &sides);
        let (outer, len, inner) = (view.batch, view.kernel_height, view.channels);
        let quant = Quant::plain(0, len as i32 - 1);
        let from = flat.slot;
        let total = length(&sides, &node.name)?;
        let slot = self.builder.push(&node.name, quant.spec(total), move |number| {
            Primitive::ArgMax { x: number(from), outer, len, inner }
        });
        self.keep(result, Held { slot, quant, sides, order });
        Ok(())
    }

    /// The value as `[outer, len, inner]` with the given axes in the middle.
    fn middle(&mut self, held: &Held, axes: &[usize]) -> Result<(Held, Window), LowerError> {
        let held = self.builder.ordered(held, &gathered(held, axes))?;
        let (mut outer, mut len, mut inner) = (1_usize, 1_usize, 1_usize);
        for axis in &held.order {
            let side = held.sides.get(*axis).copied().unwrap_or(1);
            if axes.contains(axis) {
                len *= side;
            } else if len == 1 && !seen_any(&held, axes, *axis) {
                outer *= side;
            } else {
                inner *= side;
            }
        }
        let small =
            |number: usize| u32::try_from(number).map_err(|_| LowerError::too_large("axis"));
        let window = Window::middle(small(outer)?, small(len)?, small(inner)?);
        let flat = Held::plain(held.slot, held.quant, vec![outer, len, inner]);
        Ok((flat, window))
    }

    fn windowed_max(
        &mut self,
        name: &str,
        x: &Held,
        window: Window,
        sides: Vec<usize>,
        order: Vec<usize>,
    ) -> Result<Held, LowerError> {
        let from = x.slot;
        let len = length(&sides, name)?;
        let slot = self.builder.push(name, x.quant.spec(len), move |number| Primitive::Max {
            x: number(from),
            window,
        });
        Ok(Held { slot, quant: x.quant, sides, order })
    }

    /// `sum * share * scale + shift` of each window.
    fn windowed_sum(
        &mut self,
        name: &str,
        x: &Held,
        window: Window,
        shares: &[f64],
        post: &Post,
        (sides, order): (Vec<usize>, Vec<usize>),
    ) -> Result<Held, LowerError> {
        let target = self.result_quant(post);
        let scale = post.scale.first().copied().unwrap_or(1.0);
        let shift = post.shift.first().copied().unwrap_or(0.0);
        if scale > 0.0 && shift == 0.0 {
            let shares: Vec<f64> = shares.iter().map(|share| share * scale).collect();
            let held = self.sum_into(name, x, window, &shares, target)?;
            return Ok(Held { sides, order, ..held });
        }
        let end = |real: f64| if scale == 0.0 { 0.0 } else { (real - shift) / scale };
        let (low, high) = target.reals();
        let (low, high) = (end(low), end(high));
        let between = Quant::spread(low.min(high), low.max(high), WIDE_BITS);
        let held = self.sum_into(name, x, window, shares, between)?;
        let held = Held { sides: sides.clone(), order, ..held };
        let summand = Summand { held, factors: vec![scale] };
        self.join(name, &sides, vec![summand], &[shift], target)
    }

    fn sum_into(
        &mut self,
        name: &str,
        x: &Held,
        window: Window,
        shares: &[f64],
        quant: Quant,
    ) -> Result<Held, LowerError> {
        let room = MAGNITUDE_MAX as f64 / 2.0 / window.taps() as f64;
        let x = if x.quant.magnitude() <= room {
            x.clone()
        } else {
            let bits = room.log2().floor();
            if bits < 4.0 {
                return Err(LowerError::too_large(&format!("sum of {name}")));
            }
            let (low, high) = x.quant.reals();
            self.requantised(x, Quant::spread(low, high, bits as u32))?
        };
        let most = x.quant.magnitude() * window.taps() as f64;
        let unit = x.quant.scale / quant.scale;
        let rescale = match shares {
            [share] => rescale_for(unit * share, most, quant.zero),
            _ => by_place(shares, unit, most, quant.zero),
        };
        let rescale = rescale.ok_or_else(|| LowerError::too_large(name))?;
        let places = window.batch as usize * window.positions() as usize;
        let (from, offset) = (x.slot, -x.quant.zero);
        let sides = vec![places, window.channels as usize];
        let len = length(&sides, name)?;
        let slot = self.builder.push(name, quant.spec(len), move |number| Primitive::Sum {
            x: number(from),
            window,
            offset,
            rescale,
        });
        Ok(Held::plain(slot, quant, sides))
    }
}

/// Whether an axis that is reduced lies before this one.
fn seen_any(held: &Held, axes: &[usize], axis: usize) -> bool {
    let before = held.order.iter().take_while(|other| **other != axis);
    let mut reduced = before.filter(|other| {
        axes.contains(other) && held.sides.get(**other).is_some_and(|side| *side > 1)
    });
    reduced.next().is_some()
}

/// The axes in memory with the reduced ones next to each other: as they lie if they do already.
fn gathered(held: &Held, axes: &[usize]) -> Vec<usize> {
    let is_wide = |axis: &usize| held.sides.get(*axis).is_some_and(|side| *side > 1);
    let wide: Vec<usize> = held.order.iter().copied().filter(is_wide).collect();
    let inner = wide.iter().skip_while(|axis| !axes.contains(axis));
    let behind = inner.skip_while(|axis| axes.contains(axis));
    if behind.into_iter().all(|axis| !axes.contains(axis)) {
        return held.order.clone();
    }
    let others = held.order.iter().copied().filter(|axis| !axes.contains(axis));
    others.chain(axes.iter().copied()).collect()
}

/// The order of a result whose axes `axes` were reduced, kept as one place or dropped.
fn left_order(held: &Held, axes: &[usize], sides: &[usize]) -> Vec<usize> {
    let order = gathered(held, axes);
    if sides.len() == held.sides.len() {
        return order;
    }
    let left = order.into_iter().filter(|axis| !axes.contains(axis));
    let renamed = left.map(|axis| axis - axes.iter().filter(|gone| **gone < axis).count());
    renamed.collect()
}

/// For each output place, one over the number of taps that lie inside.
fn inside(view: &Window) -> Vec<f64> {
    let rows =
        |out: u32| (0..view.kernel_height).filter(|tap| view.row(out, *tap).is_some()).count();
    let columns =
        |out: u32| (0..view.kernel_width).filter(|tap| view.column(out, *tap).is_some()).count();
    let wide: Vec<usize> = (0..view.out_width).map(columns).collect();
    let mut shares = Vec::new();
    for out in 0..view.out_height {
        let high = rows(out);
        shares.extend(wide.iter().map(|wide| 1.0 / (high * wide).max(1) as f64));
    }
    let first = shares.first().copied().unwrap_or(1.0);
    if shares.iter().all(|share| *share == first) { vec![first] } else { shares }
}

/// Factors that differ between output places.
fn by_place(shares: &[f64], unit: f64, bound: f64, zero: i32) -> Option<Rescale> {
    let most = shares.iter().copied().fold(0.0_f64, f64::max);
    let (_, shift) = fixed_point(unit * most, bound);
    let factor = |share: &f64| (unit * share * f64::from(1_u32 << shift)).round() as i32;
    let multipliers = Multipliers::new(shares.iter().map(factor).collect()).ok()?;
    let rescale = Rescale { pre_shift: 0, multipliers, shift, zero };
    rescale.admits(bound.ceil() as i64).then_some(rescale)
}
