//! What nodes are written with, element by element: weighted sums, products, quotients, tables.
//!
//! Operands may lie in different orders and broadcast; the result lies as the first operand of its
//! shape does.

use super::build::Slot;
use super::error::LowerError;
use super::layout::{Grid, Held, grid_sides, operand};
use super::plan::WIDE_BITS;
use super::quant::{FACTOR_OF_TWO_MAX, Quant, rescale_for};
use super::{Lowering, TABLE_MAX};
use tg_tensor::program::{
    Inverse, JoinTerm, MAGNITUDE_MAX, Multipliers, Primitive, Strides, Table,
};
use tg_types::List;

/// One summand of a weighted sum: its value and its factors (one, or one for each place of the last
/// side).
pub(super) struct Summand {
    pub(super) held: Held,
    pub(super) factors: Vec<f64>,
}

/// How often the factors of a sum are halved at most until it fits: no two scales are further
/// apart.
const EASE_MAX: i32 = 160;

/// How finely the factors of a sum are written at most.
const SHIFT_MOST: u8 = 24;

impl Lowering<'_> {
    /// `sum(value * factor) + addend`, over a shape in which the values broadcast.
    pub(super) fn join(
        &mut self,
        name: &str,
        sides: &[usize],
        summands: Vec<Summand>,
        addend: &[f64],
        quant: Quant,
    ) -> Result<Held, LowerError> {
        let order = common_order(sides, summands.iter().map(|summand| &summand.held));
        let fixed =
            FixedSum::new(&summands, addend, &quant).ok_or_else(|| LowerError::too_large(name))?;
        let per_place = addend.len() > 1 || summands.iter().any(|s| s.factors.len() > 1);
        let values: Vec<&Held> = summands.iter().map(|summand| &summand.held).collect();
        let grid = Grid::new(sides, &order, &values, per_place);
        let mut terms: Vec<(Slot, Strides, Multipliers)> = Vec::new();
        for (at, (summand, factors)) in summands.iter().zip(fixed.factors).enumerate() {
            let factors = Multipliers::new(factors).map_err(|_| LowerError::too_large(name))?;
            terms.push((summand.held.slot, grid.strides_of(at, name)?, factors));
        }
        let constant = Multipliers::new(fixed.constant).map_err(|_| LowerError::too_large(name))?;
        let grid_sides = grid_sides(&grid.sides, name)?;
        let len = length(sides, name)?;
        let shift = fixed.shift;
        if terms.is_empty() || terms.len() > 4 {
            return Err(LowerError::too_large(name));
        }
        let slot = self.builder.push(name, quant.spec(len), move |number| {
            let term = |(slot, strides, multipliers)| JoinTerm {
                operand: operand(number, slot, strides),
                multipliers,
            };
            let terms = List::new(terms.into_iter().map(term).collect())
                .unwrap_or_else(|_| unreachable!("the number of terms was checked"));
            Primitive::Join { sides: grid_sides, terms, constant, shift }
        });
        Ok(Held { slot, quant, sides: sides.to_vec(), order })
    }

    /// The same real numbers with other integers.
    pub(super) fn requantised(&mut self, held: &Held, quant: Quant) -> Result<Held, LowerError> {
        if held.quant == quant {
            return Ok(held.clone());
        }
        let sides = held.sides.clone();
        let summand = Summand { held: held.clone(), factors: vec![1.0] };
        self.join("requantise", &sides, vec![summand], &[0.0], quant)
    }

    /// `a * b * factor`, broadcast.
    pub(super) fn multiply(
        &mut self,
        name: &str,
        sides: &[usize],
        (a, b): (&Held, &Held),
        factor: f64,
        quant: Quant,
    ) -> Result<Held, LowerError> {
        if factor < 0.0 {
            let turned = self.multiply(name, sides, (a, b), -factor, mirrored(&quant))?;
            let summand = Summand { held: turned, factors: vec![-1.0] };
            return self.join(name, sides, vec![summand], &[0.0], quant);
        }
        let (a, b) = (self.factor_of(a)?, self.factor_of(b)?);
        let order = common_order(sides, [&a, &b].into_iter());
        let grid = Grid::new(sides, &order, &[&a, &b], false);
        let bound = a.quant.magnitude() * b.quant.magnitude();
        let unit = a.quant.scale * b.quant.scale * factor / quant.scale;
        let rescale =
            rescale_for(unit, bound, quant.zero).ok_or_else(|| LowerError::too_large(name))?;
        let (left, right) = (grid.strides_of(0, name)?, grid.strides_of(1, name)?);
        let (from_a, from_b) = (a.slot, b.slot);
        let (offset_a, offset_b) = (-a.quant.zero, -b.quant.zero);
        let grid_sides = grid_sides(&grid.sides, name)?;
        let len = length(sides, name)?;
        let slot = self.builder.push(name, quant.spec(len), move |number| Primitive::Product {
            sides: grid_sides,
            a: operand(number, from_a, left),
            b: operand(number, from_b, right),
            offset_a,
            offset_b,
            rescale,
        });
        Ok(Held { slot, quant, sides: sides.to_vec(), order })
    }

    /// The value with so few bits that it can be a factor.
    pub(super) fn factor_of(&mut self, held: &Held) -> Result<Held, LowerError> {
        if held.quant.magnitude() <= FACTOR_OF_TWO_MAX {
            return Ok(held.clone());
        }
        let (low, high) = held.quant.reals();
        self.requantised(held, Quant::spread(low, high, WIDE_BITS))
    }

    /// The value with its sign turned.
    pub(super) fn negated(&mut self, name: &str, x: &Held) -> Result<Held, LowerError> {
        let sides = x.sides.clone();
        let summand = Summand { held: x.clone(), factors: vec![-1.0] };
        self.join(name, &sides, vec![summand], &[0.0], mirrored(&x.quant))
    }

    /// A function of each element, in wide integers that fit its results.
    pub(super) fn table_of(
        &mut self,
        name: &str,
        held: &Held,
        function: impl Fn(f64) -> f64,
    ) -> Result<Held, LowerError> {
        let held = if i64::from(held.quant.hi) - i64::from(held.quant.lo) < TABLE_MAX {
            held.clone()
        } else {
            self.factor_of(held)?
        };
        let results: Vec<f64> = (held.quant.lo..=held.quant.hi)
            .map(|integer| function(held.quant.decode(integer.into())))
            .collect();
        let finite = || results.iter().copied().filter(|result| result.is_finite());
        let (least, most) = (finite().fold(0.0, f64::min), finite().fold(0.0, f64::max));
        let quant = Quant::spread(least, most, WIDE_BITS);
        let entries = results.iter().map(|result| quant.encode(*result)).collect();
        self.table(name, &held, entries, quant)
    }

    /// The value with its second axis fastest.
    pub(super) fn channels_last(&mut self, held: &Held) -> Result<Held, LowerError> {
        let mut order: Vec<usize> = (0..held.sides.len()).filter(|axis| *axis != 1).collect();
        if held.sides.len() > 1 {
            order.push(1);
        }
        self.builder.ordered(held, &order)
    }

    /// `a / x` or `a / sqrt(x)` through powers of two; `x` must stand for numbers from zero on.
    pub(super) fn divided(
        &mut self,
        name: &str,
        sides: &[usize],
        (a, x): (&Held, &Held),
        inverse: Inverse,
        quant: Quant,
    ) -> Result<Held, LowerError> {
        // Integers of x must be counted from zero: move them if they are not.
        let x = if x.quant.zero == 0 {
            x.clone()
        } else {
            let span = (x.quant.hi - x.quant.zero).max(1);
            self.requantised(x, Quant { scale: x.quant.scale, zero: 0, lo: 0, hi: span })?
        };
        let a = &self.factor_of(a)?;
        let (_, table_scale) = inverse_table(inverse);
        let unit = match inverse {
            Inverse::Reciprocal => a.quant.scale / x.quant.scale,
            Inverse::Root => a.quant.scale / x.quant.scale.sqrt(),
        };
        // result = a * entry / table_scale * unit, shifted: the shift fixes the scale of a wide
        // value.
        let (low, high) = quant.reals();
        let largest = low.abs().max(high.abs());
        let wish = largest / f64::from(1 << (WIDE_BITS - 1));
        let (least, most) = shifts(inverse, x.quant.hi);
        let exact = (wish * table_scale / unit).log2().ceil();
        let shift = exact.clamp(f64::from(least), f64::from(most)) as u8;
        let scale = unit / table_scale * 2_f64.powi(shift.into());
        let reach = ((largest / scale).ceil()).clamp(1.0, QUOTIENT_MAX) as i32;
        let wide = Quant { scale, zero: 0, lo: -reach, hi: reach };
        let held = self.normal_over(name, sides, (a, &x), inverse, shift, wide)?;
        self.requantised(&held, quant)
    }

    /// The primitive behind a division, over the shape of what divides.
    pub(super) fn normal(
        &mut self,
        name: &str,
        (a, x): (&Held, &Held),
        inverse: Inverse,
        shift: u8,
        quant: Quant,
    ) -> Result<Held, LowerError> {
        let sides = x.sides.clone();
        self.normal_over(name, &sides, (a, x), inverse, shift, quant)
    }

    fn normal_over(
        &mut self,
        name: &str,
        sides: &[usize],
        (a, x): (&Held, &Held),
        inverse: Inverse,
        shift: u8,
        quant: Quant,
    ) -> Result<Held, LowerError> {
        let order = common_order(sides, [a, x].into_iter());
        let grid = Grid::new(sides, &order, &[a, x], false);
        let (left, right) = (grid.strides_of(0, name)?, grid.strides_of(1, name)?);
        let (from_a, from_x, offset) = (a.slot, x.slot, -a.quant.zero);
        let grid_sides = grid_sides(&grid.sides, name)?;
        let entries =
            Table::new(inverse_table(inverse).0).map_err(|_| LowerError::too_large(name))?;
        let len = length(sides, name)?;
        let slot = self.builder.push(name, quant.spec(len), move |number| Primitive::Normalise {
            sides: grid_sides,
            a: operand(number, from_a, left),
            offset,
            x: operand(number, from_x, right),
            inverse,
            entries,
            shift,
            zero: 0,
        });
        Ok(Held { slot, quant, sides: sides.to_vec(), order })
    }
}

/// The largest quotient before it gets the integers of the result.
const QUOTIENT_MAX: f64 = 536_870_911.0;

/// The smallest and largest shift that a division by numbers up to `hi` allows.
fn shifts(inverse: Inverse, hi: i32) -> (u8, u8) {
    let exponent = tg_tensor::element::power_of(i64::from(hi.max(1)), inverse).1;
    let least = -tg_tensor::element::power_of(1, inverse).1;
    (least.clamp(0, 30) as u8, (29 - exponent).clamp(0, 30) as u8)
}

/// The entries of an inverse and what they are multiplied with: at most 2^14, so that products with
/// 15 bits stay below 2^30. Each stands for the middle of the mantissas that are cut to it.
pub(super) fn inverse_table(inverse: Inverse) -> (Vec<i16>, f64) {
    let first = 1 << tg_tensor::element::MANTISSA_BITS;
    match inverse {
        Inverse::Reciprocal => {
            let scale = f64::from(1 << 24);
            let entry = |m: i32| (scale / (f64::from(m) + 0.5)).round().min(16_384.0) as i16;
            ((first..2 * first).map(entry).collect(), scale)
        }
        Inverse::Root => {
            let scale = f64::from(1 << 19);
            let entry = |m: i32| (scale / (f64::from(m) + 0.5).sqrt()).round().min(16_384.0) as i16;
            ((first..4 * first).map(entry).collect(), scale)
        }
    }
}

/// The order in memory of a result: that of an operand of the same shape, else as named. Axes of
/// one place come first, so that the last one is the one along which factors can differ.
pub(super) fn common_order<'a>(
    sides: &[usize],
    mut operands: impl Iterator<Item = &'a Held>,
) -> Vec<usize> {
    let same = operands.find(|held| held.sides == sides);
    let order = same.map_or_else(|| (0..sides.len()).collect(), |held| held.order.clone());
    let is_single = |axis: &usize| sides.get(*axis) == Some(&1);
    let (singles, wide): (Vec<usize>, Vec<usize>) = order.into_iter().partition(is_single);
    singles.into_iter().chain(wide).collect()
}

fn mirrored(quant: &Quant) -> Quant {
    Quant { scale: quant.scale, zero: -quant.zero, lo: -quant.hi, hi: -quant.lo }
}

/// How many elements a shape has.
pub(super) fn length(sides: &[usize], name: &str) -> Result<u32, LowerError> {
    let length = sides.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
    length.and_then(|length| u32::try_from(length).ok()).ok_or_else(|| LowerError::too_large(name))
}

/// The factors of a weighted sum in fixed point.
struct FixedSum {
    factors: Vec<Vec<i32>>,
    constant: Vec<i32>,
    shift: u8,
}

impl FixedSum {
    /// The finest factors for which the sum stays within limits. Operands so large that one step of
    /// theirs leaves the result's range anyway get smaller factors.
    fn new(summands: &[Summand], addend: &[f64], quant: &Quant) -> Option<Self> {
        let mut shifts = (0..=SHIFT_MOST).rev();
        let fitting = shifts.find_map(|shift| Self::with(summands, addend, quant, (shift, 1.0)));
        fitting.or_else(|| {
            let mut parts = (1..=EASE_MAX).map(|halvings| 0.5_f64.powi(halvings));
            parts.find_map(|part| Self::with(summands, addend, quant, (0, part)))
        })
    }

    fn with(
        summands: &[Summand],
        addend: &[f64],
        quant: &Quant,
        (shift, part): (u8, f64),
    ) -> Option<Self> {
        let unit = f64::from(1_u32 << shift);
        let steps = part / quant.scale;
        let places = summands.iter().map(|s| s.factors.len()).max()?.max(addend.len());
        let mut constant: Vec<f64> = (0..places.max(1))
            .map(|place| {
                let number = addend.get(if addend.len() == 1 { 0 } else { place });
                (number.copied().unwrap_or(0.0) * steps + f64::from(quant.zero)) * unit
            })
            .collect();
        let mut factors = Vec::new();
        let mut bound = if shift == 0 { 0.0 } else { unit / 2.0 };
        for summand in summands {
            let own = &summand.held.quant;
            let exact: Vec<f64> = summand
                .factors
                .iter()
                .map(|factor| (factor * own.scale * steps * unit).round())
                .collect();
            for (place, constant) in constant.iter_mut().enumerate() {
                let factor = exact.get(if exact.len() == 1 { 0 } else { place });
                *constant -= factor.copied().unwrap_or(0.0) * f64::from(own.zero);
            }
            let largest = exact.iter().fold(0.0_f64, |most, factor| most.max(factor.abs()));
            bound += largest * f64::from(own.lo.unsigned_abs().max(own.hi.unsigned_abs()));
            factors.push(exact);
        }
        if constant.windows(2).all(|pair| pair.first() == pair.last()) {
            constant.truncate(1);
        }
        bound += constant.iter().fold(0.0_f64, |most, number| most.max(number.abs() + 1.0));
        if bound > MAGNITUDE_MAX as f64 {
            return None;
        }
        let whole = |numbers: Vec<f64>| numbers.iter().map(|n| n.round() as i32).collect();
        Some(Self {
            factors: factors.into_iter().map(whole).collect(),
            constant: whole(constant),
            shift,
        })
    }
}
