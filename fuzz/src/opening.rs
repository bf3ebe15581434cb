//! Openings, steps and answers from the other party of an audit or a dispute.
//!
//! A few small programs are run once. Whatever is opened against their subjects must then be what
//! was really computed, and a verdict must be the one that the numbers give.

use std::sync::OnceLock;
use tg_tensor::commit::{Salt, TILE};
use tg_tensor::dispute::{
    Answer, Child, Claim, Node, Step, TileSalt, check_step, children, consistent, descend, differs,
    judge_salt, make_step,
};
use tg_tensor::element::Element;
use tg_tensor::program::{Program, ValueId};
use tg_tensor::sample;
use tg_tensor::trace::{
    Handover, OpenedTile, Opening, OutputOpening, Run, Subject, Trace, Verdict, Witness,
    judge_output, judge_tile, operand_tiles, recompute_tile,
};
use tg_tensor::{Model, Options, Runner, Tensor};
use tg_types::codec::{Decode, Encode};

/// How many programs there are; the first byte of an input picks one.
pub const SUBJECTS: usize = 16;

/// The kinds of bytes that are tried; the second byte of an input picks one.
pub const KINDS: usize = 6;

/// A program that was run.
struct Ran {
    model: Model,
    inputs: Vec<Tensor>,
    operations: Vec<Tensor>,
    trace: Trace,
    subject: Subject,
}

const INPUTS_SALT: Salt = Salt::new([7; 32]);

impl Ran {
    fn new(number: usize) -> Option<Self> {
        let mut noise = 0x9e37_79b9_u32.wrapping_mul(number as u32 + 1);
        let bytes: Vec<u8> = std::iter::repeat_with(|| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        })
        .take(4_096)
        .collect();
        let mut unstructured = arbtest::arbitrary::Unstructured::new(&bytes);
        let model = sample::model(&mut unstructured).ok()?;
        let inputs = sample::inputs(&mut unstructured, model.program()).ok()?;
        let runner = Runner::new(model.clone(), Options { threads: 1, path: None });
        let operations = runner.run_keeping(&inputs).ok()?;
        let salt = if number.is_multiple_of(2) { Salt::new([9; 32]) } else { Salt::NONE };
        let trace = Trace::of(model.program(), salt, &operations).ok()?;
        let run = Run { inputs: &inputs, inputs_salt: INPUTS_SALT, operations: &operations };
        let subject = Witness::new(&model, run, &trace).ok()?.subject();
        Some(Self { model, inputs, operations, trace, subject })
    }

    fn witness(&self) -> Witness<'_> {
        let Self { inputs, operations, .. } = self;
        let run = Run { inputs, inputs_salt: INPUTS_SALT, operations };
        Witness::new(&self.model, run, &self.trace).expect("it was made once before")
    }

    fn program(&self) -> &Program {
        self.model.program()
    }
}

/// The programs; made once.
fn subjects() -> &'static [Ran] {
    static RAN: OnceLock<Vec<Ran>> = OnceLock::new();
    RAN.get_or_init(|| (0..).filter_map(Ran::new).take(SUBJECTS).collect())
}

/// Decodes an opening, a step or an answer and checks what it shows.
pub fn check(bytes: &[u8]) {
    let [subject, kind, bytes @ ..] = bytes else { return };
    let Some(ran) = subjects().get(usize::from(*subject) % SUBJECTS) else { return };
    match usize::from(*kind) % KINDS {
        0 => opening(ran, bytes),
        1 => output_opening(ran, bytes),
        2 => step(ran, bytes),
        3 => answer(ran, bytes),
        4 => handover(ran, bytes),
        _ => audit(ran, bytes),
    }
}

/// Reads a value; the bytes it was read from are the only ones it has.
fn read<T: Decode + Encode>(bytes: &[u8]) -> Option<T> {
    let value = T::from_bytes(bytes).ok()?;
    assert_eq!(value.to_bytes(), bytes, "bytes become a value that gives the same bytes");
    Some(value)
}

/// What was opened is what was computed.
fn is_true(ran: &Ran, tile: &OpenedTile) {
    let witness = ran.witness();
    for (place, element) in tile.elements().iter().enumerate() {
        let found = witness.read(tile.value(), tile.tile() as usize * TILE + place);
        assert_eq!(found, Some(*element), "a forged opening is accepted");
    }
}

fn opening(ran: &Ran, bytes: &[u8]) {
    let Some(opening) = read::<Opening>(bytes) else { return };
    if let Ok(tile) = opening.verify(ran.program(), &ran.subject) {
        is_true(ran, &tile);
    }
}

fn output_opening(ran: &Ran, bytes: &[u8]) {
    let Some(opening) = read::<OutputOpening>(bytes) else { return };
    if let Ok(tile) = opening.verify(ran.program(), &ran.subject) {
        is_true(ran, &tile);
        let value = ran.witness().open(tile.value(), tile.tile());
        let verdict = value.map(|v| judge_output(ran.program(), &ran.subject, &opening, &v));
        if let Some(Ok(verdict)) = verdict {
            assert_eq!(verdict, Verdict::Upheld);
        }
    }
}

/// A step is judged by its numbers alone, whatever states it claims.
fn step(ran: &Ran, bytes: &[u8]) {
    let Some(step) = read::<Step>(bytes) else { return };
    let claim = step.claim();
    let judged = check_step(ran.program(), &ran.subject, &step);
    let honest = make_step(&ran.witness(), &claim);
    if let Some(honest) = honest {
        let with_openings = check_step(ran.program(), &ran.subject, &honest);
        if let (Ok(one), Ok(other)) = (&judged, &with_openings) {
            assert_eq!(one, other, "two steps of one claim are judged alike");
        }
    }
    let Ok(verdict) = judged else { return };
    let fold = Element::new(ran.program(), step.operation as usize, step.element as usize)
        .expect("the judge has found the element");
    let witness = ran.witness();
    let mut state = step.before;
    for term in step.from..step.to {
        let mut read = |value, index| witness.read(value, index).ok_or(());
        state = fold.absorb(state, term.into(), &mut read).expect("a program reads what exists");
    }
    assert_eq!(verdict == Verdict::Upheld, state == step.after, "the verdict is the numbers'");
}

/// A claim and an answer for it. An honest answer fits; one that fits an honest claim and differs
/// is different in a child to which the dispute can go down.
fn answer(ran: &Ran, bytes: &[u8]) {
    let Some((parent, answer)) = read::<(Child, Answer)>(bytes) else { return };
    let program = ran.program();
    let fits = consistent(program, &parent, &answer);
    let Ok(honest) = descend(&ran.witness(), &parent.node) else {
        assert!(fits.is_err(), "a node that does not exist has no answer");
        return;
    };
    assert_eq!(children(program, &parent.node).map(|nodes| nodes.len()), Ok(honest.children.len()));
    if fits.is_err() {
        return;
    }
    let root = Child::root(&ran.subject);
    if parent == root && consistent(program, &root, &honest).is_ok() {
        assert_eq!(differs(&honest, &answer), None, "another answer hashes to the same root");
    }
    for child in &answer.children {
        if let (Node::Terms { .. }, Claim::States { .. }) = (child.node, &child.claim) {
            let _step_or_not = make_step(&ran.witness(), child);
        }
    }
}

fn handover(ran: &Ran, bytes: &[u8]) {
    let Some(handover) = read::<Handover>(bytes) else { return };
    if handover.explains(&ran.subject.trace_root) {
        assert!(handover == ran.trace.handover(), "another salt explains the trace");
    }
    let salt = ran.trace.salt().of_tile(ran.program().value_of(0).number, 0);
    let revealed = TileSalt { operation: 0, tile: 0, salt };
    if let Ok(verdict) = judge_salt(ran.program(), &ran.subject, &revealed, &handover) {
        assert_eq!(verdict, Verdict::Upheld);
    }
}

/// An operation, a tile and one more opening: the tile is recomputed from honest openings and this
/// one, and judged.
fn audit(ran: &Ran, bytes: &[u8]) {
    let Some((operation, (tile, opening))) = read::<(u32, (u32, Opening))>(bytes) else { return };
    let (program, subject) = (ran.program(), &ran.subject);
    let Ok(tiles) = operand_tiles(program, operation as usize, tile) else { return };
    let witness = ran.witness();
    let mut openings: Vec<Opening> =
        tiles.iter().filter_map(|(value, tile)| witness.open(*value, *tile)).collect();
    let honest = recompute_tile(program, subject, (operation as usize, tile), &openings);
    openings.push(opening.clone());
    let found = recompute_tile(program, subject, (operation as usize, tile), &openings);
    if let (Ok(honest), Ok(found)) = (honest, found) {
        assert_eq!(honest, found, "one more opening changes nothing");
    }
    openings.pop();
    if let Ok(verdict) = judge_tile(program, subject, &opening, &openings) {
        assert_eq!(verdict, Verdict::Upheld, "what was computed is upheld");
    }
}

/// Honest bytes of every kind for every subject: where fuzzing starts.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, ran) in subjects().iter().enumerate() {
        let mut push = |kind: u8, bytes: Vec<u8>| {
            seeds.push([vec![number as u8, kind], bytes].concat());
        };
        let witness = ran.witness();
        let values = ran.program().specs().len() as u32;
        let picked = [0, values / 3, values - 2, values - 1];
        for number in picked {
            if let Some(opening) = witness.open(ValueId { number }, 0) {
                push(0, opening.to_bytes());
                push(5, (0_u32, (0_u32, opening)).to_bytes());
            }
        }
        if let Some(opening) = witness.open_output(0, 0) {
            push(1, opening.to_bytes());
        }
        push(4, ran.trace.handover().to_bytes());
        let mut claim = Child::root(&ran.subject);
        while let Ok(answer) = descend(&witness, &claim.node) {
            push(3, (claim.clone(), answer.clone()).to_bytes());
            let picked = answer.children[answer.children.len() - 1].clone();
            claim = picked;
        }
        if let Some(step) = make_step(&witness, &claim) {
            push(2, step.to_bytes());
        }
    }
    seeds
}
