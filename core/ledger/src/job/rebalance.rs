//! Moving to a better place: a command that is saved and runs on a node that fails, or on a device
//! that is slow for it, goes on elsewhere if that gains much more time than it costs. Its node is
//! asked as one that closes is ([`super::drain`]): it saves the state once more, ends the run, is
//! paid for the time up to what it saved, and the job goes back to where it stood in the queue.
//!
//! Nodes are never given more than they take, so there is no congestion that moving would end; what
//! is left is whom the record shows to fail, and where work is known to be slow.
//!
//! Nobody is moved for little, or again and again: a move counts as one of the times that a job may
//! be asked to yield, the gain must be a multiple of the cost, and only places count that are idle
//! while everybody who waits was looked at. At most one page of the list of runs that may yield is
//! looked at, and the next time only when whoever was asked has had the time to move.

use tg_scheduler::pace::{DeviceClass, Forecast};
use tg_types::ids::{AccountId, JobId, NodeId, StateKey};
use tg_types::{Bps, DurationMs, Event, KeyEscrow, Tick};

use super::fleet::Fleet;
use super::record::{JobEntry, Run, YieldTo};
use super::row::QueueRow;
use super::{gpus, make_room, pace, save};
use crate::error::Stop;
use crate::list::{self, LIST_PAGE_MAX, ListOf};
use crate::session::Session;
use crate::{keys, node};

/// A node fails of which it is sure that it does less than this part of its work well. The bound is
/// the upper one: of a newcomer nothing is sure.
const FAILING_BELOW: Bps = Bps::constant(5_000);

/// Owners that must have been heard of both classes: by what one says of its own devices, or of
/// those of others, nobody moves.
const VOICES_MIN: usize = 2;

/// The gain is at least so many times the cost, because both are guessed.
const COSTS_MIN: u64 = 2;

/// And of what is expected to be left a part as large as one of so many.
const REST_PART: u64 = 4;

/// The job must last so many times what ending a run takes, or it might expire on its way.
const EXPIRY_MIN: u64 = 2;

/// A run that may be better off elsewhere.
struct Candidate {
    job: JobId,
    node: NodeId,
    client: AccountId,
    /// How long it still takes where it is, in milliseconds: as expected, or at most.
    rest: u64,
    /// What moving takes: ending it, and doing again what was not saved, in milliseconds.
    cost: u64,
    /// The part of its work that its node does well at most, if the node fails.
    failing: Option<Bps>,
    /// How long all of it takes here, and what is known of other classes, if enough is.
    slow: Option<(DurationMs, Forecast)>,
}

impl Candidate {
    /// The time that is saved on a node with such a device and reputation: less of it is spent in
    /// vain, or the rest takes less.
    fn gain(&self, class: Option<DeviceClass>, reputation: Bps) -> u64 {
        let faster = self.slow.as_ref().and_then(|(here, forecast)| {
            let there = forecast.told_by(VOICES_MIN, class?)?;
            Some(self.gain_of_speed(*here, there))
        });
        faster.unwrap_or(0).max(self.gain_of_safety(reputation))
    }

    /// The most that could be gained anywhere.
    fn gain_max(&self) -> u64 {
        let faster = self.slow.as_ref().and_then(|(here, forecast)| {
            let there = forecast.least_told_by(VOICES_MIN)?;
            Some(self.gain_of_speed(*here, there))
        });
        faster.unwrap_or(0).max(self.gain_of_safety(Bps::WHOLE))
    }

    fn gain_of_speed(&self, here: DurationMs, there: DurationMs) -> u64 {
        self.rest.saturating_sub(share(self.rest, there.get(), here.get()))
    }

    fn gain_of_safety(&self, reputation: Bps) -> u64 {
        let Some(here) = self.failing else { return 0 };
        let more = reputation.points().saturating_sub(here.points());
        share(self.rest, more.into(), Bps::WHOLE.points().into())
    }

    /// Whether so much is worth what moving takes.
    fn is_worth(&self, gain: u64) -> bool {
        let costs = u128::from(self.cost) * u128::from(COSTS_MIN);
        gain > 0 && u128::from(gain) >= costs + u128::from(self.rest / REST_PART)
    }
}

/// A part of a time, rounded down.
fn share(time: u64, part: u64, whole: u64) -> u64 {
    let share = (u128::from(time) * u128::from(part)).checked_div(u128::from(whole));
    share.and_then(|share| u64::try_from(share).ok()).unwrap_or(u64::MAX)
}

/// Loads what looking for better places needs, as far as that is known.
pub(crate) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    if !is_time(session) {
        return Ok(());
    }
    session.require(&[keys::list_head(ListOf::Yielding)])?;
    if candidates(session)?.is_empty() { Ok(()) } else { node::all(session).map(drop) }
}

/// Asks runs to move to better places, at the end of a block: whoever waits was given what it can
/// use, and what is idle then is free for them.
pub(crate) fn ask_all(session: &mut Session<'_>) -> Result<(), Stop> {
    if !is_time(session) {
        return Ok(());
    }
    let runs = candidates(session)?;
    if runs.is_empty() || is_awaited(session)? {
        return Ok(());
    }
    let yields = &session.params.jobs.yields;
    let (by, mut left) = (session.env.tick.plus(yields.within)?, yields.per_block_max);
    let mut fleet = Fleet::load(session)?;
    for run in runs {
        if left == 0 || !fleet.has_room() {
            break;
        }
        if !fleet.has_time_to_move(&run.client) {
            continue;
        }
        let entry = super::known(session, &run.job)?;
        fleet.learn(session, &entry, None)?;
        let found = fleet.find_elsewhere(session, &run.job, &entry);
        let Some((found, reputation)) = found else { continue };
        if run.is_worth(run.gain(found.class, reputation)) {
            fleet.expect_at(found.number);
            ask(session, &run, entry, by)?;
            left -= 1;
        }
    }
    Ok(())
}

/// Whether a block looks for better places: one of those in the time in which runs end that were
/// asked to. By then whoever was asked before has moved, so no place is meant twice.
fn is_time(session: &Session<'_>) -> bool {
    let within = session.params.jobs.yields.within.get();
    let turn = |tick: Tick| tick.get().checked_div(within);
    turn(session.env.tick) != turn(session.env.parent_tick)
}

/// Whether what is idle may be for somebody who waits: for a job that was not looked at yet, or for
/// one that waits for much at once. All others could use none of it in this block.
fn is_awaited(session: &mut Session<'_>) -> Result<bool, Stop> {
    let mut waits = false;
    for row in QueueRow::all() {
        let head = list::skip_holes(session, ListOf::Queue(row))?;
        if head.first < head.at && head.at < head.next {
            return Ok(true);
        }
        waits |= head.first < head.next;
    }
    if !waits {
        return Ok(false);
    }
    session.require(&[keys::list_head(ListOf::Gangs)])?;
    let gangs = list::skip_holes(session, ListOf::Gangs)?;
    Ok(gangs.first < gangs.next)
}

/// The runs of a page of the list that might gain by moving: those of nodes that fail first, then
/// the most that could be gained, then the job. Which page is drawn by the block before.
fn candidates(session: &mut Session<'_>) -> Result<Vec<Candidate>, Stop> {
    let head = list::head(session, ListOf::Yielding)?;
    if head.first >= head.next || session.params.jobs.yields.per_block_max == 0 {
        return Ok(Vec::new());
    }
    let pages = head.first / LIST_PAGE_MAX..head.next.div_ceil(LIST_PAGE_MAX);
    let [a, b, c, d, e, f, g, h, ..] = *session.env.parent.as_bytes();
    let drawn = u64::from_be_bytes([a, b, c, d, e, f, g, h]) % (pages.end - pages.start);
    let first = (pages.start + drawn) * LIST_PAGE_MAX;
    let places = first.max(head.first)..first.saturating_add(LIST_PAGE_MAX).min(head.next);
    let mut found = Vec::new();
    for (job, entry) in movable(session, places)? {
        let Some(run) = entry.live().next() else { continue };
        if let Some(candidate) = candidate(session, job, &entry, run)? {
            found.push(candidate);
        }
    }
    found.sort_unstable_by_key(|run| {
        (run.failing.is_none(), std::cmp::Reverse(run.gain_max()), run.job)
    });
    Ok(found)
}

/// The jobs between two places of the list that may be asked to move now. What tells whether they
/// would gain is loaded.
fn movable(
    session: &mut Session<'_>,
    places: std::ops::Range<u64>,
) -> Result<Vec<(JobId, JobEntry)>, Stop> {
    let listed = list::range(session, ListOf::Yielding, places)?;
    let ids: Vec<JobId> = listed.into_iter().map(|(_, id)| JobId::new(id)).collect();
    let older = ids.iter().filter(|job| !session.tables.jobs.has(job.as_bytes()));
    let older: Vec<StateKey> = older.map(keys::job).collect();
    session.require(&older)?;
    let (mut found, mut needed) = (Vec::new(), Vec::new());
    for job in ids {
        let entry = session.tables.jobs.get(job.as_bytes())?.cloned();
        let Some(entry) = entry.filter(|entry| may_move(session, entry)) else { continue };
        needed.extend(entry.live().map(|run| keys::node(&run.node)));
        needed.extend(pace::placing(&entry.owner, &entry.spec).map(|subject| keys::pace(&subject)));
        needed.extend(gpus::is_holding(&entry.spec).then(keys::gpu_mix));
        found.push((job, entry));
    }
    session.require(&needed)?;
    Ok(found)
}

/// Whether the run of a job may be asked to move now. A job whose owner keeps the key would have to
/// wait for it, and one that expires soon might do so on its way.
fn may_move(session: &Session<'_>, entry: &JobEntry) -> bool {
    let within = session.params.jobs.yields.within.get();
    let expires = entry.expires.since(session.env.tick).unwrap_or(DurationMs::ZERO);
    let may_end = entry.live().next().is_some_and(|run| make_room::may_yield(session, entry, run));
    may_end
        && !entry.spec.is_gang()
        && !entry.is_stopped
        && entry.spec.key_escrow == KeyEscrow::Validators
        && expires.get() > within.saturating_mul(EXPIRY_MIN)
}

/// What a run might gain by moving; `None` if that is not worth it wherever it goes.
fn candidate(
    session: &mut Session<'_>,
    job: JobId,
    entry: &JobEntry,
    run: &Run,
) -> Result<Option<Candidate>, Stop> {
    let (now, within) = (session.env.tick, session.params.jobs.yields.within);
    let record = session.tables.nodes.get(run.node.as_bytes())?;
    let Some(record) = record else { return Ok(None) };
    let is_credited = record.is_credited(&session.params.capacity);
    let upper = if is_credited { record.reputation.upper_bound(now) } else { Bps::ZERO };
    let failing = (upper < FAILING_BELOW).then_some(upper);

    let ran = now.since(run.begun).unwrap_or(DurationMs::ZERO).get();
    let expected = expected(session, entry, run)?;
    let left = expected.as_ref().and_then(|(here, _)| {
        let done = save::ran_before(entry, run.begun).get().saturating_add(ran);
        here.get().checked_sub(done).filter(|left| *left > 0)
    });
    let most = entry.spec.run_max.get().saturating_sub(ran);
    let rest = left.map_or(most, |left| left.min(most));
    let again = save::since_saved(entry, run.begun, now).get();
    let cost = within.get().saturating_add(again);
    let slow = expected.filter(|_| left.is_some());
    let (node, client) = (run.node, entry.owner);
    let found = Candidate { job, node, client, rest, cost, failing, slow };
    Ok(found.is_worth(found.gain_max()).then_some(found))
}

/// How long all of a run takes where it is, and what is known of other classes. Nothing is expected
/// of one that began with its client's state, or has only a part of a device.
fn expected(
    session: &mut Session<'_>,
    entry: &JobEntry,
    run: &Run,
) -> Result<Option<(DurationMs, Forecast)>, Stop> {
    let begins = entry.spec.checkpoint.is_none_or(|plan| plan.from.is_none());
    let Some(class) = run.class.filter(|_| begins && pace::has_whole_device(run)) else {
        return Ok(None);
    };
    let subjects: Vec<_> = pace::placing(&entry.owner, &entry.spec).collect();
    let forecast = pace::forecast_of(session, pace::work(&entry.spec, None), &subjects)?;
    Ok(forecast.told_by(VOICES_MIN, class).map(|here| (here, forecast)))
}

/// Asks a run to move until then. Its own date stays, as when it is asked to make room.
fn ask(
    session: &mut Session<'_>,
    run: &Candidate,
    mut entry: JobEntry,
    by: Tick,
) -> Result<(), Stop> {
    entry.yields = entry.yields.saturating_add(1);
    if let Some(placed) = entry.run_of(&run.node) {
        placed.yields_to = Some(YieldTo::Better);
    }
    session.tables.jobs.put(run.job.as_bytes(), Some(entry))?;
    session.emit(Event::MoveAsked { job: run.job, node: run.node, by });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Candidate;
    use tg_types::Bps;
    use tg_types::ids::{AccountId, JobId, NodeId};

    fn failing(rest: u64, cost: u64, here: u16) -> Candidate {
        let (job, node) = (JobId::new([1; 32]), NodeId::new([2; 32]));
        let client = AccountId::new([3; 32]).expect("no small-order key");
        let failing = Some(Bps::constant(here));
        Candidate { job, node, client, rest, cost, failing, slow: None }
    }

    #[test]
    fn gain_must_be_twice_the_cost_and_a_quarter_of_the_rest() {
        let check = |run: Candidate, there: u16, expected: bool| {
            let gain = run.gain(None, Bps::constant(there));
            assert_eq!(run.is_worth(gain), expected, "{gain} of {}", run.rest);
        };
        check(failing(100_000, 10_000, 3_000), 8_000, true); // 50 s are gained, 45 s are enough
        check(failing(100_000, 13_000, 3_000), 8_000, false);
        check(failing(100_000, 10_000, 3_000), 7_000, false);
        check(failing(100_000, 0, 3_000), 5_500, true);
        check(failing(100_000, 0, 3_000), 5_400, false);
        check(failing(0, 0, 0), 10_000, false); // nothing is left
        check(failing(u64::MAX, u64::MAX, 0), 10_000, false);
    }
}
