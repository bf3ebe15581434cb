//! Every operator that the importer promises, run as a program and held against the float model.
//!
//! A trial is a model of one or a few nodes with random weights. It is calibrated on some samples
//! and compared on others, so that a wrong lowering cannot hide behind the report's own data.

mod degenerate;
mod functions;
mod moves;
mod patterns;
mod pointwise;
mod products;
mod quantised;
mod random;
mod reductions;
mod windows;

use super::Choices;
use crate::dtype::Dtype;
use crate::generate::{Chance, samples};
use crate::graph::Options;
use crate::import::{Sample, Source};
use crate::proto::NodeProto;
use crate::report::OutputReport;
use crate::testing::{Builder, chain, floats};
use tg_tensor::{Array, Data};

/// How close a program has to come to the float model.
#[derive(Clone, Copy, Debug)]
enum Bound {
    /// Nothing but wide integers is involved.
    Wide,
    /// Operands of eight bits limit it.
    Eight,
    /// Several layers of such operands, where few outliers are clipped.
    Deep,
    /// Every number is the same.
    Exact,
}

impl Bound {
    /// The least cosine, and the largest error as a part of the largest number.
    fn limits(self) -> (f64, f64) {
        match self {
            Self::Wide => (0.999_9, 0.008),
            Self::Eight => (0.999, 0.06),
            Self::Deep => (0.999, 0.16),
            Self::Exact => (1.0 - 1e-12, 0.0),
        }
    }
}

/// One model to be imported.
struct Trial {
    name: String,
    model: Builder,
    bound: Bound,
    /// What becomes of the normal numbers that floats are drawn as. Without their tails, so that
    /// calibration sees the whole range.
    draw: fn(f32) -> f32,
    bits: u32,
}

impl Trial {
    fn new(name: &str, model: Builder, bound: Bound) -> Self {
        Self { name: name.to_owned(), model, bound, draw: |x| x.clamp(-2.5, 2.5), bits: 8 }
    }

    fn drawn(self, draw: fn(f32) -> f32) -> Self {
        Self { draw, ..self }
    }

    fn with_bits(self, bits: u32) -> Self {
        Self { bits, ..self }
    }

    fn samples(&self, source: &Source, seed: u64, count: usize) -> Vec<Sample> {
        let drawn = |array: Array| match array.data() {
            Data::Int(_) => array,
            Data::Float(numbers) => {
                let numbers: Vec<f32> = numbers.iter().map(|number| (self.draw)(*number)).collect();
                floats(array.shape(), &numbers)
            }
        };
        let all = samples(source.graph(), seed, count).into_iter();
        all.map(|sample| sample.into_iter().map(drawn).collect()).collect()
    }

    /// What is wrong with the program made of the model, if anything.
    fn flaw(&self) -> Result<(), String> {
        let source = Source::read(&self.model.bytes(), &Options::default())
            .map_err(|error| format!("not read: {}", chain(&error)))?;
        let (calibration, evaluation) =
            (self.samples(&source, 1, CALIBRATION), self.samples(&source, 2, EVALUATION));
        let imported = source
            .import(&calibration, &evaluation, Choices { activation_bits: self.bits })
            .map_err(|error| format!("not imported: {}", chain(&error)))?;
        if imported.report.samples != EVALUATION {
            return Err(format!("{} samples skipped", imported.report.skipped));
        }
        let (cosine, error) = self.bound.limits();
        for output in &imported.report.outputs {
            let relative = output.error_max / output.magnitude_max.max(1e-30);
            if output.cosine < cosine || relative > error {
                let OutputReport { cosine, error_max, magnitude_max, .. } = output;
                return Err(format!(
                    "cosine {cosine:.6}, error {error_max:.4} of {magnitude_max:.4}"
                ));
            }
        }
        Ok(())
    }
}

/// Samples that choose integers.
const CALIBRATION: usize = 48;

/// Samples on which the program is compared.
const EVALUATION: usize = 12;

/// Runs all trials and names those that fail.
fn check(trials: Vec<Trial>) {
    let flaw = |trial: &Trial| Some(format!("{}: {}", trial.name, trial.flaw().err()?));
    let flaws: Vec<String> = trials.iter().filter_map(flaw).collect();
    assert!(flaws.is_empty(), "{} of {}:\n{}", flaws.len(), trials.len(), flaws.join("\n"));
}

/// A model in a recent version of the operators with one input `x`.
fn on(shape: &[usize]) -> Builder {
    Builder::new(21).floats("x", shape)
}

/// A model of one node on one input.
fn one(shape: &[usize], node: NodeProto) -> Builder {
    on(shape).node(node).output("y")
}

/// A node from `x` to `y`.
fn simple(operator: &str) -> NodeProto {
    NodeProto::new(operator, &["x"], &["y"])
}

/// A node with named operands and one result.
fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto::new(operator, inputs, &[output])
}

/// Normal numbers from a seed.
fn random(seed: u64, shape: &[usize]) -> Array {
    let mut chance = Chance(seed);
    let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| chance.normal()).collect();
    floats(shape, &numbers)
}

/// Numbers between 1/2 and 3/2 from a seed.
fn positive(seed: u64, shape: &[usize]) -> Array {
    let numbers: Vec<f32> =
        random(seed, shape).to_floats().iter().map(|number| 1.0 + number.tanh() / 2.0).collect();
    floats(shape, &numbers)
}

/// More of what tests build models with.
trait More {
    fn weight(self, name: &str, shape: &[usize]) -> Self;
    fn scalar(self, name: &str, value: f32) -> Self;
    fn add(self, operator: &str, inputs: &[&str], output: &str) -> Self;
}

impl More for Builder {
    /// One more constant of normal numbers, of a seed that its name gives.
    fn weight(self, name: &str, shape: &[usize]) -> Self {
        let seed = name.bytes().fold(7, |seed: u64, byte| seed * 31 + u64::from(byte));
        self.constant(name, Dtype::Float, &random(seed, shape))
    }

    /// One more constant number.
    fn scalar(self, name: &str, value: f32) -> Self {
        self.constant(name, Dtype::Float, &floats(&[], &[value]))
    }

    /// One more node without attributes.
    fn add(self, operator: &str, inputs: &[&str], output: &str) -> Self {
        self.node(node(operator, inputs, output))
    }
}
