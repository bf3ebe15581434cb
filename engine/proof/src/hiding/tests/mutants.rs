//! Why everything is absorbed, with hiding: see `crate::tests::mutants` for what mutants and
//! forgers are.
//!
//! A hiding verifier joins all that must hold into one linear equation. So a single number that is
//! not absorbed, chosen when the rest is known, makes any statement hold.

use super::{CONTEXT, Proven, proven, seeds};
use crate::field::{EF, F, eq_table};
use crate::hiding::last::{self, Ended};
use crate::hiding::setup::HidingSetup;
use crate::hiding::walk::Walk;
use crate::hiding::{HidingProof, HidingStatement, InputsCommitment};
use crate::tests::programs::Net;
use crate::tests::solve;
use crate::tests::sponge::{Log, Rule, under};
use crate::transcript::Transcript;
use crate::witness::Witness;
use p3_field::{Field, PrimeCharacteristicRing};
use tg_tensor::Tensor;

/// A transcript that has absorbed the statement and the root of the inputs.
fn begun(setup: &HidingSetup, statement: &HidingStatement) -> Transcript {
    setup.begin(&statement.into(), &[statement.inputs.root()])
}

/// Walks through a proof as a verifier does, up to the openings: where the last sum-check ended,
/// the value of what is weighed there, and the transcript.
pub(super) fn walked(
    setup: &HidingSetup,
    statement: &HidingStatement,
    proof: &HidingProof,
) -> (Ended, [EF; 2], Transcript) {
    let mut transcript = begun(setup, statement);
    setup.run.absorb(&proof.root, transcript.sponge());
    let mut walk = Walk::new(&setup.plan, &mut transcript);
    walk.lookups(&proof.lookups, &mut transcript).expect("the shape");
    walk.products(&proof.products, &mut transcript).expect("the shape");
    walk.claims(&proof.claims, &mut transcript).expect("the shape");
    walk.lower(&proof.lower, &mut transcript).expect("the shape");
    walk.factors(&proof.factors, &mut transcript).expect("the shape");
    let (constants, outputs) = (setup.constants(), &statement.outputs);
    let publics = crate::claims::Publics { inputs: &[], outputs, constants };
    let linear = walk.linear(Some(&publics)).expect("the plan is complete");
    let ended = last::replay(&proof.last, setup.rounds(), linear.constant, &mut transcript);
    let ended = ended.expect("the shape");
    walk.challenges.functionals = ended.point.clone();
    let weights = [&setup.run_stack, &setup.owned[0].stack].map(|stack| {
        let weight = linear.eval(&setup.plan, &walk.challenges, stack);
        crate::sumcheck::shortened(&ended.point, stack.bits) * weight
    });
    (ended, weights, transcript)
}

/// By how much the two closing equations are wrong.
fn gaps(proven: &Proven, statement: &HidingStatement, proof: &HidingProof, rule: &Rule) -> [EF; 2] {
    let setup = proven.prover.setup();
    let (ended, weights, _) = under(rule, || walked(setup, statement, proof)).0;
    let weighed = weights[0] * proof.opening.evals[0] + weights[1] * proof.owned[0].evals[0];
    ended.gaps(&proof.last, weighed, &proof.opening.evals[1..])
}

impl Proven {
    /// What a prover under a rule sends for a statement.
    fn prove_as(
        &self,
        rule: &Rule,
        statement: &HidingStatement,
        witness: &Witness,
    ) -> (HidingProof, Log) {
        let (prover, seed) = (self.prover.inner(), seeds(7).proof);
        let (statement, sealed) = (statement.into(), vec![self.sealed()]);
        under(rule, || prover.prove_witness(&statement, sealed, &seed, [witness; 2], false))
    }

    /// The elements that the statement is absorbed as.
    fn digest(&self) -> Vec<F> {
        let roots = [self.statement.inputs.root()];
        let digest = self.prover.setup().digest(&(&self.statement).into(), &roots);
        let pack = |chunk: &[u8]| chunk.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        digest.as_bytes().chunks(3).map(|chunk| F::from_u32(pack(chunk))).collect()
    }
}

/// An honest run, and a statement that says something else of it.
struct Lie {
    proven: Proven,
    statement: HidingStatement,
    witness: Witness,
}

impl Lie {
    fn new(net: Net) -> Self {
        let proven = proven(net, 1);
        let plan = &proven.prover.setup().plan;
        let spec = plan.program.specs()[plan.program.outputs()[0].value.index()];
        let mut numbers = proven.statement.outputs[0][0].to_numbers();
        numbers[0] += if numbers[0] < i64::from(spec.hi) { 1 } else { -1 };
        let mut statement = proven.statement.clone();
        statement.outputs[0][0] = Tensor::new(&spec, &numbers).expect("of the range");
        let witness = proven.witness(net);
        Self { proven, statement, witness }
    }

    fn prove(&self, rule: &Rule) -> (HidingProof, Log) {
        self.proven.prove_as(rule, &self.statement, &self.witness)
    }

    fn is_accepted(&self, rule: &Rule, proof: &HidingProof) -> bool {
        under(rule, || self.proven.check(&self.statement, proof).is_ok()).0
    }
}

type Part = fn(&mut HidingProof) -> &mut EF;

/// A number of each kind of message.
const PARTS: [(&str, Part); 11] = [
    ("root of the look-ups", |proof| &mut proof.lookups.root_denominator),
    ("round of the look-ups", |proof| &mut proof.lookups.layers[2].round_polys[0][0]),
    ("evaluation of the look-ups", |proof| &mut proof.lookups.layers[2].claims.n0),
    ("first sum", |proof| &mut proof.products.as_mut().expect("products").claimed_sum),
    ("round of the first sum", |proof| {
        &mut proof.products.as_mut().expect("products").round_polys[1][0]
    }),
    ("claim", |proof| &mut proof.claims[0]),
    ("coefficient", |proof| &mut proof.lower[0]),
    ("factor", |proof| &mut proof.factors[0]),
    ("sum of the mask", |proof| &mut proof.last.mask),
    ("last round", |proof| &mut proof.last.rounds[3][0]),
    ("blind", |proof| &mut proof.last.blind),
];

/// Goal: no message may be left out of the transcript. Method: one number of each kind is not
/// absorbed; a forger moves it by what is missing over its slope.
#[test]
fn forger_chooses_any_one_message_last() {
    let lie = Lie::new(Net::Dense);
    let (honest, log) = lie.prove(&Rule::default());
    assert!(!lie.is_accepted(&Rule::default(), &honest), "the lie alone is refused");
    for (name, part) in PARTS {
        let at = log.place(0, &[*part(&mut honest.clone())]);
        let mutant = Rule::deaf(at);
        let forge = |rule: &Rule| {
            let (mut proof, _) = lie.prove(rule);
            let gap = |proof: &HidingProof| gaps(&lie.proven, &lie.statement, proof, rule)[0];
            let missing = gap(&proof);
            assert_ne!(missing, EF::ZERO);
            let mut moved = proof.clone();
            *part(&mut moved) += EF::ONE;
            let slope = gap(&moved) - missing;
            *part(&mut proof) -= missing * slope.try_inverse().unwrap_or(EF::ONE);
            proof
        };
        let forged = forge(&mutant);
        assert!(lie.is_accepted(&mutant, &forged), "{name}");
        assert!(!lie.is_accepted(&Rule::default(), &forged), "{name}");
        assert!(!lie.is_accepted(&Rule::default(), &forge(&Rule::default())), "{name}");
    }
}

/// Two of the shown coefficients, as both closing equations look at them.
#[test]
fn forger_chooses_shown_coefficients_last() {
    let lie = Lie::new(Net::Dense);
    let (honest, log) = lie.prove(&Rule::default());
    let mutant = Rule::deaf(log.place(0, &honest.last.shown));
    let forge = |rule: &Rule| {
        let (mut proof, _) = lie.prove(rule);
        let gap = |proof: &HidingProof| gaps(&lie.proven, &lie.statement, proof, rule);
        let missing = gap(&proof);
        let slope = |place: usize| {
            let mut moved = proof.clone();
            moved.last.shown[place] += EF::ONE;
            let found = gap(&moved);
            [found[0] - missing[0], found[1] - missing[1]]
        };
        let ([a, c], [b, d]) = (slope(0), slope(1));
        let scale = -(a * d - b * c).inverse();
        proof.last.shown[0] += scale * (d * missing[0] - b * missing[1]);
        proof.last.shown[1] += scale * (a * missing[1] - c * missing[0]);
        proof
    };
    let forged = forge(&mutant);
    assert!(lie.is_accepted(&mutant, &forged));
    assert!(!lie.is_accepted(&Rule::default(), &forged));
    assert!(!lie.is_accepted(&Rule::default(), &forge(&Rule::default())));
}

/// The stack's value makes the equation hold; two coordinates of the mask keep the batch of all
/// opened values and their own sum.
#[test]
fn forger_chooses_opened_values_last() {
    let lie = Lie::new(Net::Dense);
    let (honest, log) = lie.prove(&Rule::default());
    let mut from = 0;
    let mut deaf = Vec::new();
    for value in &honest.opening.evals {
        let found = log.place(from, &[*value]);
        from = found.end;
        deaf.extend(found);
    }
    let mutant = Rule::deaf(deaf);
    let forge = |rule: &Rule| {
        let (mut proof, log) = lie.prove(rule);
        let gap = |proof: &HidingProof| gaps(&lie.proven, &lie.statement, proof, rule);
        let missing = gap(&proof)[0];
        let last = *proof.opening.evals.last().expect("there are openings");
        let batching = log.drawn_behind(log.place(0, &[last]).end);
        let mut moved = proof.clone();
        moved.opening.evals[0] += EF::ONE;
        let by = -missing * (gap(&moved)[0] - missing).inverse();
        // a·x + a²·y = -by, and x + basis·y = 0.
        let basis = crate::hiding::stack::basis(1);
        let second = -by * (batching.square() - batching * basis).inverse();
        proof.opening.evals[0] += by;
        proof.opening.evals[1] -= basis * second;
        proof.opening.evals[2] += second;
        proof
    };
    let forged = forge(&mutant);
    assert!(lie.is_accepted(&mutant, &forged));
    assert!(!lie.is_accepted(&Rule::default(), &forged));
    assert!(!lie.is_accepted(&Rule::default(), &forge(&Rule::default())));
}

/// Places where a root was absorbed.
fn root_places(log: &Log, root: &[F]) -> Vec<usize> {
    let first = log.place_of(0, root);
    let second = log.place_of(first.end, root);
    first.chain(second).collect()
}

/// Multiplicities that balance a look-up that is not in its table.
#[test]
fn forger_chooses_the_columns_last() {
    let mut lie = Lie::new(Net::Entries);
    let made = lie.statement.outputs[0][0].get(0).expect("it has elements");
    lie.witness.say_entry(&lie.proven.prover.setup().plan, made);
    let honest = lie.witness.clone();
    let (proof, log) = lie.prove(&Rule::default());
    assert!(!lie.is_accepted(&Rule::default(), &proof));
    let mutant = Rule::deaf(root_places(&log, &proof.root.roots()[0]));
    let mut forge = |rule: &Rule| {
        lie.witness = honest.clone();
        let (proof, _) = lie.prove(rule);
        let setup = lie.proven.prover.setup();
        let draw = || {
            let mut transcript = begun(setup, &lie.statement);
            setup.run.absorb(&proof.root, transcript.sponge());
            Walk::new(&setup.plan, &mut transcript).challenges
        };
        let challenges = under(rule, draw).0;
        lie.witness.balance(&setup.plan, &challenges);
        let forged = lie.prove(rule).0;
        (lie.is_accepted(rule, &forged), lie.is_accepted(&Rule::default(), &forged))
    };
    assert_eq!(forge(&mutant), (true, false));
    assert_eq!(forge(&Rule::default()), (false, false));
}

/// Another root with other inputs behind it, whose noise gives the same value at the point.
#[test]
fn forger_chooses_inputs_behind_their_root_last() {
    let net = Net::Dense;
    let proven = proven(net, 1);
    let setup = proven.prover.setup();
    let owned = &setup.owned[0];
    let witness = proven.witness(net);
    let (_, log) = proven.prove_as(&Rule::default(), &proven.statement, &witness);
    let mut deaf = root_places(&log, &proven.statement.inputs.root().roots()[0]);
    deaf.extend(log.place_of(0, &proven.digest()));
    let forge = |rule: &Rule| {
        let (mut proof, _) = proven.prove_as(rule, &proven.statement, &witness);
        let theirs = setup.seal_inputs(&[net.inputs(9)], &seeds(3).inputs);
        let mut cells = owned.cells(&theirs.expect("they fit").expect("inputs are hidden"));
        let open = || {
            let (ended, _, mut transcript) = walked(setup, &proven.statement, &proof);
            let sponge = transcript.sponge();
            let points = ended.run_points(&setup.run_stack);
            setup.run.verify(&proof.root, &proof.opening, points, sponge).expect("it was opened");
            let point = ended.stack_point(&owned.stack);
            let weights = eq_table(&point);
            let value: EF = weights.iter().zip(&cells).map(|(weight, cell)| *weight * *cell).sum();
            // The noise is the piece behind the only column.
            let noise = owned.stack.first(crate::hiding::stack::Piece::Noise);
            let more = solve(&weights[noise..noise + 5], proof.owned[0].evals[0] - value);
            cells[noise..].iter_mut().zip(more).for_each(|(cell, more)| *cell += more);
            let sealed = owned.commit_cells(
                cells,
                seeds(4).proof.generator(crate::hiding::Stream::Commitment, 0),
            );
            let inputs = InputsCommitment::of(&sealed.root);
            (
                inputs,
                owned.open(
                    sealed,
                    point,
                    seeds(5).proof.generator(crate::hiding::Stream::Commitment, 0),
                    sponge,
                ),
            )
        };
        let (inputs, opening) = under(rule, open).0;
        proof.owned = vec![opening];
        let statement = HidingStatement { inputs, ..proven.statement.clone() };
        assert_ne!(statement.inputs, proven.statement.inputs);
        let accepts = |rule: &Rule| under(rule, || proven.check(&statement, &proof).is_ok()).0;
        (accepts(rule), accepts(&Rule::default()))
    };
    assert_eq!(forge(&Rule::deaf(deaf)), (true, false));
    assert_eq!(forge(&Rule::default()), (false, false));
}

/// A proof for one context holds in another for whoever does not absorb the statement.
#[test]
fn forger_chooses_the_context_last() {
    let proven = proven(Net::Dense, 1);
    let other = HidingStatement { context: b"another job".to_vec(), ..proven.statement.clone() };
    assert_eq!(proven.statement.context, CONTEXT);
    let verify = |statement: &HidingStatement| proven.check(statement, &proven.proof).is_ok();
    let (is_accepted, log) = under(&Rule::default(), || verify(&proven.statement));
    assert!(is_accepted && !verify(&other));
    let deaf = Rule::deaf(log.place_of(0, &proven.digest()));
    let (proof, _) = proven.prove_as(&deaf, &proven.statement, &proven.witness(Net::Dense));
    assert!(under(&deaf, || proven.check(&other, &proof).is_ok()).0);
}
