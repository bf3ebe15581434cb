//! The kernels for x86-64 processors with AVX2, by hand where the compiler does not find the
//! multiply-add of pairs (`vpmaddwd`), otherwise the portable source compiled with AVX2.
//!
//! This is the only file of the crate with `unsafe`. Two kinds of it occur: the call of a function
//! that needs AVX2, after asking the processor, and loads and stores through pointers, after
//! asserting the bounds of the slice they point into.
#![expect(unsafe_code, reason = "vector loads, and functions that need AVX2")]

use std::arch::x86_64::{
    __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_shuffle_epi32,
    _mm_unpackhi_epi64, _mm256_add_epi32, _mm256_broadcastsi128_si256, _mm256_castsi256_si128,
    _mm256_cvtepi8_epi16, _mm256_extracti128_si256, _mm256_load_si256, _mm256_loadu_si256,
    _mm256_madd_epi16, _mm256_set1_epi8, _mm256_set1_epi32, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_storeu_si256, _mm256_subs_epi8, _mm256_xor_si256,
};
use std::ops::Range;

use super::weights::{PANEL_COLUMNS, Pair, Weights};
use super::{Element, Lhs, Narrow, Out, Requantise, Rhs, SIDE, Square, portable};

/// Rows of a tile. Six rows of two registers, two of weights, one of activations and one product
/// are the sixteen registers there are.
const TILE_ROWS: usize = 6;
/// Depth of a block in pairs. Longer ones write each accumulator less often; here a panel (32 KiB)
/// still comes from the second cache as fast as it is used.
const BLOCK_PAIRS: usize = 512;
/// Rows of a block, a multiple of [`TILE_ROWS`]. With [`BLOCK_PAIRS`] they take 192 KiB, under half
/// of a second cache of 512 KiB.
const BLOCK_ROWS: usize = 16 * TILE_ROWS;
/// From this many columns on, a copy of the rows in the order of use pays for itself.
const COPY_COLUMNS_MIN: usize = 512;
/// Numbers of 16 bits in a register.
const LANES: usize = 16;
/// Bytes in a register.
const BYTES: usize = 32;
/// Registers of weights per turn of the loop over a column. Four rows of more would not fit.
const UNROLL: usize = 2;

/// Whether this processor can run this file.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2")
}

pub(super) fn gemm(a: Lhs<'_>, weights: &Weights, columns: Range<usize>, out: Out<'_>) {
    assert!(is_available(), "no AVX2");
    // SAFETY: the processor has AVX2.
    unsafe { gemm_blocks(a, weights, columns, out) }
}

pub(super) fn few_rows<T: Element>(a: Lhs<'_>, b: Rhs<'_, T>, mut out: Out<'_>) {
    assert!(is_available(), "no AVX2");
    if b.depth < LANES {
        return portable::few_rows(a, b, out);
    }
    // SAFETY: the processor has AVX2.
    unsafe {
        match a.rows {
            0 => (),
            1 => dot_columns::<1, T>(a, b, &mut out),
            2 => dot_columns::<2, T>(a, b, &mut out),
            3 => dot_columns::<3, T>(a, b, &mut out),
            4 => dot_columns::<4, T>(a, b, &mut out),
            rows => unreachable!("{rows} are not a few rows"),
        }
    }
}

pub(super) fn axpy_channels<T: Element>(acc: &mut [i32], x: &[T], w: &[i8]) {
    #[target_feature(enable = "avx2")]
    fn compiled<T: Element>(acc: &mut [i32], x: &[T], w: &[i8]) {
        portable::axpy_channels(acc, x, w);
    }
    assert!(is_available(), "no AVX2");
    // SAFETY: the processor has AVX2.
    unsafe { compiled(acc, x, w) }
}

pub(super) fn widen(from: &[i8], to: &mut [i16]) {
    #[target_feature(enable = "avx2")]
    fn compiled(from: &[i8], to: &mut [i16]) {
        portable::widen(from, to);
    }
    assert!(is_available(), "no AVX2");
    // SAFETY: the processor has AVX2.
    unsafe { compiled(from, to) }
}

pub(super) fn requantise_row<T: Narrow>(acc: &[i32], how: &Requantise<'_>, out: &mut [T]) {
    #[target_feature(enable = "avx2")]
    fn compiled<T: Narrow>(acc: &[i32], how: &Requantise<'_>, out: &mut [T]) {
        portable::requantise_row(acc, how, out);
    }
    assert!(is_available(), "no AVX2");
    // SAFETY: the processor has AVX2.
    unsafe { compiled(acc, how, out) }
}

pub(super) fn look_up_bytes(table: &[i8; 256], x: &[i8], out: &mut [i8]) {
    assert!(is_available(), "no AVX2");
    let (x, x_rest) = x.as_chunks();
    let (out, out_rest) = out.as_chunks_mut();
    // SAFETY: the processor has AVX2.
    unsafe { look_up_registers(table, x, out) };
    portable::look_up_bytes(table, x_rest, out_rest);
}

pub(super) fn chain(before: &Square, other: &Square, mask: &[u8; SIDE], out: &mut Square) {
    assert!(is_available(), "no AVX2");
    // SAFETY: the processor has AVX2.
    unsafe { chain_rows(before, other, mask, out) }
}

/// Two rows of sums at a time: eight registers of sums, four of the other square, two of this one.
#[target_feature(enable = "avx2")]
fn chain_rows(before: &Square, other: &Square, mask: &[u8; SIDE], out: &mut Square) {
    const REGISTERS: usize = SIDE / 8;
    let pairs = portable::row_pairs(other);
    let mut sums = [[0; SIDE]; SIDE];
    let rows = before.as_chunks::<SIDE>().0.as_chunks::<2>().0;
    for (sums, rows) in sums.as_chunks_mut::<2>().0.iter_mut().zip(rows) {
        let mut acc = [[_mm256_setzero_si256(); REGISTERS]; 2];
        for (place, pair) in pairs.iter().enumerate() {
            let (weights, _) = pair.as_chunks::<8>();
            for (acc, row) in acc.iter_mut().zip(rows) {
                let x = [row[2 * place], row[2 * place + 1]];
                let x = x.map(|x| i32::from(x.cast_signed()));
                let x = _mm256_set1_epi32(x[0] & 0xffff | x[1] << 16);
                for (acc, weights) in acc.iter_mut().zip(weights) {
                    // SAFETY: eight pairs of 16 bits are the 32 bytes of a register.
                    let weights = unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) };
                    *acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(x, weights));
                }
            }
        }
        for (sums, acc) in sums.iter_mut().zip(acc) {
            for (sums, acc) in sums.as_chunks_mut::<8>().0.iter_mut().zip(acc) {
                // SAFETY: eight sums of 32 bits are the 32 bytes of a register.
                unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), acc) };
            }
        }
    }
    portable::chain_fold(&sums, other, mask, out);
}

/// Rows of activations as a tile reads them: the pair of a row begins at
/// `row * row_step + pair * pair_step`.
#[derive(Clone, Copy)]
struct Strip<'a> {
    values: &'a [i16],
    row_step: usize,
    pair_step: usize,
}

/// The accumulators of a tile.
type Tile<const ROWS: usize> = [[__m256i; 2]; ROWS];

/// Block by block: a panel of weights meets all rows of a block before the next panel is read.
#[target_feature(enable = "avx2")]
fn gemm_blocks(a: Lhs<'_>, weights: &Weights, columns: Range<usize>, mut out: Out<'_>) {
    if weights.depth() == 0 {
        return (0..a.rows).for_each(|row| out.row(row, columns.len()).fill(0));
    }
    // A plain row of odd depth ends with half a pair, which only the copy completes.
    let copies = columns.len() >= COPY_COLUMNS_MIN || !weights.depth().is_multiple_of(2);
    let mut copy = Vec::new();
    for pair in (0..weights.pairs()).step_by(BLOCK_PAIRS) {
        let pairs = pair..weights.pairs().min(pair + BLOCK_PAIRS);
        for row in (0..a.rows).step_by(BLOCK_ROWS) {
            let rows = row..a.rows.min(row + BLOCK_ROWS);
            if copies {
                copy_block(a, weights.depth(), rows.clone(), pairs.clone(), &mut copy);
            }
            for column in columns.clone().step_by(PANEL_COLUMNS) {
                let panel = &weights.panel(column / PANEL_COLUMNS)[pairs.clone()];
                let begin = column - columns.start;
                let place = begin..columns.len().min(begin + PANEL_COLUMNS);
                for row in rows.clone().step_by(TILE_ROWS) {
                    let tile_rows = TILE_ROWS.min(rows.end - row);
                    let strip = if copies {
                        let values = copy[(row - rows.start) * pairs.len()..].as_flattened();
                        Strip { values, row_step: 2, pair_step: 2 * tile_rows }
                    } else {
                        let values = &a.values[row * a.stride + 2 * pairs.start..];
                        Strip { values, row_step: a.stride, pair_step: 2 }
                    };
                    let out_at = row * out.stride + place.start;
                    let mut target = Target {
                        values: &mut out.values[out_at..],
                        stride: out.stride,
                        columns: place.len(),
                        adds: pairs.start > 0,
                    };
                    run_tile(tile_rows, strip, panel, &mut target);
                }
            }
        }
    }
}

/// Copies a block so that each tile reads its pairs in one run: all rows of its first pair, all
/// rows of its second pair, and so on. Half a pair is completed with zero.
fn copy_block(
    a: Lhs<'_>,
    depth: usize,
    rows: Range<usize>,
    pairs: Range<usize>,
    copy: &mut Vec<[i16; 2]>,
) {
    copy.resize(rows.len() * pairs.len(), [0; 2]);
    for (tile, to) in copy.chunks_mut(TILE_ROWS * pairs.len()).enumerate() {
        let tile_rows = to.len() / pairs.len();
        for i in 0..tile_rows {
            let row = a.row(rows.start + tile * TILE_ROWS + i, depth);
            let (whole, half) = row[2 * pairs.start..depth.min(2 * pairs.end)].as_chunks::<2>();
            for (to, from) in to[i..].iter_mut().step_by(tile_rows).zip(whole) {
                *to = *from;
            }
            if let [last] = half {
                to[(pairs.len() - 1) * tile_rows + i] = [*last, 0];
            }
        }
    }
}

/// Where the accumulators of a tile go.
struct Target<'a> {
    values: &'a mut [i32],
    stride: usize,
    columns: usize,
    /// Whether they are added to what is there, because it is not the first block of its depth.
    adds: bool,
}

#[target_feature(enable = "avx2")]
fn run_tile(rows: usize, strip: Strip<'_>, panel: &[Pair], target: &mut Target<'_>) {
    match rows {
        1 => store(tile::<1>(strip, panel), target),
        2 => store(tile::<2>(strip, panel), target),
        3 => store(tile::<3>(strip, panel), target),
        4 => store(tile::<4>(strip, panel), target),
        5 => store(tile::<5>(strip, panel), target),
        6 => store(tile::<6>(strip, panel), target),
        rows => unreachable!("a tile of {rows} rows"),
    }
}

/// The products of a few rows with a panel.
#[target_feature(enable = "avx2")]
#[inline]
fn tile<const ROWS: usize>(a: Strip<'_>, panel: &[Pair]) -> Tile<ROWS> {
    let last = (ROWS - 1).saturating_mul(a.row_step);
    let last = last.saturating_add(panel.len().saturating_sub(1).saturating_mul(a.pair_step));
    assert!(last.saturating_add(2) <= a.values.len(), "strip too short");
    let mut acc = [[_mm256_setzero_si256(); 2]; ROWS];
    let mut from = a.values.as_ptr();
    let (twos, one) = panel.as_chunks::<2>();
    for [first, second] in twos {
        // SAFETY: at most `panel.len()` steps are made, so all reads are within `last + 2`.
        unsafe {
            step(&mut acc, from, a.row_step, first);
            step(&mut acc, from.wrapping_add(a.pair_step), a.row_step, second);
        }
        from = from.wrapping_add(2 * a.pair_step);
    }
    if let [last] = one {
        // SAFETY: as above.
        unsafe { step(&mut acc, from, a.row_step, last) };
    }
    acc
}

/// Adds the products of one pair of depths.
///
/// # Safety
/// At `from` and at the `ROWS - 1` places that follow it by `row_step` there are two numbers.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn step<const ROWS: usize>(
    acc: &mut Tile<ROWS>,
    from: *const i16,
    row_step: usize,
    weights: &Pair,
) {
    let begin: *const __m256i = weights.0.as_ptr().cast();
    // SAFETY: a pair is two registers long and aligned.
    let weights = unsafe { [_mm256_load_si256(begin), _mm256_load_si256(begin.add(1))] };
    for (row, acc) in acc.iter_mut().enumerate() {
        // SAFETY: the caller's guarantee.
        let x = unsafe { from.add(row * row_step).cast::<i32>().read_unaligned() };
        let x = _mm256_set1_epi32(x);
        acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(x, weights[0]));
        acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(x, weights[1]));
    }
}

/// Writes the accumulators of a tile, or adds them.
#[target_feature(enable = "avx2")]
#[inline]
fn store<const ROWS: usize>(acc: Tile<ROWS>, target: &mut Target<'_>) {
    for (row, acc) in acc.into_iter().enumerate() {
        let to = &mut target.values[row * target.stride..][..target.columns];
        if let Some(to) = to.as_mut_array::<PANEL_COLUMNS>() {
            let acc = if target.adds { add(acc, to) } else { acc };
            write(acc, to);
        } else {
            let mut values = [0; PANEL_COLUMNS];
            write(acc, &mut values);
            for (to, value) in to.iter_mut().zip(values) {
                *to = if target.adds { to.wrapping_add(value) } else { value };
            }
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn add(acc: [__m256i; 2], values: &[i32; PANEL_COLUMNS]) -> [__m256i; 2] {
    let from: *const __m256i = values.as_ptr().cast();
    // SAFETY: the array is two registers long.
    let values = unsafe { [_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))] };
    [_mm256_add_epi32(acc[0], values[0]), _mm256_add_epi32(acc[1], values[1])]
}

#[target_feature(enable = "avx2")]
#[inline]
fn write(acc: [__m256i; 2], values: &mut [i32; PANEL_COLUMNS]) {
    let to: *mut __m256i = values.as_mut_ptr().cast();
    // SAFETY: the array is two registers long.
    unsafe {
        _mm256_storeu_si256(to, acc[0]);
        _mm256_storeu_si256(to.add(1), acc[1]);
    }
}

/// Numbers that a register of 16-bit lanes can be loaded from.
pub(crate) trait Widen: Sized {
    /// Loads a register.
    ///
    /// # Safety
    /// The processor has AVX2.
    unsafe fn load(from: &[Self; LANES]) -> __m256i;
}

impl Widen for i8 {
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(from: &[Self; LANES]) -> __m256i {
        // SAFETY: the array is as long as what is read.
        _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
    }
}

impl Widen for i16 {
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(from: &[Self; LANES]) -> __m256i {
        // SAFETY: the array is as long as what is read.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }
}

/// Column by column, so that the weights are one run of bytes for the prefetcher.
#[target_feature(enable = "avx2")]
fn dot_columns<const ROWS: usize, T: Element>(a: Lhs<'_>, b: Rhs<'_, T>, out: &mut Out<'_>) {
    let rows: [&[i16]; ROWS] = std::array::from_fn(|row| a.row(row, b.depth));
    let rest = b.depth % LANES;
    // What is left over is read with the numbers before it, and these are multiplied by zero.
    let tails: [[i16; LANES]; ROWS] = rows.map(|row| {
        let mut tail = [0; LANES];
        tail[LANES - rest..].copy_from_slice(&row[b.depth - rest..]);
        tail
    });
    for (column, weights) in b.values.chunks_exact(b.depth).enumerate() {
        let mut acc = dots(&rows, weights);
        if let (1.., Some(last)) = (rest, weights.last_chunk()) {
            for (acc, tail) in acc.iter_mut().zip(&tails) {
                *acc = add_products(*acc, tail, last);
            }
        }
        for (row, acc) in acc.into_iter().enumerate() {
            out.values[row * out.stride + column] = sum(acc);
        }
    }
}

/// The products of some rows with a column, without what is left over after the last register.
#[target_feature(enable = "avx2")]
#[inline]
fn dots<const ROWS: usize, T: Element>(rows: &[&[i16]; ROWS], column: &[T]) -> [__m256i; ROWS] {
    let mut acc = [[_mm256_setzero_si256(); UNROLL]; ROWS];
    let (steps, rest) = column.as_chunks::<LANES>().0.as_chunks::<UNROLL>();
    let rows = rows.map(|row| row.as_chunks::<LANES>().0.as_chunks::<UNROLL>());
    let row_steps = rows.map(|row| &row.0[..steps.len()]);
    for (i, step) in steps.iter().enumerate() {
        for (j, weights) in step.iter().enumerate() {
            for (acc, row) in acc.iter_mut().zip(row_steps) {
                acc[j] = add_products(acc[j], &row[i][j], weights);
            }
        }
    }
    for (i, weights) in rest.iter().enumerate() {
        for (acc, row) in acc.iter_mut().zip(rows) {
            acc[0] = add_products(acc[0], &row.1[i], weights);
        }
    }
    acc.map(|[first, second]| _mm256_add_epi32(first, second))
}

#[target_feature(enable = "avx2")]
#[inline]
fn add_products<T: Element>(acc: __m256i, x: &[i16; LANES], weights: &[T; LANES]) -> __m256i {
    // SAFETY: this function needs AVX2 as well.
    let (x, weights) = unsafe { (i16::load(x), T::load(weights)) };
    _mm256_add_epi32(acc, _mm256_madd_epi16(x, weights))
}

/// The sum of the eight lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn sum(acc: __m256i) -> i32 {
    let four = _mm_add_epi32(_mm256_castsi256_si128(acc), _mm256_extracti128_si256::<1>(acc));
    let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32::<1>(two)))
}

/// The table is cut into sixteen parts of sixteen entries, which a byte shuffle looks up at once.
/// A shuffle takes the low four bits of a number that is not negative and gives zero for others.
/// So, going through the parts of a half of the table, sixteen is subtracted at each, and each part
/// holds its difference (exclusive or) to the part before: what is collected until the number is
/// negative is the entry of the last part that was reached.
#[target_feature(enable = "avx2")]
fn look_up_registers(table: &[i8; 256], x: &[[i8; BYTES]], out: &mut [[i8; BYTES]]) {
    let (parts, _) = table.as_chunks::<LANES>();
    let differences: [__m256i; LANES] = std::array::from_fn(|i| {
        // Each half begins anew.
        let before = if i.is_multiple_of(LANES / 2) { [0; LANES] } else { parts[i - 1] };
        let difference: [i8; LANES] = std::array::from_fn(|j| parts[i][j] ^ before[j]);
        // SAFETY: the array is as long as what is read.
        _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(difference.as_ptr().cast()) })
    });
    let (negative, positive) = differences.split_at(LANES / 2);
    for (x, out) in x.iter().zip(out) {
        // SAFETY: the array is as long as what is read.
        let mut above = unsafe { _mm256_loadu_si256(x.as_ptr().cast()) };
        let mut below = _mm256_xor_si256(above, _mm256_set1_epi8(i8::MIN));
        let mut found = _mm256_setzero_si256();
        for (negative, positive) in negative.iter().zip(positive) {
            found = _mm256_xor_si256(found, _mm256_shuffle_epi8(*positive, above));
            found = _mm256_xor_si256(found, _mm256_shuffle_epi8(*negative, below));
            above = _mm256_subs_epi8(above, _mm256_set1_epi8(16));
            below = _mm256_subs_epi8(below, _mm256_set1_epi8(16));
        }
        // SAFETY: the array is as long as what is written.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), found) };
    }
}
