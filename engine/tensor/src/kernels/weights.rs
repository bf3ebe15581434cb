//! Right-hand sides in the order in which the product kernel reads them.
//!
//! Sixteen columns make a panel. A panel is a run of [`Pair`]s, each one cache line: two
//! consecutive depths of its sixteen columns, interleaved, as the multiply-add instruction for
//! pairs wants them. A missing depth is zero; columns that are missing hold anything and are never
//! written to a result.

use super::Grid;

/// How many columns a panel has.
pub(crate) const PANEL_COLUMNS: usize = 16;

/// Two consecutive depths of the columns of a panel: column 0 first and second, column 1 first and
/// second, and so on.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Pair(pub(super) [[i16; 2]; PANEL_COLUMNS]);

const ZERO: Pair = Pair([[0; 2]; PANEL_COLUMNS]);

/// A packed right-hand side. Weights are packed once; a right-hand side that is itself computed
/// is packed on each call into the same, reused, buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weights {
    columns: usize,
    depth: usize,
    panels: Vec<Pair>,
}

/// The size of a right-hand side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Columns of the result.
    pub(crate) columns: usize,
    /// Terms of each accumulator.
    pub(crate) depth: usize,
}

impl Weights {
    /// Packs a right-hand side: one row of `depth` numbers per column of the result, each
    /// beginning `stride` after the one before.
    pub(crate) fn pack_rows<T: Copy + Into<i16>>(&mut self, rows: &[T], size: Size, stride: usize) {
        let grid = Grid { rows: size.columns, stride, width: size.depth };
        assert!(grid.fits(rows), "operand too short");
        self.begin(size);
        if size.depth == 0 {
            return;
        }
        let row = |column: usize| rows[column * stride..][..size.depth].as_chunks::<2>();
        for (panel, to) in self.panels.chunks_exact_mut(size.depth.div_ceil(2)).enumerate() {
            let column = |i: usize| (panel * PANEL_COLUMNS + i).min(size.columns - 1);
            let rows: [(&[[T; 2]], &[T]); PANEL_COLUMNS] = std::array::from_fn(|i| row(column(i)));
            let (whole, half) = to.split_at_mut(size.depth / 2);
            let wholes = rows.map(|(pairs, _)| &pairs[..whole.len()]);
            for (i, to) in whole.iter_mut().enumerate() {
                to.0 = wholes.map(|pairs| pairs[i].map(Into::into));
            }
            for to in half {
                to.0 = rows.map(|(_, half)| [half[0].into(), 0]);
            }
        }
    }

    /// Makes room. What was there before may stay where columns are missing.
    fn begin(&mut self, size: Size) {
        (self.columns, self.depth) = (size.columns, size.depth);
        self.panels.resize(self.columns.div_ceil(PANEL_COLUMNS) * self.pairs(), ZERO);
    }

    /// Columns of the result.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Terms of each accumulator.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Depths of a panel, two by two.
    pub(super) fn pairs(&self) -> usize {
        self.depth.div_ceil(2)
    }

    /// A panel, all depths.
    pub(super) fn panel(&self, panel: usize) -> &[Pair] {
        &self.panels[panel * self.pairs()..][..self.pairs()]
    }
}
