//! What drawn checkers do: recompute and accept, or object.

use super::{
    court::Challenge,
    plan::{Checker, Ploy},
    play::{Asked, Duty, Found, Held, Job, Play},
    tally::{Role, cost_of},
    tensor::TILES,
};
use rand::RngExt as _;
use tg_ledger::{Check, CheckState, JobEntry, drawn_lot};
use tg_tensor::trace::{answer_of, drawn_tiles, known_root, whole_answer};
use tg_types::{
    ids::{Hash32, JobId},
    job::{CheckAnswer, TileAnswer},
    traits::TileLot,
    tx::{Action, OpenedCheck, Sealed},
};

/// One right result in so many is objected to by checkers that do so.
pub(super) const OBJECTS_EACH: u32 = 10;

impl Play {
    /// The checkers' turn, and that of a provider's accomplice.
    pub(super) fn check(&mut self, id: &JobId, job: &mut Job, entry: &JobEntry) {
        let Some(held) = job.held.take() else { return };
        let is_helped = self.help(id, job, &held);
        for check in entry.checks.as_slice().iter().filter(|check| check.is_open()) {
            let Some(party) = self.cast.of_node(&check.node) else { continue };
            let Some(mut duty) = job.duties.remove(&party) else { continue };
            match check.state {
                CheckState::Drawn if is_helped => {}
                CheckState::Drawn => self.check_one(id, (party, &mut duty), job, &held),
                CheckState::Committed { .. } if is_round_open(entry, check) => {
                    let answer = duty.answer.clone();
                    let shown = answer.and_then(|(answer, salt)| {
                        Some((self.completed(check, &held, answer)?, salt))
                    });
                    if let Some((answer, salt)) = shown {
                        let opened = OpenedCheck { job: *id, answer, salt };
                        self.letters.entry(party).or_default().check_reveals.push(opened);
                    }
                }
                CheckState::Committed { .. } | CheckState::Refused => {}
                CheckState::Passed | CheckState::Missed => {}
                // Nothing is sealed here, so nobody lacks a key.
                CheckState::Waiting | CheckState::Excused => {}
            }
            job.duties.insert(party, duty);
        }
        job.held = Some(held);
    }

    /// A provider that would be found out lets its own owner object before anybody has computed
    /// anything, and says no more.
    fn help(&mut self, id: &JobId, job: &mut Job, held: &Held) -> bool {
        let party = &self.cast.parties[held.party];
        let is_watched = job.duties.keys().any(|checker| self.cast.parties[*checker].is_honest());
        let is_helped = party.ploy == Ploy::Accomplice && is_watched;
        if is_helped {
            let challenge = Challenge::accomplice(party.owner, party.ploy);
            job.intents.insert(party.owner, challenge);
            self.grid.send(party.owner, Action::Object { job: *id });
        }
        is_helped
    }

    fn check_one(
        &mut self,
        id: &JobId,
        (party, duty): (usize, &mut Duty),
        job: &mut Job,
        held: &Held,
    ) {
        let checker = self.cast.parties[party].checker;
        let is_friend = self.cast.parties[held.party].ploy.lies();
        let is_first = duty.found.is_none();
        if !duty.is_counted {
            duty.is_counted = true;
            self.tally.line(Role::Check, checker.name()).count += 1;
            // Computing takes time, in which others vouch unseen.
            let others_are_hasty = self.scenario.checkers.contains(&Checker::Hasty);
            if others_are_hasty && checker != Checker::Hasty {
                return;
            }
        }
        match checker {
            Checker::Silent => return,
            Checker::Idle => duty.found = Some(Found::Right),
            Checker::Accepts | Checker::Hasty | Checker::Objects if is_friend => {
                duty.found = Some(Found::Right);
            }
            Checker::Honest
            | Checker::Accepts
            | Checker::Hasty
            | Checker::Objects
            | Checker::Frames
            | Checker::Greedy
            | Checker::Allied => {
                if is_first {
                    duty.found = Some(self.find((party, &mut *duty), job, held));
                }
            }
        }
        let is_right = duty.found == Some(Found::Right);
        let is_wrong = duty.found == Some(Found::Wrong);
        let lies = checker == Checker::Objects && is_right && is_first && !is_friend;
        if lies && self.chance.random_range(0..OBJECTS_EACH) == 0 {
            let account = self.cast.parties[party].account;
            job.intents.insert(account, Challenge::false_checker(account, checker));
            self.grid.send(account, Action::Object { job: *id });
        } else if is_right {
            self.accept(id, (party, duty), held);
        } else if is_wrong && !duty.has_objected {
            let account = self.cast.parties[party].account;
            job.intents.insert(account, Challenge::honest(account));
            self.grid.send(account, Action::Object { job: *id });
        }
    }

    /// Vouches for a result, with what shows that somebody looked if that is known.
    fn accept(&mut self, id: &JobId, (party, duty): (usize, &mut Duty), held: &Held) {
        let salt: [u8; 32] = self.chance.random();
        // Who has found it right has computed it, and friends tell each other; others guess.
        let knows = self.cast.parties[party].checker != Checker::Idle;
        let ran = held.ran.as_ref().filter(|_| knows);
        let trace = held.result.trace;
        let made_up: [u8; 32] = self.chance.random();
        let whole = ran.filter(|_| duty.is_whole).and_then(|ran| {
            let node = &self.cast.parties[party].node;
            known_root(self.works.program(), ran.trace(), node).ok()
        });
        let answer = if let Some(known) = whole {
            CheckAnswer::Whole { trace, known, tiles: TileAnswer::EMPTY }
        } else if let Some(lot) = &duty.lot {
            let program = self.works.program();
            let drawn = drawn_tiles(program, lot);
            let tiles = ran.and_then(|ran| answer_of(program, ran.trace(), &drawn));
            let tiles = tiles.unwrap_or_else(|| made_up.repeat(drawn.len()));
            let tiles = TileAnswer::new(tiles).expect("few tiles of a small program");
            CheckAnswer::Tiles { trace, tiles }
        } else {
            let key = ran.and_then(|ran| ran.trace().secret().key(duty.round));
            CheckAnswer::Key { trace, key: key.unwrap_or(Hash32::new(made_up)) }
        };
        let seal = answer.seal(&self.cast.parties[party].node, &salt);
        duty.answer = Some((answer, salt));
        let letters = self.letters.entry(party).or_default();
        letters.check_commits.push(Sealed { job: *id, seal });
    }

    /// An answer as it is shown; nothing as long as the beacon has not drawn what must be in it.
    fn completed(&self, check: &Check, held: &Held, answer: CheckAnswer) -> Option<CheckAnswer> {
        let CheckAnswer::Whole { trace, known, .. } = answer else { return Some(answer) };
        let CheckState::Committed { beacon: Some(beacon), .. } = check.state else { return None };
        let tiles = self.grid.rules().genesis.params().jobs.audit_tiles;
        let lot = drawn_lot(&beacon, &TileLot { lot: check.lot?, tiles });
        let trace_known = held.ran.as_ref()?.trace();
        let shown = whole_answer(self.works.program(), trace_known, &check.node, &lot)?;
        Some(CheckAnswer::Whole { trace, known, tiles: TileAnswer::new(shown).ok()? })
    }

    /// What an honest look at a result finds, as `tg-agent` does it.
    fn find(&mut self, (party, duty): (usize, &mut Duty), job: &mut Job, held: &Held) -> Found {
        let checker = self.cast.parties[party].checker;
        let name = checker.name();
        let is_shown = self.cast.parties[held.party].ploy != Ploy::Unshown;
        let is_allied = |other: &usize| self.cast.parties[*other].checker == Checker::Allied;
        let shares = checker == Checker::Allied && job.duties.keys().any(is_allied);
        let is_asked = is_shown && checker != Checker::Greedy && !shares;
        if let (Some(ran), Some(lot), true) = (&held.ran, &duty.lot, is_asked) {
            let drawn = drawn_tiles(self.works.program(), lot);
            let computed = u32::try_from(drawn.len()).unwrap_or(TILES);
            self.tally.line(Role::Check, name).cost += cost_of(computed);
            let shown = self.works.witness(ran).show_tiles(&drawn);
            let audit = self.works.tile_audit(job.asked, &held.result);
            if shown.is_some_and(|shown| audit.recompute(&drawn, &shown).is_ok()) {
                return Found::Right;
            }
        }
        // There are two checkers where tiles are drawn.
        let cost = if shares { cost_of(TILES) / 2 } else { cost_of(TILES) };
        self.tally.line(Role::Check, name).cost += cost;
        duty.is_whole = duty.lot.is_some();
        // All find the same, so it is computed once; everybody pays for it.
        let Asked { task, salt } = job.asked;
        let compute = || self.works.run(task, salt).trace().secret();
        let right = job.right.get_or_insert_with(compute).root();
        let is_output_right = self.works.tasks[task].output == held.result.output;
        Found::of(right == held.result.trace && is_output_right)
    }
}

/// Whether nobody of a check's round still computes.
fn is_round_open(entry: &JobEntry, check: &Check) -> bool {
    let mut checks = entry.checks.as_slice().iter();
    !checks.any(|other| other.round == check.round && other.is_unsaid())
}
