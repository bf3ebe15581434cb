//! Products with constant weights: matrix products and convolutions.
//!
//! All are products of rows (the windows of output places) with columns of weights. How they are
//! computed is chosen once, by their shape ([`Way`]); the sums are the same whichever way.

use super::depthwise::{self, Depthwise};
use super::elements::{Elements, Number, Target, with_target};
use super::gather::Rows;
use super::product::{self, Columns, Finish, SPLIT_ROWS_MAX};
use super::team::PIECES;
use super::{Context, Scratch};
use crate::kernels::{self, FEW_ROWS_MAX, Lhs, Out, Path, Rhs, Weights, few_rows, gemm, widen};
use crate::program::{ValueId, Window};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of the rows of a block: a third of a second cache of 512 KiB, which also holds the sums.
const BLOCK_BYTES: usize = 192 << 10;

/// Bytes of the rows of a block at most, however many products a sum has.
const BLOCK_BYTES_MAX: usize = 32 << 20;

/// Rows of a block at least, as each block reads all weights once.
const BLOCK_ROWS_MIN: usize = 24;

/// Rows of a block at most: as many as the product kernel takes at once.
const BLOCK_ROWS_MAX: usize = 96;

/// Rows that the product kernel takes together; blocks are multiples of it.
const TILE_ROWS: usize = 6;

/// Bytes of a cache line.
const CACHE_LINE: usize = 64;

/// With up to this many columns in a group, columns are cheaper to exchange with rows than to pad.
const FEW_COLUMNS_MAX: usize = FEW_ROWS_MAX;

/// How a product is computed.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// Each channel has its own window.
    Depthwise(Depthwise),
    /// At most [`FEW_ROWS_MAX`] rows: weights as they are in the model.
    FewRows,
    /// At most [`FEW_COLUMNS_MAX`] columns in a group: the weights are the rows of 16 bits.
    FewColumns(Arc<[i16]>),
    /// Anything else: weights packed, by group.
    Packed(Arc<[Weights]>),
}

/// The shape of a product with constant weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// How the input is looked at.
    pub(super) window: Window,
    /// Output channels.
    pub(super) columns: usize,
    /// Independent groups.
    pub(super) groups: usize,
}

impl Shape {
    /// Output places.
    pub(super) fn rows(&self) -> usize {
        self.window.batch as usize * self.window.positions() as usize
    }

    /// Input channels of a group.
    fn each(&self) -> usize {
        self.window.channels as usize / self.groups
    }

    /// Products per sum.
    pub(super) fn depth(&self) -> usize {
        self.window.taps() as usize * self.each()
    }

    /// Products per sum when weights are packed: gathered rows are made even, which the product
    /// kernel takes without a copy.
    pub(super) fn packed_depth(&self) -> usize {
        let depth = self.depth();
        if self.window.is_pointwise() { depth } else { depth.next_multiple_of(2) }
    }

    /// Output channels of a group.
    pub(super) fn per_group(&self) -> usize {
        self.columns / self.groups
    }

    /// Whether its rows are so few that it is split by columns.
    fn is_split(&self) -> bool {
        self.rows() <= SPLIT_ROWS_MAX && 2 * self.rows() * self.depth() <= BLOCK_BYTES_MAX
    }

    /// How it is computed. `packed` packs the weights, or finds them if they are packed already.
    pub(super) fn way(
        &self,
        weights: &[i8],
        pad: i16,
        packed: impl FnOnce() -> Arc<[Weights]>,
    ) -> Way {
        let is_depthwise = self.each() == 1 && self.per_group() == 1;
        if is_depthwise && self.columns >= depthwise::CHANNELS_MIN {
            Way::Depthwise(Depthwise::new(&self.window, weights, pad))
        } else if self.rows() <= FEW_ROWS_MAX {
            Way::FewRows
        } else if self.per_group() <= FEW_COLUMNS_MAX {
            Way::FewColumns(weights.iter().map(|weight| (*weight).into()).collect())
        } else {
            Way::Packed(packed())
        }
    }

    /// Rows of a block when there are this many threads.
    fn block_rows(&self, ways: usize) -> usize {
        let cap = (BLOCK_BYTES / 2 / self.depth()).clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX);
        let rows = if ways == 1 { cap } else { cap.min(self.rows().div_ceil(ways * PIECES)) };
        let rows = rows.max(BLOCK_ROWS_MIN).next_multiple_of(TILE_ROWS);
        rows.min((BLOCK_BYTES_MAX / 2 / self.depth()).max(1))
    }
}

/// A product with constant weights.
#[derive(Debug)]
pub(super) struct Linear {
    /// What is read.
    pub(super) x: ValueId,
    /// The constant.
    pub(super) weights: ValueId,
    /// Its shape.
    pub(super) shape: Shape,
    /// What padding counts as.
    pub(super) pad: i16,
    /// How sums become elements.
    pub(super) finish: Finish,
    /// How it is computed.
    pub(super) way: Way,
}

/// What is read during a run.
#[derive(Clone, Copy)]
pub(super) struct Reads<'a> {
    /// The input.
    pub(super) x: Elements<'a>,
    /// The weights as they are in the model.
    pub(super) weights: &'a [i8],
    /// How sums become elements.
    pub(super) finish: &'a Finish,
}

impl Linear {
    /// Computes the output.
    pub(super) fn run(
        &self,
        context: &Context<'_>,
        reads: Reads<'_>,
        out: Target<'_>,
        scratch: &mut [Scratch],
    ) {
        with_target!(out, out => match &self.way {
            Way::Depthwise(layer) => match reads.x {
                Elements::I8(x) => layer.run(context, x, reads.finish, out, scratch),
                Elements::I16(x) => layer.run(context, x, reads.finish, out, scratch),
                Elements::I32(_) => unreachable!("factors have 16 bits"),
            },
            Way::FewRows => self.by_columns(context, reads, out, scratch),
            Way::Packed(_) if self.shape.is_split() => {
                self.by_columns(context, reads, out, scratch);
            }
            Way::FewColumns(_) | Way::Packed(_) => self.by_rows(context, reads, out, scratch),
        });
    }

    /// Blocks of rows, spread over threads.
    fn by_rows<T: Number>(
        &self,
        context: &Context<'_>,
        reads: Reads<'_>,
        out: &mut [T],
        scratch: &mut [Scratch],
    ) {
        let shape = &self.shape;
        let ways = context.team.ways(product::work(shape.rows(), shape.columns, shape.depth()));
        let rows = shape.block_rows(ways);
        let chunks = out.chunks_mut(rows * shape.columns).enumerate();
        context.team.share(ways, scratch, chunks, |scratch, (index, out)| {
            let range = index * rows..index * rows + out.len() / shape.columns;
            let Scratch { rows, gathered, bases, sums, .. } = scratch;
            let whole = self.whole(context.path, reads.x, range.clone(), rows);
            let block = Block { x: reads.x, whole, range };
            for group in 0..shape.groups {
                let a = self.group(&block, group, Buffers { bases, gathered });
                let columns = self.columns(group);
                match &self.way {
                    Way::Packed(weights) => {
                        let weights = &weights[group];
                        product::rows(context.path, a, weights, columns, reads.finish, sums, out);
                    }
                    Way::FewColumns(weights) => {
                        let begin = group * columns.count * shape.depth();
                        let weights = &weights[begin..][..columns.count * shape.depth()];
                        exchanged(context.path, a, weights, columns, reads.finish, sums, out);
                    }
                    Way::Depthwise(_) | Way::FewRows => unreachable!("not computed by rows"),
                }
            }
        });
    }

    /// Few rows: each thread takes some of the columns.
    fn by_columns<T: Number>(
        &self,
        context: &Context<'_>,
        reads: Reads<'_>,
        out: &mut [T],
        scratch: &mut [Scratch],
    ) {
        let (shape, path) = (&self.shape, context.path);
        let (rows, depth) = (shape.rows(), shape.depth());
        let mut whole = std::mem::take(&mut scratch[0].rows);
        let mut gathered = std::mem::take(&mut scratch[0].gathered);
        let mut bases = std::mem::take(&mut scratch[0].bases);
        let shared = self.whole(path, reads.x, 0..rows, &mut whole);
        let block = Block { x: reads.x, whole: shared, range: 0..rows };
        for group in 0..shape.groups {
            let buffers = Buffers { bases: &mut bases, gathered: &mut gathered };
            let a = self.group(&block, group, buffers);
            let columns = self.columns(group);
            let part = |_: &mut Scratch, range: Range<usize>, to: Out<'_>| match &self.way {
                Way::Packed(weights) => gemm(path, a, &weights[group], range, to),
                Way::FewRows => {
                    let range = columns.first + range.start..columns.first + range.end;
                    let values = &reads.weights[range.start * depth..range.end * depth];
                    few_rows(path, a, Rhs { values, depth }, to);
                }
                Way::Depthwise(_) | Way::FewColumns(_) => unreachable!("not split by columns"),
            };
            let ways = context.team.ways(product::work(rows, columns.count, depth));
            let size = product::Size { rows, ways };
            product::split(context, size, columns, reads.finish, scratch, out, part);
        }
        scratch[0].rows = whole;
        scratch[0].gathered = gathered;
        scratch[0].bases = bases;
    }

    fn columns(&self, group: usize) -> Columns {
        let count = self.shape.per_group();
        Columns { first: group * count, count, all: self.shape.columns }
    }

    /// If every output place reads its own input place: some of them, all channels, as factors.
    fn whole<'a>(
        &self,
        path: Path,
        x: Elements<'a>,
        range: Range<usize>,
        buffer: &'a mut Vec<i16>,
    ) -> Option<&'a [i16]> {
        if !self.shape.window.is_pointwise() {
            return None;
        }
        let channels = self.shape.window.channels as usize;
        let range = range.start * channels..range.end * channels;
        match x {
            Elements::I16(x) => Some(&x[range]),
            Elements::I8(x) => {
                let to = aligned(buffer, range.len());
                widen(path, &x[range], to);
                Some(to)
            }
            Elements::I32(_) => unreachable!("factors have 16 bits"),
        }
    }

    /// How rows are gathered, if not every output place reads just its own input place.
    fn gathered(&self) -> Rows<'_> {
        let stride = match &self.way {
            Way::Packed(_) => self.shape.packed_depth(),
            Way::Depthwise(_) | Way::FewRows | Way::FewColumns(_) => self.shape.depth(),
        };
        Rows { window: &self.shape.window, pad: self.pad, stride }
    }

    /// The rows of a group. The groups of a block come one after the other.
    fn group<'a>(&self, block: &Block<'a>, group: usize, buffers: Buffers<'a>) -> Lhs<'a> {
        let (each, rows) = (self.shape.each(), block.range.len());
        if let Some(whole) = block.whole {
            let stride = self.shape.window.channels as usize;
            return Lhs { values: &whole[group * each..], rows, stride };
        }
        let Buffers { bases, gathered } = buffers;
        let how = self.gathered();
        if self.shape.groups == 1 {
            how.gather(block.x, block.range.clone(), gathered);
        } else {
            if group == 0 {
                how.find(block.range.clone(), bases);
            }
            how.gather_group(block.x, group * each..(group + 1) * each, bases, gathered);
        }
        Lhs { values: gathered, rows, stride: how.stride }
    }
}

/// `len` places of a buffer that begin where a cache line does: the kernels read them many times,
/// and reads across two lines take twice as long.
fn aligned(buffer: &mut Vec<i16>, len: usize) -> &mut [i16] {
    buffer.resize(len + CACHE_LINE / 2, 0);
    let skip = buffer.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE / 2);
    &mut buffer[skip..skip + len]
}

/// Some rows of a product, and what they read.
struct Block<'a> {
    x: Elements<'a>,
    /// What they read, as factors, if every output place reads just its own input place.
    whole: Option<&'a [i16]>,
    range: Range<usize>,
}

/// Where rows are gathered.
struct Buffers<'a> {
    bases: &'a mut Vec<usize>,
    gathered: &'a mut Vec<i16>,
}

/// A product of few columns: the weights are taken as rows, so the sums come column by column.
fn exchanged<T: Number>(
    path: Path,
    a: Lhs<'_>,
    weights: &[i16],
    columns: Columns,
    finish: &Finish,
    sums: &mut Vec<i32>,
    out: &mut [T],
) {
    let depth = weights.len() / columns.count;
    let left = Lhs { values: weights, rows: columns.count, stride: depth };
    sums.resize(2 * columns.count * a.rows, 0);
    let (sums, elements) = sums.split_at_mut(columns.count * a.rows);
    if a.stride == depth {
        let right = Rhs { values: &a.values[..a.rows * depth], depth };
        few_rows(path, left, right, Out { values: sums, stride: a.rows });
    } else {
        for row in 0..a.rows {
            let right = Rhs { values: &a.values[row * a.stride..][..depth], depth };
            few_rows(path, left, right, Out { values: &mut sums[row..], stride: a.rows });
        }
    }
    let by_column = sums.chunks_exact_mut(a.rows).zip(elements.chunks_exact_mut(a.rows));
    for (column, (sums, elements)) in by_column.enumerate() {
        let column = columns.first + column;
        if let Some(bias) = finish.bias.as_ref().map(|bias| bias[column]) {
            sums.iter_mut().for_each(|sum| *sum = sum.wrapping_add(bias));
        }
        kernels::requantise_row(path, sums, &finish.for_all(column), elements);
        let out = out[column..].iter_mut().step_by(columns.all);
        for (out, element) in out.zip(elements) {
            *out = T::narrow(*element);
        }
    }
}
