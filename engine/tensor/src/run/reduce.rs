//! Reductions: sum and max over windows, arg-max along a side.

use super::axis::{Axis, Place, places};
use super::elements::{Number, Target, convert, with_elements, with_target};
use super::product::Finish;
use super::{Context, Scratch, Values};
use crate::kernels;
use crate::program::{ValueId, Window};

/// Terms that a thread takes at once at most, unless one element has more.
const CHUNK_TERMS: usize = 1 << 15;

/// What is done with the elements of a window.
#[derive(Debug)]
pub(super) enum Fold {
    /// Their sum with an offset each, rescaled by output place.
    Sum(i32, Finish),
    /// The largest of them and of this number.
    Max(i32),
}

/// A reduction of windows.
#[derive(Debug)]
pub(super) struct Reduce {
    x: ValueId,
    window: Window,
    fold: Fold,
}

impl Reduce {
    /// A reduction of the windows of a value.
    pub(super) fn new(x: ValueId, window: &Window, fold: Fold) -> Self {
        Self { x, window: lying(window), fold }
    }

    /// Computes the output.
    pub(super) fn run(
        &self,
        context: &Context<'_>,
        values: &Values<'_>,
        out: Target<'_>,
        scratch: &mut [Scratch],
    ) {
        let x = values.get(self.x);
        let channels = self.window.channels as usize;
        let terms = channels.saturating_mul(self.window.taps() as usize);
        with_target!(out, out => {
            let ways = context.team.ways((out.len() as u64).saturating_mul(self.window.taps()));
            let all = out.len() / channels;
            let each = context.team.piece(ways, all, (CHUNK_TERMS / terms).max(1));
            let chunks = out.chunks_mut(each * channels).enumerate();
            context.team.share(ways, scratch, chunks, |scratch, (index, out)| {
                let first = index * each;
                let range = first..first + out.len() / channels;
                let sums = &mut scratch.sums;
                sums.clear();
                match &self.fold {
                    Fold::Sum(offset, finish) => {
                        sums.resize(out.len(), 0);
                        let add = |sum: i32, x: i32| sum.wrapping_add(x.wrapping_add(*offset));
                        with_elements!(x, x => self.reduce(x, range.start, sums, add));
                        self.rescale(context, finish, first, sums, out);
                    }
                    Fold::Max(lo) => {
                        sums.resize(out.len(), *lo);
                        with_elements!(x, x => self.reduce(x, range.start, sums, i32::max));
                        convert(sums, out);
                    }
                }
            });
        });
    }

    /// Folds the windows of the places from `first` on into `sums`.
    fn reduce<S: Number>(
        &self,
        x: &[S],
        first: usize,
        sums: &mut [i32],
        fold: impl Fn(i32, i32) -> i32 + Copy,
    ) {
        let channels = self.window.channels as usize;
        let (rows, columns) = (Axis::rows(&self.window), Axis::columns(&self.window));
        let is_line = channels == 1 && columns.is_run();
        let range = first..first + sums.len() / channels;
        for (place, sums) in places(&self.window, range).zip(sums.chunks_exact_mut(channels)) {
            for tap in 0..rows.taps {
                let Some(row) = rows.line(place.row, tap) else { continue };
                let line = (place.image * rows.lines + row) * columns.lines;
                if let ([sum], true) = (&mut *sums, is_line) {
                    let (taps, begin) = columns.run(place.column);
                    let read = &x[line + begin..][..taps.len()];
                    *sum = read.iter().fold(*sum, |sum, x| fold(sum, (*x).into()));
                    continue;
                }
                for column in (0..columns.taps).filter_map(|tap| columns.line(place.column, tap)) {
                    let read = &x[(line + column) * channels..][..channels];
                    for (sum, x) in sums.iter_mut().zip(read) {
                        *sum = fold(*sum, (*x).into());
                    }
                }
            }
        }
    }

    fn rescale<T: Number>(
        &self,
        context: &Context<'_>,
        finish: &Finish,
        first: usize,
        sums: &[i32],
        out: &mut [T],
    ) {
        if finish.is_uniform() {
            return kernels::requantise_row(context.path, sums, &finish.of(0..sums.len()), out);
        }
        let (channels, width) = (self.window.channels as usize, self.window.out_width as usize);
        let rows = sums.chunks_exact(channels).zip(out.chunks_exact_mut(channels));
        let range = first..first + sums.len() / channels;
        for (Place { row, column, .. }, (sums, out)) in places(&self.window, range).zip(rows) {
            let how = finish.for_all(row * width + column);
            kernels::requantise_row(context.path, sums, &how, out);
        }
    }
}

/// A window one column wide is turned to lie along the columns, where its taps are one run.
fn lying(window: &Window) -> Window {
    let thin = (window.width, window.out_width, window.kernel_width, window.pad_left);
    if thin != (1, 1, 1, 0) {
        return *window;
    }
    Window {
        height: 1,
        width: window.height,
        out_height: 1,
        out_width: window.out_height,
        kernel_height: 1,
        kernel_width: window.kernel_height,
        stride_height: 1,
        stride_width: window.stride_height,
        dilation_height: 1,
        dilation_width: window.dilation_height,
        pad_top: 0,
        pad_left: window.pad_top,
        spread_height: 1,
        spread_width: window.spread_height,
        ..*window
    }
}

/// Place of the largest element along the middle side of `[outer, len, inner]`.
#[derive(Debug)]
pub(super) struct ArgMax {
    /// What is read.
    pub(super) x: ValueId,
    /// Candidates.
    pub(super) len: usize,
    /// Places behind.
    pub(super) inner: usize,
}

impl ArgMax {
    /// Computes the output.
    pub(super) fn run(
        &self,
        context: &Context<'_>,
        values: &Values<'_>,
        out: Target<'_>,
        scratch: &mut [Scratch],
    ) {
        let x = values.get(self.x);
        with_target!(out, out => with_elements!(x, x => {
            let ways = context.team.ways(x.len() as u64);
            let groups = x.chunks_exact(self.len * self.inner);
            let items = out.chunks_exact_mut(self.inner).zip(groups);
            context.team.share(ways, scratch, items, |scratch, (out, group)| match out {
                [out] => *out = Number::of_place(first_largest(group)),
                out => self.places(group, &mut scratch.sums, out),
            });
        }));
    }

    fn places<S: Number, T: Number>(&self, group: &[S], best: &mut Vec<i32>, out: &mut [T]) {
        best.clear();
        best.extend(group.iter().take(self.inner).map(|x| (*x).into()));
        out.fill(T::of_place(0));
        for (place, candidates) in group.chunks_exact(self.inner).enumerate().skip(1) {
            for ((best, out), x) in best.iter_mut().zip(&mut *out).zip(candidates) {
                if (*x).into() > *best {
                    *best = (*x).into();
                    *out = T::of_place(place);
                }
            }
        }
    }
}

/// The place of the largest element, the first of equals.
fn first_largest<S: Number>(elements: &[S]) -> usize {
    let largest = elements.iter().fold(i32::MIN, |largest, x| largest.max((*x).into()));
    elements.iter().position(|x| (*x).into() == largest).unwrap_or(0)
}
