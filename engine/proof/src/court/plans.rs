//! Plans of the programs that the court was asked about last.
//!
//! A program is planned when it goes on record and again for each of its results, and a block is
//! executed several times. What follows from a program alone is worked out once while it is
//! remembered; so is that it cannot be planned.

use crate::plan::{PlanError, steps};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tg_tensor::program::{Program, ProgramId};
use tg_types::Encode as _;

/// Steps of all plans together that are remembered: a plan holds at most about 100 bytes for each
/// step that making it takes.
pub(crate) const KEPT_STEPS_MAX: u64 = 1 << 21;

/// What a plan holds at least, in steps: the parameters of its commitments.
const KEPT_STEPS_MIN: u64 = 1_024;

/// What remembering the plan of a program takes, in steps: the program is kept with it.
pub(crate) fn weight(program: &Program) -> u64 {
    let bytes = program.to_bytes().len() as u64 / 64;
    steps(program).saturating_add(bytes).max(KEPT_STEPS_MIN)
}

/// Plans that are remembered, of one mode and number of inferences.
#[derive(Debug)]
pub(crate) struct Plans<P> {
    // A lock: several threads execute blocks. It is not held while something is planned.
    kept: Mutex<VecDeque<Kept<P>>>,
}

#[derive(Debug)]
struct Kept<P> {
    program: ProgramId,
    steps: u64,
    plan: Result<Arc<P>, PlanError>,
}

impl<P> Default for Plans<P> {
    fn default() -> Self {
        Self { kept: Mutex::new(VecDeque::new()) }
    }
}

impl<P> Plans<P> {
    /// The plan of a program, or why there is none; it is made if it is not remembered.
    pub(crate) fn get(
        &self,
        program: &Program,
        make: impl FnOnce() -> Result<P, PlanError>,
    ) -> Result<Arc<P>, PlanError> {
        let id = program.id();
        if let Some(found) = self.kept().iter().find(|kept| kept.program == id) {
            return found.plan.clone();
        }
        let plan = make().map(Arc::new);
        let mut kept = self.kept();
        if kept.iter().all(|kept| kept.program != id) {
            kept.push_back(Kept { program: id, steps: weight(program), plan: plan.clone() });
        }
        let mut sum = kept.iter().map(|kept| kept.steps).fold(0, u64::saturating_add);
        while sum > KEPT_STEPS_MAX {
            let Some(oldest) = kept.pop_front() else { break };
            sum = sum.saturating_sub(oldest.steps);
        }
        plan
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept<P>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Programs that are remembered, the oldest first.
    #[cfg(test)]
    pub(crate) fn programs(&self) -> Vec<ProgramId> {
        self.kept().iter().map(|kept| kept.program).collect()
    }
}
