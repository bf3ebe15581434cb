//! The queue and the placements: at the end of every block waiting jobs are given to nodes that
//! fit. A block looks at a bounded number of jobs and continues where it stopped, so that a long
//! row of jobs that fit nowhere does not hide the others for ever.

use tg_types::ids::{AccountId, JobId, NodeId, StateKey};
use tg_types::{Amount, Event, JobSpec, JobStatus, Reason, Tier, Work};

use super::fleet::Fleet;
use super::record::{JobEntry, Run, RunState};
use crate::due::{self, DueItem};
use crate::error::{ApplyError, Stop};
use crate::list::{self, LIST_PAGE_MAX, ListHead, ListOf};
use crate::session::Session;
use crate::{keys, program};

/// Puts a job into the queue, unless it stands there.
pub(crate) fn enqueue(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
) -> Result<(), Stop> {
    if entry.queue_place.is_none() {
        entry.queue_place = Some(list::push(session, ListOf::Queue, *job.as_bytes())?);
    }
    Ok(())
}

/// Takes a job out of the queue, if it stands there.
pub(crate) fn dequeue(session: &mut Session<'_>, entry: &mut JobEntry) -> Result<(), Stop> {
    match entry.queue_place.take() {
        Some(place) => list::set(session, ListOf::Queue, place, None),
        None => Ok(()),
    }
}

/// What a run of this job puts at risk.
pub fn run_bond(multiple: u16, spec: &JobSpec) -> Amount {
    spec.pay.times(multiple.into()).unwrap_or(Amount::CAP)
}

/// Loads what placing the jobs that wait now needs.
pub(crate) fn load_ahead(session: &mut Session<'_>) -> Result<(), Stop> {
    let head = list::head(session, ListOf::Queue)?;
    if head.first >= head.next {
        return Ok(());
    }
    let front = list::get(session, ListOf::Queue, head.first).map(drop);
    let jobs = Fleet::load(session).and_then(|fleet| waiting(session, head, &fleet)).map(drop);
    session.all_of([front, jobs])
}

/// Gives waiting jobs to nodes, as many as a block may look at.
pub(crate) fn place_all(session: &mut Session<'_>) -> Result<(), Stop> {
    let head = list::skip_holes(session, ListOf::Queue)?;
    if head.first >= head.next {
        return Ok(());
    }
    let mut fleet = Fleet::load(session)?;
    let Waiting { jobs, next } = waiting(session, head, &fleet)?;
    session.cursor.queue_place = next;
    for (place_in_queue, job) in &jobs {
        if !fleet.has_room() || !fleet.has_time() {
            session.cursor.queue_place = *place_in_queue;
            break;
        }
        place(session, job, &mut fleet)?;
    }
    Ok(())
}

/// The jobs that a block looks at.
struct Waiting {
    /// With their places in the queue.
    jobs: Vec<(u64, JobId)>,
    /// The place at which the next block goes on.
    next: u64,
}

/// Finds the jobs that a block looks at and loads them; none if no node has room.
fn waiting(session: &mut Session<'_>, head: ListHead, fleet: &Fleet) -> Result<Waiting, Stop> {
    let from = session.cursor.queue_place;
    let from = if (head.first..head.next).contains(&from) { from } else { head.first };
    if !fleet.has_room() {
        return Ok(Waiting { jobs: Vec::new(), next: from });
    }
    let to = from.saturating_add(session.params.jobs.placements_per_block_max.into());
    let to = to.min(head.next);
    let found = list::range(session, ListOf::Queue, from..to)?;
    let jobs: Vec<_> = found.into_iter().map(|(place, id)| (place, JobId::new(id))).collect();
    let ids: Vec<JobId> = jobs.iter().map(|(_, job)| *job).collect();
    super::load(session, &ids)?;
    Ok(Waiting { jobs, next: if to == head.next { head.first } else { to } })
}

/// Gives a job to as many nodes as it wants, if they are there.
fn place(session: &mut Session<'_>, job: &JobId, fleet: &mut Fleet) -> Result<(), Stop> {
    let mut entry = super::known(session, job)?;
    let facts = match &entry.spec.work {
        Work::Tensor { program, .. } => program::facts(session, program)?,
        Work::Opaque { .. } => None,
    };
    let before = entry.runs.as_slice().len();
    while entry.live().count() < usize::from(entry.wanted) && fleet.has_time_for(&entry.owner) {
        let Some(chosen) = fleet.find(session, job, &entry, facts.as_ref()) else {
            break;
        };
        assign(session, job, &mut entry, &fleet.id(chosen))?;
        fleet.follow(session, chosen);
    }
    if entry.runs.as_slice().len() == before {
        return Ok(());
    }
    if entry.live().count() >= usize::from(entry.wanted) {
        dequeue(session, &mut entry)?;
    }
    entry.status = JobStatus::Running;
    session.tables.jobs.put(job.as_bytes(), Some(entry))
}

/// Owners that may not run a job (again): those who run it, and those whose runs ended by their own
/// doing. Whoever merely disappeared may try again if nobody else is there, unless each run has a
/// commitment of its own: a late proof of the first would be a lie about the second.
pub fn excluded(entry: &JobEntry) -> Vec<AccountId> {
    let is_once = matches!(entry.spec.tier, Tier::Zk { .. });
    let is_out = |run: &&Run| match run.state {
        RunState::Placed | RunState::Committed { .. } | RunState::Revealed { .. } => true,
        RunState::Ended { why } => is_once || why != Reason::RunMissed,
    };
    entry.runs.as_slice().iter().filter(is_out).map(|run| run.owner).collect()
}

/// Gives a job to a node.
fn assign(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    id: &NodeId,
) -> Result<(), Stop> {
    let bond = run_bond(session.params.jobs.run_bond, &entry.spec);
    let deadline =
        session.env.tick.plus(entry.spec.run_max)?.plus(session.params.jobs.run_grace)?;
    let unknown = || ApplyError::Incomplete(keys::node(id));
    let slot = session.tables.nodes.find(id.as_bytes())?;
    let record = session.tables.nodes.at_mut(slot).as_mut().ok_or_else(unknown)?;
    let owner = record.owner;
    if !record.begin_run(*job) {
        return Err(unknown().into());
    }
    let stake = session.tables.stakes.find(owner.as_bytes())?;
    session.tables.stakes.at_mut(stake).get_or_insert_default().expose(bond)?;
    let number = u8::try_from(entry.runs.as_slice().len()).expect("a job has at most 16 runs");
    let run = Run { node: *id, owner, bond, deadline, state: RunState::Placed };
    entry.runs.push(run).map_err(|_| ApplyError::Incomplete(keys::job(job)))?;
    session.emit(Event::JobPlaced { job: *job, node: *id, run: number, deadline });
    due::add(session, deadline, DueItem::JobStep { job: *job })
}

/// Keys of everything that a step of a job may touch besides the job itself.
pub(crate) fn keys_around(entry: &JobEntry, out: &mut Vec<StateKey>) {
    out.push(keys::account(&entry.owner));
    if let Work::Tensor { program, .. } = &entry.spec.work {
        out.push(keys::program(program));
    }
    let page = entry.queue_place.map(|place| place / LIST_PAGE_MAX);
    out.extend(page.map(|page| keys::list_page(ListOf::Queue, page)));
    let runs = entry.runs.as_slice().iter().map(|run| (&run.node, &run.owner));
    let checks = entry.checks.as_slice().iter().map(|check| (&check.node, &check.owner));
    for (node, owner) in runs.chain(checks) {
        out.extend([keys::node(node), keys::stake(owner), keys::account(owner)]);
        out.extend(node.account().ok().map(|account| keys::account(&account)));
    }
}
