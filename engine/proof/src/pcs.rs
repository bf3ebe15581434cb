//! The polynomial commitment: WHIR over KoalaBear, put together once.
//!
//! Everything that Plonky3 makes generic is fixed here: hash, tree, code rate, folding, grinding
//! and the target of the proven (Johnson bound) security. Other files see tables of base-field
//! columns, points and values.

use crate::field::{EF, F};
use crate::opening::OpeningCheck;
use crate::rounds::Rounds;
use crate::sponge::RealSponge;
use crate::stack::Stack;
use crate::tree::{self, Tree};
use p3_commit::MultilinearPcs;
use p3_dft::Radix2DFTSmallBatch;
use p3_multilinear_util::point::Point;
use p3_sumcheck::layout::{Layout as _, Table};
use p3_sumcheck::{OpeningBatch, OpeningProtocol, PrescribedPointPcs, TableShape, TableSpec};
use p3_whir::parameters::{FoldingFactor, ProtocolParameters, SecurityAssumption, WhirConfig};
use p3_whir::pcs::prover::WhirProver;
use std::sync::OnceLock;

/// Bits of security that the parameters are computed for; what they give is reported per proof.
const TARGET_BITS: usize = 105;
/// Bits of work that the prover adds to a phase where that is cheaper than more queries.
const GRINDING_BITS: usize = 10;
/// log2 of the inverse code rate at the start: half of a codeword is redundancy.
const RATE_BITS: usize = 1;
/// Variables that a round folds. No column may have fewer.
pub(crate) const FOLD: usize = 4;
/// Variables that the first round of a large stack folds, if all columns have them: rows of the
/// first codeword are longer, but the second codeword, five coordinates wide, is much smaller.
pub(crate) const FOLD_LARGE: usize = 6;
/// Variables from which on a stack is large.
pub(crate) const LARGE_BITS: usize = 19;
/// log2 of the inverse code rate of the second codeword. Each later round adds two.
const SECOND_RATE_BITS: usize = 3;
/// Variables of the smallest stack: room for two rounds.
pub(crate) const STACK_BITS_MIN: usize = 2 * FOLD;
/// Variables of the largest stack: its codeword, of twice the size, still has a domain.
pub(crate) const STACK_BITS_MAX: usize = 23;

/// The sponge from which challenges are drawn. Tests listen to it.
#[cfg(not(test))]
pub(crate) type Sponge = RealSponge;
#[cfg(test)]
pub(crate) type Sponge = crate::tests::sponge::TestSponge;
type Whir = WhirProver<EF, F, Radix2DFTSmallBatch<F>, Tree, Sponge, Stack>;
/// The numbers of the library's protocol.
pub(crate) type Config = WhirConfig<EF, F, Sponge>;
/// A root.
pub(crate) type Root = <Whir as MultilinearPcs<EF, Sponge>>::Commitment;
/// What the prover keeps of a commitment.
pub(crate) type Kept = <Whir as MultilinearPcs<EF, Sponge>>::ProverData;
/// An opening.
pub(crate) type Opening = <Whir as MultilinearPcs<EF, Sponge>>::Proof;

/// A sponge in its first state.
pub(crate) fn sponge() -> Sponge {
    let real = RealSponge::new();
    #[cfg(test)]
    let real = Sponge::new(real);
    real
}

/// Columns of one table that are opened at one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Which columns.
    pub(crate) columns: Vec<usize>,
}

/// A table of columns and at how many points which of them are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Variables of each column.
    pub(crate) bits: usize,
    /// How many columns.
    pub(crate) columns: usize,
    /// The openings; at least one.
    pub(crate) requests: Vec<Request>,
}

/// What the library says about the error of an opening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Soundness {
    /// -log2 of the error of commitment and opening.
    pub(crate) bits: f64,
    /// log2 of how many polynomials a root can stand for before it is opened.
    pub(crate) candidates_log2: f64,
}

/// One commitment's parameters: sizes, code, hash.
pub(crate) struct Pcs {
    whir: Whir,
    /// Transforms of what large stacks are opened with.
    dft: Radix2DFTSmallBatch<F>,
    protocol: OpeningProtocol,
    /// Made when something is verified: who only plans does without.
    check: OnceLock<OpeningCheck>,
    bits: usize,
    first_fold: usize,
}

impl std::fmt::Debug for Pcs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pcs").field("bits", &self.bits).finish_non_exhaustive()
    }
}

impl Pcs {
    /// Parameters for these tables; `None` if they are too large or no parameters reach the target.
    pub(crate) fn new(shapes: &[Shape]) -> Option<Self> {
        let protocol = OpeningProtocol::new(shapes.iter().map(spec).collect());
        let bits = protocol.checked_num_cells()?.next_power_of_two().trailing_zeros() as usize;
        if !(STACK_BITS_MIN..=STACK_BITS_MAX).contains(&bits) {
            return None;
        }
        let is_large = bits >= LARGE_BITS && shapes.iter().all(|shape| shape.bits >= FOLD_LARGE);
        let first_fold = if is_large { FOLD_LARGE } else { FOLD };
        let folding_factor = FoldingFactor::ConstantFromSecondRound(first_fold, FOLD);
        let (rounds, _) = folding_factor.compute_number_of_rounds(bits).ok()?;
        let rate = |round: usize| SECOND_RATE_BITS + round * (FOLD - 2);
        let parameters = ProtocolParameters {
            security_level: TARGET_BITS,
            pow_bits: GRINDING_BITS,
            folding_factor,
            soundness_type: SecurityAssumption::JohnsonBound,
            starting_log_inv_rate: RATE_BITS,
            round_log_inv_rates: (0..rounds).map(rate).collect(),
        };
        let claims = protocol.checked_num_claims()?;
        let config = Config::new_with_initial_claims(bits, parameters, claims).ok()?;
        if !config.check_pow_bits() {
            return None;
        }
        // Its factors are computed when something is committed, which no verifier does.
        let whir = Whir::new(config, Radix2DFTSmallBatch::default(), tree::tree());
        let dft = Radix2DFTSmallBatch::default();
        Some(Self { whir, dft, protocol, check: OnceLock::new(), bits, first_fold })
    }

    /// Commits to the columns of each table and absorbs the root. The tables have the shapes that
    /// the parameters were made for.
    pub(crate) fn commit(&self, tables: Vec<Table<F>>, sponge: &mut Sponge) -> (Root, Kept) {
        let witness = Stack::new_witness(tables, self.first_fold);
        self.whir.commit(witness, sponge).expect("the tables have the shapes of the parameters")
    }

    /// Absorbs a root.
    pub(crate) fn absorb(&self, root: &Root, sponge: &mut Sponge) {
        self.whir.observe_commitment(root, sponge);
    }

    /// Opens the tables at one point for each request, in their order.
    pub(crate) fn open(&self, kept: Kept, points: Vec<Vec<EF>>, sponge: &mut Sponge) -> Opening {
        match self.bits >= LARGE_BITS {
            true => self.open_in_rounds(kept, points, sponge),
            false => self.open_by_library(kept, points, sponge),
        }
    }

    /// The same by the library's prover.
    pub(crate) fn open_by_library(
        &self,
        kept: Kept,
        points: Vec<Vec<EF>>,
        sponge: &mut Sponge,
    ) -> Opening {
        let points: Vec<Point<EF>> = points.into_iter().map(Point::new).collect();
        self.whir
            .open_at(kept, &self.protocol, &points, sponge)
            .expect("the number of claims fits the parameters")
    }

    /// The same by our own.
    pub(crate) fn open_in_rounds(
        &self,
        kept: Kept,
        points: Vec<Vec<EF>>,
        sponge: &mut Sponge,
    ) -> Opening {
        let points: Vec<Point<EF>> = points.into_iter().map(Point::new).collect();
        Rounds::new(&self.whir, &self.dft).open(kept, &self.protocol, &points, sponge)
    }

    /// The values at one point for each request, if the opening holds.
    pub(crate) fn verify(
        &self,
        root: &Root,
        opening: &Opening,
        points: &[Vec<EF>],
        sponge: &mut Sponge,
    ) -> Option<Vec<Vec<EF>>> {
        let of = |point: &Vec<EF>| Point::new(point.clone());
        let checked: Vec<Point<EF>> = points.iter().map(of).collect();
        if self.protocol.check_points(&checked).is_err() {
            return None;
        }
        let strategy = Stack::strategy;
        let check = || OpeningCheck::new(&self.whir, &self.protocol, strategy());
        self.check.get_or_init(check).holds(&self.whir, (root, opening), points, sponge)?;
        Some(opening.evals.iter().map(|batch| batch.current().to_vec()).collect())
    }

    /// -log2 of the chance to open one root to either of two words at will.
    ///
    /// A root stands for a short list of words until it is opened, so its maker could show one of
    /// them now and another one later, if both lie close to what was committed. At rate r they
    /// differ at 1 - r of all places at least; the best is to commit to something half-way, of
    /// which each opening, at its t places, must not see the other half: ((1 + r) / 2)^t. Openings
    /// are made one by one, so several would not multiply: who fails at one draws it again, at
    /// the price of the grinding.
    pub(crate) fn other_word_bits(&self) -> f64 {
        let (terminal, first) = (self.whir.terminal(), self.whir.round_parameters().first());
        let (queries, grinding) = first
            .map_or((terminal.num_queries, terminal.pow_bits), |it| (it.num_queries, it.pow_bits));
        let rate = 0.5_f64.powi(RATE_BITS as i32);
        -f64::midpoint(1.0, rate).log2() * queries as f64 + grinding as f64
    }

    /// The error of commitment and opening.
    pub(crate) fn soundness(&self) -> Option<Soundness> {
        let found = self.whir.prescribed_security(&self.protocol)?;
        let candidates_log2 = found.log2_max_candidates;
        Some(Soundness { bits: found.error().bits(), candidates_log2 })
    }
}

fn spec(shape: &Shape) -> TableSpec {
    let batch = |request: &Request| OpeningBatch::new(request.columns.clone(), Vec::new());
    let table = TableShape::new(shape.bits, shape.columns);
    TableSpec::new(table, shape.requests.iter().map(batch).collect())
}

/// Tables of these columns.
#[cfg(test)]
pub(crate) fn tables(columns: &[Vec<Vec<F>>]) -> Vec<Table<F>> {
    let table = |columns: &Vec<Vec<F>>| {
        let width = columns.first().map_or(0, Vec::len);
        Table::new(p3_matrix::dense::RowMajorMatrix::new(columns.concat(), width))
    };
    columns.iter().map(table).collect()
}

#[cfg(test)]
impl Pcs {
    /// The same by the library's verifier.
    pub(crate) fn verify_by_library(
        &self,
        root: &Root,
        opening: &Opening,
        points: Vec<Vec<EF>>,
        sponge: &mut Sponge,
    ) -> Option<Vec<Vec<EF>>> {
        // It reads a closing sum-check only if there are rounds left for it.
        let unread =
            opening.whir.final_sumcheck.is_some() && self.whir.final_sumcheck_rounds() == 0;
        let points: Vec<Point<EF>> = points.into_iter().map(Point::new).collect();
        if unread || root.roots().len() != 1 {
            return None;
        }
        let values = self.whir.verify_at(root, opening, &self.protocol, &points, sponge).ok()?;
        Some(values.iter().map(|batch| batch.current().to_vec()).collect())
    }
}
