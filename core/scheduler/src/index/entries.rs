//! The facts as entries of the ledger, and the way back from them.

use super::facts::{NodeOffer, Slice, TaskId, TaskSpec};
use super::nodes::key_of;
use super::tasks::Task;
use super::usage::Usage;
use super::{EventError, Index};
use crate::packing::{Demand, Gpus, Models, Shape};
use std::collections::BTreeMap;
use tg_types::codec::{Decode, DecodeError, Encode, Reader};
use tg_types::{NodeId, wire};

wire! {
    /// A node.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NodeFact {
        /// Which.
        pub node: NodeId,
        /// What it offers.
        pub offer: NodeOffer,
        /// Whether it has left, with tasks that are not queued again yet.
        pub is_gone: bool,
    }
}

wire! {
    /// A task.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TaskFact {
        /// Which.
        pub task: TaskId,
        /// What it needs.
        pub spec: TaskSpec,
        /// Where it runs.
        pub at: Option<(NodeId, Slice)>,
    }
}

wire! {
    /// What usually comes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct UsageFact {
        /// How often what was asked for.
        pub counts: Counts<Demand>,
        /// Tasks since it was last looked whether the mix still holds.
        pub since: u64,
        /// The tasks of which the mix in use was made.
        pub made_of: Counts<Demand>,
        /// The machines for which it was made.
        pub made_for: Counts<Shape>,
    }
}

/// How often there is what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts<K>(BTreeMap<K, u64>);

/// All that the scheduler decides by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Nodes, by id.
    pub nodes: Vec<NodeFact>,
    /// Tasks, by number.
    pub tasks: Vec<TaskFact>,
    /// What tasks need that were found to have no place.
    pub blocked: Vec<TaskSpec>,
    /// What usually comes.
    pub usage: UsageFact,
}

/// Why facts are not sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactsError {
    /// This node could not have joined.
    Node(NodeId, EventError),
    /// This task could not have come.
    Task(TaskId),
    /// This task cannot have what it has.
    Place(TaskId),
}

impl std::fmt::Display for FactsError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Node(node, error) => write!(out, "node {node}: {error}"),
            Self::Task(task) => write!(out, "task {} is out of range", task.number),
            Self::Place(task) => write!(out, "task {} has no such place", task.number),
        }
    }
}

impl std::error::Error for FactsError {}

impl Index {
    /// All facts.
    pub fn facts(&self) -> Facts {
        let nodes = self.node_of.values().map(|slot| self.node(*slot));
        let mut nodes: Vec<NodeFact> = nodes
            .map(|node| NodeFact {
                node: node.id,
                offer: node.offer.clone(),
                is_gone: node.is_gone,
            })
            .collect();
        nodes.sort_unstable_by_key(|fact| fact.node);
        let tasks = self.tasks.iter().map(|(number, task)| TaskFact {
            task: TaskId { number },
            spec: TaskSpec { data: task.data, ..self.kinds[task.kind as usize].spec.clone() },
            at: task.at.map(|at| (self.node(at.slot).id, at.slice())),
        });
        let tasks = tasks.collect();
        let blocked = self.blocked.iter().map(|kind| self.kinds[*kind as usize].spec.clone());
        let mut blocked: Vec<TaskSpec> = blocked.collect();
        blocked.sort_unstable();
        let usage = UsageFact {
            counts: Counts(self.usage.counts.clone()),
            since: self.usage.since,
            made_of: Counts(self.usage.made_of.clone()),
            made_for: Counts(self.usage.made_for.clone()),
        };
        Facts { nodes, tasks, blocked, usage }
    }

    /// The index of these facts.
    pub fn rebuild(facts: Facts) -> Result<Self, FactsError> {
        let mut index = Self::new();
        let UsageFact { counts, since, made_of, made_for } = facts.usage;
        let seen = counts.0.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
        index.usage =
            Usage { counts: counts.0, seen, since, made_of: made_of.0, made_for: made_for.0 };
        if !index.usage.made_of.is_empty() || !index.usage.made_for.is_empty() {
            index.renew_mix();
        }
        let mut gone = Vec::new();
        for fact in facts.nodes {
            let refused = |error| FactsError::Node(fact.node, error);
            index.join(fact.node, fact.offer).map_err(refused)?;
            if fact.is_gone {
                gone.push(fact.node);
            }
        }
        for fact in facts.tasks {
            index.restore_fact(fact)?;
        }
        for node in gone {
            let refused = |error| FactsError::Node(node, error);
            let slot = index.slot(&node).map_err(refused)?;
            index.set_gone(slot, true);
        }
        for spec in facts.blocked {
            let kind = index.kind(spec);
            index.update(kind);
            index.block(kind);
        }
        let mark = index.begin();
        index.journal.forget_before(mark);
        Ok(index)
    }

    fn restore_fact(&mut self, fact: TaskFact) -> Result<(), FactsError> {
        let TaskFact { task, spec, at } = fact;
        if self.tasks.get(task.number).is_some() || spec.check().is_err() {
            return Err(FactsError::Task(task));
        }
        let data = spec.data;
        let kind = self.kind(spec);
        let new = Task { kind, data, at: None };
        match at {
            None => self.set_task(task.number, Some(new)),
            Some((node, slice)) => {
                if !self.restore(task.number, new, &node, slice) {
                    return Err(FactsError::Place(task));
                }
            }
        }
        Ok(())
    }

    /// The slot of a node, whether or not it is gone.
    pub(super) fn slot_of_any(&self, id: &NodeId) -> Result<u32, EventError> {
        let slot = self.node_of.get(&key_of(id)).copied();
        slot.filter(|slot| self.node(*slot).id == *id).ok_or(EventError::NodeUnknown)
    }
}

/// The most entries of a count: no more than tasks are remembered.
const COUNTS_MAX: usize = 1 << 17;

impl<K: Encode> Encode for Counts<K> {
    fn encode(&self, out: &mut Vec<u8>) {
        tg_types::codec::encode_length(self.0.len(), out);
        for (key, count) in &self.0 {
            key.encode(out);
            count.encode(out);
        }
    }
}

impl<K: Decode + Ord> Decode for Counts<K> {
    const BYTES_MIN: usize = 1;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.length(0, COUNTS_MAX)?;
        let mut counts = BTreeMap::new();
        for _ in 0..count {
            let (key, value) = (K::decode(reader)?, u64::decode(reader)?);
            let is_next = counts.last_key_value().is_none_or(|(last, _)| *last < key);
            if !is_next {
                let at = reader.position();
                return Err(DecodeError::Order { at, expected: "kinds" });
            }
            counts.insert(key, value);
        }
        Ok(Self(counts))
    }
}

impl Encode for Demand {
    fn encode(&self, out: &mut Vec<u8>) {
        let (count, milli) = match self.gpus {
            Gpus::None => (0, 0),
            Gpus::Share(milli) => (1, milli),
            Gpus::Whole(count) => (count, crate::packing::GPU_MILLI),
        };
        count.encode(out);
        milli.encode(out);
        self.models.encode(out);
        self.cpu_milli.encode(out);
        self.memory_mib.encode(out);
    }
}

impl Decode for Demand {
    const BYTES_MIN: usize = 43;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (count, milli) = (u8::decode(reader)?, u16::decode(reader)?);
        let gpus = Gpus::new(count, milli);
        let is_canonical = match gpus {
            Gpus::None => (count, milli) == (0, 0),
            Gpus::Share(_) => true,
            Gpus::Whole(_) => milli == crate::packing::GPU_MILLI,
        };
        if !is_canonical {
            let at = reader.position();
            return Err(DecodeError::Range { at, expected: "number of GPUs" });
        }
        let models = Models::decode(reader)?;
        let (cpu_milli, memory_mib) = (u32::decode(reader)?, u32::decode(reader)?);
        Ok(Self { gpus, models, cpu_milli, memory_mib })
    }
}

impl Encode for Shape {
    fn encode(&self, out: &mut Vec<u8>) {
        self.model.encode(out);
        self.gpus.encode(out);
        self.cpu_milli.encode(out);
        self.memory_mib.encode(out);
    }
}

impl Decode for Shape {
    const BYTES_MIN: usize = 10;

    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (model, gpus) = (u8::decode(reader)?, u8::decode(reader)?);
        let (cpu_milli, memory_mib) = (u32::decode(reader)?, u32::decode(reader)?);
        Ok(Self { model, gpus, cpu_milli, memory_mib })
    }
}
