//! All look-ups of a proof as one sum of fractions that must be zero.
//!
//! A look-up of a key with its values v, w in table t is the fraction 1 / (alpha - key - beta * v -
//! beta^2 * w - beta^3 * t), an entry that is looked up m times is -m over the same of the entry.
//! As functions of alpha, fractions of different (key, v, w, t) have different poles, so the sum is
//! zero only if all that is looked up are entries, and as often as the multiplicities say; these
//! are below p, because there are fewer look-ups than that. Leaves that stand for no element have
//! the numerator 0, unused leaves are 0 / 1.

use crate::claims::{Challenges, Openings, Points};
use crate::field::{EF, F, Small, int};
use crate::gates::ROW;
use crate::leaves::{Block, Leaves};
use crate::plan::{At, Form, Holder, Layout, Plan, Table};
use crate::witness::{Witness, spread_with};
use p3_field::PrimeCharacteristicRing;

/// Elements of an inference that are spread at once: what is read and written stays at hand.
const SPREAD_TOGETHER: usize = 16;

/// The prover's leaves, up to the last that is used.
pub(crate) fn leaves(plan: &Plan, witness: &Witness, challenges: &Challenges) -> Leaves {
    let mut blocks: Vec<(usize, Block)> = Vec::new();
    let small = Small::get();
    for (group, looked) in plan.groups.iter().zip(&witness.lookups) {
        let (layout, paddings) = (&group.layout, group.forms().map(Form::padding));
        let number = |number: &i32| small.int(*number);
        let numbers = |(numbers, padding): (&Vec<i32>, F)| {
            let is_used = !numbers.is_empty() || padding != F::ZERO;
            is_used.then(|| match layout.has_inferences_in_rows() {
                true => spread_in_rows(layout, numbers, padding, number),
                false => spread_with(layout, numbers, padding, number),
            })
        };
        let numerators = ones(layout);
        let numbers = looked.numbers.iter().zip(paddings).map(numbers).collect();
        let mut leaves = block(challenges, group.table, numerators, numbers);
        leaves.padding = padding(layout);
        blocks.push((group.leaf, leaves));
    }
    for (index, table) in plan.tables.iter().enumerate() {
        let entries = table.elements(&witness.held(plan, table));
        let mut numerators = vec![F::ZERO; entries.len()];
        for (count, used) in numerators.iter_mut().zip(&witness.multiplicities[index]) {
            *count = -F::from_u32(*used);
        }
        let numbers = |place: usize| {
            let is_used = place == 0 || entries.iter().any(|entry| entry[place] != F::ZERO);
            is_used.then(|| entries.iter().map(|entry| entry[place]).collect())
        };
        let (leaf, numbers) = (plan.multiplicities[index].1, (0..3).map(numbers).collect());
        blocks.push((leaf, block(challenges, index, numerators, numbers)));
    }
    blocks.sort_by_key(|(leaf, _)| *leaf);
    Leaves::new(challenges.beta, blocks.into_iter().map(|(_, block)| block).collect())
}

/// Leaves of one table; numbers of which all are 0 are not there.
fn block(
    challenges: &Challenges,
    table: usize,
    numerators: Vec<F>,
    mut numbers: Vec<Option<Vec<F>>>,
) -> Block {
    while numbers.last().is_some_and(Option::is_none) {
        numbers.pop();
    }
    let len = numerators.len();
    let numbers = numbers.into_iter().map(|all| all.unwrap_or_else(|| vec![F::ZERO; len]));
    let numbers = numbers.collect();
    let shift = challenges.alpha - tag(challenges.beta, table);
    Block { shift, numerators, numbers, padding: Vec::new() }
}

/// Numbers by cell and inference, as [`Layout::has_inferences_in_rows`] says.
fn spread_in_rows<T>(
    layout: &Layout,
    elements: &[T],
    padding: F,
    number: impl Fn(&T) -> F,
) -> Vec<F> {
    let (places, inferences) = (layout.cells(), layout.batch().len);
    let mut leaves = vec![padding; 1 << layout.bits()];
    for (block, places) in places.chunks(SPREAD_TOGETHER).enumerate() {
        let of_inference = elements.chunks(layout.len()).enumerate();
        for (inference, elements) in of_inference {
            let elements = &elements[block * SPREAD_TOGETHER..];
            for (place, element) in places.iter().zip(elements) {
                leaves[*place as usize * inferences + inference] = number(element);
            }
        }
    }
    leaves
}

/// 1 at leaves that stand for an element, else 0.
fn ones(layout: &Layout) -> Vec<F> {
    let mut one = vec![F::ZERO; 1 << layout.inner_bits()];
    for cell in layout.cells() {
        one[cell as usize] = F::ONE;
    }
    let batch = layout.batch();
    if layout.has_inferences_in_rows() {
        let mut all = vec![F::ZERO; one.len() * batch.len];
        all.chunks_mut(batch.len).zip(&one).for_each(|(leaves, one)| leaves.fill(*one));
        return all;
    }
    let mut all = one.repeat(batch.len);
    all.resize(one.len() << batch.bits, F::ZERO);
    all
}

/// Which rows of leaves stand for no element.
fn padding(layout: &Layout) -> Vec<bool> {
    let inner = 1 << layout.inner_bits();
    if layout.has_inferences_in_rows() {
        let rows = layout.batch().len / ROW;
        let mut all = vec![true; inner * rows];
        for cell in layout.cells() {
            all[cell as usize * rows..][..rows].fill(false);
        }
        return all;
    }
    if inner < ROW {
        return Vec::new();
    }
    let mut one = vec![true; inner / ROW];
    for cell in layout.cells() {
        one[cell as usize / ROW] = false;
    }
    let batch = layout.batch();
    let mut all = one.repeat(batch.len);
    all.resize(one.len() << batch.bits, true);
    all
}

/// A number and columns at the point where the look-ups ended.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) constant: EF,
    pub(crate) points: Points,
}

impl Part {
    /// The value; `None` if a column is not opened.
    pub(crate) fn value(&self, openings: &Openings) -> Option<EF> {
        Some(self.constant + self.points.value(openings)?)
    }
}

/// What the verifier knows of the claim at the end: the numerator, and the denominator but for
/// what is left to the functionals.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) numerator: Part,
    pub(crate) denominator: Part,
}

/// The verifier's part of the claim at the end of the look-ups; `None` if a term has no column,
/// which is an error of ours.
pub(crate) fn known(plan: &Plan, challenges: &Challenges) -> Option<Known> {
    let (alpha, beta, point) = (challenges.alpha, challenges.beta, &challenges.lookups);
    let Known { mut numerator, mut denominator } = Known::default();
    let mut unused = EF::ONE;
    for group in &plan.groups {
        let selector = Plan::selector(challenges, group.leaf, group.layout.bits());
        unused -= selector;
        let cells = &group.layout.cell_point(point);
        numerator.constant += selector * group.layout.indicator(cells);
        denominator.constant += selector * (alpha - tag(beta, group.table));
        for (form, power) in group.forms().zip([EF::ONE, beta, beta.square()]) {
            let factor = -selector * power;
            for (constant, spread) in &form.constant {
                denominator.constant += factor * spread.eval(&group.layout, cells) * *constant;
            }
            for term in form.terms.iter().filter(|term| plan.is_point(group, term)) {
                let column = plan.column_of(term)?;
                denominator.points.add(factor * term.scale, column, At::Lookups);
            }
        }
    }
    for (index, table) in plan.tables.iter().enumerate() {
        let (column, leaf) = plan.multiplicities[index];
        let selector = Plan::selector(challenges, leaf, table.bits());
        unused -= selector;
        numerator.points.add(-selector, column, At::Lookups);
        if let Table::Held { value, .. } = table
            && let Holder::Column(column) = plan.holder(*value)
        {
            denominator.points.add(-selector * beta, column, At::Lookups);
        }
        let [key, value, second] = table.eval(&point[point.len() - table.bits()..]);
        let shifted = alpha - tag(beta, index);
        let entry = shifted - key - beta * value - beta.square() * second;
        denominator.constant += selector * entry;
    }
    denominator.constant += unused;
    Some(Known { numerator, denominator })
}

/// What keeps tables apart.
fn tag(beta: EF, table: usize) -> EF {
    beta.cube() * int(table as i64)
}
