//! How columns lie in the tables of a commitment: whole or cut, and the run's in one or two stacks.
//!
//! A stack has a power of two of cells, and so has every side of a column. For large runs both are
//! dear: of 196 rows that take the room of 256 a quarter is nothing, and a stack that is a little
//! larger than a power of two costs as much as one of twice the cells. So columns of a large run
//! are *cut* into pieces of 128, 64 and 4 rows, and what the largest stack that is full leaves has
//! a second one. A second opening makes proofs longer, so one inference with committed weights,
//! whose proof the network has a limit for, is not divided.
//!
//! A column is the sum of its pieces, each where its highest bits select it, and 0 where there is
//! none. So its value at a point is that of the pieces at the other coordinates, weighed with eq of
//! those that are fixed: a prover may choose less than if all cells were committed, not more.

use super::build::Builder;
use super::{Column, Layout, Plan, Tree};
use crate::field::{EF, F, eq_at};
use crate::pcs::{FOLD_LARGE, LARGE_BITS, STACK_BITS_MIN};
use p3_matrix::dense::RowMajorMatrix;
use p3_sumcheck::layout::Table;
use std::cmp::Reverse;

/// The most pieces of a column: two powers of two, and what is left.
pub(crate) const CUTS_MAX: usize = 3;

/// A part of a column: the cells whose numbers have the bits of `index` at `bits` places behind the
/// first `from`, counted from the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    from: usize,
    bits: usize,
    index: usize,
}

impl Cut {
    /// All of it.
    const WHOLE: Self = Self { from: 0, bits: 0, index: 0 };

    /// Whether it is the one with the column's first cell.
    pub(crate) fn is_first(&self) -> bool {
        self.index == 0
    }

    /// The point of the part, for a point of the column.
    pub(crate) fn point(&self, point: &[EF]) -> Vec<EF> {
        [&point[..self.from], &point[self.from + self.bits..]].concat()
    }

    /// What the part's value counts for at a point of the column.
    pub(crate) fn weight(&self, point: &[EF]) -> EF {
        eq_at(&point[self.from..self.from + self.bits], self.index)
    }

    /// Adds the part's cells to a list.
    fn take(&self, column: &[F], to: &mut Vec<F>) {
        let behind = column.len() >> (self.from + self.bits);
        let chunks = column.chunks(column.len() >> self.from);
        chunks.for_each(|chunk| to.extend(&chunk[self.index * behind..][..behind]));
    }
}

/// A table of a commitment: the same part of all columns of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) bundle: usize,
    pub(crate) cut: Cut,
    pub(crate) columns: usize,
    /// Variables of each.
    pub(crate) bits: usize,
}

impl Piece {
    fn cells(&self) -> u64 {
        (self.columns as u64) << self.bits
    }
}

/// The cells of a stack of these tables.
pub(super) fn stack_cells(pieces: &[Piece]) -> u64 {
    stacked(pieces.iter().map(Piece::cells).sum())
}

/// The cells of a stack that so many are put into; none if there are none.
pub(super) fn stacked(cells: u64) -> u64 {
    if cells == 0 { 0 } else { cells.next_power_of_two() }
}

impl Builder {
    /// The tables of every commitment.
    pub(super) fn pieces(&self) -> [Vec<Piece>; Tree::ALL.len()] {
        let mut pieces = Tree::ALL.map(|tree| self.tables_of(tree, |_| vec![Cut::WHOLE]));
        let whole = stack_cells(&pieces[Tree::Run as usize]);
        // What jobs on the network prove; so many bytes may be shown, and no more.
        let is_shown = self.secret && self.batch == 1;
        if whole >= 1 << self.divided_bits && !self.hidden.run && !is_shown {
            let cut = self.tables_of(Tree::Run, |layout| layout.cuts(FOLD_LARGE));
            let [first, rest] = divided(cut);
            // A second commitment has costs of its own, and so have more tables.
            if (stack_cells(&first) + stack_cells(&rest)) * 4 <= whole * 3 {
                pieces[Tree::Run as usize] = first;
                pieces[Tree::Rest as usize] = rest;
            }
        }
        pieces
    }

    /// The tables of a tree's bundles, one for each cut of their layout.
    fn tables_of(&self, tree: Tree, cuts: impl Fn(&Layout) -> Vec<Cut>) -> Vec<Piece> {
        let mut bundles: Vec<(&Column, usize)> = Vec::new();
        for column in self.columns.iter().filter(|column| column.tree == tree) {
            if column.bundle == bundles.len() {
                bundles.push((column, 0));
            }
            bundles[column.bundle].1 += 1;
        }
        let tables = |(bundle, (column, columns)): (usize, (&Column, usize))| {
            let bits = column.layout.bits();
            let piece = move |cut: Cut| Piece { bundle, cut, columns, bits: bits - cut.bits };
            cuts(&column.layout).into_iter().map(piece).collect::<Vec<_>>()
        };
        bundles.into_iter().enumerate().flat_map(tables).collect()
    }
}

/// Tables in one stack, or in two of which the first is as large as can be filled: two if they have
/// a quarter fewer cells. Each table, the largest first, goes into the first stack if there is room
/// left, which need not fill it. A table of few cells would lower the first fold of a large stack.
fn divided(mut pieces: Vec<Piece>) -> [Vec<Piece>; 2] {
    pieces.sort_by_key(|piece| Reverse(piece.cells()));
    let all = stack_cells(&pieces);
    let mut room = all / 2;
    let bits_min = if room >= 1 << LARGE_BITS { FOLD_LARGE } else { 0 };
    let (first, rest): (Vec<Piece>, Vec<Piece>) = pieces.iter().cloned().partition(|piece| {
        let fits = piece.cells() <= room && piece.bits >= bits_min;
        room -= if fits { piece.cells() } else { 0 };
        fits
    });
    let (of_first, of_rest) = (stack_cells(&first), stack_cells(&rest));
    let is_worth_it = of_rest >= 1 << STACK_BITS_MIN && (of_first + of_rest) * 4 <= all * 3;
    if is_worth_it { [first, rest] } else { [pieces, Vec::new()] }
}

impl Layout {
    /// Parts that have all elements and few other cells, each of at least so many variables.
    fn cuts(&self, bits_min: usize) -> Vec<Cut> {
        let (mut best, mut fewest) = (vec![Cut::WHOLE], 1_usize << self.bits());
        if self.bits() < bits_min {
            return best;
        }
        let mut from = 0;
        for side in self.all_sides() {
            // Cells for each place of the side.
            let each = self.bits() - side.bits;
            let (mut cuts, mut first, mut cells) = (Vec::new(), 0, 0);
            while first < side.len {
                let left = side.len - first;
                let is_last = cuts.len() + 1 == CUTS_MAX;
                let len = if is_last { left.next_power_of_two() } else { 1 << left.ilog2() };
                let len = len.max(1 << bits_min.saturating_sub(each));
                let bits = side.bits - len.ilog2() as usize;
                cuts.push(Cut { from, bits, index: first / len });
                first += len;
                cells += len << each;
            }
            if cells < fewest {
                (best, fewest) = (cuts, cells);
            }
            from += side.bits;
        }
        best
    }
}

impl Plan {
    /// The tables of a commitment, of the columns of all bundles.
    pub(crate) fn tables_cut(&self, tree: Tree, bundles: &[Vec<Vec<F>>]) -> Vec<Table<F>> {
        let table = |piece: &Piece| {
            let mut cells = Vec::with_capacity(piece.columns << piece.bits);
            bundles[piece.bundle].iter().for_each(|column| piece.cut.take(column, &mut cells));
            Table::new(RowMajorMatrix::new(cells, 1 << piece.bits))
        };
        self.pieces[tree as usize].iter().map(table).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::eq_table;
    use p3_field::PrimeCharacteristicRing as _;

    /// Goal: parts have every element once, and add up to the column. Method: layouts with all
    /// sides full or not; the value at a point, of the column and of its parts.
    #[test]
    fn parts_add_up_to_the_column() {
        let value = |cells: &[F], point: &[EF]| -> EF {
            eq_table(point).into_iter().zip(cells).map(|(weight, cell)| weight * *cell).sum()
        };
        let sides: [&[usize]; 7] =
            [&[196, 8], &[49, 16], &[16, 24], &[64, 64], &[1, 3], &[255, 4], &[5, 7, 3]];
        let mut saved = 0;
        for (batch, sides) in [1, 5, 64].into_iter().flat_map(|b| sides.map(|sides| (b, sides))) {
            let layout = Layout::new(batch, sides);
            let mut column = vec![F::ZERO; 1 << layout.bits()];
            for inference in 0..batch {
                for cell in layout.cells() {
                    let at = (inference << layout.inner_bits()) + cell as usize;
                    column[at] = F::from_usize(at * at + 3);
                }
            }
            let point: Vec<EF> =
                (2..layout.bits() + 2).map(|at| EF::from_usize(at).exp_u64(11)).collect();
            let (mut sum, mut cells) = (EF::ZERO, 0);
            let cuts = layout.cuts(FOLD_LARGE);
            assert!(cuts.len() <= CUTS_MAX && cuts[0].is_first());
            assert_eq!(cuts.iter().filter(|cut| cut.is_first()).count(), 1);
            for cut in cuts {
                let mut part = Vec::new();
                cut.take(&column, &mut part);
                assert!(part.len() >= 1 << FOLD_LARGE.min(layout.bits()));
                sum += cut.weight(&point) * value(&part, &cut.point(&point));
                cells += part.len();
            }
            assert_eq!(sum, value(&column, &point), "{batch} {sides:?}");
            assert!(cells <= column.len());
            saved += column.len() - cells;
        }
        assert!(saved > 0);
    }

    /// Goal: two stacks are taken where they have fewer cells, and the first is full. Method:
    /// tables of several sizes.
    #[test]
    fn stacks_are_divided_where_that_saves() {
        let table = |bits: usize| Piece { bundle: 0, cut: Cut::WHOLE, columns: 1, bits };
        let sizes = |bits: &[usize]| {
            divided(bits.iter().map(|bits| table(*bits)).collect()).map(|all| stack_cells(&all))
        };
        assert_eq!(sizes(&[20, 18]), [1 << 20, 1 << 18]);
        assert_eq!(sizes(&[18, 19, 19, 12]), [1 << 20, 1 << 19]);
        assert_eq!(sizes(&[20, 19, 12]), [1 << 21, 0]);
        assert_eq!(sizes(&[20]), [1 << 20, 0]);
        assert_eq!(sizes(&[20, 4]), [1 << 21, 0]);
    }

    /// Goal: what there is room for does not lower the fold of a large stack. Method: a table of
    /// few cells beside others that leave room, of large and of small stacks.
    #[test]
    fn few_cells_do_not_lower_the_fold_of_a_large_stack() {
        let is_in_first = |large: usize, few: usize| {
            let table = |columns, bits| Piece { bundle: bits, cut: Cut::WHOLE, columns, bits };
            let [first, rest] = divided(vec![table(3, large), table(3, large - 1), table(1, few)]);
            assert_eq!([&first, &rest].map(|all| stack_cells(all)), [4 << large, 2 << large]);
            first.contains(&table(1, few))
        };
        let large = LARGE_BITS - 2;
        assert!(!is_in_first(large, FOLD_LARGE - 1));
        assert!(is_in_first(large, FOLD_LARGE));
        assert!(is_in_first(large - 1, FOLD_LARGE - 1));
    }
}
