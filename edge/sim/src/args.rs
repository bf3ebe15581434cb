//! The command line.

use clap::{Args as ClapArgs, Parser, Subcommand};

/// Simulates whole networks from seeds and checks what must always hold.
#[derive(Clone, Debug, Parser)]
#[command(name = "tg-sim", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Something else than whole networks.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Run this one seed.
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    pub(crate) seed: Option<u64>,

    /// How many seeds to run.
    #[arg(long, default_value_t = 20)]
    pub(crate) seeds: u64,

    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) first: u64,

    /// Seeds that run at the same time.
    #[arg(long, default_value_t = 2)]
    pub(crate) threads: usize,

    /// Print one JSON object per line instead of text.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print what nodes log to stderr, filtered like `warn,tg_bft=debug`; best with one seed.
    #[arg(long, value_name = "FILTER")]
    pub(crate) log: Option<String>,

    /// Plant this bug and stop at the first seed that finds it.
    #[arg(long, value_name = "KIND", conflicts_with = "planted_all")]
    pub(crate) plant: Option<String>,

    /// Plant every bug in turn and print which seed finds it.
    #[arg(long)]
    pub(crate) planted_all: bool,
}

/// What else can be simulated.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Simulates providers, checkers and challengers, honest and not, on the ledger alone.
    Jobs(JobsArgs),
}

/// How the economy of verification is simulated.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct JobsArgs {
    /// How many seeds to run.
    #[arg(long, default_value_t = 20)]
    pub(crate) seeds: u64,

    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) first: u64,

    /// Jobs of each seed and scenario.
    #[arg(long, default_value_t = 1_000)]
    pub(crate) jobs: u64,

    /// Only scenarios of this tier: audit or sync.
    #[arg(long)]
    pub(crate) tier: Option<String>,

    /// Only the scenario with this name.
    #[arg(long)]
    pub(crate) scenario: Option<String>,

    /// Let everybody be honest, to see that scenarios then say that they were not exercised.
    #[arg(long)]
    pub(crate) disarmed: bool,

    /// Seeds that run at the same time.
    #[arg(long, default_value_t = 2)]
    pub(crate) threads: usize,

    /// Print one JSON object per line instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}
