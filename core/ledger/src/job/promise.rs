//! Promises: a client may ask that a job is done by a time, and is told in the block that takes the
//! job in, or in one of the next, whether it will be.
//!
//! Yes means that a run which ends in time by its own dates is under way, or that a node keeps a
//! slot for it: no run is placed there that might still be going on when the slot begins
//! ([`tg_scheduler::Rule::Kept`]), and the owner's stake stands for it from then on. A promised job
//! waits in the queue as any other and may be placed earlier; in its slot it begins at the latest.
//! No means that the job ends, and names the earliest deadline that would have been promised.
//!
//! Whoever has a slot or a run of a promised job and fails it makes the ledger decide anew, before
//! the queue takes what is free. If nobody else can keep the promise, it is broken openly: the job
//! ends, the escrow goes back, and the owner of the node that is to blame pays the client what
//! a run is paid. Nobody is to blame where a node has given the run up, because then clients could
//! earn by handing in what cannot be run, or where the chain stood still.

mod spans;

pub use spans::{rest_of_run, run_span, slot_length, taken_spans};

use tg_scheduler::slots::{KeptSlot, Span, busiest, earliest, latest};
use tg_scheduler::{Ask, Offer, fit_later, steps_of};
use tg_types::ids::{AccountId, JobId, NodeId, StateKey};
use tg_types::node::SLOTS_MAX;
use tg_types::{
    Amount, DurationMs, Event, JobSpec, JobStatus, KeyEscrow, List, ProgramFacts, Reason, Tick,
    TimeError, Work, wire,
};

use super::place::{self, excluded, run_bond};
use super::record::JobEntry;
use super::{drain, fleet, settle};
use crate::due::{self, DueItem};
use crate::error::{ApplyError, Stop};
use crate::list::{self, LIST_PAGE_MAX, ListOf};
use crate::session::Session;
use crate::table::Slot;
use crate::totals::{Flow, Part};
use crate::{account, keys, node, program};

/// What a slot is longer than the dates of a run: dates are looked after in the first block that
/// comes after their second, and a run that ends at its date makes room a block later.
pub const SLOT_MARGIN: DurationMs = DurationMs::new(5_000);

/// Slots that a node keeps at most: every run that is placed is held against them.
pub const KEPT_PER_NODE_MAX: usize = 16;

/// How far ahead a slot begins at most: until then the node and the stake that stands for it are
/// there for little else.
pub const SLOT_AHEAD_MAX: DurationMs = DurationMs::DAY;

/// What whoever keeps a slot is paid if the client takes its job back: one part in so many of what
/// the run is paid.
pub const CANCEL_PART: u64 = 10;

/// The lists of promises that are to be decided about, in their order.
const LISTS: [ListOf; 2] = [ListOf::Renewals, ListOf::Promises];

/// The list in which a promise waits that was given before, or was not.
const fn list_of(was_given: bool) -> ListOf {
    if was_given { ListOf::Renewals } else { ListOf::Promises }
}

/// Promises that a block decides about: each may look at all nodes.
const PROMISES_PER_BLOCK_MAX: u64 = 16;

/// Nodes whose slots are looked at for one promise.
const NODES_PER_PROMISE_MAX: usize = 64;

/// Runs of these nodes that are looked at: each is an entry to be loaded. As many as a node may
/// have at least, so that one node can always be looked at.
const RUNS_PER_PROMISE_MAX: usize = 512;
const _: () = assert!(RUNS_PER_PROMISE_MAX >= SLOTS_MAX as usize);

/// Runs that a block looks at for promises. It begins with no other promise if that might take more
/// than are left.
const RUNS_PER_BLOCK_MAX: usize = 4 * RUNS_PER_PROMISE_MAX;

/// Steps of looking for slots in a block, in the measure of searches for runs, before the next
/// promise has to wait for the next block. One promise takes as many at most too.
const STEPS_MAX: u64 = fleet::STEPS_PER_BLOCK_MAX / 4;

/// What it takes to hold a span against others.
const STEPS_PER_SPAN: u64 = 16;

/// What the earliest deadline that is named leaves for asking again.
pub const ASK_AGAIN: DurationMs = DurationMs::new(10_000);

/// Slots that a node keeps.
pub type KeptSlots = List<KeptSlot, 0, KEPT_PER_NODE_MAX>;

wire! {
    /// A node that failed a promise.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Blamed {
        /// Which.
        pub node: NodeId,
        /// Whose it is.
        pub owner: AccountId,
    }
}

wire! {
    /// What was promised of a job. By when is its expiry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Promise {
        /// Nobody asked, or the client's own package voided it.
        None = 1,
        /// It is to be decided about.
        Asked {
            /// Its place in the list of such jobs.
            place: u64,
            /// Whether it was given before, and whoever had it failed.
            was_given: bool,
            /// Who failed it, if anybody is to blame.
            blamed: Option<Blamed>,
        } = 2,
        /// A node keeps a slot.
        Kept {
            /// Which.
            node: NodeId,
            /// Whose it is.
            owner: AccountId,
            /// What of the owner's stake stands for it.
            bond: Amount,
            /// When it begins at the latest.
            from: Tick,
        } = 3,
        /// A run is under way, or gave the result.
        Running {
            /// Who failed it, if its run ended without a result and somebody is to blame.
            blamed: Option<Blamed>,
        } = 4,
        /// It was not given.
        Refused {
            /// Why.
            why: Reason,
            /// The earliest deadline that would have been promised, if there is one.
            earliest: Option<Tick>,
        } = 5,
        /// It was given and broken.
        Broken {
            /// What the client received.
            compensation: Amount,
        } = 6,
    }
}

/// When a job expires that is submitted now.
pub(super) fn expiry(now: Tick, spec: &JobSpec) -> Result<Tick, TimeError> {
    let latest = now.plus(spec.expires_after)?;
    Ok(spec.promise.map_or(latest, |by| by.min(latest)).max(now))
}

/// Refuses what can never be promised.
pub(super) fn check_spec(spec: &JobSpec) -> Result<(), Reason> {
    if spec.promise.is_none() {
        return Ok(());
    }
    if !spec.tier.ends_with_its_run() {
        return Err(Reason::PromiseNeedsDate);
    }
    match spec.key_escrow {
        KeyEscrow::Validators => Ok(()),
        KeyEscrow::None => Err(Reason::PromiseNeedsShares),
    }
}

/// Loads what deciding about the promises that wait now needs, as far as that is known.
pub(crate) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    session.require(&LISTS.map(keys::list_head))?;
    let mut ids = Vec::new();
    for list in LISTS {
        ids.extend(next_jobs(session, list, PROMISES_PER_BLOCK_MAX)?);
    }
    if ids.is_empty() {
        return Ok(());
    }
    // A promise that is refused ends its job.
    let (jobs, ends) = (place::load_waiting(session, &ids), super::load(session, &ids));
    let nodes = node::all(session).map(drop);
    session.all_of([jobs, ends, nodes])
}

/// Loads what asking for promises needs, if any of these jobs does.
pub(super) fn load_end(session: &mut Session<'_>, has_promise: bool) -> Result<(), Stop> {
    if !has_promise {
        return Ok(());
    }
    session.require(&LISTS.map(keys::list_head))?;
    let ends = LISTS.map(|list| list::load_end(session, list));
    session.all_of(ends)
}

/// Keys of what a step of a job may touch because of its promise.
pub(super) fn keys_around(promise: &Promise, out: &mut Vec<StateKey>) {
    let of = |node: &NodeId, owner: &AccountId| [keys::node(node), keys::stake(owner)];
    match promise {
        Promise::Asked { place, was_given, blamed } => {
            out.push(keys::list_page(list_of(*was_given), place / LIST_PAGE_MAX));
            out.extend(blamed.iter().flat_map(|it| of(&it.node, &it.owner)));
        }
        Promise::Kept { node, owner, .. } => {
            out.extend(of(node, owner));
            out.push(keys::account(owner));
        }
        Promise::Running { blamed } => {
            out.extend(blamed.iter().flat_map(|it| of(&it.node, &it.owner)));
        }
        Promise::None | Promise::Refused { .. } | Promise::Broken { .. } => {}
    }
}

/// A job is taken in: its promise is decided about at the end of the block.
pub(super) fn ask(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    if entry.spec.promise.is_some() {
        enlist(session, job, entry, false, None)?;
    }
    Ok(())
}

/// The run of a job ended without a result: if it was promised, that is decided about anew.
pub(super) fn ask_again(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    match entry.promise {
        Promise::Running { blamed } => enlist(session, job, entry, true, blamed),
        Promise::None
        | Promise::Asked { .. }
        | Promise::Kept { .. }
        | Promise::Refused { .. }
        | Promise::Broken { .. } => Ok(()),
    }
}

fn enlist(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    was_given: bool,
    blamed: Option<Blamed>,
) -> Result<(), Stop> {
    let place = list::push(session, list_of(was_given), *job.as_bytes())?;
    entry.promise = Promise::Asked { place, was_given, blamed };
    Ok(())
}

/// Whether a job may be given to a node now: a promised one only if it ends in time by its dates.
pub(super) fn may_begin(session: &Session<'_>, entry: &JobEntry) -> bool {
    match entry.promise {
        Promise::Asked { .. } | Promise::Kept { .. } => {
            run_span(&session.params, &entry.spec, session.env.tick).to <= entry.expires
        }
        Promise::None
        | Promise::Running { .. }
        | Promise::Refused { .. }
        | Promise::Broken { .. } => true,
    }
}

/// A job is given to a node now: what was kept for it is free again.
pub(super) fn begin(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    node: &NodeId,
) -> Result<(), Stop> {
    match entry.promise {
        Promise::Asked { was_given, .. } => {
            tell(session, (job, entry.expires), (node, session.env.tick), was_given);
        }
        Promise::Kept { .. } => {}
        Promise::None
        | Promise::Running { .. }
        | Promise::Refused { .. }
        | Promise::Broken { .. } => return Ok(()),
    }
    release(session, job, entry)?;
    entry.promise = Promise::Running { blamed: None };
    Ok(())
}

fn tell(
    session: &mut Session<'_>,
    (job, by): (&JobId, Tick),
    (node, from): (&NodeId, Tick),
    was_given: bool,
) {
    if !was_given {
        session.cursor.promises.given = session.cursor.promises.given.saturating_add(1);
    }
    session.emit(Event::PromiseGiven { job: *job, node: *node, from, by });
}

/// Gives up what a promise holds: its place in the list, or its slot.
fn release(session: &mut Session<'_>, job: &JobId, entry: &JobEntry) -> Result<(), Stop> {
    match &entry.promise {
        Promise::Asked { place, was_given, .. } => {
            list::set(session, list_of(*was_given), *place, None)
        }
        Promise::Kept { node, owner, bond, .. } => {
            node::update(session, node, |node| node.kept.retain(|slot| slot.job != *job))?;
            settle::release(session, owner, *bond)
        }
        Promise::None
        | Promise::Running { .. }
        | Promise::Refused { .. }
        | Promise::Broken { .. } => Ok(()),
    }
}

/// A run of a promised job ended without a result: says who is to blame, if the ledger has seen
/// that it is the node. A node that gives a run up is not, whatever it says: it may say so because
/// of what the client has handed in, and nobody else can tell.
pub(super) fn blame(entry: &mut JobEntry, by: Blamed, why: Reason) {
    let is_seen = matches!(
        why,
        Reason::RunLost | Reason::RunMissed | Reason::ResultUndefended | Reason::ResultRefuted
    );
    if let Promise::Running { blamed } = &mut entry.promise
        && is_seen
    {
        *blamed = Some(by);
    }
}

/// The client's own package is bad: nothing is promised any more.
pub(super) fn void(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    release(session, job, entry)?;
    entry.promise = Promise::None;
    Ok(())
}

/// A job ends: its promise was kept, or it is broken.
pub(super) fn finish(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    status: JobStatus,
) -> Result<(), Stop> {
    release(session, job, entry)?;
    let (is_given, blamed) = match entry.promise {
        Promise::None | Promise::Refused { .. } | Promise::Broken { .. } => return Ok(()),
        Promise::Asked { was_given, blamed, .. } => (was_given, blamed),
        Promise::Kept { .. } => (true, None),
        Promise::Running { blamed } => (true, blamed),
    };
    let is_late = session.env.tick > entry.expires;
    match status {
        JobStatus::Settled if !is_late => {
            let counts = &mut session.cursor.promises;
            counts.kept = counts.kept.saturating_add(1);
            Ok(())
        }
        JobStatus::Cancelled => {
            entry.promise = Promise::None;
            Ok(())
        }
        JobStatus::Expired if !is_given => {
            entry.promise = Promise::Refused { why: Reason::PromiseNoRoom, earliest: None };
            Ok(())
        }
        JobStatus::Settled
        | JobStatus::Failed
        | JobStatus::Expired
        | JobStatus::Queued
        | JobStatus::Running
        | JobStatus::Checking
        | JobStatus::Disputed => break_openly(session, job, entry, blamed),
    }
}

/// A client takes its job back: whoever keeps a slot for it is paid a part of the escrow.
pub(super) fn pay_keeper(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    let Promise::Kept { node, owner, .. } = entry.promise else {
        return Ok(());
    };
    let amount = Amount::new(entry.spec.pay.units().div_ceil(CANCEL_PART))?.min(entry.escrow);
    let keeper = session.tables.accounts.find(owner.as_bytes())?;
    account::credit(session, keeper, amount)?;
    session.totals.shift(Flow { from: Part::Escrow, to: Part::Balances, amount })?;
    entry.escrow = entry.escrow.minus(amount)?;
    entry.paid = entry.paid.plus(amount)?;
    session.emit(Event::ProviderPaid { job: *job, node, owner, amount });
    Ok(())
}

/// Says that a promise is broken; who is to blame pays the client what a run is paid.
fn break_openly(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    blamed: Option<Blamed>,
) -> Result<(), Stop> {
    let (owner, by) = (entry.owner, entry.expires);
    session.emit(Event::PromiseBroken { job: *job, owner, by });
    let counts = &mut session.cursor.promises;
    counts.broken = counts.broken.saturating_add(1);
    let mut compensation = Amount::ZERO;
    if let Some(Blamed { node, owner }) = blamed {
        let (client, pay) = (entry.owner, entry.spec.pay);
        compensation = settle::compensate(session, &owner, &client, pay)?;
        let amount = compensation;
        session.emit(Event::ClientCompensated { job: *job, node, owner, client, amount });
    }
    entry.promise = Promise::Broken { compensation };
    Ok(())
}

/// Looks at the slots that a node keeps after it disappeared or changed what it offers: those that
/// it cannot keep any more are looked for elsewhere.
pub(crate) fn recheck(session: &mut Session<'_>, id: &NodeId) -> Result<(), Stop> {
    let Some(entry) = session.tables.nodes.get(id.as_bytes())? else {
        return Ok(());
    };
    let (slots, runs) = (usize::from(entry.descriptor.slots), entry.runs.as_slice().to_vec());
    let mut kept: Vec<KeptSlot> = entry.kept.as_slice().to_vec();
    // If it takes fewer runs than before, as many as can be stay: those that end first.
    kept.sort_by_key(|slot| slot.to);
    let mut taken: Vec<Span> = drain::closed_spans(&entry.descriptor).collect();
    for run in runs {
        let run = super::known(session, &run)?;
        let Span { from, to } = rest_of_run(&session.params, &run, id, session.env.tick);
        // What a run that began a little late is longer than its slot is no reason to lose the
        // next: that one waits for it.
        let to = Tick::new(to.get().saturating_sub(SLOT_MARGIN.get()));
        taken.push(Span { from, to });
    }
    for slot in kept {
        let entry = super::known(session, &slot.job)?;
        let Promise::Kept { node, owner, .. } = entry.promise else { continue };
        let span = slot.span();
        let has_room = busiest(taken.iter().copied(), span) < slots;
        if has_room && keeps(session, &entry, &node)? {
            taken.push(span);
        } else {
            lose(session, &slot.job, entry, Some(Blamed { node, owner }))?;
        }
    }
    Ok(())
}

/// A slot is lost: the promise is decided about anew.
fn lose(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    blamed: Option<Blamed>,
) -> Result<(), Stop> {
    release(session, job, &entry)?;
    enlist(session, job, &mut entry, true, blamed)?;
    session.tables.jobs.put(job.as_bytes(), Some(entry))
}

/// Whether a node that keeps a slot still passes the rules. Its stake stands for the run already.
fn keeps(session: &mut Session<'_>, entry: &JobEntry, id: &NodeId) -> Result<bool, Stop> {
    let facts = facts(session, entry)?;
    let span = run_span(&session.params, &entry.spec, session.env.tick);
    let excluded = excluded(entry);
    let (facts, bond) = (facts.as_ref(), Amount::ZERO);
    let ask = Ask { spec: &entry.spec, facts, bond, excluded: &excluded, span, job: None };
    let seat = Seat::find(session, id)?;
    Ok(seat.offer(session).is_some_and(|offer| fit_later(&ask, &offer).is_ok()))
}

/// A slot begins: its job is given to its node.
pub(crate) fn fall_due(session: &mut Session<'_>, job: &JobId) -> Result<(), Stop> {
    let Some(mut entry) = session.tables.jobs.get(job.as_bytes())?.cloned() else {
        return Ok(());
    };
    let Promise::Kept { node, owner, from, .. } = entry.promise else {
        return Ok(());
    };
    let now = session.env.tick;
    if from > now {
        return Ok(()); // it was entered anew, and a later date stands in the queue
    }
    if !keeps(session, &entry, &node)? {
        return lose(session, job, entry, Some(Blamed { node, owner }));
    }
    let dates = run_span(&session.params, &entry.spec, now).to;
    if dates > entry.expires.plus(SLOT_MARGIN)? {
        return lose(session, job, entry, None); // there were no blocks when it should have begun
    }
    let record = session.tables.nodes.get(node.as_bytes())?;
    let is_free = record.is_some_and(|it| it.runs.as_slice().len() < it.descriptor.slots.into());
    if !is_free {
        let later = now.plus(DurationMs::SECOND)?;
        return due::add(session, later, DueItem::BeginSlot { job: *job });
    }
    begin(session, job, &mut entry, &node)?;
    let seat = Seat::find(session, &node)?;
    let class = seat.offer(session).and_then(|offer| offer.class_for(&entry.spec));
    place::assign(session, job, &mut entry, (&node, class))?;
    place::dequeue(session, &mut entry)?;
    entry.status = JobStatus::Running;
    session.tables.jobs.put(job.as_bytes(), Some(entry))
}

/// What a block has left for deciding about promises.
pub(crate) struct Turn {
    promises: u64,
    steps: u64,
    runs: usize,
    /// Promises that were given and for which no slot was found.
    hopeless: Vec<JobId>,
}

/// Looks for other slots for promises that were given and lost their node, before the queue takes
/// what is free.
pub(crate) fn renew_all(session: &mut Session<'_>) -> Result<Turn, Stop> {
    let (promises, steps, runs) = (PROMISES_PER_BLOCK_MAX, STEPS_MAX, RUNS_PER_BLOCK_MAX);
    let mut turn = Turn { promises, steps, runs, hopeless: Vec::new() };
    decide_some(session, ListOf::Renewals, &mut turn)?;
    Ok(turn)
}

/// Decides about the promises that wait and were not placed at once, as many as a block may.
pub(crate) fn decide_all(session: &mut Session<'_>, mut turn: Turn) -> Result<(), Stop> {
    for job in std::mem::take(&mut turn.hopeless) {
        let entry = super::known(session, &job)?;
        if matches!(entry.promise, Promise::Asked { .. }) {
            settle::fail(session, &job, entry)?;
        }
    }
    decide_some(session, ListOf::Promises, &mut turn)?;
    // The next block looks ahead for whoever stands at the front.
    for list in LISTS {
        list::skip_some_holes(session, list, PROMISES_PER_BLOCK_MAX)?;
    }
    Ok(())
}

fn decide_some(session: &mut Session<'_>, list: ListOf, turn: &mut Turn) -> Result<(), Stop> {
    list::skip_holes(session, list)?;
    let jobs = next_jobs(session, list, turn.promises)?;
    if jobs.is_empty() {
        return Ok(());
    }
    place::load_waiting(session, &jobs)?;
    for job in &jobs {
        if turn.steps == 0 || turn.runs < RUNS_PER_PROMISE_MAX {
            break;
        }
        turn.promises = turn.promises.saturating_sub(1);
        // What is unknown is found out for all of them at once.
        let decided = decide(session, job, turn);
        session.attempt(decided)?;
    }
    session.check_complete()
}

/// The jobs of a list whose promises are decided about next.
fn next_jobs(session: &mut Session<'_>, list: ListOf, most: u64) -> Result<Vec<JobId>, Stop> {
    let head = list::head(session, list)?;
    let end = head.next.min(head.first.saturating_add(most));
    let found = list::range(session, list, head.first..end)?;
    Ok(found.into_iter().map(|(_, id)| JobId::new(id)).collect())
}

/// Where a slot could be kept for a job.
struct Room {
    /// The node with the latest slot before the deadline, and when it begins.
    latest: Option<(Seat, Tick)>,
    /// When the earliest slot of all that may be kept begins, whatever the deadline.
    earliest: Option<Tick>,
    /// Whether any node passes the rules.
    has_node: bool,
}

fn decide(session: &mut Session<'_>, job: &JobId, turn: &mut Turn) -> Result<(), Stop> {
    let entry = super::known(session, job)?;
    let Promise::Asked { was_given, .. } = entry.promise else {
        return Ok(());
    };
    let length = slot_length(&session.params, &entry.spec);
    let length = length.ok_or(ApplyError::Incomplete(keys::job(job)))?;
    let Room { latest, earliest, has_node } = room_for(session, job, &entry, length, turn)?;
    if let Some((seat, from)) = latest {
        return keep(session, job, entry, &seat, Span { from, to: from.plus(length)? });
    }
    if was_given {
        turn.hopeless.push(*job); // unless the queue places it
        return Ok(());
    }
    let why = if !has_node {
        Reason::PromiseNoNode
    } else if session.env.tick.plus(length)? > entry.expires {
        Reason::PromiseTooShort
    } else {
        Reason::PromiseNoRoom
    };
    let earliest = earliest.and_then(|from| from.plus(length).ok()?.plus(ASK_AGAIN).ok());
    settle::refuse(session, job, entry, why, earliest)
}

/// Looks for a slot on some of the nodes that pass the rules. Which of them come first differs from
/// job to job, so that promises are spread.
fn room_for(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &JobEntry,
    length: DurationMs,
    turn: &mut Turn,
) -> Result<Room, Stop> {
    let now = session.env.tick;
    let Seats { seats, has_node } = seats_for(session, job, entry, turn)?;
    let mut wanted = Vec::new();
    for seat in &seats {
        let node = session.tables.nodes.at(seat.node);
        let runs = node.into_iter().flat_map(|node| node.runs.as_slice());
        wanted.extend(runs.filter(|run| !session.tables.jobs.has(run.as_bytes())).map(keys::job));
    }
    session.require(&wanted)?;
    let mut room = Room { latest: None, earliest: None, has_node };
    let last = now.plus(SLOT_AHEAD_MAX)?;
    let within = Span { from: now, to: entry.expires.min(last.plus(length)?) };
    for seat in seats {
        let Some(node) = session.tables.nodes.at(seat.node).cloned() else { continue };
        let slots = usize::from(node.descriptor.slots);
        let runs = node.runs.as_slice().iter().map(|run| super::known(session, run));
        let runs: Vec<JobEntry> = runs.collect::<Result<_, Stop>>()?;
        let spans = taken_spans(&session.params, (&seat.id, &node), &runs, now);
        turn.steps = turn.steps.saturating_sub(STEPS_PER_SPAN * spans.len() as u64);
        let early = earliest(&spans, slots, now, length).filter(|from| *from <= last);
        room.earliest = [room.earliest, early].into_iter().flatten().min();
        let late = latest(&spans, slots, within, length);
        let best = room.latest.as_ref().map(|(_, from)| *from);
        if late.is_some() && late > best {
            room.latest = late.map(|from| (seat, from));
        }
    }
    Ok(room)
}

/// Nodes on which slots are looked for.
struct Seats {
    seats: Vec<Seat>,
    /// Whether any node passes the rules, or some were not asked.
    has_node: bool,
}

/// Some nodes that pass the rules and may keep one more slot. What they take is taken off the
/// block's turn.
fn seats_for(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &JobEntry,
    turn: &mut Turn,
) -> Result<Seats, Stop> {
    let facts = facts(session, entry)?;
    let excluded = excluded(entry);
    let ask = Ask {
        spec: &entry.spec,
        facts: facts.as_ref(),
        bond: run_bond(session.params.jobs.run_bond, &entry.spec),
        excluded: &excluded,
        span: run_span(&session.params, &entry.spec, session.env.tick),
        job: Some(*job),
    };
    let nodes = node::all(session)?;
    let first = fleet::draw(session, job, entry.runs.as_slice().len());
    let first = first.checked_rem(nodes.len() as u64).unwrap_or(0);
    let (before, after) = nodes.split_at(usize::try_from(first).unwrap_or(0));
    let (mut seats, mut has_node) = (Vec::new(), false);
    let (mut runs, mut steps) = (0, 0_u64);
    for id in after.iter().chain(before) {
        if seats.len() >= NODES_PER_PROMISE_MAX || steps >= STEPS_MAX {
            has_node = true; // there may be more
            break;
        }
        let seat = Seat::find(session, id)?;
        let Some(offer) = seat.offer(session) else { continue };
        steps = steps.saturating_add(steps_of(&ask, &offer) as u64);
        if fit_later(&ask, &offer).is_err() {
            continue;
        }
        has_node = true;
        let with_these = runs + usize::from(offer.running);
        if offer.kept.len() >= KEPT_PER_NODE_MAX || with_these > RUNS_PER_PROMISE_MAX {
            continue;
        }
        runs = with_these;
        seats.push(seat);
    }
    turn.steps = turn.steps.saturating_sub(steps);
    turn.runs = turn.runs.saturating_sub(runs);
    Ok(Seats { seats, has_node })
}

/// Keeps a slot for a job.
fn keep(
    session: &mut Session<'_>,
    job: &JobId,
    mut entry: JobEntry,
    seat: &Seat,
    span: Span,
) -> Result<(), Stop> {
    let unknown = || ApplyError::Incomplete(keys::node(&seat.id));
    let Promise::Asked { was_given, .. } = entry.promise else {
        return Ok(());
    };
    release(session, job, &entry)?;
    let bond = run_bond(session.params.jobs.run_bond, &entry.spec);
    let record = session.tables.nodes.at_mut(seat.node).as_mut().ok_or_else(unknown)?;
    let (owner, Span { from, to }) = (record.owner, span);
    record.kept.push(KeptSlot { job: *job, from, to }).map_err(|_| unknown())?;
    session.tables.stakes.at_mut(seat.stake).get_or_insert_default().expose(bond)?;
    entry.promise = Promise::Kept { node: seat.id, owner, bond, from };
    tell(session, (job, entry.expires), (&seat.id, from), was_given);
    session.tables.jobs.put(job.as_bytes(), Some(entry))?;
    due::add(session, from, DueItem::BeginSlot { job: *job })
}

fn facts(session: &mut Session<'_>, entry: &JobEntry) -> Result<Option<ProgramFacts>, Stop> {
    match &entry.spec.work {
        Work::Tensor { program, .. } => program::facts(session, program),
        Work::Opaque { .. } => Ok(None),
    }
}

/// A node and where it lies.
struct Seat {
    id: NodeId,
    node: Slot,
    stake: Slot,
}

impl Seat {
    fn find(session: &mut Session<'_>, id: &NodeId) -> Result<Self, Stop> {
        let node = session.tables.nodes.find(id.as_bytes())?;
        let owner = session.tables.nodes.at(node).map(|entry| entry.owner);
        // Nobody's stake stands for a node that is gone.
        let owner = owner.map_or(*id.as_bytes(), |owner| *owner.as_bytes());
        Ok(Self { id: *id, node, stake: session.tables.stakes.find(&owner)? })
    }

    fn offer<'a>(&self, session: &'a Session<'_>) -> Option<Offer<'a>> {
        fleet::offer_of(session, self.id, self.node, self.stake)
    }
}
