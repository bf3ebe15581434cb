//! Transactions of a node: what comes within a moment goes into one. Each step of jobs has a lane
//! of its own, in which one transaction follows the other, so that showing results does not wait
//! for commitments to others. Proofs have theirs, because blocks have room for few of them: what
//! must be said in a dispute does not wait for that.

use super::AgentConfig;
use super::notes::Note;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_gateway::GatewayError;
use tg_types::tx::{
    LANES_MAX, OpenedCheck, OpenedResult, REPORTS_PER_TX_MAX, Sealed, TX_BYTES_MAX,
};
use tg_types::voucher::VOUCHERS_PER_TX_MAX;
use tg_types::{
    AccountId, Action, CheckAnswer, Encode as _, Hash32, JobId, Lane, List, Reason, RunFailure,
    Voucher,
};
use tokio::sync::mpsc;

/// What waits to be sent.
const QUEUE: usize = 4_096;

/// How long something may wait for company.
const GATHER: Duration = Duration::from_millis(15);

/// How often a transaction that met a full pool or a lost connection is tried again at least. It is
/// tried for as long as an answer may take, too: whoever is silent for longer has missed its date.
const TRIES_MIN: u32 = 20;

/// How often a proof is tried that the ledger does not wait for: the validator that is asked may be
/// a block behind the one that told us of the run.
const UNAWAITED_TRIES_MAX: u32 = 5;

/// How long to wait between tries.
const AGAIN: Duration = Duration::from_millis(150);

/// What results and vouchers of one transaction may take; the rest of it takes less than that.
const SHOWN_BYTES_MAX: usize = TX_BYTES_MAX - 512;

/// Steps with a lane of their own.
const LANES: u8 = 6;

/// The first of these lanes: the one before is that of the node's owner.
const FIRST_LANE: u8 = 2;

const _: () = assert!(FIRST_LANE + LANES <= LANES_MAX);

/// Something to be said on the chain.
#[derive(Clone, Debug)]
enum Item {
    Commit(Sealed),
    Reveal(Box<(OpenedResult, Voucher)>),
    CommitCheck(Sealed),
    RevealCheck(OpenedCheck),
    Other(Action),
    Prove(Box<Action>),
}

impl Item {
    /// Its place among the lanes.
    const fn lane(&self) -> usize {
        match self {
            Self::Commit(_) => 0,
            Self::Reveal(_) => 1,
            Self::CommitCheck(_) => 2,
            Self::RevealCheck(_) => 3,
            Self::Other(_) => 4,
            Self::Prove(_) => 5,
        }
    }
}

/// The way to the tasks that send.
#[derive(Clone)]
pub(crate) struct Outbox {
    lanes: Vec<mpsc::Sender<Item>>,
}

impl Outbox {
    /// Starts the tasks; they end when the last outbox is dropped.
    pub(crate) fn start(config: &Arc<AgentConfig>) -> Self {
        let start = |number: u8| {
            let (items, inbox) = mpsc::channel(QUEUE);
            let lane = Lane::new(FIRST_LANE + number).unwrap_or(Lane::FIRST);
            tokio::spawn(run(Arc::clone(config), lane, inbox));
            items
        };
        Self { lanes: (0..LANES).map(start).collect() }
    }

    async fn put(&self, item: Item) {
        let Some(lane) = self.lanes.get(item.lane()) else { return };
        if lane.send(item).await.is_err() {
            tracing::debug!("the outbox is closed");
        }
    }

    pub(crate) async fn commit(&self, job: JobId, seal: Hash32) {
        self.put(Item::Commit(Sealed { job, seal })).await;
    }

    pub(crate) async fn reveal(&self, job: JobId, note: &Note) {
        let Note { result, salt, voucher } = note.clone();
        self.put(Item::Reveal(Box::new((OpenedResult { job, result, salt }, voucher)))).await;
    }

    pub(crate) async fn commit_check(&self, job: JobId, seal: Hash32) {
        self.put(Item::CommitCheck(Sealed { job, seal })).await;
    }

    pub(crate) async fn reveal_check(&self, job: JobId, answer: CheckAnswer, salt: [u8; 32]) {
        self.put(Item::RevealCheck(OpenedCheck { job, answer, salt })).await;
    }

    pub(crate) async fn give_up(&self, job: JobId, failure: RunFailure) {
        self.put(Item::Other(Action::GiveUp { job, failure })).await;
    }

    /// Shows a result with all that shows it to be right.
    pub(crate) async fn prove(&self, proof: Action) {
        self.put(Item::Prove(Box::new(proof))).await;
    }

    pub(crate) async fn object(&self, job: JobId) {
        self.put(Item::Other(Action::Object { job })).await;
    }

    pub(crate) async fn send(&self, action: Action) {
        self.put(Item::Other(action)).await;
    }
}

async fn run(config: Arc<AgentConfig>, lane: Lane, mut inbox: mpsc::Receiver<Item>) {
    while let Some(first) = inbox.recv().await {
        let mut items = vec![first];
        tokio::time::sleep(GATHER).await;
        while items.len() < QUEUE
            && let Ok(item) = inbox.try_recv()
        {
            items.push(item);
        }
        for action in actions(items) {
            deliver(&config, lane, action).await;
        }
    }
}

/// As few transactions as can say all of it, in the order of a job's steps.
fn actions(items: Vec<Item>) -> Vec<Action> {
    let (mut commits, mut reveals) = (Vec::new(), Vec::new());
    let (mut check_commits, mut check_reveals) = (Vec::new(), Vec::new());
    let mut others = Vec::new();
    for item in items {
        match item {
            Item::Commit(seal) => commits.push(seal),
            Item::Reveal(result) => reveals.push(*result),
            Item::CommitCheck(seal) => check_commits.push(seal),
            Item::RevealCheck(answer) => check_reveals.push(answer),
            Item::Other(action) => others.push(action),
            Item::Prove(proof) => others.push(*proof),
        }
    }
    let mut actions = Vec::new();
    batches(&commits, &mut actions, |seals| Action::CommitResults { seals });
    show(reveals, &mut actions);
    batches(&check_commits, &mut actions, |seals| Action::CommitChecks { seals });
    // An answer about tiles may fill a transaction, and the ledger takes one at a time.
    let is_long = |opened: &OpenedCheck| opened.answer.is_long();
    let (long, short): (Vec<_>, Vec<_>) = check_reveals.into_iter().partition(is_long);
    batches(&short, &mut actions, |answers| Action::RevealChecks { answers });
    for answer in long {
        batches(&[answer], &mut actions, |answers| Action::RevealChecks { answers });
    }
    actions.append(&mut others);
    actions
}

fn batches<T: Clone>(
    items: &[T],
    actions: &mut Vec<Action>,
    action: impl Fn(List<T, 1, REPORTS_PER_TX_MAX>) -> Action,
) {
    for batch in items.chunks(REPORTS_PER_TX_MAX) {
        actions.extend(List::new(batch.to_vec()).ok().map(&action));
    }
}

/// Shows results, each with the voucher of its package; many have the same one.
fn show(mut reveals: Vec<(OpenedResult, Voucher)>, actions: &mut Vec<Action>) {
    while !reveals.is_empty() {
        let (mut results, mut vouchers, mut rest) = (Vec::new(), Vec::<Voucher>::new(), Vec::new());
        let mut bytes = 0;
        for (result, voucher) in reveals {
            let is_known = vouchers.contains(&voucher);
            let more = result.to_bytes().len() + voucher.to_bytes().len();
            let fits = results.len() < REPORTS_PER_TX_MAX
                && (is_known || vouchers.len() < VOUCHERS_PER_TX_MAX)
                && bytes + more <= SHOWN_BYTES_MAX;
            if fits || results.is_empty() {
                bytes += if is_known { result.to_bytes().len() } else { more };
                vouchers.extend((!is_known).then_some(voucher));
                results.push(result);
            } else {
                rest.push((result, voucher));
            }
        }
        let action = List::new(results).ok().zip(List::new(vouchers).ok());
        actions
            .extend(action.map(|(results, vouchers)| Action::RevealResults { results, vouchers }));
        reveals = rest;
    }
}

/// Sends one transaction and waits until it is final.
async fn deliver(config: &AgentConfig, lane: Lane, action: Action) {
    let account = AccountId::from(config.key.public());
    let what = action.name();
    let (begun, window) = (Instant::now(), config.gateway.params().jobs.answer_within);
    let window = Duration::from_millis(window.get());
    let mut tries = 0;
    while tries < TRIES_MIN || begun.elapsed() < window {
        tries += 1;
        let nonce = config.gateway.nonce(account, lane).await;
        let sent = match nonce {
            Ok(nonce) => {
                let place = (lane, nonce);
                config.gateway.send(&config.key, place, action.clone()).await.map(|_| ())
            }
            Err(error) => Err(error),
        };
        match sent {
            Ok(()) => return,
            Err(GatewayError::Ledger(reason)) if !is_passing(reason, tries) => {
                tracing::debug!(what, %reason, "a transaction did nothing");
                return;
            }
            Err(error) => tracing::debug!(what, %error, "a transaction is tried again"),
        }
        tokio::time::sleep(AGAIN).await;
    }
    tracing::warn!(what, "a transaction was given up");
}

/// Whether a refusal may not stand the next time, after so many.
fn is_passing(reason: Reason, tries: u32) -> bool {
    if reason == Reason::ResultNotAwaited {
        return tries < UNAWAITED_TRIES_MAX;
    }
    matches!(
        reason,
        Reason::NonceTooLow
            | Reason::NonceTooHigh
            | Reason::PoolFull
            | Reason::PoolDuplicate
            | Reason::SenderBusy
            | Reason::Expired
            | Reason::CapacityLimit
    )
}

#[cfg(test)]
mod tests {
    use super::{FIRST_LANE, Item, LANES, UNAWAITED_TRIES_MAX, actions, is_passing};
    use std::collections::BTreeSet;
    use tg_types::tx::{OpenedCheck, REPORTS_PER_TX_MAX, Sealed};
    use tg_types::{
        Action, Bytes, CheckAnswer, Hash32, JobId, Lane, List, Reason, RunResult, TileAnswer,
    };

    #[test]
    fn what_waits_goes_into_few_transactions_in_the_order_of_steps() {
        let job = |number: u8| JobId::new([number; 32]);
        let seal = Hash32::new([0; 32]);
        let mut items = vec![Item::Other(Action::Object { job: job(1) })];
        let more = u8::try_from(REPORTS_PER_TX_MAX).expect("few") + 1;
        items.extend((0..more).map(|number| Item::Commit(Sealed { job: job(number), seal })));
        items.push(Item::CommitCheck(Sealed { job: job(2), seal }));
        let tiles = CheckAnswer::Tiles { trace: seal, tiles: TileAnswer::EMPTY };
        for answer in [tiles.clone(), CheckAnswer::Key { trace: seal, key: seal }, tiles] {
            items.push(Item::RevealCheck(OpenedCheck { job: job(3), answer, salt: [0; 32] }));
        }
        let sent = actions(items);
        let names: Vec<&str> = sent.iter().map(Action::name).collect();
        let shown = ["RevealChecks"; 3]; // one with the key, and each about tiles alone
        let first = ["CommitResults", "CommitResults", "CommitChecks"];
        assert_eq!(names, [&first[..], &shown, &["Object"]].concat());
    }

    /// Goal: what must be said in a dispute never waits for a proof. Method: every step has a lane,
    /// and no two of them share one.
    #[test]
    fn every_step_has_a_lane_of_its_own() {
        let (job, seal) = (JobId::new([1; 32]), Hash32::new([0; 32]));
        let result = RunResult { output: seal, trace: seal, package: seal, package_bytes: 1 };
        let (shown, vouchers) = (Bytes::EMPTY, List::default());
        let proof = Action::ProveResult { job, result, cost: 1, shown, vouchers };
        let answer = CheckAnswer::Key { trace: seal, key: seal };
        let items = [
            Item::Commit(Sealed { job, seal }),
            Item::CommitCheck(Sealed { job, seal }),
            Item::RevealCheck(OpenedCheck { job, answer, salt: [0; 32] }),
            Item::Other(Action::PickClaim { job, child: 0 }),
            Item::Prove(Box::new(proof)),
        ];
        let lanes: BTreeSet<usize> = items.iter().map(Item::lane).collect();
        assert_eq!(lanes.len(), items.len());
        let exists = |lane: &usize| {
            let number = u8::try_from(*lane).expect("few");
            number < LANES && Lane::new(FIRST_LANE + number).is_ok()
        };
        assert!(lanes.iter().all(exists));
    }

    #[test]
    fn proof_that_nobody_waits_for_is_dropped_after_some_tries() {
        let reason = Reason::ResultNotAwaited;
        assert!(is_passing(reason, 1) && !is_passing(reason, UNAWAITED_TRIES_MAX));
        assert!(is_passing(Reason::PoolFull, u32::MAX) && !is_passing(Reason::RunUnknown, 1));
    }
}
