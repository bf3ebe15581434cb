//! Jobs whose results are shown to be right at once: which way is cheaper, and who may read what.
//! A proof of sealed data hides inputs and outputs; without hiding, their owner has to say that
//! anybody may read them.

use super::plan::{Plan, What};
use crate::commands::model::look;
use crate::failure::{Failure, OrFail as _};
use crate::secrets::Secrets;
use crate::work::connect::Session;
use std::sync::Arc;
use tg_jobfile::Public;
use tg_proof::court::{self, commitment_id, hidden};
use tg_proof::{Mode, Prover};
use tg_tensor::Model;
use tg_types::tx::PROOF_TX_BYTES_MAX;
use tg_types::{Hash32, Tier};

const HINT: &str = "use --verify audit or sync";

/// The tier of a job, with the commitment to the weights of its model if it asks for a proof.
pub(super) fn tier(model: &Model, asked: Tier, public: Option<Public>) -> Result<Tier, Failure> {
    match asked {
        Tier::Proof { .. } | Tier::Rerun => open_tier(model, public),
        Tier::Zk { inputs, .. } => {
            let what = "runs of this program cannot be proven without their data";
            let costs = court::costs(model.program());
            let (Some(_), Ok(prover)) = (costs.zk, hidden::prover(&Arc::new(model.clone()))) else {
                return Err(Failure::misuse(what, HINT));
            };
            let commitment = prover.commitment();
            let commitment = commitment.ok_or_else(|| Failure::misuse(what, HINT))?;
            Ok(Tier::Zk { weights: commitment.id(), inputs, is_secret: false })
        }
        Tier::Trusted | Tier::Audit | Tier::Sync | Tier::Redundant { .. } => Ok(asked),
    }
}

/// The tier of a job with secret weights, before they are looked up.
pub(super) fn secret_tier(model: &Model) -> Result<Tier, Failure> {
    if court::costs(model.program()).zk.is_none() {
        let what = "runs of this program cannot be proven without their data";
        return Err(Failure::misuse(what, HINT));
    }
    let none = Hash32::new([0; 32]);
    Ok(Tier::Zk { weights: none, inputs: none, is_secret: true })
}

/// Looks the secret weights of a job up: the key on this machine, the registration on the chain.
/// Refuses what the ledger would refuse, with a better hint; says how many proofs are left.
pub(super) fn find_secret(session: &Session, plan: &mut Plan) -> Result<Option<String>, Failure> {
    let (true, What::Tensor { model, .. }) = (plan.has_secret, &plan.what) else {
        return Ok(None);
    };
    let kept = Secrets::new(&session.keys).known(model)?;
    let weights = kept.weights.0;
    let entry = look(session, &weights)?.ok_or_else(|| {
        Failure::new(
            format!("the secret weights {weights} are not registered on this network"),
            "register them: `tensorgrid model register MODEL`",
        )
    })?;
    if entry.owner != session.account() {
        return Err(Failure::new(
            format!("the secret weights {weights} were registered by {}", entry.owner),
            "only their owner can have jobs with them; commit to your own with `tensorgrid model \
             commit MODEL --again`",
        ));
    }
    let runs = u16::from(session.gateway.params().jobs.runs_max());
    if entry.left < runs {
        return Err(Failure::new(
            format!(
                "{} proofs about the secret weights are left, and a job may need {runs}",
                entry.left
            ),
            "wait for jobs that run, which give back what they do not need; or commit anew: \
             `tensorgrid model commit MODEL --again`, then `model register`",
        ));
    }
    plan.tier = Tier::Zk { weights, inputs: Hash32::new([0; 32]), is_secret: true };
    plan.secret = Some(kept.secret());
    Ok(Some(format!(
        "secret, seen by the provider and by whoever can open the package; {} of {} proofs about \
         them are left, of which the job takes {runs} and gives back those of runs that never \
         began",
        entry.left, entry.proofs
    )))
}

/// The tier of a job that asks for a proof of public data: with the commitment to its weights, or
/// without any if they are public and running the program takes less than verifying a proof.
fn open_tier(model: &Model, public: Option<Public>) -> Result<Tier, Failure> {
    let Some(public) = public else {
        return Err(Failure::misuse(
            "a proof would show inputs and outputs to everybody, and the job does not say that \
             anybody may read them",
            "--verify zk proves without showing them; or give --public data",
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
    let prover = prover.or_fail("runs of this program cannot be proven", HINT)?;
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
        Tier::Trusted | Tier::Audit | Tier::Sync | Tier::Redundant { .. } | Tier::Zk { .. } => None,
    }
}

/// What a proof of sealed data takes, and what of the job it does not hide; `None` for other tiers.
pub(super) fn hiding(tier: Tier, model: &Model) -> Option<String> {
    let Tier::Zk { is_secret, .. } = tier else { return None };
    let cost = court::costs(model.program()).zk.unwrap_or(0);
    let hides = if is_secret {
        "no inputs, outputs or weights"
    } else {
        "no inputs or outputs; the weights are not hidden"
    };
    Some(format!(
        "up to {PROOF_TX_BYTES_MAX} bytes in a block, which each validator verifies in about {} \
         ms; the proof shows them the program, sizes and times, {hides}",
        cost.div_ceil(1_000)
    ))
}

#[cfg(test)]
mod tests {
    use super::{hiding, tier, warning};
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
        let refused = tier(&model(), Tier::PROOF, None).expect_err("sealed");
        for way in ["--public data", "--verify zk"] {
            assert!(refused.hint.contains(way), "{}", refused.hint);
        }
    }

    #[test]
    fn proof_that_hides_says_what_it_does_not_hide() {
        assert_eq!(hiding(Tier::PROOF, &model()), None);
        let told = hiding(Tier::ZK, &model()).expect("told");
        assert!(told.contains("weights are not hidden"), "{told}");
        assert_eq!(warning(Tier::ZK), None);
    }

    #[test]
    fn small_program_with_public_weights_is_run_by_all() {
        let all = tier(&model(), Tier::PROOF, Some(Public::All));
        assert_eq!(all.ok(), Some(Tier::Rerun));
        assert!(warning(Tier::Rerun).is_some_and(|text| text.contains("weights")));
        assert_eq!(warning(Tier::Sync), None);
    }
}
