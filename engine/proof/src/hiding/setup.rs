//! What is derived once for a program, its weights, what is hidden, and a number of inferences.

use super::last::RUN_CLAIMS;
use super::owned::{HiddenWeights, Owned};
use super::pcs::{HidingPcs, OPENING_BITS_OF_MANY, OPENING_BITS_OF_TWO};
use super::stack::Stack;
use super::statement::{HidingRoot, ZkStatement};
use super::walk::Walk;
use super::{last, products};
use crate::error::VerifyError;
use crate::field::F;
use crate::pcs::Root;
use crate::plan::{self, Hidden, Plan, PlanError, Sizes, Tree};
use crate::security::{Report, SECURITY_BITS_MIN, Term, of_field};
use crate::transcript::Transcript;
use rand::RngExt;
use rand::rngs::StdRng;
use std::sync::Arc;
use tg_tensor::program::Program;
use tg_tensor::{Model, Tensor};
use tg_types::Hash32;

/// What is behind commitments, beside the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Secrecy {
    pub(crate) inputs: bool,
    pub(crate) outputs: bool,
    /// How many openings the commitment to the weights can hide; `None` if the verifier has the
    /// weights.
    pub(crate) weights: Option<u16>,
}

impl Secrecy {
    /// Only inputs are.
    pub(crate) const INPUTS: Self = Self { inputs: true, outputs: false, weights: None };
}

/// Plan, stacks and the parameters of the commitments.
#[derive(Debug)]
pub(crate) struct HidingSetup {
    pub(crate) plan: Arc<Plan>,
    pub(crate) run_stack: Stack,
    pub(crate) run: HidingPcs,
    /// What is committed before: inputs, weights, outputs, as far as they are.
    pub(crate) owned: Vec<Owned>,
    pub(crate) report: Report,
    /// The model, if the verifier has it.
    model: Option<Arc<Model>>,
    program: Hash32,
    /// The root of the weights that the verifier has.
    pub(crate) weights: Hash32,
    /// How many openings the commitment to the weights is made for.
    openings: u16,
}

impl HidingSetup {
    /// For inferences. A model is needed unless the weights are behind a commitment.
    pub(crate) fn new(
        program: &Arc<Program>,
        model: Option<Arc<Model>>,
        batch: usize,
        secrecy: Secrecy,
    ) -> Result<Self, PlanError> {
        let id = program.id();
        let hidden = Hidden { run: true, inputs: secrecy.inputs, outputs: secrecy.outputs };
        let constants = model.as_ref().map(|model| model.constants());
        let plan = plan::build(program, batch, constants, hidden, &Sizes::USUAL)?;
        Self::of(Arc::new(plan), id, model, secrecy)
    }

    /// For a plan; the id stands for what is proven.
    pub(crate) fn of(
        plan: Arc<Plan>,
        program: Hash32,
        model: Option<Arc<Model>>,
        secrecy: Secrecy,
    ) -> Result<Self, PlanError> {
        let refused = || PlanError::Security { asked: SECURITY_BITS_MIN };
        let is_two = secrecy == Secrecy::INPUTS;
        let least = if is_two { OPENING_BITS_OF_TWO } else { OPENING_BITS_OF_MANY };
        let mut owned = Vec::new();
        let tensors = |tree: Tree| {
            let stack = Stack::of_tensors(&plan, tree)?;
            let pcs = HidingPcs::new(stack.bits, 1, least).ok_or_else(refused)?;
            Ok(Owned { tree, stack, pcs })
        };
        if secrecy.inputs {
            owned.push(tensors(Tree::Inputs)?);
        }
        if let Some(openings) = secrecy.weights {
            let (stack, pcs) = Stack::of_weights(&plan, openings.into())?;
            owned.push(Owned { tree: Tree::Weights, stack, pcs });
        }
        if secrecy.outputs {
            owned.push(tensors(Tree::Outputs)?);
        }
        let run_stack = Stack::of_run(&plan)?;
        let run = HidingPcs::new(run_stack.bits, RUN_CLAIMS, least).ok_or_else(refused)?;
        let report = report(&plan, &run, &owned);
        if report.bits < f64::from(SECURITY_BITS_MIN) {
            return Err(refused());
        }
        let weights = model.as_ref().map_or(Hash32::new([0; 32]), |model| model.weights_root());
        let openings = secrecy.weights.unwrap_or(0);
        Ok(Self { plan, run_stack, run, owned, report, model, program, weights, openings })
    }

    /// The same for a commitment to the weights that hides so many openings. What a program is
    /// planned like does not depend on it, so nothing is planned again.
    pub(crate) fn for_openings(&self, openings: u16) -> Result<Self, PlanError> {
        let is_hidden = |tree: Tree| self.owned(tree).is_some();
        let secrecy = Secrecy {
            inputs: is_hidden(Tree::Inputs),
            outputs: is_hidden(Tree::Outputs),
            weights: Some(openings),
        };
        Self::of(Arc::clone(&self.plan), self.program, None, secrecy)
    }

    /// Variables of the last sum-check.
    pub(crate) fn rounds(&self) -> usize {
        self.owned.iter().map(|owned| owned.stack.bits).fold(self.run_stack.bits, usize::max)
    }

    /// The constants that the verifier has.
    pub(crate) fn constants(&self) -> &[Tensor] {
        self.model.as_ref().map_or(&[], |model| model.constants())
    }

    /// What stands for the program in statements.
    pub(crate) fn program(&self) -> &Hash32 {
        &self.program
    }

    /// What is committed of a kind; `None` if that is shown.
    pub(crate) fn owned(&self, tree: Tree) -> Option<&Owned> {
        self.owned.iter().find(|owned| owned.tree == tree)
    }

    /// What the statement is, with program and weights or their root.
    pub(crate) fn digest(&self, statement: &ZkStatement, roots: &[Root]) -> Hash32 {
        let mut all = self.owned.iter().zip(roots);
        let root = all.find(|(owned, _)| owned.tree == Tree::Weights);
        // The number of openings is a part of the commitment: a proof about it is none about the
        // same root with more of them.
        let commitment = |root| HiddenWeights { root, openings: self.openings }.id();
        let committed = root.map(|(_, root)| commitment(HidingRoot::of(root)));
        let weights = committed.unwrap_or(self.weights);
        statement.digest(&self.program, &weights, self.plan.batch)
    }

    /// The roots of all that was committed before, in order.
    pub(crate) fn roots(
        &self,
        statement: &ZkStatement,
        weights: Option<&Root>,
    ) -> Result<Vec<Root>, VerifyError> {
        let parts = [(Tree::Inputs, &statement.inputs), (Tree::Outputs, &statement.outputs)];
        for (tree, tensors) in parts {
            if self.owned(tree).is_some() != tensors.root().is_some() {
                return Err(VerifyError::Secrecy);
            }
        }
        let root = |owned: &Owned| match owned.tree {
            Tree::Inputs => statement.inputs.root(),
            Tree::Outputs => statement.outputs.root(),
            Tree::Weights => weights.cloned(),
            Tree::Run | Tree::Rest | Tree::Small => None,
        };
        let roots: Option<Vec<Root>> = self.owned.iter().map(root).collect();
        roots.ok_or(VerifyError::Opening("weights"))
    }

    /// A transcript that has absorbed what is to be proven, with all roots that were made before.
    pub(crate) fn begin(&self, statement: &ZkStatement, roots: &[Root]) -> Transcript {
        let mut transcript = Transcript::new("tensorgrid/proof/hiding/2");
        transcript.absorb_digest("statement", &self.digest(statement, roots));
        for (owned, root) in self.owned.iter().zip(roots) {
            owned.pcs.absorb(root, transcript.sponge());
        }
        transcript
    }
}

/// Random cells.
pub(crate) fn noise(rng: &mut StdRng, len: usize) -> Vec<F> {
    (0..len).map(|_| rng.random()).collect()
}

/// The terms of the soundness: those of the openings, of the look-ups and of the first sum-check as
/// without hiding, and our own of hiding. Roots stand for one polynomial each.
fn report(plan: &Plan, run: &HidingPcs, owned: &[Owned]) -> Report {
    let bits = owned.iter().map(|owned| owned.pcs.bits());
    let rounds = bits.fold(run.bits(), usize::max);
    let mut terms = Report::terms_of_plan(plan, 0.0);
    terms.push(Term { name: "opening of the run", bits: run.soundness() });
    for owned in owned {
        let name = match owned.tree {
            Tree::Inputs => "opening of the inputs",
            Tree::Outputs => "opening of the outputs",
            Tree::Weights | Tree::Small | Tree::Run | Tree::Rest => "opening of the weights",
        };
        terms.push(Term { name, bits: owned.pcs.soundness() });
    }
    terms.extend([
        // One power of kappa for each layer and one for the sum-check; the degree in the unit.
        of_field("products: kappa", plan.leaf_bits as f64, 0.0),
        of_field("products: unit", products::degree(plan) as f64, 0.0),
        of_field("equations: tau", Walk::equations(plan) as f64, 0.0),
        of_field("last sum-check", (1 + last::DEGREE_OF_ROUND * rounds) as f64, 0.0),
        of_field("masks", (1 + super::stack::MASK_BITS) as f64, 0.0),
    ]);
    Report::of(terms)
}
