//! The inner loops: integer matrix products, depthwise steps, requantisation and table look-ups.
//!
//! They are separate from the meaning of the operations because they are the only part that is
//! written twice: [`portable`] in plain Rust for every machine, [`avx2`] for the ones that have it.
//! Both give the same bits. The choice is an argument ([`Path`]), so a test, or a user who
//! mistrusts a machine, can run the same program both ways.
//!
//! Invariants: all arithmetic is exact. The caller guarantees that every sum of the magnitudes of
//! the terms of an accumulator is below 2^30, so the order of the terms is free. Shapes are checked
//! here, once per call, before a path is chosen. Nothing here starts a thread: the caller splits
//! the rows of a product by slicing, its columns by range.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;
#[cfg(test)]
mod tests;
mod weights;

use std::ops::Range;

pub(crate) use weights::{PANEL_COLUMNS, Size, Weights};

/// With up to this many rows a product is bound by the reading of its weights, and reading them in
/// their plain form is half the bytes.
pub(crate) const FEW_ROWS_MAX: usize = 4;

/// Which implementation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// 256-bit integer instructions. Falls back to [`Path::Portable`] where there are none.
    Avx2,
    /// Plain Rust.
    Portable,
}

impl Path {
    /// The fastest path of this machine.
    #[must_use]
    pub fn detect() -> Self {
        if Self::Avx2.is_avx2() { Self::Avx2 } else { Self::Portable }
    }

    /// Whether AVX2 is asked for and there.
    fn is_avx2(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self == Self::Avx2 && avx2::is_available();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }
}

/// Calls the named function of the path's module.
macro_rules! dispatch {
    ($path:expr, $function:ident($($argument:expr),*)) => {{
        #[cfg(target_arch = "x86_64")]
        if $path.is_avx2() {
            return avx2::$function($($argument),*);
        }
        portable::$function($($argument),*)
    }};
}

/// The left-hand side of a product: rows of activations. Rows may overlap (a sliding window).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lhs<'a> {
    /// The numbers, beginning with the first of the first row.
    pub(crate) values: &'a [i16],
    /// How many rows.
    pub(crate) rows: usize,
    /// From the beginning of a row to the beginning of the next.
    pub(crate) stride: usize,
}

impl<'a> Lhs<'a> {
    /// The first `depth` numbers of a row.
    fn row(&self, row: usize, depth: usize) -> &'a [i16] {
        &self.values[row * self.stride..][..depth]
    }

    fn check(&self, depth: usize) {
        let grid = Grid { rows: self.rows, stride: self.stride, width: depth };
        assert!(grid.fits(self.values), "left-hand side too short");
    }
}

/// The result of a product: one accumulator per row and column. What lies between the end of a row
/// and the beginning of the next is left alone.
#[derive(Debug)]
pub(crate) struct Out<'a> {
    /// The accumulators, beginning with the first column of the range of the first row.
    pub(crate) values: &'a mut [i32],
    /// From the beginning of a row to the beginning of the next.
    pub(crate) stride: usize,
}

impl Out<'_> {
    fn row(&mut self, row: usize, columns: usize) -> &mut [i32] {
        &mut self.values[row * self.stride..][..columns]
    }

    fn check(&self, rows: usize, columns: usize) {
        let grid = Grid { rows, stride: self.stride, width: columns };
        assert!(rows < 2 || self.stride >= columns, "rows of the result overlap");
        assert!(grid.fits(self.values), "result too short");
    }
}

/// Rows at equal distances.
struct Grid {
    rows: usize,
    stride: usize,
    width: usize,
}

impl Grid {
    /// Whether all rows are within the values. The last one need not be followed by a gap.
    fn fits<T>(&self, values: &[T]) -> bool {
        let Some(last) = self.rows.checked_sub(1) else { return true };
        let end = last.checked_mul(self.stride).and_then(|begin| begin.checked_add(self.width));
        end.is_some_and(|end| end <= values.len())
    }
}

/// Writes the products of all rows of `a` with the weights of a range of columns to `out`, whose
/// first column is the first of the range. The range begins at a multiple of [`PANEL_COLUMNS`].
pub(crate) fn gemm(path: Path, a: Lhs<'_>, weights: &Weights, columns: Range<usize>, out: Out<'_>) {
    assert!(columns.start.is_multiple_of(PANEL_COLUMNS), "range begins inside a panel");
    assert!(columns.start <= columns.end && columns.end <= weights.columns(), "no such columns");
    a.check(weights.depth());
    out.check(a.rows, columns.len());
    dispatch!(path, gemm(a, weights, columns, out));
}

/// A right-hand side in its plain form: one row of `depth` numbers per column of the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhs<'a, T> {
    /// The numbers without gaps. For some of the columns, slice them.
    pub(crate) values: &'a [T],
    /// How many numbers a row has.
    pub(crate) depth: usize,
}

impl<'a, T> Rhs<'a, T> {
    fn columns(&self) -> usize {
        self.values.len().checked_div(self.depth).unwrap_or(0)
    }

    fn row(&self, column: usize) -> &'a [T] {
        &self.values[column * self.depth..][..self.depth]
    }
}

/// What a right-hand side can be made of.
#[cfg(target_arch = "x86_64")]
pub(crate) trait Element: Copy + Into<i32> + Into<i16> + avx2::Widen {}
/// What a right-hand side can be made of.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) trait Element: Copy + Into<i32> + Into<i16> {}
impl Element for i8 {}
impl Element for i16 {}

/// Like [`gemm`] for at most [`FEW_ROWS_MAX`] rows, without packing. A depth of zero has no columns
/// to be counted, so nothing is written then.
pub(crate) fn few_rows<T: Element>(path: Path, a: Lhs<'_>, b: Rhs<'_, T>, out: Out<'_>) {
    assert!(a.rows <= FEW_ROWS_MAX, "more than a few rows");
    assert!(b.values.len() == b.columns() * b.depth, "last row is not whole");
    a.check(b.depth);
    out.check(a.rows, b.columns());
    dispatch!(path, few_rows(a, b, out));
}

/// One tap of a depthwise convolution: `acc[c] += x[c] * w[c]` for a run of channels.
pub(crate) fn axpy_channels<T: Element>(path: Path, acc: &mut [i32], x: &[T], w: &[i8]) {
    assert!(acc.len() == x.len() && acc.len() == w.len(), "runs of different length");
    dispatch!(path, axpy_channels(acc, x, w));
}

/// Copies to the wider type.
pub(crate) fn widen(path: Path, from: &[i8], to: &mut [i16]) {
    assert!(from.len() == to.len(), "copy of different length");
    dispatch!(path, widen(from, to));
}

/// The factors of a requantisation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Multipliers<'a> {
    /// The same for all columns.
    One(i32),
    /// One per column.
    PerColumn(&'a [i32]),
}

/// How accumulators become outputs: `v = acc + bias`, `r = v >> pre_shift`, `u = r * multiplier`,
/// `q = u >> shift`, `y = clamp(q + zero, lo, hi)`. Shifts round to nearest, halves up, and the
/// caller guarantees that nothing, rounding terms included, leaves i32.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requantise<'a> {
    /// Added to the accumulators, one per column.
    pub(crate) bias: Option<&'a [i32]>,
    /// Factors.
    pub(crate) multipliers: Multipliers<'a>,
    /// Bits dropped before the multiplication, at most 31.
    pub(crate) pre_shift: u32,
    /// Bits dropped after the multiplication, at most 31.
    pub(crate) shift: u32,
    /// The zero point of the output.
    pub(crate) zero: i32,
    /// The smallest output.
    pub(crate) lo: i32,
    /// The largest output.
    pub(crate) hi: i32,
}

/// What outputs can be.
pub(crate) trait Narrow: Copy {
    /// The smallest value.
    const LO: i32;
    /// The largest value.
    const HI: i32;
    /// Drops the upper bits. Exact between [`Narrow::LO`] and [`Narrow::HI`].
    fn narrow(wide: i32) -> Self;
}

macro_rules! narrow {
    ($($narrow:ty),*) => {$(
        impl Narrow for $narrow {
            const LO: i32 = <$narrow>::MIN as i32;
            const HI: i32 = <$narrow>::MAX as i32;
            fn narrow(wide: i32) -> Self {
                wide as Self
            }
        }
    )*};
}
narrow!(i8, i16, i32);

/// Turns a row of accumulators into outputs.
pub(crate) fn requantise_row<T: Narrow>(
    path: Path,
    acc: &[i32],
    how: &Requantise<'_>,
    out: &mut [T],
) {
    assert!(acc.len() == out.len(), "row of different length");
    assert!(how.bias.is_none_or(|bias| bias.len() == acc.len()), "bias of different length");
    if let Multipliers::PerColumn(multipliers) = how.multipliers {
        assert!(multipliers.len() == acc.len(), "multipliers of different length");
    }
    assert!(how.pre_shift < 32 && how.shift < 32, "shift of more than a word");
    assert!(T::LO <= how.lo && how.lo <= how.hi && how.hi <= T::HI, "bounds outside the type");
    dispatch!(path, requantise_row(acc, how, out));
}

/// Rows and columns of a square of bytes.
pub(crate) const SIDE: usize = 32;

/// A square of bytes, row by row.
pub(crate) type Square = [u8; SIDE * SIDE];

/// One step of a chain of squares: the product of two, as signed bytes, rounded to nearest by 2^9
/// and saturated; then combined with the second one and with the mask, which moves by one byte in
/// every row.
pub(crate) fn chain(
    path: Path,
    before: &Square,
    other: &Square,
    mask: &[u8; SIDE],
    out: &mut Square,
) {
    dispatch!(path, chain(before, other, mask, out));
}

/// Looks up every byte in a table whose first entry belongs to -128.
pub(crate) fn look_up_bytes(path: Path, table: &[i8; 256], x: &[i8], out: &mut [i8]) {
    assert!(x.len() == out.len(), "look-up of different length");
    dispatch!(path, look_up_bytes(table, x, out));
}

/// Looks up every number in a table whose first entry belongs to `lo`. Numbers outside the table
/// are a broken invariant of the caller and stop. One source
/// serves both paths: there is no vector instruction that does better.
pub(crate) fn look_up<X: Copy + Into<i32>, T: Copy>(table: &[T], lo: i32, x: &[X], out: &mut [T]) {
    assert!(x.len() == out.len(), "look-up of different length");
    for (out, x) in out.iter_mut().zip(x) {
        let x: i32 = (*x).into();
        *out = table[x.wrapping_sub(lo).cast_unsigned() as usize];
    }
}
