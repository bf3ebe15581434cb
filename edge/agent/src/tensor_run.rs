//! Running a tensor program for somebody: what goes in, what comes out, and everything that is
//! needed later to show that it was done.

use std::borrow::Borrow;
use std::io::Read;
use std::sync::Arc;
use tg_gateway::package::Parts;
use tg_gateway::{PackageError, TensorInputs, WeightsSecret};
use tg_proof::court::CourtError;
use tg_proof::court::hidden::{self, Committer};
use tg_proof::court::secret::{self, SecretKey};
use tg_tensor::commit::Salt;
use tg_tensor::program::Spec;
use tg_tensor::trace::{
    Run, Subject, Trace, TraceError, Witness, WitnessError, inputs_root, outputs_root,
};
use tg_tensor::{Model, ModelError, Options, Program, RunError, Runner, Tensor, TensorError};
use tg_types::hash::{Tag, tagged};
use tg_types::{Bytes, RunResult, Tier, Work};

const TRACE_SALT: Tag = Tag::new("tensorgrid/trace salt");

/// Why a job was not run.
#[derive(Debug, thiserror::Error)]
pub enum TensorRunError {
    /// The model cannot be read.
    #[error("model cannot be read")]
    Model(#[from] ModelError),
    /// An input cannot be read.
    #[error("input {index} cannot be read")]
    Input {
        /// Which.
        index: usize,
        /// What is wrong with it.
        source: TensorError,
    },
    /// An output cannot be read.
    #[error("output {index} cannot be read")]
    Output {
        /// Which.
        index: usize,
        /// What is wrong with it.
        source: TensorError,
    },
    /// The package is not what the job says.
    #[error("package is not what the job says")]
    OtherWork,
    /// The program does not run.
    #[error("program does not run")]
    Run(#[from] RunError),
    /// The trace cannot be made.
    #[error("trace cannot be made")]
    Trace(#[from] TraceError),
    /// The outputs cannot be packed.
    #[error("outputs cannot be packed")]
    Package(#[from] PackageError),
    /// The outputs cannot be committed to.
    #[error("outputs cannot be committed to")]
    Hidden(#[from] CourtError),
    /// What was kept does not fit together.
    #[error("run does not fit its program")]
    Witness(#[from] WitnessError),
}

/// What computes a run; all of them give the same bits.
#[derive(Clone, Debug)]
pub enum Engine {
    /// The processor, with all cores.
    Processor,
    /// A GPU; what it cannot do, the processor does.
    #[cfg(feature = "wgpu")]
    Gpu(tg_tensor::gpu::Gpu),
}

impl Engine {
    fn runner(&self, model: &Arc<Model>) -> Runner {
        let runner = Runner::new(Arc::clone(model), Options::default());
        match self {
            Self::Processor => runner,
            #[cfg(feature = "wgpu")]
            Self::Gpu(gpu) => runner.on(gpu).unwrap_or_else(|error| {
                tracing::warn!(%error, "the processor computes what a GPU was to");
                Self::Processor.runner(model)
            }),
        }
    }
}

/// A finished run with all that a defence of it needs.
#[derive(Debug)]
pub struct TensorRun {
    model: Arc<Model>,
    inputs: Vec<Tensor>,
    inputs_salt: Salt,
    operations: Vec<Tensor>,
    trace: Trace,
    secret: Option<WeightsSecret>,
}

impl TensorRun {
    /// Runs what a package asks for, after checking that it is what the job names. A package that
    /// is given away is dropped before the run, so that its model is in memory once.
    ///
    /// # Errors
    /// If the package is not what the job says, or does not run.
    pub fn new(
        package: impl Borrow<TensorInputs>,
        work: &Work,
        engine: &Engine,
    ) -> Result<Self, TensorRunError> {
        let (model, inputs) = check_inputs(package.borrow(), work)?;
        let TensorInputs { salt, secret, .. } = *package.borrow();
        drop(package);
        let (inputs_salt, salt) = (Salt::new(salt), trace_salt(&salt));
        let model = Arc::new(model);
        let operations = engine.runner(&model).run_keeping(&inputs)?;
        let trace = Trace::of(model.program(), salt, &operations)?;
        Ok(Self { model, inputs, inputs_salt, operations, trace, secret })
    }

    /// All that is known of the run.
    ///
    /// # Errors
    /// Never, for a run of this program.
    pub fn witness(&self) -> Result<Witness<'_>, TensorRunError> {
        let (inputs, operations) = (&self.inputs, &self.operations);
        let run = Run { inputs, inputs_salt: self.inputs_salt, operations };
        Ok(Witness::new(&self.model, run, &self.trace)?)
    }

    /// What is claimed of the run.
    ///
    /// # Errors
    /// Never, for a run of this program.
    pub fn subject(&self) -> Result<Subject, TensorRunError> {
        Ok(self.witness()?.subject())
    }

    /// The trace.
    #[must_use]
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The outputs as a package carries them.
    ///
    /// # Errors
    /// If there are too many or too large ones.
    pub fn outputs(&self) -> Result<Parts, TensorRunError> {
        let outputs = self.output_tensors()?;
        Ok(Parts::outputs(outputs.iter().map(tensor_bytes).collect())?)
    }

    /// The outputs as a package carries them if they were proven without being shown: with the seed
    /// of the commitment to them, by which whoever opens it finds that again.
    ///
    /// # Errors
    /// If there are too many or too large ones.
    pub fn hidden_outputs(&self, seed: [u8; 32]) -> Result<Parts, TensorRunError> {
        let outputs = self.output_tensors()?;
        let parts = outputs.iter().map(tensor_bytes).chain([seed.to_vec()]);
        Ok(Parts::outputs(parts.collect())?)
    }

    /// The outputs.
    ///
    /// # Errors
    /// Never, for a run of this program.
    pub fn output_tensors(&self) -> Result<Vec<Tensor>, TensorRunError> {
        let witness = self.witness()?;
        let outputs = self.model.program().outputs().iter();
        Ok(outputs.filter_map(|output| witness.tensor(output.value)).cloned().collect())
    }

    /// The model that was run.
    #[must_use]
    pub const fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The inputs.
    #[must_use]
    pub fn inputs(&self) -> &[Tensor] {
        &self.inputs
    }

    /// What the inputs are salted with.
    #[must_use]
    pub fn inputs_secret(&self) -> [u8; 32] {
        self.inputs_salt.secret().copied().unwrap_or_default()
    }

    /// What makes the commitment to the weights, if they are a secret of the job's owner.
    #[must_use]
    pub fn weights_secret(&self) -> Option<SecretKey> {
        self.secret.map(|WeightsSecret { seed, proofs }| SecretKey { seed, proofs })
    }

    /// A lie for demonstrations: the same run with one number of the last operation changed, as
    /// somebody would hand in who did not compute it.
    ///
    /// # Errors
    /// If the program has no operations.
    pub fn falsified(mut self) -> Result<Self, TensorRunError> {
        let program = self.model.program();
        let last = program.operations().len().checked_sub(1);
        let (Some(last), Some(tensor)) = (last, self.operations.last()) else {
            return Err(TensorRunError::OtherWork);
        };
        let spec = program.operations()[last].spec;
        let mut numbers = tensor.to_numbers();
        if let Some(number) = numbers.first_mut() {
            *number = if *number == i64::from(spec.hi) { i64::from(spec.lo) } else { *number + 1 };
        }
        let wrong = Tensor::new(&spec, &numbers);
        let wrong = wrong.map_err(|source| TensorRunError::Input { index: last, source })?;
        self.operations[last] = wrong;
        self.trace = Trace::of(program, *self.trace.salt(), &self.operations)?;
        Ok(self)
    }
}

/// The model and the inputs of a package, if they are what the job names.
///
/// # Errors
/// If they are something else, or cannot be read.
pub fn check_inputs(
    package: &TensorInputs,
    work: &Work,
) -> Result<(Model, Vec<Tensor>), TensorRunError> {
    let Work::Tensor { program, weights, inputs: inputs_named, salt: mark } = work else {
        return Err(TensorRunError::OtherWork);
    };
    let model = Model::from_bytes(package.model.as_slice())?;
    let root = model.weights_root();
    // Of secret weights the chain does not even have the root.
    let named = package.secret.map_or(root, |_| secret::name(&root, &package.salt));
    if model.id() != *program || named != *weights {
        return Err(TensorRunError::OtherWork);
    }
    let inputs = read_inputs(&model, package)?;
    let is_named = inputs_root(&inputs, &Salt::new(package.salt)) == *inputs_named
        && trace_salt(&package.salt).mark() == *mark;
    if is_named { Ok((model, inputs)) } else { Err(TensorRunError::OtherWork) }
}

/// The outputs of a program that a package holds of a run, if they are those that the result of a
/// job of this tier names.
///
/// # Errors
/// If it holds something else, or does not fit into memory.
pub fn read_result(
    program: &Program,
    tier: Tier,
    result: &RunResult,
    from: &mut dyn Read,
) -> Result<Option<Vec<Tensor>>, TensorRunError> {
    let is_hidden = matches!(tier, Tier::Zk { .. });
    let (outputs, seed) = read_outputs(program, from, result.package_bytes, is_hidden)?;
    let found = match seed {
        None => outputs_root(outputs.iter()),
        Some(seed) => hidden::output_id(&Committer::new(program)?.output(&outputs, seed)?),
    };
    Ok((found == result.output).then_some(outputs))
}

/// The outputs of a program, from what a package of so many bytes holds of a run, and the seed of
/// the commitment to them, if they are hidden.
fn read_outputs(
    program: &Program,
    from: &mut dyn Read,
    package_bytes: u64,
    is_hidden: bool,
) -> Result<(Vec<Tensor>, Option<[u8; 32]>), TensorRunError> {
    let specs: Option<Vec<Spec>> =
        program.outputs().iter().map(|output| program.spec(output.value)).collect();
    let specs = specs.ok_or(TensorRunError::OtherWork)?;
    let bytes = |spec: &Spec| {
        let bytes = spec.width().bytes().saturating_mul(spec.elements());
        u64::try_from(bytes).unwrap_or(u64::MAX)
    };
    let seed_bytes = is_hidden.then_some(32);
    let expected: Vec<u64> = specs.iter().map(bytes).chain(seed_bytes).collect();
    let given = Parts::read_outputs(from, package_bytes, &expected)?;
    let given = given.ok_or(TensorRunError::OtherWork)?;
    let seed = given.last().filter(|_| is_hidden).and_then(|it| it.as_slice().try_into().ok());
    let read = specs.iter().zip(&given).enumerate().map(|(index, (spec, bytes))| {
        Tensor::from_bytes(spec, bytes.as_slice())
            .map_err(|source| TensorRunError::Output { index, source })
    });
    Ok((read.collect::<Result<_, _>>()?, seed))
}

fn read_inputs(model: &Model, package: &TensorInputs) -> Result<Vec<Tensor>, TensorRunError> {
    let stated = model.program().inputs();
    let given = package.inputs.as_slice();
    if stated.len() != given.len() {
        return Err(TensorRunError::OtherWork);
    }
    let read = stated.iter().zip(given).enumerate().map(|(index, (input, bytes))| {
        Tensor::from_bytes(&input.spec, bytes.as_slice())
            .map_err(|source| TensorRunError::Input { index, source })
    });
    read.collect()
}

/// The salt with which traces of a job are made, from the secret in its package. Whoever may open
/// the package can compute it, so a result can be checked when its provider is gone; nobody else
/// can, so that the trace tells strangers nothing. The job states its mark.
#[must_use]
pub fn trace_salt(secret: &[u8; 32]) -> Salt {
    Salt::new(*tagged(TRACE_SALT, &[secret]).as_bytes())
}

/// The bytes of a tensor as a package carries them.
#[must_use]
pub fn tensor_bytes(tensor: &Tensor) -> Vec<u8> {
    let mut bytes = Vec::new();
    tensor.append_bytes(0..tensor.len(), &mut bytes);
    bytes
}

/// As much of some bytes as a message of this size can carry.
#[must_use]
pub fn bounded<const MAX: usize>(bytes: Vec<u8>) -> Option<Bytes<MAX>> {
    Bytes::new(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::{Parts, TensorRunError, read_outputs, read_result, tensor_bytes};
    use tg_gateway::{PackageError, Plain as _};
    use tg_proof::court::hidden::{Committer, output_id};
    use tg_tensor::program::{
        self, Input, Label, Operation, Output, Primitive, Shape, Spec, ValueId,
    };
    use tg_tensor::{Program, Tensor};
    use tg_types::{Hash32, List, RunResult, Tier};

    /// A program that gives two numbers of one byte each.
    fn program() -> Program {
        let label = || Label::lossy("x");
        let shape = || Shape::new(vec![2]).expect("is short");
        let spec = Spec { len: 2, lo: -128, hi: 127 };
        let value = ValueId { number: 0 };
        let parts = program::Parts {
            inputs: vec![Input { label: label(), shape: shape(), spec, scaling: None }],
            outputs: vec![Output { label: label(), shape: shape(), value, scaling: None }],
            ..program::Parts::default()
        };
        Program::new(parts).expect("a program")
    }

    #[test]
    fn outputs_are_judged_by_their_own_length_however_large_the_package_is() {
        let read = |outputs: Vec<Vec<u8>>, package_bytes| {
            let mut bytes = Vec::new();
            Parts::outputs(outputs).expect("few").write(&mut bytes).expect("writes");
            let read = read_outputs(&program(), &mut bytes.as_slice(), package_bytes, false);
            read.map(|(outputs, _)| outputs)
        };
        // No machine has that much memory.
        let padded = 1 << 60;
        let found = read(vec![vec![1, 255]], padded).expect("reads");
        assert_eq!(found.first().map(Tensor::to_numbers), Some(vec![1, -1]));
        for other in [vec![vec![1; 3]], Vec::new(), vec![vec![1; 2]; 2]] {
            assert!(matches!(read(other, padded), Err(TensorRunError::OtherWork)));
        }
        let small = read(vec![vec![1, 2]], 1);
        assert!(matches!(small, Err(TensorRunError::Package(PackageError::TooLarge { .. }))));
    }

    /// A program that looks its two inputs up.
    fn looked_up() -> Program {
        let label = || Label::lossy("x");
        let shape = || Shape::new(vec![2]).expect("is short");
        let spec = Spec { len: 2, lo: 0, hi: 3 };
        let entries = List::new(vec![3, 1, 0, 2]).expect("few");
        let primitive = Primitive::Table { x: ValueId { number: 0 }, entries };
        let value = ValueId { number: 1 };
        let parts = program::Parts {
            inputs: vec![Input { label: label(), shape: shape(), spec, scaling: None }],
            operations: vec![Operation { label: label(), spec, primitive }],
            outputs: vec![Output { label: label(), shape: shape(), value, scaling: None }],
            ..program::Parts::default()
        };
        Program::new(parts).expect("a program")
    }

    /// Goal: who opens a result of sealed data finds out whether it was the proven one, with no
    /// more than the package. Method: the outputs that were committed to, others, another seed.
    #[test]
    fn hidden_outputs_are_held_against_what_was_committed_to() {
        let (program, seed) = (looked_up(), [7; 32]);
        let spec = Spec { len: 2, lo: 0, hi: 3 };
        let [right, other] = [[3, 1], [3, 2]].map(|it| Tensor::new(&spec, &it).expect("in range"));
        let committer = Committer::new(&program).expect("can be proven");
        let root = committer.output(std::slice::from_ref(&right), seed).expect("fits");
        let (output, hash) = (output_id(&root), Hash32::new([1; 32]));
        let result = RunResult { output, trace: hash, package: hash, package_bytes: 1_000 };
        let read = |outputs: Vec<Vec<u8>>| {
            let mut bytes = Vec::new();
            Parts::outputs(outputs).expect("few").write(&mut bytes).expect("writes");
            read_result(&program, Tier::ZK, &result, &mut bytes.as_slice())
        };
        let honest = read(vec![tensor_bytes(&right), seed.to_vec()]).expect("reads");
        assert_eq!(honest, Some(vec![right.clone()]));
        assert_eq!(read(vec![tensor_bytes(&other), seed.to_vec()]).expect("reads"), None);
        assert_eq!(read(vec![tensor_bytes(&right), vec![8; 32]]).expect("reads"), None);
        let bare = read(vec![tensor_bytes(&right)]);
        assert!(matches!(bare, Err(TensorRunError::OtherWork)));
    }
}
