//! One tile with the proof that it belongs to a subject.
//!
//! An opening comes from whoever wants to be believed, so everything about it is checked: lengths,
//! ranges, places and both paths. What the check returns can be had in no other way.

use super::Subject;
use crate::commit::value_root;
use crate::commit::{Book, TILE, TILE_BYTES_MAX, Tree, book_root, climb, leaf, trace_root};
use crate::program::{Place, Program, Spec, ValueId};
use crate::tensor::{Tensor, TensorError};
use tg_types::{Bytes, Hash32, List, wire};

/// The most siblings on the way from a tile to its value: 2^28 elements are 2^18 tiles, which is
/// five levels.
pub const TILE_PATH_MAX: usize = 75;

/// The most siblings on the way from a value to its book: 2^16 values are four levels.
pub const BOOK_PATH_MAX: usize = 60;

wire! {
    /// A tile, and how its digest goes into that of a book.
    #[derive(Clone, PartialEq, Eq)]
    pub struct TileProof {
        /// The place of the tile in its value.
        pub tile: u32,
        /// The tile's own salt.
        pub salt: [u8; 32],
        /// Its elements, big-endian.
        pub bytes: Bytes<TILE_BYTES_MAX>,
        /// The siblings up to the top of the value.
        pub tile_path: List<Hash32, 0, TILE_PATH_MAX>,
        /// The siblings up to the top of the book.
        pub book_path: List<Hash32, 0, BOOK_PATH_MAX>,
    }
}

impl std::fmt::Debug for TileProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TileProof").field("tile", &self.tile).finish_non_exhaustive()
    }
}

wire! {
    /// An opened tile of an input, a constant or an operation's output.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Opening {
        /// Whose tile.
        pub value: ValueId,
        /// The mark of the trace's salt, if the value is an operation's output.
        pub mark: Option<Hash32>,
        /// The tile.
        pub proof: TileProof,
    }
}

wire! {
    /// An opened tile of a program's output, as it was delivered.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OutputOpening {
        /// The place of the output among the program's outputs.
        pub output: u32,
        /// The tile.
        pub proof: TileProof,
    }
}

/// A tile that was shown to belong to a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedTile {
    value: ValueId,
    tile: u32,
    elements: Vec<i32>,
}

impl OpenedTile {
    /// Whose tile.
    #[must_use]
    pub const fn value(&self) -> ValueId {
        self.value
    }

    /// The place of the tile in its value.
    #[must_use]
    pub const fn tile(&self) -> u32 {
        self.tile
    }

    /// Its elements.
    #[must_use]
    pub fn elements(&self) -> &[i32] {
        &self.elements
    }

    pub(super) fn into_elements(self) -> Vec<i32> {
        self.elements
    }
}

/// Why an opening shows nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpeningError {
    /// The program has no such value.
    #[error("value {value} does not exist")]
    Value {
        /// Which.
        value: u32,
    },
    /// The program has no such output.
    #[error("output {output} does not exist")]
    Output {
        /// Which.
        output: u32,
    },
    /// The value has no such tile.
    #[error("tile {tile} does not exist, the value has {tiles}")]
    Tile {
        /// Which.
        tile: u32,
        /// How many there are.
        tiles: usize,
    },
    /// The bytes are not elements of the value.
    #[error("tile {tile} does not fit its value")]
    Elements {
        /// Which tile.
        tile: u32,
        /// What is wrong with it.
        source: TensorError,
    },
    /// A path of another length than the tree has.
    #[error("path with {found} siblings does not fit the {which}")]
    Path {
        /// The tree.
        which: &'static str,
        /// How many siblings are given.
        found: usize,
    },
    /// The mark of the salt is missing from an operation's output, or stands elsewhere.
    #[error("mark of the salt belongs to operations' outputs, and only to them")]
    Mark,
    /// The paths lead to another root.
    #[error("opening leads to root {found}, the subject has {expected}")]
    Root {
        /// Where they lead.
        found: Hash32,
        /// What the subject has.
        expected: Hash32,
    },
}

/// Where a value stands: the book, its place there and how many values the book has.
struct Shelf {
    book: Book,
    place: usize,
    values: usize,
}

impl Opening {
    /// Checks the opening against a subject, whose program this must be.
    pub fn verify(&self, program: &Program, subject: &Subject) -> Result<OpenedTile, OpeningError> {
        let refused = OpeningError::Value { value: self.value.number };
        let spec = program.spec(self.value).ok_or(refused.clone())?;
        let (book, place, values, expected) = match program.place(self.value).ok_or(refused)? {
            Place::Input(place) => {
                (Book::Inputs, place, program.inputs().len(), subject.inputs_root)
            }
            Place::Constant(place) => {
                (Book::Constants, place, program.constants().len(), subject.weights_root)
            }
            Place::Operation(place) => {
                (Book::Operations, place, program.operations().len(), subject.trace_root)
            }
        };
        if self.mark.is_some() != (book == Book::Operations) {
            return Err(OpeningError::Mark);
        }
        let (elements, root) = self.proof.climb(&spec, &Shelf { book, place, values })?;
        let found = self.mark.map_or(root, |mark| trace_root(&mark, &root));
        if found != expected {
            return Err(OpeningError::Root { found, expected });
        }
        Ok(OpenedTile { value: self.value, tile: self.proof.tile, elements })
    }
}

impl OutputOpening {
    /// Checks the opening against a subject, whose program this must be. The tile returned is
    /// named by the value that the output ought to be.
    pub fn verify(&self, program: &Program, subject: &Subject) -> Result<OpenedTile, OpeningError> {
        let refused = OpeningError::Output { output: self.output };
        let place = self.output as usize;
        let value = program.outputs().get(place).ok_or(refused.clone())?.value;
        let spec = program.spec(value).ok_or(refused)?;
        let shelf = Shelf { book: Book::Outputs, place, values: program.outputs().len() };
        let (elements, found) = self.proof.climb(&spec, &shelf)?;
        let expected = subject.outputs_root;
        if found != expected {
            return Err(OpeningError::Root { found, expected });
        }
        Ok(OpenedTile { value, tile: self.proof.tile, elements })
    }
}

impl TileProof {
    /// The elements, and the root of the book to which the paths lead.
    fn climb(&self, spec: &Spec, shelf: &Shelf) -> Result<(Vec<i32>, Hash32), OpeningError> {
        let tile = self.tile as usize;
        let elements = tile_elements(spec, self.tile, self.bytes.as_slice())?;
        let digest = leaf(&self.salt, self.bytes.as_slice());
        let path = self.tile_path.as_slice();
        let top = climb(Tree::over_tiles(spec.elements()), tile, digest, path)
            .ok_or(OpeningError::Path { which: "value", found: path.len() })?;
        let value = value_root(spec.len, spec.width(), &top);
        let path = self.book_path.as_slice();
        let top = climb(Tree::over(shelf.values), shelf.place, value, path)
            .ok_or(OpeningError::Path { which: "book", found: path.len() })?;
        Ok((elements, book_root(shelf.book, shelf.values as u32, &top)))
    }
}

/// The elements of a tile from its bytes, checked against what is known of its value.
pub(crate) fn tile_elements(
    spec: &Spec,
    tile: u32,
    bytes: &[u8],
) -> Result<Vec<i32>, OpeningError> {
    let tiles = spec.elements().div_ceil(TILE);
    if tile as usize >= tiles {
        return Err(OpeningError::Tile { tile, tiles });
    }
    let len = (spec.elements() - tile as usize * TILE).min(TILE) as u32;
    let tensor = Tensor::from_bytes(&Spec { len, ..*spec }, bytes)
        .map_err(|source| OpeningError::Elements { tile, source })?;
    Ok(match tensor {
        Tensor::I8(elements) => elements.into_iter().map(i32::from).collect(),
        Tensor::I16(elements) => elements.into_iter().map(i32::from).collect(),
        Tensor::I32(elements) => elements,
    })
}
