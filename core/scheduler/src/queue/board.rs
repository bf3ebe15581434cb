//! Machines, what is free of them, and who holds the rest.
//!
//! A gang is placed whole or not at all: on one machine if it fits on one, else on whole machines
//! and at most one part of another. Room is made by taking from the least urgent first, and only if
//! that gives the whole room. The policies of the literature are measured on the same board.

use super::kept::Kept;
use std::collections::{BTreeMap, BTreeSet};

/// Machines tried for one job that may not go everywhere.
const TRIES_MAX: usize = 64;

/// Devices of one machine, held by one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The machine.
    pub node: u32,
    /// How many of its devices.
    pub width: u16,
}

/// A machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    pool: u16,
    size: u16,
    free: u16,
    doubt: u8,
}

/// What is known of a pool: machines of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Devices of the largest machine.
    pub node_size: u16,
    /// Devices of all machines.
    pub devices: u32,
    /// Devices that nobody holds.
    pub free: u32,
}

/// Somebody who could be made to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Small ones are more urgent.
    pub key: i64,
    /// The job.
    pub job: u64,
}

/// What is to be done so that a job can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Where it starts.
    pub parts: Vec<Part>,
    /// Who has to go.
    pub victims: Vec<u64>,
}

/// Machines and who holds them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Board {
    nodes: Kept<u32, Node>,
    /// Pool, free devices, doubt, machine.
    free: Kept<(u16, u16, u8, u32), ()>,
    held: Kept<u64, Vec<Part>>,
    on: Kept<(u32, u64), u16>,
    pools: Kept<u16, Pool>,
}

impl Board {
    /// A machine joins a pool. Returns whether it is new.
    pub fn join(&mut self, node: u32, pool: u16, size: u16) -> bool {
        if self.nodes.get(&node).is_some() || size == 0 {
            return false;
        }
        self.nodes.insert(node, Node { pool, size, free: size, doubt: 0 });
        self.free.insert((pool, size, 0, node), ());
        let mut facts = self.pool(pool);
        facts.node_size = facts.node_size.max(size);
        facts.devices += u32::from(size);
        facts.free += u32::from(size);
        self.pools.insert(pool, facts);
        true
    }

    /// A machine leaves. Whoever holds some of it must have been made to go before.
    pub fn leave(&mut self, node: u32) {
        let Some(old) = self.nodes.remove(&node) else { return };
        self.free.remove(&(old.pool, old.free, old.doubt, node));
        self.pools.change(&old.pool, |facts| {
            facts.devices -= u32::from(old.size);
            facts.free -= u32::from(old.free);
        });
    }

    /// What is known of a pool.
    pub fn pool(&self, pool: u16) -> Pool {
        self.pools.get(&pool).copied().unwrap_or_default()
    }

    /// All pools.
    pub fn pools(&self) -> Vec<u16> {
        self.pools.iter().map(|(pool, _)| *pool).collect()
    }

    /// Pool and size of a machine.
    pub(crate) fn node(&self, node: u32) -> Option<(u16, u16)> {
        self.nodes.get(&node).map(|node| (node.pool, node.size))
    }

    /// Machines of a pool.
    pub(crate) fn nodes(&self, pool: u16) -> impl Iterator<Item = u32> {
        let all = self.free.range((pool, 0, 0, 0)..=(pool, u16::MAX, u8::MAX, u32::MAX));
        all.map(|((_, _, _, node), ())| *node)
    }

    /// Some machines of a pool with their sizes, from a number on and then from the first.
    pub(crate) fn some_nodes(&self, pool: u16, from: u32, count: usize) -> Vec<(u32, u16)> {
        let last = self.nodes.iter().next_back().map_or(0, |(node, _)| *node);
        let from = from % last.saturating_add(1).max(1);
        let all = self.nodes.range(from..).chain(self.nodes.range(..from));
        let ours = all.filter(|(_, node)| node.pool == pool);
        ours.map(|(number, node)| (*number, node.size)).take(count).collect()
    }

    /// Who holds some of a machine.
    pub(crate) fn jobs_on(&self, node: u32) -> Vec<u64> {
        let held = self.on.range((node, 0)..=(node, u64::MAX));
        held.map(|((_, job), _)| *job).collect()
    }

    /// What a job holds.
    pub fn held(&self, job: u64) -> Option<&[Part]> {
        self.held.get(&job).map(Vec::as_slice)
    }

    /// How many devices of a machine nobody holds.
    pub(crate) fn free_on(&self, node: u32) -> u16 {
        self.nodes.get(&node).map_or(0, |node| node.free)
    }

    /// Machines that fail more are chosen later.
    pub(crate) fn doubt(&mut self, node: u32, doubt: u8) {
        let Some(mut facts) = self.nodes.get(&node).copied() else { return };
        if facts.doubt != doubt {
            self.free.remove(&(facts.pool, facts.free, facts.doubt, node));
            facts.doubt = doubt;
            self.free.insert((facts.pool, facts.free, facts.doubt, node), ());
            self.nodes.insert(node, facts);
        }
    }

    /// Gives devices to a job. They must be free.
    pub fn take(&mut self, job: u64, parts: Vec<Part>) {
        for part in &parts {
            self.shift(part.node, |free| free - part.width);
            self.on.insert((part.node, job), part.width);
        }
        self.held.insert(job, parts);
    }

    /// Takes them back.
    pub fn give(&mut self, job: u64) -> Option<Vec<Part>> {
        let parts = self.held.remove(&job)?;
        for part in &parts {
            self.shift(part.node, |free| free + part.width);
            self.on.remove(&(part.node, job));
        }
        Some(parts)
    }

    fn shift(&mut self, node: u32, change: impl Fn(u16) -> u16) {
        let Some(mut facts) = self.nodes.get(&node).copied() else { return };
        self.free.remove(&(facts.pool, facts.free, facts.doubt, node));
        let free = change(facts.free);
        self.pools.change(&facts.pool, |pool| {
            pool.free = pool.free + u32::from(free) - u32::from(facts.free);
        });
        facts.free = free;
        self.free.insert((facts.pool, facts.free, facts.doubt, node), ());
        self.nodes.insert(node, facts);
    }

    /// Free room for a gang: the least that fits, then the least doubted machine.
    pub fn room(&self, pool: u16, width: u16, may: impl Fn(Part) -> bool) -> Option<Vec<Part>> {
        let size = self.pool(pool).node_size.max(1);
        let mut parts: Vec<Part> = Vec::new();
        let wholes = if width <= size { 0 } else { width / size };
        let rest = width - wholes * size;
        let from = |least: u16| {
            let last = (pool, u16::MAX, u8::MAX, u32::MAX);
            let fitting = self.free.range((pool, least, 0, 0)..=last).map(|((.., node), ())| *node);
            fitting.map(move |node| Part { node, width: least })
        };
        if wholes > 0 {
            let able = from(size).take(TRIES_MAX + usize::from(wholes)).filter(|part| may(*part));
            parts.extend(able.take(usize::from(wholes)));
            if parts.len() < usize::from(wholes) {
                return None;
            }
        }
        if rest > 0 {
            let taken: Vec<u32> = parts.iter().map(|part| part.node).collect();
            let mut others = from(rest).filter(|part| !taken.contains(&part.node));
            parts.push(others.by_ref().take(TRIES_MAX).find(|part| may(*part))?);
        }
        (!parts.is_empty()).then_some(parts)
    }

    /// Room for a gang of which others are made to go: the least urgent first, and only those less
    /// urgent than the key. `holders` are sorted, the least urgent last.
    pub fn clear(
        &self,
        pool: u16,
        wanted: (u16, i64),
        holders: &[Holder],
        may: impl Fn(Part) -> bool,
    ) -> Option<Opening> {
        let (width, key) = wanted;
        let size = self.pool(pool).node_size.max(1);
        let wholes = if width <= size { 0 } else { width / size };
        let rest = width - wholes * size;
        let mut search = Search {
            board: self,
            size,
            wholes,
            rest,
            cleared: BTreeMap::new(),
            ready: BTreeSet::new(),
        };
        if wholes > 0 {
            let last = (pool, u16::MAX, u8::MAX, u32::MAX);
            let free = self.free.range((pool, size, 0, 0)..=last).map(|((.., node), ())| *node);
            search.ready.extend(free.take(usize::from(wholes)));
        }
        for (count, holder) in holders.iter().rev().enumerate() {
            if holder.key <= key {
                break;
            }
            for part in self.held(holder.job).unwrap_or_default() {
                search.add(*part);
                if let Some(parts) = search.found(part.node, pool, &may) {
                    let gone = &holders[holders.len() - 1 - count..];
                    return Some(self.opening(parts, gone));
                }
            }
        }
        None
    }

    /// Who of these has to go for these parts; the least urgent last.
    pub(crate) fn opening(&self, parts: Vec<Part>, holders: &[Holder]) -> Opening {
        let mut gained: BTreeMap<u32, u16> = BTreeMap::new();
        let lacks = |gained: &BTreeMap<u32, u16>, part: &Part| {
            self.free_on(part.node) + gained.get(&part.node).copied().unwrap_or(0) < part.width
        };
        let mut victims = Vec::new();
        for holder in holders.iter().rev() {
            let held = self.held(holder.job).unwrap_or_default();
            let on = |part: &&Part| held.iter().any(|held| held.node == part.node);
            if parts.iter().filter(on).any(|part| lacks(&gained, part)) {
                victims.push(holder.job);
                for part in held {
                    *gained.entry(part.node).or_default() += part.width;
                }
            }
        }
        Opening { parts, victims }
    }

    /// Where the logs stand.
    pub(crate) fn mark(&self) -> [usize; 5] {
        let Self { nodes, free, held, on, pools } = self;
        [nodes.mark(), free.mark(), held.mark(), on.mark(), pools.mark()]
    }

    /// Back to a mark.
    pub(crate) fn undo(&mut self, [nodes, free, held, on, pools]: [usize; 5]) {
        self.nodes.undo(nodes);
        self.free.undo(free);
        self.held.undo(held);
        self.on.undo(on);
        self.pools.undo(pools);
    }

    /// Nothing before now is undone.
    pub fn settle(&mut self) {
        self.nodes.settle();
        self.free.settle();
        self.held.settle();
        self.on.settle();
        self.pools.settle();
    }
}

/// Room that is being made.
struct Search<'a> {
    board: &'a Board,
    size: u16,
    wholes: u16,
    rest: u16,
    /// What of a machine would be free beside what is.
    cleared: BTreeMap<u32, u16>,
    /// Machines that would be free as a whole.
    ready: BTreeSet<u32>,
}

impl Search<'_> {
    fn add(&mut self, part: Part) {
        let cleared = self.cleared.entry(part.node).or_default();
        *cleared += part.width;
        if self.wholes > 0 && self.board.free_on(part.node) + *cleared >= self.size {
            self.ready.insert(part.node);
        }
    }

    /// The room, if what was just cleared on a machine completes it.
    fn found(&self, node: u32, pool: u16, may: &impl Fn(Part) -> bool) -> Option<Vec<Part>> {
        let able = |node: u32, width: u16| {
            let cleared = self.cleared.get(&node).copied().unwrap_or(0);
            let part = Part { node, width };
            (self.board.free_on(node) + cleared >= width && may(part)).then_some(part)
        };
        if self.wholes == 0 {
            return able(node, self.rest).map(|part| vec![part]);
        }
        let wholes = usize::from(self.wholes);
        if self.ready.len() < wholes {
            return None;
        }
        let whole = self.ready.iter().filter_map(|node| able(*node, self.size));
        let mut parts: Vec<Part> = whole.take(wholes).collect();
        if parts.len() < wholes {
            return None;
        }
        if self.rest > 0 {
            let taken: Vec<u32> = parts.iter().map(|part| part.node).collect();
            let free = (pool, self.rest, 0, 0)..=(pool, u16::MAX, u8::MAX, u32::MAX);
            let free = self.board.free.range(free).map(|((.., node), ())| *node);
            let mut others = self.cleared.keys().copied().chain(free.take(TRIES_MAX));
            let other = others.find_map(|node| {
                able(node, self.rest).filter(|part| !taken.contains(&part.node))
            })?;
            parts.push(other);
        }
        Some(parts)
    }
}
