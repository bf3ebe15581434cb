//! What can be typed for offering a machine.

use crate::work::machine::GpuChoice;
use clap::Args;
use std::{path::PathBuf, str::FromStr};
use tg_jobfile::{Cpus, Size};
use tg_provider::hours::Hours;
use tg_provider::power::{PowerPrice, PriceError, TgridRate};
use tg_types::{Amount, ChainId, HostPart, Name};

/// `provide`
#[derive(Clone, Debug, Args)]
pub(crate) struct ProvideArguments {
    /// Name of the node on this machine: each has a key of its own
    #[arg(long, value_name = "NAME", default_value = "provider")]
    pub(crate) name: ChainId,
    /// Where the machine stands, as clients ask for it
    #[arg(long, value_name = "NAME", default_value = "home")]
    pub(crate) region: Name,
    /// GPUs to offer: all, none, or numbers such as 0,1
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub(crate) gpus: GpuChoice,
    /// Let commands whose clients agree to it share a GPU of NVIDIA's, side by side or in turns,
    /// without hardware between them. GPUs on which MIG is on, and that you have not cut up, are
    /// given out in partitions without this
    #[arg(long)]
    pub(crate) share_gpus: bool,
    /// Offer Vulkan drivers that compute on the processor as GPUs, under names that say so: for
    /// tests without a GPU
    #[arg(long, hide = true)]
    pub(crate) software_gpus: bool,
    /// When to take work, such as 22-08 or \"mon-fri 18:30-07:00, sat-sun 00-24\"; always unless
    /// given
    #[arg(long, value_name = "TIMES")]
    pub(crate) hours: Option<Hours>,
    /// Take work only while nobody else uses the machine
    #[arg(long)]
    pub(crate) only_idle: bool,
    /// The least an hour costs of a run with one GPU or none, in TGRID; a part of a GPU costs its
    /// part
    #[arg(long, value_name = "AMOUNT", default_value = "0.1")]
    pub(crate) min_price: Amount,
    /// The least 10^12 multiply-adds of a tensor program cost, in TGRID
    #[arg(long, value_name = "AMOUNT", default_value = "1")]
    pub(crate) tera_price: Amount,
    /// Runs at once; unless stated one for each GPU that is offered, or 4 if there is none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) slots: Option<u16>,
    /// Processors that commands may hold at once, such as 8; all of the machine unless given
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<Cpus>,
    /// Memory that commands may hold at once, such as 48GB; all of the machine unless given
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Size>,
    /// What to put at stake, in TGRID: a node is given work as far as its stake covers it
    #[arg(long, value_name = "AMOUNT", default_value = "100")]
    pub(crate) stake: Amount,
    /// What electricity costs you, such as 0.30/kWh: `earnings` takes it off what was earned
    #[arg(long, value_name = "PRICE")]
    pub(crate) power_cost: Option<PowerPrice>,
    /// What the machine draws while it works, if its devices do not tell
    #[arg(long, value_name = "N")]
    pub(crate) watts: Option<u32>,
    /// Run no commands of strangers, tensor programs only
    #[arg(long)]
    pub(crate) no_sandbox: bool,
    /// Let commands that ask for it use this machine's network, with all that it can reach
    #[arg(long)]
    pub(crate) allow_network: bool,
    /// Seconds to finish work after ^C, or to have it go on elsewhere, before leaving it to others
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) grace: u64,
    /// NVIDIA's management library, if it is not where it usually is
    #[arg(long, value_name = "FILE")]
    pub(crate) nvml_library: Option<PathBuf>,
}

impl ProvideArguments {
    /// The most of the machine that commands may hold, as far as its owner says so.
    pub(crate) fn host(&self) -> HostPart {
        HostPart {
            cpu_milli: self.cpus.map_or(0, Cpus::thousandths),
            memory_mib: self.memory.map_or(0, Size::mib_ceil),
        }
    }
}

/// `doctor`
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Take Vulkan drivers that compute on the processor for GPUs: for tests without a GPU
    #[arg(long, hide = true)]
    pub(crate) software_gpus: bool,
    /// NVIDIA's management library, if it is not where it usually is
    #[arg(long, value_name = "FILE")]
    pub(crate) nvml_library: Option<PathBuf>,
}

/// `earnings`
#[derive(Clone, Debug, Args)]
pub(crate) struct EarningsArguments {
    /// Name of the node on this machine, as given to `provide`
    #[arg(long, value_name = "NAME", default_value = "provider")]
    pub(crate) name: ChainId,
    /// What electricity costs you, such as 0.30/kWh; as last given to `provide` unless given
    #[arg(long, value_name = "PRICE")]
    pub(crate) power_cost: Option<PowerPrice>,
    /// What a TGRID is worth to you, in the same currency as electricity
    #[arg(long, value_name = "PRICE", value_parser = rate)]
    pub(crate) tgrid_worth: Option<TgridRate>,
}

fn rate(text: &str) -> Result<TgridRate, PriceError> {
    text.parse().map(TgridRate)
}

/// Not a choice of GPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected all, none, or numbers such as 0,1")]
pub(crate) struct GpuChoiceError;

impl FromStr for GpuChoice {
    type Err = GpuChoiceError;

    fn from_str(text: &str) -> Result<Self, GpuChoiceError> {
        match text {
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            numbers => {
                let numbers: Result<Vec<usize>, _> = numbers.split(',').map(str::parse).collect();
                numbers.map(Self::These).map_err(|_| GpuChoiceError)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GpuChoice, GpuChoiceError};

    #[test]
    fn gpus_are_chosen_by_word_or_number() {
        assert_eq!("all".parse(), Ok(GpuChoice::All));
        assert_eq!("0,2".parse(), Ok(GpuChoice::These(vec![0, 2])));
        for text in ["", "0,", "-1", "every"] {
            assert_eq!(text.parse::<GpuChoice>(), Err(GpuChoiceError), "{text}");
        }
    }
}
