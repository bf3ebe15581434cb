//! The primitives of samples. Each returns `None` if the values there are do not allow it.

use super::geometry::{list, natural, sides};
use super::{Builder, ELEMENTS_MAX};
use crate::element::{MANTISSA_BITS, power_of};
use crate::program::{
    Inverse, JoinTerm, MAGNITUDE_MAX, MovePart, Primitive, Run, Runs, Spec, Window,
};
use arbtest::arbitrary::Result;

/// An operation's output and what makes it.
type Built = Option<(Spec, Primitive)>;

/// Takes what is there, or gives up this operation.
macro_rules! some {
    ($option:expr) => {
        match $option {
            Some(found) => found,
            None => return Ok(None),
        }
    };
}

/// What the terms of a join may add up to, each.
const TERM_MAX: i64 = 1 << 27;

fn is_factor(spec: &Spec) -> bool {
    spec.lo >= i16::MIN.into() && spec.hi <= i16::MAX.into()
}

fn is_small(spec: &Spec) -> bool {
    i64::from(spec.hi) - i64::from(spec.lo) <= 1 << 12
}

impl Builder<'_, '_> {
    /// A primitive of a kind (see [`super::KINDS`]).
    pub(super) fn primitive(&mut self, kind: usize) -> Result<Built> {
        match kind {
            0 => self.linear(),
            1 => self.mat_mul(),
            2 => self.join(),
            3 => self.product(),
            4 => self.table(),
            5 => self.sum(),
            6 => self.max(),
            7 => self.normalise(),
            8 => self.moves(),
            9 => self.select(),
            10 => self.lookup(),
            _ => self.arg_max(),
        }
    }

    fn linear(&mut self) -> Result<Built> {
        let (x, read) = some!(self.value(is_factor)?);
        let mut window = self.window(read.len)?;
        if self.u.ratio(1, 4)? {
            let channels = self.divisor(read.len)?;
            window = Window::rows(read.len / channels, channels);
        }
        let rows = window.batch * window.out_height * window.out_width;
        let (groups, columns) = self.groups(&window, ELEMENTS_MAX / rows.min(ELEMENTS_MAX))?;
        let terms = window.kernel_height * window.kernel_width * (window.channels / groups);
        let largest = read.magnitude().max(1);
        let most = (MAGNITUDE_MAX / 4 / largest / i64::from(terms)).min(127) as i32;
        let least = if self.u.ratio(1, 5)? { 0 } else { -most };
        let spec = Spec { len: terms * columns, lo: least, hi: most };
        let (weights, numbers) = some!(self.constant(spec));
        let mut sums = vec![0_i64; columns as usize];
        for (sum, column) in sums.iter_mut().zip(numbers.to_numbers().chunks(terms as usize)) {
            *sum = column.iter().map(|weight| weight.abs()).sum::<i64>() * read.magnitude();
        }
        let mut bias = None;
        if self.u.ratio(2, 3)? {
            let most = *self.u.choose(&[100, 30_000, 10_000_000])?;
            let spec = Spec { len: columns, lo: -most, hi: most };
            let (value, numbers) = some!(self.constant(spec));
            bias = Some(value);
            for (sum, bias) in sums.iter_mut().zip(numbers.to_numbers()) {
                *sum += bias.abs();
            }
        }
        let bound = sums.into_iter().max().unwrap_or(0);
        let rescale = some!(self.rescale(bound, columns)?);
        let pad = self.noise.between(read.lo.into(), read.hi.into()) as i32;
        let pad = if read.admits(0) && self.u.ratio(1, 2)? { 0 } else { pad };
        let spec = self.spec(rows * columns)?;
        let bound = bound as u32;
        let primitive =
            Primitive::Linear { x, weights, bias, window, columns, groups, pad, bound, rescale };
        Ok(Some((spec, primitive)))
    }

    /// Groups and columns: depthwise, grouped or whole.
    fn groups(&mut self, window: &Window, columns_max: u32) -> Result<(u32, u32)> {
        let channels = window.channels;
        let whole = self.u.int_in_range(1..=columns_max.clamp(1, 40))?;
        Ok(match self.u.int_in_range(0..=3)? {
            0 if channels <= columns_max => (channels, channels),
            1 => {
                let groups = self.divisor(channels)?;
                let most = (columns_max / groups).clamp(1, 20);
                (groups, groups * self.u.int_in_range(1..=most)?)
            }
            _ => (1, whole),
        })
    }

    fn mat_mul(&mut self) -> Result<Built> {
        let (a, left) = some!(self.value(is_small)?);
        let (b, right) = some!(self.value(is_small)?);
        let common = |a: u32, b: u32| {
            (1..=a.min(b)).rev().find(|n| a.is_multiple_of(*n) && b.is_multiple_of(*n)).unwrap_or(1)
        };
        let inner = self.divisor(common(left.len, right.len))?;
        let (rows, columns) = (left.len / inner, right.len / inner);
        let batch = self.divisor(common(rows, columns))?;
        let (rows, columns) = (rows / batch, columns / batch);
        let len = some!(rows.checked_mul(columns).and_then(|all| all.checked_mul(batch)));
        if len > ELEMENTS_MAX {
            return Ok(None);
        }
        let (offset_a, largest_a) = some!(self.offset(&left)?);
        let (offset_b, largest_b) = some!(self.offset(&right)?);
        let rescale = some!(self.rescale(largest_a * largest_b * i64::from(inner), 1)?);
        let primitive =
            Primitive::MatMul { a, b, batch, rows, columns, inner, offset_a, offset_b, rescale };
        Ok(Some((self.spec(len)?, primitive)))
    }

    fn join(&mut self) -> Result<Built> {
        let grid = self.grid()?;
        let last = grid.last().copied().unwrap_or(1);
        let mut terms = Vec::new();
        for _ in 0..self.u.int_in_range(1..=4)? {
            let (operand, spec) = some!(self.operand(&grid, |spec| spec.magnitude() <= TERM_MAX)?);
            let most = (TERM_MAX / spec.magnitude().max(1)).min(1 << 20);
            let most = if self.u.ratio(1, 2)? { most } else { most.min(100) };
            let multipliers = self.numbers(last, -most, most)?;
            terms.push(JoinTerm { operand, multipliers });
        }
        let constant = self.numbers(last, -1_000_000, 1_000_000)?;
        let shift = self.u.int_in_range(0..=27)?;
        let spec = self.spec(grid.iter().product())?;
        let (sides, terms) = (sides(&grid), list(terms));
        Ok(Some((spec, Primitive::Join { sides, terms, constant, shift })))
    }

    fn product(&mut self) -> Result<Built> {
        let grid = self.grid()?;
        let (a, left) = some!(self.operand(&grid, |spec| !spec.admits(1 << 28))?);
        let (b, right) = some!(self.operand(&grid, is_small)?);
        let (offset_a, largest_a) = some!(self.offset(&left)?);
        let (offset_b, largest_b) = some!(self.offset(&right)?);
        let rescale = some!(self.rescale(largest_a * largest_b, 1)?);
        let spec = self.spec(grid.iter().product())?;
        let sides = sides(&grid);
        Ok(Some((spec, Primitive::Product { sides, a, b, offset_a, offset_b, rescale })))
    }

    fn table(&mut self) -> Result<Built> {
        let entries_max = 1 << 16;
        let numbers = |spec: &Spec| i64::from(spec.hi) - i64::from(spec.lo) + 1;
        let (x, read) = some!(self.value(|spec| numbers(spec) <= entries_max)?);
        let spec = self.spec(read.len)?;
        let (lo, hi) = (spec.lo.max(i16::MIN.into()), spec.hi.min(i16::MAX.into()));
        if lo > hi {
            return Ok(None);
        }
        let entries = self.noise.many(numbers(&read) as usize, lo.into(), hi.into());
        let entries = list(entries.into_iter().map(|entry| entry as i16).collect());
        Ok(Some((spec, Primitive::Table { x, entries })))
    }

    fn sum(&mut self) -> Result<Built> {
        let (x, read) = some!(self.value(|_| true)?);
        let window = self.window(read.len)?;
        let offset = self.u.int_in_range(-200..=200)?;
        let end = |end: i32| (i64::from(end) + i64::from(offset)).abs();
        let largest = end(read.lo).max(end(read.hi));
        let positions = window.positions() as u32;
        let rescale = some!(self.rescale(largest * window.taps() as i64, positions)?);
        let spec = self.spec(window.batch * positions * window.channels)?;
        Ok(Some((spec, Primitive::Sum { x, window, offset, rescale })))
    }

    fn max(&mut self) -> Result<Built> {
        let (x, read) = some!(self.value(|_| true)?);
        let window = self.window(read.len)?;
        let len = window.batch * window.positions() as u32 * window.channels;
        Ok(Some((self.holding(len, read.lo, read.hi)?, Primitive::Max { x, window })))
    }

    fn normalise(&mut self) -> Result<Built> {
        let grid = self.grid()?;
        let (a, left) = some!(self.operand(&grid, |spec| !spec.admits(1 << 28))?);
        let (x, right) = some!(self.operand(&grid, |_| true)?);
        let (offset, largest) = some!(self.offset(&left)?);
        let (inverse, entries, least) = if self.u.ratio(1, 2)? {
            (Inverse::Reciprocal, 1_usize << MANTISSA_BITS, 10)
        } else {
            (Inverse::Root, 3 << MANTISSA_BITS, 5)
        };
        let exponent = power_of(right.hi.into(), inverse).1;
        let most = 27 - exponent;
        if most < least {
            return Ok(None);
        }
        let shift = self.u.int_in_range(least..=most)? as u8;
        let entry = (MAGNITUDE_MAX / 2 / largest.max(1)).min(i16::MAX.into());
        let entries = self.noise.many(entries, 0, entry);
        let entries = list(entries.into_iter().map(|entry| entry as i16).collect());
        let zero = self.u.int_in_range(-140..=140)?;
        let spec = self.spec(grid.iter().product())?;
        let sides = sides(&grid);
        let primitive = Primitive::Normalise { sides, a, offset, x, inverse, entries, shift, zero };
        Ok(Some((spec, primitive)))
    }

    fn select(&mut self) -> Result<Built> {
        let grid = self.grid()?;
        let (condition, _) = some!(self.operand(&grid, |_| true)?);
        let (then, first) = some!(self.operand(&grid, |_| true)?);
        let (otherwise, second) = some!(self.operand(&grid, |_| true)?);
        let (lo, hi) = (first.lo.min(second.lo), first.hi.max(second.hi));
        let spec = self.holding(grid.iter().product(), lo, hi)?;
        let sides = sides(&grid);
        Ok(Some((spec, Primitive::Select { sides, condition, then, otherwise })))
    }

    fn lookup(&mut self) -> Result<Built> {
        let (indices, read) = some!(self.value(|spec| spec.lo >= 0 && spec.hi < 300)?);
        let row = self.u.int_in_range(1..=(ELEMENTS_MAX / read.len).clamp(1, 9))?;
        let rows = read.hi as u32 + 1;
        let fits = |spec: &Spec| spec.len.is_multiple_of(row) && spec.len / row >= rows;
        let (table, spec) = match self.value(fits)? {
            Some(found) if self.u.ratio(1, 2)? => found,
            Some(_) | None => {
                let spec = self.spec(rows * row)?;
                (some!(self.constant(spec)).0, spec)
            }
        };
        let spec = self.holding(read.len * row, spec.lo, spec.hi)?;
        Ok(Some((spec, Primitive::Lookup { table, indices, row })))
    }

    fn arg_max(&mut self) -> Result<Built> {
        let (x, read) = some!(self.value(|_| true)?);
        let sides = self.factored(read.len, 3)?;
        let &[outer, len, inner] = &sides[..] else { unreachable!("three sides") };
        let spec = self.holding(outer * inner, 0, len as i32 - 1)?;
        Ok(Some((spec, Primitive::ArgMax { x, outer, len, inner })))
    }

    fn moves(&mut self) -> Result<Built> {
        if self.u.ratio(1, 3)? {
            return self.permute();
        }
        let mut grid = Vec::new();
        for _ in 0..self.u.int_in_range(1..=4)? {
            grid.push(self.u.int_in_range(1..=6)?);
        }
        let axis = self.u.int_in_range(0..=grid.len() - 1)?;
        let fill = self.u.int_in_range(-100..=100)?;
        let (mut lo, mut hi) = (fill, fill);
        let mut left = grid[axis];
        let mut parts = Vec::new();
        while left > 0 {
            let extent = self.u.int_in_range(1..=left)?;
            left -= extent;
            let (value, spec) = some!(self.value(|_| true)?);
            (lo, hi) = (lo.min(spec.lo), hi.max(spec.hi));
            let mut reach = spec.len - 1;
            let mut offsets = Vec::new();
            for (index, side) in grid.iter().enumerate() {
                let most = if index + 1 == grid.len() { reach } else { reach / 2 };
                let places = if index == axis { extent } else { *side };
                offsets.push(self.runs(places, most)?);
                reach -= most;
            }
            parts.push(MovePart { value, offsets: list(offsets) });
        }
        let spec = self.holding(grid.iter().product(), lo, hi)?;
        let (sides, parts, axis) = (sides(&grid), list(parts), axis as u8);
        Ok(Some((spec, Primitive::Move { sides, axis, parts, fill })))
    }

    /// Runs that cover `places` and read offsets up to `most`.
    fn runs(&mut self, places: u32, most: u32) -> Result<Runs> {
        let mut left = places;
        let mut runs = Vec::new();
        while left > 0 {
            let count = if self.u.ratio(1, 2)? { left } else { self.u.int_in_range(1..=left)? };
            left -= count;
            if self.u.ratio(1, 8)? {
                runs.push(Run::Fill { count });
                continue;
            }
            let (most, steps) = (i64::from(most), i64::from(count) - 1);
            let start = self.u.int_in_range(0..=most)?;
            let (down, up) =
                if steps == 0 { (3, 3) } else { (start / steps, (most - start) / steps) };
            let any = self.u.int_in_range(-down..=up)? as i32;
            let step = if up > 0 && self.u.ratio(1, 2)? { 1 } else { any };
            runs.push(Run::Read { start: start as u32, step, count });
        }
        Ok(list(runs))
    }

    /// The sides of a value in another order.
    fn permute(&mut self) -> Result<Built> {
        let (value, read) = some!(self.value(|_| true)?);
        let count = self.u.int_in_range(1..=6)?;
        let from = self.factored(read.len, count)?;
        let mut order: Vec<(u32, u32)> = from.iter().copied().zip(natural(&from)).collect();
        for index in 1..order.len() {
            let other = self.u.int_in_range(0..=index)?;
            order.swap(index, other);
        }
        let run = |(side, stride): &(u32, u32)| {
            list(vec![Run::Read { start: 0, step: *stride as i32, count: *side }])
        };
        let offsets = list(order.iter().map(run).collect());
        let grid: Vec<u32> = order.iter().map(|(side, _)| *side).collect();
        let axis = self.u.int_in_range(0..=grid.len() - 1)? as u8;
        let parts = list(vec![MovePart { value, offsets }]);
        let spec = self.holding(read.len, read.lo, read.hi)?;
        Ok(Some((spec, Primitive::Move { sides: sides(&grid), axis, parts, fill: 0 })))
    }
}
