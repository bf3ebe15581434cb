//! What drawn checkers do: recompute and accept, or object.

use super::{
    court::Challenge,
    plan::{Checker, Ploy},
    play::{Asked, Duty, Found, Held, Job, Play},
    tally::{Role, cost_of},
    tensor::{TILES, Tile},
};
use rand::RngExt as _;
use tg_ledger::{Check, CheckState, JobEntry};
use tg_tensor::trace::{Verdict, judge_tile};
use tg_types::{
    hash::sha256,
    ids::{Hash32, JobId},
    job::CheckAnswer,
    tx::{Action, OpenedCheck, Sealed},
};

/// One right result in so many is objected to by checkers that do so.
const OBJECTS_EACH: u32 = 10;

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
                    if let Some((answer, salt)) = duty.answer {
                        let opened = OpenedCheck { job: *id, answer, salt };
                        self.letters.entry(party).or_default().check_reveals.push(opened);
                    }
                }
                CheckState::Committed { .. } | CheckState::Passed | CheckState::Missed => {}
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
        let is_friend = self.cast.parties[held.party].ploy != Ploy::Honest;
        let is_first = duty.found.is_none();
        if !duty.is_counted {
            duty.is_counted = true;
            self.tally.line(Role::Check, checker.name()).count += 1;
        }
        match checker {
            Checker::Silent => return,
            Checker::Idle => duty.found = Some(Found::Right),
            Checker::Accepts | Checker::Objects if is_friend => duty.found = Some(Found::Right),
            Checker::Honest | Checker::Accepts | Checker::Objects if is_first => {
                duty.found = Some(self.find(id, (party, duty), job, held));
            }
            Checker::Honest | Checker::Accepts | Checker::Objects => {}
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

    /// Vouches for a result, with the key of its trace if it is known.
    fn accept(&mut self, id: &JobId, (party, duty): (usize, &mut Duty), held: &Held) {
        let salt: [u8; 32] = self.chance.random();
        // Who has found it right has computed it, and friends tell each other; others guess.
        let knows = self.cast.parties[party].checker != Checker::Idle;
        let secret = held.ran.as_ref().filter(|_| knows).map(|ran| ran.trace().secret());
        let key = secret.and_then(|secret| secret.key(duty.round));
        let key = key.unwrap_or_else(|| Hash32::new(self.chance.random()));
        let answer = CheckAnswer { trace: held.result.trace, key };
        let seal = answer.seal(&self.cast.parties[party].node, &salt);
        duty.answer = Some((answer, salt));
        let letters = self.letters.entry(party).or_default();
        letters.check_commits.push(Sealed { job: *id, seal });
    }

    /// What an honest look at a result finds, as `tg-agent` does it.
    fn find(
        &mut self,
        id: &JobId,
        (party, duty): (usize, &Duty),
        job: &mut Job,
        held: &Held,
    ) -> Found {
        let name = self.cast.parties[party].checker.name();
        let (found, tiles) = match (&held.ran, self.scenario.sample) {
            (Some(ran), Some(sample)) => {
                let tiles = choose(sample, &duty.beacon, id, (duty.round, party));
                let are_right = tiles.iter().all(|tile| self.is_tile_right(ran, *tile));
                // The output follows from the last operation, which the provider opens.
                let output = self.works.output_of(ran);
                (Found::of(are_right && output == held.result.output), sample)
            }
            (_, _) => {
                // All find the same, so it is computed once; everybody pays for it.
                let Asked { task, salt } = job.asked;
                let compute = || self.works.run(task, salt).trace().secret();
                let right = job.right.get_or_insert_with(compute).root();
                let is_output_right = self.works.tasks[task].output == held.result.output;
                (Found::of(right == held.result.trace && is_output_right), TILES)
            }
        };
        self.tally.line(Role::Check, name).cost += cost_of(tiles);
        found
    }

    /// Recomputes a tile from tiles that the provider opens.
    fn is_tile_right(&self, ran: &super::tensor::Ran, tile: Tile) -> bool {
        let (program, witness) = (self.works.program(), self.works.witness(ran));
        let value = program.value_of(tile.operation);
        let operands = witness.open_operands(tile.operation, tile.elements(), None);
        let opened = witness.open(value, tile.tile).zip(operands);
        let Some((claimed, operands)) = opened else { return false };
        let verdict = judge_tile(program, &witness.subject(), &claimed, &operands);
        verdict == Ok(Verdict::Upheld)
    }
}

/// The tiles that a checker looks at: different ones, by the beacon, the job, the round and itself.
fn choose(count: u32, beacon: &Hash32, job: &JobId, (round, party): (u8, usize)) -> Vec<Tile> {
    let mut tiles: Vec<u32> = Vec::new();
    for turn in 0_u32.. {
        if tiles.len() == count as usize {
            break;
        }
        let pieces: [&[u8]; 5] = [
            beacon.as_bytes(),
            job.as_bytes(),
            &[round],
            &party.to_be_bytes(),
            &turn.to_be_bytes(),
        ];
        let [a, b, c, d, ..] = sha256(&pieces);
        let tile = u32::from_be_bytes([a, b, c, d]) % TILES;
        if !tiles.contains(&tile) {
            tiles.push(tile);
        }
    }
    tiles.into_iter().map(Tile::numbered).collect()
}

/// Whether nobody of a check's round still computes.
fn is_round_open(entry: &JobEntry, check: &Check) -> bool {
    let mut checks = entry.checks.as_slice().iter();
    !checks.any(|other| other.round == check.round && other.state == CheckState::Drawn)
}
