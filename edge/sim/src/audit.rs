//! The accountant: books money by what receipts and events say, and compares with what the entries
//! hold. It knows nothing of how the ledger executes; that a payment is booked twice, a refund lost
//! or a fee shared wrongly shows as a difference.

mod complaints;
mod fits;
mod jobs;

use crate::{
    scan::Scan,
    violation::{Invariant, Violations},
};
use complaints::Complaints;
use fits::fits;
use jobs::JobBooks;
use std::collections::{BTreeMap, BTreeSet};
use tg_types::{
    amount::Amount,
    genesis::Genesis,
    ids::{AccountId, JobId, NodeId, TxId},
    key::{Domain, PublicKey},
    receipt::{BlockReceipt, Event, Receipt, Status},
    tick::Tick,
    tx::{Action, Lane, SignedTx},
};

/// Whose transaction an event is from, and what it asked for; `None` if the block did it by itself.
type By<'a> = Option<(AccountId, &'a Action)>;

/// Money at stake of one account.
#[derive(Clone, Copy, Debug, Default)]
struct StakeBook {
    active: i128,
    unbonding: i128,
}

/// The books of a chain.
pub(crate) struct Audit {
    balances: BTreeMap<AccountId, i128>,
    stakes: BTreeMap<AccountId, StakeBook>,
    jobs: JobBooks,
    complaints: Complaints,
    treasury: i128,
    burned: i128,
    next: BTreeMap<(AccountId, Lane), u64>,
    seen: BTreeSet<TxId>,
    reports: BTreeMap<(u64, NodeId), BTreeSet<AccountId>>,
    domain: Domain,
    quorum: usize,
    /// Owners of seats that may be slashed, because they do equivocate.
    liars: BTreeSet<AccountId>,
    /// How often what happened, by the reasons of events.
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

fn units(amount: Amount) -> i128 {
    i128::from(amount.units())
}

impl Audit {
    pub(crate) fn new(genesis: &Genesis, liars: &BTreeSet<PublicKey>) -> Self {
        let seats = genesis.validators().len();
        let quorum = seats - (seats - 1) / 3;
        Self {
            balances: BTreeMap::new(),
            stakes: BTreeMap::new(),
            jobs: JobBooks::new(genesis.params()),
            complaints: Complaints::new(quorum, units(genesis.params().jobs.complaint_bond)),
            treasury: units(genesis.treasury()),
            burned: 0,
            next: BTreeMap::new(),
            seen: BTreeSet::new(),
            reports: BTreeMap::new(),
            domain: genesis.domain(),
            quorum,
            liars: liars.iter().map(|key| AccountId::from(*key)).collect(),
            counts: BTreeMap::new(),
        }
    }

    /// Books a block.
    pub(crate) fn book(
        &mut self,
        genesis: &Genesis,
        tick: Tick,
        txs: &[SignedTx],
        receipts: &[Receipt],
        block: &BlockReceipt,
        found: &mut Violations,
    ) {
        found.check(txs.len() == receipts.len(), Invariant::Replay, || {
            format!("{} receipts for {} transactions", receipts.len(), txs.len())
        });
        // What fell due comes before the transactions, placements and fees after them.
        let fees: i128 = receipts.iter().map(|receipt| units(receipt.fee)).sum();
        let (first, last) = Self::split(&block.events);
        for event in first {
            self.book_event(genesis, None, event, found);
        }
        for (tx, receipt) in txs.iter().zip(receipts) {
            self.book_tx(genesis, tick, tx, receipt, found);
        }
        for event in last {
            self.book_event(genesis, None, event, found);
        }
        self.check_fees(genesis, fees, block, found);
    }

    /// What a block did before its transactions, and after them.
    pub(crate) fn split(events: &[Event]) -> (&[Event], &[Event]) {
        let is_last =
            |event: &&Event| matches!(event, Event::JobPlaced { .. } | Event::FeesShared { .. });
        let last = events.iter().rev().take_while(is_last).count();
        events.split_at(events.len() - last)
    }

    fn book_tx(
        &mut self,
        genesis: &Genesis,
        tick: Tick,
        tx: &SignedTx,
        receipt: &Receipt,
        found: &mut Violations,
    ) {
        let (body, id) = (&tx.body, tx.id(&self.domain));
        found.check(receipt.tx == id && receipt.fee == body.fee, Invariant::Replay, || {
            format!("the receipt of {id:?} is another's")
        });
        found.check(self.seen.insert(id), Invariant::Once, || format!("{id:?} is final twice"));
        let next = self.next.entry((body.sender, body.lane)).or_default();
        found.check(body.nonce.get() == *next, Invariant::Once, || {
            format!("{id:?} has nonce {}, its lane is at {next}", body.nonce)
        });
        *next = body.nonce.get() + 1;
        *self.balances.entry(body.sender).or_default() -= units(body.fee);
        if let Action::ReportAbsent { epoch, nodes } = &body.action
            && receipt.status == Status::Applied
        {
            for node in nodes.as_slice() {
                self.reports.entry((*epoch, *node)).or_default().insert(body.sender);
            }
        }
        if let Action::SubmitJobs { specs, .. } = &body.action {
            self.jobs.submit(id, specs.as_slice());
        }
        let fits = fits((body.sender, id), &body.action, receipt, tick, (genesis, &self.jobs));
        found.check(fits, Invariant::Authority, || {
            format!("{id:?} ({:?}) led to {:?} {:?}", body.action, receipt.status, receipt.events)
        });
        for event in &receipt.events {
            self.book_event(genesis, Some((body.sender, &body.action)), event, found);
        }
        self.jobs.check_seals(&body.action, &receipt.events, found);
    }

    /// Fees and penalties: what the ledger keeps or burns.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others are booked elsewhere")]
    fn book_fees(&mut self, event: &Event) {
        match event {
            Event::PenaltyTaken { account, amount } => {
                self.pay(account, -units(*amount));
                self.burned += units(*amount);
            }
            Event::FeesShared { proposer, earned, burned, treasury } => {
                self.pay(proposer, units(*earned));
                self.burned += units(*burned);
                self.treasury += units(*treasury);
            }
            _ => {}
        }
    }

    /// Pays a share of what somebody lost, and burns the rest.
    fn reward(&mut self, reporter: &AccountId, lost: i128, bounty: i128) {
        self.pay(reporter, bounty);
        self.burned += lost - bounty;
    }

    /// Counts and books an event.
    fn book_event(&mut self, genesis: &Genesis, by: By<'_>, event: &Event, found: &mut Violations) {
        *self.counts.entry(event.reason().code()).or_default() += 1;
        self.book_one(genesis, by, event, found);
    }

    /// Books what an event says. Nobody complains in a simulated network; bonds that moved would
    /// show in the totals.
    fn book_one(&mut self, genesis: &Genesis, by: By<'_>, event: &Event, found: &mut Violations) {
        match event {
            Event::AccountCredited { account, amount } => self.pay(account, units(*amount)),
            Event::Transferred { from, to, amount } => self.shift(from, to, units(*amount)),
            Event::Staked { .. } | Event::UnbondingStarted { .. } | Event::Unbonded { .. } => {
                self.book_stake(by.is_some(), event);
            }
            Event::Slashed { .. } => self.book_slash(genesis, event, found),
            Event::PenaltyTaken { .. } | Event::FeesShared { .. } => self.book_fees(event),
            Event::JobQueued { .. }
            | Event::JobCancelled { .. }
            | Event::JobExpired { .. }
            | Event::JobSettled { .. }
            | Event::JobFailed { .. }
            | Event::ProviderPaid { .. }
            | Event::CheckerPaid { .. } => self.book_job(event, found),
            Event::NodeSlashed { .. }
            | Event::NodeFined { .. }
            | Event::DisputeOpened { .. }
            | Event::DisputeEnded { .. } => self.book_fault(genesis, by.is_some(), event, found),
            Event::NodeAbsent { node, .. } => self.book_absence(by, (node, event), found),
            Event::NodeRegistered { .. }
            | Event::NodeChanged { .. }
            | Event::NodeLeft { .. }
            | Event::NodeDropped { .. }
            | Event::JobPlaced { .. }
            | Event::RunEnded { .. }
            | Event::ResultCommitted { .. }
            | Event::ResultRevealed { .. }
            | Event::ResultProved { .. }
            | Event::CheckDrawn { .. }
            | Event::CheckCommitted { .. }
            | Event::CheckPassed { .. }
            | Event::CheckRefused { .. }
            | Event::TilesNotShown { .. }
            | Event::CheckMissed { .. }
            | Event::CheckExcused { .. }
            | Event::DisputeAnswered { .. }
            | Event::DefencePassed { .. }
            | Event::ProgramRecorded { .. }
            | Event::ClaimPicked { .. } => self.jobs.note(event, by.map(|(it, _)| it), found),
            Event::AbsenceReported { .. }
            | Event::BeaconRecorded { .. }
            | Event::WeightsRegistered { .. }
            | Event::ResultNotDrawn { .. }
            | Event::KeyLacked { .. }
            | Event::ResultUnchecked { .. }
            | Event::RunsDisagreed { .. }
            | Event::CapacityAsked { .. }
            | Event::CapacityCommitted { .. }
            | Event::CapacityDrawn { .. }
            | Event::CapacityShown { .. }
            | Event::CapacityProved { .. }
            | Event::CapacityMissed { .. } => {}
            Event::PromiseGiven { .. } | Event::PromiseRefused { .. } => unasked(event, found),
            Event::PromiseBroken { .. } | Event::ClientCompensated { .. } => unasked(event, found),
            Event::CheckpointSaved { .. } => unasked(event, found),
            Event::YieldAsked { .. } | Event::RunYielded { .. } => unasked(event, found),
            Event::MoveAsked { .. } | Event::RunMoved { .. } => unasked(event, found),
            Event::GangBroken { .. } | Event::JobAdjusted { .. } => unasked(event, found),
            Event::StopAsked { .. } => {} // nodes of simulations go on, and so do their jobs
            Event::RunStopped { .. } => self.jobs.stop(event, found),
            Event::Complained { .. }
            | Event::ComplaintJudged { .. }
            | Event::ComplaintUpheld { .. }
            | Event::ComplaintRejected { .. }
            | Event::ComplaintLapsed { .. } => self.book_complaint(event, found),
        }
    }

    /// Books what a seat loses for voting twice.
    fn book_slash(&mut self, genesis: &Genesis, event: &Event, found: &mut Violations) {
        if let Event::Slashed { offender, reporter, amount, bounty } = event {
            self.slash(genesis, offender, units(*amount), found);
            self.reward(reporter, units(*amount), units(*bounty));
        }
    }

    /// Books money that goes from one account to another.
    fn shift(&mut self, from: &AccountId, to: &AccountId, amount: i128) {
        self.pay(from, -amount);
        self.pay(to, amount);
    }

    /// Books money on its way to, at and from stake.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only events of stake come here")]
    fn book_stake(&mut self, is_asked_for: bool, event: &Event) {
        match event {
            Event::Staked { account, amount } => {
                // Seats have their stake from the genesis; others pay for it.
                if is_asked_for {
                    self.pay(account, -units(*amount));
                }
                self.stakes.entry(*account).or_default().active += units(*amount);
            }
            Event::UnbondingStarted { account, amount, due: _ } => {
                let stake = self.stakes.entry(*account).or_default();
                stake.active -= units(*amount);
                stake.unbonding += units(*amount);
            }
            Event::Unbonded { account, amount } => {
                self.pay(account, units(*amount));
                self.stakes.entry(*account).or_default().unbonding -= units(*amount);
            }
            _ => {}
        }
    }

    /// Books what a job costs, pays and gives back.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only events of jobs' money come here")]
    fn book_job(&mut self, event: &Event, found: &mut Violations) {
        match event {
            Event::JobQueued { job, owner, escrow } => {
                self.pay(owner, -units(*escrow));
                self.jobs.lock(job, owner, units(*escrow), found);
            }
            Event::JobCancelled { job, owner, refund }
            | Event::JobExpired { job, owner, refund }
            | Event::JobFailed { job, owner, refund } => {
                self.jobs.close(job, owner, units(*refund), found);
                self.pay(owner, units(*refund));
            }
            Event::ProviderPaid { job, node, owner, amount }
            | Event::CheckerPaid { job, node, owner, amount } => {
                let is_check = matches!(event, Event::CheckerPaid { .. });
                let amount = units(*amount);
                let fees = self.jobs.pay_work(job, (node, owner), amount, is_check, found);
                self.pay(owner, amount);
                if let Ok(account) = node.account() {
                    self.pay(&account, fees);
                }
            }
            Event::JobSettled { job, owner, output, charged, refund } => {
                let (charged, refund) = (units(*charged), units(*refund));
                self.jobs.settle(job, owner, output, (charged, refund), found);
                self.pay(owner, refund);
            }
            _ => found.add(Invariant::Money, format!("{event:?} moves no job's money")),
        }
    }

    /// Books what stands on complaints. Only results are complained about in simulations: inputs
    /// always open.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only events of complaints come here")]
    fn book_complaint(&mut self, event: &Event, found: &mut Violations) {
        let (job, is_lost, is_found) = match event {
            Event::Complained { job, by, bond, .. } => {
                self.pay(by, -units(*bond));
                return self.complaints.add(job, (*by, units(*bond)), found);
            }
            Event::ComplaintJudged { job, validator, opens } => {
                return self.complaints.judge(job, (*validator, *opens), found);
            }
            Event::ComplaintUpheld { job, .. } => {
                (job, false, self.complaints.has_found(job, false))
            }
            Event::ComplaintRejected { job, .. } => {
                (job, true, self.complaints.has_found(job, true))
            }
            Event::ComplaintLapsed { job, .. } => {
                let is_decided =
                    [false, true].into_iter().any(|opens| self.complaints.has_found(job, opens));
                (job, false, !is_decided)
            }
            _ => return found.add(Invariant::Money, format!("{event:?} is no complaint")),
        };
        found.check(is_found, Invariant::Authority, || format!("{event:?} without a quorum"));
        match self.complaints.end(job) {
            Some((_, bond)) if is_lost => self.burned += bond,
            Some((by, bond)) => self.pay(&by, bond),
            None => found.add(Invariant::Money, format!("{event:?}: nobody complained")),
        }
    }

    /// Books what an owner loses for a result that does not open: a share of all it has at stake,
    /// at least what the run was paid, which goes back to the client.
    fn book_forfeit(
        &mut self,
        genesis: &Genesis,
        (job, owner): (&JobId, &AccountId),
        (amount, bounty): (i128, i128),
        found: &mut Violations,
    ) {
        let Some((client, paid)) = self.jobs.bought(job) else {
            return found.add(Invariant::Slashing, format!("{owner:?} is slashed for {job:?}"));
        };
        let held = self.held(owner);
        let share = i128::from(genesis.params().jobs.complaint_slash_bps.points());
        let due = (held * share / 10_000).max(paid).min(held);
        self.lose(owner, (amount, due), found);
        found.check(bounty == due.min(paid), Invariant::Money, || {
            format!("{client:?} got {bounty} back for {job:?}, which cost {paid}")
        });
        self.pay(&client, bounty);
        self.burned -= bounty;
    }

    /// Books what objections and faults cost.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only events of faults come here")]
    fn book_fault(
        &mut self,
        genesis: &Genesis,
        is_asked_for: bool,
        event: &Event,
        found: &mut Violations,
    ) {
        match event {
            Event::NodeSlashed { job, owner, amount, bounty, .. }
                if self.complaints.has_found(job, false) =>
            {
                let taken = (units(*amount), units(*bounty));
                self.book_forfeit(genesis, (job, owner), taken, found);
            }
            Event::DisputeOpened { job, challenger, bond } => {
                self.pay(challenger, -units(*bond));
                self.jobs.dispute(job, *challenger, units(*bond), found);
            }
            Event::DisputeEnded { job, why, .. } => {
                if let Some(verdict) = self.jobs.decide(job, (*why, is_asked_for), found) {
                    self.pay(&verdict.paid.0, verdict.paid.1);
                    self.burned += verdict.burned;
                }
            }
            Event::NodeSlashed { job, node, owner, amount, bounty } => {
                let held = self.held(owner);
                let due = self.jobs.slash(job, node, held, found);
                let (amount, bounty) = (units(*amount), units(*bounty));
                self.lose(owner, (amount, due.amount), found);
                found.check(bounty == due.bounty, Invariant::Money, || {
                    format!("{bounty} of what {node:?} lost was given away, not {}", due.bounty)
                });
                if let Some(challenger) = due.to {
                    self.pay(&challenger, bounty);
                    self.burned -= bounty;
                }
            }
            Event::NodeFined { job, node, owner, amount } => {
                let held = self.held(owner);
                let expected = self.jobs.fine(job, node, held, found);
                self.lose(owner, (units(*amount), expected), found);
            }
            _ => found.add(Invariant::Money, format!("{event:?} is no fault")),
        }
    }

    /// Everything that an account has at stake.
    fn held(&self, owner: &AccountId) -> i128 {
        self.stakes.get(owner).map_or(0, |stake| stake.active + stake.unbonding)
    }

    /// An owner loses stake, as much as its fault costs, and it is burned.
    fn lose(
        &mut self,
        owner: &AccountId,
        (amount, expected): (i128, i128),
        found: &mut Violations,
    ) {
        found.check(amount == expected, Invariant::Slashing, || {
            format!("{owner:?} lost {amount}, expected {expected}")
        });
        self.take_stake(owner, amount);
        self.burned += amount;
    }

    /// What is active goes first, then what is unbonding.
    fn take_stake(&mut self, owner: &AccountId, amount: i128) {
        let stake = self.stakes.entry(*owner).or_default();
        let from_active = amount.min(stake.active);
        stake.active -= from_active;
        stake.unbonding -= amount - from_active;
    }

    fn pay(&mut self, account: &AccountId, amount: i128) {
        *self.balances.entry(*account).or_default() += amount;
    }

    /// A seat loses the set share of all it has at stake, and only if it does equivocate.
    fn slash(
        &mut self,
        genesis: &Genesis,
        offender: &AccountId,
        amount: i128,
        found: &mut Violations,
    ) {
        let is_liar = self.liars.contains(offender);
        found.check(is_liar, Invariant::Slashing, || format!("honest {offender:?} was slashed"));
        let stake = self.stakes.entry(*offender).or_default();
        let share = i128::from(genesis.params().slash_equivocation_bps.points());
        let expected = (stake.active + stake.unbonding) * share / 10_000;
        found.check(amount == expected, Invariant::Slashing, || {
            format!("{offender:?} lost {amount} of {stake:?}, expected {expected}")
        });
        self.take_stake(offender, amount);
    }

    /// A node is absent only when a quorum of seats missed it in one epoch.
    fn book_absence(
        &mut self,
        by: By<'_>,
        (node, event): (&NodeId, &Event),
        found: &mut Violations,
    ) {
        self.jobs.note(event, by.map(|(sender, _)| sender), found);
        let votes = match by {
            Some((_, Action::ReportAbsent { epoch, .. })) => {
                self.reports.get(&(*epoch, *node)).map_or(0, BTreeSet::len)
            }
            Some(_) | None => 0,
        };
        found.check(votes >= self.quorum, Invariant::Authority, || {
            format!("{node:?} is absent on {votes} reports, a quorum is {}", self.quorum)
        });
    }

    /// The burned and the treasury's share are rounded down, the proposer gets the rest.
    fn check_fees(
        &self,
        genesis: &Genesis,
        fees: i128,
        block: &BlockReceipt,
        found: &mut Violations,
    ) {
        let params = genesis.params();
        let burned = fees * i128::from(params.fee_burn_bps.points()) / 10_000;
        let treasury = fees * i128::from(params.fee_treasury_bps.points()) / 10_000;
        let shared: Vec<(i128, i128, i128)> = block
            .events
            .iter()
            .filter_map(|event| {
                let Event::FeesShared { earned, burned, treasury, .. } = event else {
                    return None;
                };
                Some((units(*burned), units(*treasury), units(*earned)))
            })
            .collect();
        let due = (burned, treasury, fees - burned - treasury);
        let expected = if fees == 0 { Vec::new() } else { vec![due] };
        found.check(shared == expected, Invariant::Money, || {
            format!("fees of {fees} were shared as {shared:?}, expected {expected:?}")
        });
    }

    /// Compares the books with the entries.
    pub(crate) fn compare(&self, scan: &Scan, found: &mut Violations) {
        for (account, booked) in &self.balances {
            let held = scan.balances.get(account).copied().unwrap_or(0);
            found.check(i128::try_from(held) == Ok(*booked), Invariant::Money, || {
                format!("{account:?} holds {held}, events explain {booked}")
            });
        }
        for account in scan.balances.keys().filter(|id| !self.balances.contains_key(id)) {
            found.add(Invariant::Money, format!("no event explains the account {account:?}"));
        }
        for (account, booked) in &self.stakes {
            let held = scan.stakes.get(account).cloned().unwrap_or_default();
            let unbonding: i128 =
                held.unbonding.as_slice().iter().map(|item| units(item.amount)).sum();
            let same = units(held.active) == booked.active && unbonding == booked.unbonding;
            found.check(same, Invariant::Money, || {
                format!("{account:?} has {held:?} at stake, events explain {booked:?}")
            });
        }
        for (id, job) in &scan.jobs {
            let booked = self.jobs.locked(id);
            found.check(booked == Some(units(job.escrow)), Invariant::Money, || {
                format!("{id:?} locks {}, events explain {booked:?}", job.escrow)
            });
            let bond = scan.disputes.get(id).map(|dispute| units(dispute.bond));
            let booked = self.jobs.disputed(id);
            found.check(booked == bond, Invariant::Money, || {
                format!("{bond:?} stands on an objection to {id:?}, events explain {booked:?}")
            });
            let bond = scan.complaints.get(id).map_or(0, |it| units(it.bond));
            let booked = self.complaints.bond(id);
            found.check(booked == bond, Invariant::Money, || {
                format!("{bond} stands on a complaint about {id:?}, events explain {booked}")
            });
        }
        if let Some(totals) = &scan.totals {
            let held = (units(totals.treasury), units(totals.burned));
            found.check(held == (self.treasury, self.burned), Invariant::Money, || {
                let booked = (self.treasury, self.burned);
                format!("treasury and burned are {held:?}, events explain {booked:?}")
            });
        }
    }
}

/// An event about a promise or a checkpoint, which no simulated client asks for.
fn unasked(event: &Event, found: &mut Violations) {
    found.add(Invariant::Work, format!("{event:?}: nobody asks for it"));
}
