//! Equal GPUs that are divided as tasks come: which task is started next, and where.
//!
//! What a GPU gives out depends on who shares it, so tasks that wait are looked at together. Room
//! beside others goes to those that fill it best. A free GPU goes to the task that uses most of it
//! as a whole, or is divided for tasks that use more together. GPUs that are divided hardly become
//! whole again while small tasks come, so no more of them are divided than small tasks usually
//! take of all, and none for tasks that would leave much of it empty, unless most are free or small
//! tasks are most of what comes. Nobody is passed over for ever: who has waited long enough goes
//! first, however well it fills its place.
//!
//! Everything is a function of the calls so far; time is counted in tasks that have come.

use super::{Device, Fraction, Gpu, Profile, Take, profiles};
use crate::packing::GPU_MILLI;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A GPU is divided if what waits demands so many thousandths of it, while most are wanted whole.
const FILL_MIN: u32 = 750;
/// A task goes first when so many have come after it, and [`PATIENCE_TIMES`] those that wait: the
/// more there are, the longer all of them have to wait.
const PATIENCE: u64 = 64;
const PATIENCE_TIMES: u64 = 4;
/// While more than so many quarters of all GPUs are free, they are divided for anybody.
const FREE_QUARTERS: usize = 3;
/// Tasks that are remembered: then all counts are halved.
const WINDOW: u64 = 1 << 16;
/// The most partitions of one kind that a GPU has.
const ALIKE_MAX: usize = 7;
/// The most kinds of partitions.
const KINDS_MAX: usize = 8;

/// A task that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its number.
    pub task: u64,
    /// Which GPU it has.
    pub gpu: usize,
    /// What it has of it.
    pub take: Take,
    /// The first memory slice, of a partition.
    pub start: u8,
}

/// Tasks that take the same and demand the same, the most demanding first.
type Sort = (Take, Reverse<u16>);

/// Equal GPUs, the tasks that run on them, and those that wait.
#[derive(Clone, Debug)]
pub struct Pool {
    device: Device,
    gpus: Vec<Gpu>,
    running: BTreeMap<u64, Started>,
    /// By what they take, the most demanding first.
    waiting: BTreeMap<Sort, BTreeSet<u64>>,
    /// What each task that waits takes and demands.
    sorts: BTreeMap<u64, Sort>,
    /// The last task that came.
    newest: u64,
    /// How often what was taken, and how often in all.
    seen: BTreeMap<Take, u64>,
    seen_sum: u64,
}

/// What the tasks demand that wait for each kind of partition, the most demanding first, as many as
/// a GPU has room for.
type Demands = [Vec<u16>; KINDS_MAX];

impl Pool {
    /// So many such devices, on which nothing runs.
    pub fn new(device: Device, count: usize) -> Self {
        Self {
            device,
            gpus: vec![Gpu::FREE; count],
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            sorts: BTreeMap::new(),
            newest: 0,
            seen: BTreeMap::new(),
            seen_sum: 0,
        }
    }

    /// A task comes and waits. Numbers are given in order; one that is known is left alone.
    pub fn come(&mut self, task: u64, asked: Fraction) {
        if self.running.contains_key(&task) || self.sorts.contains_key(&task) {
            return;
        }
        let take = match asked.milli {
            GPU_MILLI.. => Take::Whole(1),
            _ => self.device.take(asked),
        };
        let sort = (take, Reverse(asked.milli));
        self.waiting.entry(sort).or_default().insert(task);
        self.sorts.insert(task, sort);
        self.newest = self.newest.max(task);
        self.count(take);
    }

    fn count(&mut self, take: Take) {
        *self.seen.entry(take).or_default() += 1;
        self.seen_sum += 1;
        if self.seen_sum >= WINDOW {
            self.seen.retain(|_, count| {
                *count /= 2;
                *count > 0
            });
            self.seen_sum = self.seen.values().sum();
        }
    }

    /// A task ends or is not wanted any more. Returns what it had, if it was running.
    pub fn end(&mut self, task: u64) -> Option<Started> {
        self.forget(task);
        let had = self.running.remove(&task)?;
        let gpu = &mut self.gpus[had.gpu];
        *gpu = gpu.without(had.take, had.start).expect("it was taken");
        Some(had)
    }

    /// The next task that starts now; `None` if all others wait.
    pub fn start(&mut self) -> Option<Started> {
        let started = self.overdue().or_else(|| self.beside()).or_else(|| self.alone())?;
        let gpu = &mut self.gpus[started.gpu];
        let with = gpu.with_at(started.take, started.start, self.device.split);
        *gpu = with.expect("room was found");
        self.forget(started.task);
        self.running.insert(started.task, started);
        Some(started)
    }

    /// A task does not wait any more.
    fn forget(&mut self, task: u64) {
        let Some(sort) = self.sorts.remove(&task) else { return };
        if let Some(tasks) = self.waiting.get_mut(&sort) {
            tasks.remove(&task);
            if tasks.is_empty() {
                self.waiting.remove(&sort);
            }
        }
    }

    /// The task that has waited longest, if that was long enough and there is room: beside others
    /// where the least is left, and on a free GPU only if there is no such room and it may be
    /// divided.
    fn overdue(&self) -> Option<Started> {
        let (&task, &(take, _)) = self.sorts.first_key_value()?;
        let patience = PATIENCE + PATIENCE_TIMES * self.sorts.len() as u64;
        if self.newest - task <= patience {
            return None;
        }
        let split = self.device.split;
        let may_be_first = matches!(take, Take::Whole(_)) || self.may_divide(FILL_MIN);
        let fitting = self.gpus.iter().enumerate().filter_map(|(gpu, state)| {
            let (_, start) = state.with(take, split)?;
            if *state == Gpu::FREE && !may_be_first {
                return None;
            }
            let rank = (*state == Gpu::FREE, state.left_milli(split), gpu);
            Some((rank, Started { task, gpu, take, start }))
        });
        fitting.min_by_key(|(rank, _)| *rank).map(|(_, started)| started)
    }

    /// A task for room that is left on GPUs in use.
    fn beside(&self) -> Option<Started> {
        let demands = self.demands();
        let used = self.gpus.iter().enumerate().filter(|(_, state)| **state != Gpu::FREE);
        used.filter(|(_, state)| state.parts_left(self.device.split) != 0)
            .find_map(|(gpu, state)| self.part(gpu, self.best_fill(*state, &demands)?))
    }

    /// A task for a free GPU.
    fn alone(&self) -> Option<Started> {
        let gpu = self.gpus.iter().position(|state| *state == Gpu::FREE)?;
        let whole = (Take::Whole(1), Reverse(u16::MAX))..=(Take::Whole(1), Reverse(0));
        let whole = self.waiting.range(whole).next();
        let whole = whole.and_then(|((take, Reverse(milli)), tasks)| {
            let task = *tasks.first()?;
            Some((u32::from(*milli), Started { task, gpu, take: *take, start: 0 }))
        });
        let fill =
            self.best_fill(Gpu::FREE, &self.demands()).filter(|fill| self.may_divide(fill.milli));
        match (whole, fill) {
            (Some((milli, _)), Some(fill)) if fill.milli > milli => self.part(gpu, fill),
            (Some((_, started)), _) => Some(started),
            (None, Some(fill)) => self.part(gpu, fill),
            (None, None) => None,
        }
    }

    /// Whether one more GPU may be divided for tasks that demand so much of it.
    fn may_divide(&self, milli: u32) -> bool {
        let count = |is: fn(Gpu) -> bool| self.gpus.iter().filter(|state| is(**state)).count();
        if 4 * count(|state| state == Gpu::FREE) > FREE_QUARTERS * self.gpus.len() {
            return true;
        }
        let divided = count(|state| state != Gpu::FREE && state != Gpu::TAKEN);
        let most = self.divided_max();
        divided < most && (milli >= FILL_MIN || 2 * most >= self.gpus.len())
    }

    /// How many GPUs small tasks usually take if they fill them, at least one.
    fn divided_max(&self) -> usize {
        let taken = |(take, count): (&Take, &u64)| u64::from(take.milli()) * count;
        let all: u64 = self.seen.iter().map(taken).sum();
        let is_small = |(take, _): &(&Take, &u64)| !matches!(take, Take::Whole(_));
        let small: u64 = self.seen.iter().filter(is_small).map(taken).sum();
        let usual = (small * self.gpus.len() as u64).checked_div(all).unwrap_or(0);
        usize::try_from(usual).unwrap_or(usize::MAX).max(1)
    }

    /// What waits for each kind of partition.
    fn demands(&self) -> Demands {
        let mut demands = Demands::default();
        for ((take, Reverse(milli)), tasks) in &self.waiting {
            let Take::Part(profile) = take else { continue };
            if let Some(kind) = self.kind_of(*profile) {
                let room = ALIKE_MAX - demands[kind].len();
                demands[kind].extend(tasks.iter().take(room).map(|_| milli));
            }
        }
        demands
    }

    fn kind_of(&self, profile: Profile) -> Option<usize> {
        profiles(self.device.split).iter().position(|other| *other == profile)
    }

    /// The first task of a fill: the one that has waited longest of those that demand most.
    fn part(&self, gpu: usize, fill: Fill) -> Option<Started> {
        let (kind, start) = fill.first?;
        let take = Take::Part(*profiles(self.device.split).get(kind)?);
        let alike = (take, Reverse(u16::MAX))..=(take, Reverse(0));
        let (_, tasks) = self.waiting.range(alike).next()?;
        Some(Started { task: *tasks.first()?, gpu, take, start })
    }

    /// The tasks that demand most together of those that have room on a GPU; `None` if none has.
    fn best_fill(&self, gpu: Gpu, demands: &Demands) -> Option<Fill> {
        let fill = self.fill(gpu, 0, demands, &mut [0; KINDS_MAX]);
        (fill.milli > 0).then_some(fill)
    }

    /// The same from a memory slice on, when so many of each kind are placed.
    fn fill(&self, gpu: Gpu, from: u8, demands: &Demands, used: &mut [usize; KINDS_MAX]) -> Fill {
        let split = self.device.split;
        let Some(most) = profiles(split).first().map(|profile| profile.memory_of()) else {
            return Fill::NONE;
        };
        if from >= most {
            return Fill::NONE;
        }
        let mut best = self.fill(gpu, from + 1, demands, used);
        for (kind, profile) in profiles(split).iter().enumerate() {
            let Some(milli) = demands[kind].get(used[kind]) else { continue };
            let Some(with) = gpu.with_at(Take::Part(*profile), from, split) else { continue };
            used[kind] += 1;
            let rest = self.fill(with, from + profile.memory, demands, used);
            used[kind] -= 1;
            let milli = u32::from(*milli) + rest.milli;
            if milli > best.milli {
                best = Fill { milli, first: Some((kind, from)) };
            }
        }
        best
    }
}

/// Tasks side by side on a GPU.
#[derive(Clone, Copy, Debug)]
struct Fill {
    /// What they demand together.
    milli: u32,
    /// The kind and place of the first partition.
    first: Option<(usize, u8)>,
}

impl Fill {
    const NONE: Self = Self { milli: 0, first: None };
}

#[cfg(test)]
mod tests {
    use super::{Fill, KINDS_MAX, PATIENCE, Pool, Started, Take};
    use crate::catalogue::Split;
    use crate::sharing::{Device, Fraction, Gpu, Modes, profiles};

    const DEVICE: Device = Device { split: Split::Mig7, modes: Modes::MIG, memory_mib: 0 };

    fn asked(milli: u16) -> Fraction {
        Fraction { milli, memory_mib: 0, may_share: false }
    }

    fn pool(count: usize, tasks: &[u16]) -> Pool {
        let mut pool = Pool::new(DEVICE, count);
        (0..).zip(tasks).for_each(|(task, milli)| pool.come(task, asked(*milli)));
        pool
    }

    /// The tasks that start now, by GPU.
    fn started(pool: &mut Pool) -> Vec<(u64, usize)> {
        std::iter::from_fn(|| pool.start()).map(|it| (it.task, it.gpu)).collect()
    }

    #[test]
    fn free_gpu_goes_to_those_that_use_most_of_it() {
        let mut one = pool(1, &[600, 1_000, 460, 320]);
        assert_eq!(started(&mut one), [(1, 0)]);
        one.end(1);
        // Two tasks demand more together than the one that needs all of it.
        let mut both = started(&mut one);
        both.sort_unstable();
        assert_eq!(both, [(2, 0), (3, 0)]);
        // What is left beside a task goes to the one that fills it best.
        one.come(4, asked(300));
        one.come(5, asked(420));
        one.end(3);
        assert_eq!(started(&mut one), [(5, 0)]);
    }

    #[test]
    fn few_gpus_are_divided_and_none_for_little() {
        let mut four = pool(4, &[1_000, 1_000, 460]);
        assert_eq!(started(&mut four), [(0, 0), (1, 1)], "it would leave half of a GPU empty");
        four.come(3, asked(320));
        assert_eq!(started(&mut four).len(), 2, "together they fill one");
        for task in 4..10 {
            four.come(task, asked(1_000));
            four.end(task);
        }
        [470, 320, 470, 320].iter().zip(10..).for_each(|(milli, task)| {
            four.come(task, asked(*milli));
        });
        assert_eq!(started(&mut four), [], "small tasks have what they usually take");
        for task in 0..4 {
            four.end(task);
        }
        let mut both = started(&mut four);
        both.sort_unstable();
        assert_eq!(both, [(10, 0), (11, 0)], "all are free");
    }

    #[test]
    fn small_tasks_wait_for_nobody_where_few_want_whole_gpus() {
        let mut two = pool(2, &[140; 9]);
        let started = started(&mut two);
        assert_eq!(started.len(), 9);
        assert_eq!(started.iter().filter(|(_, gpu)| *gpu == 1).count(), 2);
    }

    #[test]
    fn who_has_waited_long_is_not_passed_over() {
        let mut one = pool(1, &[600]);
        for task in 1..2 * PATIENCE {
            one.come(task, asked(1_000));
            let now = one.start().expect("a free GPU").task;
            if now == 0 {
                return assert!(task > PATIENCE, "others fill a GPU better");
            }
            one.end(now);
        }
        panic!("passed over for ever");
    }

    /// Goal: what starts has room, nothing is lost, nobody waits beside room that it may have, and
    /// the same calls give the same answers. Method: random tasks that come and end, beside a plain
    /// count of what each GPU has.
    #[test]
    fn prop_pool_gives_out_what_there_is() {
        arbtest::arbtest(|u| {
            let count = u.int_in_range(1..=3)?;
            let (mut one, mut other) = (Pool::new(DEVICE, count), Pool::new(DEVICE, count));
            let mut running: Vec<Started> = Vec::new();
            for task in 0..u.int_in_range(1..=60)? {
                let milli = u.int_in_range(1..=1_000)?;
                one.come(task, asked(milli));
                other.come(task, asked(milli));
                if !running.is_empty() && u.ratio(2, 3)? {
                    let ended = running.swap_remove(u.choose_index(running.len())?);
                    assert_eq!(one.end(ended.task), Some(ended));
                    assert_eq!(other.end(ended.task), Some(ended));
                }
                let now: Vec<Started> = std::iter::from_fn(|| one.start()).collect();
                assert_eq!(now, std::iter::from_fn(|| other.start()).collect::<Vec<_>>());
                running.extend(now);
                for gpu in 0..count {
                    let mut here = running.iter().filter(|it| it.gpu == gpu);
                    let state = here.try_fold(Gpu::FREE, |state, it| {
                        state.with_at(it.take, it.start, Split::Mig7)
                    });
                    assert_eq!(state, Some(one.gpus[gpu]), "side by side, and nothing else");
                }
                assert_eq!(running.len() + one.sorts.len(), one.running.len() + waiting(&one));
                let beside = one.gpus.iter().filter(|gpu| **gpu != Gpu::FREE);
                let fits = |gpu: &Gpu| {
                    let sorts = one.waiting.keys();
                    let parts = sorts.filter(|(take, _)| matches!(take, Take::Part(_)));
                    parts.into_iter().any(|(take, _)| gpu.with(*take, Split::Mig7).is_some())
                };
                assert!(!beside.into_iter().any(fits), "room beside others is used");
            }
            Ok(())
        });
    }

    fn waiting(pool: &Pool) -> usize {
        pool.waiting.values().map(std::collections::BTreeSet::len).sum()
    }

    /// Goal: the fill is the best of all. Method: all orders of up to five tasks, each put at every
    /// place, on a GPU of which some is taken.
    #[test]
    fn prop_fill_is_the_best_of_all() {
        fn all(gpu: Gpu, tasks: &[u16]) -> u32 {
            let each = tasks.iter().enumerate().flat_map(|(place, milli)| {
                let Take::Part(profile) = DEVICE.take(asked(*milli)) else { return Vec::new() };
                let mut rest = tasks.to_vec();
                rest.remove(place);
                let starts = profile
                    .starts()
                    .filter_map(|start| gpu.with_at(Take::Part(profile), start, Split::Mig7));
                starts.map(|with| u32::from(*milli) + all(with, &rest)).collect()
            });
            each.max().unwrap_or(0)
        }
        arbtest::arbtest(|u| {
            let sizes = [50, 140, 230, 280, 320, 420, 460, 570];
            let mut tasks = Vec::new();
            for _ in 0..u.int_in_range(0..=4)? {
                tasks.push(*u.choose(&sizes)?);
            }
            let taken = *u.choose(profiles(Split::Mig7))?;
            let (gpu, _) = Gpu::FREE.with(Take::Part(taken), Split::Mig7).expect("room");
            let pool = pool(1, &tasks);
            for state in [Gpu::FREE, gpu] {
                let Fill { milli, .. } = pool.fill(state, 0, &pool.demands(), &mut [0; KINDS_MAX]);
                assert_eq!(milli, all(state, &tasks), "{tasks:?}");
            }
            Ok(())
        });
    }
}
