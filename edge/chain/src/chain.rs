//! A node's chain as the rest of the process sees it: submit, wait, read, prove, listen.

mod history;

pub use history::{Happening, History};

use crate::{
    certificates::WAITING_KEPT,
    index::{Index, IndexError},
    light::{CertifiedHeader, EntryProof, ReceiptProof},
    machine::{FinalReceipts, LedgerMachine, Outcome},
    mempool::Source,
    metrics::Metrics,
    notice::{Notice, NoticeError, NoticeText},
    payload::Payload,
    record::Record,
};
use bytes::Bytes;
use std::{collections::BTreeMap, sync::Arc};
use tg_bft::handle::{Node, ScannedEntry, Stopped};
use tg_ledger::{
    AccountEntry, Cursor, JobEntry, ProgramEntry, Totals, WeightsEntry, check_registration,
    check_shown, fee_floor, keys,
};
use tg_types::{
    codec::{Decode, DecodeError},
    genesis::Genesis,
    header::Header,
    ids::{AccountId, HeaderDigest, NodeId, Noun, StateKey, TxId},
    key::{Domain, SecretKey},
    reason::Reason,
    tick::{Height, Tick},
    tx::{Action, CheckedTx, Lane, Nonce, SignedTx},
};
use tokio::sync::{broadcast, oneshot};

/// How far ahead of its lane a transaction may wait.
pub const NONCE_AHEAD_MAX: u64 = 256;

/// Why a question about the chain has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The node has stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// An entry of this node's state cannot be read.
    #[error("a stored entry cannot be read")]
    Corrupt(#[from] DecodeError),
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// Where a node stands.
#[derive(Clone, Debug)]
pub struct ChainStatus {
    /// Header of the last final block, `None` before the first.
    pub tip: Option<(Header, HeaderDigest)>,
    /// Transactions that wait for a block, and from how many on clients are refused.
    pub pool: (usize, usize),
    /// The last height whose certificate is held.
    pub certified: Option<Height>,
}

/// A node's chain. Cheap to clone.
#[derive(Clone)]
pub struct Chain {
    machine: Arc<LedgerMachine>,
    node: Node,
    index: Option<Arc<Index>>,
}

impl Chain {
    /// Connects the parts of a node that has started: finds out where the chain stands and fills
    /// the index up.
    ///
    /// # Errors
    /// If the node stopped or its state cannot be read.
    pub(crate) async fn attach(
        machine: Arc<LedgerMachine>,
        node: Node,
        index: Option<Index>,
    ) -> Result<Self, ChainError> {
        let chain = Self { machine, node, index: index.map(Arc::new) };
        let cursor: Option<Cursor> = chain.entry(keys::cursor()).await?;
        let mut tip = None;
        if let Some(cursor) = cursor {
            let domain = chain.domain();
            tip = chain.node.block(cursor.height).await?.map(|(header, _)| {
                let digest = header.digest(&domain);
                (header, digest)
            });
            chain.machine.set_carried(cursor.beacon);
            // Certificates may be ahead of the state on disk.
            let last = cursor.height.get().saturating_add(WAITING_KEPT);
            for height in (cursor.beacon.get() + 1..=last).map(Height::new) {
                if let Some((header, _)) = chain.node.block(height).await? {
                    chain.machine.add_header(height, header.digest(&domain));
                }
                if let Some(certificate) = chain.node.certificate(height).await? {
                    chain.machine.add_certificate(height, certificate);
                }
            }
            chain.fill_index(cursor.height).await?;
        }
        chain.machine.attach(chain.node.clone(), tip);
        Ok(chain)
    }

    /// Adds the records of heights that the index lacks.
    async fn fill_index(&self, tip: Height) -> Result<(), ChainError> {
        let Some(index) = &self.index else { return Ok(()) };
        let from = index.tip()?.map_or(1, |last| last.get() + 1);
        let held = self.node.recorded().await?;
        for height in held.into_iter().flat_map(|(first, last)| first..=last) {
            if (from..=tip.get()).contains(&height) {
                self.index_height(index, Height::new(height)).await?;
            }
        }
        Ok(())
    }

    async fn index_height(&self, index: &Index, height: Height) -> Result<(), ChainError> {
        if let Some(record) = self.node.record(height).await? {
            let record = Record::from_bytes(&record)?;
            index.add(height, &record, Height::new(0))?;
        }
        Ok(())
    }

    /// Keeps the index up with the chain, for as long as the node runs.
    ///
    /// # Errors
    /// If the index fails.
    pub(crate) async fn keep_index(
        self,
        mut blocks: broadcast::Receiver<Arc<FinalReceipts>>,
        retain_heights: u64,
    ) -> Result<(), ChainError> {
        let Some(index) = self.index.clone() else { return std::future::pending().await };
        loop {
            match blocks.recv().await {
                Ok(block) => {
                    let height = block.header.height;
                    let oldest = Height::new(height.get().saturating_sub(retain_heights));
                    index.add(height, &block.record, oldest)?;
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    let tip = self.machine.tip().map(|(header, _)| header.height);
                    self.fill_index(tip.unwrap_or(Height::new(0))).await?;
                }
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            }
        }
    }

    /// The chain's genesis.
    #[must_use]
    pub fn genesis(&self) -> &Arc<Genesis> {
        &self.machine.rules().genesis
    }

    /// The chain signatures are bound to.
    #[must_use]
    pub fn domain(&self) -> Domain {
        self.machine.rules().domain
    }

    /// The chain's own numbers.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.machine.metrics
    }

    /// The engine's numbers in Prometheus' text form.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn engine_metrics(&self) -> Result<String, ChainError> {
        Ok(self.node.metrics().await?)
    }

    /// Where the node stands.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn status(&self) -> Result<ChainStatus, ChainError> {
        let certified = self.node.certified().await?.last().map(|(_, last)| Height::new(*last));
        Ok(ChainStatus { tip: self.machine.tip(), pool: self.machine.pool_len(), certified })
    }

    /// Checks the signatures of transactions. Takes tens of microseconds each: not for a thread
    /// that serves others. What the pool has no room for is refused unchecked.
    #[must_use]
    pub fn check(&self, mut txs: Vec<SignedTx>) -> Vec<Result<CheckedTx, Reason>> {
        let (held, most) = self.machine.pool_len();
        let excess = txs.split_off(txs.len().min(most.saturating_sub(held)));
        let mut checked = self.machine.check(txs);
        checked.extend(excess.iter().map(|_| Err(Reason::PoolFull)));
        checked
    }

    /// Offers checked transactions to the chain: those that could enter a block wait in the pool.
    ///
    /// # Errors
    /// If the node stopped or its state cannot be read. A refused transaction is an inner error.
    pub async fn offer(
        &self,
        txs: Vec<CheckedTx>,
    ) -> Result<Vec<Result<TxId, Reason>>, ChainError> {
        let senders: Vec<AccountId> = {
            let mut senders: Vec<AccountId> = txs.iter().map(|tx| tx.body().sender).collect();
            senders.sort();
            senders.dedup();
            senders
        };
        let accounts = self.accounts(&senders).await?;
        let awaited = self.awaited(&txs).await?;
        let height = self.machine.tip().map_or(Height::new(0), |(header, _)| header.height);
        let verdicts: Vec<Result<CheckedTx, Reason>> = txs
            .into_iter()
            .zip(awaited)
            .map(|(tx, is_awaited)| {
                let account = accounts.get(&tx.body().sender);
                self.admissible(&tx, account, height)?;
                is_awaited.map(|()| tx)
            })
            .collect();
        let good = verdicts.iter().filter_map(|verdict| verdict.as_ref().ok()).cloned();
        let good: Vec<CheckedTx> = good.collect();
        let mut inserted = self.machine.insert(good, Source::Client).into_iter();
        let results: Vec<Result<TxId, Reason>> = verdicts
            .into_iter()
            .map(|verdict| match verdict {
                Ok(_) => inserted.next().unwrap_or(Err(Reason::PoolFull)),
                Err(reason) => Err(reason),
            })
            .collect();
        let refused = results.iter().filter(|result| result.is_err()).count();
        self.machine.metrics.txs_refused.add(refused);
        Ok(results)
    }

    /// Whether the ledger waits for what transactions show that take one of the few places for
    /// proofs in a block. What nobody waits for, or what is longer than it can have to be, must not
    /// fill the pool either. What other nodes have admitted is not looked at again: this node may
    /// be a block behind them.
    async fn awaited(&self, txs: &[CheckedTx]) -> Result<Vec<Result<(), Reason>>, ChainError> {
        let mut awaited = Vec::with_capacity(txs.len());
        for tx in txs {
            let body = tx.body();
            awaited.push(if let Action::ProveResult { job, shown, .. } = &body.action {
                let node = NodeId::new(*body.sender.as_bytes());
                let entry: Option<JobEntry> = self.entry(keys::job(job)).await?;
                check_shown(entry.as_ref(), &node, shown.as_slice().len())
            } else if let Action::RegisterWeights { program, weights, cost, .. } = &body.action {
                let program: Option<ProgramEntry> = self.entry(keys::program(program)).await?;
                let known: Option<WeightsEntry> = self.entry(keys::weights(&weights.id())).await?;
                check_registration(program.as_ref(), known.as_ref(), weights, *cost)
            } else {
                Ok(())
            });
        }
        Ok(awaited)
    }

    /// The ledger's rules of admission, as far as they can be told before a block exists.
    fn admissible(
        &self,
        tx: &CheckedTx,
        account: Option<&AccountEntry>,
        height: Height,
    ) -> Result<(), Reason> {
        let body = tx.body();
        let params = self.genesis().params();
        if body.expires <= height {
            return Err(Reason::Expired);
        }
        if body.expires.get() > height.get().saturating_add(params.expiry_heights_max) {
            return Err(Reason::ExpiresTooFar);
        }
        if body.fee < fee_floor(params, tx.size_bytes(), &body.action) {
            return Err(Reason::FeeTooLow);
        }
        if body.action.proof_cost().is_some_and(|cost| cost > params.jobs.proof_cost_max) {
            return Err(Reason::ProofLimit);
        }
        let Some(account) = account else { return Err(Reason::FeeNotCovered) };
        if account.balance < body.fee {
            return Err(Reason::FeeNotCovered);
        }
        let next = account.lanes.next(body.lane);
        if body.nonce < next {
            return Err(Reason::NonceTooLow);
        }
        if body.nonce.get() - next.get() > NONCE_AHEAD_MAX {
            return Err(Reason::NonceTooHigh);
        }
        Ok(())
    }

    /// A receiver for the outcome of a transaction, `None` if too many callers wait.
    #[must_use]
    pub fn wait(&self, id: TxId) -> Option<oneshot::Receiver<Outcome>> {
        self.machine.wait(id)
    }

    /// Final blocks from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<FinalReceipts>> {
        self.machine.subscribe()
    }

    /// Reads one entry of the latest final state.
    ///
    /// # Errors
    /// If the node stopped or the entry cannot be read.
    pub async fn entry<T: Decode>(&self, key: StateKey) -> Result<Option<T>, ChainError> {
        let bytes = self.node.read(vec![key]).await?.pop().flatten();
        Ok(bytes.map(|bytes| T::from_bytes(&bytes)).transpose()?)
    }

    /// Reads entries of the latest final state, all of the same state and in the same order.
    ///
    /// # Errors
    /// If the node stopped or an entry cannot be read.
    pub async fn entries<T: Decode>(
        &self,
        keys: Vec<StateKey>,
    ) -> Result<Vec<Option<T>>, ChainError> {
        let read = |bytes: Option<Bytes>| bytes.map(|bytes| T::from_bytes(&bytes)).transpose();
        let found = self.node.read(keys).await?.into_iter().map(read);
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Reads the bytes of one entry of the latest final state.
    ///
    /// # Errors
    /// If the node stopped.
    pub async fn raw_entry(&self, key: StateKey) -> Result<Option<Vec<u8>>, ChainError> {
        let bytes = self.node.read(vec![key]).await?.pop().flatten();
        Ok(bytes.map(|bytes| bytes.to_vec()))
    }

    /// Lists entries of one noun, at most `limit`.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn scan(&self, noun: Noun, limit: usize) -> Result<Vec<ScannedEntry>, ChainError> {
        Ok(self.node.scan(noun, limit).await?)
    }

    /// The accounts that exist among those asked for.
    ///
    /// # Errors
    /// If the node stopped or an account cannot be read.
    pub async fn accounts(
        &self,
        ids: &[AccountId],
    ) -> Result<BTreeMap<AccountId, AccountEntry>, ChainError> {
        let entries = self.node.read(ids.iter().map(keys::account).collect()).await?;
        let mut accounts = BTreeMap::new();
        for (id, bytes) in ids.iter().zip(entries) {
            if let Some(bytes) = bytes {
                accounts.insert(*id, AccountEntry::from_bytes(&bytes)?);
            }
        }
        Ok(accounts)
    }

    /// The nonce a new transaction in this lane needs, those that wait included.
    ///
    /// # Errors
    /// If the node stopped or the account cannot be read.
    pub async fn next_nonce(&self, id: &AccountId, lane: Lane) -> Result<Nonce, ChainError> {
        let account: Option<AccountEntry> = self.entry(keys::account(id)).await?;
        let settled = account.map_or(Nonce::ZERO, |account| account.lanes.next(lane));
        Ok(self.machine.nonce_after(id, lane, settled))
    }

    /// The ledger's running totals.
    ///
    /// # Errors
    /// If the node stopped or the entry cannot be read.
    pub async fn totals(&self) -> Result<Option<Totals>, ChainError> {
        self.entry(keys::totals()).await
    }

    /// A final block's header, payload and record, as far as this node holds them.
    ///
    /// # Errors
    /// If the node stopped or what it stored cannot be read.
    pub async fn block(
        &self,
        height: Height,
    ) -> Result<Option<(Header, Payload, Option<Record>)>, ChainError> {
        let Some((header, payload)) = self.node.block(height).await? else { return Ok(None) };
        let payload = if payload.is_empty() {
            Payload::default() // the block before the first has none
        } else {
            Payload::from_bytes(&payload)?
        };
        let record = self.node.record(height).await?;
        let record = record.map(|bytes| Record::from_bytes(&bytes)).transpose()?;
        Ok(Some((header, payload, record)))
    }

    /// The certificate of a height, if it is held.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn certificate(&self, height: Height) -> Result<Option<Bytes>, ChainError> {
        if let Some(certificate) = self.node.certificate(height).await? {
            return Ok(Some(certificate));
        }
        Ok(self.machine.known_certificate(height))
    }

    /// A header with its certificate, if both are held.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn certified_header(
        &self,
        height: Height,
    ) -> Result<Option<CertifiedHeader>, ChainError> {
        let Some(certificate) = self.certificate(height).await? else { return Ok(None) };
        let header = self.node.block(height).await?.map(|(header, _)| header);
        Ok(header.map(|header| CertifiedHeader { header, certificate }))
    }

    /// Where a transaction stands, and its receipt with the path to its block's receipts root.
    /// `None` if this node does not know it. The certificate is added by the caller, because it
    /// comes a moment after the block.
    ///
    /// # Errors
    /// If the node stopped or what it stored cannot be read.
    pub async fn find_receipt(&self, id: &TxId) -> Result<Option<ReceiptProof>, ChainError> {
        let indexed = match &self.index {
            Some(index) => index.find(id)?,
            None => None,
        };
        let (header, record, position) = match indexed {
            Some(place) => {
                let Some((header, _, Some(record))) = self.block(place.height).await? else {
                    return Ok(None);
                };
                (header, Arc::new(record), place.index)
            }
            None => match self.machine.recent(id) {
                Some((block, position)) => {
                    (block.header.clone(), Arc::clone(&block.record), position)
                }
                None => return Ok(None),
            },
        };
        Ok(record.prove(position).map(|(receipt, path)| ReceiptProof {
            header,
            receipt: receipt.clone(),
            path,
        }))
    }

    /// An entry of the latest final state (or its absence) with the header it is proven against.
    /// `None` while no block is final.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn prove(&self, key: StateKey) -> Result<Option<EntryProof>, ChainError> {
        let Some(proven) = self.node.prove(key).await? else { return Ok(None) };
        let header = self.machine.header_with_root(&proven.state_root);
        Ok(header.map(|header| EntryProof { header, key, entry: proven }))
    }

    /// Evidence of conflicting votes that this node has seen and nobody has asked for yet.
    #[must_use]
    pub fn take_evidence(&self) -> Vec<Bytes> {
        self.machine.take_evidence()
    }

    /// Tells all nodes something in the name of a seat, in place of what it said before. Peers
    /// hear it as far as they are connected now; what must be known is said again.
    ///
    /// # Errors
    /// If the key has no seat.
    pub fn post_notice(
        &self,
        key: &SecretKey,
        now: Tick,
        text: NoticeText,
    ) -> Result<(), NoticeError> {
        self.machine.notices.post(key, now, text, self.genesis())
    }

    /// The newest notice of every seat that this node has heard of, by key.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        self.machine.notices.held()
    }

    /// The last final header with its digest, `None` before the first block.
    #[must_use]
    pub fn tip(&self) -> Option<(Header, HeaderDigest)> {
        self.machine.tip()
    }

    /// What this node holds in memory besides its state: what, how many, and how many at most.
    #[must_use]
    pub fn held(&self) -> [(&'static str, usize, usize); 8] {
        self.machine.held()
    }
}
