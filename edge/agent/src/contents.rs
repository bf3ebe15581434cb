//! What is inside packages, for those who judge whether one holds what the chain says.

use crate::tensor_run::{TensorRunError, check_inputs, read_result};
use std::io::Read;
use tg_gateway::package::{check_memory, result_key_hash};
use tg_gateway::task::check_files;
use tg_gateway::{Contents, PackageError, TaskInputs, TaskOutput, TensorInputs};
use tg_tensor::Program;
use tg_types::{JobSpec, RunResult, Work};

/// Reads packages of tensor programs and of tasks.
#[derive(Clone, Copy, Debug)]
pub struct PackageReader;

impl Contents for PackageReader {
    fn are_inputs(&self, spec: &JobSpec, plain: &mut dyn Read) -> Result<bool, PackageError> {
        let result_to = match spec.work {
            Work::Tensor { .. } => {
                check_memory(spec.package_bytes)?;
                let inputs = TensorInputs::read(plain, spec.package_bytes)?;
                if check_inputs(&inputs, &spec.work).is_err() {
                    return Ok(false);
                }
                inputs.result_to
            }
            Work::Opaque { task } => {
                let inputs = TaskInputs::read(plain)?;
                if inputs.id() != task {
                    return Ok(false);
                }
                check_files(&inputs.files, plain)?;
                inputs.result_to
            }
        };
        Ok(result_key_hash(&result_to) == spec.result_key.hash)
    }

    fn is_output(
        &self,
        spec: &JobSpec,
        program: Option<&[u8]>,
        result: &RunResult,
        plain: &mut dyn Read,
    ) -> Result<bool, PackageError> {
        match spec.work {
            Work::Tensor { .. } => {
                // Only what the program gives is read into memory, and no more than it gives:
                // nobody escapes this by making a package large.
                let program = program.and_then(|bytes| Program::from_bytes(bytes).ok());
                let Some(program) = program else { return Ok(false) };
                match read_result(&program, spec.tier, result, plain) {
                    Ok(outputs) => Ok(outputs.is_some()),
                    Err(TensorRunError::Package(error)) => Err(error),
                    Err(_) => Ok(false),
                }
            }
            Work::Opaque { .. } => {
                let output = TaskOutput::read(plain)?;
                check_files(&output.files, plain)?;
                Ok(output.id() == result.output && output.enforced_id() == result.trace)
            }
        }
    }
}
