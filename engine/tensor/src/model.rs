//! A program with its weights.
//!
//! Whoever has the weights recomputes the bounds that the program states, so a model that exists
//! cannot overflow on any input.

use crate::commit::{Book, Salt, book_root, commit, top};
use crate::program::{
    MAGNITUDE_MAX, Operation, Primitive, Program, ProgramError, ProgramId, ValueId,
};
use crate::tensor::{Tensor, TensorError};
use tg_types::Hash32;
use tg_types::codec::{DecodeError, Encode, Reader};
use tg_types::hash::{Tag, tagged};

/// The first bytes of a model file.
pub const MAGIC: [u8; 4] = *b"TGP1";

const WEIGHTS_TAG: Tag = Tag::new("tensorgrid/weights");

/// The id of a model's weights.
pub type WeightsId = Hash32;

/// A program with its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    program: Program,
    constants: Vec<Tensor>,
}

/// Why something is no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The bytes do not start like a model file.
    #[error("not a model file: expected it to start with {:?}", std::str::from_utf8(&MAGIC))]
    Magic,
    /// The bytes are not of the canonical form.
    #[error("model cannot be read")]
    Decode(#[from] DecodeError),
    /// Its program is none.
    #[error("model's program is refused")]
    Program(#[from] ProgramError),
    /// Too many or too few constants.
    #[error("{found} constants given, {expected} needed")]
    Constants {
        /// How many are given.
        found: usize,
        /// How many are needed.
        expected: usize,
    },
    /// A constant does not fit the program.
    #[error("constant {index} ({label})")]
    Constant {
        /// Which.
        index: usize,
        /// Its name.
        label: String,
        /// What is wrong with it.
        source: TensorError,
    },
    /// A stated bound is not that of the weights.
    #[error("operation {index} ({label}) states the bound {stated}, its weights give {found}")]
    Bound {
        /// Which operation.
        index: usize,
        /// Its name.
        label: String,
        /// What the program states.
        stated: u32,
        /// What the weights give.
        found: u64,
    },
}

impl Model {
    /// Puts a program and its constants together, in the order of the program.
    pub fn new(program: Program, constants: Vec<Tensor>) -> Result<Self, ModelError> {
        let expected = program.constants().len();
        if constants.len() != expected {
            return Err(ModelError::Constants { found: constants.len(), expected });
        }
        for (index, (stated, given)) in program.constants().iter().zip(&constants).enumerate() {
            given.check(&stated.spec).map_err(|source| {
                let label = stated.label.as_str().to_owned();
                ModelError::Constant { index, label, source }
            })?;
        }
        let model = Self { program, constants };
        model.check_bounds()?;
        Ok(model)
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The constants, in the order of the program.
    #[must_use]
    pub fn constants(&self) -> &[Tensor] {
        &self.constants
    }

    /// The constant that a value is; `None` if it is none.
    #[must_use]
    pub fn constant(&self, value: ValueId) -> Option<&Tensor> {
        self.constants.get(value.index().checked_sub(self.program.inputs().len())?)
    }

    /// The id of the program.
    #[must_use]
    pub fn id(&self) -> ProgramId {
        self.program.id()
    }

    /// The roots of the constants, in order.
    #[must_use]
    pub fn constant_roots(&self) -> Vec<Hash32> {
        let number = |index: usize| self.program.value_of_constant(index).number;
        let roots = self.constants.iter().enumerate();
        roots.map(|(index, tensor)| commit(tensor, number(index), &Salt::NONE)).collect()
    }

    /// The root of all constants.
    #[must_use]
    pub fn weights_root(&self) -> Hash32 {
        let roots = self.constant_roots();
        book_root(Book::Constants, roots.len() as u32, &top(&roots))
    }

    /// The id of the weights: the root of their tiles and that of their polynomial commitment,
    /// which is zero as long as they have none.
    #[must_use]
    pub fn weights_id(&self) -> WeightsId {
        let uncommitted = [0_u8; 32];
        tagged(WEIGHTS_TAG, &[self.weights_root().as_bytes(), &uncommitted])
    }

    /// The bytes of a model file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        self.program.encode(&mut out);
        for constant in &self.constants {
            constant.append_bytes(0..constant.len(), &mut out);
        }
        out
    }

    /// Reads a model file. Nothing larger than the file is reserved.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        let mut reader = Reader::new(bytes);
        if reader.array::<4>() != Ok(MAGIC) {
            return Err(ModelError::Magic);
        }
        let program = Program::read(&mut reader)?;
        let mut constants = Vec::new();
        for (index, constant) in program.constants().iter().enumerate() {
            let spec = &constant.spec;
            let bytes = reader.take(spec.elements() * spec.width().bytes())?;
            let tensor = Tensor::from_bytes(spec, bytes).map_err(|source| {
                let label = constant.label.as_str().to_owned();
                ModelError::Constant { index, label, source }
            })?;
            constants.push(tensor);
        }
        reader.finish()?;
        Self::new(program, constants)
    }

    /// The largest magnitude of an accumulator of a linear operation, from its weights: the largest
    /// input times the sum of a column's magnitudes, plus its bias.
    #[must_use]
    pub fn linear_bound(&self, operation: &Operation) -> Option<u64> {
        let Primitive::Linear { x, weights, bias, columns, pad, .. } = &operation.primitive else {
            return None;
        };
        let largest = self.program.spec(*x)?.magnitude().max(i64::from(*pad).abs()).unsigned_abs();
        let weights = self.constant(*weights)?;
        let bias = bias.and_then(|bias| self.constant(bias));
        let terms = weights.len() / *columns as usize;
        let column = |column: usize| {
            let range = column * terms..(column + 1) * terms;
            let sum: u64 =
                range.map(|index| u64::from(weights.get(index).unwrap_or(0).unsigned_abs())).sum();
            let bias = bias.and_then(|bias| bias.get(column)).unwrap_or(0);
            largest * sum + u64::from(bias.unsigned_abs())
        };
        (0..*columns as usize).map(column).max()
    }

    fn check_bounds(&self) -> Result<(), ModelError> {
        for (index, operation) in self.program.operations().iter().enumerate() {
            let Primitive::Linear { bound, .. } = &operation.primitive else { continue };
            let found = self.linear_bound(operation).unwrap_or(u64::MAX);
            if found != u64::from(*bound) || found > MAGNITUDE_MAX.unsigned_abs() {
                let label = operation.label.as_str().to_owned();
                return Err(ModelError::Bound { index, label, stated: *bound, found });
            }
        }
        Ok(())
    }
}
