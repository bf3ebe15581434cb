//! Builds the plan: one pass over the operations that outputs depend on.

use super::layout::layouts;
use super::limits::{CLEAR_MAX, LEAF_BITS_MAX, LIMB_BITS_MAX, PlanError, Sizes, TABLES_MAX};
use super::pieces::{stack_cells, stacked};
use super::rescale::{Axis, ClampTable, Reach};
use super::{
    Check, Column, ColumnId, Equation, Form, Group, Holder, Layout, LinearShape, Lookup, Normal,
    Piece, Pins, Plan, Product, ProductKind, Rescaled, Role, Secret, Source, Table, Times, Tree,
    Wide,
};
use crate::field::{F, bits_of};
use crate::pcs::{FOLD, STACK_BITS_MAX, STACK_BITS_MIN};
use std::collections::BTreeMap;
use std::sync::Arc;
use tg_tensor::Tensor;
use tg_tensor::program::{
    JoinTerm, Multipliers, Operation, Place, Primitive, Program, Rescale, Spec, ValueId, Window,
};

/// What a proof does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// All numbers between inputs and outputs: no accumulator is shown.
    pub(crate) run: bool,
    /// The inputs, which are committed.
    pub(crate) inputs: bool,
    /// The outputs, which are committed.
    pub(crate) outputs: bool,
}

/// The plan of a proof whose limbs have at most `widest` bits.
pub(super) fn with_limbs(
    program: Arc<Program>,
    batch: usize,
    constants: Option<&[Tensor]>,
    hidden: Hidden,
    widest: u8,
    sizes: &Sizes<'_>,
) -> Result<Plan, PlanError> {
    let mut builder = Builder::new(program, batch, constants, hidden, None)?;
    (builder.widest, builder.divided_bits) = (widest, sizes.divided_bits);
    plan(builder)
}

/// The plan of a proof about constants that lie in their commitment as the pins say.
pub(crate) fn build_pinned(
    program: Arc<Program>,
    pins: Pins,
    hidden: Hidden,
) -> Result<Plan, PlanError> {
    plan(Builder::new(program, 1, None, hidden, Some(pins))?)
}

fn plan(mut builder: Builder) -> Result<Plan, PlanError> {
    for operation in 0..builder.program.operations().len() {
        if builder.holders[builder.program.value_of(operation).index()] != Holder::Dead {
            builder.operation(operation)?;
            let (entries, most) = (builder.entries, TABLES_MAX);
            if entries > most {
                return Err(PlanError::Tables { operation, entries, most });
            }
        }
    }
    builder.finish()
}

/// A plan that grows.
pub(super) struct Builder {
    pub(super) program: Arc<Program>,
    /// The constants, if the verifier has them.
    pub(super) constants: Vec<Tensor>,
    pub(super) batch: usize,
    /// The most bits of a limb.
    pub(super) widest: u8,
    /// log2 of the cells of the smallest stack that is divided.
    pub(super) divided_bits: usize,
    pub(super) secret: bool,
    pub(super) hidden: Hidden,
    pub(super) pins: Option<Pins>,
    pub(super) layouts: Vec<Layout>,
    pub(super) holders: Vec<Holder>,
    pub(super) columns: Vec<Column>,
    /// Secret constants of fewer variables have a commitment of their own.
    small_bits: usize,
    /// Bundles of each commitment.
    bundles: [usize; Tree::ALL.len()],
    /// The first output that is each value.
    outputs: BTreeMap<ValueId, usize>,
    pub(super) tables: Vec<Table>,
    /// Where tables are that are asked for again, but for those that clamp.
    places: BTreeMap<Table, usize>,
    /// Entries of tables that were asked for.
    entries: u64,
    /// Tables that clamp, by what they have in common if they can be shared: range and finer bits.
    pub(super) clamps: BTreeMap<(i64, i64, u8), Vec<ClampTable>>,
    pub(super) groups: Vec<Group>,
    pub(super) products: Vec<Product>,
    pub(super) equations: Vec<Equation>,
    pub(super) rescales: BTreeMap<usize, Rescaled>,
    pub(super) normals: BTreeMap<usize, Normal>,
    pub(super) checks: Vec<Check>,
    pub(super) wides: BTreeMap<usize, Wide>,
}

impl Builder {
    fn new(
        program: Arc<Program>,
        batch: usize,
        constants: Option<&[Tensor]>,
        hidden: Hidden,
        pins: Option<Pins>,
    ) -> Result<Self, PlanError> {
        let mut layouts = layouts(&program, batch);
        for (index, layout) in pins.iter().flat_map(|pins| &pins.layouts).enumerate() {
            layouts[program.value_of_constant(index).index()] = layout.clone();
        }
        let mut builder = Self {
            holders: vec![Holder::Dead; layouts.len()],
            program,
            constants: constants.unwrap_or_default().to_vec(),
            batch,
            widest: LIMB_BITS_MAX,
            divided_bits: Sizes::USUAL.divided_bits,
            secret: constants.is_none(),
            hidden,
            pins,
            layouts,
            columns: Vec::new(),
            small_bits: 0,
            bundles: [0; Tree::ALL.len()],
            outputs: BTreeMap::new(),
            tables: Vec::new(),
            places: BTreeMap::new(),
            entries: 0,
            clamps: BTreeMap::new(),
            groups: Vec::new(),
            products: Vec::new(),
            equations: Vec::new(),
            rescales: BTreeMap::new(),
            normals: BTreeMap::new(),
            checks: Vec::new(),
            wides: BTreeMap::new(),
        };
        builder.hold()?;
        Ok(builder)
    }

    /// Decides where every value lives, from the outputs backwards.
    fn hold(&mut self) -> Result<(), PlanError> {
        let program = self.program.clone();
        self.check_outputs()?;
        for (index, output) in program.outputs().iter().enumerate() {
            self.outputs.entry(output.value).or_insert(index);
        }
        let mut needed = super::pinned::needed(&program);
        for (index, pinned) in self.pins.iter().flat_map(|pins| &pins.needed).enumerate() {
            needed[program.value_of_constant(index).index()] = *pinned;
        }
        self.small_bits = self.small_bits(&needed);
        for (index, _) in needed.iter().enumerate().filter(|(_, needed)| **needed) {
            let value = ValueId { number: index as u32 };
            let output = self.outputs.get(&value).copied();
            self.holders[index] = match (program.place(value), output) {
                (Some(Place::Input(input)), _) if self.hidden.inputs => {
                    Holder::Column(self.hidden_input(value, input)?)
                }
                (Some(Place::Input(input)), _) => Holder::Input(input),
                (Some(Place::Constant(constant)), _) if self.secret => {
                    let column = self.secret_column(value, constant);
                    self.pin(constant, column)?;
                    Holder::Column(column)
                }
                (Some(Place::Constant(constant)), _) => Holder::Constant(constant),
                (_, Some(output)) if !self.hidden.outputs => Holder::Output(output),
                // Those that are not moves get a column when they are planned.
                (Some(Place::Operation(operation)), _) => Holder::Moved(operation),
                (None, _) => Holder::Dead,
            };
        }
        Ok(())
    }

    /// Where to divide secret constants so that the two commitments have the fewest cells. Dividing
    /// must save a third, as a second commitment has costs of its own.
    fn small_bits(&self, needed: &[bool]) -> usize {
        if self.hidden.run {
            return 0;
        }
        let constants = self.program.constants().len();
        let values = (0..constants).map(|index| self.program.value_of_constant(index).index());
        // Constants may be many, their sizes are few. Where several divide equally well, the size
        // that comes first is taken.
        let mut sizes: BTreeMap<usize, u64> = BTreeMap::new();
        let mut order = Vec::new();
        for value in values.filter(|value| needed[*value]) {
            let bits = self.layouts[value].bits();
            let count = sizes.entry(bits).or_insert(0);
            if *count == 0 {
                order.push(bits);
            }
            *count += 1;
        }
        let cells = |wanted: &dyn Fn(usize) -> bool| -> u64 {
            let counted = sizes.iter().filter(|(bits, _)| wanted(**bits));
            match stacked(counted.map(|(bits, count)| *count << bits).sum()) {
                0 => 0,
                cells => cells.max(1 << STACK_BITS_MIN),
            }
        };
        let divided = |at: usize| cells(&|bits| bits < at) + cells(&|bits| bits >= at);
        let best = order.into_iter().min_by_key(|bits| divided(*bits)).unwrap_or(0);
        if divided(best) * 3 <= divided(0) * 2 { best } else { 0 }
    }

    fn secret_column(&mut self, value: ValueId, constant: usize) -> ColumnId {
        let layout = self.layouts[value.index()].clone();
        let is_small = layout.bits() < self.small_bits;
        let tree = if is_small { Tree::Small } else { Tree::Weights };
        let bundle = self.bundle(tree);
        self.column(tree, bundle, 0, layout, Role::Constant(constant))
    }

    pub(super) fn bundle(&mut self, tree: Tree) -> usize {
        let next = &mut self.bundles[tree as usize];
        *next += 1;
        *next - 1
    }

    pub(super) fn column(
        &mut self,
        tree: Tree,
        bundle: usize,
        place: usize,
        layout: Layout,
        role: Role,
    ) -> ColumnId {
        self.columns.push(Column { tree, bundle, place, layout, role });
        ColumnId(self.columns.len() - 1)
    }

    pub(super) fn spec_of(&self, operation: usize) -> Spec {
        self.program.operations()[operation].spec
    }

    pub(super) fn layout_of(&self, operation: usize) -> Layout {
        self.layouts[self.program.value_of(operation).index()].clone()
    }

    fn is_output(&self, operation: usize) -> bool {
        let holder = self.holders[self.program.value_of(operation).index()];
        matches!(holder, Holder::Output(_))
    }

    /// Columns for an operation's limbs, for `more` numbers and, unless it is an output, for its
    /// value.
    pub(super) fn limbs(&mut self, operation: usize, widths: &[u8], more: usize) -> Vec<ColumnId> {
        let found = self.columns_of(operation, widths.len() + more);
        for (place, (width, column)) in widths.iter().zip(&found).enumerate() {
            let table = self.table(Table::Range { size: 1 << width });
            let key = Form::of(Source::Column(*column));
            self.look_up(operation, table, Lookup::Limb(operation, place), key);
        }
        found
    }

    /// Columns for numbers that an operation needs beside its value and, unless it is an output,
    /// for that.
    pub(super) fn columns_of(&mut self, operation: usize, count: usize) -> Vec<ColumnId> {
        let layout = self.layout_of(operation);
        let is_value = !self.is_output(operation);
        if count == 0 && !is_value {
            return Vec::new();
        }
        let value = self.program.value_of(operation);
        let is_made = self.outputs.contains_key(&value);
        let (apart, mut found) = (self.hidden.outputs && is_made, Vec::new());
        let bundle = if count == 0 && apart { 0 } else { self.bundle(Tree::Run) };
        for place in 0..count {
            let role = Role::Limb(operation, place);
            found.push(self.column(Tree::Run, bundle, place, layout.clone(), role));
        }
        if is_value {
            let role = Role::Value(operation);
            let column = if apart {
                let bundle = self.bundle(Tree::Outputs);
                self.column(Tree::Outputs, bundle, 0, layout, role)
            } else {
                self.column(Tree::Run, bundle, count, layout, role)
            };
            self.holders[value.index()] = Holder::Column(column);
        }
        found
    }

    /// Columns for numbers of an operation that do not stand beside its value, the first of which
    /// is its number `from`.
    pub(super) fn columns_with(
        &mut self,
        operation: usize,
        layout: &Layout,
        numbers: std::ops::Range<usize>,
    ) -> Vec<ColumnId> {
        let bundle = self.bundle(Tree::Run);
        let column = |(place, number): (usize, usize)| {
            let role = Role::Limb(operation, number);
            self.column(Tree::Run, bundle, place, layout.clone(), role)
        };
        numbers.enumerate().map(column).collect()
    }

    /// Demands that products and `rest` add up to nothing for each element of a layout.
    pub(super) fn equation(
        &mut self,
        operation: usize,
        layout: Layout,
        products: Vec<(F, [Form; 2])>,
        rest: Form,
    ) {
        let equation = self.equations.len();
        self.checks.push(Check::Equation(equation));
        for (scale, factors) in products {
            let kind = ProductKind::Times(Times { equation, scale, factors });
            self.products.push(Product { operation, bits: layout.bits(), kind });
        }
        self.equations.push(Equation { layout, rest });
    }

    /// Whether a table is there already. Not for those that clamp, which grow.
    pub(super) fn has_table(&self, table: &Table) -> bool {
        self.places.contains_key(table)
    }

    /// The table, which is shared if it is there already.
    pub(super) fn table(&mut self, table: Table) -> usize {
        let found = self.places.get(&table).copied();
        let is_written = matches!(table, Table::Entries { .. } | Table::Pairs { .. });
        if is_written || found.is_none() {
            self.entries = self.entries.saturating_add(1 << table.bits());
        }
        found.unwrap_or_else(|| {
            self.places.insert(table.clone(), self.tables.len());
            self.tables.push(table);
            self.tables.len() - 1
        })
    }

    /// Looks up a key; with it the operation's element, unless the table is a range.
    pub(super) fn look_up(&mut self, operation: usize, table: usize, what: Lookup, key: Form) {
        let value = match self.tables[table] {
            Table::Range { .. } | Table::Blocks { .. } | Table::Pairs { .. } => Form::default(),
            Table::Clamp { .. } | Table::Entries { .. } | Table::Held { .. } => {
                Form::of(Source::Value(self.program.value_of(operation)))
            }
        };
        self.group(operation, table, what, key, [value, Form::default()]);
    }

    pub(super) fn group(
        &mut self,
        operation: usize,
        table: usize,
        what: Lookup,
        key: Form,
        values: [Form; 2],
    ) {
        self.group_with(self.layout_of(operation), table, what, key, values);
    }

    pub(super) fn group_with(
        &mut self,
        layout: Layout,
        table: usize,
        what: Lookup,
        key: Form,
        values: [Form; 2],
    ) {
        self.groups.push(Group { layout, table, key, values, what, leaf: 0 });
    }

    fn operation(&mut self, index: usize) -> Result<(), PlanError> {
        let program = self.program.clone();
        let operation = &program.operations()[index];
        match &operation.primitive {
            Primitive::Linear { .. } => self.linear(index, operation),
            Primitive::Join { terms, constant, shift, .. } => {
                let reach = self.join_reach(terms.as_slice(), constant);
                let multipliers = Multipliers::new(vec![1]).expect("one is allowed");
                let rescale = Rescale { pre_shift: 0, multipliers, shift: *shift, zero: 0 };
                self.rescale(index, reach, &rescale, Axis::Columns)
            }
            Primitive::Sum { x, window, offset, rescale } => {
                let one = self.reach(*x, (*offset).into());
                // Taps may be padding, which adds nothing.
                let reach = Reach { lo: one.lo.min(0), hi: one.hi.max(0) };
                self.rescale(index, reach.times(window.taps() as i64), rescale, Axis::Rows)
            }
            Primitive::Table { x, entries } => {
                self.columns_of(index, 0);
                let from = self.program.specs()[x.index()].lo.into();
                let values = entries.as_slice().iter().map(|entry| i32::from(*entry)).collect();
                let table = self.table(Table::Entries { from, values });
                self.look_up(index, table, Lookup::Entry(index), Form::of(Source::Value(*x)));
                Ok(())
            }
            Primitive::Max { x, window } => {
                let read = self.program.specs()[x.index()];
                let size = i64::from(read.hi) - i64::from(read.lo) + 1;
                self.maximum(index, window.taps(), size, 0)
            }
            Primitive::ArgMax { .. } => self.arg_max(index),
            Primitive::Select { condition, .. } => self.select(index, condition.value),
            Primitive::Lookup { table, row, .. } => self.rows(index, *table, *row),
            Primitive::MatMul { .. } => self.mat_mul(index),
            Primitive::Product { a, b, offset_a, offset_b, rescale, .. } => {
                let offsets = [i64::from(*offset_a), i64::from(*offset_b)];
                let mut reach =
                    self.reach(a.value, offsets[0]).product(self.reach(b.value, offsets[1]));
                let is_square = self.is_same(a.value, b.value)
                    && (&a.strides, offset_a) == (&b.strides, offset_b);
                if is_square {
                    reach.lo = reach.lo.max(0);
                }
                self.rescale(index, reach, rescale, Axis::Columns)?;
                let bits = self.layout_of(index).bits();
                let kind = ProductKind::Elements { offsets };
                self.products.push(Product { operation: index, bits, kind });
                Ok(())
            }
            Primitive::Move { .. } => {
                if self.is_output(index) {
                    self.checks.push(Check::Copy(index));
                }
                Ok(())
            }
            Primitive::Normalise { .. } => self.normalise(index),
        }
    }

    /// Whether two values are one, or made of the same in the same way.
    fn is_same(&self, a: ValueId, b: ValueId) -> bool {
        let made = |value: ValueId| match self.program.place(value) {
            Some(Place::Operation(operation)) => Some(&self.program.operations()[operation]),
            Some(Place::Input(_) | Place::Constant(_)) | None => None,
        };
        let is_alike =
            |a: &Operation, b: &Operation| (a.spec, &a.primitive) == (b.spec, &b.primitive);
        a == b || made(a).zip(made(b)).is_some_and(|(a, b)| is_alike(a, b))
    }

    /// The range of a value that an offset is added to.
    pub(super) fn reach(&self, value: ValueId, offset: i64) -> Reach {
        let read = self.program.specs()[value.index()];
        Reach { lo: i64::from(read.lo) + offset, hi: i64::from(read.hi) + offset }
    }

    fn join_reach(&self, terms: &[JoinTerm], constant: &Multipliers) -> Reach {
        let all = |list: &Multipliers| {
            let numbers = || list.as_slice().iter().copied().map(i64::from);
            Reach { lo: numbers().min().unwrap_or(0), hi: numbers().max().unwrap_or(0) }
        };
        terms.iter().fold(all(constant), |sum, term| {
            let one = self.reach(term.operand.value, 0).product(all(&term.multipliers));
            Reach { lo: sum.lo + one.lo, hi: sum.hi + one.hi }
        })
    }

    fn linear(&mut self, index: usize, operation: &Operation) -> Result<(), PlanError> {
        let Primitive::Linear { x, weights, bias, window, columns, groups, pad, bound, rescale } =
            &operation.primitive
        else {
            return Ok(());
        };
        let (groups, each) = (*groups as usize, (window.channels / groups) as usize);
        let is_small = self.batch * operation.spec.elements() <= CLEAR_MAX;
        let clear = self.is_output(index) && is_small && !self.hidden.run;
        if clear {
            self.checks.push(Check::Clear(index));
        } else {
            self.rescale(index, Reach::within((*bound).into()), rescale, Axis::Columns)?;
        }
        let factors = rescale.multipliers.as_slice();
        let has_one_factor = clear || factors.iter().all(|factor| Some(factor) == factors.first());
        let secret = match self.holders[weights.index()] {
            Holder::Column(column) if self.is_laid_out_for(*weights, *columns, window, each) => {
                if groups > 1 {
                    Secret::General
                } else if has_one_factor {
                    Secret::Point(column)
                } else {
                    Secret::Slice(column)
                }
            }
            Holder::Column(_)
            | Holder::Input(_)
            | Holder::Constant(_)
            | Holder::Output(_)
            | Holder::Moved(_)
            | Holder::Dead => Secret::General,
        };
        let shape = LinearShape {
            x: *x,
            weights: *weights,
            bias: *bias,
            window: *window,
            columns: *columns as usize,
            groups,
            each,
            pad: (*pad).into(),
            group_bits: bits_of(groups),
            tap_bits: bits_of(window.taps() as usize),
            each_bits: bits_of(each),
            reads_plainly: groups == 1 && self.is_plain(*x, window, index),
            secret,
        };
        let bits = shape.group_bits + shape.tap_bits + shape.each_bits;
        let kind = ProductKind::Linear(shape);
        self.products.push(Product { operation: index, bits, kind });
        Ok(())
    }

    /// Whether a secret constant's column has the sides that this operation sums over. Another
    /// operation may have laid it out.
    fn is_laid_out_for(&self, value: ValueId, columns: u32, window: &Window, each: usize) -> bool {
        let sides = [columns as usize, window.taps() as usize, each];
        self.layouts[value.index()] == Layout::new(1, &sides)
    }

    /// Whether what a linear operation reads is a column, cell by cell as it stands there.
    fn is_plain(&self, x: ValueId, window: &Window, operation: usize) -> bool {
        let Holder::Column(column) = self.holders[x.index()] else { return false };
        let (read, made) = (&self.layouts[x.index()], self.layout_of(operation));
        let places = (window.batch * window.height * window.width) as usize;
        self.columns[column.0].tree == Tree::Run
            && window.is_pointwise()
            && (read.side(0), read.side(1)) == (places, window.channels as usize)
            && read.has_full_rows()
            && made.has_full_rows()
    }

    fn finish(mut self) -> Result<Plan, PlanError> {
        let (multiplicities, leaf_bits) = self.leaves()?;
        let openings = self.openings();
        let pieces = self.pieces();
        check_stacks(&pieces)?;
        let opened = Tree::ALL.map(|tree| self.opened(tree, &pieces[tree as usize], &openings));
        Ok(Plan {
            program: self.program,
            batch: self.batch,
            layouts: self.layouts,
            holders: self.holders,
            columns: self.columns,
            tables: self.tables,
            multiplicities,
            groups: self.groups,
            leaf_bits,
            products: self.products,
            equations: self.equations,
            rescales: self.rescales,
            normals: self.normals,
            checks: self.checks,
            wides: self.wides,
            pieces,
            opened,
        })
    }

    /// Gives every group and table its leaves, the largest first so that each begins at a multiple
    /// of its size; and adds the columns of multiplicities.
    fn leaves(&mut self) -> Result<(Vec<(ColumnId, usize)>, usize), PlanError> {
        let mut blocks: Vec<(usize, usize)> =
            self.groups.iter().map(|group| group.layout.bits()).enumerate().collect();
        let groups = blocks.len();
        blocks
            .extend(self.tables.iter().map(Table::bits).enumerate().map(|(i, b)| (groups + i, b)));
        let total: u64 = blocks.iter().map(|(_, bits)| 1_u64 << bits).sum();
        // Fewer leaves would not fill one register of the prover.
        let bits = bits_of(total as usize).max(FOLD);
        if bits > LEAF_BITS_MAX {
            return Err(PlanError::Large { bits, most: LEAF_BITS_MAX });
        }
        blocks.sort_by_key(|(index, bits)| (std::cmp::Reverse(*bits), *index));
        let mut found = vec![(ColumnId(0), 0); self.tables.len()];
        let mut leaf = 0;
        for (index, bits) in blocks {
            match index.checked_sub(groups) {
                None => self.groups[index].leaf = leaf,
                Some(table) => found[table].1 = leaf,
            }
            leaf += 1 << bits;
        }
        for (table, place) in found.iter_mut().enumerate() {
            let layout = Layout::new(1, &[1, 1 << self.tables[table].bits()]);
            let bundle = self.bundle(Tree::Run);
            place.0 = self.column(Tree::Run, bundle, 0, layout, Role::Multiplicity(table));
        }
        self.fill_up();
        Ok((found, bits))
    }

    /// Fills commitments that would have too few cells.
    fn fill_up(&mut self) {
        for tree in Tree::ALL {
            let columns = self.columns.iter().filter(|column| column.tree == tree);
            let cells: u64 = columns.map(|column| 1_u64 << column.layout.bits()).sum();
            let is_there = tree == Tree::Run || cells > 0;
            // A stack that hides has its own smallest size.
            if stacked(cells) < 1 << STACK_BITS_MIN && is_there && !self.hidden.run {
                let layout = Layout::new(1, &[1, 1 << STACK_BITS_MIN]);
                let bundle = self.bundle(tree);
                self.column(tree, bundle, 0, layout, Role::Filler);
            }
        }
    }
}

/// Refuses commitments with too many cells.
fn check_stacks(pieces: &[Vec<Piece>]) -> Result<(), PlanError> {
    for pieces in pieces {
        let bits = stack_cells(pieces).trailing_zeros() as usize;
        if !pieces.is_empty() && bits > STACK_BITS_MAX {
            return Err(PlanError::Large { bits, most: STACK_BITS_MAX });
        }
    }
    Ok(())
}
