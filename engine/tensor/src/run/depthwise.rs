//! Convolutions in which each channel has its own window: run by run of channels, as a matrix
//! product of one channel would be nearly all padding.

use super::axis::{Axis, Place, places};
use super::elements::Number;
use super::product::{Finish, work};
use super::{Context, Scratch};
use crate::kernels::{self, Element, Path, axpy_channels};
use crate::program::Window;

/// With fewer channels than this a run of channels is too short to be computed at once.
pub(super) const CHANNELS_MIN: usize = 8;

/// Products that a thread takes at once at most, unless one place has more.
const CHUNK_PRODUCTS: usize = 1 << 16;

/// Channels whose sums stay in registers together: half of the registers of a small machine.
const LONG_RUN: usize = 32;

/// Channels of the rest that stay in registers together.
const SHORT_RUN: usize = 8;

/// A depthwise step does about this many times less than a matrix product in the same time.
const SLOWER: usize = 4;

/// One tap of a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    /// Where its weights begin.
    weights: usize,
    /// Where what it reads begins; `None` is padding.
    x: Option<usize>,
}

/// A convolution of this kind.
#[derive(Clone, Debug)]
pub(super) struct Depthwise {
    /// How the input is looked at.
    window: Window,
    /// `[tap, channel]`.
    weights: Vec<i8>,
    /// The same in 32 bits: widening weights again at every place takes longer than reading more.
    wide: Vec<i32>,
    /// The taps of a place without padding, counted from where the first of them reads.
    inside: Vec<Tap>,
    /// What padding counts as.
    pad: i16,
}

impl Depthwise {
    /// Takes weights of `[channel, tap]`.
    pub(super) fn new(window: &Window, weights: &[i8], pad: i16) -> Self {
        let channels = window.channels as usize;
        let (taps, wide) = (weights.len() / channels, window.kernel_width as usize);
        let tap = |tap: usize| (0..channels).map(move |channel| weights[channel * taps + tap]);
        let row = window.dilation_height as usize * window.width as usize;
        let inside = |tap: usize| {
            let place = tap / wide * row + tap % wide * window.dilation_width as usize;
            Tap { weights: tap * channels, x: Some(place * channels) }
        };
        let weights: Vec<i8> = (0..taps).flat_map(tap).collect();
        Self {
            window: *window,
            wide: weights.iter().map(|weight| (*weight).into()).collect(),
            weights,
            inside: (0..taps).map(inside).collect(),
            pad,
        }
    }

    /// Computes the output.
    pub(super) fn run<S: Number + Element, T: Number>(
        &self,
        context: &Context<'_>,
        x: &[S],
        finish: &Finish,
        out: &mut [T],
        scratch: &mut [Scratch],
    ) {
        let channels = self.window.channels as usize;
        let all = out.len() / channels;
        let ways = context.team.ways(work(all, self.weights.len(), SLOWER));
        let max = (CHUNK_PRODUCTS / self.weights.len()).max(1);
        let each = context.team.piece(ways, all, max);
        let padding = vec![S::narrow(self.pad.into()); if self.pad == 0 { 0 } else { channels }];
        let chunks = out.chunks_mut(each * channels).enumerate();
        context.team.share(ways, scratch, chunks, |scratch, (index, out)| {
            let range = index * each..index * each + out.len() / channels;
            let how = finish.of(0..channels);
            let Scratch { sums, taps, .. } = scratch;
            sums.resize(channels, 0);
            for (place, out) in places(&self.window, range).zip(out.chunks_exact_mut(channels)) {
                let (begin, taps) = self.taps(place, taps);
                let reads = Reads { x: &x[begin..], padding: &padding, layer: self, taps };
                reads.sum(context.path, sums);
                kernels::requantise_row(context.path, sums, &how, out);
            }
        });
    }

    /// The taps of a place that count, and the element from which they are counted.
    fn taps<'a>(&'a self, place: Place, taps: &'a mut Vec<Tap>) -> (usize, &'a [Tap]) {
        let (rows, columns) = (Axis::rows(&self.window), Axis::columns(&self.window));
        let channels = self.window.channels as usize;
        let element = |row: usize, column: usize| {
            ((place.image * rows.lines + row) * columns.lines + column) * channels
        };
        if let (Some(row), Some(column)) = (rows.inside(place.row), columns.inside(place.column)) {
            return (element(row, column), &self.inside);
        }
        taps.clear();
        let mut weights = 0;
        for row in (0..rows.taps).map(|tap| rows.line(place.row, tap)) {
            for column in (0..columns.taps).map(|tap| columns.line(place.column, tap)) {
                let x = row.zip(column).map(|(row, column)| element(row, column));
                if x.is_some() || self.pad != 0 {
                    taps.push(Tap { weights, x });
                }
                weights += channels;
            }
        }
        (0, taps)
    }
}

/// What the sums of one place are made of.
struct Reads<'a, S> {
    x: &'a [S],
    padding: &'a [S],
    layer: &'a Depthwise,
    taps: &'a [Tap],
}

impl<S: Number + Element> Reads<'_, S> {
    /// Writes the sums of all channels: in runs whose sums stay in registers, then the rest.
    fn sum(&self, path: Path, sums: &mut [i32]) {
        let (long, rest) = sums.as_chunks_mut::<LONG_RUN>();
        for (index, sums) in long.iter_mut().enumerate() {
            *sums = self.run(index * LONG_RUN);
        }
        let begin = long.len() * LONG_RUN;
        let (short, rest) = rest.as_chunks_mut::<SHORT_RUN>();
        for (index, sums) in short.iter_mut().enumerate() {
            *sums = self.run(begin + index * SHORT_RUN);
        }
        let begin = begin + short.len() * SHORT_RUN;
        if rest.is_empty() {
            return;
        }
        rest.fill(0);
        for tap in self.taps {
            let weights = &self.layer.weights[tap.weights + begin..][..rest.len()];
            axpy_channels(path, rest, self.read(tap, begin, rest.len()), weights);
        }
    }

    /// The sums of a run of channels.
    #[inline]
    fn run<const RUN: usize>(&self, begin: usize) -> [i32; RUN] {
        let mut sums = [0_i32; RUN];
        for tap in self.taps {
            let x = self.read(tap, begin, RUN).as_array::<RUN>();
            let weights = self.layer.wide[tap.weights + begin..].first_chunk::<RUN>();
            if let (Some(x), Some(weights)) = (x, weights) {
                for ((sum, x), weight) in sums.iter_mut().zip(x).zip(weights) {
                    let x: i32 = (*x).into();
                    *sum = sum.wrapping_add(x.wrapping_mul(*weight));
                }
            }
        }
        sums
    }

    /// What a tap reads in a run of channels.
    #[inline]
    fn read(&self, tap: &Tap, begin: usize, len: usize) -> &[S] {
        match tap.x {
            Some(x) => &self.x[x + begin..][..len],
            None => &self.padding[begin..][..len],
        }
    }
}
