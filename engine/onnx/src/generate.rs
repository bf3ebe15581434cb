//! Samples for models that came without data: better than nothing, and said so wherever they were
//! used.

use crate::dtype::Dtype;
use crate::graph::Graph;
use crate::import::Sample;
use crate::op::Op;
use tg_tensor::{Array, Data};

/// Whole numbers are drawn from this many where nothing says how many there are.
const NUMBERS: u64 = 256;

/// `count` samples from a seed: normal numbers for real inputs, evenly drawn ones for whole inputs.
#[must_use]
pub fn samples(graph: &Graph, seed: u64, count: usize) -> Vec<Sample> {
    let mut chance = Chance(seed);
    let one = |_| {
        let inputs = graph.inputs().iter();
        inputs
            .map(|input| {
                let shape = graph.dims(*input).to_vec();
                let len = shape.iter().product();
                let data = match graph.value(*input).dtype {
                    Dtype::Float => Data::Float((0..len).map(|_| chance.normal()).collect()),
                    Dtype::Bool => Data::Int((0..len).map(|_| chance.below(2)).collect()),
                    Dtype::Int | Dtype::Int8 | Dtype::Uint8 => {
                        let rows = graph.consumers(*input).iter().find_map(|index| {
                            let node = graph.nodes().get(*index)?;
                            let Op::Gather { axis } = node.op else { return None };
                            let table = node.inputs.first().copied().flatten()?;
                            graph.dims(table).get(axis).map(|rows| *rows as u64)
                        });
                        let most = rows.unwrap_or(NUMBERS);
                        Data::Int((0..len).map(|_| chance.below(most)).collect())
                    }
                };
                Array::new(shape, data).unwrap_or_else(|_| unreachable!("as many as the shape"))
            })
            .collect()
    };
    (0..count).map(one).collect()
}

/// SplitMix64: small, and the same everywhere.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, most: u64) -> i64 {
        (self.next() % most.max(1)) as i64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn normal(&mut self) -> f32 {
        let distance = (-2.0 * self.unit().max(1e-300).ln()).sqrt();
        (distance * (std::f64::consts::TAU * self.unit()).cos()) as f32
    }
}
