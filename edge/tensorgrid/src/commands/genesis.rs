//! Making a network for several processes or machines.

use crate::{
    failure::{Exit, Failure},
    folder::{self, FolderError},
    network::{self, MakeError},
    printer::{Printer, lines},
    settings::GenesisSettings,
};
use serde::Serialize;
use std::path::PathBuf;
use tg_api::text::Text;
use tg_types::{ChainId, GenesisHash, NetworkKind};

#[derive(Serialize)]
struct Made {
    chain: Text<ChainId>,
    genesis: Text<GenesisHash>,
    network: PathBuf,
    seats: Vec<PathBuf>,
    followers: Vec<PathBuf>,
}

/// `genesis`
pub(crate) fn run(settings: &GenesisSettings, printer: &Printer) -> Result<Exit, Failure> {
    let draft = network::Draft {
        chain: settings.chain,
        kind: settings.kind,
        params: settings.params.clone(),
        seats: &settings.seats,
        followers: &settings.followers,
        grants: &settings.grants,
    };
    let genesis = network::make(&settings.out, &draft).map_err(|error| failure(&error))?;
    let folders = |nodes: &[crate::args::NamedAddress]| {
        nodes.iter().map(|node| settings.out.join(&node.name)).collect()
    };
    let made = Made {
        chain: Text(genesis.chain()),
        genesis: Text(genesis.hash()),
        network: folder::network_path(&settings.out),
        seats: folders(&settings.seats),
        followers: folders(&settings.followers),
    };
    printer.result(&made, || made_text(&made));
    let advice = "Each folder holds a secret key: move it to its machine and delete it here.";
    match settings.kind {
        NetworkKind::Local => printer.say(advice),
        NetworkKind::Open => printer.say(format_args!(
            "{advice} All shares of the threshold key were dealt on this machine; whoever copied \
             them can forge certificates."
        )),
    }
    Ok(Exit::Done)
}

fn made_text(made: &Made) -> String {
    let mut rows = vec![
        ("network", made.chain.to_string()),
        ("genesis", made.genesis.to_string()),
        ("network file", made.network.display().to_string()),
    ];
    let start = |home: &PathBuf| format!("tensorgrid validator --home {}", home.display());
    rows.extend(made.seats.iter().map(|home| ("seat", start(home))));
    let follow = |home: &PathBuf| format!("{} --state-sync", start(home));
    rows.extend(made.followers.iter().map(|home| ("follower", follow(home))));
    lines(&rows)
}

/// What to do when a network was not made.
pub(crate) fn failure(error: &MakeError) -> Failure {
    let (what, hint) = ("the network was not made", "choose an empty folder");
    match error {
        MakeError::Exists(_) | MakeError::Folder(FolderError::Foreign(_)) => {
            Failure::misuse(what, hint).because(error)
        }
        MakeError::Folder(_) | MakeError::File(_) => Failure::new(what, hint).because(error),
        MakeError::Network(_) | MakeError::Amount(_) => {
            let hint = "every key and account may appear once, and all money together is at most \
                21 million TGRID";
            Failure::misuse(what, hint).because(error)
        }
    }
}
