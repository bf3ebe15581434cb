//! What the prover knows: all values of the runs, what rounding dropped, and how often every entry
//! of a table is used.

use crate::field::{F, int};
use crate::plan::{
    Axis, Check, Column, Holder, Layout, Lookup, Plan, Rescaled, Role, Top, Tree, half, limb_widths,
};
use crate::reads::tap_of;
use std::collections::BTreeMap;
use std::convert::Infallible;
use tg_tensor::element::Element;
use tg_tensor::program::{Place, Primitive, ValueId};
use tg_tensor::{Elements, RunError, Runner, Tensor};

/// The prover's numbers. Those of one value stand one inference after the other.
#[derive(Clone)]
pub(crate) struct Witness {
    /// Every value that is needed, by number.
    pub(crate) values: Vec<Vec<i32>>,
    /// The limbs of each rescale.
    pub(crate) limbs: BTreeMap<usize, Vec<Vec<i32>>>,
    /// Key and value of every look-up, by group.
    pub(crate) lookups: Vec<Vec<(i32, i32)>>,
    /// How often each entry is looked up, by table.
    pub(crate) multiplicities: Vec<Vec<u32>>,
    /// Accumulators in the clear.
    pub(crate) clear: Vec<i32>,
    /// The outputs, one list for each inference.
    pub(crate) outputs: Vec<Vec<Tensor>>,
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
            lookups: Vec::new(),
            multiplicities: plan.tables.iter().map(|table| vec![0; 1 << table.bits()]).collect(),
            clear: Vec::new(),
            outputs,
        };
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
        let len = plan.layout_of(operation).len();
        let mut sums = Vec::with_capacity(plan.batch * len);
        for inference in 0..plan.batch {
            if let Primitive::Linear { x, .. } = plan.primitive(operation) {
                let spec = plan.program.specs()[x.index()];
                let numbers = self.read(plan, *x, inference).iter();
                let numbers: Vec<i64> = numbers.map(|number| (*number).into()).collect();
                let read = Tensor::new(&spec, &numbers).expect("values lie in their ranges");
                sums.extend(runner.accumulators(operation, &[&read])?);
                continue;
            }
            for index in 0..len {
                let element = Element::new(&plan.program, operation, index).expect("it exists");
                let mut read =
                    |value: ValueId, at: usize| Ok(self.value(plan, value, inference, at));
                let state = (0..element.terms()).try_fold(element.start(), |state, term| {
                    element.absorb::<Infallible>(state, term, &mut read)
                });
                let Ok(state) = state;
                sums.push(state as i32);
            }
        }
        Ok(sums)
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
            let element =
                |operation: usize| self.values[plan.value_of(operation).index()].iter().copied();
            let pairs: Vec<(i32, i32)> = match group.what {
                Lookup::Limb(operation, place) => {
                    self.limbs[&operation][place].iter().map(|limb| (*limb, 0)).collect()
                }
                Lookup::Top(operation) => {
                    rounded[&operation].tops.iter().map(|top| (*top, 0)).collect()
                }
                Lookup::Clamp(operation) => {
                    rounded[&operation].keys.iter().copied().zip(element(operation)).collect()
                }
                Lookup::Entry(operation) => {
                    let Primitive::Table { x, .. } = plan.primitive(operation) else { continue };
                    let len = group.layout.len();
                    let all = 0..plan.batch * len;
                    let keys = all.map(|at| self.value(plan, *x, at / len, at % len));
                    keys.zip(element(operation)).collect()
                }
                Lookup::Excess(operation, tap) => self.excess(plan, operation, tap),
            };
            let table = &plan.tables[group.table];
            for (key, _) in &pairs {
                let place = table.place((*key).into()).expect("an honest key is in its table");
                self.multiplicities[group.table][place] += 1;
            }
            self.lookups.push(pairs);
        }
    }

    fn excess(&self, plan: &Plan, operation: usize, tap: usize) -> Vec<(i32, i32)> {
        let made = &self.values[plan.value_of(operation).index()];
        let taps = self.tap(plan, operation, tap);
        made.iter().zip(taps).map(|(made, read)| (made - read, 0)).collect()
    }

    /// What a tap of a maximum reads, of all inferences.
    pub(crate) fn tap(&self, plan: &Plan, operation: usize, tap: usize) -> Vec<i32> {
        let len = plan.layout_of(operation).len();
        let reads: Vec<_> = (0..len)
            .map(|index| {
                let element = Element::new(&plan.program, operation, index).expect("it exists");
                tap_of(&element, tap).ok_or(element.start() as i32)
            })
            .collect();
        let inferences = 0..plan.batch;
        let of = |inference: usize| {
            reads.iter().map(move |read| match read {
                Ok((value, at)) => self.value(plan, *value, inference, *at),
                Err(start) => *start,
            })
        };
        inferences.flat_map(of).collect()
    }

    /// The columns of a commitment, by table.
    pub(crate) fn tables(&self, plan: &Plan, tree: Tree) -> Vec<Vec<Vec<F>>> {
        let mut tables: Vec<Vec<Vec<F>>> = Vec::new();
        for column in plan.columns.iter().filter(|column| column.tree == tree) {
            if column.bundle == tables.len() {
                tables.push(Vec::new());
            }
            tables[column.bundle].push(self.column(plan, column));
        }
        tables
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

/// Elements in their cells; padding is 0.
pub(crate) fn spread_out(layout: &Layout, elements: &[i32]) -> Vec<F> {
    let mut cells = vec![F::default(); 1 << layout.bits()];
    let places = layout.cells();
    for (index, inference) in elements.chunks(places.len()).enumerate() {
        let to = &mut cells[index << layout.inner_bits()..];
        for (place, element) in places.iter().zip(inference) {
            to[*place as usize] = int((*element).into());
        }
    }
    cells
}

/// A tensor's elements.
pub(crate) fn numbers(tensor: &Tensor) -> impl Iterator<Item = i32> + '_ {
    (0..tensor.len()).filter_map(|at| tensor.get(at))
}

type Run = (Vec<Vec<i32>>, Vec<Vec<Tensor>>);

fn run(plan: &Plan, runner: &Runner, inputs: &[Vec<Tensor>]) -> Result<Run, RunError> {
    let program = &plan.program;
    let mut values: Vec<Vec<i32>> = vec![Vec::new(); program.specs().len()];
    let mut outputs = Vec::with_capacity(inputs.len());
    for given in inputs {
        let kept = &mut values;
        let made = runner.run_observed(given, &mut |operation, elements: Elements<'_>| {
            let value = program.value_of(operation).index();
            if plan.holders[value] != Holder::Dead {
                kept[value].extend((0..elements.len()).filter_map(|at| elements.get(at)));
            }
        })?;
        for (index, tensor) in given.iter().enumerate() {
            values[index].extend(numbers(tensor));
        }
        outputs.push(made);
    }
    for (index, value) in values.iter_mut().enumerate() {
        let id = ValueId { number: index as u32 };
        if let (Some(Place::Constant(constant)), true) =
            (program.place(id), plan.holders[index] != Holder::Dead)
        {
            value.extend(numbers(&runner.model().constants()[constant]));
        }
    }
    Ok((values, outputs))
}

/// The limbs of what a rescale drops, and what else it looks up.
fn round(
    plan: &Plan,
    operation: usize,
    rescaled: &Rescaled,
    sums: &[i32],
) -> (Vec<Vec<i32>>, Rounded) {
    let Rescaled { rescale, bound, axis } = rescaled;
    let widths = limb_widths(rescale, *bound);
    let mut limbs = vec![Vec::with_capacity(sums.len()); widths.iter().map(Vec::len).sum()];
    let mut rounded = Rounded::default();
    let top = Top::new(*bound, rescale.pre_shift);
    let columns = plan.layout_of(operation).side(1);
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
        cut(from, &widths[2], scaled & ((1 << rescale.shift) - 1));
        rounded.keys.push(((scaled >> rescale.shift) + i64::from(rescale.zero)) as i32);
    }
    (limbs, rounded)
}
