//! What is derived once for a program, its weights and a number of inferences.

use super::last::RUN_CLAIMS;
use super::pcs::{HiddenKept, HidingPcs};
use super::stack::{Piece, Stack};
use super::statement::{HidingStatement, InputsCommitment, Seed};
use super::walk::Walk;
use super::{last, products};
use crate::error::VerifyError;
use crate::field::F;
use crate::pcs::Root;
use crate::plan::{self, Plan, PlanError, Role};
use crate::security::{Report, SECURITY_BITS_MIN, of_field};
use crate::statement::check_all;
use crate::transcript::Transcript;
use crate::witness::{numbers, spread_out};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use tg_tensor::program::Spec;
use tg_tensor::{Model, Tensor};
use tg_types::Hash32;

/// Plan, stacks and the parameters of the commitments.
#[derive(Debug)]
pub(crate) struct HidingSetup {
    pub(crate) plan: Plan,
    pub(crate) run_stack: Stack,
    pub(crate) inputs_stack: Stack,
    pub(crate) run: HidingPcs,
    pub(crate) inputs: HidingPcs,
    pub(crate) report: Report,
    pub(crate) model: Arc<Model>,
    program: Hash32,
    pub(crate) weights: Hash32,
}

impl HidingSetup {
    pub(crate) fn new(model: Arc<Model>, batch: usize) -> Result<Self, PlanError> {
        let program = Arc::new(model.program().clone());
        let id = program.id();
        let plan = plan::build(program, batch, Some(model.constants()), true)?;
        let run_stack = Stack::of_run(&plan)?;
        let inputs_stack = Stack::of_inputs(&plan)?;
        let refused = || PlanError::Security { asked: SECURITY_BITS_MIN };
        let run = HidingPcs::new(run_stack.bits, RUN_CLAIMS).ok_or_else(refused)?;
        let inputs = HidingPcs::new(inputs_stack.bits, 1).ok_or_else(refused)?;
        let report = report(&plan, &run, &inputs);
        if report.bits < f64::from(SECURITY_BITS_MIN) {
            return Err(refused());
        }
        let weights = model.weights_root();
        let (program, model) = (id, model);
        Ok(Self { plan, run_stack, inputs_stack, run, inputs, report, model, program, weights })
    }

    /// Variables of the last sum-check.
    pub(crate) fn rounds(&self) -> usize {
        self.run_stack.bits.max(self.inputs_stack.bits)
    }

    /// What the statement is, with program and weights.
    pub(crate) fn digest(&self, statement: &HidingStatement) -> Hash32 {
        statement.digest(&self.program, &self.weights)
    }

    /// A transcript that has absorbed what is to be proven, with the root of the inputs.
    pub(crate) fn begin(&self, statement: &HidingStatement) -> Transcript {
        let mut transcript = Transcript::new("tensorgrid/proof/hiding/1");
        transcript.absorb_digest("statement", &self.digest(statement));
        self.inputs.absorb(&statement.inputs.root(), transcript.sponge());
        transcript
    }

    /// Commits to the inputs of all inferences.
    pub(crate) fn commit(
        &self,
        inputs: &[Vec<Tensor>],
        seed: &Seed,
    ) -> Result<(Root, HiddenKept), VerifyError> {
        let (found, expected) = (inputs.len(), self.plan.batch);
        if found != expected {
            return Err(VerifyError::Batch { found, expected });
        }
        let all = self.plan.program.inputs().iter();
        let specs: Vec<Spec> = all.map(|input| input.spec).collect();
        let mut bytes = Vec::new();
        for (inference, inputs) in inputs.iter().enumerate() {
            check_all(inference, "input", inputs, &specs)?;
            for tensor in inputs {
                tensor.append_bytes(0..tensor.len(), &mut bytes);
            }
        }
        let mut rng = seed.generator(&bytes);
        let cells = self.inputs_stack.fill(|piece, len| match piece {
            Piece::Column(column) => {
                let column = &self.plan.columns[column.0];
                let Role::Input(input) = column.role else { return vec![F::default(); len] };
                let all = inputs.iter().flat_map(|tensors| numbers(&tensors[input]));
                spread_out(&column.layout, &all.collect::<Vec<_>>())
            }
            Piece::Pads(_) | Piece::Mask(_) | Piece::Blind(_) | Piece::Noise => {
                noise(&mut rng, len)
            }
        });
        Ok(self.inputs.commit(cells, StdRng::from_rng(&mut rng)))
    }

    /// The commitment that stands in statements.
    pub(crate) fn commitment(
        &self,
        inputs: &[Vec<Tensor>],
        seed: &Seed,
    ) -> Result<InputsCommitment, VerifyError> {
        Ok(InputsCommitment::of(&self.commit(inputs, seed)?.0))
    }
}

/// Random cells.
pub(crate) fn noise(rng: &mut StdRng, len: usize) -> Vec<F> {
    (0..len).map(|_| rng.random()).collect()
}

/// The terms of the soundness: those of the openings, of the look-ups and of the first sum-check as
/// without hiding, and our own of hiding. Roots stand for one polynomial each.
fn report(plan: &Plan, run: &HidingPcs, inputs: &HidingPcs) -> Report {
    let rounds = run.bits().max(inputs.bits());
    let mut terms = Report::terms_of_plan(plan, 0.0);
    terms.extend([
        crate::security::Term { name: "opening of the run", bits: run.soundness() },
        crate::security::Term { name: "opening of the inputs", bits: inputs.soundness() },
        // One power of kappa for each layer and one for the sum-check; the degree in the unit.
        of_field("products: kappa", plan.leaf_bits as f64, 0.0),
        of_field("products: unit", products::degree(plan) as f64, 0.0),
        of_field("equations: tau", Walk::equations(plan) as f64, 0.0),
        of_field("last sum-check", (1 + last::DEGREE_OF_ROUND * rounds) as f64, 0.0),
        of_field("masks", (1 + super::stack::MASK_BITS) as f64, 0.0),
    ]);
    Report::of(terms)
}
