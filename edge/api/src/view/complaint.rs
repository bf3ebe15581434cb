//! What events say about packages that do not open.

use tg_types::{Event, Message};

use super::Listing;

/// Which package, as programs read it.
pub(super) const fn name(about: Message) -> &'static str {
    match about {
        Message::Inputs => "inputs",
        Message::Result => "result",
    }
}

/// What an event about a complaint says.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others are told elsewhere")]
pub(super) fn event_details(event: &Event, list: Listing) -> Listing {
    match event {
        Event::Complained { job, by, about, key, bond, deadline } => list
            .text("job", job)
            .text("by", by)
            .text("about", &name(*about))
            .text("key", &hex::encode(key))
            .amount("bond", *bond)
            .number("deadline", deadline.get()),
        Event::ComplaintJudged { job, validator, opens } => {
            list.text("job", job).text("validator", validator).text("opens", opens)
        }
        Event::ComplaintUpheld { job, about, lost } => {
            list.text("job", job).text("about", &name(*about)).amount("lost", *lost)
        }
        Event::ComplaintRejected { job, about, by, lost } => {
            let list = list.text("job", job).text("about", &name(*about));
            list.text("by", by).amount("lost", *lost)
        }
        Event::ComplaintLapsed { job, about } => list.text("job", job).text("about", &name(*about)),
        _ => list,
    }
}
