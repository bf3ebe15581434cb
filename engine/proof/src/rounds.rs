//! The prover of openings of large stacks.
//!
//! It plays the library's protocol of WHIR and sends what the library's prover does. What a round
//! asks at q places are sums weighed with powers of the place: the library computes q powers for
//! every cell that is left, and how fast depends on what the compiler makes of it. Places are roots
//! of unity, so all of it is one transform of a list that has a number at each place.

use crate::field::{EF, F, eq_table};
use crate::pcs::{Config, Kept, Opening, Sponge};
use crate::tree::{self, Paths, Tree};
use p3_commit::{ExtensionMmcs, Mmcs};
use p3_dft::{Radix2DFTSmallBatch, TwoAdicSubgroupDft};
use p3_field::PrimeCharacteristicRing;
use p3_matrix::dense::RowMajorMatrix;
use p3_multilinear_util::point::Point;
use p3_multilinear_util::poly::Poly;
use p3_sumcheck::layout::Layout as _;
use p3_sumcheck::strategy::SumcheckProver;
use p3_sumcheck::{OpeningProtocol, SumcheckData};
use p3_whir::transcript::WhirProverTranscript;
use p3_whir::{
    PcsProof, QueryOpenings, RoundConfig, SharedProofOpening, WhirProof, WhirRoundProof, WhirShape,
};

type ExtensionTree = ExtensionMmcs<F, EF, Tree>;
type BaseData = <Tree as Mmcs<F>>::ProverData<RowMajorMatrix<F>>;
type ExtensionData = <ExtensionTree as Mmcs<EF>>::ProverData<RowMajorMatrix<EF>>;
type Transcript<'a> = WhirProverTranscript<'a, Sponge, F, EF>;
type Opened = QueryOpenings<F, EF, Paths>;

/// The codeword that is queried next.
enum Codeword {
    Base(BaseData),
    Extension(ExtensionData),
}

/// What rounds are played with.
pub(crate) struct Rounds<'a> {
    config: &'a Config,
    dft: &'a Radix2DFTSmallBatch<F>,
    tree: Tree,
    extension: ExtensionTree,
}

impl<'a> Rounds<'a> {
    pub(crate) fn new(config: &'a Config, dft: &'a Radix2DFTSmallBatch<F>) -> Self {
        Self { config, dft, tree: tree::tree(), extension: ExtensionMmcs::new(tree::tree()) }
    }

    /// Opens tables at one point for each request, in their order.
    pub(crate) fn open(
        &self,
        kept: Kept,
        protocol: &OpeningProtocol,
        points: &[Point<EF>],
        sponge: &mut Sponge,
    ) -> Opening {
        let config = self.config;
        let mut stack = kept.layout;
        let samples = 0..config.commitment_ood_samples();
        let initial_ood_answers = samples.map(|_| stack.add_virtual_eval(sponge)).collect();
        let requests = protocol.iter_openings().zip(points);
        let evals = requests
            .map(|((table, batch), point)| stack.eval_at(table, batch, point, sponge))
            .collect();
        let shape = WhirShape::new(config, protocol.num_openings());
        let mut transcript = Transcript::new(sponge, shape);
        let mut initial_sumcheck = SumcheckData::default();
        let work = config.starting_folding_pow_bits();
        let (mut left, mut folded) = transcript.delegate_initial_fold(|sponge| {
            stack.into_sumcheck(&mut initial_sumcheck, work, sponge)
        });
        let mut codeword = Codeword::Base(kept.merkle_data);
        let mut rounds = Vec::with_capacity(config.n_rounds());
        for round in 0..config.n_rounds() {
            rounds.push(self.round(round, &mut transcript, &mut left, &mut folded, &mut codeword));
        }
        let last = left.evals();
        transcript.final_poly(last.as_slice());
        let final_pow_witness = transcript.query_pow(config.n_rounds());
        let places = transcript.query_indices(config.n_rounds());
        let final_openings = self.opened(&codeword, &places);
        let final_sumcheck = transcript.delegate_final_fold(|sponge| {
            let (mut sums, rounds) = (SumcheckData::default(), config.final_sumcheck_rounds());
            let work = config.final_folding_pow_bits();
            let _point = left.compute_sumcheck_polynomials(&mut sums, sponge, rounds, work, None);
            sums
        });
        transcript.finish();
        let whir = WhirProof {
            initial_ood_answers,
            initial_sumcheck,
            rounds,
            final_poly: Some(last),
            final_pow_witness,
            final_openings,
            final_sumcheck,
        };
        PcsProof { whir, evals }
    }

    /// Commits to what is left, answers queries of the codeword before, and folds again.
    fn round(
        &self,
        round: usize,
        transcript: &mut Transcript<'_>,
        left: &mut SumcheckProver<F, EF>,
        folded: &mut Point<EF>,
        codeword: &mut Codeword,
    ) -> WhirRoundProof<F, EF, Tree> {
        let params = &self.config.round_parameters()[round];
        let fold = self.config.round_folding_factor(round + 1);
        let cells = left.evals();
        let mut values = EF::zero_vec(cells.as_slice().len() << params.log_inv_rate);
        values[..cells.as_slice().len()].copy_from_slice(cells.as_slice());
        let encoded = self.dft.dft_algebra_batch(RowMajorMatrix::new(values, 1 << fold));
        let (root, data) = self.extension.commit_matrix(encoded);
        transcript.commitment(root.clone());
        let (mut ood_answers, mut outside) = (Vec::new(), Vec::new());
        for _ in 0..params.ood_samples {
            let point = Point::expand_from_univariate(transcript.ood_point(), params.num_variables);
            let answer = left.eval(&point);
            transcript.ood_answer(answer);
            ood_answers.push(answer);
            outside.push(point);
        }
        let pow_witness = transcript.query_pow(round);
        let places = transcript.query_indices(round);
        let openings = self.opened(codeword, &places);
        let at = folded.reversed();
        let answers: Vec<EF> = match &openings {
            QueryOpenings::Base(opened) => {
                opened.rows.iter().map(|row| Poly::new(row.clone()).eval_base(&at)).collect()
            }
            QueryOpenings::Extension(opened) => {
                opened.rows.iter().map(|row| Poly::new(row.clone()).eval_ext::<F>(&at)).collect()
            }
        };
        let factor = transcript.round_batching();
        let all = ood_answers.iter().chain(&answers);
        let sum = all.zip(factor.shifted_powers(factor)).map(|(answer, power)| *answer * power);
        left.accumulate_claim(&self.weights(params, factor, &outside, &places), sum.sum());
        let mut sumcheck = SumcheckData::default();
        *folded = transcript.delegate_round_fold(|sponge| {
            let work = params.folding_pow_bits;
            left.compute_sumcheck_polynomials(&mut sumcheck, sponge, fold, work, None)
        });
        *codeword = Codeword::Extension(data);
        WhirRoundProof { commitment: Some(root), ood_answers, pow_witness, openings, sumcheck }
    }

    /// What cells are weighed with, joined with powers of a factor from the first on: eq of points
    /// outside of the domain, and powers of places.
    fn weights(
        &self,
        params: &RoundConfig,
        factor: EF,
        outside: &[Point<EF>],
        places: &[usize],
    ) -> Vec<EF> {
        let mut powers = factor.shifted_powers(factor);
        let of_points: Vec<EF> = powers.by_ref().take(outside.len()).collect();
        let mut numbers = EF::zero_vec(1 << params.log_folded_domain_size);
        for (place, power) in places.iter().zip(powers) {
            numbers[*place] += power;
        }
        let transformed = self.dft.dft_algebra_batch(RowMajorMatrix::new(numbers, 1));
        let mut weights = transformed.values;
        weights.truncate(1 << params.num_variables);
        for (point, power) in outside.iter().zip(of_points) {
            let own = eq_table(point.as_slice());
            weights.iter_mut().zip(own).for_each(|(weight, eq)| *weight += power * eq);
        }
        weights
    }

    /// The rows of a codeword at places.
    fn opened(&self, codeword: &Codeword, places: &[usize]) -> Opened {
        match codeword {
            Codeword::Base(data) => {
                let (rows, proof) = self.tree.open_multi_batch(places, data);
                let rows = rows.into_iter().flatten().collect();
                QueryOpenings::Base(SharedProofOpening { rows, proof })
            }
            Codeword::Extension(data) => {
                let (rows, proof) = self.extension.open_multi_batch(places, data);
                let rows = rows.into_iter().flatten().collect();
                QueryOpenings::Extension(SharedProofOpening { rows, proof })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::pcs::{Pcs, Request, Shape, sponge};
    use p3_challenger::CanSample;

    /// Goal: openings are those of the library, to the byte. Method: stacks of several sizes, and
    /// what the sponge gives afterwards.
    #[test]
    fn openings_are_those_of_the_library() {
        for sizes in [&[(8, 1)][..], &[(9, 3), (6, 2)], &[(12, 3), (7, 1)], &[(14, 5)]] {
            let of = |(bits, columns): &(usize, usize)| {
                let requests = [0, columns / 2].map(|first| (first..*columns).collect());
                let requests = requests.map(|columns| Request { columns }).to_vec();
                Shape { bits: *bits, columns: *columns, requests }
            };
            let shapes: Vec<Shape> = sizes.iter().map(of).collect();
            let pcs = Pcs::new(&shapes).expect("parameters");
            let column = |seed: usize, bits: usize| {
                (0..1 << bits).map(|at| F::from_usize(at * at * 31 + seed)).collect::<Vec<F>>()
            };
            let table = |(bits, columns): &(usize, usize)| {
                (0..*columns).map(|seed| column(seed, *bits)).collect::<Vec<_>>()
            };
            let tables: Vec<Vec<Vec<F>>> = sizes.iter().map(table).collect();
            let point = |seed: usize, bits: usize| {
                (0..bits).map(|at| EF::from_usize(seed + at + 2).exp_u64(7)).collect::<Vec<EF>>()
            };
            let points: Vec<Vec<EF>> =
                sizes.iter().flat_map(|(bits, _)| [point(3, *bits), point(5, *bits)]).collect();
            let play = |own: bool| {
                let mut sponge = sponge();
                let (_, kept) = pcs.commit(crate::pcs::tables(&tables), &mut sponge);
                let opening = match own {
                    true => pcs.open_in_rounds(kept, points.clone(), &mut sponge),
                    false => pcs.open_by_library(kept, points.clone(), &mut sponge),
                };
                let next: F = sponge.sample();
                (codec::write(&opening), next)
            };
            assert!(play(true) == play(false), "{sizes:?}");
        }
    }
}
