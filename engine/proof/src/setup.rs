//! What is derived once for a program, a mode and a number of inferences.

use crate::field::F;
use crate::pcs::{Pcs, Root};
use crate::plan::{self, Hidden, Plan, PlanError, Sizes, Tree};
use crate::security::{Report, SECURITY_BITS_MIN, Term};
use crate::statement::{Mode, Statement};
use crate::transcript::Transcript;
use p3_field::{PrimeCharacteristicRing, PrimeField32};
use std::sync::Arc;
use tg_tensor::Tensor;
use tg_tensor::program::{Program, ProgramId};
use tg_types::Hash32;
use tg_types::hash::{Tag, tagged};

const COMMITMENT_TAG: Tag = Tag::new("tensorgrid/proof-weights");

/// A commitment to a model's weights: one or two roots of 32 bytes, eight elements of the field
/// each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightsCommitment {
    roots: Vec<[u32; 8]>,
}

impl WeightsCommitment {
    /// The bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        self.roots.iter().flatten().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// Reads a commitment; `None` if it is not one or two roots of elements of the field.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (roots, rest) = bytes.as_chunks::<32>();
        if !(1..=Tree::SECRET.len()).contains(&roots.len()) || !rest.is_empty() {
            return None;
        }
        let mut found = Self { roots: Vec::new() };
        for root in roots {
            let mut words = [0; 8];
            for (word, from) in words.iter_mut().zip(root.as_chunks::<4>().0) {
                *word = u32::from_be_bytes(*from);
            }
            if words.iter().any(|word| *word >= F::ORDER_U32) {
                return None;
            }
            found.roots.push(words);
        }
        Some(found)
    }

    /// The 32 bytes that stand for it in a weights id: the root if there is one, else a hash of
    /// both.
    #[must_use]
    pub fn id(&self) -> Hash32 {
        match *self.to_bytes().as_chunks::<32>().0 {
            [root] => Hash32::new(root),
            _ => tagged(COMMITMENT_TAG, &[&self.to_bytes()]),
        }
    }

    pub(crate) fn of<'a>(roots: impl Iterator<Item = &'a Root>) -> Self {
        let words = |root: &Root| {
            let mut words = [0; 8];
            for (word, element) in words.iter_mut().zip(root.roots().iter().flatten()) {
                *word = element.as_canonical_u32();
            }
            words
        };
        Self { roots: roots.map(words).collect() }
    }

    pub(crate) fn roots(&self) -> Vec<Root> {
        let root = |words: &[u32; 8]| Root::new(vec![words.map(F::from_u32)]);
        self.roots.iter().map(root).collect()
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
    /// The second commitment to the run, if it has two.
    pub(crate) rest: Option<Pcs>,
    /// The commitments to secret weights that there are.
    pub(crate) weights: Vec<(Tree, Pcs)>,
    pub(crate) report: Report,
    pub(crate) program: ProgramId,
}

impl Setup {
    pub(crate) fn new(
        program: &Arc<Program>,
        constants: Option<&[Tensor]>,
        batch: usize,
    ) -> Result<Self, PlanError> {
        let mode = if constants.is_some() { Mode::Public } else { Mode::Committed };
        let id = program.id();
        let plan = plan::build(program, batch, constants, Hidden::default(), &Sizes::USUAL)?;
        Self::of(plan, mode, id)
    }

    /// That of a plan; the id stands for what is proven.
    pub(crate) fn of(plan: Plan, mode: Mode, id: ProgramId) -> Result<Self, PlanError> {
        let refused = PlanError::Security { asked: SECURITY_BITS_MIN };
        let run = Pcs::new(&plan.shapes(Tree::Run)).ok_or(refused.clone())?;
        let mut weights = Vec::new();
        let mut of_weights = Vec::new();
        for tree in Tree::SECRET {
            let shapes = plan.shapes(tree);
            if !shapes.is_empty() {
                let pcs = Pcs::new(&shapes).ok_or(refused.clone())?;
                of_weights.push(pcs.soundness().ok_or(refused.clone())?);
                weights.push((tree, pcs));
            }
        }
        let shapes = plan.shapes(Tree::Rest);
        let is_there = !shapes.is_empty();
        let rest = is_there.then(|| Pcs::new(&shapes).ok_or(refused.clone())).transpose()?;
        let mut of_run = Vec::new();
        for pcs in std::iter::once(&run).chain(&rest) {
            of_run.push(pcs.soundness().ok_or(refused.clone())?);
        }
        let report = Report::new(&plan, &of_run, &of_weights);
        if report.bits < f64::from(SECURITY_BITS_MIN) {
            return Err(refused);
        }
        Ok(Self { plan, mode, run, rest, weights, report, program: id })
    }

    /// The same for a registration, after which a root must stand for one model.
    pub(crate) fn registering(mut self) -> Result<Self, PlanError> {
        let mut terms = self.report.terms;
        for (_, pcs) in &self.weights {
            terms.push(Term { name: "another model behind the root", bits: pcs.other_word_bits() });
        }
        self.report = Report::of(terms);
        if self.report.bits < f64::from(SECURITY_BITS_MIN) {
            return Err(PlanError::Security { asked: SECURITY_BITS_MIN });
        }
        Ok(self)
    }

    /// Look-ups and entries of tables.
    pub(crate) fn leaves(&self) -> u64 {
        1 << self.plan.leaf_bits
    }

    /// A transcript that has absorbed what is to be proven, with what.
    pub(crate) fn begin(&self, statement: &Statement, weights: &Hash32) -> Transcript {
        let mut transcript = Transcript::new("tensorgrid/proof/2");
        let digest = statement.digest(self.mode, &self.program, weights);
        transcript.absorb_digest("statement", &digest);
        transcript
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcs::{Request, STACK_BITS_MIN, Shape};

    /// Goal: weights of all sizes can be registered. Method: compute how surely a root stands for
    /// one model.
    #[test]
    fn root_of_any_size_stands_for_one_model() {
        for bits in [STACK_BITS_MIN, 12, 16, 18, 19, 21] {
            let shape = Shape { bits, columns: 1, requests: vec![Request { columns: vec![0] }] };
            let found = Pcs::new(&[shape]).expect("parameters").other_word_bits();
            assert!((101.5..103.5).contains(&found), "{bits}: {found}");
        }
    }
}
