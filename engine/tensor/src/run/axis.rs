//! Sliding windows, one direction at a time, and the output places one after the other.

use crate::program::Window;
use std::ops::Range;

/// One direction of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// Lines (rows or columns) of the input.
    pub(super) lines: usize,
    /// Lines of the window.
    pub(super) taps: usize,
    stride: i64,
    dilation: i64,
    pad: i64,
    spread: i64,
}

impl Axis {
    /// The rows of a window.
    pub(super) fn rows(window: &Window) -> Self {
        Self {
            lines: window.height as usize,
            taps: window.kernel_height as usize,
            stride: window.stride_height.into(),
            dilation: window.dilation_height.into(),
            pad: window.pad_top.into(),
            spread: window.spread_height.into(),
        }
    }

    /// The columns of a window.
    pub(super) fn columns(window: &Window) -> Self {
        Self {
            lines: window.width as usize,
            taps: window.kernel_width as usize,
            stride: window.stride_width.into(),
            dilation: window.dilation_width.into(),
            pad: window.pad_left.into(),
            spread: window.spread_width.into(),
        }
    }

    /// The line that a tap reads; `None` is padding. See [`Window::row`].
    pub(super) fn line(&self, out: usize, tap: usize) -> Option<usize> {
        let at = self.first(out) + tap as i64 * self.dilation;
        if self.spread == 1 {
            return usize::try_from(at).ok().filter(|line| *line < self.lines);
        }
        if at < 0 || at % self.spread != 0 {
            return None;
        }
        usize::try_from(at / self.spread).ok().filter(|line| *line < self.lines)
    }

    /// Whether the taps of an output line read one line after the other, padding aside.
    pub(super) fn is_run(&self) -> bool {
        self.spread == 1 && (self.dilation == 1 || self.taps == 1)
    }

    /// For an axis whose taps are a run: the taps that are not padding, and the line that the first
    /// of them reads, 0 if there are none.
    pub(super) fn run(&self, out: usize) -> (Range<usize>, usize) {
        let first = self.first(out);
        let tap = |at: i64| (at - first).clamp(0, self.taps as i64) as usize;
        let (begin, end) = (tap(0), tap(self.lines as i64));
        let line = usize::try_from(first + begin as i64).unwrap_or(0);
        (begin..end, if begin < end { line } else { 0 })
    }

    /// The line that the first tap reads, if the taps of an output line read lines a dilation apart
    /// and none is padding.
    pub(super) fn inside(&self, out: usize) -> Option<usize> {
        let last = self.first(out) + (self.taps as i64 - 1) * self.dilation;
        let first = usize::try_from(self.first(out)).ok()?;
        (self.spread == 1 && last < self.lines as i64).then_some(first)
    }

    fn first(&self, out: usize) -> i64 {
        out as i64 * self.stride - self.pad
    }
}

/// A place of the output: image, row and column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Which image.
    pub(super) image: usize,
    /// Which row of it.
    pub(super) row: usize,
    /// Which column of it.
    pub(super) column: usize,
}

/// The output places of a window in a range, in order.
pub(super) fn places(window: &Window, range: Range<usize>) -> impl Iterator<Item = Place> {
    let (height, width) = (window.out_height as usize, window.out_width as usize);
    let mut next = Place {
        image: range.start / (height * width),
        row: range.start / width % height,
        column: range.start % width,
    };
    range.map(move |_| {
        let now = next;
        next.column += 1;
        if next.column == width {
            (next.column, next.row) = (0, next.row + 1);
        }
        if next.row == height {
            (next.row, next.image) = (0, next.image + 1);
        }
        now
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_of_any_geometry_reads_what_the_window_reads() {
        arbtest::arbtest(|u| {
            let mut window = Window::rows(1, 1);
            window.height = u.int_in_range(1..=6)?;
            window.kernel_height = u.int_in_range(1..=5)?;
            window.stride_height = u.int_in_range(1..=3)?;
            window.dilation_height = u.int_in_range(1..=3)?;
            window.pad_top = u.int_in_range(-3..=5)?;
            window.spread_height = u.int_in_range(1..=3)?;
            let axis = Axis::rows(&window);
            for out in 0..6 {
                let lines = (0..axis.taps).map(|tap| axis.line(out, tap));
                let lines: Vec<Option<usize>> = lines.collect();
                let row = |tap| window.row(out as u32, tap).map(|row| row as usize);
                assert_eq!(lines, (0..window.kernel_height).map(row).collect::<Vec<_>>());
                if let Some(first) = axis.inside(out) {
                    let step = window.dilation_height as usize;
                    let inside = (0..axis.taps).map(|tap| Some(first + tap * step));
                    assert_eq!(lines, inside.collect::<Vec<_>>());
                } else if window.spread_height == 1 {
                    assert!(lines.contains(&None));
                }
                if axis.is_run() {
                    let (taps, first) = axis.run(out);
                    let run = |tap| taps.contains(&tap).then(|| first + tap - taps.start);
                    assert_eq!(lines, (0..axis.taps).map(run).collect::<Vec<_>>());
                }
            }
            Ok(())
        });
    }

    #[test]
    fn places_from_the_middle_are_those_from_the_start() {
        let mut window = Window::rows(3, 1);
        (window.out_height, window.out_width) = (2, 4);
        let list = |range| places(&window, range).map(|p| (p.image, p.row, p.column));
        let all: Vec<_> = list(0..24).collect();
        assert_eq!(all[..3], [(0, 0, 0), (0, 0, 1), (0, 0, 2)]);
        assert_eq!(all[23], (2, 1, 3));
        assert_eq!(list(7..20).collect::<Vec<_>>(), all[7..20]);
    }
}
