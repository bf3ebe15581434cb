//! Which integers the values of a graph become.
//!
//! Values that are only moved, sliced or concatenated form *groups* that share their integers, so
//! that moving needs no arithmetic. Whole numbers and truth values stand for themselves, and codes
//! of a quantised model for what its scales say; only real numbers leave a choice.

use super::{Plan, Planning, Uses, floats, is_move};
use crate::dtype::Dtype;
use crate::graph::{Graph, Node, ValueId};
use crate::lower::quant::Quant;
use crate::lower::ranges::Ranges;
use crate::op::{Op, PadMode};

/// Bits of a value that is only looked up in tables.
const TABLE_BITS: u32 = 12;

/// Bits of a value that is added, multiplied or normalised: products stay below 31 bits.
pub(crate) const WIDE_BITS: u32 = 15;

/// How far beyond what calibration showed wide integers reach: other data goes further, and a wide
/// value has bits to spare.
const HEADROOM: f64 = 1.5;

/// Values that share their integers.
pub(super) struct Groups {
    /// For each value, another one of its group, or itself.
    parents: Vec<usize>,
    /// For each value that stands for its group, the codes that the group is made of.
    codes: Vec<Option<Quant>>,
}

impl Groups {
    /// Joins what moves join.
    pub(super) fn new(planning: &Planning<'_>) -> Self {
        let graph = planning.graph;
        let count = graph.values().len();
        let codes = (0..count).map(|value| codes_of(graph, ValueId::from_index(value))).collect();
        let mut groups = Self { parents: (0..count).collect(), codes };
        for (index, node) in graph.nodes().iter().enumerate() {
            if planning.is_gone(index, node) || !is_move(&node.op) {
                continue;
            }
            // What decides is not moved: the condition of a choice, indices, scales.
            let moved = if node.op == Op::Where {
                node.inputs.get(1..)
            } else if matches!(node.op, Op::Gather { .. } | Op::Dequantize { .. }) {
                node.inputs.get(..1)
            } else {
                Some(node.inputs.as_slice())
            };
            let is_linked = |value: &ValueId| {
                let is_coded =
                    !matches!(node.op, Op::Dequantize { .. }) || codes_of(graph, *value).is_some();
                is_coded && graph.constant(*value).is_none()
            };
            let moved = moved.unwrap_or_default().iter().copied().flatten();
            let moved: Vec<ValueId> = moved.filter(is_linked).collect();
            groups.join(&moved, &node.outputs);
        }
        groups
    }

    /// Joins operands and results, unless the operands are codes of different scales.
    fn join(&mut self, operands: &[ValueId], results: &[ValueId]) {
        let codes = |value: &ValueId| self.codes.get(self.of(value.index())).copied().flatten();
        let first = operands.first().and_then(codes);
        if operands.iter().any(|operand| codes(operand) != first) {
            return;
        }
        for result in results {
            for operand in operands {
                self.link(operand.index(), result.index());
            }
        }
    }

    fn link(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        let (low, high) = (a.min(b), a.max(b));
        let codes = [a, b].iter().find_map(|at| self.codes.get(*at).copied().flatten());
        if let Some(place) = self.parents.get_mut(high) {
            *place = low;
        }
        if let Some(place) = self.codes.get_mut(low) {
            *place = codes;
        }
    }

    /// The value that stands for the group of another.
    fn of(&self, value: usize) -> usize {
        let mut at = value;
        while let Some(next) = self.parents.get(at).copied().filter(|next| *next != at) {
            at = next;
        }
        at
    }
}

/// The integers of a group.
#[derive(Clone, Copy)]
struct Choice {
    general: Quant,
    /// Beside weights.
    narrow: Quant,
    /// In products of two values.
    paired: Quant,
}

impl Choice {
    const fn always(quant: Quant) -> Self {
        Self { general: quant, narrow: quant, paired: quant }
    }
}

impl Planning<'_> {
    /// Chooses integers for all groups.
    pub(super) fn decide(self, groups: &Groups, ranges: &Ranges, activation_bits: u32) -> Plan {
        let count = self.graph.values().len();
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
        for value in 0..count {
            if self.graph.constant(ValueId::from_index(value)).is_none()
                && let Some(list) = members.get_mut(groups.of(value))
            {
                list.push(value);
            }
        }
        let mut choices = vec![Choice::always(Quant::plain(0, 1)); count];
        let mut grouped = vec![false; count];
        for (group, codes) in members.iter().zip(&groups.codes) {
            if group.is_empty() {
                continue;
            }
            let choice = match codes {
                Some(codes) => Choice::always(*codes),
                None => self.choose(group, ranges, activation_bits),
            };
            for member in group {
                if let Some(place) = choices.get_mut(*member) {
                    *place = choice;
                }
                if let Some(flag) = grouped.get_mut(*member) {
                    *flag = group.len() > 1;
                }
            }
        }
        Plan {
            roots: self.roots,
            posts: self.posts,
            absorbed: self.absorbed,
            quants: choices.iter().map(|choice| choice.general).collect(),
            narrow: choices.iter().map(|choice| choice.narrow).collect(),
            paired: choices.iter().map(|choice| choice.paired).collect(),
            grouped,
        }
    }

    fn choose(&self, group: &[usize], ranges: &Ranges, bits: u32) -> Choice {
        let mut uses = Uses::default();
        let (mut least, mut most) = (0.0_f64, 0.0_f64);
        let mut samples: Vec<f32> = Vec::new();
        let mut dtype = Dtype::Float;
        for member in group {
            let value = ValueId::from_index(*member);
            if let Some(own) = self.uses.get(*member) {
                uses.join(own);
            }
            let seen = ranges.of(value);
            let (low, high) = seen.range();
            (least, most) = (least.min(low), most.max(high));
            samples.extend_from_slice(seen.samples());
            dtype = self.graph.value(value).dtype;
            for border in self.borders(value) {
                (least, most) = (least.min(border), most.max(border));
            }
        }
        match dtype {
            Dtype::Float => {}
            Dtype::Bool => return Choice::always(Quant::plain(0, 1)),
            Dtype::Int8 => return Choice::always(Quant::plain(i8::MIN.into(), i8::MAX.into())),
            Dtype::Uint8 => return Choice::always(Quant::plain(0, u8::MAX.into())),
            Dtype::Int => return Choice::always(self.whole(group, least, most)),
        }
        let (low, high) = if bits > 8 {
            (least * HEADROOM, most * HEADROOM)
        } else {
            clipped(least, most, &samples, bits)
        };
        let narrow = Quant::spread(low, high, bits);
        let paired = Quant::centred(low, high, bits);
        let wide = Quant::spread(least * HEADROOM, most * HEADROOM, WIDE_BITS);
        let general = if uses.convolved {
            narrow
        } else if uses.wide {
            wide
        } else if uses.multiplied {
            narrow
        } else if uses.paired {
            paired
        } else if uses.tabled {
            Quant::spread(least * HEADROOM, most * HEADROOM, TABLE_BITS)
        } else {
            wide
        };
        Choice { general, narrow, paired }
    }

    /// The integers of a group of whole numbers: up to the next power of two, or all rows of what
    /// they pick from.
    fn whole(&self, group: &[usize], least: f64, most: f64) -> Quant {
        let rows =
            group.iter().filter_map(|value| self.last_row(ValueId::from_index(*value))).max();
        match rows {
            Some(last) if least >= 0.0 && most <= f64::from(last) => Quant::plain(0, last),
            _ => {
                let lo = if least < 0.0 { -power_above(-least) - 1 } else { 0 };
                Quant::plain(lo, power_above(most.max(1.0)))
            }
        }
    }

    /// The last row that a value can pick, if it picks rows.
    fn last_row(&self, value: ValueId) -> Option<i32> {
        self.graph.consumers(value).iter().find_map(|index| {
            let node = self.graph.nodes().get(*index)?;
            let Op::Gather { axis } = node.op else { return None };
            if node.inputs.get(1) != Some(&Some(value)) {
                return None;
            }
            let table = node.inputs.first().copied().flatten()?;
            let rows = self.graph.dims(table).get(axis).copied()?;
            i32::try_from(rows.checked_sub(1)?).ok()
        })
    }

    /// Numbers that a value can hold although no calibration showed them: those of its padding, and
    /// those of a constant that it picks rows of.
    fn borders(&self, value: ValueId) -> Vec<f64> {
        let producer = self.graph.producer(value).and_then(|node| self.graph.nodes().get(node));
        let Some(node) = producer else { return Vec::new() };
        if let Op::Pad { mode: PadMode::Constant(border), .. } = node.op {
            return vec![f64::from(border)];
        }
        let table = node.inputs.first().copied().flatten();
        let table = table.filter(|_| matches!(node.op, Op::Gather { .. }));
        let numbers = table.and_then(|table| self.graph.constant(table)).map(floats);
        let numbers = numbers.unwrap_or_default();
        let least = numbers.iter().copied().reduce(f64::min);
        least.into_iter().chain(numbers.iter().copied().reduce(f64::max)).collect()
    }
}

impl Uses {
    fn join(&mut self, other: &Self) {
        self.convolved |= other.convolved;
        self.multiplied |= other.multiplied;
        self.paired |= other.paired;
        self.tabled |= other.tabled;
        self.wide |= other.wide;
    }
}

/// One below the next power of two.
fn power_above(number: f64) -> i32 {
    let mut power = 2_i64;
    while (power as f64) <= number && power < 1 << 29 {
        power *= 2;
    }
    (power - 1) as i32
}

/// Where to clip a range so that `bits` lose least: a few outliers are not worth a coarser step.
fn clipped(least: f64, most: f64, samples: &[f32], bits: u32) -> (f64, f64) {
    if samples.is_empty() {
        return (least, most);
    }
    let mut best = (f64::INFINITY, (least, most));
    for percent in (60..=100).rev().step_by(4) {
        let part = f64::from(percent) / 100.0;
        let quant = Quant::spread(least * part, most * part, bits);
        let loss = samples.iter().map(|sample| {
            let real = f64::from(*sample).clamp(least, most);
            let error = quant.decode(quant.encode(real)) - real;
            error * error
        });
        let loss: f64 = loss.sum();
        if loss < best.0 * 0.98 {
            best = (loss, (least * part, most * part));
        }
    }
    best.1
}

/// Scale and zero point of a quantisation, if it has one of each and they are constants.
pub(crate) fn scaling_of(graph: &Graph, node: &Node) -> Option<(f64, f64)> {
    let parameter = |place: usize| {
        let value = node.inputs.get(place).copied().flatten()?;
        match floats(graph.constant(value)?).as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    };
    let zero = match node.inputs.get(2).copied().flatten() {
        None => 0.0,
        Some(_) => parameter(2)?,
    };
    parameter(1).filter(|scale| *scale > 0.0).map(|scale| (scale, zero))
}

/// The integers of codes, from the nodes that make or read them. Unsigned codes are moved by 128.
fn codes_of(graph: &Graph, codes: ValueId) -> Option<Quant> {
    let dtype = graph.value(codes).dtype;
    if !matches!(dtype, Dtype::Int8 | Dtype::Uint8) {
        return None;
    }
    let node = |index: usize| graph.nodes().get(index);
    let made = graph.producer(codes).and_then(node);
    let made = made.filter(|node| matches!(node.op, Op::Quantize { .. }));
    let mut readers = graph.consumers(codes).iter().filter_map(|index| node(*index));
    let read = readers.find(|node| matches!(node.op, Op::Dequantize { .. }));
    let (scale, zero) = scaling_of(graph, made.or(read)?)?;
    let moved = if dtype == Dtype::Uint8 { 128 } else { 0 };
    Some(Quant { scale, zero: zero as i32 - moved, lo: i8::MIN.into(), hi: i8::MAX.into() })
}
