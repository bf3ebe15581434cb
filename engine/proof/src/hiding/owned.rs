//! What is committed before a proof, by whoever it belongs to: inputs, weights, outputs.
//!
//! Inputs and outputs are committed for one proof. Weights are committed once for many, so their
//! stack has more noise, and it is *turned*: the library cuts a message into 2^fold parts and makes
//! a word of each, so that a run of cells would lie in one of them only. Turned, the cells of a run
//! are dealt out to all parts in turn, and noise at the end of the stack is noise at the end of
//! every part, where it hides rows of the code ([`super::stack::Stack::of_weights`]).

use super::pcs::{HiddenKept, HiddenOpening, HidingPcs};
use super::seed::{Purpose, Seed, Stream};
use super::setup::{HidingSetup, noise};
use super::stack::{Piece, Stack};
use super::statement::HidingRoot;
use crate::error::VerifyError;
use crate::field::{EF, F};
use crate::pcs::{Root, Sponge};
use crate::plan::{Column, Role, Tree};
use crate::statement::check_all;
use crate::witness::{numbers, spread_out};
use rand::rngs::StdRng;
use tg_tensor::program::Spec;
use tg_tensor::{Model, Tensor};
use tg_types::{Hash32, SecretWeights};

/// A commitment to weights that hides them from whoever does not have them, for a number of proofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HiddenWeights {
    pub(crate) root: HidingRoot,
    pub(crate) openings: u16,
}

impl HiddenWeights {
    /// How many proofs may be made about it, the registration included. None for weights that are
    /// no secret: then there is no limit, and whoever has them can make the same commitment.
    #[must_use]
    pub fn openings(&self) -> u16 {
        self.openings
    }

    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 34] {
        let mut bytes = [0; 34];
        bytes[..32].copy_from_slice(&self.root.to_bytes());
        bytes[32..].copy_from_slice(&self.openings.to_be_bytes());
        bytes
    }

    /// Reads a commitment; `None` if it does not consist of elements of the field.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 34]) -> Option<Self> {
        let (root, rest) = bytes.split_first_chunk::<32>()?;
        let openings = u16::from_be_bytes(*rest.first_chunk()?);
        Some(Self { root: HidingRoot::from_bytes(root)?, openings })
    }

    /// The 32 bytes that stand for it.
    #[must_use]
    pub fn id(&self) -> Hash32 {
        self.named().id()
    }

    /// As the ledger names and counts it.
    #[must_use]
    pub fn named(&self) -> SecretWeights {
        SecretWeights { root: Hash32::new(self.root.to_bytes()), proofs: self.openings }
    }

    /// The commitment with this name; `None` if it does not consist of elements of the field.
    #[must_use]
    pub fn of_named(named: &SecretWeights) -> Option<Self> {
        let root = HidingRoot::from_bytes(named.root.as_bytes())?;
        Some(Self { root, openings: named.proofs })
    }
}

/// What makes a commitment to weights, and counts the proofs about it.
#[derive(Debug)]
pub struct WeightsKey {
    pub(crate) seed: Seed,
    pub(crate) openings: u16,
    pub(crate) used: u16,
}

impl WeightsKey {
    /// For secret weights: a seed that only their owner and the prover have, how many proofs may be
    /// made, and how many were made before, the registration included. Whoever keeps the seed keeps
    /// that number with it: one proof too many may show something of the weights.
    #[must_use]
    pub fn new(seed: Seed, openings: u16, used: u16) -> Self {
        Self { seed, openings: openings.max(1), used }
    }

    /// For weights that everybody may have: anyone can make the commitment, and it hides nothing.
    #[must_use]
    pub fn known() -> Self {
        Self { seed: Seed::new([0; 32]), openings: 0, used: 0 }
    }
}

/// A commitment with what is needed to open it.
pub(crate) struct Sealed {
    pub(crate) root: Root,
    pub(crate) kept: HiddenKept,
}

/// A stack that is committed before, and the parameters of its commitment.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) tree: Tree,
    pub(crate) stack: Stack,
    pub(crate) pcs: HidingPcs,
}

impl Owned {
    /// What it holds.
    pub(crate) fn name(&self) -> &'static str {
        match self.tree {
            Tree::Inputs => "inputs",
            Tree::Outputs => "outputs",
            Tree::Weights | Tree::Small => "weights",
            Tree::Run | Tree::Rest => "values",
        }
    }

    fn is_turned(&self) -> bool {
        self.tree == Tree::Weights
    }

    /// Commits to numbers of columns and noise.
    fn commit(
        &self,
        setup: &HidingSetup,
        seed: &Seed,
        numbers: impl Fn(&Column) -> Vec<i32>,
    ) -> Sealed {
        let mut rng = seed.generator(Stream::Noise, 0);
        let cells = self.stack.fill(|piece, len| match piece {
            Piece::Column(column) => {
                let column = &setup.plan.columns[column.0];
                spread_out(&column.layout, &numbers(column))
            }
            Piece::Pads(_) | Piece::Mask(_) | Piece::Blind(_) | Piece::Noise => {
                noise(&mut rng, len)
            }
        });
        self.commit_cells(cells, seed.generator(Stream::Commitment, 0))
    }

    /// Commits to all cells of the stack.
    pub(crate) fn commit_cells(&self, cells: Vec<F>, rng: StdRng) -> Sealed {
        let cells = if self.is_turned() { turned(&cells, self.pcs.fold()) } else { cells };
        let (root, kept) = self.pcs.commit(cells, rng);
        Sealed { root, kept }
    }

    /// All cells of the stack.
    pub(crate) fn cells(&self, sealed: &Sealed) -> Vec<F> {
        let cells = sealed.kept.message.as_slice();
        if self.is_turned() {
            turned(cells, self.pcs.bits() - self.pcs.fold())
        } else {
            cells.to_vec()
        }
    }

    fn point(&self, mut point: Vec<EF>) -> Vec<EF> {
        if self.is_turned() {
            point.rotate_right(self.pcs.fold());
        }
        point
    }

    /// Opens at a point. The generator must be fresh.
    pub(crate) fn open(
        &self,
        sealed: Sealed,
        point: Vec<EF>,
        rng: StdRng,
        sponge: &mut Sponge,
    ) -> HiddenOpening {
        let Sealed { root, kept } = sealed;
        self.pcs.open(&root, kept, vec![self.point(point)], rng, sponge)
    }

    /// The value at a point, if the opening holds.
    pub(crate) fn verify(
        &self,
        root: &Root,
        opening: &HiddenOpening,
        point: Vec<EF>,
        sponge: &mut Sponge,
    ) -> Option<EF> {
        let values = self.pcs.verify(root, opening, vec![self.point(point)], sponge)?;
        let [value] = values[..] else { return None };
        Some(value)
    }
}

/// The cells with the last `bits` bits of their numbers moved to the front.
fn turned(cells: &[F], bits: usize) -> Vec<F> {
    let rest = cells.len().trailing_zeros() as usize - bits;
    let from = |to: usize| (to << bits | to >> rest) & (cells.len() - 1);
    (0..cells.len()).map(|to| cells[from(to)]).collect()
}

impl HidingSetup {
    /// Commits to the inputs of all inferences; `None` if they are shown.
    pub(crate) fn seal_inputs(
        &self,
        inputs: &[Vec<Tensor>],
        seed: &Seed,
    ) -> Result<Option<Sealed>, VerifyError> {
        let all = self.plan.program.inputs().iter();
        let specs: Vec<Spec> = all.map(|input| input.spec).collect();
        self.seal(Tree::Inputs, inputs, "input", &specs, seed)
    }

    /// Commits to the outputs of all inferences; `None` if they are shown.
    pub(crate) fn seal_outputs(
        &self,
        outputs: &[Vec<Tensor>],
        seed: &Seed,
    ) -> Result<Option<Sealed>, VerifyError> {
        let program = &self.plan.program;
        // Outputs that name one value have one column: all of them must be what it holds.
        for (inference, made) in outputs.iter().enumerate() {
            for (index, output) in program.outputs().iter().enumerate() {
                let first = program.outputs().iter().position(|it| it.value == output.value);
                if made.get(index) != first.and_then(|first| made.get(first)) {
                    return Err(VerifyError::Output { inference, index });
                }
            }
        }
        let values = program.outputs().iter().map(|output| output.value.index());
        let specs: Vec<Spec> = values.map(|value| program.specs()[value]).collect();
        self.seal(Tree::Outputs, outputs, "output", &specs, seed)
    }

    fn seal(
        &self,
        tree: Tree,
        tensors: &[Vec<Tensor>],
        what: &'static str,
        specs: &[Spec],
        seed: &Seed,
    ) -> Result<Option<Sealed>, VerifyError> {
        let (found, expected) = (tensors.len(), self.plan.batch);
        if found != expected {
            return Err(VerifyError::Batch { found, expected });
        }
        let mut bytes = Vec::new();
        for (inference, tensors) in tensors.iter().enumerate() {
            check_all(inference, what, tensors, specs)?;
            for tensor in tensors {
                tensor.append_bytes(0..tensor.len(), &mut bytes);
            }
        }
        let Some(owned) = self.owned(tree) else { return Ok(None) };
        let place = |column: &Column| match column.role {
            Role::Input(input) => Some(input),
            Role::Value(operation) => {
                let value = self.plan.value_of(operation);
                self.plan.program.outputs().iter().position(|output| output.value == value)
            }
            Role::Limb(..)
            | Role::Multiplicity(_)
            | Role::Constant(_)
            | Role::Range(..)
            | Role::Filler => None,
        };
        let all = |column: &Column| {
            let place = place(column);
            let tensors = tensors.iter().filter_map(|tensors| tensors.get(place?));
            tensors.flat_map(numbers).collect()
        };
        let purpose = if tree == Tree::Inputs { Purpose::Inputs } else { Purpose::Outputs };
        // A root is good for one proof, so no other program or batch may give the same.
        let batch = (expected as u64).to_be_bytes();
        let seed = seed.bound(purpose, &[self.program().as_bytes(), &batch, &bytes]);
        Ok(Some(owned.commit(self, &seed, all)))
    }

    /// Commits to a model's weights; `None` if the verifier has them.
    pub(crate) fn seal_weights(&self, model: &Model, key: &WeightsKey) -> Option<Sealed> {
        let owned = self.owned(Tree::Weights)?;
        let of = |column: &Column| match column.role {
            Role::Constant(constant) => numbers(&model.constants()[constant]).collect(),
            Role::Value(_)
            | Role::Input(_)
            | Role::Limb(..)
            | Role::Multiplicity(_)
            | Role::Range(..)
            | Role::Filler => Vec::new(),
        };
        let mut data = Vec::new();
        for tensor in model.constants() {
            tensor.append_bytes(0..tensor.len(), &mut data);
        }
        let seed = key.seed.bound(Purpose::Weights, &[&key.openings.to_be_bytes(), &data]);
        Some(owned.commit(self, &seed, of))
    }
}
