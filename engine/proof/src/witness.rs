//! What the prover knows: all values of the runs, what rounding dropped, and how often every entry
//! of a table is used.

use crate::field::{F, PRIME, Small, int};
use crate::plan::{
    Axis, Check, Clamping, Column, Form, Group, Holder, Layout, Lookup, MaxShape, Normal, Placed,
    Plan, Product, ProductKind, Rescaled, Role, Secret, Source, Table, Top, Tree, half,
    limb_widths,
};
use crate::reads::{Read, read_of};
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::convert::Infallible;
use tg_tensor::element::Element;
use tg_tensor::program::{Place, Primitive, Rescale, ValueId};
use tg_tensor::{Elements, RunError, Runner, Tensor};

/// The prover's numbers. Those of one value stand one inference after the other.
#[derive(Clone)]
pub(crate) struct Witness {
    /// Every value that is needed, by number.
    pub(crate) values: Vec<Vec<i32>>,
    /// The limbs of each rescale.
    pub(crate) limbs: BTreeMap<usize, Vec<Vec<i32>>>,
    /// The limbs of how far constants are inside of their ranges.
    pub(crate) ranges: BTreeMap<usize, Vec<Vec<i32>>>,
    /// Key and values of every look-up, by group.
    pub(crate) lookups: Vec<Looked>,
    /// How often each entry is looked up, by table.
    pub(crate) multiplicities: Vec<Vec<u32>>,
    /// Accumulators in the clear.
    pub(crate) clear: Vec<i32>,
    /// The outputs, one list for each inference.
    pub(crate) outputs: Vec<Vec<Tensor>>,
}

/// Keys of look-ups and both values beside them. Where a list is empty, all of it is 0.
#[derive(Clone, Default)]
pub(crate) struct Looked {
    pub(crate) numbers: [Vec<i32>; 3],
}

impl Looked {
    /// Keys without values.
    pub(crate) fn keys(keys: Vec<i32>) -> Self {
        Self { numbers: [keys, Vec::new(), Vec::new()] }
    }

    /// Keys with one value each.
    fn pairs(keys: Vec<i32>, values: Vec<i32>) -> Self {
        Self { numbers: [keys, values, Vec::new()] }
    }
}

/// What a rescale looks up beside its limbs.
#[derive(Clone, Default)]
struct Rounded {
    tops: Vec<i32>,
    keys: Vec<i32>,
}

impl Witness {
    /// Runs the program on every inference's inputs.
    pub(crate) fn new(
        plan: &Plan,
        runner: &Runner,
        inputs: &[Vec<Tensor>],
    ) -> Result<Self, RunError> {
        let (values, outputs) = run(plan, runner, inputs)?;
        let mut witness = Self {
            values,
            limbs: BTreeMap::new(),
            ranges: BTreeMap::new(),
            lookups: Vec::new(),
            multiplicities: plan.tables.iter().map(|table| vec![0; 1 << table.bits()]).collect(),
            clear: Vec::new(),
            outputs,
        };
        for (constant, wide) in &plan.wides {
            let value = plan.program.value_of_constant(*constant).index();
            witness.ranges.insert(*constant, wide.limbs(&witness.values[value]));
        }
        for (operation, normal) in &plan.normals {
            let limbs = witness.divided(plan, *operation, normal);
            witness.limbs.insert(*operation, limbs);
        }
        for operation in 0..plan.program.operations().len() {
            let is_choice = matches!(plan.primitive(operation), Primitive::Select { .. });
            if is_choice && plan.holder(plan.value_of(operation)) != Holder::Dead {
                let conditions = witness.source(plan, operation, Source::Condition(operation));
                let flags = conditions.into_iter().map(|condition| i32::from(condition != 0));
                witness.limbs.insert(operation, vec![flags.collect()]);
            }
        }
        let mut rounded = BTreeMap::new();
        for (operation, rescaled) in &plan.rescales {
            let sums = witness.accumulators(plan, runner, *operation)?;
            let (limbs, rest) = round(plan, *operation, rescaled, &sums);
            witness.limbs.insert(*operation, limbs);
            rounded.insert(*operation, rest);
        }
        for check in &plan.checks {
            if let Check::Clear(operation) = *check {
                let sums = witness.accumulators(plan, runner, operation)?;
                witness.clear.extend(sums);
            }
        }
        for product in &plan.products {
            witness.choose(plan, product);
        }
        witness.look_up(plan, &rounded);
        Ok(witness)
    }

    /// The accumulators of an operation, of all inferences.
    fn accumulators(
        &self,
        plan: &Plan,
        runner: &Runner,
        operation: usize,
    ) -> Result<Vec<i32>, RunError> {
        let factors = match plan.primitive(operation) {
            Primitive::Linear { x, .. } => vec![*x],
            Primitive::MatMul { a, b, .. } => vec![*a, *b],
            Primitive::Join { .. }
            | Primitive::Product { .. }
            | Primitive::Table { .. }
            | Primitive::Sum { .. }
            | Primitive::Max { .. }
            | Primitive::Normalise { .. }
            | Primitive::Move { .. }
            | Primitive::Select { .. }
            | Primitive::Lookup { .. }
            | Primitive::ArgMax { .. } => return Ok(self.element_sums(plan, operation)),
        };
        let mut sums = Vec::with_capacity(plan.batch * plan.layout_of(operation).len());
        for inference in 0..plan.batch {
            let factors: Vec<Tensor> =
                factors.iter().map(|value| self.tensor(plan, *value, inference)).collect();
            let factors: Vec<&Tensor> = factors.iter().collect();
            sums.extend(runner.accumulators(operation, &factors)?);
        }
        Ok(sums)
    }

    /// The accumulators of an operation that has no fast way to compute them. What an element reads
    /// is found once for all inferences.
    fn element_sums(&self, plan: &Plan, operation: usize) -> Vec<i32> {
        let len = plan.layout_of(operation).len();
        let mut sums = vec![0; plan.batch * len];
        for index in 0..len {
            let element = Element::new(&plan.program, operation, index).expect("it exists");
            for inference in 0..plan.batch {
                let mut read =
                    |value: ValueId, at: usize| Ok(self.value(plan, value, inference, at));
                let state = (0..element.terms()).try_fold(element.start(), |state, term| {
                    element.absorb::<Infallible>(state, term, &mut read)
                });
                let Ok(state) = state;
                sums[inference * len + index] = state as i32;
            }
        }
        sums
    }

    fn tensor(&self, plan: &Plan, value: ValueId, inference: usize) -> Tensor {
        let numbers = self.read(plan, value, inference).iter();
        let numbers: Vec<i64> = numbers.map(|number| (*number).into()).collect();
        let spec = &plan.program.specs()[value.index()];
        Tensor::new(spec, &numbers).expect("values lie in their ranges")
    }

    /// A value of one inference.
    pub(crate) fn read(&self, plan: &Plan, value: ValueId, inference: usize) -> &[i32] {
        let len = plan.program.specs()[value.index()].elements();
        let all = &self.values[value.index()];
        // A constant stands there once.
        if all.len() == len { all } else { &all[inference * len..(inference + 1) * len] }
    }

    fn value(&self, plan: &Plan, value: ValueId, inference: usize, at: usize) -> i32 {
        self.read(plan, value, inference)[at]
    }

    fn look_up(&mut self, plan: &Plan, rounded: &BTreeMap<usize, Rounded>) {
        for group in &plan.groups {
            let elements = |operation: usize| self.values[plan.value_of(operation).index()].clone();
            let looked = match group.what {
                Lookup::Limb(operation, place) => {
                    Looked::keys(self.limbs[&operation][place].clone())
                }
                Lookup::Top(operation) => Looked::keys(rounded[&operation].tops.clone()),
                Lookup::Clamp(operation) => {
                    Looked::pairs(rounded[&operation].keys.clone(), elements(operation))
                }
                Lookup::Block(operation) => {
                    let (keys, limbs) = (&rounded[&operation].keys, &self.limbs[&operation]);
                    let [flags, bases] = [2, 1].map(|from_last| &limbs[limbs.len() - from_last]);
                    Looked { numbers: [keys, flags, bases].map(Clone::clone) }
                }
                Lookup::Entry(operation) => {
                    let Primitive::Table { x, .. } = plan.primitive(operation) else { continue };
                    let len = group.layout.len();
                    let all = 0..plan.batch * len;
                    let keys = all.map(|at| self.value(plan, *x, at / len, at % len));
                    Looked::pairs(keys.collect(), elements(operation))
                }
                Lookup::Excess(product, tap) => {
                    Looked::keys(self.excess(plan, &plan.products[product], tap))
                }
                Lookup::Formed(operation) => self.looked(plan, group, operation),
                Lookup::Zero(_) => Looked::keys(vec![0; plan.batch * group.layout.len()]),
                Lookup::Row(operation) => {
                    let row = group.layout.side(1) as i32;
                    let indices = self.source(plan, operation, Source::Index(operation));
                    let own = plan.tables[group.table].keys_of_inference();
                    let place = |(at, index): (usize, i32)| {
                        let first = (at / group.layout.len() * own) as i32;
                        first + index * row + at as i32 % row
                    };
                    let places = indices.into_iter().enumerate().map(place);
                    Looked::pairs(places.collect(), elements(operation))
                }
                Lookup::Place(operation) => Looked::keys(elements(operation)),
                Lookup::Largest(operation) => Looked::keys(self.largest(plan, operation)),
                Lookup::Range(constant, place) => {
                    Looked::keys(self.ranges[&constant][place].clone())
                }
                Lookup::Input(input) => {
                    let lo = plan.program.specs()[input].lo;
                    Looked::keys(self.values[input].iter().map(|number| number - lo).collect())
                }
            };
            let place = plan.tables[group.table].places();
            let counts = &mut self.multiplicities[group.table];
            for key in &looked.numbers[0] {
                let place = place((*key).into()).expect("an honest key is in its table");
                counts[place] += 1;
            }
            self.lookups.push(looked);
        }
    }

    /// The numbers of a table that is held.
    pub(crate) fn held(&self, plan: &Plan, table: &Table) -> Vec<i32> {
        let Table::Held { value, layout } = table else { return Vec::new() };
        let of = |inference: usize| self.read(plan, *value, inference);
        (0..layout.batch().len).flat_map(of).copied().collect()
    }

    /// Key and values as their forms say.
    pub(crate) fn looked(&self, plan: &Plan, group: &Group, operation: usize) -> Looked {
        let [first, second] = &group.values;
        let numbers = [&group.key, first, second].map(|form| {
            let numbers = self.formed(plan, operation, form);
            numbers.into_iter().map(whole).collect()
        });
        Looked { numbers }
    }

    fn excess(&self, plan: &Plan, product: &Product, tap: usize) -> Vec<i32> {
        let ProductKind::Max(shape) = &product.kind else { return Vec::new() };
        let made = self.source(plan, product.operation, shape.made);
        let taps = self.source(plan, product.operation, shape.taps[tap]);
        made.iter().zip(taps).map(|(made, read)| made - read).collect()
    }

    /// The largest element, counted from the smallest that there can be.
    fn largest(&self, plan: &Plan, operation: usize) -> Vec<i32> {
        let Primitive::ArgMax { x, len, .. } = plan.primitive(operation) else {
            return Vec::new();
        };
        let lo = i64::from(plan.program.specs()[x.index()].lo);
        let of = |candidate: &i32| (i64::from(*candidate).div_euclid((*len).into()) - lo) as i32;
        let candidates = self.limbs[&operation].last();
        candidates.into_iter().flatten().map(of).collect()
    }

    /// The numbers that a product needs beside values: steps of a maximum.
    fn choose(&mut self, plan: &Plan, product: &Product) {
        let operation = product.operation;
        let made = match &product.kind {
            ProductKind::Max(MaxShape { made: Source::Column(_), taps }) => {
                let taps = taps.iter().map(|tap| self.source(plan, operation, *tap));
                let larger = |a: Vec<i32>, b: Vec<i32>| {
                    a.into_iter().zip(b).map(|(a, b)| a.max(b)).collect()
                };
                taps.reduce(larger).unwrap_or_default()
            }
            ProductKind::Max(_)
            | ProductKind::Linear(_)
            | ProductKind::MatMul(_)
            | ProductKind::Times(_)
            | ProductKind::Elements { .. } => return,
        };
        self.limbs.entry(operation).or_default().push(made);
    }

    /// A source's numbers for the elements of an operation, of all inferences.
    pub(crate) fn source(&self, plan: &Plan, operation: usize, source: Source) -> Vec<i32> {
        match source {
            Source::Column(column) => match plan.columns[column.0].role {
                Role::Limb(operation, place) => self.limbs[&operation][place].clone(),
                Role::Value(operation) => self.values[plan.value_of(operation).index()].clone(),
                Role::Input(input) => self.values[input].clone(),
                Role::Range(constant, place) => self.ranges[&constant][place].clone(),
                Role::Multiplicity(_) | Role::Constant(_) | Role::Filler => Vec::new(),
            },
            Source::Value(value) => {
                (0..plan.batch).flat_map(|n| self.read(plan, value, n)).copied().collect()
            }
            Source::Accumulator(_) => Vec::new(),
            Source::Beside(operation, column) => {
                let Role::Limb(_, place) = plan.columns[column.0].role else { return Vec::new() };
                let elements = 0..plan.layout_of(operation).len();
                let read = |index: usize| read_of(&plan.program, source, index)?.from;
                let places: Vec<usize> = elements.filter_map(|at| Some(read(at)?.1)).collect();
                let beside = &self.limbs[&operation][place];
                let of = |all: &[i32]| places.iter().map(|at| all[*at]).collect::<Vec<_>>();
                beside.chunks(beside.len() / plan.batch).flat_map(of).collect()
            }
            Source::Tap(..) | Source::Condition(_) | Source::Index(_) | Source::Placed(_) => {
                let elements = 0..plan.layout_of(operation).len();
                let reads: Vec<Read> =
                    elements.filter_map(|index| read_of(&plan.program, source, index)).collect();
                let of = |inference: usize| {
                    let number = move |read: &Read| {
                        let from = read.from.map_or(0, |(value, at)| {
                            i64::from(self.value(plan, value, inference, at))
                        });
                        (from * read.factor + read.constant) as i32
                    };
                    reads.iter().map(number).collect::<Vec<_>>()
                };
                (0..plan.batch).flat_map(of).collect()
            }
        }
    }

    /// The numbers of a form for an operation, of all inferences. It has no accumulators.
    pub(crate) fn formed(&self, plan: &Plan, operation: usize, form: &Form) -> Vec<F> {
        let mut sums: Vec<F> = Vec::new();
        for term in &form.terms {
            let numbers = self.source(plan, operation, term.source);
            sums.resize(numbers.len(), form.padding());
            for (sum, number) in sums.iter_mut().zip(numbers) {
                let number = int(number.into());
                *sum += if term.scale == F::ONE { number } else { number * term.scale };
            }
        }
        sums
    }

    /// What is committed of a division: numbers of each element, then of each divisor.
    fn divided(&self, plan: &Plan, operation: usize, normal: &Normal) -> Vec<Vec<i32>> {
        let Primitive::Normalise { offset, x, .. } = plan.primitive(operation) else {
            return Vec::new();
        };
        let [left, right] = [0, 1].map(|place| {
            let source = Source::Placed(Placed { operation, place, number: 0 });
            self.source(plan, operation, source)
        });
        let pairs = left.iter().zip(&right);
        let of = |(left, x): (&i32, &i32)| {
            normal.element(i64::from(*left) + i64::from(*offset), (*x).into())
        };
        let mut found = transposed(pairs.map(of));
        let divisors = self.source(plan, operation, Source::Value(x.value));
        found.extend(transposed(divisors.iter().map(|x| normal.divisor((*x).into()))));
        found
    }

    /// The columns of a commitment, by bundle.
    pub(crate) fn bundles(&self, plan: &Plan, tree: Tree) -> Vec<Vec<Vec<F>>> {
        let mut bundles: Vec<Vec<Vec<F>>> = Vec::new();
        for column in plan.columns.iter().filter(|column| column.tree == tree) {
            if column.bundle == bundles.len() {
                bundles.push(Vec::new());
            }
            bundles[column.bundle].push(self.column(plan, column));
        }
        bundles
    }

    /// The cells of a column.
    pub(crate) fn column(&self, plan: &Plan, column: &Column) -> Vec<F> {
        match column.role {
            Role::Value(operation) => {
                spread_out(&column.layout, &self.values[plan.value_of(operation).index()])
            }
            Role::Limb(operation, place) => {
                spread_out(&column.layout, &self.limbs[&operation][place])
            }
            Role::Input(input) => spread_out(&column.layout, &self.values[input]),
            Role::Range(constant, place) => {
                spread_out(&column.layout, &self.ranges[&constant][place])
            }
            Role::Filler => vec![F::default(); 1 << column.layout.bits()],
            Role::Multiplicity(table) => {
                self.multiplicities[table].iter().map(|count| int((*count).into())).collect()
            }
            Role::Constant(constant) => {
                let value = plan.program.value_of_constant(constant);
                spread_out(&column.layout, &self.values[value.index()])
            }
        }
    }
}

/// Elements in their cells, with a number for padding.
pub(crate) fn spread_over(layout: &Layout, elements: &[F], padding: F) -> Vec<F> {
    spread_with(layout, elements, padding, |element| *element)
}

/// The integer nearest to zero that an element stands for.
pub(crate) fn whole(element: F) -> i32 {
    let number = i64::from(element.as_canonical_u32());
    (if number > PRIME / 2 { number - PRIME } else { number }) as i32
}

/// Elements in their cells; padding is 0.
pub(crate) fn spread_out(layout: &Layout, elements: &[i32]) -> Vec<F> {
    let small = Small::get();
    spread_with(layout, elements, F::default(), |element| small.int(*element))
}

/// The same of whatever elements are, with what stands in cells that none has.
pub(crate) fn spread_with<T>(
    layout: &Layout,
    elements: &[T],
    padding: F,
    number: impl Fn(&T) -> F,
) -> Vec<F> {
    let mut cells = vec![padding; 1 << layout.bits()];
    let places = layout.cells();
    // Without padding between them they stand one after the other.
    let are_dense = places.last().is_some_and(|last| *last as usize + 1 == places.len());
    for (index, inference) in elements.chunks(places.len()).enumerate() {
        let to = &mut cells[index << layout.inner_bits()..];
        if are_dense {
            to.iter_mut().zip(inference).for_each(|(to, element)| *to = number(element));
            continue;
        }
        for (place, element) in places.iter().zip(inference) {
            to[*place as usize] = number(element);
        }
    }
    cells
}

/// Rows as columns.
fn transposed(rows: impl Iterator<Item = Vec<i32>>) -> Vec<Vec<i32>> {
    let mut columns: Vec<Vec<i32>> = Vec::new();
    for row in rows {
        columns.resize(row.len(), Vec::new());
        columns.iter_mut().zip(row).for_each(|(column, number)| column.push(number));
    }
    columns
}

/// A tensor's elements.
pub(crate) fn numbers(tensor: &Tensor) -> impl Iterator<Item = i32> + '_ {
    (0..tensor.len()).filter_map(|at| tensor.get(at))
}

type Run = (Vec<Vec<i32>>, Vec<Vec<Tensor>>);

fn run(plan: &Plan, runner: &Runner, inputs: &[Vec<Tensor>]) -> Result<Run, RunError> {
    let program = &plan.program;
    let one = |given: &Vec<Tensor>| -> Result<(Vec<Vec<i32>>, Vec<Tensor>), RunError> {
        let mut values: Vec<Vec<i32>> = vec![Vec::new(); program.specs().len()];
        let kept = &mut values;
        let made = runner.run_observed(given, &mut |operation, elements: Elements<'_>| {
            let value = program.value_of(operation).index();
            if plan.holders[value] != Holder::Dead {
                let kept = &mut kept[value];
                match elements {
                    Elements::I8(all) => kept.extend(all.iter().map(|number| i32::from(*number))),
                    Elements::I16(all) => kept.extend(all.iter().map(|number| i32::from(*number))),
                    Elements::I32(all) => kept.extend_from_slice(all),
                }
            }
        })?;
        for (index, tensor) in given.iter().enumerate() {
            values[index].extend(numbers(tensor));
        }
        Ok((values, made))
    };
    let all = inputs.par_iter().map(one).collect::<Result<Vec<_>, RunError>>()?;
    let (all, outputs): (Vec<Vec<Vec<i32>>>, Vec<Vec<Tensor>>) = all.into_iter().unzip();
    let of = |index: usize| {
        let mut joined = Vec::with_capacity(all.iter().map(|values| values[index].len()).sum());
        all.iter().for_each(|values| joined.extend_from_slice(&values[index]));
        joined
    };
    let mut values: Vec<Vec<i32>> = (0..program.specs().len()).map(of).collect();
    for (index, value) in values.iter_mut().enumerate() {
        let id = ValueId { number: index as u32 };
        if let (Some(Place::Constant(constant)), true) = (program.place(id), is_weighed(plan, id)) {
            value.extend(numbers(&runner.model().constants()[constant]));
        }
    }
    Ok((values, outputs))
}

/// Whether a value's numbers are needed one by one. Weights are read where the model has them.
fn is_weighed(plan: &Plan, value: ValueId) -> bool {
    let is_secret = matches!(plan.holder(value), Holder::Column(_));
    let by_product = |product: &Product| match &product.kind {
        ProductKind::Linear(shape) => {
            let as_weights = shape.weights == value && shape.secret == Secret::General;
            shape.x == value || shape.bias == Some(value) || (is_secret && as_weights)
        }
        ProductKind::MatMul(_)
        | ProductKind::Elements { .. }
        | ProductKind::Times(_)
        | ProductKind::Max(_) => false,
    };
    let by_other = |operation: usize| {
        let primitive = plan.primitive(operation);
        let is_linear = matches!(primitive, Primitive::Linear { .. });
        plan.holder(plan.value_of(operation)) != Holder::Dead
            && !is_linear
            && primitive.reads().contains(&value)
    };
    let is_wide = match plan.program.place(value) {
        Some(Place::Constant(constant)) => plan.wides.contains_key(&constant),
        Some(Place::Input(_) | Place::Operation(_)) | None => false,
    };
    let by_range = |group: &Group| group.what == Lookup::Input(value.index());
    is_wide
        || plan.groups.iter().any(by_range)
        || plan.products.iter().any(by_product)
        || (0..plan.program.operations().len()).any(by_other)
}

/// Limbs and keys of a rescale without a first shift, whose multipliers are by column.
fn round_to_keys(
    rescale: &Rescale,
    fine: u8,
    widths: &[u8],
    columns: usize,
    sums: &[i32],
) -> (Vec<Vec<i32>>, Rounded) {
    let factors: Vec<i64> = (0..columns).map(|column| rescale.multiplier(column).into()).collect();
    let half = half(rescale.shift);
    let mut shift = 0_u8;
    let mut limbs = Vec::new();
    for width in widths {
        let (from, mask) = (shift, (1_i64 << width) - 1);
        limbs.push(scaled(sums, &factors, half, |scaled| ((scaled >> from) & mask) as i32));
        shift += width;
    }
    let (dropped, zero) = (rescale.shift - fine, i64::from(rescale.zero) << fine);
    let keys = scaled(sums, &factors, half, |scaled| ((scaled >> dropped) + zero) as i32);
    (limbs, Rounded { tops: Vec::new(), keys })
}

/// What becomes of accumulators that were multiplied by the factors of their columns.
#[inline(always)]
fn scaled(sums: &[i32], factors: &[i64], half: i64, of: impl Fn(i64) -> i32) -> Vec<i32> {
    let mut made = Vec::with_capacity(sums.len());
    for row in sums.chunks(factors.len()) {
        made.extend(row.iter().zip(factors).map(|(sum, by)| of(i64::from(*sum) * by + half)));
    }
    made
}

/// The limbs of what a rescale drops, and what else it looks up.
fn round(
    plan: &Plan,
    operation: usize,
    rescaled: &Rescaled,
    sums: &[i32],
) -> (Vec<Vec<i32>>, Rounded) {
    let Rescaled { rescale, bound, widest, axis, clamping, fine } = rescaled;
    let widths = limb_widths(rescale, *bound, *widest, *fine);
    let columns = plan.layout_of(operation).side(1);
    if let (0, Axis::Columns, Clamping::Keys) = (rescale.pre_shift, axis, clamping) {
        return round_to_keys(rescale, *fine, &widths[2], columns, sums);
    }
    let dropped = rescale.shift - fine;
    let count: usize = widths.iter().map(Vec::len).sum();
    let mut limbs = vec![Vec::with_capacity(sums.len()); count];
    let spec = plan.program.operations()[operation].spec;
    let mut clamped: Vec<Vec<i32>> = Vec::new();
    let mut rounded = Rounded::default();
    let top = Top::new(*bound, rescale.pre_shift, *widest);
    let rows = plan.layout_of(operation).side(0);
    let mut cut = |from: usize, widths: &[u8], mut number: i64| {
        for (limb, width) in limbs[from..].iter_mut().zip(widths) {
            limb.push((number & ((1 << width) - 1)) as i32);
            number >>= width;
        }
    };
    for (index, sum) in sums.iter().enumerate() {
        let mut small = i64::from(*sum);
        if rescale.pre_shift > 0 {
            let shifted = small + half(rescale.pre_shift);
            small = shifted >> rescale.pre_shift;
            cut(0, &widths[0], shifted & ((1 << rescale.pre_shift) - 1));
            cut(widths[0].len(), &widths[1], (small + top.small) & ((1 << top.bits) - 1));
            rounded.tops.push(((small + top.small) >> top.bits) as i32);
        }
        let place = match axis {
            Axis::Columns => index % columns,
            Axis::Rows => {
                let row = index / columns % rows;
                row % rescale.multipliers.as_slice().len()
            }
        };
        let scaled = small * i64::from(rescale.multiplier(place)) + half(rescale.shift);
        let from = widths[0].len() + widths[1].len();
        cut(from, &widths[2], scaled & ((1 << dropped) - 1));
        let mut key = (scaled >> dropped) + (i64::from(rescale.zero) << fine);
        let numbers = clamping.numbers(&mut key, &spec);
        clamped.resize(numbers.len(), Vec::new());
        clamped.iter_mut().zip(numbers).for_each(|(list, number)| list.push(whole(int(number))));
        rounded.keys.push(key as i32);
    }
    limbs.extend(clamped);
    (limbs, rounded)
}
