//! Presence without heartbeats. Nodes send nothing while all is well; instead a validator reports
//! the nodes it did *not* see in an epoch, and a node counts as absent when a quorum of validators
//! did not see it in the same epoch: its runs go elsewhere within a second, and after a while it is
//! dropped. So a single validator, or any minority, can neither remove a node nor keep a dead one.
//!
//! Reports are taken for the present and the last epoch, because validators see an epoch end at
//! slightly different blocks. Votes for different epochs are never added up.

use tg_types::genesis::SEATS_MAX;
use tg_types::ids::{AccountId, NodeId, Noun};
use tg_types::{Decode, DecodeError, Encode, Event, Reader, Reason, Tick};

use crate::due::{self, DueItem};
use crate::entry::{Entry, entry};
use crate::error::{Fail, Stop};
use crate::job::run;
use crate::planted::planted;
use crate::session::{Call, Session};
use crate::table::Slot;

entry! {
    /// Who did not see a node.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AbsenceEntry {
        /// The latest epoch with a report.
        pub epoch: u64,
        /// Who reported for that epoch.
        pub latest: Seats,
        /// Who reported for the epoch before.
        pub before: Seats,
    }
}

impl Entry for AbsenceEntry {
    const NOUN: Noun = Noun::Absence;
}

/// A set of seats, by their place in the genesis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seats(u128);

const _: () = assert!(SEATS_MAX <= u128::BITS as usize);

impl Seats {
    /// How many seats are in the set.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether a seat is in the set.
    pub const fn contains(self, seat: usize) -> bool {
        seat < SEATS_MAX && self.0 >> seat & 1 == 1
    }

    pub(crate) fn insert(&mut self, seat: usize) {
        self.0 |= 1 << seat;
    }
}

impl Encode for Seats {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.to_be_bytes().encode(out);
    }
}

impl Decode for Seats {
    const BYTES_MIN: usize = 16;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let seats = u128::from_be_bytes(reader.array()?);
        if seats >> SEATS_MAX != 0 {
            let expected = "set of seats";
            return Err(DecodeError::Range { at: reader.position(), expected });
        }
        Ok(Self(seats))
    }
}

impl AbsenceEntry {
    /// The votes for an epoch that is the present or the last one; older votes are let go.
    fn votes_mut(&mut self, epoch: u64) -> &mut Seats {
        if epoch > self.epoch {
            let is_next = epoch == self.epoch + 1;
            self.before = if is_next { self.latest } else { Seats::default() };
            self.latest = Seats::default();
            self.epoch = epoch;
        }
        if epoch == self.epoch { &mut self.latest } else { &mut self.before }
    }
}

/// The least number of validators that contains an honest majority whatever a third of them does:
/// all but the largest number that may be faulty.
pub const fn quorum(seats: usize) -> usize {
    seats - seats.saturating_sub(1) / 3
}

/// Takes a validator's report. Nodes that are not registered, or were not during the whole epoch,
/// are passed over: they may have left since the report was written.
pub(crate) fn report(
    session: &mut Session<'_>,
    call: &Call,
    epoch: u64,
    nodes: &[NodeId],
) -> Result<(), Fail> {
    let seat = seat_of(session, &call.sender)?;
    let epoch_length = session.params.absence_epoch.get();
    let present = session.env.tick.get() / epoch_length;
    if epoch > present || epoch.saturating_add(1) < present {
        return Err(Reason::EpochWrong.into());
    }
    let start = Tick::new(epoch.saturating_mul(epoch_length));
    let votes = new_votes(session, nodes, &Vote { seat, epoch, start })?;
    if votes.is_empty() {
        return Err(Reason::ReportRepeated.into());
    }

    let count = u32::try_from(votes.len()).expect("a report names at most 256 nodes");
    session.emit(Event::AbsenceReported { reporter: call.sender, epoch, count });
    for vote in &votes {
        count_vote(session, vote)?;
    }
    Ok(())
}

/// The seat for which an account may speak: as its owner, or with its voting key.
pub(crate) fn seat_of(session: &mut Session<'_>, sender: &AccountId) -> Result<usize, Fail> {
    let seats = session.rules.genesis.validators();
    let (place, seat) = seats
        .iter()
        .enumerate()
        .find(|(_, seat)| seat.owner == *sender || seat.key.as_bytes() == sender.as_bytes())
        .ok_or(Reason::NotValidator)?;
    let entry = session.tables.validators.get(seat.key.as_bytes())?;
    if entry.is_none_or(|entry| entry.slashed.is_some()) {
        return Err(Reason::NotValidator.into());
    }
    Ok(place)
}

/// What a validator says in a report.
#[derive(Clone, Copy, Debug)]
struct Vote {
    seat: usize,
    epoch: u64,
    start: Tick,
}

/// A vote that was not there before.
struct NewVote {
    node: NodeId,
    node_slot: Slot,
    owner: AccountId,
    reports_slot: Slot,
    reports: AbsenceEntry,
    is_quorum: bool,
}

/// The votes that a report adds, without changing anything.
fn new_votes(
    session: &mut Session<'_>,
    nodes: &[NodeId],
    vote: &Vote,
) -> Result<Vec<NewVote>, Stop> {
    let seats = session.rules.genesis.validators().len();
    let needed = if planted!(session.rules, DropOnOneReport) { 1 } else { quorum(seats) };
    let mut votes = Vec::new();
    for node in nodes {
        let node_slot = session.tables.nodes.find(node.as_bytes())?;
        let reports_slot = session.tables.absences.find(node.as_bytes())?;
        let Some(entry) = session.tables.nodes.at(node_slot) else {
            continue;
        };
        let owner = entry.owner;
        let mut reports = session.tables.absences.at(reports_slot).copied().unwrap_or_default();
        let seats = reports.votes_mut(vote.epoch);
        let is_old = entry.since > vote.start || entry.absent.is_some();
        if is_old || seats.contains(vote.seat) {
            continue;
        }
        seats.insert(vote.seat);
        let is_quorum = usize::try_from(seats.count()).is_ok_and(|count| count >= needed);
        votes.push(NewVote { node: *node, node_slot, owner, reports_slot, reports, is_quorum });
    }
    Ok(votes)
}

/// Writes a vote down; with the one that was needed the node is absent.
fn count_vote(session: &mut Session<'_>, vote: &NewVote) -> Result<(), Stop> {
    if !vote.is_quorum {
        *session.tables.absences.at_mut(vote.reports_slot) = Some(vote.reports);
        return Ok(());
    }
    *session.tables.absences.at_mut(vote.reports_slot) = None;
    let (now, node) = (session.env.tick, vote.node);
    if let Some(entry) = session.tables.nodes.at_mut(vote.node_slot) {
        entry.absent = Some(now);
    }
    session.forget_nodes();
    session.emit(Event::NodeAbsent { node, owner: vote.owner });
    // The due queue takes its runs away, because a report may name many nodes with many runs.
    due::add(session, now, DueItem::LoseRuns { node })?;
    let gangs_lost = run::gangs_lost(&session.params, now)?;
    due::add(session, gangs_lost, DueItem::LoseRuns { node })?;
    let dropped = now.plus(session.params.jobs.absent_max)?;
    due::add(session, dropped, DueItem::DropNode { node })
}

#[cfg(test)]
mod tests {
    use super::{AbsenceEntry, Seats, quorum};

    #[test]
    fn quorum_outvotes_a_faulty_third() {
        let check = |seats, expected| assert_eq!(quorum(seats), expected, "{seats} seats");
        for (seats, expected) in [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (6, 5), (7, 5), (100, 67)]
        {
            check(seats, expected);
        }
        for seats in 1..=100 {
            let faulty = (seats - 1) / 3;
            // Two quorums share more than the faulty ones, and the honest alone are a quorum.
            assert!(2 * quorum(seats) > seats + faulty && quorum(seats) <= seats - faulty);
        }
    }

    #[test]
    fn votes_move_back_by_one_epoch_and_then_away() {
        let mut entry = AbsenceEntry::default();
        entry.votes_mut(7).insert(3);
        entry.votes_mut(8).insert(4);
        let with = |seat: u32| Seats(1 << seat);
        assert_eq!((entry.epoch, entry.latest, entry.before), (8, with(4), with(3)));
        entry.votes_mut(7).insert(5);
        assert_eq!(entry.before, Seats(1 << 3 | 1 << 5));
        entry.votes_mut(10).insert(6);
        assert_eq!((entry.epoch, entry.latest, entry.before), (10, with(6), Seats::default()));
    }
}
