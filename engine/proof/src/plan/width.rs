//! Chooses how many bits limbs have: what needs the fewest cells and look-ups.
//!
//! Prover and verifier choose alike, as the choice follows from the program and the number of
//! inferences.

use super::build::{Hidden, with_limbs};
use super::limits::{BATCH_MAX, PlanError, Sizes};
use super::pieces::stack_cells;
use super::{Plan, Tree};
use std::sync::Arc;
use tg_tensor::Tensor;
use tg_tensor::program::Program;

/// The plan of a proof of `batch` inferences. Without constants they are secret.
pub(crate) fn build(
    program: &Arc<Program>,
    batch: usize,
    constants: Option<&[Tensor]>,
    hidden: Hidden,
    sizes: &Sizes<'_>,
) -> Result<Plan, PlanError> {
    if !(1..=BATCH_MAX).contains(&batch) {
        return Err(PlanError::Batch { found: batch, most: BATCH_MAX });
    }
    let (least, wider) = sizes.limb_bits.split_first().expect("limbs have bits");
    let with = |widest: u8| with_limbs(program.clone(), batch, constants, hidden, widest, sizes);
    let mut best: Result<Plan, PlanError> = with(*least);
    // Wider limbs make fewer cells, so only what was too large may fit with them; whatever else is
    // wrong stays so, and a program that is refused must not cost more than one that is not.
    for widest in wider {
        let is_worth_a_try = match &best {
            Ok(plan) => cells(plan) >= 1 << (widest + 1), // else the table alone were half of it
            Err(error) => matches!(error, PlanError::Large { .. }),
        };
        if !is_worth_a_try {
            break;
        }
        if let Ok(plan) = with(*widest)
            && !best.as_ref().is_ok_and(|best| cells(best) <= cells(&plan))
        {
            best = Ok(plan);
        }
    }
    best
}

/// What a proof costs: cells of its commitments, and look-ups.
fn cells(plan: &Plan) -> u64 {
    let stacks = [Tree::Run, Tree::Rest].map(|tree| stack_cells(&plan.pieces[tree as usize]));
    stacks.iter().sum::<u64>() + plan.leaves_used() as u64
}
