//! `ticket`: the way into a network of peers, as any of its nodes tells it.

use crate::{
    ask::{self, OrAsk as _},
    failure::{Exit, Failure, OrFail as _},
    printer::Printer,
    settings::Rpc,
};
use serde::Serialize;
use tg_api::text::Text;
use tg_chain::Notice;
use tg_gateway::card;
use tg_privacy::Threshold;
use tg_types::{ChainId, Decode as _, GenesisHash};

#[derive(Serialize)]
struct Made {
    ticket: String,
    chain: Text<ChainId>,
    genesis: Text<GenesisHash>,
    /// Validators whose doors are known.
    doors: usize,
    validators: usize,
}

pub(super) fn run(rpc: &Rpc, printer: &Printer) -> Result<Exit, Failure> {
    let what = "no ticket can be made";
    let mut client = ask::client(rpc)?;
    let told = client.doors().or_ask(what)?.doors;
    let network = client.genesis().or_ask(what)?;
    let hint = "ask another node; this one is of another version or lies";
    let genesis = network.read_genesis().or_fail(what, hint)?;
    let genesis = genesis.ok_or_else(|| Failure::new(what, hint))?;
    let notices = told.iter().map(|door| Notice::from_bytes(&door.notice.0));
    let notices = notices.collect::<Result<Vec<_>, _>>().or_fail(what, hint)?;
    let cards = card::cards(&notices, &genesis);
    let (doors, validators) = (cards.len(), genesis.validators().len());
    let hint = "validators open doors with `tensorgrid validator --door HOST:PORT`; a node hears \
                of them within a minute";
    let ticket = card::ticket(&cards, &genesis).or_fail(what, hint)?.to_string();
    let (chain, genesis) = (Text(genesis.chain()), Text(genesis.hash()));
    let made = Made { ticket, chain, genesis, doors, validators };
    printer.result(&made, || made.ticket.clone());
    printer.say(format_args!("{doors} of {validators} validators of {chain} have doors."));
    if Threshold::quorum(validators).is_ok_and(|quorum| doors < quorum.needed()) {
        printer.say("That is too few for jobs: more than two thirds of them must have one.");
    }
    Ok(Exit::Done)
}
