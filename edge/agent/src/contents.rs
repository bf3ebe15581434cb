//! What is inside packages, for those who judge whether one holds what the chain says.

use crate::tensor_run::{check_inputs, read_outputs};
use tg_gateway::package::result_key_hash;
use tg_gateway::{Contents, TaskInputs, TaskOutput, TensorInputs};
use tg_tensor::Program;
use tg_tensor::trace::outputs_root;
use tg_types::{Decode, JobSpec, RunResult, Work};

/// Reads packages of tensor programs and of tasks.
#[derive(Clone, Copy, Debug)]
pub struct PackageReader;

impl Contents for PackageReader {
    fn are_inputs(&self, spec: &JobSpec, plain: &[u8]) -> bool {
        let result_to = match spec.work {
            Work::Tensor { .. } => TensorInputs::from_bytes(plain).ok().and_then(|inputs| {
                check_inputs(&inputs, &spec.work).ok().map(|_| inputs.result_to)
            }),
            Work::Opaque { task } => TaskInputs::from_bytes(plain)
                .ok()
                .and_then(|inputs| (inputs.id() == task).then_some(inputs.result_to)),
        };
        result_to.is_some_and(|to| result_key_hash(&to) == spec.result_key.hash)
    }

    fn is_output(
        &self,
        spec: &JobSpec,
        program: Option<&[u8]>,
        result: &RunResult,
        plain: &[u8],
    ) -> bool {
        match spec.work {
            Work::Tensor { .. } => {
                let program = program.and_then(|bytes| Program::from_bytes(bytes).ok());
                let outputs = program.and_then(|program| read_outputs(&program, plain).ok());
                outputs.is_some_and(|outputs| outputs_root(outputs.iter()) == result.output)
            }
            Work::Opaque { .. } => TaskOutput::from_bytes(plain).is_ok_and(|output| {
                output.id() == result.output && output.enforced_id() == result.trace
            }),
        }
    }
}
