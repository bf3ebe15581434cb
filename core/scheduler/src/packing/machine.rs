//! A machine and what is left of it.

use super::demand::{Demand, GPU_MILLI, GPUS_MAX, Gpus};

/// What a machine has when nothing runs on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// The model of its GPUs.
    pub model: u8,
    /// How many of them.
    pub gpus: u8,
    /// Thousandths of a processor.
    pub cpu_milli: u32,
    /// Memory of the host.
    pub memory_mib: u32,
}

impl Shape {
    /// All its GPUs, in thousandths.
    pub fn gpu_milli(&self) -> u32 {
        u32::from(GPU_MILLI) * u32::from(self.gpus)
    }
}

/// Where on a machine a task goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// On no GPU, or on whole ones: which of them makes no difference.
    Whole,
    /// On this GPU, beside others.
    Shared(u8),
}

/// What is left of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Machine {
    shape: Shape,
    cpu_milli: u32,
    memory_mib: u32,
    /// What is left of each GPU.
    free: [u16; GPUS_MAX],
}

impl Machine {
    /// One on which nothing runs; GPUs beyond [`GPUS_MAX`] are left out.
    pub fn new(mut shape: Shape) -> Self {
        shape.gpus = shape.gpus.min(GPUS_MAX as u8);
        let mut free = [0; GPUS_MAX];
        free.iter_mut().take(shape.gpus.into()).for_each(|gpu| *gpu = GPU_MILLI);
        Self { cpu_milli: shape.cpu_milli, memory_mib: shape.memory_mib, shape, free }
    }

    /// One of which this is left; of more GPUs than the shape has, the rest is left out.
    pub(crate) fn left(shape: Shape, cpu_milli: u32, memory_mib: u32, gpus: &[u16]) -> Self {
        let mut machine = Self { cpu_milli, memory_mib, ..Self::new(shape) };
        let count = usize::from(machine.shape.gpus);
        machine.free[..count].iter_mut().zip(gpus).for_each(|(free, left)| *free = *left);
        machine
    }

    /// What it has when nothing runs on it.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// What is left of the processor.
    pub fn cpu_milli(&self) -> u32 {
        self.cpu_milli
    }

    /// What is left of the memory.
    pub fn memory_mib(&self) -> u32 {
        self.memory_mib
    }

    /// What is left of each GPU.
    pub fn free(&self) -> &[u16] {
        &self.free[..usize::from(self.shape.gpus)]
    }

    /// What is left of all GPUs.
    pub fn gpu_milli(&self) -> u32 {
        self.free().iter().map(|free| u32::from(*free)).sum()
    }

    /// Whether a task could run now.
    pub fn fits(&self, demand: &Demand) -> bool {
        if self.cpu_milli < demand.cpu_milli || self.memory_mib < demand.memory_mib {
            return false;
        }
        let (each, count) = (demand.gpus.each(), usize::from(demand.gpus.count()));
        count == 0
            || demand.models.contains(self.shape.model)
                && self.free().iter().filter(|free| **free >= each).count() >= count
    }

    /// The places for a task that [`fits`](Self::fits) which differ: GPUs of which equally much is
    /// left are alike.
    pub fn slots(&self, demand: &Demand) -> impl Iterator<Item = Slot> + '_ {
        let share = match demand.gpus {
            Gpus::Share(milli) => Some(milli),
            Gpus::None | Gpus::Whole(_) => None,
        };
        let whole = share.is_none().then_some(Slot::Whole);
        let shared = (0..).zip(self.free()).filter(move |(place, free)| {
            let is_first = !self.free[..usize::from(*place)].contains(free);
            share.is_some_and(|milli| **free >= milli) && is_first
        });
        whole.into_iter().chain(shared.map(|(place, _)| Slot::Shared(place)))
    }

    /// What is left when a task runs there; `None` if it does not fit.
    pub fn with(&self, demand: &Demand, slot: Slot) -> Option<Self> {
        let mut left = *self;
        left.cpu_milli = left.cpu_milli.checked_sub(demand.cpu_milli)?;
        left.memory_mib = left.memory_mib.checked_sub(demand.memory_mib)?;
        match (demand.gpus, slot) {
            (Gpus::None, Slot::Whole) => {}
            (Gpus::Share(milli), Slot::Shared(place)) => {
                let gpu = left.free.get_mut(usize::from(place))?;
                *gpu = gpu.checked_sub(milli)?;
            }
            (Gpus::Whole(count), Slot::Whole) => {
                let whole = left.free.iter_mut().filter(|free| **free == GPU_MILLI);
                let taken = whole.take(count.into()).map(|free| *free = 0).count();
                if taken < usize::from(count) {
                    return None;
                }
            }
            (Gpus::None | Gpus::Whole(_), Slot::Shared(_)) | (Gpus::Share(_), Slot::Whole) => {
                return None;
            }
        }
        Some(left)
    }
}
