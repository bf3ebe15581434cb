//! Tasks come, run and end.

use super::cell::Left;
use super::choose::Found;
use super::class::Zones;
use super::facts::{EventError, Refusal, Slice, TaskId, TaskSpec, Wait};
use super::journal::Undo;
use super::sorted::Sorted;
use super::usage::rounded;
use super::{Index, QUEUE_MAX};
use crate::pace::Paces;
use crate::packing::{Demand, Gpus, Models};
use crate::sharing::{Gpu, Take};
use tg_types::NodeId;

/// Tasks that wait are kept in blocks of so many.
const BLOCK: usize = 64;

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) kind: u32,
    pub(super) data: u64,
    /// Where it runs; `None` while it waits.
    pub(super) at: Option<At>,
}

/// Where a task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) slot: u32,
    pub(super) take: Take,
    /// The devices, as bits.
    pub(super) devices: u16,
    pub(super) start: u8,
}

/// Tasks that need the same.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// What they need; data is left out.
    pub(super) spec: TaskSpec,
    /// Where such tasks are done soon.
    pub(super) paces: Paces,
    pub(super) zones: Zones,
    demand: Demand,
    /// The builds that suit it, as far as they were looked at.
    pub(super) offers: Vec<super::choose::OnBuild>,
    pub(super) builds_seen: usize,
    /// How much had changed when bounds were looked up for it.
    pub(super) looked: Option<u64>,
    /// A class that is admitted, by its build: as long as one of its nodes is there, tasks wait
    /// because it is busy.
    admitted: Option<(u32, u32)>,
    waiting: Sorted<u64, BLOCK>,
    is_blocked: bool,
    /// Under which task it is listed to be tried.
    listed: Option<u64>,
}

impl At {
    /// What the task has, in the words of the ledger.
    pub(super) fn slice(&self) -> Slice {
        let device = u8::try_from(self.devices.trailing_zeros()).unwrap_or(0);
        match self.take {
            Take::None => Slice::Host,
            Take::Whole(_) => Slice::Whole { devices: self.devices },
            Take::Part(profile) => Slice::Part {
                device,
                compute: profile.compute,
                memory: profile.memory,
                start: self.start,
            },
            Take::Share(steps) => Slice::Share { device, steps },
        }
    }
}

impl Index {
    pub(super) fn queue(&mut self, task: TaskId, spec: TaskSpec) -> Result<(), EventError> {
        if self.tasks.get(task.number).is_some() {
            return Err(EventError::TaskKnown);
        }
        if self.waiting >= QUEUE_MAX {
            return Err(EventError::Refused(Refusal::QueueFull));
        }
        let data = spec.data;
        let kind = self.checked_kind(spec)?;
        self.count(self.kinds[kind as usize].demand);
        self.put_task(task.number, None, Some(Task { kind, data, at: None }));
        Ok(())
    }

    /// The number of a kind of task that a node could run; one that is known was checked before.
    fn checked_kind(&mut self, mut spec: TaskSpec) -> Result<u32, EventError> {
        spec.data = 0;
        if let Some(kind) = self.kind_of.get(&spec) {
            return Ok(*kind);
        }
        spec.check().map_err(EventError::Refused)?;
        if spec.gpus > 0 && self.models(&spec) == Models::NONE {
            return Err(EventError::Refused(Refusal::Model));
        }
        Ok(self.kind(spec))
    }

    /// The models that could do it. Of those that are not listed nothing is known, so they might.
    fn models(&self, spec: &TaskSpec) -> Models {
        let listed = self.catalogue.models();
        (0..=u8::MAX).fold(Models::NONE, |found, number| {
            let suits = listed.get(usize::from(number)).is_none_or(|model| {
                self.catalogue.is_plausible(number, spec.memory_mib)
                    && model.abilities.contains(spec.abilities)
                    && spec.kind.is_none_or(|kind| kind == model.kind)
            });
            if suits && spec.models.contains(number) { found.with(number) } else { found }
        })
    }

    fn count(&mut self, demand: Demand) {
        if !self.usage.is_turn() {
            self.usage.count(demand);
            self.journal.push(Undo::Counted(demand));
            return;
        }
        self.journal.push(Undo::Usage(Box::new(self.usage.clone())));
        self.usage.count(demand);
        if self.usage.turn(&self.fleet) {
            self.renew_mix();
        }
    }

    pub(super) fn finish(&mut self, task: TaskId) -> Result<(), EventError> {
        let found = *self.tasks.get(task.number).ok_or(EventError::TaskUnknown)?;
        if let Some(at) = found.at {
            self.release(task.number, found, None);
            self.drop_gone(at.slot);
        } else {
            self.put_task(task.number, Some(found), None);
        }
        Ok(())
    }

    pub(super) fn fail(&mut self, task: TaskId, owner: u64) -> Result<(), EventError> {
        let found = *self.tasks.get(task.number).ok_or(EventError::TaskUnknown)?;
        let at = found.at.ok_or(EventError::TaskWaits)?;
        let mut spec = self.kinds[found.kind as usize].spec.clone();
        spec.excluded = spec.excluded.with(owner);
        let kind = self.kind(spec);
        self.release(task.number, found, Some(Task { kind, at: None, ..found }));
        self.drop_gone(at.slot);
        Ok(())
    }

    pub(super) fn adjust(&mut self, task: TaskId, spec: TaskSpec) -> Result<(), EventError> {
        let found = *self.tasks.get(task.number).ok_or(EventError::TaskUnknown)?;
        let data = spec.data;
        let kind = self.checked_kind(spec)?;
        let mark = self.begin();
        let adjusted = Task { kind, data, at: None };
        let Some(at) = found.at else {
            self.put_task(task.number, Some(found), Some(adjusted));
            return Ok(());
        };
        self.release(task.number, found, Some(adjusted));
        let Some(found) = self.room(kind, at.slot) else {
            self.rollback(mark);
            return Err(EventError::NoRoom);
        };
        self.place(task.number, adjusted, found);
        Ok(())
    }

    /// The number of a kind of task, new or known.
    pub(super) fn kind(&mut self, mut spec: TaskSpec) -> u32 {
        spec.data = 0;
        if let Some(kind) = self.kind_of.get(&spec) {
            return *kind;
        }
        let made = self.made_kind(spec.clone(), Paces::default());
        let kind = u32::try_from(self.kinds.len()).expect("few kinds");
        self.kind_of.insert(spec, kind);
        self.kinds.push(made);
        kind
    }

    /// A kind that is not kept yet.
    pub(super) fn made_kind(&self, spec: TaskSpec, paces: Paces) -> Kind {
        let (cpu_milli, ram_mib) = (spec.cpu_milli, spec.ram_mib);
        let gpus = match (spec.gpus, spec.share_milli) {
            (0, _) => Gpus::None,
            (count, 0) => Gpus::Whole(count),
            (_, milli) => Gpus::Share(milli),
        };
        let models = if spec.gpus > 0 { self.models(&spec) } else { Models::ANY };
        let demand = rounded(Demand { gpus, models, cpu_milli, memory_mib: ram_mib });
        Kind {
            zones: Zones::of(&spec),
            spec,
            paces,
            demand,
            offers: Vec::new(),
            builds_seen: 0,
            looked: None,
            admitted: None,
            waiting: Sorted::default(),
            is_blocked: false,
            listed: None,
        }
    }

    /// Puts a task that waits where the search has found room.
    pub(super) fn place(&mut self, number: u64, task: Task, found: Found) -> (NodeId, Slice) {
        let spec = &self.kinds[task.kind as usize].spec;
        let (cpu_milli, ram_mib) = (spec.cpu_milli, spec.ram_mib);
        let node = self.node(found.slot);
        let build = &self.builds[node.build as usize];
        let (id, mut left) = (node.id, node.left);
        let devices = left.devices(found.take, build).expect("room was found");
        left.cpu_milli = left.cpu_milli.checked_sub(cpu_milli).expect("room was found");
        left.ram_mib = left.ram_mib.checked_sub(ram_mib).expect("room was found");
        let mut start = 0;
        for (place, gpu) in left.gpus.iter_mut().enumerate() {
            if devices & 1 << place != 0 {
                (*gpu, start) = gpu.with(found.take, build.split).expect("room was found");
            }
        }
        let at = At { slot: found.slot, take: found.take, devices, start };
        self.put_left(found.slot, left);
        self.put_task(number, Some(task), Some(Task { at: Some(at), ..task }));
        (id, at.slice())
    }

    /// Gives back what a task has; it is something else then, or nothing.
    pub(super) fn release(&mut self, number: u64, task: Task, next: Option<Task>) {
        let Some(at) = task.at else { return };
        let spec = &self.kinds[task.kind as usize].spec;
        let (cpu_milli, ram_mib) = (spec.cpu_milli, spec.ram_mib);
        let node = self.node(at.slot);
        let (build, is_gone) = (node.build, node.is_gone);
        let mut left = node.left;
        left.cpu_milli += cpu_milli;
        left.ram_mib += ram_mib;
        for (place, gpu) in left.gpus.iter_mut().enumerate() {
            if at.devices & 1 << place != 0 {
                *gpu = gpu.without(at.take, at.start).expect("it was taken");
            }
        }
        self.put_left(at.slot, left);
        self.put_task(number, Some(task), next);
        if !is_gone {
            self.unblock(build);
        }
    }

    /// Sets what is left of a node, so that it can be undone.
    fn put_left(&mut self, slot: u32, left: Left) {
        self.journal.push(Undo::Left(slot, self.node(slot).left));
        self.set_left(slot, left);
    }

    /// Sets a task that was this before, so that it can be undone.
    fn put_task(&mut self, number: u64, old: Option<Task>, task: Option<Task>) {
        self.journal.push(Undo::Task(number, old));
        self.set_task(number, task);
        let Some(old) = old else { return };
        // When nobody waits any more, the next one is tried.
        let kind = &self.kinds[old.kind as usize];
        if kind.is_blocked && kind.waiting.is_empty() {
            self.journal.push(Undo::Blocked(old.kind, true));
            self.set_blocked(old.kind, false);
        }
    }

    /// Sets a task and all lists that it is in.
    pub(super) fn set_task(&mut self, number: u64, task: Option<Task>) {
        if let Some(old) = self.tasks.set(number, task) {
            match old.at {
                Some(at) => {
                    let tasks = &mut self.node_mut(at.slot).tasks;
                    if let Ok(place) = tasks.binary_search(&number) {
                        tasks.remove(place);
                    }
                }
                None => {
                    self.kinds[old.kind as usize].waiting.remove(&number);
                    self.waiting -= 1;
                    self.list(old.kind);
                }
            }
        }
        if let Some(new) = task {
            match new.at {
                Some(at) => {
                    let tasks = &mut self.node_mut(at.slot).tasks;
                    let place = tasks.partition_point(|other| *other < number);
                    tasks.insert(place, number);
                }
                None => {
                    self.kinds[new.kind as usize].waiting.insert(number);
                    self.waiting += 1;
                    self.list(new.kind);
                }
            }
        }
    }

    /// Lists a kind to be tried, under its first task.
    fn list(&mut self, number: u32) {
        let kind = &mut self.kinds[number as usize];
        let due = if kind.is_blocked { None } else { kind.waiting.first().copied() };
        if kind.listed != due {
            if let Some(old) = kind.listed {
                self.ready.remove(&(old, number));
            }
            if let Some(new) = due {
                self.ready.insert((new, number));
            }
            kind.listed = due;
        }
    }

    /// No place for this kind until there is more room somewhere.
    pub(super) fn block(&mut self, kind: u32) {
        self.journal.push(Undo::Blocked(kind, false));
        self.set_blocked(kind, true);
        for offer in &self.kinds[kind as usize].offers {
            self.builds[offer.build as usize].has_blocked = true;
        }
    }

    pub(super) fn set_blocked(&mut self, number: u32, is_blocked: bool) {
        self.kinds[number as usize].is_blocked = is_blocked;
        if is_blocked {
            self.blocked.insert(number);
        } else {
            self.blocked.remove(&number);
        }
        self.list(number);
    }

    /// What a kind of task waits for.
    pub(super) fn reason(&self, kind: u32) -> Wait {
        match self.nearest(kind) {
            Ok(_) => Wait::Busy,
            Err(nearest) => nearest,
        }
    }

    /// The same, where the answer is kept to be found sooner the next time.
    pub(super) fn found_reason(&mut self, kind: u32) -> Wait {
        let nearest = self.nearest(kind);
        self.kinds[kind as usize].admitted = nearest.ok();
        nearest.err().unwrap_or(Wait::Busy)
    }

    /// A build and class that are admitted, or the rule that is nearest to admitting one.
    fn nearest(&self, kind: u32) -> Result<(u32, u32), Wait> {
        let Kind { spec, admitted, .. } = &self.kinds[kind as usize];
        if let Some((build, class)) = *admitted
            && self.builds[build as usize].is_present(class)
        {
            return Ok((build, class));
        }
        let mut nearest = Wait::Hardware;
        for (number, build) in (0..).zip(&self.builds) {
            if !build.hardware.suits(spec) {
                continue;
            }
            for (class, traits) in build.present() {
                match traits.admit(spec) {
                    Ok(()) => return Ok((number, class)),
                    Err(rule) => nearest = nearest.max(rule),
                }
            }
        }
        Err(nearest)
    }

    /// Why a task waits; `None` if it does not, or was not tried yet.
    pub fn why(&self, task: TaskId) -> Option<Wait> {
        let found = self.tasks.get(task.number).filter(|found| found.at.is_none())?;
        let kind = &self.kinds[found.kind as usize];
        kind.is_blocked.then(|| self.reason(found.kind))
    }

    /// What a task had in the ledger's words, in the scheduler's; `None` if no device of this build
    /// has it.
    pub(super) fn take_of(&self, build: u32, slice: Slice) -> Option<(Take, u16, u8)> {
        let build = &self.builds[build as usize];
        let bit = |device: u8| 1_u16.checked_shl(device.into());
        Some(match slice {
            Slice::Host => (Take::None, 0, 0),
            Slice::Whole { devices } => {
                (Take::Whole(u8::try_from(devices.count_ones()).ok()?), devices, 0)
            }
            Slice::Part { device, compute, memory, start } => {
                let profiles = crate::sharing::profiles(build.split).iter();
                let mut same = profiles.filter(|it| (it.compute, it.memory) == (compute, memory));
                (Take::Part(*same.next()?), bit(device)?, start)
            }
            Slice::Share { device, steps } => (Take::Share(steps), bit(device)?, 0),
        })
    }

    /// Gives a task what it had; false if that is not free.
    pub(super) fn restore(&mut self, number: u64, task: Task, id: &NodeId, slice: Slice) -> bool {
        let Ok(slot) = self.slot_of_any(id) else { return false };
        let build = self.node(slot).build;
        let Some((take, devices, start)) = self.take_of(build, slice) else { return false };
        let split = self.builds[build as usize].split;
        let spec = &self.kinds[task.kind as usize].spec;
        let (cpu_milli, ram_mib) = (spec.cpu_milli, spec.ram_mib);
        let mut left = self.node(slot).left;
        let cpu = left.cpu_milli.checked_sub(cpu_milli);
        let ram = left.ram_mib.checked_sub(ram_mib);
        let (Some(cpu), Some(ram)) = (cpu, ram) else { return false };
        (left.cpu_milli, left.ram_mib) = (cpu, ram);
        for (place, gpu) in left.gpus.iter_mut().enumerate() {
            if devices & 1 << place != 0 {
                let Some(with) = Gpu::with_at(*gpu, take, start, split) else { return false };
                *gpu = with;
            }
        }
        self.set_left(slot, left);
        let at = At { slot, take, devices, start };
        self.set_task(number, Some(Task { at: Some(at), ..task }));
        true
    }
}
