//! A dispute: from a root that two parties do not agree on, sixteen ways at a time, down to at most
//! 32 terms that a judge executes.
//!
//! The defender published a trace root. Each round it answers for one [`Node`] with the claims of
//! all children ([`descend`]); a judge checks that the answer fits what was claimed before
//! ([`consistent`]); the challenger picks the first child that differs from its own ([`differs`]).
//! The first: then everything to the left is agreed upon, so the operands of the disputed operation
//! are. At the end there is a [`Step`], whose openings speak for themselves.
//!
//! The first answer, for the trace, tells the secret of its salt: a challenger that was not handed
//! it hashes its own run again ([`handover_of`]) and knows every digest as it ought to be.
//!
//! Whoever is honest wins. A lying defender either gives an answer that does not fit, or ends at a
//! step that is refuted. An honest defender's answers fit at every node of the tree, and each of
//! its steps is upheld, whichever way the challenger goes. A tile whose numbers are right, hashed
//! with another salt than the trace's, is refuted by [`judge_salt`].
//!
//! Nothing here is stored while a program runs: all claims below tiles are derived on the spot.

mod descend;
#[cfg(test)]
mod play;
mod step;
#[cfg(test)]
mod tests;

pub use crate::trace::Verdict;
pub use descend::descend;
pub use step::{
    OPENINGS_MAX, Step, StepError, TileSalt, check_step, judge_salt, make_step, refutes_element,
};

use crate::commit::{
    Book, CHILDREN, TILE, TILE_BYTES_MAX, Tree, book_root, leaf, node, trace_root, value_root,
};
use crate::element::Element;
use crate::program::{Operation, Primitive, Program, Spec, Width};
use crate::trace::{Handover, Subject};
use tg_types::codec::{Decode, DecodeError, Encode, Reader, encode_list};
use tg_types::{Hash32, List, wire};

/// The most terms of a step: few enough to execute in a contract, many enough that a sum of 4,608
/// terms needs two rounds. A step may have fewer, down to one.
pub const STEP_TERMS_MAX: u32 = 32;

/// Elements of a child of a tile.
pub const GROUP: u32 = 64;

/// Elements of a child of a group.
const SUBGROUP: u32 = 4;

/// Every state of a fold stays below this in magnitude, so no claimed state can make arithmetic
/// overflow. Arg-max packs two numbers into a state and only compares: there any state is fine.
pub const STATE_MAX: i64 = 1 << 31;

wire! {
    /// A place in the tree of all that can be disputed about a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Node {
        /// The trace.
        Trace = 1,
        /// A node over operations.
        Operations {
            /// At least 1.
            level: u8,
            /// The place on that level.
            index: u32,
        } = 2,
        /// The output of an operation.
        Operation {
            /// Which.
            operation: u32,
        } = 3,
        /// A node over an output's tiles.
        Tiles {
            /// Whose.
            operation: u32,
            /// At least 1.
            level: u8,
            /// The place on that level.
            index: u32,
        } = 4,
        /// A tile.
        Tile {
            /// Whose.
            operation: u32,
            /// Which.
            tile: u32,
        } = 5,
        /// Some elements of a tile: 64, 4 or 1, fewer at the end.
        Elements {
            /// Whose.
            operation: u32,
            /// The first.
            from: u32,
            /// Behind the last.
            to: u32,
        } = 6,
        /// Some terms of an element.
        Terms {
            /// Whose.
            operation: u32,
            /// Which element.
            element: u32,
            /// The first.
            from: u32,
            /// Behind the last.
            to: u32,
        } = 7,
    }
}

wire! {
    /// What is claimed of a node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Claim {
        /// Of anything down to a tile: its digest.
        Digest {
            /// The digest.
            digest: Hash32,
        } = 1,
        /// Of elements: themselves.
        Values {
            /// The elements.
            values: List<i32, 1, { GROUP as usize }>,
        } = 2,
        /// Of terms: the states of the fold around them.
        States {
            /// Before the first.
            before: i64,
            /// After the last.
            after: i64,
        } = 3,
    }
}

wire! {
    /// A node and what is claimed of it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Child {
        /// The node.
        pub node: Node,
        /// The claim.
        pub claim: Claim,
    }
}

impl Child {
    /// Where a dispute starts.
    #[must_use]
    pub const fn root(subject: &Subject) -> Self {
        Self { node: Node::Trace, claim: Claim::Digest { digest: subject.trace_root } }
    }
}

wire! {
    /// What an answer says besides its children.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reveal {
        /// Nothing.
        Nothing = 1,
        /// For the trace: the secret of its salt. Whoever objects can then compute every digest,
        /// so that a provider gains nothing by keeping the salt from checkers.
        Secret {
            /// The secret; absent if the trace has none.
            secret: Option<[u8; 32]>,
        } = 2,
        /// For a tile: its salt.
        Salt {
            /// The salt.
            salt: [u8; 32],
        } = 3,
    }
}

/// A defender's answer for a node: the claims of all its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the children's claims need besides, to fit their parent's.
    pub reveal: Reveal,
    /// 1 to 16 children, from left to right.
    pub children: Vec<Child>,
}

impl Encode for Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        self.reveal.encode(out);
        encode_list(&self.children, out);
    }
}

impl Decode for Answer {
    const BYTES_MIN: usize = Reveal::BYTES_MIN + 1 + Child::BYTES_MIN;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let reveal = Reveal::decode(reader)?;
        let count = reader.length(1, CHILDREN)?;
        let mut children = Vec::new();
        for _ in 0..count {
            children.push(Child::decode(reader)?);
        }
        Ok(Self { reveal, children })
    }
}

/// Why an answer does not fit what was claimed before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistent {
    /// The program has no such node.
    #[error("{node:?} does not exist in the program")]
    NoSuchNode {
        /// Which.
        node: Node,
    },
    /// A node that is executed instead of divided.
    #[error("{node:?} is a step and has no children")]
    IsStep {
        /// Which.
        node: Node,
    },
    /// Not the children that the program gives the node.
    #[error("child {place} is {found:?}, expected {expected:?}")]
    Child {
        /// Which child.
        place: usize,
        /// The one given; absent if there are too few.
        found: Option<Node>,
        /// The program's; absent if there are too many.
        expected: Option<Node>,
    },
    /// A claim of another kind than the node has, or with too few or too many numbers.
    #[error("claim of {node:?} is not of the kind or length it ought to be")]
    Claim {
        /// Of which node.
        node: Node,
    },
    /// A revealed secret or salt that is missing, or not asked for.
    #[error("answer for {node:?} reveals what it should not, or not what it should")]
    Reveal {
        /// For which node.
        node: Node,
    },
    /// The children hash to something else.
    #[error("children hash to {found}, claimed was {claimed}")]
    Digest {
        /// What they hash to.
        found: Hash32,
        /// What the parent claimed.
        claimed: Hash32,
    },
    /// An element outside the range of its value.
    #[error("element {element} is {found}, which its value does not allow")]
    Range {
        /// Which.
        element: u32,
        /// The number claimed.
        found: i32,
    },
    /// The children's elements are not those of their parent.
    #[error("elements differ from those claimed before")]
    Values,
    /// A state that no fold can have.
    #[error("state {found} is outside what a fold can reach")]
    State {
        /// The state claimed.
        found: i64,
    },
    /// States that do not start where the parent starts, or do not follow each other.
    #[error("child {place} starts at state {found}, expected {expected}")]
    Chain {
        /// Which child.
        place: usize,
        /// The state claimed.
        found: i64,
        /// The state before it.
        expected: i64,
    },
    /// The last state does not give what the parent claimed.
    #[error("last state gives {found}, claimed was {claimed}")]
    End {
        /// What it gives.
        found: i64,
        /// What the parent claimed.
        claimed: i64,
    },
}

/// The children of a node, from left to right. They follow from the program alone.
pub fn children(program: &Program, parent: &Node) -> Result<Vec<Node>, Inconsistent> {
    divide(program, parent)
        .ok_or(Inconsistent::NoSuchNode { node: *parent })?
        .ok_or(Inconsistent::IsStep { node: *parent })
}

/// `None`: there is no such node. `Some(None)`: it is a step.
fn divide(program: &Program, parent: &Node) -> Option<Option<Vec<Node>>> {
    let over_operations = |level: u8, index: usize| match level {
        0 => Node::Operation { operation: index as u32 },
        level => Node::Operations { level, index: index as u32 },
    };
    let over_tiles = |operation: u32| {
        move |level: u8, index: usize| match level {
            0 => Node::Tile { operation, tile: index as u32 },
            level => Node::Tiles { operation, level, index: index as u32 },
        }
    };
    let operations = program.operations();
    let nodes = match *parent {
        Node::Trace if operations.is_empty() => return None,
        Node::Trace => below_top(Tree::over(operations.len()), over_operations),
        Node::Operations { level, index } => {
            let places = Tree::over(operations.len()).children(level, index as usize)?;
            places.map(|place| over_operations(level - 1, place)).collect()
        }
        Node::Operation { operation } => {
            let spec = operations.get(operation as usize)?.spec;
            below_top(Tree::over_tiles(spec.elements()), over_tiles(operation))
        }
        Node::Tiles { operation, level, index } => {
            let spec = operations.get(operation as usize)?.spec;
            let places = Tree::over_tiles(spec.elements()).children(level, index as usize)?;
            places.map(|place| over_tiles(operation)(level - 1, place)).collect()
        }
        Node::Tile { operation, tile } => {
            let len = operations.get(operation as usize)?.spec.len;
            let from = tile.checked_mul(TILE as u32).filter(|from| *from < len)?;
            elements(operation, from, len.min(from + TILE as u32), GROUP)
        }
        Node::Elements { operation, from, to } => {
            let len = operations.get(operation as usize)?.spec.len;
            let count = to.checked_sub(from).filter(|count| (1..=GROUP).contains(count))?;
            if to > len || from / TILE as u32 != (to - 1) / TILE as u32 {
                return None;
            }
            if count == 1 {
                let fold = Element::new(program, operation as usize, from as usize)?;
                let terms = u32::try_from(fold.terms()).ok()?;
                parts(0, terms, STEP_TERMS_MAX)
                    .map(|(at, to)| term(operation, from, at, to))
                    .collect()
            } else {
                let each = if count > SUBGROUP { SUBGROUP } else { 1 };
                elements(operation, from, to, each)
            }
        }
        Node::Terms { operation, element, from, to } => {
            let fold = Element::new(program, operation as usize, element as usize)?;
            if from >= to || u64::from(to) > fold.terms() {
                return None;
            }
            if to - from == 1 {
                return Some(None);
            }
            // What could be a step is divided further: terms that lie far apart read too many
            // tiles for one.
            let unit = if to - from <= STEP_TERMS_MAX { 1 } else { STEP_TERMS_MAX };
            parts(from, to, unit).map(|(from, to)| term(operation, element, from, to)).collect()
        }
    };
    Some(Some(nodes))
}

/// The nodes under a tree's top, or the only leaf.
fn below_top(tree: Tree, name: impl Fn(u8, usize) -> Node) -> Vec<Node> {
    let top = tree.top();
    match tree.children(top, 0) {
        Some(places) => places.map(|place| name(top - 1, place)).collect(),
        None => vec![name(0, 0)],
    }
}

fn elements(operation: u32, from: u32, to: u32, each: u32) -> Vec<Node> {
    let starts = (from..to).step_by(each as usize);
    starts.map(|from| Node::Elements { operation, from, to: to.min(from + each) }).collect()
}

const fn term(operation: u32, element: u32, from: u32, to: u32) -> Node {
    Node::Terms { operation, element, from, to }
}

/// At most sixteen parts of equal length, a multiple of `unit`; the last may be shorter.
fn parts(from: u32, to: u32, unit: u32) -> impl Iterator<Item = (u32, u32)> {
    let each = (to - from).div_ceil(CHILDREN as u32).next_multiple_of(unit);
    (from..to).step_by(each as usize).map(move |from| (from, to.min(from + each)))
}

/// Whether an answer fits what was claimed of its node. This is all that a judge checks before the
/// last step; it needs the program and no data.
pub fn consistent(program: &Program, parent: &Child, answer: &Answer) -> Result<(), Inconsistent> {
    let expected = children(program, &parent.node)?;
    for place in 0..expected.len().max(answer.children.len()) {
        let found = answer.children.get(place).map(|child| child.node);
        let expected = expected.get(place).copied();
        if found != expected {
            return Err(Inconsistent::Child { place, found, expected });
        }
    }
    let missing = Inconsistent::NoSuchNode { node: parent.node };
    let operation = |index: u32| program.operations().get(index as usize).ok_or(missing.clone());
    match parent.node {
        Node::Trace => {
            let Some(handover) = handover_of(program, answer) else {
                return Err(Inconsistent::Reveal { node: parent.node });
            };
            same_digest(parent, trace_root(&handover.salt().mark(), &handover.operations_root))
        }
        Node::Operation { operation: index } => {
            reveals_nothing(parent, answer)?;
            let spec = operation(index)?.spec;
            same_digest(parent, value_root(spec.len, spec.width(), &top_of(&digests(answer)?)))
        }
        Node::Operations { .. } | Node::Tiles { .. } => {
            reveals_nothing(parent, answer)?;
            same_digest(parent, node(&digests(answer)?))
        }
        Node::Tile { operation: index, tile } => {
            let Reveal::Salt { salt } = answer.reveal else {
                return Err(Inconsistent::Reveal { node: parent.node });
            };
            let bytes = tile_bytes(&operation(index)?.spec, tile, &values(answer)?)?;
            same_digest(parent, leaf(&salt, &bytes))
        }
        Node::Elements { from, to, .. } if to - from > 1 => {
            reveals_nothing(parent, answer)?;
            let is_same = values(answer)? == claimed_values(parent)?;
            if is_same { Ok(()) } else { Err(Inconsistent::Values) }
        }
        Node::Elements { operation: index, from, .. } => {
            reveals_nothing(parent, answer)?;
            let fold = Element::new(program, index as usize, from as usize);
            let fold = fold.ok_or(missing.clone())?;
            let [value] = claimed_values(parent)? else {
                return Err(Inconsistent::Claim { node: parent.node });
            };
            let last = last_state(operation(index)?, fold.start(), answer)?;
            same_end(fold.finish(last).into(), (*value).into())
        }
        Node::Terms { operation: index, .. } => {
            reveals_nothing(parent, answer)?;
            let Claim::States { before, after } = parent.claim else {
                return Err(Inconsistent::Claim { node: parent.node });
            };
            same_end(last_state(operation(index)?, before, answer)?, after)
        }
    }
}

/// What an answer for the trace gives away: all that a checker ought to have been handed. `None` if
/// it is an answer for something else.
#[must_use]
pub fn handover_of(program: &Program, answer: &Answer) -> Option<Handover> {
    let Reveal::Secret { secret } = answer.reveal else { return None };
    let (top, count) = (top_of(&digests(answer).ok()?), program.operations().len() as u32);
    Some(Handover { secret, operations_root: book_root(Book::Operations, count, &top) })
}

/// What the challenger of an answer does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Go down to this child, the first that differs.
    Child(usize),
    /// All elements agree, the tile's salt does not: show the trace's ([`judge_salt`]).
    Salt,
}

/// Where an answer differs from one's own; `None` if nowhere.
#[must_use]
pub fn differs(mine: &Answer, theirs: &Answer) -> Option<Difference> {
    let end = |claim: &Claim| match claim {
        Claim::States { after, .. } => Some(*after),
        Claim::Digest { .. } | Claim::Values { .. } => None,
    };
    let pairs = mine.children.iter().zip(&theirs.children);
    let is_different = |mine: &Claim, theirs: &Claim| match (end(mine), end(theirs)) {
        (Some(mine), Some(theirs)) => mine != theirs,
        (None, _) | (_, None) => mine != theirs,
    };
    for (place, (mine, theirs)) in pairs.enumerate() {
        if is_different(&mine.claim, &theirs.claim) {
            return Some(Difference::Child(place));
        }
    }
    match (mine.reveal, theirs.reveal) {
        (Reveal::Salt { salt: mine }, Reveal::Salt { salt: theirs }) if mine != theirs => {
            Some(Difference::Salt)
        }
        (Reveal::Salt { .. } | Reveal::Secret { .. } | Reveal::Nothing, _) => None,
    }
}

/// Whether a fold of an operation can have this state.
fn is_reachable(operation: &Operation, state: i64) -> bool {
    matches!(operation.primitive, Primitive::ArgMax { .. })
        || (-STATE_MAX..=STATE_MAX).contains(&state)
}

fn reveals_nothing(parent: &Child, answer: &Answer) -> Result<(), Inconsistent> {
    match answer.reveal {
        Reveal::Nothing => Ok(()),
        Reveal::Secret { .. } | Reveal::Salt { .. } => {
            Err(Inconsistent::Reveal { node: parent.node })
        }
    }
}

fn digests(answer: &Answer) -> Result<Vec<Hash32>, Inconsistent> {
    let digest = |child: &Child| match child.claim {
        Claim::Digest { digest } => Ok(digest),
        Claim::Values { .. } | Claim::States { .. } => {
            Err(Inconsistent::Claim { node: child.node })
        }
    };
    answer.children.iter().map(digest).collect()
}

/// The top over the nodes that stand below it.
fn top_of(digests: &[Hash32]) -> Hash32 {
    if let [only] = digests { *only } else { node(digests) }
}

fn same_digest(parent: &Child, found: Hash32) -> Result<(), Inconsistent> {
    match parent.claim {
        Claim::Digest { digest } if digest == found => Ok(()),
        Claim::Digest { digest } => Err(Inconsistent::Digest { found, claimed: digest }),
        Claim::Values { .. } | Claim::States { .. } => {
            Err(Inconsistent::Claim { node: parent.node })
        }
    }
}

/// The claimed elements of a node of elements, as many as it has.
fn claimed_values(child: &Child) -> Result<&[i32], Inconsistent> {
    match (&child.claim, child.node) {
        (Claim::Values { values }, Node::Elements { from, to, .. })
            if to.checked_sub(from).is_some_and(|n| n as usize == values.as_slice().len()) =>
        {
            Ok(values.as_slice())
        }
        (Claim::Values { .. } | Claim::Digest { .. } | Claim::States { .. }, node) => {
            Err(Inconsistent::Claim { node })
        }
    }
}

fn values(answer: &Answer) -> Result<Vec<i32>, Inconsistent> {
    let mut values = Vec::with_capacity(TILE);
    for child in &answer.children {
        values.extend_from_slice(claimed_values(child)?);
    }
    Ok(values)
}

/// The bytes of a tile with these elements, which must lie in the value's range.
fn tile_bytes(spec: &Spec, tile: u32, values: &[i32]) -> Result<Vec<u8>, Inconsistent> {
    let mut bytes = Vec::with_capacity(TILE_BYTES_MAX);
    for (element, found) in (tile * TILE as u32..).zip(values) {
        if !spec.admits((*found).into()) {
            return Err(Inconsistent::Range { element, found: *found });
        }
        let [_, _, high, low] = found.to_be_bytes();
        match spec.width() {
            Width::I8 => bytes.push(low),
            Width::I16 => bytes.extend_from_slice(&[high, low]),
            Width::I32 => bytes.extend_from_slice(&found.to_be_bytes()),
        }
    }
    Ok(bytes)
}

/// The state after the last child, if the first starts at `start` and each goes on where the one
/// before it ended.
fn last_state(operation: &Operation, start: i64, answer: &Answer) -> Result<i64, Inconsistent> {
    let mut expected = start;
    for (place, child) in answer.children.iter().enumerate() {
        let Claim::States { before, after } = child.claim else {
            return Err(Inconsistent::Claim { node: child.node });
        };
        if before != expected {
            return Err(Inconsistent::Chain { place, found: before, expected });
        }
        if !is_reachable(operation, after) {
            return Err(Inconsistent::State { found: after });
        }
        expected = after;
    }
    Ok(expected)
}

fn same_end(found: i64, claimed: i64) -> Result<(), Inconsistent> {
    if found == claimed { Ok(()) } else { Err(Inconsistent::End { found, claimed }) }
}
