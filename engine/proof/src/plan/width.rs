//! Chooses how many bits limbs have: what needs the fewest cells and look-ups.
//!
//! Prover and verifier choose alike, as the choice follows from the program and the number of
//! inferences.

use super::build::{Hidden, with_limbs};
use super::limits::{BATCH_MAX, LIMB_BITS, PlanError};
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
) -> Result<Plan, PlanError> {
    if !(1..=BATCH_MAX).contains(&batch) {
        return Err(PlanError::Batch { found: batch, most: BATCH_MAX });
    }
    let mut best: Option<Plan> = None;
    let mut refused = None;
    for widest in LIMB_BITS {
        let small = best.as_ref().is_some_and(|plan| cells(plan) < 1 << (widest + 1));
        if small {
            break; // The table alone would be half as large as all.
        }
        match with_limbs(program.clone(), batch, constants, hidden, widest) {
            Ok(plan) if best.as_ref().is_none_or(|best| cells(&plan) < cells(best)) => {
                best = Some(plan);
            }
            Ok(_) => {}
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match (best, refused) {
        (Some(plan), _) => Ok(plan),
        (None, Some(error)) => Err(error),
        (None, None) => Err(PlanError::Batch { found: batch, most: BATCH_MAX }),
    }
}

/// What a proof costs: cells of its commitment, and look-ups.
fn cells(plan: &Plan) -> u64 {
    let columns = plan.columns.iter().filter(|column| column.tree == Tree::Run);
    let cells: u64 = columns.map(|column| 1_u64 << column.layout.bits()).sum();
    cells.next_power_of_two() + plan.leaves_used() as u64
}
