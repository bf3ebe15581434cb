//! What is needed to take back what was done.

use super::cell::Left;
use super::facts::NodeOffer;
use super::nodes::Node;
use super::tasks::Task;
use super::usage::Usage;
use crate::packing::Demand;
use std::collections::VecDeque;

/// A moment, by the number of changes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(u64);

/// How one change is taken back.
#[derive(Debug)]
pub(super) enum Undo {
    /// A node came.
    Joined(u32),
    /// A node was removed.
    Removed(u32, Box<Node>),
    /// This was left of a node.
    Left(u32, Left),
    /// A node offered this.
    Offered(u32, Box<NodeOffer>),
    /// A node left with tasks.
    Gone(u32),
    /// A task was this, or was not there.
    Task(u64, Option<Task>),
    /// Whether a kind of task was known to have no place.
    Blocked(u32, bool),
    /// A task was counted.
    Counted(Demand),
    /// More than one count changed.
    Usage(Box<Usage>),
}

/// Changes since the last one that stays for ever.
#[derive(Debug, Default)]
pub(super) struct Journal {
    undos: VecDeque<Undo>,
    /// Changes that were forgotten.
    forgotten: u64,
}

impl Journal {
    pub(super) fn mark(&self) -> Mark {
        Mark(self.forgotten + self.undos.len() as u64)
    }

    pub(super) fn push(&mut self, undo: Undo) {
        self.undos.push_back(undo);
    }

    /// The last change, if it came after the mark.
    pub(super) fn pop_after(&mut self, mark: Mark) -> Option<Undo> {
        if self.mark() <= mark { None } else { self.undos.pop_back() }
    }

    pub(super) fn forget_before(&mut self, mark: Mark) {
        let count = mark.0.saturating_sub(self.forgotten).min(self.undos.len() as u64);
        self.undos.drain(..usize::try_from(count).unwrap_or(usize::MAX));
        self.forgotten += count;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.undos.is_empty()
    }
}
