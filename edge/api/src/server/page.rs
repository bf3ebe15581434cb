//! A small page for people who open the node's address in a browser. No script, no outside
//! resources; readable without colour and on a narrow screen.

use super::{Shared, errors, limits::PAGE_BLOCKS, methods};
use crate::rpc::RpcError;
use std::fmt::Write as _;
use tg_types::Height;

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="5">
<title>TensorGrid node</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #ddd;
  vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; } td.number { text-align: right; font-variant-numeric: tabular-nums; }
code { font-size: .85em; }
@media (prefers-color-scheme: dark) { body { color: #e8e8e8; background: #161616; }
  th, td { border-color: #444; } a { color: #9cf; } }
</style>
</head>
<body>
"#;

const FOOT: &str = r#"<p>Interfaces: <code>POST /rpc</code> (JSON-RPC 2.0),
<a href="/events">/events</a>, <a href="/metrics">/metrics</a>, <a href="/health">/health</a>.
This page reloads every 5 seconds.</p>
</body>
</html>
"#;

/// The page.
pub(super) async fn page(shared: &Shared) -> Result<String, RpcError> {
    let mut page = HEAD.to_owned();
    write_status(shared, &mut page).await?;
    write_supply(shared, &mut page).await?;
    write_validators(shared, &mut page).await?;
    write_blocks(shared, &mut page).await?;
    page.push_str(FOOT);
    Ok(page)
}

/// One row of a table with two columns. Values are hex, numbers or names of a-z, so none needs
/// escaping.
fn row(page: &mut String, name: &str, value: impl std::fmt::Display) {
    writeln!(page, "<tr><th scope=\"row\">{name}</th><td>{value}</td></tr>")
        .expect("a string takes all text");
}

async fn write_status(shared: &Shared, page: &mut String) -> Result<(), RpcError> {
    let status = methods::status(shared).await?;
    page.push_str(&format!("<h1>TensorGrid {}</h1>\n<table>\n", status.chain));
    row(page, "height", status.height);
    let certified = status.certified.map_or("none yet".to_owned(), |height| height.to_string());
    row(page, "certified up to", certified);
    row(page, "waiting transactions", format!("{} of {}", status.pool_txs, status.pool_txs_max));
    row(page, "genesis", format!("<code>{}</code>", status.genesis));
    if let Some(root) = status.state_root {
        row(page, "state root", format!("<code>{root}</code>"));
    }
    row(page, "version", status.version);
    page.push_str("</table>\n");
    Ok(())
}

async fn write_supply(shared: &Shared, page: &mut String) -> Result<(), RpcError> {
    page.push_str("<h2>Supply</h2>\n");
    let Some(totals) = shared.chain.totals().await.map_err(errors::chain)? else {
        page.push_str("<p>No block is final yet.</p>\n");
        return Ok(());
    };
    page.push_str("<table>\n");
    for (name, amount) in [
        ("balances", totals.balances),
        ("escrow", totals.escrow),
        ("staked", totals.staked),
        ("unbonding", totals.unbonding),
        ("treasury", totals.treasury),
        ("burned", totals.burned),
        ("supply", totals.supply),
    ] {
        row(page, name, amount);
    }
    let sum = totals.parts_sum();
    let verdict = if sum == u128::from(totals.supply.units()) {
        "the parts add up to the supply"
    } else {
        "the parts do NOT add up to the supply"
    };
    row(page, "sum of the parts", format!("{sum} base units: {verdict}"));
    page.push_str("</table>\n");
    Ok(())
}

async fn write_validators(shared: &Shared, page: &mut String) -> Result<(), RpcError> {
    page.push_str(
        "<h2>Validators</h2>\n<table>\n<tr><th>key</th><th>stake</th><th>state</th></tr>\n",
    );
    for seat in methods::validators(shared).await?.validators {
        let state = seat
            .slashed
            .map_or("in good standing".to_owned(), |height| format!("slashed at height {height}"));
        page.push_str(&format!(
            "<tr><td><code>{}</code></td><td>{} TGRID</td><td>{state}</td></tr>\n",
            seat.key, seat.stake.active
        ));
    }
    page.push_str("</table>\n");
    Ok(())
}

async fn write_blocks(shared: &Shared, page: &mut String) -> Result<(), RpcError> {
    page.push_str(
        "<h2>Recent blocks</h2>\n<table>\n\
         <tr><th>height</th><th>time</th><th>transactions</th><th>digest</th></tr>\n",
    );
    let tip = shared.tip().await?.get();
    let domain = shared.chain.domain();
    for height in (1..=tip).rev().zip(0..PAGE_BLOCKS).map(|(height, _)| Height::new(height)) {
        let found = shared.chain.block(height).await.map_err(errors::chain)?;
        let Some((header, payload, _)) = found else { break };
        page.push_str(&format!(
            "<tr><td>{height}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>\n",
            header.tick,
            payload.txs.len(),
            header.digest(&domain)
        ));
    }
    page.push_str("</table>\n");
    Ok(())
}
