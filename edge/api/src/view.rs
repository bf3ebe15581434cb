//! Readable JSON of headers, receipts, events, transactions and entries.
//!
//! A view is always made from the typed value and never turned back into one: where a view stands
//! beside canonical bytes, readers decode the bytes, make the view again and compare. That is why
//! views refuse unknown fields and can be compared.

mod capacity;
mod checkpoint;
mod complaint;
mod promise;
mod work;

pub use capacity::ProvedView;
pub use checkpoint::CheckpointView;
pub use promise::PromiseView;
pub(crate) use work::kind_word;
pub use work::{CheckView, DeviceView, HeldView, HostView, HostedView, JobView, NodeView, RunView};

use checkpoint::event_details as ended;
use promise::event_details as promised;

use crate::text::{Hex, Number, OneText as _, Text, Tgrid, Units};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tg_ledger::{
    AccountEntry, JobEntry, NodeEntry, StakeEntry, Totals, ValidatorEntry, WeightsEntry,
};
use tg_types::{
    AccountId, Action, Amount, DecodeError, Event, Hash32, Header, HeaderDigest, Height, Lane,
    Nonce, Noun, Reason, Receipt, SecretWeights, SignedTx, StateKey, Status, Tick, TxId,
    codec::{Decode as _, Encode as _},
    key::Domain,
};

/// A block's header, its digest in its network and its canonical bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderView {
    /// The block's number.
    pub height: Number<Height>,
    /// The block's time.
    pub tick: Number<Tick>,
    /// The header before.
    pub parent: Text<HeaderDigest>,
    /// Who proposed the block.
    pub proposer: Text<AccountId>,
    /// Hash of the block's transaction bytes.
    pub payload: Text<Hash32>,
    /// Root of all ledger entries after the block.
    pub state_root: Text<Hash32>,
    /// Root of the block's receipts.
    pub receipts_root: Text<Hash32>,
    /// Root of the log of all headers before.
    pub log_root: Text<Hash32>,
    /// The header's digest in its network: what the committee certifies.
    pub digest: Text<HeaderDigest>,
    /// The header's canonical bytes.
    pub bytes: Hex,
}

impl HeaderView {
    /// Shows a header of a network.
    #[must_use]
    pub fn new(header: &Header, domain: &Domain) -> Self {
        Self {
            height: Number(header.height),
            tick: Number(header.tick),
            parent: Text(header.parent),
            proposer: Text(header.proposer),
            payload: Text(header.payload),
            state_root: Text(header.state_root),
            receipts_root: Text(header.receipts_root),
            log_root: Text(header.log_root),
            digest: Text(header.digest(domain)),
            bytes: Hex(header.to_bytes()),
        }
    }
}

/// A value in the details of an event or an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Detail {
    /// A count, a height or a time.
    Number(u64),
    /// An id, bytes, a name or an amount.
    Text(String),
}

/// Named values.
pub type Details = BTreeMap<String, Detail>;

/// Collects named values.
#[derive(Default)]
struct Listing(Details);

impl Listing {
    fn text(mut self, name: &str, value: &impl ToString) -> Self {
        self.0.insert(name.to_owned(), Detail::Text(value.to_string()));
        self
    }

    fn number(mut self, name: &str, value: impl Into<u64>) -> Self {
        self.0.insert(name.to_owned(), Detail::Number(value.into()));
        self
    }

    /// How many there are.
    fn count<T>(self, items: &[T]) -> Self {
        self.number("count", length(items))
    }

    fn bytes(self, name: &str, bytes: &[u8]) -> Self {
        self.text(name, &hex::encode(bytes))
    }

    /// An amount, in TGRID and in base units.
    fn amount(self, name: &str, amount: Amount) -> Self {
        let units = format!("{name}_units");
        self.text(name, &Tgrid(amount)).text(&units, &Units(amount))
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventView {
    /// The word programs branch on.
    pub code: Text<Reason>,
    /// The sentence people read.
    pub sentence: String,
    /// Who, what and how much.
    pub details: Details,
}

impl EventView {
    /// Shows an event.
    #[must_use]
    pub fn new(event: &Event) -> Self {
        Self {
            code: Text(event.reason()),
            sentence: event.sentence(),
            details: event_details(event),
        }
    }
}

fn event_details(event: &Event) -> Details {
    listed(event, Listing::default()).0
}

/// What an event says.
fn listed(event: &Event, list: Listing) -> Listing {
    match event {
        Event::AccountCredited { account, amount }
        | Event::Staked { account, amount }
        | Event::Unbonded { account, amount }
        | Event::PenaltyTaken { account, amount } => {
            list.text("account", account).amount("amount", *amount)
        }
        Event::NodeRegistered { node, owner }
        | Event::NodeChanged { node, owner }
        | Event::NodeLeft { node, owner }
        | Event::NodeDropped { node, owner }
        | Event::NodeAbsent { node, owner } => list.text("node", node).text("owner", owner),
        Event::Transferred { .. }
        | Event::UnbondingStarted { .. }
        | Event::Slashed { .. }
        | Event::FeesShared { .. } => moves(event, list),
        Event::AbsenceReported { .. } | Event::BeaconRecorded { .. } => seen(event, list),
        Event::ProgramRecorded { .. }
        | Event::WeightsRegistered { .. }
        | Event::JobQueued { .. }
        | Event::JobCancelled { .. }
        | Event::JobExpired { .. }
        | Event::JobFailed { .. }
        | Event::JobPlaced { .. }
        | Event::RunEnded { .. }
        | Event::ResultCommitted { .. }
        | Event::ResultRevealed { .. }
        | Event::ResultProved { .. }
        | Event::CheckDrawn { .. }
        | Event::ResultNotDrawn { .. }
        | Event::CheckCommitted { .. }
        | Event::CheckPassed { .. }
        | Event::CheckMissed { .. }
        | Event::DisputeOpened { .. }
        | Event::DisputeAnswered { .. }
        | Event::ClaimPicked { .. }
        | Event::DefencePassed { .. }
        | Event::CheckRefused { .. }
        | Event::TilesNotShown { .. }
        | Event::KeyLacked { .. }
        | Event::CheckExcused { .. }
        | Event::ResultUnchecked { .. }
        | Event::DisputeEnded { .. }
        | Event::RunsDisagreed { .. }
        | Event::JobSettled { .. }
        | Event::ProviderPaid { .. }
        | Event::CheckerPaid { .. }
        | Event::NodeSlashed { .. }
        | Event::NodeFined { .. } => work::event_details(event, list),
        Event::PromiseGiven { .. } | Event::PromiseRefused { .. } => promised(event, list),
        Event::PromiseBroken { .. } | Event::ClientCompensated { .. } => promised(event, list),
        Event::CheckpointSaved { .. } | Event::GangBroken { .. } => ended(event, list),
        Event::YieldAsked { .. } | Event::RunYielded { .. } => ended(event, list),
        Event::StopAsked { .. } | Event::RunStopped { .. } => ended(event, list),
        Event::MoveAsked { .. } | Event::RunMoved { .. } => ended(event, list),
        Event::JobAdjusted { .. } => ended(event, list),
        Event::CapacityAsked { .. }
        | Event::CapacityCommitted { .. }
        | Event::CapacityDrawn { .. }
        | Event::CapacityShown { .. }
        | Event::CapacityProved { .. }
        | Event::CapacityMissed { .. } => capacity::event_details(event, list),
        Event::Complained { .. }
        | Event::ComplaintJudged { .. }
        | Event::ComplaintUpheld { .. }
        | Event::ComplaintRejected { .. }
        | Event::ComplaintLapsed { .. } => complaint::event_details(event, list),
    }
}

/// What an event says about what validators saw.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
fn seen(event: &Event, list: Listing) -> Listing {
    match event {
        Event::AbsenceReported { reporter, epoch, count } => {
            list.text("reporter", reporter).number("epoch", *epoch).number("count", *count)
        }
        Event::BeaconRecorded { height, beacon } => {
            list.number("height", height.get()).text("beacon", beacon)
        }
        _ => list,
    }
}

/// What an event says that moves amounts.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
fn moves(event: &Event, list: Listing) -> Listing {
    match event {
        Event::Transferred { from, to, amount } => {
            list.text("from", from).text("to", to).amount("amount", *amount)
        }
        Event::UnbondingStarted { account, amount, due } => {
            list.text("account", account).amount("amount", *amount).number("due", due.get())
        }
        Event::Slashed { offender, reporter, amount, bounty } => list
            .text("offender", offender)
            .text("reporter", reporter)
            .amount("amount", *amount)
            .amount("bounty", *bounty),
        Event::FeesShared { proposer, earned, burned, treasury } => list
            .text("proposer", proposer)
            .amount("earned", *earned)
            .amount("burned", *burned)
            .amount("treasury", *treasury),
        _ => list,
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusWord {
    /// It did what it asked for.
    Applied,
    /// It paid its fee and did nothing else.
    Failed,
}

/// A receipt and its canonical bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptView {
    /// The transaction.
    pub tx: Text<TxId>,
    /// Its place in the block.
    pub index: u32,
    /// How it ended.
    pub status: StatusWord,
    /// Why, as a word.
    pub code: Text<Reason>,
    /// Why, as a sentence.
    pub sentence: String,
    /// The fee it paid.
    pub fee: Tgrid,
    /// The same in base units.
    pub fee_units: Units,
    /// What happened, in order.
    pub events: Vec<EventView>,
    /// The receipt's canonical bytes.
    pub bytes: Hex,
}

impl ReceiptView {
    /// Shows a receipt.
    #[must_use]
    pub fn new(receipt: &Receipt) -> Self {
        let reason = receipt.status.reason();
        Self {
            tx: Text(receipt.tx),
            index: receipt.index,
            status: match receipt.status {
                Status::Applied => StatusWord::Applied,
                Status::Failed(_) => StatusWord::Failed,
            },
            code: Text(reason),
            sentence: reason.sentence().to_owned(),
            fee: Tgrid(receipt.fee),
            fee_units: Units(receipt.fee),
            events: receipt.events.iter().map(EventView::new).collect(),
            bytes: Hex(receipt.to_bytes()),
        }
    }
}

/// A transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TxView {
    /// Its id.
    pub tx: Text<TxId>,
    /// Who asks, pays and signs.
    pub sender: Text<AccountId>,
    /// In which sequence.
    pub lane: Number<Lane>,
    /// At which place of the sequence.
    pub nonce: Number<Nonce>,
    /// The first height at which it is no longer valid.
    pub expires: Number<Height>,
    /// What it pays.
    pub fee: Tgrid,
    /// The same in base units.
    pub fee_units: Units,
    /// What it asks for, as a word.
    pub action: String,
    /// What it asks for, in detail.
    pub details: Details,
}

impl TxView {
    /// Shows a transaction of a network.
    #[must_use]
    pub fn new(tx: &SignedTx, domain: &Domain) -> Self {
        let body = &tx.body;
        let (action, details) = action_details(&body.action);
        Self {
            tx: Text(tx.id(domain)),
            sender: Text(body.sender),
            lane: Number(body.lane),
            nonce: Number(body.nonce),
            expires: Number(body.expires),
            fee: Tgrid(body.fee),
            fee_units: Units(body.fee),
            action: action.to_owned(),
            details,
        }
    }
}

fn length<T>(items: &[T]) -> u64 {
    u64::try_from(items.len()).unwrap_or(u64::MAX)
}

/// What is told of secret weights that are registered.
fn registration(
    list: Listing,
    program: &Hash32,
    weights: &SecretWeights,
    (cost, proof): (u64, &[u8]),
) -> Listing {
    let listed = list.text("program", program).text("weights", &weights.id());
    let listed = listed.number("proofs", weights.proofs).number("cost", cost);
    listed.number("shown_bytes", length(proof))
}

fn action_details(action: &Action) -> (&'static str, Details) {
    let list = Listing::default();
    let (word, listed) = match action {
        Action::Transfer { to, amount, memo } => {
            let listed = list.text("to", to).amount("amount", *amount);
            ("transfer", listed.bytes("memo", memo.as_slice()))
        }
        Action::Stake { amount } => ("stake", list.amount("amount", *amount)),
        Action::Unstake { amount } => ("unstake", list.amount("amount", *amount)),
        Action::RegisterNode { node, .. } => ("register_node", list.text("node", node)),
        Action::ChangeNode { node, .. } => ("change_node", list.text("node", node)),
        Action::LeaveNode { node } => ("leave_node", list.text("node", node)),
        Action::ReportAbsent { epoch, nodes } => {
            ("report_absent", list.number("epoch", *epoch).count(nodes.as_slice()))
        }
        Action::SubmitJobs { specs, escrow_max, .. } => {
            ("submit_jobs", list.count(specs.as_slice()).amount("escrow_max", *escrow_max))
        }
        Action::SubmitArray { tasks, escrow_max, .. } => {
            let listed = list.number("first", tasks.first).number("count", tasks.count);
            ("submit_array", listed.amount("escrow_max", *escrow_max))
        }
        Action::SaveCheckpoint { .. } | Action::YieldRun { .. } | Action::AdjustJob { .. } => {
            checkpoint::action_details(action, list)
        }
        Action::CancelJob { job } => ("cancel_job", list.text("job", job)),
        Action::SubmitEvidence { evidence } => {
            ("submit_evidence", list.bytes("evidence", evidence.as_slice()))
        }
        Action::PutProgram { program, piece, pieces, .. } => {
            let listed = list.text("program", program);
            ("put_program", listed.number("piece", *piece).number("pieces", *pieces))
        }
        Action::CommitResults { seals } => ("commit_results", list.count(seals.as_slice())),
        Action::RevealResults { results, .. } => ("reveal_results", list.count(results.as_slice())),
        Action::ProveResult { job, cost, shown, .. } => {
            let listed = list.text("job", job).number("cost", *cost);
            ("prove_result", listed.number("shown_bytes", length(shown.as_slice())))
        }
        Action::RegisterWeights { program, weights, cost, proof } => {
            ("register_weights", registration(list, program, weights, (*cost, proof.as_slice())))
        }
        Action::GiveUp { job, failure } => {
            ("give_up", list.text("job", job).text("failure", &failure.name()))
        }
        Action::CommitChecks { seals } => ("commit_checks", list.count(seals.as_slice())),
        Action::RevealChecks { answers } => ("reveal_checks", list.count(answers.as_slice())),
        Action::LackKey { job } => ("lack_key", list.text("job", job)),
        Action::Object { job } => ("object", list.text("job", job)),
        Action::AnswerDispute { job, .. } => ("answer_dispute", list.text("job", job)),
        Action::PickClaim { job, child } => {
            ("pick_claim", list.text("job", job).number("child", *child))
        }
        Action::JudgeDispute { job, .. } => ("judge_dispute", list.text("job", job)),
        Action::CommitCapacity { root } => ("commit_capacity", list.text("root", root)),
        Action::ShowCapacity { openings } => {
            ("show_capacity", list.number("bytes", length(openings.as_slice())))
        }
        Action::Complain { job, about, .. } => {
            ("complain", list.text("job", job).text("about", &complaint::name(*about)))
        }
        Action::JudgeComplaint { job, opens } => {
            ("judge_complaint", list.text("job", job).text("opens", opens))
        }
    };
    (word, listed.0)
}

/// The next nonce of a lane that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneView {
    /// The lane.
    pub lane: Number<Lane>,
    /// The nonce its next transaction needs.
    pub next: Number<Nonce>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountView {
    /// Free to spend.
    pub balance: Tgrid,
    /// The same in base units.
    pub balance_units: Units,
    /// The lanes that were used.
    pub lanes: Vec<LaneView>,
}

impl From<&AccountEntry> for AccountView {
    fn from(entry: &AccountEntry) -> Self {
        let lane = |(number, next)| {
            let number = u8::try_from(number).ok()?;
            Some(LaneView { lane: Number(Lane::new(number).ok()?), next: Number(next) })
        };
        Self {
            balance: Tgrid(entry.balance),
            balance_units: Units(entry.balance),
            lanes: entry.lanes.used().filter_map(lane).collect(),
        }
    }
}

/// Stake that was called back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnbondingView {
    /// How much.
    pub amount: Tgrid,
    /// The same in base units.
    pub amount_units: Units,
    /// When it is released.
    pub due: Number<Tick>,
}

/// An account's stake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StakeView {
    /// At stake until it is called back.
    pub active: Tgrid,
    /// The same in base units.
    pub active_units: Units,
    /// What of it stands for work that is not settled yet.
    pub exposed: Tgrid,
    /// The same in base units.
    pub exposed_units: Units,
    /// Called back, but not released yet.
    pub unbonding: Vec<UnbondingView>,
}

impl From<&StakeEntry> for StakeView {
    fn from(entry: &StakeEntry) -> Self {
        let unbonding = entry.unbonding.as_slice().iter().map(|item| UnbondingView {
            amount: Tgrid(item.amount),
            amount_units: Units(item.amount),
            due: Number(item.due),
        });
        Self {
            active: Tgrid(entry.active),
            active_units: Units(entry.active),
            exposed: Tgrid(entry.exposed),
            exposed_units: Units(entry.exposed),
            unbonding: unbonding.collect(),
        }
    }
}

/// The parts of the supply, and their sum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TotalsView {
    /// All there is, fixed by the genesis.
    pub supply: Tgrid,
    /// The same in base units.
    pub supply_units: Units,
    /// Free to spend, over all accounts.
    pub balances: Tgrid,
    /// The same in base units.
    pub balances_units: Units,
    /// Locked for jobs.
    pub escrow: Tgrid,
    /// The same in base units.
    pub escrow_units: Units,
    /// Staked.
    pub staked: Tgrid,
    /// The same in base units.
    pub staked_units: Units,
    /// On its way from stake to balance.
    pub unbonding: Tgrid,
    /// The same in base units.
    pub unbonding_units: Units,
    /// The treasury's.
    pub treasury: Tgrid,
    /// The same in base units.
    pub treasury_units: Units,
    /// Out of circulation for good.
    pub burned: Tgrid,
    /// The same in base units.
    pub burned_units: Units,
    /// Sum of all parts, in base units.
    pub sum_units: String,
    /// Whether the parts add up to the supply.
    pub balanced: bool,
}

impl From<&Totals> for TotalsView {
    fn from(totals: &Totals) -> Self {
        let sum = totals.parts_sum();
        Self {
            supply: Tgrid(totals.supply),
            supply_units: Units(totals.supply),
            balances: Tgrid(totals.balances),
            balances_units: Units(totals.balances),
            escrow: Tgrid(totals.escrow),
            escrow_units: Units(totals.escrow),
            staked: Tgrid(totals.staked),
            staked_units: Units(totals.staked),
            unbonding: Tgrid(totals.unbonding),
            unbonding_units: Units(totals.unbonding),
            treasury: Tgrid(totals.treasury),
            treasury_units: Units(totals.treasury),
            burned: Tgrid(totals.burned),
            burned_units: Units(totals.burned),
            sum_units: sum.to_string(),
            balanced: sum == u128::from(totals.supply.units()),
        }
    }
}

/// A validator's seat in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeatView {
    /// Whose stake stands behind it.
    pub owner: Text<AccountId>,
    /// When it was slashed for voting twice, if it was.
    pub slashed: Option<Number<Height>>,
}

impl From<&ValidatorEntry> for SeatView {
    fn from(entry: &ValidatorEntry) -> Self {
        Self { owner: Text(entry.owner), slashed: entry.slashed.map(Number) }
    }
}

/// Secret weights that are registered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsView {
    /// The program that they fit.
    pub program: Text<Hash32>,
    /// Whose they are.
    pub owner: Text<AccountId>,
    /// The block in which they were registered.
    pub height: Number<Height>,
    /// How many proofs their commitment is for, the registration included.
    pub proofs: u16,
    /// How many of these are left for further jobs.
    pub left: u16,
}

impl From<&WeightsEntry> for WeightsView {
    fn from(entry: &WeightsEntry) -> Self {
        let WeightsEntry { program, owner, height, proofs, left } = *entry;
        let (program, owner, height) = (Text(program), Text(owner), Number(height));
        Self { program, owner, height, proofs, left }
    }
}

/// An entry of the state, as far as it has a readable form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryView {
    /// The parts of the supply.
    Totals(Box<TotalsView>),
    /// An account.
    Account(AccountView),
    /// An account's stake.
    Stake(StakeView),
    /// A node.
    Node(NodeView),
    /// A job.
    Job(Box<JobView>),
    /// A validator's seat.
    Validator(SeatView),
    /// Secret weights.
    Weights(WeightsView),
    /// Bytes that only the ledger reads.
    Opaque,
}

impl EntryView {
    /// Shows the entry under a key.
    ///
    /// # Errors
    /// If the bytes are not an entry of the key's noun.
    pub fn new(key: &StateKey, bytes: &[u8]) -> Result<Self, DecodeError> {
        Ok(match key.noun() {
            Noun::Totals => Self::Totals(Box::new((&Totals::from_bytes(bytes)?).into())),
            Noun::Account => Self::Account((&AccountEntry::from_bytes(bytes)?).into()),
            Noun::Stake => Self::Stake((&StakeEntry::from_bytes(bytes)?).into()),
            Noun::Node => Self::Node((&NodeEntry::from_bytes(bytes)?).into()),
            Noun::Job => Self::Job(Box::new((&JobEntry::from_bytes(bytes)?).into())),
            Noun::Validator => Self::Validator((&ValidatorEntry::from_bytes(bytes)?).into()),
            Noun::Weights => Self::Weights((&WeightsEntry::from_bytes(bytes)?).into()),
            Noun::Seen
            | Noun::Due
            | Noun::Headers
            | Noun::Beacon
            | Noun::Log
            | Noun::Params
            | Noun::Cursor
            | Noun::Absence
            | Noun::List
            | Noun::Program
            | Noun::Piece
            | Noun::Draft
            | Noun::Dispute
            | Noun::Complaint
            | Noun::Pace
            | Noun::GpuMix => Self::Opaque,
        })
    }

    /// The entry in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Totals(totals) => format!(
                "The supply is {} TGRID; its parts add up to {} base units.",
                totals.supply.to_text(),
                totals.sum_units
            ),
            Self::Account(account) => format!("The balance is {} TGRID.", account.balance),
            Self::Stake(stake) => format!(
                "{} TGRID are at stake and {} unbondings are under way.",
                stake.active,
                stake.unbonding.len()
            ),
            Self::Node(node) => {
                format!("The node in {} belongs to {}.", node.region, node.owner)
            }
            Self::Job(job) => {
                format!("The job is {}; {} TGRID are in escrow.", job.status, job.escrow)
            }
            Self::Validator(seat) => match &seat.slashed {
                Some(height) => format!("{}'s seat was slashed at height {height}.", seat.owner),
                None => format!("{} has the seat and was never slashed.", seat.owner),
            },
            Self::Weights(weights) => format!(
                "{} registered these weights for program {}; {} of {} proofs are left.",
                weights.owner, weights.program, weights.left, weights.proofs
            ),
            Self::Opaque => "The entry has no readable form; its bytes are proven.".to_owned(),
        }
    }
}
