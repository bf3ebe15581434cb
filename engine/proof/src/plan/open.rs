//! Which columns are opened where: what look-ups, products and checks leave to be shown.
//!
//! A functional on a moved value is one on what it is made of, and so on down. There may be many
//! ways down, but each moved value is looked at once: what lies below it is opened at one point.

use super::build::Builder;
use super::{
    At, Check, ColumnId, Form, Group, Holder, Opened, Piece, Product, ProductKind, Role, Secret,
    Source, Spread, Table, Term, Tree,
};
use std::collections::{BTreeMap, BTreeSet};
use tg_tensor::program::{Primitive, ValueId};

/// Openings that were found.
#[derive(Default)]
pub(super) struct Found {
    openings: BTreeSet<(ColumnId, At)>,
    /// Columns that are opened anywhere.
    columns: BTreeSet<ColumnId>,
    /// Moves whose sources were looked at.
    moves: BTreeSet<usize>,
}

impl Found {
    fn push(&mut self, column: ColumnId, at: At) {
        self.openings.insert((column, at));
        self.columns.insert(column);
    }
}

impl Builder {
    /// The openings of one commitment.
    pub(super) fn opened(&self, tree: Tree, pieces: &[Piece], found: &Found) -> Vec<Opened> {
        let mut bundles: BTreeMap<usize, BTreeMap<At, Vec<ColumnId>>> = BTreeMap::new();
        for (column, at) in &found.openings {
            let spec = &self.columns[column.0];
            if spec.tree == tree.named_by_columns() {
                bundles.entry(spec.bundle).or_default().entry(*at).or_default().push(*column);
            }
        }
        let of = |(piece, table): (usize, &Piece)| {
            let points = bundles.get(&table.bundle).into_iter().flatten();
            let opened = |(at, columns): (&At, &Vec<ColumnId>)| Opened {
                piece,
                at: *at,
                columns: columns.clone(),
            };
            points.map(opened).collect::<Vec<_>>()
        };
        pieces.iter().enumerate().flat_map(of).collect()
    }

    /// Finds out which column is opened where.
    pub(super) fn openings(&self) -> Found {
        let mut found = Found::default();
        for group in &self.groups {
            for term in group.forms().flat_map(|form| &form.terms) {
                self.open_term(group, term, &mut found);
            }
        }
        for (index, product) in self.products.iter().enumerate() {
            self.open_product(index, product, &mut found);
        }
        for check in &self.checks {
            match *check {
                Check::Copy(operation) => self.sources(Holder::Moved(operation), &mut found),
                Check::Padding(column) => {
                    found.push(column, At::Functional);
                    found.push(column, At::Checks);
                }
                Check::Clear(_) | Check::Max(_) | Check::Equation(_) => {}
            }
        }
        for equation in &self.equations {
            self.open_form(&equation.rest, At::Functional, &mut found);
        }
        for table in &self.tables {
            let Table::Held { value, .. } = table else { continue };
            match self.held(*value) {
                Some(column) => found.push(column, At::Lookups),
                None => self.sources(self.holders[value.index()], &mut found),
            }
        }
        for (index, column) in self.columns.iter().enumerate() {
            let id = ColumnId(index);
            if matches!(column.role, Role::Multiplicity(_)) {
                found.push(id, At::Lookups);
            } else if !found.columns.contains(&id) {
                // A commitment opens every table; this one is opened for nothing.
                found.push(id, At::Functional);
            }
        }
        found
    }

    fn open_term(&self, group: &Group, term: &Term, found: &mut Found) {
        let is_plain = term.spread == Spread::One;
        match term.source {
            Source::Column(column) if is_plain => found.push(column, At::Lookups),
            Source::Column(column) => found.push(column, At::Functional),
            Source::Value(value) => match self.held(value) {
                Some(column) if self.layouts[value.index()] == group.layout => {
                    found.push(column, At::Lookups);
                }
                Some(_) | None => self.sources(self.holders[value.index()], found),
            },
            Source::Tap(operation, _) | Source::Accumulator(operation) => {
                let primitive = &self.program.operations()[operation].primitive;
                let is_product = matches!(
                    primitive,
                    Primitive::Linear { .. } | Primitive::MatMul { .. } | Primitive::Product { .. }
                );
                if !is_product {
                    self.reads_of(operation, found);
                }
            }
            Source::Condition(operation) | Source::Index(operation) => {
                self.reads_of(operation, found);
            }
            Source::Placed(placed) => self.reads_of(placed.operation, found),
            Source::Beside(_, column) => found.push(column, At::Functional),
        }
    }

    /// What the forms of an equation read; `at` is where columns of its layout are opened.
    fn open_form(&self, form: &Form, at: At, found: &mut Found) {
        for term in &form.terms {
            match term.source {
                Source::Column(column) => found.push(column, at),
                Source::Value(value) => self.sources(self.holders[value.index()], found),
                Source::Beside(_, column) => found.push(column, At::Functional),
                Source::Tap(operation, _)
                | Source::Accumulator(operation)
                | Source::Condition(operation)
                | Source::Index(operation) => self.reads_of(operation, found),
                Source::Placed(placed) => self.reads_of(placed.operation, found),
            }
        }
    }

    fn open_product(&self, index: usize, product: &Product, found: &mut Found) {
        match &product.kind {
            ProductKind::Linear(shape) => {
                match self.held(shape.x) {
                    Some(column) if shape.reads_plainly => {
                        found.push(column, At::Product(index));
                    }
                    Some(_) | None => self.sources(self.holders[shape.x.index()], found),
                }
                match shape.secret {
                    Secret::General => self.sources(self.holders[shape.weights.index()], found),
                    Secret::Point(column) => found.push(column, At::Product(index)),
                    Secret::Slice(column) => found.push(column, At::Slice(index)),
                }
                if let Some(bias) = shape.bias {
                    self.sources(self.holders[bias.index()], found);
                }
            }
            ProductKind::Max(shape) => {
                for source in shape.taps.iter().chain([&shape.made]) {
                    match *source {
                        Source::Column(column) => found.push(column, At::Product(index)),
                        Source::Value(value) => {
                            if let Holder::Column(column) = self.holders[value.index()] {
                                found.push(column, At::Product(index));
                            }
                        }
                        Source::Tap(operation, _)
                        | Source::Accumulator(operation)
                        | Source::Condition(operation)
                        | Source::Index(operation) => self.reads_of(operation, found),
                        Source::Placed(placed) => self.reads_of(placed.operation, found),
                        Source::Beside(_, column) => found.push(column, At::Functional),
                    }
                }
            }
            ProductKind::Times(times) => {
                for form in &times.factors {
                    self.open_form(form, At::Product(index), found);
                }
            }
            ProductKind::MatMul(_) | ProductKind::Elements { .. } => {
                self.reads_of(product.operation, found);
            }
        }
    }

    fn reads_of(&self, operation: usize, found: &mut Found) {
        for read in self.program.operations()[operation].primitive.reads() {
            self.sources(self.holders[read.index()], found);
        }
    }

    /// The column of a value, if it has one.
    fn held(&self, value: ValueId) -> Option<ColumnId> {
        let Holder::Column(column) = self.holders[value.index()] else { return None };
        Some(column)
    }

    /// The columns that a functional on a value reaches.
    fn sources(&self, holder: Holder, found: &mut Found) {
        let mut left = vec![holder];
        while let Some(holder) = left.pop() {
            match holder {
                Holder::Column(column) => found.push(column, At::Functional),
                Holder::Moved(operation) if found.moves.insert(operation) => {
                    let reads = self.program.operations()[operation].primitive.reads();
                    left.extend(reads.iter().map(|read| self.holders[read.index()]));
                }
                Holder::Moved(_)
                | Holder::Input(_)
                | Holder::Constant(_)
                | Holder::Output(_)
                | Holder::Dead => {}
            }
        }
    }
}
