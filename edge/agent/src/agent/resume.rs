//! What an agent takes up again after it died, or after it lost sight of the chain. Its runs stand
//! in the record of its node. What it owes as a checker does not: its notes say in which jobs that
//! is, and the jobs themselves say how far it has come.

use super::books::Attempt;
use super::capacity::Question;
use super::check::Checked;
use super::notes::Duty;
use super::patience::{self, Look};
use super::{Arc, JobEntry, JobId, JobStatus, NodeEntry, Ran, RunState, State, Turn, keys};
use tg_gateway::GatewayError;
use tg_ledger::{Check, CheckState, DisputeEntry, Run};
use tg_types::{NodeId, Tick};

/// What is to be done about a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It is over.
    Forget,
    /// Nothing now, but there may be.
    Wait,
    /// Compute.
    Check,
    /// Commit to the answer.
    Commit,
    /// Show it.
    Show,
    /// Answer in the place of a provider that did not.
    StandIn,
}

/// What a node that was drawn to check a job does next.
fn step(
    entry: &JobEntry,
    dispute: Option<&DisputeEntry>,
    node: &NodeId,
    duty: Option<&Duty>,
) -> Step {
    let mut checks = entry.checks.as_slice().iter().rev();
    let ours = checks.find(|check| check.node == *node).map(|check| check.state);
    // What was vouched for may have fallen since, and another result be there to be checked.
    let is_vouched = match duty {
        Some(Duty::Vouched { answer, .. }) => {
            entry.result().is_some_and(|result| result.trace == answer.trace())
        }
        Some(Duty::Check) | None => false,
    };
    let Some(state) = ours.filter(|_| !entry.status.is_final()) else { return Step::Forget };
    if let Some(dispute) = dispute {
        let is_turn = dispute.turn == Turn::StandIns;
        let is_ours = is_turn && entry.stand_ins().any(|check| check.node == *node);
        return if is_ours { Step::StandIn } else { Step::Wait };
    }
    match state {
        CheckState::Missed | CheckState::Excused => Step::Forget,
        CheckState::Drawn | CheckState::Waiting if is_vouched => Step::Commit,
        CheckState::Drawn | CheckState::Waiting if duty.is_some() => Step::Check,
        CheckState::Committed { .. } if is_vouched => Step::Show,
        CheckState::Drawn
        | CheckState::Waiting
        | CheckState::Committed { .. }
        | CheckState::Passed
        | CheckState::Refused => Step::Wait,
    }
}

/// Whether somebody has answered in the provider's place, or is to.
fn is_undefended(dispute: &DisputeEntry) -> bool {
    dispute.turn == Turn::StandIns || dispute.answered_by != dispute.node
}

impl State {
    /// Takes up the runs that the node has and nobody works on, ends those that it has no more, and
    /// shows what it promised.
    pub(super) async fn catch_up(&mut self) -> Result<(), GatewayError> {
        let gateway = Arc::clone(&self.config.gateway);
        self.forget_ended().await?;
        let record = gateway.entry::<NodeEntry>(keys::node(&self.node)).await?;
        if record.as_ref().is_none_or(|record| record.absent.is_some()) {
            self.config.registration.look_soon();
        }
        if let Some(record) = &record {
            if let Some(question) = Question::of(&record.capacity.step) {
                self.begin_fill(question);
            }
            for job in record.runs.as_slice() {
                let entry = gateway.entry::<JobEntry>(keys::job(job)).await?;
                if let Some(entry) = entry {
                    self.take_up_run(*job, &entry).await;
                }
            }
            self.take_up_checks().await?;
        }
        let runs = record.as_ref().map_or(&[][..], |record| record.runs.as_slice());
        if !self.books.wanted_besides(runs).is_empty() {
            self.drop_ended().await;
        }
        Ok(())
    }

    /// Takes up a run that the node has by its record, and what it was asked while nobody heard.
    async fn take_up_run(&mut self, job: JobId, entry: &JobEntry) {
        let Some(attempt) = Attempt::of(entry, &self.node) else { return };
        let Some(run) = entry.live().find(|run| run.node == self.node) else { return };
        if self.books.is_outdated(&job, attempt) {
            self.break_run(&job);
        }
        let is_committed = matches!(run.state, RunState::Committed { .. });
        if is_committed && self.books.stale.contains_key(&job) {
            self.books.attempts.insert(job, attempt);
            self.books.note_commitment(&job);
            self.face_stale(job).await;
        }
        if let Some(ran) = self.books.runs.get(&job) {
            if is_committed {
                self.outbox.reveal(job, &ran.note).await;
            }
            return;
        }
        match run.state {
            RunState::Placed => self.run_or_yield(job, run).await,
            RunState::Committed { .. } | RunState::Revealed { .. } => {
                self.remember(job, entry).await;
            }
            RunState::Ended { .. } => {}
        }
    }

    async fn run_or_yield(&mut self, job: JobId, run: &Run) {
        self.run_or_show(job, run.begun).await;
        if run.yields_to.is_some() {
            self.yield_run(job);
        }
    }

    /// Shows a result that was proven before, or begins the run.
    async fn run_or_show(&mut self, job: JobId, since: Tick) {
        if self.books.shown.contains(&job) {
            return; // every stream of blocks begins with all our runs
        }
        match self.notes.find_proof(&job).and_then(|proven| proven.whole) {
            Some(proof) => {
                self.books.shown.insert(job);
                self.outbox.prove(proof).await;
            }
            None => self.begin_run(job, since),
        }
    }

    /// Takes up a result that was committed to before the agent died.
    async fn remember(&mut self, job: JobId, entry: &JobEntry) {
        let Some(note) = self.notes.find(&job) else { return };
        self.outbox.reveal(job, &note).await;
        let ran = Ran { run: None, note, proved: None, key: None, is_committed: true };
        self.books.runs.insert(job, ran);
        self.books.attempts.extend(Attempt::of(entry, &self.node).map(|attempt| (job, attempt)));
        if entry.status == JobStatus::Disputed {
            self.defend(job);
        }
    }

    /// Ends what we run and the node does not have any more. The validator that is asked may be a
    /// block behind the one that told of a run, so the record is looked at for a while.
    async fn drop_ended(&mut self) {
        let (gateway, books, key) = (&self.config.gateway, &self.books, keys::node(&self.node));
        let look = || async move {
            let record = gateway.entry::<NodeEntry>(key).await?;
            let runs = record.map_or_else(Vec::new, |record| record.runs.as_slice().to_vec());
            let ended = books.wanted_besides(&runs);
            Ok(if ended.is_empty() { Look::Found(ended) } else { Look::SoFar(ended) })
        };
        match patience::until(patience::WINDOW, patience::PAUSE, look).await {
            Ok(ended) => ended.iter().for_each(|job| self.drop_run(job)),
            Err(error) => tracing::debug!(%error, "runs that may have ended go on"),
        }
    }

    /// Takes up what the node owes as a checker: all of it once after the agent has started, later
    /// only where somebody must be stood in for, as everything else goes on by itself.
    pub(super) async fn take_up_checks(&mut self) -> Result<(), GatewayError> {
        while let Some(job) = self.noted.last().copied() {
            self.take_up(job).await?;
            self.noted.pop(); // not before: a validator that does not answer is asked again
        }
        let vouched: Vec<JobId> = self.books.vouched.keys().copied().collect();
        for job in vouched {
            let Some((entry, dispute)) = self.disputed(&job).await? else { continue };
            if step(&entry, dispute.as_ref(), &self.node, None) == Step::StandIn
                && self.books.undefended.insert(job)
            {
                self.stand_in(job);
            }
        }
        Ok(())
    }

    /// Forgets noted jobs that have ended, also while nobody told us.
    pub(super) async fn forget_ended(&mut self) -> Result<(), GatewayError> {
        for job in self.notes.jobs() {
            let entry = self.config.gateway.entry::<JobEntry>(keys::job(&job)).await?;
            if entry.is_some_and(|entry| entry.status.is_final()) {
                self.forget(&job);
            }
        }
        Ok(())
    }

    /// Whether a check of this node may still have to be spoken of. Who cannot look says it rather
    /// twice than not at all: the ledger counts it once.
    pub(super) async fn is_check_unsaid(&self, job: &JobId) -> bool {
        let entry = self.config.gateway.entry::<JobEntry>(keys::job(job)).await.ok().flatten();
        let is_said = |check: &Check| check.node == self.node && check.state != CheckState::Drawn;
        !entry.is_some_and(|entry| entry.checks.as_slice().iter().any(is_said))
    }

    /// A job, with the dispute about it if there is one.
    async fn disputed(
        &self,
        job: &JobId,
    ) -> Result<Option<(JobEntry, Option<DisputeEntry>)>, GatewayError> {
        let gateway = Arc::clone(&self.config.gateway);
        let Some(entry) = gateway.entry::<JobEntry>(keys::job(job)).await? else { return Ok(None) };
        let dispute = match entry.status {
            JobStatus::Disputed => gateway.entry::<DisputeEntry>(keys::dispute(job)).await?,
            JobStatus::Queued
            | JobStatus::Running
            | JobStatus::Checking
            | JobStatus::Settled
            | JobStatus::Failed
            | JobStatus::Expired
            | JobStatus::Cancelled => None,
        };
        Ok(Some((entry, dispute)))
    }

    /// Goes on with a job of which there are notes.
    async fn take_up(&mut self, job: JobId) -> Result<(), GatewayError> {
        let Some((entry, dispute)) = self.disputed(&job).await? else {
            self.notes.forget_unknown(&job);
            return Ok(());
        };
        if entry.status.is_final() {
            self.notes.forget(&job);
            return Ok(());
        }
        let Some(duty) = self.notes.find_duty(&job) else { return Ok(()) };
        let step = step(&entry, dispute.as_ref(), &self.node, Some(&duty));
        if step == Step::Forget {
            self.notes.forget_duty(&job);
            return Ok(());
        }
        if let Duty::Vouched { answer, salt } = duty
            && step != Step::Check
        {
            self.books.vouched.entry(job).or_default(); // what was computed is computed again
            self.books.checks.insert(job, Checked { answer, salt, run: None, key: None });
        }
        if dispute.as_ref().is_some_and(is_undefended) {
            self.books.undefended.insert(job);
        }
        tracing::info!(%job, ?step, "a check is taken up again");
        match step {
            Step::Forget | Step::Wait => {}
            Step::Check => self.begin_check(job),
            Step::Commit => {
                if let Some(checked) = self.books.checks.get(&job) {
                    let seal = checked.answer.seal(&self.node, &checked.salt);
                    self.outbox.commit_check(job, seal).await;
                }
            }
            Step::Show => self.show(job),
            Step::StandIn => self.stand_in(job),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Duty, Step, is_undefended, step};
    use tg_ledger::{
        Check, CheckState, Checks, DisputeEntry, Draw, JobEntry, Promise, QueueRow, Run, RunState,
        Turn,
    };
    use tg_types::{
        AccountId, Amount, Bytes, CheckAnswer, DurationMs, Extent, Hash32, Height, JobSpec,
        JobStatus, KeyEscrow, List, Needs, NodeId, ResultKey, RunResult, SecretKey, Tick, Tier,
        Work,
    };

    const HASH: Hash32 = Hash32::new([2; 32]);
    const PROVIDER: NodeId = NodeId::new([1; 32]);
    const NODE: NodeId = NodeId::new([3; 32]);

    fn owner() -> AccountId {
        SecretKey::from_seed([1; 32]).public().into()
    }

    fn check(node: NodeId, state: CheckState) -> Check {
        let (deadline, bond) = (Tick::ZERO, Amount::ZERO);
        Check { node, owner: owner(), bond, round: 0, lot: None, deadline, state }
    }

    fn shown() -> Run {
        let result = RunResult { output: HASH, trace: HASH, package: HASH, package_bytes: 1 };
        let state = RunState::Revealed { result, height: Height::FIRST };
        let (bond, deadline) = (Amount::ZERO, Tick::ZERO);
        let (class, begun, took, yields_to) = (None, Tick::ZERO, None, None);
        let owner = owner();
        let (node, gpus) = (PROVIDER, tg_types::GpuSlices::default());
        let asked = None;
        Run { node, owner, bond, class, gpus, asked, begun, took, deadline, yields_to, state }
    }

    fn job(status: JobStatus, state: CheckState, extent: Extent) -> JobEntry {
        let mut checks = Checks::default();
        for check in [check(PROVIDER, CheckState::Passed), check(NODE, state)] {
            checks.push(check).expect("two");
        }
        JobEntry {
            owner: owner(),
            task: None,
            spec: JobSpec {
                work: Work::Opaque { task: HASH },
                package: HASH,
                package_bytes: 1,
                key_escrow: KeyEscrow::Validators,
                result_key: ResultKey::NONE,
                needs: Needs::ANY,
                tier: Tier::Sync,
                pay: Amount::ZERO,
                run_max: DurationMs::SECOND,
                expires_after: DurationMs::SECOND,
                promise: None,
                checkpoint: None,
                nodes: 1,
            },
            escrow: Amount::ZERO,
            submitted: Tick::ZERO,
            expires: Tick::ZERO,
            closed: None,
            status,
            row: QueueRow::default(),
            queued: Tick::ZERO,
            queue_place: None,
            wanted: 1,
            runs: List::new(vec![shown()]).expect("one"),
            extent,
            draw: Draw::Drawn { needed: 2, round: 0 },
            checks,
            promise: Promise::None,
            saved: None,
            saves: 0,
            yield_place: None,
            yields: 0,
            waits_for: None,
            paid: Amount::ZERO,
            is_stopped: false,
            gang_place: None,
        }
    }

    fn dispute(turn: Turn, answered_by: NodeId) -> DisputeEntry {
        DisputeEntry {
            challenger: owner(),
            bond: Amount::ZERO,
            node: PROVIDER,
            round: 0,
            turn,
            deadline: Tick::ZERO,
            claim: Bytes::EMPTY,
            stated_by: PROVIDER,
            answer: None,
            answered_by,
        }
    }

    fn vouched_for(trace: Hash32) -> Duty {
        let answer = CheckAnswer::Key { trace, key: HASH };
        Duty::Vouched { answer, salt: [0; 32] }
    }

    fn vouched() -> Duty {
        vouched_for(HASH)
    }

    #[test]
    fn check_goes_on_where_it_ended() {
        let committed = CheckState::Committed { seal: HASH, opened: None, beacon: None };
        let next = |status, state, duty: &Duty| {
            step(&job(status, state, Extent::Whole), None, &NODE, Some(duty))
        };
        let checking = JobStatus::Checking;
        assert_eq!(next(checking, CheckState::Drawn, &Duty::Check), Step::Check);
        assert_eq!(next(checking, CheckState::Drawn, &vouched()), Step::Commit);
        let stale = vouched_for(Hash32::new([7; 32]));
        assert_eq!(next(checking, CheckState::Drawn, &stale), Step::Check, "of another result");
        assert_eq!(next(checking, committed, &vouched()), Step::Show);
        assert_eq!(next(checking, committed, &Duty::Check), Step::Wait, "the answer is lost");
        assert_eq!(next(checking, CheckState::Passed, &vouched()), Step::Wait);
        assert_eq!(next(checking, CheckState::Missed, &vouched()), Step::Forget);
        assert_eq!(next(JobStatus::Settled, CheckState::Passed, &vouched()), Step::Forget);
        let entry = job(checking, committed, Extent::Whole);
        let other = NodeId::new([9; 32]);
        assert_eq!(step(&entry, None, &other, Some(&vouched())), Step::Forget);
    }

    /// Goal: who vouched for a whole run and died does not forget that it may have to defend it.
    /// Method: all turns of a dispute, and those who may not stand in.
    #[test]
    fn silent_provider_is_stood_in_for_by_who_vouched_for_the_whole_run() {
        let next = |turn, state, extent| {
            let entry = job(JobStatus::Disputed, state, extent);
            step(&entry, Some(&dispute(turn, PROVIDER)), &NODE, Some(&vouched()))
        };
        let passed = CheckState::Passed;
        assert_eq!(next(Turn::StandIns, passed, Extent::Whole), Step::StandIn);
        assert_eq!(next(Turn::Provider, passed, Extent::Whole), Step::Wait);
        assert_eq!(next(Turn::Challenger, passed, Extent::Whole), Step::Wait);
        assert_eq!(next(Turn::StandIns, passed, Extent::Tiles), Step::Wait);
        assert_eq!(next(Turn::StandIns, CheckState::Drawn, Extent::Whole), Step::Wait);
        assert!(is_undefended(&dispute(Turn::StandIns, PROVIDER)));
        assert!(is_undefended(&dispute(Turn::Challenger, NODE)), "one of us has answered");
        assert!(!is_undefended(&dispute(Turn::Challenger, PROVIDER)));
    }
}
