//! Everything that the look-ups, the first sum-check and the checks leave to be shown, as one sum
//! of linear functionals on values.
//!
//! With the denominator D that the look-ups claim, the sum A of the first sum-check, the values f
//! that the prover claims at its end and the accumulators in the clear:
//! ```text
//! D + sum gamma^j * clear_j - K - A + sum rho^j * f_j  =  sum of functionals
//! ```
//! K is what the verifier knows of the denominator: constants, and columns at the point where the
//! look-ups ended. Every functional is a weight for each inference times a weight for each element
//! of one value. Those on public values are numbers; those on moved values become functionals on
//! their sources; those on one point of a column are opened there; the others are the terms of the
//! second sum-check. Prover and verifier build the same [`Tally`].

use crate::field::{EF, F, dot_base, eq_at, int};
use crate::plan::{
    At, Check, ColumnId, Form, Group, Holder, Layout, LinearShape, MatMulShape, Placed, Plan,
    ProductKind, Secret, Source, Spread, Table, Term,
};
use crate::reads;
use p3_field::PrimeCharacteristicRing;
use std::collections::BTreeMap;
use std::sync::Arc;
use tg_tensor::program::{Primitive, ValueId};
use tg_tensor::{Elements, Tensor};

/// The challenges of a transcript.
#[derive(Clone, Debug, Default)]
pub(crate) struct Challenges {
    /// Where fractions have their poles.
    pub(crate) alpha: EF,
    /// What combines key, value and table.
    pub(crate) beta: EF,
    /// Where the look-ups ended.
    pub(crate) lookups: Vec<EF>,
    /// What combines the checks.
    pub(crate) gamma: EF,
    /// Where checks look.
    pub(crate) checks: Vec<EF>,
    /// Where the first sum-check ended.
    pub(crate) products: Vec<EF>,
    /// What combines the claims.
    pub(crate) rho: EF,
    /// Where the second sum-check ended.
    pub(crate) functionals: Vec<EF>,
}

/// The values that both sides have: one list of tensors for each inference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Publics<'a> {
    pub(crate) inputs: &'a [Vec<Tensor>],
    pub(crate) outputs: &'a [Vec<Tensor>],
    /// Empty if the weights are secret.
    pub(crate) constants: &'a [Tensor],
}

/// The values of opened columns.
pub(crate) type Openings = BTreeMap<(ColumnId, At), EF>;

/// A sum of columns at points, each with its factor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points(pub(crate) BTreeMap<(ColumnId, At), EF>);

impl Points {
    /// Adds a column at a point times a factor.
    pub(crate) fn add(&mut self, factor: EF, column: ColumnId, at: At) {
        *self.0.entry((column, at)).or_default() += factor;
    }

    /// The sum; `None` if a column is not opened, which is an error of ours.
    pub(crate) fn value(&self, openings: &Openings) -> Option<EF> {
        let term = |(key, factor): (&(ColumnId, At), &EF)| Some(*factor * *openings.get(key)?);
        self.0.iter().map(term).sum()
    }
}

/// A functional on a column: weights of inferences times weights of elements.
#[derive(Clone, Debug)]
pub(crate) struct Functional {
    pub(crate) batch: Arc<Vec<EF>>,
    pub(crate) cells: Vec<EF>,
}

/// What a claim about accumulators weighs them with: inferences, rows, columns.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) batch: Arc<Vec<EF>>,
    pub(crate) rows: Vec<EF>,
    pub(crate) columns: Vec<EF>,
}

impl Request {
    pub(crate) fn cells(&self) -> Vec<EF> {
        let row = |row: &EF| {
            let row = *row;
            self.columns.iter().map(move |column| row * *column).collect::<Vec<_>>()
        };
        self.rows.iter().flat_map(row).collect()
    }

    /// Weights of the rows of all inferences.
    pub(crate) fn all_rows(&self) -> Vec<EF> {
        let of = |batch: EF| self.rows.iter().map(move |row| batch * *row).collect::<Vec<_>>();
        self.batch.iter().flat_map(|batch| of(*batch)).collect()
    }
}

impl Plan {
    /// The power of gamma of a check.
    pub(crate) fn check_power(&self, challenges: &Challenges, wanted: Check) -> Option<EF> {
        let place = self.checks.iter().position(|check| *check == wanted)?;
        Some(challenges.gamma.exp_u64(place as u64 + 1))
    }

    /// Where an operation's accumulators are asked for.
    fn accumulator_point(&self, challenges: &Challenges, operation: usize) -> Vec<EF> {
        let layout = self.layout_of(operation);
        match self.checks.contains(&Check::Clear(operation)) {
            true => challenges.checks[challenges.checks.len() - layout.bits()..].to_vec(),
            false => layout.cell_point(&challenges.lookups),
        }
    }

    /// The part of the point of the first sum-check that belongs to a product.
    pub(crate) fn product_point<'a>(&self, challenges: &'a Challenges, index: usize) -> &'a [EF] {
        let point = &challenges.products;
        &point[point.len() - self.products[index].bits..]
    }

    /// How a group is selected at the point where the look-ups ended.
    pub(crate) fn selector(challenges: &Challenges, leaf: usize, bits: usize) -> EF {
        let point = &challenges.lookups;
        eq_at(&point[..point.len() - bits], leaf >> bits)
    }

    /// Where a column is opened.
    pub(crate) fn point(&self, challenges: &Challenges, column: ColumnId, at: At) -> Vec<EF> {
        let spec = &self.columns[column.0];
        let (layout, bits) = (&spec.layout, spec.layout.bits());
        let suffix = |point: &[EF]| point[point.len() - bits..].to_vec();
        match at {
            At::Lookups => layout.cell_point(&challenges.lookups),
            At::Functional => suffix(&challenges.functionals),
            At::Checks => suffix(&challenges.checks),
            At::Slice(product) => {
                let end = challenges.functionals.len();
                let rows = &challenges.functionals[end - layout.side_bits(0)..];
                self.weights_point(challenges, product, layout, rows)
            }
            At::Product(index) => match &self.products[index].kind {
                ProductKind::Max(_)
                | ProductKind::Times(_)
                | ProductKind::MatMul(_)
                | ProductKind::Elements { .. } => self.product_point(challenges, index).to_vec(),
                ProductKind::Linear(_) if spec.tree.is_of_weights() => {
                    let operation = self.products[index].operation;
                    let point = self.accumulator_point(challenges, operation);
                    let columns = self.layout_of(operation).split_sides(&point)[1];
                    let rows = &columns[columns.len() - layout.side_bits(0)..];
                    self.weights_point(challenges, index, layout, rows)
                }
                ProductKind::Linear(_) => {
                    let operation = self.products[index].operation;
                    let made = self.layout_of(operation);
                    let point = self.accumulator_point(challenges, operation);
                    let first = &point[..made.batch().bits + made.side_bits(0)];
                    let last = self.product_point(challenges, index);
                    let free = bits - first.len() - last.len();
                    [first, &vec![EF::ZERO; free], last].concat()
                }
            },
        }
    }

    /// A point of secret weights: rows are given, taps and channels are where the product ended.
    pub(crate) fn weights_point(
        &self,
        challenges: &Challenges,
        product: usize,
        layout: &Layout,
        rows: &[EF],
    ) -> Vec<EF> {
        let ProductKind::Linear(shape) = &self.products[product].kind else { return Vec::new() };
        let point = self.product_point(challenges, product);
        let (taps, each) = point[shape.group_bits..].split_at(shape.tap_bits);
        let free = layout.side_bits(2) - shape.each_bits;
        [rows, taps, &vec![EF::ZERO; free], each].concat()
    }

    /// What is asked about every operation's accumulators.
    pub(crate) fn requests(&self, challenges: &Challenges) -> BTreeMap<usize, Request> {
        let mut factors: BTreeMap<usize, Vec<(EF, &Spread)>> = BTreeMap::new();
        for group in &self.groups {
            let bits = group.layout.bits();
            let selector = Self::selector(challenges, group.leaf, bits);
            for term in &group.key.terms {
                if let Source::Accumulator(operation) = term.source {
                    let asked = (-selector * term.scale, &term.spread);
                    factors.entry(operation).or_default().push(asked);
                }
            }
        }
        for check in &self.checks {
            if let Check::Clear(operation) = *check {
                let power = self.check_power(challenges, *check).unwrap_or_default();
                factors.entry(operation).or_default().push((power, &Spread::One));
            }
        }
        let of = |(operation, factors): (usize, Vec<(EF, &Spread)>)| {
            (operation, self.request(challenges, operation, &factors))
        };
        factors.into_iter().map(of).collect()
    }

    fn request(
        &self,
        challenges: &Challenges,
        operation: usize,
        factors: &[(EF, &Spread)],
    ) -> Request {
        let layout = self.layout_of(operation);
        let point = self.accumulator_point(challenges, operation);
        let batch = Arc::new(layout.batch_weights(&point));
        let mut rows = layout.side_weights(&point, 0);
        let mut columns = layout.side_weights(&point, 1);
        let sum = |row: usize, column: usize| -> EF {
            factors.iter().map(|(factor, spread)| *factor * spread.at(row, column)).sum()
        };
        let is_by_row = factors.iter().any(|(_, spread)| matches!(spread, Spread::Rows(_)));
        if is_by_row {
            rows.iter_mut().enumerate().for_each(|(row, weight)| *weight *= sum(row, 0));
        } else {
            columns.iter_mut().enumerate().for_each(|(place, weight)| *weight *= sum(0, place));
        }
        Request { batch, rows, columns }
    }
}

/// The functionals of a proof, collected.
pub(crate) struct Tally<'a> {
    plan: &'a Plan,
    challenges: &'a Challenges,
    /// What the verifier has; a prover leaves numbers out.
    publics: Option<&'a Publics<'a>>,
    /// The factors of opened columns.
    pub(crate) points: Points,
    /// The functionals of the second sum-check.
    pub(crate) functionals: BTreeMap<(ColumnId, At), Vec<Functional>>,
    /// All that is a number.
    pub(crate) constant: EF,
}

impl<'a> Tally<'a> {
    /// Collects the functionals of all claims. A verifier also gets their numbers.
    pub(crate) fn new(
        plan: &'a Plan,
        challenges: &'a Challenges,
        requests: &BTreeMap<usize, Request>,
        publics: Option<&'a Publics<'a>>,
    ) -> Self {
        let (points, functionals) = (Points::default(), BTreeMap::new());
        let constant = EF::ZERO;
        let mut tally = Self { plan, challenges, publics, points, functionals, constant };
        for group in &plan.groups {
            tally.group(group);
        }
        for (table, (_, leaf)) in plan.tables.iter().zip(&plan.multiplicities) {
            tally.table(table, *leaf);
        }
        for (operation, request) in requests {
            tally.accumulators(*operation, request);
        }
        for check in &plan.checks {
            match *check {
                Check::Copy(operation) => tally.copy(operation),
                Check::Equation(equation) => tally.equation(equation),
                Check::Padding(column) => tally.padding(column),
                Check::Clear(_) | Check::Max(_) => {}
            }
        }
        let mut power = EF::ONE;
        for (index, product) in plan.products.iter().enumerate() {
            match &product.kind {
                ProductKind::Linear(shape) => {
                    let request = &requests[&product.operation];
                    power *= challenges.rho;
                    tally.left(index, shape, request, power);
                    power *= challenges.rho;
                    tally.right(index, shape, request, power);
                }
                ProductKind::Max(shape) => {
                    for source in std::iter::once(&shape.made).chain(&shape.taps) {
                        power *= challenges.rho;
                        tally.at_product(index, *source, power);
                    }
                }
                ProductKind::MatMul(shape) => {
                    power = tally.mat_mul(index, shape, &requests[&product.operation], power);
                }
                ProductKind::Elements { offsets } => {
                    let request = &requests[&product.operation];
                    power = tally.elements(index, *offsets, request, power);
                }
                ProductKind::Times(times) => {
                    for factor in &times.factors {
                        power *= challenges.rho;
                        tally.factor(index, factor, power);
                    }
                }
            }
        }
        tally
    }

    /// The parts of a group's look-ups that are neither constants, nor accumulators, nor a column
    /// at the point where the look-ups ended.
    fn group(&mut self, group: &Group) {
        let layout = &group.layout;
        let point = &layout.cell_point(&self.challenges.lookups);
        let selector = Plan::selector(self.challenges, group.leaf, layout.bits());
        let beta = self.challenges.beta;
        let powers = [EF::ONE, beta, beta.square()];
        let terms = group.forms().zip(powers);
        let terms = terms.flat_map(|(form, power)| form.terms.iter().map(move |t| (t, power)));
        for (term, power) in terms {
            let factor = -selector * power * term.scale;
            match term.source {
                _ if self.plan.is_point(group, term) => {}
                Source::Accumulator(_) => {}
                Source::Column(column) => {
                    let mut cells = layout.weights(point);
                    let columns = layout.side(1);
                    for (index, cell) in cells.iter_mut().enumerate() {
                        *cell *= factor * term.spread.at(index / columns, index % columns);
                    }
                    let batch = Arc::new(layout.batch_weights(point));
                    self.add_column(column, At::Functional, EF::ONE, &batch, cells);
                }
                Source::Value(value) => {
                    let batch = Arc::new(layout.batch_weights(point));
                    self.add(value, factor, &batch, layout.weights(point));
                }
                Source::Tap(..)
                | Source::Condition(_)
                | Source::Index(_)
                | Source::Placed(_)
                | Source::Beside(..) => {
                    let batch = Arc::new(layout.batch_weights(point));
                    self.read(term.source, factor, &batch, &layout.weights(point));
                }
            }
        }
    }

    /// The values of a table that is held, unless they are a column at the point where the look-ups
    /// ended.
    fn table(&mut self, table: &Table, leaf: usize) {
        let Table::Held { value, layout } = table else { return };
        if matches!(self.plan.holder(*value), Holder::Column(_)) {
            return;
        }
        let point = &layout.cell_point(&self.challenges.lookups);
        let selector = Plan::selector(self.challenges, leaf, layout.bits());
        let batch = Arc::new(layout.batch_weights(point));
        self.add(*value, -selector * self.challenges.beta, &batch, layout.weights(point));
    }

    /// A functional on what a source reads.
    fn read(&mut self, source: Source, factor: EF, batch: &Arc<Vec<EF>>, weights: &[EF]) {
        let found = reads::read(&self.plan.program, source, weights);
        let Source::Beside(_, column) = source else {
            self.weights(found, factor, batch);
            return;
        };
        // What stands beside the divisor is read where the divisor would be.
        for cells in found.cells.into_values() {
            self.add_column(column, At::Functional, factor, batch, cells);
        }
    }

    fn weights(&mut self, found: reads::Weights, factor: EF, batch: &Arc<Vec<EF>>) {
        self.constant += factor * found.constant * batch.iter().copied().sum::<EF>();
        for (value, cells) in found.cells {
            self.add(value, factor, batch, cells);
        }
    }

    /// The parts of accumulators that are no products: all of a join or sum, the bias of a linear
    /// operation.
    fn accumulators(&mut self, operation: usize, request: &Request) {
        let plan = self.plan;
        match plan.primitive(operation) {
            Primitive::Linear { bias: Some(bias), .. } => {
                let rows: EF = request.rows.iter().copied().sum();
                self.add(*bias, rows, &request.batch, request.columns.clone());
            }
            Primitive::Join { .. } | Primitive::Sum { .. } => {
                let found = reads::summed(&plan.program, operation, &request.cells());
                self.weights(found, EF::ONE, &request.batch);
            }
            Primitive::Linear { bias: None, .. }
            | Primitive::MatMul { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Max { .. }
            | Primitive::Normalise { .. }
            | Primitive::Move { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. }
            | Primitive::ArgMax { .. } => {}
        }
    }

    fn copy(&mut self, operation: usize) {
        let layout = self.plan.layout_of(operation);
        let power = self.plan.check_power(self.challenges, Check::Copy(operation));
        let batch = Arc::new(layout.batch_weights(&self.challenges.checks));
        let weights = layout.weights(&self.challenges.checks);
        let found = reads::summed(&self.plan.program, operation, &weights);
        self.weights(found, power.unwrap_or_default(), &batch);
    }

    /// A column where checks look, less its elements there: what is left is padding.
    fn padding(&mut self, column: ColumnId) {
        let power = self.plan.check_power(self.challenges, Check::Padding(column));
        let power = power.unwrap_or_default();
        self.add_opened(power, column, At::Checks);
        let layout = &self.plan.columns[column.0].layout;
        let batch = Arc::new(layout.batch_weights(&self.challenges.checks));
        let cells = layout.weights(&self.challenges.checks);
        self.add_column(column, At::Functional, -power, &batch, cells);
    }

    fn left(&mut self, index: usize, shape: &LinearShape, request: &Request, power: EF) {
        if let (true, Holder::Column(column)) = (shape.reads_plainly, self.plan.holder(shape.x)) {
            self.add_opened(power, column, At::Product(index));
            return;
        }
        let point = self.plan.product_point(self.challenges, index);
        let (cells, constant) = shape.left_weights(&request.rows, point);
        self.constant += power * constant * request.batch.iter().copied().sum::<EF>();
        self.add(shape.x, power, &request.batch, cells);
    }

    fn right(&mut self, index: usize, shape: &LinearShape, request: &Request, power: EF) {
        let point = self.plan.product_point(self.challenges, index);
        let one = Arc::new(vec![EF::ONE]);
        match (shape.secret, self.plan.holder(shape.weights)) {
            (Secret::Point(column), _) => {
                // Columns that are padding have no weights; the request's weights of all others are
                // those of the point, but for a factor that is the same for all.
                let at = self.plan.point(self.challenges, column, At::Product(index));
                let rows = self.plan.columns[column.0].layout.side_weights(&at, 0);
                let factor = match (request.columns.first(), rows.first()) {
                    (Some(asked), Some(given)) => {
                        *asked * p3_field::Field::try_inverse(given).unwrap_or_default()
                    }
                    (None, _) | (_, None) => EF::ZERO,
                };
                self.add_opened(power * factor, column, At::Product(index));
            }
            (Secret::Slice(column), _) => {
                let cells = request.columns.iter().map(|weight| power * *weight).collect();
                self.add_column(column, At::Slice(index), EF::ONE, &one, cells);
            }
            (Secret::General, Holder::Constant(constant)) => {
                if let Some(publics) = self.publics {
                    let table = shape.right_table(&request.columns, &publics.constants[constant]);
                    let weights = crate::field::eq_table(point);
                    let sum: EF = table.iter().zip(&weights).map(|(a, b)| *a * *b).sum();
                    self.constant += power * sum;
                }
            }
            (Secret::General, _) => {
                let cells = shape.right_weights(&request.columns, point);
                self.add(shape.weights, power, &one, cells);
            }
        }
    }

    /// A source at the point where a product ended.
    fn at_product(&mut self, index: usize, source: Source, factor: EF) {
        let plan = self.plan;
        let held = match source {
            Source::Column(column) => Some(column),
            Source::Value(value) => match plan.holder(value) {
                Holder::Column(column) => Some(column),
                Holder::Output(_)
                | Holder::Input(_)
                | Holder::Constant(_)
                | Holder::Moved(_)
                | Holder::Dead => None,
            },
            Source::Tap(..)
            | Source::Accumulator(_)
            | Source::Condition(_)
            | Source::Index(_)
            | Source::Placed(_)
            | Source::Beside(..) => None,
        };
        if let Some(column) = held {
            self.add_opened(factor, column, At::Product(index));
            return;
        }
        let layout = plan.layout_of(plan.products[index].operation);
        let point = plan.product_point(self.challenges, index);
        let batch = Arc::new(layout.batch_weights(point));
        let weights = layout.weights(point);
        if let Source::Value(value) = source {
            self.add(value, factor, &batch, weights);
        } else {
            self.read(source, factor, &batch, &weights);
        }
    }

    fn mat_mul(&mut self, index: usize, shape: &MatMulShape, request: &Request, rho: EF) -> EF {
        let plan = self.plan;
        let point = plan.product_point(self.challenges, index);
        let batch_bits = point.len() - shape.batch_bits - shape.inner_bits;
        let (inferences, point) = point.split_at(batch_bits);
        let mut right = crate::field::eq_table(inferences);
        right.truncate(plan.batch);
        let left = right.iter().zip(request.batch.iter()).map(|(a, b)| *a * *b).collect();
        let rows = |batch: usize, row: usize| request.rows[batch * shape.rows[0] + row];
        let columns = |_: usize, column: usize| request.columns[column];
        let sides =
            [(left, shape.weights(rows, 0, point)), (right, shape.weights(columns, 1, point))];
        let mut power = rho;
        for (side, (batch, cells)) in sides.into_iter().enumerate() {
            power *= self.challenges.rho;
            self.side(shape.values[side], shape.offsets[side], power, &Arc::new(batch), cells);
        }
        power
    }

    /// A functional on a value that an offset is added to.
    fn side(
        &mut self,
        value: ValueId,
        offset: i64,
        power: EF,
        batch: &Arc<Vec<EF>>,
        cells: Vec<EF>,
    ) {
        let all: EF = cells.iter().copied().sum::<EF>() * batch.iter().copied().sum::<EF>();
        self.constant += power * all * int(offset);
        self.add(value, power, batch, cells);
    }

    fn elements(&mut self, index: usize, offsets: [i64; 2], request: &Request, rho: EF) -> EF {
        let plan = self.plan;
        let operation = plan.products[index].operation;
        let layout = plan.layout_of(operation);
        let point = plan.product_point(self.challenges, index);
        let right = layout.batch_weights(point);
        let left = right.iter().zip(request.batch.iter()).map(|(a, b)| *a * *b).collect();
        let of_right = layout.weights(point);
        let of_left = of_right.iter().zip(request.cells()).map(|(a, b)| *a * b).collect();
        let mut power = rho;
        for (side, (batch, weights)) in [(left, of_left), (right, of_right)].into_iter().enumerate()
        {
            power *= self.challenges.rho;
            let weights: Vec<EF> = weights;
            let source = Source::Placed(Placed { operation, place: side, number: 0 });
            let mut found = reads::read(&plan.program, source, &weights);
            found.constant = weights.iter().copied().sum::<EF>() * int(offsets[side]);
            self.weights(found, power, &Arc::new(batch));
        }
        power
    }

    /// A factor of an equation's product where that ended.
    fn factor(&mut self, index: usize, form: &Form, power: EF) {
        self.constant += power * form.padding();
        for term in &form.terms {
            match term.source {
                Source::Column(column) => {
                    self.add_opened(power * term.scale, column, At::Product(index));
                }
                Source::Value(_)
                | Source::Tap(..)
                | Source::Accumulator(_)
                | Source::Condition(_)
                | Source::Index(_)
                | Source::Placed(_)
                | Source::Beside(..) => {
                    self.at_product(index, term.source, power * term.scale);
                }
            }
        }
    }

    /// All of an equation but its products, where checks look.
    fn equation(&mut self, index: usize) {
        let plan = self.plan;
        let equation = &plan.equations[index];
        let power = plan.check_power(self.challenges, Check::Equation(index)).unwrap_or_default();
        let (layout, point) = (&equation.layout, &self.challenges.checks);
        let batch = Arc::new(layout.batch_weights(point));
        let weights = layout.weights(point);
        self.constant += power * layout.indicator(point) * equation.rest.padding();
        for term in &equation.rest.terms {
            let factor = power * term.scale;
            match term.source {
                Source::Column(column) => {
                    self.add_column(column, At::Functional, factor, &batch, weights.clone());
                }
                Source::Value(value) => self.add(value, factor, &batch, weights.clone()),
                Source::Tap(..)
                | Source::Accumulator(_)
                | Source::Condition(_)
                | Source::Index(_)
                | Source::Placed(_)
                | Source::Beside(..) => self.read(term.source, factor, &batch, &weights),
            }
        }
    }

    /// Adds an opened column times a factor.
    fn add_opened(&mut self, factor: EF, column: ColumnId, at: At) {
        self.points.add(factor, column, at);
    }

    /// Whether every functional is one of the plan's. Anything else is an error of ours, and no
    /// proof is accepted then.
    pub(crate) fn is_complete(&self) -> bool {
        let listed = self.plan.functionals();
        self.functionals.keys().all(|key| listed.contains(key))
    }

    /// Adds a functional on a value.
    fn add(&mut self, value: ValueId, factor: EF, batch: &Arc<Vec<EF>>, cells: Vec<EF>) {
        let sum = |publics: Option<&Publics<'_>>, pick: &dyn Fn(&Publics<'_>) -> EF| {
            publics.map_or(EF::ZERO, pick)
        };
        match self.plan.holder(value) {
            Holder::Input(index) => {
                let number = sum(self.publics, &|p| by_batch(p.inputs, index, batch, &cells));
                self.constant += factor * number;
            }
            Holder::Output(index) => {
                let number = sum(self.publics, &|p| by_batch(p.outputs, index, batch, &cells));
                self.constant += factor * number;
            }
            Holder::Constant(index) => {
                let number = sum(self.publics, &|p| weigh(&p.constants[index], &cells));
                self.constant += factor * number * batch.iter().copied().sum::<EF>();
            }
            Holder::Column(column) if self.plan.columns[column.0].tree.is_of_weights() => {
                let factor = factor * batch.iter().copied().sum::<EF>();
                let one = Arc::new(vec![EF::ONE]);
                self.add_column(column, At::Functional, factor, &one, cells);
            }
            Holder::Column(column) => {
                self.add_column(column, At::Functional, factor, batch, cells);
            }
            Holder::Moved(operation) => {
                let found = reads::summed(&self.plan.program, operation, &cells);
                self.weights(found, factor, batch);
            }
            Holder::Dead => {}
        }
    }

    fn add_column(
        &mut self,
        column: ColumnId,
        at: At,
        factor: EF,
        batch: &Arc<Vec<EF>>,
        mut cells: Vec<EF>,
    ) {
        cells.iter_mut().for_each(|cell| *cell *= factor);
        let all = self.functionals.entry((column, at)).or_default();
        match all.iter_mut().find(|other| other.batch == *batch) {
            Some(other) => {
                other.cells.iter_mut().zip(cells).for_each(|(sum, cell)| *sum += cell);
            }
            None => all.push(Functional { batch: batch.clone(), cells }),
        }
    }
}

impl Plan {
    /// Whether a term of a look-up is a number at the point where the look-ups ended: a column
    /// opened there, or a public value of the same layout.
    pub(crate) fn is_point(&self, group: &Group, term: &Term) -> bool {
        match term.source {
            Source::Column(_) => term.spread == Spread::One,
            Source::Value(value) => match self.holder(value) {
                Holder::Column(_) => self.layouts[value.index()] == group.layout,
                Holder::Input(_)
                | Holder::Constant(_)
                | Holder::Output(_)
                | Holder::Moved(_)
                | Holder::Dead => false,
            },
            Source::Accumulator(_)
            | Source::Tap(..)
            | Source::Condition(_)
            | Source::Index(_)
            | Source::Placed(_)
            | Source::Beside(..) => false,
        }
    }

    /// The column of a term for which [`Plan::is_point`] holds.
    pub(crate) fn column_of(&self, term: &Term) -> Option<ColumnId> {
        match term.source {
            Source::Column(column) => Some(column),
            Source::Value(value) => match self.holder(value) {
                Holder::Column(column) => Some(column),
                Holder::Input(_)
                | Holder::Constant(_)
                | Holder::Output(_)
                | Holder::Moved(_)
                | Holder::Dead => None,
            },
            Source::Accumulator(_)
            | Source::Tap(..)
            | Source::Condition(_)
            | Source::Index(_)
            | Source::Placed(_)
            | Source::Beside(..) => None,
        }
    }

    /// The value of the weights of a functional of the second sum-check at its end.
    pub(crate) fn eval_functional(
        &self,
        challenges: &Challenges,
        column: ColumnId,
        at: At,
        functional: &Functional,
    ) -> EF {
        let layout = &self.columns[column.0].layout;
        let point = &challenges.functionals;
        let (batch, cells) = match at {
            At::Slice(_) => {
                let rows = &point[point.len() - layout.side_bits(0)..];
                (vec![EF::ONE], crate::field::eq_table(rows))
            }
            At::Lookups | At::Product(_) | At::Functional | At::Checks => {
                (layout.batch_weights(point), layout.weights(point))
            }
        };
        let pairs = |a: &[EF], b: &[EF]| a.iter().zip(b).map(|(x, y)| *x * *y).sum::<EF>();
        pairs(&functional.batch, &batch) * pairs(&functional.cells, &cells)
    }
}

/// A tensor's elements in the field.
pub(crate) fn elements(tensor: &Tensor) -> impl Iterator<Item = F> + '_ {
    let all = Elements::from(tensor);
    (0..all.len()).map(move |index| int(all.get(index).unwrap_or(0).into()))
}

fn weigh(tensor: &Tensor, cells: &[EF]) -> EF {
    dot_base(cells, elements(tensor))
}

fn by_batch(all: &[Vec<Tensor>], index: usize, batch: &[EF], cells: &[EF]) -> EF {
    let one = |(tensors, weight): (&Vec<Tensor>, &EF)| *weight * weigh(&tensors[index], cells);
    all.iter().zip(batch).map(one).sum()
}
