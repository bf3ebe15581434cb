//! Places for tasks in a large fleet: events in, decisions out, a little work for each.
//!
//! The facts are few (what nodes offer, what tasks need and where they run, which kinds of tasks
//! were found to have no place, what usually comes) and belong to the ledger. All else here is
//! derived from them: dropped and made anew, it decides the same. Whatever happens can be undone
//! back to a mark, since blocks are executed before they are final.
//!
//! Nodes with equal hardware in the same state share a cell, and a group if they are alike in all
//! else. A kind of task ranks cells once; the best place is found by walking down that ranking
//! until nothing better can come. It is exactly the best place by the score, and ties are drawn by
//! hashes of contents: neither names nor the order in which nodes came matter.

mod cell;
mod choose;
mod class;
mod entries;
mod facts;
mod hash;
mod journal;
mod keys;
mod nodes;
mod pages;
mod ranked;
mod sorted;
mod tasks;
#[cfg(test)]
mod tests;
mod usage;

pub(crate) use choose::STALLS_MAX;
pub use class::{Score, ScorePart};
pub use entries::{Facts, FactsError, NodeFact, TaskFact, UsageFact};
pub use facts::{
    Decision, Event, EventError, Limits, NOWHERE, NodeOffer, Purpose, Refusal, Slice, TaskId,
    TaskSpec, Wait,
};
pub use journal::Mark;
pub use keys::{KEYS_MAX, Keys};

use crate::catalogue::Catalogue;
use crate::packing::{Demand, Mix, Shape};
use cell::{Cell, Room, Top};
use choose::Claim;
use class::{Build, Hardware};
use journal::{Journal, Undo};
use nodes::Node;
use pages::Pages;
use ranked::Ranked;
use std::collections::{BTreeMap, BTreeSet};
use tasks::{Kind, Task};
use usage::Usage;

/// The most tasks that wait: a bound on memory, far above what a network works off in a day.
pub const QUEUE_MAX: usize = 1 << 23;
/// In so many ways may tasks that are tried in one block differ in what they take: each may make
/// all builds rate all their cells, so this and not the number of decisions bounds the slowest
/// block. Usual tasks differ in far fewer ways.
pub const CLAIMS_MAX: usize = 256;
/// States and kinds of tasks are forgotten when there are so many that nobody needs any more.
const GARBAGE_MAX: usize = 1 << 16;

/// All that is derived from the facts, with the facts themselves.
#[derive(Debug)]
pub struct Index {
    catalogue: Catalogue,
    builds: Vec<Build>,
    build_of: BTreeMap<Hardware, u32>,
    rankings: choose::Rankings,
    rooms: Vec<Room>,
    cells: Vec<Cell>,
    tops: Vec<Top>,
    groups: Vec<Ranked>,
    groups_unused: Vec<u32>,
    nodes: Vec<Option<Box<Node>>>,
    nodes_unused: Vec<u32>,
    /// By the key of the id.
    node_of: BTreeMap<u64, u32>,
    /// Who keeps a model or data.
    holders: BTreeMap<u64, BTreeMap<u64, u32>>,
    /// Nodes that have left with tasks that are not queued again yet, by key.
    gone: BTreeMap<u64, u32>,
    fleet: BTreeMap<Shape, u64>,
    tasks: Pages<Task>,
    kinds: Vec<Kind>,
    kind_of: BTreeMap<TaskSpec, u32>,
    /// What was asked for last without being kept.
    passing: Option<Kind>,
    /// Kinds to be tried, by the first task that waits.
    ready: BTreeSet<(u64, u32)>,
    /// Kinds that were found to have no place, and have tasks.
    blocked: BTreeSet<u32>,
    waiting: usize,
    usage: Usage,
    mix: Mix,
    /// How often there was another mix.
    epoch: u64,
    /// How often anything has changed by which places are bounded: mix, states or classes.
    changes: u64,
    /// How often it had when it last changed for a build.
    changed: Vec<u64>,
    journal: Journal,
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// No nodes, no tasks.
    pub fn new() -> Self {
        Self {
            catalogue: Catalogue::builtin(),
            builds: Vec::new(),
            build_of: BTreeMap::new(),
            rankings: choose::Rankings::default(),
            rooms: Vec::new(),
            cells: Vec::new(),
            tops: Vec::new(),
            groups: Vec::new(),
            groups_unused: Vec::new(),
            nodes: Vec::new(),
            nodes_unused: Vec::new(),
            node_of: BTreeMap::new(),
            holders: BTreeMap::new(),
            gone: BTreeMap::new(),
            fleet: BTreeMap::new(),
            tasks: Pages::default(),
            kinds: Vec::new(),
            kind_of: BTreeMap::new(),
            passing: None,
            ready: BTreeSet::new(),
            blocked: BTreeSet::new(),
            waiting: 0,
            usage: Usage::default(),
            mix: Mix::default(),
            epoch: 0,
            changes: 0,
            changed: Vec::new(),
            journal: Journal::default(),
        }
    }

    /// Takes note of what happened. Nothing is placed before [`Index::tick`].
    pub fn apply(&mut self, event: Event) -> Result<(), EventError> {
        match event {
            Event::NodeJoined { node, offer } => self.join(node, *offer),
            Event::NodeChanged { node, offer } => self.change(node, *offer),
            Event::NodeLeft { node } => self.depart(node),
            Event::TaskQueued { task, spec } => self.queue(task, *spec),
            Event::TaskFinished { task } => self.finish(task),
            Event::TaskFailed { task, owner } => self.fail(task, owner),
            Event::TaskAdjusted { task, spec } => self.adjust(task, *spec),
        }
    }

    /// The end of a block: what there is to decide, within the limits and [`CLAIMS_MAX`]. What is
    /// left over goes on in the next.
    pub fn tick(&mut self, limits: Limits) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for _ in 0..limits.requeues {
            let Some(decision) = self.requeue() else { break };
            decisions.push(decision);
        }
        let mut claims = BTreeSet::new();
        for _ in 0..limits.decisions {
            let Some((_, kind)) = self.ready.first() else { break };
            claims.insert(Claim::of(&self.kinds[*kind as usize].spec));
            if claims.len() > CLAIMS_MAX {
                break;
            }
            decisions.extend(self.decide());
        }
        decisions
    }

    /// Decides about one task, the one that has waited longest among those that may have a place.
    pub fn decide(&mut self) -> Option<Decision> {
        let (number, kind) = *self.ready.first()?;
        let task = TaskId { number };
        let waiting = *self.tasks.get(number).expect("a task that is listed is there");
        match self.choose(number, waiting) {
            Some(found) => {
                let (node, slice) = self.place(number, waiting, found);
                Some(Decision::Place { task, node, slice })
            }
            None => {
                let reason = self.found_reason(kind);
                self.block(kind);
                Some(Decision::Queue { task, reason })
            }
        }
    }

    /// How many tasks wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many nodes there are, those included that are gone but have tasks still.
    pub fn nodes(&self) -> usize {
        self.node_of.len()
    }

    /// How many groups of equal nodes in the same state there are, and states that are known.
    pub fn groups(&self) -> (usize, usize) {
        (self.groups.len() - self.groups_unused.len(), self.cells.len())
    }

    /// A mark to which everything after it can be undone.
    pub fn begin(&self) -> Mark {
        self.journal.mark()
    }

    /// Undoes what happened since a mark.
    pub fn rollback(&mut self, mark: Mark) {
        while let Some(undo) = self.journal.pop_after(mark) {
            self.undo(undo);
        }
        // What is blocked may have changed: looking once too often costs little.
        self.builds.iter_mut().for_each(|build| build.has_blocked = true);
    }

    /// What happened before a mark stays.
    pub fn commit(&mut self, mark: Mark) {
        self.journal.forget_before(mark);
        let live = self.groups.len() + self.blocked.len() + self.ready.len();
        let is_full = |count: usize| count > GARBAGE_MAX + 4 * live;
        if self.journal.is_empty() && (is_full(self.cells.len()) || is_full(self.kinds.len())) {
            *self = Self::rebuild(self.facts()).expect("own facts are sound");
        }
    }

    /// How many kinds of tasks are kept.
    #[cfg(test)]
    pub(crate) fn kinds_kept(&self) -> usize {
        self.kinds.len() + self.kind_of.len()
    }

    /// All that happened stays.
    pub(crate) fn settle(&mut self) {
        self.journal.forget_before(self.journal.mark());
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Joined(slot) => drop(self.remove_node(slot)),
            Undo::Removed(slot, node) => self.insert_node(slot, node),
            Undo::Left(slot, left) => self.set_left(slot, left),
            Undo::Offered(slot, offer) => self.set_offer(slot, *offer),
            Undo::Gone(slot) => self.set_gone(slot, false),
            Undo::Task(number, task) => self.set_task(number, task),
            Undo::Blocked(kind, is_blocked) => self.set_blocked(kind, is_blocked),
            Undo::Counted(demand) => self.usage.uncount(demand),
            Undo::Usage(usage) => {
                let is_same =
                    self.usage.made_of == usage.made_of && self.usage.made_for == usage.made_for;
                self.usage = *usage;
                if !is_same {
                    self.renew_mix();
                }
            }
        }
    }

    /// What usually comes, as far as that is known elsewhere: the mix is made of it, for the nodes
    /// that there are now.
    pub(crate) fn set_usual(&mut self, counts: BTreeMap<Demand, u64>) {
        self.usage.made_of = counts;
        self.usage.made_for.clone_from(&self.fleet);
        self.renew_mix();
    }

    fn renew_mix(&mut self) {
        self.mix = self.usage.mix();
        self.epoch += 1;
        self.changes += 1;
        self.changed.fill(self.changes);
    }
}
