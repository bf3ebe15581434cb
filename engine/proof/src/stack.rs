//! What a prover does with all cells of a commitment when it is opened: values at points, the first
//! sum-check, and what that leaves of cells and weights.
//!
//! The protocol and the layout are the library's ([`SuffixProver`]), and so is every message. Its
//! arithmetic goes from cell to cell; here registers hold cells, and four products are added before
//! they are reduced.
//!
//! The variables that the first round folds are the last ones of every column. So of a column at a
//! point its *parts* are enough: for each place of a row, the sum over all rows with the weights of
//! the other coordinates. The first sum-check is one of parts, and cells are needed again at its
//! end only.

use crate::field::{DEGREE, EF, F, eq_at, eq_table};
use crate::sumcheck::pack;
use crate::wide::{Narrow, WIDTH, Wide, lane};
use p3_challenger::{FieldChallenger, GrindingChallenger};
use p3_field::{Algebra, BasedVectorSpace, PackedValue, PrimeCharacteristicRing};
use p3_multilinear_util::point::Point;
use p3_multilinear_util::poly::Poly;
use p3_sumcheck::layout::{
    Layout, LayoutStrategy, StackedClaims, SuffixProver, Table, TablePlacement, Witness,
    plan_stacked_layout,
};
use p3_sumcheck::product_polynomial::ProductPolynomial;
use p3_sumcheck::strategy::{Basis, SumcheckProver, VariableOrder};
use p3_sumcheck::transcript::{ProverTranscript, SumcheckShape};
use p3_sumcheck::{OpeningBatch, OpeningEvals, OpeningRequest, SumcheckData};

/// Products that are added before they are reduced.
const TOGETHER: usize = 4;

/// Columns of one table at one point.
#[derive(Clone)]
struct Claimed {
    /// The coordinates of the variables that are folded first.
    low: Vec<EF>,
    /// The weights of rows.
    rows: Vec<EF>,
    columns: Vec<usize>,
    /// The parts of each column.
    parts: Vec<Vec<EF>>,
    values: Vec<EF>,
}

/// The whole stack at one point.
#[derive(Clone)]
struct Outside {
    low: Vec<EF>,
    rows: Vec<EF>,
    parts: Vec<EF>,
    value: EF,
}

/// The columns of a commitment, and what was claimed of them.
#[derive(Clone)]
pub(crate) struct Stack {
    library: SuffixProver<F, EF>,
    placements: Vec<TablePlacement>,
    /// By table, in the order of requests.
    claims: Vec<Vec<Claimed>>,
    outside: Vec<Outside>,
}

/// Two lists whose products the first sum-check adds up.
struct Pair {
    parts: Vec<EF>,
    weights: Vec<EF>,
}

impl Stack {
    fn cells(&self, table: usize, column: usize) -> &[F] {
        let column = self.library.table(table).column(column);
        column.as_dense().expect("cells are written down")
    }

    /// The lists of the first sum-check, joined with powers of a challenge, in the order in which
    /// claims are joined: largest tables first.
    fn pairs(&self, powers: &[EF]) -> Vec<Pair> {
        let mut powers = powers.iter();
        let mut pairs = Vec::new();
        for placement in &self.placements {
            for claimed in &self.claims[placement.idx()] {
                let mut parts = vec![EF::ZERO; 1 << claimed.low.len()];
                for (own, power) in claimed.parts.iter().zip(&mut powers) {
                    parts.iter_mut().zip(own).for_each(|(sum, part)| *sum += *power * *part);
                }
                pairs.push(Pair { parts, weights: eq_table(&claimed.low) });
            }
        }
        for (outside, power) in self.outside.iter().zip(powers) {
            let parts = outside.parts.iter().map(|part| *power * *part).collect();
            pairs.push(Pair { parts, weights: eq_table(&outside.low) });
        }
        pairs
    }

    /// All values, joined.
    fn sum(&self, powers: &[EF]) -> EF {
        let tables = self.placements.iter().flat_map(|placement| &self.claims[placement.idx()]);
        let values = tables.flat_map(|claimed| &claimed.values);
        let values = values.chain(self.outside.iter().map(|outside| &outside.value));
        values.zip(powers).map(|(value, power)| *power * *value).sum()
    }

    /// The first row of a column in the stack.
    fn first_row(&self, placement: &TablePlacement, column: usize) -> usize {
        let bits = self.num_variables_table(placement.idx()) - self.folding();
        placement.selectors()[column].index() << bits
    }

    /// The cells at the challenges.
    fn folded(&self, challenges: &[EF]) -> Vec<EF> {
        let weights = pack(&eq_table(challenges));
        let mut folded = vec![EF::ZERO; 1 << (self.num_variables() - self.folding())];
        for placement in &self.placements {
            for column in 0..placement.num_polys() {
                let first = self.first_row(placement, column);
                let rows = self.cells(placement.idx(), column).chunks(1 << self.folding());
                for (to, row) in folded[first..].iter_mut().zip(rows) {
                    *to = summed(&weights, Narrow::pack_slice(row));
                }
            }
        }
        folded
    }

    /// The weights of rows of all claims, joined; `ends` are what the first sum-check left of each
    /// claim's own.
    fn weights(&self, powers: &[EF], ends: &[EF]) -> Vec<EF> {
        let mut weights = vec![EF::ZERO; 1 << (self.num_variables() - self.folding())];
        let (mut powers, mut ends) = (powers.iter(), ends.iter());
        for placement in &self.placements {
            let table = placement.idx();
            for (claimed, end) in self.claims[table].iter().zip(&mut ends) {
                for (column, power) in claimed.columns.iter().zip(&mut powers) {
                    let first = self.first_row(placement, *column);
                    add(&mut weights[first..], *power * *end, &claimed.rows);
                }
            }
        }
        for ((outside, power), end) in self.outside.iter().zip(powers).zip(ends) {
            add(&mut weights, *power * *end, &outside.rows);
        }
        weights
    }
}

fn add(to: &mut [EF], factor: EF, rows: &[EF]) {
    to.iter_mut().zip(rows).for_each(|(to, row)| *to += factor * *row);
}

/// The sum of a row's cells with weights.
fn summed(weights: &[Wide], row: &[Narrow]) -> EF {
    let mut sum = Wide::ZERO;
    let (several, last) = row.as_chunks::<TOGETHER>();
    let (by, rest) = weights.as_chunks::<TOGETHER>();
    for (cells, by) in several.iter().zip(by) {
        sum += Wide::from_basis_coefficients_fn(|coordinate| {
            let of = |place: usize| {
                let all: &[Narrow] = by[place].as_basis_coefficients_slice();
                all[coordinate]
            };
            Narrow::dot_product(&std::array::from_fn(of), cells)
        });
    }
    sum += rest.iter().zip(last).map(|(weight, cell)| *weight * *cell).sum::<Wide>();
    (0..WIDTH).map(|place| lane(&sum, place)).sum()
}

/// The parts of a column: rows of this many cells summed with weights.
fn parts(cells: &[F], width: usize, weights: &[EF]) -> Vec<EF> {
    let mut sums = vec![Wide::ZERO; width / WIDTH];
    let registers = sums.len();
    let all = Narrow::pack_slice(cells).chunks(TOGETHER * registers);
    for (cells, weights) in all.zip(weights.chunks(TOGETHER)) {
        let by = |coordinate: usize| {
            let of = |weight: &EF| weight.as_basis_coefficients_slice()[coordinate];
            std::array::from_fn(|place| weights.get(place).map_or(F::ZERO, of))
        };
        let by: [[F; TOGETHER]; DEGREE] = std::array::from_fn(by);
        for (register, sum) in sums.iter_mut().enumerate() {
            let of = |place: usize| cells.get(place * registers + register);
            let several: [Narrow; TOGETHER] =
                std::array::from_fn(|place| of(place).copied().unwrap_or(Narrow::ZERO));
            *sum += Wide::from_basis_coefficients_fn(|coordinate| {
                Narrow::mixed_dot_product(&several, &by[coordinate])
            });
        }
    }
    sums.iter().flat_map(|sum| (0..WIDTH).map(|place| lane(sum, place))).collect()
}

fn dot(a: &[EF], b: &[EF]) -> EF {
    a.iter().zip(b).map(|(a, b)| *a * *b).sum()
}

impl Pair {
    /// The value at 0 and the leading coefficient of the sum over all but the last variable.
    fn message(&self) -> [EF; 2] {
        let both = self.parts.chunks(2).zip(self.weights.chunks(2));
        both.fold([EF::ZERO; 2], |[at_0, leading], (a, b)| {
            [at_0 + a[0] * b[0], leading + (a[1] - a[0]) * (b[1] - b[0])]
        })
    }

    fn fold(&mut self, challenge: EF) {
        for list in [&mut self.parts, &mut self.weights] {
            *list = list.chunks(2).map(|two| two[0] + challenge * (two[1] - two[0])).collect();
        }
    }
}

impl Layout<F, EF> for Stack {
    fn from_witness(witness: Witness<F>) -> Self {
        let library = SuffixProver::from_witness(witness);
        let shapes = Layout::<F, EF>::table_shapes(&library);
        let (_, placements) = plan_stacked_layout(&shapes);
        let claims = shapes.iter().map(|_| Vec::new()).collect();
        Self { library, placements, claims, outside: Vec::new() }
    }

    fn new_witness(tables: Vec<Table<F>>, folding: usize) -> Witness<F> {
        SuffixProver::<F, EF>::new_witness(tables, folding)
    }

    fn write_message(witness: &Witness<F>, folding: usize, message: &mut [F]) {
        SuffixProver::<F, EF>::write_message(witness, folding, message);
    }

    /// Sizes only: what is claimed is noted here.
    fn claims(&self) -> &StackedClaims<F, EF> {
        self.library.claims()
    }

    fn num_claims(&self) -> usize {
        self.claims.iter().flatten().map(|claimed| claimed.columns.len()).sum()
    }

    fn num_virtual_claims(&self) -> usize {
        self.outside.len()
    }

    fn strategy() -> LayoutStrategy {
        SuffixProver::<F, EF>::strategy()
    }

    fn record_opening(
        &mut self,
        table: usize,
        batch: &OpeningRequest,
        point: &Point<EF>,
    ) -> OpeningEvals<EF> {
        let (high, low) = point.as_slice().split_at(point.num_variables() - self.folding());
        let (rows, places) = (eq_table(high), eq_table(low));
        let columns = batch.current().to_vec();
        let of = |column: &usize| parts(self.cells(table, *column), places.len(), &rows);
        let parts: Vec<Vec<EF>> = columns.iter().map(of).collect();
        let values: Vec<EF> = parts.iter().map(|parts| dot(parts, &places)).collect();
        let found = OpeningBatch::new(values.clone(), Vec::new());
        self.claims[table].push(Claimed { low: low.to_vec(), rows, columns, parts, values });
        found
    }

    fn record_opening_known(
        &mut self,
        table: usize,
        batch: &OpeningRequest,
        point: &Point<EF>,
        _: &OpeningEvals<EF>,
    ) {
        // Parts are needed in any case, and the values come with them.
        let _values = self.record_opening(table, batch, point);
    }

    fn record_virtual(&mut self, point: &Point<EF>) -> EF {
        let (high, low) = point.as_slice().split_at(point.num_variables() - self.folding());
        let places = eq_table(low);
        let mut sums = vec![EF::ZERO; places.len()];
        for placement in &self.placements {
            let bits = self.num_variables_table(placement.idx()) - self.folding();
            let (selected, within) = high.split_at(high.len() - bits);
            let rows = eq_table(within);
            for (column, selector) in placement.selectors().iter().enumerate() {
                let own = parts(self.cells(placement.idx(), column), places.len(), &rows);
                add(&mut sums, eq_at(selected, selector.index()), &own);
            }
        }
        let value = dot(&sums, &places);
        let (low, rows) = (low.to_vec(), eq_table(high));
        self.outside.push(Outside { low, rows, parts: sums, value });
        value
    }

    fn into_sumcheck<Ch>(
        self,
        proof: &mut SumcheckData<F, EF>,
        pow_bits: usize,
        challenger: &mut Ch,
    ) -> (SumcheckProver<F, EF>, Point<EF>)
    where
        Ch: FieldChallenger<F> + GrindingChallenger<Witness = F>,
    {
        let alpha: EF = self.batching_challenge(challenger);
        let count = self.num_claims() + self.num_virtual_claims();
        let powers: Vec<EF> = alpha.powers().take(count).collect();
        let (mut pairs, mut sum) = (self.pairs(&powers), self.sum(&powers));
        let shape = SumcheckShape::new(self.folding(), pow_bits, Basis::Evaluation);
        let mut transcript = ProverTranscript::<Ch, F, EF>::new(challenger, shape);
        let mut challenges = Vec::with_capacity(self.folding());
        for _ in 0..self.folding() {
            let messages = pairs.iter().map(Pair::message);
            let [at_0, leading] =
                messages.fold([EF::ZERO; 2], |sums, own| [sums[0] + own[0], sums[1] + own[1]]);
            let x = proof.observe_and_sample(&mut transcript, at_0, leading);
            let at_1 = sum - at_0;
            sum = at_0 + x * (at_1 - at_0 + (x - EF::ONE) * leading);
            pairs.iter_mut().for_each(|pair| pair.fold(x));
            challenges.push(x);
        }
        transcript.finish();
        let ends: Vec<EF> = pairs.iter().map(|pair| pair.weights[0]).collect();
        let weights = self.weights(&powers, &ends);
        // The last variable was bound first.
        let reversed: Vec<EF> = challenges.iter().rev().copied().collect();
        let folded = self.folded(&reversed);
        let order = VariableOrder::Suffix;
        let left = ProductPolynomial::new_unpacked(order, Poly::new(folded), Poly::new(weights));
        (SumcheckProver::new(left, sum), Point::new(challenges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcs::{Sponge, sponge};
    use p3_matrix::dense::RowMajorMatrix;

    /// Claims at two points of each table and one of the stack, then the first sum-check.
    fn played<L: Layout<F, EF>>(shapes: &[(usize, usize)], fold: usize) -> (Vec<EF>, Vec<EF>) {
        let some = |seed: usize| EF::from_usize(seed * seed * 31 + 7).exp_u64(11) + EF::ONE;
        let table = |(index, (bits, columns)): (usize, &(usize, usize))| {
            let cells = (0..columns << bits).map(|at| F::from_usize(at * at * 7 + index + 3));
            Table::new(RowMajorMatrix::new(cells.collect(), 1 << bits))
        };
        let tables = shapes.iter().enumerate().map(table).collect();
        let mut layout = L::from_witness(L::new_witness(tables, fold));
        let mut sponge: Sponge = sponge();
        let mut found = vec![layout.add_virtual_eval(&mut sponge)];
        for (table, (bits, columns)) in shapes.iter().enumerate() {
            for first in [0, columns / 2] {
                let point = Point::new((0..*bits).map(|at| some(7 * table + first + at)).collect());
                let batch = OpeningBatch::new((first..*columns).collect(), Vec::new());
                let values = layout.eval_at(table, &batch, &point, &mut sponge);
                found.extend(values.current());
            }
        }
        let mut proof = SumcheckData::default();
        let (mut left, point) = layout.into_sumcheck(&mut proof, 0, &mut sponge);
        found.extend(proof.polynomial_evaluations().as_flattened());
        found.extend(point.as_slice());
        found.extend(left.weights().as_slice());
        found.push(sponge.sample_algebra_element());
        (found, left.evals().as_slice().to_vec())
    }

    /// Goal: every number is the library's. Method: values, messages, challenges, and what is left
    /// of cells and weights, of tables of several sizes, against the library's.
    #[test]
    fn numbers_are_those_of_the_library() {
        let shapes: [&[(usize, usize)]; 3] =
            [&[(8, 1)], &[(6, 3), (9, 2), (6, 1)], &[(10, 2), (7, 4)]];
        for (shapes, fold) in shapes.into_iter().flat_map(|shapes| [(shapes, 4), (shapes, 6)]) {
            let library = played::<SuffixProver<F, EF>>(shapes, fold);
            assert_eq!(played::<Stack>(shapes, fold), library, "{shapes:?} {fold}");
        }
    }
}
