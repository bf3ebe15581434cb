//! The prover of hiding proofs. Transcript: see [`super`].

use super::last;
use super::pads::Pads;
use super::pcs::HiddenKept;
use super::proof::HidingProof;
use super::setup::{HidingSetup, noise};
use super::stack::{self, MASK_BITS, Piece, coordinate};
use super::statement::{HidingStatement, InputsCommitment, Seed};
use super::walk::Walk;
use crate::claims::Challenges;
use crate::error::{ProveError, VerifyError};
use crate::field::{EF, F};
use crate::pcs::Root;
use crate::plan::{Plan, PlanError};
use crate::prove::{Parts, look_up};
use crate::sumcheck::{self, ProductTerm, SumProof};
use crate::transcript::Transcript;
use crate::witness::Witness;
use p3_multi_stark::fractional_gkr::FractionGkrLayerProof;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use tg_tensor::{Model, Options, Runner, Tensor};

/// A model that is ready to be proven without showing inputs, for one number of inferences.
#[derive(Debug)]
pub struct HidingProver {
    setup: HidingSetup,
    runner: Runner,
}

/// The two seeds of a proof.
#[derive(Debug)]
pub struct Seeds {
    /// That of the commitment to the inputs, from their owner.
    pub inputs: Seed,
    /// The prover's own.
    pub proof: Seed,
}

/// A commitment with what is needed to open it.
pub(crate) struct Sealed {
    pub(crate) root: Root,
    pub(crate) kept: HiddenKept,
}

impl HidingProver {
    /// Makes a model ready.
    pub fn new(model: impl Into<Arc<Model>>, batch: usize) -> Result<Self, PlanError> {
        let model = model.into();
        let setup = HidingSetup::new(model.clone(), batch)?;
        let runner = Runner::new(model, Options { threads: 1, path: None });
        Ok(Self { setup, runner })
    }

    #[cfg(test)]
    pub(crate) fn setup(&self) -> &HidingSetup {
        &self.setup
    }

    /// A prover who names the weights of another one.
    #[cfg(test)]
    pub(crate) fn disguised(mut self, other: &Self) -> Self {
        self.setup.weights = other.setup.weights;
        self
    }

    /// Runs the program on every inference's inputs and proves it. At most one proof may be made
    /// with the same inputs and seed of inputs.
    pub fn prove(
        &self,
        inputs: &[Vec<Tensor>],
        seeds: &Seeds,
        context: Vec<u8>,
    ) -> Result<(HidingStatement, HidingProof), ProveError> {
        let (found, expected) = (inputs.len(), self.setup.plan.batch);
        if found != expected {
            return Err(ProveError::Batch { found, expected });
        }
        let witness = Witness::new(&self.setup.plan, &self.runner, inputs)?;
        let sealed = self.seal(inputs, &seeds.inputs).expect("a program ran on these inputs");
        let commitment = InputsCommitment::of(&sealed.root);
        let outputs = witness.outputs.clone();
        let statement = HidingStatement { inputs: commitment, outputs, context };
        let proof = self.prove_witness(&statement, sealed, &seeds.proof, [&witness; 2], false);
        Ok((statement, proof))
    }

    pub(crate) fn seal(&self, inputs: &[Vec<Tensor>], seed: &Seed) -> Result<Sealed, VerifyError> {
        let (root, kept) = self.setup.commit(inputs, seed)?;
        Ok(Sealed { root, kept })
    }

    /// Proves a statement from two witnesses, of which a liar may choose the second for everything
    /// after the commitment, and hide that the look-ups do not add up. For an honest prover they
    /// are the same.
    pub(crate) fn prove_witness(
        &self,
        statement: &HidingStatement,
        inputs: Sealed,
        seed: &Seed,
        [witness, shown]: [&Witness; 2],
        hide: bool,
    ) -> HidingProof {
        let setup = &self.setup;
        let plan = &setup.plan;
        let mut rng = seed.generator(setup.digest(statement).as_bytes());
        let mut transcript = setup.begin(statement);
        let mut secrets = Secrets::new(plan, &mut rng);
        let Sealed { root, kept } = self.commit_run(witness, &secrets, &mut rng);
        setup.run.absorb(&root, transcript.sponge());

        let mut walk = Walk::new(plan, &mut transcript);
        let pads = &mut secrets.pads;
        let mut aside = transcript.clone();
        let mut sponge = pads.lookups(plan.leaf_bits, aside.sponge());
        let (mut lookups, _) = look_up(plan, shown, &walk.challenges, hide, &mut sponge);
        let mut factors: Vec<EF> = lookups.layers.iter().flat_map(children).collect();
        pads.cover_lookups(&mut lookups);
        walk.lookups(&lookups, &mut transcript).expect("it has the shape");
        let (products, mut claims) = self.products(shown, pads, &walk, &transcript);
        walk.products(&products, &mut transcript).expect("it has the shape");
        factors.extend(&claims);
        pads.cover_all(&mut claims);
        walk.claims(&claims, &mut transcript).expect("it has the shape");

        // Each factor is moved by one of the last pads.
        let blinds = pads.last(factors.len());
        let mut lower = walk.equation().lower(blinds, &factors);
        let mut moved = blinds.to_vec();
        pads.cover_all(&mut lower);
        walk.lower(&lower, &mut transcript).expect("it has the shape");
        moved.iter_mut().zip(factors).for_each(|(x, a)| *x += walk.unit * a);
        let factors = moved;
        walk.factors(&factors, &mut transcript).expect("it has the shape");

        let linear = walk.linear(None).expect("the plan is complete");
        let term = |stack, cells: &[F]| {
            let cells = cells.iter().map(|cell| EF::from(*cell)).collect();
            ProductTerm::new(vec![linear.weights(plan, &walk.challenges, stack), cells])
        };
        let terms = vec![
            term(&setup.run_stack, kept.message.as_slice()),
            term(&setup.inputs_stack, inputs.kept.message.as_slice()),
        ];
        let masks = (&secrets.mask[..], &secrets.blind[..]);
        let (last, ended) = last::prove(terms, setup.rounds(), masks, &mut transcript);
        let [first, second] = [StdRng::from_rng(&mut rng), StdRng::from_rng(&mut rng)];
        let sponge = transcript.sponge();
        let points = ended.run_points(&setup.run_stack);
        let opening = setup.run.open(&root, kept, points, first, sponge);
        let points = vec![ended.stack_point(&setup.inputs_stack)];
        let inputs = setup.inputs.open(&inputs.root, inputs.kept, points, second, sponge);
        HidingProof { root, lookups, products, claims, lower, factors, last, opening, inputs }
    }

    /// Commits to the run, pads, masks and noise.
    fn commit_run(&self, witness: &Witness, secrets: &Secrets, rng: &mut StdRng) -> Sealed {
        let (plan, stack) = (&self.setup.plan, &self.setup.run_stack);
        let cells = stack.fill(|piece, len| match piece {
            Piece::Column(column) => witness.column(plan, &plan.columns[column.0]),
            Piece::Pads(place) => coordinate(secrets.pads.all(), place, len),
            Piece::Mask(place) => coordinate(&secrets.mask, place, len),
            Piece::Blind(place) => coordinate(&secrets.blind, place, len),
            Piece::Noise => noise(rng, len),
        });
        let (root, kept) = self.setup.run.commit(cells, StdRng::from_rng(rng));
        Sealed { root, kept }
    }

    /// The first sum-check, covered, and the claims at its end, not yet covered.
    fn products(
        &self,
        shown: &Witness,
        pads: &mut Pads,
        walk: &Walk<'_>,
        transcript: &Transcript,
    ) -> (Option<SumProof>, Vec<EF>) {
        let plan = &self.setup.plan;
        let requests = plan.requests(&walk.challenges);
        let parts = Parts { plan, model: self.runner.model() };
        let terms = parts.products(shown, &walk.challenges, &requests);
        if terms.is_empty() {
            return (None, Vec::new());
        }
        let (rounds, degree) = (plan.product_bits(), plan.product_degree());
        let mut aside = transcript.clone();
        let mut sponge = pads.sum(rounds, degree, aside.sponge());
        let mut summed = sumcheck::prove(terms, degree, &mut sponge);
        let challenges = Challenges { products: summed.point, ..walk.challenges.clone() };
        let claims = parts.claims(shown, &challenges, summed.factors);
        pads.cover_sum(&mut summed.proof);
        (Some(summed.proof), claims)
    }
}

/// The prover's randomness that is committed.
struct Secrets {
    pads: Pads,
    mask: Vec<EF>,
    blind: Vec<EF>,
}

impl Secrets {
    fn new(plan: &Plan, rng: &mut StdRng) -> Self {
        let mut random = |len: usize| (0..len).map(|_| rng.random()).collect::<Vec<EF>>();
        let pads = Pads::new(random(stack::pads(plan)));
        Self { pads, mask: random(1 << MASK_BITS), blind: random(1 << MASK_BITS) }
    }
}

fn children(layer: &FractionGkrLayerProof<EF>) -> [EF; 4] {
    let sent = &layer.claims;
    [sent.n0, sent.d0, sent.n1, sent.d1]
}
