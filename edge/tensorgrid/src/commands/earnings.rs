//! `earnings`: what a node of this machine has, what stands for its work, what it earned with it
//! and what that took.

use crate::{
    args::provide::EarningsArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, lines},
    work::{
        account::{self, Account, Basis, Prices},
        connect::{Session, Standing, Way},
    },
};
use serde::Serialize;
use std::path::Path;
use tg_api::text::{Text, Tgrid};
use tg_gateway::GatewayError;
use tg_ledger::{AccountEntry, NodeEntry, StakeEntry, keys};
use tg_types::{AccountId, Amount, NodeId};

#[derive(Serialize)]
struct Earnings {
    node: Text<NodeId>,
    account: Text<AccountId>,
    registered: bool,
    present: bool,
    /// What can be spent.
    balance: Tgrid,
    stake: Tgrid,
    /// What of the stake stands for work that is not settled.
    at_risk: Tgrid,
    running: usize,
    checking: u32,
    /// What was paid for runs and checks since the node was first started here.
    earned: Tgrid,
    /// What fines and slashes took since then.
    lost: Tgrid,
    worked_s: u64,
    /// What computing took; absent if nobody knows.
    energy: Option<String>,
    energy_basis: Basis,
    /// What that cost, in the owner's currency.
    power_cost: Option<String>,
    /// What is left of what was earned, in the owner's currency.
    net: Option<String>,
}

pub(super) fn run(
    way: &Way,
    state: &Path,
    arguments: &EarningsArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let path = account::path(state, &arguments.name);
    let hint = format!("look at {}, or move it away", path.display());
    let account = Account::read(&path).or_fail("the account of this node cannot be read", hint)?;
    let prices = Prices { power: arguments.power_cost, tgrid: arguments.tgrid_worth };
    let session = Session::open(way, arguments.name.as_str(), Standing::Passing)?;
    let earned = session.runtime.block_on(look(&session, &account, prices));
    let hint = "is the network still there? `tensorgrid status` tells";
    let earned = earned.or_fail("the node cannot be looked up", hint)?;
    session.close();
    printer.result(&earned, || {
        let registered = match (earned.registered, earned.present) {
            (false, _) => "not registered; `tensorgrid provide` offers this machine",
            (true, false) => "registered, but the validators do not see it",
            (true, true) => "on the network",
        };
        lines(&[
            ("node", format!("{} ({registered})", earned.node)),
            ("balance", format!("{} TGRID", earned.balance)),
            ("stake", format!("{} TGRID, of which {} at risk", earned.stake, earned.at_risk)),
            ("work", format!("{} runs, {} checks", earned.running, earned.checking)),
            ("earned", format!("{} TGRID, {} lost", earned.earned, earned.lost)),
            ("power", power_text(&earned)),
        ])
    });
    Ok(Exit::Done)
}

/// What work took and what is left, or what to give so that it can be told.
fn power_text(earned: &Earnings) -> String {
    let Some(energy) = &earned.energy else {
        return "not known; give `provide` --watts N, the devices do not tell".to_owned();
    };
    let known = match earned.energy_basis {
        Basis::Measured => "measured",
        Basis::Rated | Basis::Unknown => "estimated",
    };
    let used = format!("{energy} ({known}) in {} s of work", earned.worked_s);
    match (&earned.power_cost, &earned.net) {
        (None, _) => format!("{used}; --power-cost 0.30/kWh says what it costs"),
        (Some(cost), None) => format!("{used}, cost {cost}; --tgrid-worth P says what is left"),
        (Some(cost), Some(net)) => format!("{used}, cost {cost}; {net} left"),
    }
}

async fn look(session: &Session, book: &Account, prices: Prices) -> Result<Earnings, GatewayError> {
    let known = book.earnings(prices);
    let (gateway, account) = (&session.gateway, session.account());
    let node = NodeId::new(*session.key.public().as_bytes());
    let entry: Option<NodeEntry> = gateway.entry(keys::node(&node)).await?;
    let money: Option<AccountEntry> = gateway.entry(keys::account(&account)).await?;
    let stake: Option<StakeEntry> = gateway.entry(keys::stake(&account)).await?;
    Ok(Earnings {
        node: Text(node),
        account: Text(account),
        registered: entry.is_some(),
        present: entry.as_ref().is_some_and(|entry| entry.absent.is_none()),
        balance: Tgrid(money.map_or(Amount::ZERO, |money| money.balance)),
        stake: Tgrid(stake.as_ref().map_or(Amount::ZERO, |stake| stake.active)),
        at_risk: Tgrid(stake.as_ref().map_or(Amount::ZERO, |stake| stake.exposed)),
        running: entry.as_ref().map_or(0, |entry| entry.runs.as_slice().len()),
        checking: entry.as_ref().map_or(0, |entry| entry.checks),
        earned: Tgrid(known.income),
        lost: Tgrid(book.lost()),
        worked_s: book.worked().as_secs(),
        energy: known.energy.map(|energy| energy.energy.to_string()),
        energy_basis: book.basis(),
        power_cost: known.cost.map(|cost| cost.to_string()),
        net: known.net.map(|net| net.to_string()),
    })
}
