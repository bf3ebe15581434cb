//! What is stored of a job.

use tg_scheduler::pace::DeviceClass;
use tg_types::ids::{AccountId, Hash32, JobId, NodeId, Noun};
use tg_types::job::{NODES_PER_JOB_MAX, REPLICAS_MAX};
use tg_types::params::RUNS_FAILED_MAX;
use tg_types::{
    Amount, CheckpointRef, DurationMs, Extent, GpuSlices, Height, JobSpec, JobStatus, List, Reason,
    RunClaim, RunResult, Tick, Tier, Work, wire,
};

use super::promise::Promise;
use super::row::{QueueKey, QueueRow};
use super::save::SavedState;
use crate::entry::{Entry, Held, entry};

/// The most runs of a job: replicas and spare ones, or members of a gang, and failures.
pub(super) const RUNS_MAX: usize = 24;

const _: () = {
    let paid = Tier::Redundant { replicas: REPLICAS_MAX }.runs_paid_max();
    let most = if paid > NODES_PER_JOB_MAX { paid } else { NODES_PER_JOB_MAX };
    assert!(most as u64 + RUNS_FAILED_MAX <= RUNS_MAX as u64, "all runs stay in the record");
};

/// The most checks of a job: four rounds of sixteen.
const CHECKS_MAX: usize = 64;

/// What follows from what was asked for: how much of a run checkers recompute, what is locked, and
/// where the job waits.
pub(super) type Terms = (Extent, Amount, QueueRow);

/// The runs of a job, in the order in which they were placed.
pub type Runs = List<Run, 0, RUNS_MAX>;

/// The checks of a job's result, in the order in which they were drawn.
pub type Checks = List<Check, 0, CHECKS_MAX>;

entry! {
    /// A job.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct JobEntry {
        /// Who asked and pays.
        pub owner: AccountId,
        /// What was asked for.
        pub spec: JobSpec,
        /// Its number, if it is a task of an array.
        pub task: Option<u32>,
        /// What is locked for it now.
        pub escrow: Amount,
        /// When it was submitted.
        pub submitted: Tick,
        /// When it expires.
        pub expires: Tick,
        /// When it ended, if it has.
        pub closed: Option<Tick>,
        /// How far it has come.
        pub status: JobStatus,
        /// In which row of the queue it waits for nodes.
        pub row: QueueRow,
        /// When it was put there last.
        pub queued: Tick,
        /// Its place there, if it waits for a node.
        pub queue_place: Option<u64>,
        /// How many runs it needs.
        pub wanted: u8,
        /// Its runs.
        pub runs: Runs,
        /// How much of it a drawn checker recomputes.
        pub extent: Extent,
        /// Whether its result is checked.
        pub draw: Draw,
        /// The checks of its result.
        pub checks: Checks,
        /// Whether its end is promised.
        pub promise: Promise,
        /// Its state as it was saved last: what the next run begins with.
        pub saved: Option<SavedState>,
        /// How often the run that goes on has saved it.
        pub saves: u32,
        /// Its place in the list of runs that may have to yield, if it stands there.
        pub yield_place: Option<u64>,
        /// How often its runs were asked to yield.
        pub yields: u8,
        /// The job whose run was asked to yield to it, if one was.
        pub waits_for: Option<JobId>,
        /// What was paid before it ended: to runs that yielded, were stopped or lost their gang, or
        /// to whoever kept a slot that is needed no more.
        pub paid: Amount,
        /// Whether its client has stopped it while it ran: it does not go on when that run ends.
        pub is_stopped: bool,
        /// Its place in the list of those that wait for much at once, if it stands there.
        pub gang_place: Option<GangPlace>,
    }
}

impl Entry for JobEntry {
    const NOUN: Noun = Noun::Job;

    fn held(&self) -> Held {
        Held { escrow: self.escrow.units().into(), ..Held::default() }
    }
}

wire! {
    /// Whether a result is checked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Draw {
        /// The beacon has not spoken.
        Pending = 1,
        /// It is not.
        Spared = 2,
        /// It is.
        Drawn {
            /// How many checkers must find it right.
            needed: u8,
            /// The round that goes on, counted from 0.
            round: u8,
        } = 3,
    }
}

wire! {
    /// A run of a job on a node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Run {
        /// The node.
        pub node: NodeId,
        /// Whose it is.
        pub owner: AccountId,
        /// What of the owner's stake stands for it.
        pub bond: Amount,
        /// The class of the device for which the node was chosen.
        pub class: Option<DeviceClass>,
        /// The GPUs that it was given, by their places in the offer as it was then.
        pub gpus: GpuSlices,
        /// What its node asked for it then, if it is a member of a gang: the most that it pays
        /// another member if it fails.
        pub asked: Option<Amount>,
        /// When it was placed.
        pub begun: Tick,
        /// How long after that its node committed to a result or showed it, if it has.
        pub took: Option<DurationMs>,
        /// When the next step must be there.
        pub deadline: Tick,
        /// For whom it was asked to end before it is finished, if it was.
        pub yields_to: Option<YieldTo>,
        /// How far it has come.
        pub state: RunState,
    }
}

wire! {
    /// Where a job stands that waits for much at once: several nodes, or several GPUs of one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GangPlace {
        /// Its place in the list.
        pub place: u64,
        /// From when on it comes before others.
        pub from: Tick,
        /// Until when nodes are held back for it, if they are.
        pub until: Option<Tick>,
    }
}

wire! {
    /// For whom a run ends before it is finished.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum YieldTo {
        /// For a job that offers more.
        Job {
            /// Which.
            job: JobId,
        } = 1,
        /// For the owner of its node, who closes it.
        Owner = 2,
        /// For its client, who stops the job.
        Client {
            /// Until when its time is paid.
            by: Tick,
        } = 3,
        /// For its own good: it goes on at a better place.
        Better = 4,
    }
}

wire! {
    /// How far a run has come.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RunState {
        /// The node computes.
        Placed = 1,
        /// The node has committed to a result.
        Committed {
            /// To this.
            seal: Hash32,
            /// In this block.
            height: Height,
        } = 2,
        /// The node has shown its result.
        Revealed {
            /// The result.
            result: RunResult,
            /// The block in which it was committed to.
            height: Height,
        } = 3,
        /// It ended without a result that was accepted.
        Ended {
            /// Why.
            why: Reason,
        } = 4,
    }
}

wire! {
    /// A check of a result by a node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Check {
        /// The node.
        pub node: NodeId,
        /// Whose it is.
        pub owner: AccountId,
        /// What of the owner's stake stands for it.
        pub bond: Amount,
        /// In which round it was drawn.
        pub round: u8,
        /// What its tiles are drawn by; absent if it is to recompute the whole run, or has shown
        /// that it did.
        pub lot: Option<Hash32>,
        /// When the next step must be there.
        pub deadline: Tick,
        /// How far it has come.
        pub state: CheckState,
    }
}

wire! {
    /// How far a check has come.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CheckState {
        /// The node was drawn.
        Drawn = 1,
        /// It has committed to an answer.
        Committed {
            /// To this.
            seal: Hash32,
            /// The block from which on answers of its round may be shown, if that has come.
            opened: Option<Height>,
            /// The beacon that draws which tiles it shows if it has recomputed the whole run. Kept
            /// here once it has spoken, since the ledger forgets beacons earlier than dates.
            beacon: Option<Hash32>,
        } = 2,
        /// It found the result right, and has shown that it looked.
        Passed = 3,
        /// It did not answer.
        Missed = 4,
        /// It answered something that does not show that it looked: it will have missed.
        Refused = 5,
        /// It says that it has no key, which the owner keeps; it may still get one and answer.
        Waiting = 6,
        /// It had no key until its date.
        Excused = 7,
    }
}

impl YieldTo {
    /// Until when a run is paid that its client stops.
    pub(super) const fn client_until(self) -> Option<Tick> {
        match self {
            Self::Client { by } => Some(by),
            Self::Job { .. } | Self::Owner | Self::Better => None,
        }
    }

    /// The job that takes the place of a run, if it ends for one.
    pub(super) const fn waiting(self) -> Option<JobId> {
        match self {
            Self::Job { job } => Some(job),
            Self::Owner | Self::Client { .. } | Self::Better => None,
        }
    }
}

impl Run {
    /// Its node has come to a result.
    pub(crate) fn end_at(&mut self, now: Tick) {
        self.took = now.since(self.begun).ok();
    }

    /// Whether it still may give a result.
    pub const fn is_live(&self) -> bool {
        !matches!(self.state, RunState::Ended { .. })
    }

    /// What it gave, once that is shown.
    pub const fn result(&self) -> Option<RunResult> {
        match self.state {
            RunState::Revealed { result, .. } => Some(result),
            RunState::Placed | RunState::Committed { .. } | RunState::Ended { .. } => None,
        }
    }

    /// The block in which it was committed to a result.
    pub const fn committed(&self) -> Option<Height> {
        match self.state {
            RunState::Committed { height, .. } | RunState::Revealed { height, .. } => Some(height),
            RunState::Placed | RunState::Ended { .. } => None,
        }
    }
}

impl Check {
    /// Whether it has vouched for the result, or committed to that. Showing something else than it
    /// should have committed to does not free it.
    pub const fn has_answered(&self) -> bool {
        match self.state {
            CheckState::Passed | CheckState::Committed { .. } | CheckState::Refused => true,
            CheckState::Drawn | CheckState::Missed | CheckState::Waiting | CheckState::Excused => {
                false
            }
        }
    }

    /// Whether its date is still to come.
    pub const fn is_open(&self) -> bool {
        match self.state {
            CheckState::Drawn
            | CheckState::Waiting
            | CheckState::Committed { .. }
            | CheckState::Refused => true,
            CheckState::Passed | CheckState::Missed | CheckState::Excused => false,
        }
    }

    /// Whether it may still commit to an answer.
    pub const fn is_unsaid(&self) -> bool {
        matches!(self.state, CheckState::Drawn | CheckState::Waiting)
    }

    /// Whether its bond stands for it as long as the job is open.
    pub const fn is_bonded(&self) -> bool {
        !matches!(self.state, CheckState::Missed | CheckState::Excused)
    }
}

impl JobEntry {
    /// A job that was just submitted.
    pub(crate) fn new(
        owner: AccountId,
        spec: JobSpec,
        (extent, escrow, row): Terms,
        [submitted, expires]: [Tick; 2],
    ) -> Self {
        Self {
            owner,
            wanted: spec.runs(),
            spec,
            task: None,
            escrow,
            submitted,
            expires,
            closed: None,
            status: JobStatus::Queued,
            row,
            queued: submitted,
            queue_place: None,
            runs: Runs::default(),
            extent,
            draw: Draw::Pending,
            checks: Checks::default(),
            promise: Promise::None,
            saved: None,
            saves: 0,
            yield_place: None,
            yields: 0,
            waits_for: None,
            paid: Amount::ZERO,
            is_stopped: false,
            gang_place: None,
        }
    }

    /// What decides when its turn comes, if it waits: the least goes first. It never changes while
    /// the job waits.
    pub fn queue_key(&self) -> Option<QueueKey> {
        let came = self.row.key(self.queued).unwrap_or(Tick::MAX);
        Some(QueueKey { came, row: self.row, place: self.queue_place? })
    }

    /// What a run that is placed now begins with; nothing if it begins at the beginning.
    pub fn begins_with(&self) -> Option<CheckpointRef> {
        let plan = self.spec.checkpoint?;
        self.saved.map(|saved| saved.checkpoint).or(plan.from)
    }

    /// Runs that may still give a result or have given one.
    pub fn live(&self) -> impl Iterator<Item = &Run> {
        self.runs.as_slice().iter().filter(|run| run.is_live())
    }

    /// Whether a result was committed to that a beacon draws. It must be shown, whatever the job's
    /// own date: otherwise whoever commits late enough could show what is spared and let the rest
    /// expire.
    pub fn is_owed(&self) -> bool {
        let is_drawn = matches!(self.spec.tier, Tier::Audit | Tier::Sync);
        is_drawn && self.live().any(|run| run.committed().is_some())
    }

    /// The run of a node that may still give a result.
    pub(crate) fn run_of(&mut self, node: &NodeId) -> Option<&mut Run> {
        self.runs.as_mut_slice().iter_mut().find(|run| run.node == *node && run.is_live())
    }

    /// Which of the job's runs is a node's that may still give a result, counted from 0.
    pub fn run_number(&self, node: &NodeId) -> Option<u8> {
        let mut runs = self.runs.as_slice().iter();
        let place = runs.position(|run| run.node == *node && run.is_live())?;
        u8::try_from(place).ok()
    }

    /// Which member of a gang a node is, counted from 0: members keep their order as long as they
    /// run.
    pub fn rank_of(&self, node: &NodeId) -> Option<u8> {
        let place = self.live().position(|run| run.node == *node);
        place.filter(|_| self.spec.is_gang()).and_then(|place| u8::try_from(place).ok())
    }

    /// The check of a node that has not ended.
    pub(crate) fn check_of(&mut self, node: &NodeId) -> Option<&mut Check> {
        self.checks.as_mut_slice().iter_mut().find(|check| check.node == *node && check.is_open())
    }

    /// The first result that is shown.
    pub fn result(&self) -> Option<RunResult> {
        self.live().find_map(Run::result)
    }

    /// Checks that have vouched for the whole run, or committed to that: their nodes may answer in
    /// a dispute if the provider does not. Of a run that is checked by tiles there are none, even
    /// if a checker computed all of it: its bond is too small to answer for the provider's.
    pub fn stand_ins(&self) -> impl Iterator<Item = &Check> {
        let checks = self.checks.as_slice().iter().filter(|_| self.extent == Extent::Whole);
        checks.filter(|check| check.has_answered())
    }

    /// How many checkers have found the result right.
    pub fn passed(&self) -> usize {
        let checks = self.checks.as_slice().iter();
        checks.filter(|check| matches!(check.state, CheckState::Passed)).count()
    }

    /// How many checkers had no key until their date, because the owner kept it.
    pub fn excused(&self) -> usize {
        let checks = self.checks.as_slice().iter();
        checks.filter(|check| matches!(check.state, CheckState::Excused)).count()
    }

    /// What is claimed of the run in dispute, if the work is a tensor program.
    pub fn claim(&self) -> Option<RunClaim> {
        let RunResult { output, trace, .. } = self.result()?;
        match self.spec.work {
            Work::Tensor { program, weights, inputs, salt } => {
                Some(RunClaim { program, weights, inputs, salt, trace, output })
            }
            Work::Opaque { .. } => None,
        }
    }
}
