//! What can be typed for jobs.

use super::model::NamedFile;
use clap::Args;
use std::{path::PathBuf, str::FromStr};
use tg_jobfile::{Accelerator, Cpus, Deadline, GpuShare, KeyEscrow, Priority, Public, Size, Span};
use tg_types::{Amount, Features, JobId, Name, NodeId, Tier};

/// What a job is, for `quote` and `run`
#[derive(Clone, Debug, Args)]
pub(crate) struct JobOptions {
    /// Job file (.yaml), tensor program (.tgp) or model (.onnx); none if a command follows --
    pub(crate) file: Option<PathBuf>,
    /// Run the model (.onnx) as it is, in floating point; --verify is none or redundant:N then
    #[arg(long)]
    pub(crate) float: bool,
    /// How surely: none, audit, sync, redundant:N, proof or zk; audit for programs of tensors, none
    /// for others
    #[arg(long, value_name = "TIER")]
    pub(crate) verify: Option<TierName>,
    /// What anybody may read: data (inputs and outputs), or all (weights as well); proof needs it
    #[arg(long, value_name = "WHAT")]
    pub(crate) public: Option<Public>,
    /// The weights are a secret that `model register` has registered; for --verify zk
    #[arg(long)]
    pub(crate) secret_weights: bool,
    /// How long a run may take, such as 90s or 10m; 1m unless given
    #[arg(long, value_name = "SPAN")]
    pub(crate) run_max: Option<Span>,
    /// How long the job may take in all; 1h unless given
    #[arg(long, value_name = "SPAN", conflicts_with = "deadline")]
    pub(crate) within: Option<Span>,
    /// When it must be done, such as 2026-12-01T08:00Z, in place of --within
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<Deadline>,
    /// Have that promised: a slot is kept for it, with the GPUs, processors and memory that it asks
    /// for, or the job is refused with the earliest deadline that would be promised
    #[arg(long)]
    pub(crate) promise: bool,
    /// How urgent it is, from 0 to 3: each step doubles what a run is paid and is served sooner
    #[arg(long, value_name = "N", conflicts_with = "bid")]
    pub(crate) priority: Option<Priority>,
    /// What a run is paid, in TGRID, in place of the lowest price: more is served sooner
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) bid: Option<Amount>,
    /// Inputs: arrays (.npy, .npz, .json) for tensors, files or folders in /in for a command
    #[arg(short, long, value_name = "[NAME=]FILE")]
    pub(crate) input: Vec<NamedFile>,
    /// A GPU of this model, such as "RTX 4090" or A100-80GB; `tensorgrid catalogue` lists names
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) gpu: Option<Accelerator>,
    /// GPUs of one model for a command alone, from 1 to 16; 1 if it asks for any
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) gpus: Option<u8>,
    /// A part of a GPU is enough for a command, from 0.05 to 0.95 in steps of 0.05: it is given a
    /// partition that hardware keeps apart, or the whole GPU where there are none, and pays for
    /// what it is given
    #[arg(long, value_name = "PART", conflicts_with = "gpus")]
    pub(crate) gpu_share: Option<GpuShare>,
    /// Strangers who agree to it as well may be beside it on the same GPU, side by side or in turns
    #[arg(long, requires = "gpu_share")]
    pub(crate) share_with_strangers: bool,
    /// A GPU, or a part of one, with at least this memory, such as 16GB
    #[arg(long, value_name = "SIZE")]
    pub(crate) vram: Option<Size>,
    /// Memory that is needed, such as 512MB; a command or float model holds as much of its machine
    /// while it runs, and gets no more
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Size>,
    /// Processors that a command or float model holds while it runs, such as 0.5 or 4; it gets no
    /// more
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<Cpus>,
    /// What a command may write, such as 100MB
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<Size>,
    /// Where it must run
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<Name>,
    /// Where you or your data are, such as eu-de: of nodes that would do, those there are
    /// preferred, then those whose region begins alike (eu-fr)
    #[arg(long, value_name = "NAME", conflicts_with = "region")]
    pub(crate) home: Option<Name>,
    /// What the device must be able to do: tensor-cores, half-precision, partition, sandbox, onnx
    #[arg(long, value_name = "WORD", value_parser = feature)]
    pub(crate) feature: Vec<Features>,
    /// Image of a command: an archive here, or a name that the provider pulls
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// Variable of a command's environment
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Let a command use the provider's network, where that allows it
    #[arg(long)]
    pub(crate) network: bool,
    /// A folder of a command, such as /ckpt, that is saved while it runs, so that it can go on
    /// elsewhere; $TG_RESUMED is 1 when it does
    #[arg(long, value_name = "PATH")]
    pub(crate) checkpoint: Option<String>,
    /// How often it is saved, such as 30s; 10m unless given
    #[arg(long, value_name = "SPAN", requires = "checkpoint")]
    pub(crate) checkpoint_every: Option<Span>,
    /// On how many nodes a command runs at the same time, 2 to 16: all of them or none; each finds
    /// its number in $TG_RANK, and how many there are in $TG_NODES
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) nodes: Option<u8>,
    /// Who keeps the key of the sealed data: validators, each a share of it, or none but you: then
    /// `run` has to stay online until the job has ended; validators unless given
    #[arg(long, value_name = "WHO")]
    pub(crate) key_escrow: Option<KeyEscrow>,
    /// A command to run in a sandbox, in place of a file
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

fn variable(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn feature(text: &str) -> Result<Features, &'static str> {
    Features::of_word(text)
        .ok_or("expected tensor-cores, half-precision, partition, sandbox or onnx")
}

/// `run`
#[derive(Clone, Debug, Args)]
pub(crate) struct RunJobArguments {
    #[command(flatten)]
    pub(crate) options: JobOptions,
    /// File for the outputs of a model (.npy, .npz or .json), folder for what a command leaves in
    /// /out
    #[arg(short, long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,
    /// The most it may cost in all, in TGRID; as quoted unless given
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) max: Option<Amount>,
    /// Run a command so many times; each finds its number, from 0 on, in $TG_TASK, and what it
    /// leaves goes to a folder of that name in --out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) array: Option<u32>,
    /// Do not wait for the result; `show` tells how far it is, `cp` gets it
    #[arg(long)]
    pub(crate) detach: bool,
}

/// `why`
#[derive(Clone, Debug, Args)]
pub(crate) struct WhyArguments {
    /// The job; may be left out if a node is given
    #[arg(required_unless_present = "node")]
    pub(crate) job: Option<JobId>,
    /// Why this node was not given the job, or those that wait or were placed lately: which rule
    /// removed it, or by how much it is behind, and what would win
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<NodeId>,
}

/// `adjust`
#[derive(Clone, Debug, Args)]
#[command(group(
    clap::ArgGroup::new("change")
        .required(true)
        .multiple(true)
        .args(["bid", "within", "deadline", "nodes"])
))]
pub(crate) struct AdjustArguments {
    /// The job
    pub(crate) job: JobId,
    /// What a run is paid, in TGRID, while the job waits: more is served sooner
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) bid: Option<Amount>,
    /// How long the job may still take in all; a job that runs may be given more time only
    #[arg(long, value_name = "SPAN", conflicts_with = "deadline")]
    pub(crate) within: Option<Span>,
    /// When it must be done, such as 2026-12-01T08:00Z, in place of --within
    #[arg(long, value_name = "TIME")]
    pub(crate) deadline: Option<Deadline>,
    /// On how many nodes a command runs at the same time, while the job waits
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) nodes: Option<u8>,
    /// The most that may be locked for it in all, in TGRID; what the change needs unless given
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) max: Option<Amount>,
}

/// `show` and `stop`
#[derive(Clone, Debug, Args)]
pub(crate) struct JobArguments {
    /// The job
    pub(crate) job: JobId,
}

/// `keys`
#[derive(Clone, Debug, Args)]
pub(crate) struct KeysArguments {
    /// The jobs; all of yours that have not ended and need it unless given
    #[arg(value_name = "JOB")]
    pub(crate) jobs: Vec<JobId>,
}

/// `logs`
#[derive(Clone, Debug, Args)]
pub(crate) struct LogsArguments {
    /// The job
    pub(crate) job: JobId,
    /// Go on until the job ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Leave out so many bytes, those that were seen before
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) from: u64,
    /// Which member of a job for several nodes, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) rank: u8,
}

/// `cp`
#[derive(Clone, Debug, Args)]
pub(crate) struct CopyArguments {
    /// The job
    pub(crate) job: JobId,
    /// File for the outputs of a model, folder for what a command left
    pub(crate) out: PathBuf,
    /// The program of a job of tensors, to name and scale its outputs
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
}

/// A tier as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TierName(pub(crate) Tier);

/// Not a tier of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TierError {
    /// One that comes later.
    #[error("{0} is not in this version; use none, audit, sync, redundant:N, proof or zk")]
    Later(String),
    /// None at all.
    #[error("expected none, audit, sync, redundant:N with N from 2 to 4, proof or zk")]
    Unknown,
}

impl FromStr for TierName {
    type Err = TierError;

    fn from_str(text: &str) -> Result<Self, TierError> {
        let tier = match text {
            "none" => Tier::Trusted,
            "audit" => Tier::Audit,
            "sync" => Tier::Sync,
            "proof" => Tier::PROOF,
            "zk" => Tier::ZK,
            "optimistic" | "tee" => return Err(TierError::Later(text.to_owned())),
            other => {
                let count = other.strip_prefix("redundant:").and_then(|count| count.parse().ok());
                let replicas = count.filter(|count| (2..=4).contains(count));
                Tier::Redundant { replicas: replicas.ok_or(TierError::Unknown)? }
            }
        };
        Ok(Self(tier))
    }
}

#[cfg(test)]
mod tests {
    use super::{TierError, TierName};
    use tg_types::Tier;

    #[test]
    fn tier_is_read_as_people_write_it() {
        let read = |text: &str| text.parse::<TierName>().map(|name| name.0);
        assert_eq!(read("sync"), Ok(Tier::Sync));
        assert_eq!(read("redundant:3"), Ok(Tier::Redundant { replicas: 3 }));
        assert_eq!(read("proof"), Ok(Tier::PROOF));
        assert_eq!(read("zk"), Ok(Tier::ZK));
        assert_eq!(read("tee"), Err(TierError::Later("tee".to_owned())));
        for text in ["", "redundant", "redundant:1", "redundant:5", "synk"] {
            assert_eq!(read(text), Err(TierError::Unknown), "{text}");
        }
    }
}
