//! Why everything is absorbed: for each kind of message a verifier that does not absorb it, and a
//! forger who wins against that verifier and loses against the real one.
//!
//! A forger is run twice by the same code: against the mutant, whose challenges do not depend on
//! the messages of one kind, so that the forger chooses these last; and against the real verifier.
//! `docs/proof.md` has the table of all kinds, with the reasons where no forger can exist.

use super::fractions::unpacked;
use super::lies::Liar;
use super::programs::Net;
use super::sponge::{Log, Rule, under};
use crate::claims::{Challenges, Points, Tally};
use crate::field::{DEGREE, EF, F};
use crate::logup;
use crate::plan::{At, ColumnId, Lookup, Plan, Role, Tree};
use crate::replay::lagrange;
use crate::verify::{Learnt, product_ends};
use crate::witness::Witness;
use crate::{Mode, Proof, Statement};
use p3_field::{Field, PrimeCharacteristicRing, PrimeField32};
use tg_tensor::Tensor;

/// A false statement with numbers that lie in one place only.
struct Lie {
    liar: Liar,
    statement: Statement,
    committed: Witness,
    shown: Witness,
}

/// What is not absorbed: elements of a proof that stand next to each other in the transcript.
type Kind = fn(&Proof) -> Vec<Vec<EF>>;

impl Lie {
    /// An accumulator in the clear is wrong, and the output what follows from it.
    fn about_an_accumulator() -> Self {
        let liar = Liar::new(Net::Convolution, Mode::Public, 1);
        let mut shown = liar.witness.clone();
        // The output is three quarters of it.
        shown.clear[0] += 4;
        let statement = with_output(&liar, 0, 3);
        let committed = liar.witness.clone();
        Self { liar, statement, committed, shown }
    }

    /// An output is not what the table says.
    fn about_an_entry() -> Self {
        let liar = Liar::new(Net::Entries, Mode::Public, 1);
        let statement = with_output(&liar, 0, 1);
        let made = statement.outputs[0][0].get(0).expect("it has elements");
        let mut shown = liar.witness.clone();
        shown.say_entry(&liar.setup().plan, made);
        Self { committed: shown.clone(), liar, statement, shown }
    }

    fn prove(&self, rule: &Rule) -> (Proof, Log) {
        let prover = &self.liar.proven.prover;
        under(rule, || prover.prove_witness(&self.statement, &self.committed, &self.shown, false))
    }

    fn is_accepted(&self, rule: &Rule, proof: &Proof) -> bool {
        let verifier = &self.liar.proven.verifier;
        let found = under(rule, || verifier.verify(&self.statement, &proof.to_bytes()).is_ok());
        found.0
    }

    fn learn(&self, rule: &Rule, proof: &Proof) -> Learnt {
        under(rule, || self.liar.proven.verifier.learn(&self.statement, proof)).0
    }

    /// By how much the last equation is wrong, because of the accumulator.
    fn gap(&self, rule: &Rule, proof: &Proof) -> EF {
        let learnt = self.learn(rule, proof);
        self.liar.proven.verifier.gap(&self.statement, proof, &learnt)
    }
}

impl Witness {
    /// Makes the first element of the only operation, a table, another number.
    pub(crate) fn say_entry(&mut self, plan: &Plan, made: i32) {
        self.values[plan.value_of(0).index()][0] = made;
        for (group, looked) in plan.groups.iter().zip(&mut self.lookups) {
            if group.what == Lookup::Entry(0) {
                looked.change(0, |numbers| numbers[1] = made);
            }
        }
    }

    /// Moves multiplicities so that all fractions add up to nothing for these challenges.
    pub(crate) fn balance(&mut self, plan: &Plan, challenges: &Challenges) {
        let [numerators, denominators] = unpacked(&logup::leaves(plan, self, challenges));
        let inverses = p3_field::batch_multiplicative_inverse(&denominators);
        let terms = numerators.iter().zip(&inverses);
        let sum: EF = terms.map(|(numerator, inverse)| *inverse * *numerator).sum();
        assert_ne!(sum, EF::ZERO, "what is looked up is not there");
        let table = plan.tables.iter().position(|table| table.size() >= 8).expect("a large table");
        let first = plan.multiplicities[table].1;
        let more = super::solve(&inverses[first..first + DEGREE], sum);
        for (count, more) in self.multiplicities[table].iter_mut().zip(more) {
            *count = (F::from_u32(*count) + more).as_canonical_u32();
        }
    }
}

/// The statement with an output's first number moved.
fn with_output(liar: &Liar, output: usize, by: i64) -> Statement {
    let mut statement = liar.proven.statement.clone();
    let program = &liar.setup().plan.program;
    let spec = program.specs()[program.outputs()[output].value.index()];
    let mut numbers = statement.outputs[0][output].to_numbers();
    numbers[0] += by;
    statement.outputs[0][output] = Tensor::new(&spec, &numbers).expect("of the range");
    statement
}

/// The places of a kind of message.
fn places(log: &Log, proof: &Proof, kind: Kind) -> Vec<usize> {
    let mut from = 0;
    let mut all = Vec::new();
    for elements in kind(proof).iter().filter(|elements| !elements.is_empty()) {
        let found = log.place(from, elements);
        from = found.end;
        all.extend(found);
    }
    assert!(!all.is_empty(), "there are such messages");
    all
}

/// Runs a forger against a verifier that does not absorb a kind of message, and against the real
/// one. A forger is given the lie and what it may rely on not being absorbed.
fn check(lie: &Lie, kind: Kind, forge: fn(&Lie, &Rule) -> Proof) {
    let (honest, log) = lie.prove(&Rule::default());
    let mutant = Rule::deaf(places(&log, &honest, kind));
    assert!(!lie.is_accepted(&Rule::default(), &honest), "the lie alone is refused");
    let (unforged, _) = lie.prove(&mutant);
    assert!(!lie.is_accepted(&mutant, &unforged), "and by the mutant");
    let forged = forge(lie, &mutant);
    assert!(lie.is_accepted(&mutant, &forged), "the forger wins against the mutant");
    assert!(!lie.is_accepted(&Rule::default(), &forged), "not with the same proof");
    let forged = forge(lie, &Rule::default());
    assert!(!lie.is_accepted(&Rule::default(), &forged), "nor with one made for it");
}

fn children(proof: &Proof, layer: usize) -> [EF; 4] {
    let sent = &proof.lookups.layers[layer].claims;
    [sent.n0, sent.d0, sent.n1, sent.d1]
}

/// What the numerators of all look-ups add up to, over the root's denominator.
fn imbalance(proof: &Proof) -> EF {
    let [n0, d0, n1, d1] = children(proof, 0);
    d1 * n0 + d0 * n1
}

/// What must be added to the value at 0 of a round whose sum is wrong by `gap`, so that its value
/// at the challenge is right.
fn mended(degree: usize, challenge: EF, gap: EF) -> EF {
    let weights = lagrange(degree, challenge);
    -gap * weights[1] * (weights[0] - weights[1]).inverse()
}

/// The first layer's equation is 0 + λ·D = N + λ·d0·d1, and D is nowhere else.
#[test]
fn forger_chooses_the_root_of_the_look_ups_last() {
    check(
        &Lie::about_an_entry(),
        |proof| vec![vec![proof.lookups.root_denominator]],
        |lie, rule| {
            let (mut proof, log) = lie.prove(rule);
            let lambda = log.drawn_behind(log.place(0, &[proof.lookups.root_denominator]).end);
            proof.lookups.root_denominator += imbalance(&proof) * lambda.inverse();
            proof
        },
    );
}

/// Numerators of both halves that add up to 0 over their denominators, and are at the branch what
/// the true ones are.
#[test]
fn forger_chooses_evaluations_of_the_look_ups_last() {
    let kind: Kind = |proof| {
        (0..proof.lookups.layers.len()).map(|layer| children(proof, layer).to_vec()).collect()
    };
    check(&Lie::about_an_entry(), kind, |lie, rule| {
        let (mut proof, log) = lie.prove(rule);
        let branch = log.drawn_behind(log.place(0, &children(&proof, 0)).end);
        let [_, d0, _, d1] = children(&proof, 0);
        // (1 - b)·x + b·y = 0 and d1·x + d0·y = -N.
        let low = -imbalance(&proof) * (d1 - d0 * (EF::ONE - branch) * branch.inverse()).inverse();
        let sent = &mut proof.lookups.layers[0].claims;
        sent.n0 += low;
        sent.n1 -= low * (EF::ONE - branch) * branch.inverse();
        proof
    });
}

/// A false numerator makes the first layer hold; the only round of the second brings it back.
#[test]
fn forger_chooses_rounds_of_the_look_ups_last() {
    let kind: Kind = |proof| {
        let layers = proof.lookups.layers.iter();
        layers.flat_map(|layer| layer.round_polys.iter().map(|values| values.to_vec())).collect()
    };
    check(&Lie::about_an_entry(), kind, |lie, rule| {
        let (proof, log) = lie.prove(rule);
        let [n0, _, _, d1] = children(&proof, 0);
        let gap = -imbalance(&proof) * d1.inverse();
        let at = log.place(0, &children(&proof, 0)).start;
        assert_eq!(log.place(at, &[n0]).start, at);
        let (mut proof, log) = lie.prove(&rule.clone().moving(at, gap));
        let branch = log.drawn_behind(log.place(0, &children(&proof, 0)).end);
        proof.lookups.layers[0].claims.n0 += gap;
        let values = proof.lookups.layers[1].round_polys[0];
        let challenge = log.drawn_behind(log.place(0, &values).end);
        let gap = (EF::ONE - branch) * gap;
        proof.lookups.layers[1].round_polys[0][0] += mended(3, challenge, gap);
        proof
    });
}

/// A false sum closes the last equation; the first round makes up for it.
#[test]
fn forger_chooses_rounds_of_the_first_sum_check_last() {
    let kind: Kind = |proof| proof.products.as_ref().expect("it has products").round_polys.clone();
    check(&Lie::about_an_accumulator(), kind, |lie, rule| {
        let (proof, log) = lie.prove(rule);
        let gap = lie.gap(rule, &proof);
        let sum = proof.products.as_ref().expect("it has products").claimed_sum;
        let at = log.place(0, &[sum]).start;
        let (mut proof, log) = lie.prove(&rule.clone().moving(at, gap));
        let products = proof.products.as_mut().expect("it has products");
        let challenge = log.drawn_behind(log.place(0, &products.round_polys[0]).end);
        products.claimed_sum += gap;
        let degree = products.round_polys[0].len();
        products.round_polys[0][0] += mended(degree, challenge, gap);
        proof
    });
}

#[test]
fn forger_chooses_rounds_of_the_second_sum_check_last() {
    let kind: Kind =
        |proof| proof.functionals.as_ref().expect("it has functionals").round_polys.clone();
    check(&Lie::about_an_accumulator(), kind, |lie, rule| {
        let (proof, log) = lie.prove(rule);
        let gap = lie.gap(rule, &proof);
        let sum = proof.functionals.as_ref().expect("it has functionals").claimed_sum;
        let at = log.place(0, &[sum]).start;
        let (mut proof, log) = lie.prove(&rule.clone().moving(at, gap));
        let functionals = proof.functionals.as_mut().expect("it has functionals");
        let challenge = log.drawn_behind(log.place(0, &functionals.round_polys[0]).end);
        functionals.claimed_sum += gap;
        functionals.round_polys[0][0] += mended(2, challenge, gap);
        proof
    });
}

/// Two factors are moved so that the products still add up, and the last equation does, too.
#[test]
fn forger_chooses_claims_last() {
    check(
        &Lie::about_an_accumulator(),
        |proof| vec![proof.claims.clone()],
        |lie, rule| {
            let (mut proof, _) = lie.prove(rule);
            let gap = lie.gap(rule, &proof);
            let plan = &lie.liar.setup().plan;
            let challenges = lie.learn(rule, &proof).challenges;
            let ends = |claims: &[EF]| -> EF {
                product_ends(plan, &challenges, claims).iter().map(|(_, end)| *end).sum()
            };
            let slope = |place: usize| {
                let mut claims = proof.claims.clone();
                claims[place] += EF::ONE;
                ends(&claims) - ends(&proof.claims)
            };
            // Factors of the first and of the last operation: both are linear.
            let (first, last) = (0, proof.claims.len() - 1);
            let rho = |place: usize| challenges.rho.exp_u64(place as u64 + 1);
            let ratio = -slope(first) * slope(last).inverse();
            let by = -gap * (rho(first) + rho(last) * ratio).inverse();
            proof.claims[first] += by;
            proof.claims[last] += by * ratio;
            proof
        },
    );
}

/// Two values of one opening are moved such that their batch is the same.
#[test]
fn forger_chooses_opened_values_last() {
    let kind: Kind =
        |proof| proof.opening.evals.iter().map(|batch| batch.current().to_vec()).collect();
    check(&Lie::about_an_accumulator(), kind, |lie, rule| {
        let (mut proof, log) = lie.prove(rule);
        let gap = lie.gap(rule, &proof);
        let plan = &lie.liar.setup().plan;
        let challenges = lie.learn(rule, &proof).challenges;
        let known = logup::known(plan, &challenges).expect("the plan is complete");
        let requests = plan.requests(&challenges);
        let tally = Tally::new(plan, &challenges, &requests, None);
        let is_free = |column: &ColumnId| {
            !matches!(plan.columns[column.0].role, Role::Multiplicity(_) | Role::Filler)
        };
        let opened = plan.opened[Tree::Run as usize].iter().position(|opened| {
            opened.at == At::Lookups && opened.columns.windows(2).any(|two| two.iter().all(is_free))
        });
        let opened = opened.expect("two limbs are opened together");
        let columns = &plan.opened[Tree::Run as usize][opened].columns;
        let place = columns.windows(2).position(|two| two.iter().all(is_free)).expect("there are");
        // What the last equation takes off for a value.
        let factor = |place: usize| {
            let key = (columns[place], At::Lookups);
            let of = |points: &Points| points.0.get(&key).copied();
            of(&tally.points).unwrap_or_default()
                + of(&known.denominator.points).unwrap_or_default()
        };
        let last = proof.opening.evals.last().expect("there are openings").current().to_vec();
        let batching = log.drawn_behind(log.place(0, &last).end);
        let by = gap * (factor(place + 1) - batching * factor(place)).inverse();
        let mut values = proof.opening.evals[opened].current().to_vec();
        values[place] -= batching * by;
        values[place + 1] += by;
        proof.opening.evals[opened] = p3_sumcheck::OpeningEvals::new(values, Vec::new());
        proof
    });
}

/// Multiplicities are no small numbers to a verifier: five of them make any sum of fractions 0 to
/// whoever knows α and β.
#[test]
fn forger_chooses_the_columns_last() {
    fn forge(lie: &Lie, rule: &Rule) -> Proof {
        let (proof, _) = lie.prove(rule);
        let mut witness = lie.shown.clone();
        witness.balance(&lie.liar.setup().plan, &lie.learn(rule, &proof).challenges);
        let prover = &lie.liar.proven.prover;
        under(rule, || prover.prove_witness(&lie.statement, &witness, &witness, false)).0
    }
    let lie = Lie::about_an_entry();
    let (honest, log) = lie.prove(&Rule::default());
    let mutant = Rule::deaf(log.place_of(0, &honest.root.roots()[0]));
    let forged = forge(&lie, &mutant);
    assert!(lie.is_accepted(&mutant, &forged));
    assert!(!lie.is_accepted(&Rule::default(), &forged));
    let forged = forge(&lie, &Rule::default());
    assert!(!lie.is_accepted(&Rule::default(), &forged));
}

/// Goal: a mutant is one because of what it does not absorb. Method: a verifier that absorbs all
/// draws the same challenges on both kinds of sponge, so honest proofs hold under an empty rule.
#[test]
fn rule_without_exceptions_changes_nothing() {
    let liar = Liar::new(Net::Convolution, Mode::Committed, 1);
    let (statement, witness) = (&liar.proven.statement, &liar.witness);
    let prove = || liar.proven.prover.prove_witness(statement, witness, witness, false);
    let (proof, said) = under(&Rule::default(), prove);
    assert_eq!(proof.to_bytes(), liar.proven.proof.to_bytes());
    let verify = || liar.proven.verifier.verify(statement, &proof.to_bytes()).is_ok();
    let (is_accepted, heard) = under(&Rule::default(), verify);
    assert!(is_accepted);
    assert_eq!(said.said, heard.said);
    assert_eq!(said.drawn, heard.drawn);
}
