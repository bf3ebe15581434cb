//! One node: what it offers, what stands behind it, and what happened to it.

use super::{
    Frame, Watch,
    parts::{
        amount, count, detail, device, id, is_zero, job_link, moment, presence, reputation, sign,
    },
};
use crate::{
    rpc::{Happened, ListedNode, NodeAnswer, StatusAnswer},
    view::DeviceView,
    words::{WHAT_IS_PROVED, short},
};
use maud::{Markup, html};
use tg_types::JobId;

/// The page of a node; of its history, a page too.
pub(crate) fn node(status: &StatusAnswer, node: &NodeAnswer, is_first: bool) -> String {
    let full = node.id.to_string();
    let content = html! {
        p.path { a href="/" { "Network" } " / " a href="/nodes" { "Nodes" } }
        div.title {
            h1 { "Node " code { (short(&node.id)) } }
            @if let Some(record) = &node.record {
                (presence(record.node.open, record.absent, status.tick))
            }
        }
        p.id { code { (full) } }
        @if node.record.is_none() { p.lead { "It is not registered any more." } }
        div.columns {
            section.panel.wide aria-labelledby="history-title" {
                h2 id="history-title" { "What happened" span.quiet { "latest first" } }
                (history(node, status))
                @if let Some(earlier) = node.earlier {
                    p.more {
                        a rel="next" href={ "/nodes/" (full) "?before=" (earlier) } { "Earlier" }
                    }
                }
            }
            div.side {
                @if let Some(record) = &node.record {
                    (offer(record, status))
                    (standing(record))
                }
                @if !node.jobs.is_empty() { (running(node)) }
            }
        }
    };
    let title = format!("Node {}", short(&node.id));
    let twin = format!("/v1/nodes/{full}");
    let watch = if is_first { Watch::Node(&full) } else { Watch::Nothing };
    Frame { title: &title, status, watch, twin: Some(&twin) }.around(&content)
}

/// What it offers.
fn offer(record: &ListedNode, status: &StatusAnswer) -> Markup {
    let node = &record.node;
    html! {
        section.panel aria-labelledby="offer-title" {
            h2 id="offer-title" { "Offer" }
            dl.facts {
                @for it in &node.devices { (device_facts(it)) }
                div { dt { "Region" } dd { (node.region) } }
                div { dt { "Hour, at least" } dd { (amount(node.price_per_hour)) } }
                div { dt { "10¹² multiply-adds" } dd { (amount(node.price_per_tera)) } }
                div {
                    dt { "Capacity" }
                    dd { (record.capacity) div.quiet { (WHAT_IS_PROVED) } }
                }
                div { dt { "Runs now" } dd { (node.running) " of " (node.slots) } }
                @if node.kept > 0 {
                    div { dt { "Kept for promised jobs" } dd { (node.kept) } }
                }
                div { dt { "Checks now" } dd { (node.checking) } }
                div { dt { "Registered" } dd { (moment(node.since, status.tick)) } }
                div { dt { "Owner" } dd { (id(&node.owner)) } }
            }
        }
    }
}

fn device_facts(it: &DeviceView) -> Markup {
    html! {
        div {
            dt { "Device" }
            dd {
                (device(it))
                @if !it.features.is_empty() { div.quiet { (it.features.join(", ")) } }
            }
        }
    }
}

/// What stands behind it.
fn standing(record: &ListedNode) -> Markup {
    let known = &record.reputation;
    html! {
        section.panel aria-labelledby="standing-title" {
            h2 id="standing-title" { "Reputation and bond" }
            dl.facts {
                div { dt { "Reputation" } dd { (reputation(known)) } }
                div { dt { "Good work, weight" } dd { (count(known.good)) } }
                div { dt { "Bad work, weight" } dd { (count(known.bad)) } }
                div { dt { "Owner's stake" } dd { (amount(record.stake.active)) } }
                div {
                    dt { "At risk now" }
                    dd {
                        @if is_zero(record.stake.exposed) { "nothing" }
                        @else { (amount(record.stake.exposed)) }
                    }
                }
                div { dt { "Free for more runs" } dd { (amount(record.stake_free)) } }
            }
            p.quiet {
                "Weights are the worth of verified work in base units and halve every 30 days. The \
                 reputation is the share of good work that is exceeded with 95 % certainty."
            }
        }
    }
}

/// What it runs now.
fn running(node: &NodeAnswer) -> Markup {
    html! {
        section.panel aria-labelledby="running-title" {
            h2 id="running-title" { "Runs that are not settled" }
            ul.ids { @for job in &node.jobs { li { (job_link(job)) } } }
        }
    }
}

fn history(node: &NodeAnswer, status: &StatusAnswer) -> Markup {
    if node.history.is_empty() {
        return html! { p.empty { "Nothing that this node's chain still keeps." } };
    }
    html! { ol.timeline { @for it in &node.history { (entry(it, status)) } } }
}

fn entry(it: &Happened, status: &StatusAnswer) -> Markup {
    let (sign, class) = sign(it.tone);
    let about = detail::<JobId>(it, "job");
    html! {
        li.(class) {
            span.sign aria-hidden="true" { (sign) }
            div.step {
                strong { (it.step) } ": "
                (it.text)
                div.quiet {
                    (moment(it.tick, status.tick)) " · block " (it.height)
                    @if let Some(job) = &about { " · job " (job_link(job)) }
                    " · " code { (it.event.code) }
                }
            }
        }
    }
}
