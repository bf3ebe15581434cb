//! What matrix products of all kinds share: how sums become elements, and how a product is cut into
//! blocks and spread over threads.

use super::elements::Number;
use super::{Context, Scratch};
use crate::kernels::{self, Lhs, Multipliers, Out, PANEL_COLUMNS, Path, Requantise, Weights, gemm};
use crate::program::{Rescale, Spec};
use std::ops::Range;

/// Multiplications that a thread does in a thousandth of a microsecond, roughly.
const PRODUCTS_PER_WORK: u64 = 32;

/// Rows of few columns are finished several at a time, up to this many sums: starting to finish a
/// row takes as long as finishing tens of sums.
const SHORT_COLUMNS_MAX: usize = 256;

/// Columns of a block of sums: with the rows of a block they stay in half of a second cache.
const BLOCK_COLUMNS: usize = 512;

/// Up to this many rows a product is split by columns: reading the weights takes longer than
/// reading the rows, so threads should not read the same weights.
pub(super) const SPLIT_ROWS_MAX: usize = 32;

/// The work of a product (see [`super::team::HELPER_WORK_MIN`]).
pub(super) fn work(rows: usize, columns: usize, depth: usize) -> u64 {
    let products = (rows as u64).saturating_mul(columns as u64).saturating_mul(depth as u64);
    products / PRODUCTS_PER_WORK
}

/// How sums become elements.
#[derive(Clone, Debug)]
pub(super) struct Finish {
    /// One for each column.
    pub(super) bias: Option<Vec<i32>>,
    multipliers: Vec<i32>,
    /// How often the columns stand one after the other in `bias` and `multipliers`.
    repeats: usize,
    pre_shift: u32,
    shift: u32,
    zero: i32,
    lo: i32,
    hi: i32,
}

impl Finish {
    /// The rescale of an operation.
    pub(super) fn new(bias: Option<Vec<i32>>, rescale: &Rescale, spec: &Spec) -> Self {
        let each = rescale.multipliers.as_slice();
        let columns = bias.as_ref().map_or(each.len(), Vec::len).max(each.len()).max(1);
        let repeats = (SHORT_COLUMNS_MAX / columns).max(1);
        Self {
            bias: bias.map(|bias| bias.repeat(repeats)),
            multipliers: if each.len() == 1 { each.to_vec() } else { each.repeat(repeats) },
            repeats,
            pre_shift: rescale.pre_shift.into(),
            shift: rescale.shift.into(),
            zero: rescale.zero,
            lo: spec.lo,
            hi: spec.hi,
        }
    }

    /// The sums with their biases, as they are.
    pub(super) fn raw(&self) -> Self {
        let (lo, hi) = (i32::MIN, i32::MAX);
        let (bias, repeats) = (self.bias.clone(), self.repeats);
        Self { bias, multipliers: vec![1], repeats, pre_shift: 0, shift: 0, zero: 0, lo, hi }
    }

    /// For some of the columns, which may be those of several rows.
    pub(super) fn of(&self, columns: Range<usize>) -> Requantise<'_> {
        let multipliers = match &self.multipliers[..] {
            [one] => Multipliers::One(*one),
            each => Multipliers::PerColumn(&each[columns.clone()]),
        };
        let bias = self.bias.as_ref().map(|bias| &bias[columns]);
        self.with(bias, multipliers)
    }

    /// For numbers that all belong to one column, without its bias.
    pub(super) fn for_all(&self, column: usize) -> Requantise<'_> {
        let one = match &self.multipliers[..] {
            [one] => *one,
            each => each[column],
        };
        self.with(None, Multipliers::One(one))
    }

    /// Whether all columns are treated alike.
    pub(super) fn is_uniform(&self) -> bool {
        self.multipliers.len() == 1 && self.bias.is_none()
    }

    fn with<'a>(&self, bias: Option<&'a [i32]>, multipliers: Multipliers<'a>) -> Requantise<'a> {
        let Self { pre_shift, shift, zero, lo, hi, .. } = *self;
        Requantise { bias, multipliers, pre_shift, shift, zero, lo, hi }
    }
}

/// Where the columns of a product stand among those of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    /// The operation's column that is the product's first.
    pub(super) first: usize,
    /// How many the product has.
    pub(super) count: usize,
    /// How many the operation has.
    pub(super) all: usize,
}

/// Computes whole rows of a product on this thread. `out` begins with the first row's first column
/// of the operation.
pub(super) fn rows<T: Number>(
    path: Path,
    a: Lhs<'_>,
    weights: &Weights,
    columns: Columns,
    finish: &Finish,
    sums: &mut Vec<i32>,
    out: &mut [T],
) {
    for begin in (0..columns.count).step_by(BLOCK_COLUMNS) {
        let range = begin..columns.count.min(begin + BLOCK_COLUMNS);
        sums.resize(a.rows * range.len(), 0);
        let to = Out { values: sums, stride: range.len() };
        gemm(path, a, weights, range.clone(), to);
        write(path, sums, range, columns, finish, out);
    }
}

/// How large a split product is and on how many threads it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Rows, at most [`SPLIT_ROWS_MAX`].
    pub(super) rows: usize,
    /// Threads.
    pub(super) ways: usize,
}

/// Computes a product of few rows, split by columns. `part` writes the sums of a range of columns.
pub(super) fn split<T: Number>(
    context: &Context<'_>,
    size: Size,
    columns: Columns,
    finish: &Finish,
    scratch: &mut [Scratch],
    out: &mut [T],
    part: impl Fn(&mut Scratch, Range<usize>, Out<'_>) + Sync,
) {
    let Size { rows, ways } = size;
    let width = context.team.piece(ways, columns.count, columns.count);
    let width = width.next_multiple_of(PANEL_COLUMNS);
    let mut sums = std::mem::take(&mut scratch[0].split);
    sums.resize(rows * columns.count, 0);
    let range = |piece: usize| piece * width..columns.count.min((piece + 1) * width);
    let chunks = sums.chunks_mut(rows * width).enumerate();
    context.team.share(ways, scratch, chunks, |scratch, (piece, values)| {
        let range = range(piece);
        part(scratch, range.clone(), Out { values, stride: range.len() });
    });
    for (piece, sums) in sums.chunks(rows * width).enumerate() {
        write(context.path, sums, range(piece), columns, finish, out);
    }
    scratch[0].split = sums;
}

/// Turns sums of a range of columns into elements, row by row.
fn write<T: Number>(
    path: Path,
    sums: &[i32],
    range: Range<usize>,
    columns: Columns,
    finish: &Finish,
    out: &mut [T],
) {
    let among = columns.first + range.start..columns.first + range.end;
    if range.len() == columns.all && finish.repeats > 1 {
        let several = finish.repeats * columns.all;
        for (sums, out) in sums.chunks(several).zip(out.chunks_mut(several)) {
            let out = &mut out[..sums.len()];
            kernels::requantise_row(path, sums, &finish.of(0..sums.len()), out);
        }
        return;
    }
    let how = finish.of(among.clone());
    let rows = sums.chunks_exact(range.len()).zip(out.chunks_exact_mut(columns.all));
    for (sums, out) in rows {
        kernels::requantise_row(path, sums, &how, &mut out[among.clone()]);
    }
}
