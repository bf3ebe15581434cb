//! What the queue is told and what it decides.

use tg_types::{DurationMs, Tick};

/// A job, by the order in which jobs came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobNumber(pub u64);

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeNumber(pub u32);

/// Whoever jobs are charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerNumber(pub u32);

/// Machines of one kind: same devices, same number of them. Below 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolNumber(pub u16);

/// Pools in which a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSet(u64);

impl PoolSet {
    /// All.
    pub const ALL: Self = Self(u64::MAX);
    /// None.
    pub const NONE: Self = Self(0);

    /// And this one.
    #[must_use]
    pub fn with(self, pool: PoolNumber) -> Self {
        Self(self.0 | 1_u64.checked_shl(u32::from(pool.0)).unwrap_or(0))
    }

    /// Whether a pool is among them.
    pub fn has(self, pool: PoolNumber) -> bool {
        1_u64.checked_shl(u32::from(pool.0)).is_some_and(|bit| self.0 & bit != 0)
    }
}

/// By when a job is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// Some time.
    None,
    /// By then if possible; later is better than never.
    Aim(Tick),
    /// By then or not at all: refused unless it can be promised.
    Promise(Tick),
}

/// What a job asks of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// To whom it is charged.
    pub owner: OwnerNumber,
    /// Devices that it needs at once.
    pub devices: u16,
    /// Where it may run.
    pub pools: PoolSet,
    /// The kind of program: what such jobs take is learned together.
    pub program: u32,
    /// How long it may run; it is stopped then.
    pub limit: DurationMs,
    /// How long it is said to run.
    pub estimate: DurationMs,
    /// By when it is wanted.
    pub deadline: Deadline,
    /// What is paid for a device and second, over what is usual, in percent: twice as much goes
    /// before a job of half the size.
    pub bid_percent: u32,
    /// Each step counts as much as four times the bid.
    pub priority: u8,
    /// Whether it can be interrupted and go on.
    pub is_resumable: bool,
}

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A machine with so many devices joined a pool.
    NodeJoined(NodeNumber, PoolNumber, u16),
    /// A machine is gone, with all that ran on it since the last interruption.
    NodeLeft(NodeNumber),
    /// A job came.
    JobQueued(JobNumber, Ask),
    /// A running job is done; its devices are free.
    JobFinished(JobNumber),
    /// A running job failed through its machine; it starts again where it was last interrupted.
    JobFailed(JobNumber),
    /// A job is not wanted any more.
    JobCancelled(JobNumber),
    /// What a finished job took is certain, and is learned from.
    JobSettled(JobNumber),
    /// Time to decide. At least once in every round.
    RoundBegan,
}

/// Why a job is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// No pool that may run it has so many devices.
    TooWide,
    /// The queue holds as many jobs as it can.
    QueueFull,
    /// The deadline is nearer than the declared limit is long.
    TooShort,
    /// Others were promised the room before.
    NoRoom,
}

/// Why a job is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It ran as long as declared.
    Limit,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Start a job there; `is_resumed` if it goes on from a checkpoint.
    Start {
        /// The job.
        job: JobNumber,
        /// On which machines, with how many devices of each.
        parts: Vec<(NodeNumber, u16)>,
        /// Whether it has run before.
        is_resumed: bool,
    },
    /// Interrupt a job with a checkpoint; it waits again.
    Preempt {
        /// The job.
        job: JobNumber,
    },
    /// End a job.
    Stop {
        /// The job.
        job: JobNumber,
        /// Why.
        reason: Stop,
    },
    /// The job will be done by then.
    Promise {
        /// The job.
        job: JobNumber,
        /// The deadline asked for.
        by: Tick,
    },
    /// The job is not taken.
    Refuse {
        /// The job.
        job: JobNumber,
        /// Why.
        reason: RefusalReason,
        /// A deadline that would be promised now, if any is known.
        earliest: Option<Tick>,
    },
    /// A promise cannot be kept because machines failed, or was not; its client is owed
    /// compensation. The job goes on. Comes with the first event after the deadline at the latest.
    Break {
        /// The job.
        job: JobNumber,
        /// What was promised.
        by: Tick,
    },
}

/// What the queue goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Time between two rounds at most.
    pub round: DurationMs,
    /// What an interruption costs before a job goes on.
    pub restart: DurationMs,
    /// Interruptions of one job at most.
    pub preemptions_max: u16,
    /// Waiting so long counts as much as half the time to the deadline.
    pub age: DurationMs,
    /// How much the size counts beside the deadline: this percentage of its octaves.
    pub size_percent: u8,
    /// Who has waited so long is given a time at which it runs.
    pub patience: DurationMs,
    /// To have had a whole pool for so long counts as much as twice the time to the deadline.
    pub fairness: DurationMs,
    /// Whether what settled jobs took is used.
    pub is_learning: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            round: DurationMs::MINUTE,
            restart: DurationMs::MINUTE,
            preemptions_max: 64,
            age: DurationMs::new(20 * DurationMs::DAY.get()),
            size_percent: 10,
            patience: DurationMs::new(14 * DurationMs::DAY.get()),
            fairness: DurationMs::HOUR,
            is_learning: true,
        }
    }
}
