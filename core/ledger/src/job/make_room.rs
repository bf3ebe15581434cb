//! Making room: a job that waits while no node has room may be worth much more than one that runs
//! and whose state is saved. Then the node of the latter is asked to yield: it saves the state once
//! more and ends the run by a date, is paid for the time that it ran, and the waiting job is placed
//! there in the same block. The other goes back to where it stood in the queue, with what is left
//! of its pay and its time, and goes on where it stopped.
//!
//! Nobody is asked for ever: a job yields a bounded number of times, never in the first moments of
//! a run, never if its end is promised, and only for offers that are octaves higher. Runs that may
//! yield stand in a list, of which a block looks at a bounded part.

use tg_scheduler::pace::DeviceClass;
use tg_scheduler::{Ask, Offer, fit, offered};
use tg_types::checkpoint::CHECKPOINT_BYTES_MAX;
use tg_types::ids::{JobId, NodeId, StateKey};
use tg_types::voucher::Voucher;
use tg_types::{Amount, CheckpointRef, DurationMs, Event, JobSpec, JobStatus, Reason, Tick, Work};

use super::charges::charges;
use super::place::{self, excluded, run_bond};
use super::promise::{self, Promise};
use super::record::{JobEntry, Run, RunState, YieldTo};
use super::row::{QueueKey, QueueRow};
use super::run::speaker;
use super::save::{self, SavedState};
use super::{fleet, settle, stop};
use crate::error::{ApplyError, Fail, Stop};
use crate::list::{self, LIST_PAGE_MAX, ListOf};
use crate::session::{Call, Session};
use crate::totals::{Flow, Part};
use crate::voucher::Vouched;
use crate::{account, keys, node, program};

/// Runs that may yield and that a block looks at: those of one page of the list. The next block
/// looks at the next page.
const LOOKED_MAX: u64 = LIST_PAGE_MAX;

/// Waiting jobs of a row for which a block looks for room.
const WAITING_PER_ROW_MAX: u64 = 8;

/// Nodes that are held against the rules for waiting jobs in a block.
const FITS_MAX: usize = 2_048;

/// A run that must end so soon is not worth stopping: this many times what stopping it takes.
const REST_MIN: u64 = 2;

/// A run that may have to yield.
struct Candidate {
    job: JobId,
    node: NodeId,
    row: QueueRow,
    /// The price that it offers, and the work that would be done again if nothing more is saved.
    order: (u64, u64),
}

/// Lists a run that was placed, if it may have to yield.
pub(super) fn enlist(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    let may_yield = entry.yields < session.params.jobs.yields.per_job_max;
    if entry.spec.checkpoint.is_some() && entry.promise == Promise::None && may_yield {
        let place = list::push(session, ListOf::Yielding, *job.as_bytes())?;
        entry.yield_place = Some(place);
    }
    Ok(())
}

/// Takes a run off the list that has ended.
pub(super) fn delist(session: &mut Session<'_>, entry: &mut JobEntry) -> Result<(), Stop> {
    match entry.yield_place.take() {
        Some(place) => list::set(session, ListOf::Yielding, place, None),
        None => Ok(()),
    }
}

/// Loads what listing runs needs, if any of these jobs is saved.
pub(super) fn load_end(session: &mut Session<'_>, has_plan: bool) -> Result<(), Stop> {
    if !has_plan {
        return Ok(());
    }
    session.require(&[keys::list_head(ListOf::Yielding)])?;
    list::load_end(session, ListOf::Yielding)
}

/// Keys of what a step of a job touches because it is listed.
pub(super) fn keys_around(entry: &JobEntry, out: &mut Vec<StateKey>) {
    let page = entry.yield_place.map(|place| place / LIST_PAGE_MAX);
    out.extend(page.map(|page| keys::list_page(ListOf::Yielding, page)));
}

/// Loads what asking runs to yield needs, as far as that is known.
pub(crate) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    session.require(&[keys::list_head(ListOf::Yielding)])?;
    let head = list::head(session, ListOf::Yielding)?;
    if head.first == head.next {
        return Ok(());
    }
    let pages = [head.first, head.at].map(|place| (ListOf::Yielding, place / LIST_PAGE_MAX));
    list::load_pages(session, &pages)
}

/// Asks runs to yield for waiting jobs that offer much more, at the end of a block: whoever still
/// waits then has found no room.
pub(crate) fn ask_all(session: &mut Session<'_>) -> Result<(), Stop> {
    session.require(&[keys::list_head(ListOf::Yielding)])?;
    let head = list::skip_holes(session, ListOf::Yielding)?;
    if head.first == head.next {
        return Ok(());
    }
    let within = session.params.jobs.yields.within;
    let by = session.env.tick.plus(within)?;
    let from = if (head.first..head.next).contains(&head.at) { head.at } else { head.first };
    let to = (from / LOOKED_MAX + 1).saturating_mul(LOOKED_MAX).min(head.next);
    let mut runs = candidates(session, from, to)?;
    let next = if to == head.next { head.first } else { to };
    if next != head.at {
        list::set_at(session, ListOf::Yielding, next)?;
    }
    let Some(least) = runs.iter().map(|run| run.row.octave()).min() else { return Ok(()) };
    let least = least.saturating_add(session.params.jobs.yields.octaves);
    let mut left = session.params.jobs.yields.per_block_max;
    let mut fits_left = FITS_MAX;
    let waiting = waiting(session, least)?;
    load_hosts(session, &runs)?;
    for job in waiting {
        if left == 0 || runs.is_empty() || fits_left < runs.len() {
            break;
        }
        fits_left -= runs.len();
        let found = find(session, &job, &runs)?;
        if let Some(place) = found {
            let run = runs.remove(place);
            ask(session, &run, &job, by)?;
            left -= 1;
        }
    }
    Ok(())
}

/// The runs between two places of the list that may have to yield now: the least offer first, then
/// the least work that is lost, then the job.
fn candidates(session: &mut Session<'_>, from: u64, to: u64) -> Result<Vec<Candidate>, Stop> {
    list::load_pages(session, &[(ListOf::Yielding, from / LIST_PAGE_MAX)])?;
    let listed = list::range(session, ListOf::Yielding, from..to)?;
    let ids: Vec<JobId> = listed.into_iter().map(|(_, id)| JobId::new(id)).collect();
    let older = ids.iter().filter(|job| !session.tables.jobs.has(job.as_bytes()));
    let older: Vec<StateKey> = older.map(keys::job).collect();
    session.require(&older)?;
    let mut found = Vec::new();
    for job in ids {
        let entry = session.tables.jobs.get(job.as_bytes())?.cloned();
        let Some(entry) = entry else { continue };
        let Some(run) = entry.live().next() else { continue };
        if !may_yield(session, &entry, run) {
            continue;
        }
        let (_, price) = offered(&entry.spec, None);
        let saved = entry.saved.map_or(run.begun, |last| last.saved.max(run.begun));
        let lost = session.env.tick.since(saved).unwrap_or(DurationMs::ZERO);
        let order = (price, lost.get());
        found.push(Candidate { job, node: run.node, row: entry.row, order });
    }
    found.sort_unstable_by_key(|run| (run.row.octave(), run.order, run.job));
    Ok(found)
}

/// Whether a run may be asked to yield now.
pub(super) fn may_yield(session: &Session<'_>, entry: &JobEntry, run: &Run) -> bool {
    let (now, params) = (session.env.tick, &session.params.jobs);
    let ran = now.since(run.begun).unwrap_or(DurationMs::ZERO);
    let rest = entry.spec.run_max.get().saturating_sub(ran.get());
    run.state == RunState::Placed
        && run.yields_to.is_none()
        && entry.promise == Promise::None
        && entry.yields < params.yields.per_job_max
        && ran >= params.yields.after
        && rest >= params.yields.within.get().saturating_mul(REST_MIN)
}

/// Waiting jobs whose offers are in this octave or above and for which nobody yields yet, whoever's
/// turn it is first.
fn waiting(session: &mut Session<'_>, least: u8) -> Result<Vec<JobId>, Stop> {
    let rows: Vec<QueueRow> = QueueRow::all().filter(|row| row.octave() >= least).collect();
    let heads: Vec<StateKey> =
        rows.iter().map(|row| keys::list_head(ListOf::Queue(*row))).collect();
    session.require(&heads)?;
    let (mut parts, mut pages) = (Vec::new(), Vec::new());
    for row in rows {
        // Placing has passed over what is gone at the front.
        let head = list::head(session, ListOf::Queue(row))?;
        let to = head.first.saturating_add(WAITING_PER_ROW_MAX).min(head.next);
        if head.first == to {
            continue;
        }
        let of_row = head.first / LIST_PAGE_MAX..to.div_ceil(LIST_PAGE_MAX);
        pages.extend(of_row.map(|page| (ListOf::Queue(row), page)));
        parts.push((row, head.first..to));
    }
    list::load_pages(session, &pages)?;
    let mut ids = Vec::new();
    for (row, places) in parts {
        let listed = list::range(session, ListOf::Queue(row), places)?;
        ids.extend(listed.into_iter().map(|(_, id)| JobId::new(id)));
    }
    place::load_waiting(session, &ids)?;
    load_awaited(session, &ids)?;
    let mut found: Vec<(QueueKey, JobId)> = Vec::new();
    for job in ids {
        let entry = super::known(session, &job)?;
        if entry.spec.is_gang() {
            continue; // one place is not enough
        }
        if let (Some(key), false) = (entry.queue_key(), is_awaited(session, &job, &entry)?) {
            found.push((key, job));
        }
    }
    found.sort_unstable_by_key(|(key, _)| *key);
    Ok(found.into_iter().map(|(_, job)| job).collect())
}

/// Loads all jobs that were asked to yield for these at once: what is loaded one by one makes a
/// block be executed again each time.
fn load_awaited(session: &mut Session<'_>, jobs: &[JobId]) -> Result<(), Stop> {
    let mut others = Vec::new();
    for job in jobs {
        let other = session.tables.jobs.get(job.as_bytes())?.and_then(|entry| entry.waits_for);
        others.extend(other.filter(|other| !session.tables.jobs.has(other.as_bytes())));
    }
    let others: Vec<StateKey> = others.iter().map(keys::job).collect();
    session.require(&others)
}

/// Loads the nodes of these runs and the stakes of their owners at once.
fn load_hosts(session: &mut Session<'_>, runs: &[Candidate]) -> Result<(), Stop> {
    let nodes: Vec<StateKey> = runs.iter().map(|run| keys::node(&run.node)).collect();
    session.require(&nodes)?;
    let mut stakes = Vec::new();
    for run in runs {
        let owner = session.tables.nodes.get(run.node.as_bytes())?.map(|node| node.owner);
        stakes.extend(owner.map(|owner| keys::stake(&owner)));
    }
    session.require(&stakes)
}

/// Whether somebody yields for a job already.
fn is_awaited(session: &mut Session<'_>, job: &JobId, entry: &JobEntry) -> Result<bool, Stop> {
    let Some(other) = entry.waits_for else { return Ok(false) };
    let other = session.tables.jobs.get(other.as_bytes())?;
    let to = Some(YieldTo::Job { job: *job });
    let yields = |run: &Run| run.state == RunState::Placed && run.yields_to == to;
    Ok(other.is_some_and(|other| other.live().any(yields)))
}

/// The first of these runs whose node would take the job in its place, by its place.
fn find(session: &mut Session<'_>, job: &JobId, runs: &[Candidate]) -> Result<Option<usize>, Stop> {
    let entry = super::known(session, job)?;
    if !promise::may_begin(session, &entry) {
        return Ok(None);
    }
    let most = entry.row.octave().checked_sub(session.params.jobs.yields.octaves);
    let Some(most) = most else { return Ok(None) };
    for (place, run) in runs.iter().enumerate().filter(|(_, run)| run.row.octave() <= most) {
        if would_take(session, (job, &entry), run)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Whether a node passes the rules for a job when a run of its has ended.
fn would_take(
    session: &mut Session<'_>,
    (job, entry): (&JobId, &JobEntry),
    run: &Candidate,
) -> Result<bool, Stop> {
    let freed = super::known(session, &run.job)?.run_of(&run.node).map(|of| (run.job, of.bond));
    Ok(fits(session, (job, entry), &run.node, freed)?.is_some())
}

/// A node that passes the rules for a job.
struct Fit {
    /// The class of the device on which it would run.
    class: Option<DeviceClass>,
}

/// Whether a node passes the rules for a job, if the run of a job with this bond has ended there.
fn fits(
    session: &mut Session<'_>,
    (job, entry): (&JobId, &JobEntry),
    id: &NodeId,
    freed: Option<(JobId, Amount)>,
) -> Result<Option<Fit>, Stop> {
    let facts = match &entry.spec.work {
        Work::Tensor { program, .. } => program::facts(session, program)?,
        Work::Opaque { .. } => None,
    };
    let node = session.tables.nodes.find(id.as_bytes())?;
    let Some(owner) = session.tables.nodes.at(node).map(|node| node.owner) else {
        return Ok(None);
    };
    session.require(&[keys::stake(&owner)])?;
    let stake = session.tables.stakes.find(owner.as_bytes())?;
    let bond = run_bond(session.params.jobs.run_bond, &entry.spec);
    let excluded = excluded(entry);
    let span = promise::run_span(&session.params, &entry.spec, session.env.tick);
    let (spec, facts) = (&entry.spec, facts.as_ref());
    let ask = Ask { spec, facts, bond, excluded: &excluded, span, job: Some(*job) };
    let Some(offer) = fleet::offer_of(session, *id, node, stake) else { return Ok(None) };
    let record = session.tables.nodes.at(node).zip(freed);
    let held = record.map(|(record, (job, _))| record.held_without(&job)).unwrap_or_default();
    let hosted = record.map(|(record, (job, _))| record.hosted_without(&job)).unwrap_or_default();
    let offer = match freed {
        Some((_, freed)) => Offer {
            running: offer.running.saturating_sub(1),
            held: &held,
            hosted: &hosted,
            stake_free: offer.stake_free.plus(freed).unwrap_or(Amount::CAP),
            ..offer
        },
        None => offer,
    };
    let fits = fit(&ask, &offer).is_ok();
    Ok(fits.then(|| Fit { class: offer.class_for(spec) }))
}

/// Asks a run to yield until then. Its own date stays: a node that cannot yield so soon, because it
/// fetches, seals or hands over, goes on, and the better offer waits as it did before.
fn ask(session: &mut Session<'_>, run: &Candidate, to: &JobId, by: Tick) -> Result<(), Stop> {
    let mut entry = super::known(session, &run.job)?;
    entry.yields = entry.yields.saturating_add(1);
    let Some(placed) = entry.run_of(&run.node) else { return Ok(()) };
    placed.yields_to = Some(YieldTo::Job { job: *to });
    session.tables.jobs.put(run.job.as_bytes(), Some(entry))?;
    let mut waiting = super::known(session, to)?;
    waiting.waits_for = Some(run.job);
    session.tables.jobs.put(to.as_bytes(), Some(waiting))?;
    session.emit(Event::YieldAsked { job: run.job, node: run.node, to: *to, by });
    Ok(())
}

/// What a run that yields leaves, and what it is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parting {
    /// What it is paid for its time.
    paid: Amount,
    /// What it gets for its transactions.
    fees: Amount,
    /// How long it ran.
    ran: DurationMs,
    /// What the job still pays.
    pay: Amount,
    /// How long it may still take.
    run_max: DurationMs,
}

impl Parting {
    /// Of a run that began then: pay and time are shared out alike, rounded in the client's favour,
    /// so what the job offers for an hour stays as it is.
    fn new(spec: &JobSpec, saves: u32, step_fee: Amount, span: DurationMs) -> Option<Self> {
        // Something is left, or nobody could go on.
        let ran = span.get().min(spec.run_max.get().saturating_sub(1));
        let share = u128::from(spec.pay.units()) * u128::from(ran);
        let paid = share.checked_div(u128::from(spec.run_max.get()))?;
        let paid = Amount::new(u64::try_from(paid).ok()?).ok()?;
        let pay = spec.pay.minus(paid).ok()?;
        let run_max = DurationMs::new(spec.run_max.get() - ran);
        // What is locked for the checkpoints of the rest stays locked.
        let saves_max = |run_max| spec.checkpoint.map_or(0, |plan| plan.saves_max(run_max));
        let free = saves_max(spec.run_max).saturating_sub(saves_max(run_max));
        let fees = step_fee.times(saves.saturating_add(1).min(free).into()).ok()?;
        Some(Self { paid, fees, ran: DurationMs::new(ran), pay, run_max })
    }
}

/// A node that was asked to yields a run: it is paid for its time, the job goes back into the
/// queue, and the one that it yields to takes its place. A job that was stopped ends.
pub(crate) fn yield_run(
    session: &mut Session<'_>,
    call: &Call,
    job: &JobId,
    checkpoint: Option<CheckpointRef>,
    vouchers: &[Voucher],
) -> Result<(), Fail> {
    let id = speaker(call);
    super::load(session, &[*job])?;
    let mut entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let run = entry.run_of(&id).cloned().ok_or(Reason::RunUnknown)?;
    if run.state != RunState::Placed {
        return Err(Reason::RunNotThere.into());
    }
    let to = run.yields_to.ok_or(Reason::YieldNotAsked)?;
    if checkpoint.is_some_and(|checkpoint| checkpoint.package_bytes > CHECKPOINT_BYTES_MAX) {
        return Err(Reason::CheckpointTooLarge.into());
    }
    if checkpoint.is_some() && entry.spec.checkpoint.is_none() {
        return Err(Reason::CheckpointNotAsked.into());
    }
    let waiting = to.waiting();
    super::load(session, waiting.as_slice())?;
    place::load_waiting(session, waiting.as_slice())?;
    if let Some(checkpoint) = checkpoint {
        Vouched::by(session, vouchers).check(checkpoint.package_ref())?;
    }
    let now = session.env.tick;
    if let Some(by) = to.client_until() {
        return Ok(stop::end(session, job, entry, (&run, by.min(now)), checkpoint)?);
    }
    // What nobody can go on with is not paid.
    let saved_here = entry.saved.filter(|last| last.node == id && last.saved >= run.begun);
    let until = checkpoint.map(|_| now).or(saved_here.map(|last| last.saved));
    let span = until.and_then(|until| until.since(run.begun).ok()).unwrap_or(DurationMs::ZERO);
    let step_fee = session.params.jobs.step_fee;
    let unpayable = || ApplyError::Incomplete(keys::job(job));
    let parting = Parting::new(&entry.spec, entry.saves, step_fee, span).ok_or_else(unpayable)?;
    let left = entry.escrow.minus(parting.paid.plus(parting.fees)?)?;
    let rest = JobSpec { pay: parting.pay, run_max: parting.run_max, ..entry.spec.clone() };
    let needed = charges(&session.params, &rest, entry.extent).ok_or_else(unpayable)?.escrow;
    let refund = left.minus(needed)?;

    (entry.escrow, entry.spec) = (needed, rest);
    if let Some(checkpoint) = checkpoint {
        let ran = save::ran_until(&entry, run.begun, now);
        entry.saved = Some(SavedState { checkpoint, node: id, saved: now, ran });
    }
    part(session, job, &mut entry, (&run, &parting, refund))?;
    if to == YieldTo::Better {
        session.parted.insert(*job, run.owner);
    }
    go_back(session, job, entry)?;
    Ok(waiting.map_or(Ok(()), |to| take_place(session, &to, &id))?)
}

/// Pays a run that yields and ends it. What the rest of the job does not need goes back.
fn part(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    (run, parting, refund): (&Run, &Parting, Amount),
) -> Result<(), Stop> {
    let Parting { paid, fees, ran, .. } = *parting;
    let now = session.env.tick;
    settle::release_run(session, job, run)?;
    node::update(session, &run.node, |node| node.judge(true, paid, now))?;
    settle::pay_owner_and_node(session, (&run.owner, &run.node), paid, fees)?;
    let client = session.tables.accounts.find(entry.owner.as_bytes())?;
    account::credit(session, client, refund)?;
    let (from, to, spent) = (Part::Escrow, Part::Balances, paid.plus(fees)?);
    session.totals.shift(Flow { from, to, amount: spent.plus(refund)? })?;
    delist(session, entry)?;
    entry.runs.retain(|other| !(other.node == run.node && other.is_live()));
    entry.saves = 0;
    entry.paid = entry.paid.plus(spent)?;
    let (node, owner) = (run.node, run.owner);
    session.emit(Event::ProviderPaid { job: *job, node, owner, amount: paid });
    session.emit(match run.yields_to.and_then(YieldTo::waiting) {
        Some(to) => Event::RunYielded { job: *job, node, to, ran, paid, refund },
        None => Event::RunMoved { job: *job, node, ran, paid, refund },
    });
    Ok(())
}

/// Puts a job back to where it stood in the queue, unless its date has passed.
fn go_back(session: &mut Session<'_>, job: &JobId, mut entry: JobEntry) -> Result<(), Stop> {
    if entry.expires <= session.env.tick {
        return settle::expire(session, job, entry);
    }
    let queued = entry.queued;
    entry.status = JobStatus::Queued;
    place::enqueue(session, job, &mut entry)?;
    entry.queued = queued; // it waited for its turn before, and had it
    session.tables.jobs.put(job.as_bytes(), Some(entry))
}

/// Gives the job for which a run yielded to its node, if it still waits and fits.
fn take_place(session: &mut Session<'_>, to: &JobId, id: &NodeId) -> Result<(), Stop> {
    let Some(mut entry) = session.tables.jobs.get(to.as_bytes())?.cloned() else { return Ok(()) };
    entry.waits_for = None;
    let is_waiting = entry.queue_place.is_some() && promise::may_begin(session, &entry);
    let fit = if is_waiting { fits(session, (to, &entry), id, None)? } else { None };
    if let Some(Fit { class }) = fit {
        promise::begin(session, to, &mut entry, id)?;
        place::assign(session, to, &mut entry, (id, class), None)?;
        if entry.live().count() >= usize::from(entry.wanted) {
            place::dequeue(session, &mut entry)?;
        }
        entry.status = JobStatus::Running;
    }
    session.tables.jobs.put(to.as_bytes(), Some(entry))
}

#[cfg(test)]
mod tests {
    use super::super::sample::command;
    use super::Parting;
    use tg_types::{Amount, CheckpointPlan, DurationMs, JobSpec};

    fn spec(pay: u64, run_max: u64) -> JobSpec {
        let checkpoint = Some(CheckpointPlan { every: DurationMs::new(5_000), from: None });
        JobSpec { checkpoint, ..command(pay, run_max) }
    }

    /// Goal: nothing is made or lost, what is left is paid as well as before, and what is locked
    /// for the rest stays locked. Method: any times, one parting after the other.
    #[test]
    fn prop_pay_and_time_are_shared_out_alike() {
        arbtest::arbtest(|u| {
            let pay = u.int_in_range(1..=1_000_000_000_000)?;
            let mut spec = spec(pay, u.int_in_range(1..=100_000_000)?);
            let step_fee = Amount::new(u.int_in_range(0..=100_000)?).expect("small");
            let saves_max =
                |spec: &JobSpec| spec.checkpoint.map_or(0, |plan| plan.saves_max(spec.run_max));
            let locked = |spec: &JobSpec| {
                let saves = step_fee.times(saves_max(spec).into()).expect("small");
                spec.pay.plus(saves).expect("small").units()
            };
            for _ in 0..u.int_in_range(1..=4)? {
                let before = spec.clone();
                let span = DurationMs::new(u.int_in_range(0..=200_000_000)?);
                let saves = u.int_in_range(0..=2_000)?;
                let parting = Parting::new(&spec, saves, step_fee, span).expect("small");
                spec.pay = parting.pay;
                spec.run_max = parting.run_max;
                assert_eq!(parting.pay.plus(parting.paid), Ok(before.pay));
                assert_eq!(parting.run_max.get() + parting.ran.get(), before.run_max.get());
                assert!(parting.run_max > DurationMs::ZERO && parting.ran <= span);
                let spent = parting.paid.units() + parting.fees.units();
                assert!(locked(&before) - spent >= locked(&spec));
                let rate = |spec: &JobSpec, other: &JobSpec| {
                    u128::from(spec.pay.units()) * u128::from(other.run_max.get())
                };
                assert!(rate(&spec, &before) >= rate(&before, &spec), "no worse an offer");
            }
            Ok(())
        });
    }
}
