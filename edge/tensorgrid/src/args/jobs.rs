//! What can be typed for jobs.

use super::model::NamedFile;
use clap::Args;
use std::{path::PathBuf, str::FromStr};
use tg_types::{Amount, JobId, Tier};

/// `quote`, and what `run` has besides
#[derive(Clone, Debug, Args)]
pub(crate) struct QuoteArguments {
    /// The program (.tgp); `tensorgrid model import` makes one of an ONNX file
    pub(crate) file: PathBuf,
    /// How surely: none, audit, sync or redundant:N
    #[arg(long, value_name = "TIER", default_value = "audit")]
    pub(crate) verify: TierName,
    /// Seconds a run may take
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) run_secs: u64,
}

/// `run`
#[derive(Clone, Debug, Args)]
pub(crate) struct RunJobArguments {
    #[command(flatten)]
    pub(crate) quote: QuoteArguments,
    /// Inputs (.npy, .npz or .json)
    #[arg(short, long, value_name = "[NAME=]FILE", required = true)]
    pub(crate) input: Vec<NamedFile>,
    /// File for the outputs (.npy, .npz or .json)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// The most it may cost in all, in TGRID; as quoted unless given
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) max: Option<Amount>,
    /// Do not wait for the result; `show` tells how far it is
    #[arg(long)]
    pub(crate) detach: bool,
}

/// `show`, `why` and `stop`
#[derive(Clone, Debug, Args)]
pub(crate) struct JobArguments {
    /// The job
    pub(crate) job: JobId,
}

/// A tier as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TierName(pub(crate) Tier);

/// Not a tier of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TierError {
    /// One that comes later.
    #[error("{0} is not in this version; use none, audit, sync or redundant:N")]
    Later(String),
    /// None at all.
    #[error("expected none, audit, sync or redundant:N with N from 2 to 4")]
    Unknown,
}

impl FromStr for TierName {
    type Err = TierError;

    fn from_str(text: &str) -> Result<Self, TierError> {
        let tier = match text {
            "none" => Tier::Trusted,
            "audit" => Tier::Audit,
            "sync" => Tier::Sync,
            "optimistic" | "proof" | "zk" | "tee" => return Err(TierError::Later(text.to_owned())),
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
        assert_eq!(read("zk"), Err(TierError::Later("zk".to_owned())));
        for text in ["", "redundant", "redundant:1", "redundant:5", "synk"] {
            assert_eq!(read(text), Err(TierError::Unknown), "{text}");
        }
    }
}
