//! What a party that has a witness answers, and what it learns from answers.

use super::{Answer, Child, Claim, Inconsistent, Node, Reveal, children};
use crate::commit::{Salt, TILE, levels};
use crate::element::Element;
use crate::trace::Witness;
use tg_types::{Hash32, List};

/// The answer for a node, derived from a witness on the spot.
pub fn descend(witness: &Witness<'_>, parent: &Node) -> Result<Answer, Inconsistent> {
    let missing = Inconsistent::NoSuchNode { node: *parent };
    let nodes = children(witness.program(), parent)?;
    let claims = match *parent {
        Node::Trace | Node::Operations { .. } => over_operations(witness, &nodes),
        Node::Operation { operation } | Node::Tiles { operation, .. } => {
            over_tiles(witness, operation, &nodes)
        }
        Node::Tile { .. } => elements(witness, &nodes),
        Node::Elements { from, to, .. } if to - from > 1 => elements(witness, &nodes),
        Node::Elements { .. } | Node::Terms { .. } => terms(witness, &nodes),
    };
    let claims = claims.ok_or(missing)?;
    let reveal = match *parent {
        Node::Trace => Reveal::Secret { secret: witness.trace().salt().secret().copied() },
        Node::Tile { operation, tile } => {
            let value = witness.program().value_of(operation as usize);
            Reveal::Salt { salt: witness.trace().salt().of_tile(value.number, tile) }
        }
        Node::Operations { .. }
        | Node::Operation { .. }
        | Node::Tiles { .. }
        | Node::Elements { .. }
        | Node::Terms { .. } => Reveal::Nothing,
    };
    let children = nodes.into_iter().zip(claims).map(|(node, claim)| Child { node, claim });
    Ok(Answer { reveal, children: children.collect() })
}

impl Witness<'_> {
    /// Learns from an answer what stands beside the disputed operation in the other party's trace,
    /// so that a challenger can open agreed operands against a root that is not its own.
    pub fn learn(&mut self, answer: &Answer) {
        if let Reveal::Secret { secret } = answer.reveal {
            self.learn_mark(secret.map_or(Salt::NONE, Salt::new).mark());
        }
        for child in &answer.children {
            let Claim::Digest { digest } = child.claim else { continue };
            match child.node {
                Node::Operations { level, index } => {
                    self.learn_digest(level, index as usize, digest);
                }
                Node::Operation { operation } => {
                    self.learn_digest(0, operation as usize, digest);
                }
                Node::Trace
                | Node::Tiles { .. }
                | Node::Tile { .. }
                | Node::Elements { .. }
                | Node::Terms { .. } => {}
            }
        }
    }
}

fn over_operations(witness: &Witness<'_>, nodes: &[Node]) -> Option<Vec<Claim>> {
    let claim = |node: &Node| {
        let digest = match *node {
            Node::Operations { level, index } => witness.operations_digest(level, index as usize),
            Node::Operation { operation } => witness.operations_digest(0, operation as usize),
            Node::Trace
            | Node::Tiles { .. }
            | Node::Tile { .. }
            | Node::Elements { .. }
            | Node::Terms { .. } => None,
        };
        digest.map(|digest| Claim::Digest { digest })
    };
    nodes.iter().map(claim).collect()
}

fn over_tiles(witness: &Witness<'_>, operation: u32, nodes: &[Node]) -> Option<Vec<Claim>> {
    let levels = levels(witness.trace().tiles(operation as usize)?.to_vec());
    let find = |level: u8, index: u32| -> Option<Hash32> {
        levels.get(usize::from(level))?.get(index as usize).copied()
    };
    let claim = |node: &Node| {
        let digest = match *node {
            Node::Tiles { level, index, .. } => find(level, index),
            Node::Tile { tile, .. } => find(0, tile),
            Node::Trace
            | Node::Operations { .. }
            | Node::Operation { .. }
            | Node::Elements { .. }
            | Node::Terms { .. } => None,
        };
        digest.map(|digest| Claim::Digest { digest })
    };
    nodes.iter().map(claim).collect()
}

fn elements(witness: &Witness<'_>, nodes: &[Node]) -> Option<Vec<Claim>> {
    let claim = |node: &Node| {
        let Node::Elements { operation, from, to } = *node else { return None };
        let tensor = witness.tensor(witness.program().value_of(operation as usize))?;
        let mut values = Vec::with_capacity(TILE);
        for index in from..to {
            values.push(tensor.get(index as usize)?);
        }
        Some(Claim::Values { values: List::new(values).ok()? })
    };
    nodes.iter().map(claim).collect()
}

/// The states around the nodes, which are neighbours; the fold is run up to the last of them.
fn terms(witness: &Witness<'_>, nodes: &[Node]) -> Option<Vec<Claim>> {
    let Some(Node::Terms { operation, element, from, .. }) = nodes.first() else { return None };
    let fold = Element::new(witness.program(), *operation as usize, *element as usize)?;
    let mut read = |value, index| witness.read(value, index).ok_or(());
    let mut state = fold.start();
    for term in 0..*from {
        state = fold.absorb(state, term.into(), &mut read).ok()?;
    }
    let mut claims = Vec::with_capacity(nodes.len());
    for node in nodes {
        let Node::Terms { from, to, .. } = *node else { return None };
        let before = state;
        for term in from..to {
            state = fold.absorb(state, term.into(), &mut read).ok()?;
        }
        claims.push(Claim::States { before, after: state });
    }
    Some(claims)
}
