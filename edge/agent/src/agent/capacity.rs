//! Showing what the machine can do: when the ledger asks for a device, its memory is filled, the
//! root is committed to, and the blocks that a later beacon draws are opened. All of it follows
//! from the seed, so an agent that died meanwhile fills again and goes on.
//!
//! The memory of the host is filled by the processor, that of a GPU by the GPU. A GPU that cannot
//! be opened here, or for which this build has no kernels, is not answered for: it stays without
//! credit, and nothing stands in for it.

#[cfg(feature = "wgpu")]
mod adapter;

use super::gpus::GpuPlace;
use super::{AgentConfig, FOLLOW_AGAIN, State};
use std::sync::Arc;
use tg_gateway::GatewayError;
use tg_ledger::{CapacityStep, NodeEntry, drawn_place, keys};
use tg_tensor::capacity::{self, CapacityError, Filled, OPENING_BYTES_MAX};
#[cfg(feature = "wgpu")]
use tg_tensor::gpu::{self, Gpu};
use tg_tensor::judge::encode_openings;
use tg_types::tx::CapacityOpenings;
use tg_types::{Action, Bytes, Device, DeviceKind, Event, Hash32, Name, NodeId};

/// Openings of one transaction.
const OPENINGS_PER_TX: usize = 3;

const _: () = assert!(OPENINGS_PER_TX * OPENING_BYTES_MAX < 14 * 1024);

/// How often the node's record is read to learn which device is meant: a validator may be gone or
/// a block behind.
const READS_MAX: u32 = 5;

/// Why a memory is not filled.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// The record of the node cannot be read.
    #[error("which device is meant cannot be read")]
    Record(#[from] GatewayError),
    /// Something else is asked for by now.
    #[error("the node is not asked for it any more")]
    NotAsked,
    /// The kernels of this build cannot fill such memory.
    #[error("no kernels for {model} in this build: GPUs need one with --features wgpu")]
    NoKernels {
        /// What the device is offered as.
        model: Name,
    },
    /// No adapter is the device that is meant.
    #[cfg(feature = "wgpu")]
    #[error("no adapter of this machine is the {model} that is offered")]
    NoAdapter {
        /// What the device is offered as.
        model: Name,
    },
    /// The device cannot be opened.
    #[cfg(feature = "wgpu")]
    #[error("the GPU cannot be opened")]
    Gpu(#[from] gpu::GpuError),
    /// The memory cannot be had.
    #[error("the memory cannot be filled")]
    Capacity(#[from] CapacityError),
    /// The thread that filled it is gone.
    #[error("filling it did not end well")]
    Thread(#[from] tokio::task::JoinError),
}

/// What is to be done once a memory is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Commit to it.
    Commit,
    /// Keep it until blocks are drawn.
    Keep,
    /// Show blocks that were drawn.
    Show(Drawn),
}

/// Blocks that were drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Drawn {
    /// What they follow from.
    pub(crate) lot: Hash32,
    /// How many were shown before.
    pub(crate) shown: u8,
}

/// A memory to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) seed: Hash32,
    pub(crate) blocks: u32,
    pub(crate) then: Then,
}

impl State {
    /// What the ledger asks of this node's devices.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only events of capacity come here")]
    pub(super) fn capacity_event(&mut self, event: &Event) {
        let node = self.node;
        match *event {
            Event::CapacityAsked { node: to, seed, blocks, .. } if to == node => {
                self.begin_fill(Question { seed, blocks, then: Then::Commit });
            }
            Event::CapacityDrawn { node: of, lot, .. } if of == node => {
                let drawn = Drawn { lot, shown: 0 };
                self.books.drawn = Some(drawn);
                self.show_capacity(drawn);
            }
            Event::CapacityProved { node: by, .. } | Event::CapacityMissed { node: by, .. }
                if by == node =>
            {
                (self.books.seed, self.books.answer) = (None, None);
            }
            _ => {}
        }
    }
}

impl Question {
    /// What a node is asked for, as its record says.
    pub(crate) fn of(step: &CapacityStep) -> Option<Self> {
        Self::of_device(step).map(|(question, _)| question)
    }

    /// The same, and the place of the device that is meant.
    fn of_device(step: &CapacityStep) -> Option<(Self, u8)> {
        let (fill, then) = match *step {
            CapacityStep::Filling { fill, .. } => (fill, Then::Commit),
            CapacityStep::Committed { fill, .. } => (fill, Then::Keep),
            CapacityStep::Showing { fill, lot, shown, .. } => {
                (fill, Then::Show(Drawn { lot, shown }))
            }
            CapacityStep::Idle | CapacityStep::Waiting { .. } | CapacityStep::Resting { .. } => {
                return None;
            }
        };
        Some((Self { seed: fill.seed, blocks: fill.blocks, then }, fill.device))
    }
}

/// The device that a question is about. Places in an offer may change while it stands, so it is the
/// record of the node that says which.
async fn device_of(
    config: &AgentConfig,
    node: &NodeId,
    question: &Question,
) -> Result<Device, FillError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let record = config.gateway.entry::<NodeEntry>(keys::node(node)).await;
        let device = record.map_err(FillError::from).and_then(|record| {
            record.and_then(|record| asked_device(&record, question)).ok_or(FillError::NotAsked)
        });
        if device.is_ok() || tries >= READS_MAX {
            return device;
        }
        tokio::time::sleep(FOLLOW_AGAIN).await;
    }
}

/// The device that a question is about, if the node is asked it.
fn asked_device(record: &NodeEntry, question: &Question) -> Option<Device> {
    let (asked, place) = Question::of_device(&record.capacity.step)?;
    let device = record.descriptor.devices.as_slice().get(usize::from(place))?;
    (asked.seed == question.seed).then(|| device.clone())
}

/// A memory that was filled, as long as somebody may ask for its blocks.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) seed: Hash32,
    pub(crate) blocks: u32,
    pub(crate) filled: Arc<Filled>,
}

/// Fills the memory of the device that a question is about, on a thread of its own.
pub(crate) async fn answer(
    config: Arc<AgentConfig>,
    node: NodeId,
    gpus: Vec<GpuPlace>,
    question: Question,
) -> Result<Answer, FillError> {
    let device = device_of(&config, &node, &question).await?;
    let Question { seed, blocks, .. } = question;
    let filled = tokio::task::spawn_blocking(move || match device.kind {
        DeviceKind::Cpu => Ok(capacity::fill(seed, blocks, 0)?),
        DeviceKind::Gpu => fill_gpu(&device, &gpus, &question),
        DeviceKind::Accelerator => Err(FillError::NoKernels { model: device.model }),
    });
    Ok(Answer { seed, blocks, filled: Arc::new(filled.await??) })
}

/// Fills the memory of a GPU.
#[cfg(feature = "wgpu")]
fn fill_gpu(device: &Device, gpus: &[GpuPlace], question: &Question) -> Result<Filled, FillError> {
    let gpu = open_gpu(&device.model, gpus)?;
    Ok(capacity::fill_on(&gpu, question.seed, question.blocks)?)
}

/// Opens the GPU that is offered as a model.
///
/// # Errors
/// If no adapter is the one that is offered, or its driver does not open it.
#[cfg(feature = "wgpu")]
pub fn open_gpu(model: &Name, gpus: &[GpuPlace]) -> Result<Gpu, FillError> {
    let found = adapter::find(model, gpus, &gpu::devices());
    let index = found.ok_or_else(|| FillError::NoAdapter { model: model.clone() })?;
    Ok(Gpu::open(index)?)
}

/// There are no kernels for GPUs in this build.
#[cfg(not(feature = "wgpu"))]
fn fill_gpu(device: &Device, _: &[GpuPlace], _: &Question) -> Result<Filled, FillError> {
    Err(FillError::NoKernels { model: device.model.clone() })
}

impl Answer {
    /// The commitment.
    pub(crate) fn commitment(&self) -> Action {
        Action::CommitCapacity { root: self.filled.root() }
    }

    /// Transactions that show the blocks which are not shown yet, out of so many that were drawn.
    /// A node that lies opens others.
    pub(crate) fn openings(
        &self,
        drawn: Drawn,
        needed: u8,
        lies: bool,
    ) -> Result<Vec<Action>, CapacityError> {
        let place = |number: u8| {
            let place = drawn_place(&drawn.lot, number, self.blocks);
            if lies { place ^ 1 } else { place }
        };
        let openings: Result<Vec<_>, _> =
            (drawn.shown..needed).map(|number| self.filled.open(place(number))).collect();
        let show = |openings: &[_]| -> Option<Action> {
            let openings: CapacityOpenings = Bytes::new(encode_openings(openings)).ok()?;
            Some(Action::ShowCapacity { openings })
        };
        Ok(openings?.chunks(OPENINGS_PER_TX).filter_map(show).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Drawn, Question, Then};
    use std::sync::Arc;
    use tg_ledger::{CapacityStep, Fill, drawn_place};
    use tg_tensor::capacity::{self, Filled};
    use tg_tensor::judge::TensorJudge;
    use tg_types::{Action, DurationMs, FillClaim, Hash32, Height, StepJudge, Tick};

    const SEED: Hash32 = Hash32::new([5; 32]);
    const LOT: Hash32 = Hash32::new([6; 32]);
    const BLOCKS: u32 = 1_024;

    /// How many blocks each transaction shows, as the ledger's judge counts them.
    fn judged(filled: Filled, drawn: Drawn, needed: u8, lies: bool) -> Vec<Option<usize>> {
        let answer = Answer { seed: SEED, blocks: BLOCKS, filled: Arc::new(filled) };
        let Action::CommitCapacity { root } = answer.commitment() else {
            unreachable!("a commitment");
        };
        let claim = FillClaim { seed: SEED, blocks: BLOCKS, root };
        let mut shown = drawn.shown;
        let mut counts = Vec::new();
        for action in answer.openings(drawn, needed, lies).expect("blocks") {
            let Action::ShowCapacity { openings } = action else { unreachable!("openings") };
            let places: Vec<u32> =
                (shown..needed).map(|number| drawn_place(&drawn.lot, number, BLOCKS)).collect();
            let count = TensorJudge.opened(&claim, &places, openings.as_slice());
            shown += u8::try_from(count.unwrap_or(0)).expect("few");
            counts.push(count);
        }
        counts
    }

    #[test]
    fn openings_are_what_the_judge_wants_and_lies_are_not() {
        let first = Drawn { lot: LOT, shown: 0 };
        let host = || capacity::fill(SEED, BLOCKS, 0).expect("a little memory");
        assert_eq!(judged(host(), first, 3, false), [Some(3)]);
        assert_eq!(judged(host(), first, 8, false), [Some(3), Some(3), Some(2)]);
        assert_eq!(judged(host(), Drawn { shown: 5, ..first }, 8, false), [Some(3)]);
        assert_eq!(judged(host(), first, 3, true), [None]);
    }

    /// Goal: what a GPU filled is believed by the ledger's judge, as what the processor filled is.
    /// Method: the first adapter of this machine, offered under a name of its own.
    #[cfg(feature = "wgpu")]
    #[test]
    fn openings_of_a_gpu_are_what_the_judge_wants() {
        use super::{FillError, GpuPlace, fill_gpu};
        use tg_types::{Device, DeviceKind, Features, Name};
        let adapters = tg_tensor::gpu::devices();
        let adapter = adapters.first().expect("mesa-vulkan-drivers is installed");
        let name = |text: &str| text.parse::<Name>().expect("a name");
        let (model, driver) = (name("offered gpu"), adapter.name.clone());
        let place = GpuPlace::new(model, driver, adapter.pci.clone());
        let question = Question { seed: SEED, blocks: BLOCKS, then: Then::Commit };
        let device = |model: &str| Device {
            kind: DeviceKind::Gpu,
            model: name(model),
            memory_mib: 1,
            count: 1,
            features: Features::NONE,
            sharing: tg_types::Sharing::WHOLE,
        };
        let gpus = [place];
        let filled = fill_gpu(&device("offered gpu"), &gpus, &question).expect("its memory");
        assert_eq!(judged(filled, Drawn { lot: LOT, shown: 0 }, 3, false), [Some(3)]);
        let other = fill_gpu(&device("another gpu"), &gpus, &question);
        assert!(matches!(other, Err(FillError::NoAdapter { .. })));
    }

    #[cfg(not(feature = "wgpu"))]
    #[test]
    fn gpu_is_not_answered_for_in_a_build_without_kernels() {
        use super::{FillError, fill_gpu};
        use tg_types::{Device, DeviceKind, Features};
        let question = Question { seed: SEED, blocks: BLOCKS, then: Then::Commit };
        let model = "a gpu".parse().expect("a name");
        let (kind, features) = (DeviceKind::Gpu, Features::NONE);
        let device = Device {
            kind,
            model,
            memory_mib: 1,
            count: 1,
            features,
            sharing: tg_types::Sharing::WHOLE,
        };
        let refused = fill_gpu(&device, &[], &question).expect_err("no kernels");
        assert!(matches!(refused, FillError::NoKernels { .. }));
        assert!(refused.to_string().contains("--features wgpu"), "{refused}");
    }

    #[test]
    fn record_of_a_node_says_what_is_to_be_done() {
        let fill = Fill { seed: SEED, blocks: BLOCKS, device: 2, memory_mib: 7 };
        let (root, took) = (LOT, DurationMs::SECOND);
        let (since, deadline, height) = (Tick::ZERO, Tick::MAX, Height::FIRST);
        let check = |step: CapacityStep, then: Option<Then>| {
            let expected = then.map(|then| Question { seed: SEED, blocks: BLOCKS, then });
            assert_eq!(Question::of(&step), expected);
            assert_eq!(Question::of_device(&step), expected.map(|question| (question, 2)));
        };
        check(CapacityStep::Filling { fill, since, deadline }, Some(Then::Commit));
        check(CapacityStep::Committed { fill, root, height, took }, Some(Then::Keep));
        let showing = CapacityStep::Showing { fill, root, took, lot: LOT, shown: 2, deadline };
        check(showing, Some(Then::Show(Drawn { lot: LOT, shown: 2 })));
        check(CapacityStep::Idle, None);
        check(CapacityStep::Waiting { height }, None);
        check(CapacityStep::Resting { until: deadline }, None);
    }
}
