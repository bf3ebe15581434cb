//! Transactions that wait for a block.
//!
//! Each sender has lanes, and a lane is a queue by nonce, so a sender's transactions leave in order
//! while different lanes do not wait for each other. Among the heads of lanes the better fee per
//! byte goes first, then the earlier arrival. The pool is small on purpose: what it takes in is
//! final soon, and what it cannot take is refused at once with a reason. What other nodes have
//! admitted is taken far beyond that: a node that misses some could not build blocks with what
//! follows in their lanes.
//!
//! Transactions of executed blocks are in flight: they wait here until a block is final, but no
//! other block is built with them. A lane whose first nonce is too high is parked: what waits there
//! takes no place in blocks until something happens in its lane, and leaves first when the pool is
//! full.

use std::{
    collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap},
    sync::Arc,
};
use tg_types::{
    ids::{AccountId, TxId},
    params::Params,
    reason::Reason,
    tick::Height,
    tx::{CheckedTx, LANES_MAX, Lane, Nonce},
};

/// A node's clients are served until this many milliseconds of the chain's permitted rate wait for
/// a block, so that an accepted transaction does not wait longer than about that.
const QUEUE_MS: u64 = 200;

/// Clients are served at least until so many wait, so that short bursts on a slow chain are taken.
const POOL_TXS_MIN: usize = 128;

/// Clients are served at most until so many wait, whatever the chain's rate.
const POOL_TXS_MAX: usize = 20_000;

/// Transactions held at most, in flight and from peers included, in multiples of those that may
/// wait while clients are served.
const HELD_SHARE: usize = 8;

/// Bytes held at most.
const POOL_BYTES_MAX: usize = 64 << 20;

/// The most bytes of results that are shown with proofs: a few are taken in a block, and many that
/// wait must not keep others out. Room for sixteen of the largest, so for those of eight senders.
const PROOF_BYTES_MAX: usize = 32 << 20;

/// Transactions of one sender; nobody fills the pool alone.
const SENDER_TXS_MAX: usize = 1_024;

/// Results with proofs of one sender that wait at once. A node shows one after the other, and few
/// senders must not take all the room there is for them.
const PROOFS_OF_SENDER_MAX: usize = 2;

/// Where a transaction stands: its sender's lane.
type LaneKey = (AccountId, Lane);

/// The order in which heads of lanes leave: better fee per byte first, then earlier arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Fee per byte in 1/1024 base units, negated by `u64::MAX -` so that better comes first.
    fee_rate_inverse: u64,
    arrival: u64,
}

#[derive(Clone, Debug)]
struct Waiting {
    tx: Arc<CheckedTx>,
    rank: Rank,
}

/// Where a transaction comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A client of this node.
    Client,
    /// Another node, which has admitted it.
    Peer,
}

/// Transactions that wait for a block, in the order in which they leave.
///
/// Hash maps are only looked up, never walked, so the same events give the same pool everywhere.
#[derive(Debug)]
pub struct Mempool {
    lanes: HashMap<LaneKey, BTreeMap<Nonce, Waiting>>,
    heads: BTreeSet<(Rank, LaneKey)>,
    by_id: HashMap<TxId, (LaneKey, Nonce)>,
    senders: HashMap<AccountId, usize>,
    /// Transactions in flight, with the height of the block.
    flying: HashMap<TxId, Height>,
    flights: BTreeMap<Height, Vec<TxId>>,
    /// How many are held and not in flight.
    idle: usize,
    /// Lanes that lack an earlier nonce; they have no head.
    parked: BTreeSet<LaneKey>,
    /// How many of the idle ones are in parked lanes.
    parked_idle: usize,
    bytes: usize,
    /// How many of them are of results that are shown with proofs.
    proof_bytes: usize,
    arrivals: u64,
    capacity: usize,
}

impl Mempool {
    /// An empty pool sized for the chain's parameters.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        let rate = u64::from(params.tx_per_second_max);
        let queue = usize::try_from(rate * QUEUE_MS / 1_000).unwrap_or(POOL_TXS_MAX);
        Self {
            lanes: HashMap::new(),
            heads: BTreeSet::new(),
            by_id: HashMap::new(),
            senders: HashMap::new(),
            flying: HashMap::new(),
            flights: BTreeMap::new(),
            idle: 0,
            parked: BTreeSet::new(),
            parked_idle: 0,
            bytes: 0,
            proof_bytes: 0,
            arrivals: 0,
            capacity: queue.clamp(POOL_TXS_MIN, POOL_TXS_MAX),
        }
    }

    /// Number of transactions held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Clients are served until so many are ready.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Most transactions held.
    #[must_use]
    pub const fn most(&self) -> usize {
        self.capacity * HELD_SHARE
    }

    /// The transaction with this id, if it waits here.
    #[must_use]
    pub fn get(&self, id: &TxId) -> Option<&Arc<CheckedTx>> {
        let (lane, nonce) = self.by_id.get(id)?;
        self.lanes.get(lane)?.get(nonce).map(|waiting| &waiting.tx)
    }

    /// Whether a transaction is held or in flight.
    #[must_use]
    pub fn knows(&self, id: &TxId) -> bool {
        self.by_id.contains_key(id) || self.flying.contains_key(id)
    }

    /// How many a block could be built with now: held, not in flight, not parked.
    #[must_use]
    pub const fn ready(&self) -> usize {
        self.idle - self.parked_idle
    }

    /// The lane's first transaction has a nonce that is too high for now.
    pub fn park(&mut self, sender: AccountId, lane: Lane) {
        let key = (sender, lane);
        if self.lanes.contains_key(&key) && !self.parked.contains(&key) {
            self.unhead(key);
            self.parked.insert(key);
            self.parked_idle += self.idle_in(key);
        }
    }

    /// Something happened in a lane: it may not lack a nonce any more.
    fn unpark(&mut self, key: LaneKey) {
        if self.parked.remove(&key) {
            self.parked_idle -= self.idle_in(key);
            self.head(key);
        }
    }

    fn idle_in(&self, key: LaneKey) -> usize {
        let waiting = self.lanes.get(&key).into_iter().flat_map(BTreeMap::values);
        waiting.filter(|it| !self.flying.contains_key(&it.tx.id())).count()
    }

    /// Transactions in flight, held or not.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// A block at this height was executed with these transactions.
    pub fn take_off(&mut self, height: Height, ids: impl Iterator<Item = TxId>) {
        let flight = self.flights.entry(height).or_default();
        for id in ids {
            let before = self.flying.get(&id).copied();
            if let Some((lane, _)) = self.by_id.get(&id).filter(|_| before.is_none()) {
                self.idle -= 1;
                self.parked_idle -= usize::from(self.parked.contains(lane));
            }
            self.flying.insert(id, before.map_or(height, |before| before.max(height)));
            if before != Some(height) {
                flight.push(id);
            }
        }
    }

    /// The block at this height is final: what flew there or below and is still held waits again.
    pub fn land(&mut self, height: Height) {
        while let Some(flight) = self.flights.first_entry().filter(|it| *it.key() <= height) {
            let at = *flight.key();
            for id in flight.remove() {
                // It may also fly at another height, in a block of another leader.
                if self.flying.get(&id) == Some(&at) {
                    self.flying.remove(&id);
                    if let Some((lane, _)) = self.by_id.get(&id).copied() {
                        self.idle += 1;
                        self.parked_idle += usize::from(self.parked.contains(&lane));
                        self.unpark(lane);
                    }
                }
            }
        }
    }

    /// The first nonce from `settled` on that no transaction of the lane waits with.
    #[must_use]
    pub fn nonce_after(&self, sender: &AccountId, lane: Lane, settled: Nonce) -> Nonce {
        let Some(waiting) = self.lanes.get(&(*sender, lane)) else { return settled };
        let mut next = settled;
        for nonce in waiting.range(settled..).map(|(nonce, _)| *nonce) {
            match next.next() {
                Some(after) if nonce == next => next = after,
                _ => break,
            }
        }
        next
    }

    /// Takes a transaction in.
    ///
    /// # Errors
    /// With the reason, if it is held already, its place in the lane is taken by one that pays as
    /// much, its sender has too many, or the pool is full.
    pub fn insert(&mut self, tx: Arc<CheckedTx>, source: Source) -> Result<(), Reason> {
        if source == Source::Client && self.ready() >= self.capacity() {
            return Err(Reason::PoolFull);
        }
        let size = size_of(&tx);
        self.make_room(size);
        if self.by_id.contains_key(&tx.id()) {
            return Err(Reason::PoolDuplicate);
        }
        let body = tx.body();
        let key = (body.sender, body.lane);
        let replaced = self.lanes.get(&key).and_then(|lane| lane.get(&body.nonce));
        match replaced {
            Some(held) if held.tx.body().fee >= body.fee => return Err(Reason::PoolReplaced),
            Some(_) => {}
            None => {
                if self.len() >= self.most() {
                    return Err(Reason::PoolFull);
                }
                if self.senders.get(&body.sender).is_some_and(|held| *held >= SENDER_TXS_MAX) {
                    return Err(Reason::SenderBusy);
                }
            }
        }
        self.check_bytes(&tx, replaced)?;
        let nonce = body.nonce;
        if replaced.is_some() {
            self.remove_at(key, nonce);
        }
        let rank = Rank {
            fee_rate_inverse: u64::MAX
                - body.fee.units().saturating_mul(1_024) / u64::from(tx.size_bytes().max(1)),
            arrival: self.arrivals,
        };
        self.arrivals += 1;
        self.bytes += size;
        self.proof_bytes += proof_size_of(&tx);
        let first = self.lanes.get(&key).and_then(|lane| lane.first_key_value());
        if first.is_some_and(|(first, _)| *first > nonce) {
            self.unpark(key); // it may be the one that was lacking
        }
        self.unhead(key);
        self.by_id.insert(tx.id(), (key, nonce));
        let is_idle = usize::from(!self.flying.contains_key(&tx.id()));
        self.idle += is_idle;
        self.parked_idle += is_idle * usize::from(self.parked.contains(&key));
        *self.senders.entry(key.0).or_default() += 1;
        self.lanes.entry(key).or_default().insert(nonce, Waiting { tx, rank });
        self.head(key);
        Ok(())
    }

    /// Refuses what would be too much beside the others that stay.
    fn check_bytes(&self, tx: &CheckedTx, replaced: Option<&Waiting>) -> Result<(), Reason> {
        let (freed, freed_proof) =
            replaced.map_or((0, 0), |held| (size_of(&held.tx), proof_size_of(&held.tx)));
        let proof = proof_size_of(tx);
        if self.bytes - freed + size_of(tx) > POOL_BYTES_MAX
            || self.proof_bytes - freed_proof + proof > PROOF_BYTES_MAX
        {
            return Err(Reason::PoolFull);
        }
        let others = self.proofs_of(&tx.body().sender) - usize::from(freed_proof > 0);
        if proof > 0 && others >= PROOFS_OF_SENDER_MAX {
            return Err(Reason::SenderBusy);
        }
        Ok(())
    }

    /// How many results with proofs of a sender wait.
    fn proofs_of(&self, sender: &AccountId) -> usize {
        let lanes = (0..LANES_MAX).filter_map(|number| Lane::new(number).ok());
        let lanes = lanes.filter_map(|lane| self.lanes.get(&(*sender, lane)));
        lanes.flat_map(BTreeMap::values).filter(|held| proof_size_of(&held.tx) > 0).count()
    }

    /// Lets the last of parked lanes go while there is no room.
    fn make_room(&mut self, size: usize) {
        while self.len() >= self.most() || self.bytes + size > POOL_BYTES_MAX {
            let Some(key) = self.parked.first().copied() else { return };
            let last = self.lanes.get(&key).and_then(|lane| lane.last_key_value());
            let Some((nonce, _)) = last else { return };
            self.remove_at(key, *nonce);
        }
    }

    /// The transactions that would leave first, at most `count`, lanes in nonce order. What is in
    /// flight stays out.
    #[must_use]
    pub fn candidates(&self, count: usize) -> Vec<Arc<CheckedTx>> {
        let mut heads = self.heads.iter().copied().peekable();
        // Successors of heads that were taken; `BinaryHeap` pops the largest, hence `Reverse`.
        let mut followers: BinaryHeap<std::cmp::Reverse<(Rank, LaneKey, Nonce)>> =
            BinaryHeap::new();
        let mut taken = Vec::with_capacity(count.min(self.len()));
        while taken.len() < count {
            let follower = followers.peek().map(|reverse| reverse.0.0);
            let from_heads = match (heads.peek(), follower) {
                (Some((rank, _)), Some(follower)) => *rank <= follower,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let (key, nonce) = if from_heads {
                let Some((_, key)) = heads.next() else { break };
                let first = self.lanes.get(&key).and_then(|lane| lane.first_key_value());
                let Some((nonce, _)) = first else { continue };
                (key, *nonce)
            } else {
                let Some(std::cmp::Reverse((_, key, nonce))) = followers.pop() else { break };
                (key, nonce)
            };
            let Some(lane) = self.lanes.get(&key) else { continue };
            let mut rest = lane.range(nonce..);
            let Some((_, waiting)) = rest.next() else { continue };
            if !self.flying.contains_key(&waiting.tx.id()) {
                taken.push(Arc::clone(&waiting.tx));
            }
            if let Some((next_nonce, next)) = rest.next() {
                // A follower never leaves before its predecessor, whatever it pays.
                followers.push(std::cmp::Reverse((next.rank, key, *next_nonce)));
            }
        }
        taken
    }

    /// A transaction became final: it and everything before it in its lane leaves.
    pub fn finalised(&mut self, sender: AccountId, lane: Lane, nonce: Nonce) {
        let key = (sender, lane);
        let stale: Vec<Nonce> = self
            .lanes
            .get(&key)
            .map(|lane| lane.range(..=nonce).map(|(nonce, _)| *nonce).collect())
            .unwrap_or_default();
        for nonce in stale {
            self.remove_at(key, nonce);
        }
        self.unpark(key);
    }

    /// Removes one transaction.
    pub fn remove(&mut self, id: &TxId) {
        if let Some((key, nonce)) = self.by_id.get(id).copied() {
            self.remove_at(key, nonce);
        }
    }

    /// Drops what can no longer enter a block after `height`, and returns it.
    pub fn expire(&mut self, height: Height) -> Vec<TxId> {
        let is_expired = |waiting: &&Waiting| waiting.tx.body().expires <= height;
        let heads = self.heads.iter().map(|(_, key)| key).chain(&self.parked);
        let lanes = heads.filter_map(|key| self.lanes.get(key));
        let expired: Vec<TxId> = lanes
            .flat_map(BTreeMap::values)
            .filter(is_expired)
            .map(|waiting| waiting.tx.id())
            .collect();
        for id in &expired {
            self.remove(id);
        }
        expired
    }

    fn head(&mut self, key: LaneKey) {
        if self.parked.contains(&key) {
            return;
        }
        if let Some(first) = self.lanes.get(&key).and_then(|lane| lane.values().next()) {
            self.heads.insert((first.rank, key));
        }
    }

    fn unhead(&mut self, key: LaneKey) {
        if let Some(first) = self.lanes.get(&key).and_then(|lane| lane.values().next()) {
            self.heads.remove(&(first.rank, key));
        }
    }

    fn remove_at(&mut self, key: LaneKey, nonce: Nonce) {
        self.unhead(key);
        if let Some(lane) = self.lanes.get_mut(&key) {
            if let Some(removed) = lane.remove(&nonce) {
                let id = removed.tx.id();
                self.by_id.remove(&id);
                self.bytes -= size_of(&removed.tx);
                self.proof_bytes -= proof_size_of(&removed.tx);
                let is_idle = usize::from(!self.flying.contains_key(&id));
                self.idle -= is_idle;
                self.parked_idle -= is_idle * usize::from(self.parked.contains(&key));
                if let Some(held) = self.senders.get_mut(&key.0) {
                    *held -= 1;
                    if *held == 0 {
                        self.senders.remove(&key.0);
                    }
                }
            }
            if lane.is_empty() {
                self.lanes.remove(&key);
                self.parked.remove(&key);
            }
        }
        self.head(key);
    }
}

fn size_of(tx: &CheckedTx) -> usize {
    usize::try_from(tx.size_bytes()).unwrap_or(POOL_BYTES_MAX)
}

/// The bytes of a result that is shown with a proof; none of anything else.
fn proof_size_of(tx: &CheckedTx) -> usize {
    let has_proof = tx.body().action.proof_cost().is_some();
    if has_proof { size_of(tx) } else { 0 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tg_types::{
        amount::Amount,
        bounded::Bytes,
        ids::{ChainId, GenesisHash},
        key::{Domain, SecretKey},
        tx::{Action, TxBody},
    };

    fn domain() -> Domain {
        let chain: ChainId = "test".parse().expect("a chain id");
        Domain { chain, genesis: GenesisHash::new([7; 32]) }
    }

    pub(crate) fn tx(sender: u8, lane: u8, nonce: u64, fee: u64) -> Arc<CheckedTx> {
        let key = SecretKey::from_seed([sender; 32]);
        let body = TxBody {
            sender: AccountId::from(key.public()),
            lane: Lane::new(lane).expect("a lane"),
            nonce: Nonce::new(nonce),
            expires: Height::new(10 + nonce),
            fee: Amount::new(fee).expect("below the cap"),
            idempotency: None,
            action: Action::Transfer {
                to: AccountId::from(key.public()),
                amount: Amount::ZERO,
                memo: Bytes::EMPTY,
            },
        };
        let domain = domain();
        Arc::new(CheckedTx::from_finalised(body.sign(&key, &domain), &domain))
    }

    fn pool(tx_per_second_max: u32) -> Mempool {
        let mut params = Params::local();
        params.tx_per_second_max = tx_per_second_max;
        Mempool::new(&params)
    }

    fn order(pool: &Mempool) -> Vec<(u8, u64)> {
        let senders: BTreeMap<AccountId, u8> = (1..=5)
            .map(|seed| (AccountId::from(SecretKey::from_seed([seed; 32]).public()), seed))
            .collect();
        let taken = pool.candidates(usize::MAX);
        taken.iter().map(|tx| (senders[&tx.body().sender], tx.body().nonce.get())).collect()
    }

    fn proof(sender: u8, lane: u8, nonce: u64) -> Arc<CheckedTx> {
        let key = SecretKey::from_seed([sender; 32]);
        let hash = tg_types::ids::Hash32::new([1; 32]);
        let result =
            tg_types::RunResult { output: hash, trace: hash, package: hash, package_bytes: 1 };
        let body = tx(sender, lane, nonce, 1_000).body().clone();
        let action = Action::ProveResult {
            job: tg_types::ids::JobId::new([1; 32]),
            result,
            cost: 1,
            shown: Bytes::new(vec![0; 300_000]).expect("within the bound"),
            vouchers: tg_types::List::default(),
        };
        let domain = domain();
        let signed = TxBody { action, ..body }.sign(&key, &domain);
        Arc::new(CheckedTx::from_finalised(signed, &domain))
    }

    /// Goal: few senders do not take all the room for results with proofs. Method: one sender in
    /// several lanes, parked ones too; others find room, and so does everything else of the first.
    #[test]
    fn few_results_with_proofs_of_one_sender_wait_at_once() {
        let mut pool = pool(10_000);
        for (lane, nonce) in [(0, 5), (1, 0)] {
            pool.insert(proof(1, lane, nonce), Source::Client).expect("fits");
        }
        pool.park(AccountId::from(SecretKey::from_seed([1; 32]).public()), Lane::FIRST);
        for source in [Source::Client, Source::Peer] {
            assert_eq!(pool.insert(proof(1, 2, 0), source), Err(Reason::SenderBusy));
        }
        pool.insert(tx(1, 3, 0, 500), Source::Client).expect("no proof");
        assert_eq!(
            pool.insert(proof(1, 3, 0), Source::Peer),
            Err(Reason::SenderBusy),
            "in its place"
        );
        pool.insert(tx(1, 2, 0, 1_000), Source::Client).expect("no proof");
        pool.insert(proof(2, 0, 0), Source::Client).expect("another sender");
        pool.remove(&proof(1, 1, 0).id());
        pool.insert(proof(1, 2, 1), Source::Client).expect("one has left");
    }

    #[test]
    fn candidates_leave_by_fee_but_never_out_of_lane_order() {
        let mut pool = pool(10_000);
        for (sender, nonce, fee) in [(1, 1, 9_000), (1, 0, 1_000), (2, 0, 5_000), (3, 0, 5_000)] {
            pool.insert(tx(sender, 0, nonce, fee), Source::Client).expect("fits");
        }
        assert_eq!(order(&pool), vec![(2, 0), (3, 0), (1, 0), (1, 1)]);
    }

    #[test]
    fn insert_of_better_fee_replaces_and_equal_fee_is_refused() {
        let mut pool = pool(10_000);
        pool.insert(tx(1, 0, 0, 1_000), Source::Client).expect("fits");
        assert_eq!(pool.insert(tx(1, 0, 0, 1_000), Source::Client), Err(Reason::PoolDuplicate));
        assert_eq!(pool.insert(tx(1, 0, 0, 999), Source::Client), Err(Reason::PoolReplaced));
        pool.insert(tx(1, 0, 0, 2_000), Source::Client).expect("pays more");
        assert_eq!(pool.len(), 1);
    }

    #[test]
    fn full_pool_refuses_and_one_sender_cannot_fill_it() {
        let mut small = pool(1);
        let capacity = u64::try_from(small.capacity()).expect("small");
        for nonce in 0..capacity {
            small.insert(tx(1, 0, nonce, 1_000), Source::Client).expect("fits");
        }
        assert_eq!(small.insert(tx(2, 0, 0, 1_000), Source::Client), Err(Reason::PoolFull));
        small.insert(tx(2, 0, 0, 1_000), Source::Peer).expect("another node has admitted it");
        let mut other = 1..;
        while small.len() < small.most() {
            let tx = tx(2, 0, other.next().expect("endless"), 1_000);
            small.insert(tx, Source::Peer).expect("fits");
        }
        assert_eq!(small.insert(tx(3, 0, 0, 1_000), Source::Peer), Err(Reason::PoolFull));
        let mut large = pool(1_000_000);
        for nonce in 0..u64::try_from(SENDER_TXS_MAX).expect("small") {
            large.insert(tx(1, 0, nonce, 1_000), Source::Client).expect("fits");
        }
        assert_eq!(large.insert(tx(1, 1, 0, 1_000), Source::Client), Err(Reason::SenderBusy));
    }

    #[test]
    fn finalised_nonce_takes_earlier_ones_of_its_lane_along() {
        let mut pool = pool(10_000);
        for (lane, nonce) in [(0, 0), (0, 1), (0, 2), (1, 0)] {
            pool.insert(tx(1, lane, nonce, 1_000), Source::Client).expect("fits");
        }
        let sender = AccountId::from(SecretKey::from_seed([1; 32]).public());
        pool.finalised(sender, Lane::FIRST, Nonce::new(1));
        assert_eq!(pool.len(), 2);
        assert_eq!(pool.nonce_after(&sender, Lane::FIRST, Nonce::new(2)), Nonce::new(3));
        assert_eq!(pool.nonce_after(&sender, Lane::FIRST, Nonce::new(7)), Nonce::new(7));
    }

    #[test]
    fn transaction_in_flight_waits_for_the_final_block() {
        let mut pool = pool(10_000);
        let (one, two) = (tx(1, 0, 0, 1_000), tx(1, 0, 1, 1_000));
        for tx in [&one, &two] {
            pool.insert(Arc::clone(tx), Source::Client).expect("fits");
        }
        pool.take_off(Height::new(7), [one.id(), two.id()].into_iter());
        pool.take_off(Height::new(8), std::iter::once(two.id()));
        assert!(pool.ready() == 0 && pool.candidates(9).is_empty());
        pool.land(Height::new(7)); // without them: another block became final
        assert_eq!(order(&pool), vec![(1, 0)]);
        pool.land(Height::new(8));
        assert_eq!(order(&pool), vec![(1, 0), (1, 1)]);
        assert_eq!(pool.in_flight(), 0);
    }

    /// Goal: nobody fills blocks with what can never enter one. Method: a lane without its first
    /// nonce, at a better fee than an honest one.
    #[test]
    fn parked_lane_takes_no_place_until_the_lacking_nonce_comes() {
        let mut pool = pool(10_000);
        for nonce in 1..=3 {
            pool.insert(tx(1, 0, nonce, 9_000), Source::Client).expect("fits");
        }
        pool.insert(tx(2, 0, 0, 1_000), Source::Client).expect("fits");
        let sender = AccountId::from(SecretKey::from_seed([1; 32]).public());
        pool.park(sender, Lane::FIRST);
        assert_eq!((order(&pool), pool.ready(), pool.len()), (vec![(2, 0)], 1, 4));
        pool.insert(tx(1, 0, 4, 9_000), Source::Client).expect("fits");
        assert_eq!(pool.ready(), 1, "a later nonce does not help");
        pool.insert(tx(1, 0, 0, 9_000), Source::Client).expect("fits");
        assert_eq!(pool.ready(), 6);
        pool.finalised(sender, Lane::FIRST, Nonce::new(0));
        pool.park(sender, Lane::FIRST);
        pool.finalised(sender, Lane::FIRST, Nonce::new(1));
        assert_eq!(order(&pool), vec![(1, 2), (1, 3), (1, 4), (2, 0)]);
    }

    #[test]
    fn full_pool_lets_parked_lanes_go_first() {
        let mut pool = pool(1);
        let most = u64::try_from(pool.most()).expect("small");
        for nonce in 0..most {
            pool.insert(tx(1, 0, nonce + 1, 1_000), Source::Peer).expect("fits");
        }
        assert_eq!(pool.insert(tx(2, 0, 0, 1_000), Source::Peer), Err(Reason::PoolFull));
        pool.park(AccountId::from(SecretKey::from_seed([1; 32]).public()), Lane::FIRST);
        pool.insert(tx(2, 0, 0, 1_000), Source::Client).expect("a parked one leaves");
        assert_eq!((pool.len(), pool.ready()), (pool.most(), 1));
    }

    /// Goal: the indexes agree whatever happens. Method: random inserts, removals, flights,
    /// finalisations and expiries; after each, every view of the pool is compared with the lanes.
    #[test]
    fn prop_indexes_agree_with_lanes() {
        arbtest::arbtest(|u| {
            let mut pool = pool(500);
            for _ in 0..u.int_in_range(0..=60)? {
                let sender = u.int_in_range(1..=5)?;
                let lane = u.int_in_range(0..=1)?;
                let nonce = u.int_in_range(0..=6)?;
                let made = tx(sender, lane, nonce, 1_000 * u.int_in_range(1..=4)?);
                let height = Height::new(u.int_in_range(9..=14)?);
                match u.int_in_range(0..=8)? {
                    0 => pool.remove(&made.id()),
                    1 => pool.finalised(made.body().sender, made.body().lane, made.body().nonce),
                    2 => drop(pool.expire(height)),
                    3 => pool.take_off(height, std::iter::once(made.id())),
                    4 => pool.land(height),
                    5 => pool.park(made.body().sender, made.body().lane),
                    _ => drop(pool.insert(made, Source::Peer)),
                }
                let held: usize = pool.lanes.values().map(BTreeMap::len).sum();
                assert_eq!(held, pool.len());
                assert_eq!(held, pool.senders.values().sum::<usize>());
                assert_eq!(pool.heads.len() + pool.parked.len(), pool.lanes.len());
                let waiting = pool.lanes.values().flat_map(BTreeMap::values);
                assert_eq!(waiting.map(|it| size_of(&it.tx)).sum::<usize>(), pool.bytes);
                let taken = pool.candidates(usize::MAX);
                assert_eq!(taken.len(), pool.ready());
                let flying = pool.by_id.keys().filter(|id| pool.flying.contains_key(id)).count();
                assert_eq!(pool.idle + flying, held);
                for tx in &taken {
                    assert!(pool.get(&tx.id()).is_some());
                }
                let mut last: BTreeMap<LaneKey, Nonce> = BTreeMap::new();
                for tx in taken {
                    let key = (tx.body().sender, tx.body().lane);
                    let before = last.insert(key, tx.body().nonce);
                    assert!(before.is_none_or(|before| before < tx.body().nonce));
                }
            }
            Ok(())
        });
    }
}
