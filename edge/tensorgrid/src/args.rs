//! What can be typed. Parsed into plain structs here, resolved in [`crate::settings`].

pub(crate) mod import;
pub(crate) mod jobs;
pub(crate) mod model;
pub(crate) mod provide;

use crate::{absent, env, keystore::WalletName};
use clap::{Args, Parser, Subcommand};
use std::{
    net::{AddrParseError, IpAddr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};
use tg_types::{AccountId, Address, Amount, ChainId, Height, IdempotencyId, TxId};

/// Everything that was typed.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "tensorgrid",
    version,
    about = "A network for checked computing: run jobs on others' machines, or offer yours.",
    after_help = after_help(),
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Arguments {
    /// Results as JSON, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Address of the node to ask, such as http://127.0.0.1:9420; the local network unless given.
    /// For `validator`: address to answer clients on, such as 127.0.0.1:9420; none unless given
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) rpc: Option<String>,
    /// Ticket of the network whose providers to use, or to join; the local one unless given
    #[arg(long, global = true, value_name = "TICKET")]
    pub(crate) join: Option<String>,
    /// What to do
    #[command(subcommand)]
    pub(crate) command: CommandArguments,
}

fn after_help() -> String {
    format!(
        "Exit codes: 0 done, 1 failed, 2 misused, 3 cannot tell\n\n{}\n\n{}",
        env::description(),
        absent::description()
    )
}

/// A command and what was typed after it.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CommandArguments {
    /// Run a whole network on this machine until ^C
    Up(UpArguments),
    /// Make a network for several processes or machines
    Genesis(GenesisArguments),
    /// Run one node of a network
    Validator(ValidatorArguments),
    /// Print a ticket: the way in for machines and clients, for --join
    Ticket,
    /// Keys and money
    #[command(subcommand)]
    Wallet(WalletArguments),
    /// Put money at stake
    Stake(StakeArguments),
    /// Call stake back; it is released after the unbonding time
    Unstake(StakeArguments),
    /// Where the network stands
    Status,
    /// Registered nodes and the committee
    Nodes(NodesArguments),
    /// Run a model here and prove the run; no network is needed
    Prove(ProveArguments),
    /// Check a certificate, proof or receipt offline: 0 good, 1 bad, 3 cannot tell
    Verify(VerifyArguments),
    /// Save a transaction's receipt with its proof
    Receipt(ReceiptArguments),
    /// Save an account's balance, or its absence, with its proof
    Proof(ProofArguments),
    /// Save a certified header
    Certificate(CertificateArguments),
    /// Follow what happens, one line per event
    Events(EventsArguments),
    /// What a job would cost: firm, all parts named, nothing locked
    Quote(Box<jobs::JobOptions>),
    /// Run a program on somebody else's machine, checked and paid
    Run(Box<jobs::RunJobArguments>),
    /// Jobs on record
    Ps,
    /// How far a job is
    Show(jobs::JobArguments),
    /// Accelerators that are known by name, for --gpu and job files
    Catalogue(CatalogueArguments),
    /// Why a job waits or a node is not given it, and the cheapest change that would help
    Why(jobs::WhyArguments),
    /// What a job's program says, also while it runs
    Logs(jobs::LogsArguments),
    /// Get the result of a job
    Cp(jobs::CopyArguments),
    /// Take a waiting job back, or end one that runs
    Stop(jobs::JobArguments),
    /// Change what a job offers, by when or on how many nodes it is wanted
    Adjust(jobs::AdjustArguments),
    /// Hand a stopped, failed or expired job in again, without its files
    Resume(jobs::JobArguments),
    /// Show that a result does not open, and get the money back
    Complain(jobs::JobArguments),
    /// Hand out the keys of jobs whose key nobody else keeps, until they have ended
    Keys(jobs::KeysArguments),
    /// Offer this machine: take runs and checks, and be paid for them, until ^C
    Provide(provide::ProvideArguments),
    /// What this machine has, what is wrong with it, and how to mend it
    Doctor(provide::DoctorArguments),
    /// What a node of this machine has earned, and what stands for its work
    Earnings(provide::EarningsArguments),
    /// Make a job file of an Akash SDL, a compose file or a Slurm script
    Import(import::ImportJobArguments),
    /// Tensor programs: import, show, run, list
    #[command(subcommand)]
    Model(model::ModelArguments),
    /// Measure
    #[command(subcommand)]
    Bench(BenchArguments),
}

/// `catalogue`
#[derive(Clone, Debug, Args)]
pub(crate) struct CatalogueArguments {
    /// Only what this may mean, such as a100 or "RTX 4090"
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// `up`
#[derive(Clone, Debug, Args)]
pub(crate) struct UpArguments {
    /// Keep keys, genesis and chain in this folder and go on from there next time
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Validators to run; 4 unless the folder says otherwise
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32))]
    pub(crate) validators: Option<u16>,
    /// Port for clients; 9420, or another if that is taken
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Do not start providers and run a first job
    #[arg(long)]
    pub(crate) no_demo: bool,
    /// Address of this machine at which others reach its relay; this machine only unless given
    #[arg(long, value_name = "IP[:PORT]", default_value = "127.0.0.1")]
    pub(crate) relay: RelayAddress,
    /// Let one of the providers lie, to see it caught: about results, or about its capacity
    #[arg(
        long,
        value_name = "WHAT",
        conflicts_with = "no_demo",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "results"
    )]
    pub(crate) cheat: Option<CheatWord>,
}

/// What a provider lies about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum CheatWord {
    /// It hands in false results
    Results,
    /// It opens other blocks of its memory than were drawn
    Capacity,
    /// It computes, but seals its results so that nobody can open them
    Sealed,
    /// It hands in false results with proofs of others
    Proofs,
}

/// Where a relay listens: any free port unless one is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelayAddress(pub(crate) SocketAddr);

impl FromStr for RelayAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, AddrParseError> {
        match text.parse::<IpAddr>() {
            Ok(host) => Ok(Self(SocketAddr::from((host, 0)))),
            Err(_) => text.parse().map(Self),
        }
    }
}

/// A node's name and where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedAddress {
    /// The name, also of its folder.
    pub(crate) name: String,
    /// Where it listens.
    pub(crate) address: Address,
}

/// Not a named address.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NamedAddressError {
    /// No name, or other letters.
    #[error("expected NAME=HOST:PORT with a name of a-z, 0-9 and -")]
    Form,
    /// No address.
    #[error(transparent)]
    Address(#[from] tg_types::BoundError),
}

impl FromStr for NamedAddress {
    type Err = NamedAddressError;

    fn from_str(text: &str) -> Result<Self, NamedAddressError> {
        let (name, address) = text.split_once('=').ok_or(NamedAddressError::Form)?;
        let name: ChainId = name.parse().map_err(|_| NamedAddressError::Form)?;
        Ok(Self { name: name.to_string(), address: address.parse()? })
    }
}

/// An account and its first balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Who receives it.
    pub(crate) account: AccountId,
    /// How much.
    pub(crate) amount: Amount,
}

/// Not an account with an amount.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum GrantError {
    /// No `=`.
    #[error("expected ACCOUNT=AMOUNT")]
    Form,
    /// No account.
    #[error(transparent)]
    Account(#[from] tg_types::IdError),
    /// No amount.
    #[error(transparent)]
    Amount(#[from] tg_types::AmountError),
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let (account, amount) = text.split_once('=').ok_or(GrantError::Form)?;
        Ok(Self { account: account.parse()?, amount: amount.parse()? })
    }
}

/// `genesis`
#[derive(Clone, Debug, Args)]
pub(crate) struct GenesisArguments {
    /// Folder to write into; must not exist or be empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Name of the network: 1 to 32 of a-z, 0-9 and -
    #[arg(long, value_name = "NAME", default_value = "local")]
    pub(crate) chain: ChainId,
    /// A network on one machine or among friends, with a faucet (unless --open is given)
    #[arg(long, conflicts_with = "open")]
    pub(crate) local: bool,
    /// A network of strangers: long unbonding, high stakes, no faucet
    #[arg(long)]
    pub(crate) open: bool,
    /// Seats, on consecutive ports from --host-base on
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with = "seat",
          value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) validators: u16,
    /// Nodes without a seat, on the ports after the seats
    #[arg(long, value_name = "M", default_value_t = 0, conflicts_with = "seat",
          value_parser = clap::value_parser!(u16).range(0..=100))]
    pub(crate) followers: u16,
    /// Address of the first seat
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9430",
        conflicts_with = "seat"
    )]
    pub(crate) host_base: Address,
    /// A seat and where it listens, once per seat
    #[arg(long, value_name = "NAME=HOST:PORT")]
    pub(crate) seat: Vec<NamedAddress>,
    /// A node without a seat and where it listens, once per node
    #[arg(long, value_name = "NAME=HOST:PORT")]
    pub(crate) follower: Vec<NamedAddress>,
    /// An account with a first balance, once per account
    #[arg(long, value_name = "ACCOUNT=AMOUNT")]
    pub(crate) fund: Vec<Grant>,
    /// Most transactions in a block
    #[arg(long, value_name = "N")]
    pub(crate) block_tx_max: Option<u32>,
    /// Most transactions in a second
    #[arg(long, value_name = "N")]
    pub(crate) tx_per_second_max: Option<u32>,
    /// Share of results that is drawn for an audit
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u16).range(0..=100))]
    pub(crate) audit_percent: Option<u16>,
    /// Multiply-adds of a run from which on an audit recomputes drawn tiles instead of all of it
    #[arg(long, value_name = "N")]
    pub(crate) audit_tiles_from: Option<u64>,
}

/// `validator`
#[derive(Clone, Debug, Args)]
pub(crate) struct ValidatorArguments {
    /// Folder of the node, as made by `genesis`
    #[arg(long, value_name = "DIR")]
    pub(crate) home: PathBuf,
    /// Fetch the state from peers instead of replaying history, if there is none yet
    #[arg(long)]
    pub(crate) state_sync: bool,
    /// Open a door for providers and clients, who reach it at this address of ours by TCP and UDP;
    /// seats only, none unless given. Packages of strangers are kept in memory
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) door: Option<Address>,
}

/// Which wallet, and how it is opened.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeyArguments {
    /// Name of the wallet; the only one unless given
    #[arg(long = "wallet", value_name = "NAME")]
    pub(crate) name: Option<WalletName>,
    /// File whose first line is the passphrase
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

/// `wallet`
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum WalletArguments {
    /// Make a wallet with a new key
    New {
        /// Its name
        #[arg(default_value = "main")]
        name: WalletName,
        /// File whose first line is the passphrase
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
    },
    /// List the wallets of this machine
    List,
    /// Show what an account has
    Balance {
        /// The account; that of the wallet unless given
        account: Option<AccountId>,
        /// Name of the wallet; the only one unless given
        #[arg(long = "wallet", value_name = "NAME")]
        name: Option<WalletName>,
    },
    /// Pay an account, wait until it is final, print the receipt
    Send {
        /// Who receives it
        to: AccountId,
        /// How much, in TGRID, such as 1.5
        amount: Amount,
        /// A note for the receiver, at most 64 bytes
        #[arg(long, value_name = "TEXT", default_value = "")]
        memo: String,
        /// 32 hexadecimal digits of your choice: while they are remembered, the network takes no
        /// second transaction with the same
        #[arg(long, value_name = "ID")]
        idempotency: Option<IdempotencyId>,
        /// Which wallet pays
        #[command(flatten)]
        key: KeyArguments,
    },
    /// Copy the sealed key to a file, after opening it
    Backup {
        /// The file to write
        file: PathBuf,
        /// Which wallet
        #[command(flatten)]
        key: KeyArguments,
    },
    /// Make a wallet from a backup
    Restore {
        /// The backup
        file: PathBuf,
        /// The new wallet's name
        #[arg(default_value = "main")]
        name: WalletName,
        /// File whose first line is the passphrase
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
    },
    /// Take trial money on a local network
    Faucet {
        /// How much, in TGRID; the faucet's usual amount unless given
        amount: Option<Amount>,
        /// The account; that of the wallet unless given
        #[arg(long)]
        account: Option<AccountId>,
        /// Name of the wallet; the only one unless given
        #[arg(long = "wallet", value_name = "NAME")]
        name: Option<WalletName>,
    },
}

/// `stake` and `unstake`
#[derive(Clone, Debug, Args)]
pub(crate) struct StakeArguments {
    /// How much, in TGRID, such as 100
    pub(crate) amount: Amount,
    /// Which wallet
    #[command(flatten)]
    pub(crate) key: KeyArguments,
}

/// `nodes`
#[derive(Clone, Debug, Args)]
pub(crate) struct NodesArguments {
    /// How many nodes at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u32,
}

/// `prove`
#[derive(Clone, Debug, Args)]
pub(crate) struct ProveArguments {
    /// The model: a program (.tgp) or an ONNX file
    pub(crate) model: PathBuf,
    /// Its inputs (.npy, .npz or .json)
    #[arg(short, long, value_name = "[NAME=]FILE")]
    pub(crate) input: Vec<model::NamedFile>,
    /// File for the proof; only figures are printed without
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// What the proof does not show: data (inputs and outputs), or all (secret weights as well)
    #[arg(long, value_name = "WHAT")]
    pub(crate) hide: Option<Hide>,
}

/// What a proof does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Hide {
    /// Inputs and outputs.
    Data,
    /// Weights as well, which `model commit` has committed to.
    All,
}

/// `verify`
#[derive(Clone, Debug, Args)]
pub(crate) struct VerifyArguments {
    /// The certificate, proof or receipt
    pub(crate) file: PathBuf,
    /// The network's file, from a place you trust
    #[arg(long, value_name = "FILE")]
    pub(crate) network: Option<PathBuf>,
    /// Say what was checked and on what it rests
    #[arg(long)]
    pub(crate) explain: bool,
}

/// `receipt`
#[derive(Clone, Debug, Args)]
pub(crate) struct ReceiptArguments {
    /// The transaction
    pub(crate) tx: TxId,
    /// File to write; stdout unless given
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `proof`
#[derive(Clone, Debug, Args)]
pub(crate) struct ProofArguments {
    /// The account
    pub(crate) account: AccountId,
    /// File to write; stdout unless given
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

fn height(text: &str) -> Result<Height, std::num::ParseIntError> {
    text.parse().map(Height::new)
}

/// `certificate`
#[derive(Clone, Debug, Args)]
pub(crate) struct CertificateArguments {
    /// The height; the latest unless given
    #[arg(value_parser = height)]
    pub(crate) height: Option<Height>,
    /// File to write; stdout unless given
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// `events`
#[derive(Clone, Debug, Args)]
pub(crate) struct EventsArguments {
    /// Stop after this many lines
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
}

/// `bench`
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum BenchArguments {
    /// Measure a chain of four validators in this process
    #[command(long_about = crate::bench::LONG_ABOUT)]
    Chain(BenchChainArguments),
    /// Measure tensor programs on this machine
    #[command(long_about = crate::bench::tensor::LONG_ABOUT)]
    Tensor(model::BenchTensorArguments),
    /// Measure proofs that models were run
    #[command(long_about = crate::bench::proof::LONG_ABOUT)]
    Proof(model::BenchProofArguments),
    /// Measure jobs through four validators and three providers in this process
    #[command(long_about = crate::bench::jobs::LONG_ABOUT)]
    Jobs(BenchJobsArguments),
    /// Measure how well the scheduler fills machines
    #[command(long_about = crate::bench::packing::LONG_ABOUT)]
    Packing(BenchPackingArguments),
    /// Measure what partitions made on demand give out, against the best fixed partition
    #[command(long_about = crate::bench::mig::LONG_ABOUT)]
    Mig(BenchMigArguments),
    /// Measure how fast the scheduler finds places in a large fleet
    #[command(long_about = crate::bench::sched::LONG_ABOUT)]
    Sched(BenchSchedArguments),
    /// Measure job completion times and deadlines on recorded jobs
    #[command(long_about = crate::bench::jct::LONG_ABOUT)]
    Jct(BenchJctArguments),
    /// Measure promised deadlines
    #[command(long_about = crate::bench::jct::DEADLINES_ABOUT)]
    Deadlines(BenchDeadlinesArguments),
    /// Measure what it is worth to learn run times and failures
    #[command(long_about = crate::bench::jct::ROUTING_ABOUT)]
    Routing(BenchRoutingArguments),
    /// Measure what the ledger learns of run times from settled jobs
    #[command(long_about = crate::bench::learning::LONG_ABOUT)]
    Learning(BenchLearningArguments),
}

/// `bench sched`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchSchedArguments {
    /// GPUs of the made-up fleet
    #[arg(long, value_name = "N", default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    pub(crate) gpus: u64,
    /// Tasks that wait when it begins
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..=4_000_000))]
    pub(crate) queued: u64,
    /// Decisions that are timed
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) decisions: u64,
    /// Of everything that is drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Measure placements through four validators instead
    #[arg(long, conflicts_with_all = ["gpus", "queued", "decisions", "seed"])]
    pub(crate) chain: bool,
    /// Made-up nodes of that chain
    #[arg(long, value_name = "N", default_value_t = 4_096, requires = "chain",
          value_parser = clap::value_parser!(u32).range(4..=16_384))]
    pub(crate) nodes: u32,
    /// How long it is measured
    #[arg(long, value_name = "S", default_value_t = 8, requires = "chain",
          value_parser = clap::value_parser!(u64).range(2..=600))]
    pub(crate) secs: u64,
}

/// `bench jct`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchJctArguments {
    /// List of jobs: timestamp, duration, num_gpus; made up if none is given
    #[arg(long, value_name = "FILE")]
    pub(crate) jobs: Option<PathBuf>,
    /// GPUs, 8 in each machine
    #[arg(long, value_name = "N", default_value_t = 352,
          value_parser = clap::value_parser!(u32).range(8..=100_000))]
    pub(crate) gpus: u32,
    /// Seeds of deadlines and estimates, with commas between them
    #[arg(long, value_name = "K,…", default_value = "1,2,3", value_delimiter = ',')]
    pub(crate) seeds: Vec<u64>,
    /// How wrong estimates are: the standard deviation of the logarithm
    #[arg(long, value_name = "S", default_value_t = 0.0, value_parser = parse_sigma)]
    pub(crate) sigma: f64,
}

/// A standard deviation that makes sense.
fn parse_sigma(text: &str) -> Result<f64, String> {
    let sigma: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=5.0).contains(&sigma) { Ok(sigma) } else { Err("not between 0 and 5".to_owned()) }
}

/// `bench deadlines`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchDeadlinesArguments {
    /// Jobs that ask for a promise
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) jobs: usize,
    /// Seed of the jobs
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Hours from one failure of a machine to the next, in the second run
    #[arg(long, value_name = "H", default_value_t = 6,
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) fails_every_h: u64,
}

/// `bench routing`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchRoutingArguments {
    /// Jobs
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) jobs: usize,
    /// Seeds, with commas between them
    #[arg(long, value_name = "K,…", default_value = "1,2,3", value_delimiter = ',')]
    pub(crate) seeds: Vec<u64>,
}

/// `bench learning`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchLearningArguments {
    /// Seeds, with commas between them
    #[arg(long, value_name = "K,…", default_value = "1,2,3,4,5", value_delimiter = ',')]
    pub(crate) seeds: Vec<u64>,
}

/// `bench packing`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchPackingArguments {
    /// List of machines: sn, cpu_milli, memory_mib, gpu, model
    #[arg(long, value_name = "FILE")]
    pub(crate) nodes: PathBuf,
    /// List of tasks: cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec; may be given again
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) tasks: Vec<PathBuf>,
    /// Random orders of the tasks
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) seeds: u64,
    /// The seed of the first order
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub(crate) first_seed: u64,
    /// Put the machines into a random order too
    #[arg(long)]
    pub(crate) shuffle_nodes: bool,
}

/// `bench mig`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchMigArguments {
    /// List of tasks: num_gpu, gpu_milli, creation_time, deletion_time; may be given again
    #[arg(long, value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) tasks: Vec<PathBuf>,
    /// GPUs of the fleet
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) gpus: u32,
    /// Sequences of tasks
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) seeds: u64,
    /// The seed of the first sequence
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub(crate) first_seed: u64,
    /// Only tasks that want less than a GPU
    #[arg(long)]
    pub(crate) shares: bool,
}

/// `bench jobs`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchJobsArguments {
    /// Seconds of each phase
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(2..=600))]
    pub(crate) secs: u64,
    /// Jobs on the way at once in the first phase
    #[arg(long, value_name = "N", default_value_t = 768)]
    pub(crate) in_flight: usize,
}

/// `bench chain`
#[derive(Clone, Debug, Args)]
pub(crate) struct BenchChainArguments {
    /// Seconds of each phase
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) secs: u64,
    /// Accounts that send
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub(crate) accounts: u32,
    /// Most transactions in a block
    #[arg(long, value_name = "N", default_value_t = crate::bench::BLOCK_TX_MAX)]
    pub(crate) block_tx_max: u32,
    /// Most transactions in a second
    #[arg(long, value_name = "N")]
    pub(crate) tx_per_second_max: Option<u32>,
    /// Add a phase with this many transactions offered per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) offered: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Grant, NamedAddress};
    use clap::{CommandFactory as _, Parser as _};

    #[test]
    fn arguments_are_declared_without_contradiction() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn named_address_and_grant_of_another_form_are_refused() {
        assert!("a=127.0.0.1:1".parse::<NamedAddress>().is_ok());
        for text in ["", "a", "=h:1", "A=h:1", "a/b=h:1", "a=h", "a=h:0"] {
            assert!(text.parse::<NamedAddress>().is_err(), "{text:?}");
        }
        for text in ["", "x", "x=1", "=1"] {
            assert!(text.parse::<Grant>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn global_options_may_stand_behind_the_command() {
        let parsed = Arguments::try_parse_from(["tensorgrid", "status", "--json", "--rpc", "x"]);
        let parsed = parsed.expect("parses");
        assert!(parsed.json);
        assert_eq!(parsed.rpc.as_deref(), Some("x"));
    }
}
