//! Transactions of a node: what comes within a moment goes into one. Each step of jobs has a lane
//! of its own, in which one transaction follows the other, so that showing results does not wait
//! for commitments to others. Proofs have theirs, because blocks have room for few of them: what
//! must be said in a dispute does not wait for that.

use super::AgentConfig;
use super::notes::Note;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tg_gateway::GatewayError;
use tg_ledger::{JobEntry, awaits_result, keys};
use tg_types::tx::{
    LANES_MAX, OpenedCheck, OpenedResult, REPORTS_PER_TX_MAX, Sealed, TX_BYTES_MAX,
};
use tg_types::voucher::VOUCHERS_PER_TX_MAX;
use tg_types::{
    AccountId, Action, CheckAnswer, Encode as _, Hash32, JobId, Lane, List, NodeId, Reason,
    RunFailure, Voucher,
};
use tokio::sync::mpsc;

/// What waits to be sent.
const QUEUE: usize = 4_096;

/// How long something may wait for company.
const GATHER: Duration = Duration::from_millis(15);

/// How often a transaction that met a full pool or a lost connection is tried again at least. It is
/// tried for as long as an answer may take, too: whoever is silent for longer has missed its date.
const TRIES_MIN: u32 = 20;

/// How often in a row the chain may say that a run is not ours before its proof is dropped: the
/// validator that is asked may be a block behind the one that told us of the run.
const UNAWAITED_MAX: u32 = 5;

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
    Other(Box<Action>),
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
        self.put(Item::Other(Box::new(Action::GiveUp { job, failure }))).await;
    }

    /// Shows a result with all that shows it to be right.
    pub(crate) async fn prove(&self, proof: Action) {
        self.put(Item::Prove(Box::new(proof))).await;
    }

    pub(crate) async fn object(&self, job: JobId) {
        self.put(Item::Other(Box::new(Action::Object { job }))).await;
    }

    pub(crate) async fn send(&self, action: Action) {
        self.put(Item::Other(Box::new(action))).await;
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
            Item::Other(action) => others.push(*action),
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
    let begun = Instant::now();
    let window = Duration::from_millis(config.gateway.params().jobs.answer_within.get());
    let mut tries = Tries::default();
    loop {
        let nonce = config.gateway.nonce(account, lane).await;
        let sent = match nonce {
            Ok(nonce) => {
                let place = (lane, nonce);
                config.gateway.send(&config.key, place, action.clone()).await.map(|_| ())
            }
            Err(error) => Err(error),
        };
        let is_unawaited = match sent {
            Ok(()) => return,
            Err(GatewayError::Ledger(reason)) if !is_passing(reason) => {
                tracing::debug!(what, %reason, "a transaction did nothing");
                return;
            }
            Err(error) => {
                tracing::debug!(what, %error, "a transaction is tried again");
                matches!(error, GatewayError::Ledger(Reason::ResultNotAwaited))
            }
        };
        let is_late = begun.elapsed() >= window;
        let is_ours = (is_unawaited || is_late) && is_run_ours(config, &action).await;
        if !tries.go_on(Failed { is_unawaited, is_late, is_ours }) {
            break;
        }
        if is_unawaited && !is_ours {
            config.gateway.turn(); // another validator may know more
        }
        tokio::time::sleep(AGAIN).await;
    }
    tracing::warn!(what, "a transaction was given up");
}

/// How often something was tried.
#[derive(Default)]
struct Tries {
    count: u32,
    /// How often in a row the chain said that it does not wait for it.
    unawaited: u32,
}

/// What is known after a try that failed.
#[derive(Clone, Copy)]
struct Failed {
    /// Whether the ledger does not wait for the result that was shown.
    is_unawaited: bool,
    /// Whether it was tried for as long as an answer may take.
    is_late: bool,
    /// Whether the chain shows the run as ours all the same.
    is_ours: bool,
}

impl Tries {
    /// Whether to try once more. A proof has as long as its run: blocks have room for few of them,
    /// and it cost more than anything else that a node says.
    fn go_on(&mut self, failed: Failed) -> bool {
        self.count = self.count.saturating_add(1);
        if failed.is_ours {
            self.unawaited = 0;
            return true;
        }
        self.unawaited = if failed.is_unawaited { self.unawaited + 1 } else { 0 };
        self.unawaited < UNAWAITED_MAX && (self.count < TRIES_MIN || !failed.is_late)
    }
}

/// Whether this shows the result of a run that the chain still expects of us. The ledger ends a run
/// at its date, so one that is there is in time.
async fn is_run_ours(config: &AgentConfig, action: &Action) -> bool {
    let Action::ProveResult { job, .. } = action else { return false };
    let node = NodeId::new(*config.key.public().as_bytes());
    let entry = config.gateway.entry::<JobEntry>(keys::job(job)).await.ok().flatten();
    entry.is_some_and(|entry| awaits_result(&entry, &node))
}

/// Whether a refusal may not stand the next time.
const fn is_passing(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NonceTooLow
            | Reason::NonceTooHigh
            | Reason::PoolFull
            | Reason::PoolDuplicate
            | Reason::SenderBusy
            | Reason::Expired
            | Reason::CapacityLimit
            | Reason::ResultNotAwaited
    )
}

#[cfg(test)]
mod tests {
    use super::{
        FIRST_LANE, Failed, Item, LANES, TRIES_MIN, Tries, UNAWAITED_MAX, actions, is_passing,
    };
    use std::collections::BTreeSet;
    use tg_types::tx::{OpenedCheck, REPORTS_PER_TX_MAX, Sealed};
    use tg_types::{
        Action, Bytes, CheckAnswer, Hash32, JobId, Lane, List, Reason, RunResult, TileAnswer,
    };

    #[test]
    fn what_waits_goes_into_few_transactions_in_the_order_of_steps() {
        let job = |number: u8| JobId::new([number; 32]);
        let seal = Hash32::new([0; 32]);
        let mut items = vec![Item::Other(Box::new(Action::Object { job: job(1) }))];
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
            Item::Other(Box::new(Action::PickClaim { job, child: 0 })),
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

    /// How often something is tried, a thousand times at most, if each try fails like this.
    fn tried(failed: Failed) -> u32 {
        let mut tries = Tries::default();
        (1..=1_000).find(|_| !tries.go_on(failed)).unwrap_or(u32::MAX)
    }

    /// Goal: a proof is kept as long as the chain shows the run as ours, whatever the validator
    /// that is asked says and however full blocks are, and no longer.
    #[test]
    fn proof_is_tried_as_long_as_its_run_is_ours_and_soon_dropped_then() {
        assert!(is_passing(Reason::ResultNotAwaited) && is_passing(Reason::PoolFull));
        assert!(!is_passing(Reason::RunUnknown));
        let refused = Failed { is_unawaited: true, is_late: true, is_ours: true };
        assert_eq!(tried(refused), u32::MAX);
        assert_eq!(tried(Failed { is_unawaited: false, ..refused }), u32::MAX, "a full pool");
        assert_eq!(tried(Failed { is_ours: false, ..refused }), UNAWAITED_MAX);
        let others = Failed { is_unawaited: false, is_late: true, is_ours: false };
        assert_eq!(tried(others), TRIES_MIN);
        assert_eq!(tried(Failed { is_late: false, ..others }), u32::MAX);
        let mut tries = Tries::default();
        for _ in 0..10 {
            for is_ours in [false, false, true] {
                let failed = Failed { is_unawaited: true, is_late: false, is_ours };
                assert!(tries.go_on(failed), "one validator is behind");
            }
        }
    }
}
