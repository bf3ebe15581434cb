//! Everything a party knows about a run, and the openings it can make of it.
//!
//! Whoever has a model and the inputs runs the program once more, keeps all outputs, and has a
//! witness. The trees over constants are hashed when the first of them is opened.

use super::opening::{OutputOpening, TileProof};
use super::{Opening, Subject, Trace, TraceError, inputs_root, outputs_root};
use crate::commit::{Salt, TILE, levels, path, tile_digests, top, value_root};
use crate::element::Element;
use crate::model::Model;
use crate::program::{Place, Program, ValueId};
use crate::tensor::{Tensor, TensorError};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::OnceLock;
use tg_types::{Bytes, Hash32, List};

/// What went into a run and what came out of every operation.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The inputs, in the order of the program.
    pub inputs: &'a [Tensor],
    /// The salt of their commitment.
    pub inputs_salt: Salt,
    /// The operations' outputs, in the order of the program.
    pub operations: &'a [Tensor],
}

/// A party's knowledge of a run.
#[derive(Debug)]
pub struct Witness<'a> {
    model: &'a Model,
    run: Run<'a>,
    trace: &'a Trace,
    operation_levels: Vec<Vec<Hash32>>,
    /// What the trace that is opened has published: this party's own, until it learns of another.
    published: Published,
    inputs: OnceLock<Trees>,
    constants: OnceLock<Trees>,
    outputs: OnceLock<Trees>,
}

/// The mark of a trace's salt and the levels over its operations.
#[derive(Clone, Debug)]
struct Published {
    mark: Hash32,
    levels: Vec<Vec<Hash32>>,
}

/// Why something is no witness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WitnessError {
    /// Too many or too few inputs or outputs.
    #[error("{found} {what} given, {expected} needed")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many are given.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// A value does not fit the program.
    #[error("value {value} does not fit the program")]
    Value {
        /// Which.
        value: u32,
        /// What is wrong with it.
        source: TensorError,
    },
    /// The trace is of another program.
    #[error("trace does not fit the program")]
    Trace(#[from] TraceError),
}

/// The digests of the tiles of a book's values, and the levels over the values.
#[derive(Debug)]
struct Trees {
    tiles: Vec<Vec<Hash32>>,
    levels: Vec<Vec<Hash32>>,
}

impl Trees {
    fn over<'a>(first: u32, values: impl Iterator<Item = &'a Tensor>, salt: &Salt) -> Self {
        let (mut tiles, mut roots) = (Vec::new(), Vec::new());
        for (number, value) in (first..).zip(values) {
            let digests = tile_digests(value, number, salt);
            roots.push(value_root(value.len() as u32, value.width(), &top(&digests)));
            tiles.push(digests);
        }
        Self { tiles, levels: levels(roots) }
    }
}

impl<'a> Witness<'a> {
    /// Puts together what belongs together; numbers are taken as they are, shapes are checked.
    pub fn new(model: &'a Model, run: Run<'a>, trace: &'a Trace) -> Result<Self, WitnessError> {
        let program = model.program();
        for (what, found, expected) in [
            ("inputs", run.inputs.len(), program.inputs().len()),
            ("outputs of operations", run.operations.len(), program.operations().len()),
            ("operations of a trace", trace.value_roots().len(), program.operations().len()),
        ] {
            if found != expected {
                return Err(WitnessError::Count { what, found, expected });
            }
        }
        let operations = (program.value_of(0).number..).zip(run.operations);
        for (number, tensor) in (0..).zip(run.inputs).chain(operations) {
            let Some(spec) = program.spec(ValueId { number }) else { continue };
            tensor.check(&spec).map_err(|source| WitnessError::Value { value: number, source })?;
        }
        for (operation, stated) in program.operations().iter().enumerate() {
            let tiles = trace.tiles(operation).map_or(0, <[Hash32]>::len);
            if tiles != stated.spec.elements().div_ceil(TILE) {
                return Err(TraceError::Missing { operation }.into());
            }
        }
        let operation_levels = levels(trace.value_roots().to_vec());
        let published = Published { mark: trace.salt().mark(), levels: operation_levels.clone() };
        Ok(Self {
            model,
            run,
            trace,
            operation_levels,
            published,
            inputs: OnceLock::new(),
            constants: OnceLock::new(),
            outputs: OnceLock::new(),
        })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &'a Program {
        self.model.program()
    }

    /// The trace.
    #[must_use]
    pub const fn trace(&self) -> &'a Trace {
        self.trace
    }

    /// What this party claims or would claim.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject {
            program: self.model.id(),
            weights_root: self.model.weights_root(),
            inputs_root: inputs_root(self.run.inputs, &self.run.inputs_salt),
            trace_root: self.trace.root(),
            outputs_root: outputs_root(self.output_values()),
        }
    }

    /// The elements of a value; `None` if there is no such value.
    #[must_use]
    pub fn tensor(&self, value: ValueId) -> Option<&'a Tensor> {
        match self.program().place(value)? {
            Place::Input(place) => self.run.inputs.get(place),
            Place::Constant(place) => self.model.constants().get(place),
            Place::Operation(place) => self.run.operations.get(place),
        }
    }

    /// One element of a value.
    #[must_use]
    pub fn read(&self, value: ValueId, index: usize) -> Option<i32> {
        self.tensor(value)?.get(index)
    }

    /// This party's digest over operations; level 0 are the roots of their outputs.
    pub(crate) fn operations_digest(&self, level: u8, index: usize) -> Option<Hash32> {
        self.operation_levels.get(usize::from(level))?.get(index).copied()
    }

    /// Learns the mark of the trace that is to be opened.
    pub(crate) fn learn_mark(&mut self, mark: Hash32) {
        self.published.mark = mark;
    }

    /// Learns a digest over operations of the trace that is to be opened.
    pub(crate) fn learn_digest(&mut self, level: u8, index: usize, digest: Hash32) {
        let level = self.published.levels.get_mut(usize::from(level));
        if let Some(known) = level.and_then(|level| level.get_mut(index)) {
            *known = digest;
        }
    }

    /// Opens a tile of a value; `None` if there is no such tile.
    #[must_use]
    pub fn open(&self, value: ValueId, tile: u32) -> Option<Opening> {
        self.opener(value)?.open(tile)
    }

    /// Opens a tile of an output; `None` if there is no such tile.
    #[must_use]
    pub fn open_output(&self, output: u32, tile: u32) -> Option<OutputOpening> {
        let place = output as usize;
        let value = self.program().outputs().get(place)?.value;
        let trees = self.outputs.get_or_init(|| Trees::over(0, self.output_values(), &Salt::NONE));
        let opener = Opener {
            value,
            tensor: self.tensor(value)?,
            salt: Salt::NONE,
            mark: None,
            tiles: levels(trees.tiles.get(place)?.clone()),
            book_path: path(&trees.levels, place),
        };
        Some(OutputOpening { output, proof: opener.open(tile)?.proof })
    }

    /// Opens all tiles that an operation reads for some of its elements' terms; `None` if there are
    /// no such elements or terms.
    #[must_use]
    pub fn open_operands(
        &self,
        operation: usize,
        elements: Range<usize>,
        terms: Option<&Range<u32>>,
    ) -> Option<Vec<Opening>> {
        let mut openings = Vec::new();
        let mut opener = None;
        for (value, tile) in self.touched(operation, elements, terms)? {
            if opener.as_ref().is_none_or(|opener: &Opener<'_>| opener.value != value) {
                opener = self.opener(value);
            }
            openings.push(opener.as_ref()?.open(tile)?);
        }
        Some(openings)
    }

    /// The tiles that an operation reads for some of its elements' terms; `None` if there are no
    /// such elements or terms.
    pub(super) fn touched(
        &self,
        operation: usize,
        elements: Range<usize>,
        terms: Option<&Range<u32>>,
    ) -> Option<BTreeSet<(ValueId, u32)>> {
        let mut touched = BTreeSet::new();
        let mut last = None;
        for index in elements {
            let element = Element::new(self.program(), operation, index)?;
            let terms = match terms {
                Some(terms) => u64::from(terms.start)..u64::from(terms.end),
                None => 0..element.terms(),
            };
            if terms.end > element.terms() {
                return None;
            }
            for term in terms {
                element
                    .absorb(0, term, &mut |value, index| {
                        let place = (value, (index / TILE) as u32);
                        if last != Some(place) {
                            touched.insert(place);
                            last = Some(place);
                        }
                        self.read(value, index).ok_or(())
                    })
                    .ok()?;
            }
        }
        Some(touched)
    }

    fn opener(&self, value: ValueId) -> Option<Opener<'a>> {
        let tensor = self.tensor(value)?;
        let opener = |salt: Salt, mark, tiles: &[Hash32], book: &[Vec<Hash32>], place| {
            let (tiles, book_path) = (levels(tiles.to_vec()), path(book, place));
            Opener { value, tensor, salt, mark, tiles, book_path }
        };
        Some(match self.program().place(value)? {
            Place::Input(place) => {
                let inputs = self.run.inputs.iter();
                let trees =
                    self.inputs.get_or_init(|| Trees::over(0, inputs, &self.run.inputs_salt));
                let tiles = trees.tiles.get(place)?;
                opener(self.run.inputs_salt, None, tiles, &trees.levels, place)
            }
            Place::Constant(place) => {
                let first = self.program().value_of_constant(0).number;
                let constants = self.model.constants().iter();
                let trees =
                    self.constants.get_or_init(|| Trees::over(first, constants, &Salt::NONE));
                opener(Salt::NONE, None, trees.tiles.get(place)?, &trees.levels, place)
            }
            Place::Operation(place) => {
                let Published { mark, levels } = &self.published;
                let tiles = self.trace.tiles(place)?;
                opener(*self.trace.salt(), Some(*mark), tiles, levels, place)
            }
        })
    }

    fn output_values(&self) -> impl Iterator<Item = &'a Tensor> {
        self.program().outputs().iter().filter_map(|output| self.tensor(output.value))
    }
}

/// What all openings of one value have in common.
struct Opener<'a> {
    value: ValueId,
    tensor: &'a Tensor,
    salt: Salt,
    mark: Option<Hash32>,
    /// The levels over the value's tiles.
    tiles: Vec<Vec<Hash32>>,
    book_path: Vec<Hash32>,
}

impl Opener<'_> {
    fn open(&self, tile: u32) -> Option<Opening> {
        let index = tile as usize;
        if index >= self.tiles.first()?.len() {
            return None;
        }
        let mut bytes = Vec::new();
        self.tensor.append_bytes(index * TILE..(index + 1) * TILE, &mut bytes);
        let proof = TileProof {
            tile,
            salt: self.salt.of_tile(self.value.number, tile),
            bytes: Bytes::new(bytes).ok()?,
            tile_path: List::new(path(&self.tiles, index)).ok()?,
            book_path: List::new(self.book_path.clone()).ok()?,
        };
        Some(Opening { value: self.value, mark: self.mark, proof })
    }
}
