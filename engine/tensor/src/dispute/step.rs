//! The end of a dispute: a few terms with everything they read, executed by a judge.
//!
//! An error means that whoever submitted has submitted nothing; a verdict is only about the
//! numbers. Either party can submit: the defender from its own witness, the challenger after it has
//! learned the defender's digests ([`crate::trace::Witness::learn`]).

use super::{Child, Claim, Node, STEP_TERMS_MAX, is_reachable};
use crate::commit::TILE;
use crate::element::Element;
use crate::program::Program;
use crate::trace::Witness;
use crate::trace::{AuditError, Handover, MissingOperand, OpenedTiles, Opening, Subject, Verdict};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, encode_list};

/// The most openings of a step: no term reads more than two elements.
pub const OPENINGS_MAX: usize = 2 * STEP_TERMS_MAX as usize;

/// A few terms of an element, the states around them and all tiles that they read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whose.
    pub operation: u32,
    /// Which element.
    pub element: u32,
    /// The first term.
    pub from: u32,
    /// Behind the last.
    pub to: u32,
    /// The claimed state before them.
    pub before: i64,
    /// The claimed state after them.
    pub after: i64,
    /// The tiles that they read.
    pub openings: Vec<Opening>,
}

impl Step {
    /// The claim that this step is about, as it stood in the defender's last answer.
    #[must_use]
    pub const fn claim(&self) -> Child {
        let Self { operation, element, from, to, before, after, .. } = *self;
        let node = Node::Terms { operation, element, from, to };
        Child { node, claim: Claim::States { before, after } }
    }
}

impl Encode for Step {
    fn encode(&self, out: &mut Vec<u8>) {
        self.operation.encode(out);
        self.element.encode(out);
        self.from.encode(out);
        self.to.encode(out);
        self.before.encode(out);
        self.after.encode(out);
        encode_list(&self.openings, out);
    }
}

impl Decode for Step {
    const BYTES_MIN: usize = 4 * 4 + 2 * 8 + 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut step = Self {
            operation: u32::decode(reader)?,
            element: u32::decode(reader)?,
            from: u32::decode(reader)?,
            to: u32::decode(reader)?,
            before: i64::decode(reader)?,
            after: i64::decode(reader)?,
            openings: Vec::new(),
        };
        for _ in 0..reader.length(0, OPENINGS_MAX)? {
            step.openings.push(Opening::decode(reader)?);
        }
        Ok(step)
    }
}

/// Why a step was not executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The program has no such element.
    #[error("operation {operation} has no element {element}")]
    Element {
        /// Which operation.
        operation: u32,
        /// Which element.
        element: u32,
    },
    /// The program has no such tile.
    #[error("operation {operation} has no tile {tile}")]
    Tile {
        /// Which operation.
        operation: u32,
        /// Which tile.
        tile: u32,
    },
    /// No terms, too many, or terms that do not exist.
    #[error(
        "terms {from} to {to} are no step, there are {terms} and a step has at most {}",
        STEP_TERMS_MAX
    )]
    Terms {
        /// The first.
        from: u32,
        /// Behind the last.
        to: u32,
        /// How many the element has.
        terms: u64,
    },
    /// A state that no fold can have.
    #[error("state {found} is outside what a fold can reach")]
    State {
        /// The state claimed.
        found: i64,
    },
    /// Too many openings.
    #[error("{found} openings, a step has at most {}", OPENINGS_MAX)]
    Openings {
        /// How many.
        found: usize,
    },
    /// The openings do not hold.
    #[error("openings are refused")]
    Audit(#[source] AuditError),
    /// A tile is needed that was not opened.
    #[error(transparent)]
    Missing(#[from] MissingOperand),
    /// What was handed over does not belong to the trace.
    #[error("salt is not that of the trace")]
    Handover,
}

/// A step about a claim of at most 32 terms, with openings from a witness; `None` if the claim is
/// of something else.
#[must_use]
pub fn make_step(witness: &Witness<'_>, claim: &Child) -> Option<Step> {
    let Node::Terms { operation, element, from, to } = claim.node else { return None };
    let Claim::States { before, after } = claim.claim else { return None };
    if to.saturating_sub(from) > STEP_TERMS_MAX {
        return None;
    }
    let elements = element as usize..element as usize + 1;
    let openings = witness.open_operands(operation as usize, elements, Some(&(from..to)))?;
    Some(Step { operation, element, from, to, before, after, openings })
}

/// Executes a step. The judge has compared [`Step::claim`] with the defender's last answer.
pub fn check_step(program: &Program, subject: &Subject, step: &Step) -> Result<Verdict, StepError> {
    Ok(Verdict::of(execute(program, subject, step)? == step.after))
}

/// Whether a step shows that the element itself is wrong, which the trace binds, and not only a
/// state that the defender has stated: it has all terms, and they lead to another element.
pub fn refutes_element(
    program: &Program,
    subject: &Subject,
    step: &Step,
) -> Result<bool, StepError> {
    let state = execute(program, subject, step)?;
    let Step { operation, element, from, to, before, after, .. } = *step;
    let missing = StepError::Element { operation, element };
    let fold = Element::new(program, operation as usize, element as usize).ok_or(missing)?;
    let is_whole = from == 0 && u64::from(to) == fold.terms() && before == fold.start();
    Ok(is_whole && fold.finish(state) != fold.finish(after))
}

/// The state to which the terms of a step lead.
fn execute(program: &Program, subject: &Subject, step: &Step) -> Result<i64, StepError> {
    let Step { operation, element, from, to, before, after, ref openings } = *step;
    let missing = StepError::Element { operation, element };
    let stated = program.operations().get(operation as usize).ok_or(missing.clone())?;
    let fold = Element::new(program, operation as usize, element as usize).ok_or(missing)?;
    let terms = fold.terms();
    if from >= to || u64::from(to) > terms || to - from > STEP_TERMS_MAX {
        return Err(StepError::Terms { from, to, terms });
    }
    for found in [before, after] {
        if !is_reachable(stated, found) {
            return Err(StepError::State { found });
        }
    }
    if openings.len() > OPENINGS_MAX {
        return Err(StepError::Openings { found: openings.len() });
    }
    let opened = OpenedTiles::verify(program, subject, openings).map_err(StepError::Audit)?;
    let mut reader = opened.reader();
    let mut state = before;
    for term in from..to {
        state = fold.absorb(state, term.into(), &mut |value, index| reader.read(value, index))?;
    }
    Ok(state)
}

/// The salt that a defender revealed for a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileSalt {
    /// Whose tile.
    pub operation: u32,
    /// Which.
    pub tile: u32,
    /// The salt.
    pub salt: [u8; 32],
}

/// Judges the salt of a tile by that of the trace, as the defender's first answer told it.
pub fn judge_salt(
    program: &Program,
    subject: &Subject,
    revealed: &TileSalt,
    handover: &Handover,
) -> Result<Verdict, StepError> {
    if !handover.explains(&subject.trace_root) {
        return Err(StepError::Handover);
    }
    let TileSalt { operation, tile, .. } = *revealed;
    let stated = program.operations().get(operation as usize);
    if stated.is_none_or(|stated| tile as usize >= stated.spec.elements().div_ceil(TILE)) {
        return Err(StepError::Tile { operation, tile });
    }
    let value = program.value_of(operation as usize);
    let expected = handover.salt().of_tile(value.number, revealed.tile);
    Ok(Verdict::of(revealed.salt == expected))
}
