//! Pages for people who open the node's address in a browser.
//!
//! Pure functions from the answers of the interface to text: what a page shows, JSON shows too.
//! Everything is escaped by the macro that writes it. No outside resources; readable without
//! colour, without a script and on a narrow screen. The script only fetches the page again when
//! something happened, and changes what differs.

mod front;
mod job;
mod node;
mod parts;
pub(crate) mod time;

pub(crate) use front::{Front, front, jobs, nodes};
pub(crate) use job::job;
pub(crate) use node::node;
pub(crate) use parts::ICON;

use crate::rpc::{RpcError, StatusAnswer};
use maud::{DOCTYPE, Markup, html};

/// The style of all pages.
pub(crate) const STYLE: &str = include_str!("pages/page.css");

/// The script of all pages.
pub(crate) const SCRIPT: &str = include_str!("pages/page.js");

/// Seconds after which a page without a script loads itself again.
const RELOAD_SECS: u32 = 5;

/// What a page's script listens for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watch<'a> {
    /// Everything about jobs and nodes.
    All,
    /// One job.
    Job(&'a str),
    /// One node.
    Node(&'a str),
    /// Nothing: an earlier page of a list, or an error.
    Nothing,
}

impl Watch<'_> {
    const fn words(&self) -> (&str, &str) {
        match self {
            Self::All => ("all", ""),
            Self::Job(id) => ("job", id),
            Self::Node(id) => ("node", id),
            Self::Nothing => ("nothing", ""),
        }
    }
}

/// What all pages have around their content.
pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    pub(crate) status: &'a StatusAnswer,
    pub(crate) watch: Watch<'a>,
    /// The same as JSON.
    pub(crate) twin: Option<&'a str>,
}

impl Frame<'_> {
    /// The whole page.
    pub(crate) fn around(&self, content: &Markup) -> String {
        let (watch, id) = self.watch.words();
        let is_live = !matches!(self.watch, Watch::Nothing);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " · TensorGrid" }
                    link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                    link rel="stylesheet" href="/assets/page.css";
                    @if is_live {
                        noscript { meta http-equiv="refresh" content=(RELOAD_SECS); }
                        script src="/assets/page.js" defer {}
                    }
                }
                body data-watch=(watch) data-id=(id) {
                    a.skip href="#content" { "Skip to the content" }
                    (self.bar(is_live))
                    main id="content" tabindex="-1" { (content) }
                    (self.foot())
                }
            }
        };
        page.into_string()
    }

    fn bar(&self, is_live: bool) -> Markup {
        html! {
            header.bar {
                div.inner {
                    a.brand href="/" { (parts::logo()) span { "TensorGrid" } }
                    span.chain { (self.status.chain) }
                    span.badge { (parts::network_word(self.status.network)) }
                    nav aria-label="Sections" {
                        a href="/#jobs" { "Jobs" }
                        a href="/#nodes" { "Nodes" }
                        a href="/#validators" { "Validators" }
                    }
                    @if is_live {
                        span.live id="live" role="status" { "loads again every 5 s" }
                    }
                }
            }
        }
    }

    fn foot(&self) -> Markup {
        html! {
            footer.foot {
                div.inner {
                    span { "TensorGrid " (self.status.version) }
                    span { "Genesis " code title=(self.status.genesis) {
                        (crate::words::short(&self.status.genesis))
                    } }
                    @if let Some(twin) = self.twin { a href=(twin) { "This page as JSON" } }
                    a href="/events" { "Events" }
                    a href="/metrics" { "Metrics" }
                    a href="/health" { "Health" }
                    span { "JSON-RPC at " code { "POST /rpc" } }
                    span { "Times are UTC" }
                }
            }
        }
    }
}

/// A page that says what went wrong.
pub(crate) fn failure(status: &StatusAnswer, error: &RpcError) -> String {
    let content = html! {
        section.panel.lost {
            h1 { "That is not here" }
            p { (error.data.sentence) }
            p.quiet { "Hint: " (error.data.hint) "." }
            p { a href="/" { "To the first page" } }
        }
    };
    let frame = Frame { title: "Not here", status, watch: Watch::Nothing, twin: None };
    frame.around(&content)
}

#[cfg(test)]
mod tests;
