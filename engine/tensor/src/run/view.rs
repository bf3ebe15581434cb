//! How an operand is read along a grid: block by block into a buffer of 32-bit numbers, without a
//! division per element.

use super::elements::{Elements, Number, convert, with_elements};

/// The most sides of a grid.
const SIDES_MAX: usize = 6;

/// One side of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    len: usize,
    stride: usize,
}

/// An operand's strides along a grid, with sides joined that are one run for this operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// All sides but the last, slowest first.
    outer: Vec<Side>,
    /// The last side.
    inner: Side,
}

impl View {
    /// The view of an operand with these strides.
    pub(super) fn new(sides: &[u32], strides: &[u32]) -> Self {
        let all = sides.iter().zip(strides);
        let mut joined: Vec<Side> = Vec::with_capacity(SIDES_MAX);
        for (len, stride) in all.map(|(side, stride)| (*side as usize, *stride as usize)) {
            match joined.last_mut() {
                _ if len == 1 => {}
                Some(last) if last.stride == stride * len => {
                    *last = Side { len: last.len * len, stride };
                }
                Some(_) | None => joined.push(Side { len, stride }),
            }
        }
        let inner = joined.pop().unwrap_or(Side { len: 1, stride: 1 });
        Self { outer: joined, inner }
    }

    /// The view of numbers that stand along the last side and repeat along all others.
    pub(super) fn along_last(sides: &[u32]) -> Self {
        let mut strides = vec![0; sides.len()];
        if let Some(last) = strides.last_mut() {
            *last = 1;
        }
        Self::new(sides, &strides)
    }

    /// Whether place `i` of the grid reads element `i`.
    pub(super) fn is_identity(&self) -> bool {
        self.outer.is_empty() && self.inner.stride == 1
    }

    /// Reads what stands at the places from `start` on.
    pub(super) fn load(&self, from: Elements<'_>, start: usize, to: &mut [i32]) {
        with_elements!(from, from => self.load_from(from, start, to));
    }

    fn load_from<S: Number>(&self, from: &[S], start: usize, to: &mut [i32]) {
        let mut within = start % self.inner.len;
        let mut walk = Walk::new(&self.outer, start / self.inner.len);
        let mut rest = to;
        while !rest.is_empty() {
            let run = rest.len().min(self.inner.len - within);
            let (now, later) = rest.split_at_mut(run);
            read_run(&from[walk.at + within * self.inner.stride..], self.inner.stride, now);
            rest = later;
            within = 0;
            walk.step();
        }
    }
}

/// Reads numbers that stand a stride apart.
#[inline]
fn read_run<S: Number>(from: &[S], stride: usize, to: &mut [i32]) {
    match stride {
        0 => to.fill(from[0].into()),
        1 => convert(&from[..to.len()], to),
        stride => {
            for (to, from) in to.iter_mut().zip(from.iter().step_by(stride)) {
                *to = (*from).into();
            }
        }
    }
}

/// The places of the outer sides, one after the other, and where they begin in the operand.
struct Walk<'a> {
    sides: &'a [Side],
    places: [usize; SIDES_MAX],
    at: usize,
}

impl<'a> Walk<'a> {
    fn new(sides: &'a [Side], index: usize) -> Self {
        let (mut places, mut at, mut left) = ([0; SIDES_MAX], 0, index);
        for (place, side) in places.iter_mut().zip(sides).rev() {
            *place = left % side.len;
            left /= side.len;
            at += *place * side.stride;
        }
        Self { sides, places, at }
    }

    /// Goes to the next place; after the last comes the first.
    fn step(&mut self) {
        for (place, side) in self.places.iter_mut().zip(self.sides).rev() {
            *place += 1;
            self.at += side.stride;
            if *place < side.len {
                return;
            }
            self.at -= side.len * side.stride;
            *place = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::seen;

    fn check(sides: &[u32], strides: &[u32]) {
        let numbers: Vec<i16> = (0..1_000).collect();
        let view = View::new(sides, strides);
        let count = sides.iter().product::<u32>() as usize;
        for (start, end) in [(0, count), (count / 3, count), (count / 2, count - count / 4)] {
            let mut to = vec![-1; end - start];
            view.load(Elements::I16(&numbers), start, &mut to);
            let expected = (start..end).map(|index| seen(index, sides, strides) as i32);
            assert_eq!(to, expected.collect::<Vec<_>>(), "{sides:?} {strides:?} {start}..{end}");
        }
    }

    #[test]
    fn load_of_any_strides_reads_what_the_definition_reads() {
        check(&[2, 3, 4], &[12, 4, 1]);
        check(&[2, 3, 4], &[0, 4, 1]);
        check(&[2, 3, 4], &[4, 0, 1]);
        check(&[2, 3, 4], &[1, 2, 6]);
        check(&[2, 3, 4], &[0, 0, 0]);
        check(&[2, 1, 4], &[4, 77, 1]);
        check(&[1], &[9]);
        check(&[1, 1], &[9, 3]);
        check(&[2, 3, 2, 2, 1, 3], &[100, 0, 7, 2, 3, 31]);
    }

    #[test]
    fn sides_that_are_one_run_are_joined() {
        assert!(View::new(&[2, 3, 4], &[12, 4, 1]).is_identity());
        assert!(View::new(&[1, 1], &[5, 5]).is_identity());
        assert!(!View::new(&[2, 3], &[0, 1]).is_identity());
        assert_eq!(View::new(&[2, 3, 4], &[0, 4, 1]).outer.len(), 1);
        assert_eq!(View::new(&[2, 3], &[0, 0]), View::new(&[6], &[0]));
    }
}
