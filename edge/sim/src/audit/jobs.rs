//! The books of jobs and nodes: who was given what, what became of it, and what that must cost.
//!
//! They follow events only. A run that is fined without having been missed, a payment for a result
//! that was never shown, or a node that comes back without its owner shows here.

use crate::violation::{Invariant, Violations};
use std::collections::{BTreeMap, BTreeSet};
use tg_ledger::{Charges, charges, run_bond};
use tg_types::{
    amount::Amount,
    ids::{AccountId, Hash32, JobId, NodeId, TxId},
    job::{JobSpec, Tier, Work},
    params::Params,
    reason::Reason,
    receipt::Event,
    tx::{Action, OpenedResult},
};

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Placed,
    Committed,
    Revealed(Hash32),
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckPhase {
    Drawn,
    Committed,
    Passed,
    /// The answer was wrong.
    Refused,
}

impl CheckPhase {
    /// Whether it stands for the result.
    const fn has_vouched(self) -> bool {
        matches!(self, Self::Committed | Self::Passed | Self::Refused)
    }
}

#[derive(Debug)]
struct NodeBook {
    owner: AccountId,
    is_absent: bool,
}

/// Who said a result was wrong, and whose turn it is.
#[derive(Clone, Copy, Debug)]
struct DisputeBook {
    challenger: AccountId,
    bond: i128,
    is_challengers_turn: bool,
    /// Whether those who vouched may answer this time.
    is_passed_on: bool,
    /// Who spoke last in the provider's place, if it was not the provider.
    answered_by: Option<NodeId>,
    /// The same of who stated the claim in dispute.
    stated_by: Option<NodeId>,
}

/// A dispute that its challenger won.
#[derive(Clone, Copy, Debug)]
struct Won {
    challenger: AccountId,
    why: Reason,
    /// Whether evidence decided, not silence.
    is_judged: bool,
    /// Who stated the last claim in the provider's place.
    stated_by: Option<NodeId>,
}

#[derive(Debug)]
struct JobBook {
    spec: JobSpec,
    owner: Option<AccountId>,
    /// What is locked now.
    locked: i128,
    /// What runs and checks have been paid, with what their transactions cost.
    paid: i128,
    /// Outputs for which runs have been paid.
    outputs: Vec<Hash32>,
    runs: BTreeMap<NodeId, Phase>,
    /// What nodes have committed to.
    seals: BTreeMap<NodeId, Hash32>,
    /// How the last run of a node ended, if nobody has paid for that yet.
    ended: BTreeMap<NodeId, Reason>,
    /// Runs that the client stopped, with what they are to be paid.
    stopped: BTreeMap<NodeId, i128>,
    checks: BTreeMap<NodeId, CheckPhase>,
    /// Checkers that recomputed a whole run of which tiles were to be shown.
    unshown: BTreeSet<NodeId>,
    dispute: Option<DisputeBook>,
    /// The last dispute that was won by a challenger.
    won: Option<Won>,
}

impl JobBook {
    fn new(spec: &JobSpec) -> Self {
        Self {
            spec: spec.clone(),
            owner: None,
            locked: 0,
            paid: 0,
            outputs: Vec::new(),
            runs: BTreeMap::new(),
            seals: BTreeMap::new(),
            ended: BTreeMap::new(),
            stopped: BTreeMap::new(),
            checks: BTreeMap::new(),
            unshown: BTreeSet::new(),
            dispute: None,
            won: None,
        }
    }

    /// Nothing is under way any more.
    fn end(&mut self) {
        (self.locked, self.paid) = (0, 0);
        self.runs.clear();
        self.checks.clear();
        self.unshown.clear();
    }
}

/// Money that a dispute moves when it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verdict {
    /// Who gets something, and how much.
    pub(super) paid: (AccountId, i128),
    pub(super) burned: i128,
}

/// What a slash must take, and who gets which part of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) amount: i128,
    pub(super) bounty: i128,
    pub(super) to: Option<AccountId>,
}

fn units(amount: Amount) -> i128 {
    i128::from(amount.units())
}

/// What a job must cost, with what is on record of its program.
fn prices(params: &Params, programs: &BTreeMap<Hash32, u64>, spec: &JobSpec) -> Option<Charges> {
    let multiply_adds = match &spec.work {
        Work::Tensor { program, .. } => *programs.get(program)?,
        Work::Opaque { .. } => 0,
    };
    charges(params, spec, params.jobs.extent(spec.tier, multiply_adds))
}

/// The books of jobs and nodes.
pub(super) struct JobBooks {
    params: Params,
    /// Multiply-adds of the programs on record.
    programs: BTreeMap<Hash32, u64>,
    jobs: BTreeMap<JobId, JobBook>,
    nodes: BTreeMap<NodeId, NodeBook>,
}

impl JobBooks {
    pub(super) fn new(params: &Params) -> Self {
        let (programs, jobs, nodes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { params: params.clone(), programs, jobs, nodes }
    }

    /// What a job must cost.
    pub(super) fn charges(&self, spec: &JobSpec) -> Option<Charges> {
        prices(&self.params, &self.programs, spec)
    }

    /// Jobs that a transaction asks for; events will say whether they were taken.
    pub(super) fn submit(&mut self, tx: TxId, specs: &[JobSpec]) {
        let jobs = (0..).zip(specs).map(|(place, spec)| (JobId::of(tx, place), JobBook::new(spec)));
        self.jobs.extend(jobs);
    }

    /// Who pays for a job, and what one run of it costs.
    pub(super) fn bought(&self, job: &JobId) -> Option<(AccountId, i128)> {
        let book = self.jobs.get(job)?;
        Some((book.owner?, units(self.charges(&book.spec)?.of(1, 0)?)))
    }

    /// What is locked for a job, if it was ever queued.
    pub(super) fn locked(&self, job: &JobId) -> Option<i128> {
        self.jobs.get(job).map(|book| book.locked)
    }

    /// What stands on the objection to a job's result.
    pub(super) fn disputed(&self, job: &JobId) -> Option<i128> {
        self.jobs.get(job)?.dispute.map(|dispute| dispute.bond)
    }

    /// A job is queued.
    pub(super) fn lock(
        &mut self,
        job: &JobId,
        owner: &AccountId,
        escrow: i128,
        found: &mut Violations,
    ) {
        let Some(book) = book(&mut self.jobs, job, found) else { return };
        found.check(book.owner.is_none(), Invariant::Once, || format!("{job:?} is queued twice"));
        (book.owner, book.locked) = (Some(*owner), escrow);
    }

    /// A job has ended without a result.
    pub(super) fn close(
        &mut self,
        job: &JobId,
        owner: &AccountId,
        refund: i128,
        found: &mut Violations,
    ) {
        let Some(book) = book(&mut self.jobs, job, found) else { return };
        let (locked, owed) = (book.locked, book.owner);
        let paid = book.paid; // only of runs that its owner stopped
        found.check(locked == refund + paid, Invariant::Money, || {
            format!("{job:?} had {locked} locked, {paid} paid, and {refund} came back")
        });
        found.check(owed == Some(*owner), Invariant::Money, || {
            format!("the escrow of {job:?} went to {owner:?} instead of {owed:?}")
        });
        book.end();
    }

    /// A client stopped a job: a run that was under way ends, and is paid for its time.
    pub(super) fn stop(&mut self, event: &Event, found: &mut Violations) {
        let Event::RunStopped { job, node, paid, .. } = event else { return };
        let paid = units(*paid);
        let Some(book) = book(&mut self.jobs, job, found) else { return };
        let phase = book.runs.remove(node);
        let most = units(book.spec.pay);
        let fits = phase == Some(Phase::Placed) && (0..=most).contains(&paid);
        found.check(fits, Invariant::Work, || {
            format!("{node:?} is stopped for {paid} of {most} in {job:?} after {phase:?}")
        });
        book.stopped.insert(*node, paid);
    }

    /// A run or a check is paid; gives what its node gets for its transactions.
    pub(super) fn pay_work(
        &mut self,
        job: &JobId,
        (node, owner): (&NodeId, &AccountId),
        amount: i128,
        is_check: bool,
        found: &mut Violations,
    ) -> i128 {
        let owner_known = self.nodes.get(node).map(|node| node.owner);
        found.check(owner_known == Some(*owner), Invariant::Money, || {
            format!("{owner:?} was paid for {node:?}, which {owner_known:?} owns")
        });
        let Some(book) = book(&mut self.jobs, job, found) else { return 0 };
        if let Some(expected) = book.stopped.remove(node) {
            found.check(expected == amount && !is_check, Invariant::Money, || {
                format!("{node:?} is paid {amount} for {job:?}, which was stopped for {expected}")
            });
            book.paid += amount;
            return 0;
        }
        let Some(prices) = prices(&self.params, &self.programs, &book.spec) else { return 0 };
        let (expected, fees) = if is_check {
            let is_unshown = i128::from(book.unshown.contains(node));
            (units(prices.check_pay) + is_unshown * units(prices.unshown), prices.check_fees)
        } else {
            let unshown = units(prices.unshown) * book.unshown.len() as i128;
            (units(prices.pay) - unshown, prices.fees)
        };
        found.check(expected == amount, Invariant::Money, || {
            format!("{node:?} is paid {amount} for {job:?}, expected {expected}")
        });
        let done = if is_check {
            book.checks.remove(node) == Some(CheckPhase::Passed)
        } else if let Some(Phase::Revealed(output)) = book.runs.remove(node) {
            book.outputs.push(output);
            true
        } else {
            false
        };
        found.check(done, Invariant::Work, || format!("{node:?} is paid and did not do {job:?}"));
        book.paid += amount + units(fees);
        units(fees)
    }

    /// A job is accepted.
    pub(super) fn settle(
        &mut self,
        job: &JobId,
        owner: &AccountId,
        output: &Hash32,
        (charged, refund): (i128, i128),
        found: &mut Violations,
    ) {
        let Some(book) = book(&mut self.jobs, job, found) else { return };
        let (locked, paid) = (book.locked, book.paid);
        let is_exact = charged == paid && locked == paid + refund && book.owner == Some(*owner);
        found.check(is_exact, Invariant::Money, || {
            format!("{job:?}: {locked} locked, {paid} paid, {charged} charged, {refund} came back")
        });
        let needed = match book.spec.tier {
            Tier::Trusted
            | Tier::Audit
            | Tier::Sync
            | Tier::Proof { .. }
            | Tier::Rerun
            | Tier::Zk { .. } => 1,
            Tier::Redundant { replicas } => usize::from(replicas),
        };
        let outputs = &book.outputs;
        let is_agreed = outputs.len() >= needed && outputs.iter().all(|it| it == output);
        found.check(is_agreed, Invariant::Work, || {
            format!("{job:?} needs {needed} times the output {output:?}, paid were {outputs:?}")
        });
        book.end();
    }

    /// Somebody objects.
    pub(super) fn dispute(
        &mut self,
        job: &JobId,
        challenger: AccountId,
        bond: i128,
        found: &mut Violations,
    ) {
        let expected = units(self.params.jobs.challenge_bond);
        let Some(book) = book(&mut self.jobs, job, found) else { return };
        let is_shown = book.runs.values().any(|phase| matches!(phase, Phase::Revealed(_)));
        let is_new = book.dispute.is_none() && is_shown && bond == expected;
        found.check(is_new, Invariant::Work, || {
            format!("{challenger:?} objects to {job:?} with {bond}: {book:?}")
        });
        book.dispute = Some(DisputeBook {
            challenger,
            bond,
            is_challengers_turn: false,
            is_passed_on: false,
            answered_by: None,
            stated_by: None,
        });
    }

    /// A dispute is over, by evidence or by itself; says who gets its bond.
    pub(super) fn decide(
        &mut self,
        job: &JobId,
        (why, is_judged): (Reason, bool),
        found: &mut Violations,
    ) -> Option<Verdict> {
        let book = book(&mut self.jobs, job, found)?;
        let Some(dispute) = book.dispute.take() else {
            found.add(Invariant::Work, format!("a dispute about {job:?} ended, there was none"));
            return None;
        };
        let DisputeBook { challenger, bond, answered_by, stated_by, .. } = dispute;
        let is_won = matches!(why, Reason::ResultRefuted | Reason::ResultUndefended);
        if is_won {
            book.won = Some(Won { challenger, why, is_judged, stated_by });
            return Some(Verdict { paid: (challenger, bond), burned: 0 });
        }
        let node = answered_by.as_ref().or(book.runs.keys().next());
        let owner = node.and_then(|node| self.nodes.get(node)).map(|node| node.owner)?;
        let half = bond / 2; // rounded down, and bonds are not negative
        Some(Verdict { paid: (owner, half), burned: bond - half })
    }

    /// What a node must lose: half a bond for a result that it did not show or defend, all of it
    /// for one that was refuted, for vouching for that, and for a false word in the provider's
    /// place.
    pub(super) fn slash(
        &mut self,
        job: &JobId,
        node: &NodeId,
        held: i128,
        found: &mut Violations,
    ) -> Due {
        let nothing = Due { amount: 0, bounty: 0, to: None };
        let Some(book) = book(&mut self.jobs, job, found) else { return nothing };
        let jobs = &self.params.jobs;
        let run = units(run_bond(jobs.run_bond, &book.spec));
        let check_pay =
            prices(&self.params, &self.programs, &book.spec).map_or(0, |it| units(it.check_pay));
        let (won, ended) = (book.won, book.ended.remove(node));
        let check = check_pay * i128::from(jobs.check_bond);
        let phase = book.checks.remove(node);
        let has_vouched = phase.is_some_and(CheckPhase::has_vouched);
        let fault = won.map(|won| (won.why, won.is_judged, won.stated_by == Some(*node)));
        let (amount, is_silent) = match (ended, has_vouched, fault) {
            (Some(Reason::ResultRefuted), _, Some((Reason::ResultRefuted, ..))) => (run, false),
            (Some(Reason::ResultUndefended), ..) => (run / 2, true),
            (None, true, Some((Reason::ResultRefuted, ..))) => (check, false),
            (None, true, Some((Reason::ResultUndefended, true, true))) => (check, false),
            (None, true, Some((Reason::ResultUndefended, false, _))) => (check / 2, true),
            (ended, ..) => {
                let detail = format!("{node:?} is slashed for {job:?}: {ended:?} {phase:?}");
                found.add(Invariant::Slashing, detail);
                return nothing;
            }
        };
        let amount = amount.min(held);
        let share = if is_silent { 1_000 } else { i128::from(jobs.challenge_bounty.points()) };
        let to = won.map(|won| won.challenger);
        let bounty = if to.is_some() { amount * share / 10_000 } else { 0 };
        Due { amount, bounty, to }
    }

    /// What a node must lose for a run or a check that it did not do.
    pub(super) fn fine(
        &mut self,
        job: &JobId,
        node: &NodeId,
        held: i128,
        found: &mut Violations,
    ) -> i128 {
        let fine = units(self.params.jobs.fine);
        let Some(book) = book(&mut self.jobs, job, found) else { return 0 };
        let why = book.ended.remove(node);
        let phase = book.checks.get(node);
        let is_checking = phase.is_some_and(|phase| *phase != CheckPhase::Passed);
        let is_late = why == Some(Reason::RunMissed) || why.is_none() && is_checking;
        found.check(is_late, Invariant::Slashing, || {
            format!("{node:?} is fined for {job:?}, its run ended with {why:?}")
        });
        held.min(fine)
    }

    /// What a node shows is what it committed to.
    pub(super) fn check_seals(
        &mut self,
        action: &Action,
        events: &[Event],
        found: &mut Violations,
    ) {
        for event in events {
            if let (Event::ResultCommitted { job, node }, Action::CommitResults { seals }) =
                (event, action)
            {
                let sealed = seals.as_slice().iter().find(|sealed| sealed.job == *job);
                if let Some((book, sealed)) = self.jobs.get_mut(job).zip(sealed) {
                    book.seals.insert(*node, sealed.seal);
                }
            }
            if let (
                Event::ResultRevealed { job, node, result },
                Action::RevealResults { results, .. },
            ) = (event, action)
            {
                let seal = self.jobs.get(job).and_then(|book| book.seals.get(node)).copied();
                let opens = |shown: &OpenedResult| {
                    shown.job == *job && Some(result.seal(node, &shown.salt)) == seal
                };
                found.check(results.as_slice().iter().any(opens), Invariant::Authority, || {
                    format!("{node:?} shows a result of {job:?} that it did not commit to")
                });
            }
        }
    }

    /// Follows runs, checks, disputes and nodes.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is about jobs")]
    pub(super) fn note(&mut self, event: &Event, by: Option<AccountId>, found: &mut Violations) {
        match event {
            Event::ProgramRecorded { program, multiply_adds } => {
                self.programs.insert(*program, *multiply_adds);
            }
            Event::NodeRegistered { node, owner } => {
                let new = NodeBook { owner: *owner, is_absent: false };
                let old = self.nodes.insert(*node, new);
                found.check(old.is_none(), Invariant::Once, || {
                    format!("{node:?} is registered twice")
                });
            }
            Event::NodeChanged { node, .. } => {
                self.check_speaker(node, by, found);
                if let Some(book) = self.nodes.get_mut(node) {
                    book.is_absent = false;
                }
            }
            Event::NodeLeft { node, .. } => {
                self.check_speaker(node, by, found);
                self.remove(node, found);
            }
            Event::NodeAbsent { node, .. } => {
                if let Some(book) = self.nodes.get_mut(node) {
                    book.is_absent = true;
                }
            }
            Event::NodeDropped { node, .. } => {
                let is_absent = self.nodes.get(node).is_some_and(|node| node.is_absent);
                found.check(is_absent && by.is_none(), Invariant::Authority, || {
                    format!("{node:?} was dropped and was not absent")
                });
                self.remove(node, found);
            }
            Event::DisputeAnswered { .. }
            | Event::ClaimPicked { .. }
            | Event::DefencePassed { .. } => self.turn(event, found),
            Event::CheckDrawn { .. }
            | Event::CheckCommitted { .. }
            | Event::CheckPassed { .. }
            | Event::CheckRefused { .. }
            | Event::CheckExcused { .. }
            | Event::CheckMissed { .. } => self.note_check(event, found),
            Event::TilesNotShown { job, node } => {
                let Some(book) = book(&mut self.jobs, job, found) else { return };
                let is_new = book.unshown.insert(*node);
                let phase = book.checks.get(node);
                let fits = is_new && phase == Some(&CheckPhase::Passed);
                found.check(fits, Invariant::Work, || format!("{event:?} after {phase:?}"));
            }
            _ => self.note_run(event, found),
        }
    }

    /// The parties of a dispute go on in turns. Others speak for the provider only if it did not,
    /// and only those who vouched.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is no turn")]
    fn turn(&mut self, event: &Event, found: &mut Violations) {
        let Some(job) = event.job() else { return };
        let Some(book) = book(&mut self.jobs, &job, found) else { return };
        let Some(dispute) = &mut book.dispute else {
            found.add(Invariant::Authority, format!("there is no dispute about {job:?}"));
            return;
        };
        let before = *dispute;
        let is_allowed = match event {
            Event::DefencePassed { .. } => {
                dispute.is_passed_on = true;
                !before.is_challengers_turn && !before.is_passed_on
            }
            Event::DisputeAnswered { node, .. } => {
                let is_provider = book.runs.contains_key(node);
                let may = book.checks.get(node).is_some_and(|phase| phase.has_vouched());
                dispute.is_challengers_turn = true;
                dispute.answered_by = (!is_provider).then_some(*node);
                !before.is_challengers_turn && (is_provider || may && before.is_passed_on)
            }
            _ => {
                dispute.is_challengers_turn = false;
                dispute.is_passed_on = before.answered_by.is_some();
                dispute.stated_by = before.answered_by;
                before.is_challengers_turn
            }
        };
        found.check(is_allowed, Invariant::Authority, || format!("{event:?} after {before:?}"));
    }

    /// Only a node or its owner speaks for the node.
    fn check_speaker(&self, node: &NodeId, by: Option<AccountId>, found: &mut Violations) {
        let owner = self.nodes.get(node).map(|node| node.owner);
        let is_allowed =
            by.is_some() && (by == owner || by.is_some_and(|by| by.as_bytes() == node.as_bytes()));
        found.check(is_allowed, Invariant::Authority, || {
            format!("{by:?} spoke for {node:?} of {owner:?}")
        });
    }

    fn remove(&mut self, node: &NodeId, found: &mut Violations) {
        let is_busy = self.jobs.values().any(|book| book.runs.contains_key(node));
        found.check(!is_busy, Invariant::Work, || format!("{node:?} is gone and has runs"));
        self.nodes.remove(node);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest says nothing of a check")]
    fn note_check(&mut self, event: &Event, found: &mut Violations) {
        let (job, node, after) = match event {
            Event::CheckDrawn { job, node, .. } => (job, node, Some(CheckPhase::Drawn)),
            Event::CheckCommitted { job, node } => (job, node, Some(CheckPhase::Committed)),
            Event::CheckPassed { job, node } => (job, node, Some(CheckPhase::Passed)),
            Event::CheckRefused { job, node } => (job, node, Some(CheckPhase::Refused)),
            Event::CheckMissed { job, node } | Event::CheckExcused { job, node } => {
                (job, node, None)
            }
            _ => return,
        };
        let Some(book) = book(&mut self.jobs, job, found) else { return };
        let before = match after {
            Some(after) => book.checks.insert(*node, after),
            None => book.checks.remove(node),
        };
        let fits = match (before, after) {
            (None, Some(CheckPhase::Drawn)) => {
                let owner_of = |node: &NodeId| self.nodes.get(node).map(|node| node.owner);
                let owner = owner_of(node);
                owner.is_some() && book.runs.keys().all(|runner| owner_of(runner) != owner)
            }
            (Some(CheckPhase::Drawn), Some(CheckPhase::Committed) | None)
            | (
                Some(CheckPhase::Committed),
                Some(CheckPhase::Passed | CheckPhase::Refused) | None,
            )
            | (Some(CheckPhase::Refused), None) => true,
            (_, _) => false,
        };
        found.check(fits, Invariant::Work, || format!("{event:?} after {before:?}"));
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest says nothing of a run")]
    fn note_run(&mut self, event: &Event, found: &mut Violations) {
        let (job, node) = match event {
            Event::JobPlaced { job, node, .. }
            | Event::ResultCommitted { job, node }
            | Event::ResultRevealed { job, node, .. }
            | Event::RunEnded { job, node, .. } => (*job, *node),
            _ => return,
        };
        let owner = self.nodes.get(&node).map(|node| (node.owner, node.is_absent));
        let Some(book) = book(&mut self.jobs, &job, found) else { return };
        let before = book.runs.get(&node).copied();
        let fits = match event {
            Event::JobPlaced { .. } => {
                book.runs.insert(node, Phase::Placed);
                book.checks.clear();
                book.unshown.clear();
                book.won = None;
                let is_there = owner.is_some_and(|(_, is_absent)| !is_absent);
                before.is_none() && is_there && book.locked > 0
            }
            Event::ResultCommitted { .. } => {
                book.runs.insert(node, Phase::Committed);
                before == Some(Phase::Placed)
            }
            Event::ResultRevealed { result, .. } => {
                book.runs.insert(node, Phase::Revealed(result.output));
                before == Some(Phase::Committed)
            }
            Event::RunEnded { why, .. } => {
                let won = book.won.map(|won| won.why);
                end_run(book, &node, *why) && fits_end(before, *why, won)
            }
            _ => true,
        };
        found.check(fits, Invariant::Work, || format!("{event:?} after {before:?}"));
    }
}

/// A run ends without an accepted result.
fn end_run(book: &mut JobBook, node: &NodeId, why: Reason) -> bool {
    // Leaving early and disappearing cost nothing. What was found of a result that is gone counts
    // only against those who vouched for it.
    if why != Reason::RunGivenUp && why != Reason::RunLost {
        book.checks.retain(|_, phase| *phase != CheckPhase::Drawn);
        book.ended.insert(*node, why);
    }
    book.runs.remove(node).is_some()
}

/// Whether a run that had come so far can end like this.
fn fits_end(before: Option<Phase>, why: Reason, won: Option<Reason>) -> bool {
    match (why, before) {
        (Reason::RunMissed | Reason::RunGivenUp | Reason::RunLost, Some(phase)) => {
            phase == Phase::Placed
        }
        (Reason::ResultUndefended, Some(Phase::Committed)) => true,
        (Reason::ResultUndefended | Reason::ResultRefuted, Some(Phase::Revealed(_))) => {
            won == Some(why)
        }
        _ => false,
    }
}

fn book<'a>(
    jobs: &'a mut BTreeMap<JobId, JobBook>,
    job: &JobId,
    found: &mut Violations,
) -> Option<&'a mut JobBook> {
    let book = jobs.get_mut(job);
    found.check(book.is_some(), Invariant::Work, || format!("nobody asked for {job:?}"));
    book
}
