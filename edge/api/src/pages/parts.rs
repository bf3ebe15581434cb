//! What several pages show alike: ids, amounts, times, states and badges.

use super::time::Moment;
use crate::{
    document::NetworkWord,
    rpc::{Happened, ReputationView},
    text::{Number, OneText, Text, Tgrid},
    view::{Detail, DeviceView},
    words::{TierWords, Tone, short, short_job},
};
use maud::{Markup, PreEscaped, html};
use tg_types::{Amount, JobId, NodeId, Tick};

/// The mark: four tiles, one of them checked.
pub(super) fn logo() -> Markup {
    PreEscaped(ICON.to_owned())
}

/// The same as a file, for the browser's tab.
pub(crate) const ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" class="logo"
 viewBox="0 0 24 24" width="24" height="24" aria-hidden="true"><g fill="#2f6fed">
<rect x="2" y="2" width="9" height="9" rx="2"/><rect x="13" y="2" width="9" height="9" rx="2"
 opacity=".55"/><rect x="2" y="13" width="9" height="9" rx="2" opacity=".55"/></g>
<rect x="13" y="13" width="9" height="9" rx="2" fill="#0f9d6c"/><path d="M15.2 17.6l1.6 1.6 3-3.2"
 fill="none" stroke="#fff" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round"/>
</svg>"##;

/// The words for what a network is for.
pub(super) const fn network_word(network: NetworkWord) -> &'static str {
    match network {
        NetworkWord::Local => "local network",
        NetworkWord::Open => "open network",
    }
}

/// A job's id, short, with the way to its page.
pub(super) fn job_link(id: &Text<JobId>) -> Markup {
    let full = id.to_string();
    html! { a.id href={ "/jobs/" (full) } title=(full) { code { (short_job(id)) } } }
}

/// A node's id, short, with the way to its page.
pub(super) fn node_link(id: &Text<NodeId>) -> Markup {
    let full = id.to_string();
    html! { a.id href={ "/nodes/" (full) } title=(full) { code { (short(id)) } } }
}

/// Any other id, short; the whole of it when pointed at.
pub(super) fn id<T: OneText>(id: &Text<T>) -> Markup {
    let full = id.to_string();
    html! { code title=(full) { (short(id)) } }
}

/// An amount with its unit, set apart so that figures align.
pub(super) fn amount(amount: Tgrid) -> Markup {
    html! { span.amount { (amount) " " span.unit { "TGRID" } } }
}

/// A count with its thousands set apart.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A moment: the time of day, and the date if it is not `today`'s.
pub(super) fn moment(tick: Number<Tick>, today: Option<Number<Tick>>) -> Markup {
    let moment = Moment::new(tick.0);
    let is_today = today.is_some_and(|today| Moment::new(today.0).date == moment.date);
    html! {
        time datetime=(moment.machine()) title={ (moment.date) " " (moment.time) " UTC" } {
            @if !is_today { (moment.date) " " }
            (moment.time)
        }
    }
}

/// A job's state with a sign, so that it can be told apart without colour.
pub(super) fn state(status: &str) -> Markup {
    let (sign, class) = match status {
        "settled" => ("✓", "good"),
        "failed" | "expired" => ("✗", "bad"),
        "cancelled" => ("–", "plain"),
        "disputed" => ("!", "bad"),
        "queued" => ("○", "plain"),
        "running" | "checking" => ("●", "busy"),
        _ => ("·", "plain"),
    };
    html! { span.state.(class) { span.sign aria-hidden="true" { (sign) } (status) } }
}

/// A tier's badge, with what holds it back.
pub(super) fn tier(tier: &TierWords) -> Markup {
    html! {
        span.tier {
            span.badge title=(tier.does) { (tier.word) }
            @if let Some(caveat) = &tier.caveat {
                " " span.badge.caveat title="One owner may run all nodes here." { (caveat) }
            }
        }
    }
}

/// Whether a node is there.
pub(super) fn presence(
    open: bool,
    absent: Option<Number<Tick>>,
    today: Option<Number<Tick>>,
) -> Markup {
    match (absent, open) {
        (Some(since), _) => html! {
            span.state.bad {
                span.sign aria-hidden="true" { "✗" } "absent since " (moment(since, today))
            }
        },
        (None, false) => html! {
            span.state.plain { span.sign aria-hidden="true" { "○" } "present, takes no runs" }
        },
        (None, true) => html! {
            span.state.good { span.sign aria-hidden="true" { "●" } "present" }
        },
    }
}

/// A reputation in a few letters.
pub(super) fn reputation(reputation: &ReputationView) -> Markup {
    if reputation.good == 0 && reputation.bad == 0 {
        return html! { span title="Nothing it did has been verified yet." { "new" } };
    }
    let bps = reputation.lower_bound_bps;
    let title = "With 95 % certainty at least this share of its work is good.";
    html! { span title=(title) { "≥ " (bps / 100) "." (bps % 100 / 10) " %" } }
}

/// Equal devices of a node in a line.
pub(super) fn device(device: &DeviceView) -> String {
    let memory = match device.memory_mib {
        mib if mib >= 1_024 && mib.is_multiple_of(1_024) => format!("{} GiB", mib / 1_024),
        mib => format!("{mib} MiB"),
    };
    // A processor that is called by its kind says it once.
    let kind = device.kind.to_uppercase();
    let is_named = !device.model.to_string().eq_ignore_ascii_case(&kind);
    let name = if is_named { format!("{} {}", kind, device.model) } else { kind };
    format!("{} × {name}, {memory}", device.count)
}

/// Whether nothing is at stake any more.
pub(super) fn is_zero(amount: Tgrid) -> bool {
    amount.0 == Amount::ZERO
}

/// The sign of a line in a story.
pub(super) const fn sign(tone: Tone) -> (&'static str, &'static str) {
    match tone {
        Tone::Plain => ("•", "plain"),
        Tone::Good => ("✓", "good"),
        Tone::Bad => ("✗", "bad"),
    }
}

/// The text of a line in a story, in which the node it names leads to its page.
pub(super) fn told(happened: &Happened) -> Markup {
    let Some(node) = detail::<NodeId>(happened, "node") else {
        return html! { (happened.text) };
    };
    match happened.text.split_once(&short(&node)) {
        Some((before, after)) => html! { (before) (node_link(&node)) (after) },
        None => html! { (happened.text) },
    }
}

/// The node of a line that does not name it.
pub(super) fn unnamed(happened: &Happened) -> Option<Text<NodeId>> {
    detail(happened, "node").filter(|node| !happened.text.contains(&short(node)))
}

/// An id among the details of what happened.
pub(super) fn detail<T: OneText>(happened: &Happened, name: &str) -> Option<Text<T>> {
    match happened.event.details.get(name)? {
        Detail::Text(text) => crate::text::read_text(text).map(Text),
        Detail::Number(_) => None,
    }
}
