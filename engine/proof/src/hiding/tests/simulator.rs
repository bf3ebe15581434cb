//! Whoever does not know the inputs makes what a verifier sees, and whoever sees proofs does not
//! learn which inputs were used.

use super::mutants::walked;
use super::{CONTEXT, NETS, proven, seeds};
use crate::field::{DEGREE, EF, F, eq_table};
use crate::hiding::setup::HidingSetup;
use crate::hiding::stack::{Piece, Stack};
use crate::hiding::{HidingProof, HidingProver, HidingStatement, InputsCommitment};
use crate::logup;
use crate::tests::fractions::unpacked;
use crate::tests::programs::Net;
use crate::tests::solve;
use crate::tests::sponge::{Rule, under};
use crate::witness::Witness;
use crate::{Mode, Prover};
use p3_field::{BasedVectorSpace, PrimeField32};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tg_tensor::{Options, Runner, Tensor};

/// Proofs that a distinguisher sees.
const PROOFS: usize = 200;

/// A sponge that hears nothing: its challenges are known before anything is said.
fn programmed() -> Rule {
    Rule { deaf_from: Some(0), ..Rule::default() }
}

/// Random cells that have these values at these points of pieces, and one at a point of all.
fn cells(
    stack: &Stack,
    rng: &mut StdRng,
    within: &[EF],
    wanted: &[(Piece, EF)],
    (point, value): (&[EF], EF),
) -> Vec<F> {
    let mut cells: Vec<F> = (0..1 << stack.bits).map(|_| rng.random()).collect();
    let mut fit = |first: usize, weights: &[EF], free: usize, value: EF| {
        let own = &mut cells[first..];
        let found: EF = weights.iter().zip(&*own).map(|(weight, cell)| *weight * *cell).sum();
        let more = solve(&weights[free..free + DEGREE], value - found);
        own[free..].iter_mut().zip(more).for_each(|(cell, more)| *cell += more);
    };
    let eq = eq_table(within);
    wanted.iter().for_each(|(piece, value)| fit(stack.first(*piece), &eq, 0, *value));
    fit(0, &eq_table(point), stack.first(Piece::Noise), value);
    cells
}

/// A statement about unknown inputs with a proof of it, for whoever draws the challenges that a
/// deaf sponge gives. Nothing is known but the outputs. `shape` is any proof of the same program.
fn simulate(
    setup: &HidingSetup,
    outputs: &[Vec<Tensor>],
    shape: &HidingProof,
    seed: u8,
) -> (HidingStatement, HidingProof) {
    let mut rng = StdRng::from_seed([seed; 32]);
    let mut proof = shape.clone();
    super::shown::covered(&mut proof).into_iter().for_each(|message| *message = rng.random());
    proof.factors.iter_mut().for_each(|message| *message = rng.random());
    proof.last.mask = rng.random();
    proof.last.rounds.iter_mut().flatten().for_each(|message| *message = rng.random());
    proof.last.shown.iter_mut().for_each(|message| *message = rng.random());
    let unknown = InputsCommitment::of(&shape.root);
    let mut statement =
        HidingStatement { inputs: unknown, outputs: outputs.to_vec(), context: CONTEXT.to_vec() };
    let (ended, weights, mut transcript) = walked(setup, &statement, &proof);

    // What the stacks are at the point is uniform; the rest follows.
    let values: [EF; 2] = [rng.random(), rng.random()];
    let masks: Vec<EF> = (0..DEGREE).map(|_| rng.random()).collect();
    let weighed = weights[0] * values[0] + weights[1] * values[1];
    let opened = ended.simulate(&mut proof.last, weighed, &masks);
    let pieces = (0..DEGREE).map(Piece::Mask).chain((0..DEGREE).map(Piece::Blind));
    let wanted: Vec<(Piece, EF)> = pieces.zip(opened).collect();
    let point = ended.stack_point(&setup.run_stack);
    let run = cells(&setup.run_stack, &mut rng, &ended.within, &wanted, (&point, values[0]));
    let owned = &setup.owned[0];
    let at = ended.stack_point(&owned.stack);
    let inputs = cells(&owned.stack, &mut rng, &[], &[], (&at, values[1]));

    let (root, kept) = setup.run.commit(run, StdRng::from_rng(&mut rng));
    let sponge = transcript.sponge();
    let points = ended.run_points(&setup.run_stack);
    proof.opening = setup.run.open(&root, kept, points, StdRng::from_rng(&mut rng), sponge);
    proof.root = root;
    let sealed = owned.commit_cells(inputs, StdRng::from_rng(&mut rng));
    statement.inputs = InputsCommitment::of(&sealed.root);
    proof.owned = vec![owned.open(sealed, at, StdRng::from_rng(&mut rng), sponge)];
    (statement, proof)
}

/// Goal: all that a verifier sees can be made without inputs. Method: a verifier whose challenges
/// are programmed accepts the whole proof of a simulator, openings and all, for the outputs of a
/// run and for outputs of no run; the real one does not.
#[test]
fn simulated_proofs_are_accepted_under_programmed_challenges() {
    for net in NETS {
        let proven = proven(net, 1);
        let setup = proven.prover.setup();
        let program = &setup.plan.program;
        let smallest: Vec<Tensor> = program
            .outputs()
            .iter()
            .map(|output| {
                let spec = program.specs()[output.value.index()];
                Tensor::new(&spec, &vec![spec.lo.into(); spec.elements()]).expect("of the range")
            })
            .collect();
        for outputs in [proven.statement.outputs.clone(), vec![smallest]] {
            let make = || simulate(setup, &outputs, &proven.proof, 9);
            let (statement, proof) = under(&programmed(), make).0;
            let found = under(&programmed(), || proven.check(&statement, &proof)).0;
            assert_eq!(found, Ok(()), "{net:?}");
            assert!(proven.check(&statement, &proof).is_err(), "{net:?}");
        }
    }
}

fn coordinates(element: EF) -> Vec<u32> {
    let parts: &[F] = element.as_basis_coefficients_slice();
    parts.iter().map(|part| part.as_canonical_u32()).collect()
}

/// How far a message is from what it would be for some inputs: nothing if it is that.
fn distance(sent: EF, guess: EF) -> u64 {
    coordinates(sent - guess).into_iter().map(u64::from).sum()
}

/// What the root of the look-ups is for some inputs, if nothing covers it.
fn guess(plan: &crate::plan::Plan, net: Net, inputs: &[Tensor], drawn: [EF; 2]) -> EF {
    let runner = Runner::new(net.model(), Options { threads: 1, path: None });
    let witness = Witness::new(plan, &runner, &[inputs.to_vec()]).expect("inputs that fit");
    let [alpha, beta] = drawn;
    let challenges = crate::claims::Challenges { alpha, beta, ..Default::default() };
    let [_, denominators] = unpacked(&logup::leaves(plan, &witness, &challenges));
    denominators.into_iter().product()
}

/// How much oftener than not a distinguisher is right, of 1.
fn advantage(right: usize) -> f64 {
    (2.0 * right as f64 / PROOFS as f64 - 1.0).abs()
}

/// Which of two inputs was used, by the root of the look-ups: the one whose own is nearer.
fn distinguish(
    plan: &crate::plan::Plan,
    net: Net,
    twins: &[Vec<Tensor>; 2],
    (sent, drawn): (EF, [EF; 2]),
) -> usize {
    let far = twins.each_ref().map(|inputs| distance(sent, guess(plan, net, inputs, drawn)));
    usize::from(far[1] < far[0])
}

/// Goal: a distinguisher who wins where nothing is hidden loses where it is. Method: two inputs
/// with the same outputs, chosen at random for each of many proofs. It looks at a message that any
/// pair of inputs tells apart. It does not look at the statement.
#[test]
fn distinguisher_is_always_right_without_hiding_and_guesses_with_it() {
    let net = Net::Entries;
    let twins = super::shown::twins(net);
    let mut rng = StdRng::from_seed([4; 32]);
    let bits: Vec<usize> = (0..PROOFS).map(|_| rng.random_range(0..2)).collect();

    let prover = Prover::new(net.model(), Mode::Committed, 1).expect("it can be proven");
    let mut right = 0;
    for (number, bit) in bits.iter().enumerate() {
        let context = number.to_be_bytes().to_vec();
        let prove = || prover.prove(vec![twins[*bit].clone()], context);
        let (found, log) = under(&Rule::default(), prove);
        let (_, proof) = found.expect("inputs that fit");
        let at = log.place_of(0, &proof.root.roots()[0]).end;
        let seen = (proof.lookups.root_denominator, log.all_drawn_behind(at));
        right += usize::from(distinguish(&prover.setup().plan, net, &twins, seen) == *bit);
    }
    assert!(advantage(right) > 0.99, "committed: right {right} of {PROOFS} times");

    let prover = HidingProver::new(net.model(), 1).expect("it can be proven");
    let mut right = 0;
    let (mut each, mut shown, mut opened) = (Vec::new(), Vec::new(), Vec::new());
    for (number, bit) in bits.iter().enumerate() {
        let inputs = [twins[*bit].clone()];
        let prove = || prover.prove(&inputs, &seeds(number as u8), CONTEXT.to_vec());
        let (found, log) = under(&Rule::default(), prove);
        let (_, mut proof) = found.expect("inputs that fit");
        let at = log.place_of(0, &proof.root.roots()[0]).end;
        let seen = (proof.lookups.root_denominator, log.all_drawn_behind(at));
        right += usize::from(distinguish(&prover.setup().plan, net, &twins, seen) == *bit);
        let all = super::shown::messages(&mut proof);
        each.extend(all.iter().map(|message| coordinates(*message)));
        shown.push(all.into_iter().flat_map(coordinates).collect::<Vec<_>>());
        opened.push(super::shown::opened(&proof));
    }
    // Guessing is off by more once in ten thousand times; the seeds are fixed.
    assert!(advantage(right) < 0.28, "hiding: right {right} of {PROOFS} times");
    let count = each.len();
    each.sort_unstable();
    each.dedup();
    assert_eq!(each.len(), count, "a message comes twice");
    for all in [shown, opened] {
        uniform(&all);
        unrelated(&all, &bits);
    }
}

/// Goal: what is shown looks uniform. Method: all coordinates, counted in equal parts of the field,
/// and by their lowest bits.
fn uniform(proofs: &[Vec<u32>]) {
    const PARTS: usize = 64;
    let count = proofs.iter().map(Vec::len).sum::<usize>();
    let squares = |part: &dyn Fn(u32) -> usize| {
        let mut counts = [0_u32; PARTS];
        proofs.iter().flatten().for_each(|coordinate| counts[part(*coordinate)] += 1);
        let expected = count as f64 / PARTS as f64;
        counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum::<f64>()
    };
    let high = squares(&|c| (u64::from(c) * PARTS as u64 / u64::from(F::ORDER_U32)) as usize);
    let low = squares(&|c| c as usize % PARTS);
    // 63 degrees of freedom: 63 and a deviation of 11.2; below 20 or above 130 is no accident.
    for (name, found) in [("high", high), ("low", low)] {
        assert!((20.0..130.0).contains(&found), "{name}: {found} of {count} coordinates");
    }
}

/// Goal: no coordinate alone tells which inputs were used. Method: for each, the difference of its
/// mean over the proofs of one and of the other, in deviations of a uniform number.
fn unrelated(proofs: &[Vec<u32>], bits: &[usize]) {
    let ones = bits.iter().sum::<usize>() as f64;
    let zeros = bits.len() as f64 - ones;
    let deviation = (1.0 / 12.0 * (1.0 / ones + 1.0 / zeros)).sqrt();
    let mut most: f64 = 0.0;
    assert!(proofs.iter().all(|shown| shown.len() == proofs[0].len()), "proofs have one shape");
    for place in 0..proofs[0].len() {
        let mut sums = [0.0, 0.0];
        for (shown, bit) in proofs.iter().zip(bits) {
            sums[*bit] += f64::from(shown[place]) / f64::from(F::ORDER_U32);
        }
        most = most.max(((sums[0] / zeros - sums[1] / ones) / deviation).abs());
    }
    // Of a hundred thousand numbers, one is off by 6.5 deviations once in a hundred thousand times.
    assert!(most < 6.5, "a coordinate is {most} deviations apart");
}
