//! Looking at a network: where it stands, and who is in it.

use crate::{
    ask::{self, OrAsk as _},
    failure::{Exit, Failure},
    printer::{Printer, lines, table},
    settings::Rpc,
};
use serde::Serialize;
use tg_api::{
    document::NetworkWord,
    rpc::{ListedNode, StatusAnswer, ValidatorAnswer},
    view::TotalsView,
    view::{HeldView, HostedView},
    words::{NOT_ASKED, WHAT_IS_PROVED, kib},
};

#[derive(Serialize)]
struct Status {
    rpc: String,
    #[serde(flatten)]
    status: StatusAnswer,
    totals: Option<TotalsView>,
}

/// `status`
pub(crate) fn status(rpc: &Rpc, printer: &Printer) -> Result<Exit, Failure> {
    let mut client = ask::client(rpc)?;
    let answer = client.status().or_ask("the network's status cannot be asked for")?;
    let totals = client.totals().ok(); // there are none before the first block
    let status = Status { rpc: format!("http://{}", client.address()), status: answer, totals };
    printer.result(&status, || status_text(&status));
    Ok(Exit::Done)
}

fn status_text(answer: &Status) -> String {
    let status = &answer.status;
    let none = || "none yet".to_owned();
    let kind = match status.network {
        NetworkWord::Local => "local",
        NetworkWord::Open => "open",
    };
    let mut rows = vec![
        ("network", format!("{} ({kind})", status.chain)),
        ("genesis", status.genesis.to_string()),
        ("node", format!("{} version {}", answer.rpc, status.version)),
        ("final block", status.height.to_string()),
        ("state root", status.state_root.as_ref().map_or_else(none, ToString::to_string)),
        ("certified up to", status.certified.as_ref().map_or_else(none, ToString::to_string)),
        ("waiting", format!("{} of {} transactions", status.pool_txs, status.pool_txs_max)),
        ("validators", status.validators.to_string()),
        ("faucet", if status.faucet { "yes" } else { "no" }.to_owned()),
        (
            "capacity",
            match status.capacity_kib_max {
                0 => NOT_ASKED.to_owned(),
                most => format!("nodes fill up to {} of memory to get work", kib(most)),
            },
        ),
    ];
    if let Some(totals) = &answer.totals {
        let verdict = if totals.balanced { "adds up" } else { "DOES NOT ADD UP" };
        rows.push(("supply", format!("{} TGRID, {verdict}", totals.supply)));
        rows.push(("burned", format!("{} TGRID", totals.burned)));
    }
    lines(&rows)
}

#[derive(Serialize)]
struct Members {
    nodes: Vec<ListedNode>,
    more: bool,
    validators: Vec<ValidatorAnswer>,
}

/// `nodes`
pub(crate) fn nodes(rpc: &Rpc, limit: u32, printer: &Printer) -> Result<Exit, Failure> {
    let mut client = ask::client(rpc)?;
    let what = "the network's members cannot be asked for";
    let nodes = client.nodes(Some(limit)).or_ask(what)?;
    let validators = client.validators().or_ask(what)?.validators;
    let members = Members { nodes: nodes.nodes, more: nodes.more, validators };
    printer.result(&members, || members_text(&members));
    Ok(Exit::Done)
}

fn members_text(members: &Members) -> String {
    let seat = |seat: &ValidatorAnswer| {
        let slashed = seat.slashed.map_or("no".to_owned(), |height| format!("in block {height}"));
        [
            seat.key.to_string(),
            seat.address.to_string(),
            format!("{} TGRID", seat.stake.active),
            slashed,
        ]
    };
    let seats: Vec<[String; 4]> = members.validators.iter().map(seat).collect();
    let mut text = table(["validator", "address", "stake", "slashed"], &seats);
    text.push_str("\n\n");
    if members.nodes.is_empty() {
        text.push_str("No provider has registered a node.");
        return text;
    }
    let row = |listed: &ListedNode| {
        let devices: Vec<String> = listed
            .node
            .devices
            .iter()
            .map(|device| {
                let (count, model, memory) = (device.count, &device.model, device.memory_mib);
                let sharing = device.sharing.iter().map(|how| format!(" ({how})"));
                format!("{count} × {model} {memory} MiB{}", sharing.collect::<String>())
            })
            .collect();
        [
            listed.id.to_string(),
            listed.node.region.to_string(),
            devices.join(", "),
            format!("{} TGRID/h", listed.node.price_per_hour),
            listed.capacity.clone(),
        ]
    };
    let rows: Vec<[String; 5]> = members.nodes.iter().map(row).collect();
    text.push_str(&table(["node", "region", "devices", "price", "capacity"], &rows));
    text.push_str(&held_text(&members.nodes));
    text.push_str(&format!("\n{WHAT_IS_PROVED}"));
    if members.more {
        text.push_str("\nThere are more; ask with a higher --limit.");
    }
    text
}

/// What runs hold of GPUs, processors and memory, a line for each.
fn held_text(nodes: &[ListedNode]) -> String {
    let mut rows = Vec::new();
    for listed in nodes {
        for HeldView { job, device, unit, part } in &listed.node.held {
            let place = device.and_then(|place| listed.node.devices.get(usize::from(place)));
            let model = place.map_or("gone".to_owned(), |device| device.model.to_string());
            let gpu = format!("{model}, number {unit}");
            rows.push([listed.id.to_string(), gpu, part.clone(), job.to_string()]);
        }
        for HostedView { job, part } in &listed.node.hosted {
            let machine = "machine".to_owned();
            rows.push([listed.id.to_string(), machine, part.clone(), job.to_string()]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    format!("\n\n{}\n", table(["node", "of", "held", "job"], &rows))
}
