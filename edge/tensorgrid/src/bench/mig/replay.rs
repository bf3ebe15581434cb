//! Running a sequence of tasks: with partitions on demand, by the scheduler's pool or its index, or
//! in what is free of fixed ones.

use super::tasks::{Sequence, Task};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use tg_scheduler::catalogue::{Abilities, Catalogue, Split};
use tg_scheduler::index::{
    Decision, Event, Index, Keys, NodeOffer, Purpose, TaskId, TaskSpec, Wait,
};
use tg_scheduler::packing::{GPU_MILLI, Models};
use tg_scheduler::sharing::{Device, Fraction, Modes, Pool, Take};
use tg_types::{DeviceKind, Features, NodeId};

/// The GPU of the fleet, by its name in the catalogue.
const MODEL: &str = "A100-80GB";
/// GPUs of a machine.
const MACHINE_GPUS: u32 = 8;
/// Processor and memory of a machine for each of its GPUs: enough for anything.
const HOST: (u32, u32) = (16_000, 131_072);

/// A GPU of the fleet as far as partitions are concerned; memory is not asked for.
const DEVICE: Device = Device { split: Split::Mig7, modes: Modes::MIG, memory_mib: 0 };

/// Thousandths times seconds that running tasks demanded within the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Demanded(u128);

impl Demanded {
    /// As a share of a fleet.
    pub(super) fn share(self, gpus: u32, window: u64) -> f64 {
        self.0 as f64 / (f64::from(gpus) * f64::from(GPU_MILLI) * window as f64)
    }
}

/// Who gives tasks their places.
trait Placer {
    /// A task comes.
    fn come(&mut self, number: usize, task: &Task);
    /// A task ends.
    fn end(&mut self, number: usize);
    /// The next task that starts now.
    fn start(&mut self) -> Option<usize>;
}

/// Runs a sequence. What ends at a time makes room for what comes at that time.
fn run(sequence: &Sequence, placer: &mut impl Placer) -> Demanded {
    let mut given = 0;
    let mut ends = Ends::new();
    for (number, (at, task)) in sequence.arrivals.iter().enumerate() {
        while let Some(&Reverse((end, ended))) = ends.peek()
            && end <= *at
        {
            ends.pop();
            placer.end(ended);
            given += begin(sequence, placer, end, &mut ends);
        }
        placer.come(number, task);
        given += begin(sequence, placer, *at, &mut ends);
    }
    Demanded(given)
}

/// When running tasks end, and which.
type Ends = BinaryHeap<Reverse<(u64, usize)>>;

/// Starts all that can start now, and says what they demand until the window's end.
fn begin(sequence: &Sequence, placer: &mut impl Placer, now: u64, ends: &mut Ends) -> u128 {
    let mut given = 0;
    while let Some(number) = placer.start() {
        let (_, task) = sequence.arrivals[number];
        let seconds = task.seconds.min(sequence.window - now);
        given += u128::from(task.milli) * u128::from(seconds);
        ends.push(Reverse((now + task.seconds, number)));
    }
    given
}

/// With partitions on demand, by the pool.
pub(super) fn ours(sequence: &Sequence, gpus: u32) -> Demanded {
    run(sequence, &mut Pool::new(DEVICE, gpus as usize))
}

/// With partitions on demand, by the index: it looks at one task after the other.
pub(super) fn indexed(sequence: &Sequence, gpus: u32) -> Demanded {
    run(sequence, &mut OnDemand::new(gpus))
}

/// Which partitions a task may have that are larger than it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spill {
    /// Any that is free, the smallest first.
    Any,
    /// Only those of the smallest size that covers it.
    None,
}

/// Which of the tasks that wait for fixed partitions goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The one that came first.
    Arrival,
    /// The one that demands most.
    Demand,
}

/// In fixed partitions: how many there are, by their compute slices.
pub(super) fn fixed(
    sequence: &Sequence,
    needs: &[u8],
    free: [u32; SIZES],
    (spill, order): (Spill, Order),
) -> Demanded {
    let queues = std::array::from_fn(|_| BinaryHeap::new());
    let (running, is_ready) = (BTreeMap::new(), [true; SIZES]);
    let end = |need: usize| match spill {
        Spill::Any => SIZES,
        Spill::None => (need..SIZES).find(|size| free[*size] > 0).map_or(SIZES, |size| size + 1),
    };
    let ends = std::array::from_fn(end);
    run(sequence, &mut Fixed { needs, order, free, ends, queues, running, is_ready })
}

/// Compute slices of the smallest partition that covers what a task demands.
pub(super) fn need(milli: u16) -> u8 {
    match DEVICE.take(asked(milli)) {
        Take::Part(profile) => profile.compute,
        Take::Whole(_) | Take::Share(_) | Take::None => WHOLE,
    }
}

fn asked(milli: u16) -> Fraction {
    Fraction { milli, memory_mib: 0, may_share: false }
}

impl Placer for Pool {
    fn come(&mut self, number: usize, task: &Task) {
        Self::come(self, number as u64, asked(task.milli));
    }

    fn end(&mut self, number: usize) {
        Self::end(self, number as u64).expect("it was running");
    }

    fn start(&mut self) -> Option<usize> {
        let started = Self::start(self)?;
        usize::try_from(started.task).ok()
    }
}

/// The scheduler's index.
struct OnDemand {
    index: Index,
}

impl OnDemand {
    fn new(gpus: u32) -> Self {
        let mut index = Index::new();
        let machines = gpus.div_ceil(MACHINE_GPUS);
        for machine in 0..machines {
            let count = (gpus - machine * MACHINE_GPUS).min(MACHINE_GPUS);
            let mut id = [0; 32];
            id[..4].copy_from_slice(&machine.to_be_bytes());
            let (node, offer) = (NodeId::new(id), Box::new(offer(count)));
            index.apply(Event::NodeJoined { node, offer }).expect("a sound offer");
        }
        Self { index }
    }
}

impl Placer for OnDemand {
    fn come(&mut self, number: usize, task: &Task) {
        let (task, spec) = (TaskId { number: number as u64 }, Box::new(spec(task.milli)));
        self.index.apply(Event::TaskQueued { task, spec }).expect("a sound task");
    }

    fn end(&mut self, number: usize) {
        let task = TaskId { number: number as u64 };
        self.index.apply(Event::TaskFinished { task }).expect("it was running");
        let mark = self.index.begin();
        self.index.commit(mark);
    }

    fn start(&mut self) -> Option<usize> {
        loop {
            match self.index.decide()? {
                Decision::Place { task, .. } => return usize::try_from(task.number).ok(),
                Decision::Queue { reason, .. } => assert_eq!(reason, Wait::Busy),
                Decision::Requeue { .. } => {}
            }
        }
    }
}

fn offer(gpus: u32) -> NodeOffer {
    let catalogue = Catalogue::builtin();
    let place = catalogue.models().iter().position(|model| model.name == MODEL);
    let place = place.expect("the catalogue has it");
    let model = &catalogue.models()[place];
    NodeOffer {
        owner: 0,
        kind: DeviceKind::Gpu,
        model: u8::try_from(place).expect("a number of the catalogue"),
        count: u8::try_from(gpus).expect("at most as a machine has"),
        memory_mib: model.memory_mib,
        abilities: model.abilities,
        features: Features::NONE,
        modes: Modes::MIG,
        cpu_milli: HOST.0 * gpus,
        ram_mib: HOST.1 * gpus,
        region: 0,
        trust: 0,
        privacy: 0,
        speed: 0,
        price: 0,
        reliability: 0,
        bandwidth: 0,
        load: 0,
        load_held: 0,
        spare: 0,
        is_open: true,
        cached: Keys::default(),
    }
}

fn spec(milli: u16) -> TaskSpec {
    TaskSpec {
        cpu_milli: 0,
        ram_mib: 0,
        gpus: 1,
        share_milli: if milli < GPU_MILLI { milli } else { 0 },
        memory_mib: 0,
        regions: u64::MAX,
        trust_min: 0,
        privacy: 0,
        speed_min: 0,
        price_max: u8::MAX,
        bandwidth_min: 0,
        kind: None,
        models: Models::ANY,
        abilities: Abilities::NONE,
        features: Features::NONE,
        may_share: false,
        purpose: Purpose::Batch,
        home: 0,
        near: 0,
        packs: false,
        data: 0,
        excluded: Keys::default(),
    }
}

/// Compute slices of a whole GPU.
const WHOLE: u8 = 7;
/// Sizes of partitions: 0 to 7 compute slices.
pub(super) const SIZES: usize = WHOLE as usize + 1;

/// Partitions that do not change. All that matters of them is how many of each size are free.
struct Fixed<'a> {
    /// What every task of the sequence needs, in compute slices.
    needs: &'a [u8],
    order: Order,
    free: [u32; SIZES],
    /// Where the sizes end that a need may have.
    ends: [usize; SIZES],
    /// Tasks that wait, by what they need, with their ranks.
    queues: [BinaryHeap<Reverse<(u16, usize)>>; SIZES],
    /// The size that each running task has.
    running: BTreeMap<usize, usize>,
    /// Needs that were not found to have no place since one became free.
    is_ready: [bool; SIZES],
}

impl Placer for Fixed<'_> {
    fn come(&mut self, number: usize, task: &Task) {
        let rank = match self.order {
            Order::Arrival => 0,
            Order::Demand => u16::MAX - task.milli,
        };
        self.queues[usize::from(self.needs[number])].push(Reverse((rank, number)));
    }

    fn end(&mut self, number: usize) {
        let size = self.running.remove(&number).expect("it was running");
        self.free[size] += 1;
        self.is_ready = [true; SIZES];
    }

    fn start(&mut self) -> Option<usize> {
        loop {
            let first = |need: usize| Some((self.queues[need].peek()?.0, need));
            let ready = (0..SIZES).filter(|need| self.is_ready[*need]).filter_map(first);
            let ((_, number), need) = ready.min()?;
            let Some(size) = (need..self.ends[need]).find(|size| self.free[*size] > 0) else {
                self.is_ready[need] = false;
                continue;
            };
            self.free[size] -= 1;
            self.queues[need].pop();
            self.running.insert(number, size);
            return Some(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Demanded, Order, SIZES, Spill, fixed, indexed, need, ours};
    use crate::bench::mig::tasks::{Sequence, Task};

    /// Arrival, thousandths and seconds of tasks.
    fn sequence(tasks: &[(u64, u16, u64)], window: u64) -> Sequence {
        let arrivals = tasks.iter().map(|&(at, milli, seconds)| {
            let created = at;
            (at, Task { created, milli, seconds })
        });
        Sequence { arrivals: arrivals.collect(), window }
    }

    fn in_fixed(sequence: &Sequence, sizes: &[usize]) -> Demanded {
        spilled(sequence, sizes, Spill::Any)
    }

    fn spilled(sequence: &Sequence, sizes: &[usize], spill: Spill) -> Demanded {
        let mut free = [0; SIZES];
        sizes.iter().for_each(|size| free[*size] += 1);
        let needs: Vec<u8> = sequence.arrivals.iter().map(|(_, task)| need(task.milli)).collect();
        fixed(sequence, &needs, free, (spill, Order::Arrival))
    }

    #[test]
    fn shares_need_the_smallest_partition_that_covers_them() {
        let needs = [50, 142, 143, 285, 286, 428, 429, 571, 572, 1_000].map(need);
        assert_eq!(needs, [1, 1, 2, 2, 3, 3, 4, 4, 7, 7]);
    }

    #[test]
    fn one_task_counts_until_it_ends_or_the_window_does() {
        let short = sequence(&[(0, 500, 40), (100, 100, 5)], 100);
        assert_eq!(ours(&short, 1), Demanded(500 * 40));
        assert_eq!(in_fixed(&short, &[4, 3]), Demanded(500 * 40));
        let long = sequence(&[(0, 1_000, 900), (100, 100, 5)], 100);
        assert_eq!(ours(&long, 1), Demanded(1_000 * 100));
        assert!((ours(&long, 1).share(1, 100) - 1.0).abs() < 1e-9);
        assert_eq!(in_fixed(&long, &[4, 3]), Demanded(0));
    }

    #[test]
    fn small_task_takes_a_larger_partition_but_no_smaller_one() {
        let small = sequence(&[(0, 100, 10), (0, 100, 10), (10, 400, 5), (20, 100, 1)], 20);
        assert_eq!(in_fixed(&small, &[7]), Demanded(2 * 100 * 10));
        assert_eq!(in_fixed(&small, &[1, 3]), Demanded(2 * 100 * 10 + 400 * 5));
        assert_eq!(in_fixed(&small, &[1, 2]), Demanded(2 * 100 * 10));
    }

    #[test]
    fn task_without_spill_waits_for_the_size_it_needs() {
        let two = sequence(&[(0, 100, 10), (0, 100, 10), (5, 400, 5), (10, 100, 1)], 10);
        assert_eq!(spilled(&two, &[1, 3], Spill::None), Demanded(100 * 10 + 400 * 5));
        assert_eq!(spilled(&two, &[1, 3], Spill::Any), Demanded(2 * 100 * 10));
        assert_eq!(spilled(&two, &[3, 3], Spill::None), spilled(&two, &[3, 3], Spill::Any));
    }

    #[test]
    fn most_demanding_task_goes_first_if_that_is_the_order() {
        let two = sequence(&[(0, 900, 5), (1, 600, 5), (2, 1_000, 5), (10, 100, 1)], 10);
        let free = [0, 0, 0, 0, 0, 0, 0, 1];
        let gives = |order| fixed(&two, &[7, 7, 7, 1], free, (Spill::None, order));
        assert_eq!(gives(Order::Arrival), Demanded(900 * 5 + 600 * 5));
        assert_eq!(gives(Order::Demand), Demanded(900 * 5 + 1_000 * 5));
    }

    #[test]
    fn task_behind_one_that_waits_goes_first_if_it_has_a_place() {
        let mixed = sequence(&[(0, 500, 50), (0, 1_000, 50), (0, 400, 50), (100, 100, 1)], 100);
        assert_eq!(indexed(&mixed, 1), Demanded(500 * 50 + 400 * 50 + 1_000 * 50));
        assert_eq!(ours(&mixed, 1), Demanded(1_000 * 50 + 500 * 50 + 400 * 50));
        assert_eq!(in_fixed(&mixed, &[4, 3]), Demanded(500 * 50 + 400 * 50));
    }
}
