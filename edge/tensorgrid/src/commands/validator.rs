//! Running one node of a network until it is told to stop.

use crate::{
    failure::{Exit, Failure, OrFail as _},
    folder::{FolderError, NodeFolder},
    network::listen_address,
    node::{Duties, NodeError, Reach, RunningNode},
    printer::Printer,
    settings::ValidatorSettings,
    stop::StopSignal,
    work::local::{Doors, Seat},
};
use serde::Serialize;
use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tg_api::{
    RunningApi,
    text::{Number, Text},
};
use tg_net::{CertificatePlace, RelaySettings};
use tg_types::{Address, ChainId, GenesisHash, Height};
use tokio::runtime::{Builder, Runtime};

/// How often a running node is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How often a starting node is looked at.
const START_LOOK: Duration = Duration::from_millis(20);

/// How long to wait for word of other validators' doors, so that the ticket names them too.
const CARDS_WAIT: Duration = Duration::from_secs(2);

/// How long the door may take to close.
const DOOR_WAIT: Duration = Duration::from_secs(2);

/// Threads for the door: the validator itself needs the others.
const DOOR_THREADS: usize = 2;

#[derive(Serialize)]
struct Started<'a> {
    name: &'a str,
    chain: Text<ChainId>,
    genesis: Text<GenesisHash>,
    seat: bool,
    listen: String,
    rpc: Option<String>,
    /// Where providers and clients knock.
    door: Option<String>,
    /// The way in for them.
    ticket: Option<String>,
    /// Validators whose doors are known.
    doors: usize,
    height: Number<Height>,
    state_synced: bool,
}

/// `validator`
pub(crate) fn run(settings: &ValidatorSettings, printer: &Printer) -> Result<Exit, Failure> {
    let stop = StopSignal::listen().or_fail("signals cannot be heard", "try again")?;
    let folder = NodeFolder::open(&settings.home)
        .map_err(|error| folder_failure("the node did not start", &error))?;
    let folder = Arc::new(folder);
    let rpc = settings.rpc.or(folder.file.rpc);
    let door = settings.door.clone().or_else(|| folder.file.door.as_ref().map(|it| it.0.clone()));
    if door.is_some() && folder.share.is_none() {
        let hint = "start it without --door; providers and clients need seats";
        return Err(Failure::misuse("a node without a seat has no door", hint));
    }
    let (state_sync, answers) = (settings.state_sync, rpc.is_some());
    let duties = Duties { state_sync, answers, housemates: 1 };
    let Some(mut node) = start(&folder, duties, &stop, printer)? else {
        printer.say("Stopped before the node was up.");
        return Ok(Exit::Done);
    };
    let api = match rpc {
        Some(address) => Some(node.serve(address, folder.faucet.as_ref()).or_fail(
            format!("clients cannot be answered on {address}"),
            "choose another address with --rpc; 127.0.0.1:0 takes any free port",
        )?),
        None => None,
    };
    let door = match door {
        Some(address) => Some(OpenDoor::open(&folder, &node, &address, &stop)?),
        None => None,
    };
    announce(&folder, &node, api.as_ref(), door.as_ref(), printer);
    if api.as_ref().is_some_and(|api| !api.address().ip().is_loopback()) {
        printer.say("Other machines can ask this node; put a proxy with limits in front of it.");
    }
    while !stop.came_within(LOOK) {
        if !node.is_alive() {
            return Err(Failure::new(
                "the node stopped by itself",
                "its own message above says why; start it again, it continues where it was",
            ));
        }
    }
    printer.say("Stopping.");
    if let Some(door) = door {
        door.close();
    }
    drop(api);
    node.stop();
    printer.say("Stopped; everything final is on disk.");
    Ok(Exit::Done)
}

/// The door of this node, on threads of its own.
struct OpenDoor {
    runtime: Runtime,
    doors: Doors,
}

impl OpenDoor {
    fn open(
        folder: &NodeFolder,
        node: &RunningNode,
        address: &Address,
        stop: &StopSignal,
    ) -> Result<Self, Failure> {
        let what = format!("the door at {address} cannot be opened");
        let hint = "is it an address of this machine that others reach, by TCP and by UDP?";
        let runtime = Builder::new_multi_thread().worker_threads(DOOR_THREADS).enable_all().build();
        let runtime = runtime.or_fail(&what, hint)?;
        let relay = RelaySettings {
            public: Some(address.clone()),
            certificate: CertificatePlace::Folder(folder.door()),
            ..RelaySettings::new(listen_address(address))
        };
        let opening = Doors::open(vec![Seat::of(folder, node).on_disk(folder)], relay);
        let doors = runtime.block_on(opening).or_fail(what, hint)?;
        let started = Instant::now();
        let (mut known, all) = doors.known();
        while known < all && started.elapsed() < CARDS_WAIT && !stop.came_within(START_LOOK) {
            known = doors.known().0;
        }
        Ok(Self { runtime, doors })
    }

    fn close(self) {
        self.runtime.block_on(self.doors.close());
        self.runtime.shutdown_timeout(DOOR_WAIT);
    }
}

/// Starts the node on a thread of its own, because fetching the state takes as long as it takes;
/// `None` if told to stop meanwhile.
fn start(
    folder: &Arc<NodeFolder>,
    duties: Duties,
    stop: &StopSignal,
    printer: &Printer,
) -> Result<Option<RunningNode>, Failure> {
    let reach = Reach::from_folder(folder).map_err(|error| failure(&error))?;
    let peers = (reach.validators.len() + reach.followers.len()).saturating_sub(1);
    let (name, chain) = (&folder.file.name, folder.file.chain());
    printer.say(format_args!("Starting {name} of {chain} on {}; {peers} peers.", reach.listen));
    let _waiting = printer.progress(match duties.state_sync && !folder.has_data() {
        true => "fetching the state from peers",
        false => "opening the node's data",
    });
    let own = Arc::clone(folder);
    let starting = thread::Builder::new()
        .name("start".to_owned())
        .spawn(move || RunningNode::start(&own, reach, duties))
        .map_err(NodeError::Thread)
        .map_err(|error| failure(&error))?;
    while !starting.is_finished() {
        if stop.came_within(START_LOOK) {
            return Ok(None);
        }
    }
    let started = starting.join().expect("starting does not panic");
    started.map(Some).map_err(|error| failure(&error))
}

fn announce(
    folder: &NodeFolder,
    node: &RunningNode,
    api: Option<&RunningApi>,
    door: Option<&OpenDoor>,
    printer: &Printer,
) {
    let doors = door.map(|door| &door.doors);
    let (known, all) = doors.map_or((0, 0), Doors::known);
    let started = Started {
        name: &folder.file.name,
        chain: Text(folder.genesis.chain()),
        genesis: Text(folder.genesis.hash()),
        seat: folder.share.is_some(),
        listen: folder.file.listen.to_string(),
        rpc: api.map(|api| format!("http://{}", api.address())),
        door: doors.map(|doors| doors.relay().url.to_string()),
        ticket: doors.and_then(Doors::ticket).map(|ticket| ticket.to_string()),
        doors: known,
        height: Number(node.height()),
        state_synced: node.is_state_synced(),
    };
    printer.result(&started, || {
        let rpc = started.rpc.as_deref().unwrap_or("none (give --rpc ADDR)");
        let how = if started.state_synced { ", with the state of its peers" } else { "" };
        let (name, height) = (started.name, &started.height);
        let ticket = started.ticket.as_ref().map_or_else(String::new, |ticket| {
            format!("\nticket with {known} of {all} doors: {ticket}")
        });
        format!("{name} runs at block {height}{how}; clients: {rpc}; ^C stops it{ticket}")
    });
}

/// What to do about a folder that cannot be used.
pub(crate) fn folder_failure(what: &str, error: &FolderError) -> Failure {
    let hint = match error {
        FolderError::Format { .. } => {
            "chains are reset until 1.0: make a new network, or use the version that made this one"
        }
        FolderError::OtherChain { .. } | FolderError::Foreign(_) => {
            "use another folder; nothing in this one was changed"
        }
        FolderError::NoNode(_) => "make one with `tensorgrid genesis --out DIR`",
        FolderError::InUse(_) => "stop the other process, or use another folder",
        FolderError::File(_)
        | FolderError::Genesis { .. }
        | FolderError::Json { .. }
        | FolderError::Secret(_) => "check the folder; files of a node are not edited by hand",
    };
    Failure::new(what, hint).because(error)
}

/// What to do about a node that did not start.
pub(crate) fn failure(error: &NodeError) -> Failure {
    let what = "the node did not start";
    let hint = match error {
        NodeError::Folder(error) => return folder_failure(what, error),
        NodeError::Address { .. } => "check node.json and the name service",
        NodeError::Listen { .. } => "is it running already? the address is `listen` in node.json",
        NodeError::Chain(_) => "TENSORGRID_LOG=info says more",
        NodeError::File(_) | NodeError::Thread(_) => "the machine is short of resources",
    };
    Failure::new(what, hint).because(error)
}
