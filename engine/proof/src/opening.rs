//! The verifier of openings.
//!
//! It reads what the library's prover of WHIR writes and accepts what the library's verifier does.
//! That one describes its protocol step by step, and writes down and hashes the descriptions for
//! every opening; here the separators that come of it are noted once, when parameters are made. And
//! what is done for each query is done for as many queries as fit into registers.

use crate::field::{EF, F, eq_at, eq_points, eq_table};
use crate::pcs::{Config, Opening, Root, Sponge};
use crate::tree::{Paths, Rows, TreeCheck};
use crate::wide::{Factor, Narrow, WIDTH, Wide, lane, times};
use p3_challenger::{
    CanObserve, CanSample, CanSampleBits, CanSampleUniformBits as _, FieldChallenger,
    GrindingChallenger,
};
use p3_field::{
    PackedFieldExtension, PackedValue, PrimeCharacteristicRing, TwoAdicField, dot_product,
};
use p3_multilinear_util::point::Point;
use p3_sumcheck::layout::{LayoutStrategy, Verifier as Layout, plan_stacked_layout};
use p3_sumcheck::strategy::Basis;
use p3_sumcheck::transcript::SumcheckShape;
use p3_sumcheck::{OpeningBatch, OpeningProtocol, SumcheckData};
use p3_whir::WhirShape;
use p3_whir::parameters::RoundConfig;
use p3_whir::pcs::proof::QueryOpenings;

/// What is opened at the point of a request, and where it stands in the stack.
#[derive(Debug)]
struct Claim {
    request: usize,
    /// Its place among the values of the request.
    place: usize,
    /// Bits and number of the column's part of the stack.
    bits: usize,
    index: usize,
}

/// The separators of a protocol, and its claims in the order in which they are joined.
#[derive(Debug)]
pub(crate) struct OpeningCheck {
    /// In front of a point outside of the domain; the same for all of them.
    outside: Vec<F>,
    requests: Vec<Vec<F>>,
    run: Vec<F>,
    batching: Vec<F>,
    /// Of the sum-checks: the first, one for each round, the last.
    sums: Vec<Vec<F>>,
    claims: Vec<Claim>,
    /// Columns of each request.
    columns: Vec<usize>,
    tree: TreeCheck,
}

impl OpeningCheck {
    /// Notes the separators of a protocol.
    pub(crate) fn new(config: &Config, protocol: &OpeningProtocol, how: LayoutStrategy) -> Self {
        let mut layout = Layout::<F, EF>::new(&protocol.table_shapes(), how);
        let mut notes = Notes::default();
        let mut outside = Vec::new();
        for _ in 0..config.commitment_ood_samples() {
            layout.add_virtual_eval(EF::ZERO, &mut notes);
            outside = notes.last();
        }
        let (mut requests, mut columns) = (Vec::new(), Vec::new());
        for (table, batch) in protocol.iter_openings() {
            let point = Point::new(vec![EF::ZERO; layout.num_variables_table(table)]);
            let values = OpeningBatch::new(vec![EF::ZERO; batch.current().len()], Vec::new());
            let added = layout.add_claim_at(table, batch, &point, &values, &mut notes);
            added.expect("as many values as columns");
            requests.push(notes.last());
            columns.push(batch.current().len());
        }
        let shape = WhirShape::new(config, protocol.num_openings());
        shape.domain_separator::<F, EF>().seed(&mut notes);
        let run = notes.last();
        let _: EF = layout.batching_challenge(&mut notes);
        let batching = notes.last();
        let mut sums = Vec::new();
        for (rounds, work) in sum_checks(config) {
            let shape = SumcheckShape::new(rounds, work, Basis::Evaluation);
            shape.domain_separator::<F, EF>().seed(&mut notes);
            sums.push(notes.last());
        }
        let (claims, tree) = (claims(protocol), TreeCheck::new());
        Self { outside, requests, run, batching, sums, claims, columns, tree }
    }

    /// Whether an opening holds, for one point for each request, in their order.
    pub(crate) fn holds(
        &self,
        config: &Config,
        (root, opening): (&Root, &Opening),
        points: &[Vec<EF>],
        sponge: &mut Sponge,
    ) -> Option<()> {
        let proof = &opening.whir;
        if proof.rounds.len() != config.n_rounds() {
            return None;
        }
        let mut walk = Walk { sponge, sum: EF::ZERO, point: Vec::new(), joined: Vec::new() };
        let outside = self.claimed(config, opening, &mut walk)?;
        let alpha: EF = walk.sponge.sample_algebra_element();
        let mut sums = self.sums.iter().zip(sum_checks(config));
        let values = self.claims.iter().map(|at| opening.evals[at.request].current()[at.place]);
        let values = values.chain(proof.initial_ood_answers.iter().copied());
        walk.sum = dot_product(values, alpha.powers());
        walk.sum_check(&proof.initial_sumcheck, sums.next()?)?;

        let mut before = root;
        for (params, round) in config.round_parameters().iter().zip(&proof.rounds) {
            let root = round.commitment.as_ref()?;
            let [_] = root.roots() else { return None };
            walk.sponge.observe(root.clone());
            let answers = &round.ood_answers;
            let outside = walk.outside(params.num_variables, params.ood_samples, answers, &[])?;
            let (at, values) =
                walk.queries(&self.tree, params, (before, &round.openings, round.pow_witness))?;
            let factor: EF = walk.sponge.sample_algebra_element();
            let values = answers.iter().copied().chain(values);
            walk.sum += dot_product::<EF, _, _>(values, factor.shifted_powers(factor));
            walk.joined.push(Joined { factor, bits: params.num_variables, outside, queries: at });
            walk.sum_check(&round.sumcheck, sums.next()?)?;
            before = root;
        }

        let last = proof.final_poly.as_ref()?.as_slice();
        if last.len() != 1 << config.final_sumcheck_rounds() {
            return None;
        }
        walk.sponge.observe_algebra_slice(last);
        let params = config.final_round_config();
        let queried = (before, &proof.final_openings, proof.final_pow_witness);
        let (at, values) = walk.queries(&self.tree, &params, queried)?;
        if evaluated(last, &at) != values {
            return None;
        }
        match (&proof.final_sumcheck, config.final_sumcheck_rounds()) {
            // Another one would be carried along unread.
            (None, 0) => {}
            (Some(sum), 1..) => walk.sum_check(sum, sums.next()?)?,
            (Some(_), 0) | (None, 1..) => return None,
        }
        walk.point.reverse();
        let weight = self.weight(alpha, points, &outside, &walk.point) + walk.weight();
        let value: EF = dot_product(
            eq_table(&walk.point[..config.final_sumcheck_rounds()]).into_iter(),
            last.iter().copied(),
        );
        (walk.sum == weight * value).then_some(())
    }

    /// Absorbs the values that are claimed; gives the points outside of the domain.
    fn claimed(
        &self,
        config: &Config,
        opening: &Opening,
        walk: &mut Walk<'_>,
    ) -> Option<Vec<Vec<EF>>> {
        let answers = &opening.whir.initial_ood_answers;
        let samples = config.commitment_ood_samples();
        let outside = walk.outside(config.num_variables(), samples, answers, &self.outside)?;
        if opening.evals.len() != self.requests.len() {
            return None;
        }
        let requests = self.requests.iter().zip(&self.columns);
        for ((separator, columns), values) in requests.zip(&opening.evals) {
            if values.current().len() != *columns || !values.next().is_empty() {
                return None;
            }
            walk.sponge.observe_slice(separator);
            walk.sponge.observe_algebra_slice(values.current());
        }
        walk.sponge.observe_slice(&self.run);
        walk.sponge.observe_slice(&self.batching);
        Some(outside)
    }

    /// The weight of all that is claimed, joined, at the end.
    fn weight(&self, alpha: EF, points: &[Vec<EF>], outside: &[Vec<EF>], end: &[EF]) -> EF {
        let within = |point: &Vec<EF>| eq_points(point, &end[end.len() - point.len()..]);
        let within: Vec<EF> = points.iter().map(within).collect();
        let claim = |claim: &Claim| eq_at(&end[..claim.bits], claim.index) * within[claim.request];
        let all = self.claims.iter().map(claim);
        let all = all.chain(outside.iter().map(|point| eq_points(point, end)));
        dot_product(all, alpha.powers())
    }
}

/// Rounds and work of each sum-check.
fn sum_checks(config: &Config) -> Vec<(usize, usize)> {
    let mut all = vec![(config.round_folding_factor(0), config.starting_folding_pow_bits())];
    for (round, params) in config.round_parameters().iter().enumerate() {
        all.push((config.round_folding_factor(round + 1), params.folding_pow_bits));
    }
    if config.final_sumcheck_rounds() > 0 {
        all.push((config.final_sumcheck_rounds(), config.final_folding_pow_bits()));
    }
    all
}

/// Claims in the order of the stack, largest tables first, each table's in the order of requests.
fn claims(protocol: &OpeningProtocol) -> Vec<Claim> {
    let (_, placements) = plan_stacked_layout(&protocol.table_shapes());
    let mut all = Vec::new();
    for placement in placements {
        for (request, (table, batch)) in protocol.iter_openings().enumerate() {
            if table != placement.idx() {
                continue;
            }
            for (place, column) in batch.current().iter().enumerate() {
                let selector = &placement.selectors()[*column];
                let (bits, index) = (selector.num_variables(), selector.index());
                all.push(Claim { request, place, bits, index });
            }
        }
    }
    all
}

/// What a round adds to the sum, with powers of a factor from the first on.
struct Joined {
    factor: EF,
    /// Variables that are left.
    bits: usize,
    outside: Vec<Vec<EF>>,
    queries: Vec<F>,
}

/// An opening as far as it was read.
struct Walk<'a> {
    sponge: &'a mut Sponge,
    sum: EF,
    /// The challenges of all sum-checks.
    point: Vec<EF>,
    joined: Vec<Joined>,
}

impl Walk<'_> {
    /// Draws points outside of the domain, each behind a separator, and absorbs the answers.
    fn outside(
        &mut self,
        variables: usize,
        samples: usize,
        answers: &[EF],
        separator: &[F],
    ) -> Option<Vec<Vec<EF>>> {
        if answers.len() != samples {
            return None;
        }
        let mut points = Vec::with_capacity(samples);
        for answer in answers {
            self.sponge.observe_slice(separator);
            let mut power: EF = self.sponge.sample_algebra_element();
            let mut point = vec![EF::ZERO; variables];
            for coordinate in point.iter_mut().rev() {
                *coordinate = power;
                power = power.square();
            }
            self.sponge.observe_algebra_element(*answer);
            points.push(point);
        }
        Some(points)
    }

    /// Replays a sum-check: values at 0 and leading coefficients.
    fn sum_check(
        &mut self,
        proof: &SumcheckData<F, EF>,
        (separator, (rounds, work)): (&Vec<F>, (usize, usize)),
    ) -> Option<()> {
        let messages = &proof.polynomial_evaluations;
        let witnesses = if work > 0 { rounds } else { 0 };
        if messages.len() != rounds || proof.pow_witnesses.len() != witnesses {
            return None;
        }
        if rounds > 0 {
            self.sponge.observe_slice(separator);
        }
        for (round, [at_0, leading]) in messages.iter().enumerate() {
            self.sponge.observe_algebra_slice(&[*at_0, *leading]);
            if work > 0 && !self.sponge.check_witness(work, proof.pow_witnesses[round]) {
                return None;
            }
            let x: EF = self.sponge.sample_algebra_element();
            let at_1 = self.sum - *at_0;
            self.sum = *at_0 + x * (at_1 - *at_0 + (x - EF::ONE) * *leading);
            self.point.push(x);
        }
        Some(())
    }

    /// Draws the places of a round, checks what was opened there; gives the places as elements of
    /// the domain, and what the rows fold to.
    fn queries(
        &mut self,
        tree: &TreeCheck,
        params: &RoundConfig,
        (root, opened, witness): (&Root, &Opened, F),
    ) -> Option<(Vec<F>, Vec<EF>)> {
        let has_worked = match params.pow_bits {
            0 => witness == F::ZERO,
            bits => self.sponge.check_witness(bits, witness),
        };
        let height = params.domain_size >> params.folding_factor;
        let [root] = root.roots() else { return None };
        if !has_worked {
            return None;
        }
        let bits = params.log_folded_domain_size;
        let places: Vec<usize> = if params.num_queries >= height {
            (0..height).collect()
        } else {
            let draw = |_| self.sponge.sample_uniform_bits::<true>(bits).ok();
            (0..params.num_queries).map(draw).collect::<Option<_>>()?
        };
        let mut point = self.point[self.point.len() - params.folding_factor..].to_vec();
        point.reverse();
        // The first codeword is of the base field, all others are not.
        let is_first = self.point.len() == params.folding_factor;
        let width = 1 << point.len();
        let asked = Rows { root, height, width, places: &places };
        let folded = match opened {
            QueryOpenings::Base(opened) if is_first => {
                tree.check(asked, &opened.rows, &opened.proof.sibling_hashes)?;
                folds(&opened.rows, &point, |weight, lanes| weight.base(*Narrow::from_slice(lanes)))
            }
            QueryOpenings::Extension(opened) if !is_first => {
                tree.check(asked, &opened.rows, &opened.proof.sibling_hashes)?;
                folds(&opened.rows, &point, |weight, lanes| {
                    weight.times(Wide::from_ext_slice(lanes))
                })
            }
            QueryOpenings::Base(_) | QueryOpenings::Extension(_) => return None,
        };
        let generator = F::two_adic_generator(bits);
        let at = places.iter().map(|place| generator.exp_u64(*place as u64)).collect();
        Some((at, folded))
    }

    /// The weight of what all rounds added, at the end.
    fn weight(&self) -> EF {
        let mut sum = EF::ZERO;
        for joined in &self.joined {
            let end = &self.point[..joined.bits];
            let outside = joined.outside.iter().map(|point| eq_points(point, end));
            let all = outside.chain(selects(&joined.queries, end));
            sum += dot_product::<EF, _, _>(all, joined.factor.shifted_powers(joined.factor));
        }
        sum
    }
}

type Opened = QueryOpenings<F, EF, Paths>;

/// What rows of 2^n numbers are at a point, each.
fn folds<T: Copy + Default>(
    rows: &[Vec<T>],
    point: &[EF],
    weigh: impl Fn(&Factor, &[T; WIDTH]) -> Wide,
) -> Vec<EF> {
    let weights: Vec<Factor> = eq_table(point).into_iter().map(Factor::new).collect();
    let mut folded = Vec::with_capacity(rows.len());
    for rows in rows.chunks(WIDTH) {
        let mut sum = Wide::ZERO;
        for (place, weight) in weights.iter().enumerate() {
            let lane = |lane: usize| rows.get(lane).map_or_else(T::default, |row| row[place]);
            sum += weigh(weight, &std::array::from_fn(lane));
        }
        folded.extend((0..rows.len()).map(|row| lane(&sum, row)));
    }
    folded
}

/// The products of 1 + r · (x^(2^i) − 1) over the coordinates r of a point, the last with i = 0,
/// for each x.
fn selects(all: &[F], point: &[EF]) -> Vec<EF> {
    let factors: Vec<Factor> = point.iter().rev().map(|r| Factor::new(*r)).collect();
    let mut found = Vec::with_capacity(all.len());
    for some in all.chunks(WIDTH) {
        let mut power = Narrow::from_fn(|lane| some.get(lane).copied().unwrap_or_default());
        let mut product = Wide::ONE;
        for factor in &factors {
            product = times(product, factor.base(power - Narrow::ONE) + Wide::ONE);
            power = power.square();
        }
        found.extend((0..some.len()).map(|place| lane(&product, place)));
    }
    found
}

/// The values of the polynomial with these coefficients, the constant first.
fn evaluated(coefficients: &[EF], at: &[F]) -> Vec<EF> {
    let value = |x: &F| coefficients.iter().rev().fold(EF::ZERO, |sum, next| sum * *x + *next);
    at.iter().map(value).collect()
}

/// Notes separators: the library absorbs them, and nothing else, as lists.
#[derive(Default)]
struct Notes {
    seen: Vec<Vec<F>>,
}

impl Notes {
    fn last(&mut self) -> Vec<F> {
        let last = self.seen.pop().expect("a protocol begins with a separator");
        self.seen.clear();
        last
    }
}

impl CanObserve<F> for Notes {
    fn observe(&mut self, _: F) {}

    fn observe_slice(&mut self, elements: &[F]) {
        self.seen.push(elements.to_vec());
    }
}

impl CanSample<F> for Notes {
    fn sample(&mut self) -> F {
        F::ONE
    }
}

impl CanSampleBits<usize> for Notes {
    fn sample_bits(&mut self, _: usize) -> usize {
        0
    }
}

impl FieldChallenger<F> for Notes {}

impl GrindingChallenger for Notes {
    type Witness = F;

    fn grind(&mut self, _: usize) -> F {
        F::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::field::int;
    use crate::pcs::{Pcs, Request, Shape, sponge};

    /// Tables of a random number of columns and variables, with one to three requests.
    fn shapes(
        u: &mut arbtest::arbitrary::Unstructured<'_>,
    ) -> arbtest::arbitrary::Result<Vec<Shape>> {
        let mut shapes = Vec::new();
        for _ in 0..u.int_in_range(1..=3)? {
            let (bits, columns) = (u.int_in_range(4..=8)?, u.int_in_range(1..=3_usize)?);
            let mut requests = Vec::new();
            for _ in 0..u.int_in_range(1..=2)? {
                let first = u.choose_index(columns)?;
                requests.push(Request { columns: (first..columns).collect() });
            }
            shapes.push(Shape { bits, columns, requests });
        }
        // Room for two rounds.
        shapes.push(Shape { bits: 8, columns: 1, requests: vec![Request { columns: vec![0] }] });
        Ok(shapes)
    }

    /// Goal: exactly what the library accepts is accepted, and leaves the sponge as it does.
    /// Method: openings of random shapes, right or with one byte or point changed, judged by both.
    #[test]
    fn prop_openings_are_judged_as_by_the_library() {
        let (mut accepted, mut refused) = (0, 0);
        arbtest::arbtest(|u| {
            let shapes = shapes(u)?;
            let pcs = Pcs::new(&shapes).expect("parameters");
            let cell = |table: usize, at: usize| int((at * at * 31 + table * 7 + 5) as i64);
            let column = |table: usize, bits: usize| {
                (0..1 << bits).map(|at| cell(table, at)).collect::<Vec<F>>()
            };
            let tables: Vec<Vec<Vec<F>>> = shapes
                .iter()
                .enumerate()
                .map(|(table, shape)| {
                    (0..shape.columns).map(|own| column(3 * table + own, shape.bits)).collect()
                })
                .collect();
            let mut points = Vec::new();
            for (table, shape) in shapes.iter().enumerate() {
                for request in 0..shape.requests.len() {
                    let coordinate =
                        |at: usize| EF::from_usize(table + 5 * request + at + 2).square();
                    points.push((0..shape.bits).map(coordinate).collect::<Vec<EF>>());
                }
            }
            let mut prover = sponge();
            let (root, kept) = pcs.commit(crate::pcs::tables(&tables), &mut prover);
            let mut bytes = codec::write(&pcs.open(kept, points.clone(), &mut prover));
            match u.int_in_range(0..=3)? {
                0 => {}
                1 => points[0][0] += EF::ONE,
                _ => {
                    let at = u.choose_index(bytes.len())?;
                    bytes[at] ^= 1 << u.int_in_range(0..=7)?;
                }
            }
            let Ok(opening) = codec::read::<Opening>(&bytes) else { return Ok(()) };
            let (mut ours, mut theirs) = (sponge(), sponge());
            pcs.absorb(&root, &mut ours);
            pcs.absorb(&root, &mut theirs);
            let found = pcs.verify(&root, &opening, &points, &mut ours);
            let expected = pcs.verify_by_library(&root, &opening, points, &mut theirs);
            assert_eq!(found, expected);
            if found.is_some() {
                assert_eq!(CanSample::<F>::sample(&mut ours), CanSample::<F>::sample(&mut theirs));
            }
            *(if found.is_some() { &mut accepted } else { &mut refused }) += 1;
            Ok(())
        });
        assert!(accepted > 3 && refused > 3, "{accepted} {refused}");
    }
}
