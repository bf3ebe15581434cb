//! Linear operations and products of two values.

use super::kernels::{Kernel, Variant};
use super::launch::{Finish, Launch, RUN, Source, window_words};
use super::memory::pack;
use super::prepare::Prepare;
use crate::program::{Operation, Primitive, Rescale, Spec, Width, Window};

/// Rows and columns of a tile.
const TILE: u32 = 64;

/// Bytes that one step of a sum multiplies.
const PACKED: u32 = 4;

/// Groups of fewer columns are computed element by element: most of a tile would be empty.
const TILE_COLUMNS_MIN: u32 = 8;

/// `Params` of `product.wgsl`, besides the window.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    rows: u32,
    columns: u32,
    per_group: u32,
    /// Groups or batches.
    groups: u32,
    depth: u32,
    row_steps: u32,
    group_steps: u32,
    group_elements: u32,
    each: u32,
    pad: u32,
    offset_a: i32,
    offset_b: i32,
    offsets: i32,
}

impl Shape {
    fn row_tiles(&self) -> u32 {
        self.rows.div_ceil(TILE)
    }

    fn column_tiles(&self) -> u32 {
        self.per_group.div_ceil(TILE)
    }

    /// Every tile has an element, and there are at most 2^28 of those.
    fn tiles(&self) -> u32 {
        self.row_tiles().saturating_mul(self.column_tiles()).saturating_mul(self.groups)
    }

    fn words(&self, finish: &Finish, window: [u32; 16]) -> Vec<u32> {
        let shape = [
            self.rows,
            self.columns,
            self.per_group,
            self.depth,
            self.row_tiles(),
            self.column_tiles(),
            self.row_steps,
            self.group_steps,
            self.group_elements,
            self.each,
            self.pad,
            self.offset_a.cast_unsigned(),
            self.offset_b.cast_unsigned(),
            self.offsets.cast_unsigned(),
            0,
            0,
        ];
        [&finish.words()[..], &shape, &window].concat()
    }
}

/// What the variants of the product kernels differ in.
#[derive(Clone, Copy, Debug)]
struct How {
    kernel: Kernel,
    is_packed: bool,
    is_windowed: bool,
    has_offsets: bool,
    a: Width,
    b: Width,
    out: Width,
}

impl How {
    fn variant(&self) -> Variant {
        let constants = vec![
            ("OUT_PACK", pack(self.out)),
            ("PACKED", self.is_packed.into()),
            ("WINDOWED", self.is_windowed.into()),
            ("OFFSETS", self.has_offsets.into()),
            ("A_PACK", pack(self.a)),
            ("B_PACK", pack(self.b)),
        ];
        Variant { kernel: self.kernel, constants }
    }
}

impl Prepare<'_> {
    pub(super) fn linear(&mut self, operation: &Operation) -> Option<Launch> {
        let Primitive::Linear { x, weights, bias, window, columns, groups, pad, rescale, .. } =
            &operation.primitive
        else {
            return None;
        };
        let (out, spec) = (&operation.spec, self.spec(*x)?);
        let each = window.channels / groups;
        let is_packed = spec.width() == Width::I8 && each.is_multiple_of(PACKED);
        let unit = if is_packed { PACKED } else { 1 };
        let per_group = columns / groups;
        let is_tiled = per_group >= TILE_COLUMNS_MIN;
        let shape = Shape {
            rows: out.len / columns,
            columns: *columns,
            per_group,
            groups: *groups,
            depth: u32::try_from(window.taps()).ok()?.checked_mul(each / unit)?,
            row_steps: window.channels / unit,
            group_steps: each / unit,
            group_elements: per_group,
            each: each / unit,
            pad: padding(*pad, is_packed),
            ..Shape::default()
        };
        let how = How {
            kernel: if is_tiled { Kernel::Tile } else { Kernel::Direct },
            is_packed,
            is_windowed: !window.is_pointwise(),
            has_offsets: false,
            a: spec.width(),
            b: self.spec(*weights)?.width(),
            out: out.width(),
        };
        let bias = match bias {
            Some(bias) => Some(self.constant(*bias)?),
            None => None,
        };
        let (finish, scales) = scales(rescale, out, bias.as_deref(), *columns);
        let reads = vec![self.source(*x)?, self.source(*weights)?, self.numbers(&scales)?];
        self.product(&shape, &how, finish, window_words(window, unit)?, reads)
    }

    pub(super) fn mat_mul(&mut self, operation: &Operation) -> Option<Launch> {
        let Primitive::MatMul { a, b, batch, rows, columns, inner, offset_a, offset_b, rescale } =
            &operation.primitive
        else {
            return None;
        };
        let out = &operation.spec;
        let (left, right) = (self.spec(*a)?.width(), self.spec(*b)?.width());
        let is_packed = (left, right) == (Width::I8, Width::I8) && inner.is_multiple_of(PACKED);
        let depth = if is_packed { inner / PACKED } else { *inner };
        let shape = Shape {
            rows: *rows,
            columns: *columns,
            per_group: *columns,
            groups: *batch,
            depth,
            row_steps: depth,
            group_steps: rows * depth,
            group_elements: rows * columns,
            each: depth,
            pad: 0,
            offset_a: *offset_a,
            offset_b: *offset_b,
            // The whole sum is small; what leaves 32 bits on the way comes back.
            offsets: offset_a.wrapping_mul(*offset_b).wrapping_mul(inner.cast_signed()),
        };
        let how = How {
            kernel: Kernel::Tile,
            is_packed,
            is_windowed: false,
            has_offsets: is_packed && (*offset_a, *offset_b) != (0, 0),
            a: left,
            b: right,
            out: out.width(),
        };
        let (finish, scales) = scales(rescale, out, None, 1);
        let reads = vec![self.source(*a)?, self.source(*b)?, self.numbers(&scales)?];
        self.product(&shape, &how, finish, window_words(&Window::rows(1, 1), 1)?, reads)
    }

    fn product(
        &self,
        shape: &Shape,
        how: &How,
        mut finish: Finish,
        window: [u32; 16],
        reads: Vec<Source>,
    ) -> Option<Launch> {
        match how.kernel {
            Kernel::Tile => {
                let tiles = shape.tiles();
                finish.items = tiles;
                let words = shape.words(&finish, window);
                Launch::by_tile(self.gpu, how.variant(), &words, reads, tiles)
            }
            Kernel::Direct | Kernel::Grid | Kernel::Reduce | Kernel::Moves => {
                finish.items = finish.len.div_ceil(RUN);
                let words = shape.words(&finish, window);
                Launch::by_item(self.gpu, how.variant(), &words, reads, finish.items)
            }
        }
    }
}

/// What padding counts as in one step.
fn padding(pad: i32, is_packed: bool) -> u32 {
    if is_packed { u32::from_ne_bytes([pad as u8; 4]) } else { pad.cast_unsigned() }
}

/// Bias and factor of each column, or of all.
fn scales(rescale: &Rescale, out: &Spec, bias: Option<&[i32]>, columns: u32) -> (Finish, Vec<i32>) {
    let mut finish = Finish::rescaling(rescale, out);
    finish.each |= bias.is_some();
    let count = if finish.each { columns as usize } else { 1 };
    let bias = |column: usize| bias.and_then(|bias| bias.get(column)).copied().unwrap_or(0);
    let scale = |column: usize| [bias(column), rescale.multiplier(column)];
    (finish, (0..count).flat_map(scale).collect())
}
