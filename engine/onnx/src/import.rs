//! From a file to a program with a report.
//!
//! Calibration data decides the integers; other data shows what they cost. The two are never the
//! same, otherwise the report would praise itself.

use crate::dtype::Dtype;
use crate::error::ImportError;
use crate::float::{FloatError, Reference};
use crate::graph::{Graph, Options};
use crate::lower::{Choices, Layer, LowerError, Ranges, lower};
use crate::op::Op;
use crate::report::{OutputReport, Report};
use tg_tensor::{Array, Data, Model, Options as RunOptions, PortError, RunError, Runner, Tensor};

/// The inputs of one run, in the order of the model's inputs.
pub type Sample = Vec<Array>;

/// A program and what it cost to make it.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The program with its weights.
    pub model: Model,
    /// How it compares with the float model.
    pub report: Report,
    layers: Vec<Layer>,
}

impl Imported {
    /// How every value of the graph that is in the program compares with the float model on one
    /// sample, in order: where accuracy goes.
    pub fn layers(&self, source: &Source, sample: &[Array]) -> Result<Vec<OutputReport>, Refused> {
        let inputs: Result<Vec<Tensor>, PortError> = self
            .model
            .program()
            .inputs()
            .iter()
            .zip(sample)
            .map(|(port, array)| port.encode(array))
            .collect();
        let runner = Runner::new(self.model.clone(), RunOptions::default());
        let found = runner.run_keeping(&inputs?)?;
        let mut reports = Vec::new();
        // Codes are left out: the reals that they stand for come right behind them.
        let is_shown = |layer: &&Layer| {
            let dtype = source.graph.value(layer.value).dtype;
            !matches!(dtype, Dtype::Int8 | Dtype::Uint8)
        };
        for layer in self.layers.iter().filter(is_shown) {
            let name = &source.graph.value(layer.value).name;
            let wanted = source.reference.run(sample, &[layer.value])?;
            if let (Some(ours), Some(theirs)) = (found.get(layer.operation), wanted.first()) {
                let ours = layer.decode(ours).into_iter().map(|real| real as f32).collect();
                if let Ok(ours) = Array::new(theirs.shape().to_vec(), Data::Float(ours)) {
                    reports.push(OutputReport::compare(name, &ours, theirs, layer.step()));
                }
            }
        }
        Ok(reports)
    }
}

/// Why a file does not become a program.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The file is no graph that could be imported.
    #[error(transparent)]
    Graph(#[from] ImportError),
    /// The float engine failed.
    #[error("the float model cannot be run")]
    Float(#[from] FloatError),
    /// The graph cannot be expressed in integers.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The program could not be run for the report.
    #[error("the program made of the model cannot be run")]
    Run(#[from] RunError),
    /// A sample does not fit the program.
    #[error("a sample does not fit the model")]
    Sample(#[from] PortError),
    /// Nothing to calibrate with.
    #[error("no calibration data given")]
    NoData,
}

/// A file that was read and can be run in floats.
#[derive(Debug)]
pub struct Source {
    graph: Graph,
    reference: Reference,
}

impl Source {
    /// Reads and checks a file.
    pub fn read(bytes: &[u8], options: &Options) -> Result<Self, Refused> {
        let graph = Graph::read(bytes, options)?;
        let reference = Reference::new(&graph)?;
        Ok(Self { graph, reference })
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Whether the file came with integers of its own.
    #[must_use]
    pub fn is_quantised(&self) -> bool {
        let is_code = |op: &Op| matches!(op, Op::Quantize { .. } | Op::Dequantize { .. });
        self.graph.nodes().iter().any(|node| is_code(&node.op))
    }

    /// The float model's outputs.
    pub fn run(&self, sample: &[Array]) -> Result<Vec<Array>, FloatError> {
        self.reference.run(sample, self.graph.outputs())
    }

    /// Makes a program whose integers fit the calibration samples, and compares it with the float
    /// model on the others.
    pub fn import(
        &self,
        calibration: &[Sample],
        evaluation: &[Sample],
        choices: Choices,
    ) -> Result<Imported, Refused> {
        if calibration.is_empty() {
            return Err(Refused::NoData);
        }
        let ranges = Ranges::measure(&self.graph, &self.reference, calibration)?;
        let (model, layers) = lower(&self.graph, &ranges, choices)?;
        let report = Report::measure(self, &model, evaluation)?;
        Ok(Imported { model, report, layers })
    }
}
