//! The prover.
//!
//! Transcript: statement; roots of secret weights; accumulators in the clear; root of the run, and
//! the second one of a divided run; alpha, beta; look-ups; gamma and the point of the checks; first
//! sum-check; claims; rho; second sum-check; openings of the run, of its second stack, of the
//! weights. `verify.rs` replays it in the same order.

use crate::claims::{Challenges, Functional, Request, Tally};
use crate::codec::{Proof, Rest};
use crate::error::ProveError;
use crate::field::{EF, F, eq_table, int};
use crate::fractions::{self, Fractions, leaf_point};
use crate::leaves::Leaves;
use crate::logup;
use crate::outer::Outer;
use crate::pcs::{self, Kept, Pcs, Root};
use crate::plan::{
    At, Check, ColumnId, Layout, MatMulShape, Placed, Plan, PlanError, ProductKind, Role, Source,
    Tree,
};
use crate::setup::{Setup, WeightsCommitment};
use crate::statement::{Mode, Statement};
use crate::sumcheck::{self, ProductTerm, pack};
use crate::wide::{Factor, Narrow, WIDTH, Wide, lane};
use crate::witness::{Witness, numbers, spread_out, spread_over};
use p3_challenger::FieldChallenger;
use p3_field::{PackedFieldExtension, PackedValue, PrimeCharacteristicRing};
use p3_multi_stark::fractional_gkr::FractionGkrProof;
use p3_multilinear_util::poly::Poly;
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use tg_tensor::{Model, Options, Runner, Tensor};
use tg_types::Hash32;

/// Inferences from which on what linear operations read is summed over them first: that takes
/// products of elements of the extension, but only as many as one inference has.
const MANY: usize = 8;

/// A model that is ready to be proven, for one number of inferences.
#[derive(Debug)]
pub struct Prover {
    setup: Setup,
    runner: Runner,
    weights: Hash32,
    committed: Vec<Committed>,
}

/// A commitment to weights with what is needed to open it.
struct Committed {
    root: Root,
    kept: Kept,
}

impl std::fmt::Debug for Committed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Committed").finish_non_exhaustive()
    }
}

impl Prover {
    /// Makes a model ready: plans, commits to its weights if they are secret.
    pub fn new(model: impl Into<Arc<Model>>, mode: Mode, batch: usize) -> Result<Self, PlanError> {
        let model = model.into();
        let constants = match mode {
            Mode::Public => Some(model.constants()),
            Mode::Committed => None,
        };
        let setup = Setup::new(&Arc::new(model.program().clone()), constants, batch)?;
        Ok(Self::with(setup, model))
    }

    /// One for a setup of the model's program.
    pub(crate) fn with(setup: Setup, model: Arc<Model>) -> Self {
        let trees = setup.weights.iter();
        let committed: Vec<Committed> =
            trees.map(|(tree, pcs)| commit(&setup.plan, *tree, pcs, &model)).collect();
        let roots = WeightsCommitment::of(committed.iter().map(|committed| &committed.root));
        let weights = match setup.mode {
            Mode::Committed => roots.digest(),
            Mode::Public => model.weights_root(),
        };
        let runner = Runner::new(model, Options { threads: 1, path: None });
        Self { setup, runner, weights, committed }
    }

    /// The commitment to the weights; `None` if they are not secret, or there are none.
    #[must_use]
    pub fn commitment(&self) -> Option<WeightsCommitment> {
        let roots = self.committed.iter().map(|committed| &committed.root);
        (!self.committed.is_empty()).then(|| WeightsCommitment::of(roots))
    }

    #[cfg(test)]
    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The prover for verifiers that absorb neither program nor weights.
    #[cfg(test)]
    pub(crate) fn without_model(mut self) -> Self {
        self.weights = Hash32::new([0; 32]);
        self.setup.program = Hash32::new([0; 32]);
        self
    }

    /// A prover who names and opens the weights of another one.
    #[cfg(test)]
    pub(crate) fn disguised(mut self, other: Self) -> Self {
        self.weights = other.weights;
        self.committed = other.committed;
        self
    }

    /// Runs the program on every inference's inputs and proves it.
    pub fn prove(
        &self,
        inputs: Vec<Vec<Tensor>>,
        context: Vec<u8>,
    ) -> Result<(Statement, Proof), ProveError> {
        let (found, expected) = (inputs.len(), self.setup.plan.batch);
        if found != expected {
            return Err(ProveError::Batch { found, expected });
        }
        // Within the pool threads help each other; from outside each step would be handed over.
        rayon::scope(|_| {
            let witness = Witness::new(&self.setup.plan, &self.runner, &inputs)?;
            let statement = Statement { inputs, outputs: witness.outputs.clone(), context };
            let proof = self.prove_witness(&statement, &witness, &witness, false);
            Ok((statement, proof))
        })
    }

    /// Proves a statement from two witnesses, of which a liar may choose the second for everything
    /// after the commitment, and hide that the look-ups do not add up. For an honest prover they
    /// are the same.
    pub(crate) fn prove_witness(
        &self,
        statement: &Statement,
        witness: &Witness,
        shown: &Witness,
        hide: bool,
    ) -> Proof {
        let plan = &self.setup.plan;
        let mut transcript = self.setup.begin(statement, &self.weights);
        for ((_, pcs), committed) in self.setup.weights.iter().zip(&self.committed) {
            pcs.absorb(&committed.root, transcript.sponge());
        }
        let clear: Vec<F> = shown.clear.iter().map(|sum| int((*sum).into())).collect();
        transcript.absorb_base("accumulators", &clear);
        let bundles = witness.bundles(plan, Tree::Run);
        let commit = |(tree, pcs): (Tree, &Pcs), sponge: &mut pcs::Sponge| {
            pcs.commit(plan.tables_cut(tree, &bundles), sponge)
        };
        let (root, kept) = commit((Tree::Run, &self.setup.run), transcript.sponge());
        let rest = self.setup.rest.as_ref();
        let rest = rest.map(|pcs| (pcs, commit((Tree::Rest, pcs), transcript.sponge())));
        let mut challenges = Challenges {
            alpha: transcript.draw("alpha"),
            beta: transcript.draw("beta"),
            ..Challenges::default()
        };
        let (lookups, point) = look_up(plan, shown, &challenges, hide, transcript.sponge());
        challenges.lookups = point;
        challenges.gamma = transcript.draw("gamma");
        challenges.checks = transcript.draw_point("checks", plan.check_bits());
        let requests = plan.requests(&challenges);
        let parts = Parts { plan, model: self.runner.model() };
        let terms = parts.products(shown, &challenges, &requests);
        let mut claims = Vec::new();
        let products = (!terms.is_empty()).then(|| {
            let summed = sumcheck::prove(terms, plan.product_degree(), transcript.sponge());
            challenges.products = summed.point;
            claims = parts.claims(shown, &challenges, summed.factors);
            summed.proof
        });
        transcript.absorb("claims", &claims);
        challenges.rho = transcript.draw("rho");
        let tally = Tally::new(plan, &challenges, &requests, None);
        let known = std::ptr::eq(witness, shown).then_some(bundles.as_slice());
        let terms = parts.functionals((shown, known), &challenges, &tally.functionals);
        let functionals = (!terms.is_empty()).then(|| {
            let summed = sumcheck::prove(terms, 2, transcript.sponge());
            challenges.functionals = summed.point;
            summed.proof
        });
        let (points, _) = plan.points(Tree::Run, &challenges);
        let opening = self.setup.run.open(kept, points, transcript.sponge());
        let rest = rest.map(|(pcs, (root, kept))| {
            let (points, _) = plan.points(Tree::Rest, &challenges);
            Rest { root, opening: pcs.open(kept, points, transcript.sponge()) }
        });
        let open = |index: usize| {
            let ((tree, pcs), committed) = (&self.setup.weights[index], &self.committed[index]);
            let (points, _) = plan.points(*tree, &challenges);
            pcs.open(committed.kept.clone(), points, transcript.sponge())
        };
        let weights = (0..self.setup.weights.len()).map(open).collect();
        let clear = shown.clear.clone();
        Proof { clear, root, lookups, products, claims, functionals, opening, rest, weights }
    }
}

/// What the tables of both sum-checks are made from, beside the witness.
pub(crate) struct Parts<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) model: &'a Model,
}

impl Parts<'_> {
    /// The terms of the first sum-check.
    pub(crate) fn products(
        &self,
        witness: &Witness,
        challenges: &Challenges,
        requests: &BTreeMap<usize, Request>,
    ) -> Vec<ProductTerm<'static>> {
        let plan = self.plan;
        let mut terms = Vec::with_capacity(plan.products.len());
        for (index, product) in plan.products.iter().enumerate() {
            terms.push(match &product.kind {
                ProductKind::Linear(shape) => {
                    let request = &requests[&product.operation];
                    let x = |inference: usize| witness.read(plan, shape.x, inference);
                    let left = match plan.batch < MANY {
                        true => shape.left_table(&request.all_rows(), x),
                        false => shape.left_table_of_many(&request.batch, &request.rows, x),
                    };
                    let weights =
                        self.model.constant(shape.weights).expect("weights are a constant");
                    ProductTerm::new(vec![left, shape.right_table(&request.columns, weights)])
                }
                ProductKind::Max(shape) => {
                    let power = plan.check_power(challenges, Check::Max(index));
                    let mut factors = vec![check_weights(challenges, product.bits, power)];
                    let made = witness.source(plan, product.operation, shape.made);
                    for tap in &shape.taps {
                        let read = witness.source(plan, product.operation, *tap);
                        factors.push(differences(plan, product.operation, &made, &read));
                    }
                    ProductTerm::new(factors)
                }
                ProductKind::Times(times) => {
                    let power = plan.check_power(challenges, Check::Equation(times.equation));
                    let power = power.map(|power| power * times.scale);
                    let mut factors = vec![check_weights(challenges, product.bits, power)];
                    let layout = &plan.equations[times.equation].layout;
                    for form in &times.factors {
                        let cells = witness.formed(plan, product.operation, form);
                        let cells = spread_over(layout, &cells, form.padding());
                        factors.push(cells.into_iter().map(EF::from).collect());
                    }
                    ProductTerm::new(factors)
                }
                ProductKind::MatMul(shape) => {
                    let request = &requests[&product.operation];
                    mat_mul(plan, witness, product.bits, shape, request)
                }
                ProductKind::Elements { offsets } => {
                    let request = &requests[&product.operation];
                    elements(plan, witness, product.operation, *offsets, request)
                }
            });
        }
        terms
    }

    /// What is claimed at the end of the first sum-check: both factors of a linear operation; a
    /// maximum and what its taps read.
    pub(crate) fn claims(
        &self,
        witness: &Witness,
        challenges: &Challenges,
        factors: Vec<Vec<EF>>,
    ) -> Vec<EF> {
        let plan = self.plan;
        let mut claims = Vec::with_capacity(plan.claims());
        for (index, (product, factors)) in plan.products.iter().zip(factors).enumerate() {
            match &product.kind {
                ProductKind::Linear(_) | ProductKind::MatMul(_) | ProductKind::Elements { .. } => {
                    claims.extend(factors);
                }
                ProductKind::Times(_) => claims.extend(factors.into_iter().skip(1)),
                ProductKind::Max(shape) => {
                    let layout = plan.layout_of(product.operation);
                    let cells = &witness.source(plan, product.operation, shape.made);
                    let weights = eq_table(plan.product_point(challenges, index));
                    let cells = spread_out(layout, cells);
                    let made: EF = weights.iter().zip(cells).map(|(w, cell)| *w * cell).sum();
                    claims.push(made);
                    claims.extend(factors.iter().skip(1).map(|excess| made - *excess));
                }
            }
        }
        claims
    }

    /// The terms of the second sum-check: weights times columns. Those of the run may be known, by
    /// bundle.
    fn functionals<'a>(
        &self,
        (witness, known): (&Witness, Option<&'a [Vec<Vec<F>>]>),
        challenges: &Challenges,
        functionals: &BTreeMap<(ColumnId, At), Vec<Functional>>,
    ) -> Vec<ProductTerm<'a>> {
        let plan = self.plan;
        let term = |(column, at): (ColumnId, At)| {
            let spec = &plan.columns[column.0];
            let cells: Cow<'a, [F]> = match at {
                At::Slice(product) => {
                    let slice = self.slice(challenges, product);
                    let mut weights = vec![EF::ZERO; slice.len()];
                    for functional in functionals.get(&(column, at)).into_iter().flatten() {
                        weights.iter_mut().zip(&functional.cells).for_each(|(to, w)| *to += *w);
                    }
                    return ProductTerm::new(vec![weights, slice]);
                }
                At::Lookups | At::Product(_) | At::Functional | At::Checks => {
                    match known.filter(|_| spec.tree == Tree::Run) {
                        Some(bundles) => Cow::Borrowed(&bundles[spec.bundle][spec.place]),
                        None => Cow::Owned(witness.column(plan, spec)),
                    }
                }
            };
            let all = functionals.get(&(column, at)).map_or(&[][..], Vec::as_slice);
            match Outer::new(&spec.layout, all, cells) {
                Ok(outer) => ProductTerm::outer(outer, spec.layout.bits()),
                Err(cells) => ProductTerm::weighted(functional_weights(&spec.layout, all), &cells),
            }
        };
        plan.functionals().into_iter().map(term).collect()
    }

    /// Secret weights at the point where a product ended, a number for each column.
    fn slice(&self, challenges: &Challenges, product: usize) -> Vec<EF> {
        let plan = self.plan;
        let ProductKind::Linear(shape) = &plan.products[product].kind else { return Vec::new() };
        let point = plan.product_point(challenges, product);
        let weights = self.model.constant(shape.weights).expect("a constant");
        let mut slice = shape.slice(point, weights);
        slice.resize(1 << crate::field::bits_of(shape.columns), EF::ZERO);
        slice
    }
}

/// Rows and columns of a product of two values, each summed with its weights.
fn mat_mul(
    plan: &Plan,
    witness: &Witness,
    bits: usize,
    shape: &MatMulShape,
    request: &Request,
) -> ProductTerm<'static> {
    let side = |side: usize| {
        let rows = |inference: usize, batch: usize| match side {
            0 => {
                let rows = &request.rows[batch * shape.rows[0]..][..shape.rows[0]];
                rows.iter().map(|row| *row * request.batch[inference]).collect()
            }
            _ => request.columns.clone(),
        };
        let x = |inference: usize| witness.read(plan, shape.values[side], inference);
        let mut table = shape.table(side, plan.batch, rows, x);
        table.resize(1 << bits, EF::ZERO);
        table
    };
    ProductTerm::new(vec![side(0), side(1)])
}

/// The two sides of a product of elements, the left one with its weights.
fn elements(
    plan: &Plan,
    witness: &Witness,
    operation: usize,
    offsets: [i64; 2],
    request: &Request,
) -> ProductTerm<'static> {
    let layout = plan.layout_of(operation);
    let side = |side: usize| {
        let source = Source::Placed(Placed { operation, place: side, number: 0 });
        let read = witness.source(plan, operation, source);
        let moved = read.iter().map(|x| (i64::from(*x) + offsets[side]) as i32);
        spread_out(layout, &moved.collect::<Vec<_>>())
    };
    let mut weights = vec![EF::ZERO; 1 << layout.bits()];
    let asked = Functional { batch: request.batch.clone(), cells: request.cells() };
    add_to(layout, &layout.cells(), &asked, &mut weights);
    let left = weights.iter().zip(side(0)).map(|(weight, x)| *weight * x).collect();
    ProductTerm::new(vec![left, side(1).into_iter().map(EF::from).collect()])
}

/// The weights of a check, times its power.
fn check_weights(challenges: &Challenges, bits: usize, power: Option<EF>) -> Vec<EF> {
    let point = &challenges.checks[challenges.checks.len() - bits..];
    Poly::new_from_point(point, power.unwrap_or_default()).into_evals()
}

/// Differences of two numbers of each element, in their cells.
fn differences(plan: &Plan, operation: usize, from: &[i32], less: &[i32]) -> Vec<EF> {
    let all: Vec<i32> = from.iter().zip(less).map(|(from, less)| from - less).collect();
    spread_out(plan.layout_of(operation), &all).into_iter().map(EF::from).collect()
}

/// The weights that functionals give to the cells of a column.
fn functional_weights(layout: &Layout, functionals: &[Functional]) -> Vec<Wide> {
    let inner = 1 << layout.inner_bits();
    let mut weights = vec![EF::ZERO; if inner < Narrow::WIDTH { 1 << layout.bits() } else { 0 }];
    let mut wide = vec![Wide::ZERO; (1 << layout.bits()) / Narrow::WIDTH];
    let cells = layout.cells();
    for functional in functionals {
        if inner < Narrow::WIDTH {
            add_to(layout, &cells, functional, &mut weights);
            continue;
        }
        let mut one = vec![EF::ZERO; inner];
        for (cell, factor) in cells.iter().zip(&functional.cells) {
            one[*cell as usize] = *factor;
        }
        let mut one = pack(&one);
        let registers = one.len();
        while one.last() == Some(&Wide::ZERO) {
            one.pop();
        }
        let inferences = wide.par_chunks_mut(registers).zip(&functional.batch[..]);
        inferences.for_each(|(to, weight)| {
            let weight = Factor::new(*weight);
            to.iter_mut().zip(&one).for_each(|(to, factor)| *to += weight.times(*factor));
        });
    }
    if inner < Narrow::WIDTH { pack(&weights) } else { wide }
}

pub(crate) fn add_to(layout: &Layout, cells: &[u32], functional: &Functional, to: &mut [EF]) {
    for (inference, weight) in functional.batch.iter().enumerate() {
        let to = &mut to[inference << layout.inner_bits()..];
        for (cell, factor) in cells.iter().zip(&functional.cells) {
            to[*cell as usize] += *weight * *factor;
        }
    }
}

/// Commits to the weights, on a transcript of its own: the root is absorbed again by every proof.
fn commit(plan: &Plan, tree: Tree, pcs: &Pcs, model: &Model) -> Committed {
    let mut bundles = Vec::new();
    for column in plan.columns.iter().filter(|column| column.tree == tree) {
        let numbers: Vec<i32> = match column.role {
            Role::Constant(constant) => numbers(&model.constants()[constant]).collect(),
            Role::Value(_)
            | Role::Limb(..)
            | Role::Multiplicity(_)
            | Role::Input(_)
            | Role::Range(..)
            | Role::Filler => Vec::new(),
        };
        bundles.push(vec![spread_out(&column.layout, &numbers)]);
    }
    let (root, kept) = pcs.commit(plan.tables_cut(tree, &bundles), &mut pcs::sponge());
    Committed { root, kept }
}

/// Proves the look-ups; gives the point where they end.
pub(crate) fn look_up(
    plan: &Plan,
    witness: &Witness,
    challenges: &Challenges,
    hide: bool,
    sponge: &mut impl FieldChallenger<F>,
) -> (FractionGkrProof<EF>, Vec<EF>) {
    let leaves = logup::leaves(plan, witness, challenges);
    #[cfg(test)]
    if !hide && crate::tests::fractions::are_wrong(&leaves) {
        let (proof, point) = crate::tests::fractions::prove(&leaves, plan.leaf_bits, sponge);
        return (proof, leaf_point(point));
    }
    let (proof, point) = if hide {
        fractions::prove(hide_imbalance(plan, &leaves), plan.leaf_bits, sponge)
    } else {
        fractions::prove(leaves, plan.leaf_bits, sponge)
    };
    (proof, leaf_point(point))
}

/// A liar's leaves: the last one takes whatever is missing to a sum of zero.
fn hide_imbalance(plan: &Plan, leaves: &Leaves) -> Fractions {
    let Fractions { mut numerators, mut denominators } = leaves.fractions();
    let len = (1 << plan.leaf_bits) / WIDTH;
    numerators.resize(len, Wide::ZERO);
    denominators.resize(len, Wide::ONE);
    let mut sum = EF::ZERO;
    for (n, d) in numerators.iter().zip(&denominators) {
        sum += (0..WIDTH).map(|lane| self::lane(n, lane) / self::lane(d, lane)).sum::<EF>();
    }
    if let (Some(n), Some(d)) = (numerators.last_mut(), denominators.last()) {
        let last = WIDTH - 1;
        let missing = sum * lane(d, last);
        let lane = |lane: usize| if lane == last { missing } else { EF::ZERO };
        *n -= Wide::from_ext_fn(lane);
    }
    Fractions { numerators, denominators }
}
