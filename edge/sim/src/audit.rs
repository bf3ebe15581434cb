//! The accountant: books money by what receipts and events say, and compares with what the entries
//! hold. It knows nothing of how the ledger executes; that a payment is booked twice, a refund lost
//! or a fee shared wrongly shows as a difference.

use crate::{
    scan::Scan,
    violation::{Invariant, Violations},
};
use std::collections::{BTreeMap, BTreeSet};
use tg_types::{
    amount::Amount,
    genesis::Genesis,
    header::Header,
    ids::{AccountId, JobId, NodeId, TxId},
    key::{Domain, PublicKey},
    reason::Reason,
    receipt::{BlockReceipt, Event, Receipt, Status},
    tx::{Action, Lane, SignedTx},
};

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
    jobs: BTreeMap<JobId, i128>,
    treasury: i128,
    burned: i128,
    next: BTreeMap<(AccountId, Lane), u64>,
    seen: BTreeSet<TxId>,
    reports: BTreeMap<(u64, NodeId), BTreeSet<AccountId>>,
    domain: Domain,
    quorum: usize,
    /// Owners of seats that may be slashed, because they do equivocate.
    liars: BTreeSet<AccountId>,
}

fn units(amount: Amount) -> i128 {
    i128::from(amount.units())
}

impl Audit {
    pub(crate) fn new(genesis: &Genesis, liars: &BTreeSet<PublicKey>) -> Self {
        let seats = genesis.validators().len();
        Self {
            balances: BTreeMap::new(),
            stakes: BTreeMap::new(),
            jobs: BTreeMap::new(),
            treasury: units(genesis.treasury()),
            burned: 0,
            next: BTreeMap::new(),
            seen: BTreeSet::new(),
            reports: BTreeMap::new(),
            domain: genesis.domain(),
            quorum: seats - (seats - 1) / 3,
            liars: liars.iter().map(|key| AccountId::from(*key)).collect(),
        }
    }

    /// Books a block.
    pub(crate) fn book(
        &mut self,
        genesis: &Genesis,
        header: &Header,
        txs: &[SignedTx],
        receipts: &[Receipt],
        block: &BlockReceipt,
        found: &mut Violations,
    ) {
        found.check(txs.len() == receipts.len(), Invariant::Replay, || {
            format!("{} receipts for {} transactions", receipts.len(), txs.len())
        });
        // What fell due comes before the transactions, the fees after them.
        let fees: i128 = receipts.iter().map(|receipt| units(receipt.fee)).sum();
        for event in &block.events {
            self.book_event(genesis, None, event, found);
        }
        for (tx, receipt) in txs.iter().zip(receipts) {
            self.book_tx(genesis, header, tx, receipt, found);
        }
        self.check_fees(genesis, fees, block, found);
    }

    fn book_tx(
        &mut self,
        genesis: &Genesis,
        header: &Header,
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
        let fits = fits(body.sender, id, &body.action, receipt, header, genesis);
        found.check(fits, Invariant::Authority, || {
            format!("{id:?} ({:?}) led to {:?} {:?}", body.action, receipt.status, receipt.events)
        });
        for event in &receipt.events {
            self.book_event(genesis, Some((body.sender, &body.action)), event, found);
        }
    }

    fn book_event(
        &mut self,
        genesis: &Genesis,
        by: Option<(AccountId, &Action)>,
        event: &Event,
        found: &mut Violations,
    ) {
        match event {
            Event::AccountCredited { account, amount } => self.pay(account, units(*amount)),
            Event::Transferred { from, to, amount } => {
                self.pay(from, -units(*amount));
                self.pay(to, units(*amount));
            }
            Event::Staked { account, amount } => {
                // Seats have their stake from the genesis; others pay for it.
                if by.is_some() {
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
            Event::JobQueued { job, owner, escrow } => {
                self.pay(owner, -units(*escrow));
                self.jobs.insert(*job, units(*escrow));
            }
            Event::JobCancelled { job, owner, refund }
            | Event::JobExpired { job, owner, refund } => {
                let locked = self.jobs.insert(*job, 0);
                found.check(locked == Some(units(*refund)), Invariant::Money, || {
                    format!("{job:?} had {locked:?} locked and {refund} came back")
                });
                self.pay(owner, units(*refund));
            }
            Event::Slashed { offender, reporter, amount, bounty } => {
                self.slash(genesis, offender, units(*amount), found);
                self.pay(reporter, units(*bounty));
                self.burned += units(*amount) - units(*bounty);
            }
            Event::PenaltyTaken { account, amount } => {
                self.pay(account, -units(*amount));
                self.burned += units(*amount);
            }
            Event::FeesShared { proposer, earned, burned, treasury } => {
                self.pay(proposer, units(*earned));
                self.burned += units(*burned);
                self.treasury += units(*treasury);
            }
            Event::NodeDropped { node, .. } => self.check_drop(by, node, found),
            Event::NodeRegistered { .. }
            | Event::NodeChanged { .. }
            | Event::NodeLeft { .. }
            | Event::AbsenceReported { .. }
            | Event::BeaconRecorded { .. } => {}
        }
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
        let from_active = amount.min(stake.active);
        stake.active -= from_active;
        stake.unbonding -= amount - from_active;
    }

    /// A node is dropped only when a quorum of seats missed it in one epoch.
    fn check_drop(&self, by: Option<(AccountId, &Action)>, node: &NodeId, found: &mut Violations) {
        let votes = match by {
            Some((_, Action::ReportAbsent { epoch, .. })) => {
                self.reports.get(&(*epoch, *node)).map_or(0, BTreeSet::len)
            }
            Some(_) | None => 0,
        };
        found.check(votes >= self.quorum, Invariant::Authority, || {
            format!("{node:?} was dropped on {votes} reports, a quorum is {}", self.quorum)
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
            let booked = self.jobs.get(id).copied();
            found.check(booked == Some(units(job.escrow)), Invariant::Money, || {
                format!("{id:?} locks {}, events explain {booked:?}", job.escrow)
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

/// Whether a receipt is one that this action of this sender may have.
fn fits(
    sender: AccountId,
    id: TxId,
    action: &Action,
    receipt: &Receipt,
    header: &Header,
    genesis: &Genesis,
) -> bool {
    let events = receipt.events.as_slice();
    if let Status::Failed(reason) = receipt.status {
        return match (reason, events) {
            (Reason::EvidenceForged, [Event::PenaltyTaken { account, .. }]) => *account == sender,
            (_, events) => events.is_empty(),
        };
    }
    match (action, events) {
        (Action::Transfer { to, amount, .. }, [event]) => {
            *event == Event::Transferred { from: sender, to: *to, amount: *amount }
        }
        (Action::Stake { amount }, [event]) => {
            *event == Event::Staked { account: sender, amount: *amount }
        }
        (Action::Unstake { amount }, [event]) => {
            header.tick.plus(genesis.params().unbonding).is_ok_and(|due| {
                *event == Event::UnbondingStarted { account: sender, amount: *amount, due }
            })
        }
        (Action::RegisterNode { node, .. }, [event]) => {
            *event == Event::NodeRegistered { node: *node, owner: sender }
        }
        (Action::ChangeNode { node, .. }, [event]) => {
            *event == Event::NodeChanged { node: *node, owner: sender }
        }
        (Action::LeaveNode { node }, [event]) => {
            *event == Event::NodeLeft { node: *node, owner: sender }
        }
        (Action::SubmitJob { escrow, .. }, [event]) => {
            *event == Event::JobQueued { job: JobId::of(id), owner: sender, escrow: *escrow }
        }
        (Action::CancelJob { job }, [Event::JobCancelled { job: closed, owner, .. }]) => {
            closed == job && *owner == sender
        }
        (Action::SubmitEvidence { .. }, [Event::Slashed { reporter, .. }]) => *reporter == sender,
        (
            Action::ReportAbsent { epoch, .. },
            [Event::AbsenceReported { reporter, epoch: at, .. }, dropped @ ..],
        ) => {
            *reporter == sender
                && at == epoch
                && dropped.iter().all(|event| matches!(event, Event::NodeDropped { .. }))
        }
        _ => false,
    }
}
