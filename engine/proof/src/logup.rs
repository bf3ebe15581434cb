//! All look-ups of a proof as one sum of fractions that must be zero.
//!
//! A look-up of a key with its values v, w in table t is the fraction 1 / (alpha - key - beta * v -
//! beta^2 * w - beta^3 * t), an entry that is looked up m times is -m over the same of the entry.
//! As functions of alpha, fractions of different (key, v, w, t) have different poles, so the sum is
//! zero only if all that is looked up are entries, and as often as the multiplicities say; these
//! are below p, because there are fewer look-ups than that. Leaves that stand for no element have
//! the numerator 0, unused leaves are 0 / 1.

use crate::claims::{Challenges, Openings, Points};
use crate::field::{EF, F, int};
use crate::fractions::{Fractions, Narrow, Small, Wide};
use crate::plan::{At, Plan, Table};
use crate::witness::Witness;
use p3_field::{PackedValue, PrimeCharacteristicRing};
use rayon::prelude::*;

/// The prover's leaves, up to the last that is used.
pub(crate) fn leaves(plan: &Plan, witness: &Witness, challenges: &Challenges) -> Fractions<Small> {
    let used = plan.leaves_used();
    let mut numerators = vec![F::ZERO; used];
    let mut denominators = vec![Wide::ONE; used / Narrow::WIDTH];
    for (group, looked_up) in plan.groups.iter().zip(&witness.lookups) {
        let cells = group.layout.cells();
        let inner = 1 << group.layout.inner_bits();
        let block = group.leaf..group.leaf + (1 << group.layout.bits());
        let ones = &mut numerators[block.clone()];
        let mut keys: Vec<Vec<F>> =
            group.forms().map(|form| vec![form.padding(); block.len()]).collect();
        let inferences = looked_up.chunks(cells.len()).enumerate();
        for (from, numbers) in inferences.map(|(index, numbers)| (index * inner, numbers)) {
            for (place, ([key, value, second], cell)) in numbers.iter().zip(&cells).enumerate() {
                debug_assert!(place < inner);
                let cell = from + *cell as usize;
                ones[cell] = F::ONE;
                keys[0][cell] = int((*key).into());
                keys[1][cell] = int((*value).into());
                keys[2][cell] = int((*second).into());
            }
        }
        fill(challenges, group.table, &keys, block.start, &mut denominators);
    }
    for (index, table) in plan.tables.iter().enumerate() {
        let leaf = plan.multiplicities[index].1;
        let entries = table.elements(witness.secret(plan, table));
        let counts = &mut numerators[leaf..leaf + entries.len()];
        for (count, used) in counts.iter_mut().zip(&witness.multiplicities[index]) {
            *count = -F::from_u32(*used);
        }
        let keys = [0, 1, 2].map(|place| entries.iter().map(|entry| entry[place]).collect());
        fill(challenges, index, &keys, leaf, &mut denominators);
    }
    Fractions { numerators: Narrow::pack_slice(&numerators).to_vec(), denominators }
}

/// Writes the denominators of keys with their values, from a leaf on.
fn fill(
    challenges: &Challenges,
    table: usize,
    keys: &[Vec<F>],
    leaf: usize,
    denominators: &mut [Wide],
) {
    let beta = challenges.beta;
    let shifted = Wide::from(challenges.alpha - tag(beta, table));
    let [first, second] = [beta, beta.square()].map(Wide::from);
    let is_zero = |numbers: &Vec<F>| numbers.iter().all(|number| *number == F::ZERO);
    let zero = [is_zero(&keys[1]), is_zero(&keys[2])];
    let [key, one, two] = [0, 1, 2].map(|place| Narrow::pack_slice(&keys[place]));
    let to = denominators[leaf / Narrow::WIDTH..][..key.len()].par_iter_mut().with_min_len(512);
    to.enumerate().for_each(|(at, denominator)| {
        *denominator = shifted - key[at];
        if !zero[0] {
            *denominator -= first * one[at];
        }
        if !zero[1] {
            *denominator -= second * two[at];
        }
    });
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
        numerator.constant += selector * group.layout.indicator(point);
        denominator.constant += selector * (alpha - tag(beta, group.table));
        for (form, power) in group.forms().zip([EF::ONE, beta, beta.square()]) {
            let factor = -selector * power;
            for (constant, spread) in &form.constant {
                denominator.constant += factor * spread.eval(&group.layout, point) * *constant;
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
        match table {
            Table::Secret { column, .. } => {
                denominator.points.add(-selector * beta, *column, At::Lookups);
            }
            Table::Range { .. }
            | Table::Clamp { .. }
            | Table::Blocks { .. }
            | Table::Pairs { .. }
            | Table::Entries { .. } => {}
        }
        let [key, value, second] = table.eval(&point[point.len() - table.bits()..], EF::ZERO);
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
