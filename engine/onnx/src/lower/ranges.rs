//! Which real numbers the values of a graph take, seen on calibration data.

use super::plan::is_move;
use crate::float::{FloatError, Reference};
use crate::graph::{Graph, ValueId};
use crate::op::{Binary, Op};
use tg_tensor::{Array, Data};

/// How many numbers of each value are kept for choosing where to clip.
const SAMPLES: usize = 16_384;

/// Numbers below the negative of this are taken for masks ("never attend here") if all others are
/// far smaller and nothing but a softmax looks at them.
const MASK: f64 = 5_000.0;

/// How far below everything else a masked number is put: `e^-30` is nothing.
const MASK_DEPTH: f64 = 30.0;

/// What was seen of one value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    least: f64,
    most: f64,
    plain_least: f64,
    is_masked: bool,
    samples: Vec<f32>,
}

impl Seen {
    fn take(&mut self, numbers: &[f32], runs: usize) {
        for number in numbers {
            // What overflowed in the float model says nothing of what the value usually is, unless
            // it stands for a mask.
            let is_mask = self.is_masked && *number == f32::NEG_INFINITY;
            if !(number.is_finite() || is_mask) {
                continue;
            }
            let number = f64::from(number.max(f32::MIN));
            self.least = self.least.min(number);
            self.most = self.most.max(number);
            if number > -MASK {
                self.plain_least = self.plain_least.min(number);
            }
        }
        let share = (SAMPLES / runs.max(1)).max(64);
        let step = numbers.len().div_ceil(share).max(1);
        self.samples.extend(numbers.iter().step_by(step));
    }

    /// The least and the most, zero included and masks put just below the rest.
    pub(crate) fn range(&self) -> (f64, f64) {
        let plain = self.plain_least.abs().max(self.most.abs());
        if self.is_masked && self.least <= -MASK && plain <= MASK / 10.0 {
            return (self.plain_least - MASK_DEPTH, self.most);
        }
        (self.least, self.most)
    }

    /// Some of the numbers.
    pub(crate) fn samples(&self) -> &[f32] {
        &self.samples
    }
}

/// What was seen of all values of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    seen: Vec<Seen>,
}

/// The most numbers asked of the float engine at once: 256 MiB.
const NUMBERS_AT_ONCE: usize = 1 << 26;

impl Ranges {
    /// Runs the float model on each set of inputs and looks at every value.
    pub(crate) fn measure(
        graph: &Graph,
        reference: &Reference,
        runs: &[Vec<Array>],
    ) -> Result<Self, FloatError> {
        let mut seen = vec![Seen::default(); graph.values().len()];
        for (seen, fades) in seen.iter_mut().zip(fading(graph)) {
            seen.is_masked = fades;
        }
        let ids = (0..graph.values().len()).map(ValueId::from_index);
        let is_wanted =
            |id: &ValueId| graph.constant(*id).is_none() && !graph.value(*id).name.is_empty();
        let wanted: Vec<ValueId> = ids.filter(is_wanted).collect();
        for inputs in runs {
            for part in portions(graph, &wanted) {
                let found = reference.run(inputs, part)?;
                for (value, array) in part.iter().zip(found) {
                    let Some(seen) = seen.get_mut(value.index()) else { continue };
                    match array.data() {
                        Data::Float(numbers) => seen.take(numbers, runs.len()),
                        Data::Int(_) => seen.take(&array.to_floats(), runs.len()),
                    }
                }
            }
        }
        Ok(Self { seen })
    }

    /// What was seen of a value.
    pub(crate) fn of(&self, value: ValueId) -> Seen {
        self.seen.get(value.index()).cloned().unwrap_or_default()
    }
}

/// For each value, whether everything that becomes of it ends in a softmax, where what lies far
/// below the rest is nothing.
fn fading(graph: &Graph) -> Vec<bool> {
    let mut ends = vec![false; graph.nodes().len()];
    let fades = |ends: &[bool], value: ValueId| {
        let consumers = graph.consumers(value);
        !consumers.is_empty()
            && !graph.outputs().contains(&value)
            && consumers.iter().all(|consumer| ends.get(*consumer) == Some(&true))
    };
    for (index, node) in graph.nodes().iter().enumerate().rev() {
        let passes = is_move(&node.op)
            || matches!(
                node.op,
                Op::Binary(Binary::Add | Binary::Sub | Binary::Mul) | Op::Identity
            );
        let goes_on = || node.outputs.iter().all(|result| fades(&ends, *result));
        let holds = matches!(node.op, Op::Softmax { .. }) || (passes && goes_on());
        if let Some(end) = ends.get_mut(index) {
            *end = holds;
        }
    }
    (0..graph.values().len()).map(|value| fades(&ends, ValueId::from_index(value))).collect()
}

/// Cuts the wanted values so that no part takes too much memory.
fn portions<'a>(graph: &Graph, wanted: &'a [ValueId]) -> Vec<&'a [ValueId]> {
    let mut portions = Vec::new();
    let mut rest = wanted;
    while !rest.is_empty() {
        let mut numbers = 0_usize;
        let fits = |value: &&ValueId| {
            numbers = numbers.saturating_add(graph.dims(**value).iter().product());
            numbers <= NUMBERS_AT_ONCE
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (part, left) = rest.split_at(count.min(rest.len()));
        portions.push(part);
        rest = left;
    }
    portions
}
