//! Parameters and answers about jobs and nodes. What the pages show is exactly this.

use crate::{
    text::{Number, Text, Tgrid, Units},
    view::{EventView, JobView, NodeView, StakeView},
    why::WhyView,
    words::{Line, Standing, TierWords, Tone},
};
use serde::{Deserialize, Serialize};
use tg_chain::{Happening, index::JobPlace};
use tg_ledger::{Charges, JobEntry, ProgramEntry, Reputation};
use tg_types::{Height, JobId, JobStatus, NodeId, Tick, TxId};

/// Parameters of `jobs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobsParams {
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Those before this place: `next` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Text<JobPlace>>,
}

/// What a job costs, part by part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceView {
    /// What a run is paid.
    pub run: Tgrid,
    /// Runs that are paid if all goes well.
    pub runs: u8,
    /// What a check is paid.
    pub check: Tgrid,
    /// Checks that are paid if the result is drawn and all checkers are found.
    pub checkers: u8,
    /// What each run gets for its transactions.
    pub fees_each: Tgrid,
    /// What each check gets for its transactions.
    pub check_fees_each: Tgrid,
    /// The quote: what was locked, and the most it can cost.
    pub quoted: Tgrid,
    /// What it cost: only what ended runs were paid if it was refunded, `None` as long as it goes
    /// on.
    pub charged: Option<Tgrid>,
}

impl PriceView {
    /// The price of a job.
    #[must_use]
    pub fn new(entry: &JobEntry, charges: &Charges) -> Self {
        let charged = match entry.status {
            JobStatus::Settled => {
                let last = charges.of(entry.live().count(), entry.passed());
                last.and_then(|last| last.plus(entry.paid).ok()).map(Tgrid)
            }
            JobStatus::Cancelled | JobStatus::Expired | JobStatus::Failed => {
                Some(Tgrid(entry.paid))
            }
            JobStatus::Queued | JobStatus::Running | JobStatus::Checking | JobStatus::Disputed => {
                None
            }
        };
        Self {
            run: Tgrid(charges.pay),
            runs: charges.runs,
            check: Tgrid(charges.check_pay),
            checkers: charges.checkers,
            fees_each: Tgrid(charges.fees),
            check_fees_each: Tgrid(charges.check_fees),
            quoted: Tgrid(charges.escrow),
            charged,
        }
    }
}

/// A job in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedJob {
    /// The job.
    pub id: Text<JobId>,
    /// Its place in the order in which jobs came.
    pub place: Text<JobPlace>,
    /// Its record; `None` if it ended so long ago that the ledger has forgotten it.
    pub record: Option<JobRecord>,
}

/// What the ledger has on record of a job, with the words for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRecord {
    /// Why it is where it is.
    pub reason: Standing,
    /// How sure the client wants to be, in words.
    pub tier: TierWords,
    /// What it costs.
    pub price: Option<PriceView>,
    /// When it ended.
    pub closed: Option<Number<Tick>>,
    /// The record.
    pub job: JobView,
}

/// Answer of `jobs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobsAnswer {
    /// The jobs, the latest first.
    pub jobs: Vec<ListedJob>,
    /// Where to go on with `before`, if there may be more.
    pub next: Option<Text<JobPlace>>,
}

/// Parameters of `job`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobParams {
    /// The job.
    pub job: Text<JobId>,
}

/// Something that happened to a job or a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happened {
    /// In which block.
    pub height: Number<Height>,
    /// At which time.
    pub tick: Number<Tick>,
    /// The transaction that caused it; `None` for what the block did by itself.
    pub tx: Option<Text<TxId>>,
    /// The step in a word or two.
    pub step: String,
    /// What happened, the rest of the sentence.
    pub text: String,
    /// Whether that is good.
    pub tone: Tone,
    /// The event, with all its values.
    pub event: EventView,
}

impl Happened {
    /// Tells something that happened; `None` if there are no words for it.
    #[must_use]
    pub fn new(happening: &Happening) -> Option<Self> {
        let line = Line::of(&happening.event)?;
        Some(Self {
            height: Number(happening.height),
            tick: Number(happening.tick),
            tx: happening.tx.map(Text),
            step: line.step.to_owned(),
            text: line.text,
            tone: line.tone,
            event: EventView::new(&happening.event),
        })
    }
}

/// A program that a job runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramView {
    /// Multiply-adds of a run.
    pub multiply_adds: u64,
    /// Operations.
    pub operations: u32,
    /// Elements that a run computes.
    pub elements: u64,
}

impl From<&ProgramEntry> for ProgramView {
    fn from(entry: &ProgramEntry) -> Self {
        let ProgramEntry { multiply_adds, operations, elements, .. } = *entry;
        Self { multiply_adds, operations, elements }
    }
}

/// Answer of `job`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobAnswer {
    /// The job.
    pub id: Text<JobId>,
    /// Its record; `None` if it ended so long ago that the ledger has forgotten it.
    pub record: Option<JobRecord>,
    /// Its program, if that is on record.
    pub program: Option<ProgramView>,
    /// What stands between it and a node, as long as it waits.
    pub why: Option<WhyView>,
    /// What happened to it, in order.
    pub history: Vec<Happened>,
    /// Whether earlier things happened that are left out.
    pub more: bool,
    /// The transaction whose receipt says how far the job came: the one that ended it, otherwise
    /// the last one about it.
    pub receipt: Option<Text<TxId>>,
}

/// Parameters of `nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesParams {
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Those before this place: `next` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
}

/// What is known of a node's work, from what was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReputationView {
    /// Weight of what went well, in base units of the work's worth; halves in 30 days.
    pub good: u64,
    /// Weight of what did not.
    pub bad: u64,
    /// The share of good work that is exceeded with 95 % certainty, in basis points.
    pub lower_bound_bps: u16,
}

impl ReputationView {
    /// A reputation as it counts now.
    #[must_use]
    pub fn new(reputation: Reputation, now: Tick) -> Self {
        let aged = reputation.aged(now);
        let lower_bound_bps = reputation.lower_bound(now).points();
        Self { good: aged.good, bad: aged.bad, lower_bound_bps }
    }
}

/// A node with its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListedNode {
    /// The node.
    pub id: Text<NodeId>,
    /// What is known about it.
    pub node: NodeView,
    /// Its owner's stake, which stands for all nodes of the owner.
    pub stake: StakeView,
    /// What of that stands for nothing yet.
    pub stake_free: Tgrid,
    /// The same in base units.
    pub stake_free_units: Units,
    /// What is known of its work.
    pub reputation: ReputationView,
    /// Since when validators do not see it.
    pub absent: Option<Number<Tick>>,
    /// What it has shown of its capacity, or why not, for people.
    pub capacity: String,
}

/// Answer of `nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesAnswer {
    /// The nodes, the last registered first. One that leaves gives its place to the last.
    pub nodes: Vec<ListedNode>,
    /// How many there are in all.
    pub count: u64,
    /// Whether there are more than were asked for.
    pub more: bool,
    /// Where to go on with `before`, if there are more.
    pub next: Option<u64>,
}

/// Parameters of `node`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeParams {
    /// The node.
    pub node: Text<NodeId>,
    /// What happened before this block: `earlier` of the answer before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Number<Height>>,
}

/// Answer of `node`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeAnswer {
    /// The node.
    pub id: Text<NodeId>,
    /// Its record; `None` if it is not registered any more.
    pub record: Option<ListedNode>,
    /// Jobs that it runs now, until their results are settled.
    pub jobs: Vec<Text<JobId>>,
    /// What happened to it, the latest first.
    pub history: Vec<Happened>,
    /// Where to go on with `before`, if more happened earlier.
    pub earlier: Option<Number<Height>>,
}
