//! Readable JSON of nodes, jobs, and what happens to them.

use super::{Listing, capacity::ProvedView, checkpoint::CheckpointView, promise::PromiseView};
use crate::{
    text::{Number, Text, Tgrid, Units},
    words::tier_word,
};
use serde::{Deserialize, Serialize};
use tg_ledger::{Check, CheckState, Draw, JobEntry, NodeEntry, Run, RunState};
use tg_types::gpu::DEVICE_GONE;
use tg_types::{
    AccountId, DeviceKind, DurationMs, Event, Extent, Hash32, HeldGpu, HeldHost, HostPart, JobId,
    JobStatus, Name, NodeId, Reason, RunResult, Sharing, ShownBy, Tick, Work,
};

/// Equal devices of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceView {
    /// "cpu", "gpu" or "accelerator".
    pub kind: String,
    /// The maker's name for them.
    pub model: Text<Name>,
    /// Memory of each.
    pub memory_mib: u32,
    /// How many there are.
    pub count: u16,
    /// What each can do.
    pub features: Vec<String>,
    /// How each may be given out besides as a whole, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<String>,
    /// What was shown of one of them; without it they get no work, unless claims are believed.
    pub proved: Option<ProvedView>,
}

/// The word for a kind of device.
pub(crate) const fn kind_word(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Cpu => "cpu",
        DeviceKind::Gpu => "gpu",
        DeviceKind::Accelerator => "accelerator",
    }
}

/// What a run holds of a node's GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldView {
    /// The run, by its job.
    pub job: Text<JobId>,
    /// The device, by its place in the offer; absent if it is offered no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u8>,
    /// Which of those that are equal.
    pub unit: u8,
    /// What of it, in words.
    pub part: String,
}

impl From<&HeldGpu> for HeldView {
    fn from(held: &HeldGpu) -> Self {
        let HeldGpu { job, slice } = held;
        Self {
            job: Text(*job),
            device: (slice.device != DEVICE_GONE).then_some(slice.device),
            unit: slice.unit,
            part: slice.part.to_string(),
        }
    }
}

/// So much of a machine's processors and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostView {
    /// Thousandths of a processor.
    pub cpu_milli: u32,
    /// Memory.
    pub memory_mib: u32,
}

impl HostView {
    /// The same; `None` if nothing is said.
    fn of(part: HostPart) -> Option<Self> {
        let HostPart { cpu_milli, memory_mib } = part;
        (part != HostPart::NONE).then_some(Self { cpu_milli, memory_mib })
    }
}

/// What a run holds of a node's processors and memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostedView {
    /// The run, by its job.
    pub job: Text<JobId>,
    /// What it holds, in words.
    pub part: String,
}

impl From<&HeldHost> for HostedView {
    fn from(held: &HeldHost) -> Self {
        Self { job: Text(held.job), part: held.part.to_string() }
    }
}

/// A registered node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeView {
    /// Whose it is.
    pub owner: Text<AccountId>,
    /// Where it stands.
    pub region: Text<Name>,
    /// What it has.
    pub devices: Vec<DeviceView>,
    /// What an hour of it costs at least.
    pub price_per_hour: Tgrid,
    /// The same in base units.
    pub price_per_hour_units: Units,
    /// What 10^12 multiply-adds cost at least.
    pub price_per_tera: Tgrid,
    /// The same in base units.
    pub price_per_tera_units: Units,
    /// How many runs it takes at once.
    pub slots: u16,
    /// How many it has.
    pub running: u64,
    /// What these hold of its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldView>,
    /// The processors and the memory that runs may hold, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostView>,
    /// What they hold of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosted: Vec<HostedView>,
    /// How many it keeps for promised jobs.
    #[serde(default)]
    pub kept: u64,
    /// Checks it has not finished.
    pub checking: u32,
    /// Whether it takes runs now.
    pub open: bool,
    /// When it closes, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closes: Option<Number<Tick>>,
    /// Whether validators see it.
    pub present: bool,
    /// The lower bound of its reputation when it last changed, in basis points.
    pub reputation_bps: u16,
    /// Since when it is registered.
    pub since: Number<Tick>,
    /// What it is asked to show: "idle" if nothing, "waiting", "filling", "committed", "showing" or
    /// "resting".
    pub capacity: String,
}

impl From<&NodeEntry> for NodeView {
    fn from(entry: &NodeEntry) -> Self {
        let offer = &entry.descriptor;
        let devices = (0..).zip(offer.devices.as_slice()).map(|(place, device)| DeviceView {
            kind: kind_word(device.kind).to_owned(),
            model: Text(device.model.clone()),
            memory_mib: device.memory_mib,
            count: device.count,
            features: device.features.words().map(str::to_owned).collect(),
            sharing: (device.sharing != Sharing::WHOLE).then(|| device.sharing.to_string()),
            proved: entry.capacity.proof(place).map(ProvedView::from),
        });
        Self {
            owner: Text(entry.owner),
            region: Text(offer.region.clone()),
            devices: devices.collect(),
            price_per_hour: Tgrid(offer.price_per_hour),
            price_per_hour_units: Units(offer.price_per_hour),
            price_per_tera: Tgrid(offer.price_per_tera),
            price_per_tera_units: Units(offer.price_per_tera),
            slots: offer.slots,
            running: super::length(entry.runs.as_slice()),
            held: entry.held.as_slice().iter().map(HeldView::from).collect(),
            host: HostView::of(offer.host),
            hosted: entry.hosted.as_slice().iter().map(HostedView::from).collect(),
            kept: super::length(entry.kept.as_slice()),
            checking: entry.checks,
            open: offer.is_open,
            closes: offer.closes.map(Number),
            present: entry.absent.is_none(),
            reputation_bps: entry.reputation.lower_bound(entry.reputation.at).points(),
            since: Number(entry.since),
            capacity: entry.capacity.step.name().to_lowercase(),
        }
    }
}

/// A run of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunView {
    /// The node.
    pub node: Text<NodeId>,
    /// Whose it is.
    pub owner: Text<AccountId>,
    /// What stands for it.
    pub bond: Tgrid,
    /// "placed", "committed", "revealed" or "ended".
    pub state: String,
    /// When it was placed, in milliseconds since the Unix epoch.
    pub begun: Number<Tick>,
    /// What it was placed on: the catalogue's name of the device, or its kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The GPUs, or the part of one, that it was given, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// Milliseconds from its placement to the block in which its node came to a result, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Why it ended, as a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Text<Reason>>,
    /// The output that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Text<Hash32>>,
    /// The root of the trace that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Text<Hash32>>,
    /// The sealed package with the output, by content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<Text<Hash32>>,
}

impl From<&Run> for RunView {
    fn from(run: &Run) -> Self {
        let (state, ended) = match run.state {
            RunState::Placed => ("placed", None),
            RunState::Committed { .. } => ("committed", None),
            RunState::Revealed { .. } => ("revealed", None),
            RunState::Ended { why } => ("ended", Some(Text(why))),
        };
        let result = run.result();
        Self {
            node: Text(run.node),
            owner: Text(run.owner),
            bond: Tgrid(run.bond),
            state: state.to_owned(),
            begun: Number(run.begun),
            device: run.class.map(|class| class.name().to_owned()),
            gpus: run.gpus.as_slice().iter().map(ToString::to_string).collect(),
            took_ms: run.took.map(DurationMs::get),
            ended,
            output: result.map(|result| Text(result.output)),
            trace: result.map(|result| Text(result.trace)),
            package: result.map(|result| Text(result.package)),
        }
    }
}

/// A check of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckView {
    /// The node.
    pub node: Text<NodeId>,
    /// Whose it is.
    pub owner: Text<AccountId>,
    /// In which round it was drawn.
    pub round: u8,
    /// "drawn", "waiting" for the key, "committed", "passed", "refused", "missed" or "excused".
    pub state: String,
}

impl From<&Check> for CheckView {
    fn from(check: &Check) -> Self {
        let state = match check.state {
            CheckState::Drawn => "drawn",
            CheckState::Committed { .. } => "committed",
            CheckState::Passed => "passed",
            CheckState::Missed => "missed",
            CheckState::Refused => "refused",
            CheckState::Waiting => "waiting",
            CheckState::Excused => "excused",
        };
        let (node, owner) = (Text(check.node), Text(check.owner));
        Self { node, owner, round: check.round, state: state.to_owned() }
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobView {
    /// Who asked and pays.
    pub owner: Text<AccountId>,
    /// "tensor" or "opaque".
    pub work: String,
    /// The program or the task, by content.
    pub program: Text<Hash32>,
    /// The sealed package, by content.
    pub package: Text<Hash32>,
    /// "trusted", "audit", "sync" or "redundant:n".
    pub tier: String,
    /// What a run is paid.
    pub pay: Tgrid,
    /// The same in base units.
    pub pay_units: Units,
    /// How long a run may take.
    pub run_max_ms: u64,
    /// What is locked for it now.
    pub escrow: Tgrid,
    /// The same in base units.
    pub escrow_units: Units,
    /// When it was submitted.
    pub submitted: Number<Tick>,
    /// When it expires.
    pub expires: Number<Tick>,
    /// How far it has come.
    pub status: String,
    /// Its runs.
    pub runs: Vec<RunView>,
    /// What a drawn checker recomputes: "whole" or "tiles".
    pub extent: String,
    /// "pending", "spared" or "drawn".
    pub draw: String,
    /// The checks of its result.
    pub checks: Vec<CheckView>,
    /// What was promised of it, if somebody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<Box<PromiseView>>,
    /// The commitment to its weights, if they are secret and registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_weights: Option<Text<Hash32>>,
    /// How its state is saved, if it is, and what was saved last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Box<CheckpointView>>,
    /// Whether its client has stopped it, and its node is still to end the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stopping: bool,
    /// On how many nodes it runs at the same time, if on several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u8>,
}

impl From<&JobEntry> for JobView {
    fn from(entry: &JobEntry) -> Self {
        let (work, program) = match entry.spec.work {
            Work::Tensor { program, .. } => ("tensor", program),
            Work::Opaque { task } => ("opaque", task),
        };
        let extent = match entry.extent {
            Extent::Whole => "whole",
            Extent::Tiles => "tiles",
        };
        let draw = match entry.draw {
            Draw::Pending => "pending",
            Draw::Spared => "spared",
            Draw::Drawn { .. } => "drawn",
        };
        Self {
            owner: Text(entry.owner),
            work: work.to_owned(),
            program: Text(program),
            package: Text(entry.spec.package),
            tier: tier_word(entry.spec.tier),
            pay: Tgrid(entry.spec.pay),
            pay_units: Units(entry.spec.pay),
            run_max_ms: entry.spec.run_max.get(),
            escrow: Tgrid(entry.escrow),
            escrow_units: Units(entry.escrow),
            submitted: Number(entry.submitted),
            expires: Number(entry.expires),
            status: status_word(entry.status).to_owned(),
            runs: entry.runs.as_slice().iter().map(RunView::from).collect(),
            draw: draw.to_owned(),
            extent: extent.to_owned(),
            checks: entry.checks.as_slice().iter().map(CheckView::from).collect(),
            promise: PromiseView::of(entry).map(Box::new),
            secret_weights: entry.spec.tier.secret_weights().map(Text),
            checkpoint: CheckpointView::of(entry).map(Box::new),
            is_stopping: entry.is_stopped && !entry.status.is_final(),
            nodes: entry.spec.is_gang().then_some(entry.spec.nodes),
        }
    }
}

/// The word for how far a job has come.
const fn status_word(status: JobStatus) -> &'static str {
    match status {
        JobStatus::Queued => "queued",
        JobStatus::Cancelled => "cancelled",
        JobStatus::Expired => "expired",
        JobStatus::Running => "running",
        JobStatus::Checking => "checking",
        JobStatus::Disputed => "disputed",
        JobStatus::Settled => "settled",
        JobStatus::Failed => "failed",
    }
}

/// With the date of the next step.
fn until(list: Listing, deadline: Tick) -> Listing {
    list.number("deadline", deadline.get())
}

/// What an event about work says, besides its sentence. Other events say nothing here.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
pub(super) fn event_details(event: &Event, list: Listing) -> Listing {
    match event {
        Event::ProgramRecorded { program, multiply_adds } => {
            list.text("program", program).number("multiply_adds", *multiply_adds)
        }
        Event::WeightsRegistered { weights, program, owner, proofs } => {
            let list = list.text("weights", weights).text("program", program).text("owner", owner);
            list.number("proofs", *proofs)
        }
        Event::JobQueued { job, owner, escrow } => {
            list.text("job", job).text("owner", owner).amount("escrow", *escrow)
        }
        Event::JobCancelled { job, owner, refund }
        | Event::JobExpired { job, owner, refund }
        | Event::JobFailed { job, owner, refund } => {
            list.text("job", job).text("owner", owner).amount("refund", *refund)
        }
        Event::JobPlaced { job, node, run, deadline } => {
            until(list.text("job", job).text("node", node).number("run", *run), *deadline)
        }
        Event::RunEnded { job, node, why } => {
            list.text("job", job).text("node", node).text("why", why)
        }
        Event::ResultRevealed { job, node, result } => {
            let list = list.text("job", job).text("node", node).text("output", &result.output);
            list.text("trace", &result.trace).text("package", &result.package)
        }
        Event::ResultProved { job, node, result, by } => {
            shown_details(list.text("job", job).text("node", node), result, by)
        }
        Event::CheckDrawn { job, node, round } | Event::DisputeAnswered { job, node, round } => {
            list.text("job", job).text("node", node).number("round", *round)
        }
        Event::ResultCommitted { job, node }
        | Event::CheckCommitted { job, node }
        | Event::CheckPassed { job, node }
        | Event::CheckRefused { job, node }
        | Event::TilesNotShown { job, node }
        | Event::KeyLacked { job, node }
        | Event::CheckExcused { job, node }
        | Event::CheckMissed { job, node } => list.text("job", job).text("node", node),
        Event::ResultNotDrawn { job } | Event::RunsDisagreed { job } => list.text("job", job),
        Event::ResultUnchecked { job, owner } => list.text("job", job).text("owner", owner),
        Event::DisputeOpened { job, challenger, bond } => {
            list.text("job", job).text("challenger", challenger).amount("bond", *bond)
        }
        Event::DefencePassed { job, deadline } => until(list.text("job", job), *deadline),
        Event::ClaimPicked { job, round, child } => {
            list.text("job", job).number("round", *round).number("child", *child)
        }
        Event::DisputeEnded { job, challenger, why } => {
            list.text("job", job).text("challenger", challenger).text("why", why)
        }
        Event::JobSettled { job, owner, output, charged, refund } => {
            let list = list.text("job", job).text("owner", owner).text("output", output);
            list.amount("charged", *charged).amount("refund", *refund)
        }
        Event::ProviderPaid { job, node, owner, amount }
        | Event::CheckerPaid { job, node, owner, amount }
        | Event::NodeFined { job, node, owner, amount } => {
            list.text("job", job).text("node", node).text("owner", owner).amount("amount", *amount)
        }
        Event::NodeSlashed { job, node, owner, amount, bounty } => {
            let list = list.text("job", job).text("node", node).text("owner", owner);
            list.amount("amount", *amount).amount("bounty", *bounty)
        }
        _ => list,
    }
}

/// What was shown with a result, and how.
fn shown_details(list: Listing, result: &RunResult, by: &ShownBy) -> Listing {
    let list = list.text("output", &result.output).text("shown", &result.trace);
    let list = list.text("package", &result.package);
    match by {
        ShownBy::Proof { weights } => list.text("by", &"proof").text("weights", weights),
        ShownBy::Rerun => list.text("by", &"rerun"),
        ShownBy::Zk { weights, inputs, run, is_secret } => {
            let list = list.text("by", &"zk").text("weights", weights);
            let list = list.text("inputs", inputs).number("run", *run);
            if *is_secret { list.text("weights_are", &"secret and registered") } else { list }
        }
    }
}
