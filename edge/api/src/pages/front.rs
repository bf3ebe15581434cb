//! The first page: where the network stands, who keeps it, who computes, and what was computed;
//! and the pages on which the lists go on.

use super::{
    Frame, Watch,
    parts::{
        amount, count, device, id, is_zero, job_link, moment, node_link, presence, reputation,
        state, tier,
    },
    time::span,
};
use crate::rpc::{
    JobsAnswer, ListedJob, ListedNode, NodesAnswer, StatusAnswer, TotalsAnswer, ValidatorAnswer,
    ValidatorsAnswer,
};
use maud::{Markup, html};

/// Validators that are shown at once; more are folded.
const SEATS_SHOWN: usize = 8;

/// What the first page shows.
pub(crate) struct Front<'a> {
    pub(crate) status: &'a StatusAnswer,
    pub(crate) validators: &'a ValidatorsAnswer,
    pub(crate) nodes: &'a NodesAnswer,
    pub(crate) jobs: &'a JobsAnswer,
    pub(crate) totals: Option<&'a TotalsAnswer>,
}

/// The first page.
pub(crate) fn front(front: &Front<'_>) -> String {
    let content = html! {
        h1.unseen { "Network " (front.status.chain) }
        (head(front))
        (seats(front.validators))
        section id="nodes" aria-labelledby="nodes-title" {
            h2 id="nodes-title" { "Nodes" span.quiet { (count(front.nodes.count)) } }
            (node_table(front.nodes, front.status))
            @if front.nodes.more {
                p.more { a href="/nodes" { "All " (count(front.nodes.count)) " nodes" } }
            }
        }
        section id="jobs" aria-labelledby="jobs-title" {
            h2 id="jobs-title" { "Jobs" span.quiet { "latest first" } }
            (job_table(front.jobs, front.status))
            (older(front.jobs))
        }
        @if let Some(totals) = front.totals { (supply(totals)) }
    };
    let (status, watch) = (front.status, Watch::All);
    Frame { title: "Network", status, watch, twin: Some("/v1/jobs") }.around(&content)
}

/// Further jobs.
pub(crate) fn jobs(status: &StatusAnswer, jobs: &JobsAnswer, is_first: bool) -> String {
    let content = html! {
        section id="jobs" {
            h1 { "Jobs" span.quiet { "latest first" } }
            (job_table(jobs, status))
            (older(jobs))
        }
    };
    let watch = if is_first { Watch::All } else { Watch::Nothing };
    Frame { title: "Jobs", status, watch, twin: Some("/v1/jobs") }.around(&content)
}

/// Further nodes.
pub(crate) fn nodes(status: &StatusAnswer, nodes: &NodesAnswer, is_first: bool) -> String {
    let content = html! {
        section id="nodes" {
            h1 { "Nodes" span.quiet { (count(nodes.count)) } }
            (node_table(nodes, status))
            @if let Some(next) = nodes.next {
                p.more { a rel="next" href={ "/nodes?before=" (next) } { "Further nodes" } }
            }
        }
    };
    let watch = if is_first { Watch::All } else { Watch::Nothing };
    Frame { title: "Nodes", status, watch, twin: Some("/v1/nodes") }.around(&content)
}

/// Where the network stands.
fn head(front: &Front<'_>) -> Markup {
    let status = front.status;
    let certified = status.certified.map_or("none yet".to_owned(), |height| count(height.0.get()));
    let seats = &front.validators.validators;
    let proposing = seats.iter().filter(|seat| seat.proposed > 0).count();
    html! {
        dl.figures {
            div { dt { "Final block" } dd id="height" { (count(status.height.0.get())) } }
            div {
                dt { "Last block at" }
                dd {
                    @if let Some(tick) = status.tick { (moment(tick, status.tick)) }
                    @else { "none yet" }
                }
            }
            div {
                dt { "Between blocks" }
                dd { (status.block_ms.map_or("–".to_owned(), |ms| format!("≈ {}", span(ms)))) }
            }
            div { dt { "Certified up to" } dd { (certified) } }
            div { dt { "Validators proposing" } dd { (proposing) " of " (seats.len()) } }
            div { dt { "Waiting transactions" } dd { (count(status.pool_txs)) } }
        }
    }
}

fn seats(answer: &ValidatorsAnswer) -> Markup {
    let (shown, folded) = answer.validators.split_at(SEATS_SHOWN.min(answer.validators.len()));
    html! {
        section id="validators" aria-labelledby="validators-title" {
            h2 id="validators-title" {
                "Validators" span.quiet { "blocks proposed, of the last " (answer.blocks) }
            }
            ul.seats { @for it in shown { (seat(it, answer.blocks)) } }
            @if !folded.is_empty() {
                details {
                    summary { (folded.len()) " more" }
                    ul.seats { @for it in folded { (seat(it, answer.blocks)) } }
                }
            }
        }
    }
}

fn seat(seat: &ValidatorAnswer, blocks: u64) -> Markup {
    let (sign, class, word) = match (seat.slashed, seat.proposed) {
        (Some(_), _) => ("✗", "bad", "slashed"),
        (None, 0) => ("○", "bad", "silent"),
        (None, _) => ("●", "good", "proposes"),
    };
    html! {
        li id={ "seat-" (seat.key) } {
            span.state.(class) { span.sign aria-hidden="true" { (sign) } (word) }
            (id(&seat.key))
            span.figure { (seat.proposed) span.unit { " of " (blocks) } }
            span.quiet {
                (seat.stake.active) " TGRID staked"
                @if let Some(height) = seat.slashed { ", slashed in block " (height) }
            }
        }
    }
}

fn node_table(answer: &NodesAnswer, status: &StatusAnswer) -> Markup {
    if answer.nodes.is_empty() {
        return html! {
            p.empty {
                "No node is registered. A provider joins with " code { "tensorgrid provide" } "."
            }
        };
    }
    html! {
        table.cards.nodes role="table" {
            caption.unseen { "Nodes" }
            thead role="rowgroup" {
                tr role="row" {
                    th scope="col" { "Node" } th scope="col" { "State" }
                    th scope="col" { "Devices" } th scope="col" { "Region" }
                    th.number scope="col" { "Per hour" } th.number scope="col" { "Runs" }
                    th.number scope="col" { "Reputation" } th.number scope="col" { "Bond" }
                    th scope="col" { "Owner" }
                }
            }
            tbody role="rowgroup" { @for node in &answer.nodes { (node_row(node, status)) } }
        }
    }
}

fn node_row(listed: &ListedNode, status: &StatusAnswer) -> Markup {
    let node = &listed.node;
    html! {
        tr role="row" id={ "node-" (listed.id) } {
            td role="cell" data-label="Node" { (node_link(&listed.id)) }
            td role="cell" data-label="State" {
                (presence(node.open, listed.absent, status.tick))
            }
            td role="cell" data-label="Devices" {
                @for it in &node.devices { div { (device(it)) } }
            }
            td role="cell" data-label="Region" { (node.region) }
            td.number role="cell" data-label="Per hour" { (amount(node.price_per_hour)) }
            td.number role="cell" data-label="Runs" { (node.running) " of " (node.slots) }
            td.number role="cell" data-label="Reputation" { (reputation(&listed.reputation)) }
            td.number role="cell" data-label="Bond" {
                (amount(listed.stake.active))
                // Always two lines, so that the table stays where it is.
                div.quiet {
                    @if is_zero(listed.stake.exposed) { "nothing at risk" }
                    @else { (listed.stake.exposed) " at risk" }
                }
            }
            td role="cell" data-label="Owner" { (id(&node.owner)) }
        }
    }
}

fn job_table(answer: &JobsAnswer, status: &StatusAnswer) -> Markup {
    if answer.jobs.is_empty() {
        return html! {
            p.empty {
                "No job yet. Hand one in with " code { "tensorgrid run PROGRAM -i INPUT" } "."
            }
        };
    }
    html! {
        table.cards.jobs role="table" {
            caption.unseen { "Jobs, the latest first" }
            thead role="rowgroup" {
                tr role="row" {
                    th scope="col" { "Job" } th scope="col" { "State" }
                    th scope="col" { "Reason" } th scope="col" { "Verification" }
                    th scope="col" { "Node" } th.number scope="col" { "Price" }
                    th.number scope="col" { "Submitted" }
                }
            }
            tbody role="rowgroup" { @for job in &answer.jobs { (job_row(job, status)) } }
        }
    }
}

fn job_row(listed: &ListedJob, status: &StatusAnswer) -> Markup {
    let Some(record) = &listed.record else {
        return html! {
            tr role="row" id={ "job-" (listed.id) } {
                td role="cell" data-label="Job" { (job_link(&listed.id)) }
                td role="cell" data-label="State" { (state("ended")) }
                td role="cell" data-label="Reason" colspan="4" {
                    "Ended long ago; what happened is still kept."
                }
                td.number role="cell" data-label="Submitted" { "block " (listed.place.0.height) }
            }
        };
    };
    let job = &record.job;
    html! {
        tr role="row" id={ "job-" (listed.id) } {
            td role="cell" data-label="Job" { (job_link(&listed.id)) }
            td role="cell" data-label="State" { (state(&job.status)) }
            td role="cell" data-label="Reason" { (record.reason.sentence) }
            td role="cell" data-label="Verification" { (tier(&record.tier)) }
            td role="cell" data-label="Node" {
                @match job.runs.last() {
                    Some(run) => {
                        (node_link(&run.node))
                        @if job.runs.len() > 1 {
                            div.quiet { "and " (job.runs.len() - 1) " more" }
                        }
                    }
                    None => "–",
                }
            }
            td.number role="cell" data-label="Price" { (price(record)) }
            td.number role="cell" data-label="Submitted" { (moment(job.submitted, status.tick)) }
        }
    }
}

/// What a job cost, or may cost at most.
fn price(record: &crate::rpc::JobRecord) -> Markup {
    let Some(price) = &record.price else { return html! { "–" } };
    match price.charged {
        Some(charged) if is_zero(charged) => html! { "refunded" },
        Some(charged) => amount(charged),
        None => html! { span.quiet { "up to " } (amount(price.quoted)) },
    }
}

fn older(jobs: &JobsAnswer) -> Markup {
    html! {
        @if let Some(next) = &jobs.next {
            p.more { a rel="next" href={ "/jobs?before=" (next) } { "Earlier jobs" } }
        }
    }
}

/// The supply, folded: whoever wants to can add it up.
fn supply(totals: &TotalsAnswer) -> Markup {
    let verdict = if totals.balanced {
        "the parts add up to the supply"
    } else {
        "the parts do NOT add up to the supply"
    };
    html! {
        details id="supply" {
            summary { "Supply: " (totals.supply) " TGRID; " (verdict) }
            dl.facts {
                @for (name, part) in [
                    ("Balances", totals.balances),
                    ("Escrow", totals.escrow),
                    ("Staked", totals.staked),
                    ("Unbonding", totals.unbonding),
                    ("Treasury", totals.treasury),
                    ("Burned", totals.burned),
                ] {
                    div { dt { (name) } dd { (amount(part)) } }
                }
            }
        }
    }
}
