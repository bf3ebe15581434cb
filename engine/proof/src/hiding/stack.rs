//! What stands where in the hiding commitments, and linear functionals on it.
//!
//! A stack is a run of pieces, each of a power of two of cells, the largest first, so that a piece
//! begins at a multiple of its size. The run's stack has its columns, pads, masks of the last
//! sum-check and noise; that of inputs has their columns and noise.

use super::pads::Affine;
use super::pcs::{HIDDEN_BITS_MIN, HidingPcs, OPENING_BITS_OF_MANY};
use super::products;
use crate::claims::{Challenges, Functional, Points, Tally};
use crate::field::{DEGREE, EF, F, bits_of, eq_at, eq_points, eq_table};
use crate::logup::Known;
use crate::pcs::STACK_BITS_MAX;
use crate::plan::{At, ColumnId, Plan, PlanError, Tree};
use crate::prove::add_to;
use p3_field::{BasedVectorSpace, PrimeCharacteristicRing};
use std::collections::BTreeMap;

/// Variables of the noise. A stack is opened at one random point: five coordinates, which 16
/// uniform cells with random weights make uniform but for a chance of about p^-12.
pub(crate) const NOISE_BITS: usize = 4;

/// Variables of a coordinate of the masks: two coefficients for each variable of the last
/// sum-check and one for all, at most 47, and 16 that serve as noise when they are opened.
pub(crate) const MASK_BITS: usize = 6;

const _: () = assert!(2 * STACK_BITS_MAX + 1 + (1 << NOISE_BITS) <= 1 << MASK_BITS);

/// A piece of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Piece {
    /// A column of the plan.
    Column(ColumnId),
    /// One coordinate of all pads.
    Pads(usize),
    /// One coordinate of the coefficients of the mask of the last sum-check.
    Mask(usize),
    /// One coordinate of what hides these when they are shown.
    Blind(usize),
    /// Random cells that no equation knows.
    Noise,
}

/// A stack.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    /// Variables.
    pub(crate) bits: usize,
    /// First cell and variables of each piece.
    pieces: BTreeMap<Piece, (usize, usize)>,
    /// From where on all cells are noise, if more than one opening is to be hidden.
    tail: Option<usize>,
}

impl Stack {
    /// The stack of the run.
    pub(crate) fn of_run(plan: &Plan) -> Result<Self, PlanError> {
        let mut pieces = columns(plan, Tree::Run);
        let pads = bits_of(pads(plan));
        for coordinate in 0..DEGREE {
            pieces.push((Piece::Pads(coordinate), pads));
            pieces.push((Piece::Mask(coordinate), MASK_BITS));
            pieces.push((Piece::Blind(coordinate), MASK_BITS));
        }
        Self::new(pieces)
    }

    /// The stack of tensors that an owner commits to for one proof.
    pub(crate) fn of_tensors(plan: &Plan, tree: Tree) -> Result<Self, PlanError> {
        Self::new(columns(plan, tree))
    }

    /// The stack of secret weights, and the parameters of its commitment.
    ///
    /// A row of the code has one cell of each of the 2^fold parts of the message. The last rows are
    /// noise, as many as all openings together ask for; they are coefficients that follow each
    /// other, and so are those that the library adds for one more opening. So the rows that are
    /// opened are uniform, and what is left of the noise makes the values at the points uniform.
    pub(crate) fn of_weights(plan: &Plan, openings: usize) -> Result<(Self, HidingPcs), PlanError> {
        let mut stack = Self::new(columns(plan, Tree::Weights))?;
        let ends = stack.pieces.values().map(|(first, bits)| first + (1 << bits));
        let used = ends.max().unwrap_or(0);
        for bits in stack.bits..=STACK_BITS_MAX {
            let Some(pcs) = HidingPcs::new(bits, 1, OPENING_BITS_OF_MANY) else { continue };
            let rows = ((1 << bits) - used) >> pcs.fold();
            if rows >= openings * pcs.queries() {
                (stack.bits, stack.tail) = (bits, (openings > 0).then_some(used));
                return Ok((stack, pcs));
            }
        }
        Err(PlanError::Large { bits: STACK_BITS_MAX + 1, most: STACK_BITS_MAX })
    }

    fn new(mut pieces: Vec<(Piece, usize)>) -> Result<Self, PlanError> {
        pieces.push((Piece::Noise, NOISE_BITS));
        pieces.sort_by_key(|(piece, bits)| (std::cmp::Reverse(*bits), *piece));
        let cells: u64 = pieces.iter().map(|(_, bits)| 1_u64 << bits).sum();
        let bits = bits_of(cells as usize).max(HIDDEN_BITS_MIN);
        if bits > STACK_BITS_MAX {
            return Err(PlanError::Large { bits, most: STACK_BITS_MAX });
        }
        let mut from = 0;
        let place = |(piece, bits): (Piece, usize)| {
            let first = from;
            from += 1 << bits;
            (piece, (first, bits))
        };
        Ok(Self { bits, pieces: pieces.into_iter().map(place).collect(), tail: None })
    }

    /// All cells, of which each piece gives its own.
    pub(crate) fn fill(&self, mut cells_of: impl FnMut(Piece, usize) -> Vec<F>) -> Vec<F> {
        let mut cells = vec![F::ZERO; 1 << self.bits];
        for (piece, (first, bits)) in &self.pieces {
            cells[*first..*first + (1 << bits)].copy_from_slice(&cells_of(*piece, 1 << bits));
        }
        if let Some(tail) = self.tail {
            let noise = cells_of(Piece::Noise, cells.len() - tail);
            cells[tail..].copy_from_slice(&noise);
        }
        cells
    }

    /// The first cell of a piece.
    #[cfg(test)]
    pub(crate) fn first(&self, piece: Piece) -> usize {
        self.pieces[&piece].0
    }

    /// The point of the stack that is a point of one piece.
    pub(crate) fn point(&self, piece: Piece, within: &[EF]) -> Vec<EF> {
        let (first, bits) = self.pieces.get(&piece).copied().unwrap_or_default();
        let prefix = self.bits - bits;
        let bit = |place: usize| EF::from_usize(first >> (self.bits - 1 - place) & 1);
        (0..prefix).map(bit).chain(within.iter().copied()).collect()
    }

    /// Which pieces' weights a functional has at a point, and with which factor each.
    fn at<'a>(&self, point: &'a [EF], piece: Piece) -> Option<(EF, &'a [EF])> {
        let (first, bits) = *self.pieces.get(&piece)?;
        let (prefix, within) = point[point.len() - self.bits..].split_at(self.bits - bits);
        Some((eq_at(prefix, first >> bits), within))
    }
}

fn columns(plan: &Plan, tree: Tree) -> Vec<(Piece, usize)> {
    let all = plan.columns.iter().enumerate();
    let of_tree = all.filter(|(_, column)| column.tree == tree);
    of_tree.map(|(id, column)| (Piece::Column(ColumnId(id)), column.layout.bits())).collect()
}

/// All pads of a proof: messages, lower coefficients of the equation of products, and one for each
/// factor.
pub(crate) fn pads(plan: &Plan) -> usize {
    super::pads::messages(plan) + products::degree(plan) + products::factors(plan)
}

/// One linear equation about everything that is committed: points of columns, functionals on
/// columns and pads with their weights add up to a constant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linear {
    points: Points,
    functionals: BTreeMap<(ColumnId, At), Vec<Functional>>,
    pads: Vec<EF>,
    pub(crate) constant: EF,
}

impl Linear {
    /// Joins, with powers of a challenge, what the claims leave (`claims` is the number that the
    /// tally's functionals must give), the numerator of the look-ups, and equations of pads.
    pub(crate) fn new(
        plan: &Plan,
        tally: Tally<'_>,
        known: &Known,
        claims: &Affine,
        numerator: &Affine,
        equations: &[Affine],
        tau: EF,
    ) -> Self {
        let mut linear = Self { pads: vec![EF::ZERO; pads(plan)], ..Self::default() };
        let constant = claims.constant - known.denominator.constant - tally.constant;
        linear.equation(EF::ONE, &Affine { constant, ..claims.clone() });
        linear.points(EF::ONE, &tally.points);
        linear.points(EF::ONE, &known.denominator.points);
        linear.functionals = tally.functionals;
        let constant = numerator.constant - known.numerator.constant;
        linear.equation(tau, &Affine { constant, ..numerator.clone() });
        linear.points(tau, &known.numerator.points);
        let mut power = tau;
        for equation in equations {
            power *= tau;
            linear.equation(power, equation);
        }
        linear
    }

    /// Adds that columns at points are a number that is already counted.
    fn points(&mut self, factor: EF, points: &Points) {
        for ((column, at), weight) in &points.0 {
            self.points.add(factor * *weight, *column, *at);
        }
    }

    /// Adds that a number, with what columns are taken off it, is zero.
    fn equation(&mut self, factor: EF, number: &Affine) {
        self.constant += factor * number.constant;
        for (pad, weight) in &number.terms {
            self.pads[*pad] -= factor * *weight;
        }
    }

    /// The weights of all cells of a stack, for the prover.
    pub(crate) fn weights(&self, plan: &Plan, challenges: &Challenges, stack: &Stack) -> Vec<EF> {
        let mut all = vec![EF::ZERO; 1 << stack.bits];
        for ((column, at), factor) in &self.points.0 {
            let Some((first, _)) = stack.pieces.get(&Piece::Column(*column)) else { continue };
            let table = eq_table(&plan.point(challenges, *column, *at));
            let cells = &mut all[*first..];
            cells.iter_mut().zip(table).for_each(|(cell, weight)| *cell += *factor * weight);
        }
        for ((column, at), functionals) in &self.functionals {
            let Some((first, _)) = stack.pieces.get(&Piece::Column(*column)) else { continue };
            let layout = &plan.columns[column.0].layout;
            if let At::Slice(product) = *at {
                let slice = eq_table(&plan.weights_point(challenges, product, layout, &[]));
                for functional in functionals {
                    let cells = all[*first..].chunks_mut(slice.len()).zip(&functional.cells);
                    for (cells, factor) in cells {
                        cells.iter_mut().zip(&slice).for_each(|(cell, eq)| *cell += *factor * *eq);
                    }
                }
                continue;
            }
            let cells = layout.cells();
            for functional in functionals {
                add_to(layout, &cells, functional, &mut all[*first..]);
            }
        }
        for coordinate in 0..DEGREE {
            let Some((first, _)) = stack.pieces.get(&Piece::Pads(coordinate)) else { continue };
            let cells = all[*first..].iter_mut().zip(&self.pads);
            cells.for_each(|(cell, weight)| *cell = *weight * basis(coordinate));
        }
        all
    }

    /// The value at a point of the function of these weights, for the verifier. The challenges'
    /// last point must be the same.
    pub(crate) fn eval(&self, plan: &Plan, challenges: &Challenges, stack: &Stack) -> EF {
        let point = &challenges.functionals;
        let mut sum = EF::ZERO;
        for ((column, at), factor) in &self.points.0 {
            let Some((eq, within)) = stack.at(point, Piece::Column(*column)) else { continue };
            sum += eq * *factor * eq_points(&plan.point(challenges, *column, *at), within);
        }
        for ((column, at), functionals) in &self.functionals {
            let Some((eq, within)) = stack.at(point, Piece::Column(*column)) else { continue };
            if let At::Slice(product) = *at {
                let layout = &plan.columns[column.0].layout;
                let (rows, within) = within.split_at(layout.side_bits(0));
                let slice = plan.weights_point(challenges, product, layout, &[]);
                let (slice, rows) = (eq * eq_points(&slice, within), eq_table(rows));
                let cells = functionals.iter().flat_map(|one| one.cells.iter().zip(&rows));
                sum += slice * cells.map(|(cell, row)| *cell * *row).sum::<EF>();
                continue;
            }
            for functional in functionals {
                sum += eq * plan.eval_functional(challenges, *column, *at, functional);
            }
        }
        let Some((_, within)) = stack.at(point, Piece::Pads(0)) else { return sum };
        let weights = eq_table(within);
        let pads: EF = self.pads.iter().zip(weights).map(|(factor, eq)| *factor * eq).sum();
        let of = |coordinate: usize| {
            let eq = stack.at(point, Piece::Pads(coordinate)).map_or(EF::ZERO, |(eq, _)| eq);
            eq * basis(coordinate)
        };
        sum + pads * (0..DEGREE).map(of).sum::<EF>()
    }
}

/// The element whose coordinates are all 0 but one, which is 1.
pub(crate) fn basis(coordinate: usize) -> EF {
    EF::from_basis_coefficients_fn(|place| F::from_bool(place == coordinate))
}

/// A coordinate of each element; 0 behind them.
pub(crate) fn coordinate(elements: &[EF], coordinate: usize, len: usize) -> Vec<F> {
    let of = |element: &EF| {
        let parts: &[F] = element.as_basis_coefficients_slice();
        parts[coordinate]
    };
    let mut cells: Vec<F> = elements.iter().map(of).collect();
    cells.resize(len, F::ZERO);
    cells
}
