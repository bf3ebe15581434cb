//! One scenario with one seed, block by block: everybody looks at the ledger, does what it does,
//! and what happened is counted.

use super::{
    cast::{Cast, Party},
    court::Challenge,
    grid::{Grid, Told},
    plan::{Checker, PARTIES, PAY, Ploy, RUN_MAX, STAKE_TGRID, Scenario, UNFINISHED},
    tally::{Role, Tally},
    tensor::{Ran, Works},
    trigger::Trigger,
};
use crate::{
    planted::Plant,
    violation::{Invariant, Violations},
    world::chance,
};
use rand::{RngExt as _, rngs::StdRng, seq::SliceRandom as _};
use std::collections::BTreeMap;
use tg_tensor::commit::Salt;
use tg_types::{
    amount::Amount,
    bounded::List,
    ids::{AccountId, Hash32, JobId, NodeId},
    job::{CheckAnswer, JobSpec, JobStatus, Needs, ResultKey, RunResult, TraceSecret, Work},
    reason::Reason,
    receipt::{Event, Status},
    traits::TileLot,
    tx::{Action, JOBS_PER_TX_MAX, OpenedCheck, OpenedResult, REPORTS_PER_TX_MAX, Sealed},
};

/// Blocks within which a scenario must end: several times what the slowest needs.
const BLOCKS_MAX: u64 = 6_000;

/// One right result in so many is objected to by a stranger, where there are some.
pub(super) const STRANGER_EACH: u32 = 20;

/// The same whenever somebody has vouched for the result of a provider that is away.
pub(super) const TEMPTED_EACH: u32 = 4;

/// What a job asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) task: usize,
    /// The salt that its trace must have.
    pub(super) salt: Salt,
}

impl Default for Asked {
    fn default() -> Self {
        Self { task: 0, salt: Salt::NONE }
    }
}

/// What a provider has in its hands for a job.
pub(super) struct Held {
    pub(super) party: usize,
    /// The run itself; absent if it has none to show.
    pub(super) ran: Option<Ran>,
    pub(super) result: RunResult,
    pub(super) salt: [u8; 32],
    pub(super) seal: Hash32,
    /// Whether the result is wrong.
    pub(super) is_lie: bool,
}

/// What a look at a result finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// That it is right.
    Right,
    /// That it is wrong.
    Wrong,
}

impl Found {
    /// Right or wrong.
    pub(super) const fn of(is_right: bool) -> Self {
        if is_right { Self::Right } else { Self::Wrong }
    }
}

/// What a checker has to do.
pub(super) struct Duty {
    pub(super) round: u8,
    /// What its tiles are drawn by, if it need not recompute the whole run.
    pub(super) lot: Option<TileLot>,
    /// Whether it recomputed the whole run although tiles were asked for.
    pub(super) is_whole: bool,
    /// What it found, once it has looked.
    pub(super) found: Option<Found>,
    pub(super) answer: Option<(CheckAnswer, [u8; 32])>,
    pub(super) has_objected: bool,
    pub(super) is_counted: bool,
}

/// A job that is under way.
#[derive(Default)]
pub(super) struct Job {
    pub(super) asked: Asked,
    pub(super) held: Option<Held>,
    /// Whether the result was drawn, once that is known.
    pub(super) is_drawn: Option<bool>,
    pub(super) duties: BTreeMap<usize, Duty>,
    /// The right trace, once somebody has computed it.
    pub(super) right: Option<TraceSecret>,
    /// Who would object to the result, and how.
    pub(super) intents: BTreeMap<AccountId, Challenge>,
    /// Who does.
    pub(super) challenge: Option<Challenge>,
    /// What transactions cost the challenger.
    pub(super) challenge_fees: u64,
    /// Who spoke for the result last, if somebody has.
    pub(super) defender: Option<NodeId>,
}

/// What a node will say in the next block.
#[derive(Default)]
pub(super) struct Letters {
    pub(super) commits: Vec<Sealed>,
    pub(super) reveals: Vec<OpenedResult>,
    pub(super) check_commits: Vec<Sealed>,
    pub(super) check_reveals: Vec<OpenedCheck>,
}

/// A scenario under way.
pub(super) struct Play {
    pub(super) scenario: Scenario,
    pub(super) grid: Grid,
    pub(super) works: Works,
    pub(super) cast: Cast,
    pub(super) chance: StdRng,
    pub(super) tally: Tally,
    pub(super) letters: BTreeMap<usize, Letters>,
    /// Seals and results of others that everybody has seen, the latest last.
    pub(super) seen: Vec<(usize, OpenedResult)>,
    /// Jobs that are placed.
    pub(super) active: BTreeMap<JobId, Job>,
    /// Settled jobs about whose results the client complains, and their providers.
    pub(super) complaints: BTreeMap<JobId, usize>,
    /// What jobs ask for that wait.
    waiting: BTreeMap<JobId, Asked>,
    /// Salts by their marks, from the packages of jobs.
    salts: BTreeMap<Hash32, Salt>,
    jobs_max: u64,
}

impl Play {
    /// Everybody is there, nothing has been asked for.
    pub(super) fn new(scenario: &Scenario, seed: u64, jobs: u64, plant: Option<Plant>) -> Self {
        let name = format!("{} {:?}", scenario.name, scenario.tier);
        let mut chance = chance(seed, &name);
        let works = Works::new(&mut chance);
        let cast = Cast::new(seed, scenario);
        let grid = Grid::new(cast.genesis(seed, scenario), plant);
        let mut play = Self {
            scenario: *scenario,
            grid,
            works,
            cast,
            chance,
            tally: Tally::default(),
            letters: BTreeMap::new(),
            seen: Vec::new(),
            active: BTreeMap::new(),
            complaints: BTreeMap::new(),
            waiting: BTreeMap::new(),
            salts: BTreeMap::new(),
            jobs_max: jobs,
        };
        play.set_up();
        play
    }

    fn set_up(&mut self) {
        let amount = Amount::tgrid(STAKE_TGRID).expect("below the cap");
        let domain = self.grid.rules().domain;
        for party in &self.cast.parties {
            self.grid.send(party.owner, Action::Stake { amount });
            self.grid.send(party.owner, party.register(&domain));
        }
        self.grid.send(self.cast.client, self.works.put_program());
        let (_, told) = self.grid.block();
        let refused = told.iter().filter(|told| told.status != Status::Applied).count();
        let is_ready = refused == 0 && told.len() == 2 * PARTIES + 1;
        self.grid.found.check(is_ready, Invariant::Liveness, || format!("{told:?}"));
    }

    /// Plays to the end.
    pub(super) fn run(mut self) -> (Tally, Violations) {
        while self.grid.found.is_empty() {
            if self.tally.jobs >= self.jobs_max && self.unfinished() == 0 {
                break;
            }
            if self.tally.blocks >= BLOCKS_MAX {
                let detail = format!("{} jobs are not finished", self.unfinished());
                self.grid.found.add(Invariant::Liveness, detail);
            }
            self.submit();
            for id in self.active.keys().copied().collect::<Vec<_>>() {
                self.act(&id);
            }
            self.post();
            let (events, told) = self.grid.block();
            self.tally.blocks += 1;
            for event in &events {
                self.handle(event);
            }
            for told in &told {
                self.hear(told);
            }
        }
        self.grid.look();
        (self.tally, self.grid.found)
    }

    fn unfinished(&self) -> usize {
        self.active.len() + self.waiting.len() + self.complaints.len()
    }

    /// Keeps some more jobs waiting than can be done at once.
    fn submit(&mut self) {
        let room = UNFINISHED.saturating_sub(self.unfinished());
        let left = usize::try_from(self.jobs_max - self.tally.jobs).unwrap_or(usize::MAX);
        let count = room.min(left).min(JOBS_PER_TX_MAX);
        if count == 0 {
            return;
        }
        let tasks = self.works.tasks.len();
        let spec = |_| {
            let salt = Salt::new(self.chance.random());
            let work = self.works.work(self.chance.random_range(0..tasks), &salt);
            self.salts.insert(salt.mark(), salt);
            JobSpec {
                work,
                package: Hash32::new([1; 32]),
                package_bytes: 1,
                key_escrow: tg_types::KeyEscrow::Validators,
                result_key: ResultKey::NONE,
                needs: Needs::ANY,
                tier: self.scenario.tier,
                pay: PAY,
                run_max: RUN_MAX,
                expires_after: self.scenario.expires_after,
                promise: None,
                checkpoint: None,
                nodes: 1,
            }
        };
        let specs: Vec<JobSpec> = (0..count).map(spec).collect();
        self.tally.jobs += u64::try_from(count).unwrap_or(0);
        let specs = List::new(specs).expect("at most 32");
        self.grid.send(
            self.cast.client,
            Action::SubmitJobs { specs, escrow_max: Amount::CAP, vouchers: List::default() },
        );
    }

    /// Everybody who has to do with a job does it.
    fn act(&mut self, id: &JobId) {
        let Some(mut job) = self.active.remove(id) else { return };
        if let Some(entry) = self.grid.job(id) {
            match entry.status {
                JobStatus::Running => self.provide(id, &mut job, &entry),
                JobStatus::Checking => self.check(id, &mut job, &entry),
                JobStatus::Disputed => self.argue(id, &mut job, &entry),
                JobStatus::Queued
                | JobStatus::Cancelled
                | JobStatus::Expired
                | JobStatus::Settled
                | JobStatus::Failed => {}
            }
        }
        self.active.insert(*id, job);
    }

    /// Sends what nodes want to say, in any order of nodes.
    fn post(&mut self) {
        let mut letters: Vec<(usize, Letters)> =
            std::mem::take(&mut self.letters).into_iter().collect();
        letters.shuffle(&mut self.chance);
        for (party, letters) in letters {
            let Letters { commits, reveals, check_commits, check_reveals } = letters;
            let account = self.cast.parties[party].account;
            let grid = &mut self.grid;
            batches(&commits, |seals| grid.send(account, Action::CommitResults { seals }));
            batches(&reveals, |results| {
                grid.send(account, Action::RevealResults { results, vouchers: List::default() })
            });
            batches(&check_commits, |seals| grid.send(account, Action::CommitChecks { seals }));
            // Of answers about tiles there is one in a transaction.
            let is_long = |opened: &OpenedCheck| opened.answer.is_long();
            let (long, short): (Vec<_>, Vec<_>) = check_reveals.into_iter().partition(is_long);
            let mut show = |answers: &[OpenedCheck]| {
                batches(answers, |answers| grid.send(account, Action::RevealChecks { answers }));
            };
            show(&short);
            long.chunks(1).for_each(show);
        }
    }

    /// Reads what others said, and counts what it cost.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only challengers are counted")]
    fn hear(&mut self, told: &Told) {
        if let Status::Failed(reason) = told.status {
            *self.tally.refused.entry(reason.code().to_owned()).or_default() += 1;
        }
        if let Action::RevealResults { results, .. } = &told.action
            && told.status == Status::Applied
        {
            for result in results.as_slice() {
                let task = self.active.get(&result.job).map(|job| job.asked.task);
                self.seen.extend(task.map(|task| (task, *result)));
            }
            let excess = self.seen.len().saturating_sub(UNFINISHED);
            self.seen.drain(..excess);
        }
        let job = match &told.action {
            Action::Object { job } | Action::PickClaim { job, .. } => job,
            Action::JudgeDispute { job, .. } => job,
            _ => return,
        };
        let Some(job) = self.active.get_mut(job) else { return };
        let is_challenger =
            job.challenge.as_ref().is_some_and(|challenge| challenge.account == told.sender);
        if is_challenger {
            job.challenge_fees += told.fee.units();
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is about money")]
    fn handle(&mut self, event: &Event) {
        match event {
            Event::JobQueued { job, .. } => {
                let asked = self.grid.job(job).and_then(|entry| self.asked(&entry.spec.work));
                self.waiting.insert(*job, asked.unwrap_or_default());
            }
            Event::JobPlaced { job, node, .. } => self.begin(job, node),
            Event::ResultRevealed { job, node, .. } => self.tempt(job, node),
            Event::CheckDrawn { job, node, round } => self.draw(job, node, *round),
            Event::CheckCommitted { job, .. } => self.tempt_again(job),
            Event::DisputeAnswered { job, node, .. } => {
                self.with(job, |job| job.defender = Some(*node));
            }
            Event::ResultNotDrawn { job } => self.with(job, |job| job.is_drawn = Some(false)),
            Event::JobSettled { job, .. } => {
                self.tally.settled += 1;
                self.tally.fire(Trigger::Settled);
                let held = self.active.get(job).and_then(|job| job.held.as_ref());
                if held.is_some_and(|held| held.is_lie) {
                    self.tally.lies_accepted += 1;
                    self.tally.fire(Trigger::Passed);
                }
                self.complain(job);
                self.active.remove(job);
            }
            Event::JobFailed { job, .. } => {
                self.tally.failed += 1;
                self.active.remove(job);
                self.waiting.remove(job);
            }
            Event::JobExpired { job, .. } => {
                self.tally.expired += 1;
                self.active.remove(job);
                self.waiting.remove(job);
            }
            Event::CheckPassed { node, .. } => {
                self.note(node, |it| (it.is_honest_in(Role::Check), Trigger::Checked));
            }
            Event::CheckMissed { node, .. } => {
                self.note(node, |it| (it.checker == Checker::Silent, Trigger::Silence));
            }
            Event::CheckRefused { node, .. } => {
                self.note(node, |it| (it.checker == Checker::Idle, Trigger::Guess));
            }
            Event::Complained { job, .. } => self.judge_complaint(job),
            Event::ComplaintUpheld { job, .. } => self.end_complaint(job, true),
            Event::ComplaintRejected { job, .. } => self.end_complaint(job, false),
            Event::TilesNotShown { .. } => self.tally.fire(Trigger::Whole),
            _ => self.count(event),
        }
    }

    /// Counts what a node has done, if it is what a scenario is there for.
    fn note(&mut self, node: &NodeId, what: impl FnOnce(&Party) -> (bool, Trigger)) {
        let party = self.cast.of_node(node).map(|party| &self.cast.parties[party]);
        if let Some((true, trigger)) = party.map(what) {
            self.tally.fire(trigger);
        }
    }

    /// What a job asks for, as its package says.
    fn asked(&mut self, work: &Work) -> Option<Asked> {
        let Work::Tensor { salt, .. } = work else { return None };
        Some(Asked { task: self.works.task_of(work)?, salt: self.salts.remove(salt)? })
    }

    fn with(&mut self, job: &JobId, change: impl FnOnce(&mut Job)) {
        if let Some(job) = self.active.get_mut(job) {
            change(job);
        }
    }

    /// A job was given to a node.
    fn begin(&mut self, id: &JobId, node: &NodeId) {
        let asked = self.waiting.remove(id).or(self.active.get(id).map(|job| job.asked));
        self.active.insert(*id, Job { asked: asked.unwrap_or_default(), ..Job::default() });
        let Some(party) = self.cast.of_node(node) else { return };
        let name = self.cast.parties[party].ploy.name();
        self.tally.line(Role::Run, name).count += 1;
    }

    const fn has_challengers(&self) -> bool {
        self.scenario.has_challengers && self.scenario.is_armed
    }

    /// A result is shown: a stranger may object to it, right as it is.
    fn tempt(&mut self, id: &JobId, node: &NodeId) {
        let party = self.cast.of_node(node).map(|party| &self.cast.parties[party]);
        let is_honest = party.is_some_and(|party| party.is_honest());
        // What those lose who object to anything would hide what it costs to frame somebody.
        let all_honest = !self.scenario.checkers.contains(&Checker::Frames);
        if self.has_challengers()
            && (is_honest && all_honest)
            && self.chance.random_range(0..STRANGER_EACH) == 0
        {
            let stranger = self.cast.stranger;
            self.with(id, |job| {
                job.intents.insert(stranger, Challenge::stranger(stranger));
            });
            self.grid.send(stranger, Action::Object { job: *id });
        }
    }

    /// Somebody has vouched for the result of a provider that is away: a stranger may object to it,
    /// or somebody who knows that the first who may answer will state something false.
    fn tempt_again(&mut self, id: &JobId) {
        let provider = self.active.get(id).and_then(|job| job.held.as_ref()).map(|held| held.party);
        let is_away = provider.is_some_and(|party| self.cast.parties[party].ploy == Ploy::Away);
        let entry = self.grid.job(id).filter(|_| is_away && self.has_challengers());
        let first = entry.as_ref().and_then(|entry| entry.stand_ins().next());
        let Some(first) = first.and_then(|check| self.cast.of_node(&check.node)) else { return };
        let is_framer = self.cast.parties[first].checker == Checker::Frames;
        let stranger = self.cast.stranger;
        let is_new = self.active.get(id).is_some_and(|job| !job.intents.contains_key(&stranger));
        let all_honest = !self.scenario.checkers.contains(&Checker::Frames);
        let objects = all_honest && self.chance.random_range(0..TEMPTED_EACH) == 0;
        if is_new && (is_framer || objects) {
            let challenge = if is_framer { Challenge::framer } else { Challenge::stranger };
            self.with(id, |job| {
                job.intents.insert(stranger, challenge(stranger));
            });
            self.grid.send(stranger, Action::Object { job: *id });
        }
    }

    /// A node was drawn.
    fn draw(&mut self, id: &JobId, node: &NodeId, round: u8) {
        let Some(party) = self.cast.of_node(node) else { return };
        let entry = self.grid.job(id);
        let mut checks = entry.iter().flat_map(|entry| entry.checks.as_slice());
        let check = checks.find(|check| check.node == *node && check.round == round);
        let tiles = self.grid.rules().genesis.params().jobs.audit_tiles;
        let lot = check.and_then(|check| check.lot).map(|lot| TileLot { lot, tiles });
        self.with(id, |job| {
            job.is_drawn = Some(true);
            let duty = Duty {
                round,
                lot,
                is_whole: false,
                found: None,
                answer: None,
                has_objected: false,
                is_counted: false,
            };
            job.duties.insert(party, duty);
        });
    }

    /// Counts who earned and lost what.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest earns nobody anything")]
    fn count(&mut self, event: &Event) {
        match event {
            Event::ProviderPaid { node, amount, .. } => {
                self.book(node, Role::Run, i128::from(amount.units()));
            }
            Event::CheckerPaid { node, amount, .. } => {
                self.book(node, Role::Check, i128::from(amount.units()));
            }
            Event::NodeSlashed { job, node, amount, bounty, .. } => {
                let role = self.role_in(job, node);
                self.book(node, role, -i128::from(amount.units()));
                self.tally.honest_slashed += u64::from(self.is_honest_in(node, role));
                self.fell(job, node, role);
                let challenge = self.active.get(job).and_then(|job| job.challenge.as_ref());
                if let Some((role, name)) = challenge.map(|challenge| challenge.line()) {
                    self.tally.line(role, name).income += i128::from(bounty.units());
                }
            }
            Event::NodeFined { job, node, amount, .. } => {
                let role = self.role_in(job, node);
                self.book(node, role, -i128::from(amount.units()));
                self.tally.honest_fined += u64::from(self.is_honest_in(node, role));
            }
            Event::DisputeOpened { job, challenger, .. } => self.open(job, challenger),
            Event::ClaimPicked { .. } => self.tally.picks += 1,
            Event::DisputeEnded { job, why, .. } => self.close(job, *why),
            Event::RunEnded { job, .. } => self.with(job, |job| job.duties.clear()),
            _ => {}
        }
    }

    fn is_honest_in(&self, node: &NodeId, role: Role) -> bool {
        let party = self.cast.of_node(node).map(|party| &self.cast.parties[party]);
        party.is_some_and(|party| party.is_honest_in(role))
    }

    /// Stake was lost: counts it if a scenario is there for that.
    fn fell(&mut self, job: &JobId, node: &NodeId, role: Role) {
        let checker = self.cast.of_node(node).map(|party| self.cast.parties[party].checker);
        let challenge = self.active.get(job).and_then(|job| job.challenge.as_ref());
        let trigger = match (role, challenge) {
            (Role::Run, None) if self.complaints.contains_key(job) => return,
            (Role::Run, None) => Trigger::NotShown,
            (Role::Check, Some(challenge)) if checker == Some(Checker::Hasty) => {
                debug_assert!(challenge.is_honest(), "nobody else objects to lies");
                Trigger::FriendFell
            }
            (Role::Check, Some(it)) if it.is_framing() && checker == Some(Checker::Frames) => {
                Trigger::Framed
            }
            (Role::Run, Some(_)) | (Role::Check | Role::Challenge, _) => return,
        };
        self.tally.fire(trigger);
    }

    /// Whether a node has to do with a job as its provider or as a checker.
    fn role_in(&self, job: &JobId, node: &NodeId) -> Role {
        let held = self.active.get(job).and_then(|job| job.held.as_ref());
        let party = held.map(|held| held.party).or(self.complaints.get(job).copied());
        let provider = party.map(|party| self.cast.parties[party].node);
        if provider == Some(*node) { Role::Run } else { Role::Check }
    }

    fn book(&mut self, node: &NodeId, role: Role, amount: i128) {
        let Some(party) = self.cast.of_node(node) else { return };
        let party = &self.cast.parties[party];
        let name = match role {
            Role::Run => party.ploy.name(),
            Role::Check | Role::Challenge => party.checker.name(),
        };
        self.tally.line(role, name).income += amount;
    }

    fn open(&mut self, id: &JobId, challenger: &AccountId) {
        self.tally.disputes += 1;
        let party = self.cast.of_account(challenger);
        let challenger = *challenger;
        let mut line = None;
        self.with(id, |job| {
            let challenge = job.intents.get(&challenger).cloned();
            let challenge = challenge.unwrap_or(Challenge::stranger(challenger));
            line = Some(challenge.line());
            job.challenge = Some(challenge);
            (job.challenge_fees, job.defender) = (0, None);
            if let Some(duty) = party.and_then(|party| job.duties.get_mut(&party)) {
                duty.has_objected = true;
            }
        });
        if let Some((Role::Challenge, name)) = line {
            self.tally.line(Role::Challenge, name).count += 1;
        }
    }

    /// A dispute is over. Whoever won or lost the bond keeps or loses it.
    fn close(&mut self, id: &JobId, why: Reason) {
        let bond = i128::from(self.grid.rules().genesis.params().jobs.challenge_bond.units());
        let Some(job) = self.active.get_mut(id) else { return };
        let Some(challenge) = &job.challenge else { return };
        let is_honest = challenge.is_honest();
        let (role, name) = challenge.line();
        if let Some(trigger) = challenge.ended(why) {
            self.tally.fire(trigger);
        }
        let fees = job.challenge_fees;
        let provider = job.held.as_ref().map(|held| held.party);
        let defender = job.defender;
        if matches!(why, Reason::ResultRefuted | Reason::ResultUndefended) {
            self.tally.won += u64::from(is_honest);
            self.tally.won_fees += if is_honest { fees } else { 0 };
            return;
        }
        job.challenge = None;
        self.tally.honest_bonds_lost += u64::from(is_honest);
        self.tally.line(role, name).income -= bond;
        let node = provider.map(|provider| self.cast.parties[provider].node);
        if let Some(defender) = defender.or(node) {
            let role = if Some(defender) == node { Role::Run } else { Role::Check };
            if role == Role::Check {
                self.tally.fire(Trigger::StoodIn);
            }
            self.book(&defender, role, bond / 2);
        }
    }
}

/// Hands over lists of at most as many as a transaction takes.
fn batches<T: Clone>(items: &[T], mut send: impl FnMut(List<T, 1, REPORTS_PER_TX_MAX>)) {
    for some in items.chunks(REPORTS_PER_TX_MAX) {
        send(List::new(some.to_vec()).expect("a part of at most 64, not empty"));
    }
}
