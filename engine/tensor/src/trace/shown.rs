//! What a provider shows of a run so that drawn tiles can be recomputed, and the recomputing.
//!
//! Whoever checks has the weights, the inputs and the salt, but nothing of what was computed. So it
//! is shown the tiles that the drawn ones read, all tiles of the outputs, and the siblings of all
//! these, but of the drawn tiles nothing: neither numbers nor digests, not even as somebody's
//! siblings or operands. One climb from all tiles together, the shown ones hashed with their right
//! salts and the drawn ones computed here, must lead to the root of the trace. Then the shown tiles
//! are those of the trace, and the drawn tiles follow from them.

use super::lot::{Part, TilePlace, TilePlaces, siblings_in};
use super::opening::tile_elements;
use super::{AuditError, OpenedTiles, OpeningError, Witness, outputs_root};
use crate::commit::{Salt, TILE, TILE_BYTES_MAX, leaf};
use crate::model::Model;
use crate::program::{Place, Program, Spec, ValueId};
use crate::tensor::{Tensor, TensorError};
use std::collections::BTreeMap;
use tg_types::{Bytes, Hash32, List, wire};

/// Tiles that are shown at most: 16 Mi elements. Where more are read, the whole run is recomputed.
pub const SHOWN_TILES_MAX: usize = 16 * 1024;

/// Siblings that are shown at most: those of as many tiles that lie next to each other.
pub const SHOWN_SIBLINGS_MAX: usize = 64 * 1024;

wire! {
    /// A tile of an operation's output.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ShownTile {
        /// Which.
        pub place: TilePlace,
        /// Its elements, big-endian.
        pub bytes: Bytes<TILE_BYTES_MAX>,
    }
}

wire! {
    /// What drawn tiles can be recomputed from.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ShownTiles {
        /// Tiles that the drawn ones read, and all tiles of outputs, without the drawn ones.
        pub tiles: List<ShownTile, 0, SHOWN_TILES_MAX>,
        /// The siblings of these and of the drawn ones.
        pub siblings: List<Hash32, 0, SHOWN_SIBLINGS_MAX>,
    }
}

/// What is known of a run that is audited by tiles.
#[derive(Clone, Copy, Debug)]
pub struct TileAudit<'a> {
    /// The model, whose weights are the job's.
    pub model: &'a Model,
    /// The inputs, which are the job's.
    pub inputs: &'a [Tensor],
    /// The salt of the trace, whose mark is the job's.
    pub salt: Salt,
    /// The root of the trace, as its provider says.
    pub trace_root: Hash32,
    /// The outputs, as their provider says.
    pub outputs_root: Hash32,
}

/// Why drawn tiles were not found right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TileAuditError {
    /// A tile does not exist, is shown twice or is one of those that were drawn.
    #[error("tile {} of operation {} has no place here", place.tile, place.operation)]
    Place {
        /// Which.
        place: TilePlace,
    },
    /// The bytes of a tile are not elements of its value.
    #[error("a shown tile does not fit its value")]
    Elements(#[from] OpeningError),
    /// A drawn tile cannot be computed.
    #[error("a drawn tile cannot be computed")]
    Audit(#[from] AuditError),
    /// What was computed does not fit the program.
    #[error("a computed tile does not fit its value")]
    Tensor(#[from] TensorError),
    /// There are not as many siblings as there must be.
    #[error("{found} siblings do not fit the tiles")]
    Siblings {
        /// How many there are.
        found: usize,
    },
    /// All tiles together lead to another root.
    #[error("tiles lead to root {found}, the result has {expected}")]
    Root {
        /// Where they lead.
        found: Hash32,
        /// What the result has.
        expected: Hash32,
    },
    /// The outputs are not those of the result, or a tile of them is missing.
    #[error("outputs of the trace are not those of the result")]
    Output,
}

impl Witness<'_> {
    /// What drawn tiles can be recomputed from; `None` if a tile does not exist or that is too
    /// much.
    #[must_use]
    pub fn show_tiles(&self, drawn: &TilePlaces) -> Option<ShownTiles> {
        let program = self.program();
        let mut all = drawn.clone();
        for TilePlace { operation, tile } in drawn {
            let operation = usize::try_from(*operation).ok()?;
            let range = super::audit::tile_range(program, operation, *tile).ok()?;
            for (value, tile) in self.touched(operation, range, None)? {
                all.extend(traced(program, value, tile));
            }
        }
        for output in program.outputs() {
            let tiles = program.spec(output.value)?.elements().div_ceil(TILE);
            let tiles = 0..u32::try_from(tiles).ok()?;
            all.extend(tiles.filter_map(|tile| traced(program, output.value, tile)));
        }
        let mut tiles = Vec::new();
        for place in all.difference(drawn) {
            let value = program.value_of(usize::try_from(place.operation).ok()?);
            let first = usize::try_from(place.tile).ok()?.checked_mul(TILE)?;
            let mut bytes = Vec::new();
            self.tensor(value)?.append_bytes(first..first + TILE, &mut bytes);
            tiles.push(ShownTile { place: *place, bytes: Bytes::new(bytes).ok()? });
        }
        let siblings = siblings_in(program, self.trace(), &all)?;
        Some(ShownTiles { tiles: List::new(tiles).ok()?, siblings: List::new(siblings).ok()? })
    }
}

/// The place of a tile in the trace, if an operation makes its value.
fn traced(program: &Program, value: ValueId, tile: u32) -> Option<TilePlace> {
    match program.place(value)? {
        Place::Operation(operation) => {
            Some(TilePlace { operation: u32::try_from(operation).ok()?, tile })
        }
        Place::Input(_) | Place::Constant(_) => None,
    }
}

impl<'a> TileAudit<'a> {
    /// Recomputes drawn tiles from what is shown and holds the outputs against the trace; gives
    /// what shows the ledger that this was done.
    ///
    /// # Errors
    /// If anything is missing or not what it ought to be. That need not be the result: only the
    /// whole run shows whether it is wrong.
    pub fn recompute(
        &self,
        drawn: &TilePlaces,
        shown: &ShownTiles,
    ) -> Result<Vec<u8>, TileAuditError> {
        let program = self.model.program();
        let mut opened = OpenedTiles::default().with_weights(self.model).with_inputs(self.inputs);
        let mut digests = BTreeMap::new();
        for ShownTile { place, bytes } in shown.tiles.as_slice() {
            let (value, spec) = value_at(program, place)?;
            if drawn.contains(place) {
                return Err(TileAuditError::Place { place: *place });
            }
            let elements = tile_elements(&spec, place.tile, bytes.as_slice())?;
            let salt = self.salt.of_tile(value.number, place.tile);
            opened.insert_claimed(value, place.tile, elements);
            if digests.insert(*place, leaf(&salt, bytes.as_slice())).is_some() {
                return Err(TileAuditError::Place { place: *place });
            }
        }
        // In the order of the program: a drawn tile may read another one.
        for place in drawn {
            let (value, spec) = value_at(program, place)?;
            let operation = usize::try_from(place.operation).unwrap_or(usize::MAX);
            let elements = opened.recompute(program, operation, place.tile)?;
            let bytes = tile_bytes(&spec, &elements)?;
            let salt = self.salt.of_tile(value.number, place.tile);
            opened.insert_claimed(value, place.tile, elements);
            digests.insert(*place, leaf(&salt, &bytes));
        }
        let siblings = shown.siblings.as_slice();
        let part = Part::climb(program, &digests, siblings)
            .ok_or(TileAuditError::Siblings { found: siblings.len() })?;
        let (found, expected) = (part.trace_root(&self.salt.mark()), self.trace_root);
        if found != expected {
            return Err(TileAuditError::Root { found, expected });
        }
        self.check_outputs(&opened)?;
        part.answer(program, drawn).ok_or(TileAuditError::Siblings { found: siblings.len() })
    }

    /// Holds the outputs, as the trace has them, against those of the result.
    fn check_outputs(&self, opened: &OpenedTiles<'a>) -> Result<(), TileAuditError> {
        let program = self.model.program();
        let mut outputs = Vec::new();
        for output in program.outputs() {
            let spec = program.spec(output.value).ok_or(TileAuditError::Output)?;
            let mut reader = opened.reader();
            let mut read = |index| reader.read(output.value, index).map(i64::from);
            let numbers: Result<Vec<i64>, _> = (0..spec.elements()).map(&mut read).collect();
            outputs.push(Tensor::new(&spec, &numbers.map_err(AuditError::from)?)?);
        }
        let is_right = outputs_root(outputs.iter()) == self.outputs_root;
        if is_right { Ok(()) } else { Err(TileAuditError::Output) }
    }
}

fn value_at(program: &Program, place: &TilePlace) -> Result<(ValueId, Spec), TileAuditError> {
    let refused = TileAuditError::Place { place: *place };
    let operation = usize::try_from(place.operation).ok();
    let stated = operation.and_then(|operation| program.operations().get(operation));
    let (operation, stated) = operation.zip(stated).ok_or(refused)?;
    Ok((program.value_of(operation), stated.spec))
}

/// The bytes of a tile's elements.
fn tile_bytes(spec: &Spec, elements: &[i32]) -> Result<Vec<u8>, TensorError> {
    let numbers: Vec<i64> = elements.iter().copied().map(i64::from).collect();
    let len = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    let tensor = Tensor::new(&Spec { len, ..*spec }, &numbers)?;
    let mut bytes = Vec::new();
    tensor.append_bytes(0..tensor.len(), &mut bytes);
    Ok(bytes)
}
