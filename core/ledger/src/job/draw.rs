//! Who checks: drawn by a beacon that nobody knew when the result was committed to. A commitment of
//! height c is judged by the beacon of height c + 2, whenever that arrives. Owners are drawn, not
//! nodes, and by their stake, so that splitting into many gains nothing; the owner of the run never
//! checks itself.

use std::ops::Range;

use tg_types::genesis::NetworkKind;
use tg_types::hash::{Tag, tagged};
use tg_types::ids::{Hash32, JobId, NodeId};
use tg_types::{AccountId, Amount, Bps, Event, Extent, Height, Tick, Tier, TileLot};

use super::record::{Check, CheckState, Draw, JobEntry};
use super::{SYNC_OWNERS_MIN, check, keyless, run, settle};
use crate::beacon::{CERTIFICATE_LAG_MAX, RING_HEIGHTS};
use crate::error::{ApplyError, Stop};
use crate::keys;
use crate::list::{self, ListOf};
use crate::node::{self, OwnerSeat};
use crate::planted::planted;
use crate::session::Session;

/// A result of height c is drawn by the beacon of height c + this: its block was not yet proposed
/// when the result was committed to.
pub const BEACON_DELAY: u64 = 2;

/// Heights that a block draws at most. A block records about one beacon, so this catches up with a
/// backlog quickly, and bounds the look-ups of a block.
const HEIGHTS_PER_BLOCK_MAX: u64 = 64;

const LOT: Tag = Tag::new("tensorgrid/lot");

// A beacon comes at the latest so many heights after what it draws for, and is drawn by at once. A
// block that has no time for all draws goes on with the latest beacon; whatever needs a beacon for
// longer keeps it ([`keep_beacon`]).
const _: () = assert!(BEACON_DELAY + CERTIFICATE_LAG_MAX < RING_HEIGHTS);

/// What waits since one height for its beacon: results, and rounds that were opened.
struct Batch {
    height: Height,
    places: Range<u64>,
    /// Whether these are all that are left of the height.
    is_last: bool,
}

/// What a block draws for: that whose beacon has come, as much as a block may.
fn plan(session: &mut Session<'_>) -> Result<Vec<Batch>, Stop> {
    let Ok(last) = session.cursor.beacon.minus(BEACON_DELAY) else {
        return Ok(Vec::new());
    };
    let first = session.cursor.draw_height.get();
    let end = last.get().saturating_add(1).min(first.saturating_add(HEIGHTS_PER_BLOCK_MAX));
    let heights = (first..end).map(Height::new);
    let heads: Vec<_> = heights.clone().map(|it| keys::list_head(ListOf::Commits(it))).collect();
    session.require(&heads)?;
    let mut left = u64::from(session.params.jobs.draws_per_block_max);
    let mut from = session.cursor.draw_place;
    let mut batches = Vec::new();
    for height in heights {
        let next = list::head(session, ListOf::Commits(height))?.next;
        let to = next.min(from.saturating_add(left));
        let is_last = to == next;
        batches.push(Batch { height, places: from..to, is_last });
        left = left.saturating_sub(to.saturating_sub(from));
        from = 0;
        if !is_last {
            break;
        }
    }
    Ok(batches)
}

/// Loads what drawing needs, if there is anything to draw.
pub(crate) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    let mut jobs = Vec::new();
    let mut beacons = Vec::new();
    for batch in plan(session)? {
        if batch.places.is_empty() {
            continue;
        }
        beacons.push(keys::beacon(batch.height.plus(BEACON_DELAY)?));
        let found = list::range(session, ListOf::Commits(batch.height), batch.places);
        let found = session.attempt(found)?.unwrap_or_default();
        jobs.extend(found.into_iter().map(|(_, id)| JobId::new(id)));
    }
    if beacons.is_empty() {
        return Ok(());
    }
    let loads = [session.require(&beacons), load_ground(session), super::load(session, &jobs)];
    session.all_of(loads)
}

/// Loads what any draw needs: the nodes, and the latest beacon.
pub(crate) fn load_ground(session: &mut Session<'_>) -> Result<(), Stop> {
    let latest = keys::beacon(session.cursor.beacon);
    let loads = [session.require(&[latest]), node::all(session).map(drop)];
    session.all_of(loads)
}

/// Draws checkers for results whose beacon has come, as many as a block may.
pub(crate) fn draw_all(session: &mut Session<'_>) -> Result<(), Stop> {
    for Batch { height, places, is_last } in plan(session)? {
        let list = ListOf::Commits(height);
        let (from, to) = (places.start, places.end);
        if from < to {
            let beacon = beacon_of(session, height.plus(BEACON_DELAY)?)?;
            for (place, id) in list::range(session, list, places)? {
                list::set(session, list, place, None)?;
                keep_beacon(session, &JobId::new(id), height, &beacon)?;
                decide(session, &JobId::new(id), height, &beacon)?;
            }
        }
        if !is_last {
            session.cursor.draw_place = to;
            return Ok(());
        }
        if to > 0 {
            list::forget(session, list)?;
        }
        session.cursor.draw_height = height.next()?;
        session.cursor.draw_place = 0;
    }
    Ok(())
}

/// The beacon of a height; the latest, if the ring has forgotten it.
fn beacon_of(session: &mut Session<'_>, height: Height) -> Result<Hash32, Stop> {
    for height in [height, session.cursor.beacon] {
        let entry = session.tables.beacons.get(&keys::ring_id(height))?.copied();
        if let Some(entry) = entry.filter(|entry| entry.height == height) {
            return Ok(entry.beacon);
        }
    }
    Err(ApplyError::Incomplete(keys::beacon(height)).into())
}

/// Keeps a beacon with the checks whose tiles it draws: those of a round that was opened at its
/// height. They may be shown until their date, by which time the ring has forgotten it.
fn keep_beacon(
    session: &mut Session<'_>,
    job: &JobId,
    height: Height,
    drawn: &Hash32,
) -> Result<(), Stop> {
    let Some(mut entry) = session.tables.jobs.get(job.as_bytes())?.cloned() else {
        return Ok(());
    };
    let mut is_changed = false;
    for check in entry.checks.as_mut_slice().iter_mut().filter(|check| check.lot.is_some()) {
        if let CheckState::Committed { opened: Some(opened), beacon, .. } = &mut check.state
            && *opened == height
        {
            *beacon = Some(*drawn);
            is_changed = true;
        }
    }
    if is_changed { session.tables.jobs.put(job.as_bytes(), Some(entry)) } else { Ok(()) }
}

/// Decides whether a result that was committed to at a height is checked, and by whom.
fn decide(
    session: &mut Session<'_>,
    job: &JobId,
    height: Height,
    beacon: &Hash32,
) -> Result<(), Stop> {
    let Some(mut entry) = session.tables.jobs.get(job.as_bytes())?.cloned() else {
        return Ok(());
    };
    // A result that was given up meanwhile may have been followed by another one, and that must not
    // be drawn by a beacon which was known when it was committed to.
    let is_present = entry.live().any(|run| run.committed() == Some(height));
    if entry.draw != Draw::Pending || entry.status.is_final() || !is_present {
        return Ok(());
    }
    let Some((count, share)) = checkers_of(session, entry.spec.tier) else {
        return Ok(());
    };
    let lot = number(&tagged(LOT, &[beacon.as_bytes(), job.as_bytes(), b"audit"]));
    let is_drawn = lot % u128::from(Bps::WHOLE.points()) < u128::from(share.points());
    let count = if is_drawn { count } else { 0 };
    let drawn = pick(session, job, &mut entry, &Lot { beacon: *beacon, round: 0, count })?;
    // An audit is a sample: a network with nobody to draw has nothing to sample with.
    entry.draw = if drawn == 0 && entry.spec.tier == Tier::Audit {
        session.emit(Event::ResultNotDrawn { job: *job });
        Draw::Spared
    } else {
        Draw::Drawn { needed: drawn.max(least(session, entry.spec.tier)), round: 0 }
    };
    run::advance(session, job, entry)
}

/// How many checkers a result of a tier has, and what share of results is checked.
fn checkers_of(session: &Session<'_>, tier: Tier) -> Option<(u8, Bps)> {
    let jobs = &session.params.jobs;
    match tier {
        Tier::Audit => Some((jobs.audit_checkers, jobs.audit_share)),
        Tier::Sync => Some((jobs.sync_checkers, Bps::WHOLE)),
        Tier::Trusted
        | Tier::Redundant { .. }
        | Tier::Proof { .. }
        | Tier::Rerun
        | Tier::Zk { .. } => None,
    }
}

/// The fewest checkers that must vouch for a result that was drawn. A local network does with what
/// it has.
fn least(session: &Session<'_>, tier: Tier) -> u8 {
    match (tier, session.rules.genesis.spec().kind) {
        (Tier::Sync, NetworkKind::Open) => session.params.jobs.sync_checkers.min(SYNC_OWNERS_MIN),
        (_, NetworkKind::Open | NetworkKind::Local) => 1,
    }
}

/// Draws others for checkers that did not answer. If there are none and no answer is to come, those
/// that were given must do, or the owner is why there are too few ([`keyless`]), or the result
/// counts as one nobody checks.
pub(crate) fn draw_again(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
) -> Result<(), Stop> {
    let Draw::Drawn { needed, round } = entry.draw else {
        return session.tables.jobs.put(job.as_bytes(), Some(entry));
    };
    load_ground(session)?;
    let open = entry.checks.as_slice().iter().filter(|check| check.is_open()).count();
    let missing = usize::from(needed).saturating_sub(entry.passed() + open);
    let round = round + 1;
    if missing > 0 && round < session.params.jobs.rounds_max {
        let beacon = beacon_of(session, session.cursor.beacon)?;
        let count = u8::try_from(missing).unwrap_or(u8::MAX);
        let drawn = pick(session, job, &mut entry, &Lot { beacon, round, count })?;
        entry.draw = Draw::Drawn { needed, round };
        if drawn > 0 {
            return check::begin(session, job, entry);
        }
    }
    if open > 0 {
        return session.tables.jobs.put(job.as_bytes(), Some(entry));
    }
    let least = usize::from(least(session, entry.spec.tier));
    if entry.passed() >= least {
        return settle::accept(session, job, entry);
    }
    if keyless::is_withheld(&entry, least) {
        return keyless::accept(session, job, entry);
    }
    settle::fail(session, job, entry)
}

/// What a draw depends on.
struct Lot {
    beacon: Hash32,
    round: u8,
    count: u8,
}

/// An owner that may be drawn, with one of its nodes.
struct Candidate {
    owner: AccountId,
    node: NodeId,
    stake: u128,
}

/// Draws checkers and writes them into the job; says how many were found.
fn pick(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    lot: &Lot,
) -> Result<u8, Stop> {
    let bond = check_bond(session, entry);
    let mut candidates = if lot.count > 0 { candidates(session, entry, bond)? } else { Vec::new() };
    let mut drawn = 0;
    for place in 0..lot.count {
        let all: u128 = candidates.iter().map(|candidate| candidate.stake).sum();
        if all == 0 {
            break;
        }
        let pieces: [&[u8]; 3] = [lot.beacon.as_bytes(), job.as_bytes(), &[lot.round, place]];
        let mut at = number(&tagged(LOT, &pieces)) % all;
        let chosen = candidates.iter().position(|candidate| {
            let is_here = at < candidate.stake;
            at = at.saturating_sub(candidate.stake);
            is_here
        });
        let Candidate { owner, node: id, .. } = match chosen {
            Some(chosen) => candidates.remove(chosen),
            None => break,
        };
        let (round, deadline, state) = (lot.round, Tick::MAX, CheckState::Drawn);
        let lot = tile_lot(job, entry.extent, lot, &id);
        let check = Check { node: id, owner, bond, round, lot, deadline, state };
        if entry.checks.push(check).is_err() {
            break;
        }
        let stake = session.tables.stakes.find(owner.as_bytes())?;
        session.tables.stakes.at_mut(stake).get_or_insert_default().expose(bond)?;
        node::update(session, &id, |node| node.checks += 1)?;
        session.emit(Event::CheckDrawn { job: *job, node: id, round });
        drawn += 1;
    }
    Ok(drawn)
}

/// What the tiles of a checker are drawn by, if it is to recompute some. Everybody has its own:
/// what one shows does not help another, and together they look at more.
fn tile_lot(job: &JobId, extent: Extent, lot: &Lot, node: &NodeId) -> Option<Hash32> {
    let pieces: [&[u8]; 5] =
        [lot.beacon.as_bytes(), job.as_bytes(), &[lot.round], node.as_bytes(), b"tiles"];
    match extent {
        Extent::Whole => None,
        Extent::Tiles => Some(tagged(LOT, &pieces)),
    }
}

/// The lot that a beacon draws for a checker that says to have recomputed the whole run.
pub fn drawn_lot(beacon: &Hash32, lot: &TileLot) -> TileLot {
    TileLot { lot: tagged(LOT, &[beacon.as_bytes(), lot.lot.as_bytes(), b"whole"]), ..*lot }
}

/// What a check of this job puts at risk.
fn check_bond(session: &Session<'_>, entry: &JobEntry) -> Amount {
    let charges = super::charges::charges(&session.params, &entry.spec, entry.extent);
    let pay = charges.map_or(Amount::ZERO, |charges| charges.check_pay);
    pay.times(session.params.jobs.check_bond.into()).unwrap_or(Amount::CAP)
}

/// Owners that may check a result, each with the present node that comes first in the list.
fn candidates(
    session: &mut Session<'_>,
    entry: &JobEntry,
    bond: Amount,
) -> Result<Vec<Candidate>, Stop> {
    let mut taken: Vec<AccountId> = entry.checks.as_slice().iter().map(|it| it.owner).collect();
    if !planted!(session.rules, SelfCheck) {
        taken.extend(entry.runs.as_slice().iter().map(|run| run.owner));
    }
    let owners = node::owners(session)?;
    let candidate = |seat: &OwnerSeat| {
        let stake = session.tables.stakes.at(seat.stake)?;
        let is_fit = stake.free() >= bond && !taken.contains(&seat.owner);
        let (owner, node, stake) = (seat.owner, seat.node, stake.active.units().into());
        is_fit.then_some(Candidate { owner, node, stake })
    };
    Ok(owners.iter().filter_map(candidate).collect())
}

/// The first half of a hash as a number. A remainder of it by any stake is as good as even.
fn number(hash: &Hash32) -> u128 {
    let (half, _) = hash.as_bytes().split_at(16);
    half.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}
