//! Transactions on their way into the chain.
//!
//! One task, the collector, gathers what arrives within a millisecond and has the signatures
//! checked together on a thread for such work. Callers wait for their own answers only.

use super::{
    Shared, errors,
    limits::{
        COLLECT_QUEUE_MAX, COLLECT_TIME, COLLECT_TXS_MAX, SUBMIT_TXS_MAX, SUBMIT_WAIT_DEFAULT,
        SUBMIT_WAIT_MAX,
    },
};
use crate::{
    rpc::{RpcError, SubmitAnswer, SubmitParams, Submitted, Wait},
    text::{Hex, Number, Text},
    view::ReceiptView,
};
use std::time::Duration;
use tg_chain::{Chain, Outcome};
use tg_types::{
    CheckedTx, Decode as _, Height, Reason, Receipt, SignedTx, TxId, tx::PROOF_TX_BYTES_MAX,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

/// What the node made of one transaction.
pub(super) enum Verdict {
    /// It waits in the pool, and somebody may wait for it.
    Taken { id: TxId, outcome: Option<oneshot::Receiver<Outcome>> },
    /// It was not taken.
    Refused { id: Option<TxId>, reason: Reason },
    /// It was not taken, because too many callers wait for transactions already.
    Busy { id: TxId },
}

/// Transactions of one caller.
struct Submission {
    txs: Vec<SignedTx>,
    wait: bool,
    answer: oneshot::Sender<Vec<Verdict>>,
}

/// The way to the collector.
#[derive(Clone)]
pub(super) struct Collector(mpsc::Sender<Submission>);

impl Collector {
    /// A collector and the task that must run for it.
    pub(super) fn new(chain: Chain) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, submissions) = mpsc::channel(COLLECT_QUEUE_MAX);
        (Self(sender), run(chain, submissions))
    }

    /// Has transactions checked and offered to the chain; one verdict each, in the same order.
    pub(super) async fn submit(
        &self,
        txs: Vec<SignedTx>,
        wait: Wait,
    ) -> Result<Vec<Verdict>, RpcError> {
        if txs.is_empty() {
            return Ok(Vec::new());
        }
        let (answer, answered) = oneshot::channel();
        let submission = Submission { txs, wait: wait == Wait::Final, answer };
        match self.0.try_send(submission) {
            Ok(()) => answered.await.map_err(|_| errors::stopping()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(errors::busy()),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(errors::stopping()),
        }
    }
}

async fn run(chain: Chain, mut submissions: mpsc::Receiver<Submission>) {
    while let Some(first) = submissions.recv().await {
        let batch = gather(first, &mut submissions).await;
        process(&chain, batch).await;
    }
}

/// Gathers submissions for a moment, or until there are enough.
async fn gather(
    first: Submission,
    submissions: &mut mpsc::Receiver<Submission>,
) -> Vec<Submission> {
    let deadline = Instant::now() + COLLECT_TIME;
    let mut count = first.txs.len();
    let mut batch = vec![first];
    while count < COLLECT_TXS_MAX {
        match tokio::time::timeout_at(deadline, submissions.recv()).await {
            Ok(Some(submission)) => {
                count += submission.txs.len();
                batch.push(submission);
            }
            Ok(None) | Err(_) => break,
        }
    }
    batch
}

/// Checks and offers a batch. If the node has stopped, callers see that their answer never comes.
async fn process(chain: &Chain, batch: Vec<Submission>) {
    let mut txs = Vec::new();
    let mut callers = Vec::with_capacity(batch.len());
    for submission in batch {
        callers.push((submission.txs.len(), submission.wait, submission.answer));
        txs.extend(submission.txs);
    }
    let checking = chain.clone();
    let Ok(checked) = tokio::task::spawn_blocking(move || checking.check(txs)).await else {
        return;
    };
    let waits = callers.iter().flat_map(|(count, wait, _)| std::iter::repeat_n(*wait, *count));
    let mut offered = Vec::new();
    let mut verdicts = Vec::with_capacity(checked.len());
    for (checked, wait) in checked.into_iter().zip(waits) {
        verdicts.push(enlist(chain, checked, wait, &mut offered));
    }
    let Ok(answers) = chain.offer(offered).await else { return };
    let mut answers = answers.into_iter();
    for verdict in &mut verdicts {
        if let Verdict::Taken { id, .. } = *verdict {
            settle(verdict, answers.next(), id);
        }
    }
    let mut verdicts = verdicts.into_iter();
    for (count, _, answer) in callers {
        let _gone = answer.send(verdicts.by_ref().take(count).collect());
    }
}

/// Puts a checked transaction among those to be offered. The wait begins before the offer, so that
/// no outcome is missed.
fn enlist(
    chain: &Chain,
    checked: Result<CheckedTx, Reason>,
    wait: bool,
    offered: &mut Vec<CheckedTx>,
) -> Verdict {
    let tx = match checked {
        Ok(tx) => tx,
        Err(reason) => return Verdict::Refused { id: None, reason },
    };
    let id = tx.id();
    let outcome = if wait { chain.wait(id) } else { None };
    if wait && outcome.is_none() {
        return Verdict::Busy { id };
    }
    offered.push(tx);
    Verdict::Taken { id, outcome }
}

/// Puts the chain's answer into a verdict. A transaction that waits already is as good as taken, so
/// that a caller may send it again after a lost connection.
fn settle(verdict: &mut Verdict, answer: Option<Result<TxId, Reason>>, id: TxId) {
    match answer {
        Some(Ok(_) | Err(Reason::PoolDuplicate)) => {}
        Some(Err(reason)) => *verdict = Verdict::Refused { id: Some(id), reason },
        None => *verdict = Verdict::Refused { id: Some(id), reason: Reason::PoolFull },
    }
}

/// The method `submit`.
pub(super) async fn submit(
    shared: &Shared,
    params: SubmitParams,
) -> Result<SubmitAnswer, RpcError> {
    if params.txs.is_empty() || params.txs.len() > SUBMIT_TXS_MAX {
        let found = params.txs.len();
        return Err(errors::params(
            format!("{found} transactions, expected 1 to {SUBMIT_TXS_MAX}"),
            "split the transactions into several calls",
        ));
    }
    let deadline = Deadline::new(params.timeout_ms);
    let read: Vec<Result<SignedTx, Reason>> = params.txs.iter().map(read_tx).collect();
    let good = read.iter().filter_map(|tx| tx.as_ref().ok()).cloned().collect();
    let mut verdicts = shared.collector.submit(good, params.wait).await?.into_iter();
    let mut results = Vec::with_capacity(read.len());
    for tx in read {
        let verdict = match tx {
            Ok(_) => verdicts.next().ok_or_else(errors::stopping)?,
            Err(reason) => Verdict::Refused { id: None, reason },
        };
        results.push(finish(shared, verdict, &params, &deadline).await?);
    }
    Ok(SubmitAnswer { results })
}

fn read_tx(bytes: &Hex) -> Result<SignedTx, Reason> {
    if bytes.0.len() > PROOF_TX_BYTES_MAX {
        return Err(Reason::TxTooLarge);
    }
    SignedTx::from_bytes(&bytes.0).map_err(|_| Reason::Malformed)
}

/// Until when a caller waits.
pub(super) struct Deadline {
    at: Instant,
    span: Duration,
}

impl Deadline {
    pub(super) fn new(asked_ms: Option<u64>) -> Self {
        let asked = asked_ms.map_or(SUBMIT_WAIT_DEFAULT, Duration::from_millis);
        let span = asked.min(SUBMIT_WAIT_MAX);
        Self { at: Instant::now() + span, span }
    }
}

async fn finish(
    shared: &Shared,
    verdict: Verdict,
    params: &SubmitParams,
    deadline: &Deadline,
) -> Result<Submitted, RpcError> {
    if let (Verdict::Refused { id: Some(id), reason: Reason::NonceTooLow }, Wait::Final) =
        (&verdict, params.wait)
    {
        // The same transaction may be final already: then its receipt is the answer.
        let found = shared.chain.find_receipt(id).await.map_err(errors::chain)?;
        if let Some(proof) = found {
            return Ok(final_answer(proof.header.height, &proof.receipt, params.brief));
        }
    }
    Ok(result_of(verdict, params.brief, deadline).await)
}

/// Waits for a verdict's outcome, if somebody asked to.
pub(super) async fn result_of(verdict: Verdict, brief: bool, deadline: &Deadline) -> Submitted {
    let (id, outcome) = match verdict {
        Verdict::Taken { id, outcome: None } => return Submitted::Accepted { tx: Text(id) },
        Verdict::Taken { id, outcome: Some(outcome) } => (id, outcome),
        Verdict::Refused { id, reason } => return Submitted::refused(id, reason),
        Verdict::Busy { id } => {
            return Submitted::Refused {
                tx: Some(Text(id)),
                code: errors::BUSY.to_owned(),
                sentence: "Too many callers wait for transactions.".to_owned(),
            };
        }
    };
    match tokio::time::timeout_at(deadline.at, outcome).await {
        Ok(Ok(Outcome::Final { height, receipt })) => final_answer(height, &receipt, brief),
        Ok(Ok(Outcome::Dropped(reason))) => Submitted::Dropped {
            tx: Text(id),
            code: Text(reason),
            sentence: reason.sentence().to_owned(),
        },
        Ok(Err(_)) | Err(_) => Submitted::Pending {
            tx: Text(id),
            code: "timeout".to_owned(),
            sentence: format!(
                "The transaction was taken but was not final within {} ms; it may be later.",
                deadline.span.as_millis()
            ),
        },
    }
}

fn final_answer(height: Height, receipt: &Receipt, brief: bool) -> Submitted {
    Submitted::Final {
        tx: Text(receipt.tx),
        height: Number(height),
        code: Text(receipt.status.reason()),
        receipt: (!brief).then(|| Box::new(ReceiptView::new(receipt))),
    }
}
