//! Results that do not open: the client complains and validators try. It also complains about some
//! that open, to get its money back.

use super::{plan::Ploy, play::Play, tally::Role, trigger::Trigger};
use rand::RngExt as _;
use tg_types::{ids::JobId, job::Message, tx::Action};

/// One result that opens in so many is complained about, where there are some that do not.
pub(super) const COMPLAINT_EACH: u32 = 20;

/// Where the money of a client that complains is counted.
pub(super) const CLIENT: &str = "client";

/// Seats that say the opposite of what they find: fewer than a third.
const LYING_SEATS: usize = 1;

impl Play {
    /// A job is settled: its client tries to open the result.
    pub(super) fn complain(&mut self, id: &JobId) {
        let is_played = self.scenario.ploys.contains(&Ploy::Unreadable) && self.scenario.is_armed;
        let held = self.active.get(id).and_then(|job| job.held.as_ref());
        let Some(party) = held.map(|held| held.party).filter(|_| is_played) else { return };
        let opens = self.cast.parties[party].ploy != Ploy::Unreadable;
        if opens && self.chance.random_range(0..COMPLAINT_EACH) > 0 {
            return;
        }
        if opens {
            self.tally.line(Role::Challenge, CLIENT).count += 1;
        }
        self.complaints.insert(*id, party);
        let key = self.chance.random();
        let action = Action::Complain { job: *id, about: Message::Result, key };
        self.grid.send(self.cast.client, action);
    }

    /// Every validator says what it found; some lie.
    pub(super) fn judge_complaint(&mut self, id: &JobId) {
        let Some(party) = self.complaints.get(id) else { return };
        let opens = self.cast.parties[*party].ploy != Ploy::Unreadable;
        for (place, seat) in self.cast.seats.iter().enumerate() {
            let says = if place < LYING_SEATS { !opens } else { opens };
            self.grid.send(*seat, Action::JudgeComplaint { job: *id, opens: says });
        }
    }

    /// A complaint is decided.
    pub(super) fn end_complaint(&mut self, id: &JobId, is_upheld: bool) {
        self.complaints.remove(id);
        if is_upheld {
            self.tally.fire(Trigger::Unreadable);
            return;
        }
        let bond = self.grid.rules().genesis.params().jobs.complaint_bond;
        self.tally.line(Role::Challenge, CLIENT).income -= i128::from(bond.units());
        self.tally.fire(Trigger::FalseComplaint);
    }
}
