//! A job as its file says it, in checked types.
//!
//! A model and a command have different inputs, outputs and surroundings, so they are two kinds of
//! work here; keys of the one beside keys of the other are refused while reading.

use crate::fault::JobFileError;
use crate::units::{Cpus, Deadline, GpuShare, Priority, Size, Span};
use crate::words::{
    EnvName, EnvValue, FileName, ImageName, LocalPath, MountPath, PortName, Script, UrlPath, Word,
    WorkPath,
};
use crate::{read, write};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::{NonZeroU8, NonZeroU16};
use tg_types::{Amount, DeviceKind, Features, GpuAsk, HostPart, Name, Needs, RegionAsk, Tier};

/// A job file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFile {
    /// What the job is called in lists.
    pub name: Option<Name>,
    /// What is to be done.
    pub work: Work,
    /// On what kind of machine.
    pub resources: Resources,
    /// How many nodes work together.
    pub num_nodes: NonZeroU16,
    /// How it answers requests, if it does.
    pub service: Option<Service>,
    /// What to keep so that the job can go on elsewhere.
    pub checkpoint: Option<Checkpoint>,
    /// The most it may cost in all; as quoted unless given.
    pub budget_max: Option<Amount>,
    /// How sure to be of the result.
    pub verify: Option<Verify>,
    /// Who keeps the key of its sealed data.
    pub key_escrow: Option<KeyEscrow>,
    /// What anybody may read.
    pub public: Option<Public>,
    /// How long one run may take.
    pub run_max: Option<Span>,
    /// When the result must be there.
    pub deadline: Option<Deadline>,
    /// Whether the weights are a secret that is registered.
    pub secret_weights: bool,
    /// Whether that is to be promised: if it cannot be, the job is not wanted.
    pub promise: bool,
    /// How urgent it is.
    pub priority: Option<Priority>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A model is run on tensors.
    Model(Model),
    /// A command is run in a sandbox.
    Task(Task),
}

/// A model and its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Where the model is.
    pub source: ModelSource,
    /// Files with its inputs, by their labels.
    pub inputs: BTreeMap<PortName, LocalPath>,
    /// Files for its outputs, by their labels.
    pub outputs: BTreeMap<PortName, LocalPath>,
}

/// Where a model is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// An ONNX file, which must be imported, or a program.
    Model(LocalPath),
    /// An ONNX file that is run as it is, in floating point.
    Float(LocalPath),
    /// A program that was imported before.
    Program(LocalPath),
}

/// A command in a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// The image it runs in; on the programs of the provider's machine if absent.
    pub image: Option<ImageName>,
    /// What runs before it.
    pub setup: Option<Script>,
    /// The command; what the image states if absent.
    pub run: Option<Run>,
    /// Its environment.
    pub envs: BTreeMap<EnvName, EnvValue>,
    /// Variables whose values are taken from the client's environment.
    pub secrets: BTreeSet<EnvName>,
    /// Files here, by the path under which it sees them.
    pub file_mounts: BTreeMap<MountPath, LocalPath>,
    /// Files here, by their names in its folder of inputs.
    pub inputs: BTreeMap<FileName, LocalPath>,
    /// Files here, by their paths in its work folder.
    pub outputs: BTreeMap<WorkPath, LocalPath>,
    /// Whether it may use the network.
    pub network: bool,
}

/// What is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    /// Text for the shell.
    Shell(Script),
    /// A program and its arguments.
    Program {
        /// The program.
        program: Script,
        /// Its arguments.
        arguments: Vec<Word>,
    },
}

/// On what kind of machine a job runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// GPUs, each entry an alternative; none of them twice.
    pub accelerators: Vec<Accelerator>,
    /// The least memory of a GPU, or of a part of one.
    pub gpu_memory: Option<Size>,
    /// A part of a GPU is enough.
    pub gpu_share: Option<GpuShare>,
    /// Whether strangers may be beside it on the same processors.
    pub share_with_strangers: Option<bool>,
    /// The least memory of the machine.
    pub memory: Option<Size>,
    /// The fewest processors.
    pub cpus: Option<Cpus>,
    /// The least space for files.
    pub disk: Option<Size>,
    /// Where it stands.
    pub region: Option<Name>,
    /// Where the client or its data are.
    pub home: Option<Name>,
    /// What the device can do.
    pub features: Features,
    /// Whether the job may be interrupted for a lower price.
    pub use_spot: Option<bool>,
    /// Alternatives, which have none themselves.
    pub any_of: Vec<Resources>,
}

impl Resources {
    /// Where the machine is to stand.
    fn region_ask(&self) -> RegionAsk {
        match (&self.region, &self.home) {
            (Some(region), _) => RegionAsk::Only { region: region.clone() },
            (None, Some(home)) => RegionAsk::Near { region: home.clone() },
            (None, None) => RegionAsk::Any,
        }
    }
}

/// So many of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    model: Name,
    count: NonZeroU16,
}

impl Accelerator {
    /// So many of a model whose name has no colon, which would be taken for the count.
    #[must_use]
    pub fn new(model: Name, count: NonZeroU16) -> Option<Self> {
        (!model.as_str().contains(':')).then_some(Self { model, count })
    }

    /// The maker's name for it.
    #[must_use]
    pub fn model(&self) -> &Name {
        &self.model
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> NonZeroU16 {
        self.count
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.model, self.count)
    }
}

/// How a job answers requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Where the command listens.
    pub port: NonZeroU16,
    /// What answers when it is ready.
    pub readiness_probe: Option<UrlPath>,
    /// How many copies answer.
    pub replicas: Option<NonZeroU8>,
}

/// What to keep so that a job can go on elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The folder.
    pub path: MountPath,
    /// How often it is copied.
    pub every: Option<Span>,
}

/// How sure to be of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verify {
    /// The provider's word.
    None,
    /// A share of all results is drawn and spot-checked.
    Audit,
    /// Every result is recomputed by drawn checkers.
    Sync,
    /// Several providers must give the same output.
    Redundant {
        /// How many must agree.
        replicas: u8,
    },
    /// Accepted unless somebody objects.
    Optimistic,
    /// A proof comes with the result.
    Proof,
    /// A proof that tells nothing else.
    Zk,
    /// Attested by the hardware.
    Tee,
}

/// Who keeps the key of sealed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyEscrow {
    /// Validators, each a share of it.
    Validators,
    /// Nobody but the client.
    None,
}

impl KeyEscrow {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Validators => "validators",
            Self::None => "none",
        }
    }
}

impl Verify {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Audit => "audit",
            Self::Sync => "sync",
            Self::Redundant { .. } => "redundant",
            Self::Optimistic => "optimistic",
            Self::Proof => "proof",
            Self::Zk => "zk",
            Self::Tee => "tee",
        }
    }

    /// The tier of the ledger, if it has it. Whoever has the model puts the commitment to its
    /// weights into that of a proof.
    #[must_use]
    pub const fn tier(self) -> Option<Tier> {
        match self {
            Self::None => Some(Tier::Trusted),
            Self::Audit => Some(Tier::Audit),
            Self::Sync => Some(Tier::Sync),
            Self::Redundant { replicas } => Some(Tier::Redundant { replicas }),
            Self::Proof => Some(Tier::PROOF),
            Self::Zk => Some(Tier::ZK),
            Self::Optimistic | Self::Tee => None,
        }
    }
}

/// What of a job anybody may read. Nothing unless that is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Public {
    /// Its inputs and outputs.
    Data,
    /// The weights of its model as well.
    All,
}

impl Public {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::All => "all",
        }
    }
}

impl JobFile {
    /// A job that says nothing but what is to be done.
    #[must_use]
    pub fn new(work: Work) -> Self {
        Self {
            name: None,
            work,
            resources: Resources::default(),
            num_nodes: NonZeroU16::MIN,
            service: None,
            checkpoint: None,
            budget_max: None,
            verify: None,
            key_escrow: None,
            public: None,
            run_max: None,
            deadline: None,
            secret_weights: false,
            promise: false,
            priority: None,
        }
    }

    /// Reads a job file. `name` is what messages call it.
    ///
    /// # Errors
    /// The first thing that is not as it should be, with its place.
    pub fn parse(text: &str, name: &str) -> Result<Self, JobFileError> {
        read::job(text).map_err(|fault| fault.in_file(name))
    }

    /// Writes the file in its one canonical form, with a comment for each key. It reads back as the
    /// same job, if it has no more bytes and entries than are read.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        write::job(self)
    }

    /// What a device must have, as the ledger says it. Holds as far as
    /// [`unsupported`](Self::unsupported) names nothing of `resources`.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let resources = &self.resources;
        let accelerator = resources.accelerators.first();
        let is_part = resources.gpu_share.is_some();
        let has_gpu = accelerator.is_some() || resources.gpu_memory.is_some() || is_part;
        let gpus = match (resources.gpu_share, accelerator.map(|one| one.count.get())) {
            (Some(share), _) => {
                let may_share = resources.share_with_strangers == Some(true);
                GpuAsk::Part { steps: share.steps(), may_share }
            }
            (None, Some(2..)) => {
                let count = accelerator.and_then(|one| u8::try_from(one.count.get()).ok());
                GpuAsk::Whole { count: count.unwrap_or(u8::MAX) }
            }
            (None, Some(..2) | None) => GpuAsk::Usual,
        };
        // The memory of a CPU is that of its machine.
        let (kind, memory) = match (has_gpu, resources.memory) {
            (true, _) => (Some(DeviceKind::Gpu), resources.gpu_memory),
            (false, Some(memory)) => (Some(DeviceKind::Cpu), Some(memory)),
            (false, None) => (None, None),
        };
        let host = HostPart {
            cpu_milli: resources.cpus.map_or(0, Cpus::thousandths),
            memory_mib: resources.memory.map_or(0, Size::mib_ceil),
        };
        // Tensor programs are computed beside others and hold nothing.
        let (features, host) = match &self.work {
            Work::Model(model) => match model.source {
                ModelSource::Model(_) | ModelSource::Program(_) => (Features::NONE, HostPart::NONE),
                ModelSource::Float(_) => (Features::SANDBOX.with(Features::ONNX), host),
            },
            Work::Task(_) => (Features::SANDBOX, host),
        };
        Needs {
            kind,
            model: accelerator.map(|accelerator| accelerator.model.clone()),
            memory_mib_min: memory.map_or(0, Size::mib_ceil),
            features: resources.features.with(features),
            region: resources.region_ask(),
            gpus,
            host,
        }
    }
}
