//! What is proven, derived by prover and verifier alike from the program, the number of inferences
//! and whether the weights are secret.
//!
//! The plan lists where every value lives, which columns are committed, which look-ups are made,
//! which products are summed and where columns are opened. A proof carries no size that the plan
//! does not fix, so a verifier never works on an announcement.
//!
//! # Why a value is right
//! By induction over the operations, every value that is read lies in its stated range: inputs and
//! outputs are checked by the verifier itself, hidden inputs are looked up in theirs, the result of
//! a rescale or table stands in a table of numbers of the range, a maximum is one of the numbers
//! that it is the maximum of, and a moved value is its source. So every accumulator is an integer
//! within the bound that the program's checks admit, at most (p - 1) / 2 in magnitude, and equals
//! the element that stands for it.
//!
//! # Padding
//! Sides are padded to powers of two. Cells that stand for nothing are never looked up (their
//! numerator is 0, and numerators are public), carry no weight in any functional, and accumulators
//! are 0 there by definition. What a prover writes into them changes nothing.

mod build;
mod choose;
mod form;
mod layout;
mod limits;
mod normalise;
mod open;
mod pieces;
mod pinned;
mod rescale;
mod steps;
mod table;
mod width;

pub(crate) use build::{Hidden, build_pinned};
pub(crate) use form::{Form, Placed, Source, Spread, Term};
pub(crate) use layout::Layout;
pub use limits::{BATCH_MAX, PlanError};
pub(crate) use limits::{PLANNING_STEPS_MAX, Sizes};
pub(crate) use normalise::Normal;
#[cfg(test)]
pub(crate) use pieces::CUTS_MAX;
pub(crate) use pieces::Piece;
pub(crate) use pinned::{Pins, Wide};
pub(crate) use rescale::{Axis, Clamping, Top, half, limb_widths};
pub(crate) use steps::steps;
pub(crate) use table::{Table, Values};
pub(crate) use width::build;

use crate::claims::Challenges;
use crate::field::{EF, F};
use crate::pcs::{FOLD, Request, Shape};
use std::collections::BTreeMap;
use std::sync::Arc;
use tg_tensor::program::{Primitive, Program, Rescale, ValueId, Window};

/// The number of a committed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ColumnId(pub(crate) usize);

/// Where a value's numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// An input of the statement.
    Input(usize),
    /// A constant that the verifier has.
    Constant(usize),
    /// An output of the statement.
    Output(usize),
    /// A committed column.
    Column(ColumnId),
    /// Nowhere: its readers read the sources of a move.
    Moved(usize),
    /// Not needed for any output.
    Dead,
}

/// Which commitment a column belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    /// That of this proof.
    Run,
    /// A second one of this proof, for what would make the first much larger than it is. Its
    /// columns are those of [`Self::Run`].
    Rest,
    /// That of the model's weights.
    Weights,
    /// That of small weights, where all together would just not fit into a power of two.
    Small,
    /// That of hidden inputs, made by their owner.
    Inputs,
    /// That of hidden outputs, made for whoever is to get them.
    Outputs,
}

impl Tree {
    /// All of them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Run, Self::Rest, Self::Weights, Self::Small, Self::Inputs, Self::Outputs];
    /// Those of secret weights.
    pub(crate) const SECRET: [Self; 2] = [Self::Weights, Self::Small];

    /// The one that columns name whose cells lie in this one.
    pub(crate) fn named_by_columns(self) -> Self {
        if self == Self::Rest { Self::Run } else { self }
    }

    /// Whether its columns are the same for all inferences.
    pub(crate) fn is_of_weights(self) -> bool {
        Self::SECRET.contains(&self)
    }
}

/// What stands in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The elements of an operation's value.
    Value(usize),
    /// A limb of what an operation's rescale drops.
    Limb(usize, usize),
    /// How often each entry of a table is looked up.
    Multiplicity(usize),
    /// The elements of a constant.
    Constant(usize),
    /// The elements of a hidden input.
    Input(usize),
    /// A limb of what a constant is above the smallest, or below the largest, that it may be.
    Range(usize, usize),
    /// Nothing; there would be too few cells for a commitment.
    Filler,
}

/// A committed column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) tree: Tree,
    /// Its bundle of columns with the same layout, and its place there.
    pub(crate) bundle: usize,
    pub(crate) place: usize,
    pub(crate) layout: Layout,
    pub(crate) role: Role,
}

/// Look-ups of all elements of one operation in one table.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) layout: Layout,
    pub(crate) table: usize,
    pub(crate) key: Form,
    /// What must stand beside the key.
    pub(crate) values: [Form; 2],
    /// Which number the prover looks up: see [`Lookup`].
    pub(crate) what: Lookup,
    /// The first leaf.
    pub(crate) leaf: usize,
}

impl Group {
    /// Key and values.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &Form> {
        std::iter::once(&self.key).chain(&self.values)
    }
}

/// Which number of an operation is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A committed limb.
    Limb(usize, usize),
    /// The top limb of an operation's accumulator, which is not committed.
    Top(usize),
    /// The rounded accumulator, with the operation's element.
    Clamp(usize),
    /// The block of the rounded accumulator, with its flag and first number.
    Block(usize),
    /// An element of what a table reads, with the operation's element.
    Entry(usize),
    /// By how much a maximum, by its place among the products, exceeds a tap.
    Excess(usize, usize),
    /// What key and values are made of, which are no accumulators.
    Formed(usize),
    /// A difference that must be nothing.
    Zero(usize),
    /// The place of a row's element, with the operation's element.
    Row(usize),
    /// The place of the largest candidate.
    Place(usize),
    /// The largest candidate itself.
    Largest(usize),
    /// A hidden input, or a constant that is registered, counted from the smallest number that it
    /// can be.
    Input(usize),
    /// A limb of how far a constant that is registered is inside of its range.
    Range(usize, usize),
}

/// A sum of products that the first sum-check proves.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub(crate) operation: usize,
    /// Variables of the sum.
    pub(crate) bits: usize,
    pub(crate) kind: ProductKind,
}

/// What is multiplied.
#[derive(Clone, Debug)]
pub(crate) enum ProductKind {
    /// What a linear operation reads with its weights.
    Linear(LinearShape),
    /// The differences of a maximum to each of its taps.
    Max(MaxShape),
    /// Rows of one value with rows of another.
    MatMul(MatMulShape),
    /// Elements of one value with elements of another.
    Elements {
        /// What is added to each side.
        offsets: [i64; 2],
    },
    /// Two numbers of an equation.
    Times(Times),
}

/// A product in an equation.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    pub(crate) equation: usize,
    pub(crate) scale: F,
    /// Their constants count at padding too, where one of both is 0.
    pub(crate) factors: [Form; 2],
}

/// That products and other numbers of each element of an operation, or of its divisor, add up to
/// nothing.
#[derive(Clone, Debug)]
pub(crate) struct Equation {
    pub(crate) layout: Layout,
    /// All but the products.
    pub(crate) rest: Form,
}

/// A maximum of up to four numbers: a step towards one of more, or all of it.
#[derive(Clone, Debug)]
pub(crate) struct MaxShape {
    pub(crate) made: Source,
    pub(crate) taps: Vec<Source>,
}

/// The sides of a product of two values.
#[derive(Clone, Debug)]
pub(crate) struct MatMulShape {
    pub(crate) values: [ValueId; 2],
    pub(crate) offsets: [i64; 2],
    /// Independent products, and what is summed over.
    pub(crate) batch: usize,
    pub(crate) inner: usize,
    /// Rows of each side: of the output, and its columns.
    pub(crate) rows: [usize; 2],
    pub(crate) batch_bits: usize,
    pub(crate) inner_bits: usize,
}

/// The sides of a linear operation's sum: groups, taps, channels of a group.
#[derive(Clone, Debug)]
pub(crate) struct LinearShape {
    pub(crate) x: ValueId,
    pub(crate) weights: ValueId,
    pub(crate) bias: Option<ValueId>,
    pub(crate) window: Window,
    pub(crate) columns: usize,
    pub(crate) groups: usize,
    pub(crate) each: usize,
    pub(crate) pad: i64,
    pub(crate) group_bits: usize,
    pub(crate) tap_bits: usize,
    pub(crate) each_bits: usize,
    /// Whether what is read is opened at one point.
    pub(crate) reads_plainly: bool,
    /// How secret weights are opened.
    pub(crate) secret: Secret,
}

/// How the weights of a product enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Secret {
    /// They do as any value does.
    General,
    /// They are opened at one point.
    Point(ColumnId),
    /// One row of columns is left to the second sum-check, because columns have factors.
    Slice(ColumnId),
}

/// How an operation's accumulators are rounded, and within which bound they lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rescaled {
    pub(crate) rescale: Rescale,
    pub(crate) bound: i64,
    /// The most bits of a limb.
    pub(crate) widest: u8,
    pub(crate) axis: Axis,
    pub(crate) clamping: Clamping,
    /// By how many bits a key that is looked up is finer than the rounded number.
    pub(crate) fine: u8,
}

/// What must be zero, or known, beside the look-ups; each has its own power of a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The accumulators of an output, which the proof carries.
    Clear(usize),
    /// The product of a maximum's differences, by its place among the products.
    Max(usize),
    /// An equation.
    Equation(usize),
    /// An output that is a moved value.
    Copy(usize),
    /// The cells of a column that stand for nothing, which must be 0.
    Padding(ColumnId),
}

/// At which point a column is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum At {
    /// Where the look-ups ended.
    Lookups,
    /// Where a product ended.
    Product(usize),
    /// Where a product ended in the summed sides, and the second sum-check in the others.
    Slice(usize),
    /// Where the second sum-check ended.
    Functional,
    /// Where checks look.
    Checks,
}

/// Columns of one table of a commitment, by its number among the pieces, that are opened at one
/// point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) piece: usize,
    pub(crate) at: At,
    pub(crate) columns: Vec<ColumnId>,
}

/// The plan of a proof.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) program: Arc<Program>,
    pub(crate) batch: usize,
    pub(crate) layouts: Vec<Layout>,
    pub(crate) holders: Vec<Holder>,
    pub(crate) columns: Vec<Column>,
    pub(crate) tables: Vec<Table>,
    /// The column of each table's multiplicities, and its first leaf.
    pub(crate) multiplicities: Vec<(ColumnId, usize)>,
    pub(crate) groups: Vec<Group>,
    pub(crate) leaf_bits: usize,
    pub(crate) products: Vec<Product>,
    pub(crate) equations: Vec<Equation>,
    /// Operations whose accumulators are rounded by look-ups.
    pub(crate) rescales: BTreeMap<usize, Rescaled>,
    /// Divisions.
    pub(crate) normals: BTreeMap<usize, Normal>,
    pub(crate) checks: Vec<Check>,
    /// Constants whose range has too many numbers for a table.
    pub(crate) wides: BTreeMap<usize, Wide>,
    /// The tables of each commitment.
    pub(crate) pieces: [Vec<Piece>; Tree::ALL.len()],
    /// The openings of each commitment.
    pub(crate) opened: [Vec<Opened>; Tree::ALL.len()],
}

impl Plan {
    /// The value of an operation.
    pub(crate) fn value_of(&self, operation: usize) -> ValueId {
        self.program.value_of(operation)
    }

    /// The layout of an operation's value.
    pub(crate) fn layout_of(&self, operation: usize) -> &Layout {
        &self.layouts[self.value_of(operation).index()]
    }

    /// The holder of a value.
    pub(crate) fn holder(&self, value: ValueId) -> Holder {
        self.holders[value.index()]
    }

    /// What an operation does.
    pub(crate) fn primitive(&self, operation: usize) -> &Primitive {
        &self.program.operations()[operation].primitive
    }

    /// Variables of the first sum-check; 0 if there is none.
    pub(crate) fn product_bits(&self) -> usize {
        self.products.iter().map(|product| product.bits).max().unwrap_or(0)
    }

    /// The largest degree of a variable in the first sum-check.
    pub(crate) fn product_degree(&self) -> usize {
        self.products.iter().map(Product::degree).max().unwrap_or(0)
    }

    /// Values that the prover claims at the end of the first sum-check.
    pub(crate) fn claims(&self) -> usize {
        self.products.iter().map(Product::claims).sum()
    }

    /// Columns, or slices of columns, of the second sum-check.
    pub(crate) fn functionals(&self) -> Vec<(ColumnId, At)> {
        // Each column once, with the first of its parts.
        let all = self.opened.iter().zip(&self.pieces).flat_map(|(opened, pieces)| {
            opened.iter().filter(|opened| pieces[opened.piece].cut.is_first())
        });
        let of_second = |opened: &&Opened| match opened.at {
            At::Slice(_) | At::Functional => true,
            At::Lookups | At::Product(_) | At::Checks => false,
        };
        let columns = |opened: &Opened| {
            let at = opened.at;
            opened.columns.iter().map(move |column| (*column, at)).collect::<Vec<_>>()
        };
        all.filter(of_second).flat_map(columns).collect()
    }

    /// Variables of a column, or slice of a column, in the second sum-check.
    pub(crate) fn functional_bits(&self, column: ColumnId, at: At) -> usize {
        let layout = &self.columns[column.0].layout;
        match at {
            At::Slice(_) => layout.side_bits(0),
            At::Lookups | At::Product(_) | At::Functional | At::Checks => layout.bits(),
        }
    }

    /// Leaves of the look-ups up to the last that is used.
    pub(crate) fn leaves_used(&self) -> usize {
        let groups = self.groups.iter().map(|group| group.leaf + (1 << group.layout.bits()));
        let tables = self.tables.iter().zip(&self.multiplicities);
        let tables = tables.map(|(table, (_, leaf))| leaf + (1 << table.bits()));
        groups.chain(tables).max().unwrap_or(0).max(1 << FOLD)
    }

    /// Coordinates of the point of the checks.
    pub(crate) fn check_bits(&self) -> usize {
        let bits = |check: &Check| match *check {
            Check::Clear(operation) | Check::Copy(operation) => self.layout_of(operation).bits(),
            Check::Max(product) => self.products[product].bits,
            Check::Equation(equation) => self.equations[equation].layout.bits(),
            Check::Padding(column) => self.columns[column.0].layout.bits(),
        };
        self.checks.iter().map(bits).max().unwrap_or(0)
    }

    /// Accumulators that the proof carries.
    pub(crate) fn clear_len(&self) -> usize {
        let len = |check: &Check| match *check {
            Check::Clear(operation) => self.batch * self.layout_of(operation).len(),
            Check::Max(_) | Check::Equation(_) | Check::Copy(_) | Check::Padding(_) => 0,
        };
        self.checks.iter().map(len).sum()
    }

    /// The tables of a commitment and their openings.
    pub(crate) fn shapes(&self, tree: Tree) -> Vec<Shape> {
        let shape = |piece: &Piece| Shape {
            bits: piece.bits,
            columns: piece.columns,
            requests: Vec::new(),
        };
        let mut shapes: Vec<Shape> = self.pieces[tree as usize].iter().map(shape).collect();
        for opened in &self.opened[tree as usize] {
            let columns = opened.columns.iter().map(|id| self.columns[id.0].place).collect();
            shapes[opened.piece].requests.push(Request { columns });
        }
        shapes
    }

    /// Where the tables of a commitment are opened, in order, and what the values of each opening
    /// count for.
    pub(crate) fn points(&self, tree: Tree, challenges: &Challenges) -> (Vec<Vec<EF>>, Vec<EF>) {
        let point = |opened: &Opened| {
            let point = self.point(challenges, opened.columns[0], opened.at);
            let cut = &self.pieces[tree as usize][opened.piece].cut;
            (cut.point(&point), cut.weight(&point))
        };
        self.opened[tree as usize].iter().map(point).unzip()
    }
}

impl Product {
    /// Factors of the product.
    pub(crate) fn degree(&self) -> usize {
        match &self.kind {
            ProductKind::Linear(_) | ProductKind::MatMul(_) | ProductKind::Elements { .. } => 2,
            ProductKind::Times(_) => 3,
            ProductKind::Max(shape) => shape.taps.len() + 1,
        }
    }

    /// How many of its claims, or differences of claims, are multiplied.
    pub(crate) fn claims_multiplied(&self) -> usize {
        match &self.kind {
            ProductKind::Linear(_)
            | ProductKind::MatMul(_)
            | ProductKind::Elements { .. }
            | ProductKind::Times(_) => 2,
            ProductKind::Max(shape) => shape.taps.len(),
        }
    }

    /// Values that the prover claims of it: all factors that are not known to both.
    pub(crate) fn claims(&self) -> usize {
        match &self.kind {
            ProductKind::Linear(_)
            | ProductKind::MatMul(_)
            | ProductKind::Elements { .. }
            | ProductKind::Times(_) => 2,
            ProductKind::Max(shape) => shape.taps.len() + 1,
        }
    }
}
