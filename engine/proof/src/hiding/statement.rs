//! What a hiding proof is about, and what its owner commits to.

use crate::error::VerifyError;
use crate::field::F;
use crate::pcs::Root;
use crate::plan::{Holder, Plan};
use crate::statement::{PROOF_FORMAT, check_all};
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use tg_tensor::Tensor;
use tg_tensor::program::Spec;
use tg_types::Hash32;
use tg_types::hash::{Tag, tagged};

const STATEMENT_TAG: Tag = Tag::new("tensorgrid/proof-hiding-statement");

/// A hiding commitment to the inputs, or outputs, of all inferences. One proof may be made about
/// it: a second one would show more than it hides.
pub type InputsCommitment = HidingRoot;

/// The root of a hiding commitment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HidingRoot([u32; 8]);

impl HidingRoot {
    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(self.0) {
            *to = word.to_be_bytes();
        }
        bytes
    }

    /// Reads a commitment; `None` if it does not consist of elements of the field.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let mut words = [0; 8];
        for (word, from) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*from);
        }
        words.iter().all(|word| *word < F::ORDER_U32).then_some(Self(words))
    }

    pub(crate) fn of(root: &Root) -> Self {
        let mut words = [0; 8];
        for (word, element) in words.iter_mut().zip(root.roots().iter().flatten()) {
            *word = element.as_canonical_u32();
        }
        Self(words)
    }

    pub(crate) fn root(&self) -> Root {
        Root::new(vec![self.0.map(F::from_u32)])
    }
}

/// That a program turns inputs, of which there is only a commitment, into these outputs, once for
/// each inference.
///
/// Which program and which weights, the verifier knows by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HidingStatement {
    /// The commitment to the inputs.
    pub inputs: InputsCommitment,
    /// The outputs of each inference, in the program's order.
    pub outputs: Vec<Vec<Tensor>>,
    /// What the proof is for, such as chain, job and provider: a proof made for one context is
    /// none for another.
    pub context: Vec<u8>,
}

/// Tensors of all inferences: shown, or behind a commitment that their owner made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tensors {
    /// Everybody sees them: a list for each inference, in the program's order.
    Shown(Vec<Vec<Tensor>>),
    /// Nobody but the owner and the prover does.
    Committed(HidingRoot),
}

/// That a program turns inputs into outputs, once for each inference, each of them shown or
/// committed.
///
/// Which program and which weights, or commitment to weights, the verifier knows by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZkStatement {
    /// The inputs.
    pub inputs: Tensors,
    /// The outputs.
    pub outputs: Tensors,
    /// What the proof is for, such as chain, job and provider: a proof made for one context is
    /// none for another.
    pub context: Vec<u8>,
}

impl From<&HidingStatement> for ZkStatement {
    fn from(statement: &HidingStatement) -> Self {
        Self {
            inputs: Tensors::Committed(statement.inputs),
            outputs: Tensors::Shown(statement.outputs.clone()),
            context: statement.context.clone(),
        }
    }
}

impl Tensors {
    /// The tensors; none if they are committed.
    pub(crate) fn shown(&self) -> &[Vec<Tensor>] {
        match self {
            Self::Shown(tensors) => tensors,
            Self::Committed(_) => &[],
        }
    }

    /// The root; `None` if they are shown.
    pub(crate) fn root(&self) -> Option<Root> {
        match self {
            Self::Shown(_) => None,
            Self::Committed(root) => Some(root.root()),
        }
    }

    /// Program and number of inferences fix the length of all tensors, so their bytes need no
    /// separators.
    fn append_bytes(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Shown(tensors) => {
                bytes.push(1);
                for tensor in tensors.iter().flatten() {
                    tensor.append_bytes(0..tensor.len(), bytes);
                }
            }
            Self::Committed(root) => {
                bytes.push(2);
                bytes.extend(root.to_bytes());
            }
        }
    }

    fn check(&self, what: &'static str, batch: usize, specs: &[Spec]) -> Result<(), VerifyError> {
        let Self::Shown(tensors) = self else { return Ok(()) };
        let (found, expected) = (tensors.len(), batch);
        if found != expected {
            return Err(VerifyError::Batch { found, expected });
        }
        let mut all = tensors.iter().enumerate();
        all.try_for_each(|(inference, tensors)| check_all(inference, what, tensors, specs))
    }
}

impl ZkStatement {
    /// The digest that the transcript begins with. `weights` stand for those that the verifier has,
    /// or for their commitment.
    pub(crate) fn digest(&self, program: &Hash32, weights: &Hash32, batch: usize) -> Hash32 {
        let batch = (batch as u32).to_be_bytes();
        let mut bytes = Vec::new();
        self.inputs.append_bytes(&mut bytes);
        self.outputs.append_bytes(&mut bytes);
        let length = (self.context.len() as u64).to_be_bytes();
        let (program, weights) = (program.as_bytes(), weights.as_bytes());
        let head: [&[u8]; 4] = [&[PROOF_FORMAT], program, weights, &batch];
        tagged(STATEMENT_TAG, &[&head.concat(), &length, &self.context, &bytes])
    }

    /// Checks all that needs no proof.
    pub(crate) fn check(&self, plan: &Plan, constants: &[Tensor]) -> Result<(), VerifyError> {
        let program = &plan.program;
        let inputs: Vec<Spec> = program.inputs().iter().map(|input| input.spec).collect();
        let values = program.outputs().iter().map(|output| output.value.index());
        let outputs: Vec<Spec> = values.map(|value| program.specs()[value]).collect();
        self.inputs.check("input", plan.batch, &inputs)?;
        self.outputs.check("output", plan.batch, &outputs)?;
        for (inference, made) in self.outputs.shown().iter().enumerate() {
            for (index, output) in program.outputs().iter().enumerate() {
                let same = match plan.holder(output.value) {
                    Holder::Input(input) => {
                        self.inputs.shown().get(inference).and_then(|all| all.get(input))
                    }
                    Holder::Constant(constant) => constants.get(constant),
                    Holder::Output(first) => made.get(first),
                    Holder::Column(_) | Holder::Moved(_) | Holder::Dead => None,
                };
                if made.get(index) != same {
                    return Err(VerifyError::Output { inference, index });
                }
            }
        }
        Ok(())
    }
}
