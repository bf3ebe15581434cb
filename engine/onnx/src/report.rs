//! How a program compares with the float model it was made from.

use crate::import::{Refused, Sample, Source};
use tg_tensor::{Array, Data, Model, Options, PortError, Runner};

/// The comparison over all samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// How many samples were compared.
    pub samples: usize,
    /// How many were not, because they hold whole numbers that calibration gave no reason to
    /// expect.
    pub skipped: usize,
    /// One comparison for each output.
    pub outputs: Vec<OutputReport>,
}

/// The comparison of one output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputReport {
    /// Its name.
    pub name: String,
    /// The cosine between all its numbers and those of the float model.
    pub cosine: f64,
    /// The largest difference of a number.
    pub error_max: f64,
    /// The largest number of the float model, to hold the difference against.
    pub magnitude_max: f64,
    /// In how many rows (along the last axis) the largest element is the same one.
    pub top_same: usize,
    /// How many rows there are.
    pub rows: usize,
    /// How many numbers differ by more than half of the output's step.
    pub steps_differ: usize,
    /// By how many steps at most.
    pub steps_max: f64,
    /// How many numbers there are.
    pub numbers: usize,
}

/// Sums of a comparison under way.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    both: f64,
    ours: f64,
    theirs: f64,
}

impl Report {
    /// Runs both models on the samples.
    pub(crate) fn measure(
        source: &Source,
        model: &Model,
        samples: &[Sample],
    ) -> Result<Self, Refused> {
        let runner = Runner::new(model.clone(), Options::default());
        let program = model.program();
        let mut outputs: Vec<OutputReport> = program
            .outputs()
            .iter()
            .map(|output| OutputReport::new(output.label.as_str()))
            .collect();
        let mut sums = vec![Sums::default(); outputs.len()];
        let mut skipped = 0;
        for sample in samples {
            let wanted = source.run(sample)?;
            let inputs: Result<Vec<_>, _> = program
                .inputs()
                .iter()
                .zip(sample)
                .map(|(port, array)| port.encode(array))
                .collect();
            let inputs = match inputs {
                Ok(inputs) => inputs,
                Err(PortError::Elements { .. }) => {
                    skipped += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let found = runner.run(&inputs)?;
            for (index, (port, tensor)) in program.outputs().iter().zip(&found).enumerate() {
                let (Some(report), Some(sums), Some(wanted)) =
                    (outputs.get_mut(index), sums.get_mut(index), wanted.get(index))
                else {
                    continue;
                };
                let step = port.scaling.map_or(1.0, |scaling| scaling.scale);
                report.add(sums, &port.decode(tensor), wanted, step);
            }
        }
        for (report, sums) in outputs.iter_mut().zip(&sums) {
            report.cosine = cosine(sums);
        }
        Ok(Self { samples: samples.len() - skipped, skipped, outputs })
    }
}

impl OutputReport {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            cosine: 1.0,
            error_max: 0.0,
            magnitude_max: 0.0,
            top_same: 0,
            rows: 0,
            steps_differ: 0,
            steps_max: 0.0,
            numbers: 0,
        }
    }

    /// Compares two arrays of the same shape.
    #[must_use]
    pub fn compare(name: &str, ours: &Array, theirs: &Array, step: f64) -> Self {
        let mut report = Self::new(name);
        let mut sums = Sums::default();
        report.add(&mut sums, ours, theirs, step);
        report.cosine = cosine(&sums);
        report
    }

    fn add(&mut self, sums: &mut Sums, ours: &Array, theirs: &Array, step: f64) {
        let (a, b) = (numbers(ours), numbers(theirs));
        for (a, b) in a.iter().zip(&b) {
            sums.both += a * b;
            sums.ours += a * a;
            sums.theirs += b * b;
            let error = (a - b).abs();
            self.error_max = self.error_max.max(error);
            self.magnitude_max = self.magnitude_max.max(b.abs());
            if error > step / 2.0 {
                self.steps_differ += 1;
                self.steps_max = self.steps_max.max(error / step);
            }
        }
        self.numbers += b.len();
        let row = theirs.shape().last().copied().unwrap_or(1).max(1);
        for (a, b) in a.chunks(row).zip(b.chunks(row)) {
            self.rows += 1;
            self.top_same += usize::from(top(a) == top(b));
        }
    }
}

fn cosine(sums: &Sums) -> f64 {
    if sums.ours == 0.0 && sums.theirs == 0.0 {
        return 1.0;
    }
    sums.both / (sums.ours.sqrt() * sums.theirs.sqrt()).max(f64::MIN_POSITIVE)
}

fn numbers(array: &Array) -> Vec<f64> {
    match array.data() {
        Data::Float(reals) => reals.iter().map(|real| f64::from(*real)).collect(),
        Data::Int(numbers) => numbers.iter().map(|number| *number as f64).collect(),
    }
}

/// The place of the largest number, the first of equals.
fn top(row: &[f64]) -> usize {
    let mut best = 0;
    for (place, number) in row.iter().enumerate() {
        if row.get(best).is_none_or(|most| number > most) {
            best = place;
        }
    }
    best
}
