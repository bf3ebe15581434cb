//! What providers do with a job: compute or make something up, commit to it, show it or not.

use super::{
    plan::{LATE_LEAD, Ploy, Scenario},
    play::{Asked, Held, Job, Play},
    tally::{Role, cost_of},
    tensor::{Ran, TILES, Tile, Wrong},
    theory::{self, Odds},
    trigger::Trigger,
};
use rand::RngExt as _;
use tg_ledger::{JobEntry, Run, RunState};
use tg_tensor::commit::Salt;
use tg_types::{
    ids::{AccountId, Hash32, JobId, NodeId},
    job::{RunResult, Tier},
    params::JobParams,
    tick::Tick,
    tx::{OpenedResult, Sealed},
};

/// The tile in the middle of a run.
const MIDDLE: u32 = TILES / 2;

/// Tiles that a lazy provider makes up: a tenth.
const LAZY_TILES: u32 = TILES / 10;

impl Play {
    /// The provider's turn.
    pub(super) fn provide(&mut self, id: &JobId, job: &mut Job, entry: &JobEntry) {
        let Some(run) = entry.live().next() else { return };
        let Some(party) = self.cast.of_node(&run.node) else { return };
        match run.state {
            RunState::Placed => self.commit(id, job, entry, (party, run)),
            RunState::Committed { .. } => self.reveal(id, job, party),
            RunState::Revealed { .. } | RunState::Ended { .. } => {}
        }
    }

    fn commit(&mut self, id: &JobId, job: &mut Job, entry: &JobEntry, (party, run): (usize, &Run)) {
        let ploy = self.cast.parties[party].ploy;
        if ploy == Ploy::Late && self.can_wait(entry.expires, run.deadline) {
            return;
        }
        let node = self.cast.parties[party].node;
        let held = self.make(job.asked, party, &node);
        if held.is_lie {
            let owners: Vec<AccountId> =
                entry.runs.as_slice().iter().map(|run| run.owner).collect();
            let bound = self.bound(ploy, &held, &owners);
            self.tally.lies.entry(ploy.name()).or_default().push(bound);
            self.tally.fire(Trigger::Lied(ploy));
        }
        let letters = self.letters.entry(party).or_default();
        letters.commits.push(Sealed { job: *id, seal: held.seal });
        job.held = Some(held);
    }

    /// Whether there is time left to see the draw before a job expires.
    fn can_wait(&self, expires: Tick, deadline: Tick) -> bool {
        let lead = LATE_LEAD.get();
        let end = expires.min(deadline).get();
        self.grid.tick().get() + lead < end
    }

    fn reveal(&mut self, id: &JobId, job: &Job, party: usize) {
        let Some(held) = &job.held else { return };
        let waits = matches!(self.cast.parties[party].ploy, Ploy::NoAnswer | Ploy::Late);
        if waits && job.is_drawn != Some(false) {
            return; // not drawn yet, or drawn: then it says nothing
        }
        let opened = OpenedResult { job: *id, result: held.result, salt: held.salt };
        self.letters.entry(party).or_default().reveals.push(opened);
    }

    /// What a provider hands in. What it computes for that is what it costs.
    fn make(&mut self, asked: Asked, party: usize, node: &NodeId) -> Held {
        let ploy = self.cast.parties[party].ploy;
        let Asked { task, mut salt } = asked;
        if matches!(ploy, Ploy::Garbage | Ploy::Withheld) {
            salt = Salt::new(self.chance.random()); // nobody else knows it
        }
        let all: Vec<Tile> = (0..TILES).map(Tile::numbered).collect();
        let (tiles, how) = match ploy {
            Ploy::Honest | Ploy::Away | Ploy::Unshown | Ploy::Unreadable => {
                (Vec::new(), Wrong::MadeUp)
            }
            Ploy::Withheld | Ploy::FakeOutput => (Vec::new(), Wrong::MadeUp),
            Ploy::Lazy => (self.some_tiles(LAZY_TILES), Wrong::MadeUp),
            Ploy::Middle | Ploy::Garbage => (vec![Tile::numbered(MIDDLE)], Wrong::OneElement),
            Ploy::Last => (vec![Tile::numbered(TILES - 1)], Wrong::MadeUp),
            Ploy::NoAnswer | Ploy::Accomplice | Ploy::Late | Ploy::Mute => (all, Wrong::MadeUp),
            Ploy::Copied => return self.copy(asked, party, node),
        };
        let saved = u32::try_from(tiles.len()).unwrap_or(TILES);
        self.tally.line(Role::Run, ploy.name()).cost += cost_of(TILES - saved);
        let mut ran = if tiles.is_empty() {
            self.works.run(task, salt)
        } else {
            self.works.lie(task, salt, (&tiles, how), &mut self.chance)
        };
        if ploy == Ploy::FakeOutput {
            ran.output = Hash32::new(self.chance.random());
        }
        let is_other = matches!(ploy, Ploy::FakeOutput | Ploy::Withheld);
        self.hold(party, node, ran, !tiles.is_empty() || is_other)
    }

    fn hold(&mut self, party: usize, node: &NodeId, ran: Ran, is_lie: bool) -> Held {
        let package = Hash32::new([2; 32]);
        let (output, trace) = (ran.output, ran.root());
        let result = RunResult { output, trace, package, package_bytes: 1 };
        let salt: [u8; 32] = self.chance.random();
        let seal = result.seal(node, &salt);
        Held { party, ran: Some(ran), result, salt, seal, is_lie }
    }

    /// What another node has shown for another task: its result, or its seal as it stands. Without
    /// any, this time the work is done.
    fn copy(&mut self, asked: Asked, party: usize, node: &NodeId) -> Held {
        let Asked { task, salt } = asked;
        let seen = self.seen.iter().rev().find(|(of, _)| *of != task).map(|(_, opened)| *opened);
        let Some(OpenedResult { job, result, salt: opening }) = seen else {
            self.tally.line(Role::Run, Ploy::Copied.name()).cost += cost_of(TILES);
            let ran = self.works.run(task, salt);
            return self.hold(party, node, ran, false);
        };
        let author = self.grid.job(&job).and_then(|entry| entry.runs.as_slice().last().cloned());
        let author = author.map_or(*node, |run| run.node);
        let takes_seal = self.chance.random_bool(0.5);
        let sealed_by = if takes_seal { &author } else { node };
        let seal = result.seal(sealed_by, &opening);
        // Another job has another salt, so its trace is wrong here even if its output is not.
        Held { party, ran: None, result, salt: opening, seal, is_lie: true }
    }

    /// Some different tiles of a run.
    fn some_tiles(&mut self, count: u32) -> Vec<Tile> {
        let mut tiles: Vec<u32> = Vec::new();
        while tiles.len() < count as usize {
            let tile = self.chance.random_range(0..TILES);
            if !tiles.contains(&tile) {
                tiles.push(tile);
            }
        }
        tiles.into_iter().map(Tile::numbered).collect()
    }

    /// How likely a lie is to be accepted at most, by the draw alone: owners that have run the job
    /// do not check it.
    fn bound(&self, ploy: Ploy, held: &Held, owners: &[AccountId]) -> f64 {
        let node = &self.cast.parties[held.party].node;
        if held.result.seal(node, &held.salt) != held.seal {
            return 0.0; // it cannot be opened
        }
        let wrong = held.ran.as_ref().map_or(TILES as usize, |ran| ran.wrong.len());
        let wrong = u32::try_from(wrong).unwrap_or(TILES);
        let params = &self.grid.rules().genesis.params().jobs;
        odds(params, &self.scenario, (ploy, wrong), self.cast.others(owners)).accepted()
    }
}

/// What decides about a lie with so many wrong tiles.
pub(super) fn odds(
    params: &JobParams,
    scenario: &Scenario,
    (ploy, wrong): (Ploy, u32),
    (honest, dishonest): (usize, usize),
) -> Odds {
    let (drawn, checkers) = match scenario.tier {
        Tier::Audit => (f64::from(params.audit_share.points()) / 10_000.0, params.audit_checkers),
        Tier::Trusted
        | Tier::Sync
        | Tier::Redundant { .. }
        | Tier::Proof { .. }
        | Tier::Rerun
        | Tier::Zk { .. } => (1.0, params.sync_checkers),
    };
    let detection = match ploy {
        Ploy::Lazy | Ploy::Middle | Ploy::Last => {
            // All tiles of this program cost the same.
            let share = f64::from(wrong) / f64::from(TILES);
            scenario.sample.map_or(1.0, |draws| theory::sampled(share, draws))
        }
        Ploy::Honest | Ploy::Away | Ploy::Withheld | Ploy::Copied | Ploy::Garbage => 1.0,
        Ploy::FakeOutput | Ploy::Accomplice | Ploy::Mute => 1.0,
        Ploy::Unshown | Ploy::Unreadable => 1.0,
        // Whoever is drawn, the result is not shown.
        Ploy::NoAnswer | Ploy::Late => {
            return Odds { drawn, checkers, detection: 1.0, honest: 1, dishonest: 0 };
        }
    };
    Odds { drawn, checkers, detection, honest, dishonest }
}

/// Tiles that a ploy gets wrong.
pub(super) const fn wrong_tiles(ploy: Ploy) -> u32 {
    match ploy {
        Ploy::Honest | Ploy::Away | Ploy::Unshown | Ploy::Unreadable => 0,
        Ploy::Withheld | Ploy::FakeOutput => 0,
        Ploy::Lazy => LAZY_TILES,
        Ploy::Middle | Ploy::Last | Ploy::Garbage => 1,
        Ploy::Copied | Ploy::NoAnswer | Ploy::Accomplice | Ploy::Late | Ploy::Mute => TILES,
    }
}
