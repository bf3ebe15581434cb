//! Checks without a key. An owner may keep the key of its inputs and hand it out itself; if it does
//! not, nobody can check its result, which it may have read already. That must not cost the
//! checkers a fine, nor the provider its pay.
//!
//! A drawn checker that has no key says so. Until its date it may still be given the key and
//! answer, so an owner that was away loses nothing by coming back. At its date it is excused:
//! neither fined nor paid, and others are drawn in its place as for one that missed. When there is
//! nobody left to draw, as many as must vouch at the least have either vouched or been excused,
//! and nobody has shown the result to be wrong, it is accepted, and says that it is unchecked.
//!
//! An excuse weighs as much as a vouch and no more: whoever would have to lie together to have a
//! wrong result paid by excuses could have vouched for it as well. Only jobs whose owner keeps the
//! key know excuses. Vouchers say who keeps it, so an owner cannot state the contrary.

use tg_types::ids::{JobId, NodeId};
use tg_types::{Event, JobStatus, KeyEscrow, Reason};

use super::record::{Check, CheckState, JobEntry};
use super::{run, settle};
use crate::error::{Fail, Stop};
use crate::session::{Call, Session};

/// A drawn node says that it has no key.
pub(crate) fn lack(session: &mut Session<'_>, call: &Call, job: &JobId) -> Result<(), Fail> {
    let node: NodeId = run::speaker(call);
    super::load(session, &[*job])?;
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let (is_checking, escrow) = (entry.status == JobStatus::Checking, entry.spec.key_escrow);
    let check = entry.check_of(&node).ok_or(Reason::CheckUnknown)?;
    if escrow != KeyEscrow::None {
        return Err(Reason::KeyInShares.into());
    }
    if !is_checking || check.state != CheckState::Drawn {
        return Err(Reason::CheckNotThere.into());
    }

    check.state = CheckState::Waiting;
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    session.emit(Event::KeyLacked { job: *job, node });
    Ok(())
}

/// The date of a checker that said so has come.
pub(crate) fn excuse(session: &mut Session<'_>, job: &JobId, check: &Check) -> Result<(), Stop> {
    settle::release_check(session, check)?;
    session.emit(Event::CheckExcused { job: *job, node: check.node });
    Ok(())
}

/// Whether the owner is why a result has fewer vouches than it needs at the least.
pub(crate) fn is_withheld(entry: &JobEntry, least: usize) -> bool {
    let excused = entry.excused();
    excused > 0 && entry.passed() + excused >= least
}

/// Accepts a result that the owner did not let be checked. Who did vouch is paid.
pub(crate) fn accept(session: &mut Session<'_>, job: &JobId, entry: JobEntry) -> Result<(), Stop> {
    session.emit(Event::ResultUnchecked { job: *job, owner: entry.owner });
    settle::accept(session, job, entry)
}
