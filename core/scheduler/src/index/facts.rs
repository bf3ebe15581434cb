//! What the scheduler is told, what it answers, and what it keeps: entries of the ledger, from
//! which everything else is derived.

use super::keys::Keys;
use crate::catalogue::Abilities;
use crate::packing::{GPU_MILLI, GPUS_MAX, Models};
use crate::sharing::Modes;
use tg_types::codec::{Decode, DecodeError, Encode, Reader};
use tg_types::{DeviceKind, Features, NodeId, wire};

/// The home of a task that has none, or one where no node stands.
pub const NOWHERE: u8 = 64;

wire! {
    /// A task, by the number that the ledger gives it: in the order of submission.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct TaskId {
        /// The number.
        pub number: u64,
    }
}

wire! {
    /// What a node offers, in coarse steps that validators have agreed on.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct NodeOffer {
        /// Whose it is, by a number.
        pub owner: u64,
        /// What kind its devices are.
        pub kind: DeviceKind,
        /// Their model, by its number in the catalogue.
        pub model: u8,
        /// How many there are; of [`GPUS_MAX`] at most work is given.
        pub count: u8,
        /// Credited memory of each.
        pub memory_mib: u32,
        /// What they can do.
        pub abilities: Abilities,
        /// What else the node can do.
        pub features: Features,
        /// How they may be shared.
        pub modes: Modes,
        /// Thousandths of a processor.
        pub cpu_milli: u32,
        /// Memory of the host.
        pub ram_mib: u32,
        /// Where it stands, below 64.
        pub region: u8,
        /// How far it is trusted, from 0.
        pub trust: u8,
        /// What it does for secrecy, as bits.
        pub privacy: u8,
        /// Measured speed of a device, in steps of a quarter.
        pub speed: u8,
        /// Price of a device, in steps of a quarter.
        pub price: u8,
        /// Lower bound of its reputation, 0 to 15.
        pub reliability: u8,
        /// Bandwidth to the network, 0 to 7.
        pub bandwidth: u8,
        /// How loaded or hot it is, 0 to 7.
        pub load: u8,
        /// What of that is by tasks that hold processors or memory, 0 to 7.
        pub load_held: u8,
        /// How much of processors and memory is free, in half octaves, 0 to 31.
        pub spare: u8,
        /// Whether it takes tasks now.
        pub is_open: bool,
        /// Models and data that it keeps.
        pub cached: Keys,
    }
}

wire! {
    /// What a task is for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Purpose {
        /// Answers for somebody who waits.
        Inference = 1,
        /// Work that has time.
        Batch = 2,
        /// Training.
        Training = 3,
    }
}

wire! {
    /// What a task needs of a node.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct TaskSpec {
        /// Thousandths of a processor.
        pub cpu_milli: u32,
        /// Memory of the host.
        pub ram_mib: u32,
        /// How many devices.
        pub gpus: u8,
        /// Thousandths of one device, if that is enough; 0 for whole ones.
        pub share_milli: u16,
        /// Memory of each.
        pub memory_mib: u32,
        /// Where it may run, as bits.
        pub regions: u64,
        /// How far the node must be trusted.
        pub trust_min: u8,
        /// What the node must do for secrecy, as bits.
        pub privacy: u8,
        /// The least speed.
        pub speed_min: u8,
        /// The highest price.
        pub price_max: u8,
        /// The least bandwidth.
        pub bandwidth_min: u8,
        /// What kind of device; any if absent.
        pub kind: Option<DeviceKind>,
        /// Which models.
        pub models: Models,
        /// What the devices must be able to do.
        pub abilities: Abilities,
        /// What else the node must be able to do.
        pub features: Features,
        /// Whether strangers may run beside it on one processor.
        pub may_share: bool,
        /// What it is for.
        pub purpose: Purpose,
        /// The region of the client or its data, or [`NOWHERE`].
        pub home: u8,
        /// Regions that are near it, as bits.
        pub near: u64,
        /// The model or data it uses; 0 for none.
        pub data: u64,
        /// Whether it holds processors or memory, and goes where little is left of them.
        pub packs: bool,
        /// Owners that may not run it.
        pub excluded: Keys,
    }
}

wire! {
    /// What a task has of a node.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Slice {
        /// Processor and memory only.
        Host = 1,
        /// Whole devices.
        Whole {
            /// Which, as bits.
            devices: u16,
        } = 2,
        /// A partition of a device.
        Part {
            /// Which.
            device: u8,
            /// Its compute slices.
            compute: u8,
            /// Its memory slices.
            memory: u8,
            /// The first of them.
            start: u8,
        } = 3,
        /// A share of a device, beside others or in turns with them, as its owner has it.
        Share {
            /// Which.
            device: u8,
            /// Steps of a twentieth.
            steps: u8,
        } = 4,
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node is there.
    NodeJoined {
        /// Which.
        node: NodeId,
        /// What it offers.
        offer: Box<NodeOffer>,
    },
    /// A node offers something else.
    NodeChanged {
        /// Which.
        node: NodeId,
        /// What it offers from now on.
        offer: Box<NodeOffer>,
    },
    /// A node is gone; its tasks are placed anew, as many in a block as the limits say.
    NodeLeft {
        /// Which.
        node: NodeId,
    },
    /// A task is to be placed.
    TaskQueued {
        /// Which.
        task: TaskId,
        /// What it needs.
        spec: Box<TaskSpec>,
    },
    /// A task is done, or not wanted any more.
    TaskFinished {
        /// Which.
        task: TaskId,
    },
    /// A run failed; the task waits again.
    TaskFailed {
        /// Which.
        task: TaskId,
        /// The owner that is not to have it again.
        owner: u64,
    },
    /// A task needs something else from now on. One that runs keeps its node, or nothing changes.
    TaskAdjusted {
        /// Which.
        task: TaskId,
        /// What it needs.
        spec: Box<TaskSpec>,
    },
}

/// Why an event is refused; nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventError {
    /// A node with this id, or one that cannot be told from it, is there already.
    NodeKnown,
    /// No such node.
    NodeUnknown,
    /// The node is running tasks and cannot change its hardware.
    NodeBusy,
    /// An offer with numbers out of their range, or more memory than the model has.
    Offer,
    /// A task with this number is there already.
    TaskKnown,
    /// No such task.
    TaskUnknown,
    /// The task is not running.
    TaskWaits,
    /// The node has no room for what the task needs now.
    NoRoom,
    /// No node could ever do that.
    Refused(Refusal),
}

impl std::fmt::Display for EventError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::NodeKnown => "the node is known already",
            Self::NodeUnknown => "no such node",
            Self::NodeBusy => "the node is running tasks",
            Self::Offer => "the offer is out of range",
            Self::TaskKnown => "the task is known already",
            Self::TaskUnknown => "no such task",
            Self::TaskWaits => "the task is not running",
            Self::NoRoom => "the node has no room",
            Self::Refused(_) => "no node could ever run the task",
        };
        out.write_str(text)
    }
}

impl std::error::Error for EventError {}

/// Why no node could ever run a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// More devices than any node gives.
    Devices,
    /// A share that is none.
    Share,
    /// No region, or one that is none.
    Region,
    /// No model that has the memory and can do what is needed.
    Model,
    /// As many tasks wait as can.
    QueueFull,
}

/// Why a task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// There is no node, or none whose devices would do.
    Hardware,
    /// Nodes with such devices stand elsewhere.
    Region,
    /// They are not trusted enough, or do not keep secrets well enough.
    Trust,
    /// They are too slow.
    Speed,
    /// They ask for more.
    Price,
    /// They are busy.
    Busy,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A task runs there.
    Place {
        /// Which.
        task: TaskId,
        /// Where.
        node: NodeId,
        /// On what.
        slice: Slice,
    },
    /// A task waits.
    Queue {
        /// Which.
        task: TaskId,
        /// What for.
        reason: Wait,
    },
    /// A task has lost its node and waits again.
    Requeue {
        /// Which.
        task: TaskId,
        /// What is gone.
        node: NodeId,
    },
}

/// How much is done in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tasks that are tried: placed, or found to have no place.
    pub decisions: u32,
    /// Tasks of lost nodes that are queued again.
    pub requeues: u32,
}

/// Steps of values that are given in steps: the largest of each.
mod most {
    pub(super) const REGION: u8 = 63;
    pub(super) const RELIABILITY: u8 = 15;
    pub(super) const BANDWIDTH: u8 = 7;
    pub(super) const LOAD: u8 = 7;
    pub(super) const STEP: u8 = 63;
    pub(super) const SPARE: u8 = crate::host::SPARE_MAX;
}

impl NodeOffer {
    /// Whether all numbers are in their range.
    pub(super) fn is_valid(&self) -> bool {
        self.region <= most::REGION
            && self.reliability <= most::RELIABILITY
            && self.bandwidth <= most::BANDWIDTH
            && self.load <= most::LOAD
            && self.load_held <= self.load
            && self.spare <= most::SPARE
            && self.speed <= most::STEP
            && self.price <= most::STEP
            && usize::from(self.count) <= GPUS_MAX
    }
}

impl TaskSpec {
    /// Whether a node could ever do that, as far as the numbers themselves tell.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        if usize::from(self.gpus) > GPUS_MAX {
            return Err(Refusal::Devices);
        }
        if self.share_milli >= GPU_MILLI || self.share_milli > 0 && self.gpus != 1 {
            return Err(Refusal::Share);
        }
        if self.regions == 0 || self.home > NOWHERE {
            return Err(Refusal::Region);
        }
        if self.gpus > 0 && self.models == Models::NONE {
            return Err(Refusal::Model);
        }
        Ok(())
    }
}

impl Encode for Models {
    fn encode(&self, out: &mut Vec<u8>) {
        self.bits().iter().for_each(|word| word.encode(out));
    }
}

impl Decode for Models {
    const BYTES_MIN: usize = 32;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut bits = [0; 4];
        for word in &mut bits {
            *word = u64::decode(reader)?;
        }
        Ok(Self::of_bits(bits))
    }
}

macro_rules! byte_set {
    ($name:ident, $expected:literal) => {
        impl Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                self.bits().encode(out);
            }
        }

        impl Decode for $name {
            const BYTES_MIN: usize = 1;

            fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let bits = u8::decode(reader)?;
                let at = reader.position();
                Self::of_bits(bits).ok_or(DecodeError::Range { at, expected: $expected })
            }
        }
    };
}

byte_set!(Abilities, "set of abilities");
byte_set!(Modes, "set of ways to share");
