//! The ledger's two entry points. `apply` executes a block as it is and says whether it may exist;
//! `build` picks from candidates what may be in a block and executes that. Both are the same loop
//! over the same session and differ only in what an inadmissible transaction means.

use std::collections::{BTreeMap, BTreeSet};

use tg_types::ids::{AccountId, Hash32};
use tg_types::{BlockReceipt, CheckedTx, DurationMs, Height, Lane, Reason, Receipt, Tick};

use crate::cursor::Cursor;
use crate::error::{ApplyError, Fail, Stop};
use crate::job::{draw, make_room, place, promise, rebalance};
use crate::rules::{BlockEnv, Budget, Rules};
use crate::session::Session;
use crate::totals::Count;
use crate::view::{ChangeSet, View};
use crate::voucher::VOUCHER_SIGNATURES_PER_BLOCK_MAX;
use crate::{beacon, capacity, due, fee, first, job, keys, log, voucher};

/// How much later than the genesis says the first block may be. A network may wait for its
/// validators, but not so long that times come near the end of their range.
pub const FIRST_BLOCK_DELAY_MAX: DurationMs = DurationMs::new(3_650 * DurationMs::DAY.get());

/// Jobs that a block takes in. Each is an entry of some hundred bytes with its dates, and takes
/// some ten microseconds: this bounds the time of a block to about a tenth of a second.
pub const JOBS_PER_BLOCK_MAX: u32 = 4_096;

/// How many jobs a transaction submits.
fn jobs_of(tx: &CheckedTx) -> u32 {
    tx.body().action.jobs().map(|(_, count)| u32::from(count)).fold(0, u32::saturating_add)
}

/// What a block does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The entries that change.
    pub changes: ChangeSet,
    /// One receipt for every transaction.
    pub receipts: Vec<Receipt>,
    /// What the block did by itself.
    pub block_receipt: BlockReceipt,
    /// The Merkle root over the receipts' bytes, the block's own last.
    pub receipts_root: Hash32,
    /// The root over the digests of all headers before this block.
    pub log_root: Hash32,
    /// How many events all receipts hold together.
    pub events_len: usize,
}

/// A block made from candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The candidates in the block, by their place in the list and in the block's order.
    pub included: Vec<usize>,
    /// The candidates that may not be in it, and why. Those in neither list found no room.
    pub refused: Vec<(usize, Reason)>,
    /// What the block does.
    pub applied: Applied,
}

/// Executes a block. An inadmissible transaction makes the whole block invalid.
pub fn apply(
    rules: &Rules,
    view: &impl View,
    env: &BlockEnv,
    txs: &[CheckedTx],
) -> Result<Applied, ApplyError> {
    run(Session::new(rules, view, env), txs, &mut Whole { txs })
}

/// Makes a block from as many candidates as may be in it, in their order.
pub fn build(
    rules: &Rules,
    view: &impl View,
    env: &BlockEnv,
    candidates: &[CheckedTx],
    budget: Budget,
) -> Result<Built, ApplyError> {
    let mut picked = Picked {
        budget,
        bytes: 0,
        signatures: 0,
        jobs: 0,
        proofs: Proofs::default(),
        proofs_max: Proofs::default(),
        included: Vec::new(),
        refused: Vec::new(),
        waiting: BTreeSet::new(),
    };
    let applied = run(Session::new(rules, view, env), candidates, &mut picked)?;
    Ok(Built { included: picked.included, refused: picked.refused, applied })
}

/// What becomes of transactions: the one difference between applying and building.
trait Policy {
    /// Sets the limits in force, once they are known.
    fn limit(&mut self, limits: &Limits) -> Result<(), ApplyError>;

    /// Whether the transaction is tried at all.
    fn wants(&mut self, tx: &CheckedTx) -> bool;

    /// The transaction is in the block.
    fn include(&mut self, index: usize, tx: &CheckedTx);

    /// The transaction must not be in the block.
    fn refuse(&mut self, index: usize, tx: &CheckedTx, reason: Reason) -> Result<(), ApplyError>;
}

/// All or nothing.
struct Whole<'a> {
    txs: &'a [CheckedTx],
}

impl Policy for Whole<'_> {
    fn limit(&mut self, limits: &Limits) -> Result<(), ApplyError> {
        limits.check(self.txs)
    }

    fn wants(&mut self, _tx: &CheckedTx) -> bool {
        true
    }

    fn include(&mut self, _index: usize, _tx: &CheckedTx) {}

    fn refuse(&mut self, index: usize, _tx: &CheckedTx, reason: Reason) -> Result<(), ApplyError> {
        Err(ApplyError::InadmissibleTx { index, reason })
    }
}

/// What fits and may be.
struct Picked {
    budget: Budget,
    bytes: u64,
    signatures: u32,
    jobs: u32,
    proofs: Proofs,
    proofs_max: Proofs,
    included: Vec<usize>,
    refused: Vec<(usize, Reason)>,
    /// Lanes in which something found no room. What comes behind it lacks no nonce, but waits.
    waiting: BTreeSet<(AccountId, Lane)>,
}

/// Whether a transaction is refused by what else is in the block, so that the next may take it.
const fn is_for_the_next(reason: Reason) -> bool {
    matches!(reason, Reason::EvidenceLimit | Reason::ProgramLimit)
}

impl Policy for Picked {
    fn limit(&mut self, limits: &Limits) -> Result<(), ApplyError> {
        let rate_max = u32::try_from(limits.rate_max).unwrap_or(u32::MAX);
        self.budget.tx_max = self.budget.tx_max.min(limits.tx_max).min(rate_max);
        self.budget.bytes_max = self.budget.bytes_max.min(limits.bytes_max);
        self.proofs_max = limits.proofs_max;
        Ok(())
    }

    fn wants(&mut self, tx: &CheckedTx) -> bool {
        let lane = (tx.body().sender, tx.body().lane);
        if self.waiting.contains(&lane) {
            return false;
        }
        let signatures = self.signatures.saturating_add(voucher::signatures_of(tx));
        let has_place = self.included.len() < self.budget.tx_max as usize
            && signatures <= VOUCHER_SIGNATURES_PER_BLOCK_MAX
            && self.jobs.saturating_add(jobs_of(tx)) <= JOBS_PER_BLOCK_MAX
            && self.proofs.with(tx).is_within(&self.proofs_max);
        let bytes = self.bytes + u64::from(tx.size_bytes());
        let is_wanted = has_place && bytes <= self.budget.bytes_max.into();
        if !is_wanted {
            self.waiting.insert(lane);
        }
        is_wanted
    }

    fn include(&mut self, index: usize, tx: &CheckedTx) {
        self.bytes += u64::from(tx.size_bytes());
        self.signatures = self.signatures.saturating_add(voucher::signatures_of(tx));
        self.jobs = self.jobs.saturating_add(jobs_of(tx));
        self.proofs = self.proofs.with(tx);
        self.included.push(index);
    }

    fn refuse(&mut self, index: usize, tx: &CheckedTx, reason: Reason) -> Result<(), ApplyError> {
        if is_for_the_next(reason) {
            self.waiting.insert((tx.body().sender, tx.body().lane));
        } else {
            self.refused.push((index, reason));
        }
        Ok(())
    }
}

/// The loop over a block.
fn run(
    mut session: Session<'_>,
    txs: &[CheckedTx],
    policy: &mut impl Policy,
) -> Result<Applied, ApplyError> {
    let done = open(&mut session, txs, policy)
        .and_then(|()| take_all(&mut session, txs, policy))
        .and_then(|()| finish(&mut session));
    match done {
        Ok(()) => close(session),
        Err(stop) => Err(session.explain(stop, txs)),
    }
}

/// Everything that comes before the transactions.
fn open(
    session: &mut Session<'_>,
    txs: &[CheckedTx],
    policy: &mut impl Policy,
) -> Result<(), Stop> {
    let base = [keys::cursor(), keys::totals(), keys::params(), keys::log()];
    session.require(&base)?;
    follow(session)?;
    session.cursor.allowance = allowance(session);
    policy.limit(&Limits::of(session))?;
    if session.env.height == Height::FIRST {
        first::write_genesis(session)?;
    }
    beacon::record_parent(session)?;
    beacon::record_certificates(session)?;
    session.log_root = log::append_parent(session)?;
    load_ahead(session, txs)?;
    capacity::draw_all(session)?;
    draw::draw_all(session)?;
    due::visit(session)?;
    session.events_opening = std::mem::take(&mut session.events);
    Ok(())
}

/// Loads what the block will do by itself, all at once: whatever is found missing later makes all
/// transactions be executed again.
fn load_ahead(session: &mut Session<'_>, txs: &[CheckedTx]) -> Result<(), Stop> {
    let loads = [
        due::load_ahead(session),
        capacity::load_ahead(session),
        draw::load_ahead(session),
        place::load_ahead(session),
        promise::load_ahead(session),
        make_room::load_ahead(session),
        rebalance::load_ahead(session),
        job::load_submitted(session, txs),
    ];
    session.all_of(loads)
}

/// Takes all transactions that the policy wants. After an unknown entry was met, the rest is
/// tried only to find out which other entries are unknown.
fn take_all(
    session: &mut Session<'_>,
    txs: &[CheckedTx],
    policy: &mut impl Policy,
) -> Result<(), Stop> {
    for (index, tx) in txs.iter().enumerate() {
        if !policy.wants(tx) {
            continue;
        }
        match session.take(tx) {
            Ok(()) => policy.include(index, tx),
            Err(Fail::Stop(Stop::Unknown(key))) => session.note_missing(key),
            Err(_) if session.check_complete().is_err() => {}
            Err(Fail::Stop(Stop::Fatal(error))) => return Err(error.into()),
            Err(Fail::Refused(reason)) => policy.refuse(index, tx, reason)?,
        }
    }
    session.check_complete()
}

/// The last changes of a block.
fn finish(session: &mut Session<'_>) -> Result<(), Stop> {
    let turn = promise::renew_all(session)?;
    place::place_all(session)?;
    promise::decide_all(session, turn)?;
    make_room::ask_all(session)?;
    rebalance::ask_all(session)?;
    fee::share(session)?;
    let (height, tick) = (session.env.height, session.env.tick);
    let used = (session.receipts.len() as u64).saturating_mul(ALLOWANCE_PER_TX);
    let allowance = session.cursor.allowance.saturating_sub(used);
    let cursor = Cursor { height, tick, allowance, ..session.cursor };
    session.tables.cursors.put(&keys::ONLY, Some(cursor))?;
    session.tables.totals.put(&keys::ONLY, Some(session.totals))
}

/// Checks that the block follows the state, and takes over what the state remembers.
fn follow(session: &mut Session<'_>) -> Result<(), Stop> {
    let env = session.env;
    let cursor = session.tables.cursors.get(&keys::ONLY)?.copied();
    let expected = match &cursor {
        Some(cursor) => cursor.height.next()?,
        None => Height::FIRST,
    };
    if env.height != expected {
        return Err(ApplyError::WrongHeight { found: env.height, expected }.into());
    }
    let genesis = &session.rules.genesis;
    let seats = genesis.validators();
    let seat = seats
        .binary_search_by(|seat| seat.key.as_bytes().cmp(env.proposer.as_bytes()))
        .map_err(|_| ApplyError::UnknownProposer(env.proposer))?;
    session.proposer_owner = seats[seat].owner;
    let parent_tick = cursor.map_or(genesis.start(), |cursor| cursor.tick);
    if env.parent_tick != parent_tick {
        let (found, expected) = (env.parent_tick, parent_tick);
        return Err(ApplyError::WrongParentTick { found, expected }.into());
    }
    match cursor {
        Some(cursor) => remember(session, cursor)?,
        None => session.cursor.due_second = due::second_of(env.tick),
    }
    check_tick(session, cursor.is_none())
}

/// Takes the state's parameters, totals and cursor over.
fn remember(session: &mut Session<'_>, cursor: Cursor) -> Result<(), Stop> {
    let params = session.tables.params.get(&keys::ONLY)?;
    let params = params.ok_or(ApplyError::Incomplete(keys::params()))?.params.clone();
    let totals = session.tables.totals.get(&keys::ONLY)?.copied();
    let totals = totals.ok_or(ApplyError::Incomplete(keys::totals()))?;
    session.params = params;
    session.totals_before = totals;
    session.totals = totals;
    session.cursor = cursor;
    Ok(())
}

/// Time does not go back and does not jump.
fn check_tick(session: &Session<'_>, is_first: bool) -> Result<(), Stop> {
    let (found, earliest) = (session.env.tick, session.env.parent_tick);
    let step_max = if is_first { FIRST_BLOCK_DELAY_MAX } else { session.params.tick_step_max };
    let latest = earliest.plus(step_max).unwrap_or(Tick::MAX);
    if found < earliest || found > latest {
        return Err(ApplyError::BadTick { found, earliest, latest }.into());
    }
    Ok(())
}

/// What one transaction takes of the allowance. A second has as many milliseconds, so each of them
/// earns the rate.
const ALLOWANCE_PER_TX: u64 = DurationMs::SECOND.get();

/// What the rate allows a block: what was left over, and what the time since the parent earns, at
/// most one second's worth. A ledger begins with that much.
fn allowance(session: &Session<'_>) -> u64 {
    let per_ms = u64::from(session.params.tx_per_second_max);
    let elapsed = session.env.tick.since(session.env.parent_tick).unwrap_or_default();
    let earned = per_ms.saturating_mul(elapsed.get());
    let most = per_ms.saturating_mul(DurationMs::SECOND.get());
    if session.env.height == Height::FIRST {
        return most;
    }
    session.cursor.allowance.saturating_add(earned).min(most)
}

/// How much a block may hold.
struct Limits {
    tx_max: u32,
    rate_max: u64,
    bytes_max: u32,
    proofs_max: Proofs,
}

/// Results of a block that are verified while it is executed: how many, and what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Proofs {
    count: u32,
    cost: u64,
    bytes: u64,
}

impl Proofs {
    /// With a transaction that may show another one.
    fn with(self, tx: &CheckedTx) -> Self {
        let Some(cost) = tx.body().action.proof_cost() else { return self };
        Self {
            count: self.count.saturating_add(1),
            cost: self.cost.saturating_add(cost),
            bytes: self.bytes.saturating_add(tx.size_bytes().into()),
        }
    }

    const fn is_within(&self, max: &Self) -> bool {
        self.count <= max.count && self.cost <= max.cost && self.bytes <= max.bytes
    }
}

impl Limits {
    fn of(session: &Session<'_>) -> Self {
        let params = &session.params;
        Self {
            tx_max: params.block_tx_max,
            rate_max: session.cursor.allowance / ALLOWANCE_PER_TX,
            bytes_max: params.block_bytes_max,
            proofs_max: Proofs {
                count: params.jobs.proofs_per_block_max,
                cost: params.jobs.proof_cost_per_block_max,
                bytes: params.jobs.proof_bytes_per_block_max.into(),
            },
        }
    }

    fn check(&self, txs: &[CheckedTx]) -> Result<(), ApplyError> {
        let count = txs.len();
        if count > self.tx_max as usize {
            return Err(ApplyError::TooManyTxs { count, max: self.tx_max });
        }
        if count as u64 > self.rate_max {
            return Err(ApplyError::TooFast { count, max: self.rate_max });
        }
        let bytes: u64 = txs.iter().map(|tx| u64::from(tx.size_bytes())).sum();
        if bytes > self.bytes_max.into() {
            return Err(ApplyError::TooManyBytes { bytes, max: self.bytes_max });
        }
        let signatures = txs.iter().map(voucher::signatures_of).fold(0, u32::saturating_add);
        if signatures > VOUCHER_SIGNATURES_PER_BLOCK_MAX {
            let max = VOUCHER_SIGNATURES_PER_BLOCK_MAX;
            return Err(ApplyError::TooManySignatures { signatures, max });
        }
        let jobs = txs.iter().map(jobs_of).fold(0, u32::saturating_add);
        if jobs > JOBS_PER_BLOCK_MAX {
            return Err(ApplyError::TooManyJobs { jobs, max: JOBS_PER_BLOCK_MAX });
        }
        let proofs = txs.iter().fold(Proofs::default(), Proofs::with);
        if !proofs.is_within(&self.proofs_max) {
            let Proofs { count, cost, bytes } = proofs;
            return Err(ApplyError::TooManyProofs { count, cost, bytes });
        }
        Ok(())
    }
}

/// Checks the money and puts the result together.
fn close(mut session: Session<'_>) -> Result<Applied, ApplyError> {
    let height = session.env.height;
    let mut events = std::mem::take(&mut session.events_opening);
    events.append(&mut session.events);
    let block_receipt = BlockReceipt { height, events };
    session.hash_leaf(&block_receipt);
    let receipts_root = session.receipts_root();
    let in_receipts: usize = session.receipts.iter().map(|receipt| receipt.events.len()).sum();
    let events_len = in_receipts + block_receipt.events.len();

    let Session { tables, totals, totals_before, receipts, log_root, .. } = session;
    let closed = tables.close();
    let (held_before, held_after) = (closed.held_before, closed.held_after);
    totals.check(&Count { totals_before, held_before, held_after })?;
    let changes: BTreeMap<_, _> = closed.changes.into_iter().collect();
    Ok(Applied { changes, receipts, block_receipt, receipts_root, log_root, events_len })
}
