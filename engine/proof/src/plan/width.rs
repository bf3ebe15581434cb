//! Chooses how many bits limbs have: what needs the fewest cells and look-ups.
//!
//! Prover and verifier choose alike, as the choice follows from the program and the number of
//! inferences.

use super::build::{Hidden, with_limbs};
use super::limits::{BATCH_MAX, PlanError};
use super::{Plan, Tree};
use std::sync::Arc;
use tg_tensor::Tensor;
use tg_tensor::program::Program;

/// The plan of a proof of `batch` inferences. Without constants they are secret. Limbs have at most
/// one of these numbers of bits, of which the first is the least.
pub(crate) fn build(
    program: &Arc<Program>,
    batch: usize,
    constants: Option<&[Tensor]>,
    hidden: Hidden,
    limb_bits: &[u8],
) -> Result<Plan, PlanError> {
    if !(1..=BATCH_MAX).contains(&batch) {
        return Err(PlanError::Batch { found: batch, most: BATCH_MAX });
    }
    let (least, wider) = limb_bits.split_first().expect("limbs have bits");
    let mut best: Result<Plan, PlanError> =
        with_limbs(program.clone(), batch, constants, hidden, *least);
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
        if let Ok(plan) = with_limbs(program.clone(), batch, constants, hidden, *widest)
            && !best.as_ref().is_ok_and(|best| cells(best) <= cells(&plan))
        {
            best = Ok(plan);
        }
    }
    best
}

/// What a proof costs: cells of its commitment, and look-ups.
fn cells(plan: &Plan) -> u64 {
    let columns = plan.columns.iter().filter(|column| column.tree == Tree::Run);
    let cells: u64 = columns.map(|column| 1_u64 << column.layout.bits()).sum();
    cells.next_power_of_two() + plan.leaves_used() as u64
}
