//! Element by element: sums, products, comparisons, choices.

use super::error::LowerError;
use super::layout::{Grid, Held, grid_sides, operand};
use super::plan::{self, Post, WIDE_BITS, along_channels, floats};
use super::quant::Quant;
use super::terms::{Summand, common_order, length};
use super::{Lowering, refuse, scalar};
use crate::dtype::Dtype;
use crate::graph::{Node, ValueId};
use crate::op::Binary;
use tg_tensor::program::{Inverse, Primitive};

impl Lowering<'_> {
    /// A node with two operands, of which at least one is no constant.
    pub(super) fn binary(
        &mut self,
        node: &Node,
        operator: Binary,
        post: &Post,
    ) -> Result<(), LowerError> {
        let (a, b) = (self.operand(node, 0)?, self.operand(node, 1)?);
        let sides = self.result_sides(node)?;
        let quant = self.result_quant(post);
        let (scale, shift) = (post.scale.first().copied().unwrap_or(1.0), post.shift.clone());
        let held = match operator {
            Binary::Add | Binary::Sub => {
                let sign = if operator == Binary::Sub { -1.0 } else { 1.0 };
                self.sum(node, &sides, [(a, scale), (b, sign * scale)], &shift, quant)?
            }
            Binary::Mul => self.scaled_product(node, &sides, (a, b), post, quant)?,
            Binary::Div => self.quotient(node, &sides, (a, b), quant)?,
            Binary::Min | Binary::Max => {
                let sign = if operator == Binary::Max { 1.0 } else { -1.0 };
                self.extreme(node, &sides, (a, b), sign, quant)?
            }
            Binary::PRelu => self.parametric(node, &sides, (a, b), quant)?,
            Binary::Pow => {
                return Err(refuse(node, "a power whose exponent is not one constant number"));
            }
            Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::Equal
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual => self.compare(node, &sides, (a, b), operator)?,
        };
        self.keep(post.target, held);
        Ok(())
    }

    /// The shape of a node's first result.
    pub(super) fn result_sides(&self, node: &Node) -> Result<Vec<usize>, LowerError> {
        let result =
            node.outputs.first().copied().ok_or_else(|| refuse(node, "it has no result"))?;
        Ok(self.graph.dims(result).to_vec())
    }

    fn sum(
        &mut self,
        node: &Node,
        sides: &[usize],
        operands: [(ValueId, f64); 2],
        shift: &[f64],
        quant: Quant,
    ) -> Result<Held, LowerError> {
        let mut summands = Vec::new();
        for (value, factor) in operands {
            if self.graph.constant(value).is_none() {
                summands.push(Summand { held: self.need(value)?, factors: vec![factor] });
            }
        }
        let order = common_order(sides, summands.iter().map(|summand| &summand.held));
        // Beyond this, a constant decides alone: masks are as good as any number outside the range.
        let (low, high) = quant.reals();
        let reach = summands.iter().fold(high - low, |reach, summand| {
            let own = summand.held.quant;
            reach + own.magnitude() * own.scale * summand.factors.first().map_or(1.0, |f| f.abs())
        });
        let mut addend = shift.to_vec();
        for (value, factor) in operands {
            let Some(constant) = self.graph.constant(value) else { continue };
            match along_channels(constant, sides, order.last().copied()) {
                Some(numbers) => addend = combined(&addend, &numbers, factor),
                None => {
                    let limit = reach / factor.abs().max(f64::MIN_POSITIVE);
                    let held = self.constant_within(node, value, limit)?;
                    summands.push(Summand { held, factors: vec![factor] });
                }
            }
        }
        for number in &mut addend {
            *number = number.clamp(-2.0 * reach, 2.0 * reach);
        }
        self.join(&node.name, sides, summands, &addend, quant)
    }

    /// A constant as a value of the program, with its own integers.
    pub(super) fn constant_operand(
        &mut self,
        node: &Node,
        value: ValueId,
    ) -> Result<Held, LowerError> {
        self.constant_within(node, value, f64::INFINITY)
    }

    /// A constant as a value of the program; numbers beyond the limit are as good as the limit.
    fn constant_within(
        &mut self,
        node: &Node,
        value: ValueId,
        limit: f64,
    ) -> Result<Held, LowerError> {
        let missing = || refuse(node, "an operand is neither a value nor a constant");
        let constant = self.graph.constant(value).ok_or_else(missing)?;
        let sides = constant.shape().to_vec();
        let numbers: Vec<f64> =
            floats(constant).into_iter().map(|number| number.clamp(-limit, limit)).collect();
        let name = self.value(value)?.name.clone();
        self.constant_of(&name, &sides, &numbers)
    }

    /// Numbers as a constant of the program: whole ones stand for themselves.
    fn constant_of(
        &mut self,
        name: &str,
        sides: &[usize],
        numbers: &[f64],
    ) -> Result<Held, LowerError> {
        let largest = numbers.iter().fold(0.0_f64, |most, number| most.max(number.abs()));
        let is_whole = |number: &f64| number.fract() == 0.0 && number.abs() < 16_384.0;
        let quant = if numbers.iter().all(is_whole) {
            Quant::plain(-(largest as i32), largest as i32)
        } else {
            Quant::centred(-largest, largest, WIDE_BITS)
        };
        let integers: Vec<i64> = numbers.iter().map(|number| quant.encode(*number)).collect();
        let slot = self.builder.constant(name, sides, &integers)?;
        let least = integers.iter().copied().min().unwrap_or(0) as i32;
        let most = integers.iter().copied().max().unwrap_or(0) as i32;
        Ok(Held::plain(slot, Quant { lo: least, hi: most, ..quant }, sides.to_vec()))
    }

    /// An operand, constant or not.
    pub(super) fn either(&mut self, node: &Node, value: ValueId) -> Result<Held, LowerError> {
        if self.graph.constant(value).is_some() {
            return self.constant_operand(node, value);
        }
        self.need(value)
    }

    fn scaled_product(
        &mut self,
        node: &Node,
        sides: &[usize],
        (a, b): (ValueId, ValueId),
        post: &Post,
        quant: Quant,
    ) -> Result<Held, LowerError> {
        let scale = post.scale.first().copied().unwrap_or(1.0);
        let shift = post.shift.first().copied().unwrap_or(0.0);
        let (value, constant) = match (self.graph.constant(a), self.graph.constant(b)) {
            (None, Some(_)) => (a, Some(b)),
            (Some(_), None) => (b, Some(a)),
            _ => (a, None),
        };
        if let Some(constant) = constant.and_then(|constant| self.graph.constant(constant)) {
            let held = self.need(value)?;
            let last = common_order(sides, std::iter::once(&held)).last().copied();
            if held.sides == sides
                && let Some(numbers) = along_channels(constant, sides, last)
            {
                let factors = numbers.iter().map(|number| number * scale).collect();
                let summand = Summand { held, factors };
                return self.join(&node.name, sides, vec![summand], &[shift], quant);
            }
        }
        if let Some(held) = self.root_norm_product(node, (a, b), (scale, shift), quant)? {
            return Ok(held);
        }
        let (left, right) = (self.either(node, a)?, self.either(node, b)?);
        if shift == 0.0 {
            return self.multiply(&node.name, sides, (&left, &right), scale, quant);
        }
        // The sum behind a product of two values needs a place of its own.
        let (low, high) = quant.reals();
        let between = Quant::spread(low - shift, high - shift, WIDE_BITS);
        let held = self.multiply(&node.name, sides, (&left, &right), scale, between)?;
        let summand = Summand { held, factors: vec![1.0] };
        self.join(&node.name, sides, vec![summand], &[shift], quant)
    }

    fn quotient(
        &mut self,
        node: &Node,
        sides: &[usize],
        (a, b): (ValueId, ValueId),
        quant: Quant,
    ) -> Result<Held, LowerError> {
        if self.graph.value(a).dtype != Dtype::Float {
            return Err(refuse(node, "a division of whole numbers"));
        }
        if let Some(divisor) = self.graph.constant(b) {
            let (own, numbers) = (divisor.shape().to_vec(), floats(divisor));
            if numbers.contains(&0.0) {
                return Err(refuse(node, "a division by a constant zero"));
            }
            let held = self.need(a)?;
            let last = common_order(sides, std::iter::once(&held)).last().copied();
            if held.sides == sides
                && let Some(numbers) = along_channels(divisor, sides, last)
            {
                let factors = numbers.iter().map(|number| 1.0 / number).collect();
                let summand = Summand { held, factors };
                return self.join(&node.name, sides, vec![summand], &[0.0], quant);
            }
            let numbers: Vec<f64> = numbers.iter().map(|number| 1.0 / number).collect();
            let inverse = self.constant_of(&node.name, &own, &numbers)?;
            return self.multiply(&node.name, sides, (&held, &inverse), 1.0, quant);
        }
        if let Some(held) = self.root_norm(node, (a, b), quant)? {
            return Ok(held);
        }
        let (top, bottom) = (self.either(node, a)?, self.need(b)?);
        if bottom.quant.lo >= bottom.quant.zero {
            return self.divided(&node.name, sides, (&top, &bottom), Inverse::Reciprocal, quant);
        }
        // What divides may be negative: its sign goes to what is divided.
        let size = self.table_of(&node.name, &bottom, f64::abs)?;
        let sign = self.table_of(&node.name, &bottom, |x| if x < 0.0 { -1.0 } else { 1.0 })?;
        let top = self.factor_of(&top)?;
        let reach = top.quant.magnitude() as i32;
        let both = Quant { scale: top.quant.scale, zero: 0, lo: -reach, hi: reach };
        let top = self.multiply(&node.name, sides, (&top, &sign), 1.0, both)?;
        self.divided(&node.name, sides, (&top, &size), Inverse::Reciprocal, quant)
    }

    /// The larger (`sign` 1) or smaller (-1) of two: `b + sign * relu(sign * (a - b))`.
    fn extreme(
        &mut self,
        node: &Node,
        sides: &[usize],
        (a, b): (ValueId, ValueId),
        sign: f64,
        quant: Quant,
    ) -> Result<Held, LowerError> {
        let (a, b) = (self.either(node, a)?, self.either(node, b)?);
        let ((a_low, a_high), (b_low, b_high)) = (a.quant.reals(), b.quant.reals());
        let span = a_high.max(b_high) - a_low.min(b_low);
        let is_plain = |held: &Held| held.quant.scale == 1.0 && held.quant.zero == 0;
        let over = if is_plain(&a) && is_plain(&b) {
            Quant::plain(0, span as i32)
        } else {
            Quant::spread(0.0, span, WIDE_BITS)
        };
        let difference = vec![
            Summand { held: a, factors: vec![sign] },
            Summand { held: b.clone(), factors: vec![-sign] },
        ];
        let over = self.join(&node.name, sides, difference, &[0.0], over)?;
        let both = vec![
            Summand { held: b, factors: vec![1.0] },
            Summand { held: over, factors: vec![sign] },
        ];
        self.join(&node.name, sides, both, &[0.0], quant)
    }

    fn parametric(
        &mut self,
        node: &Node,
        sides: &[usize],
        (x, slope): (ValueId, ValueId),
        quant: Quant,
    ) -> Result<Held, LowerError> {
        let held = self.need(x)?;
        let above = self.table_of(&node.name, &held, |x| x.max(0.0))?;
        let below = self.table_of(&node.name, &held, |x| x.min(0.0))?;
        let last = common_order(sides, std::iter::once(&held)).last().copied();
        let slopes = self.graph.constant(slope).filter(|_| held.sides == sides);
        let slopes = slopes.and_then(|slopes| along_channels(slopes, sides, last));
        let below = match slopes {
            Some(factors) => Summand { held: below, factors },
            None => {
                let slope = self.either(node, slope)?;
                let held = self.multiply(&node.name, sides, (&below, &slope), 1.0, quant)?;
                Summand { held, factors: vec![1.0] }
            }
        };
        let both = vec![Summand { held: above, factors: vec![1.0] }, below];
        self.join(&node.name, sides, both, &[0.0], quant)
    }

    fn compare(
        &mut self,
        node: &Node,
        sides: &[usize],
        (a, b): (ValueId, ValueId),
        operator: Binary,
    ) -> Result<Held, LowerError> {
        let mut addend = 0.0;
        let mut summands = Vec::new();
        let is_logical = matches!(operator, Binary::And | Binary::Or | Binary::Xor);
        let second = if is_logical { 2.0 } else { -1.0 };
        for (value, factor) in [(a, 1.0), (b, second)] {
            match self.graph.constant(value).map(floats) {
                Some(numbers) if numbers.len() == 1 => {
                    addend += factor * numbers.first().copied().unwrap_or(0.0);
                }
                Some(_) => {
                    let held = self.constant_operand(node, value)?;
                    summands.push(Summand { held, factors: vec![factor] });
                }
                None => summands.push(Summand { held: self.need(value)?, factors: vec![factor] }),
            }
        }
        // One step of the finest operand decides; whole numbers are compared exactly.
        let step = summands.iter().fold(f64::INFINITY, |step, s| step.min(s.held.quant.scale));
        let reach = COMPARE_REACH;
        let difference = Quant { scale: step, zero: 0, lo: -reach, hi: reach };
        let name = &node.name;
        let difference = self.join(name, sides, summands, &[addend], difference)?;
        let holds = |integer: i32| {
            let number = f64::from(integer) * step;
            match operator {
                Binary::And => number >= 3.0,
                Binary::Or => number >= 1.0,
                Binary::Xor => number == 1.0 || number == 2.0,
                Binary::Add
                | Binary::Sub
                | Binary::Mul
                | Binary::Div
                | Binary::Pow
                | Binary::Min
                | Binary::Max
                | Binary::PRelu
                | Binary::Equal
                | Binary::Less
                | Binary::LessOrEqual
                | Binary::Greater
                | Binary::GreaterOrEqual => scalar::binary(operator, number, 0.0) != 0.0,
            }
        };
        let entries = (-reach..=reach).map(|integer| i64::from(holds(integer))).collect();
        self.table(name, &difference, entries, Quant::plain(0, 1))
    }

    /// `Where`: one of two.
    pub(super) fn select(&mut self, node: &Node, result: ValueId) -> Result<(), LowerError> {
        let sides = self.result_sides(node)?;
        let quant = self.plan.quant(result);
        let condition = self.operand(node, 0)?;
        let condition = self.either(node, condition)?;
        let mut branches = Vec::new();
        for place in [1, 2] {
            let value = self.operand(node, place)?;
            let held = match self.graph.constant(value) {
                None => {
                    let held = self.need(value)?;
                    self.requantised(&held, quant)?
                }
                Some(constant) => {
                    let own = constant.shape().to_vec();
                    let integers: Vec<i64> =
                        floats(constant).iter().map(|number| quant.encode(*number)).collect();
                    let name = self.value(value)?.name.clone();
                    Held::plain(self.builder.constant(&name, &own, &integers)?, quant, own)
                }
            };
            branches.push(held);
        }
        let [then, otherwise] = branches.as_slice() else {
            return Err(refuse(node, "an operand is missing"));
        };
        let order = common_order(&sides, [then, otherwise, &condition].into_iter());
        let grid = Grid::new(&sides, &order, &[&condition, then, otherwise], false);
        let name = node.name.clone();
        let strides = [0, 1, 2].map(|at| grid.strides_of(at, &name));
        let [first, second, third] = strides;
        let (first, second, third) = (first?, second?, third?);
        let slots = [condition.slot, then.slot, otherwise.slot];
        let grid_sides = grid_sides(&grid.sides, &name)?;
        let len = length(&sides, &name)?;
        let slot = self.builder.push(&name, quant.spec(len), move |number| {
            let [condition, then, otherwise] = slots;
            Primitive::Select {
                sides: grid_sides,
                condition: operand(number, condition, first),
                then: operand(number, then, second),
                otherwise: operand(number, otherwise, third),
            }
        });
        self.keep(result, Held { slot, quant, sides, order });
        Ok(())
    }

    /// A batch norm that no producer could take in.
    pub(super) fn batch_norm(
        &mut self,
        node: &Node,
        epsilon: f32,
        post: &Post,
    ) -> Result<(), LowerError> {
        let x = self.operand(node, 0)?;
        let (scale, shift) = plan::batch_norm(self.graph, node, epsilon).ok_or_else(|| {
            refuse(node, "parameters of BatchNormalization that are no constants")
        })?;
        let (by, plus) = (post.scale.first().copied().unwrap_or(1.0), post.shift.clone());
        let held = self.need(x)?;
        let held = self.channels_last(&held)?;
        let sides = held.sides.clone();
        let factors = scale.iter().map(|scale| scale * by).collect();
        let plus = plus.first().copied().unwrap_or(0.0);
        let addend: Vec<f64> = shift.iter().map(|shift| shift * by + plus).collect();
        let quant = self.result_quant(post);
        let summand = Summand { held, factors };
        let held = self.join(&node.name, &sides, vec![summand], &addend, quant)?;
        self.keep(post.target, held);
        Ok(())
    }
}

/// Differences of more steps than this are as good as this many.
const COMPARE_REACH: i32 = 2_047;

fn combined(a: &[f64], b: &[f64], factor: f64) -> Vec<f64> {
    let at = |list: &[f64], place: usize| {
        list.get(if list.len() == 1 { 0 } else { place }).copied().unwrap_or(0.0)
    };
    (0..a.len().max(b.len())).map(|place| at(a, place) + factor * at(b, place)).collect()
}
