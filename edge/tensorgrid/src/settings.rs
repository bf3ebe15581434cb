//! What was typed, what the environment says and what is usual, resolved once into one value.
//! Commands see only this.

use crate::{
    args::{
        Arguments, BenchArguments, BenchChainArguments, BenchDeadlinesArguments, BenchJctArguments,
        BenchJobsArguments, BenchLearningArguments, BenchMigArguments, BenchPackingArguments,
        BenchRoutingArguments, BenchSchedArguments, CatalogueArguments, CheatWord,
        CommandArguments, GenesisArguments, Grant, KeyArguments, NamedAddress, ProveArguments,
        StakeArguments, UpArguments, ValidatorArguments, VerifyArguments, WalletArguments,
        import::ImportJobArguments,
        jobs::{
            AdjustArguments, CopyArguments, JobArguments, JobOptions, KeysArguments, LogsArguments,
            RunJobArguments, WhyArguments,
        },
        model::{BenchProofArguments, BenchTensorArguments, ModelArguments},
        provide::{DoctorArguments, EarningsArguments, ProvideArguments},
    },
    discovery,
    env::Variable,
    failure::{Failure, OrFail as _},
    keystore::{Keystore, WalletName},
    passphrase::PassphraseSource,
    printer::PrinterSettings,
    work::connect::Way,
};
use age::secrecy::SecretString;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tg_agent::agent::Cheat;
use tg_types::{
    AccountId, Action, Address, Amount, Bps, ChainId, Height, IdempotencyId, Memo, NetworkKind,
    Params, TxId,
};
use tracing_subscriber::filter::LevelFilter;

/// Validators of a local network unless told otherwise: the fewest that survive a fault.
const VALIDATORS: u16 = 4;

/// The whole of it.
#[derive(Debug)]
pub(crate) struct Settings {
    /// What nodes log.
    pub(crate) log: LevelFilter,
    /// What to do.
    pub(crate) command: Command,
}

/// Which node to ask.
#[derive(Clone, Debug)]
pub(crate) enum Rpc {
    /// This one.
    At(String),
    /// The network that `up` runs on this machine.
    Local(discovery::Place),
}

/// A wallet and how it is opened.
#[derive(Clone, Debug)]
pub(crate) struct KeySettings {
    /// The wallets of this machine.
    pub(crate) keystore: Keystore,
    /// Which one; the only one if `None`.
    pub(crate) name: Option<WalletName>,
    /// Its passphrase.
    pub(crate) passphrase: PassphraseSource,
}

/// `up`
#[derive(Debug)]
pub(crate) struct UpSettings {
    /// Where to keep everything; in a temporary folder if `None`.
    pub(crate) data: Option<PathBuf>,
    /// How many validators; as the folder says if `None`.
    pub(crate) validators: Option<u16>,
    /// How many if nothing says otherwise.
    pub(crate) validators_usual: u16,
    /// Port for clients; the usual one or any if `None`.
    pub(crate) port: Option<u16>,
    /// Whether to start providers and run a first job.
    pub(crate) demo: bool,
    /// Where the relay listens.
    pub(crate) relay: SocketAddr,
    /// Let one of the providers lie.
    pub(crate) cheat: Option<Cheat>,
    /// Where to note that the network runs.
    pub(crate) place: discovery::Place,
}

/// `genesis`
#[derive(Debug)]
pub(crate) struct GenesisSettings {
    /// Folder to write into.
    pub(crate) out: PathBuf,
    /// Name of the network.
    pub(crate) chain: ChainId,
    /// What it is for.
    pub(crate) kind: NetworkKind,
    /// The ledger's parameters.
    pub(crate) params: Params,
    /// Seats and where they listen.
    pub(crate) seats: Vec<NamedAddress>,
    /// Followers and where they listen.
    pub(crate) followers: Vec<NamedAddress>,
    /// First balances.
    pub(crate) grants: Vec<Grant>,
}

/// `validator`
#[derive(Debug)]
pub(crate) struct ValidatorSettings {
    /// Folder of the node.
    pub(crate) home: PathBuf,
    /// Where to answer clients; as the folder says if `None`.
    pub(crate) rpc: Option<SocketAddr>,
    /// Whether to fetch the state from peers.
    pub(crate) state_sync: bool,
    /// Where providers and clients reach the door; as the folder says if `None`.
    pub(crate) door: Option<Address>,
}

/// What a transaction of a wallet asks for.
#[derive(Debug)]
pub(crate) struct SendSettings {
    /// Which node to ask.
    pub(crate) rpc: Rpc,
    /// Who signs and pays.
    pub(crate) key: KeySettings,
    /// What it asks for.
    pub(crate) action: Action,
    /// A mark against sending it twice.
    pub(crate) idempotency: Option<IdempotencyId>,
}

/// An account named by itself or by a wallet.
#[derive(Clone, Debug)]
pub(crate) struct AccountSettings {
    /// The account, if it was given.
    pub(crate) account: Option<AccountId>,
    /// The wallets of this machine.
    pub(crate) keystore: Keystore,
    /// Whose account otherwise.
    pub(crate) name: Option<WalletName>,
}

/// `wallet`, as far as it is not a transaction
#[derive(Debug)]
pub(crate) enum WalletSettings {
    /// Make a wallet.
    New(KeySettings),
    /// Make a wallet from a backup.
    Restore(KeySettings, PathBuf),
    /// Copy a sealed key.
    Backup(KeySettings, PathBuf),
    /// List wallets.
    List(Keystore),
    /// Show an account.
    Balance(Rpc, AccountSettings),
    /// Take trial money.
    Faucet(Rpc, AccountSettings, Option<Amount>),
}

/// `verify`
#[derive(Debug)]
pub(crate) struct VerifySettings {
    /// The document.
    pub(crate) file: PathBuf,
    /// The network's file, if it was given.
    pub(crate) network: Option<PathBuf>,
    /// Whether to say what was checked.
    pub(crate) explain: bool,
}

/// A document to fetch.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// A transaction's receipt.
    Receipt(TxId),
    /// An account's entry.
    Proof(AccountId),
    /// A certified header; the latest if `None`.
    Certificate(Option<Height>),
}

/// `receipt`, `proof` and `certificate`
#[derive(Debug)]
pub(crate) struct SaveSettings {
    /// Which node to ask.
    pub(crate) rpc: Rpc,
    /// What to fetch.
    pub(crate) wanted: Wanted,
    /// File to write; stdout if `None`.
    pub(crate) out: Option<PathBuf>,
}

/// `bench chain`
#[derive(Clone, Debug)]
pub(crate) struct BenchSettings {
    /// Seconds of each phase.
    pub(crate) secs: u64,
    /// Accounts that send.
    pub(crate) accounts: u32,
    /// Most transactions in a block.
    pub(crate) block_tx_max: u32,
    /// Most transactions in a second.
    pub(crate) tx_per_second_max: Option<u32>,
    /// Transactions offered per second in an extra phase.
    pub(crate) offered: Option<u32>,
}

/// Commands about jobs
#[derive(Debug)]
pub(crate) struct JobSettings {
    /// How the network is reached.
    pub(crate) way: Way,
    /// What to do.
    pub(crate) command: JobCommand,
}

/// `provide`
#[derive(Debug)]
pub(crate) struct ProvideSettings {
    /// How the network is reached.
    pub(crate) way: Way,
    /// Folder for what is kept while it runs.
    pub(crate) state: PathBuf,
    /// What was typed.
    pub(crate) arguments: ProvideArguments,
}

/// What to do about jobs.
#[derive(Debug)]
pub(crate) enum JobCommand {
    Quote(Box<JobOptions>),
    Run(Box<RunJobArguments>),
    Ps,
    Show(JobArguments),
    Why(WhyArguments),
    Stop(JobArguments),
    Adjust(AdjustArguments),
    Resume(JobArguments),
    Complain(JobArguments),
    Keys(KeysArguments),
    Logs(LogsArguments),
    Copy(CopyArguments),
}

/// What to do, with everything it depends on.
#[derive(Debug)]
pub(crate) enum Command {
    Up(UpSettings),
    Genesis(GenesisSettings),
    Validator(ValidatorSettings),
    Wallet(WalletSettings),
    Send(SendSettings),
    Ticket(Rpc),
    Status(Rpc),
    Nodes(Rpc, u32),
    Prove(PathBuf, ProveArguments),
    Verify(VerifySettings),
    Save(SaveSettings),
    Events(Rpc, Option<u64>),
    Jobs(JobSettings),
    Provide(Box<ProvideSettings>),
    Doctor(DoctorArguments, Keystore),
    Earnings(Way, PathBuf, EarningsArguments),
    Import(ImportJobArguments),
    /// Which accelerators are known.
    Catalogue(CatalogueArguments),
    Model(Way, ModelArguments),
    BenchChain(BenchSettings),
    BenchProof(BenchProofArguments),
    BenchTensor(BenchTensorArguments),
    BenchJobs(BenchJobsArguments),
    BenchPacking(BenchPackingArguments),
    BenchMig(BenchMigArguments),
    BenchSched(BenchSchedArguments),
    BenchJct(BenchJctArguments),
    BenchDeadlines(BenchDeadlinesArguments),
    BenchRouting(BenchRoutingArguments),
    BenchLearning(BenchLearningArguments),
}

/// Folders of the user.
struct Homes {
    wallets: PathBuf,
    keys: PathBuf,
    state: PathBuf,
    place: discovery::Place,
}

impl Homes {
    fn resolve() -> Self {
        let home = Variable::Home.path().unwrap_or_else(std::env::temp_dir);
        let base = |variable: Variable, usual: &str| {
            let given = variable.path().filter(|path| path.is_absolute());
            given.unwrap_or_else(|| home.join(usual)).join("tensorgrid")
        };
        let data = base(Variable::XdgDataHome, ".local/share");
        let state = base(Variable::XdgStateHome, ".local/state");
        let wallets = Variable::Wallets.path().unwrap_or_else(|| data.join("wallets"));
        let keys = data.join("keys");
        let place = discovery::Place::in_folder(&state);
        Self { wallets, keys, state, place }
    }

    fn way(self, typed: Option<String>) -> Way {
        let join = typed.or_else(|| Variable::Join.get());
        Way { join, place: self.place, keys: self.keys }
    }

    fn keystore(&self) -> Keystore {
        Keystore::new(self.wallets.clone())
    }

    fn key(&self, name: Option<WalletName>, passphrase_file: Option<PathBuf>) -> KeySettings {
        let passphrase = match (passphrase_file, Variable::Passphrase.get()) {
            (Some(path), _) => PassphraseSource::File(path),
            (None, Some(given)) => PassphraseSource::Given(SecretString::from(given)),
            (None, None) => PassphraseSource::Prompt,
        };
        KeySettings { keystore: self.keystore(), name, passphrase }
    }

    fn account(&self, account: Option<AccountId>, name: Option<WalletName>) -> AccountSettings {
        AccountSettings { account, keystore: self.keystore(), name }
    }
}

impl Settings {
    /// How to talk, which must be known even if the rest is refused.
    #[must_use]
    pub(crate) fn printer(json: bool) -> PrinterSettings {
        PrinterSettings { json, no_color: Variable::NoColor.get().is_some() }
    }

    /// Resolves what was typed with the environment.
    ///
    /// # Errors
    /// If values contradict each other or are not in their form.
    pub(crate) fn resolve(arguments: Arguments) -> Result<Self, Failure> {
        let Arguments { rpc: typed, join, command, .. } = arguments;
        let homes = Homes::resolve();
        let rpc = match typed.clone().or_else(|| Variable::Rpc.get()) {
            Some(url) => Rpc::At(url),
            None => Rpc::Local(homes.place.clone()),
        };
        let command = match command {
            CommandArguments::Up(up) => Command::Up(up_settings(up, homes.place)),
            CommandArguments::Genesis(genesis) => Command::Genesis(genesis_settings(genesis)?),
            CommandArguments::Validator(validator) => {
                Command::Validator(validator_settings(validator, typed.as_deref())?)
            }
            CommandArguments::Wallet(wallet) => wallet_command(wallet, rpc, &homes)?,
            CommandArguments::Stake(StakeArguments { amount, key }) => {
                send(rpc, &homes, key, Action::Stake { amount })
            }
            CommandArguments::Unstake(StakeArguments { amount, key }) => {
                send(rpc, &homes, key, Action::Unstake { amount })
            }
            CommandArguments::Ticket => Command::Ticket(rpc),
            CommandArguments::Status => Command::Status(rpc),
            CommandArguments::Nodes(nodes) => Command::Nodes(rpc, nodes.limit),
            CommandArguments::Prove(prove) => Command::Prove(homes.keys, prove),
            CommandArguments::Verify(VerifyArguments { file, network, explain }) => {
                Command::Verify(VerifySettings { file, network, explain })
            }
            CommandArguments::Receipt(receipt) => {
                save(rpc, Wanted::Receipt(receipt.tx), receipt.out)
            }
            CommandArguments::Proof(proof) => save(rpc, Wanted::Proof(proof.account), proof.out),
            CommandArguments::Certificate(certificate) => {
                save(rpc, Wanted::Certificate(certificate.height), certificate.out)
            }
            CommandArguments::Events(events) => Command::Events(rpc, events.count),
            CommandArguments::Quote(options) => jobs(homes.way(join), JobCommand::Quote(options)),
            CommandArguments::Run(run) => jobs(homes.way(join), JobCommand::Run(run)),
            CommandArguments::Logs(logs) => jobs(homes.way(join), JobCommand::Logs(logs)),
            CommandArguments::Cp(copy) => jobs(homes.way(join), JobCommand::Copy(copy)),
            CommandArguments::Ps => jobs(homes.way(join), JobCommand::Ps),
            CommandArguments::Show(job) => jobs(homes.way(join), JobCommand::Show(job)),
            CommandArguments::Why(job) => jobs(homes.way(join), JobCommand::Why(job)),
            CommandArguments::Stop(job) => jobs(homes.way(join), JobCommand::Stop(job)),
            CommandArguments::Adjust(job) => jobs(homes.way(join), JobCommand::Adjust(job)),
            CommandArguments::Resume(job) => jobs(homes.way(join), JobCommand::Resume(job)),
            CommandArguments::Complain(job) => jobs(homes.way(join), JobCommand::Complain(job)),
            CommandArguments::Keys(keys) => jobs(homes.way(join), JobCommand::Keys(keys)),
            CommandArguments::Provide(arguments) => {
                let state = homes.state.clone();
                let way = homes.way(join);
                Command::Provide(Box::new(ProvideSettings { way, state, arguments }))
            }
            CommandArguments::Doctor(doctor) => Command::Doctor(doctor, homes.keystore()),
            CommandArguments::Earnings(earnings) => {
                let state = homes.state.clone();
                Command::Earnings(homes.way(join), state, earnings)
            }
            CommandArguments::Import(import) => Command::Import(import),
            CommandArguments::Catalogue(arguments) => Command::Catalogue(arguments),
            CommandArguments::Model(model) => Command::Model(homes.way(join), model),
            CommandArguments::Bench(bench) => bench_command(bench),
        };
        Ok(Self { log: log_level()?, command })
    }
}

fn bench_command(bench: BenchArguments) -> Command {
    match bench {
        BenchArguments::Tensor(tensor) => Command::BenchTensor(tensor),
        BenchArguments::Proof(proof) => Command::BenchProof(proof),
        BenchArguments::Packing(packing) => Command::BenchPacking(packing),
        BenchArguments::Mig(mig) => Command::BenchMig(mig),
        BenchArguments::Sched(sched) => Command::BenchSched(sched),
        BenchArguments::Jct(jct) => Command::BenchJct(jct),
        BenchArguments::Deadlines(deadlines) => Command::BenchDeadlines(deadlines),
        BenchArguments::Routing(routing) => Command::BenchRouting(routing),
        BenchArguments::Learning(learning) => Command::BenchLearning(learning),
        BenchArguments::Jobs(jobs) => Command::BenchJobs(jobs),
        BenchArguments::Chain(chain) => Command::BenchChain(bench_settings(&chain)),
    }
}

fn jobs(way: Way, command: JobCommand) -> Command {
    Command::Jobs(JobSettings { way, command })
}

fn log_level() -> Result<LevelFilter, Failure> {
    let Some(text) = Variable::Log.get() else { return Ok(LevelFilter::ERROR) };
    let what = format!("{} is {text:?}", Variable::Log.name());
    text.parse()
        .map_err(|_| Failure::misuse(what, "use one of off, error, warn, info, debug, trace"))
}

fn up_settings(up: UpArguments, place: discovery::Place) -> UpSettings {
    UpSettings {
        data: up.data,
        validators: up.validators,
        validators_usual: VALIDATORS,
        port: up.port,
        demo: !up.no_demo,
        relay: up.relay.0,
        cheat: up.cheat.map(|what| match what {
            CheatWord::Results => Cheat::Results,
            CheatWord::Capacity => Cheat::Capacity,
            CheatWord::Sealed => Cheat::Sealed,
            CheatWord::Proofs => Cheat::Proofs,
        }),
        place,
    }
}

fn genesis_settings(genesis: GenesisArguments) -> Result<GenesisSettings, Failure> {
    let kind = if genesis.open { NetworkKind::Open } else { NetworkKind::Local };
    let mut params = match kind {
        NetworkKind::Local => Params::local(),
        NetworkKind::Open => Params::open(),
    };
    params.block_tx_max = genesis.block_tx_max.unwrap_or(params.block_tx_max);
    params.tx_per_second_max = genesis.tx_per_second_max.unwrap_or(params.tx_per_second_max);
    let share = genesis.audit_percent.and_then(|percent| Bps::new(100 * percent).ok());
    params.jobs.audit_share = share.unwrap_or(params.jobs.audit_share);
    let tiles_from = genesis.audit_tiles_from;
    params.jobs.audit_tiles_from = tiles_from.unwrap_or(params.jobs.audit_tiles_from);
    params.check().or_fail("these parameters cannot be used", "see `tensorgrid genesis --help`")?;
    let (seats, mut followers) = if genesis.seat.is_empty() {
        let count = usize::from(genesis.validators);
        let mut nodes = consecutive(&genesis.host_base, genesis.validators + genesis.followers)?;
        let followers = nodes.split_off(count);
        (name_all("validator", nodes), name_all("follower", followers))
    } else {
        (genesis.seat, Vec::new())
    };
    followers.extend(genesis.follower);
    check_names(&seats, &followers)?;
    let (out, chain, grants) = (genesis.out, genesis.chain, genesis.fund);
    Ok(GenesisSettings { out, chain, kind, params, seats, followers, grants })
}

/// Addresses on consecutive ports.
fn consecutive(base: &Address, count: u16) -> Result<Vec<Address>, Failure> {
    let hint = "choose a lower port for --host-base";
    let (host, port) = base.as_str().rsplit_once(':').unwrap_or((base.as_str(), "0"));
    let first: u16 = port.parse().or_fail("--host-base has no port", hint)?;
    let address = |offset: u16| {
        let port = first.checked_add(offset)?;
        format!("{host}:{port}").parse().ok()
    };
    (0..count)
        .map(address)
        .collect::<Option<Vec<Address>>>()
        .ok_or_else(|| Failure::misuse(format!("{count} ports from {base} on do not exist"), hint))
}

fn name_all(word: &str, addresses: Vec<Address>) -> Vec<NamedAddress> {
    let named = |(number, address)| NamedAddress { name: format!("{word}-{number}"), address };
    (1..).zip(addresses).map(named).collect()
}

fn check_names(seats: &[NamedAddress], followers: &[NamedAddress]) -> Result<(), Failure> {
    let mut names: Vec<&str> =
        seats.iter().chain(followers).map(|node| node.name.as_str()).collect();
    names.sort_unstable();
    let repeated = names.windows(2).find_map(|pair| match pair {
        [left, right] if left == right => Some(*left),
        _ => None,
    });
    match repeated {
        Some(name) => Err(Failure::misuse(
            format!("two nodes are named {name}"),
            "give every --seat and --follower its own name",
        )),
        None => Ok(()),
    }
}

fn validator_settings(
    validator: ValidatorArguments,
    rpc: Option<&str>,
) -> Result<ValidatorSettings, Failure> {
    let rpc = rpc.map(|text| text.strip_prefix("http://").unwrap_or(text).parse()).transpose();
    let hint = "for `validator`, --rpc is an address to listen on, such as 127.0.0.1:9420";
    let rpc = rpc.map_err(|error: std::net::AddrParseError| {
        Failure::misuse("--rpc is no address to listen on", hint).because(&error)
    })?;
    let ValidatorArguments { home, state_sync, door } = validator;
    Ok(ValidatorSettings { home, rpc, state_sync, door })
}

fn send(rpc: Rpc, homes: &Homes, key: KeyArguments, action: Action) -> Command {
    let key = homes.key(key.name, key.passphrase_file);
    Command::Send(SendSettings { rpc, key, action, idempotency: None })
}

fn save(rpc: Rpc, wanted: Wanted, out: Option<PathBuf>) -> Command {
    Command::Save(SaveSettings { rpc, wanted, out })
}

fn wallet_command(wallet: WalletArguments, rpc: Rpc, homes: &Homes) -> Result<Command, Failure> {
    Ok(Command::Wallet(match wallet {
        WalletArguments::New { name, passphrase_file } => {
            WalletSettings::New(homes.key(Some(name), passphrase_file))
        }
        WalletArguments::Restore { file, name, passphrase_file } => {
            WalletSettings::Restore(homes.key(Some(name), passphrase_file), file)
        }
        WalletArguments::Backup { file, key } => {
            WalletSettings::Backup(homes.key(key.name, key.passphrase_file), file)
        }
        WalletArguments::List => WalletSettings::List(homes.keystore()),
        WalletArguments::Balance { account, name } => {
            WalletSettings::Balance(rpc, homes.account(account, name))
        }
        WalletArguments::Faucet { amount, account, name } => {
            WalletSettings::Faucet(rpc, homes.account(account, name), amount)
        }
        WalletArguments::Send { to, amount, memo, idempotency, key } => {
            let memo = Memo::new(memo.into_bytes()).map_err(|error| {
                Failure::misuse("the memo is too long", "shorten it").because(&error)
            })?;
            let key = homes.key(key.name, key.passphrase_file);
            let action = Action::Transfer { to, amount, memo };
            return Ok(Command::Send(SendSettings { rpc, key, action, idempotency }));
        }
    }))
}

fn bench_settings(chain: &BenchChainArguments) -> BenchSettings {
    BenchSettings {
        secs: chain.secs,
        accounts: chain.accounts,
        block_tx_max: chain.block_tx_max,
        tx_per_second_max: chain.tx_per_second_max,
        offered: chain.offered,
    }
}

/// The network file beside a document, for a hint.
#[must_use]
pub(crate) fn network_beside(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join("network.json")
}

#[cfg(test)]
mod tests {
    use super::{Command, Settings, consecutive};
    use crate::{args::Arguments, failure::Exit};
    use clap::Parser as _;

    fn resolve(words: &[&str]) -> Result<Settings, crate::failure::Failure> {
        let words = std::iter::once("tensorgrid").chain(words.iter().copied());
        Settings::resolve(Arguments::try_parse_from(words).expect("parses"))
    }

    #[test]
    fn genesis_names_and_ports_are_consecutive() {
        let settings = resolve(&[
            "genesis",
            "--out",
            "x",
            "--validators",
            "2",
            "--followers",
            "1",
            "--host-base",
            "10.0.0.1:7000",
        ]);
        let Command::Genesis(genesis) = settings.expect("resolves").command else {
            panic!("another command")
        };
        let addresses: Vec<&str> = genesis.seats.iter().map(|seat| seat.address.as_str()).collect();
        assert_eq!(addresses, ["10.0.0.1:7000", "10.0.0.1:7001"]);
        let follower = genesis.followers.first().expect("one");
        assert_eq!(
            (follower.name.as_str(), follower.address.as_str()),
            ("follower-1", "10.0.0.1:7002")
        );
        assert!(consecutive(&"h:65535".parse().expect("an address"), 2).is_err());
    }

    #[test]
    fn genesis_with_two_nodes_of_one_name_is_refused() {
        let words = ["genesis", "--out", "x", "--seat", "a=h:1", "--follower", "a=h:2"];
        assert_eq!(resolve(&words).expect_err("refused").exit, Exit::Misused);
    }

    #[test]
    fn validator_with_a_url_that_is_no_address_is_refused() {
        assert!(resolve(&["validator", "--home", "x", "--rpc", "127.0.0.1:0"]).is_ok());
        assert!(resolve(&["validator", "--home", "x", "--rpc", "http://127.0.0.1:1"]).is_ok());
        let refused = resolve(&["validator", "--home", "x", "--rpc", "example.org"]);
        assert_eq!(refused.expect_err("refused").exit, Exit::Misused);
    }
}
