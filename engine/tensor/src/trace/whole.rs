//! What shows that somebody has computed a whole run of which it was to recompute some tiles.
//!
//! A key of the trace does not: whoever is shown what its tiles read learns the root over all
//! operations, and all keys follow from it. So the checker commits to a tree of its own first, in
//! the shape of the trace, over the digests of all tiles, each hashed with its name. Which of them
//! it must show is drawn afterwards: the digests lead to the root of the trace, and hashed with its
//! name to what it committed to. Who knows the digests of a share k of the work passes s draws with
//! k^s.

use super::lot::{ANSWER_DIGESTS_MAX, Part, TilePlace, TilePlaces, drawn_within, siblings_in};
use super::{Trace, TraceError};
use crate::program::Program;
use std::collections::BTreeMap;
use tg_types::hash::{Tag, tagged};
use tg_types::{Hash32, NodeId, TileLot};

const KNOWN: Tag = Tag::new("tensorgrid/known tile");

/// What somebody who knows a digest commits to.
fn known(node: &NodeId, digest: &Hash32) -> Hash32 {
    tagged(KNOWN, &[node.as_bytes(), digest.as_bytes()])
}

/// The tiles that a lot draws of a run that somebody says to have computed: fewer than an audit
/// draws, if what leads to two roots would not fit into an answer.
fn drawn(program: &Program, lot: &TileLot) -> TilePlaces {
    drawn_within(program, lot, ANSWER_DIGESTS_MAX / 2)
}

/// The trace as the tree of a node has it.
fn own(program: &Program, trace: &Trace, node: &NodeId) -> Result<Trace, TraceError> {
    trace.mapped(program, |digest| known(node, digest))
}

/// What a node that has computed a run commits to.
///
/// # Errors
/// If the trace is not one of the program.
pub fn known_root(program: &Program, trace: &Trace, node: &NodeId) -> Result<Hash32, TraceError> {
    Ok(own(program, trace, node)?.operations_root())
}

/// What it shows when tiles were drawn; `None` if the trace is not one of the program.
#[must_use]
pub fn whole_answer(
    program: &Program,
    trace: &Trace,
    node: &NodeId,
    lot: &TileLot,
) -> Option<Vec<u8>> {
    let tiles = drawn(program, lot);
    let mut bytes = super::answer_of(program, trace, &tiles)?;
    let own = own(program, trace, node).ok()?;
    let siblings = siblings_in(program, &own, &tiles)?;
    bytes.extend(siblings.iter().flat_map(|digest| *digest.as_bytes()));
    Some(bytes)
}

/// A node that says to have computed a run, and which tiles of it are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Knower<'a> {
    /// The node.
    pub node: &'a NodeId,
    /// What it has committed to.
    pub known: &'a Hash32,
    /// What draws the tiles.
    pub lot: &'a TileLot,
}

/// Whether an answer is about exactly the tiles that are drawn, and leads from them to the root of
/// a trace whose salt has this mark, and to what the node has committed to.
#[must_use]
pub fn check_whole(
    program: &Program,
    (mark, root): (&Hash32, &Hash32),
    by: &Knower<'_>,
    answer: &[u8],
) -> bool {
    let (digests, rest) = answer.as_chunks::<32>();
    let digests: Vec<Hash32> = digests.iter().copied().map(Hash32::new).collect();
    let tiles = drawn(program, by.lot);
    let Some((leaves, siblings)) = digests.split_at_checked(tiles.len()) else { return false };
    // Both trees have the same shape, so there are as many siblings in each.
    let (of_trace, of_own) = siblings.split_at(siblings.len() / 2);
    if !rest.is_empty() || tiles.is_empty() {
        return false;
    }
    let leaves: BTreeMap<TilePlace, Hash32> =
        tiles.iter().copied().zip(leaves.iter().copied()).collect();
    let own = leaves.iter().map(|(place, digest)| (*place, known(by.node, digest))).collect();
    let is_traced =
        Part::climb(program, &leaves, of_trace).is_some_and(|part| part.trace_root(mark) == *root);
    is_traced
        && Part::climb(program, &own, of_own)
            .is_some_and(|part| part.operations_root() == *by.known)
}
