//! The rows of a window's matrix product: for each output place the elements that its window reads,
//! as factors of 16 bits.

use super::axis::{Axis, Place, places};
use super::elements::{Elements, Number, convert, with_elements};
use crate::kernels::Narrow;
use crate::program::Window;
use std::ops::Range;

/// Numbers that are copied at once. Short runs of taps are copied in whole chunks: what is too much
/// is overwritten by the run that follows.
const CHUNK: usize = 16;

/// Runs of taps up to this long are copied in chunks; the compiler's loop is better at longer ones.
const CHUNKED_MAX: usize = 4 * CHUNK;

/// What stands for padding among the places where taps read.
const PADDING: usize = usize::MAX;

/// The rows of some output places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows<'a> {
    /// How the input is looked at.
    pub(super) window: &'a Window,
    /// What padding counts as.
    pub(super) pad: i16,
    /// From the beginning of a row to that of the next; zeros follow what is read.
    pub(super) stride: usize,
}

impl Rows<'_> {
    /// Writes the rows of all channels: `[place, tap, channel]`, and something behind the last.
    pub(super) fn gather(&self, x: Elements<'_>, range: Range<usize>, to: &mut Vec<i16>) {
        let depth = self.window.taps() as usize * self.window.channels as usize;
        to.resize(range.len() * self.stride + CHUNK, 0);
        with_elements!(x, x => {
            let whole = Whole::new(x, self.window, self.pad);
            for (row, place) in places(self.window, range).enumerate() {
                let to = &mut to[row * self.stride..];
                whole.window(place, to);
                to[depth..self.stride].fill(0);
            }
        });
    }

    /// Finds where each tap of each place reads, for [`Rows::gather_group`].
    pub(super) fn find(&self, range: Range<usize>, bases: &mut Vec<usize>) {
        let (rows, columns) = (Axis::rows(self.window), Axis::columns(self.window));
        let channels = self.window.channels as usize;
        bases.clear();
        for place in places(self.window, range) {
            for row in (0..rows.taps).map(|tap| rows.line(place.row, tap)) {
                let line = row.map(|row| (place.image * rows.lines + row) * columns.lines);
                bases.extend((0..columns.taps).map(|tap| {
                    let column = columns.line(place.column, tap);
                    line.zip(column).map_or(PADDING, |(line, column)| (line + column) * channels)
                }));
            }
        }
    }

    /// Writes the rows of some of the channels: `[place, tap, channel]`.
    pub(super) fn gather_group(
        &self,
        x: Elements<'_>,
        channels: Range<usize>,
        bases: &[usize],
        to: &mut Vec<i16>,
    ) {
        let taps = self.window.taps() as usize;
        to.resize(bases.len() / taps * self.stride, 0);
        with_elements!(x, x => {
            let group = Group { x, pad: self.pad, channels: channels.clone() };
            for (bases, to) in bases.chunks_exact(taps).zip(to.chunks_exact_mut(self.stride)) {
                let (read, zeros) = to.split_at_mut(taps * channels.len());
                match channels.len() {
                    1 => group.copy_each::<1>(bases, read),
                    2 => group.copy_each::<2>(bases, read),
                    4 => group.copy_each::<4>(bases, read),
                    8 => group.copy_each::<8>(bases, read),
                    16 => group.copy_each::<16>(bases, read),
                    _ => group.copy(bases, read),
                }
                zeros.fill(0);
            }
        });
    }
}

/// Some channels of an input.
struct Group<'a, S> {
    x: &'a [S],
    pad: i16,
    channels: Range<usize>,
}

impl<S: Number> Group<'_, S> {
    fn copy(&self, bases: &[usize], to: &mut [i16]) {
        for (base, to) in bases.iter().zip(to.chunks_exact_mut(self.channels.len())) {
            match *base {
                PADDING => to.fill(self.pad),
                base => convert(&self.x[base + self.channels.start..][..to.len()], to),
            }
        }
    }

    /// As [`Group::copy`], for a number of channels that is known beforehand.
    fn copy_each<const EACH: usize>(&self, bases: &[usize], to: &mut [i16]) {
        for (base, to) in bases.iter().zip(to.as_chunks_mut::<EACH>().0) {
            *to = match *base {
                PADDING => [self.pad; EACH],
                base => {
                    let read = self.x[base + self.channels.start..].first_chunk::<EACH>();
                    read.expect("a tap reads what exists").map(|x| i16::narrow(x.into()))
                }
            };
        }
    }
}

/// All channels of an input.
struct Whole<'a, S> {
    x: &'a [S],
    rows: Axis,
    columns: Axis,
    channels: usize,
    pad: i16,
}

impl<'a, S: Number> Whole<'a, S> {
    fn new(x: &'a [S], window: &Window, pad: i16) -> Self {
        let (rows, columns) = (Axis::rows(window), Axis::columns(window));
        Self { x, rows, columns, channels: window.channels as usize, pad }
    }

    /// Writes the taps of one place, and up to a chunk of anything behind them.
    fn window(&self, place: Place, to: &mut [i16]) {
        let each = self.channels;
        let across = self.columns.taps * each;
        let is_run = self.columns.is_run();
        let (taps, column) = if is_run { self.columns.run(place.column) } else { (0..0, 0) };
        let is_chunked = taps.len() == self.columns.taps && across <= CHUNKED_MAX;
        for tap in 0..self.rows.taps {
            let to = &mut to[tap * across..];
            let Some(row) = self.rows.line(place.row, tap) else {
                to[..across].fill(self.pad);
                continue;
            };
            let line = (place.image * self.rows.lines + row) * self.columns.lines;
            if is_chunked && self.chunks((line + column) * each, across, to) {
                continue;
            }
            let to = &mut to[..across];
            if is_run {
                let taps = taps.clone();
                let (before, rest) = to.split_at_mut(taps.start * each);
                let (within, behind) = rest.split_at_mut(taps.len() * each);
                before.fill(self.pad);
                convert(&self.x[(line + column) * each..][..within.len()], within);
                behind.fill(self.pad);
                continue;
            }
            for (tap, to) in to.chunks_exact_mut(each).enumerate() {
                match self.columns.line(place.column, tap) {
                    Some(column) => convert(&self.x[(line + column) * each..][..each], to),
                    None => to.fill(self.pad),
                }
            }
        }
    }

    /// Copies `count` numbers in whole chunks; false if the input or the rows end too early.
    fn chunks(&self, from: usize, count: usize, to: &mut [i16]) -> bool {
        let whole = count.next_multiple_of(CHUNK);
        let (Some(from), Some(to)) = (self.x.get(from..from + whole), to.get_mut(..whole)) else {
            return false;
        };
        for (to, from) in to.as_chunks_mut::<CHUNK>().0.iter_mut().zip(from.as_chunks().0) {
            let from: &[S; CHUNK] = from;
            *to = from.map(|number| i16::narrow(number.into()));
        }
        true
    }
}
