//! What runs hold of their machines. A run that asks for GPUs is given definite ones, or a definite
//! part of one, when it is placed: they stand in the run and in its node's entry until the run
//! ends, however it ends ([`NodeEntry::end_run`]). So does what it asks for of processors and
//! memory, of which only the amount counts. What is asked for of GPUs is counted, and placements go
//! by what usually comes.

use tg_scheduler::pace::DeviceClass;
use tg_scheduler::{Ask, GpuMix};
use tg_types::ids::{JobId, NodeId, Noun};
use tg_types::node::SLOTS_MAX;
use tg_types::{
    Amount, DeviceKind, GpuAsk, GpuSlice, GpuSlices, HeldGpu, HeldHost, HostPart, JobSpec, List,
    Reason, Work,
};

use super::fleet;
use super::promise::run_span;
use crate::entry::{Entry, entry};
use crate::error::{ApplyError, Stop};
use crate::keys::{self, ONLY};
use crate::node::NodeEntry;
use crate::session::Session;
use crate::table::Slot;

/// The most that runs of a node hold: each of its 256 GPUs, and a part for each of its 256 runs.
const HELD_MAX: usize = 512;

/// What the runs of a node hold of its GPUs.
pub type HeldGpus = List<HeldGpu, 0, HELD_MAX>;

/// What the runs of a node hold of its processors and memory: each once at most.
pub type HeldHosts = List<HeldHost, 0, { SLOTS_MAX as usize }>;

entry! {
    /// What is usually asked for of GPUs. There is one.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GpuMixEntry {
        /// Runs that were placed, by what they asked for.
        pub mix: GpuMix,
    }
}

impl Entry for GpuMixEntry {
    const NOUN: Noun = Noun::GpuMix;
}

/// Whether runs of a job hold GPUs.
pub(super) fn is_holding(spec: &JobSpec) -> bool {
    spec.held_gpus() != GpuAsk::Usual
}

/// Refuses what no job may ask for.
pub(super) fn check_spec(spec: &JobSpec) -> Result<(), Reason> {
    let is_of_commands = match (spec.needs.gpus, &spec.work) {
        (GpuAsk::Usual, _) => true,
        (_, Work::Opaque { .. }) => spec.needs.kind == Some(DeviceKind::Gpu),
        (_, Work::Tensor { .. }) => false,
    };
    if !is_of_commands || !spec.needs.gpus.is_valid() {
        return Err(Reason::GpusWrong);
    }
    let has_host = spec.needs.host != HostPart::NONE;
    if has_host && !matches!(spec.work, Work::Opaque { .. }) {
        return Err(Reason::HostWrong);
    }
    Ok(())
}

/// What usually comes.
pub(super) fn mix(session: &mut Session<'_>) -> Result<GpuMix, Stop> {
    let entry = session.tables.gpu_mixes.get(&ONLY)?;
    Ok(entry.map_or_else(GpuMix::default, |entry| entry.mix.clone()))
}

/// The GPUs of a node that a run of this job is given: those that were kept for it, or else what
/// leaves those that are kept for others; nothing if it holds none. What was asked for counts as
/// usual from now on.
pub(super) fn choose(
    session: &mut Session<'_>,
    (job, spec): (&JobId, &JobSpec),
    (id, class): (&NodeId, Option<DeviceClass>),
    [node, stake]: [Slot; 2],
    kept: Option<GpuSlices>,
) -> Result<GpuSlices, Stop> {
    if !is_holding(spec) {
        return Ok(GpuSlices::default());
    }
    let span = run_span(&session.params, spec, session.env.tick);
    let (bond, excluded, job) = (Amount::ZERO, &[], Some(*job));
    let ask = Ask { spec, facts: None, bond, excluded, span, job };
    let found = || {
        // The rules have found the same room.
        let offer = fleet::offer_of(session, *id, node, stake)?;
        List::new(offer.slices(&ask, class)?).ok()
    };
    let slices = kept.or_else(found).ok_or(ApplyError::Incomplete(keys::node(id)))?;
    let slot = session.tables.gpu_mixes.find(&ONLY)?;
    let entry = session.tables.gpu_mixes.at_mut(slot).get_or_insert_default();
    entry.mix.count(spec.held_gpus());
    Ok(slices)
}

impl NodeEntry {
    /// What one of its runs holds of its GPUs.
    pub(super) fn gpus_of(&self, job: &JobId) -> impl Iterator<Item = GpuSlice> {
        let own = self.held.as_slice().iter().filter(move |held| held.job == *job);
        own.map(|held| held.slice)
    }

    /// The same of processors and memory.
    pub(super) fn host_of(&self, job: &JobId) -> HostPart {
        let mut own = self.hosted.as_slice().iter().filter(|held| held.job == *job);
        own.next().map_or(HostPart::NONE, |held| held.part)
    }

    /// What its runs hold without one of them, as if that had ended.
    pub(super) fn held_without(&self, job: &JobId) -> Vec<HeldGpu> {
        self.held.as_slice().iter().filter(|held| held.job != *job).copied().collect()
    }

    /// The same of processors and memory.
    pub(super) fn hosted_without(&self, job: &JobId) -> Vec<HeldHost> {
        self.hosted.as_slice().iter().filter(|held| held.job != *job).copied().collect()
    }
}
