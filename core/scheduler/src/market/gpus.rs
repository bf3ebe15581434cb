//! The market of runs that hold GPUs: what stalls have, what is left of them, what usually comes.

use super::Market;
use crate::Offer;
use crate::catalogue::{Catalogue, Split};
use crate::gpus::{count_of, units};
use crate::packing::{Demand, GPU_MILLI, Gpus, Models};
use crate::sharing::{Modes, STEPS};
use std::collections::BTreeMap;
use tg_types::gpu::{GPUS_MAX, SHARE_STEPS};
use tg_types::{Device, GpuAsk, JobSpec, List, wire};

/// Runs that are remembered: then all counts are halved. As many as a busy day of a small network
/// has, so that the mix of a week ago is gone.
const WINDOW: u32 = 1 << 12;

/// Kinds that are told apart: so many whole GPUs, or so many twentieths of one.
const KINDS_MAX: usize = GPUS_MAX as usize + SHARE_STEPS as usize - 1;

wire! {
    /// How many runs asked for so much.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct GpuKind {
        /// Whole GPUs; 0 if it asked for a part of one.
        pub gpus: u8,
        /// Twentieths of one; 0 if it asked for whole ones.
        pub steps: u8,
        /// How many runs.
        pub count: u32,
    }
}

wire! {
    /// What is usually asked for of GPUs: runs that were placed, by kinds. Old ones fade.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GpuMix {
        /// Each kind once.
        pub kinds: List<GpuKind, 0, KINDS_MAX>,
    }
}

impl GpuMix {
    /// Counts a run that was placed; nothing if it holds no GPU.
    pub fn count(&mut self, asked: GpuAsk) {
        let (gpus, steps) = match asked {
            GpuAsk::Usual => return,
            GpuAsk::Whole { count } => (count, 0),
            GpuAsk::Part { steps, .. } => (0, steps),
        };
        let is_it = |kind: &&mut GpuKind| (kind.gpus, kind.steps) == (gpus, steps);
        if let Some(kind) = self.kinds.as_mut_slice().iter_mut().find(is_it) {
            kind.count = kind.count.saturating_add(1);
        } else {
            // There is room for all kinds that are told apart.
            let _full = self.kinds.push(GpuKind { gpus, steps, count: 1 });
        }
        let seen: u32 = self.kinds.as_slice().iter().map(|kind| kind.count).sum();
        if seen >= WINDOW {
            self.kinds.as_mut_slice().iter_mut().for_each(|kind| kind.count /= 2);
            self.kinds.retain(|kind| kind.count > 0);
        }
    }

    /// The same as tasks that usually come.
    pub(super) fn demands(&self) -> BTreeMap<Demand, u64> {
        let demand = |kind: &GpuKind| {
            let milli = u16::from(kind.steps) * (GPU_MILLI / u16::from(STEPS));
            let gpus = if kind.gpus > 0 { Gpus::Whole(kind.gpus) } else { Gpus::Share(milli) };
            let demand = Demand { gpus, models: Models::ANY, cpu_milli: 0, memory_mib: 0 };
            (demand, u64::from(kind.count))
        };
        self.kinds.as_slice().iter().map(demand).collect()
    }
}

/// What a job wants of a stall.
pub(super) struct Wanted {
    pub(super) gpus: u8,
    pub(super) share_milli: u16,
    pub(super) may_share: bool,
}

pub(super) fn wanted(spec: &JobSpec) -> Wanted {
    match spec.held_gpus() {
        GpuAsk::Usual => Wanted { gpus: 1, share_milli: 0, may_share: false },
        GpuAsk::Whole { count } => Wanted { gpus: count, share_milli: 0, may_share: false },
        GpuAsk::Part { steps, may_share } => {
            let share_milli = u16::from(steps) * (GPU_MILLI / u16::from(STEPS));
            Wanted { gpus: 1, share_milli, may_share }
        }
    }
}

impl Market {
    /// How many devices a stall has and how they are shared; `None` if the index does not know how
    /// they split, so that their node has to be asked by itself. Runs that hold no GPU see one
    /// device, whatever others hold.
    pub(super) fn shape_of(&self, device: &Device, model: u8) -> Option<(u8, Modes)> {
        if !self.is_of_gpus {
            return Some((1, Modes::WHOLE));
        }
        let known = Catalogue::shared().get(model).map_or(Split::None, |model| model.split);
        let is_known = device.sharing.mig.is_none() || Split::of(device.sharing) == known;
        is_known.then(|| (count_of(device), Modes::of(device.sharing)))
    }

    /// Takes over what runs have of a node's GPUs. Says whether anything was new.
    pub(super) fn occupy(&mut self, number: usize, offer: &Offer<'_>) -> bool {
        if !self.is_of_gpus {
            return false;
        }
        let devices = offer.descriptor.devices.as_slice();
        let mut is_new = false;
        for stall in self.stalls.get(number).into_iter().flatten() {
            let Some(device) = devices.get(usize::from(stall.device)) else { continue };
            is_new |= self.index.occupy(&stall.id, units(stall.device, device, offer.held));
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::{GpuMix, KINDS_MAX, WINDOW};
    use tg_types::GpuAsk;

    /// Goal: the mix is bounded, and old kinds are forgotten.
    #[test]
    fn kinds_are_counted_and_fade() {
        let mut mix = GpuMix::default();
        mix.count(GpuAsk::Usual);
        assert!(mix.kinds.as_slice().is_empty());
        for count in 1..=16 {
            mix.count(GpuAsk::Whole { count });
        }
        for steps in 1..20 {
            mix.count(GpuAsk::Part { steps, may_share: steps % 2 == 0 });
        }
        assert_eq!(mix.kinds.as_slice().len(), KINDS_MAX);
        for _ in 0..2 * WINDOW {
            mix.count(GpuAsk::Part { steps: 5, may_share: false });
        }
        assert_eq!(mix.kinds.as_slice().len(), 1, "{mix:?}");
        assert!(mix.kinds.as_slice().iter().all(|kind| kind.count < WINDOW));
    }
}
