//! The twelve things an operation can do.
//!
//! Every primitive computes each of its elements by itself: a fold over *terms* of what it reads,
//! then a finish ([`crate::element`]). That is what lets a tile be recomputed, a step be judged and
//! a device sum in any order.

use super::{Rescale, ValueId};
use tg_types::{List, wire};

/// The sides of the grid over which an operation runs, slowest first.
pub type Sides = List<u32, 1, 6>;

/// How far one step along each side moves in an operand; 0 repeats it.
pub type Strides = List<u32, 1, 6>;

/// Entries of a look-up table.
pub type Table = List<i16, 1, 65_536>;

wire! {
    /// An operand seen through a grid: element `sum(index[side] * stride[side])`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Operand {
        /// The value that is read.
        pub value: ValueId,
        /// One stride for each side of the grid.
        pub strides: Strides,
    }
}

wire! {
    /// A sliding window over `[batch, height, width, channels]`.
    ///
    /// Row `out` and tap `tap` read row `p / spread` where
    /// `p = out * stride + tap * dilation - pad`, if `p` is a multiple of `spread` and the row
    /// exists; otherwise padding. Columns likewise. A spread above 1 makes a transposed
    /// convolution; a 1 x 1 window a matrix product.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Window {
        /// Independent images.
        pub batch: u32,
        /// Rows of the input.
        pub height: u32,
        /// Columns of the input.
        pub width: u32,
        /// Channels of the input.
        pub channels: u32,
        /// Rows of the output.
        pub out_height: u32,
        /// Columns of the output.
        pub out_width: u32,
        /// Rows of the window.
        pub kernel_height: u32,
        /// Columns of the window.
        pub kernel_width: u32,
        /// Rows from one output row to the next.
        pub stride_height: u32,
        /// Columns from one output column to the next.
        pub stride_width: u32,
        /// Rows from one tap to the next.
        pub dilation_height: u32,
        /// Columns from one tap to the next.
        pub dilation_width: u32,
        /// Rows of padding above.
        pub pad_top: i32,
        /// Columns of padding to the left.
        pub pad_left: i32,
        /// Rows between two input rows, themselves included.
        pub spread_height: u32,
        /// Columns between two input columns, themselves included.
        pub spread_width: u32,
    }
}

impl Window {
    /// A matrix product: `rows` rows of `channels` numbers, one output row for each.
    #[must_use]
    pub const fn rows(rows: u32, channels: u32) -> Self {
        Self {
            batch: rows,
            height: 1,
            width: 1,
            channels,
            out_height: 1,
            out_width: 1,
            kernel_height: 1,
            kernel_width: 1,
            stride_height: 1,
            stride_width: 1,
            dilation_height: 1,
            dilation_width: 1,
            pad_top: 0,
            pad_left: 0,
            spread_height: 1,
            spread_width: 1,
        }
    }

    /// A reduction over the middle side of `[outer, len, inner]`.
    #[must_use]
    pub const fn middle(outer: u32, len: u32, inner: u32) -> Self {
        let mut window = Self::rows(outer, inner);
        window.height = len;
        window.kernel_height = len;
        window
    }

    /// The input row that an output row's tap reads; `None` is padding.
    #[must_use]
    pub fn row(&self, out: u32, tap: u32) -> Option<u32> {
        let at = i64::from(out) * i64::from(self.stride_height)
            + i64::from(tap) * i64::from(self.dilation_height)
            - i64::from(self.pad_top);
        line(at, self.spread_height, self.height)
    }

    /// The input column that an output column's tap reads; `None` is padding.
    #[must_use]
    pub fn column(&self, out: u32, tap: u32) -> Option<u32> {
        let at = i64::from(out) * i64::from(self.stride_width)
            + i64::from(tap) * i64::from(self.dilation_width)
            - i64::from(self.pad_left);
        line(at, self.spread_width, self.width)
    }

    /// Taps of one window.
    #[must_use]
    pub const fn taps(&self) -> u64 {
        self.kernel_height as u64 * self.kernel_width as u64
    }

    /// Output places of one image.
    #[must_use]
    pub const fn positions(&self) -> u64 {
        self.out_height as u64 * self.out_width as u64
    }

    /// Whether it is a plain matrix product: every output place reads its own input place.
    #[must_use]
    pub fn is_pointwise(&self) -> bool {
        self.taps() == 1
            && (self.out_height, self.out_width) == (self.height, self.width)
            && (self.stride_height, self.stride_width) == (1, 1)
            && (self.pad_top, self.pad_left) == (0, 0)
            && (self.spread_height, self.spread_width) == (1, 1)
    }
}

fn line(at: i64, spread: u32, lines: u32) -> Option<u32> {
    let spread = i64::from(spread);
    if at < 0 || at % spread != 0 {
        return None;
    }
    u32::try_from(at / spread).ok().filter(|line| *line < lines)
}

wire! {
    /// One summand of a [`Primitive::Join`].
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct JoinTerm {
        /// What is read.
        pub operand: Operand,
        /// Its factors: one, or one for each place of the last side.
        pub multipliers: super::Multipliers,
    }
}

wire! {
    /// A run of source offsets along one side of a [`MovePart`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Run {
        /// `count` offsets from `start` on, `step` apart.
        Read {
            /// The first offset.
            start: u32,
            /// The distance, possibly negative or 0.
            step: i32,
            /// How many.
            count: u32,
        } = 1,
        /// `count` places that take the fill.
        Fill {
            /// How many.
            count: u32,
        } = 2,
    }
}

/// The source offsets along one side.
pub type Runs = List<Run, 1, 65_536>;

wire! {
    /// One part of a [`Primitive::Move`]: a block of the output and where it comes from. The source
    /// element is the sum of the sides' offsets; a place with a `Fill` on any side is filled.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct MovePart {
        /// The value that is read.
        pub value: ValueId,
        /// One list of runs for each side of the grid.
        pub offsets: List<Runs, 1, 6>,
    }
}

wire! {
    /// Which inverse a [`Primitive::Normalise`] multiplies by.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Inverse {
        /// 1 / x.
        Reciprocal = 1,
        /// 1 / square root of x.
        Root = 2,
    }
}

wire! {
    /// What an operation does. `docs/tensor-program.md` has the exact meaning of each.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Primitive {
        /// Matrix product or convolution with constant weights:
        /// `rescale(bias[c] + sum(x[window] * weights[c]))`.
        ///
        /// The output is `[batch, out_height, out_width, columns]`; weights are
        /// `[columns, kernel_height, kernel_width, channels / groups]`; column `c` belongs to group
        /// `c / (columns / groups)` and reads that group's channels.
        Linear {
            /// What is read.
            x: ValueId,
            /// A constant.
            weights: ValueId,
            /// A constant with one number for each column.
            bias: Option<ValueId>,
            /// How the input is looked at.
            window: Window,
            /// Output channels.
            columns: u32,
            /// Independent groups of channels.
            groups: u32,
            /// What padding counts as.
            pad: i32,
            /// The largest magnitude of an accumulator, recomputed by whoever has the weights.
            bound: u32,
            /// To elements; factors by column.
            rescale: Rescale,
        } = 1,
        /// Product of two values, `[batch, rows, inner]` and `[batch, columns, inner]`:
        /// `rescale(sum((a + offset_a) * (b + offset_b)))`.
        MatMul {
            /// The left one.
            a: ValueId,
            /// The right one, a row for each output column.
            b: ValueId,
            /// Independent products.
            batch: u32,
            /// Rows of the output.
            rows: u32,
            /// Columns of the output.
            columns: u32,
            /// Products per element.
            inner: u32,
            /// Added to each element of `a`.
            offset_a: i32,
            /// Added to each element of `b`.
            offset_b: i32,
            /// To elements; one factor.
            rescale: Rescale,
        } = 2,
        /// Weighted sum of up to four values: `clamp(round_shift(sum(x * m) + constant, shift))`.
        Join {
            /// The grid.
            sides: Sides,
            /// The summands.
            terms: List<JoinTerm, 1, 4>,
            /// Added: one number, or one for each place of the last side.
            constant: super::Multipliers,
            /// Bits dropped, rounded.
            shift: u8,
        } = 3,
        /// Product of two values: `rescale((a + offset_a) * (b + offset_b))`.
        Product {
            /// The grid.
            sides: Sides,
            /// One factor.
            a: Operand,
            /// The other.
            b: Operand,
            /// Added to each element of `a`.
            offset_a: i32,
            /// Added to each element of `b`.
            offset_b: i32,
            /// To elements; one factor.
            rescale: Rescale,
        } = 4,
        /// Look-up of each element: `entries[x - lo]`, where `lo` is the smallest `x` allowed.
        Table {
            /// What is read.
            x: ValueId,
            /// One entry for each number that `x` can be.
            entries: Table,
        } = 5,
        /// Sum over windows: `rescale(sum(x + offset))`; padding counts nothing.
        Sum {
            /// What is read.
            x: ValueId,
            /// How it is looked at.
            window: Window,
            /// Added to each element that is read.
            offset: i32,
            /// To elements; one factor, or one for each output place of an image.
            rescale: Rescale,
        } = 6,
        /// Largest element of each window; padding is left out.
        Max {
            /// What is read.
            x: ValueId,
            /// How it is looked at.
            window: Window,
        } = 7,
        /// `a` divided by `x` or by its square root, through powers of two and a table of 2^10 or
        /// 3 * 2^10 entries.
        Normalise {
            /// The grid.
            sides: Sides,
            /// What is divided.
            a: Operand,
            /// Added to each element of `a`.
            offset: i32,
            /// What divides; numbers below 1 count as 1.
            x: Operand,
            /// By what.
            inverse: Inverse,
            /// The inverse of each mantissa.
            entries: Table,
            /// Bits dropped, rounded, besides those of the mantissa's power of two.
            shift: u8,
            /// Added at the end.
            zero: i32,
        } = 8,
        /// Copies by a fixed map: permute, slice, pad, repeat, concatenate. No arithmetic.
        Move {
            /// The grid of the output.
            sides: Sides,
            /// The side along which parts follow each other.
            axis: u8,
            /// The parts.
            parts: List<MovePart, 1, 1_024>,
            /// What filled places hold.
            fill: i32,
        } = 9,
        /// `condition != 0 ? then : otherwise`.
        Select {
            /// The grid.
            sides: Sides,
            /// What decides.
            condition: Operand,
            /// Taken where the condition is not 0.
            then: Operand,
            /// Taken where it is 0.
            otherwise: Operand,
        } = 10,
        /// Rows of a value by number: `table[indices[i] * row + j]`.
        Lookup {
            /// The rows.
            table: ValueId,
            /// Which; their range lies within the number of rows.
            indices: ValueId,
            /// Elements of a row.
            row: u32,
        } = 11,
        /// Place of the largest element along the middle side of `[outer, len, inner]`; the first
        /// of equals.
        ArgMax {
            /// What is read.
            x: ValueId,
            /// Places before.
            outer: u32,
            /// Candidates.
            len: u32,
            /// Places behind.
            inner: u32,
        } = 12,
    }
}

impl Primitive {
    /// How many terms an element's fold has.
    #[must_use]
    pub fn terms(&self) -> u64 {
        match self {
            Self::Linear { window, groups, bias, .. } => {
                u64::from(bias.is_some()) + window.taps() * u64::from(window.channels / groups)
            }
            Self::MatMul { inner, .. } => (*inner).into(),
            Self::Join { terms, .. } => terms.as_slice().len() as u64,
            Self::Sum { window, .. } | Self::Max { window, .. } => window.taps(),
            Self::ArgMax { len, .. } => (*len).into(),
            Self::Product { .. }
            | Self::Table { .. }
            | Self::Normalise { .. }
            | Self::Move { .. }
            | Self::Select { .. }
            | Self::Lookup { .. } => 1,
        }
    }

    /// The values that are read, in the order of the fields; one that is read twice comes twice.
    #[must_use]
    pub fn reads(&self) -> Vec<ValueId> {
        match self {
            Self::Linear { x, weights, bias, .. } => {
                [Some(*x), Some(*weights), *bias].into_iter().flatten().collect()
            }
            Self::MatMul { a, b, .. } => vec![*a, *b],
            Self::Join { terms, .. } => {
                terms.as_slice().iter().map(|term| term.operand.value).collect()
            }
            Self::Product { a, b, .. } => vec![a.value, b.value],
            Self::Normalise { a, x, .. } => vec![a.value, x.value],
            Self::Table { x, .. }
            | Self::Sum { x, .. }
            | Self::Max { x, .. }
            | Self::ArgMax { x, .. } => vec![*x],
            Self::Move { parts, .. } => parts.as_slice().iter().map(|part| part.value).collect(),
            Self::Select { condition, then, otherwise, .. } => {
                vec![condition.value, then.value, otherwise.value]
            }
            Self::Lookup { table, indices, .. } => vec![*table, *indices],
        }
    }

    /// The same operation on other values.
    #[must_use]
    pub fn renumbered(mut self, number: impl Fn(ValueId) -> ValueId) -> Self {
        match &mut self {
            Self::Linear { x, weights, bias, .. } => {
                (*x, *weights) = (number(*x), number(*weights));
                *bias = bias.map(&number);
            }
            Self::MatMul { a, b, .. } => (*a, *b) = (number(*a), number(*b)),
            Self::Join { terms, .. } => {
                for term in terms.as_mut_slice() {
                    term.operand.value = number(term.operand.value);
                }
            }
            Self::Product { a, b, .. } => (a.value, b.value) = (number(a.value), number(b.value)),
            Self::Normalise { a, x, .. } => (a.value, x.value) = (number(a.value), number(x.value)),
            Self::Table { x, .. }
            | Self::Sum { x, .. }
            | Self::Max { x, .. }
            | Self::ArgMax { x, .. } => *x = number(*x),
            Self::Move { parts, .. } => {
                for part in parts.as_mut_slice() {
                    part.value = number(part.value);
                }
            }
            Self::Select { condition, then, otherwise, .. } => {
                condition.value = number(condition.value);
                then.value = number(then.value);
                otherwise.value = number(otherwise.value);
            }
            Self::Lookup { table, indices, .. } => {
                (*table, *indices) = (number(*table), number(*indices));
            }
        }
        self
    }
}
