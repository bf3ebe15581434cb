//! The hiding commitment: WHIR with zero-knowledge codes (eprint 2026/391) over salted trees.
//!
//! An opening shows the values at the points that are asked for and nothing else, to whoever takes
//! hash functions for random oracles. A commitment's randomness suffices for **one** opening.
//!
//! # Soundness
//! The library has no account of its hiding protocol as a whole, only diagnostics of the last part,
//! and derives the numbers of queries from the rate of the message alone, though the code also
//! carries the randomness that hides it. So the account is made here, from the numbers that the
//! protocol runs with, within the radius of unique decoding: for a code of rate ρ (message and
//! randomness), δ = (1 − ρ) / 2. There a word stands for at most one message, lines through far
//! words are far but for |domain| / |F| challenges (BCIKS20, theorem 4.1; mutual by WHIR, lemma
//! 4.10), and no list is to be multiplied. Larger radii would need fewer queries, but lists of all
//! masks multiply in the last part. See [`HidingPcs::soundness`] for the terms.

use crate::field::{DEGREE, EF, F, PRIME};
use crate::hash::{DIGEST, LeafHash, NodeHash};
use crate::pcs::{Root, Sponge};
use p3_commit::MultilinearPcs;
use p3_dft::Radix2DFTSmallBatch;
use p3_merkle_tree::MerkleTreeHidingMmcs;
use p3_multilinear_util::point::Point;
use p3_multilinear_util::poly::Poly;
use p3_whir::parameters::{FoldingFactor, ProtocolParameters, SecurityAssumption};
use p3_whir::pcs::zk::{HidingWhirPcs, ZkParameters, ZkWhirConfig};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Elements of a leaf's salt: 155 bits.
const SALT: usize = 5;
/// The largest log2 of the inverse code rate at the start. The randomness of an opening takes a
/// good part of a small code, so these need more room than large ones.
const RATE_BITS_MAX: usize = 3;
/// log2 of the inverse rate of the codes of masks.
const MASK_RATE_BITS: usize = 2;
/// Coefficients of a mask of the library's sum-checks: of their degree, two.
const MASK_LEN: usize = 3;
/// Bits of work that the prover adds to queries.
const GRINDING_BITS: usize = 10;
/// Variables of the smallest stack: with fewer, randomness would fill the code.
pub(crate) const HIDDEN_BITS_MIN: usize = 12;
/// What each of two openings must reach by [`HidingPcs::soundness`]: they and all other terms then
/// stay above 100 bits.
pub(crate) const OPENING_BITS_OF_TWO: f64 = 102.0;
/// What each of up to four openings must reach.
pub(crate) const OPENING_BITS_OF_MANY: f64 = 103.0;
/// The largest target that is tried: behind it, combining the claims becomes the weakest term.
const TARGET_BITS_MAX: usize = 140;

type SaltedTree = MerkleTreeHidingMmcs<F, F, LeafHash, NodeHash, StdRng, 2, DIGEST, SALT>;
type Whir = HidingWhirPcs<EF, F, Radix2DFTSmallBatch<F>, SaltedTree, Sponge, StdRng>;
type Config = ZkWhirConfig<EF, F, Sponge>;
/// What the prover keeps of a hiding commitment.
pub(crate) type HiddenKept = <Whir as MultilinearPcs<EF, Sponge>>::ProverData;
/// An opening of a hiding commitment.
pub(crate) type HiddenOpening = <Whir as MultilinearPcs<EF, Sponge>>::Proof;

/// The parameters of a hiding commitment to one polynomial that is opened once, at some points.
pub(crate) struct HidingPcs {
    config: Config,
    transform: Radix2DFTSmallBatch<F>,
    rate_bits: usize,
    claims: usize,
}

impl std::fmt::Debug for HidingPcs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HidingPcs").field("bits", &self.bits()).finish_non_exhaustive()
    }
}

impl HidingPcs {
    /// Parameters for 2^bits cells opened at so many points; `None` if none reach the security.
    pub(crate) fn new(bits: usize, claims: usize, least: f64) -> Option<Self> {
        let rates = 1..=RATE_BITS_MAX;
        let targets = least as usize..=TARGET_BITS_MAX;
        let mut tried = rates.flat_map(|rate| targets.clone().map(move |target| (rate, target)));
        tried.find_map(|(rate_bits, target)| {
            let config = config(bits, rate_bits, target)?;
            // Its factors are computed when something is committed, which no verifier does.
            let transform = Radix2DFTSmallBatch::default();
            let pcs = Self { config, transform, rate_bits, claims };
            let holds = pcs.config.validate_initial_claims(claims).is_ok();
            let is_sound = pcs.soundness() >= least;
            (holds && is_sound && pcs.config.check_pow_bits()).then_some(pcs)
        })
    }

    /// Variables of the polynomial.
    pub(crate) fn bits(&self) -> usize {
        self.config.num_variables()
    }

    /// Variables that the first round folds.
    pub(crate) fn fold(&self) -> usize {
        self.config.round_folding_factor(0)
    }

    /// Rows of the code that an opening shows at most, and that the library's own randomness hides.
    pub(crate) fn queries(&self) -> usize {
        self.config.oracle_randomness().first().copied().unwrap_or(0)
    }

    fn whir(&self, mut rng: StdRng) -> Whir {
        let (leaves, nodes) = (LeafHash::new(), NodeHash::new());
        let tree = SaltedTree::new(leaves, nodes, 0, StdRng::from_rng(&mut rng));
        Whir::new(self.config.clone(), self.transform.clone(), tree, rng)
    }

    /// Commits to the cells. The same generator gives the same root.
    pub(crate) fn commit(&self, cells: Vec<F>, rng: StdRng) -> (Root, HiddenKept) {
        // The library absorbs the root where it commits; we do so where the protocol says.
        let mut unused = crate::pcs::sponge();
        self.whir(rng)
            .commit(Poly::new(cells), &mut unused)
            .expect("the cells have the number of the parameters")
    }

    /// Absorbs a root.
    pub(crate) fn absorb(&self, root: &Root, sponge: &mut Sponge) {
        self.whir(unused_rng()).observe_commitment(root, sponge);
    }

    /// Opens at the points. The generator must be fresh.
    pub(crate) fn open(
        &self,
        root: &Root,
        kept: HiddenKept,
        points: Vec<Vec<EF>>,
        rng: StdRng,
        sponge: &mut Sponge,
    ) -> HiddenOpening {
        let whir = self.whir(rng);
        whir.observe_commitment(root, sponge);
        whir.open(kept, points.into_iter().map(Point::new).collect(), sponge)
            .expect("the number of claims fits the parameters")
    }

    /// The values at the points, if the opening holds.
    pub(crate) fn verify(
        &self,
        root: &Root,
        opening: &HiddenOpening,
        points: Vec<Vec<EF>>,
        sponge: &mut Sponge,
    ) -> Option<Vec<EF>> {
        if points.len() != self.claims || points.iter().any(|point| point.len() != self.bits()) {
            return None;
        }
        let points = points.into_iter().map(Point::new).collect();
        self.whir(unused_rng()).verify(root, opening, sponge, points).ok()?;
        Some(opening.evals.clone())
    }

    /// -log2 of the error of commitment and opening, by the sum of:
    /// * the challenge that combines the claims;
    /// * for each committed word: the challenges of its masked sum-check and folding, |domain|
    ///   exceptional ones for each of the words that are folded; a word or message that is wrong
    ///   missed by all queries, (1 − δ)^queries, less the grinding; the challenge that combines
    ///   what was queried;
    /// * for each mask: a wrong one missed by all queries; its part in the last challenge.
    pub(crate) fn soundness(&self) -> f64 {
        let config = &self.config;
        let field = DEGREE as f64 * (PRIME as f64).log2();
        let of_field = |ways: f64| ways.log2() - field;
        let missed = |dimension: usize, domain: usize, queries: usize| {
            let rate = dimension as f64 / domain as f64;
            f64::midpoint(1.0, rate).log2() * queries as f64
        };
        let mut errors = vec![of_field(self.claims as f64)];
        for (round, randomness) in config.oracle_randomness().iter().enumerate() {
            let fold = config.round_folding_factor(round);
            let before = round.checked_sub(1);
            let variables =
                before.map_or(self.bits(), |r| config.round_parameters()[r].num_variables);
            let rate = before.map_or(1 << self.rate_bits, |r| config.inv_rate(r));
            let rows = 1_usize << (variables - fold);
            let domain = rows * rate;
            let (queries, work) = match config.round_parameters().get(round) {
                Some(round) => (round.num_queries, round.pow_bits),
                None => {
                    let last = config.randomized_terminal();
                    (last.num_queries, last.pow_bits)
                }
            };
            let words = (domain << fold) as f64;
            errors.push(of_field(1.0 + fold as f64 * (MASK_LEN as f64 + words)));
            errors.push(missed(rows + randomness, domain, queries) - work as f64);
            errors.push(of_field(queries as f64 + 1.0));
        }
        for group in config.mask_groups() {
            let dimension = group.shape.message_len + group.shape.randomness_len;
            let domain = group.shape.domain_size;
            errors.push(missed(dimension, domain, config.mask_queries()));
            errors.push(of_field((group.width * domain) as f64));
        }
        errors.push(of_field(1.0 + config.final_round_config().domain_size as f64));
        -errors.into_iter().map(f64::exp2).sum::<f64>().log2()
    }
}

/// Variables that a round folds: such that most sizes have one round, as every further one has
/// masks of its own.
fn fold(bits: usize) -> usize {
    match bits {
        ..15 => 4,
        15..18 => 5,
        18.. => 6,
    }
}

fn config(bits: usize, rate_bits: usize, target: usize) -> Option<Config> {
    let fold = fold(bits);
    let folding_factor = FoldingFactor::Constant(fold);
    let (rounds, _) = folding_factor.compute_number_of_rounds(bits).ok()?;
    let rate = |round: usize| rate_bits + (round + 1) * (fold - 1);
    let parameters = ProtocolParameters {
        security_level: target,
        pow_bits: GRINDING_BITS,
        folding_factor,
        soundness_type: SecurityAssumption::UniqueDecoding,
        starting_log_inv_rate: rate_bits,
        round_log_inv_rates: (0..rounds).map(rate).collect(),
    };
    let masks = ZkParameters { ell_zk: MASK_LEN, mask_log_inv_rate: MASK_RATE_BITS };
    Config::new(bits, parameters, masks).ok()
}

/// A generator for where the library asks for one that it does not use.
fn unused_rng() -> StdRng {
    StdRng::from_seed([0; 32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{eq_table, int};
    use p3_field::PrimeCharacteristicRing;

    fn rng(seed: u8) -> StdRng {
        StdRng::from_seed([seed; 32])
    }

    fn points(bits: usize) -> Vec<Vec<EF>> {
        let of = |seed: u64| (0..bits as u64).map(move |i| EF::from_u64(seed * 7_919 + i * i + 3));
        vec![of(1).collect(), of(2).collect()]
    }

    #[test]
    fn opening_gives_values_and_refuses_others() {
        for bits in [HIDDEN_BITS_MIN, 17] {
            let pcs = HidingPcs::new(bits, 2, OPENING_BITS_OF_TWO).expect("parameters");
            let cells: Vec<F> = (0..1_i64 << bits).map(|i| int(i * i % 251 - 128)).collect();
            let (root, kept) = pcs.commit(cells.clone(), rng(1));
            assert_eq!(pcs.commit(cells.clone(), rng(1)).0, root);
            assert_ne!(pcs.commit(cells.clone(), rng(2)).0, root);
            let opening = pcs.open(&root, kept, points(bits), rng(3), &mut crate::pcs::sponge());
            let found = pcs.verify(&root, &opening, points(bits), &mut crate::pcs::sponge());
            let value = |point: &Vec<EF>| {
                eq_table(point).into_iter().zip(&cells).map(|(w, cell)| w * *cell).sum::<EF>()
            };
            assert_eq!(found, Some(points(bits).iter().map(value).collect()));
            let mut other = opening.clone();
            other.evals[1] += EF::ONE;
            let found = pcs.verify(&root, &other, points(bits), &mut crate::pcs::sponge());
            assert_eq!(found, None);
        }
    }

    /// Goal: no more of a word is opened than it has random coefficients. Method: count, for all
    /// words and masks of all sizes. A row that is queried shows one number of each word.
    #[test]
    fn randomness_of_every_word_covers_its_queries() {
        for bits in HIDDEN_BITS_MIN..=crate::pcs::STACK_BITS_MAX {
            for (claims, least) in [(1, OPENING_BITS_OF_TWO), (11, OPENING_BITS_OF_MANY)] {
                let pcs = HidingPcs::new(bits, claims, least).expect("parameters");
                let config = &pcs.config;
                for (round, randomness) in config.oracle_randomness().iter().enumerate() {
                    let queries = match config.round_parameters().get(round) {
                        Some(round) => round.num_queries,
                        None => config.randomized_terminal().num_queries,
                    };
                    assert!(*randomness >= queries, "{bits}: {randomness} for {queries}");
                }
                for group in config.mask_groups() {
                    assert!(group.shape.randomness_len >= config.mask_queries(), "{bits}");
                }
            }
        }
    }

    /// Goal: all validators choose the same parameters, though logarithms may differ in the last
    /// place between their machines. Method: the account of everything that is tried, for all
    /// sizes and numbers of points, is far from what decides. (The library's own logarithms are
    /// computed in software, which is the same everywhere.)
    #[test]
    fn parameters_are_not_chosen_by_the_last_place_of_a_logarithm() {
        let (mut tried, mut nearest) = (0, f64::MAX);
        for bits in HIDDEN_BITS_MIN..=crate::pcs::STACK_BITS_MAX {
            for claims in [1, super::super::last::RUN_CLAIMS] {
                for least in [OPENING_BITS_OF_TWO, OPENING_BITS_OF_MANY] {
                    let chosen = HidingPcs::new(bits, claims, least).expect("parameters");
                    let all = (1..=RATE_BITS_MAX).flat_map(|rate| {
                        (least as usize..=TARGET_BITS_MAX).map(move |target| (rate, target))
                    });
                    for (rate_bits, target) in all {
                        let Some(config) = config(bits, rate_bits, target) else { continue };
                        let transform = Radix2DFTSmallBatch::default();
                        let pcs = HidingPcs { config, transform, rate_bits, claims };
                        nearest = nearest.min((pcs.soundness() - least).abs());
                        tried += 1;
                        if (rate_bits, pcs.soundness()) == (chosen.rate_bits, chosen.soundness()) {
                            break;
                        }
                    }
                }
            }
        }
        assert!(tried > 48 && nearest > 1e-6, "{tried} tried, nearest {nearest}");
    }

    #[test]
    fn all_sizes_reach_the_security() {
        for bits in HIDDEN_BITS_MIN..=crate::pcs::STACK_BITS_MAX {
            for least in [OPENING_BITS_OF_TWO, OPENING_BITS_OF_MANY] {
                let pcs = HidingPcs::new(bits, 11, least);
                let bits = pcs.as_ref().map(HidingPcs::soundness);
                assert!(bits.is_some_and(|bits| bits >= least), "{bits:?}");
            }
        }
    }
}
