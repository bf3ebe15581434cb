//! Both paths against the definition, on random sizes. The definition is computed in i64, so that
//! a sum outside i32 would show.

use arbtest::arbitrary::{Result, Unstructured};

use super::*;

const PATHS: [Path; 2] = [Path::Avx2, Path::Portable];
/// What lies between rows, to see that it is neither read nor written.
const GAP: i32 = 0x5a5a_5a5a;

#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    size: Size,
    gap: usize,
}

fn shape(u: &mut Unstructured<'_>, rows_max: usize) -> Result<Shape> {
    let size = Size { columns: u.int_in_range(0..=70)?, depth: depth(u)? };
    Ok(Shape { rows: u.int_in_range(0..=rows_max)?, size, gap: u.int_in_range(0..=5)? })
}

/// Short ones mostly, and some that do not fit one block.
fn depth(u: &mut Unstructured<'_>) -> Result<usize> {
    match u.int_in_range(0..=9)? {
        0 => u.int_in_range(1020..=1100),
        1 => u.int_in_range(2040..=2060),
        _ => u.int_in_range(0..=67),
    }
}

/// Numbers up to `limit`, the extremes often. Long runs are drawn from a small generator, because
/// the bytes of a test case do not last for them.
fn numbers(u: &mut Unstructured<'_>, count: usize, limit: i32) -> Result<Vec<i32>> {
    let mut state: u64 = u.arbitrary()?;
    let extremes: u64 = u.int_in_range(0..=4)?;
    Ok((0..count)
        .map(|_| {
            state =
                state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            match state >> 61 {
                0 if extremes > 0 => -limit,
                1 if extremes > 1 => limit - 1,
                2 if extremes > 2 => 0,
                _ => i32::try_from((state >> 29) % (2 * limit as u64)).expect("small") - limit,
            }
        })
        .collect())
}

fn narrowed<T: Narrow>(wide: &[i32]) -> Vec<T> {
    wide.iter().map(|value| T::narrow(*value)).collect()
}

/// The largest magnitude of activations for which no accumulator exceeds i32.
fn activations_max(depth: usize, weights_max: i64) -> i32 {
    let most = (1_i64 << 30) / (weights_max * i64::try_from(depth.max(1)).expect("small"));
    i32::try_from(most.clamp(1, 32_768)).expect("small")
}

fn product(a: &[i32], b: &[i32]) -> i32 {
    let sum: i64 = a.iter().zip(b).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
    i32::try_from(sum).expect("the caller's guarantee")
}

/// Goal: a product is the defined one for all ranges of columns, and nothing else is written.
/// Method: `run` gets left-hand side, range and result; `a` and `b` are rows without gaps.
fn check(
    shape: Shape,
    columns: Range<usize>,
    a: &[i32],
    b: &[i32],
    run: impl Fn(Path, Lhs<'_>, Range<usize>, Out<'_>),
) {
    let Shape { rows, size: Size { depth, .. }, gap } = shape;
    let stride = depth + gap;
    let mut values = vec![GAP as i16; rows * stride];
    for row in 0..rows {
        values[row * stride..][..depth]
            .copy_from_slice(&narrowed::<i16>(&a[row * depth..][..depth]));
    }
    values.truncate((rows * stride).saturating_sub(gap));
    let out_stride = columns.len() + gap;
    let mut expected = vec![GAP; rows * out_stride];
    for row in 0..rows {
        for (i, column) in columns.clone().enumerate() {
            let a = &a[row * depth..][..depth];
            expected[row * out_stride + i] = product(a, &b[column * depth..][..depth]);
        }
    }
    for path in PATHS {
        let mut out = vec![GAP; rows * out_stride];
        let a = Lhs { values: &values, rows, stride };
        run(path, a, columns.clone(), Out { values: &mut out, stride: out_stride });
        assert_eq!(out, expected, "{path:?} {shape:?} {columns:?}");
    }
}

fn columns_of(u: &mut Unstructured<'_>, size: Size) -> Result<Range<usize>> {
    let panel = u.int_in_range(0..=size.columns / PANEL_COLUMNS)?;
    Ok(panel * PANEL_COLUMNS..u.int_in_range(panel * PANEL_COLUMNS..=size.columns)?)
}

fn packed<T: Copy + Into<i16>>(rows: &[T], size: Size) -> Weights {
    let mut weights = Weights::default();
    weights.pack_rows(rows, size, size.depth);
    weights
}

#[test]
fn prop_gemm_with_weights_is_the_product() {
    arbtest::arbtest(|u| {
        let shape = shape(u, 20)?;
        let a = numbers(u, shape.rows * shape.size.depth, activations_max(shape.size.depth, 128))?;
        let b = numbers(u, shape.size.columns * shape.size.depth, 128)?;
        let weights = packed(&narrowed::<i8>(&b), shape.size);
        check(shape, columns_of(u, shape.size)?, &a, &b, |path, a, columns, out| {
            gemm(path, a, &weights, columns, out);
        });
        Ok(())
    });
}

#[test]
fn prop_gemm_with_a_wide_operand_is_the_product() {
    arbtest::arbtest(|u| {
        let (shape, mut weights) = (shape(u, 20)?, Weights::default());
        let Size { columns, depth } = shape.size;
        let limit: i32 = *u.choose(&[1, 255, 32_768])?;
        let a = numbers(u, shape.rows * depth, activations_max(depth, limit.into()))?;
        let b = numbers(u, columns * depth, limit)?;
        let b16: Vec<i16> = narrowed(&b);
        let range = columns_of(u, shape.size)?;
        weights.pack_rows(&b16, shape.size, depth);
        check(shape, range, &a, &b, |path, a, columns, out| {
            gemm(path, a, &weights, columns, out);
        });
        Ok(())
    });
}

#[test]
fn prop_few_rows_are_the_product() {
    arbtest::arbtest(|u| {
        let mut shape = shape(u, FEW_ROWS_MAX)?;
        shape.size.depth += 1;
        let depth = shape.size.depth;
        let a = numbers(u, shape.rows * depth, activations_max(depth, 32_768))?;
        let b = numbers(u, shape.size.columns * depth, 32_768)?;
        let b16: Vec<i16> = narrowed(&b);
        check(shape, 0..shape.size.columns, &a, &b, |path, a, _, out| {
            few_rows(path, a, Rhs { values: &b16, depth }, out);
        });
        Ok(())
    });
}

/// The largest sums of all: the widest numbers at the largest depth that the bound admits.
#[test]
fn gemm_at_the_bound_is_exact() {
    for (x, w, depth) in [(-32_768, -128, 255), (32_767, -128, 255), (-32_768, 127, 257)] {
        let shape = Shape { rows: 7, size: Size { columns: 17, depth }, gap: 1 };
        let (a, b) = (vec![x; 7 * depth], vec![w; 17 * depth]);
        let weights = packed(&narrowed::<i8>(&b), shape.size);
        check(shape, 0..17, &a, &b, |path, a, columns, out| gemm(path, a, &weights, columns, out));
        let few = Shape { rows: 3, ..shape };
        check(few, 16..17, &a, &b, |path, a, columns, out| gemm(path, a, &weights, columns, out));
    }
}

#[test]
fn gemm_of_many_blocks_is_the_product() {
    let mut u = Unstructured::new(&[7; 64]);
    for depth in [1300, 1301] {
        let shape = Shape { rows: 203, size: Size { columns: 150, depth }, gap: 3 };
        let a = numbers(&mut u, 203 * depth, 128).expect("enough bytes");
        let b = numbers(&mut u, 150 * depth, 128).expect("enough bytes");
        let weights = packed(&narrowed::<i8>(&b), shape.size);
        for columns in [0..150, 0..64, 16..150, 48..49] {
            check(shape, columns, &a, &b, |path, a, columns, out| {
                gemm(path, a, &weights, columns, out);
            });
        }
    }
}

#[test]
#[should_panic(expected = "result too short")]
fn gemm_with_short_result_stops() {
    let weights = packed(&[1_i8; 6], Size { columns: 3, depth: 2 });
    let a = Lhs { values: &[1; 10], rows: 5, stride: 2 };
    gemm(Path::detect(), a, &weights, 0..3, Out { values: &mut [0; 14], stride: 3 });
}

#[test]
#[should_panic(expected = "left-hand side too short")]
fn gemm_with_short_rows_stops() {
    let weights = packed(&[1_i8; 6], Size { columns: 3, depth: 2 });
    let a = Lhs { values: &[1; 10], rows: usize::MAX, stride: usize::MAX };
    gemm(Path::detect(), a, &weights, 0..3, Out { values: &mut [0; 15], stride: 3 });
}

#[test]
fn prop_axpy_and_widen_follow_their_definition() {
    arbtest::arbtest(|u| {
        let count = u.int_in_range(0..=100)?;
        let (x, w) = (numbers(u, count, 32_768)?, numbers(u, count, 128)?);
        let begin = numbers(u, count, 1 << 29)?;
        let (x16, x8, w): (Vec<i16>, Vec<i8>, Vec<i8>) = (narrowed(&x), narrowed(&x), narrowed(&w));
        for path in PATHS {
            let (mut acc16, mut acc8) = (begin.clone(), begin.clone());
            axpy_channels(path, &mut acc16, &x16, &w);
            axpy_channels(path, &mut acc8, &x8, &w);
            let mut wide = vec![0; count];
            widen(path, &x8, &mut wide);
            for c in 0..count {
                assert_eq!(acc16[c], begin[c] + i32::from(x16[c]) * i32::from(w[c]));
                assert_eq!(acc8[c], begin[c] + i32::from(x8[c]) * i32::from(w[c]));
                assert_eq!(wide[c], i16::from(x8[c]));
            }
        }
        Ok(())
    });
}

fn rounded_shift(value: i64, shift: u32) -> i64 {
    if shift == 0 { value } else { (value + (1 << (shift - 1))) >> shift }
}

fn check_requantise<T: Narrow + Into<i64> + Default>(acc: &[i32], how: &Requantise<'_>) {
    for path in PATHS {
        let mut out = vec![T::default(); acc.len()];
        requantise_row(path, acc, how, &mut out);
        for (c, out) in out.into_iter().enumerate() {
            let multiplier = match how.multipliers {
                Multipliers::One(multiplier) => multiplier,
                Multipliers::PerColumn(multipliers) => multipliers[c],
            };
            let value = i64::from(acc[c]) + how.bias.map_or(0, |bias| i64::from(bias[c]));
            let product = rounded_shift(value, how.pre_shift) * i64::from(multiplier);
            let wide = rounded_shift(product, how.shift) + i64::from(how.zero);
            assert_eq!(out.into(), wide.clamp(how.lo.into(), how.hi.into()), "{path:?} {how:?}");
        }
    }
}

#[test]
fn prop_requantise_row_follows_its_definition() {
    arbtest::arbtest(|u| {
        let count = u.int_in_range(0..=70)?;
        let bits = u.int_in_range(1..=30)?;
        let pre_shift = u.int_in_range(0..=31)?;
        let left = (31 - bits.max(pre_shift)).clamp(1, 15);
        let acc = numbers(u, count, 1 << (bits - 1))?;
        let bias = numbers(u, count, 1 << (bits - 1))?;
        let multipliers = numbers(u, count, 1 << (left - 1))?;
        let one = multipliers.first().map_or(1, |multiplier| *multiplier);
        let mut how = Requantise {
            bias: u.arbitrary::<bool>()?.then_some(&bias),
            multipliers: Multipliers::PerColumn(&multipliers),
            pre_shift,
            shift: u.int_in_range(0..=29)?,
            zero: u.int_in_range(-128..=127)?,
            lo: u.int_in_range(-128..=0)?,
            hi: u.int_in_range(0..=127)?,
        };
        if u.arbitrary()? {
            how.multipliers = Multipliers::One(one);
        }
        check_requantise::<i8>(&acc, &how);
        check_requantise::<i16>(&acc, &Requantise { lo: -32_768, hi: 32_767, ..how });
        check_requantise::<i32>(&acc, &Requantise { lo: i32::MIN, hi: i32::MAX, ..how });
        Ok(())
    });
}

#[test]
fn prop_look_ups_find_the_entry_of_each_number() {
    arbtest::arbtest(|u| {
        let count = u.int_in_range(0..=300)?;
        let bytes: Vec<i8> = narrowed(&numbers(u, 256, 128)?);
        let table: &[i8; 256] = bytes.as_array().expect("256 entries");
        let x: Vec<i8> = narrowed(&numbers(u, count, 128)?);
        for path in PATHS {
            let mut out = vec![0; count];
            look_up_bytes(path, table, &x, &mut out);
            let at = |x: &i8| usize::try_from(i32::from(*x) + 128).expect("in the table");
            assert!(x.iter().zip(&out).all(|(x, y)| table[at(x)] == *y), "{path:?}");
        }

        let (lo, len) = *u.choose(&[(-32_768, 65_536_usize), (-300, 601), (0, 32_768)])?;
        let table: Vec<i32> = (0..len).map(|i| lo + i as i32).collect();
        let inside = |x: &i32| usize::try_from(x - lo).is_ok_and(|at| at < len);
        let mut x = numbers(u, count, 32_768)?;
        x.retain(inside);
        let mut out = vec![0; x.len()];
        look_up(&table, lo, &narrowed::<i16>(&x), &mut out);
        assert_eq!(x, out);
        Ok(())
    });
}

#[test]
#[should_panic(expected = "index out of bounds")]
fn look_up_outside_the_table_stops() {
    look_up(&[1, 2, 3], 5, &[4_i16], &mut [0]);
}
