//! `earnings`: what a node of this machine has, and what stands for its work.

use crate::{
    args::provide::EarningsArguments,
    failure::{Exit, Failure, OrFail as _},
    printer::{Printer, lines},
    work::connect::{Session, Way},
};
use serde::Serialize;
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
}

pub(super) fn run(
    way: &Way,
    arguments: &EarningsArguments,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let session = Session::open(way, arguments.name.as_str())?;
    let earned = session.runtime.block_on(look(&session));
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
        ])
    });
    Ok(Exit::Done)
}

async fn look(session: &Session) -> Result<Earnings, GatewayError> {
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
    })
}
