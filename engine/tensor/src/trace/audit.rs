//! Recomputes one tile from the opened tiles that it reads, without running anything else.
//!
//! That is the whole of an audit, and the ledger's judge. Which tiles are needed follows from the
//! program ([`operand_tiles`]), except where an element decides what is read (`Select`, `Lookup`):
//! there [`MissingOperand`] names the next tile, so whoever asks for tiles asks once more.

use super::{OpenedTile, Opening, OpeningError, OutputOpening, Subject};
use crate::commit::TILE;
use crate::element::Element;
use crate::model::Model;
use crate::program::{Place, Primitive, Program, ProgramId, ValueId};
use crate::tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::Range;
use tg_types::wire;

/// How many tiles a reader remembers: two operands, a bias and one to spare.
const RECENT: usize = 4;

wire! {
    /// What the numbers say about a claim.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Verdict {
        /// It is right.
        Upheld = 1,
        /// It is wrong.
        Refuted = 2,
    }
}

impl Verdict {
    pub(crate) const fn of(is_right: bool) -> Self {
        if is_right { Self::Upheld } else { Self::Refuted }
    }
}

/// A tile that is read and was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tile {tile} of value {} is needed and not opened", value.number)]
pub struct MissingOperand {
    /// Whose tile.
    pub value: ValueId,
    /// The place of the tile.
    pub tile: u32,
}

/// Why a tile was not recomputed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// The subject is about another program.
    #[error("program is {found}, the subject is about {expected}")]
    Program {
        /// The program given.
        found: ProgramId,
        /// The subject's.
        expected: ProgramId,
    },
    /// There is no such tile.
    #[error("operation {operation} has no tile {tile}")]
    Tile {
        /// Which operation.
        operation: usize,
        /// Which tile.
        tile: u32,
    },
    /// The tile to be judged is not that of an operation, or not the same as the one it is held
    /// against.
    #[error("tile {tile} of value {} cannot be judged with what is given", value.number)]
    Claim {
        /// Whose tile.
        value: ValueId,
        /// The place of the tile.
        tile: u32,
    },
    /// An opening does not hold.
    #[error("opening {index} is refused")]
    Opening {
        /// Which, in the order given.
        index: usize,
        /// Why.
        source: OpeningError,
    },
    /// A tile is needed that was not opened.
    #[error(transparent)]
    Missing(#[from] MissingOperand),
}

/// Tiles that were shown to belong to a subject.
#[derive(Debug, Default)]
pub struct OpenedTiles<'a> {
    tiles: BTreeMap<(ValueId, u32), Vec<i32>>,
    weights: Option<&'a Model>,
    inputs: &'a [Tensor],
}

impl<'a> OpenedTiles<'a> {
    /// Checks all openings against a subject.
    pub fn verify(
        program: &Program,
        subject: &Subject,
        openings: &[Opening],
    ) -> Result<Self, AuditError> {
        let (found, expected) = (program.id(), subject.program);
        if found != expected {
            return Err(AuditError::Program { found, expected });
        }
        let mut opened = Self::default();
        for (index, opening) in openings.iter().enumerate() {
            let tile = opening.verify(program, subject);
            opened.insert(tile.map_err(|source| AuditError::Opening { index, source })?);
        }
        Ok(opened)
    }

    /// Adds a tile.
    pub fn insert(&mut self, tile: OpenedTile) {
        self.tiles.insert((tile.value(), tile.tile()), tile.into_elements());
    }

    /// Reads constants from a model instead of opened tiles. The caller has held the root of its
    /// weights against the subject's, once for all audits.
    #[must_use]
    pub fn with_weights(mut self, model: &'a Model) -> Self {
        self.weights = Some(model);
        self
    }

    /// Reads inputs from here instead of opened tiles. The caller has held their root against the
    /// subject's.
    #[must_use]
    pub const fn with_inputs(mut self, inputs: &'a [Tensor]) -> Self {
        self.inputs = inputs;
        self
    }

    /// Adds a tile that the caller will show to belong to the subject together with what follows
    /// from it.
    pub(super) fn insert_claimed(&mut self, value: ValueId, tile: u32, elements: Vec<i32>) {
        self.tiles.insert((value, tile), elements);
    }

    /// What reads elements, tile after tile.
    pub(crate) fn reader(&self) -> TileReader<'_> {
        TileReader { opened: self, recent: [None; RECENT], oldest: 0 }
    }

    /// Recomputes a tile of an operation's output.
    pub fn recompute(
        &self,
        program: &Program,
        operation: usize,
        tile: u32,
    ) -> Result<Vec<i32>, AuditError> {
        let mut reader = self.reader();
        let mut elements = Vec::new();
        for index in tile_range(program, operation, tile)? {
            let element = Element::new(program, operation, index)
                .ok_or(AuditError::Tile { operation, tile })?;
            elements.push(element.compute(&mut |value, index| reader.read(value, index))?);
        }
        Ok(elements)
    }
}

/// Reads elements of opened tiles; remembers the last tiles, because neighbours follow each other.
pub(crate) struct TileReader<'a> {
    opened: &'a OpenedTiles<'a>,
    recent: [Option<(ValueId, u32, &'a [i32])>; RECENT],
    oldest: usize,
}

impl TileReader<'_> {
    pub(crate) fn read(&mut self, value: ValueId, index: usize) -> Result<i32, MissingOperand> {
        let (tile, within) = ((index / TILE) as u32, index % TILE);
        let missing = MissingOperand { value, tile };
        for (known, place, elements) in self.recent.iter().flatten() {
            if (*known, *place) == (value, tile) {
                return elements.get(within).copied().ok_or(missing);
            }
        }
        let Some(elements) = self.opened.tiles.get(&(value, tile)) else {
            let constant = self.opened.weights.and_then(|model| model.constant(value));
            let known = constant.or_else(|| self.opened.inputs.get(value.index()));
            return known.and_then(|tensor| tensor.get(index)).ok_or(missing);
        };
        if let Some(slot) = self.recent.get_mut(self.oldest) {
            *slot = Some((value, tile, elements));
        }
        self.oldest = (self.oldest + 1) % RECENT;
        elements.get(within).copied().ok_or(missing)
    }
}

/// Recomputes a tile of an operation's output from opened tiles, each of which is checked first.
pub fn recompute_tile(
    program: &Program,
    subject: &Subject,
    (operation, tile): (usize, u32),
    openings: &[Opening],
) -> Result<Vec<i32>, AuditError> {
    OpenedTiles::verify(program, subject, openings)?.recompute(program, operation, tile)
}

/// Judges one opened tile of an operation's output by the opened tiles that it reads. An error says
/// that whoever opened them has shown nothing.
pub fn judge_tile(
    program: &Program,
    subject: &Subject,
    claimed: &Opening,
    operands: &[Opening],
) -> Result<Verdict, AuditError> {
    let opened = OpenedTiles::verify(program, subject, operands)?;
    let claimed = claimed
        .verify(program, subject)
        .map_err(|source| AuditError::Opening { index: operands.len(), source })?;
    let (value, tile) = (claimed.value(), claimed.tile());
    let Some(Place::Operation(operation)) = program.place(value) else {
        return Err(AuditError::Claim { value, tile });
    };
    Ok(Verdict::of(opened.recompute(program, operation, tile)? == claimed.elements()))
}

/// Judges one opened tile of a delivered output by the same tile of the value that it ought to be.
/// A trace can be right and the output beside it wrong; this is the court for that.
pub fn judge_output(
    program: &Program,
    subject: &Subject,
    claimed: &OutputOpening,
    value: &Opening,
) -> Result<Verdict, AuditError> {
    let (found, expected) = (program.id(), subject.program);
    if found != expected {
        return Err(AuditError::Program { found, expected });
    }
    let refused = |index| move |source| AuditError::Opening { index, source };
    let claimed = claimed.verify(program, subject).map_err(refused(0))?;
    let traced = value.verify(program, subject).map_err(refused(1))?;
    let (value, tile) = (claimed.value(), claimed.tile());
    if (value, tile) != (traced.value(), traced.tile()) {
        return Err(AuditError::Claim { value, tile });
    }
    Ok(Verdict::of(claimed.elements() == traced.elements()))
}

/// Which tiles are read for a tile of an operation's output, as far as the program alone tells: of
/// a `Select` the condition, of a `Lookup` the indices.
pub fn operand_tiles(
    program: &Program,
    operation: usize,
    tile: u32,
) -> Result<BTreeSet<(ValueId, u32)>, AuditError> {
    let range = tile_range(program, operation, tile)?;
    let primitive = program.operations().get(operation).map(|operation| &operation.primitive);
    let is_decided_by_first =
        matches!(primitive, Some(Primitive::Select { .. } | Primitive::Lookup { .. }));
    let mut touched = BTreeSet::new();
    let mut recent = [None; RECENT];
    let mut oldest = 0;
    for index in range {
        let element =
            Element::new(program, operation, index).ok_or(AuditError::Tile { operation, tile })?;
        for term in 0..element.terms() {
            let mut reads = 0;
            let Ok(_state) = element.absorb(0, term, &mut |value, index| {
                let place = Some((value, (index / TILE) as u32));
                reads += 1;
                if (reads == 1 || !is_decided_by_first) && !recent.contains(&place) {
                    touched.extend(place);
                    if let Some(slot) = recent.get_mut(oldest) {
                        *slot = place;
                    }
                    oldest = (oldest + 1) % RECENT;
                }
                Ok::<i32, Infallible>(0)
            });
        }
    }
    Ok(touched)
}

pub(super) fn tile_range(
    program: &Program,
    operation: usize,
    tile: u32,
) -> Result<Range<usize>, AuditError> {
    let refused = AuditError::Tile { operation, tile };
    let elements = program.operations().get(operation).ok_or(refused.clone())?.spec.elements();
    let start = (tile as usize).checked_mul(TILE).filter(|start| *start < elements);
    let start = start.ok_or(refused)?;
    Ok(start..elements.min(start + TILE))
}
