//! The kernels in plain Rust, for every machine. They are written so that a compiler turns them
//! into vector code, and they are what the other path is compared with.
//!
//! Sums wrap: the caller's bounds exclude it, and a kernel must not have an opinion of its own.
//! The element-wise ones are always inlined, so that the other path can compile the same source
//! with other instructions.

use std::ops::Range;

use super::weights::{PANEL_COLUMNS, Pair, Weights};
use super::{Element, Lhs, Multipliers, Narrow, Out, Requantise, Rhs, SIDE, Square};

/// Rows that share the reading of a panel. Four rows of accumulators fit most register files.
const TILE_ROWS: usize = 4;

pub(super) fn gemm(a: Lhs<'_>, weights: &Weights, columns: Range<usize>, mut out: Out<'_>) {
    let depth = weights.depth();
    for column in columns.clone().step_by(PANEL_COLUMNS) {
        let panel = weights.panel(column / PANEL_COLUMNS);
        let begin = column - columns.start;
        let end = columns.len().min(begin + PANEL_COLUMNS);
        let mut row = 0;
        while row < a.rows {
            let rows = TILE_ROWS.min(a.rows - row);
            let mut write = |acc: &[[i32; PANEL_COLUMNS]]| {
                for (i, acc) in acc.iter().enumerate() {
                    out.row(row + i, columns.len())[begin..end]
                        .copy_from_slice(&acc[..end - begin]);
                }
            };
            if rows == TILE_ROWS {
                write(&tile::<TILE_ROWS>(|i| a.row(row + i, depth), panel));
                row += TILE_ROWS;
            } else {
                write(&tile::<1>(|i| a.row(row + i, depth), panel));
                row += 1;
            }
        }
    }
}

fn tile<'a, const ROWS: usize>(
    row: impl Fn(usize) -> &'a [i16],
    panel: &[Pair],
) -> [[i32; PANEL_COLUMNS]; ROWS] {
    let mut acc = [[0_i32; PANEL_COLUMNS]; ROWS];
    let rows: [(&[[i16; 2]], &[i16]); ROWS] = std::array::from_fn(|i| row(i).as_chunks::<2>());
    for (i, pair) in panel.iter().enumerate() {
        for (acc, (whole, half)) in acc.iter_mut().zip(rows) {
            let x = whole.get(i).copied().unwrap_or_else(|| [half[0], 0]);
            let x = x.map(i32::from);
            for (acc, w) in acc.iter_mut().zip(&pair.0) {
                let [first, second] = w.map(i32::from);
                let sum = x[0].wrapping_mul(first).wrapping_add(x[1].wrapping_mul(second));
                *acc = acc.wrapping_add(sum);
            }
        }
    }
    acc
}

pub(super) fn few_rows<T: Element>(a: Lhs<'_>, b: Rhs<'_, T>, mut out: Out<'_>) {
    for row in 0..a.rows {
        let x = a.row(row, b.depth);
        for (column, out) in out.row(row, b.columns()).iter_mut().enumerate() {
            *out = dot(x, b.row(column));
        }
    }
}

fn dot<T: Element>(x: &[i16], w: &[T]) -> i32 {
    let terms = x.iter().zip(w).map(|(x, w)| i32::from(*x).wrapping_mul((*w).into()));
    terms.fold(0, i32::wrapping_add)
}

/// Two rows of a square side by side, so that two steps of a sum are one instruction.
pub(super) type RowPair = [[i16; 2]; SIDE];

/// The rows of a square in pairs.
#[inline(always)]
pub(super) fn row_pairs(square: &Square) -> [RowPair; SIDE / 2] {
    let mut pairs = [[[0; 2]; SIDE]; SIDE / 2];
    let rows = square.as_chunks::<SIDE>().0.as_chunks::<2>().0;
    for (pair, [first, second]) in pairs.iter_mut().zip(rows) {
        for ((pair, first), second) in pair.iter_mut().zip(first).zip(second) {
            *pair = [first.cast_signed().into(), second.cast_signed().into()];
        }
    }
    pairs
}

pub(super) fn chain(before: &Square, other: &Square, mask: &[u8; SIDE], out: &mut Square) {
    let pairs = row_pairs(other);
    let mut sums = [[0; SIDE]; SIDE];
    for (sums, row) in sums.iter_mut().zip(before.as_chunks::<SIDE>().0) {
        for (pair, x) in pairs.iter().zip(row.as_chunks::<2>().0) {
            let x = x.map(|x| i32::from(x.cast_signed()));
            for (sum, pair) in sums.iter_mut().zip(pair) {
                let [first, second] = pair.map(i32::from);
                *sum += x[0] * first + x[1] * second;
            }
        }
    }
    chain_fold(&sums, other, mask, out);
}

/// Makes bytes of the sums of a step.
#[inline(always)]
pub(super) fn chain_fold(
    sums: &[[i32; SIDE]; SIDE],
    other: &Square,
    mask: &[u8; SIDE],
    out: &mut Square,
) {
    let mut masks = [0; 2 * SIDE];
    masks[..SIDE].copy_from_slice(mask);
    masks[SIDE..].copy_from_slice(mask);
    let rows = out.as_chunks_mut::<SIDE>().0.iter_mut().zip(other.as_chunks::<SIDE>().0);
    for (row, (sums, (out, other))) in sums.iter().zip(rows).enumerate() {
        let mask = masks[row..].iter();
        for (((out, sum), other), mask) in out.iter_mut().zip(sums).zip(other).zip(mask) {
            let rounded = (*sum + (1 << 8)) >> 9;
            *out = rounded.clamp(-128, 127).cast_unsigned() as u8 ^ other ^ mask;
        }
    }
}

#[inline(always)]
pub(super) fn axpy_channels<T: Element>(acc: &mut [i32], x: &[T], w: &[i8]) {
    for ((acc, x), w) in acc.iter_mut().zip(x).zip(w) {
        let x: i32 = (*x).into();
        *acc = acc.wrapping_add(x.wrapping_mul((*w).into()));
    }
}

#[inline(always)]
pub(super) fn widen(from: &[i8], to: &mut [i16]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = (*from).into();
    }
}

#[inline(always)]
pub(super) fn requantise_row<T: Narrow>(acc: &[i32], how: &Requantise<'_>, out: &mut [T]) {
    let scale = Scale::new(how);
    let acc_out = acc.iter().zip(out);
    match (how.bias, how.multipliers) {
        (None, Multipliers::One(multiplier)) => {
            for (acc, out) in acc_out {
                *out = T::narrow(scale.apply(*acc, multiplier));
            }
        }
        (None, Multipliers::PerColumn(multipliers)) => {
            for ((acc, out), multiplier) in acc_out.zip(multipliers) {
                *out = T::narrow(scale.apply(*acc, *multiplier));
            }
        }
        (Some(bias), Multipliers::One(multiplier)) => {
            for ((acc, out), bias) in acc_out.zip(bias) {
                *out = T::narrow(scale.apply(acc.wrapping_add(*bias), multiplier));
            }
        }
        (Some(bias), Multipliers::PerColumn(multipliers)) => {
            for (((acc, out), bias), multiplier) in acc_out.zip(bias).zip(multipliers) {
                *out = T::narrow(scale.apply(acc.wrapping_add(*bias), *multiplier));
            }
        }
    }
}

pub(super) fn look_up_bytes(table: &[i8; 256], x: &[i8], out: &mut [i8]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = table[usize::from(x.cast_unsigned() ^ 0x80)];
    }
}

/// The part of a requantisation that is the same for all columns, with its rounding terms.
struct Scale {
    pre_shift: u32,
    pre_half: i32,
    shift: u32,
    half: i32,
    zero: i32,
    lo: i32,
    hi: i32,
}

impl Scale {
    #[inline(always)]
    fn new(how: &Requantise<'_>) -> Self {
        let half = |shift: u32| if shift == 0 { 0 } else { 1 << (shift - 1) };
        Self {
            pre_shift: how.pre_shift,
            pre_half: half(how.pre_shift),
            shift: how.shift,
            half: half(how.shift),
            zero: how.zero,
            lo: how.lo,
            hi: how.hi,
        }
    }

    #[inline(always)]
    fn apply(&self, value: i32, multiplier: i32) -> i32 {
        let reduced = value.wrapping_add(self.pre_half).wrapping_shr(self.pre_shift);
        let product = reduced.wrapping_mul(multiplier);
        let scaled = product.wrapping_add(self.half).wrapping_shr(self.shift);
        scaled.wrapping_add(self.zero).max(self.lo).min(self.hi)
    }
}
