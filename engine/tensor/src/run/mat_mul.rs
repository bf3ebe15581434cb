//! Products of two computed values, batch by batch.

use super::elements::{Elements, Number, Target, to_factors, with_elements, with_target};
use super::product::{self, Columns, Finish, SPLIT_ROWS_MAX};
use super::team::PIECES;
use super::{Context, Scratch};
use crate::kernels::{FEW_ROWS_MAX, Lhs, Out, Rhs, Size, Weights, few_rows, gemm};
use crate::program::ValueId;
use std::ops::Range;

/// Rows of a block: as many as the product kernel takes at once.
const BLOCK_ROWS: usize = 96;

/// `[batch, rows, inner]` times `[batch, columns, inner]`.
#[derive(Debug)]
pub(super) struct MatMul {
    /// The left one.
    pub(super) a: ValueId,
    /// The right one.
    pub(super) b: ValueId,
    /// Rows of the output.
    pub(super) rows: usize,
    /// Columns of the output.
    pub(super) columns: usize,
    /// Products per element.
    pub(super) inner: usize,
    /// Added to each element of `a` and of `b`.
    pub(super) offsets: [i32; 2],
    /// How sums become elements.
    pub(super) finish: Finish,
}

/// What is read during a run.
#[derive(Clone, Copy)]
pub(super) struct Reads<'a> {
    /// The left factor.
    pub(super) a: Elements<'a>,
    /// The right factor.
    pub(super) b: Elements<'a>,
    /// How sums become elements.
    pub(super) finish: &'a Finish,
}

impl MatMul {
    /// Computes the output.
    pub(super) fn run(
        &self,
        context: &Context<'_>,
        reads: Reads<'_>,
        out: Target<'_>,
        scratch: &mut [Scratch],
    ) {
        with_target!(out, out => {
            let each = self.rows * self.columns;
            let batch = out.len() / each;
            let work = product::work(batch * self.rows, self.columns, self.inner);
            let ways = context.team.ways(work);
            let batches = out.chunks_exact_mut(each).enumerate();
            if batch >= ways * PIECES {
                context.team.share(ways, scratch, batches, |scratch, (index, out)| {
                    let scratch = std::slice::from_mut(scratch);
                    self.batch(context, 1, reads.batch(self, index), out, scratch);
                });
            } else {
                batches.for_each(|(index, out)| {
                    self.batch(context, ways, reads.batch(self, index), out, scratch);
                });
            }
        });
    }

    /// One batch, on some threads. `reads` is what this batch reads.
    fn batch<T: Number>(
        &self,
        context: &Context<'_>,
        ways: usize,
        reads: Reads<'_>,
        out: &mut [T],
        scratch: &mut [Scratch],
    ) {
        let (path, depth) = (context.path, self.inner);
        let columns = Columns { first: 0, count: self.columns, all: self.columns };
        let mut packed = std::mem::take(&mut scratch[0].packed);
        let mut left = std::mem::take(&mut scratch[0].rows);
        if self.rows > FEW_ROWS_MAX {
            self.pack(reads.b, &mut scratch[0].gathered, &mut packed);
        }
        if self.rows <= SPLIT_ROWS_MAX {
            let a = self.left(reads.a, 0..self.rows, &mut left);
            let part = |scratch: &mut Scratch, range: Range<usize>, to: Out<'_>| {
                if self.rows > FEW_ROWS_MAX {
                    return gemm(path, a, &packed, range, to);
                }
                let values = self.right(reads.b, range, &mut scratch.gathered);
                few_rows(path, a, Rhs { values, depth }, to);
            };
            let size = product::Size { rows: self.rows, ways };
            product::split(context, size, columns, reads.finish, scratch, out, part);
        } else {
            let rows = context.team.piece(ways, self.rows, BLOCK_ROWS);
            let blocks = out.chunks_mut(rows * self.columns).enumerate();
            context.team.share(ways, scratch, blocks, |scratch, (index, out)| {
                let begin = index * rows;
                let range = begin..begin + out.len() / self.columns;
                let a = self.left(reads.a, range, &mut scratch.rows);
                let sums = &mut scratch.sums;
                product::rows(path, a, &packed, columns, reads.finish, sums, out);
            });
        }
        scratch[0].packed = packed;
        scratch[0].rows = left;
    }

    /// Some rows of the left factor.
    fn left<'a>(&self, a: Elements<'a>, range: Range<usize>, to: &'a mut Vec<i16>) -> Lhs<'a> {
        let rows = range.len();
        let range = range.start * self.inner..range.end * self.inner;
        Lhs { values: factors(a, range, self.offsets[0], to), rows, stride: self.inner }
    }

    /// Some rows of the right factor: columns of the output.
    fn right<'a>(&self, b: Elements<'a>, range: Range<usize>, to: &'a mut Vec<i16>) -> &'a [i16] {
        factors(b, range.start * self.inner..range.end * self.inner, self.offsets[1], to)
    }

    fn pack(&self, b: Elements<'_>, buffer: &mut Vec<i16>, packed: &mut Weights) {
        let size = Size { columns: self.columns, depth: self.inner };
        match b {
            Elements::I8(b) if self.offsets[1] == 0 => packed.pack_rows(b, size, self.inner),
            Elements::I8(_) | Elements::I16(_) | Elements::I32(_) => {
                packed.pack_rows(self.right(b, 0..self.columns, buffer), size, self.inner);
            }
        }
    }
}

/// Some elements with their offset, as factors of 16 bits; in place if they are that already.
fn factors<'a>(
    elements: Elements<'a>,
    range: Range<usize>,
    offset: i32,
    to: &'a mut Vec<i16>,
) -> &'a [i16] {
    if let (Elements::I16(elements), 0) = (elements, offset) {
        return &elements[range];
    }
    to.resize(range.len(), 0);
    with_elements!(elements, elements => to_factors(&elements[range], offset, to));
    to
}

impl Reads<'_> {
    /// What one batch reads.
    fn batch(&self, product: &MatMul, index: usize) -> Self {
        let (a, b) = (product.rows * product.inner, product.columns * product.inner);
        Self { a: self.a.part(index * a, a), b: self.b.part(index * b, b), ..*self }
    }
}
