//! Two parties and a judge, for the tests of disputes.

use super::{
    Answer, Child, Claim, Difference, Node, Reveal, Step, TileSalt, check_step, consistent,
    descend, differs, handover_of, judge_salt, make_step,
};
use crate::element::Element;
use crate::program::Primitive;
use crate::trace::testing::Random;
use crate::trace::{Verdict, Witness};
use tg_types::codec::{Decode, Encode};

/// Who wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    Defender,
    Challenger,
}

/// What a dispute came to.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) winner: Party,
    /// Answers that the defender gave.
    pub(super) rounds: usize,
    /// Bytes of all answers and the step.
    pub(super) bytes: usize,
    /// The step, if it came to one.
    pub(super) step: Option<Step>,
}

/// How a party plays.
#[derive(Clone, Debug)]
pub(super) enum Style {
    /// By its witness.
    Straight,
    /// A defender that makes up states which end where its claim says, wrong from somewhere on.
    MakesUpStates(Random),
    /// A defender that has hashed this tile with another salt, and reveals that one.
    OwnSalt([u8; 32]),
    /// A challenger that goes anywhere.
    Wanders(Random),
}

/// Plays a dispute about the defender's trace. Everything that travels is encoded and decoded.
pub(super) fn play(
    defender: (&Witness<'_>, Style),
    challenger: (&mut Witness<'_>, Style),
) -> Outcome {
    let (defender, mut defence) = defender;
    let (challenger, mut attack) = challenger;
    let (program, subject) = (defender.program(), defender.subject());
    let mut claim = Child::root(&subject);
    let (mut rounds, mut bytes, mut handover) = (0, 0, None);
    let outcome = |winner, rounds, bytes, step| Outcome { winner, rounds, bytes, step };
    loop {
        if let Node::Terms { from, to, .. } = claim.node
            && to - from <= super::STEP_TERMS_MAX
        {
            let verdict = |witness: &Witness<'_>| {
                let step = make_step(witness, &claim).unwrap();
                assert_eq!(step.claim(), claim);
                assert_eq!(Step::from_bytes(&step.to_bytes()).as_ref(), Ok(&step));
                (check_step(program, &subject, &step).unwrap(), step)
            };
            let (judged, step) = verdict(defender);
            if matches!(attack, Style::Straight) {
                assert_eq!(verdict(challenger).0, judged, "either party can submit");
            }
            let winner = match judged {
                Verdict::Upheld => Party::Defender,
                Verdict::Refuted => Party::Challenger,
            };
            return outcome(winner, rounds, bytes + step.to_bytes().len(), Some(step));
        }
        rounds += 1;
        let answer = answer(defender, &claim, &mut defence);
        let sent = answer.to_bytes();
        bytes += sent.len();
        assert_eq!(Answer::from_bytes(&sent).as_ref(), Ok(&answer));
        if consistent(program, &claim, &answer).is_err() {
            return outcome(Party::Challenger, rounds, bytes, None);
        }
        challenger.learn(&answer);
        handover = handover.or(handover_of(program, &answer));
        let place = match &mut attack {
            Style::Wanders(random) => random.below(answer.children.len()),
            Style::Straight | Style::MakesUpStates(_) | Style::OwnSalt(_) => {
                match differs(&descend(challenger, &claim.node).unwrap(), &answer) {
                    Some(Difference::Child(place)) => place,
                    None => return outcome(Party::Defender, rounds, bytes, None),
                    Some(Difference::Salt) => {
                        let Node::Tile { operation, tile } = claim.node else { panic!() };
                        let Reveal::Salt { salt } = answer.reveal else { panic!() };
                        let handover = handover.unwrap();
                        let salt = TileSalt { operation, tile, salt };
                        let verdict = judge_salt(program, &subject, &salt, &handover);
                        assert_eq!(verdict, Ok(Verdict::Refuted));
                        return outcome(Party::Challenger, rounds, bytes, None);
                    }
                }
            }
        };
        claim = answer.children[place].clone();
    }
}

fn answer(witness: &Witness<'_>, claim: &Child, style: &mut Style) -> Answer {
    let mut answer = descend(witness, &claim.node).unwrap();
    match style {
        Style::Straight | Style::Wanders(_) => {}
        Style::OwnSalt(own) => {
            if let Reveal::Salt { salt } = &mut answer.reveal {
                *salt = *own;
            }
        }
        Style::MakesUpStates(random) => make_up(witness, claim, &mut answer, random),
    }
    answer
}

/// Changes states so that they end where the claim says: right up to a random child, then wrong.
fn make_up(witness: &Witness<'_>, claim: &Child, answer: &mut Answer, random: &mut Random) {
    let (start, end) = match (&claim.claim, claim.node) {
        (Claim::Values { values }, Node::Elements { operation, from, to }) if to - from == 1 => {
            let fold = Element::new(witness.program(), operation as usize, from as usize).unwrap();
            let operations = witness.program().operations();
            let primitive = &operations[operation as usize].primitive;
            let honest = match answer.children.last().unwrap().claim {
                Claim::States { after, .. } => after,
                Claim::Digest { .. } | Claim::Values { .. } => panic!(),
            };
            let value = values.as_slice()[0];
            let end = if fold.finish(honest) == value {
                honest
            } else if matches!(primitive, Primitive::ArgMax { .. }) {
                i64::from(u32::MAX) - i64::from(value)
            } else {
                state_of(&fold, value)
            };
            (fold.start(), end)
        }
        (Claim::States { before, after }, _) => (*before, *after),
        (Claim::Values { .. } | Claim::Digest { .. }, _) => return,
    };
    let wrong = random.below(answer.children.len());
    let count = answer.children.len();
    let mut state = start;
    for (place, child) in answer.children.iter_mut().enumerate() {
        let Claim::States { before, after } = &mut child.claim else { panic!() };
        *before = state;
        state = match place {
            place if place + 1 == count => end,
            place if place >= wrong => *after / 2 + end / 2,
            _ => *after,
        };
        *after = state;
    }
}

/// The smallest state that gives at least a value; finishes never fall.
fn state_of(fold: &Element<'_>, value: i32) -> i64 {
    let (mut lo, mut hi) = (-super::STATE_MAX, super::STATE_MAX);
    while lo < hi {
        let middle = lo + (hi - lo) / 2;
        if fold.finish(middle) >= value { hi = middle } else { lo = middle + 1 }
    }
    lo
}
