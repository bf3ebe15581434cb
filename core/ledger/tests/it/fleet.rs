//! A network with nodes that work: what a client, a provider, a checker and a challenger do, as one
//! call each.

use tg_ledger::{Applied, Charges, Check, Draw, JobEntry, RunState, charges};
use tg_types::hash::sha256;
use tg_types::tx::{OpenedCheck, OpenedResult, Sealed};
use tg_types::{
    AccountId, Action, Bytes, CheckAnswer, Domain, DurationMs, Event, Hash32, JobId, JobSpec,
    JobStatus, KeyEscrow, List, Needs, NetworkKind, NodeDescriptor, NodeId, Params, Reason,
    ResultClaim, ResultKey, ResultVerifier as _, RunResult, Status, StepJudge as _, Tier, TileLot,
    Work,
};

use crate::judge::{TestJudge, program_id, proof_of, right_result, tile_answer, trace_of};
use crate::world::*;

/// The program of all jobs here.
pub(crate) const PROGRAM: &[u8] = b"prog one";
/// What a run is paid.
pub(crate) const PAY: u64 = 100_000;
/// What every owner of a node has at stake.
pub(crate) const STAKE: u64 = 10_000_000;
/// Who asks for jobs; owns no node.
pub(crate) const CLIENT: u8 = 11;
/// Who objects; owns no node.
pub(crate) const CHALLENGER: u8 = 10;

/// Parameters that let a block do all there is to do.
pub(crate) fn busy_params() -> Params {
    let mut params = params();
    params.due_per_block_max = 1_000;
    params.jobs.placements_per_block_max = 64;
    params.jobs.draws_per_block_max = 64;
    params.jobs.sync_checkers = 3;
    params
}

/// What a node offers: runs of [`spec`] cost about ten times the price.
pub(crate) fn offer(price: u64) -> NodeDescriptor {
    NodeDescriptor {
        price_per_hour: units(36_000 * price),
        price_per_tera: units(2_000_000_000 * price),
        ..descriptor(price)
    }
}

/// A job of this tier on [`PROGRAM`].
pub(crate) fn spec(tier: Tier) -> JobSpec {
    JobSpec {
        work: Work::Tensor {
            program: program_id(PROGRAM),
            weights: Hash32::new([7; 32]),
            inputs: Hash32::new([8; 32]),
            salt: Hash32::new([6; 32]),
        },
        package: Hash32::new([9; 32]),
        package_bytes: 1_000,
        key_escrow: KeyEscrow::Validators,
        result_key: ResultKey::NONE,
        needs: Needs::ANY,
        tier,
        pay: units(PAY),
        run_max: DurationMs::SECOND,
        expires_after: DurationMs::new(20_000),
        promise: None,
        checkpoint: None,
        nodes: 1,
    }
}

/// The right result of [`spec`].
pub(crate) fn right() -> RunResult {
    right_result(&spec(Tier::Trusted))
}

/// A wrong result; every number gives another one.
pub(crate) fn wrong(number: u8) -> RunResult {
    let output = Hash32::new([number; 32]);
    RunResult { output, trace: trace_of(&output).root(), ..right() }
}

/// What a job of this tier costs.
pub(crate) fn prices(params: &Params, tier: Tier) -> Charges {
    let multiply_adds = TestJudge.facts(PROGRAM).expect("a program").multiply_adds;
    let extent = params.jobs.extent(tier, multiply_adds);
    charges(params, &spec(tier), extent).expect("payable")
}

/// As a node: commit to a result.
pub(crate) fn commit_as(number: u8, job: JobId, result: &RunResult) -> Action {
    let seal = result.seal(&node(number), &[number; 32]);
    Action::CommitResults { seals: List::new(vec![Sealed { job, seal }]).expect("one") }
}

/// As a node: show a result.
pub(crate) fn reveal_as(number: u8, job: JobId, result: &RunResult) -> Action {
    let opened = OpenedResult { job, result: *result, salt: [number; 32] };
    Action::RevealResults {
        results: List::new(vec![opened]).expect("one"),
        vouchers: List::default(),
    }
}

/// What a result of a job claims when a node shows it.
pub(crate) fn claim_as(
    domain: &Domain,
    (number, job, run): (u8, JobId, u8),
    spec: &JobSpec,
    result: &RunResult,
) -> ResultClaim {
    let Work::Tensor { program, weights, inputs, .. } = spec.work else {
        unreachable!("a tensor program");
    };
    let (genesis, node, output) = (domain.genesis, node(number), result.output);
    let by = spec.tier.shown_by(run).expect("shown at once");
    ResultClaim { genesis, job, node, program, weights, inputs, output, by }
}

/// As a node: show a result with these bytes.
pub(crate) fn show_as(job: JobId, spec: &JobSpec, result: &RunResult, shown: Vec<u8>) -> Action {
    let by = spec.tier.shown_by(0).expect("shown at once");
    let cost = TestJudge.costs(PROGRAM).by(by).expect("can be shown");
    let result = RunResult { trace: Hash32::new(sha256(&[&shown])), ..*result };
    let (shown, vouchers) = (Bytes::new(shown).expect("short"), List::default());
    Action::ProveResult { job, result, cost, shown, vouchers }
}

/// What somebody answers in a round who has computed the run.
pub(crate) fn answer_in(round: u8, result: &RunResult) -> CheckAnswer {
    let key = trace_of(&result.output).key(round).expect("a round");
    CheckAnswer::Key { trace: result.trace, key }
}

/// What somebody answers who has done what a check asks for.
pub(crate) fn answer_to(check: &Check, result: &RunResult) -> CheckAnswer {
    let Some(lot) = check.lot else { return answer_in(check.round, result) };
    let lot = TileLot { lot, tiles: job_params().audit_tiles };
    let tiles = Bytes::new(tile_answer(&result.trace, &lot)).expect("short");
    CheckAnswer::Tiles { trace: result.trace, tiles }
}

/// As a node: commit to this answer.
pub(crate) fn seal_answer(number: u8, job: JobId, answer: &CheckAnswer) -> Action {
    let seal = answer.seal(&node(number), &[number; 32]);
    Action::CommitChecks { seals: List::new(vec![Sealed { job, seal }]).expect("one") }
}

/// As a node: show this answer.
pub(crate) fn show_answer(number: u8, job: JobId, answer: &CheckAnswer) -> Action {
    let opened = OpenedCheck { job, answer: answer.clone(), salt: [number; 32] };
    Action::RevealChecks { answers: List::new(vec![opened]).expect("one") }
}

/// As a node: commit to an answer in the first round.
pub(crate) fn vouch_as(number: u8, job: JobId, result: &RunResult) -> Action {
    vouch_in(0, number, job, result)
}

/// As a node: commit to an answer in a round.
pub(crate) fn vouch_in(round: u8, number: u8, job: JobId, result: &RunResult) -> Action {
    seal_answer(number, job, &answer_in(round, result))
}

/// As a node: show an answer of the first round.
pub(crate) fn open_as(number: u8, job: JobId, result: &RunResult) -> Action {
    open_in(0, number, job, result)
}

/// As a node: show an answer of a round.
pub(crate) fn open_in(round: u8, number: u8, job: JobId, result: &RunResult) -> Action {
    show_answer(number, job, &answer_in(round, result))
}

/// As a party of a dispute: show this evidence.
pub(crate) fn judge_by(job: JobId, evidence: &[u8]) -> Action {
    Action::JudgeDispute { job, evidence: Bytes::new(evidence.to_vec()).expect("short") }
}

/// As a provider: answer in a dispute.
pub(crate) fn answer_by(job: JobId, answer: Vec<u8>) -> Action {
    Action::AnswerDispute { job, answer: Bytes::new(answer).expect("short") }
}

/// A piece of a program.
pub(crate) fn piece(program: &[u8], piece: u8, pieces: u8, bytes: &[u8]) -> Action {
    let bytes = Bytes::new(bytes.to_vec()).expect("short");
    Action::PutProgram { program: program_id(program), piece, pieces, bytes }
}

/// The number of a node.
pub(crate) fn number_of(id: &NodeId) -> u8 {
    (0..FUNDED).find(|number| node(*number) == *id).expect("a node of the tests")
}

impl World {
    /// A local network with so many nodes: each has its own owner with the same number, and the
    /// cheapest comes first.
    pub(crate) fn staffed(nodes: u8) -> Self {
        Self::staffed_with(busy_params(), NetworkKind::Local, nodes)
    }

    /// As [`World::staffed`], with other parameters and of any kind.
    pub(crate) fn staffed_with(params: Params, kind: NetworkKind, nodes: u8) -> Self {
        let mut world = Self::of_kind(params, kind);
        world.block(&[]);
        let put = world.tx(account(CLIENT), piece(PROGRAM, 0, 1, PROGRAM));
        let mut txs = vec![put];
        for number in 0..nodes {
            txs.extend(world.staff(number, number, STAKE));
        }
        let applied = world.block(&txs);
        assert!(applied.receipts.iter().all(|receipt| receipt.status == Status::Applied));
        world
    }

    /// Transactions by which an account stakes and offers a node.
    pub(crate) fn staff(&self, number: u8, owner: u8, stake: u64) -> Vec<tg_types::CheckedTx> {
        let Action::RegisterNode { node, consent, .. } =
            self.registration(number, account(owner), 1)
        else {
            unreachable!("a registration");
        };
        let descriptor = offer(u64::from(number) + 1);
        let register = Action::RegisterNode { node, consent, descriptor };
        self.txs(account(owner), vec![Action::Stake { amount: units(stake) }, register])
    }

    /// The client submits a job.
    pub(crate) fn ask(&mut self, spec: JobSpec) -> JobId {
        let receipt = self.run(account(CLIENT), submit(vec![spec]));
        assert_eq!(receipt.status, Status::Applied);
        JobId::of(receipt.tx, 0)
    }

    /// A node does something that must go through.
    pub(crate) fn act(&mut self, number: u8, action: Action) -> Vec<Event> {
        self.succeed(voice(number), action)
    }

    /// A node does something that must be refused, and changes nothing.
    pub(crate) fn refused(&mut self, number: u8, action: Action, reason: Reason) {
        self.fail(voice(number), action, reason, tg_types::Amount::ZERO);
    }

    /// A node commits to a result and shows it.
    pub(crate) fn deliver(&mut self, number: u8, job: JobId, result: &RunResult) -> Vec<Event> {
        self.act(number, commit_as(number, job, result));
        self.act(number, reveal_as(number, job, result))
    }

    /// As a node: show a result of a job with what an honest run shows.
    pub(crate) fn prove_as(&self, number: u8, job: JobId, result: &RunResult) -> Action {
        let JobEntry { spec, .. } = &self.known(job);
        let run = self.known(job).run_number(&node(number)).unwrap_or(0);
        let claim = claim_as(&self.rules.domain, (number, job, run), spec, result);
        show_as(job, spec, result, proof_of(&claim))
    }

    /// A block that carries all certificates there are.
    pub(crate) fn beat(&mut self) -> Applied {
        let first = self.cursor().beacon.get() + 1;
        let end = self.env.height.get();
        self.env.certificates = (first..end).map(|height| self.certificate(height)).collect();
        self.block(&[])
    }

    /// Blocks until the beacon of everything that was committed to so far has spoken; gives what
    /// the blocks did by themselves.
    pub(crate) fn draw(&mut self) -> Vec<Event> {
        (0..3).flat_map(|_| self.beat().block_receipt.events).collect()
    }

    /// Lets time pass without transactions; gives what the blocks did by themselves.
    pub(crate) fn pass(&mut self, span_ms: u64) -> Vec<Event> {
        let step = 1_000;
        let mut events = Vec::new();
        for _ in 0..span_ms / step {
            self.wait(step - 100);
            events.extend(self.block(&[]).block_receipt.events);
        }
        events
    }

    /// A job that must be there.
    pub(crate) fn known(&self, job: JobId) -> JobEntry {
        self.job(&job).expect("the job is there")
    }

    /// How far a job has come.
    pub(crate) fn status(&self, job: JobId) -> JobStatus {
        self.known(job).status
    }

    /// The nodes that run a job.
    pub(crate) fn runners(&self, job: JobId) -> Vec<u8> {
        self.known(job).live().map(|run| number_of(&run.node)).collect()
    }

    /// The nodes that were drawn to check a job and have neither missed nor been excused.
    pub(crate) fn checkers(&self, job: JobId) -> Vec<u8> {
        let entry = self.known(job);
        let checks = entry.checks.as_slice().iter();
        let checks = checks.filter(|check| check.is_bonded());
        checks.map(|check| number_of(&check.node)).collect()
    }

    /// Why the runs of a job ended, in the order in which they were placed.
    pub(crate) fn ended(&self, job: JobId) -> Vec<Reason> {
        let entry = self.known(job);
        let why = |run: &tg_ledger::Run| match run.state {
            RunState::Ended { why } => Some(why),
            RunState::Placed | RunState::Committed { .. } | RunState::Revealed { .. } => None,
        };
        entry.runs.as_slice().iter().filter_map(why).collect()
    }

    /// What a job of tier sync has after its result was shown and its checkers drawn.
    pub(crate) fn checked(&mut self, result: &RunResult) -> (JobId, u8, Vec<u8>) {
        let job = self.ask(spec(Tier::Sync));
        let [provider] = self.runners(job)[..] else {
            unreachable!("one run");
        };
        self.deliver(provider, job, result);
        self.draw();
        assert!(matches!(self.known(job).draw, Draw::Drawn { .. }));
        (job, provider, self.checkers(job))
    }

    /// All checkers vouch for a result.
    pub(crate) fn vouch(&mut self, job: JobId, checkers: &[u8], result: &RunResult) -> Vec<Event> {
        for number in checkers {
            let answer = answer_to(&self.check_of(job, *number), result);
            self.act(*number, seal_answer(*number, job, &answer));
        }
        let open = |number: &u8| {
            let answer = answer_to(&self.check_of(job, *number), result);
            self.act(*number, show_answer(*number, job, &answer))
        };
        checkers.iter().flat_map(open).collect()
    }

    /// The last check of a job by a node.
    pub(crate) fn check_of(&self, job: JobId, number: u8) -> Check {
        let entry = self.known(job);
        let mut checks = entry.checks.as_slice().iter().rev();
        checks.find(|check| check.node == node(number)).expect("was drawn").clone()
    }

    /// The round in which a node was drawn last.
    pub(crate) fn round_of(&self, job: JobId, number: u8) -> u8 {
        let entry = self.known(job);
        let checks = entry.checks.as_slice().iter();
        let mine = checks.filter(|check| check.node == node(number));
        mine.map(|check| check.round).max().unwrap_or(0)
    }

    /// What an owner has, at stake or free.
    pub(crate) fn wealth(&self, id: &AccountId) -> u64 {
        self.balance(id) + self.stake(id).active.units()
    }
}
