//! One job: how far it came and why, what happened step by step, what it cost, and how anybody can
//! check that.

use super::{
    Frame, Watch,
    parts::{amount, count, id, moment, node_link, sign, state, tier, told, unnamed},
    time::span,
};
use crate::{
    rpc::{Happened, JobAnswer, JobRecord, PriceView, StatusAnswer},
    text::Tgrid,
    why::WhyView,
    words::{SEEN_BY, short, short_job},
};
use maud::{Markup, html};

/// Steps of which a dispute has many.
const ROUNDS: [&str; 2] = ["Answered", "Doubted"];

/// The page of a job. `host` is where the reader found it, for commands to copy.
pub(crate) fn job(status: &StatusAnswer, job: &JobAnswer, host: Option<&str>) -> String {
    let full = job.id.to_string();
    let content = html! {
        p.path { a href="/" { "Network" } " / " a href="/jobs" { "Jobs" } }
        div.title {
            h1 { "Job " code { (short_job(&job.id)) } }
            @if let Some(record) = &job.record { (state(&record.job.status)) (tier(&record.tier)) }
            @if job.receipt.is_some() { a.aside href="#proof" { "Check it yourself" } }
        }
        p.id { code { (full) } }
        p.lead id="reason" {
            @match &job.record {
                Some(record) => (record.reason.sentence),
                None => "It ended so long ago that the ledger has forgotten its record; its \
                         history is still kept.",
            }
        }
        (stages(job))
        @if let Some(why) = &job.why { (waiting(why)) }
        div.columns {
            section.panel.wide aria-labelledby="timeline-title" {
                h2 id="timeline-title" { "What happened" }
                @if job.more { p.quiet { "Earlier steps are left out." } }
                (timeline(job))
            }
            div.side {
                (facts(status, job))
                @if let Some(record) = &job.record { (protection(record)) (price(record)) }
            }
        }
        (proof(job, host))
    };
    let title = format!("Job {}", short_job(&job.id));
    let twin = format!("/v1/jobs/{full}");
    let frame = Frame { title: &title, status, watch: Watch::Job(&full), twin: Some(&twin) };
    frame.around(&content)
}

/// A stage of a job's path.
struct Stage {
    word: &'static str,
    sign: &'static str,
    class: &'static str,
    note: String,
}

impl Stage {
    /// A stage that a step of the history reaches, or not yet.
    fn reached(word: &'static str, job: &JobAnswer, steps: &[&str]) -> Self {
        let first = job.history.iter().find(|it| steps.contains(&it.step.as_str()));
        let start = job.history.first();
        match (first, start) {
            (Some(first), Some(start)) => {
                let after = first.tick.0.get().saturating_sub(start.tick.0.get());
                let note = if after == 0 { "at once".to_owned() } else { span(after) };
                Self { word, sign: "✓", class: "done", note }
            }
            (Some(_) | None, _) => Self { word, sign: "○", class: "open", note: String::new() },
        }
    }
}

/// The path in a row: which stages are reached, and after how long.
fn stages(job: &JobAnswer) -> Markup {
    let has = |step: &str| job.history.iter().any(|it| it.step == step);
    let mut stages = vec![
        Stage::reached("Escrowed", job, &["Escrowed"]),
        Stage::reached("Placed", job, &["Placed"]),
        Stage::reached("Committed", job, &["Committed"]),
        Stage::reached("Revealed", job, &["Revealed"]),
    ];
    if has("Disputed") {
        let judged = Stage::reached("Disputed", job, &["Judged"]);
        stages.push(Stage { sign: "!", class: "bad", ..judged });
    }
    let word = job.record.as_ref().map(|record| record.tier.word.as_str());
    if !matches!(word, Some("none")) {
        let redundant = word.is_some_and(|word| word.starts_with("redundant"));
        let steps = if redundant { &["Paid"][..] } else { &["Checked", "Not drawn"][..] };
        stages.push(Stage::reached(if redundant { "Compared" } else { "Checked" }, job, steps));
    }
    let refunded = ["Failed", "Cancelled", "Expired"];
    if refunded.into_iter().any(has) {
        let end = Stage::reached("Refunded", job, &refunded);
        stages.push(Stage { sign: "✗", class: "bad", ..end });
    } else {
        stages.push(Stage::reached("Paid", job, &["Paid"]));
    }
    html! {
        ol.stages aria-label="How far it came" {
            @for stage in &stages {
                li.(stage.class) {
                    span.sign aria-hidden="true" { (stage.sign) }
                    span.word { (stage.word) }
                    @if stage.class == "open" { span.unseen { "not yet" } }
                    span.note { (stage.note) }
                }
            }
        }
    }
}

/// Why a job waits.
fn waiting(why: &WhyView) -> Markup {
    html! {
        section.panel aria-labelledby="why-title" {
            h2 id="why-title" { "Why it waits" }
            p { (why.fitting) " nodes could be given one more run of it now." }
            @if let Some(needed) = why.needed { p { "It needs " (needed) " nodes at once." } }
            @if !why.removed.is_empty() {
                ul { @for it in &why.removed { li { (it.sentence) " (" (it.rule) ")" } } }
            }
            @if let Some(change) = &why.change { p { "Cheapest change: " strong { (change) } "." } }
        }
    }
}

fn timeline(job: &JobAnswer) -> Markup {
    let Some(start) = job.history.first() else {
        return html! { p.empty { "This node does not keep what happened." } };
    };
    let is_round = |it: &Happened| ROUNDS.contains(&it.step.as_str());
    let places: Vec<usize> = (0..job.history.len()).collect();
    let groups = places.chunk_by(|left, right| {
        let both = job.history.get(*left).zip(job.history.get(*right));
        both.is_some_and(|(left, right)| is_round(left) && is_round(right))
    });
    html! {
        ol.timeline {
            @for group in groups {
                @if let [first, _, ..] = group { (folded(job, start, group, *first)) }
                @else { @for it in lines(job, group) { (entry(it.1, start, it.0)) } }
            }
        }
    }
}

/// The lines of some places of the history.
fn lines<'a>(
    job: &'a JobAnswer,
    places: &'a [usize],
) -> impl Iterator<Item = (usize, &'a Happened)> {
    places.iter().filter_map(|place| Some((*place, job.history.get(*place)?)))
}

/// The rounds of a dispute, folded: they are many, and all alike.
fn folded(job: &JobAnswer, start: &Happened, places: &[usize], first: usize) -> Markup {
    html! {
        li.rounds id={ "rounds-" (first) } {
            details {
                summary { (places.len()) " moves of the dispute, down to one step" }
                ol { @for it in lines(job, places) { (entry(it.1, start, it.0)) } }
            }
        }
    }
}

/// One line of the timeline; `start` is the first.
fn entry(it: &Happened, start: &Happened, place: usize) -> Markup {
    let (sign, class) = sign(it.tone);
    let after = it.tick.0.get().saturating_sub(start.tick.0.get());
    html! {
        li.(class) id={ "step-" (place) } {
            span.sign aria-hidden="true" { (sign) }
            div.step {
                strong { (it.step) } ": " (told(it))
                div.quiet {
                    (moment(it.tick, Some(start.tick))) " · block " (it.height)
                    @if place > 0 { " · +" (span(after)) }
                    @if let Some(node) = unnamed(it) { " · node " (node_link(&node)) }
                    @if let Some(tx) = it.tx {
                        " · "
                        a href={ "/v1/receipts/" (tx) } title="Receipt of the transaction" {
                            "receipt " (short(&tx))
                        }
                    }
                    " · " code { (it.event.code) }
                }
            }
        }
    }
}

/// Who, what and where.
fn facts(status: &StatusAnswer, job: &JobAnswer) -> Markup {
    let Some(record) = &job.record else { return html! {} };
    let view = &record.job;
    html! {
        section.panel aria-labelledby="facts-title" {
            h2 id="facts-title" { "Order" }
            dl.facts {
                div { dt { "Client" } dd { (id(&view.owner)) } }
                div {
                    dt { @if view.work == "tensor" { "Tensor program" } @else { "Task" } }
                    dd { (id(&view.program)) }
                }
                @if let Some(program) = &job.program {
                    div { dt { "Multiply-adds" } dd { (count(program.multiply_adds)) } }
                    div { dt { "Operations" } dd { (count(program.operations.into())) } }
                }
                div { dt { "Submitted" } dd { (moment(view.submitted, status.tick)) } }
                @match record.closed {
                    Some(closed) => div { dt { "Ended" } dd { (moment(closed, status.tick)) } },
                    None => div { dt { "Expires" } dd { (moment(view.expires, status.tick)) } },
                }
                @if let Some(promise) = &view.promise {
                    div { dt { "Promise" } dd { (promise.sentence) } }
                }
                div { dt { "A run may take" } dd { (span(view.run_max_ms)) } }
                @for run in &view.runs {
                    div { dt { "Run, " (run.state) } dd { (node_link(&run.node)) } }
                }
                @for check in &view.checks {
                    div { dt { "Check, " (check.state) } dd { (node_link(&check.node)) } }
                }
                @if let Some(output) = view.runs.iter().find_map(|run| run.output.as_ref()) {
                    div { dt { "Output" } dd { (id(output)) } }
                }
            }
        }
    }
}

/// What the tier does and does not.
fn protection(record: &JobRecord) -> Markup {
    html! {
        section.panel aria-labelledby="tier-title" {
            h2 id="tier-title" { "Verification" }
            p { (tier(&record.tier)) }
            p { (record.tier.does) }
            @if record.tier.caveat.is_some() {
                p {
                    "Local demo: the checkers there are suffice, even one, and one owner may run \
                     them all."
                }
            }
            p { strong { "Does not protect against: " } (record.tier.not_against) }
            p.quiet { (SEEN_BY) }
        }
    }
}

/// What it costs, part by part.
fn price(record: &JobRecord) -> Markup {
    let Some(price) = &record.price else { return html! {} };
    let PriceView { run, runs, check, checkers, quoted, charged, .. } = *price;
    let PriceView { fees_each, check_fees_each, .. } = *price;
    let back = charged.and_then(|charged| quoted.0.minus(charged.0).ok()).map(Tgrid);
    html! {
        section.panel aria-labelledby="price-title" {
            h2 id="price-title" { "Price" }
            dl.facts {
                div { dt { "Runs, " (runs) " at" } dd { (amount(run)) } }
                @if checkers > 0 {
                    div { dt { "Checks, up to " (checkers) " at" } dd { (amount(check)) } }
                }
                div { dt { "Fees of each" } dd { (amount(fees_each)) } }
                @if checkers > 0 && check_fees_each != fees_each {
                    div { dt { "Fees of each check" } dd { (amount(check_fees_each)) } }
                }
                div { dt { "Quoted and locked" } dd { (amount(quoted)) } }
                @if let Some(charged) = charged {
                    div.sum { dt { "Charged" } dd { (amount(charged)) } }
                }
                @if let Some(back) = back { div { dt { "Came back" } dd { (amount(back)) } } }
            }
        }
    }
}

/// How anybody can check what this page says.
fn proof(job: &JobAnswer, host: Option<&str>) -> Markup {
    let Some(tx) = job.receipt else { return html! {} };
    let file = format!("job-{}.json", short_job(&job.id).replace('…', ""));
    html! {
        section.panel id="proof" aria-labelledby="proof-title" {
            h2 id="proof-title" { "Check it yourself" }
            p {
                "The last receipt says how far the job came, with its path to a header that the \
                 committee has certified: "
                a href={ "/v1/receipts/" (tx) } { "receipt (JSON)" } "."
            }
            pre tabindex="0" aria-label="Commands" {
                "tensorgrid receipt " (tx) " -o " (file)
                @if let Some(host) = host { " --rpc http://" (host) }
                "\ntensorgrid verify " (file) " --network network.json --explain"
            }
            p.quiet {
                "Take " code { "network.json" } " from a place you trust, not from this page; "
                code { "tensorgrid up" } " says where its own lies."
            }
        }
    }
}
