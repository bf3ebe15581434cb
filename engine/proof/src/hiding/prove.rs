//! The prover of hiding proofs. Transcript: see [`super`].

use super::last;
use super::owned::{HiddenWeights, Owned, Sealed, WeightsKey};
use super::pads::Pads;
use super::proof::HidingProof;
use super::seed::{Purpose, Seed, Stream};
use super::setup::{HidingSetup, Secrecy, noise};
use super::stack::{self, MASK_BITS, Piece, Stack, coordinate};
use super::statement::{HidingRoot, HidingStatement, Tensors, ZkStatement};
use super::verify::Shown;
use super::walk::Walk;
use crate::claims::Challenges;
use crate::error::ProveError;
use crate::field::{EF, F};
use crate::plan::{Plan, PlanError};
use crate::prove::{Parts, look_up};
use crate::sumcheck::{self, ProductTerm, SumProof};
use crate::transcript::Transcript;
use crate::witness::Witness;
use p3_multi_stark::fractional_gkr::FractionGkrLayerProof;
use rand::RngExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use tg_tensor::{Model, Options, Runner, Tensor};

/// A model that is ready to be proven without showing inputs, for one number of inferences.
#[derive(Debug)]
pub struct HidingProver(ZkProver);

/// The two seeds of a proof.
#[derive(Debug)]
pub struct Seeds {
    /// That of the commitment to the inputs, from their owner.
    pub inputs: Seed,
    /// The prover's own.
    pub proof: Seed,
}

impl HidingProver {
    /// Makes a model ready.
    pub fn new(model: impl Into<Arc<Model>>, batch: usize) -> Result<Self, PlanError> {
        let shown = Shown { inputs: false, outputs: true };
        ZkProver::new(model, batch, shown, None).map(Self)
    }

    #[cfg(test)]
    pub(crate) fn inner(&self) -> &ZkProver {
        &self.0
    }

    #[cfg(test)]
    pub(crate) fn setup(&self) -> &HidingSetup {
        &self.0.setup
    }

    /// A prover who names the weights of another one.
    #[cfg(test)]
    pub(crate) fn disguised(mut self, other: &Self) -> Self {
        self.0.setup.weights = other.0.setup.weights;
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
        let Seeds { inputs: first, proof } = seeds;
        let (statement, proof) = self.0.prove_with(inputs, [first, proof, proof], context)?;
        let (Tensors::Committed(inputs), Tensors::Shown(outputs)) =
            (statement.inputs, statement.outputs)
        else {
            unreachable!("inputs are committed and outputs shown");
        };
        Ok((HidingStatement { inputs, outputs, context: statement.context }, proof))
    }
}

/// A model that is ready to be proven without showing inputs, outputs or weights, as is asked for,
/// for one number of inferences.
#[derive(Debug)]
pub struct ZkProver {
    setup: HidingSetup,
    runner: Runner,
    weights: Option<Used>,
}

/// Secret weights.
#[derive(Debug)]
struct Used {
    key: WeightsKey,
    commitment: HiddenWeights,
    /// Proofs that were made.
    used: AtomicU16,
}

/// The seeds of a proof; those of tensors that are shown are not used.
#[derive(Debug)]
pub struct ZkSeeds {
    /// That of the commitment to the inputs, from their owner.
    pub inputs: Seed,
    /// That of the commitment to the outputs, for whoever is to get them.
    pub outputs: Seed,
    /// The prover's own.
    pub proof: Seed,
}

impl ZkProver {
    /// Makes a model ready. With a key the verifier has a commitment to the weights only.
    pub fn new(
        model: impl Into<Arc<Model>>,
        batch: usize,
        shown: Shown,
        weights: Option<WeightsKey>,
    ) -> Result<Self, PlanError> {
        let model = model.into();
        let (inputs, outputs) = (!shown.inputs, !shown.outputs);
        let openings = weights.as_ref().map(|key| key.openings);
        let secrecy = Secrecy { inputs, outputs, weights: openings };
        let program = Arc::new(model.program().clone());
        let known = weights.is_none().then(|| model.clone());
        let setup = HidingSetup::new(&program, known, batch, secrecy)?;
        Ok(Self::with(setup, model, weights))
    }

    /// One for a setup of the model's program.
    pub(crate) fn with(setup: HidingSetup, model: Arc<Model>, key: Option<WeightsKey>) -> Self {
        let weights = key.and_then(|key| {
            let root = HidingRoot::of(&setup.seal_weights(&model, &key)?.root);
            let commitment = HiddenWeights { root, openings: key.openings };
            Some(Used { used: AtomicU16::new(key.used), key, commitment })
        });
        let runner = Runner::new(model, Options { threads: 1, path: None });
        Self { setup, runner, weights }
    }

    /// The commitment to the weights; `None` if the verifier has them.
    #[must_use]
    pub fn commitment(&self) -> Option<HiddenWeights> {
        self.weights.as_ref().map(|weights| weights.commitment)
    }

    /// How many proofs were made about the weights, with those that were made before.
    #[must_use]
    pub fn used(&self) -> u16 {
        self.weights.as_ref().map_or(0, |weights| weights.used.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub(crate) fn setup(&self) -> &HidingSetup {
        &self.setup
    }

    /// Runs the program on every inference's inputs and proves it. At most one proof may be made
    /// with the same inputs and seed of inputs, and about secret weights no more than their
    /// commitment can hide.
    pub fn prove(
        &self,
        inputs: &[Vec<Tensor>],
        seeds: &ZkSeeds,
        context: Vec<u8>,
    ) -> Result<(ZkStatement, HidingProof), ProveError> {
        self.prove_with(inputs, [&seeds.inputs, &seeds.outputs, &seeds.proof], context)
    }

    /// The same with the seeds of inputs, outputs and proof.
    pub(crate) fn prove_with(
        &self,
        inputs: &[Vec<Tensor>],
        [of_inputs, of_outputs, of_proof]: [&Seed; 3],
        context: Vec<u8>,
    ) -> Result<(ZkStatement, HidingProof), ProveError> {
        let (found, expected) = (inputs.len(), self.setup.plan.batch);
        if found != expected {
            return Err(ProveError::Batch { found, expected });
        }
        rayon::scope(|_| {
            let witness = Witness::new(&self.setup.plan, &self.runner, inputs)?;
            self.count()?;
            let fits = "a program ran on these inputs";
            let of_inputs = self.setup.seal_inputs(inputs, of_inputs).expect(fits);
            let of_outputs = self.setup.seal_outputs(&witness.outputs, of_outputs).expect(fits);
            let tensors = |sealed: &Option<Sealed>, shown: &[Vec<Tensor>]| match sealed {
                Some(sealed) => Tensors::Committed(HidingRoot::of(&sealed.root)),
                None => Tensors::Shown(shown.to_vec()),
            };
            let statement = ZkStatement {
                inputs: tensors(&of_inputs, inputs),
                outputs: tensors(&of_outputs, &witness.outputs),
                context,
            };
            let sealed =
                [of_inputs, self.seal_weights(), of_outputs].into_iter().flatten().collect();
            let proof = self.prove_witness(&statement, sealed, of_proof, [&witness; 2], false);
            Ok((statement, proof))
        })
    }

    /// Counts a proof about secret weights.
    fn count(&self) -> Result<(), ProveError> {
        let Some(Used { commitment, used, .. }) = &self.weights else { return Ok(()) };
        let most = commitment.openings;
        if most == 0 {
            return Ok(());
        }
        let next = |made: u16| (made < most).then_some(made + 1);
        let counted = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        counted.map(drop).map_err(|_| ProveError::Openings { most })
    }

    pub(crate) fn seal_weights(&self) -> Option<Sealed> {
        let weights = self.weights.as_ref()?;
        self.setup.seal_weights(self.runner.model(), &weights.key)
    }

    /// Proves a statement from two witnesses, of which a liar may choose the second for everything
    /// after the commitment, and hide that the look-ups do not add up. For an honest prover they
    /// are the same.
    pub(crate) fn prove_witness(
        &self,
        statement: &ZkStatement,
        owned: Vec<Sealed>,
        seed: &Seed,
        [witness, shown]: [&Witness; 2],
        hide: bool,
    ) -> HidingProof {
        let setup = &self.setup;
        let plan = &setup.plan;
        let roots: Vec<_> = owned.iter().map(|sealed| sealed.root.clone()).collect();
        let digest = setup.digest(statement, &roots);
        let seed = seed.bound(Purpose::Proof, &[digest.as_bytes()]);
        let mut transcript = setup.begin(statement, &roots);
        let mut secrets = Secrets::new(plan, &seed);
        let Sealed { root, kept } = self.commit_run(witness, &secrets, &seed);
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
        let term = |stack: &Stack, cells: &[F]| {
            let cells = cells.iter().map(|cell| EF::from(*cell)).collect();
            ProductTerm::new(vec![linear.weights(plan, &walk.challenges, stack), cells])
        };
        let mut terms = vec![term(&setup.run_stack, kept.message.as_slice())];
        for (part, sealed) in setup.owned.iter().zip(&owned) {
            terms.push(term(&part.stack, &part.cells(sealed)));
        }
        let masks = (&secrets.mask[..], &secrets.blind[..]);
        let (last, ended) = last::prove(terms, setup.rounds(), masks, &mut transcript);
        let sponge = transcript.sponge();
        let points = ended.run_points(&setup.run_stack);
        let rng = seed.generator(Stream::Opening, 0);
        let opening = setup.run.open(&root, kept, points, rng, sponge);
        let open = |(index, (part, sealed)): (u32, (&Owned, Sealed))| {
            let point = ended.stack_point(&part.stack);
            part.open(sealed, point, seed.generator(Stream::Opening, index), sponge)
        };
        let owned = (1..).zip(setup.owned.iter().zip(owned)).map(open).collect();
        HidingProof { root, lookups, products, claims, lower, factors, last, opening, owned }
    }

    /// Commits to the run, pads, masks and noise.
    fn commit_run(&self, witness: &Witness, secrets: &Secrets, seed: &Seed) -> Sealed {
        let mut rng = seed.generator(Stream::Noise, 0);
        let (plan, stack) = (&self.setup.plan, &self.setup.run_stack);
        let cells = stack.fill(|piece, len| match piece {
            Piece::Column(column) => witness.column(plan, &plan.columns[column.0]),
            Piece::Pads(place) => coordinate(secrets.pads.all(), place, len),
            Piece::Mask(place) => coordinate(&secrets.mask, place, len),
            Piece::Blind(place) => coordinate(&secrets.blind, place, len),
            Piece::Noise => noise(&mut rng, len),
        });
        let (root, kept) = self.setup.run.commit(cells, seed.generator(Stream::Commitment, 0));
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
    fn new(plan: &Plan, seed: &Seed) -> Self {
        let random = |stream: Stream, len: usize| {
            let mut rng = seed.generator(stream, 0);
            (0..len).map(|_| rng.random()).collect::<Vec<EF>>()
        };
        let pads = Pads::new(random(Stream::Pads, stack::pads(plan)));
        let (mask, blind) =
            (random(Stream::Mask, 1 << MASK_BITS), random(Stream::Blind, 1 << MASK_BITS));
        Self { pads, mask, blind }
    }
}

fn children(layer: &FractionGkrLayerProof<EF>) -> [EF; 4] {
    let sent = &layer.claims;
    [sent.n0, sent.d0, sent.n1, sent.d1]
}
