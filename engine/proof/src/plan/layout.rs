//! How a value's elements lie in the cells of a column.

use crate::field::{EF, bits_of, eq_table};
use crate::gates::ROW_BITS;
use crate::pcs::FOLD;
use std::collections::BTreeMap;
use tg_tensor::program::{Place, Primitive, Program, ValueId};

/// A number of places, padded to a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Side {
    pub(crate) len: usize,
    pub(crate) bits: usize,
}

impl Side {
    fn new(len: usize) -> Self {
        Self { len, bits: bits_of(len) }
    }

    /// Whether no place is padding.
    pub(crate) fn is_full(&self) -> bool {
        self.len == 1 << self.bits
    }
}

/// The inferences, and the sides of one inference's elements; each padded to a power of two. The
/// bits of a cell's number are those of the sides, slowest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Layout {
    batch: Side,
    sides: Vec<Side>,
}

impl Layout {
    /// Sides whose product is the number of elements. The last one is padded further where a column
    /// would have too few variables.
    pub(crate) fn new(batch: usize, sides: &[usize]) -> Self {
        let batch = Side::new(batch);
        let mut sides: Vec<Side> = sides.iter().map(|side| Side::new(*side)).collect();
        let bits = batch.bits + sides.iter().map(|side| side.bits).sum::<usize>();
        if let Some(last) = sides.last_mut() {
            last.bits += FOLD.saturating_sub(bits);
        }
        Self { batch, sides }
    }

    /// Variables.
    pub(crate) fn bits(&self) -> usize {
        self.batch.bits + self.inner_bits()
    }

    /// Variables of one inference.
    pub(crate) fn inner_bits(&self) -> usize {
        self.sides.iter().map(|side| side.bits).sum()
    }

    /// Elements of one inference.
    pub(crate) fn len(&self) -> usize {
        self.sides.iter().map(|side| side.len).product()
    }

    /// The inferences.
    pub(crate) fn batch(&self) -> Side {
        self.batch
    }

    /// All sides, the inferences first.
    pub(super) fn all_sides(&self) -> impl Iterator<Item = &Side> {
        std::iter::once(&self.batch).chain(&self.sides)
    }

    /// Places of a side.
    pub(crate) fn side(&self, side: usize) -> usize {
        self.sides[side].len
    }

    /// Variables of a side.
    pub(crate) fn side_bits(&self, side: usize) -> usize {
        self.sides[side].bits
    }

    /// Whether no cell of the first sides, all but the last, is padding.
    pub(crate) fn has_full_rows(&self) -> bool {
        let (_, first) = self.sides.split_last().expect("a layout has sides");
        self.batch.is_full() && first.iter().all(Side::is_full)
    }

    /// The cell of each element of one inference, in order.
    pub(crate) fn cells(&self) -> Vec<u32> {
        let mut cells = vec![0_u32];
        for side in &self.sides {
            let places = 0..side.len as u32;
            let below = |cell: u32| places.clone().map(move |place| cell << side.bits | place);
            cells = cells.into_iter().flat_map(below).collect();
        }
        cells
    }

    /// The cell of an element of one inference; `None` if there is no such element.
    pub(crate) fn cell(&self, index: usize) -> Option<usize> {
        let (mut left, mut cell, mut shift) = (index, 0, 0);
        for side in self.sides.iter().rev() {
            cell |= (left % side.len) << shift;
            left /= side.len;
            shift += side.bits;
        }
        (left == 0).then_some(cell)
    }

    /// Whether look-ups have the inferences of a cell one after the other, and not the cells of an
    /// inference: then every row of leaves stands for elements or for none.
    pub(crate) fn has_inferences_in_rows(&self) -> bool {
        self.batch.is_full() && self.batch.bits >= ROW_BITS
    }

    /// The leaf of look-ups that stands for a cell of an inference.
    pub(crate) fn leaf_of_cell(&self, inference: usize, cell: usize) -> usize {
        match self.has_inferences_in_rows() {
            true => cell * self.batch.len + inference,
            false => (inference << self.inner_bits()) + cell,
        }
    }

    /// The leaf of look-ups that stands for an element; `None` if there is no such element.
    pub(crate) fn leaf(&self, inference: usize, index: usize) -> Option<usize> {
        let cell = self.cell(index)?;
        (inference < self.batch.len).then(|| self.leaf_of_cell(inference, cell))
    }

    /// The point of the cells that belongs to a point of the look-ups.
    pub(crate) fn cell_point(&self, lookups: &[EF]) -> Vec<EF> {
        let mut point = lookups[lookups.len() - self.bits()..].to_vec();
        if self.has_inferences_in_rows() {
            point.rotate_right(self.batch.bits);
        }
        point
    }

    /// The part of a point for the inferences, and that for one inference.
    pub(crate) fn split<'a>(&self, point: &'a [EF]) -> (&'a [EF], &'a [EF]) {
        let point = &point[point.len() - self.bits()..];
        point.split_at(self.batch.bits)
    }

    /// The parts of a point for each side.
    pub(crate) fn split_sides<'a>(&self, point: &'a [EF]) -> Vec<&'a [EF]> {
        let (_, mut left) = self.split(point);
        let take = |side: &Side| {
            let (taken, rest) = left.split_at(side.bits);
            left = rest;
            taken
        };
        self.sides.iter().map(take).collect()
    }

    /// eq(point, inference) of each inference.
    pub(crate) fn batch_weights(&self, point: &[EF]) -> Vec<EF> {
        real(self.split(point).0, self.batch.len)
    }

    /// eq(point, place) of each place of a side.
    pub(crate) fn side_weights(&self, point: &[EF], side: usize) -> Vec<EF> {
        real(self.split_sides(point)[side], self.sides[side].len)
    }

    /// eq(point, element) of each element of one inference.
    pub(crate) fn weights(&self, point: &[EF]) -> Vec<EF> {
        let table = eq_table(self.split(point).1);
        self.cells().into_iter().map(|cell| table[cell as usize]).collect()
    }

    /// The value at a point of the function that is 1 at cells that stand for an element, else 0.
    pub(crate) fn indicator(&self, point: &[EF]) -> EF {
        self.batch_weights(point).into_iter().sum::<EF>() * self.inner_indicator(point)
    }

    /// The same of one inference.
    pub(crate) fn inner_indicator(&self, point: &[EF]) -> EF {
        let side = |side: usize| self.side_weights(point, side).into_iter().sum::<EF>();
        (0..self.sides.len()).map(side).product()
    }
}

fn real(point: &[EF], len: usize) -> Vec<EF> {
    let mut table = eq_table(point);
    table.truncate(len);
    table
}

/// How the first operation that multiplies with a constant sees it: columns, taps, channels.
fn weight_views(program: &Program) -> BTreeMap<ValueId, [usize; 3]> {
    let mut views = BTreeMap::new();
    for operation in program.operations() {
        let Primitive::Linear { weights, window, columns, groups, .. } = &operation.primitive
        else {
            continue;
        };
        let each = (window.channels / groups) as usize;
        views.entry(*weights).or_insert([*columns as usize, window.taps() as usize, each]);
    }
    views
}

/// The layout of every value: as the operation sees it that makes it, or that multiplies with it.
pub(super) fn layouts(program: &Program, batch: usize) -> Vec<Layout> {
    let mut layouts: Vec<Layout> = Vec::new();
    for input in program.inputs() {
        layouts.push(Layout::new(batch, &[1, input.spec.elements()]));
    }
    let views = weight_views(program);
    for (index, constant) in program.constants().iter().enumerate() {
        let view = views.get(&program.value_of_constant(index));
        let sides = view.map_or(vec![1, constant.spec.elements()], |view| view.to_vec());
        layouts.push(Layout::new(1, &sides));
    }
    for operation in program.operations() {
        let len = operation.spec.elements();
        let columns = match &operation.primitive {
            Primitive::Linear { columns, .. } | Primitive::MatMul { columns, .. } => *columns,
            Primitive::Sum { window, .. } | Primitive::Max { window, .. } => window.channels,
            Primitive::Join { sides, .. }
            | Primitive::Product { sides, .. }
            | Primitive::Normalise { sides, .. }
            | Primitive::Select { sides, .. } => sides.as_slice().last().copied().unwrap_or(1),
            Primitive::Table { x, .. } => match program.place(*x) {
                Some(Place::Constant(_)) | None => operation.spec.len,
                Some(Place::Input(_) | Place::Operation(_)) => {
                    layouts.push(layouts[x.index()].clone());
                    continue;
                }
            },
            Primitive::Move { .. } | Primitive::ArgMax { .. } => operation.spec.len,
            Primitive::Lookup { row, .. } => *row,
        };
        layouts.push(Layout::new(batch, &[len / columns as usize, columns as usize]));
    }
    layouts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::eq_at;
    use p3_field::PrimeCharacteristicRing as _;

    /// Goal: a point of the look-ups weighs a leaf as the point of the cells weighs its cell.
    /// Method: layouts with inferences in rows and without, all cells.
    #[test]
    fn points_of_look_ups_are_points_of_cells() {
        for (batch, in_rows) in
            [(1, false), (3, false), (8, false), (16, true), (24, false), (32, true)]
        {
            let layout = Layout::new(batch, &[3, 5]);
            assert_eq!(layout.has_inferences_in_rows(), in_rows);
            let lookups: Vec<EF> =
                (2..layout.bits() + 5).map(|at| EF::from_usize(at).exp_u64(9)).collect();
            let point = layout.cell_point(&lookups);
            let last = &lookups[lookups.len() - layout.bits()..];
            for inference in 0..batch {
                for cell in layout.cells() {
                    let cell = cell as usize;
                    let leaf = layout.leaf_of_cell(inference, cell);
                    let number = (inference << layout.inner_bits()) + cell;
                    assert_eq!(eq_at(last, leaf), eq_at(&point, number));
                }
            }
        }
    }
}
