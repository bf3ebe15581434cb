//! Nodes come, change and go.

use super::cell::{Cell, CellKey, Left, Room, Standing, Top};
use super::class::{Build, Hardware, Traits};
use super::facts::{Decision, EventError, NodeOffer, TaskId, TaskSpec};
use super::journal::Undo;
use super::ranked::Member;
use super::{Index, tasks};
use crate::packing::GPUS_MAX;
use crate::sharing::Gpu;
use tg_types::NodeId;

/// A node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) key: u64,
    pub(super) offer: NodeOffer,
    pub(super) build: u32,
    /// How its class and its group stand in its cell: what it takes to leave and to enter one.
    standing: Standing,
    pub(super) left: Left,
    cell: u32,
    /// The tasks that run on it, in order.
    pub(super) tasks: Vec<u64>,
    pub(super) is_gone: bool,
}

impl Node {
    /// The cell and class it is in; `None` if it takes no tasks.
    pub(super) fn standing(&self) -> Option<(u32, u32)> {
        self.is_grouped().then_some((self.cell, self.standing.class))
    }

    const fn is_grouped(&self) -> bool {
        self.standing.group != Standing::NO_GROUP
    }
}

/// A node's key: ids are public keys, so the first bytes are as good as a hash.
pub(super) fn key_of(id: &NodeId) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *id.as_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

impl Index {
    pub(super) fn slot(&self, id: &NodeId) -> Result<u32, EventError> {
        let slot = self.node_of.get(&key_of(id)).copied().ok_or(EventError::NodeUnknown)?;
        let is_it = self.node(slot).id == *id && !self.node(slot).is_gone;
        if is_it { Ok(slot) } else { Err(EventError::NodeUnknown) }
    }

    pub(super) fn node(&self, slot: u32) -> &Node {
        self.nodes[slot as usize].as_deref().expect("a node that is referred to is there")
    }

    pub(super) fn node_mut(&mut self, slot: u32) -> &mut Node {
        self.nodes[slot as usize].as_deref_mut().expect("a node that is referred to is there")
    }

    fn is_acceptable(&self, offer: &NodeOffer) -> bool {
        offer.is_valid() && self.catalogue.is_plausible(offer.model, offer.memory_mib)
    }

    pub(super) fn join(&mut self, id: NodeId, offer: NodeOffer) -> Result<(), EventError> {
        let key = key_of(&id);
        if self.node_of.contains_key(&key) {
            return Err(EventError::NodeKnown);
        }
        if !self.is_acceptable(&offer) {
            return Err(EventError::Offer);
        }
        let build = self.build(Hardware::of(&offer));
        let left = Left::free(&self.builds[build as usize]);
        let slot = self.nodes_unused.last().copied();
        let slot = slot.unwrap_or_else(|| u32::try_from(self.nodes.len()).expect("few nodes"));
        let (standing, cell) = (Standing::unlisted(Traits::of(&offer)), 0);
        let (tasks, is_gone) = (Vec::new(), false);
        let node = Node { id, key, offer, build, standing, left, cell, tasks, is_gone };
        self.journal.push(Undo::Joined(slot));
        self.insert_node(slot, Box::new(node));
        self.unblock(build);
        Ok(())
    }

    /// Puts a node where there is none.
    pub(super) fn insert_node(&mut self, slot: u32, node: Box<Node>) {
        if self.nodes_unused.last() == Some(&slot) {
            self.nodes_unused.pop();
        } else {
            self.nodes.push(None);
        }
        self.node_of.insert(node.key, slot);
        if node.is_gone {
            self.gone.insert(node.key, slot);
        }
        self.nodes[slot as usize] = Some(node);
        self.enlist(slot);
    }

    /// Takes a node away.
    pub(super) fn remove_node(&mut self, slot: u32) -> Box<Node> {
        self.delist(slot);
        let node = self.nodes[slot as usize].take().expect("a node that is removed is there");
        self.node_of.remove(&node.key);
        self.gone.remove(&node.key);
        self.nodes_unused.push(slot);
        node
    }

    pub(super) fn change(&mut self, id: NodeId, offer: NodeOffer) -> Result<(), EventError> {
        let slot = self.slot(&id)?;
        if !self.is_acceptable(&offer) {
            return Err(EventError::Offer);
        }
        let node = self.node(slot);
        if Hardware::of(&offer) != Hardware::of(&node.offer) {
            if !node.tasks.is_empty() {
                return Err(EventError::NodeBusy);
            }
            let node = self.remove_node(slot);
            self.journal.push(Undo::Removed(slot, node));
            return self.join(id, offer);
        }
        self.journal.push(Undo::Offered(slot, Box::new(node.offer.clone())));
        self.set_offer(slot, offer);
        self.unblock(self.node(slot).build);
        Ok(())
    }

    /// Another offer of the same hardware.
    pub(super) fn set_offer(&mut self, slot: u32, offer: NodeOffer) {
        self.delist(slot);
        self.node_mut(slot).offer = offer;
        self.enlist(slot);
    }

    pub(super) fn depart(&mut self, id: NodeId) -> Result<(), EventError> {
        let slot = self.slot(&id)?;
        if self.node(slot).tasks.is_empty() {
            let node = self.remove_node(slot);
            self.journal.push(Undo::Removed(slot, node));
        } else {
            self.journal.push(Undo::Gone(slot));
            self.set_gone(slot, true);
        }
        Ok(())
    }

    pub(super) fn set_gone(&mut self, slot: u32, is_gone: bool) {
        self.delist(slot);
        let node = self.node_mut(slot);
        node.is_gone = is_gone;
        let key = node.key;
        if is_gone {
            self.gone.insert(key, slot);
        } else {
            self.gone.remove(&key);
        }
        self.enlist(slot);
    }

    /// Queues one task again whose node is gone.
    pub(super) fn requeue(&mut self) -> Option<Decision> {
        let slot = *self.gone.values().next()?;
        let node = self.node(slot);
        let (id, number) = (node.id, *node.tasks.first()?);
        let task = *self.tasks.get(number)?;
        self.release(number, task, Some(super::Task { at: None, ..task }));
        self.drop_gone(slot);
        Some(Decision::Requeue { task: TaskId { number }, node: id })
    }

    /// Removes a node that is gone when its last task is.
    pub(super) fn drop_gone(&mut self, slot: u32) {
        if self.node(slot).is_gone && self.node(slot).tasks.is_empty() {
            let node = self.remove_node(slot);
            self.journal.push(Undo::Removed(slot, node));
        }
    }

    /// Takes over what is left of a node's devices, for whoever keeps tasks elsewhere. Says whether
    /// that was new.
    pub(crate) fn occupy(&mut self, id: &NodeId, gpus: [Gpu; GPUS_MAX]) -> bool {
        let Ok(slot) = self.slot(id) else { return false };
        let before = self.node(slot).left;
        let left = Left { gpus, ..before };
        if left == before {
            return false;
        }
        self.journal.push(Undo::Left(slot, before));
        self.set_left(slot, left);
        true
    }

    /// What is left of a node is worth so much to a task; `None` if there is no room for it.
    pub(crate) fn worth_of_left(&self, id: &NodeId, spec: &TaskSpec) -> Option<i16> {
        let node = self.node(self.slot(id).ok()?);
        let build = &self.builds[node.build as usize];
        let want = build.want(spec);
        node.left.fits(&want, build).then_some(())?;
        CellKey::of(build, &node.left).rate(build, &self.mix, &want.coarse())
    }

    pub(super) fn set_left(&mut self, slot: u32, left: Left) {
        self.ungroup(slot);
        self.node_mut(slot).left = left;
        self.group(slot);
    }

    /// The number of a build, new or known. A new one may serve tasks that had no place.
    pub(super) fn build(&mut self, hardware: Hardware) -> u32 {
        if let Some(build) = self.build_of.get(&hardware) {
            return *build;
        }
        let build = u32::try_from(self.builds.len()).expect("few builds");
        self.builds.push(Build::new(hardware, &self.catalogue));
        self.rooms.push(Room::default());
        self.changed.push(self.changes);
        self.build_of.insert(hardware, build);
        build
    }

    /// Adds a node to all that is counted and grouped.
    fn enlist(&mut self, slot: u32) {
        let node = self.nodes[slot as usize].as_deref_mut().expect("it was just put there");
        let build = &mut self.builds[node.build as usize];
        let reach = build.reach;
        let class = build.class(Traits::of(&node.offer));
        node.standing = Standing::new(build, class);
        if build.reach != reach {
            self.changes += 1;
            self.changed[node.build as usize] = self.changes;
        }
        if !node.is_gone {
            build.count(class, true);
            *self.fleet.entry(build.hardware.shape()).or_default() += 1;
            for data in node.offer.cached.as_slice() {
                self.holders.entry(*data).or_default().insert(node.key, slot);
            }
        }
        self.group(slot);
    }

    /// Takes it out again.
    fn delist(&mut self, slot: u32) {
        self.ungroup(slot);
        let node = self.nodes[slot as usize].as_deref().expect("it is there");
        if node.is_gone {
            return;
        }
        let build = &mut self.builds[node.build as usize];
        build.count(node.standing.class, false);
        let shape = build.hardware.shape();
        if let Some(count) = self.fleet.get_mut(&shape) {
            *count -= 1;
            if *count == 0 {
                self.fleet.remove(&shape);
            }
        }
        for data in node.offer.cached.as_slice() {
            if let Some(holders) = self.holders.get_mut(data) {
                holders.remove(&node.key);
                if holders.is_empty() {
                    self.holders.remove(data);
                }
            }
        }
    }

    /// Puts a node that takes tasks into the group of its state.
    fn group(&mut self, slot: u32) {
        let node = self.nodes[slot as usize].as_deref_mut().expect("it is there");
        if node.is_gone || !node.offer.is_open {
            return;
        }
        let build = &mut self.builds[node.build as usize];
        let key = CellKey::of(build, &node.left);
        let cell = match build.cell_of.get(&key) {
            Some(cell) => *cell,
            None => {
                let cell = u32::try_from(self.cells.len()).expect("few cells");
                let place = u32::try_from(build.cells.len()).expect("few cells");
                self.cells.push(Cell::new(key, key.hash(build.hash), place));
                self.tops.push(Top::NONE);
                build.cell_of.insert(key, cell);
                build.cells.push(cell);
                self.changes += 1;
                self.changed[node.build as usize] = self.changes;
                cell
            }
        };
        let found = &mut self.cells[cell as usize];
        if found.groups.is_empty() {
            self.rooms[node.build as usize].count(&key, true);
        }
        let (groups, unused) = (&mut self.groups, &mut self.groups_unused);
        let new_group = || {
            unused.pop().unwrap_or_else(|| {
                groups.push(super::Ranked::default());
                u32::try_from(groups.len() - 1).expect("few groups")
            })
        };
        let group = found.group_of(&node.standing, &mut self.tops[cell as usize], new_group);
        (node.cell, node.standing.group) = (cell, group);
        self.groups[group as usize].insert(member(node, slot));
    }

    /// Takes a node out of its group.
    fn ungroup(&mut self, slot: u32) {
        let node = self.nodes[slot as usize].as_deref_mut().expect("it is there");
        if !node.is_grouped() {
            return;
        }
        let group = &mut self.groups[node.standing.group as usize];
        group.remove(member(node, slot));
        if group.is_empty() {
            self.groups_unused.push(node.standing.group);
            let cell = &mut self.cells[node.cell as usize];
            cell.remove(&node.standing, &mut self.tops[node.cell as usize]);
            if cell.groups.is_empty() {
                self.rooms[node.build as usize].count(&cell.key, false);
            }
        }
        node.standing.group = Standing::NO_GROUP;
    }

    /// There is more room on such hardware: kinds of tasks that could run on it are tried again.
    pub(super) fn unblock(&mut self, build: u32) {
        let build = &mut self.builds[build as usize];
        if !build.has_blocked {
            return;
        }
        build.has_blocked = false;
        let hardware = build.hardware;
        let suits = |kind: &u32| {
            let kind: &tasks::Kind = &self.kinds[*kind as usize];
            hardware.suits(&kind.spec)
        };
        let kinds: Vec<u32> = self.blocked.iter().copied().filter(suits).collect();
        for kind in kinds {
            self.journal.push(Undo::Blocked(kind, true));
            self.set_blocked(kind, false);
        }
    }
}

fn member(node: &Node, slot: u32) -> Member {
    let Left { cpu_milli, ram_mib, .. } = node.left;
    Member { cpu_milli, ram_mib, key: node.key, slot }
}
