//! What a proof is about.

use crate::error::VerifyError;
use crate::plan::{BATCH_MAX, Holder, Plan};
use tg_tensor::Tensor;
use tg_tensor::program::Spec;
use tg_types::Hash32;
use tg_types::hash::{Tag, tagged};

/// The format of proofs: transcript, look-ups, commitments, bytes.
pub(crate) const PROOF_FORMAT: u8 = 6;

const STATEMENT_TAG: Tag = Tag::new("tensorgrid/proof-statement");

const _: () = assert!(BATCH_MAX <= u32::MAX as usize);

/// That a program turns these inputs into these outputs, once for each inference.
///
/// Which program and which weights, the verifier knows by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The inputs of each inference, in the program's order.
    pub inputs: Vec<Vec<Tensor>>,
    /// The outputs of each inference, in the program's order.
    pub outputs: Vec<Vec<Tensor>>,
    /// What the proof is for, such as chain, job and provider: a proof made for one context is
    /// none for another.
    pub context: Vec<u8>,
}

/// Whether weights are known to the verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The verifier has the model.
    Public,
    /// The verifier has a commitment to the weights.
    Committed,
}

impl Statement {
    /// The digest that the transcript begins with. Program and number of inferences fix the length
    /// of all inputs and outputs, so their bytes need no separators.
    pub(crate) fn digest(&self, mode: Mode, program: &Hash32, weights: &Hash32) -> Hash32 {
        let mode = match mode {
            Mode::Public => 1,
            Mode::Committed => 2,
        };
        let batch = (self.inputs.len() as u32).to_be_bytes();
        let mut bytes = Vec::new();
        for tensor in self.inputs.iter().chain(&self.outputs).flatten() {
            tensor.append_bytes(0..tensor.len(), &mut bytes);
        }
        let length = (self.context.len() as u64).to_be_bytes();
        let head = [PROOF_FORMAT, mode];
        let (program, weights) = (program.as_bytes(), weights.as_bytes());
        tagged(STATEMENT_TAG, &[&head, program, weights, &batch, &length, &self.context, &bytes])
    }

    /// Checks all that needs no proof: counts, lengths, ranges, and outputs that are inputs or the
    /// same value.
    pub(crate) fn check(&self, plan: &Plan, constants: &[Tensor]) -> Result<(), VerifyError> {
        let expected = plan.batch;
        for found in [self.inputs.len(), self.outputs.len()] {
            if found != expected {
                return Err(VerifyError::Batch { found, expected });
            }
        }
        let program = &plan.program;
        let inputs: Vec<Spec> = program.inputs().iter().map(|input| input.spec).collect();
        let values = program.outputs().iter().map(|output| output.value.index());
        let outputs: Vec<Spec> = values.map(|value| program.specs()[value]).collect();
        for (inference, (given, made)) in self.inputs.iter().zip(&self.outputs).enumerate() {
            check_all(inference, "input", given, &inputs)?;
            check_all(inference, "output", made, &outputs)?;
            for (index, output) in program.outputs().iter().enumerate() {
                let same = match plan.holder(output.value) {
                    Holder::Input(input) => &given[input],
                    Holder::Constant(constant) => &constants[constant],
                    Holder::Output(first) => &made[first],
                    Holder::Column(_) | Holder::Moved(_) | Holder::Dead => continue,
                };
                if made[index] != *same {
                    return Err(VerifyError::Output { inference, index });
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn check_all(
    inference: usize,
    what: &'static str,
    tensors: &[Tensor],
    specs: &[Spec],
) -> Result<(), VerifyError> {
    let (found, expected) = (tensors.len(), specs.len());
    if found != expected {
        return Err(VerifyError::Count { inference, what, found, expected });
    }
    for (index, (tensor, spec)) in tensors.iter().zip(specs).enumerate() {
        tensor.check(spec).map_err(|source| VerifyError::Tensor {
            inference,
            what,
            index,
            source,
        })?;
    }
    Ok(())
}
