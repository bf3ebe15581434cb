//! Jobs whose results are shown to be right at once: which way is cheaper, and who may read what.

use crate::failure::{Failure, OrFail as _};
use std::sync::Arc;
use tg_jobfile::Public;
use tg_proof::court::{self, commitment_id};
use tg_proof::{Mode, Prover};
use tg_tensor::Model;
use tg_types::Tier;

/// The tier of a job that asks for a proof: with the commitment to its weights, or without any if
/// they are public and running the program takes less than verifying a proof.
pub(super) fn tier(model: &Model, public: Option<Public>) -> Result<Tier, Failure> {
    let Some(public) = public else {
        return Err(Failure::misuse(
            "a proof does not hide what it is about: inputs and outputs would be public, and the \
             job does not say that they may be",
            "give --public data if anybody may read them, or use --verify sync; proofs that hide \
             them (zk) are not in this version",
        ));
    };
    let costs = court::costs(model.program());
    let is_rerun_cheaper = match (costs.rerun, costs.proof) {
        (Some(rerun), Some(proof)) => rerun < proof,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if public == Public::All && is_rerun_cheaper {
        return Ok(Tier::Rerun);
    }
    let prover = Prover::new(Arc::new(model.clone()), Mode::Committed, 1);
    let hint = "use --verify audit or sync";
    let prover = prover.or_fail("runs of this program cannot be proven", hint)?;
    Ok(Tier::Proof { weights: commitment_id(prover.commitment().as_ref()) })
}

/// What somebody should know before data become public; `None` if they stay sealed.
pub(super) const fn warning(tier: Tier) -> Option<&'static str> {
    match tier {
        Tier::Proof { .. } => {
            Some("anybody can read its inputs and outputs: they stand in a block, with the proof")
        }
        Tier::Rerun => Some(
            "anybody can read its inputs, outputs and weights: they stand in a block, because \
             running the program takes validators less time than verifying a proof",
        ),
        Tier::Trusted | Tier::Audit | Tier::Sync | Tier::Redundant { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{tier, warning};
    use tg_jobfile::Public;
    use tg_tensor::Model;
    use tg_tensor::program::{Input, Label, Output, Parts, Program, Shape, Spec, ValueId};
    use tg_types::Tier;

    /// A program that gives back what it reads.
    fn model() -> Model {
        let (label, shape) = (|| Label::lossy("x"), || Shape::new(vec![2]).expect("short"));
        let spec = Spec { len: 2, lo: -128, hi: 127 };
        let value = ValueId { number: 0 };
        let parts = Parts {
            inputs: vec![Input { label: label(), shape: shape(), spec, scaling: None }],
            outputs: vec![Output { label: label(), shape: shape(), value, scaling: None }],
            ..Parts::default()
        };
        Model::new(Program::new(parts).expect("a program"), Vec::new()).expect("a model")
    }

    #[test]
    fn proof_of_sealed_data_is_refused_with_a_hint() {
        let refused = tier(&model(), None).expect_err("sealed");
        assert!(refused.hint.contains("--public data"), "{}", refused.hint);
    }

    #[test]
    fn small_program_with_public_weights_is_run_by_all() {
        assert_eq!(tier(&model(), Some(Public::All)).ok(), Some(Tier::Rerun));
        assert!(warning(Tier::Rerun).is_some_and(|text| text.contains("weights")));
        assert_eq!(warning(Tier::Sync), None);
    }
}
