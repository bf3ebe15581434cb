//! Secret weights: registered once with a proof that they fit a program, then named by jobs of
//! their owner.
//!
//! A commitment to weights hides them for a number of proofs, and one more may show something. So
//! the ledger counts every proof that may have been made, not those it has seen: the registration,
//! and one for every run that was placed, because its node has the package and may have sent a
//! proof that never came into a block. A job takes the proofs of all runs that it may have when it
//! is submitted, so that none lacks one later, and gives those of runs that were never placed back
//! when it ends. An entry stays for ever: if it were forgotten, the same commitment could be
//! registered and counted anew.

use std::collections::BTreeMap;

use tg_types::ids::{AccountId, Hash32, Noun};
use tg_types::{Event, Height, JobSpec, Reason, RegistrationClaim, SecretWeights, Work};

use crate::entry::{Entry, entry};
use crate::error::{Fail, Stop};
use crate::job::JobEntry;
use crate::planted::planted;
use crate::program::{self, ProgramEntry};
use crate::session::{Call, Session};

entry! {
    /// Secret weights that are registered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WeightsEntry {
        /// The program that they fit.
        pub program: Hash32,
        /// Whose they are: nobody else's jobs may name them.
        pub owner: AccountId,
        /// The block in which they were registered.
        pub height: Height,
        /// How many proofs their commitment is for, the registration included.
        pub proofs: u16,
        /// How many of these no run may have made, and no job that is open may yet make.
        pub left: u16,
    }
}

impl Entry for WeightsEntry {
    const NOUN: Noun = Noun::Weights;
}

/// What a transaction brings to register weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration<'a> {
    pub(crate) program: &'a Hash32,
    pub(crate) weights: &'a SecretWeights,
    pub(crate) cost: u64,
    pub(crate) proof: &'a [u8],
}

/// Whether weights can be registered for a program at that cost, if the proof holds. What cannot be
/// takes no place in a block.
pub fn check_registration(
    program: Option<&ProgramEntry>,
    known: Option<&WeightsEntry>,
    weights: &SecretWeights,
    cost: u64,
) -> Result<(), Reason> {
    let program = program.ok_or(Reason::ProgramUnknown)?;
    let expected = program.costs.registration.ok_or(Reason::ProgramNotShowable)?;
    if known.is_some() {
        return Err(Reason::WeightsExist);
    }
    if !weights.is_countable() {
        return Err(Reason::WeightsCountWrong);
    }
    if cost == expected { Ok(()) } else { Err(Reason::ProofCostWrong) }
}

/// Refuses a registration that takes no place in a block.
pub(crate) fn check_admissible(
    session: &mut Session<'_>,
    new: &Registration<'_>,
) -> Result<(), Fail> {
    let program = session.tables.programs.get(new.program.as_bytes())?.copied();
    let known = session.tables.weights.get(new.weights.id().as_bytes())?;
    Ok(check_registration(program.as_ref(), known, new.weights, new.cost)?)
}

/// Registers weights that are shown to fit.
pub(crate) fn register(
    session: &mut Session<'_>,
    call: &Call,
    new: &Registration<'_>,
) -> Result<(), Fail> {
    let (program, weights, owner) = (*new.program, *new.weights, call.sender);
    let genesis = session.rules.domain.genesis;
    let bytes = program::bytes(session, &program)?;
    let claim = RegistrationClaim { genesis, owner, program, weights };
    let fits = session.rules.verifier.verify_registration(&bytes, &claim, new.proof);
    if !fits && !planted!(session.rules, TrustProofs) {
        return Err(Reason::RegistrationWrong.into());
    }
    let (id, proofs) = (weights.id(), weights.proofs);
    let left = proofs.checked_sub(1).ok_or(Reason::WeightsCountWrong)?;

    let entry = WeightsEntry { program, owner, height: session.env.height, proofs, left };
    session.tables.weights.put(id.as_bytes(), Some(entry))?;
    session.emit(Event::WeightsRegistered { weights: id, program, owner, proofs: left });
    Ok(())
}

/// The entries of all secret weights that these jobs name, after the proofs of all their runs were
/// taken from them; refuses jobs for which there are too few.
pub(crate) fn reserved<'a>(
    session: &mut Session<'_>,
    owner: &AccountId,
    specs: impl Iterator<Item = &'a JobSpec>,
) -> Result<BTreeMap<Hash32, WeightsEntry>, Fail> {
    let runs = u16::from(session.params.jobs.runs_max());
    let mut taken: BTreeMap<Hash32, WeightsEntry> = BTreeMap::new();
    for spec in specs {
        let Some(id) = spec.tier.secret_weights() else { continue };
        let known = match taken.get(&id) {
            Some(known) => Some(*known),
            None => session.tables.weights.get(id.as_bytes())?.copied(),
        };
        let mut known = known.ok_or(Reason::WeightsUnknown)?;
        let is_for = |wanted: &Hash32| known.program == *wanted;
        if !matches!(&spec.work, Work::Tensor { program, .. } if is_for(program)) {
            return Err(Reason::WeightsUnknown.into());
        }
        if known.owner != *owner && !planted!(session.rules, SkipOwner) {
            return Err(Reason::WeightsNotOwned.into());
        }
        known.left = known.left.checked_sub(runs).ok_or(Reason::WeightsSpent)?;
        taken.insert(id, known);
    }
    Ok(taken)
}

/// Gives the proofs back that no run of a job which ends can have made: it was never placed.
pub(crate) fn give_back(session: &mut Session<'_>, job: &JobEntry) -> Result<(), Stop> {
    let Some(id) = job.spec.tier.secret_weights() else { return Ok(()) };
    let placed = u16::try_from(job.runs.as_slice().len()).unwrap_or(u16::MAX);
    let unused = u16::from(session.params.jobs.runs_max()).saturating_sub(placed);
    let slot = session.tables.weights.find(id.as_bytes())?;
    if let Some(known) = session.tables.weights.at_mut(slot) {
        known.left = known.left.saturating_add(unused).min(known.proofs.saturating_sub(1));
    }
    Ok(())
}
