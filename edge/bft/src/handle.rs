//! How the rest of the process talks to a running node.
//!
//! Plain channels, no engine types: one task (the desk) answers questions about state, records and
//! certificates, so readers never hold the engine's locks.

use crate::{
    app::now_ms,
    certify::Marshal,
    proof::ProvenEntry,
    state::{Databases, Entry, Key, Runtime, db_key},
    store::{Shelf, Store},
};
use bytes::Bytes;
use commonware_consensus::types::Height as ConsensusHeight;
use commonware_runtime::Handle as Task;
use futures::StreamExt as _;
use std::sync::Arc;
use tg_types::{
    codec::Decode as _,
    header::Header,
    ids::{Noun, StateKey},
    tick::{Height, Tick},
};
use tokio::sync::{Notify, mpsc, oneshot};

/// Questions waiting for the desk. Askers wait when it is full.
const QUESTIONS_MAX: usize = 1_024;

/// Most entries of one noun that one question returns.
pub const SCAN_MAX: usize = 10_000;

/// The node has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node has stopped")]
pub struct Stopped;

/// One entry of a scan: its key and its bytes.
pub type ScannedEntry = (StateKey, Bytes);

pub(crate) enum Question {
    Read { keys: Vec<StateKey>, answer: oneshot::Sender<Vec<Option<Bytes>>> },
    Prove { key: StateKey, answer: oneshot::Sender<Option<ProvenEntry>> },
    Scan { noun: Noun, limit: usize, answer: oneshot::Sender<Vec<ScannedEntry>> },
    Block { height: u64, answer: oneshot::Sender<Option<(Header, Bytes)>> },
    Shelf { shelf: Shelf, height: u64, answer: oneshot::Sender<Option<Bytes>> },
    Ranges { shelf: Shelf, answer: oneshot::Sender<Vec<(u64, u64)>> },
    Clock { answer: oneshot::Sender<Tick> },
    Metrics { answer: oneshot::Sender<String> },
}

/// A running node, as seen from outside the engine. Cheap to clone.
#[derive(Clone)]
pub struct Node {
    questions: mpsc::Sender<Question>,
    work: Arc<Notify>,
    outbox: Arc<Notify>,
}

impl Node {
    /// A handle, and the questions it will ask.
    pub(crate) fn new(work: Arc<Notify>, outbox: Arc<Notify>) -> (Self, mpsc::Receiver<Question>) {
        let (questions, receiver) = mpsc::channel(QUESTIONS_MAX);
        (Self { questions, work, outbox }, receiver)
    }

    /// There is something to put into a block.
    pub fn wake(&self) {
        self.work.notify_one();
    }

    /// There is something to send to peers; the machine's `pulse` is asked soon.
    pub fn announce(&self) {
        self.outbox.notify_one();
    }

    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Question,
    ) -> Result<T, Stopped> {
        let (answer, asked) = oneshot::channel();
        self.questions.send(question(answer)).await.map_err(|_| Stopped)?;
        asked.await.map_err(|_| Stopped)
    }

    /// Reads entries of the latest final state.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn read(&self, keys: Vec<StateKey>) -> Result<Vec<Option<Bytes>>, Stopped> {
        self.ask(|answer| Question::Read { keys, answer }).await
    }

    /// Reads one entry of the latest final state with a proof. `None` while the state is not open.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn prove(&self, key: StateKey) -> Result<Option<ProvenEntry>, Stopped> {
        self.ask(|answer| Question::Prove { key, answer }).await
    }

    /// Lists entries of one noun in key order, at most `limit` and [`SCAN_MAX`].
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn scan(&self, noun: Noun, limit: usize) -> Result<Vec<ScannedEntry>, Stopped> {
        self.ask(|answer| Question::Scan { noun, limit: limit.min(SCAN_MAX), answer }).await
    }

    /// Header and payload of a final block, if this node still holds it.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn block(&self, height: Height) -> Result<Option<(Header, Bytes)>, Stopped> {
        self.ask(|answer| Question::Block { height: height.get(), answer }).await
    }

    /// The record (encoded receipts) of a final block, if this node still holds it.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn record(&self, height: Height) -> Result<Option<Bytes>, Stopped> {
        let (shelf, height) = (Shelf::Records, height.get());
        self.ask(|answer| Question::Shelf { shelf, height, answer }).await
    }

    /// The certificate of a height, if this node holds it.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn certificate(&self, height: Height) -> Result<Option<Bytes>, Stopped> {
        let (shelf, height) = (Shelf::Certificates, height.get());
        self.ask(|answer| Question::Shelf { shelf, height, answer }).await
    }

    /// Heights whose records are held, as inclusive ranges.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn recorded(&self) -> Result<Vec<(u64, u64)>, Stopped> {
        self.ask(|answer| Question::Ranges { shelf: Shelf::Records, answer }).await
    }

    /// Heights whose certificates are held, as inclusive ranges.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn certified(&self) -> Result<Vec<(u64, u64)>, Stopped> {
        self.ask(|answer| Question::Ranges { shelf: Shelf::Certificates, answer }).await
    }

    /// The node's clock (the simulator's, when it runs there).
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn clock(&self) -> Result<Tick, Stopped> {
        self.ask(|answer| Question::Clock { answer }).await
    }

    /// The engine's metrics in Prometheus' text form.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn metrics(&self) -> Result<String, Stopped> {
        self.ask(|answer| Question::Metrics { answer }).await
    }
}

/// What the desk answers from.
pub(crate) struct Desk<E: Runtime> {
    pub(crate) databases: Databases<E>,
    pub(crate) store: Store,
    pub(crate) marshal: Marshal,
}

impl<E: Runtime> Desk<E> {
    /// Answers questions until every handle is gone.
    pub(crate) fn start(self, context: E, mut questions: mpsc::Receiver<Question>) -> Task<()> {
        context.spawn(move |context| async move {
            while let Some(question) = questions.recv().await {
                self.answer(&context, question).await;
            }
        })
    }

    async fn answer(&self, context: &E, question: Question) {
        // A dropped receiver means that the asker lost interest.
        match question {
            Question::Read { keys, answer } => {
                let _gone = answer.send(self.read(&keys).await);
            }
            Question::Prove { key, answer } => {
                let _gone = answer.send(self.prove(&key).await);
            }
            Question::Scan { noun, limit, answer } => {
                let _gone = answer.send(self.scan(noun, limit).await);
            }
            Question::Block { height, answer } => {
                let block = self.marshal.get_block(ConsensusHeight::new(height)).await;
                let parts = block.map(|block| {
                    let block = block.inner();
                    (block.header.clone(), block.payload.clone())
                });
                let _gone = answer.send(parts);
            }
            Question::Shelf { shelf, height, answer } => {
                let _gone = answer.send(self.store.get(shelf, height).await);
            }
            Question::Ranges { shelf, answer } => {
                let _gone = answer.send(self.store.ranges(shelf).await);
            }
            Question::Clock { answer } => {
                let _gone = answer.send(Tick::new(now_ms(context)));
            }
            Question::Metrics { answer } => {
                let _gone = answer.send(context.encode());
            }
        }
    }

    async fn read(&self, keys: &[StateKey]) -> Vec<Option<Bytes>> {
        let state = self.databases.read().await;
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            let entry = state.get(&db_key(key)).await.expect("state is readable");
            values.push(entry.map(|Entry(bytes)| bytes));
        }
        values
    }

    async fn prove(&self, key: &StateKey) -> Option<ProvenEntry> {
        let key = db_key(key);
        let state = self.databases.read().await;
        let root = state.root();
        match state.get(&key).await.expect("state is readable") {
            Some(value) => {
                let proof = state.key_value_proof(key).await.ok()?;
                Some(ProvenEntry::present(root, value, &proof))
            }
            None => {
                let proof = state.exclusion_proof(&key).await.ok()?;
                Some(ProvenEntry::absent(root, &proof))
            }
        }
    }

    async fn scan(&self, noun: Noun, limit: usize) -> Vec<ScannedEntry> {
        let first = db_key(&StateKey::new(noun, [0; 32]));
        let last = db_key(&StateKey::new(noun, [0xff; 32]));
        let state = self.databases.read().await;
        let found = state.stream_range(first..=last).take(limit);
        found
            .filter_map(|item| async move {
                let (key, Entry(bytes)) = item.expect("state is readable");
                Some((state_key(&key)?, bytes))
            })
            .collect()
            .await
    }
}

fn state_key(key: &Key) -> Option<StateKey> {
    StateKey::from_bytes(key.as_ref()).ok()
}
