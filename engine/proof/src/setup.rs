//! What is derived once for a program, a mode and a number of inferences.

use crate::field::F;
use crate::pcs::{Pcs, Root};
use crate::plan::{self, Plan, PlanError, Tree};
use crate::security::{Report, SECURITY_BITS_MIN};
use crate::statement::{Mode, Statement};
use crate::transcript::Transcript;
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use std::sync::Arc;
use tg_tensor::program::{Program, ProgramId};
use tg_types::Hash32;
use tg_types::hash::{Tag, tagged};

const COMMITMENT_TAG: Tag = Tag::new("tensorgrid/proof-weights");

/// The root of a commitment to a model's weights: 32 bytes, eight elements of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightsCommitment {
    words: [u32; 8],
}

impl WeightsCommitment {
    /// The bytes, as they stand in a weights id.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(self.words) {
            *to = word.to_be_bytes();
        }
        bytes
    }

    /// Reads a commitment; `None` if a word is no element of the field.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let mut words = [0; 8];
        for (word, from) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*from);
        }
        words.iter().all(|word| *word < F::ORDER_U32).then_some(Self { words })
    }

    pub(crate) fn of(root: &Root) -> Self {
        let mut words = [0; 8];
        for (word, element) in words.iter_mut().zip(root.roots().iter().flatten()) {
            *word = element.as_canonical_u32();
        }
        Self { words }
    }

    pub(crate) fn root(&self) -> Root {
        Root::new(vec![self.words.map(F::from_u32)])
    }

    pub(crate) fn digest(&self) -> Hash32 {
        tagged(COMMITMENT_TAG, &[&self.to_bytes()])
    }
}

/// The plan and the parameters of its commitments.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) plan: Plan,
    pub(crate) mode: Mode,
    pub(crate) run: Pcs,
    pub(crate) weights: Option<Pcs>,
    pub(crate) report: Report,
    program: ProgramId,
}

impl Setup {
    pub(crate) fn new(program: Arc<Program>, mode: Mode, batch: usize) -> Result<Self, PlanError> {
        let id = program.id();
        let plan = plan::build(program, batch, mode == Mode::Committed)?;
        let refused = PlanError::Security { asked: SECURITY_BITS_MIN };
        let run = Pcs::new(&plan.shapes(Tree::Run)).ok_or(refused.clone())?;
        let shapes = plan.shapes(Tree::Weights);
        let weights =
            if shapes.is_empty() { None } else { Some(Pcs::new(&shapes).ok_or(refused.clone())?) };
        let of_weights = match &weights {
            Some(weights) => Some(weights.soundness().ok_or(refused.clone())?),
            None => None,
        };
        let of_run = run.soundness().ok_or(refused.clone())?;
        let report = Report::new(&plan, of_run, of_weights);
        if report.bits < f64::from(SECURITY_BITS_MIN) {
            return Err(refused);
        }
        Ok(Self { plan, mode, run, weights, report, program: id })
    }

    /// A transcript that has absorbed what is to be proven, with what.
    pub(crate) fn begin(&self, statement: &Statement, weights: &Hash32) -> Transcript {
        let mut transcript = Transcript::new("tensorgrid/proof/1");
        let digest = statement.digest(self.mode, &self.program, weights);
        transcript.absorb_digest("statement", &digest);
        transcript
    }
}
