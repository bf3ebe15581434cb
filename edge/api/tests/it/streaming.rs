//! The event stream.

use crate::{
    submitting::pay,
    world::{World, split},
};
use std::time::{Duration, Instant};
use tg_api::{ClientError, client::StreamMessage, rpc::code, server::limits::LISTENERS_MAX};
use tg_types::Height;

/// Goal: a listener from the first block gets every block once and in order, its events before it,
/// and goes on with blocks that come. Method: one transfer before and one after the stream begins.
pub(crate) fn stream_from_the_beginning_goes_on_live(world: &World) {
    let before = pay(world, 220);
    let mut stream = world.client().events(Some(Height::ZERO)).expect("a stream");
    let mut wanted = vec![before];
    let (mut height, mut last_event, mut later) = (0, 0, None);
    while !wanted.is_empty() || later.is_none() {
        match stream.next_message().expect("readable").expect("goes on") {
            StreamMessage::Block(block) => {
                height += 1;
                assert_eq!(block.height.0, Height::new(height));
                assert!(last_event <= height);
            }
            StreamMessage::Ledger(event) => {
                last_event = event.height.0.get();
                assert_eq!(last_event, height + 1, "events come before their block");
                wanted.retain(|tx| event.tx.map(|found| found.0) != Some(*tx));
            }
        }
        if wanted.is_empty() && later.is_none() {
            later = Some(pay(world, 221));
            wanted.extend(later);
        }
    }
    let blocks_only = world.raw_stream("/events?only=blocks", 3);
    assert!(blocks_only.contains("event: block") && blocks_only.contains("id: "), "{blocks_only}");
    assert!(!blocks_only.contains("event: ledger"), "{blocks_only}");
}

/// Goal: listeners are bounded, and a place is free again once one has gone. Method: as many
/// listeners as there may be, one more, and again after all have gone.
pub(crate) fn listeners_beyond_the_bound_are_told_to_come_back(world: &World) {
    let client = world.client();
    let listen = || client.events(None);
    let streams: Vec<_> = (0..LISTENERS_MAX).map(|_| listen().expect("a place")).collect();
    match listen().map(|_| ()) {
        Err(ClientError::Rpc(error)) => assert_eq!(error.data.code, "busy"),
        other => panic!("{other:?}"),
    }
    drop(streams);
    let deadline = Instant::now() + Duration::from_secs(5);
    while listen().is_err() {
        assert!(Instant::now() < deadline, "no place becomes free");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn streams_that_cannot_be_are_refused(world: &World) {
    let far = world.client().events(Some(Height::new(1 << 40)));
    match far.map(|_| ()) {
        Err(ClientError::Rpc(error)) => assert_eq!(error.code, code::PARAMS),
        other => panic!("{other:?}"),
    }
    let odd = b"GET /events?from=x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let (status, body) = split(&world.raw(odd));
    assert_eq!(status, 400);
    assert!(body.contains("hint"), "{body}");
}
