//! A whole network on this machine, in one process, until it is told to stop.

use crate::{
    args::NamedAddress,
    commands::{genesis, validator},
    discovery::Current,
    failure::{Exit, Failure, OrFail as _},
    files::TemporaryFolder,
    folder::{self, FolderError, NodeFolder},
    network,
    node::{self, Duties, NodeError, Reach, RunningNode},
    printer::{Printer, Tone, duration, lines},
    settings::UpSettings,
    stop::StopSignal,
    work::{
        local::{Doors, Seat},
        machine,
        provider::Provider,
        story::{self, Told},
    },
};
use serde::Serialize;
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tg_agent::task_run::Workshop;
use tg_api::{
    Client, Document, NetworkDocument, RunningApi,
    text::{Number, Text},
    verify,
};
use tg_chain::Peer;
use tg_net::RelaySettings;
use tg_sandbox::SandboxError;
use tg_types::{ChainId, GenesisHash, Height, NetworkKind, Params, SecretKey, TxId};
use tokio::runtime::{Builder, Runtime};

/// Port for clients unless another is asked for.
const PORT: u16 = 9_420;

/// How long the first block may take before something must be wrong.
const FINALITY_WAIT: Duration = Duration::from_secs(60);

/// How often the running network is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How long the network of peers may take to end.
const PEERS_WAIT: Duration = Duration::from_secs(2);

/// Threads for the network of peers: on a small machine the validators need the others.
const PEER_THREADS: usize = 2;

#[derive(Serialize)]
struct Ready {
    rpc: String,
    page: String,
    chain: Text<ChainId>,
    genesis: Text<GenesisHash>,
    network: PathBuf,
    validators: usize,
    height: Number<Height>,
    finality_ms: u64,
    ready_ms: u64,
    providers: usize,
    /// The way in for other machines.
    ticket: Option<String>,
    job: Option<Told>,
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// `up`
pub(crate) fn run(settings: &UpSettings, printer: &Printer) -> Result<Exit, Failure> {
    let started = Instant::now();
    let stop = StopSignal::listen().or_fail("signals cannot be heard", "try again")?;
    let temporary = match settings.data {
        Some(_) => None,
        None => Some(TemporaryFolder::new().or_fail("no temporary folder", "give --data DIR")?),
    };
    let data = match (&settings.data, &temporary) {
        (Some(data), _) => data.clone(),
        (None, Some(temporary)) => temporary.path().to_owned(),
        (None, None) => std::env::temp_dir(),
    };
    let seats = open_seats(settings, &data, printer)?;
    let nodes = start_nodes(&seats)?;
    printer.say(format_args!(
        "Started {} validators, each checking every signature and every block ({}).",
        nodes.len(),
        duration(started.elapsed())
    ));
    let mut network = Network { nodes, api: None, peers: None };
    let outcome = serve(settings, &seats, &data, &mut network, started, &stop, printer);
    let stopping = Instant::now();
    printer.say("Stopping.");
    settings.place.forget();
    network.stop();
    drop(seats);
    let kept = match &settings.data {
        Some(data) => format!("The chain is kept in {}.", data.display()),
        None => "Temporary data was removed.".to_owned(),
    };
    drop(temporary);
    outcome?;
    printer.say(format_args!("Stopped in {}. {kept}", duration(stopping.elapsed())));
    Ok(Exit::Done)
}

/// What runs.
struct Network {
    nodes: Vec<RunningNode>,
    api: Option<RunningApi>,
    peers: Option<Peers>,
}

/// The network of peers: validators' doors and providers, on threads of their own.
struct Peers {
    runtime: Runtime,
    doors: Doors,
    providers: Vec<Provider>,
}

impl Peers {
    fn stop(self) {
        let Self { runtime, doors, providers } = self;
        runtime.block_on(async {
            let stopping = providers.into_iter().map(Provider::stop);
            for stopped in stopping {
                stopped.await;
            }
            doors.close().await;
        });
        runtime.shutdown_timeout(PEERS_WAIT);
    }
}

impl Network {
    fn first(&self) -> Result<&RunningNode, Failure> {
        self.nodes.first().ok_or_else(|| Failure::new("there is no validator", "give --data DIR"))
    }

    fn stop(&mut self) {
        if let Some(peers) = self.peers.take() {
            peers.stop();
        }
        drop(self.api.take());
        node::stop_all(std::mem::take(&mut self.nodes));
    }

    /// Refuses to go on when a validator has ended by itself.
    fn check_alive(&self) -> Result<(), Failure> {
        if self.nodes.iter().all(RunningNode::is_alive) {
            return Ok(());
        }
        let hint = "its own message above says why; start again, the chain continues where it was";
        Err(Failure::new("a validator stopped by itself", hint))
    }
}

/// Makes the network or opens the one in the folder; gives the folders of its seats.
fn open_seats(
    settings: &UpSettings,
    data: &Path,
    printer: &Printer,
) -> Result<Vec<NodeFolder>, Failure> {
    let what = "the network cannot be opened";
    let fail = |error: &FolderError| validator::folder_failure(what, error);
    if folder::holds_network(data).map_err(|error| fail(&error))? {
        printer.say(format_args!("Opening the network in {}.", data.display()));
    } else {
        let count = settings.validators.unwrap_or(settings.validators_usual);
        let place = match &settings.data {
            Some(_) => format!("in {}", data.display()),
            None => "in a temporary folder that goes when the network stops".to_owned(),
        };
        printer.say(format_args!("Making a local network of {count} validators {place}."));
        make(data, count)?;
    }
    let genesis = folder::read_genesis(data).map_err(|error| fail(&error))?;
    let seats = seat_folders(data)
        .iter()
        .map(|path| NodeFolder::open(path))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| fail(&error))?;
    let (here, all) = (seats.len(), genesis.validators().len());
    let hint = "run the seats where they are with `tensorgrid validator`, or use another folder";
    if here != all || seats.iter().any(|seat| seat.genesis.hash() != genesis.hash()) {
        let what = format!("{} has {here} of the {all} seats of its genesis", data.display());
        return Err(Failure::new(what, hint));
    }
    if settings.validators.is_some_and(|asked| usize::from(asked) != all) {
        let what = format!("{} has {all} validators, and a committee is fixed", data.display());
        return Err(Failure::misuse(what, "leave --validators away, or use another folder"));
    }
    Ok(seats)
}

fn make(data: &Path, count: u16) -> Result<(), Failure> {
    // The addresses in the genesis are placeholders: the seats of one process find each other by
    // ports that are free at every start.
    let named = |number: u16| NamedAddress {
        name: format!("validator-{number}"),
        address: format!("127.0.0.1:{}", PORT + number).parse().expect("an address"),
    };
    let seats: Vec<NamedAddress> = (1..=count).map(named).collect();
    let draft = network::Draft {
        chain: "local".parse().expect("a chain's name"),
        kind: NetworkKind::Local,
        params: Params::local(),
        seats: &seats,
        followers: &[],
        grants: &[],
    };
    network::make(data, &draft).map(|_| ()).map_err(|error| genesis::failure(&error))
}

/// Folders with a threshold share below a network's folder.
fn seat_folders(data: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(data) else { return Vec::new() };
    let folders = entries.flatten().map(|entry| entry.path());
    let mut seats: Vec<PathBuf> = folders.filter(|path| path.join("share").exists()).collect();
    seats.sort();
    seats
}

/// Starts all seats side by side on free ports. The first one answers clients.
pub(crate) fn start_nodes(seats: &[NodeFolder]) -> Result<Vec<RunningNode>, Failure> {
    let addresses = node::free_addresses(seats.len());
    let addresses = addresses.or_fail("there are no free ports", "close other programs")?;
    let peers: Vec<Peer> = seats
        .iter()
        .zip(&addresses)
        .map(|(seat, address)| Peer { key: seat.key.public(), address: *address })
        .collect();
    let started: Vec<Result<RunningNode, NodeError>> = thread::scope(|scope| {
        let starting: Vec<_> = seats
            .iter()
            .zip(addresses)
            .enumerate()
            .map(|(number, (seat, listen))| {
                let reach = Reach { listen, validators: peers.clone(), followers: Vec::new() };
                let (answers, housemates) = (number == 0, seats.len());
                let duties = Duties { state_sync: false, answers, housemates };
                scope.spawn(move || RunningNode::start(seat, reach, duties))
            })
            .collect();
        starting.into_iter().map(|thread| thread.join().expect("starting does not panic")).collect()
    });
    let nodes: Result<Vec<RunningNode>, NodeError> = started.into_iter().collect();
    nodes.map_err(|error| validator::failure(&error))
}

/// The search for a way to run strangers' programs.
type Trial = JoinHandle<Result<Arc<Workshop>, SandboxError>>;

/// Everything between start and stop.
fn serve(
    settings: &UpSettings,
    seats: &[NodeFolder],
    data: &Path,
    network: &mut Network,
    started: Instant,
    stop: &StopSignal,
    printer: &Printer,
) -> Result<(), Failure> {
    // Trying out sandboxes takes a moment; the chain starts meanwhile.
    let folder = data.join("sandbox");
    let workshop: Trial = thread::spawn(move || machine::workshop(&folder, false));
    let faucet = seats.iter().find_map(|seat| seat.faucet.as_ref());
    let api = start_api(network.first()?, faucet, settings.port)?;
    let rpc = format!("http://{}", api.address());
    network.api = Some(api);
    let Some(height) = first_final(network, stop, printer)? else { return Ok(()) };
    let finality = started.elapsed();
    printer.say(format_args!("Block {height} is final ({}).", duration(finality)));
    let file = folder::network_path(data);
    let genesis = network.first()?.chain().genesis();
    let (chain, hash) = (Text(genesis.chain()), Text(genesis.hash()));
    let (peers, job) = open_doors(settings, seats, network, workshop, printer)?;
    let current = Current {
        pid: std::process::id(),
        rpc: rpc.clone(),
        network: file.clone(),
        ticket: peers.doors.ticket().map(|ticket| ticket.to_string()),
    };
    settings.place.note(&current).or_fail(
        "other commands cannot find this network",
        "set XDG_STATE_HOME to a folder of yours",
    )?;
    let (providers, ticket) = (peers.providers.len(), current.ticket);
    network.peers = Some(peers);
    if let Some(told) = &job {
        check_receipt(&rpc, TxId::new(*told.job.0.as_bytes()), printer)?;
    }
    let ready = Ready {
        page: format!("{rpc}/"),
        rpc,
        chain,
        genesis: hash,
        network: file,
        validators: seats.len(),
        height: Number(height),
        finality_ms: ms(finality),
        ready_ms: ms(started.elapsed()),
        providers,
        ticket,
        job,
    };
    printer.result(&ready, || ready_text(&ready, printer));
    while !stop.came_within(10 * LOOK) {
        network.check_alive()?;
    }
    Ok(())
}

/// Opens the validators' doors, starts providers and runs a first job, unless told not to.
fn open_doors(
    settings: &UpSettings,
    seats: &[NodeFolder],
    network: &Network,
    workshop: Trial,
    printer: &Printer,
) -> Result<(Peers, Option<Told>), Failure> {
    let what = "the providers of this machine cannot be reached";
    let hint =
        "start with --no-demo to look at the chain without them; TENSORGRID_LOG=info says more";
    let runtime = Builder::new_multi_thread().worker_threads(PEER_THREADS).enable_all().build();
    let runtime = runtime.or_fail(what, hint)?;
    let pairs = seats.iter().zip(&network.nodes);
    let open: Vec<Seat> = pairs.map(|(folder, node)| Seat::of(folder, node)).collect();
    let opening = Doors::open(open, RelaySettings::new(settings.relay));
    let doors = runtime.block_on(opening).or_fail(what, hint)?;
    let mut peers = Peers { runtime, doors, providers: Vec::new() };
    if !settings.demo {
        return Ok((peers, None));
    }
    let workshop = workshop.join().ok().and_then(|workshop| match workshop {
        Ok(workshop) => Some(workshop),
        Err(error) => {
            printer.say(format_args!("Strangers' programs cannot be run here: {error}."));
            None
        }
    });
    let starting = story::providers(&peers.doors, workshop, settings.cheat, printer);
    let started = peers.runtime.block_on(starting);
    peers.providers = started.or_fail(what, hint)?;
    let told = peers.runtime.block_on(story::tell(&peers.doors, 7, printer));
    let told = told.or_fail("the first job did not go through", hint)?;
    Ok((peers, Some(told)))
}

/// Checks the receipt of the first job's transaction as a stranger would.
fn check_receipt(rpc: &str, tx: TxId, printer: &Printer) -> Result<(), Failure> {
    let what = "the first job's receipt cannot be had";
    let hint = "start with --no-demo to look at the network without it";
    let mut client = Client::new(rpc).or_fail(what, hint)?;
    let network: NetworkDocument = client.network().or_fail(what, hint)?;
    let receipt = Document::Receipt(Box::new(client.receipt(tx).or_fail(what, hint)?));
    verify(&receipt, &network).or_fail("the first job's receipt does not hold", hint)?;
    printer.say("Its receipt holds: path, header and the committee's certificate were checked.");
    Ok(())
}

fn ready_text(ready: &Ready, printer: &Printer) -> String {
    let rows = [
        ("status page", ready.page.clone()),
        ("JSON-RPC", format!("{}/rpc", ready.rpc)),
        ("network file", ready.network.display().to_string()),
        ("genesis", ready.genesis.to_string()),
        ("more nodes", "tensorgrid provide, or with --join and this ticket elsewhere:".to_owned()),
        ("ticket", ready.ticket.clone().unwrap_or_default()),
        ("trial money", "tensorgrid wallet new, then tensorgrid wallet faucet".to_owned()),
    ];
    let heading = printer.word(Tone::Good, "The network runs.");
    let after = duration(Duration::from_millis(ready.ready_ms));
    format!("{heading} Ready after {after}; ^C stops it.\n{}", lines(&rows))
}

fn start_api(
    node: &RunningNode,
    faucet: Option<&SecretKey>,
    port: Option<u16>,
) -> Result<RunningApi, Failure> {
    let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let usual = match port {
        None => node.serve(at(PORT), faucet).or_else(|_| node.serve(at(0), faucet)),
        Some(port) => node.serve(at(port), faucet),
    };
    usual.or_fail("clients cannot be answered", "choose another port with --port; 0 takes any")
}

/// Waits for a block that became final in this run; `None` if told to stop.
fn first_final(
    network: &Network,
    stop: &StopSignal,
    printer: &Printer,
) -> Result<Option<Height>, Failure> {
    let chain = network.first()?.chain();
    let waiting = printer.progress("waiting for the first final block");
    let started = Instant::now();
    while started.elapsed() < FINALITY_WAIT {
        let height = chain.metrics().height.get();
        if height > 0 {
            return Ok(Some(Height::new(height)));
        }
        network.check_alive()?;
        if stop.came_within(LOOK) {
            return Ok(None);
        }
    }
    drop(waiting);
    let hint = "TENSORGRID_LOG=info says more; is the machine overloaded?";
    Err(Failure::new(format!("no block was final within {FINALITY_WAIT:?}"), hint))
}
