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
use crate::plan::{At, Plan, Table};
use crate::witness::Witness;
use p3_field::PrimeCharacteristicRing;

/// The numerators and denominators of all leaves.
pub(crate) struct Leaves {
    pub(crate) numerators: Vec<F>,
    pub(crate) denominators: Vec<EF>,
}

/// The prover's leaves.
pub(crate) fn leaves(plan: &Plan, witness: &Witness, challenges: &Challenges) -> Leaves {
    let (alpha, beta) = (challenges.alpha, challenges.beta);
    let mut numerators = vec![F::ZERO; 1 << plan.leaf_bits];
    let mut denominators = vec![EF::ONE; 1 << plan.leaf_bits];
    for (group, looked_up) in plan.groups.iter().zip(&witness.lookups) {
        let shifted = alpha - tag(beta, group.table);
        let bits = group.layout.bits();
        let powers = [EF::ONE, beta, beta.square()];
        let padding = group.forms().zip(powers).map(|(form, power)| power * form.padding());
        let padding = shifted - padding.sum::<EF>();
        denominators[group.leaf..group.leaf + (1 << bits)].fill(padding);
        let cells = group.layout.cells();
        let inner = 1 << group.layout.inner_bits();
        for (index, [key, value, second]) in looked_up.iter().enumerate() {
            let cell = index / cells.len() * inner + cells[index % cells.len()] as usize;
            numerators[group.leaf + cell] = F::ONE;
            let mut denominator = shifted - int((*key).into());
            if *value != 0 {
                denominator -= powers[1] * int((*value).into());
            }
            if *second != 0 {
                denominator -= powers[2] * int((*second).into());
            }
            denominators[group.leaf + cell] = denominator;
        }
    }
    for (index, table) in plan.tables.iter().enumerate() {
        let shifted = alpha - tag(beta, index);
        let leaf = plan.multiplicities[index].1;
        let counts = witness.multiplicities[index].iter();
        let entries = table.elements(witness.secret(plan, table));
        for (place, ([key, value, second], count)) in entries.into_iter().zip(counts).enumerate() {
            numerators[leaf + place] = -F::from_u32(*count);
            denominators[leaf + place] = shifted - key - beta * value - beta.square() * second;
        }
    }
    Leaves { numerators, denominators }
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
