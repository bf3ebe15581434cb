//! The ledger's court for tensor programs: what [`crate::dispute`] and [`crate::trace`] decide,
//! behind the bytes that transactions carry. It holds nothing and reads no clock, so every node of
//! a network gives the same verdict.

use crate::capacity;
use crate::commit::TILE;
use crate::dispute::{
    Answer, Child, Claim, Node, Reveal, Step, TileSalt, Verdict, check_step, consistent,
    handover_of, judge_salt, refutes_element,
};
use crate::program::Program;
use crate::tensor::Tensor;
use crate::trace::{
    Handover, Knower, Opening, OutputOpening, Subject, TilePlace, check_answer, check_whole,
    drawn_tiles, judge_output, outputs_root,
};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, encode_list};
use tg_types::{
    DisputePoint, FillClaim, KnownRun, ProgramFacts, RunClaim, StepJudge, StepVerdict, TileLot,
};

/// What can end a dispute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The terms in dispute, with all they read.
    Step(Step),
    /// The salt of the whole trace, against the one the provider revealed for a tile.
    Salt(Handover),
    /// A tile of the delivered output, against the same tile of the trace.
    Output(Box<(OutputOpening, Opening)>),
    /// All tiles of all outputs as the trace has them, against the delivered output.
    Traced(Vec<Opening>),
}

impl Encode for Evidence {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Step(step) => {
                out.push(1);
                step.encode(out);
            }
            Self::Salt(handover) => {
                out.push(2);
                handover.encode(out);
            }
            Self::Output(tiles) => {
                out.push(3);
                tiles.encode(out);
            }
            Self::Traced(tiles) => {
                out.push(4);
                encode_list(tiles, out);
            }
        }
    }
}

impl Decode for Evidence {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let at = reader.position();
        match reader.byte()? {
            1 => Step::decode(reader).map(Self::Step),
            2 => Handover::decode(reader).map(Self::Salt),
            3 => <(OutputOpening, Opening)>::decode(reader).map(Box::new).map(Self::Output),
            4 => reader.list(TILES_MAX).map(Self::Traced),
            found => Err(DecodeError::Tag { at, found: found.into(), expected: "Evidence" }),
        }
    }
}

/// Output tiles in one piece of evidence: more than fit into a transaction.
const TILES_MAX: usize = 64;

/// Holds the delivered output against all of its tiles in the trace; `None` if they are not all of
/// them, in order.
fn judge_traced(program: &Program, subject: &Subject, tiles: &[Opening]) -> Option<Verdict> {
    let mut given = tiles.iter();
    let mut outputs = Vec::new();
    for output in program.outputs() {
        let spec = program.spec(output.value)?;
        let mut numbers = Vec::new();
        for tile in 0..spec.elements().div_ceil(TILE) {
            let opened = given.next()?.verify(program, subject).ok()?;
            if (opened.value(), opened.tile() as usize) != (output.value, tile) {
                return None;
            }
            numbers.extend(opened.elements().iter().map(|number| i64::from(*number)));
        }
        outputs.push(Tensor::new(&spec, &numbers).ok()?);
    }
    let is_right = outputs_root(outputs.iter()) == subject.outputs_root;
    given.next().is_none().then_some(if is_right { Verdict::Upheld } else { Verdict::Refuted })
}

/// What the ledger calls a run, in the words of this crate.
#[must_use]
pub const fn subject_of(run: &RunClaim) -> Subject {
    Subject {
        program: run.program,
        weights_root: run.weights,
        inputs_root: run.inputs,
        trace_root: run.trace,
        outputs_root: run.output,
    }
}

/// The judge of tensor programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct TensorJudge;

/// Openings in one piece: more than fit into a transaction.
const OPENINGS_MAX: u8 = 16;

/// Openings of blocks of a filled memory as a transaction carries them, in the order in which the
/// blocks were drawn.
#[must_use]
pub fn encode_openings(openings: &[capacity::Opening]) -> Vec<u8> {
    let openings = openings.iter().take(OPENINGS_MAX.into());
    let mut bytes = vec![0];
    for opening in openings {
        opening.encode(&mut bytes);
        bytes[0] += 1;
    }
    bytes
}

/// Reads what [`encode_openings`] wrote; `None` if that is not all there is.
fn decode_openings(bytes: &[u8]) -> Option<Vec<capacity::Opening>> {
    let mut reader = Reader::new(bytes);
    let count = reader.byte().ok().filter(|count| *count <= OPENINGS_MAX)?;
    let openings: Option<Vec<_>> =
        (0..count).map(|_| capacity::Opening::decode(&mut reader).ok()).collect();
    openings.filter(|_| reader.remaining() == 0)
}

/// The tile that a claim is about, if it is about one or a part of it.
fn tile_of(node: &Node) -> Option<TilePlace> {
    let tile = |element: u32| u32::try_from(element as usize / TILE).ok();
    let (operation, tile) = match *node {
        Node::Tile { operation, tile } => (operation, tile),
        Node::Elements { operation, from, .. } => (operation, tile(from)?),
        Node::Terms { operation, element, .. } => (operation, tile(element)?),
        Node::Trace | Node::Operations { .. } | Node::Operation { .. } | Node::Tiles { .. } => {
            return None;
        }
    };
    Some(TilePlace { operation, tile })
}

impl StepJudge for TensorJudge {
    fn shows_tiles(&self, program: &[u8], run: &RunClaim, lot: &TileLot, shown: &[u8]) -> bool {
        let Ok(program) = Program::from_bytes(program) else { return false };
        let tiles = drawn_tiles(&program, lot);
        check_answer(&program, (&run.salt, &run.trace), &tiles, shown)
    }

    fn shows_whole(&self, program: &[u8], run: &RunClaim, by: &KnownRun, shown: &[u8]) -> bool {
        let Ok(program) = Program::from_bytes(program) else { return false };
        let by = Knower { node: &by.node, known: &by.known, lot: &by.lot };
        check_whole(&program, (&run.salt, &run.trace), &by, shown)
    }

    fn has_vouched(
        &self,
        program: &[u8],
        run: &RunClaim,
        at: &DisputePoint<'_>,
        lot: Option<&TileLot>,
    ) -> bool {
        let judged = || {
            let program = Program::from_bytes(program).ok()?;
            let claim = Child::from_bytes(at.claim).ok()?;
            let is_in_a_tile = || {
                let drawn = |lot| Some(drawn_tiles(&program, lot).contains(&tile_of(&claim.node)?));
                lot.map_or(Some(true), drawn)
            };
            match Evidence::from_bytes(at.evidence).ok()? {
                Evidence::Step(step) => {
                    let is_wrong = refutes_element(&program, &subject_of(run), &step).ok()?;
                    Some(is_wrong && is_in_a_tile()?)
                }
                Evidence::Salt(_) => is_in_a_tile(),
                Evidence::Output(_) | Evidence::Traced(_) => Some(true),
            }
        };
        judged() == Some(true)
    }

    fn is_bound(&self, claim: &[u8]) -> bool {
        // Digests and elements hash to what was claimed before, up to the root of the trace.
        Child::from_bytes(claim).is_ok_and(|child| match child.claim {
            Claim::Digest { .. } | Claim::Values { .. } => true,
            Claim::States { .. } => false,
        })
    }

    fn opened(&self, fill: &FillClaim, places: &[u32], openings: &[u8]) -> Option<usize> {
        let plan = capacity::Plan::new(fill.seed, fill.blocks).ok()?;
        let openings = decode_openings(openings)?;
        if openings.is_empty() || openings.len() > places.len() {
            return None;
        }
        let mut pairs = places.iter().zip(&openings);
        let is_right = |(place, opening): (&u32, &capacity::Opening)| {
            capacity::check(&plan, &fill.root, *place, opening).is_ok()
        };
        pairs.all(is_right).then_some(openings.len())
    }

    fn facts(&self, program: &[u8]) -> Option<ProgramFacts> {
        let program = Program::from_bytes(program).ok()?;
        let operations = program.operations();
        Some(ProgramFacts {
            id: program.id(),
            multiply_adds: program.multiply_adds(),
            operations: u32::try_from(operations.len()).ok()?,
            elements: operations.iter().map(|operation| u64::from(operation.spec.len)).sum(),
        })
    }

    fn first_claim(&self, run: &RunClaim) -> Vec<u8> {
        Child::root(&subject_of(run)).to_bytes()
    }

    fn is_consistent(&self, program: &[u8], run: &RunClaim, claim: &[u8], answer: &[u8]) -> bool {
        let judged = || {
            let program = Program::from_bytes(program).ok()?;
            let claim = Child::from_bytes(claim).ok()?;
            let answer = Answer::from_bytes(answer).ok()?;
            consistent(&program, &claim, &answer).ok()?;
            // A trace with another salt than the job's is nobody's to check, so it does not stand.
            let told = handover_of(&program, &answer);
            Some(told.is_none_or(|handover| handover.salt().mark() == run.salt))
        };
        judged() == Some(true)
    }

    fn child(&self, answer: &[u8], child: u8) -> Option<Vec<u8>> {
        let answer = Answer::from_bytes(answer).ok()?;
        answer.children.get(usize::from(child)).map(Encode::to_bytes)
    }

    fn judge(&self, program: &[u8], run: &RunClaim, at: &DisputePoint<'_>) -> Option<StepVerdict> {
        let program = Program::from_bytes(program).ok()?;
        let subject = subject_of(run);
        let claim = Child::from_bytes(at.claim).ok()?;
        let (verdict, is_the_claim) = match Evidence::from_bytes(at.evidence).ok()? {
            Evidence::Step(step) => {
                let is_about_it = step.claim() == claim;
                (is_about_it.then(|| check_step(&program, &subject, &step).ok())??, true)
            }
            Evidence::Salt(handover) => {
                let Node::Tile { operation, tile } = claim.node else { return None };
                let Reveal::Salt { salt } = Answer::from_bytes(at.answer?).ok()?.reveal else {
                    return None;
                };
                let revealed = TileSalt { operation, tile, salt };
                (judge_salt(&program, &subject, &revealed, &handover).ok()?, false)
            }
            Evidence::Output(tiles) => {
                (judge_output(&program, &subject, &tiles.0, &tiles.1).ok()?, false)
            }
            Evidence::Traced(tiles) => (judge_traced(&program, &subject, &tiles)?, false),
        };
        // A fault beside the claim in dispute ends it; that something beside it is right says
        // nothing about the claim, or every liar could point to what it did not lie about.
        match verdict {
            Verdict::Upheld => is_the_claim.then_some(StepVerdict::Upheld),
            Verdict::Refuted => Some(StepVerdict::Refuted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Evidence, TensorJudge, encode_openings, subject_of};
    use crate::capacity;
    use crate::commit::Salt;
    use crate::commit::TILE;
    use crate::dispute::{Child, Claim, Node, descend, make_step};
    use crate::element::Element;
    use crate::trace::testing::{Ran, Random, inputs, perceptron};
    use crate::trace::{Handover, Subject, answer_of, drawn_tiles};
    use tg_types::codec::{Decode, Encode};
    use tg_types::{DisputePoint, FillClaim, Hash32, RunClaim, StepJudge, StepVerdict, TileLot};

    const SALT: Salt = Salt::new([1; 32]);

    fn claim_of(subject: &Subject) -> RunClaim {
        RunClaim {
            program: subject.program,
            weights: subject.weights_root,
            inputs: subject.inputs_root,
            salt: SALT.mark(),
            trace: subject.trace_root,
            output: subject.outputs_root,
        }
    }

    fn ran() -> Ran {
        let mut random = Random(41);
        let model = perceptron(&mut random, 2, &[40, 30, 5]);
        let inputs = inputs(&model, &mut random);
        Ran::new(model, inputs, [[1; 32]; 2])
    }

    #[test]
    fn facts_are_of_programs_in_canonical_form_only() {
        let ran = ran();
        let bytes = ran.program().to_bytes();
        let facts = TensorJudge.facts(&bytes).expect("a program");
        assert_eq!((facts.id, facts.operations), (ran.program().id(), 2));
        assert_eq!((facts.multiply_adds, facts.elements), (2 * (40 * 30 + 30 * 5), 2 * 35));
        assert_eq!(TensorJudge.facts(&bytes[1..]), None);
        assert_eq!(TensorJudge.facts(&[bytes.as_slice(), &[0]].concat()), None);
        assert_eq!(TensorJudge.facts(&[]), None);
    }

    /// Goal: an honest provider is upheld whichever way a challenger goes. Method: the leftmost and
    /// the rightmost way down, through the bytes that the ledger carries.
    #[test]
    fn honest_run_is_upheld_by_bytes_alone() {
        let ran = ran();
        let (program, witness) = (ran.program().to_bytes(), ran.witness());
        let run = claim_of(&witness.subject());
        assert_eq!(subject_of(&run), witness.subject());
        for is_left in [true, false] {
            let mut claim = TensorJudge.first_claim(&run);
            let verdict = loop {
                let child = Child::from_bytes(&claim).expect("a claim");
                if let Some(step) = make_step(&witness, &child) {
                    let evidence = Evidence::Step(step).to_bytes();
                    assert_eq!(
                        Evidence::from_bytes(&evidence).map(|it| it.to_bytes()),
                        Ok(evidence.clone())
                    );
                    let at = DisputePoint { claim: &claim, answer: None, evidence: &evidence };
                    break TensorJudge.judge(&program, &run, &at);
                }
                let answer = descend(&witness, &child.node).expect("a node");
                let bytes = answer.to_bytes();
                assert!(TensorJudge.is_consistent(&program, &run, &claim, &bytes));
                assert!(!TensorJudge.is_consistent(&program, &run, &claim, &bytes[1..]));
                let is_trace = child.node == Node::Trace;
                let salted = RunClaim { salt: Salt::new([2; 32]).mark(), ..run };
                let is_consistent = TensorJudge.is_consistent(&program, &salted, &claim, &bytes);
                assert_eq!(is_consistent, !is_trace, "the trace has the job's salt");
                let last = u8::try_from(answer.children.len() - 1).expect("at most 16");
                assert_eq!(TensorJudge.child(&bytes, last + 1), None);
                claim = TensorJudge.child(&bytes, if is_left { 0 } else { last }).expect("there");
            };
            assert_eq!(verdict, Some(StepVerdict::Upheld));
        }
    }

    /// Goal: a provider that states a false sum in a dispute about a right run is refuted, and
    /// nobody else is to blame; whoever vouched for a wrong element is. Method: steps of an element
    /// of 30 terms (the whole fold, a part of it, and a sum that rounds to the same element) and
    /// of one of 40 terms.
    #[test]
    fn checkers_have_vouched_for_elements_and_not_for_sums_in_a_dispute() {
        let ran = ran();
        let (program, witness) = (ran.program().to_bytes(), ran.witness());
        let run = claim_of(&witness.subject());
        let check = |operation: u32,
                     terms: std::ops::Range<u32>,
                     is_other: bool,
                     expected: bool| {
            let fold = Element::new(ran.program(), operation as usize, 0).expect("an element");
            let sum = |to: u32| {
                let read = |value, index| witness.tensor(value).and_then(|it| it.get(index));
                (0..to).fold(fold.start(), |state, term| {
                    let read = &mut |value, index| read(value, index).ok_or(());
                    fold.absorb(state, term.into(), read).expect("all is known")
                })
            };
            let (before, right) = (sum(terms.start), sum(terms.end));
            let changes = [1_i64 << 24, -(1 << 24), 1, -1];
            let leads_there = |after: &i64| (fold.finish(*after) != fold.finish(right)) == is_other;
            let after = changes.map(|change| right + change).into_iter().find(leads_there);
            let after = after.expect("one of them");
            let node = Node::Terms { operation, element: 0, from: terms.start, to: terms.end };
            let claim = Child { node, claim: Claim::States { before, after } };
            let step = make_step(&witness, &claim).expect("a step");
            let (claim, evidence) = (claim.to_bytes(), Evidence::Step(step).to_bytes());
            let at = DisputePoint { claim: &claim, answer: None, evidence: &evidence };
            let verdict = TensorJudge.judge(&program, &run, &at);
            assert_eq!(verdict, Some(StepVerdict::Refuted), "{operation} {terms:?}");
            assert_eq!(TensorJudge.has_vouched(&program, &run, &at, None), expected, "{terms:?}");
        };
        let terms = Element::new(ran.program(), 1, 0).expect("an element").terms();
        let all = u32::try_from(terms).expect("few");
        assert!(all <= 32, "one step has them all");
        check(1, 0..all, true, true);
        check(1, 0..all, false, false);
        check(1, 0..all - 1, true, false);
        check(0, 0..32, true, false);
    }

    #[test]
    fn evidence_about_something_else_decides_nothing() {
        let ran = ran();
        let (program, witness) = (ran.program().to_bytes(), ran.witness());
        let run = claim_of(&witness.subject());
        let claim = TensorJudge.first_claim(&run);
        let handover = Handover { secret: None, operations_root: Hash32::new([0; 32]) };
        let evidence = Evidence::Salt(handover).to_bytes();
        for evidence in [evidence.as_slice(), &[], &[9], &[1, 0]] {
            let at = DisputePoint { claim: &claim, answer: None, evidence };
            assert_eq!(TensorJudge.judge(&program, &run, &at), None);
        }
    }

    /// Goal: the ledger's two questions about tiles are answered by bytes alone. Method: a step of
    /// a tile that the first lot has and the second has not, and an output beside the trace.
    #[test]
    fn tiles_are_judged_by_the_lot_that_drew_them() {
        let mut random = Random(43);
        let model = perceptron(&mut random, 60, &[40, 50, 200]);
        let inputs = inputs(&model, &mut random);
        let ran = Ran::new(model, inputs, [[1; 32]; 2]);
        let (program, witness) = (ran.program().to_bytes(), ran.witness());
        let run = claim_of(&witness.subject());
        let lots = [1, 2].map(|byte| TileLot { lot: Hash32::new([byte; 32]), tiles: 2 });
        let drawn = lots.map(|lot| drawn_tiles(ran.program(), &lot));
        let answers = [0, 1]
            .map(|place| answer_of(ran.program(), witness.trace(), &drawn[place]).expect("tiles"));
        for place in [0, 1] {
            let shows =
                |answer: &[u8]| TensorJudge.shows_tiles(&program, &run, &lots[place], answer);
            assert!(shows(&answers[place]) && !shows(&answers[1 - place]));
            assert!(!TensorJudge.shows_tiles(&program[1..], &run, &lots[place], &answers[place]));
            let other = RunClaim { trace: Hash32::new([9; 32]), ..run };
            assert!(!TensorJudge.shows_tiles(&program, &other, &lots[place], &answers[place]));
        }
        let mine = *drawn[0].difference(&drawn[1]).next().expect("lots differ");
        let element = mine.tile * TILE as u32 + 5;
        let (operation, from, to) = (mine.operation, 0, 32);
        let node = Node::Terms { operation, element, from, to };
        let claim = Claim::Digest { digest: Hash32::new([0; 32]) };
        let claim = Child { node, claim }.to_bytes();
        let handover = Handover { secret: None, operations_root: Hash32::new([0; 32]) };
        let salt = Evidence::Salt(handover).to_bytes();
        let traced = Evidence::Traced(vec![]).to_bytes();
        let vouched = |place: usize, evidence: &[u8]| {
            let at = DisputePoint { claim: &claim, answer: None, evidence };
            TensorJudge.has_vouched(&program, &run, &at, Some(&lots[place]))
        };
        assert!(vouched(0, &salt) && !vouched(1, &salt));
        assert!(vouched(0, &traced) && vouched(1, &traced), "all compare the output");
        assert!(!vouched(0, &[]) && !vouched(0, &[9]));
    }

    /// Goal: openings count as far as they go, in order, and none counts if one is wrong.
    #[test]
    fn openings_are_counted_if_all_are_right() {
        let (seed, blocks) = (Hash32::new([1; 32]), capacity::BLOCKS_MIN);
        let filled = capacity::fill(seed, blocks, 1).expect("a little memory");
        let claim = FillClaim { seed, blocks, root: filled.root() };
        let places = [700, 3, 1_023, 0];
        let open = |places: &[u32]| {
            let open = |place: &u32| filled.open(*place).expect("a block");
            encode_openings(&places.iter().map(open).collect::<Vec<_>>())
        };
        let opened = |claim: &FillClaim, bytes: &[u8]| TensorJudge.opened(claim, &places, bytes);
        for count in 1..=4 {
            assert_eq!(opened(&claim, &open(&places[..count])), Some(count));
        }
        assert!(open(&places[..3]).len() <= 14 * 1024, "three fit into a transaction");
        let long = open(&[700, 3, 1_023, 0, 5]);
        for wrong in [&open(&[])[..], &open(&[3]), &open(&[700, 4]), &long, &[], &[1], &[0xff; 9]] {
            assert_eq!(opened(&claim, wrong), None);
        }
        let good = open(&places[..2]);
        assert_eq!(opened(&claim, &good[..good.len() - 1]), None);
        assert_eq!(opened(&claim, &[&good[..], &[0]].concat()), None);
        for other in [
            FillClaim { root: seed, ..claim },
            FillClaim { blocks: 2 * blocks, ..claim },
            FillClaim { blocks: 0, ..claim },
        ] {
            assert_eq!(opened(&other, &good), None);
        }
    }

    /// Goal: a delivered output that is not what the trace says is refuted. Method: the right
    /// openings for a run that claims another output.
    #[test]
    fn output_beside_the_trace_is_judged() {
        let ran = ran();
        let (program, witness) = (ran.program().to_bytes(), ran.witness());
        let run = claim_of(&witness.subject());
        let claim = TensorJudge.first_claim(&run);
        let output = ran.program().outputs()[0].value;
        let claimed = witness.open_output(0, 0).expect("a tile");
        let traced = witness.open(output, 0).expect("a tile");
        let evidence = Evidence::Output(Box::new((claimed, traced))).to_bytes();
        let at = DisputePoint { claim: &claim, answer: None, evidence: &evidence };
        assert_eq!(TensorJudge.judge(&program, &run, &at), None, "a liar could show it too");
        let other = RunClaim { output: Hash32::new([7; 32]), ..run };
        assert_eq!(TensorJudge.judge(&program, &other, &at), None);
        // Whoever does not know the false output shows what the trace says instead.
        let traced = witness.open(output, 0).expect("a tile");
        let judged = |tiles: Vec<_>, run: &RunClaim| {
            let evidence = Evidence::Traced(tiles).to_bytes();
            let at = DisputePoint { claim: &claim, answer: None, evidence: &evidence };
            TensorJudge.judge(&program, run, &at)
        };
        assert_eq!(judged(vec![traced.clone()], &run), None);
        assert_eq!(judged(vec![traced.clone()], &other), Some(StepVerdict::Refuted));
        assert_eq!(judged(vec![], &other), None);
        assert_eq!(judged(vec![traced.clone(), traced], &other), None);
    }
}
