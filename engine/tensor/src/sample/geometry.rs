//! Grids, windows and rescales of samples.

use super::{Builder, ELEMENTS_MAX};
use crate::program::{
    MAGNITUDE_MAX, Multipliers, Operand, Rescale, Sides, Spec, Strides, ValueId, Window,
    round_shift,
};
use arbtest::arbitrary::Result;

/// The most bits that samples drop in one shift.
const SHIFT_MAX: u8 = 28;

impl Builder<'_, '_> {
    /// A divisor of a number, the extreme ones more often.
    pub(super) fn divisor(&mut self, number: u32) -> Result<u32> {
        match self.u.int_in_range(0..=5)? {
            0 => Ok(1),
            1 => Ok(number),
            _ => {
                let all: Vec<u32> = (1..=number).filter(|n| number.is_multiple_of(*n)).collect();
                self.u.choose(&all).copied()
            }
        }
    }

    /// Sides whose product is a number.
    pub(super) fn factored(&mut self, number: u32, sides: usize) -> Result<Vec<u32>> {
        let mut left = number;
        let mut found = Vec::new();
        for _ in 1..sides {
            let side = self.divisor(left)?;
            found.push(side);
            left /= side;
        }
        let place = self.u.int_in_range(0..=found.len())?;
        found.insert(place, left);
        Ok(found)
    }

    /// A grid: that of a value, or any.
    pub(super) fn grid(&mut self) -> Result<Vec<u32>> {
        let sides = self.u.int_in_range(1..=6)?;
        if self.u.ratio(2, 3)?
            && let Some((_, spec)) = self.value(|_| true)?
        {
            return self.factored(spec.len, sides);
        }
        let mut grid = Vec::new();
        for _ in 0..sides {
            let left = ELEMENTS_MAX / grid.iter().product::<u32>();
            grid.push(self.u.int_in_range(1..=left.min(5))?);
        }
        Ok(grid)
    }

    /// An operand on a grid: as it is, if its size allows, otherwise with strides that stay in it.
    pub(super) fn operand(
        &mut self,
        grid: &[u32],
        fits: impl Fn(&Spec) -> bool,
    ) -> Result<Option<(Operand, Spec)>> {
        let Some((value, spec)) = self.value(fits)? else { return Ok(None) };
        let mut natural = natural(grid);
        if grid.iter().product::<u32>() == spec.len && self.u.ratio(2, 3)? {
            return Ok(Some((operand(value, natural), spec)));
        }
        let mut left = spec.len - 1;
        for (side, stride) in grid.iter().zip(&mut natural).rev() {
            let most = left.checked_div(side - 1).unwrap_or(9);
            let kept = *stride <= most && self.u.ratio(1, 2)?;
            if !kept {
                *stride = self.u.int_in_range(0..=most)?;
            }
            left -= (side - 1) * *stride;
        }
        Ok(Some((operand(value, natural), spec)))
    }

    /// A window on a value of this size. The output is at most as large as samples are.
    pub(super) fn window(&mut self, len: u32) -> Result<Window> {
        let sides = self.factored(len, 4)?;
        let &[batch, height, width, channels] = &sides[..] else { unreachable!("four sides") };
        let mut window = Window { batch, height, width, ..Window::rows(batch, channels) };
        (window.out_height, window.out_width) = (height, width);
        match self.u.int_in_range(0..=5)? {
            0 => return Ok(window),
            1 => return Ok(Window::middle(batch * height, width, channels)),
            _ => {}
        }
        window.kernel_height = self.u.int_in_range(1..=3)?;
        window.kernel_width = self.u.int_in_range(1..=4)?;
        window.pad_top = self.u.int_in_range(-1..=2)?;
        window.pad_left = self.u.int_in_range(-1..=3)?;
        if self.u.ratio(1, 2)? {
            window.stride_height = self.u.int_in_range(1..=3)?;
            window.stride_width = self.u.int_in_range(1..=2)?;
            window.dilation_height = self.u.int_in_range(1..=2)?;
            window.dilation_width = self.u.int_in_range(1..=3)?;
        }
        if self.u.ratio(1, 4)? {
            window.spread_height = self.u.int_in_range(1..=3)?;
            window.spread_width = self.u.int_in_range(1..=2)?;
        }
        let most = (ELEMENTS_MAX / (batch * channels)).max(1);
        window.out_height = self.u.int_in_range(1..=most.min(height + 2))?;
        window.out_width = self.u.int_in_range(1..=(most / window.out_height).min(width + 2))?;
        Ok(window)
    }

    /// One number or one for each of `places`, between two.
    pub(super) fn numbers(&mut self, places: u32, lo: i64, hi: i64) -> Result<Multipliers> {
        let count = if self.u.ratio(1, 2)? { 1 } else { places };
        let numbers = self.noise.many(count as usize, lo, hi);
        Ok(list(numbers.into_iter().map(|number| number as i32).collect()))
    }

    /// A rescale for accumulators up to `bound`; `None` if they are too large.
    pub(super) fn rescale(&mut self, bound: i64, places: u32) -> Result<Option<Rescale>> {
        if bound > MAGNITUDE_MAX / 2 {
            return Ok(None);
        }
        let pre_shift = if self.u.ratio(1, 3)? { self.u.int_in_range(0..=12)? } else { 0 };
        let small = round_shift(bound, pre_shift).max(1);
        let most = (MAGNITUDE_MAX / 2 / small).min(1 << 15);
        let most = if self.u.ratio(1, 4)? { most } else { most.min(200) };
        let multipliers = self.numbers(places, 0, most)?;
        let bits = (small * most.max(1)).ilog2().saturating_sub(5) as u8;
        let shift = if self.u.ratio(3, 4)? { bits } else { self.u.int_in_range(0..=SHIFT_MAX)? };
        let zero = self.u.int_in_range(-140..=140)?;
        let shift = shift.min(SHIFT_MAX);
        Ok(Some(Rescale { pre_shift, multipliers, shift, zero }))
    }

    /// An offset with which a value is a factor of 16 bits, and the largest magnitude of that.
    pub(super) fn offset(&mut self, spec: &Spec) -> Result<Option<(i32, i64)>> {
        let least = i64::from(i16::MIN) - i64::from(spec.lo);
        let most = i64::from(i16::MAX) - i64::from(spec.hi);
        if least > most {
            return Ok(None);
        }
        let middle = -(i64::from(spec.lo) + i64::from(spec.hi)) / 2;
        let wanted = match self.u.int_in_range(0..=2)? {
            0 => 0,
            1 => middle,
            _ => self.u.int_in_range(-300..=300)?,
        };
        let offset = wanted.clamp(least, most);
        let largest = (i64::from(spec.lo) + offset).abs().max((i64::from(spec.hi) + offset).abs());
        Ok(Some((offset as i32, largest)))
    }
}

/// The strides of a value that is as large as the grid.
pub(super) fn natural(grid: &[u32]) -> Vec<u32> {
    let mut strides = vec![1; grid.len()];
    for index in (1..grid.len()).rev() {
        strides[index - 1] = strides[index] * grid[index];
    }
    strides
}

pub(super) fn sides(grid: &[u32]) -> Sides {
    Sides::new(grid.to_vec()).expect("one to six sides")
}

fn operand(value: ValueId, strides: Vec<u32>) -> Operand {
    Operand { value, strides: Strides::new(strides).expect("one to six sides") }
}

/// A list that is neither too short nor too long.
pub(super) fn list<T: std::fmt::Debug, const MIN: usize, const MAX: usize>(
    items: Vec<T>,
) -> tg_types::List<T, MIN, MAX> {
    tg_types::List::new(items).expect("samples are small")
}
