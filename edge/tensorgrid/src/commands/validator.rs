//! Running one node of a network until it is told to stop.

use crate::{
    failure::{Exit, Failure, OrFail as _},
    folder::{FolderError, NodeFolder},
    node::{Duties, NodeError, Reach, RunningNode},
    printer::Printer,
    settings::ValidatorSettings,
    stop::StopSignal,
};
use serde::Serialize;
use std::{sync::Arc, thread, time::Duration};
use tg_api::{
    RunningApi,
    text::{Number, Text},
};
use tg_types::{ChainId, GenesisHash, Height};

/// How often a running node is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How often a starting node is looked at.
const START_LOOK: Duration = Duration::from_millis(20);

#[derive(Serialize)]
struct Started<'a> {
    name: &'a str,
    chain: Text<ChainId>,
    genesis: Text<GenesisHash>,
    seat: bool,
    listen: String,
    rpc: Option<String>,
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
    announce(&folder, &node, api.as_ref(), printer);
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
    drop(api);
    node.stop();
    printer.say("Stopped; everything final is on disk.");
    Ok(Exit::Done)
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

fn announce(folder: &NodeFolder, node: &RunningNode, api: Option<&RunningApi>, printer: &Printer) {
    let started = Started {
        name: &folder.file.name,
        chain: Text(folder.genesis.chain()),
        genesis: Text(folder.genesis.hash()),
        seat: folder.share.is_some(),
        listen: folder.file.listen.to_string(),
        rpc: api.map(|api| format!("http://{}", api.address())),
        height: Number(node.height()),
        state_synced: node.is_state_synced(),
    };
    printer.result(&started, || {
        let rpc = started.rpc.as_deref().unwrap_or("none (give --rpc ADDR)");
        let how = if started.state_synced { ", with the state of its peers" } else { "" };
        let (name, height) = (started.name, &started.height);
        format!("{name} runs at block {height}{how}; clients: {rpc}; ^C stops it")
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
