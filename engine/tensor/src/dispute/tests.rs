//! Tests of disputes: the honest party wins, whatever the other does.

use super::play::{Outcome, Party, Style, play};
use super::{
    Answer, Child, Claim, Inconsistent, Node, Reveal, STATE_MAX, STEP_TERMS_MAX, Step, StepError,
    TileSalt, check_step, children, consistent, descend, handover_of, judge_salt, make_step,
};
use crate::commit::{Salt, TILE};
use crate::program::{Parts, Program};
use crate::trace::testing::{Lie, Ran, Random, inputs, perceptron};
use crate::trace::{Subject, Trace, Verdict};
use tg_types::codec::{Decode, Encode};
use tg_types::hash::sha256;
use tg_types::{Hash32, List};

fn lie(ran: &Ran, random: &mut Random) -> Lie {
    let operation = random.below(ran.operations.len());
    let element = random.below(ran.operations[operation].len());
    Lie { operation, element, by: random.below(1 << 20) as i64 }
}

/// Goal: a defender that lies about any element loses, at the operation it lied about first.
/// Method: random lies in all operations; the liar is as good as it can be from there on.
#[test]
fn prop_lying_defender_loses() {
    let honest = Ran::zoo(&mut Random(11));
    let mut random = Random(12);
    let mut steps = 0;
    for round in 0..60 {
        let mut lies = vec![lie(&honest, &mut random)];
        if round % 3 == 0 {
            lies.push(lie(&honest, &mut random));
        }
        if round < honest.operations.len() {
            lies = vec![Lie { operation: round, ..lies[0] }];
            lies[0].element %= honest.operations[round].len();
        }
        let liar = honest.lying(&lies);
        let first = lies.iter().map(|lie| lie.operation).min().unwrap();
        let mut challenger = honest.witness();
        let plain = play((&liar.witness(), Style::Straight), (&mut challenger, Style::Straight));
        assert_eq!(plain.winner, Party::Challenger, "{lies:?}");
        let style = Style::MakesUpStates(Random(random.next() | 1));
        let mut challenger = honest.witness();
        let clever = play((&liar.witness(), style), (&mut challenger, Style::Straight));
        assert_eq!(clever.winner, Party::Challenger, "{lies:?}");
        if let Some(step) = clever.step {
            assert_eq!(step.operation as usize, first);
            steps += 1;
        }
    }
    assert!(steps > 40, "a clever liar mostly comes as far as a step: {steps}");
}

/// Goal: the same for any program. Method: random models, a lie each, both roles.
#[test]
fn prop_honest_party_wins_for_random_models() {
    arbtest::arbtest(|u| {
        let model = crate::sample::model(u)?;
        let inputs = crate::sample::inputs(u, model.program())?;
        let honest = Ran::new(model, inputs, [[1; 32], [2; 32]]);
        let mut random = Random(u.arbitrary::<u64>()? | 1);
        let lie = lie(&honest, &mut random);
        let liar = honest.lying(&[lie]);
        if liar.operations[lie.operation] == honest.operations[lie.operation] {
            return Ok(());
        }
        for style in [Style::Straight, Style::MakesUpStates(random.clone())] {
            let mut challenger = honest.witness();
            let outcome = play((&liar.witness(), style), (&mut challenger, Style::Straight));
            assert_eq!(outcome.winner, Party::Challenger, "{lie:?}");
        }
        for _ in 0..3 {
            let wander = Style::Wanders(Random(random.next() | 1));
            let mut challenger = liar.witness();
            let outcome = play((&honest.witness(), Style::Straight), (&mut challenger, wander));
            assert_eq!(outcome.winner, Party::Defender);
        }
        Ok(())
    })
    .budget_ms(2_000);
}

/// Goal: nobody wins against an honest defender. Method: challengers that go anywhere, or that
/// believe in another run.
#[test]
fn prop_lying_challenger_loses() {
    let honest = Ran::zoo(&mut Random(21));
    let mut random = Random(22);
    let mut deepest = 0;
    for _ in 0..60 {
        let liar = honest.lying(&[lie(&honest, &mut random)]);
        let wander = Style::Wanders(Random(random.next() | 1));
        let mut challenger = liar.witness();
        let wandered = play((&honest.witness(), Style::Straight), (&mut challenger, wander));
        assert_eq!(wandered.winner, Party::Defender);
        deepest = deepest.max(wandered.rounds);
        assert!(wandered.step.is_some());
    }
    assert!(deepest <= 12, "{deepest}");
}

#[test]
fn challenger_that_believes_in_another_run_loses() {
    let honest = Ran::zoo(&mut Random(23));
    let mut random = Random(24);
    for _ in 0..20 {
        let liar = honest.lying(&[lie(&honest, &mut random)]);
        let witness = honest.witness();
        let mut claim = Child::root(&witness.subject());
        let believed = liar.witness();
        while let Ok(answer) = descend(&witness, &claim.node) {
            consistent(honest.program(), &claim, &answer).unwrap();
            let mine = descend(&believed, &claim.node).unwrap();
            let Some(super::Difference::Child(place)) = super::differs(&mine, &answer) else {
                return;
            };
            claim = answer.children[place].clone();
        }
        let step = make_step(&witness, &claim).unwrap();
        let verdict = check_step(honest.program(), &witness.subject(), &step);
        assert_eq!(verdict, Ok(Verdict::Upheld));
    }
}

/// A digest that commits to nothing, or to a salt of its own, is no way out either.
#[test]
fn defender_with_a_made_up_digest_or_salt_loses() {
    let honest = Ran::zoo(&mut Random(31));
    let program = honest.program();
    let operation = 6;
    let mut challenger = honest.witness();
    let trace = honest.trace.with_digest(program, operation, 3, Hash32::new([9; 32]));
    let liar = Ran { trace, ..honest.lying(&[]) };
    let outcome = play((&liar.witness(), Style::Straight), (&mut challenger, Style::Straight));
    assert_eq!((outcome.winner, outcome.step), (Party::Challenger, None));

    let own = [5; 32];
    let mut bytes = Vec::new();
    honest.operations[operation].append_bytes(3 * TILE..4 * TILE, &mut bytes);
    let digest = crate::commit::leaf(&own, &bytes);
    let trace = honest.trace.with_digest(program, operation, 3, digest);
    let liar = Ran { trace, ..honest.lying(&[]) };
    let mut challenger = honest.witness();
    let salted = play((&liar.witness(), Style::OwnSalt(own)), (&mut challenger, Style::Straight));
    assert_eq!((salted.winner, salted.step), (Party::Challenger, None));
}

/// Goal: keeping the salt from checkers saves no lie. Method: a challenger that has hashed its run
/// with a salt of its own hears the first answer, hashes again and goes on as usual.
#[test]
fn withheld_salt_is_told_by_the_first_answer() {
    let honest = Ran::zoo(&mut Random(33));
    let mut random = Random(34);
    let program = honest.program();
    for _ in 0..20 {
        let liar = honest.lying(&[lie(&honest, &mut random)]);
        let first = descend(&liar.witness(), &Node::Trace).unwrap();
        let handover = handover_of(program, &first).unwrap();
        assert_eq!(handover, liar.trace.handover());
        assert!(handover.explains(&liar.trace.root()));
        let trace = Trace::of(program, handover.salt(), &honest.operations).unwrap();
        let mine = Ran { trace, ..honest.lying(&[]) };
        let mut challenger = mine.witness();
        let outcome = play((&liar.witness(), Style::Straight), (&mut challenger, Style::Straight));
        assert_eq!(outcome.winner, Party::Challenger);

        let claim = Child::root(&liar.witness().subject());
        for secret in [None, Some([9; 32])] {
            let other = Answer { reveal: Reveal::Secret { secret }, ..first.clone() };
            let refused = consistent(program, &claim, &other);
            assert!(matches!(refused, Err(Inconsistent::Digest { .. })), "{refused:?}");
        }
    }
    let tile = descend(&honest.witness(), &Node::Tile { operation: 6, tile: 3 }).unwrap();
    assert_eq!(handover_of(program, &tile), None);
}

#[test]
fn salt_of_an_honest_tile_is_upheld() {
    let honest = Ran::zoo(&mut Random(31));
    let (program, witness) = (honest.program(), honest.witness());
    let (subject, handover) = (witness.subject(), honest.trace.handover());
    let salt = honest.trace.salt().of_tile(program.value_of(6).number, 3);
    let right = TileSalt { operation: 6, tile: 3, salt };
    assert_eq!(judge_salt(program, &subject, &right, &handover), Ok(Verdict::Upheld));
    let wrong = TileSalt { salt: [0; 32], ..right };
    assert_eq!(judge_salt(program, &subject, &wrong, &handover), Ok(Verdict::Refuted));
    for (operation, tile) in [(99, 0), (6, 8), (u32::MAX, u32::MAX)] {
        let refused = judge_salt(program, &subject, &TileSalt { operation, tile, salt }, &handover);
        assert_eq!(refused, Err(StepError::Tile { operation, tile }));
    }
    let other = Trace::of(program, Salt::new([77; 32]), &honest.operations).unwrap();
    let refused = judge_salt(program, &subject, &right, &other.handover());
    assert_eq!(refused, Err(StepError::Handover));
}

#[test]
fn defender_with_other_inputs_or_weights_has_no_valid_step() {
    let honest = Ran::zoo(&mut Random(41));
    let mut random = Random(42);
    let strange = Ran::new(
        honest.model.clone(),
        inputs(&honest.model, &mut random),
        [[1; 32], *honest.trace.salt().secret().unwrap()],
    );
    let witness = strange.witness();
    let subject =
        Subject { inputs_root: honest.witness().subject().inputs_root, ..witness.subject() };
    let first = Node::Elements { operation: 0, from: 5, to: 6 };
    let claim = descend(&witness, &first).unwrap().children[0].clone();
    let step = make_step(&witness, &claim).unwrap();
    let refused = check_step(strange.program(), &subject, &step);
    assert!(matches!(refused, Err(StepError::Audit(_))), "{refused:?}");
}

/// Goal: the answer that a witness gives fits at every node, and no changed answer does. Method:
/// random ways down, one random change each.
#[test]
fn prop_changed_answer_is_inconsistent() {
    let ran = Ran::zoo(&mut Random(51));
    let witness = ran.witness();
    let root = Child::root(&witness.subject());
    arbtest::arbtest(|u| {
        let mut claim = root.clone();
        for _ in 0..u.int_in_range(0..=9)? {
            let Ok(answer) = descend(&witness, &claim.node) else { break };
            claim = u.choose(&answer.children)?.clone();
        }
        let Ok(answer) = descend(&witness, &claim.node) else { return Ok(()) };
        assert_eq!(consistent(ran.program(), &claim, &answer), Ok(()));
        let changed = change(answer.clone(), u)?;
        if changed != answer {
            let refused = consistent(ran.program(), &claim, &changed);
            assert!(refused.is_err() || is_same_end(&answer, &changed), "{claim:?}");
        }
        let other = Child { node: root.node, claim: claim.claim.clone() };
        assert!(claim == other || consistent(ran.program(), &other, &answer).is_err());
        Ok(())
    });
}

/// States between the ends are free: a lie there is found one round later. So is a last state that
/// gives the same element.
fn is_same_end(one: &Answer, other: &Answer) -> bool {
    let states = |answer: &Answer| {
        answer.children.iter().all(|child| matches!(child.claim, Claim::States { .. }))
    };
    states(one) && states(other)
}

fn change(
    mut answer: Answer,
    u: &mut arbtest::arbitrary::Unstructured<'_>,
) -> arbtest::arbitrary::Result<Answer> {
    let place = u.choose_index(answer.children.len())?;
    let other = u.choose_index(answer.children.len())?;
    match u.int_in_range(0..=5)? {
        0 => drop(answer.children.remove(place)),
        1 => answer.children.swap(place, other),
        2 => answer.children.insert(place, answer.children[other].clone()),
        3 => answer.reveal = Reveal::Salt { salt: u.arbitrary()? },
        4 => answer.children[place].node = Node::Tile { operation: u.arbitrary()?, tile: 0 },
        _ => {
            let claim = &mut answer.children[place].claim;
            *claim = match claim.clone() {
                Claim::Digest { .. } => Claim::Digest { digest: Hash32::new(u.arbitrary()?) },
                Claim::Values { values } => {
                    let mut values = values.as_slice().to_vec();
                    let place = u.choose_index(values.len())?;
                    values[place] = u.arbitrary()?;
                    Claim::Values { values: List::new(values).unwrap() }
                }
                Claim::States { before, .. } => Claim::States { before, after: u.arbitrary()? },
            };
        }
    }
    Ok(answer)
}

/// Goal: a judge never panics. Method: random nodes, claims and answers, and random bytes.
#[test]
fn prop_nonsense_is_an_error() {
    let ran = Ran::zoo(&mut Random(61));
    let witness = ran.witness();
    let subject = witness.subject();
    arbtest::arbtest(|u| {
        let mut number = || u.arbitrary::<u32>().map(|n| if n % 3 == 0 { n } else { n % 70 });
        let (a, b, c, d) = (number()?, number()?, number()?, number()?);
        let node = match a % 7 {
            0 => Node::Trace,
            1 => Node::Operations { level: b as u8, index: c },
            2 => Node::Operation { operation: b },
            3 => Node::Tiles { operation: b, level: c as u8, index: d },
            4 => Node::Tile { operation: b, tile: c },
            5 => Node::Elements { operation: b, from: c, to: d },
            _ => Node::Terms { operation: b, element: c, from: d % 5, to: a },
        };
        let claim = match b % 3 {
            0 => Claim::Digest { digest: Hash32::new([1; 32]) },
            1 => Claim::Values { values: List::new(vec![7; 1 + c as usize % 64]).unwrap() },
            _ => Claim::States { before: u.arbitrary()?, after: u.arbitrary()? },
        };
        let parent = Child { node, claim: claim.clone() };
        if let Ok(answer) = descend(&witness, &node) {
            let _any = consistent(ran.program(), &parent, &answer);
            let changed = change(answer, u)?;
            let _any = consistent(ran.program(), &parent, &changed);
        }
        let nodes = children(ran.program(), &node).unwrap_or_else(|_| vec![node]);
        let children = nodes.iter().map(|node| Child { node: *node, claim: claim.clone() });
        let answer = Answer { reveal: Reveal::Nothing, children: children.collect() };
        let _any = consistent(ran.program(), &parent, &answer);
        let _any = make_step(&witness, &parent);
        let step = Step {
            operation: a,
            element: b,
            from: c,
            to: d,
            before: u.arbitrary()?,
            after: u.arbitrary()?,
            openings: Vec::new(),
        };
        let _any = check_step(ran.program(), &subject, &step);
        let bytes: Vec<u8> = u.arbitrary()?;
        if let Ok(answer) = Answer::from_bytes(&bytes) {
            assert_eq!(answer.to_bytes(), bytes);
        }
        if let Ok(step) = Step::from_bytes(&bytes) {
            assert_eq!(step.to_bytes(), bytes);
        }
        Ok(())
    });
}

/// Goal: no step but a whole one is judged, and none is judged wrongly. Method: steps everywhere
/// with one thing changed.
#[test]
fn prop_changed_step_is_refused_or_refuted() {
    let ran = Ran::zoo(&mut Random(71));
    let witness = ran.witness();
    let (subject, program) = (witness.subject(), ran.program());
    arbtest::arbtest(|u| {
        let operation = u.choose_index(ran.operations.len())?;
        let element = u.choose_index(ran.operations[operation].len())? as u32;
        let operation = operation as u32;
        let node = Node::Elements { operation, from: element, to: element + 1 };
        let mut claim = u.choose(&descend(&witness, &node).unwrap().children)?.clone();
        while let Ok(answer) = descend(&witness, &claim.node) {
            claim = u.choose(&answer.children)?.clone();
        }
        let right = make_step(&witness, &claim).unwrap();
        assert_eq!(check_step(program, &subject, &right), Ok(Verdict::Upheld));
        let mut step = right.clone();
        let place = if step.openings.is_empty() { 0 } else { u.choose_index(step.openings.len())? };
        match u.int_in_range(0..=5)? {
            0 => step.after = step.after.wrapping_add(1),
            1 if !step.openings.is_empty() => drop(step.openings.remove(place)),
            2 => step.to = step.from,
            3 => step.to = step.from + STEP_TERMS_MAX + 1,
            4 if !step.openings.is_empty() => {
                let proof = &mut step.openings[place].proof;
                proof.salt[0] ^= 1;
            }
            _ => step.before = if u.arbitrary()? { i64::MAX } else { STATE_MAX + 1 },
        }
        let judged = check_step(program, &subject, &step);
        // An arg-max that starts lower ends at the same candidate.
        let name = program.operations()[operation as usize].primitive.name();
        assert!(judged != Ok(Verdict::Upheld) || name == "ArgMax", "{name} {judged:?}");
        let bytes = right.to_bytes();
        let cut = u.choose_index(bytes.len())?;
        assert!(Step::from_bytes(&bytes[..cut]).is_err());
        Ok(())
    });
}

#[test]
fn program_with_another_shape_makes_the_root_inconsistent() {
    let ran = Ran::zoo(&mut Random(81));
    let witness = ran.witness();
    let root = Child::root(&witness.subject());
    let answer = descend(&witness, &Node::Trace).unwrap();
    let mut operations = ran.program().operations().to_vec();
    operations.pop();
    let parts = Parts {
        inputs: ran.program().inputs().to_vec(),
        constants: ran.program().constants().to_vec(),
        operations,
        outputs: Vec::new(),
    };
    let shorter = Program::new(parts).unwrap();
    assert!(consistent(&shorter, &root, &answer).is_err());
    let empty = Program::new(Parts::default()).unwrap();
    let refused = consistent(&empty, &root, &answer);
    assert_eq!(refused, Err(Inconsistent::NoSuchNode { node: Node::Trace }));
}

/// Goal: a dispute about 2^20 elements of 4,608 terms is short. Method: the clever liar.
#[test]
fn rounds_for_a_million_elements_are_few() {
    let mut random = Random(91);
    let model = perceptron(&mut random, 1 << 10, &[4_608, 1 << 10]);
    let inputs = inputs(&model, &mut random);
    let out = crate::trace::testing::bytes(1 << 20);
    let claimed = [random.tensor(&out)];
    let salt = Salt::new([4; 32]);
    let trace = Trace::of(model.program(), salt, &claimed).unwrap();
    let run = crate::trace::Run { inputs: &inputs, inputs_salt: salt, operations: &claimed };
    let witness = crate::trace::Witness::new(&model, run, &trace).unwrap();
    let mut other = claimed.clone();
    let crate::tensor::Tensor::I8(elements) = &mut other[0] else { panic!() };
    elements[777_777] ^= 1;
    let other_trace = Trace::of(model.program(), salt, &other).unwrap();
    let run = crate::trace::Run { inputs: &inputs, inputs_salt: salt, operations: &other };
    let mut other = crate::trace::Witness::new(&model, run, &other_trace).unwrap();
    let style = Style::MakesUpStates(Random(5));
    let Outcome { rounds, bytes, step, .. } =
        play((&witness, style), (&mut other, Style::Straight));
    let step = step.unwrap().to_bytes().len();
    eprintln!("rounds {rounds}, bytes {bytes}, of which step {step}");
    assert!(rounds <= 10, "{rounds}");
}

/// The bytes that contracts and other implementations have to reproduce.
#[test]
fn commitments_and_messages_of_a_fixed_run_are_golden() {
    let mut random = Random(1);
    let model = perceptron(&mut random, 3, &[40, 700]);
    let inputs = inputs(&model, &mut random);
    let ran = Ran::new(model, inputs, [[1; 32], [2; 32]]);
    let witness = ran.witness();
    let subject = witness.subject();
    let root = descend(&witness, &Node::Trace).unwrap();
    let tile = descend(&witness, &Node::Tile { operation: 0, tile: 2 }).unwrap();
    let element = Node::Elements { operation: 0, from: 2_099, to: 2_100 };
    let element = descend(&witness, &element).unwrap();
    let step = make_step(&witness, &element.children[0]).unwrap();
    let digest = |bytes: Vec<u8>| Hash32::new(sha256(&[&bytes]));
    let found = format!(
        "inputs {}\nweights {}\ntrace {}\noutputs {}\nroot {}\ntile {}\nelement {}\nstep {}\n",
        subject.inputs_root,
        subject.weights_root,
        subject.trace_root,
        subject.outputs_root,
        digest(root.to_bytes()),
        digest(tile.to_bytes()),
        digest(element.to_bytes()),
        digest(step.to_bytes()),
    );
    expect_test::expect![[r#"
        inputs 5e9f7e58a094cea742d28538759b5d3a529dd81d3532ed9322f64e01d6136324
        weights 537cb5d98893ea89d119c30a11759b4439cbe2e1d688e4c65dad874b5ed3b57e
        trace f30c8e7ea8602ce1ffa8fafccae5782f7fbf72905d381408533ad3645e36be88
        outputs 47dac61f9c339dfc1f6480f3e94bcb51cd9977308b1ce9721f616f847910ee29
        root 36cd59d0824519e21dec7b47ca1278533af456b25570228a894c84fef2ab1c7a
        tile 4fe84053cd97c223e4470a3aac6e5f89c11cebea379fa5b5cb2bf83829a2b4bb
        element c2bee89c1ce0c8178ea3bdbf2c91537d2f9813853647bff480930d1fc9b8d255
        step dcb1f7ceba89d32c51b798463560ef1a04c7158e840778ae3fddfd3aad8ff1f8
    "#]]
    .assert_eq(&found);
}
