//! Checks: drawn nodes commit to an answer before any of them shows its own, so that nobody can
//! copy. An answer only accepts; whoever finds a result wrong objects instead ([`super::dispute`]).
//! It must contain what nobody knows who has not looked: a key of the trace, which follows from the
//! whole run ([`TraceSecret`]), or the digests of the tiles that the checker's lot draws
//! ([`tg_types::StepJudge::shows_tiles`]). Who could not recompute those, because the provider did
//! not show what they read, may show that it has recomputed the whole run: it commits to all
//! digests, and a beacon that nobody knew then draws which it must show
//! ([`tg_types::StepJudge::shows_whole`]). Accepting without looking earns a fine: the first answer
//! that fits its seal is the only one, and if it is wrong the check will have been missed. Others
//! are drawn at its date and not before, so that nobody chooses the beacon that draws them.

use tg_types::ids::{Hash32, JobId, NodeId};
use tg_types::tx::{OpenedCheck, Sealed};
use tg_types::{CheckAnswer, Event, JobStatus, KnownRun, Reason, Tick, TileLot, TraceSecret};

use super::record::{Check, CheckState, Draw, JobEntry};
use super::{draw, run, settle};
use crate::due::{self, DueItem};
use crate::error::{ApplyError, Fail, Stop};
use crate::list::{self, ListOf};
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::{keys, program};

/// The result is there: from now on checkers have their time. Stores the job.
pub(crate) fn begin(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
) -> Result<(), Stop> {
    if !entry.checks.as_slice().iter().any(Check::is_open) {
        return draw::draw_again(session, job, entry);
    }
    let until = session.env.tick.plus(entry.spec.run_max)?.plus(session.params.jobs.check_grace)?;
    for check in entry.checks.as_mut_slice() {
        if check.state == CheckState::Drawn && check.deadline == Tick::MAX {
            check.deadline = until;
        }
    }
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    due::add(session, until, DueItem::JobStep { job: *job })
}

/// Takes commitments to answers.
pub(crate) fn commit(session: &mut Session<'_>, call: &Call, seals: &[Sealed]) -> Result<(), Fail> {
    let node = run::speaker(call);
    run::each(
        session,
        seals,
        |item| item.job,
        |session, item| commit_one(session, &node, &item.job, item.seal),
    )
}

fn commit_one(
    session: &mut Session<'_>,
    node: &NodeId,
    job: &JobId,
    seal: Hash32,
) -> Result<(), Fail> {
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let is_checking = entry.status == JobStatus::Checking;
    let check = entry.check_of(node).ok_or(Reason::CheckUnknown)?;
    if !is_checking || !check.is_unsaid() {
        return Err(Reason::CheckNotThere.into());
    }

    check.state = CheckState::Committed { seal, opened: None, beacon: None };
    check.deadline = Tick::MAX;
    let round = check.round;
    open_round(session, job, &mut entry, round)?;
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    session.emit(Event::CheckCommitted { job: *job, node: *node });
    Ok(())
}

/// Once all of a round have committed or missed, their answers may be shown and are expected.
pub(crate) fn open_round(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    round: u8,
) -> Result<(), Stop> {
    if !is_round_open(entry, round) {
        return Ok(());
    }
    let (height, mut is_drawn_for) = (session.env.height, false);
    let until = session.env.tick.plus(session.params.jobs.answer_within)?;
    for check in entry.checks.as_mut_slice().iter_mut().filter(|check| check.round == round) {
        if let CheckState::Committed { opened, .. } = &mut check.state {
            is_drawn_for |= opened.is_none() && check.lot.is_some();
            opened.get_or_insert(height);
            check.deadline = until;
        }
    }
    if is_drawn_for {
        list::push(session, ListOf::Commits(height), *job.as_bytes())?;
    }
    due::add(session, until, DueItem::JobStep { job: *job })
}

/// Whether nobody of a round still computes.
fn is_round_open(entry: &JobEntry, round: u8) -> bool {
    let mut checks = entry.checks.as_slice().iter();
    !checks.any(|check| check.round == round && check.is_unsaid())
}

/// Takes answers that were committed to.
pub(crate) fn reveal(
    session: &mut Session<'_>,
    call: &Call,
    answers: &[OpenedCheck],
) -> Result<(), Fail> {
    let node = run::speaker(call);
    // Judging tiles takes reading a program, and nobody has room for two answers of full length.
    let is_long = |item: &&OpenedCheck| item.answer.is_long();
    if answers.iter().filter(is_long).count() > 1 {
        return Err(Reason::CheckKeyWrong.into());
    }
    run::each(session, answers, |item| item.job, |session, item| reveal_one(session, &node, item))
}

fn reveal_one(session: &mut Session<'_>, node: &NodeId, item: &OpenedCheck) -> Result<(), Fail> {
    let OpenedCheck { job, answer, salt } = item;
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let is_checking = entry.status == JobStatus::Checking;
    let check = entry.check_of(node).ok_or(Reason::CheckUnknown)?.clone();
    let CheckState::Committed { seal, opened, beacon } = check.state else {
        return Err(Reason::CheckNotThere.into());
    };
    if opened.is_none() || !is_checking {
        return Err(Reason::CheckNotThere.into());
    }
    let is_sealed = answer.seal(node, salt) == seal || planted!(session.rules, SkipSeal);
    if !is_sealed {
        return Err(Reason::SealWrong.into());
    }
    let is_done = is_done(session, job, &entry, (&check, beacon), answer)?;

    let check = entry.check_of(node).ok_or(Reason::CheckUnknown)?;
    if !is_done {
        check.state = CheckState::Refused;
        session.emit(Event::CheckRefused { job: *job, node: *node });
        return Ok(session.tables.jobs.put(job.as_bytes(), Some(entry))?);
    }
    check.state = CheckState::Passed;
    check.deadline = Tick::MAX;
    session.emit(Event::CheckPassed { job: *job, node: *node });
    if matches!(answer, CheckAnswer::Whole { .. }) {
        check.lot = None;
        session.emit(Event::TilesNotShown { job: *job, node: *node });
    }
    let Draw::Drawn { needed, .. } = entry.draw else {
        return Ok(session.tables.jobs.put(job.as_bytes(), Some(entry))?);
    };
    if entry.passed() >= usize::from(needed) {
        return Ok(settle::accept(session, job, entry)?);
    }
    if entry.checks.as_slice().iter().any(Check::is_open) {
        return Ok(session.tables.jobs.put(job.as_bytes(), Some(entry))?);
    }
    // All have answered, but fewer were drawn than are needed.
    Ok(draw::draw_again(session, job, entry)?)
}

/// Whether an answer shows that its check was done. Who says to have recomputed the whole run shows
/// tiles that a beacon draws which nobody knew when the round committed, and is refused until that
/// has spoken.
fn is_done(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &JobEntry,
    (check, beacon): (&Check, Option<Hash32>),
    answer: &CheckAnswer,
) -> Result<bool, Fail> {
    if Some(answer.trace()) != entry.result().map(|result| result.trace) {
        return Ok(false);
    }
    let tiles = session.params.jobs.audit_tiles;
    let (lot, shown) = match (answer, check.lot) {
        (CheckAnswer::Key { trace, key }, None) => {
            return Ok(TraceSecret::is_key(trace, check.round, key));
        }
        (CheckAnswer::Tiles { tiles: shown, .. }, Some(lot)) => (TileLot { lot, tiles }, shown),
        (CheckAnswer::Whole { tiles: shown, .. }, Some(lot)) => {
            let beacon = beacon.ok_or(Reason::CheckNotThere)?;
            (draw::drawn_lot(&beacon, &TileLot { lot, tiles }), shown)
        }
        (CheckAnswer::Key { .. }, Some(_))
        | (CheckAnswer::Tiles { .. } | CheckAnswer::Whole { .. }, None) => return Ok(false),
    };
    let claim = entry.claim().ok_or(ApplyError::Incomplete(keys::job(job)))?;
    let bytes = program::bytes(session, &claim.program)?;
    let judge = &session.rules.judge;
    let is_shown = match answer {
        CheckAnswer::Key { .. } => false,
        CheckAnswer::Tiles { .. } => judge.shows_tiles(&bytes, &claim, &lot, shown.as_slice()),
        CheckAnswer::Whole { known, .. } => {
            let by = KnownRun { node: check.node, known: *known, lot };
            judge.shows_whole(&bytes, &claim, &by, shown.as_slice())
        }
    };
    Ok(is_shown || planted!(session.rules, TrustTiles))
}
