//! Random histories of jobs: honest nodes, liars, silent ones and false challengers together.

use std::collections::{BTreeMap, BTreeSet};

use arbtest::arbitrary::{Result, Unstructured};
use tg_ledger::{Applied, CheckState, ComplaintEntry, DisputeEntry, JobEntry, RunState, Turn};
use tg_types::hash::sha256;
use tg_types::ids::Noun;
use tg_types::tx::NodeSet;
use tg_types::{
    AccountId, Action, Amount, Bytes, CheckedTx, Domain, DurationMs, Event, Hash32, JobId, JobSpec,
    JobStatus, KeyEscrow, Lane, Message, NetworkKind, NodeId, Nonce, Params, Reason,
    RegistrationClaim, RunFailure, RunResult, SecretWeights, Status, Tick, Tier, TxBody,
};

use crate::fleet::*;
use crate::histories::fixed_bytes;
use crate::judge::{
    REGISTRATION_COST, STEP, answer, false_answer, is_false, program_id, proof_of, registration_of,
    right_result,
};
use crate::world::*;

/// Nodes of a history; each has its own owner.
const NODES: u8 = 9;
/// Jobs that are open at once, so that everybody's steps fit in a block.
const JOBS_OPEN_MAX: usize = 10;
/// The client's secret weights: good for the jobs of most histories.
const SECRET: SecretWeights = SecretWeights { root: Hash32::new([4; 32]), proofs: 60 };
/// Rounds of a dispute that the honest answer before they show the step.
const ROUNDS_ANSWERED: u8 = 3;
/// Blocks in which a network without new jobs comes to rest.
const HEALING_BLOCKS: usize = 120;

/// How a node behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Character {
    /// Does everything at once and right.
    Honest,
    /// Gives wrong results, vouches for anything and objects to what is right.
    Liar,
    /// Does what an honest one does, or nothing.
    Silent,
    /// Gives runs up.
    Quitter,
}

/// How often something happened, by its reason.
type Happened = BTreeMap<Reason, u64>;

/// A network and what is remembered of it.
struct History {
    world: World,
    cast: Vec<Character>,
    /// All jobs ever asked for.
    jobs: Vec<JobId>,
    /// Who was drawn to check the present result of a job.
    drawn: BTreeMap<JobId, BTreeSet<NodeId>>,
    happened: Happened,
}

fn history_params() -> Params {
    let mut params = busy_params();
    params.jobs.sync_checkers = 4;
    params.jobs.answer_within = DurationMs::new(3_000);
    params.jobs.run_grace = DurationMs::new(3_000);
    params.jobs.check_grace = DurationMs::new(3_000);
    params.jobs.is_vouched = true;
    params.jobs.complaint_judged_within = DurationMs::new(3_000);
    params.jobs.proofs_per_block_max = 64;
    params.jobs.proof_cost_per_block_max = 1_000_000;
    params
}

/// A wrong result on which all liars agree.
fn lie(spec: &JobSpec) -> RunResult {
    let output = Hash32::new(sha256(&[b"lie", right_result(spec).output.as_bytes()]));
    RunResult { output, trace: output, ..right_result(spec) }
}

/// One job as a node sees it.
struct Sight<'a> {
    number: u8,
    job: JobId,
    entry: &'a JobEntry,
    dispute: Option<&'a DisputeEntry>,
    domain: Domain,
}

impl Sight<'_> {
    /// What an honest node does about a job.
    fn honest_step(&self) -> Option<Action> {
        let right = right_result(&self.entry.spec);
        let step = self.run_step(&right).or_else(|| {
            let result = self.entry.result()?;
            let is_seen = self.is_right_or_withheld(&result, &right);
            if is_seen { self.check_step(&result) } else { self.objection() }
        });
        step.or_else(|| self.defence())
    }

    /// Whether the owner keeps the key and does not hand it to this node.
    fn is_withheld(&self) -> bool {
        is_withheld(&self.entry.spec, self.number)
    }

    /// Who has no key does not see that a result is wrong.
    fn is_right_or_withheld(&self, result: &RunResult, right: &RunResult) -> bool {
        result == right || self.is_withheld()
    }

    /// Shows the truth in a dispute; as a provider or in its place, after some rounds of answers.
    fn defence(&self) -> Option<Action> {
        let dispute = self.dispute.filter(|_| self.is_party())?;
        if dispute.challenger == voice(self.number) || dispute.round >= ROUNDS_ANSWERED {
            return Some(judge_by(self.job, STEP));
        }
        let is_turn = dispute.turn != Turn::Challenger && !is_false(dispute.claim.as_slice());
        is_turn.then(|| answer_by(self.job, answer(dispute.round, 16)))
    }

    /// What a liar does about a job.
    fn lying_step(&self, u: &mut Unstructured<'_>) -> Result<Option<Action>> {
        let lie = lie(&self.entry.spec);
        let result = if u.ratio(1, 3)? { right_result(&self.entry.spec) } else { lie };
        let step = self.run_step(&result).or_else(|| self.reveal_step(&lie));
        if step.is_some() {
            return Ok(step);
        }
        if let Some(dispute) = self.dispute.filter(|_| self.is_party()) {
            let depth = dispute.round;
            return Ok(match u.int_in_range(0..=4)? {
                0 => Some(judge_by(self.job, STEP)),
                1 if u.arbitrary()? => Some(answer_by(self.job, false_answer(depth, 16))),
                1 => Some(answer_by(self.job, answer(depth, 16))),
                2 => Some(Action::PickClaim { job: self.job, child: u.int_in_range(0..=17)? }),
                3 => Some(judge_by(self.job, b"nothing")),
                _ => None,
            });
        }
        if u.ratio(1, 8)? {
            return Ok(self.objection());
        }
        // Some answer for another result than the one that is there.
        let is_wrong = self.job.as_bytes()[0].is_multiple_of(4);
        let answered = if is_wrong { Some(lie) } else { self.entry.result() };
        let is_shown = self.entry.result().is_some();
        Ok(answered.filter(|_| is_shown).and_then(|result| self.check_step(&result)))
    }

    /// Goes on with a run.
    fn run_step(&self, result: &RunResult) -> Option<Action> {
        let run = self.entry.live().find(|run| run.node == node(self.number))?;
        let spec = &self.entry.spec;
        match run.state {
            RunState::Placed if spec.tier.is_shown() => {
                let run = self.entry.run_number(&node(self.number))?;
                let claim = claim_as(&self.domain, (self.number, self.job, run), spec, result);
                Some(show_as(self.job, spec, result, proof_of(&claim)))
            }
            RunState::Placed => Some(commit_as(self.number, self.job, result)),
            RunState::Committed { .. } => self.reveal_step(result),
            RunState::Revealed { .. } | RunState::Ended { .. } => None,
        }
    }

    /// Shows a result if it is the one that was committed to and may be shown.
    fn reveal_step(&self, result: &RunResult) -> Option<Action> {
        let run = self.entry.live().find(|run| run.node == node(self.number))?;
        let RunState::Committed { seal, .. } = run.state else {
            return None;
        };
        let is_alone = !matches!(self.entry.spec.tier, Tier::Redundant { .. });
        let are_there = self.entry.live().count() == usize::from(self.entry.wanted)
            && self.entry.live().all(|run| run.state != RunState::Placed);
        let is_sealed = result.seal(&node(self.number), &[self.number; 32]) == seal;
        let may = is_sealed && (is_alone || are_there);
        may.then(|| reveal_as(self.number, self.job, result))
    }

    /// Goes on with a check by vouching for the result.
    fn check_step(&self, result: &RunResult) -> Option<Action> {
        let checks = self.entry.checks.as_slice();
        let check = checks.iter().find(|it| it.node == node(self.number) && it.is_open())?;
        if self.entry.status != JobStatus::Checking {
            return None;
        }
        let mut round = checks.iter().filter(|it| it.round == check.round);
        match check.state {
            CheckState::Drawn if self.is_withheld() => Some(Action::LackKey { job: self.job }),
            CheckState::Waiting if self.is_withheld() => None,
            CheckState::Drawn | CheckState::Waiting => {
                Some(seal_answer(self.number, self.job, &answer_to(check, result)))
            }
            CheckState::Committed { .. } => round
                .all(|it| !it.is_unsaid())
                .then(|| show_answer(self.number, self.job, &answer_to(check, result))),
            CheckState::Passed | CheckState::Missed | CheckState::Refused | CheckState::Excused => {
                None
            }
        }
    }

    /// Objects, if the node was drawn and may.
    fn objection(&self) -> Option<Action> {
        let checks = self.entry.checks.as_slice().iter();
        let mut mine = checks.filter(|it| it.node == node(self.number) && it.is_open());
        let may = self.entry.status == JobStatus::Checking && mine.next().is_some();
        may.then_some(Action::Object { job: self.job })
    }

    /// Whether the node has a part in the dispute about the job.
    fn is_party(&self) -> bool {
        self.dispute.is_some_and(|dispute| {
            let mut stand_ins = self.entry.stand_ins();
            let stands_in = dispute.turn == Turn::StandIns
                && stand_ins.any(|check| check.node == node(self.number));
            let is_provider = dispute.node == node(self.number);
            is_provider || stands_in || dispute.challenger == voice(self.number)
        })
    }
}

impl History {
    fn new(u: &mut Unstructured<'_>) -> Result<Self> {
        let kind = *u.choose(&[NetworkKind::Local, NetworkKind::Open])?;
        let mut params = history_params();
        params.jobs.audit_tiles_from = *u.choose(&[1, u64::MAX])?;
        let mut world = World::staffed_with(params, kind, NODES);
        let (owner, program) = (account(CLIENT), program_id(PROGRAM));
        let (genesis, weights) = (world.rules.domain.genesis, SECRET);
        let proof = registration_of(&RegistrationClaim { genesis, owner, program, weights });
        let (proof, cost) = (Bytes::new(proof).expect("short"), REGISTRATION_COST);
        world.succeed(owner, Action::RegisterWeights { program, weights, cost, proof });
        let character = |u: &mut Unstructured<'_>| {
            Ok(match u.int_in_range(0..=7)? {
                0..=3 => Character::Honest,
                4 | 5 => Character::Liar,
                6 => Character::Silent,
                _ => Character::Quitter,
            })
        };
        let cast = (0..NODES).map(|_| character(u)).collect::<Result<_>>()?;
        let (jobs, drawn, happened) = (Vec::new(), BTreeMap::new(), Happened::new());
        Ok(Self { world, cast, jobs, drawn, happened })
    }

    fn is_honest(&self, id: &NodeId) -> bool {
        self.cast[usize::from(number_of(id))] == Character::Honest
    }

    /// All open jobs with their disputes.
    fn open(&self) -> Vec<(JobId, JobEntry, Option<DisputeEntry>)> {
        let ids = self.world.ids(Noun::Job).into_iter().map(JobId::new);
        let open = ids.map(|job| (job, self.world.known(job), self.world.dispute(&job)));
        open.filter(|(_, entry, _)| !entry.status.is_final()).collect()
    }

    /// What everybody does in a block. Without randomness only honest nodes act.
    fn actions(&self, u: &mut Unstructured<'_>, is_healing: bool) -> Result<Vec<CheckedTx>> {
        let open = self.open();
        let mut txs = Vec::new();
        for (number, character) in (0..).zip(&self.cast) {
            let mut actions = Vec::new();
            if *character == Character::Liar && !is_healing {
                actions.extend(self.false_complaint(u, number, &open)?);
            }
            for (job, entry, dispute) in &open {
                let is_said =
                    |it: &Action| matches!(it, Action::Complain { job: it, .. } if it == job);
                let complaint = self.world.complaint(job).filter(|it| it.is_open());
                let is_mine = complaint.is_some_and(|it| it.by == voice(number));
                if is_mine || actions.iter().any(is_said) {
                    continue; // whoever complains waits for the answer
                }
                let (dispute, domain) = (dispute.as_ref(), self.world.rules.domain);
                let sight = Sight { number, job: *job, entry, dispute, domain };
                let honest = sight.honest_step();
                let action = match character {
                    Character::Honest => honest,
                    _ if is_healing => None,
                    Character::Liar => sight.lying_step(u)?,
                    Character::Silent => honest.filter(|_| u.ratio(1, 3).unwrap_or(false)),
                    Character::Quitter => {
                        let is_even = job.as_bytes()[0].is_multiple_of(2);
                        let failure =
                            if is_even { RunFailure::NotShowable } else { RunFailure::Declined };
                        let give_up = Action::GiveUp { job: *job, failure };
                        let is_placed = entry.live().any(|run| run.node == node(number));
                        if is_placed && u.ratio(1, 2)? { Some(give_up) } else { honest }
                    }
                };
                actions.extend(action);
            }
            let actions = actions.into_iter().map(|action| self.world.vouched(action));
            txs.extend(self.world.txs(voice(number), actions.collect()));
        }
        txs.extend(self.court(u, is_healing)?);
        if !is_healing {
            txs.extend(self.outsiders(u, &open)?);
        }
        Ok(txs)
    }

    /// What clients, a false challenger and validators do.
    fn outsiders(
        &self,
        u: &mut Unstructured<'_>,
        open: &[(JobId, JobEntry, Option<DisputeEntry>)],
    ) -> Result<Vec<CheckedTx>> {
        let mut txs = Vec::new();
        if open.len() < JOBS_OPEN_MAX && u.ratio(1, 2)? {
            let now = self.world.env.tick;
            let specs = (0..u.int_in_range(1..=3)?).map(|_| any_spec(u, now));
            let specs = specs.collect::<Result<_>>()?;
            let ask = self.world.vouched(submit(specs));
            txs.push(self.world.tx(account(CLIENT), ask));
        } else if !open.is_empty() && u.ratio(1, 4)? {
            let (job, ..) = u.choose(open)?;
            txs.push(self.world.tx(account(CLIENT), Action::CancelJob { job: *job }));
        }
        let (status, challenger) = (JobStatus::Checking, account(CHALLENGER));
        let checking = open.iter().find(|(_, entry, _)| entry.status == status);
        let mut actions = Vec::new();
        if let Some((job, ..)) = checking.filter(|_| u.ratio(1, 6).unwrap_or(false)) {
            actions.push(Action::Object { job: *job });
        }
        for (job, _, dispute) in open {
            let is_mine = dispute.as_ref().is_some_and(|it| it.challenger == challenger);
            if is_mine && u.ratio(2, 3)? {
                let child = u.int_in_range(0..=17)?;
                actions.push(Action::PickClaim { job: *job, child });
            }
        }
        txs.extend(self.world.txs(challenger, actions));
        let silent = (0..).zip(&self.cast).find(|(_, it)| **it == Character::Silent);
        if let Some((number, _)) = silent
            && u.ratio(1, 10)?
        {
            let nodes = NodeSet::new(vec![node(number)]).expect("one node");
            let epoch = self.world.env.tick.get() / history_params().absence_epoch.get();
            for seat in 0..3 {
                let action = Action::ReportAbsent { epoch, nodes: nodes.clone() };
                txs.push(self.world.tx(owner(seat), action));
            }
        }
        Ok(txs)
    }

    /// Whether a package opens: inputs mostly do, and so does a result unless only liars gave it.
    fn opens(&self, job: JobId, about: Message) -> bool {
        let entry = self.world.known(job);
        match about {
            Message::Inputs => inputs_open(&entry.spec),
            Message::Result => {
                let is_liar =
                    |id: &NodeId| self.cast[usize::from(number_of(id))] == Character::Liar;
                entry.live().any(|run| !is_liar(&run.node))
            }
        }
    }

    /// A liar complains about inputs whether they open or not.
    fn false_complaint(
        &self,
        u: &mut Unstructured<'_>,
        number: u8,
        open: &[(JobId, JobEntry, Option<DisputeEntry>)],
    ) -> Result<Option<Action>> {
        let is_placed = |entry: &JobEntry| {
            entry.live().any(|it| it.node == node(number) && it.state == RunState::Placed)
        };
        let mine = open.iter().find(|(_, entry, _)| is_placed(entry));
        let complain = |job: JobId| Action::Complain { job, about: Message::Inputs, key: [1; 32] };
        let job = mine.map(|(job, ..)| *job).filter(|_| u.ratio(1, 4).unwrap_or(false));
        Ok(job.map(complain))
    }

    /// What validators say about complaints: three the truth, if they are there, one its opposite.
    /// The client complains about any result now and then.
    fn court(&self, u: &mut Unstructured<'_>, is_healing: bool) -> Result<Vec<CheckedTx>> {
        let jobs: Vec<JobId> = self.world.ids(Noun::Job).into_iter().map(JobId::new).collect();
        let mut votes: BTreeMap<u8, Vec<Action>> = BTreeMap::new();
        let mut complaints = Vec::new();
        for job in jobs {
            let complaint = self.world.complaint(&job).filter(|it| it.is_open());
            for seat in 0..4 {
                let place = |key| {
                    let seats = self.world.rules.genesis.validators();
                    seats.iter().position(|seat| seat.key == key).expect("a seat")
                };
                let place = place(vote_key(seat));
                let is_new =
                    |it: &&ComplaintEntry| !it.opens.contains(place) && !it.fails.contains(place);
                if let Some(complaint) = complaint.as_ref().filter(is_new)
                    && (is_healing || u.ratio(1, 2)?)
                {
                    let opens = self.opens(job, complaint.about) != (seat == 3);
                    let vote = Action::JudgeComplaint { job, opens };
                    votes.entry(seat).or_default().push(vote);
                }
            }
            let is_settled = self.world.status(job) == JobStatus::Settled;
            if !is_healing && is_settled && u.ratio(1, 8)? {
                let about = Message::Result;
                complaints.push(Action::Complain { job, about, key: [2; 32] });
            }
        }
        let votes = votes.into_iter().flat_map(|(seat, all)| self.beside(owner(seat), all));
        let mut txs: Vec<CheckedTx> = votes.collect();
        txs.extend(self.beside(account(CLIENT), complaints));
        Ok(txs)
    }

    /// Transactions in a lane of their own, beside what the sender does otherwise.
    fn beside(&self, sender: AccountId, actions: Vec<Action>) -> Vec<CheckedTx> {
        let lane = Lane::new(1).expect("a lane");
        let first = self.world.account(&sender).lanes.next(lane).get();
        let numbered = actions.into_iter().zip(first..);
        numbered
            .map(|(action, number)| {
                let nonce = Nonce::new(number);
                let body = self.world.body(sender, action);
                self.world.sign(TxBody { lane, nonce, ..body })
            })
            .collect()
    }

    /// A block in which everybody acts; all certificates come, or some.
    fn block(&mut self, u: &mut Unstructured<'_>, is_healing: bool) -> Result<()> {
        let span = if is_healing { 1_000 } else { 100 + 100 * u.int_in_range(0..=15)? };
        self.world.env.tick = self.world.env.parent_tick;
        self.world.wait(span);
        let last = self.world.cursor().beacon.get();
        let most = self.world.env.height.get() - 1 - last;
        let least = self.world.env.certificates.len() as u64;
        let count = if is_healing { most } else { u.int_in_range(least..=most.clamp(least, 4))? };
        self.world.env.certificates =
            (last + 1..=last + count).map(|height| self.world.certificate(height)).collect();
        let candidates = self.actions(u, is_healing)?;
        let built = self.world.build(&candidates);
        for (_, reason) in built.refused {
            // What follows a result that nobody waits for lacks its nonce.
            assert!(matches!(reason, Reason::ResultNotAwaited | Reason::NonceTooHigh));
            *self.happened.entry(reason).or_default() += 1;
        }
        let txs: Vec<_> =
            built.included.into_iter().map(|place| candidates[place].clone()).collect();
        let applied = self.world.block(&txs);
        self.remember(&applied, &txs);
        Ok(())
    }

    /// Takes note of what happened, and holds it against what must not.
    fn remember(&mut self, applied: &Applied, txs: &[CheckedTx]) {
        for (receipt, tx) in applied.receipts.iter().zip(txs) {
            *self.happened.entry(receipt.status.reason()).or_default() += 1;
            if let (Action::SubmitJobs { specs, .. }, Status::Applied) =
                (&tx.body().action, receipt.status)
            {
                let count = u8::try_from(specs.as_slice().len()).expect("few");
                self.jobs.extend((0..count).map(|place| JobId::of(receipt.tx, place)));
            }
        }
        let in_receipts = applied.receipts.iter().flat_map(|receipt| &receipt.events);
        // What fell due happened before the transactions, placements after them.
        for event in applied.block_receipt.events.iter().chain(in_receipts) {
            *self.happened.entry(event.reason()).or_default() += 1;
            self.judge(event);
        }
    }

    fn judge(&mut self, event: &Event) {
        if let Event::NodeFined { node, .. } | Event::NodeSlashed { node, .. } = event {
            assert!(!self.is_honest(node), "an honest node never loses stake: {event:?}");
        }
        if let Event::CheckDrawn { job, node, .. } = event {
            self.drawn.entry(*job).or_default().insert(*node);
        }
        if let Event::RunEnded { job, .. } = event {
            self.drawn.remove(job);
        }
        if let Event::JobSettled { job, output, .. } = event {
            let spec = self.world.known(*job).spec;
            let drawn = self.drawn.remove(job).unwrap_or_default();
            let is_lie = *output != right_result(&spec).output;
            let has_key = |node: &NodeId| !is_withheld(&spec, number_of(node));
            let is_checked = drawn.iter().any(|node| self.is_honest(node) && has_key(node));
            assert!(!(is_lie && is_checked), "no lie passes an honest checker with the key");
        }
    }

    /// Nothing is left of what was begun.
    fn check_rest(&self) {
        for job in &self.jobs {
            let entry = self.world.job(job);
            assert!(entry.is_none_or(|entry| entry.status.is_final()), "{job} has not ended");
        }
        assert_eq!(self.world.totals().escrow, Amount::ZERO);
        for noun in [Noun::Dispute, Noun::Complaint, Noun::Job] {
            assert_eq!(self.world.ids(noun).len(), 0, "{noun:?} left");
        }
        for (number, character) in (0..).zip(&self.cast) {
            let stake = self.world.stake(&account(number));
            assert_eq!(stake.exposed, Amount::ZERO);
            if *character == Character::Honest {
                assert_eq!(stake.active.units(), STAKE);
            }
            if let Some(node) = self.world.node(&node(number)) {
                assert!(node.runs.as_slice().is_empty() && node.checks == 0);
            }
        }
    }
}

/// Whether the inputs of a job open: those of an eighth of all jobs do not.
fn inputs_open(spec: &JobSpec) -> bool {
    let tg_types::Work::Tensor { inputs, .. } = spec.work else {
        return true;
    };
    inputs.as_bytes()[0] % 8 != 0
}

/// Whether the owner of a job keeps its key from a node.
fn is_withheld(spec: &JobSpec, number: u8) -> bool {
    spec.key_escrow == KeyEscrow::None && spec.package.as_bytes()[0] >> (number % 8) & 1 == 1
}

fn any_spec(u: &mut Unstructured<'_>, now: Tick) -> Result<JobSpec> {
    let tier = match u.int_in_range(0..=9)? {
        0 => Tier::Trusted,
        1 | 2 => Tier::Audit,
        3 | 4 => Tier::Sync,
        5 => Tier::Proof { weights: Hash32::new([5; 32]) },
        6 => Tier::Rerun,
        7 => {
            let (inputs, is_secret) = (Hash32::new([6; 32]), u.arbitrary()?);
            let weights = if is_secret { SECRET.id() } else { Hash32::new([5; 32]) };
            Tier::Zk { weights, inputs, is_secret }
        }
        _ => Tier::Redundant { replicas: u.int_in_range(2..=4)? },
    };
    let mut spec = JobSpec {
        run_max: DurationMs::new(u.int_in_range(1..=2_000)?),
        expires_after: DurationMs::new(u.int_in_range(2_000..=20_000)?),
        pay: units(u.int_in_range(1_000..=50_000)?),
        ..spec(tier)
    };
    if let tg_types::Work::Tensor { inputs, .. } = &mut spec.work {
        *inputs = Hash32::new([u.arbitrary()?; 32]);
    }
    if u.ratio(1, 3)? {
        // The first byte says to whom the owner does not give the key.
        let some: u8 = u.arbitrary()?;
        let from = *u.choose(&[0, 0xff, some])?;
        spec.key_escrow = KeyEscrow::None;
        spec.package = Hash32::new([from; 32]);
    } else if tier.ends_with_its_run() && u.ratio(2, 3)? {
        let within = DurationMs::new(u.int_in_range(8_000..=18_000)?);
        spec.expires_after = DurationMs::new(20_000);
        spec.promise = Some(now.plus(within).expect("early"));
    }
    Ok(spec)
}

/// Blocks until the randomness is used up; then the network comes to rest.
fn any_history(u: &mut Unstructured<'_>) -> Result<Happened> {
    let mut history = History::new(u)?;
    while !u.is_empty() {
        history.block(u, false)?;
    }
    for _ in 0..HEALING_BLOCKS {
        history.block(u, true)?;
    }
    history.check_rest();
    Ok(history.happened)
}

/// Goal: whatever nodes do, every job ends, every bond and escrow is freed, money is conserved, no
/// honest node loses anything, and no lie passes an honest checker. Method: random casts and
/// blocks, held against the ledger's own audit, then a rest in which only the honest act.
#[test]
fn prop_jobs_end_and_the_honest_lose_nothing() {
    arbtest::arbtest(|u| any_history(u).map(drop))
        .size_min(1 << 9)
        .size_max(1 << 12)
        .budget_ms(6_000);
}

/// What the histories below must have seen.
const EXPECTED: [Reason; 54] = [
    Reason::PromiseGiven,
    Reason::PromiseTooShort,
    Reason::PromiseBroken,
    Reason::ClientCompensated,
    Reason::KeyLacked,
    Reason::CheckExcused,
    Reason::ResultUnchecked,
    Reason::ResultProved,
    Reason::ResultNotAwaited,
    Reason::ResultNotShowable,
    Reason::Complained,
    Reason::ComplaintJudged,
    Reason::ComplaintUpheld,
    Reason::ComplaintRejected,
    Reason::ComplaintLapsed,
    Reason::PackageDoesNotOpen,
    Reason::JobPlaced,
    Reason::RunGivenUp,
    Reason::RunMissed,
    Reason::RunLost,
    Reason::ResultCommitted,
    Reason::ResultRevealed,
    Reason::CheckDrawn,
    Reason::ResultNotDrawn,
    Reason::CheckCommitted,
    Reason::CheckPassed,
    Reason::CheckMissed,
    Reason::CheckRefused,
    Reason::DisputeOpened,
    Reason::DisputeAnswered,
    Reason::ClaimPicked,
    Reason::DefencePassed,
    Reason::ResultRefuted,
    Reason::ObjectionRefuted,
    Reason::ResultUndefended,
    Reason::ObjectionDropped,
    Reason::RunsDisagreed,
    Reason::JobSettled,
    Reason::JobFailed,
    Reason::JobExpired,
    Reason::JobCancelled,
    Reason::ProviderPaid,
    Reason::CheckerPaid,
    Reason::NodeSlashed,
    Reason::NodeFined,
    Reason::NodeAbsent,
    Reason::NodeSilent,
    Reason::NotDisputable,
    Reason::DisputeTurn,
    Reason::EvidenceVoid,
    Reason::AnswerWrong,
    Reason::JobClosed,
    Reason::RunStopped,
    Reason::StopTooLate,
];

/// Goal: the histories above are not idle. Method: histories from fixed bytes, in which everything
/// must happen that can happen to a job.
#[test]
fn histories_of_jobs_see_everything() {
    let mut happened = Happened::new();
    for part in fixed_bytes("work", 20 << 11).chunks(1 << 11) {
        for (reason, count) in any_history(&mut Unstructured::new(part)).expect("bytes suffice") {
            *happened.entry(reason).or_default() += count;
        }
    }
    let unseen: Vec<_> = EXPECTED.iter().filter(|it| !happened.contains_key(it)).collect();
    assert!(unseen.is_empty(), "not seen: {unseen:?} among {happened:?}");
}
