//! Complaints: whoever should open a package says that it does not open, shows the key, and puts a
//! bond on it. From then on anybody can try. Validators do, because they keep the package, and say
//! what they found; a quorum of them decides. A node complains about the inputs of a job that it
//! runs, an owner about the result that it has paid for.
//!
//! A job has at most one complaint of each kind, the one about its inputs first: only a job that is
//! not settled has inputs to complain about, and only a settled one has a result. So the last one
//! is all that is stored. It stays until the job is forgotten, and says how it ended.

use tg_types::ids::{AccountId, JobId, NodeId, Noun};
use tg_types::{Amount, Event, JobStatus, List, Message, Reason, Tick, wire};

use super::charges::charges;
use super::record::{JobEntry, RUNS_MAX, Run, RunState};
use super::{promise, run, settle};
use crate::absence::{Seats, quorum, seat_of};
use crate::due::{self, DueItem};
use crate::entry::{Entry, Held, entry};
use crate::error::{ApplyError, Fail, Stop};
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::totals::{Flow, Part};
use crate::{account, keys, node};

wire! {
    /// How a complaint ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Verdict {
        /// The package does not open.
        Upheld = 1,
        /// The package opens.
        Rejected = 2,
        /// Too few validators said what they found.
        Lapsed = 3,
    }
}

entry! {
    /// The last complaint about a package of a job.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ComplaintEntry {
        /// Who complains: the job's owner, or the account of a node.
        pub by: AccountId,
        /// Against whom: the owners of the accepted runs, or the owner of the job.
        pub against: List<AccountId, 1, RUNS_MAX>,
        /// About which package.
        pub about: Message,
        /// The secret that should open it.
        pub key: [u8; 32],
        /// What stands on it; nothing after it has ended.
        pub bond: Amount,
        /// The seats that say it opens.
        pub opens: Seats,
        /// The seats that say it does not.
        pub fails: Seats,
        /// Until when validators judge it.
        pub deadline: Tick,
        /// How it ended, if it has.
        pub verdict: Option<Verdict>,
    }
}

impl Entry for ComplaintEntry {
    const NOUN: Noun = Noun::Complaint;

    fn held(&self) -> Held {
        Held { escrow: self.bond.units().into(), ..Held::default() }
    }
}

impl ComplaintEntry {
    /// Whether it is not decided yet.
    pub const fn is_open(&self) -> bool {
        self.verdict.is_none()
    }
}

/// Somebody complains.
pub(crate) fn open(
    session: &mut Session<'_>,
    call: &Call,
    job: &JobId,
    about: Message,
    key: &[u8; 32],
) -> Result<(), Fail> {
    load(session, job)?;
    let entry = session.tables.jobs.get(job.as_bytes())?.cloned().ok_or(Reason::JobUnknown)?;
    let against = match about {
        Message::Inputs => whose_inputs(call, &entry)?,
        Message::Result => whose_result(session, call, &entry)?,
    };
    let before = session.tables.complaints.get(job.as_bytes())?;
    let is_first = before.is_none_or(|it| !it.is_open() && it.about < about);
    if !is_first {
        return Err(Reason::ComplaintRepeated.into());
    }
    let against = List::new(against).map_err(|_| Reason::NotComplainable)?;
    let bond = session.params.jobs.complaint_bond;
    let left = account::balance_less(session, call.slot, bond)?;
    let deadline = session.env.tick.plus(session.params.jobs.complaint_judged_within)?;

    account::set_balance(session, call.slot, left);
    session.totals.shift(Flow { from: Part::Balances, to: Part::Escrow, amount: bond })?;
    let (by, key, verdict) = (call.sender, *key, None);
    let (opens, fails) = (Seats::default(), Seats::default());
    let complaint =
        ComplaintEntry { by, against, about, key, bond, opens, fails, deadline, verdict };
    session.tables.complaints.put(job.as_bytes(), Some(complaint))?;
    session.emit(Event::Complained { job: *job, by, about, key, bond, deadline });
    Ok(due::add(session, deadline, DueItem::EndComplaint { job: *job })?)
}

/// Whose inputs the sender may complain about: it is a node that is to compute with them.
fn whose_inputs(call: &Call, entry: &JobEntry) -> Result<Vec<AccountId>, Reason> {
    let node = run::speaker(call);
    let run = entry.live().find(|run| run.node == node).ok_or(Reason::RunUnknown)?;
    if run.state != RunState::Placed {
        return Err(Reason::RunNotThere);
    }
    Ok(vec![entry.owner])
}

/// Whose result the sender may complain about: it has paid for it, not too long ago.
fn whose_result(
    session: &Session<'_>,
    call: &Call,
    entry: &JobEntry,
) -> Result<Vec<AccountId>, Fail> {
    if entry.owner != call.sender {
        return Err(Reason::JobNotOwned.into());
    }
    if entry.status != JobStatus::Settled {
        return Err(Reason::NotComplainable.into());
    }
    let closed = entry.closed.ok_or(Reason::NotComplainable)?;
    if closed.plus(session.params.jobs.complain_within)? < session.env.tick {
        return Err(Reason::ComplaintLate.into());
    }
    Ok(entry.live().map(|run| run.owner).collect())
}

/// A validator says whether the package opens.
pub(crate) fn judge(
    session: &mut Session<'_>,
    call: &Call,
    job: &JobId,
    opens: bool,
) -> Result<(), Fail> {
    let seat = seat_of(session, &call.sender)?;
    load(session, job)?;
    let found = session.tables.complaints.get(job.as_bytes())?.cloned();
    let mut complaint = found.filter(ComplaintEntry::is_open).ok_or(Reason::ComplaintUnknown)?;
    if complaint.deadline < session.env.tick {
        return Err(Reason::ComplaintLate.into());
    }
    if complaint.opens.contains(seat) || complaint.fails.contains(seat) {
        return Err(Reason::VoteRepeated.into());
    }
    let seats = session.rules.genesis.validators();
    let validator = seats.get(seat).map(|seat| seat.owner).ok_or(Reason::NotValidator)?;
    let needed = if planted!(session.rules, OneJudge) { 1 } else { quorum(seats.len()) };

    let votes = if opens { &mut complaint.opens } else { &mut complaint.fails };
    votes.insert(seat);
    let is_decided = usize::try_from(votes.count()).is_ok_and(|count| count >= needed);
    session.emit(Event::ComplaintJudged { job: *job, validator, opens });
    if !is_decided {
        return Ok(session.tables.complaints.put(job.as_bytes(), Some(complaint))?);
    }
    let done = match (opens, complaint.about) {
        (true, _) => reject(session, job, complaint),
        (false, Message::Inputs) => uphold_inputs(session, job, complaint),
        (false, Message::Result) => uphold_result(session, job, complaint),
    };
    Ok(done?)
}

/// The package opens: the bond is lost. What the complaint was about goes on as if nothing had
/// been.
fn reject(session: &mut Session<'_>, job: &JobId, complaint: ComplaintEntry) -> Result<(), Stop> {
    let (about, by, lost) = (complaint.about, complaint.by, complaint.bond);
    session.totals.shift(Flow { from: Part::Escrow, to: Part::Burned, amount: lost })?;
    session.emit(Event::ComplaintRejected { job: *job, about, by, lost });
    end(session, job, complaint, Verdict::Rejected)
}

/// The inputs do not open: the job ends, and the node gets something for its trouble out of the
/// escrow. A job that has ended meanwhile, or for which a result is owed, is left alone.
fn uphold_inputs(
    session: &mut Session<'_>,
    job: &JobId,
    complaint: ComplaintEntry,
) -> Result<(), Stop> {
    let mut entry = super::known(session, job)?;
    let is_waiting = matches!(entry.status, JobStatus::Queued | JobStatus::Running);
    let mut lost = Amount::ZERO;
    if is_waiting && !entry.is_owed() {
        lost = complaint.bond.min(entry.escrow);
        entry.escrow = entry.escrow.minus(lost)?;
        pay_out(session, &complaint.by, lost)?;
        release(session, job, &mut entry, &NodeId::new(*complaint.by.as_bytes()))?;
        promise::void(session, job, &mut entry)?;
        settle::fail(session, job, entry)?;
    }
    session.emit(Event::ComplaintUpheld { job: *job, about: complaint.about, lost });
    give_back(session, job, complaint, Verdict::Upheld)
}

/// Ends the run of a node that is not to blame for it.
fn release(
    session: &mut Session<'_>,
    job: &JobId,
    entry: &mut JobEntry,
    id: &NodeId,
) -> Result<(), Stop> {
    if let Some(run) = entry.run_of(id) {
        let why = Reason::PackageDoesNotOpen;
        settle::release_run(session, job, run)?;
        run.state = RunState::Ended { why };
        session.emit(Event::RunEnded { job: *job, node: *id, why });
    }
    Ok(())
}

/// The result does not open: those who were paid for it lose stake, and the owner gets back what it
/// paid them, as far as their stake goes.
fn uphold_result(
    session: &mut Session<'_>,
    job: &JobId,
    complaint: ComplaintEntry,
) -> Result<(), Stop> {
    let entry = super::known(session, job)?;
    let prices = charges(&session.params, &entry.spec, entry.extent);
    let paid = prices.and_then(|prices| prices.of(1, 0));
    let paid = paid.ok_or(ApplyError::Incomplete(keys::job(job)))?;
    let client = session.tables.accounts.find(entry.owner.as_bytes())?;
    let (pay, now) = (entry.spec.pay, session.env.tick);
    let runs: Vec<Run> = entry.live().cloned().collect();
    let mut lost = Amount::ZERO;
    for run in &runs {
        let taken = settle::forfeit(session, job, run, paid, client)?;
        lost = lost.plus(taken)?;
        node::update(session, &run.node, |node| node.judge(false, pay, now))?;
    }
    session.emit(Event::ComplaintUpheld { job: *job, about: complaint.about, lost });
    give_back(session, job, complaint, Verdict::Upheld)
}

/// The date of a complaint has come: if nobody has decided it, nobody loses anything.
pub(crate) fn fall_due(session: &mut Session<'_>, job: &JobId) -> Result<(), Stop> {
    let found = session.tables.complaints.get(job.as_bytes())?.cloned();
    let is_late = |it: &ComplaintEntry| it.is_open() && it.deadline <= session.env.tick;
    let Some(complaint) = found.filter(is_late) else {
        return Ok(()); // it was decided, or a later one has a later date
    };
    session.emit(Event::ComplaintLapsed { job: *job, about: complaint.about });
    give_back(session, job, complaint, Verdict::Lapsed)
}

/// Gives the bond back and ends the complaint.
fn give_back(
    session: &mut Session<'_>,
    job: &JobId,
    complaint: ComplaintEntry,
    verdict: Verdict,
) -> Result<(), Stop> {
    pay_out(session, &complaint.by, complaint.bond)?;
    end(session, job, complaint, verdict)
}

/// Pays out of what is locked.
fn pay_out(session: &mut Session<'_>, to: &AccountId, amount: Amount) -> Result<(), Stop> {
    let slot = session.tables.accounts.find(to.as_bytes())?;
    account::credit(session, slot, amount)?;
    Ok(session.totals.shift(Flow { from: Part::Escrow, to: Part::Balances, amount })?)
}

/// Stores a complaint on which nothing stands any more.
fn end(
    session: &mut Session<'_>,
    job: &JobId,
    complaint: ComplaintEntry,
    verdict: Verdict,
) -> Result<(), Stop> {
    let (bond, verdict) = (Amount::ZERO, Some(verdict));
    let complaint = ComplaintEntry { bond, verdict, ..complaint };
    session.tables.complaints.put(job.as_bytes(), Some(complaint))
}

/// Loads what a step of a complaint may touch.
fn load(session: &mut Session<'_>, job: &JobId) -> Result<(), Stop> {
    let around = super::load(session, &[*job]);
    let complaint = session.require(&[keys::complaint(job)]);
    session.all_of([around, complaint])?;
    load_due(session, &[*job])
}

/// Loads who complained about these jobs.
pub(crate) fn load_due(session: &mut Session<'_>, jobs: &[JobId]) -> Result<(), Stop> {
    let wanted: Vec<_> = jobs.iter().map(keys::complaint).collect();
    session.require(&wanted)?;
    let mut accounts = Vec::new();
    for job in jobs {
        let complaint = session.tables.complaints.get(job.as_bytes())?;
        accounts.extend(complaint.map(|it| keys::account(&it.by)));
    }
    session.require(&accounts)
}
