//! What a run leaves behind: the digests of the tiles of every operation's output.
//!
//! Commit coarse, refine on demand: while a program runs, each output is hashed once and nothing
//! else is kept. Whatever is finer (elements, partial sums) is derived on the spot by whoever has
//! the inputs, when somebody asks for it ([`crate::dispute`]). A tile of the trace can be opened
//! ([`Opening`]) and recomputed from the opened tiles that it reads ([`recompute_tile`]); audits of
//! large runs do that for tiles that a lot draws ([`drawn_tiles`], [`TileAudit`]).
//!
//! A trace is salted, and its root holds the mark of the salt, which the job states. So a right run
//! has one trace only; whoever has the salt can recompute every digest, and a tile hashed with
//! another salt than its own is a provable lie instead of a trap for challengers ([`Handover`]).
//! The root is the end of a chain of keys that show who has computed it all ([`TraceSecret`]).

mod audit;
mod lot;
mod opening;
mod shown;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tile_tests;
mod whole;
mod witness;

pub use audit::{
    AuditError, MissingOperand, OpenedTiles, Verdict, judge_output, judge_tile, operand_tiles,
    recompute_tile,
};
pub use lot::{TilePlace, TilePlaces, answer_of, check_answer, drawn_tiles, tile_counts};
pub use opening::{
    BOOK_PATH_MAX, OpenedTile, Opening, OpeningError, OutputOpening, TILE_PATH_MAX, TileProof,
};
pub use shown::{
    SHOWN_SIBLINGS_MAX, SHOWN_TILES_MAX, ShownTile, ShownTiles, TileAudit, TileAuditError,
};
pub use whole::{Knower, check_whole, known_root, whole_answer};
pub use witness::{Run, Witness, WitnessError};

use crate::commit::{
    Book, Salt, TILE, book_root, commit, digest_tiles, top, trace_root, trace_secret, value_root,
};
use crate::program::{Program, ProgramId};
use crate::run::Elements;
use crate::tensor::Tensor;
use tg_types::{Hash32, TraceSecret, wire};

wire! {
    /// What is audited or disputed: a claim that this program with these weights and inputs left
    /// this trace and gave these outputs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Subject {
        /// The program.
        pub program: ProgramId,
        /// The book of its constants, without salt.
        pub weights_root: Hash32,
        /// The book of its inputs, with the salt of their owner.
        pub inputs_root: Hash32,
        /// The trace, with the salt of whoever ran it.
        pub trace_root: Hash32,
        /// The book of its outputs, without salt: the output id.
        pub outputs_root: Hash32,
    }
}

/// The commitment to a run's inputs, with a salt that their owner chose.
#[must_use]
pub fn inputs_root(inputs: &[Tensor], salt: &Salt) -> Hash32 {
    book(Book::Inputs, inputs.iter(), salt)
}

/// The output id: the commitment to a run's outputs, which everybody who has them can recompute.
#[must_use]
pub fn outputs_root<'a>(outputs: impl Iterator<Item = &'a Tensor>) -> Hash32 {
    book(Book::Outputs, outputs, &Salt::NONE)
}

fn book<'a>(book: Book, values: impl Iterator<Item = &'a Tensor>, salt: &Salt) -> Hash32 {
    let commit = |(number, tensor)| commit(tensor, number, salt);
    let roots: Vec<Hash32> = (0_u32..).zip(values).map(commit).collect();
    book_root(book, roots.len() as u32, &top(&roots))
}

wire! {
    /// What the first answer of a dispute tells: with it and the inputs every digest of a trace can
    /// be recomputed.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct Handover {
        /// The secret of the trace's salt; absent if it has none.
        pub secret: Option<[u8; 32]>,
        /// The book of the operations.
        pub operations_root: Hash32,
    }
}

impl std::fmt::Debug for Handover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let root = &self.operations_root;
        f.debug_struct("Handover").field("operations_root", root).finish_non_exhaustive()
    }
}

impl Handover {
    /// The trace's salt.
    #[must_use]
    pub fn salt(&self) -> Salt {
        self.secret.map_or(Salt::NONE, Salt::new)
    }

    /// Whether this belongs to a trace. Who has it can prove every lie in the trace.
    #[must_use]
    pub fn explains(&self, root: &Hash32) -> bool {
        trace_root(&self.salt().mark(), &self.operations_root) == *root
    }
}

/// The digests of the tiles of every operation's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    salt: Salt,
    /// Where the tiles of each operation start, and where those of the last end.
    starts: Vec<usize>,
    digests: Vec<Hash32>,
    roots: Vec<Hash32>,
}

/// Why elements are not part of a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The program has no such operation.
    #[error("operation {operation} does not exist, the program has {operations}")]
    Operation {
        /// Which.
        operation: usize,
        /// How many there are.
        operations: usize,
    },
    /// Not as many elements, or not as wide, as the program says.
    #[error(
        "operation {operation} gave {found} elements of {bytes} bytes, \
         expected {expected} of {bytes_expected}"
    )]
    Elements {
        /// Which operation.
        operation: usize,
        /// How many are given.
        found: usize,
        /// Bytes per element given.
        bytes: usize,
        /// How many the program says.
        expected: usize,
        /// Bytes per element that the program says.
        bytes_expected: usize,
    },
    /// An operation's output was never given.
    #[error("output of operation {operation} is missing")]
    Missing {
        /// Which.
        operation: usize,
    },
}

impl Trace {
    /// The trace of operations' outputs that were all kept.
    pub fn of(program: &Program, salt: Salt, outputs: &[Tensor]) -> Result<Self, TraceError> {
        let mut builder = TraceBuilder::new(program, salt);
        for (index, output) in outputs.iter().enumerate() {
            builder.operation(index, output.into())?;
        }
        builder.finish()
    }

    /// The root: what is published.
    #[must_use]
    pub fn root(&self) -> Hash32 {
        self.secret().root()
    }

    /// What only those know who have computed the run.
    #[must_use]
    pub fn secret(&self) -> TraceSecret {
        trace_secret(&self.salt.mark(), &self.operations_root())
    }

    /// The book of the operations.
    #[must_use]
    pub fn operations_root(&self) -> Hash32 {
        book_root(Book::Operations, self.roots.len() as u32, &top(&self.roots))
    }

    /// What explains the trace to whoever disputes it.
    #[must_use]
    pub fn handover(&self) -> Handover {
        let secret = self.salt.secret().copied();
        Handover { secret, operations_root: self.operations_root() }
    }

    /// The salt.
    #[must_use]
    pub const fn salt(&self) -> &Salt {
        &self.salt
    }

    /// The same tree over other leaves: what becomes of the digest of each tile.
    fn mapped(
        &self,
        program: &Program,
        leaf: impl Fn(&Hash32) -> Hash32,
    ) -> Result<Self, TraceError> {
        let operations = program.operations().len();
        let digests: Vec<Hash32> = self.digests.iter().map(leaf).collect();
        let mut mapped = Self { digests, roots: Vec::with_capacity(operations), ..self.clone() };
        for (operation, stated) in program.operations().iter().enumerate() {
            let tiles = mapped.tiles(operation);
            let tiles = tiles.ok_or(TraceError::Operation { operation, operations })?;
            let root = value_root(stated.spec.len, stated.spec.width(), &top(tiles));
            mapped.roots.push(root);
        }
        Ok(mapped)
    }

    /// The roots of the operations' outputs, in order.
    #[must_use]
    pub fn value_roots(&self) -> &[Hash32] {
        &self.roots
    }

    /// The root of one operation's output.
    #[must_use]
    pub fn value_root(&self, operation: usize) -> Option<Hash32> {
        self.roots.get(operation).copied()
    }

    /// The digests of the tiles of one operation's output.
    #[must_use]
    pub fn tiles(&self, operation: usize) -> Option<&[Hash32]> {
        let (start, end) = (self.starts.get(operation)?, self.starts.get(operation + 1)?);
        self.digests.get(*start..*end)
    }
}

/// Hashes operations' outputs while a program runs.
#[derive(Debug)]
pub struct TraceBuilder<'a> {
    program: &'a Program,
    salt: Salt,
    starts: Vec<usize>,
    digests: Vec<Hash32>,
    roots: Vec<Option<Hash32>>,
}

impl<'a> TraceBuilder<'a> {
    /// Starts a trace. A salt is used for one run only.
    #[must_use]
    pub fn new(program: &'a Program, salt: Salt) -> Self {
        let operations = program.operations();
        let mut starts = Vec::with_capacity(operations.len() + 1);
        let mut total = 0;
        starts.push(total);
        for operation in operations {
            total += operation.spec.elements().div_ceil(TILE);
            starts.push(total);
        }
        let digests = vec![Hash32::new([0; 32]); total];
        Self { program, salt, starts, digests, roots: vec![None; operations.len()] }
    }

    /// Takes the output of an operation, straight from where it lies. The order is free.
    pub fn operation(&mut self, index: usize, elements: Elements<'_>) -> Result<(), TraceError> {
        let operations = self.roots.len();
        let missing = TraceError::Operation { operation: index, operations };
        let spec = self.program.operations().get(index).ok_or(missing.clone())?.spec;
        if (elements.len(), elements.width()) != (spec.elements(), spec.width()) {
            return Err(TraceError::Elements {
                operation: index,
                found: elements.len(),
                bytes: elements.width().bytes(),
                expected: spec.elements(),
                bytes_expected: spec.width().bytes(),
            });
        }
        let ends = (self.starts.get(index), self.starts.get(index + 1));
        let (Some(start), Some(end), Some(root)) = (ends.0, ends.1, self.roots.get_mut(index))
        else {
            return Err(missing);
        };
        let digests = self.digests.get_mut(*start..*end).ok_or(missing)?;
        digest_tiles(elements, self.program.value_of(index).number, &self.salt, digests);
        *root = Some(value_root(spec.len, spec.width(), &top(digests)));
        Ok(())
    }

    /// The trace, if every operation's output was taken.
    pub fn finish(self) -> Result<Trace, TraceError> {
        let mut roots = Vec::with_capacity(self.roots.len());
        for (operation, root) in self.roots.iter().enumerate() {
            roots.push(root.ok_or(TraceError::Missing { operation })?);
        }
        Ok(Trace { salt: self.salt, starts: self.starts, digests: self.digests, roots })
    }
}
